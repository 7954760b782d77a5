// libbnxt_re, unmodified, over the emulated kernel: RC, UD and SRQ, both WQE modes, both ways of
// posting. What its released versions do wrong is in bnxt_re_known_test.cc and kept out of here:
// regions of one request each, of SGEs, in a ring that has not come round.
#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "harness/hosted/bnxt_re/bnxt_re_model.h"
#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

const RegisterHostedKind kStatic("bnxt_re_static", MakeBnxtReStaticModel);

constexpr uint64_t kRcOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                            IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                            IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                            IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

class BnxtReTest : public ::testing::TestWithParam<const char*> {
 protected:
  BnxtReTest() : rig_(GetParam()) { std::iota(rig_.memory.begin(), rig_.memory.begin() + 4096, 1); }
  ~BnxtReTest() override {
    EXPECT_EQ(Text(rig_.provider.oracle().Take()), "") << "the seams are silent";
  }
  void MakeRc(ibv_srq* srq = nullptr) {
    Rig::Shape shape;
    shape.ops = kRcOps;
    shape.sges = 6;
    shape.inline_bytes = 96;
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
  void Complete() { ASSERT_EQ(ibv_wr_complete(x_), 0); }
  ibv_ah* MakeAh() {
    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.hop_limit = 1;
    ibv_query_gid(rig_.context, 1, 0, &attr.grh.dgid);
    return ibv_create_ah(rig_.pd, &attr);
  }

  Rig rig_;
  ibv_qp* a_ = nullptr;
  ibv_qp* b_ = nullptr;
  ibv_qp_ex* x_ = nullptr;
};

TEST_P(BnxtReTest, IsListedAndDescribed) {
  EXPECT_STREQ(ibv_get_device_name(rig_.context->device), "bnxt_re0");
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(rig_.context, &device), 0);
  EXPECT_EQ(device.vendor_id, 0x14e4u);
  EXPECT_EQ(device.max_sge, std::string(GetParam()) == "bnxt_re" ? 13 : 6);
  Rig::Shape shape;
  shape.type = IBV_QPT_UC;
  EXPECT_EQ(rig_.MakeQp(shape), nullptr);
}

TEST_P(BnxtReTest, DoesEveryOperationOfRc) {
  MakeRc();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(rig_.Receive(b_, 10 + i, 8192 + 64 * i, 64), 0);
  Region(1);
  Write(16384);
  SetSge(0, 2000);
  Complete();
  Region(2, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
  ibv_wr_rdma_read(x_, rig_.mr->rkey, rig_.Address(100));
  SetSge(20000, 50);
  Complete();
  Region(3);
  ibv_wr_send(x_);
  ibv_sge list[6];
  for (uint32_t i = 0; i < 6; ++i) list[i] = rig_.Sge(100 * i, 3 + i);
  ibv_wr_set_sge_list(x_, 6, list);
  Complete();
  Region(4, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
  ibv_wr_send_imm(x_, htobe32(0xabcd));
  SetSge(64, 32);
  Complete();
  Region(5);
  ibv_wr_rdma_write_imm(x_, rig_.mr->rkey, rig_.Address(9000), htobe32(77));
  SetSge(0, 16);
  Complete();
  Region(6);
  ibv_wr_atomic_fetch_add(x_, rig_.mr->rkey, rig_.Address(24000), 5);
  SetSge(24064, 8);
  Complete();
  Region(7);
  ibv_wr_atomic_cmp_swp(x_, rig_.mr->rkey, rig_.Address(24000), 5, 9);
  SetSge(24072, 8);
  Complete();
  std::vector<ibv_wc> all = rig_.Poll();
  EXPECT_EQ(all.size(), 10u);
  for (const ibv_wc& wc : all) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.wr_id == 11) {
      EXPECT_EQ(wc.imm_data, htobe32(0xabcd));
    }
    if (wc.wr_id == 12) {
      EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    }
  }
  EXPECT_EQ(std::memcmp(&rig_.memory[16384], &rig_.memory[0], 2000), 0);
  EXPECT_EQ(std::memcmp(&rig_.memory[20000], &rig_.memory[100], 50), 0);
  uint64_t now;
  std::memcpy(&now, &rig_.memory[24000], 8);
  EXPECT_EQ(now, 9u);
}

TEST_P(BnxtReTest, UnsignaledRequestsCompleteWithTheNext) {
  MakeRc();
  for (uint64_t i = 0; i < 12; ++i) {
    Region(i, i % 3 == 2 ? IBV_SEND_SIGNALED : 0);
    Write(16384 + 8 * i);
    SetSge(8 * i, 8);
    Complete();
  }
  std::vector<ibv_wc> all = rig_.Poll();
  ASSERT_EQ(all.size(), 4u);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(all[i].wr_id, 3 * i + 2);
}

// ibv_post_send() takes lists, inline data, and the ring round and round.
TEST_P(BnxtReTest, PostSendSpeaksTheSameRequests) {
  MakeRc();
  ibv_sge sges[3] = {rig_.Sge(0, 16), rig_.Sge(100, 8), rig_.Sge(200, 4)};
  for (int i = 0; i < 400; ++i) {
    ibv_send_wr wrs[2] = {};
    for (ibv_send_wr& wr : wrs) {
      wr.wr_id = i;
      wr.sg_list = sges;
      wr.num_sge = 1 + i % 3;
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.send_flags =
          IBV_SEND_SIGNALED | (i % 2 ? IBV_SEND_INLINE : 0) | (i % 5 ? 0 : IBV_SEND_FENCE);
      wr.wr.rdma.remote_addr = rig_.Address(16384);
      wr.wr.rdma.rkey = rig_.mr->rkey;
    }
    wrs[0].next = &wrs[1];
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(a_, wrs, &bad), 0);
    ASSERT_EQ(rig_.Poll().size(), 2u);
    ASSERT_EQ(std::memcmp(&rig_.memory[16384], &rig_.memory[0], 16), 0);
  }
}

