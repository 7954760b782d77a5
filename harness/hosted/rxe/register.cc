// `hosted:rxe`.
#include "harness/hosted/hosted_provider.h"
#include "harness/hosted/rxe/rxe_model.h"

namespace qpexam::hosted {
namespace {

const RegisterHostedKind kRegistered("rxe", MakeRxeModel);

}  // namespace
}  // namespace qpexam::hosted
