// The services besides RC: UD with its address handles and multicast, UC, XRC, raw packets; and
// peers across two contexts.
#include <endian.h>
#include <fcntl.h>

#include "reference/provider/control.h"
#include "reference/provider/testing.h"

namespace qpexam::provider {
namespace {

constexpr uint64_t kSendOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

class UdTest : public VerbsTest {
 protected:
  void SetUp() override {
    VerbsTest::SetUp();
    wish_.type = IBV_QPT_UD;
    wish_.ops = kSendOps;
    a_ = CreateQp(wish_);
    b_ = CreateQp(wish_);
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    BringUp(a_.get());
    BringUp(b_.get());
    ibv_ah_attr attr = Address();
    ah_.reset(ibv_create_ah(pd_.get(), &attr));
    ASSERT_NE(ah_, nullptr);
    for (int i = 0; i < 256; ++i) *At(static_cast<size_t>(i)) = static_cast<uint8_t>(i);
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    ah_.reset();
  }
  int SendTo(ibv_ah* ah, uint32_t qpn, uint32_t qkey, uint32_t length = 32) {
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(a_.get());
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    ibv_wr_send_imm(qp, htobe32(7));
    ibv_wr_set_ud_addr(qp, ah, qpn, qkey);
    ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), length);
    return ibv_wr_complete(qp);
  }
  QpWish wish_;
  QpPtr a_, b_;
  AhPtr ah_;
};

TEST_F(UdTest, DeliversBehindTheGrhArea) {  // WR-UD-001, -004, -005
  ASSERT_EQ(PostRecv(b_.get(), 9, 1024, 128), 0);
  ASSERT_EQ(SendTo(ah_.get(), b_->qp_num, kQkey), 0);
  std::vector<ibv_wc> all = Poll(2);
  ASSERT_EQ(all.size(), 2u);
  const ibv_wc& recv = all[0].wr_id == 9 ? all[0] : all[1];
  EXPECT_EQ(recv.status, IBV_WC_SUCCESS);
  EXPECT_EQ(recv.byte_len, 72u);
  EXPECT_EQ(recv.src_qp, a_->qp_num);
  EXPECT_EQ(recv.imm_data, htobe32(7));
  EXPECT_NE(recv.wc_flags & IBV_WC_GRH, 0u);
  EXPECT_EQ(memcmp(At(1024 + 40), At(0), 32), 0);
}

TEST_F(UdTest, AnswersByAnAddressHandleFromTheCompletion) {  // WR-UD-011
  ASSERT_EQ(PostRecv(b_.get(), 9, 1024, 128), 0);
  ASSERT_EQ(SendTo(ah_.get(), b_->qp_num, kQkey), 0);
  std::vector<ibv_wc> all = Poll(2);
  ASSERT_EQ(all.size(), 2u);
  ibv_wc recv = all[0].wr_id == 9 ? all[0] : all[1];
  AhPtr back(ibv_create_ah_from_wc(pd_.get(), &recv, reinterpret_cast<ibv_grh*>(At(1024)), 1));
  ASSERT_NE(back, nullptr);
  std::swap(a_, b_);
  ASSERT_EQ(PostRecv(b_.get(), 10, 2048, 128), 0);
  ASSERT_EQ(SendTo(back.get(), recv.src_qp, kQkey), 0);
  EXPECT_EQ(Poll(2).size(), 2u);
  EXPECT_EQ(memcmp(At(2048 + 40), At(0), 32), 0);
}

TEST_F(UdTest, AWrongQkeyIsDropped) {  // WR-UD-002
  ASSERT_EQ(PostRecv(b_.get(), 9, 1024, 128), 0);
  ASSERT_EQ(SendTo(ah_.get(), b_->qp_num, kQkey + 1), 0);
  EXPECT_EQ(PollOne().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(Empty());
  ASSERT_EQ(SendTo(ah_.get(), b_->qp_num, kQkey), 0);
  EXPECT_EQ(Poll(2).size(), 2u);
}

TEST_F(UdTest, ANullAddressHandleIsRefused) {  // WR-UD-009
  EXPECT_NE(SendTo(nullptr, b_->qp_num, kQkey), 0);
}

TEST_F(UdTest, PostSendTakesTheAddressFromTheRequest) {
  ASSERT_EQ(PostRecv(b_.get(), 9, 1024, 128), 0);
  ibv_sge sge = SgeAt(0, 32);
  ibv_send_wr wr = {};
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud = {ah_.get(), b_->qp_num, kQkey};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_.get(), &wr, &bad), 0);
  EXPECT_EQ(Poll(2).size(), 2u);
  EXPECT_EQ(memcmp(At(1024 + 40), At(0), 32), 0);
}

