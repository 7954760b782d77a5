// Bugs that released versions of libhns have. Each program is minimal; the oracle knows none of
// them.
#include <gtest/gtest.h>

#include <numeric>

#include "harness/hosted/testing/known_findings.h"
#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

class HnsKnownTest : public ::testing::Test {
 protected:
  HnsKnownTest() : rig_("hns") { std::iota(rig_.memory.begin(), rig_.memory.begin() + 4096, 1); }
  ~HnsKnownTest() override {
    EXPECT_EQ(Text(rig_.provider.oracle().Take()), "") << "not asked for";
  }
  void MakeRc() {
    Rig::Shape shape;
    shape.ops =
        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    shape.depth = 64;
    a_ = rig_.MakeQp(shape);
    ASSERT_NE(a_, nullptr);
    rig_.Connect(a_, a_);
    x_ = ibv_qp_to_qp_ex(a_);
  }
  void Start(unsigned flags = IBV_SEND_SIGNALED) {
    ibv_wr_start(x_);
    x_->wr_id = 1;
    x_->wr_flags = flags;
  }
  void Write() {
    ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
    ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(0), 8);
  }
  void Expect(const KnownFinding& known) {
    EXPECT_EQ(CheckKnown(known, rig_.provider.oracle().Take()), "");
  }

  Rig rig_;
  ibv_qp* a_ = nullptr;
  ibv_qp_ex* x_ = nullptr;
};

// An SGE of length 0 is none; to the device it is one of 2 GiB.
TEST_F(HnsKnownTest, AnEmptyDatagram) {
  Rig::Shape shape;
  shape.type = IBV_QPT_UD;
  a_ = rig_.MakeQp(shape);
  rig_.Connect(a_, a_);
  x_ = ibv_qp_to_qp_ex(a_);
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  ibv_query_gid(rig_.context, 1, 0, &attr.grh.dgid);
  ibv_ah* ah = ibv_create_ah(rig_.pd, &attr);
  ASSERT_NE(ah, nullptr);
  Start();
  ibv_wr_send(x_);
  ibv_wr_set_ud_addr(x_, ah, a_->qp_num, 0x1234);
  ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(0), 0);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  Expect({"hns-01", "", "65.0", "wqe", "WR-SGE-001", "an SGE of length 0"});
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// What a direct WQE carries besides stays in its slot, and is there when the ring comes round.
TEST_F(HnsKnownTest, BitsOfADirectWqeStay) {
  MakeRc();
  Start();
  Write();
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  for (int i = 0; i < 21; ++i) {
    Start();
    for (int j = 0; j < 3; ++j) Write();
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    rig_.Poll();
  }
  EXPECT_EQ(Text(rig_.provider.oracle().Take()), "");
  ibv_sge sge = rig_.Sge(0, 8);
  ibv_send_wr second = {}, first = {};
  first.wr_id = 7;
  first.sg_list = &sge;
  first.num_sge = 1;
  first.opcode = IBV_WR_RDMA_WRITE;
  first.send_flags = IBV_SEND_SIGNALED;
  first.wr.rdma.remote_addr = rig_.Address(8192);
  first.wr.rdma.rkey = rig_.mr->rkey;
  second = first;
  first.next = &second;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_, &first, &bad), 0);
  rig_.Poll();
  Expect({"hns-03", "", "65.0", "wqe", "WR-BUILD-001", "bits of a direct WQE in one that is not"});
}

// The device orders by SO, which ibv_post_send() sets for a fence; the builders set another bit.
TEST_F(HnsKnownTest, TheFenceOfABuilder) {
  MakeRc();
  Start(IBV_SEND_SIGNALED | IBV_SEND_FENCE);
  Write();
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  Expect({"hns-fence-builder", "", "", "wqe", "WR-SAMPLE-002", "flags 0x"});
}

// Of a list the second element is dropped, and the result ends early.
TEST_F(HnsKnownTest, AnAtomicWithTwoSges) {
  MakeRc();
  Start();
  ibv_wr_atomic_fetch_add(x_, rig_.mr->rkey, rig_.Address(8192), 1);
  ibv_sge list[2] = {rig_.Sge(16384, 4), rig_.Sge(16400, 4)};
  ibv_wr_set_sge_list(x_, 2, list);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  Expect({"hns-16", "", "", "wqe", "WR-SGE-001", "ATOMIC_FETCH_AND_ADD wr_id=0x1 (2 SGEs"});
}

// RESET empties the queue, but the record goes on saying how many receives there are.
TEST_F(HnsKnownTest, TheReceiveRecordAfterReset) {
  MakeRc();
  ASSERT_EQ(rig_.Receive(a_, 1, 8192, 64), 0);
  ASSERT_EQ(rig_.ToState(a_, IBV_QPS_RESET), 0);
  rig_.Connect(a_, a_);
  rig_.Poll();
  Expect({"hns-record-after-reset", "", "", "residue", "WR-ATOM-006", "a receive that no call"});
}

}  // namespace
}  // namespace qpexam::hosted
