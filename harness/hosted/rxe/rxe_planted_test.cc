// A bug of librxe before 56.1, put back into this tree's librxe by an edit of ours (_PLANTED in
// rdma_core.BUILD): the seams see it. Not a bug of the release that is compiled.
#include <gtest/gtest.h>

#include "harness/hosted/testing/rig.h"

extern "C" const int qpx_planted_rxe_05;

namespace qpexam::hosted {
namespace {

TEST(RxePlantedTest, APollThatRunsEmptyMovesOnTwice) {
  if (qpx_planted_rxe_05 == 0) GTEST_SKIP() << "this librxe has no such place";
  Rig rig("rxe");
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 32;
  ibv_cq_ex* ex = ibv_create_cq_ex(rig.context, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_cq* plain = rig.cq;
  rig.cq = ibv_cq_ex_to_cq(ex);
  ibv_qp* a = rig.MakeQp({});
  ibv_qp* b = rig.MakeQp({});
  rig.Connect(a, b);
  std::string found;
  for (uint64_t i = 1; i <= 2; ++i) {
    ibv_qp_ex* x = ibv_qp_to_qp_ex(a);
    ibv_wr_start(x);
    x->wr_id = i;
    x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(x, rig.mr->rkey, rig.Address(8192));
    ibv_wr_set_sge(x, rig.mr->lkey, rig.Address(0), 8);
    ASSERT_EQ(ibv_wr_complete(x), 0);
    ibv_poll_cq_attr poll = {};
    ASSERT_EQ(ibv_start_poll(ex, &poll), 0);
    for (int more = 0; more < 4 && ibv_next_poll(ex) == 0; ++more) {
    }
    ibv_end_poll(ex);
    found += Text(rig.provider.oracle().Take());
  }
  // The second poll begins behind its completion: what it returns was written by nobody.
  EXPECT_NE(found.find("cqe "), std::string::npos) << found;
  rig.Destroy(a);
  rig.Destroy(b);
  EXPECT_EQ(ibv_destroy_cq(rig.cq), 0);
  rig.cq = plain;
}

}  // namespace
}  // namespace qpexam::hosted
