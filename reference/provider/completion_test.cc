// Completion queues: polling, plain and extended; completion channels and event counts.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "reference/provider/testing.h"

namespace qpexam::provider {
namespace {

class CompletionTest : public VerbsTest {
 protected:
  static constexpr uint64_t kOps =
      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE;

  // A connected pair: a sends, completing on send_cq; b receives, completing on recv_cq.
  void Pair(ibv_cq* send_cq, ibv_cq* recv_cq) {
    QpWish wish;
    wish.ops = kOps;
    wish.sq = wish.rq = 64;
    wish.send_cq = send_cq;
    wish.recv_cq = recv_cq;
    a_ = CreateQp(wish);
    b_ = CreateQp(wish);
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    Connect(a_.get(), b_.get());
  }
  int Send(uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(a_.get());
    ibv_wr_start(qp);
    qp->wr_id = wr_id;
    qp->wr_flags = flags;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
    return ibv_wr_complete(qp);
  }
  static bool Readable(int fd, int milliseconds = 0) {
    pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, milliseconds) == 1;
  }

  QpPtr a_, b_;
};

TEST_F(CompletionTest, CreationChecksItsArguments) {
  EXPECT_EQ(ibv_create_cq(context_.get(), 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ibv_create_cq(context_.get(), 16, nullptr, nullptr, 1), nullptr);
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(context_.get(), &attr), 0);
  EXPECT_EQ(ibv_create_cq(context_.get(), attr.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  CqPtr cq(ibv_create_cq(context_.get(), 16, this, nullptr, 0));
  ASSERT_NE(cq, nullptr);
  EXPECT_GE(cq->cqe, 16);
  EXPECT_EQ(cq->cq_context, this);
}

TEST_F(CompletionTest, ACqInUseIsBusy) {
  ibv_cq* cq = ibv_create_cq(context_.get(), 16, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  QpWish wish;
  wish.send_cq = cq;
  QpPtr qp = CreateQp(wish);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  qp.reset();
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(CompletionTest, ResizeKeepsWhatItHolds) {
  CqPtr cq(ibv_create_cq(context_.get(), 4, nullptr, nullptr, 0));
  Pair(cq.get(), cq_.get());
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(PostRecv(b_.get(), i, 64, 8), 0);
    ASSERT_EQ(Send(i), 0);
  }
  ASSERT_EQ(ibv_resize_cq(cq.get(), 64), 0);
  EXPECT_GE(cq->cqe, 64);
  EXPECT_NE(ibv_resize_cq(cq.get(), 1), 0);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(PollOne(cq.get()).wr_id, i);
  a_.reset();
  b_.reset();
}

TEST_F(CompletionTest, PollTakesAsManyAsAskedAndEachOnce) {  // WR-COMP-015
  CqPtr recv(ibv_create_cq(context_.get(), 64, nullptr, nullptr, 0));
  Pair(cq_.get(), recv.get());
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_EQ(PostRecv(b_.get(), i, 64, 8), 0);
    ASSERT_EQ(Send(i), 0);
  }
  ibv_wc wc[64];
  EXPECT_EQ(ibv_poll_cq(cq_.get(), 0, wc), 0);
  EXPECT_EQ(ibv_poll_cq(cq_.get(), 3, wc), 3);
  EXPECT_EQ(wc[2].wr_id, 2u);
  EXPECT_EQ(ibv_poll_cq(cq_.get(), 64, wc), 37);
  EXPECT_EQ(wc[0].wr_id, 3u);
  EXPECT_EQ(wc[36].wr_id, 39u);
  EXPECT_EQ(ibv_poll_cq(cq_.get(), 64, wc), 0);
  a_.reset();
  b_.reset();
}

TEST_F(CompletionTest, OverrunIsAnAsyncEvent) {  // WR-COMP-012
  CqPtr cq(ibv_create_cq(context_.get(), 1, nullptr, nullptr, 0));
  const int room = cq->cqe;
  CqPtr recv(ibv_create_cq(context_.get(), 256, nullptr, nullptr, 0));
  Pair(cq.get(), recv.get());
  for (int i = 0; i <= room; ++i) {
    ASSERT_EQ(PostRecv(b_.get(), 0, 64, 8), 0);
    ASSERT_EQ(Send(0), 0);
  }
  ASSERT_TRUE(Readable(context_->async_fd, 1000));
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, cq.get());
  ibv_ack_async_event(&event);
  a_.reset();
  b_.reset();
}

// --- Extended polling ----------------------------------------------------------------------------

class ExtendedCqTest : public CompletionTest {
 protected:
  ibv_cq_ex* Create(uint64_t wc_flags) {
    ibv_cq_init_attr_ex attr = {};
    attr.cqe = 64;
    attr.wc_flags = wc_flags;
    ibv_cq_ex* cq = ibv_create_cq_ex(context_.get(), &attr);
    if (cq != nullptr) owned_.reset(ibv_cq_ex_to_cq(cq));
    return cq;
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
  }
  CqPtr owned_;
};

TEST_F(ExtendedCqTest, AnEmptyCqOpensNoPoll) {  // WR-CQX-001
  ibv_cq_ex* cq = Create(0);
  ASSERT_NE(cq, nullptr);
  ibv_poll_cq_attr attr = {};
  EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT);
  EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT);
}

