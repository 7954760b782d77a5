// Threads: regions exclude each other, polling and posting go on side by side, events are not lost.
// ThreadSanitizer runs these (tag "tsan").
#include <atomic>
#include <map>
#include <thread>

#include "reference/provider/testing.h"

namespace qpexam::provider {
namespace {

class ConcurrencyTest : public VerbsTest {
 protected:
  static constexpr int kThreads = 4;
  static constexpr int kRounds = 500;
  static constexpr uint64_t kOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;

  void Pair(QpWish wish, QpPtr* a, QpPtr* b) {
    wish.ops = kOps;
    wish.sq = wish.rq = 128;
    *a = CreateQp(wish);
    *b = CreateQp(wish);
    ASSERT_NE(*a, nullptr);
    ASSERT_NE(*b, nullptr);
    Connect(a->get(), b->get());
  }
  // A region of three writes whose ids are tag*4, +1, +2; again where the queue is full.
  void WriteThree(ibv_qp* qp, uint64_t tag) {
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    for (;;) {
      ibv_wr_start(ex);
      ex->wr_flags = IBV_SEND_SIGNALED;
      for (uint64_t i = 0; i < 3; ++i) {
        ex->wr_id = tag * 4 + i;
        ibv_wr_rdma_write(ex, mr_->rkey, RemoteAt(4096 + 8 * i));
        ibv_wr_set_sge(ex, mr_->lkey, RemoteAt(8 * i), 8);
      }
      if (ibv_wr_complete(ex) == 0) return;
      std::this_thread::yield();
    }
  }
  // Checks while it polls that triples come whole; `singles` ids are those with the high bit.
  void PollTriples(ibv_cq* cq, int triples, int singles) {
    uint64_t open = 0;
    int seen = 0;  // of the open triple
    while (triples > 0 || singles > 0) {
      ibv_wc wc[8];
      const int got = ibv_poll_cq(cq, 8, wc);
      ASSERT_GE(got, 0);
      if (got == 0) std::this_thread::yield();
      for (int i = 0; i < got; ++i) {
        ASSERT_EQ(wc[i].status, IBV_WC_SUCCESS);
        if (wc[i].wr_id >> 63 != 0) {
          EXPECT_EQ(seen, 0) << "a posted request inside a region";
          --singles;
          continue;
        }
        if (seen == 0) open = wc[i].wr_id / 4;
        EXPECT_EQ(wc[i].wr_id, open * 4 + static_cast<uint64_t>(seen)) << "a split region";
        if (++seen == 3) {
          seen = 0;
          --triples;
        }
      }
    }
  }
};

TEST_F(ConcurrencyTest, RegionsOfOneQpExcludeEachOther) {  // WR-CONC-001
  QpPtr a, b;
  Pair({}, &a, &b);
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t) {
    posters.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) WriteThree(a.get(), static_cast<uint64_t>(t * kRounds + i));
    });
  }
  PollTriples(cq_.get(), kThreads * kRounds, 0);
  for (std::thread& t : posters) t.join();
  EXPECT_TRUE(Empty());
}

TEST_F(ConcurrencyTest, ARegionOnAParentDomainWithoutTdIsLocked) {  // WR-CONC-009
  ibv_parent_domain_init_attr attr = {};
  attr.pd = pd_.get();
  PdPtr parent(ibv_alloc_parent_domain(context_.get(), &attr));
  ASSERT_NE(parent, nullptr);
  QpPtr a, b;
  QpWish wish;
  wish.pd = parent.get();
  Pair(wish, &a, &b);
  std::thread poster([&] {
    for (int i = 0; i < kRounds; ++i) WriteThree(a.get(), static_cast<uint64_t>(i));
  });
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) WriteThree(a.get(), static_cast<uint64_t>(kRounds + i));
  });
  PollTriples(cq_.get(), 2 * kRounds, 0);
  poster.join();
  other.join();
}

TEST_F(ConcurrencyTest, PostSendStaysOutOfRegions) {  // WR-CONC-002
  QpPtr a, b;
  Pair({}, &a, &b);
  std::thread regions([&] {
    for (int i = 0; i < kRounds; ++i) WriteThree(a.get(), static_cast<uint64_t>(i));
  });
  std::thread lists([&] {
    for (int i = 0; i < kRounds; ++i) {
      ibv_sge sge = SgeAt(64, 8);
      ibv_send_wr wr = {};
      wr.wr_id = uint64_t{1} << 63 | static_cast<uint64_t>(i);
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.wr.rdma = {RemoteAt(4160), mr_->rkey};
      ibv_send_wr* bad = nullptr;
      while (ibv_post_send(a.get(), &wr, &bad) != 0) std::this_thread::yield();
    }
  });
  PollTriples(cq_.get(), kRounds, kRounds);
  regions.join();
  lists.join();
}

TEST_F(ConcurrencyTest, QpsShareACqWithoutDeadlock) {  // WR-CONC-005, WR-ATOM-009
  // Larger than everything that can be outstanding: an overrun would be another test.
  CqPtr shared(ibv_create_cq(context_.get(), 4096, nullptr, nullptr, 0));
  QpPtr a[kThreads], b[kThreads];
  QpWish wish;
  wish.send_cq = shared.get();
  for (int t = 0; t < kThreads; ++t) Pair(wish, &a[t], &b[t]);
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t) {
    posters.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) WriteThree(a[t].get(), static_cast<uint64_t>(i));
    });
  }
  std::map<uint32_t, uint64_t> next;  // by QP
  for (int left = kThreads * kRounds * 3; left > 0;) {
    ibv_wc wc;
    const int got = ibv_poll_cq(shared.get(), 1, &wc);
    ASSERT_GE(got, 0);
    if (got == 0) {
      std::this_thread::yield();
      continue;
    }
    uint64_t& due = next[wc.qp_num];
    EXPECT_EQ(wc.wr_id, due / 3 * 4 + due % 3);
    ++due;
    --left;
  }
  for (std::thread& t : posters) t.join();
}

