// `hosted:ionic`.
#include "harness/hosted/hosted_provider.h"
#include "harness/hosted/ionic/ionic_model.h"

namespace qpexam::hosted {
namespace {

const RegisterHostedKind kRegistered("ionic", MakeIonicModel);

}  // namespace
}  // namespace qpexam::hosted
