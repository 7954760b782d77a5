// libhns, unmodified, over the emulated kernel: RC, UD and SRQ, both ways of posting and polling.
#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

constexpr uint64_t kRcOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV |
                            IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
                            IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                            IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

class HnsTest : public ::testing::Test {
 protected:
  explicit HnsTest(const KernelOptions& options = {}) : rig_("hns", options) {
    std::iota(rig_.memory.begin(), rig_.memory.begin() + 4096, 1);
  }
  ~HnsTest() override {
    EXPECT_EQ(Text(rig_.provider.oracle().Take()), "") << "the seams are silent";
  }
  void MakeRc(uint32_t sges = 6, uint32_t inline_bytes = 256, ibv_srq* srq = nullptr) {
    Rig::Shape shape;
    shape.ops = kRcOps;
    shape.sges = sges;
    shape.inline_bytes = inline_bytes;
    shape.srq = srq;
    a_ = rig_.MakeQp(shape);
    b_ = rig_.MakeQp(shape);
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    rig_.Connect(a_, b_);
    x_ = ibv_qp_to_qp_ex(a_);
  }
  void Region(uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_wr_start(x_);
    x_->wr_id = wr_id;
    x_->wr_flags = flags;
  }
  void SetSge(size_t offset, uint32_t length) {
    ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(offset), length);
  }
  void Write(size_t to) { ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(to)); }

  Rig rig_;
  ibv_qp* a_ = nullptr;
  ibv_qp* b_ = nullptr;
  ibv_qp_ex* x_ = nullptr;
};

TEST_F(HnsTest, IsListedAndDescribed) {
  EXPECT_STREQ(ibv_get_device_name(rig_.context->device), "hns_0");
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(rig_.context, &device), 0);
  EXPECT_EQ(device.hw_ver, 0x130u);
  Rig::Shape shape;
  shape.ops = IBV_QP_EX_WITH_BIND_MW;
  EXPECT_EQ(rig_.MakeQp(shape), nullptr);
}

TEST_F(HnsTest, DoesEveryOperationOfRc) {
  MakeRc();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(rig_.Receive(b_, 10 + i, 8192 + 64 * i, 64), 0);
  Region(1);
  Write(16384);
  SetSge(0, 2000);
  ibv_wr_rdma_read(x_, rig_.mr->rkey, rig_.Address(100));
  SetSge(20000, 50);
  ibv_wr_send(x_);
  SetSge(0, 64);
  ibv_wr_send_imm(x_, htobe32(0xabcd));
  SetSge(64, 32);
  ibv_wr_rdma_write_imm(x_, rig_.mr->rkey, rig_.Address(9000), htobe32(77));
  SetSge(0, 16);
  ibv_wr_atomic_fetch_add(x_, rig_.mr->rkey, rig_.Address(24000), 5);
  SetSge(24064, 8);
  ibv_wr_atomic_cmp_swp(x_, rig_.mr->rkey, rig_.Address(24000), 5, 9);
  SetSge(24072, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(rig_.Poll().size(), 10u);
  EXPECT_EQ(std::memcmp(&rig_.memory[16384], &rig_.memory[0], 2000), 0);
  EXPECT_EQ(std::memcmp(&rig_.memory[20000], &rig_.memory[100], 50), 0);
  uint64_t now;
  std::memcpy(&now, &rig_.memory[24000], 8);
  EXPECT_EQ(now, 9u);
}

// Lists longer than the two SGEs of a WQE, and inline data longer than its 32 bytes, lie in the
// extended SGE space, which is circular.
TEST_F(HnsTest, UsesTheExtendedSgeSpaceRoundAndRound) {
  MakeRc();
  for (int lap = 0; lap < 300; ++lap) {
    Region(lap);
    Write(16384);
    ibv_sge list[5];
    for (uint32_t i = 0; i < 5; ++i) list[i] = rig_.Sge(100 * i + lap, 3 + i);
    ibv_wr_set_sge_list(x_, 5, list);
    Write(20000);
    ibv_wr_set_inline_data(x_, &rig_.memory[lap], 33 + lap % 200);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    ASSERT_EQ(rig_.Poll().size(), 2u);
    ASSERT_EQ(std::memcmp(&rig_.memory[20000], &rig_.memory[lap], 33 + lap % 200), 0) << lap;
  }
}

TEST_F(HnsTest, PostSendSpeaksTheSameRequests) {
  MakeRc();
  ibv_sge sges[3] = {rig_.Sge(0, 16), rig_.Sge(100, 8), rig_.Sge(200, 4)};
  for (int i = 0; i < 200; ++i) {
    ibv_send_wr wr = {};
    wr.wr_id = i;
    wr.sg_list = sges;
    wr.num_sge = 1 + i % 3;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags =
        IBV_SEND_SIGNALED | (i % 2 ? IBV_SEND_INLINE : 0) | (i % 5 ? 0 : IBV_SEND_FENCE);
    wr.wr.rdma.remote_addr = rig_.Address(16384);
    wr.wr.rdma.rkey = rig_.mr->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(a_, &wr, &bad), 0);
    ASSERT_EQ(rig_.Poll().size(), 1u);
  }
}

TEST_F(HnsTest, AbortsAndFailedRegionsLeaveNothing) {
  MakeRc();
  for (int i = 0; i < 100; ++i) {
    Region(1);
    Write(16384);
    SetSge(0, 8);
    ibv_wr_abort(x_);
    Region(2);
    Write(16384);
    ibv_wr_set_inline_data(x_, rig_.memory.data(), 4096);
    EXPECT_NE(ibv_wr_complete(x_), 0);
    Region(3);
    Write(16384);
    SetSge(0, 8);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    std::vector<ibv_wc> all = rig_.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].wr_id, 3u);
  }
}

