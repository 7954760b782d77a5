// `hosted:efa`.
#include "harness/hosted/efa/efa_model.h"
#include "harness/hosted/hosted_provider.h"

namespace qpexam::hosted {
namespace {

const RegisterHostedKind kRegistered("efa", MakeEfaModel);

}  // namespace
}  // namespace qpexam::hosted
