// Every interleaving of start, builders, complete, abort, poll, modify and destroy over two and
// three threads, up to a number of switches: what no stress test is sure to meet. Each test says
// how many it ran (property "interleavings"); a failure prints its history.
#include <algorithm>
#include <memory>

#include "reference/model/faults.h"
#include "reference/model/interleave.h"
#include "reference/provider/testing.h"

namespace qpexam::provider {
namespace {

using model::Fault;
using model::FaultSwitch;
using model::Interleavings;
using Step = Interleavings::Step;

class InterleavingTest : public VerbsTest {
 protected:
  static constexpr uint64_t kOps = IBV_QP_EX_WITH_RDMA_WRITE;

  void TearDown() override {
    FaultSwitch::Set(Fault::kNone);
    a_.reset();
    b_.reset();
    VerbsTest::TearDown();
  }

  // A fresh pair; what the last interleaving left in the CQ is gone.
  void Fresh() {
    a_.reset();
    b_.reset();
    Drain();
    wcs_.clear();
    QpWish wish;
    wish.ops = kOps;
    wish.sq = wish.rq = 32;
    a_ = CreateQp(wish);
    b_ = CreateQp(wish);
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    Connect(a_.get(), b_.get());
    rc_.assign(4, -1);
  }
  void Drain() {
    ibv_wc wc[16];
    for (int got; (got = ibv_poll_cq(cq_.get(), 16, wc)) > 0;)
      wcs_.insert(wcs_.end(), wc, wc + got);
  }

  // The steps of a region of `count` WRITEs with ids thread * 16, +1, ...
  std::vector<Step> Region(size_t thread, uint64_t count, bool abort = false) {
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(a_.get());
    std::vector<Step> steps = {{"start", [ex] { ibv_wr_start(ex); }}};
    for (uint64_t i = 0; i < count; ++i) {
      steps.push_back({"rdma_write " + std::to_string(i), [=] {
                         ex->wr_id = thread * 16 + i;
                         ex->wr_flags = IBV_SEND_SIGNALED;
                         ibv_wr_rdma_write(ex, mr_->rkey, RemoteAt(4096 + 8 * i));
                         ibv_wr_set_sge(ex, mr_->lkey, RemoteAt(8 * i), 8);
                       }});
    }
    if (abort) {
      steps.push_back({"abort", [=] { ibv_wr_abort(ex), rc_[thread] = 0; }});
    } else {
      steps.push_back({"complete", [=] { rc_[thread] = ibv_wr_complete(ex); }});
    }
    return steps;
  }
  std::string Ids() const {
    std::string ids;
    for (const ibv_wc& wc : wcs_)
      ids += " " + std::to_string(wc.wr_id) + (wc.status == IBV_WC_SUCCESS ? "" : "!");
    return ids;
  }
  // WR-CONC-001: each thread's region is whole and in order, and nothing else is there.
  std::string Whole(const std::vector<std::pair<size_t, uint64_t>>& regions) {
    Drain();
    size_t all = 0;
    for (const auto& [thread, count] : regions) {
      if (rc_[thread] != 0) {
        return "thread " + std::to_string(thread) + ": complete returned " +
               std::to_string(rc_[thread]);
      }
      all += count;
      const uint64_t first_id = thread * 16;
      const auto first = std::find_if(wcs_.begin(), wcs_.end(),
                                      [&](const ibv_wc& wc) { return wc.wr_id == first_id; });
      for (uint64_t i = 0; i < count; ++i) {
        if (static_cast<uint64_t>(wcs_.end() - first) <= i || first[i].wr_id != first_id + i ||
            first[i].status != IBV_WC_SUCCESS)
          return "the region of thread " + std::to_string(thread) + " is not whole:" + Ids();
      }
    }
    return wcs_.size() == all ? "" : "more completions than requests:" + Ids();
  }
  std::string Explore(unsigned switches, const std::function<Interleavings::Program()>& make) {
    Interleavings all(switches);
    std::string found = all.Explore(make);
    runs_ = all.runs();
    RecordProperty("interleavings", static_cast<int>(runs_));
    return found;
  }
  Interleavings::Program TwoRegions() {
    Fresh();
    Interleavings::Program program;
    program.threads = {Region(0, 2), Region(1, 2)};
    program.check = [this] { return Whole({{0, 2}, {1, 2}}); };
    return program;
  }