TEST_F(UdTest, MulticastReachesItsMembers) {
  ibv_ah_attr attr = Address();
  attr.grh.dgid = {};
  attr.grh.dgid.raw[0] = 0xff;
  attr.grh.dgid.raw[15] = 1;
  AhPtr group(ibv_create_ah(pd_.get(), &attr));
  ASSERT_NE(group, nullptr);
  ASSERT_EQ(ibv_attach_mcast(b_.get(), &attr.grh.dgid, 0), 0);
  ASSERT_EQ(PostRecv(b_.get(), 9, 1024, 128), 0);
  ASSERT_EQ(SendTo(group.get(), 0xffffff, kQkey), 0);
  EXPECT_EQ(Poll(2).size(), 2u);
  EXPECT_EQ(memcmp(At(1024 + 40), At(0), 32), 0);
  ASSERT_EQ(ibv_detach_mcast(b_.get(), &attr.grh.dgid, 0), 0);
}

class UcTest : public VerbsTest {};

TEST_F(UcTest, WritesAndDropsWithoutAReceive) {  // WR-RESP-018
  QpWish wish;
  wish.type = IBV_QPT_UC;
  wish.ops = kSendOps | IBV_QP_EX_WITH_RDMA_WRITE;
  QpPtr a = CreateQp(wish), b = CreateQp(wish);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  Connect(a.get(), b.get());
  *At(0) = 42;
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(a.get());
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
  ibv_wr_rdma_write(qp, mr_->rkey, RemoteAt(1024));
  ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (const ibv_wc& wc : Poll(2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(*At(1024), 42);
}

class XrcTest : public VerbsTest {
 protected:
  void SetUp() override {
    VerbsTest::SetUp();
    ibv_xrcd_init_attr attr = {};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    xrcd_.reset(ibv_open_xrcd(context_.get(), &attr));
    ASSERT_NE(xrcd_, nullptr);
    for (int i = 0; i < 2; ++i) {
      cqs_[i].reset(ibv_create_cq(context_.get(), 16, nullptr, nullptr, 0));
      srqs_[i] = CreateSrq(cqs_[i].get());
      ASSERT_NE(srqs_[i], nullptr);
    }
    QpWish wish;
    wish.type = IBV_QPT_XRC_RECV;
    wish.xrcd = xrcd_.get();
    wish.extended = false;
    target_ = CreateQp(wish);
    wish.type = IBV_QPT_XRC_SEND;
    wish.xrcd = nullptr;
    wish.extended = true;
    wish.ops = kSendOps | IBV_QP_EX_WITH_RDMA_WRITE;
    sender_ = CreateQp(wish);
    ASSERT_NE(target_, nullptr);
    ASSERT_NE(sender_, nullptr);
    Connect(sender_.get(), target_.get());
  }
  void TearDown() override {
    sender_.reset();
    target_.reset();
    for (int i = 0; i < 2; ++i) {
      srqs_[i].reset();
      cqs_[i].reset();
    }
    xrcd_.reset();
  }
  SrqPtr CreateSrq(ibv_cq* cq) {
    ibv_srq_init_attr_ex attr = {};
    attr.attr.max_wr = 8;
    attr.attr.max_sge = 1;
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
                     IBV_SRQ_INIT_ATTR_PD;
    attr.srq_type = IBV_SRQT_XRC;
    attr.xrcd = xrcd_.get();
    attr.cq = cq;
    attr.pd = pd_.get();
    return SrqPtr(ibv_create_srq_ex(context_.get(), &attr));
  }
  uint32_t NumberOf(int i) {
    uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(srqs_[i].get(), &number), 0);
    return number;
  }
  XrcdPtr xrcd_;
  CqPtr cqs_[2];
  SrqPtr srqs_[2];
  QpPtr sender_, target_;
};

TEST_F(XrcTest, EachRequestNamesItsSrq) {  // WR-XRC-001, -002, -003
  for (int i = 0; i < 2; ++i) {
    ibv_sge sge = SgeAt(1024 + 64 * static_cast<size_t>(i), 64);
    ibv_recv_wr wr = {};
    wr.wr_id = 100u + static_cast<unsigned>(i);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srqs_[i].get(), &wr, &bad), 0);
  }
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(sender_.get());
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(qp);
  for (int i : {1, 0}) {
    ibv_wr_send(qp);
    ibv_wr_set_xrc_srqn(qp, NumberOf(i));
    ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
  }
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(Poll(2).size(), 2u);
  for (int i = 0; i < 2; ++i) {
    ibv_wc wc = PollOne(cqs_[i].get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, 100u + static_cast<unsigned>(i));
    EXPECT_EQ(wc.qp_num, target_->qp_num);
  }
}

