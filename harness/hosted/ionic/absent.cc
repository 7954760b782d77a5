// `hosted:ionic` where rdma-core has no libionic: named, and how to get it.
#include "harness/hosted/hosted_provider.h"

namespace qpexam::hosted {
namespace {

const RegisterAbsentKind kAbsent(
    "ionic", "choose one of 61.0 or later by RDMA_CORE_VERSION=65.0 or RDMA_CORE_DIR=/its/tree");

}  // namespace
}  // namespace qpexam::hosted
