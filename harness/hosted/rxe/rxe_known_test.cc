// Bugs that released versions of librxe have. Each program is minimal; the oracle knows none of
// them.
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>

#include "harness/hosted/testing/known_findings.h"
#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

class RxeKnownTest : public ::testing::Test {
 protected:
  RxeKnownTest() : rig_("rxe") {}
  ~RxeKnownTest() override {
    EXPECT_EQ(Text(rig_.provider.oracle().Take()), "") << "not asked for";
  }

  void MakePair(uint64_t more_ops = 0) {
    Rig::Shape shape;
    shape.ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | more_ops;
    a_ = rig_.MakeQp(shape);
    b_ = rig_.MakeQp(shape);
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    x_ = ibv_qp_to_qp_ex(a_);
    std::iota(rig_.memory.begin(), rig_.memory.begin() + 4096, 1);
  }
  void Start(unsigned flags) {
    ibv_wr_start(x_);
    x_->wr_id = 1;
    x_->wr_flags = flags;
  }
  void Expect(const KnownFinding& known) {
    EXPECT_EQ(CheckKnown(known, rig_.provider.oracle().Take()), "");
  }

  Rig rig_;
  ibv_qp* a_ = nullptr;
  ibv_qp* b_ = nullptr;
  ibv_qp_ex* x_ = nullptr;
};

// The length of an SGE list is its first element's, times the number of elements.
TEST_F(RxeKnownTest, LengthOfAnSgeList) {
  MakePair();
  rig_.Connect(a_, b_);
  Start(IBV_SEND_SIGNALED);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  ibv_sge list[2] = {rig_.Sge(0, 10), rig_.Sge(100, 20)};
  ibv_wr_set_sge_list(x_, 2, list);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  Expect({"rxe-01", "", "65.0", "wqe", "WR-SGE-001", "dma.length is 20"});
}

// next_poll unlocks the CQ when it finds nothing, and end_poll unlocks it again.
TEST_F(RxeKnownTest, LockOfAPollThatRunsEmpty) {
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 8;
  ibv_cq_ex* ex = ibv_create_cq_ex(rig_.context, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_cq* cq = ibv_cq_ex_to_cq(ex);
  std::swap(cq, rig_.cq);
  MakePair();
  std::swap(cq, rig_.cq);
  rig_.Connect(a_, b_);
  Start(IBV_SEND_SIGNALED);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  ibv_poll_cq_attr poll = {};
  ASSERT_EQ(ibv_start_poll(ex, &poll), 0);
  EXPECT_EQ(ibv_next_poll(ex), ENOENT);
  ibv_end_poll(ex);
  EXPECT_EQ(ibv_start_poll(ex, &poll), ENOENT);
  Expect({"rxe-04", "", "65.0", "lock", "WR-CQX-002", "releases a lock"});
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

// The length of an inline list stays 0. (With IBV_SEND_INLINE, so that the next bug is not met.)
TEST_F(RxeKnownTest, LengthOfAnInlineList) {
  MakePair();
  rig_.Connect(a_, b_);
  Start(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  ibv_data_buf list[2] = {{&rig_.memory[0], 10}, {&rig_.memory[100], 20}};
  ibv_wr_set_inline_data_list(x_, 2, list);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  Expect({"rxe-inline-list-length", "", "65.0", "wqe", "WR-INL-007", "the WQE has 0"});
}

// The inline setters do not mark the WQE as inline, and the kernel module then reads SGEs.
TEST_F(RxeKnownTest, InlineDataWithoutTheFlag) {
  MakePair();
  rig_.Connect(a_, b_);
  Start(IBV_SEND_SIGNALED);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  ibv_wr_set_inline_data(x_, &rig_.memory[0], 10);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 1u);
  Expect({"rxe-inline-flag", "", "", "wqe", "WR-SAMPLE-007", "IBV_SEND_INLINE is not set"});
}

// A region that fails before RTS leaves its requests in the ring; the next doorbell runs them.
TEST_F(RxeKnownTest, ARegionThatFailedBeforeRts) {
  MakePair();
  ASSERT_EQ(rig_.ToState(a_, IBV_QPS_INIT), 0);
  ASSERT_EQ(rig_.ToState(b_, IBV_QPS_INIT), 0);
  Start(IBV_SEND_SIGNALED);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(0), 8);
  EXPECT_NE(ibv_wr_complete(x_), 0);
  for (ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
    ASSERT_EQ(rig_.ToState(a_, state, b_->qp_num), 0);
    ASSERT_EQ(rig_.ToState(b_, state, a_->qp_num), 0);
  }
  Start(IBV_SEND_SIGNALED);
  x_->wr_id = 2;
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(9000));
  ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  Expect(
      {"rxe-failed-region-stays", "", "", "residue", "WR-ATOM-006", "no successful call posted"});
}

// The length of a request is 32 bits: of a longer list the lowest are left.
TEST_F(RxeKnownTest, ListsOf4GiB) {
  MakePair();
  rig_.Connect(a_, b_);
  Start(IBV_SEND_SIGNALED);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  ibv_sge list[2] = {rig_.Sge(0, 0x80000008), rig_.Sge(0, 0x80000008)};
  ibv_wr_set_sge_list(x_, 2, list);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  Expect({"rxe-length-32-bits", "", "", "wqe", "WR-SGE-001", "dma.length is 16"});
}

}  // namespace
}  // namespace qpexam::hosted
