// `hosted:hns`.
#include "harness/hosted/hns/hns_model.h"
#include "harness/hosted/hosted_provider.h"

namespace qpexam::hosted {
namespace {

const RegisterHostedKind kRegistered("hns", MakeHnsModel);

}  // namespace
}  // namespace qpexam::hosted