TEST_F(XrcTest, PostSendNamesTheSrqInTheRequest) {
  ibv_sge sge = SgeAt(1024, 64);
  ibv_recv_wr recv = {};
  recv.sg_list = &sge;
  recv.num_sge = 1;
  ibv_recv_wr* bad_recv = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(srqs_[1].get(), &recv, &bad_recv), 0);
  ibv_sge source = SgeAt(0, 8);
  ibv_send_wr wr = {};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &source;
  wr.num_sge = 1;
  wr.qp_type.xrc.remote_srqn = NumberOf(1);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(sender_.get(), &wr, &bad), 0);
  EXPECT_EQ(PollOne().status, IBV_WC_SUCCESS);
  EXPECT_EQ(PollOne(cqs_[1].get()).status, IBV_WC_SUCCESS);
}

TEST_F(XrcTest, AMissingSetterIsReported) {  // WR-SET-009
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(sender_.get());
  TakeLints();
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  ASSERT_FALSE(TakeLints().empty());
}

class RawTest : public VerbsTest {};

TEST_F(RawTest, FramesReachTheOtherRawQp) {
  QpWish wish;
  wish.type = IBV_QPT_RAW_PACKET;
  wish.ops = kSendOps & IBV_QP_EX_WITH_SEND;
  QpPtr a = CreateQp(wish), b = CreateQp(wish);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  BringUp(a.get());
  BringUp(b.get());
  ASSERT_EQ(PostRecv(b.get(), 9, 1024, 256), 0);
  for (int i = 0; i < 64; ++i) *At(static_cast<size_t>(i)) = static_cast<uint8_t>(i + 1);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(a.get());
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 64);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  std::vector<ibv_wc> all = Poll(2);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(memcmp(At(1024), At(0), 64), 0);
}

// --- Two contexts --------------------------------------------------------------------------------

class TwoContextsTest : public VerbsTest {};

TEST_F(TwoContextsTest, PeersMeetAcrossDevices) {
  ASSERT_EQ(SetDeviceCount(2), 0);
  {
    ContextPtr other = OpenDevice("qpexam1");
    ASSERT_NE(other, nullptr);
    PdPtr pd(ibv_alloc_pd(other.get()));
    CqPtr cq(ibv_create_cq(other.get(), 16, nullptr, nullptr, 0));
    std::vector<uint8_t> memory(256);
    MrPtr mr(ibv_reg_mr(pd.get(), memory.data(), memory.size(), kAllAccess));
    ASSERT_NE(mr, nullptr);
    QpWish wish;
    wish.ops = kSendOps | IBV_QP_EX_WITH_RDMA_WRITE;
    QpPtr a = CreateQp(wish);
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = cq.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 4;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    QpPtr b(ibv_create_qp(pd.get(), &attr));
    ASSERT_NE(b, nullptr);
    EXPECT_NE(a->qp_num, b->qp_num);
    Connect(a.get(), b.get());
    *At(0) = 77;
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(a.get());
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    ibv_wr_rdma_write(qp, mr->rkey, reinterpret_cast<uint64_t>(memory.data()));
    ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    EXPECT_EQ(PollOne().status, IBV_WC_SUCCESS);
    EXPECT_EQ(memory[0], 77);
  }
  ASSERT_EQ(SetDeviceCount(1), 0);
}

}  // namespace
}  // namespace qpexam::provider
