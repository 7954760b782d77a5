// libefa, unmodified, over the emulated kernel: UD and SRD, both ways of posting, both of polling.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/efadv.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "harness/hosted/efa/efa_model.h"
#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

constexpr uint32_t kQkey = 0x1234;  // the rig's
constexpr uint32_t kGrh = 40;

class EfaTest : public ::testing::Test {
 protected:
  explicit EfaTest(const KernelOptions& options = {}) : rig_("efa", options) {
    std::iota(rig_.memory.begin(), rig_.memory.begin() + 4096, 1);
    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.hop_limit = 1;
    ibv_query_gid(rig_.context, 1, 0, &attr.grh.dgid);
    ah_ = ibv_create_ah(rig_.pd, &attr);
    EXPECT_NE(ah_, nullptr);
  }
  ~EfaTest() override {
    EXPECT_EQ(Text(rig_.provider.oracle().Take()), "") << "the seams are silent";
    for (ibv_qp* qp : srd_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_ah(ah_), 0);
  }

  Rig::Shape UdShape() {
    Rig::Shape shape;
    shape.type = IBV_QPT_UD;
    shape.sges = 2;
    shape.inline_bytes = 32;
    return shape;
  }
  void MakeUd() {
    a_ = rig_.MakeQp(UdShape());
    b_ = rig_.MakeQp(UdShape());
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    rig_.Connect(a_, b_);
    x_ = ibv_qp_to_qp_ex(a_);
  }
  ibv_qp* MakeSrdQp() {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_DRIVER;
    attr.send_cq = attr.recv_cq = rig_.cq;
    attr.cap = {16, 16, 2, 2, 32};
    attr.pd = rig_.pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
                          IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    efadv_qp_init_attr efa = {};
    efa.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
    ibv_qp* qp = efadv_create_qp_ex(rig_.context, &attr, &efa, sizeof efa);
    if (qp == nullptr) return nullptr;
    rig_.provider.oracle().Watch(ibv_qp_to_qp_ex(qp));
    srd_.push_back(qp);
    return qp;
  }
  void MakeSrd() {
    a_ = MakeSrdQp();
    b_ = MakeSrdQp();
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    rig_.Connect(a_, b_);
    x_ = ibv_qp_to_qp_ex(a_);
  }
  void Region(uint64_t wr_id) {
    ibv_wr_start(x_);
    x_->wr_id = wr_id;
    x_->wr_flags = IBV_SEND_SIGNALED;
  }
  void Address() { ibv_wr_set_ud_addr(x_, ah_, b_->qp_num, kQkey); }
  void SetSge(size_t offset, uint32_t length) {
    ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(offset), length);
  }
  // Completions of one side, in the order of their arrival there.
  std::vector<ibv_wc> Of(const std::vector<ibv_wc>& all, bool receives) {
    std::vector<ibv_wc> some;
    for (const ibv_wc& wc : all) {
      if (wc.status == IBV_WC_SUCCESS && ((wc.opcode & IBV_WC_RECV) != 0) == receives) {
        some.push_back(wc);
      }
    }
    return some;
  }

  Rig rig_;
  ibv_ah* ah_ = nullptr;
  ibv_qp* a_ = nullptr;
  ibv_qp* b_ = nullptr;
  ibv_qp_ex* x_ = nullptr;
  std::vector<ibv_qp*> srd_;
};

TEST_F(EfaTest, IsListedAndDescribed) {
  EXPECT_STREQ(ibv_get_device_name(rig_.context->device), "efa_0");
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(rig_.context, &device), 0);
  EXPECT_EQ(device.max_sge, 2);
  EXPECT_EQ(device.max_srq, 0);
  efadv_device_attr efa = {};
  ASSERT_EQ(efadv_query_device(rig_.context, &efa, sizeof efa), 0);
  EXPECT_EQ(efa.inline_buf_size, 32);
  EXPECT_TRUE(efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ);
  EXPECT_EQ(ibv_create_srq(rig_.pd, nullptr), nullptr);
}

TEST_F(EfaTest, OffersNeitherRcNorMoreThanItHas) {
  Rig::Shape shape;
  EXPECT_EQ(rig_.MakeQp(shape), nullptr);
  shape = UdShape();
  shape.sges = 3;
  EXPECT_EQ(rig_.MakeQp(shape), nullptr);
  shape = UdShape();
  shape.inline_bytes = 4096;
  EXPECT_EQ(rig_.MakeQp(shape), nullptr);
  shape = UdShape();
  shape.ops = IBV_QP_EX_WITH_RDMA_WRITE;
  EXPECT_EQ(rig_.MakeQp(shape), nullptr);
}

