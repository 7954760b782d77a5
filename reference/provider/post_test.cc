// Posting: every operation by ibv_wr_*, the same by ibv_post_send, errors, flush.
#include <endian.h>
#include <fcntl.h>

#include <algorithm>

#include "reference/provider/control.h"
#include "reference/provider/testing.h"

namespace qpexam::provider {
namespace {

constexpr uint64_t kEverything =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
    IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_FLUSH |
    IBV_QP_EX_WITH_ATOMIC_WRITE;

// A connected RC pair in one process: a_ posts, b_ answers. Source bytes at 0, destination at 4096.
class PostTest : public VerbsTest {
 protected:
  static constexpr size_t kSource = 0, kTarget = 4096;

  void SetUp() override {
    VerbsTest::SetUp();
    receives_.reset(ibv_create_cq(context_.get(), 256, nullptr, nullptr, 0));
    wish_.ops = kEverything;
    wish_.recv_cq = receives_.get();
    Renew();
    for (size_t i = 0; i < 1024; ++i) *At(kSource + i) = static_cast<uint8_t>(i * 7 + 1);
    TakeLints();
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    receives_.reset();
  }
  void Renew() {
    a_.reset();
    b_.reset();
    a_ = CreateQp(wish_);
    b_ = CreateQp(wish_);
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    Connect(a_.get(), b_.get());
    qp_ = ibv_qp_to_qp_ex(a_.get());
    qp_->wr_flags = IBV_SEND_SIGNALED;
    qp_->wr_id = 1;
  }
  void SetSource(uint32_t length) { ibv_wr_set_sge(qp_, mr_->lkey, RemoteAt(kSource), length); }
  bool Arrived(size_t length) { return memcmp(At(kSource), At(kTarget), length) == 0; }
  // The send completion that is due, with this status.
  ibv_wc Sent(ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_wc wc = PollOne();
    EXPECT_EQ(wc.status, status) << ibv_wc_status_str(wc.status);
    return wc;
  }

