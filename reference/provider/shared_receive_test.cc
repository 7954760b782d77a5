// Shared receive queues, their limit events, and the other asynchronous events.
#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "reference/provider/testing.h"

namespace qpexam::provider {
namespace {

class SharedReceiveTest : public VerbsTest {
 protected:
  void SetUp() override {
    VerbsTest::SetUp();
    ibv_srq_init_attr attr = {};
    attr.attr.max_wr = 16;
    attr.attr.max_sge = 2;
    srq_.reset(ibv_create_srq(pd_.get(), &attr));
    ASSERT_NE(srq_, nullptr);
    EXPECT_GE(attr.attr.max_wr, 16u);
    receives_.reset(ibv_create_cq(context_.get(), 64, nullptr, nullptr, 0));
    QpWish wish;
    wish.ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
    a_ = CreateQp(wish);
    wish.srq = srq_.get();
    wish.recv_cq = receives_.get();
    b_ = CreateQp(wish);
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    Connect(a_.get(), b_.get());
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    srq_.reset();
    receives_.reset();
  }
  int PostSrqRecv(uint64_t wr_id) {
    ibv_sge sge = SgeAt(1024, 64);
    ibv_recv_wr wr = {};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq_.get(), &wr, &bad);
  }
  void Send() {
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(a_.get());
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    PollOne();
  }
  bool EventWaits(int milliseconds = 0) {
    pollfd fd = {context_->async_fd, POLLIN, 0};
    return poll(&fd, 1, milliseconds) == 1;
  }
  ibv_async_event GetEvent() {
    ibv_async_event event = {};
    EXPECT_TRUE(EventWaits(1000));
    EXPECT_EQ(ibv_get_async_event(context_.get(), &event), 0);
    return event;
  }
  SrqPtr srq_;
  CqPtr receives_;
  QpPtr a_, b_;
};

TEST_F(SharedReceiveTest, FeedsItsQps) {
  ASSERT_EQ(PostSrqRecv(7), 0);
  Send();
  ibv_wc wc = PollOne(receives_.get());
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_EQ(wc.qp_num, b_->qp_num);
}

TEST_F(SharedReceiveTest, IsBusyWhileUsed) { EXPECT_EQ(ibv_destroy_srq(srq_.get()), EBUSY); }

TEST_F(SharedReceiveTest, QueriesAndResizes) {
  ibv_srq_attr attr = {};
  ASSERT_EQ(ibv_query_srq(srq_.get(), &attr), 0);
  EXPECT_GE(attr.max_wr, 16u);
  EXPECT_EQ(attr.srq_limit, 0u);
  attr.max_wr = 64;
  ASSERT_EQ(ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_MAX_WR), 0);
  ASSERT_EQ(ibv_query_srq(srq_.get(), &attr), 0);
  EXPECT_GE(attr.max_wr, 64u);
  uint32_t number = 0;
  EXPECT_NE(ibv_get_srq_num(srq_.get(), &number), 0) << "only XRC SRQs have one";
}

TEST_F(SharedReceiveTest, RunningFullIsRefused) {
  ibv_srq_attr attr = {};
  ASSERT_EQ(ibv_query_srq(srq_.get(), &attr), 0);
  for (uint32_t i = 0; i < attr.max_wr; ++i) ASSERT_EQ(PostSrqRecv(i), 0);
  EXPECT_EQ(PostSrqRecv(99), ENOMEM);
}

TEST_F(SharedReceiveTest, TheLimitIsAnEventOnce) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(PostSrqRecv(i), 0);
  ibv_srq_attr attr = {};
  attr.srq_limit = 3;
  ASSERT_EQ(ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_LIMIT), 0);
  EXPECT_FALSE(EventWaits());
  Send();
  Send();
  ibv_async_event event = GetEvent();
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq_.get());
  ibv_ack_async_event(&event);
  Send();
  EXPECT_FALSE(EventWaits());
}

TEST_F(SharedReceiveTest, TheLastWqeIsAnEvent) {  // WR-RESP-020
  for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(PostSrqRecv(i), 0);
  ASSERT_EQ(Move(b_.get(), IBV_QPS_ERR), 0);
  ibv_async_event event = GetEvent();
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event.element.qp, b_.get());
  ibv_ack_async_event(&event);
  EXPECT_TRUE(Empty(receives_.get())) << "receives of an SRQ are not flushed";
}

TEST_F(SharedReceiveTest, AnAccessErrorIsAnEventOfTheResponder) {  // WR-RESP-006
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(a_.get());
  ibv_wr_start(qp);
  ibv_wr_rdma_write(qp, mr_->rkey ^ 0x5500, RemoteAt(1024));
  ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(PollOne().status, IBV_WC_REM_ACCESS_ERR);
  bool seen = false;
  while (EventWaits()) {
    ibv_async_event event = GetEvent();
    seen |= event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == b_.get();
    ibv_ack_async_event(&event);
  }
  EXPECT_TRUE(seen);
}

TEST_F(SharedReceiveTest, DestroyWaitsForTheAcknowledgementOfAQpEvent) {
  ASSERT_EQ(Move(b_.get(), IBV_QPS_ERR), 0);
  ibv_async_event event = GetEvent();
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    b_.reset();
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(destroyed);
  ibv_ack_async_event(&event);
  destroyer.join();
}

TEST_F(SharedReceiveTest, UnreadEventsGoWithTheirObject) {
  ASSERT_EQ(Move(b_.get(), IBV_QPS_ERR), 0);
  ASSERT_TRUE(EventWaits());
  b_.reset();
  EXPECT_FALSE(EventWaits());
}

TEST_F(SharedReceiveTest, DrainingIsAnEvent) {  // WR-STATE-003
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(a_.get());
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(qp);
  for (int i = 0; i < 2; ++i) {
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
  }
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(a_.get(), &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  EXPECT_FALSE(EventWaits());
  ASSERT_EQ(PostSrqRecv(1), 0);
  ASSERT_EQ(PostSrqRecv(2), 0);
  // No poll: the background clock reaches the next RNR attempt.
  ibv_async_event event = {};
  ASSERT_EQ(ibv_get_async_event(context_.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(event.element.qp, a_.get());
  ibv_ack_async_event(&event);
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(a_.get(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.sq_draining, 0);
  ASSERT_EQ(Move(a_.get(), IBV_QPS_RTS), 0);
}

TEST_F(SharedReceiveTest, BasicByTheExtendedCall) {
  ibv_srq_init_attr_ex attr = {};
  attr.attr.max_wr = 4;
  attr.attr.max_sge = 1;
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  attr.srq_type = IBV_SRQT_BASIC;
  attr.pd = pd_.get();
  SrqPtr srq(ibv_create_srq_ex(context_.get(), &attr));
  EXPECT_NE(srq, nullptr);
  attr.srq_type = IBV_SRQT_TM;
  EXPECT_EQ(ibv_create_srq_ex(context_.get(), &attr), nullptr);
  attr.srq_type = IBV_SRQT_XRC;  // without domain and CQ
  EXPECT_EQ(ibv_create_srq_ex(context_.get(), &attr), nullptr);
}

}  // namespace
}  // namespace qpexam::provider
