// CONC: concurrency and thread domains. Run under ThreadSanitizer too.

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/isolate.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {
namespace {

// Where threads meet on a queue: deep enough that they meet at its lock rather than wait for room,
// which costs a change of threads each time.
constexpr uint32_t kDeep = 384;

class Conc : public Conformance {
 protected:
  Pair& RcPair(uint32_t depth, ibv_pd* pd = nullptr, ibv_cq* send_cq = nullptr) {
    PairOptions options;
    options.ops = Bits({Op::kSend, Op::kWrite, Op::kRead});
    options.send_wr = depth;
    options.pd = pd;
    options.send_cq = send_cq;
    return bed().Connect(options);
  }
  // A signaled 8-byte WRITE.
  static Wr Write(Memory& memory, uint64_t id) {
    Wr wr;
    wr.op = Op::kWrite;
    wr.id = id;
    wr.sge = {memory.sge(0, 8)};
    wr.rkey = memory.rkey();
    wr.remote = memory.address(64);
    return wr;
  }
  // Ids of triples: thread, round, index within the triple.
  static uint64_t TripleId(int thread, int round, int index) {
    return static_cast<uint64_t>(thread) << 48 | static_cast<uint64_t>(round) << 4 |
           static_cast<uint64_t>(index);
  }
  // Lets the other threads work. Not a yield, which on a busy machine gives a turn to every other
  // process for each few requests.
  static void Pause() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

  // Polls until `total` have come; what did, in the end. Other threads run in real time, so their
  // poller waits in real time on every provider: for as long as more comes, and then for as many
  // turns as make half a minute on a machine at leisure. Counted in turns, since one that gives
  // few gives few to the posters as well: a slow machine is no deadlock.
  static std::size_t PollAll(std::size_t total, const std::function<std::size_t()>& poll,
                             const std::function<bool()>& given_up) {
    constexpr int kMostTurns = 300000;
    std::size_t seen = 0;
    for (int turns = 0; seen < total && turns < kMostTurns && !given_up(); ++turns) {
      const std::size_t got = poll();
      seen += got;
      if (got != 0) {
        turns = 0;
      } else {
        Pause();
      }
    }
    return seen;
  }
  ibv_pd* ParentDomain(ibv_td* td) {
    ibv_parent_domain_init_attr attr{};
    attr.pd = bed().pd();
    attr.td = td;
    ibv_pd* pd = ibv_alloc_parent_domain(bed().context(), &attr);
    if (pd == nullptr) throw NotApplicable{"ibv_alloc_parent_domain is refused"};
    bed().Own(pd, [pd] { return ibv_dealloc_pd(pd); });
    return pd;
  }
  ibv_td* ThreadDomain() {
    ibv_td_init_attr attr{};
    ibv_td* td = ibv_alloc_td(bed().context(), &attr);
    if (td == nullptr) throw NotApplicable{"ibv_alloc_td is refused"};
    bed().Own(td, [td] { return ibv_dealloc_td(td); });
    return td;
  }

  // Room in a CQ that several posters share. A provider may free a slot of the send queue before
  // its completion is polled (WR-CAP-004 says when at the latest), so a queue that takes requests
  // does not mean that the CQ has room for their completions.
  class Room {
   public:
    explicit Room(int entries) : left_(entries) {}
    bool Take(int n) {
      int left = left_.load();
      while (left >= n) {
        if (left_.compare_exchange_weak(left, left - n)) return true;
      }
      return false;
    }
    void Give(int n) { left_.fetch_add(n); }

   private:
    std::atomic<int> left_;
  };

  // Threads that end with their test, also where polling gives it up by an exception.
  class Posters {
   public:
    ~Posters() { Join(); }
    template <typename Body>
    void Start(Body body) {
      threads_.emplace_back(std::move(body));
    }
    bool stopped() const { return stop_; }
    void Join() {
      stop_ = true;
      for (std::thread& thread : threads_) thread.join();
      threads_.clear();
    }

   private:
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
  };

  // While this thread is inside a region, another thread's start does not return. Empty, or what
  // went wrong: only a start that came back is evidence, so a slow machine accuses nobody.
  static std::string StartWaits(Pair& pair) {
    for (int round = 0; round < 5; ++round) {
      std::atomic<bool> entered{false};
      ibv_wr_start(pair.a.ex);
      std::thread other([&] {
        ibv_wr_start(pair.a.ex);
        entered = true;
        ibv_wr_abort(pair.a.ex);
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const bool both = entered;
      ibv_wr_abort(pair.a.ex);
      other.join();
      if (both) return "a second thread's ibv_wr_start returned while the region was open";
    }
    return "";
  }

  // Several threads post triples on one QP while this thread polls. Empty, or what went wrong.
  std::string Triples(Pair& pair, int threads, int rounds, bool by_list_in_last) {
    Memory& memory = bed().Mem(256);
    Room room(pair.a.send_cq->cqe);
    Posters posters;
    for (int t = 0; t < threads; ++t) {
      posters.Start([&, t] {
        const std::vector<Wr> triple(3, Write(memory, 0));
        std::vector<Wr> wrs;
        for (int round = 0; round < rounds && !posters.stopped(); ++round) {
          wrs.resize(3, triple[0]);
          for (int i = 0; i < 3; ++i) wrs[i].id = TripleId(t + 1, round, i);
          while (!room.Take(3) && !posters.stopped()) Pause();
          // A full queue is tried again once the poller has made room.
          for (;;) {
            std::size_t bad = 0;
            const bool by_list = by_list_in_last && t == threads - 1;
            const int rc = by_list ? PostSend(pair.a, wrs, &bad) : Post(pair.a, wrs);
            if (rc == 0 || posters.stopped()) break;
            if (by_list) wrs.erase(wrs.begin(), wrs.begin() + static_cast<long>(bad));
            Pause();
          }
        }
      });
    }
    const std::size_t total = static_cast<std::size_t>(threads) * rounds * 3;
    std::vector<uint64_t> ids;
    ids.reserve(total);
    std::string problem;
    PollAll(
        total,
        [&] {
          const std::vector<ibv_wc> wcs = PollNow(pair.a.send_cq);
          for (const ibv_wc& wc : wcs) {
            if (wc.status != IBV_WC_SUCCESS && problem.empty()) {
              problem = std::string("status ") + ibv_wc_status_str(wc.status);
            }
            ids.push_back(wc.wr_id);
          }
          room.Give(static_cast<int>(wcs.size()));
          return wcs.size();
        },
        [&] { return !problem.empty(); });
    posters.Join();
    if (!problem.empty()) return problem;
    if (ids.size() != total) {
      return std::to_string(ids.size()) + " completions of " + std::to_string(total);
    }
    // Each thread's ids come in its order; a region's triple is never split.
    std::vector<uint64_t> next(threads + 1, 0);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const int t = static_cast<int>(ids[i] >> 48);
      if (t < 1 || t > threads) return "unknown id " + std::to_string(ids[i]);
      const uint64_t expected = TripleId(t, static_cast<int>(next[t] / 3), next[t] % 3);
      if (ids[i] != expected) return "thread " + std::to_string(t) + ": a completion out of order";
      ++next[t];
      const bool region = !(by_list_in_last && t == threads);
      if (region && (ids[i] & 3) != 0 && ids[i - 1] != ids[i] - 1) {
        return "a region of thread " + std::to_string(t) + " was split";
      }
    }
    return "";
  }
};

QPX_TEST(Conc, RegionsExcludeEachOther, "WR-CONC-001") {
  Pair& pair = RcPair(kDeep);
  std::string problem = StartWaits(pair);
  if (problem.empty()) problem = Triples(pair, 3, Repetitions(100000), false);
  EXPECT_CLAUSE("WR-CONC-001", problem.empty()) << problem;
}

QPX_TEST(Conc, PostSendStaysOutsideRegions, "WR-CONC-002") {
  Pair& pair = RcPair(kDeep);
  // One region while there is room: a builder that meets a full queue before any other is a matter
  // of WR-CAP-002, and of luck here.
  ASSERT_CLAUSE("WR-CONC-002", Post(pair.a, Write(bed().Mem(256), 1)) == 0);
  ASSERT_CLAUSE("WR-CONC-002", Await(pair.a.send_cq, 1).size() == 1);
  const std::string problem = Triples(pair, 2, Repetitions(100000), true);
  EXPECT_CLAUSE("WR-CONC-002", problem.empty()) << problem;
}

QPX_TEST(Conc, AQpWithAThreadDomainWorks, "WR-CONC-003") {
  ibv_pd* pd = ParentDomain(ThreadDomain());
  PairOptions options;
  options.pd = pd;
  options.inline_data = 16;
  for (const Op op : {Op::kSend, Op::kSendImm, Op::kWrite, Op::kWriteImm, Op::kRead, Op::kCmpSwp,
                      Op::kFetchAdd}) {
    options.ops = Info(op).bit;
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    uint64_t id = 1;
    for (const Setter setter : SettersOf(op)) {
      if (IsInline(setter) && pair.a.cap.max_inline_data < 8) continue;
      // Past the ring's end, with an abort between.
      for (int i = 0; i < 20; ++i) {
        ibv_wr_start(pair.a.ex);
        ibv_wr_abort(pair.a.ex);
        const std::string problem = traffic.Run(traffic.Make(op, id++, Shape{setter, 8, 1}));
        ASSERT_CLAUSE("WR-CONC-003", problem.empty())
            << Info(op).name << " by " << Name(setter) << ": " << problem;
      }
    }
  }
}

QPX_TEST(Conc, TwoThreadsInOneRegionAreReported, "WR-CONC-004") {
  ibv_pd* pd = ParentDomain(ThreadDomain());
  PairOptions options;
  options.pd = pd;
  Pair& pair = bed().Connect(options);
  ReferenceOnly();
  ibv_wr_start(pair.a.ex);
  std::thread other([&] {
    ibv_wr_send(pair.a.ex);  // the region belongs to the first thread
  });
  other.join();
  ibv_wr_abort(pair.a.ex);
  EXPECT_CLAUSE("WR-CONC-004", Linted("WR-CONC-004"));
}

QPX_TEST(Conc, ThreadsOnTheirOwnQpsNeverDeadlock, "WR-CONC-005") {
  // Threads that are stuck can only be ended with their process.
  const ChildResult child = RunInChild(120, [](Bed& bed) -> std::string {
    ibv_cq* shared = bed.Cq(2048);
    PairOptions options;
    options.ops = Bits({Op::kWrite});
    options.send_wr = kDeep;
    options.send_cq = shared;
    Pair& one = bed.Connect(options);
    Pair& two = bed.Connect(options);
    Memory& memory = bed.Mem(256);
    const int rounds = Repetitions(100000);
    Room room(shared->cqe);
    Posters posters;
    for (Pair* pair : {&one, &two}) {
      posters.Start([&, pair] {
        std::vector<Wr> wrs(3, Write(memory, 0));
        for (int i = 0; i < 3; ++i) wrs[i].id = static_cast<uint64_t>(i);
        for (int round = 0; round < rounds && !posters.stopped(); ++round) {
          while (!room.Take(3) && !posters.stopped()) Pause();
          while (Post(pair->a, wrs) != 0 && !posters.stopped()) Pause();
        }
      });
    }
    const std::size_t total = static_cast<std::size_t>(rounds) * 6;
    const std::size_t seen = PollAll(
        total,
        [&] {
          const std::size_t got = PollNow(shared).size();
          if (got != 0) ChildAdvances();
          room.Give(static_cast<int>(got));
          return got;
        },
        [] { return false; });
    posters.Join();
    if (seen == total) return "";
    return std::to_string(seen) + " completions of " + std::to_string(total);
  });
  EXPECT_CLAUSE("WR-CONC-005", child.end == ChildResult::End::kReturned && child.text.empty())
      << "two threads on their own QPs: " << child.text;
}

QPX_TEST(Conc, APolledSlotIsFreeForThePoster, "WR-CONC-006") {
  // The poster is always at the limit; each time it must wait there costs a change of threads.
  Pair& pair = RcPair(128);
  Memory& memory = bed().Mem(256);
  const uint64_t count = static_cast<uint64_t>(Repetitions(1000000));
  const uint64_t cap = pair.a.cap.max_send_wr;
  std::atomic<uint64_t> counted{0};
  std::atomic<bool> refused{false};
  Posters poster;
  poster.Start([&] {
    Wr wr = Write(memory, 0);
    while (wr.id < count && !poster.stopped()) {
      if (wr.id - counted.load(std::memory_order_acquire) >= cap) {
        Pause();
        continue;
      }
      if (Post(pair.a, wr) != 0) {
        refused = true;
        break;
      }
      ++wr.id;
    }
  });
  const std::size_t seen = PollAll(
      count,
      [&] {
        const std::size_t got = PollNow(pair.a.send_cq).size();
        counted.fetch_add(got, std::memory_order_release);
        return got;
      },
      [&] { return refused.load(); });
  poster.Join();
  EXPECT_CLAUSE("WR-CONC-006", !refused)
      << "refused although fewer than " << cap << " requests were unpolled";
  EXPECT_CLAUSE("WR-CONC-006", refused || seen == count)
      << seen << " of " << count << " completions";
}

QPX_TEST(Conc, FlagsWrittenByAnotherThreadAreReported, "WR-CONC-007") {
  Pair& pair = RcPair(16);
  Memory& memory = bed().Mem(256);
  ReferenceOnly();
  ibv_wr_start(pair.a.ex);
  pair.a.ex->wr_id = 1;
  pair.a.ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(pair.a.ex, memory.rkey(), memory.address(64));
  // The other thread writes the members and leaves: no race in time, but not its region.
  std::thread other([&] {
    pair.a.ex->wr_flags = 0;
    ibv_wr_set_sge(pair.a.ex, memory.lkey(), memory.address(), 8);
  });
  other.join();
  ibv_wr_abort(pair.a.ex);
  EXPECT_CLAUSE("WR-CONC-007", Linted("WR-CONC-007"));
}

QPX_TEST(Conc, AParentDomainIsItsPd, "WR-CONC-008") {
  for (const bool with_td : {false, true}) {
    ibv_pd* parent = ParentDomain(with_td ? ThreadDomain() : nullptr);
    // The QPs on one, the memory on the other, both ways.
    for (const bool qp_on_parent : {true, false}) {
      PairOptions options;
      options.ops = Bits({Op::kSend, Op::kWrite, Op::kRead});
      options.pd = qp_on_parent ? parent : bed().pd();
      Pair& pair = bed().Connect(options);
      ibv_pd* memory_pd = qp_on_parent ? bed().pd() : parent;
      Memory& local = bed().Mem(256, kAllAccess, memory_pd);
      Memory& remote = bed().Mem(256, kAllAccess, memory_pd);
      for (const Op op : {Op::kSend, Op::kWrite, Op::kRead}) {
        if (op == Op::kSend) {
          ASSERT_CLAUSE("WR-CONC-008", PostRecv(pair.b, 1, {remote.sge(128, 64)}) == 0);
        }
        Wr wr;
        wr.op = op;
        wr.id = 1;
        wr.sge = {local.sge(0, 64)};
        wr.rkey = remote.rkey();
        wr.remote = remote.address();
        ASSERT_CLAUSE("WR-CONC-008", Post(pair.a, wr) == 0);
        const std::string differs = Differs(Await(pair.a.send_cq, 1), {1});
        EXPECT_CLAUSE("WR-CONC-008", differs.empty())
            << Info(op).name << (with_td ? ", td" : ", no td")
            << (qp_on_parent ? ", QP on the parent domain: " : ", memory on the parent domain: ")
            << differs;
      }
      EXPECT_CLAUSE("WR-CONC-008", Await(pair.b.recv_cq, 1).size() == 1);
    }
  }
}

QPX_TEST(Conc, WithoutThreadDomainAParentDomainLocks, "WR-CONC-009") {
  Pair& pair = RcPair(kDeep, ParentDomain(nullptr));
  std::string problem = StartWaits(pair);
  if (problem.empty()) problem = Triples(pair, 3, Repetitions(100000), false);
  EXPECT_CLAUSE("WR-CONC-009", problem.empty()) << problem;
}

}  // namespace
}  // namespace qpexam::conformance