TEST_F(EfaTest, SendsDatagramsOfEachKindOfData) {
  MakeUd();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(rig_.Receive(b_, 10 + i, 8192 + 128 * i, 128), 0);
  Region(1);
  ibv_wr_send(x_);
  Address();
  SetSge(0, 20);
  x_->wr_id = 2;
  ibv_wr_send_imm(x_, htobe32(0xabcd));
  Address();
  ibv_sge list[2] = {rig_.Sge(100, 7), rig_.Sge(200, 9)};
  ibv_wr_set_sge_list(x_, 2, list);
  x_->wr_id = 3;
  ibv_wr_send(x_);
  Address();
  ibv_wr_set_inline_data(x_, &rig_.memory[300], 32);
  x_->wr_id = 4;
  ibv_wr_send(x_);
  Address();
  ibv_data_buf bufs[2] = {{&rig_.memory[400], 3}, {&rig_.memory[500], 4}};
  ibv_wr_set_inline_data_list(x_, 2, bufs);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> all = rig_.Poll();
  ASSERT_EQ(all.size(), 8u);
  std::vector<ibv_wc> got = Of(all, true);
  ASSERT_EQ(got.size(), 4u);
  const uint32_t lengths[] = {20, 16, 32, 7};
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got[i].wr_id, 10 + i);
    EXPECT_EQ(got[i].byte_len, kGrh + lengths[i]);
    EXPECT_EQ(got[i].src_qp, a_->qp_num);
  }
  EXPECT_TRUE(got[1].wc_flags & IBV_WC_WITH_IMM);
  EXPECT_EQ(got[1].imm_data, htobe32(0xabcd));
  EXPECT_EQ(std::memcmp(&rig_.memory[8192 + kGrh], &rig_.memory[0], 20), 0);
  EXPECT_EQ(std::memcmp(&rig_.memory[8192 + 256 + kGrh], &rig_.memory[300], 32), 0);
  EXPECT_EQ(rig_.provider.oracle().compared_requests(), 8u);
}

TEST_F(EfaTest, PostSendSpeaksTheSameRequests) {
  MakeUd();
  ASSERT_EQ(rig_.Receive(b_, 10, 8192, 128), 0);
  ASSERT_EQ(rig_.Receive(b_, 11, 8320, 128), 0);
  ibv_sge sge = rig_.Sge(0, 16);
  ibv_send_wr second = {}, first = {};
  first.wr_id = 1;
  first.next = &second;
  first.sg_list = &sge;
  first.num_sge = 1;
  first.opcode = IBV_WR_SEND;
  first.send_flags = IBV_SEND_SIGNALED;
  first.wr.ud = {ah_, b_->qp_num, kQkey};
  second = first;
  second.wr_id = 2;
  second.next = nullptr;
  second.opcode = IBV_WR_SEND_WITH_IMM;
  second.imm_data = htobe32(7);
  second.send_flags |= IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_, &first, &bad), 0);
  EXPECT_EQ(rig_.Poll().size(), 4u);
}

TEST_F(EfaTest, WrapsItsRingsInBatchesThatTheDeviceTakes) {
  MakeUd();
  for (int lap = 0; lap < 30; ++lap) {
    for (int i = 0; i < 5; ++i) ASSERT_EQ(rig_.Receive(b_, 10, 8192, 128), 0);
    Region(lap);
    for (int i = 0; i < 5; ++i) {
      ibv_wr_send(x_);
      Address();
      SetSge(i, 8);
    }
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    EXPECT_EQ(rig_.Poll().size(), 10u);
  }
  // A whole ring of 64 at once, which goes out in several doorbells.
  Rig::Shape deep = UdShape();
  deep.depth = 64;
  deep.inline_bytes = 0;
  ibv_qp* qp = rig_.MakeQp(deep);
  rig_.Connect(qp, qp);
  x_ = ibv_qp_to_qp_ex(qp);
  Region(1);
  for (int i = 0; i < 64; ++i) {
    ibv_wr_send(x_);
    Address();
    SetSge(i, 8);
  }
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(rig_.Poll().size(), 64u);
}