TEST_F(HnsTest, ABadKeyEndsInErrorAndFlush) {
  MakeRc();
  ASSERT_EQ(rig_.Receive(a_, 20, 8192, 64), 0);
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey ^ 0x100, rig_.Address(16384));
  SetSge(0, 8);
  x_->wr_id = 2;
  Write(16384);
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> all = rig_.Poll();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(all[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(HnsTest, SendsDatagramsOfEachKindOfData) {
  Rig::Shape shape;
  shape.type = IBV_QPT_UD;
  a_ = rig_.MakeQp(shape);
  b_ = rig_.MakeQp(shape);
  ASSERT_NE(a_, nullptr);
  rig_.Connect(a_, b_);
  x_ = ibv_qp_to_qp_ex(a_);
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.hop_limit = 1;
  ibv_query_gid(rig_.context, 1, 0, &attr.grh.dgid);
  ibv_ah* ah = ibv_create_ah(rig_.pd, &attr);
  ASSERT_NE(ah, nullptr);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(rig_.Receive(b_, 10 + i, 8192 + 128 * i, 128), 0);
  Region(1);
  const uint32_t inline_lengths[] = {5, 8, 40};
  for (uint32_t length : inline_lengths) {
    ibv_wr_send(x_);
    ibv_wr_set_ud_addr(x_, ah, b_->qp_num, 0x1234);
    ibv_wr_set_inline_data(x_, &rig_.memory[length], length);
  }
  ibv_wr_send_imm(x_, htobe32(3));
  ibv_wr_set_ud_addr(x_, ah, b_->qp_num, 0x1234);
  ibv_sge list[3] = {rig_.Sge(0, 10), rig_.Sge(50, 0), rig_.Sge(90, 20)};
  ibv_wr_set_sge_list(x_, 3, list);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> all = rig_.Poll();
  ASSERT_EQ(all.size(), 8u);
  for (const ibv_wc& wc : all) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.opcode & IBV_WC_RECV) {
      EXPECT_TRUE(wc.wc_flags & IBV_WC_GRH);
      EXPECT_EQ(wc.src_qp, a_->qp_num);
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::memcmp(&rig_.memory[8192 + 128 * i + 40], &rig_.memory[inline_lengths[i]],
                          inline_lengths[i]),
              0);
  }
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(HnsTest, SharesReceives) {
  ibv_srq_init_attr attr = {};
  attr.attr.max_wr = 8;
  attr.attr.max_sge = 2;
  ibv_srq* srq = ibv_create_srq(rig_.pd, &attr);
  ASSERT_NE(srq, nullptr);
  MakeRc(2, 32, srq);
  for (int lap = 0; lap < 20; ++lap) {
    ibv_sge sge = rig_.Sge(8192, 64);
    ibv_recv_wr wr = {};
    wr.wr_id = 100 + lap;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
    Region(lap);
    ibv_wr_send(x_);
    SetSge(0, 8);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    ASSERT_EQ(rig_.Poll().size(), 2u);
  }
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(HnsTest, PollsExtendedCqsAndRaisesEvents) {
  ibv_comp_channel* channel = ibv_create_comp_channel(rig_.context);
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 32;
  attr.channel = channel;
  attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
  ibv_cq_ex* ex = ibv_create_cq_ex(rig_.context, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_cq* cq = ibv_cq_ex_to_cq(ex);
  std::swap(cq, rig_.cq);
  MakeRc();
  std::swap(cq, rig_.cq);
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  ASSERT_EQ(rig_.Receive(b_, 10, 8192, 64), 0);
  Region(1, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  ibv_wr_send_imm(x_, htobe32(5));
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.provider.kernel().RunUntilIdle();
  ibv_cq* of = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &of, &context), 0);
  ibv_ack_cq_events(cq, 1);
  ibv_poll_cq_attr poll = {};
  int seen = 0;
  ASSERT_EQ(ibv_start_poll(ex, &poll), 0);
  do {
    ++seen;
    EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
    if (ibv_wc_read_opcode(ex) == IBV_WC_RECV) {
      EXPECT_EQ(ex->wr_id, 10u);
      EXPECT_EQ(ibv_wc_read_byte_len(ex), 8u);
      EXPECT_EQ(ibv_wc_read_imm_data(ex), htobe32(5));
    }
  } while (ibv_next_poll(ex) == 0);
  ibv_end_poll(ex);
  EXPECT_EQ(seen, 2);
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

KernelOptions Unfriendly() {
  KernelOptions options;
  options.freedom.qp_number_step = 4096;
  options.freedom.first_qp_number = 0xfff000;
  options.freedom.key_high_bits = 0x80000000;
  options.freedom.late_completions = true;
  options.freedom.reorder_across_qps = true;
  options.freedom.seed = 7;
  return options;
}
class UnfriendlyHnsTest : public HnsTest {
 protected:
  UnfriendlyHnsTest() : HnsTest(Unfriendly()) {}
};

TEST_F(UnfriendlyHnsTest, CompletesLateAndInOrder) {
  MakeRc();
  for (int lap = 0; lap < 10; ++lap) {
    Region(0);
    for (uint64_t i = 0; i < 20; ++i) {
      x_->wr_id = i;
      Write(16384);
      SetSge(0, 8);
    }
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    std::vector<ibv_wc> all = rig_.Poll();
    ASSERT_EQ(all.size(), 20u);
    for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(all[i].wr_id, i);
  }
}

}  // namespace
}  // namespace qpexam::hosted