  QpPtr a_, b_;
  std::vector<int> rc_;
  std::vector<ibv_wc> wcs_;
  unsigned runs_ = 0;
};

TEST_F(InterleavingTest, TwoRegionsExcludeEachOther) {  // WR-CONC-001
  EXPECT_EQ(Explore(4, [&] { return TwoRegions(); }), "");
  EXPECT_GT(runs_, 10u);
}

TEST_F(InterleavingTest, ThreeRegionsExcludeEachOther) {
  EXPECT_EQ(Explore(2,
                    [&] {
                      Fresh();
                      Interleavings::Program program;
                      program.threads = {Region(0, 1), Region(1, 2), Region(2, 1)};
                      program.check = [this] { return Whole({{0, 1}, {1, 2}, {2, 1}}); };
                      return program;
                    }),
            "");
  EXPECT_GT(runs_, 50u);
}

TEST_F(InterleavingTest, AnAbortedRegionLeavesNoTrace) {  // WR-ATOM-001
  EXPECT_EQ(Explore(4,
                    [&] {
                      Fresh();
                      Interleavings::Program program;
                      program.threads = {Region(0, 2), Region(1, 2, true)};
                      program.check = [this] { return Whole({{0, 2}}); };
                      return program;
                    }),
            "");
}

TEST_F(InterleavingTest, PollingGoesOnBesideRegions) {
  EXPECT_EQ(Explore(2,
                    [&] {
                      Fresh();
                      Interleavings::Program program;
                      const Step poll = {"poll", [this] { Drain(); }};
                      program.threads = {Region(0, 2), Region(1, 1), {poll, poll}};
                      program.check = [this] { return Whole({{0, 2}, {1, 1}}); };
                      return program;
                    }),
            "");
}

// To ERR from beside: a region that complete took completes once, carried out or flushed; one that
// it refused leaves nothing.
TEST_F(InterleavingTest, ModifyBesideARegion) {
  EXPECT_EQ(Explore(4,
                    [&] {
                      Fresh();
                      Interleavings::Program program;
                      program.threads = {Region(0, 2), {{"modify to ERR", [this] {
                                                           ibv_qp_attr attr = {};
                                                           attr.qp_state = IBV_QPS_ERR;
                                                           rc_[1] = ibv_modify_qp(a_.get(), &attr,
                                                                                  IBV_QP_STATE);
                                                         }}}};
                      program.check = [this]() -> std::string {
                        Drain();
                        if (rc_[1] != 0) return "modify returned " + std::to_string(rc_[1]);
                        if (wcs_.size() != (rc_[0] == 0 ? 2u : 0u))
                          return "complete returned " + std::to_string(rc_[0]) + ", seen:" + Ids();
                        for (const ibv_wc& wc : wcs_) {
                          if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR)
                            return "status " + std::to_string(wc.status);
                        }
                        return "";
                      };
                      return program;
                    }),
            "");
}

// Another queue pair goes away: this one's region is untouched.
TEST_F(InterleavingTest, DestroyOfAnotherQueuePair) {
  EXPECT_EQ(Explore(4,
                    [&] {
                      Fresh();
                      QpWish wish;
                      wish.ops = kOps;
                      auto other = std::make_shared<QpPtr>(CreateQp(wish));
                      Interleavings::Program program;
                      program.threads = {Region(0, 2), {{"destroy", [other] { other->reset(); }}}};
                      program.check = [this] { return Whole({{0, 2}}); };
                      return program;
                    }),
            "");
}

// A region that takes no lock: one thread after the other is fine, and only an interleaving shows
// it.
TEST_F(InterleavingTest, AMissingLockIsFoundWithItsHistory) {
  FaultSwitch::Set(Fault::kRegionNotLocked);
  EXPECT_EQ(Explore(0, [&] { return TwoRegions(); }), "");
  const std::string found = Explore(1, [&] { return TwoRegions(); });
  EXPECT_NE(found, "");
  EXPECT_NE(found.find("  thread 1: start\n"), std::string::npos) << found;
  EXPECT_NE(found.find("  thread 2: start\n"), std::string::npos) << found;
  EXPECT_EQ(found, Explore(1, [&] { return TwoRegions(); })) << "the same history every time";
}

// Two queue pairs locked crosswise: a deadlock, which is found and reported with its history.
TEST_F(InterleavingTest, ADeadlockIsReported) {
  const auto make = [&] {
    Fresh();
    Interleavings::Program program;
    const auto crosswise = [](ibv_qp* first, ibv_qp* second) -> std::vector<Step> {
      ibv_qp_ex *one = ibv_qp_to_qp_ex(first), *two = ibv_qp_to_qp_ex(second);
      return {{"start the first", [one] { ibv_wr_start(one); }},
              {"start the second",
               [one, two] {
                 try {
                   ibv_wr_start(two);
                 } catch (...) {  // the exploration gives this thread up
                   ibv_wr_abort(one);
                   throw;
                 }
               }},
              {"abort both", [one, two] { ibv_wr_abort(two), ibv_wr_abort(one); }}};
    };
    program.threads = {crosswise(a_.get(), b_.get()), crosswise(b_.get(), a_.get())};
    program.check = [] { return std::string(); };
    return program;
  };
  EXPECT_EQ(Explore(0, make), "");
  const std::string found = Explore(1, make);
  EXPECT_EQ(found.rfind("deadlock", 0), 0u) << found;
  EXPECT_NE(found.find("thread 2: start the second waits"), std::string::npos) << found;
}

}  // namespace
}  // namespace qpexam::provider