TEST_P(BnxtReTest, ABadKeyEndsInErrorAndFlush) {
  MakeRc();
  ASSERT_EQ(rig_.Receive(a_, 20, 8192, 64), 0);
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey ^ 0x100, rig_.Address(16384));
  SetSge(0, 8);
  Complete();
  Region(2, 0);
  Write(16384);
  SetSge(0, 8);
  Complete();
  std::vector<ibv_wc> all = rig_.Poll();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].wr_id, 1u);
  EXPECT_EQ(all[0].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(all[1].wr_id, 2u);
  EXPECT_EQ(all[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(all[2].wr_id, 20u);
  EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
  // And what is posted to a queue in error.
  ASSERT_EQ(rig_.Receive(a_, 21, 8192, 64), 0);
  all = rig_.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].wr_id, 21u);
}

// A receive that is too short fails on both sides; RESET makes the QP anew.
TEST_P(BnxtReTest, ResetAfterAnError) {
  MakeRc();
  for (int lap = 0; lap < 3; ++lap) {
    ASSERT_EQ(rig_.Receive(b_, 20, 8192, 4), 0);
    ibv_sge sge = rig_.Sge(0, 8);
    ibv_send_wr wr = {};
    wr.wr_id = lap;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(a_, &wr, &bad), 0);
    std::vector<ibv_wc> all = rig_.Poll();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_NE(all[0].status, IBV_WC_SUCCESS);
    EXPECT_NE(all[1].status, IBV_WC_SUCCESS);
    ASSERT_EQ(rig_.ToState(a_, IBV_QPS_RESET), 0);
    ASSERT_EQ(rig_.ToState(b_, IBV_QPS_RESET), 0);
    rig_.Connect(a_, b_);
  }
}

TEST_P(BnxtReTest, SendsDatagrams) {
  Rig::Shape shape;
  shape.type = IBV_QPT_UD;
  a_ = rig_.MakeQp(shape);
  b_ = rig_.MakeQp(shape);
  ASSERT_NE(a_, nullptr);
  rig_.Connect(a_, b_);
  x_ = ibv_qp_to_qp_ex(a_);
  ibv_ah* ah = MakeAh();
  ASSERT_NE(ah, nullptr);
  for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(rig_.Receive(b_, 10 + i, 8192 + 128 * i, 128), 0);
  Region(1);
  ibv_wr_send(x_);
  ibv_wr_set_ud_addr(x_, ah, b_->qp_num, 0x1234);
  SetSge(5, 30);
  Complete();
  Region(2);
  ibv_wr_send_imm(x_, htobe32(3));
  ibv_wr_set_ud_addr(x_, ah, b_->qp_num, 0x1234);
  ibv_sge list[2] = {rig_.Sge(0, 10), rig_.Sge(90, 20)};
  ibv_wr_set_sge_list(x_, 2, list);
  Complete();
  std::vector<ibv_wc> all = rig_.Poll();
  ASSERT_EQ(all.size(), 4u);
  for (const ibv_wc& wc : all) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.opcode & IBV_WC_RECV) {
      EXPECT_TRUE(wc.wc_flags & IBV_WC_GRH);
      EXPECT_EQ(wc.src_qp, a_->qp_num);
      EXPECT_EQ(wc.byte_len, 70u);
    }
  }
  EXPECT_EQ(std::memcmp(&rig_.memory[8192 + 40], &rig_.memory[5], 30), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_P(BnxtReTest, SharesReceives) {
  ibv_srq_init_attr attr = {};
  attr.attr.max_wr = 8;
  attr.attr.max_sge = 2;
  ibv_srq* srq = ibv_create_srq(rig_.pd, &attr);
  ASSERT_NE(srq, nullptr);
  MakeRc(srq);
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
    Complete();
    ASSERT_EQ(rig_.Poll().size(), 2u);
  }
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_P(BnxtReTest, ResizesCqsAndRaisesEvents) {
  ibv_comp_channel* channel = ibv_create_comp_channel(rig_.context);
  ibv_cq* cq = ibv_create_cq(rig_.context, 16, nullptr, channel, 0);
  ASSERT_NE(cq, nullptr);
  std::swap(cq, rig_.cq);
  MakeRc();
  std::swap(cq, rig_.cq);
  for (int lap = 0; lap < 40; ++lap) {
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ibv_sge sge = rig_.Sge(0, 8);
    ibv_send_wr wr = {};
    wr.wr_id = lap;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = rig_.Address(16384);
    wr.wr.rdma.rkey = rig_.mr->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(a_, &wr, &bad), 0);
    ibv_cq* of = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &of, &context), 0);
    ibv_ack_cq_events(cq, 1);
    // The completion is in the old ring when the new one comes.
    if (lap % 8 == 7) {
      ASSERT_EQ(ibv_resize_cq(cq, 17 + lap), 0);
    }
    std::vector<ibv_wc> all = rig_.Poll(cq);
    ASSERT_EQ(all.size(), 1u) << lap;
    EXPECT_EQ(all[0].wr_id, static_cast<uint64_t>(lap));
  }
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, BnxtReTest, ::testing::Values("bnxt_re", "bnxt_re_static"));

}  // namespace
}  // namespace qpexam::hosted
