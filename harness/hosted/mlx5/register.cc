// `hosted:mlx5`.
#include "harness/hosted/hosted_provider.h"
#include "harness/hosted/mlx5/mlx5_model.h"

namespace qpexam::hosted {
namespace {

const RegisterHostedKind kRegistered("mlx5", MakeMlx5Model);

}  // namespace
}  // namespace qpexam::hosted
