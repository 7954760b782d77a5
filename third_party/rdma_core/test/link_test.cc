// libibverbs and every provider of the tree link into one static program.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdlib>

#include "rdma_core_version.h"

// The providers' driver tables; their layout does not matter here.
struct verbs_device_ops;
extern "C" {
#define PROVIDER(name) extern const verbs_device_ops verbs_provider_##name;
FOR_EACH_LINKED_PROVIDER
#undef PROVIDER
}

namespace {

TEST(RdmaCore, EveryProviderIsLinked) {
#define PROVIDER(name) EXPECT_NE(nullptr, &verbs_provider_##name);
  FOR_EACH_LINKED_PROVIDER
#undef PROVIDER
}

TEST(RdmaCore, NamesItsOpcodes) {
  EXPECT_STREQ("rdma-write", ibv_wr_opcode_str(IBV_WR_RDMA_WRITE));
}

TEST(RdmaCore, VersionIsOneThisProjectSupports) {
  EXPECT_GE(std::strtod(RDMA_CORE_VERSION, nullptr), 44.0) << RDMA_CORE_VERSION;
}

}  // namespace