TEST_F(EfaTest, AbortsAndFailedRegionsLeaveNothing) {
  MakeUd();
  for (int i = 0; i < 20; ++i) {
    Region(1);
    for (int j = 0; j < 11; ++j) {
      ibv_wr_send(x_);
      Address();
      SetSge(0, 8);
    }
    ibv_wr_abort(x_);
    Region(2);
    ibv_wr_send(x_);
    Address();
    ibv_wr_set_inline_data(x_, rig_.memory.data(), 4096);
    EXPECT_NE(ibv_wr_complete(x_), 0);
    Region(3);
    ibv_wr_send(x_);
    Address();
    SetSge(0, 8);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    std::vector<ibv_wc> all = rig_.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].wr_id, 3u);
  }
}

TEST_F(EfaTest, AFullQueueFailsTheRegionWhole) {
  MakeUd();
  Region(1);
  for (int i = 0; i < 17; ++i) {
    ibv_wr_send(x_);
    Address();
    SetSge(0, 8);
  }
  EXPECT_EQ(ibv_wr_complete(x_), ENOMEM);
  EXPECT_TRUE(rig_.Poll().empty());
}

TEST_F(EfaTest, ABadKeyEndsInErrorAndFlush) {
  MakeUd();
  ASSERT_EQ(rig_.Receive(a_, 20, 8192, 128), 0);
  Region(1);
  ibv_wr_send(x_);
  Address();
  ibv_wr_set_sge(x_, rig_.mr->lkey ^ 0x100, rig_.Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> all = rig_.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_LOC_PROT_ERR);
  ASSERT_EQ(rig_.ToState(a_, IBV_QPS_ERR), 0);
  all = rig_.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].wr_id, 20u);
  EXPECT_EQ(all[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(EfaTest, ResetEmptiesTheQueues) {
  MakeUd();
  for (int lap = 0; lap < 3; ++lap) {
    ASSERT_EQ(rig_.Receive(b_, 1, 8192, 128), 0);
    Region(lap);
    for (int i = 0; i < 9; ++i) {
      ibv_wr_send(x_);
      Address();
      SetSge(0, 8);
    }
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    EXPECT_EQ(rig_.Poll().size(), 10u);
    for (ibv_qp* qp : {a_, b_}) ASSERT_EQ(rig_.ToState(qp, IBV_QPS_RESET), 0);
    rig_.Connect(a_, b_);
  }
}

TEST_F(EfaTest, PollsExtendedCqs) {
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 32;
  attr.wc_flags =
      IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP;
  ibv_cq_ex* ex = ibv_create_cq_ex(rig_.context, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_cq* cq = ibv_cq_ex_to_cq(ex);
  std::swap(cq, rig_.cq);
  MakeUd();
  std::swap(cq, rig_.cq);
  ASSERT_EQ(rig_.Receive(b_, 10, 8192, 128), 0);
  Region(1);
  ibv_wr_send_imm(x_, htobe32(5));
  Address();
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.provider.kernel().RunUntilIdle();
  ibv_poll_cq_attr poll = {};
  int seen = 0;
  ASSERT_EQ(ibv_start_poll(ex, &poll), 0);
  do {
    ++seen;
    EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
    if (ibv_wc_read_opcode(ex) == IBV_WC_RECV) {
      EXPECT_EQ(ex->wr_id, 10u);
      EXPECT_EQ(ibv_wc_read_byte_len(ex), kGrh + 8);
      EXPECT_EQ(ibv_wc_read_imm_data(ex), htobe32(5));
      EXPECT_EQ(ibv_wc_read_src_qp(ex), a_->qp_num);
    }
  } while (ibv_next_poll(ex) == 0);
  ibv_end_poll(ex);
  EXPECT_EQ(seen, 2);
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

TEST_F(EfaTest, RaisesCompletionEvents) {
  ibv_comp_channel* channel = ibv_create_comp_channel(rig_.context);
  ASSERT_NE(channel, nullptr);
  ibv_cq* cq = ibv_create_cq(rig_.context, 16, &rig_, channel, 0);
  ASSERT_NE(cq, nullptr);
  std::swap(cq, rig_.cq);
  MakeUd();
  std::swap(cq, rig_.cq);
  EXPECT_EQ(ibv_req_notify_cq(cq, 1), EOPNOTSUPP) << "the device has no solicited events";
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  Region(1);
  ibv_wr_send(x_);
  Address();
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.provider.kernel().RunUntilIdle();
  ibv_cq* of = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &of, &context), 0);
  EXPECT_EQ(of, cq);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(rig_.Poll(cq).size(), 1u);
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(EfaTest, SrdSendsAndWrites) {
  MakeSrd();
  ASSERT_EQ(rig_.Receive(b_, 10, 8192, 128), 0);
  ASSERT_EQ(rig_.Receive(b_, 11, 8320, 128), 0);
  Region(1);
  ibv_wr_send_imm(x_, htobe32(3));
  Address();
  SetSge(0, 50);
  x_->wr_id = 2;
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(16384));
  Address();
  SetSge(100, 3000);
  x_->wr_id = 3;
  ibv_wr_rdma_write_imm(x_, rig_.mr->rkey, rig_.Address(20000), htobe32(9));
  Address();
  ibv_sge one = rig_.Sge(7, 70);
  ibv_wr_set_sge_list(x_, 1, &one);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> all = rig_.Poll();
  ASSERT_EQ(all.size(), 5u);
  std::vector<ibv_wc> got = Of(all, true);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].byte_len, 50u) << "SRD has no GRH in front";
  EXPECT_EQ(got[1].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got[1].byte_len, 70u);
  EXPECT_EQ(std::memcmp(&rig_.memory[16384], &rig_.memory[100], 3000), 0);
  EXPECT_EQ(std::memcmp(&rig_.memory[20000], &rig_.memory[7], 70), 0);
}