TEST_F(ExtendedCqTest, UnknownPollAttributesLeaveTheCqAsItWas) {  // WR-CQX-003
  ibv_cq_ex* cq = Create(0);
  Pair(cq_.get(), owned_.get());
  ASSERT_EQ(PostRecv(b_.get(), 7, 64, 8), 0);
  ASSERT_EQ(Send(1), 0);
  ibv_poll_cq_attr attr = {};
  attr.comp_mask = 1;
  EXPECT_NE(ibv_start_poll(cq, &attr), 0);
  attr.comp_mask = 0;
  ASSERT_EQ(ibv_start_poll(cq, &attr), 0);
  EXPECT_EQ(cq->wr_id, 7u);
  ibv_end_poll(cq);
}

TEST_F(ExtendedCqTest, ReadsEveryFieldLazily) {  // WR-CQX-004
  ibv_cq_ex* cq = Create(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                         IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN |
                         IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO);
  ASSERT_NE(cq, nullptr);
  Pair(cq_.get(), owned_.get());
  ASSERT_EQ(PostRecv(b_.get(), 7, 64, 32), 0);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(a_.get());
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(qp, htobe32(0x11223344));
  ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 24);
  ASSERT_EQ(ibv_wr_complete(qp), 0);

  ibv_poll_cq_attr attr = {};
  ASSERT_EQ(ibv_start_poll(cq, &attr), 0);
  EXPECT_EQ(cq->wr_id, 7u);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(ibv_wc_read_imm_data(cq), htobe32(0x11223344));
  EXPECT_EQ(ibv_wc_read_byte_len(cq), 24u);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), b_->qp_num);
  EXPECT_EQ(ibv_wc_read_slid(cq), 0u);
  EXPECT_EQ(ibv_wc_read_sl(cq), 0);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
  EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0u);
  EXPECT_EQ(ibv_wc_read_completion_ts(cq), ibv_wc_read_completion_wallclock_ns(cq));
  EXPECT_EQ(ibv_wc_read_cvlan(cq), 0);
  EXPECT_EQ(ibv_wc_read_flow_tag(cq), 0u);
  ibv_wc_tm_info tm = {1, 1};
  ibv_wc_read_tm_info(cq, &tm);
  EXPECT_EQ(tm.tag, 0u);
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
  EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT);
}

TEST_F(ExtendedCqTest, UnknownFieldsAreRefused) {  // WR-CQX-006
  EXPECT_EQ(Create(uint64_t{1} << 40), nullptr);
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 16;
  attr.comp_mask = 1u << 20;
  EXPECT_EQ(ibv_create_cq_ex(context_.get(), &attr), nullptr);
}

TEST_F(ExtendedCqTest, BatchesAndPlainPollsSeeOneStream) {  // WR-CQX-002, -007
  ibv_cq_ex* cq = Create(IBV_WC_EX_WITH_QP_NUM);
  Pair(owned_.get(), cq_.get());
  uint64_t next = 0;
  for (int round = 0; round < 20; ++round) {
    for (uint64_t i = 0; i < 6; ++i) {
      ASSERT_EQ(PostRecv(b_.get(), 0, 64, 8), 0);
      ASSERT_EQ(Send(static_cast<uint64_t>(round) * 6 + i), 0);
    }
    ibv_wc wc;
    ASSERT_EQ(ibv_poll_cq(owned_.get(), 1, &wc), 1);
    EXPECT_EQ(wc.wr_id, next++);
    ibv_poll_cq_attr attr = {};
    int rc = ibv_start_poll(cq, &attr);
    ASSERT_EQ(rc, 0);
    for (; rc == 0; rc = ibv_next_poll(cq)) EXPECT_EQ(cq->wr_id, next++);
    EXPECT_EQ(rc, ENOENT);
    ibv_end_poll(cq);
  }
  EXPECT_EQ(next, 120u);
  Poll(120);
}

// --- Events --------------------------------------------------------------------------------------

class EventTest : public CompletionTest {
 protected:
  void SetUp() override {
    CompletionTest::SetUp();
    channel_.reset(ibv_create_comp_channel(context_.get()));
    ASSERT_NE(channel_, nullptr);
    armed_.reset(ibv_create_cq(context_.get(), 64, nullptr, channel_.get(), 0));
    ASSERT_NE(armed_, nullptr);
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    armed_.reset();
    channel_.reset();
  }
  ibv_cq* GetEvent() {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel_.get(), &cq, &cq_context), 0);
    return cq;
  }
  ChannelPtr channel_;
  CqPtr armed_;
};