  QpWish wish_;
  CqPtr receives_;
  QpPtr a_, b_;
  ibv_qp_ex* qp_ = nullptr;
};

TEST_F(PostTest, Send) {
  ASSERT_EQ(PostRecv(b_.get(), 9, kTarget, 64), 0);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  SetSource(32);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(Sent().opcode, IBV_WC_SEND);
  ibv_wc wc = PollOne(receives_.get());
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wr_id, 9u);
  EXPECT_EQ(wc.byte_len, 32u);
  EXPECT_EQ(wc.qp_num, b_->qp_num);
  EXPECT_TRUE(Arrived(32));
}

TEST_F(PostTest, SendWithImm) {  // X1
  ASSERT_EQ(PostRecv(b_.get(), 9, kTarget, 64), 0);
  ibv_wr_start(qp_);
  ibv_wr_send_imm(qp_, htobe32(0xcafe));
  SetSource(32);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  Sent();
  ibv_wc wc = PollOne(receives_.get());
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_NE(wc.wc_flags & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(wc.imm_data, htobe32(0xcafe));
}

TEST_F(PostTest, RdmaWriteAndItsImmediate) {
  ASSERT_EQ(PostRecv(b_.get(), 9, 8192, 64), 0);
  ibv_wr_start(qp_);
  ibv_wr_rdma_write(qp_, mr_->rkey, RemoteAt(kTarget));
  SetSource(16);
  qp_->wr_id = 2;
  ibv_wr_rdma_write_imm(qp_, mr_->rkey, RemoteAt(kTarget + 16), htobe32(0x1234));
  ibv_wr_set_sge(qp_, mr_->lkey, RemoteAt(kSource + 16), 16);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(Sent().opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(Sent().wr_id, 2u);
  ibv_wc wc = PollOne(receives_.get());
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.byte_len, 16u);
  EXPECT_EQ(wc.imm_data, htobe32(0x1234));
  EXPECT_TRUE(Arrived(32));
}

TEST_F(PostTest, RdmaRead) {
  ibv_wr_start(qp_);
  ibv_wr_rdma_read(qp_, mr_->rkey, RemoteAt(kSource));
  ibv_sge list[2] = {SgeAt(kTarget, 10), SgeAt(kTarget + 10, 22)};
  ibv_wr_set_sge_list(qp_, 2, list);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  ibv_wc wc = Sent();
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(wc.byte_len, 32u);
  EXPECT_TRUE(Arrived(32));
}

TEST_F(PostTest, Atomics) {
  uint64_t value = 5;
  memcpy(At(kTarget), &value, 8);
  ibv_wr_start(qp_);
  ibv_wr_atomic_fetch_add(qp_, mr_->rkey, RemoteAt(kTarget), 3);
  ibv_wr_set_sge(qp_, mr_->lkey, RemoteAt(8192), 8);
  ibv_wr_atomic_cmp_swp(qp_, mr_->rkey, RemoteAt(kTarget), 8, 100);
  ibv_wr_set_sge(qp_, mr_->lkey, RemoteAt(8200), 8);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(Sent().opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(Sent().opcode, IBV_WC_COMP_SWAP);
  uint64_t old[2];
  memcpy(old, At(8192), 16);
  memcpy(&value, At(kTarget), 8);
  EXPECT_EQ(old[0], 5u);
  EXPECT_EQ(old[1], 8u);
  EXPECT_EQ(value, 100u);
}

TEST_F(PostTest, FlushAndAtomicWrite) {
  const int access = kAllAccess | IBV_ACCESS_FLUSH_GLOBAL;
  MrPtr mr(ibv_reg_mr(pd_.get(), At(kTarget), 64, access));
  ASSERT_NE(mr, nullptr);
  Renew();
  ibv_qp_attr attr = {};
  attr.qp_access_flags = access & ~IBV_ACCESS_MW_BIND;
  ASSERT_EQ(ibv_modify_qp(b_.get(), &attr, IBV_QP_ACCESS_FLAGS), 0);
  const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  ibv_wr_start(qp_);
  ibv_wr_flush(qp_, mr->rkey, RemoteAt(kTarget), 64, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
  ibv_wr_atomic_write(qp_, mr->rkey, RemoteAt(kTarget + 8), bytes);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(Sent().opcode, IBV_WC_FLUSH);
  EXPECT_EQ(Sent().opcode, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(memcmp(At(kTarget + 8), bytes, 8), 0);
}

TEST_F(PostTest, BindUseAndInvalidateAWindow) {  // WR-MW-003, -009
  MwPtr mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  ASSERT_NE(mw, nullptr);
  const uint32_t key = ibv_inc_rkey(mw->rkey);
  // The window's owner is a_; its peer b_ writes through it.
  ibv_mw_bind_info info = {mr_.get(), RemoteAt(kTarget), 64, IBV_ACCESS_REMOTE_WRITE};
  ibv_wr_start(qp_);
  ibv_wr_bind_mw(qp_, mw.get(), key, &info);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(Sent().opcode, IBV_WC_BIND_MW);

  ibv_qp_ex* peer = ibv_qp_to_qp_ex(b_.get());
  peer->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(peer);
  ibv_wr_rdma_write(peer, key, RemoteAt(kTarget));
  ibv_wr_set_sge(peer, mr_->lkey, RemoteAt(kSource), 16);
  ASSERT_EQ(ibv_wr_complete(peer), 0);
  Sent();
  EXPECT_TRUE(Arrived(16));

  ibv_wr_start(qp_);
  ibv_wr_local_inv(qp_, key);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(Sent().opcode, IBV_WC_LOCAL_INV);
  ibv_wr_start(peer);
  ibv_wr_rdma_write(peer, key, RemoteAt(kTarget));
  ibv_wr_set_sge(peer, mr_->lkey, RemoteAt(kSource + 100), 16);
  ASSERT_EQ(ibv_wr_complete(peer), 0);
  Sent(IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(Arrived(16));
}

TEST_F(PostTest, SendWithInvalidate) {  // WR-DATA-003
  MwPtr mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  const uint32_t key = ibv_inc_rkey(mw->rkey);
  ibv_qp_ex* owner = ibv_qp_to_qp_ex(b_.get());
  owner->wr_flags = IBV_SEND_SIGNALED;
  ibv_mw_bind_info info = {mr_.get(), RemoteAt(kTarget), 64, IBV_ACCESS_REMOTE_WRITE};
  ibv_wr_start(owner);
  ibv_wr_bind_mw(owner, mw.get(), key, &info);
  ASSERT_EQ(ibv_wr_complete(owner), 0);
  Sent();
  ASSERT_EQ(PostRecv(b_.get(), 9, 8192, 64), 0);
  ibv_wr_start(qp_);
  ibv_wr_send_inv(qp_, key);
  SetSource(8);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  Sent();
  ibv_wc wc = PollOne(receives_.get());
  EXPECT_NE(wc.wc_flags & IBV_WC_WITH_INV, 0u);
  EXPECT_EQ(wc.invalidated_rkey, key);
}

TEST_F(PostTest, Type1WindowsAreBoundByTheirOwnVerb) {
  MwPtr mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  ASSERT_NE(mw, nullptr);
  const uint32_t before = mw->rkey;
  ibv_mw_bind bind = {};
  bind.wr_id = 77;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr_.get(), RemoteAt(kTarget), 64, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(ibv_bind_mw(a_.get(), mw.get(), &bind), 0);
  EXPECT_NE(mw->rkey, before);
  ibv_wc wc = Sent();
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(wc.wr_id, 77u);
  ibv_wr_start(qp_);
  ibv_wr_rdma_write(qp_, mw->rkey, RemoteAt(kTarget));
  SetSource(16);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  Sent();
  EXPECT_TRUE(Arrived(16));
}

TEST_F(PostTest, InlineDataNeedsNoRegion) {  // WR-INL-001, -002, -007
  uint8_t stack[40];
  for (int i = 0; i < 40; ++i) stack[i] = static_cast<uint8_t>(i + 100);
  uint8_t copy[40];
  memcpy(copy, stack, sizeof(copy));
  ibv_data_buf list[3] = {{stack + 16, 8}, {nullptr, 0}, {stack + 24, 16}};
  ibv_wr_start(qp_);
  ibv_wr_rdma_write(qp_, mr_->rkey, RemoteAt(kTarget));
  ibv_wr_set_inline_data(qp_, stack, 16);
  ibv_wr_rdma_write(qp_, mr_->rkey, RemoteAt(kTarget + 16));
  ibv_wr_set_inline_data_list(qp_, 3, list);
  memset(stack, 0, sizeof(stack));
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  Sent();
  Sent();
  EXPECT_EQ(memcmp(At(kTarget), copy, 40), 0);
}

// --- ibv_post_send -------------------------------------------------------------------------------

TEST_F(PostTest, PostSendDoesTheSame) {  // WR-MIX-004
  ASSERT_EQ(PostRecv(b_.get(), 9, 8192, 64), 0);
  ibv_sge source = SgeAt(kSource, 16), result = SgeAt(8300, 8), back = SgeAt(9000, 16);
  ibv_send_wr wr[4] = {};
  wr[0].opcode = IBV_WR_RDMA_WRITE;
  wr[0].sg_list = &source;
  wr[0].wr.rdma = {RemoteAt(kTarget), mr_->rkey};
  wr[1].opcode = IBV_WR_SEND_WITH_IMM;
  wr[1].sg_list = &source;
  wr[1].imm_data = htobe32(5);
  wr[2].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr[2].sg_list = &result;
  wr[2].wr.atomic = {RemoteAt(kTarget + 32), 4, 0, mr_->rkey};
  wr[3].opcode = IBV_WR_RDMA_READ;
  wr[3].sg_list = &back;
  wr[3].wr.rdma = {RemoteAt(kSource), mr_->rkey};
  for (int i = 0; i < 4; ++i) {
    wr[i].wr_id = static_cast<uint64_t>(i);
    wr[i].num_sge = 1;
    wr[i].send_flags = IBV_SEND_SIGNALED;
    wr[i].next = i < 3 ? &wr[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_.get(), wr, &bad), 0);
  const ibv_wc_opcode expected[4] = {IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WC_FETCH_ADD,
                                     IBV_WC_RDMA_READ};
  for (uint64_t i = 0; i < 4; ++i) {
    ibv_wc wc = Sent();
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.opcode, expected[i]);
  }
  EXPECT_TRUE(Arrived(16));
  EXPECT_EQ(memcmp(At(9000), At(kSource), 16), 0);
  uint64_t sum;
  memcpy(&sum, At(kTarget + 32), 8);
  EXPECT_EQ(sum, 4u);
  EXPECT_EQ(PollOne(receives_.get()).imm_data, htobe32(5));
}

TEST_F(PostTest, PostSendStopsAtTheFirstBadOne) {  // WR-MIX-007
  ibv_sge source = SgeAt(kSource, 16);
  std::vector<ibv_sge> many(64, source);
  ibv_send_wr wr[3] = {};
  for (int i = 0; i < 3; ++i) {
    wr[i].wr_id = static_cast<uint64_t>(i);
    wr[i].opcode = IBV_WR_RDMA_WRITE;
    wr[i].send_flags = IBV_SEND_SIGNALED;
    wr[i].wr.rdma = {RemoteAt(kTarget + 64 * static_cast<size_t>(i)), mr_->rkey};
    wr[i].sg_list = i == 1 ? many.data() : &source;
    wr[i].num_sge = i == 1 ? static_cast<int>(many.size()) : 1;
    wr[i].next = i < 2 ? &wr[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_NE(ibv_post_send(a_.get(), wr, &bad), 0);
  EXPECT_EQ(bad, &wr[1]);
  EXPECT_EQ(Sent().wr_id, 0u);
  EXPECT_TRUE(Empty());
}

TEST_F(PostTest, PostSendRefusesWhatIsNoOpcode) {  // WR-MIX-005
  for (int opcode : {14, 15, 11, 31, 1000}) {
    ibv_sge source = SgeAt(kSource, 16);
    ibv_send_wr wr = {};
    wr.opcode = static_cast<ibv_wr_opcode>(opcode);
    wr.sg_list = &source;
    wr.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    EXPECT_NE(ibv_post_send(a_.get(), &wr, &bad), 0) << opcode;
    EXPECT_EQ(bad, &wr);
  }
}

// --- Regions -------------------------------------------------------------------------------------

TEST_F(PostTest, AbortLeavesNoTrace) {  // WR-ATOM-001, WR-CAP-006
  for (int i = 0; i < 100; ++i) {
    ibv_wr_start(qp_);
    for (int k = 0; k < 16; ++k) {
      ibv_wr_rdma_write(qp_, mr_->rkey, RemoteAt(kTarget));
      SetSource(16);
    }
    ibv_wr_abort(qp_);
  }
  EXPECT_TRUE(Empty());
  EXPECT_EQ(*At(kTarget), 0);
  ibv_wr_start(qp_);
  ibv_wr_rdma_write(qp_, mr_->rkey, RemoteAt(kTarget));
  SetSource(16);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  Sent();
}

TEST_F(PostTest, AFullQueueFailsTheWholeRegion) {  // WR-CAP-002, WR-ATOM-002
  ibv_wr_start(qp_);
  for (uint32_t k = 0; k <= granted_.max_send_wr; ++k) {
    ibv_wr_rdma_write(qp_, mr_->rkey, RemoteAt(kTarget));
    SetSource(16);
  }
  EXPECT_EQ(ibv_wr_complete(qp_), ENOMEM);
  EXPECT_TRUE(Empty());
  EXPECT_EQ(*At(kTarget), 0);
}

TEST_F(PostTest, MisuseIsReportedByItsClause) {
  ibv_wr_start(qp_);
  SetSource(16);  // before any builder
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  std::vector<model::FoundLint> lints = TakeLints();
  ASSERT_FALSE(lints.empty());
  EXPECT_STREQ(lints[0].clause, "WR-SET-011");
  EXPECT_EQ(lints[0].qp.value, a_->qp_num);
}

TEST_F(PostTest, AnUnaskedBuilderIsReported) {  // WR-CREATE-009
  wish_.ops = IBV_QP_EX_WITH_SEND;
  Renew();
  ibv_wr_start(qp_);
  ibv_wr_rdma_read(qp_, mr_->rkey, RemoteAt(kTarget));
  SetSource(16);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  std::vector<model::FoundLint> lints = TakeLints();
  ASSERT_FALSE(lints.empty());
  EXPECT_STREQ(lints[0].clause, "WR-CREATE-009");
}

// --- Errors --------------------------------------------------------------------------------------

TEST_F(PostTest, ABadKeyEndsBothSides) {  // WR-RESP-005, -016, WR-COMP-003
  ASSERT_EQ(PostRecv(b_.get(), 9, 8192, 64), 0);
  ibv_wr_start(qp_);
  ibv_wr_rdma_write(qp_, mr_->rkey ^ 0x5500, RemoteAt(kTarget));
  SetSource(16);
  qp_->wr_id = 2;
  qp_->wr_flags = 0;
  ibv_wr_send(qp_);
  SetSource(16);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(Sent(IBV_WC_REM_ACCESS_ERR).wr_id, 1u);
  EXPECT_EQ(Sent(IBV_WC_WR_FLUSH_ERR).wr_id, 2u);
  EXPECT_EQ(PollOne(receives_.get()).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(StateOf(a_.get()), IBV_QPS_ERR);
  EXPECT_EQ(StateOf(b_.get()), IBV_QPS_ERR);
  EXPECT_EQ(*At(kTarget), 0);
}

TEST_F(PostTest, ALocalKeyThatIsNone) {  // WR-RESP-010
  ibv_wr_start(qp_);
  ibv_wr_rdma_write(qp_, mr_->rkey, RemoteAt(kTarget));
  ibv_wr_set_sge(qp_, mr_->lkey ^ 0x5500, RemoteAt(kSource), 16);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  Sent(IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(StateOf(a_.get()), IBV_QPS_ERR);
}

TEST_F(PostTest, RnrRunsOutWhilePolling) {  // WR-RESP-001
  ASSERT_EQ(Move(a_.get(), IBV_QPS_RESET), 0);
  ASSERT_EQ(ToInit(a_.get()), 0);
  ASSERT_EQ(ToRtr(a_.get(), b_->qp_num), 0);
  ASSERT_EQ(ToRts(a_.get(), 3), 0);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  SetSource(16);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  Sent(IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(StateOf(b_.get()), IBV_QPS_RTS);
}

TEST_F(PostTest, AnInfiniteRnrWaitsForItsReceive) {  // WR-RESP-002
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  SetSource(16);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  for (int i = 0; i < 10000; ++i) ASSERT_TRUE(Empty());
  ASSERT_EQ(PostRecv(b_.get(), 9, kTarget, 64), 0);
  Sent();
  EXPECT_TRUE(Arrived(16));
}

TEST_F(PostTest, AGonePeerIsATimeout) {  // WR-RESP-003, -004
  b_.reset();
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  SetSource(16);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  Sent(IBV_WC_RETRY_EXC_ERR);
}

TEST_F(PostTest, ErrFlushesBothQueues) {  // WR-STATE-005, -006
  ASSERT_EQ(PostRecv(a_.get(), 5, kTarget, 64), 0);
  ASSERT_EQ(Move(a_.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(PollOne(receives_.get()).status, IBV_WC_WR_FLUSH_ERR);
  ibv_wr_start(qp_);
  for (uint64_t i = 0; i < 3; ++i) {
    qp_->wr_id = 10 + i;
    ibv_wr_rdma_write(qp_, mr_->rkey, RemoteAt(kTarget));
    SetSource(16);
  }
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(Sent(IBV_WC_WR_FLUSH_ERR).wr_id, 10 + i);
}

TEST_F(PostTest, NothingIsPostedBeforeRts) {  // WR-STATE-001, -014
  QpPtr qp = CreateQp(wish_);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp.get());
  ibv_wr_start(ex);
  ibv_wr_send(ex);
  ibv_wr_set_sge(ex, mr_->lkey, RemoteAt(kSource), 8);
  EXPECT_NE(ibv_wr_complete(ex), 0);
  EXPECT_NE(PostRecv(qp.get(), 1, kTarget, 8), 0);
  ASSERT_EQ(ToInit(qp.get()), 0);
  EXPECT_EQ(PostRecv(qp.get(), 1, kTarget, 8), 0);
}

TEST_F(PostTest, PostRecvNamesTheBadOne) {
  ibv_sge sge = SgeAt(kTarget, 8);
  std::vector<ibv_sge> many(64, sge);
  ibv_recv_wr wr[2] = {};
  wr[0].next = &wr[1];
  wr[0].sg_list = &sge;
  wr[0].num_sge = 1;
  wr[1].sg_list = many.data();
  wr[1].num_sge = static_cast<int>(many.size());
  ibv_recv_wr* bad = nullptr;
  EXPECT_NE(ibv_post_recv(b_.get(), wr, &bad), 0);
  EXPECT_EQ(bad, &wr[1]);
}

TEST_F(PostTest, FaultPointsMeetTheNextMessages) {  // WR-RESP-014
  AddFaultPoint(a_.get(), model::FaultPoint::kLoseAck);
  uint64_t value = 1;
  memcpy(At(kTarget), &value, 8);
  ibv_wr_start(qp_);
  ibv_wr_atomic_fetch_add(qp_, mr_->rkey, RemoteAt(kTarget), 1);
  ibv_wr_set_sge(qp_, mr_->lkey, RemoteAt(8192), 8);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  Sent();
  memcpy(&value, At(kTarget), 8);
  EXPECT_EQ(value, 2u) << "a repeated atomic has effect once";
}

}  // namespace
}  // namespace qpexam::provider