TEST_F(EfaTest, AnSrdListOfTwoIsMoreThanAnRdmaRequestTakes) {
  MakeSrd();
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(16384));
  Address();
  ibv_sge two[2] = {rig_.Sge(0, 8), rig_.Sge(8, 8)};
  ibv_wr_set_sge_list(x_, 2, two);
  EXPECT_EQ(ibv_wr_complete(x_), EINVAL);
}

TEST_F(EfaTest, AnSrdPeerThatIsGoneTimesOut) {
  MakeSrd();
  Region(1);
  ibv_wr_send(x_);
  ibv_wr_set_ud_addr(x_, ah_, b_->qp_num ^ 0x100, kQkey);
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> all = rig_.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_RESP_TIMEOUT_ERR);
}

TEST_F(EfaTest, AnswersItsNativeQueries) {
  efadv_mr_attr attr = {};
  ASSERT_EQ(efadv_query_mr(rig_.mr, &attr, sizeof attr), 0);
  EXPECT_EQ(attr.ic_id_validity, EFADV_MR_ATTR_VALIDITY_RECV_IC_ID);
  EXPECT_EQ(attr.recv_ic_id, 1);
  efadv_ah_attr ah = {};
  ASSERT_EQ(efadv_query_ah(ah_, &ah, sizeof ah), 0);
  EXPECT_NE(ah.ahn, 0);
}

KernelOptions Unfriendly() {
  KernelOptions options;
  options.freedom.qp_number_step = 4096;
  options.freedom.key_high_bits = 0x80000000;
  options.freedom.late_completions = true;
  options.freedom.reorder_across_qps = true;
  options.freedom.seed = 7;
  return options;
}

class UnfriendlyEfaTest : public EfaTest {
 protected:
  UnfriendlyEfaTest() : EfaTest(Unfriendly()) {}
};

TEST_F(UnfriendlyEfaTest, KeepsItsNumbersWithinTheDevices) {
  for (int i = 0; i < 40; ++i) {
    ibv_qp* qp = rig_.MakeQp(UdShape());
    ASSERT_NE(qp, nullptr);
    EXPECT_LT(qp->qp_num, 1u << 16);
  }
  EXPECT_LT(rig_.mr->lkey, 1u << 24);
  MakeUd();
  ASSERT_EQ(rig_.Receive(b_, 10, 8192, 128), 0);
  Region(1);
  ibv_wr_send(x_);
  Address();
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(rig_.Poll().size(), 2u);
}

TEST(EfaKernelTest, CreationSurvivesAnyFailingCommand) {
  Rig rig("efa");
  for (uint32_t nth = 1; nth < 8; ++nth) {
    Freedom freedom;
    freedom.fail_command = nth;
    rig.provider.kernel().SetFreedom(freedom);
    ibv_cq* cq = ibv_create_cq(rig.context, 8, nullptr, nullptr, 0);
    Rig::Shape shape;
    shape.type = IBV_QPT_UD;
    shape.sges = 2;
    shape.inline_bytes = 32;
    ibv_qp* qp = rig.MakeQp(shape);
    rig.provider.kernel().SetFreedom({});
    if (qp != nullptr) rig.Destroy(qp);
    if (cq != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(cq), 0);
    }
    EXPECT_EQ(Text(rig.provider.oracle().Take()), "");
  }
}

}  // namespace
}  // namespace qpexam::hosted
