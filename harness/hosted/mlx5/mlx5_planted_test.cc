// A bug of libmlx5 before 56.1, put back into this tree's libmlx5 by an edit of ours (_PLANTED in
// rdma_core.BUILD). Not a bug of the release that is compiled.
#include <gtest/gtest.h>

#include "harness/hosted/testing/rig.h"

extern "C" const int qpx_planted_mlx5_08;

namespace qpexam::hosted {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif
#else
constexpr bool kIsSanitized = false;
#endif

// A CQ of one thread may lose a QP in the middle of a poll, whose next step looked at it again.
void DestroyInsideAPoll() {
  Rig rig("mlx5");
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 32;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ibv_cq_ex* ex = ibv_create_cq_ex(rig.context, &attr);
  ibv_cq* plain = rig.cq;
  rig.cq = ibv_cq_ex_to_cq(ex);
  ibv_qp* a = rig.MakeQp({});
  ibv_qp* b = rig.MakeQp({});
  rig.Connect(a, b);
  for (ibv_qp* qp : {a, b}) {
    ibv_qp_ex* x = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(x);
    x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(x, rig.mr->rkey, rig.Address(8192));
    ibv_wr_set_sge(x, rig.mr->lkey, rig.Address(0), 8);
    ibv_wr_complete(x);
  }
  ibv_poll_cq_attr poll = {};
  ibv_start_poll(ex, &poll);
  rig.Destroy(a);
  ibv_next_poll(ex);
  ibv_end_poll(ex);
  rig.Destroy(b);
  ibv_destroy_cq(rig.cq);
  rig.cq = plain;
}

TEST(Mlx5PlantedDeathTest, DestroyingAQpLeavesItInTheCq) {
  if (qpx_planted_mlx5_08 == 0) GTEST_SKIP() << "this libmlx5 has no such place";
  if (!kIsSanitized) GTEST_SKIP() << "only AddressSanitizer sees it (--config=asan)";
  EXPECT_DEATH(DestroyInsideAPoll(), "heap-use-after-free");
}

}  // namespace
}  // namespace qpexam::hosted
