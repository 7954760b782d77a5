// `hosted:bnxt_re`.
#include "harness/hosted/bnxt_re/bnxt_re_model.h"
#include "harness/hosted/hosted_provider.h"

namespace qpexam::hosted {
namespace {

const RegisterHostedKind kRegistered("bnxt_re", MakeBnxtReModel);

}  // namespace
}  // namespace qpexam::hosted