TEST_F(EventTest, OneEventForOneArming) {  // WR-EVT-001
  Pair(cq_.get(), armed_.get());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(PostRecv(b_.get(), 0, 64, 8), 0);
  ASSERT_EQ(Send(0), 0);
  EXPECT_FALSE(Readable(channel_->fd)) << "not armed";
  PollOne(armed_.get());
  ASSERT_EQ(ibv_req_notify_cq(armed_.get(), 0), 0);
  EXPECT_FALSE(Readable(channel_->fd));
  ASSERT_EQ(Send(1), 0);
  ASSERT_EQ(Send(2), 0);
  EXPECT_TRUE(Readable(channel_->fd));
  EXPECT_EQ(GetEvent(), armed_.get());
  EXPECT_FALSE(Readable(channel_->fd));
  ibv_ack_cq_events(armed_.get(), 1);
}

TEST_F(EventTest, SolicitedOnly) {  // WR-EVT-002, -003
  Pair(cq_.get(), armed_.get());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(PostRecv(b_.get(), 0, 64, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(armed_.get(), 1), 0);
  ASSERT_EQ(Send(0), 0);
  EXPECT_FALSE(Readable(channel_->fd));
  ASSERT_EQ(Send(1, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
  EXPECT_TRUE(Readable(channel_->fd));
  GetEvent();
  ibv_ack_cq_events(armed_.get(), 1);
}

TEST_F(EventTest, AnErrorCountsAsSolicited) {  // WR-EVT-002, X27
  Pair(cq_.get(), armed_.get());
  ASSERT_EQ(PostRecv(b_.get(), 0, 64, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(armed_.get(), 1), 0);
  ASSERT_EQ(Move(b_.get(), IBV_QPS_ERR), 0);
  EXPECT_TRUE(Readable(channel_->fd));
  GetEvent();
  ibv_ack_cq_events(armed_.get(), 1);
}

TEST_F(EventTest, ANonBlockingChannelSaysAgain) {
  const int flags = fcntl(channel_->fd, F_GETFL);
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_NE(ibv_get_cq_event(channel_.get(), &cq, &cq_context), 0);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(EventTest, UnreadEventsGoWithTheirCq) {
  CqPtr other(ibv_create_cq(context_.get(), 64, nullptr, channel_.get(), 0));
  Pair(other.get(), armed_.get());
  ASSERT_EQ(PostRecv(b_.get(), 0, 64, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(armed_.get(), 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(other.get(), 0), 0);
  ASSERT_EQ(Send(0), 0);
  a_.reset();
  b_.reset();
  armed_.reset();  // its event was never read: nothing to acknowledge
  EXPECT_EQ(GetEvent(), other.get());
  EXPECT_FALSE(Readable(channel_->fd));
  ibv_ack_cq_events(other.get(), 1);
}

TEST_F(EventTest, DestroyWaitsForTheAcknowledgement) {  // WR-EVT-006
  Pair(cq_.get(), armed_.get());
  ASSERT_EQ(PostRecv(b_.get(), 0, 64, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(armed_.get(), 0), 0);
  ASSERT_EQ(Send(0), 0);
  ibv_cq* cq = GetEvent();
  a_.reset();
  b_.reset();
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    armed_.reset();
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(destroyed);
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

TEST_F(EventTest, AChannelInUseIsBusy) {
  EXPECT_EQ(ibv_destroy_comp_channel(channel_.get()), EBUSY);
}

TEST_F(EventTest, MoreEventsThanAPipeHolds) {
  // 64 KiB of pipe hold 8192 events; the others wait in the provider.
  Pair(cq_.get(), armed_.get());
  constexpr int kEvents = 9000;
  for (int i = 0; i < kEvents; ++i) {
    ASSERT_EQ(PostRecv(b_.get(), 0, 64, 8), 0);
    ASSERT_EQ(ibv_req_notify_cq(armed_.get(), 0), 0);
    ASSERT_EQ(Send(0), 0);
    PollOne(cq_.get());
    PollOne(armed_.get());
  }
  for (int i = 0; i < kEvents; ++i) {
    ASSERT_TRUE(Readable(channel_->fd)) << i;
    ASSERT_EQ(GetEvent(), armed_.get());
  }
  EXPECT_FALSE(Readable(channel_->fd));
  ibv_ack_cq_events(armed_.get(), kEvents);
}

TEST_F(EventTest, ABlockedReaderReachesATimeout) {
  // Nobody polls: the ticker alone lets the retries run out.
  Pair(armed_.get(), cq_.get());
  b_.reset();
  ASSERT_EQ(ibv_req_notify_cq(armed_.get(), 0), 0);
  ASSERT_EQ(Send(5), 0);
  EXPECT_EQ(GetEvent(), armed_.get());
  ibv_ack_cq_events(armed_.get(), 1);
  EXPECT_EQ(PollOne(armed_.get()).status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace qpexam::provider