TEST_F(ConcurrencyTest, PolledSlotsAreFree) {  // WR-CONC-006
  QpPtr a, b;
  Pair({}, &a, &b);
  const int cap = static_cast<int>(granted_.max_send_wr);
  std::atomic<int> polled{0};
  constexpr int kTotal = 3 * kRounds;
  std::thread poller([&] {
    ibv_wc wc;
    while (polled.load(std::memory_order_relaxed) < kTotal) {
      if (ibv_poll_cq(cq_.get(), 1, &wc) == 1)
        polled.fetch_add(1, std::memory_order_release);
      else
        std::this_thread::yield();
    }
  });
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(a.get());
  ex->wr_flags = IBV_SEND_SIGNALED;
  for (int posted = 0; posted < kTotal;) {
    if (posted - polled.load(std::memory_order_acquire) >= cap) {
      std::this_thread::yield();
      continue;
    }
    ibv_wr_start(ex);
    ibv_wr_rdma_write(ex, mr_->rkey, RemoteAt(4096));
    ibv_wr_set_sge(ex, mr_->lkey, RemoteAt(0), 8);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    ++posted;
  }
  poller.join();
}

TEST_F(ConcurrencyTest, AnErrorBelongsToItsRegion) {  // WR-ATOM-010
  QpPtr a, b;
  Pair({}, &a, &b);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(a.get());
  std::vector<ibv_sge> many(granted_.max_send_sge + 1, SgeAt(0, 8));
  std::thread bad([&] {
    for (int i = 0; i < kRounds; ++i) {
      ibv_wr_start(ex);
      ex->wr_flags = IBV_SEND_SIGNALED;
      ibv_wr_rdma_write(ex, mr_->rkey, RemoteAt(4096));
      ibv_wr_set_sge_list(ex, many.size(), many.data());
      ASSERT_NE(ibv_wr_complete(ex), 0);
    }
  });
  std::thread good([&] {
    for (int i = 0; i < kRounds; ++i) WriteThree(a.get(), static_cast<uint64_t>(i));
  });
  PollTriples(cq_.get(), kRounds, 0);
  bad.join();
  good.join();
  EXPECT_TRUE(Empty());
}

TEST_F(ConcurrencyTest, NoEventIsLost) {  // WR-EVT-004
  ChannelPtr channel(ibv_create_comp_channel(context_.get()));
  CqPtr cq(ibv_create_cq(context_.get(), 256, nullptr, channel.get(), 0));
  {
    QpPtr a, b;
    QpWish wish;
    wish.recv_cq = cq.get();
    Pair(wish, &a, &b);
    std::thread sender([&] {
      ibv_qp_ex* ex = ibv_qp_to_qp_ex(a.get());
      ex->wr_flags = IBV_SEND_SIGNALED;
      for (int i = 0; i < kRounds; ++i) {
        ibv_wr_start(ex);
        ibv_wr_send(ex);
        ibv_wr_set_sge(ex, mr_->lkey, RemoteAt(0), 8);
        ASSERT_EQ(ibv_wr_complete(ex), 0);
        PollOne();
        if (i % 7 == 0) std::this_thread::yield();
      }
    });
    // The receiver keeps receives posted and sleeps in the kernel between messages.
    int received = 0, events = 0;
    for (uint64_t i = 0; i < 32; ++i) ASSERT_EQ(PostRecv(b.get(), i, 8192, 8), 0);
    while (received < kRounds) {
      ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
      ibv_wc wc;
      bool any = false;
      while (ibv_poll_cq(cq.get(), 1, &wc) == 1) {
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        any = true;
        ++received;
        ASSERT_EQ(PostRecv(b.get(), 0, 8192, 8), 0);
      }
      if (any) continue;
      ibv_cq* of = nullptr;
      void* cq_context = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel.get(), &of, &cq_context), 0);
      ++events;
    }
    sender.join();
    ibv_ack_cq_events(cq.get(), static_cast<unsigned>(events));
  }
}

TEST_F(ConcurrencyTest, ObjectsComeAndGoInEveryThread) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 20; ++i) {
        ContextPtr context = OpenDevice("qpexam0");
        ASSERT_NE(context, nullptr);
        PdPtr pd(ibv_alloc_pd(context.get()));
        CqPtr cq(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0));
        ibv_qp_init_attr attr = {};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = cq.get();
        attr.cap.max_send_wr = attr.cap.max_recv_wr = 2;
        QpPtr qp(ibv_create_qp(pd.get(), &attr));
        ASSERT_NE(qp, nullptr);
        BringUp(qp.get(), qp->qp_num);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_F(ConcurrencyTest, AThreadDomainQpWorksSerialised) {  // WR-CONC-003
  ibv_td_init_attr td_attr = {};
  TdPtr td(ibv_alloc_td(context_.get(), &td_attr));
  ibv_parent_domain_init_attr attr = {};
  attr.pd = pd_.get();
  attr.td = td.get();
  PdPtr parent(ibv_alloc_parent_domain(context_.get(), &attr));
  ASSERT_NE(parent, nullptr);
  QpPtr a, b;
  QpWish wish;
  wish.pd = parent.get();
  Pair(wish, &a, &b);
  for (int i = 0; i < 20; ++i) WriteThree(a.get(), static_cast<uint64_t>(i));
  PollTriples(cq_.get(), 20, 0);
}

}  // namespace
}  // namespace qpexam::provider
