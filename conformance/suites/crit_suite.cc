// CRIT: the critical region between start and complete or abort.

#include <cerrno>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/fixture/bad.h"
#include "conformance/fixture/bed.h"
#include "conformance/fixture/isolate.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {
namespace {

class Crit : public Conformance {};

// Opens and closes a region of each QP from another thread; blocks for ever if one was not
// released.
void EnterFromAnotherThread(const std::vector<ibv_qp_ex*>& qps) {
  std::thread([&qps] {
    for (ibv_qp_ex* ex : qps) {
      ibv_wr_start(ex);
      ibv_wr_abort(ex);
    }
  }).join();
}

QPX_TEST(Crit, CompleteAndAbortReleaseTheRegion, "WR-CRIT-002", "WR-CRIT-003") {
  PairOptions options;
  const std::vector<Bad> kinds = RefusedKinds(bed(), options);
  const ChildResult child = RunInChild(60, [&](Bed& bed) -> std::string {
    // A thread costs as much as hundreds of regions, so it enters those of many QPs.
    constexpr int kQps = 16;
    std::vector<Pair*> pairs;
    std::vector<std::unique_ptr<Traffic>> traffic;
    std::vector<ibv_qp_ex*> qps;
    for (int i = 0; i < kQps; ++i) {
      pairs.push_back(&bed.Connect(options));
      traffic.push_back(std::make_unique<Traffic>(bed, *pairs.back()));
      qps.push_back(pairs.back()->a.ex);
    }
    for (int round = 0; round < Repetitions(100000) / 10; round += kQps) {
      ChildAdvances();
      for (ibv_qp_ex* ex : qps) {
        ibv_wr_start(ex);
        ibv_wr_abort(ex);
      }
      EnterFromAnotherThread(qps);
      const uint64_t id = static_cast<uint64_t>(round) + 1;
      for (int i = 0; i < kQps; ++i) {
        const std::string problem = traffic[i]->Run(traffic[i]->Make(Op::kWrite, id));
        if (!problem.empty()) return problem;
      }
      EnterFromAnotherThread(qps);
      for (const Bad bad : kinds) {
        for (int i = 0; i < kQps; ++i) {
          if (PostBad(bad, *pairs[i], *traffic[i], id + 1000000) == 0)
            return "a bad region was accepted";
        }
        EnterFromAnotherThread(qps);
      }
      for (int i = 0; i < kQps; ++i) {
        const std::string problem = traffic[i]->Run(traffic[i]->Make(Op::kWrite, id));
        if (!problem.empty()) return "after a failed region: " + problem;
      }
    }
    return "";
  });
  using End = ChildResult::End;
  EXPECT_CLAUSE("WR-CRIT-002", child.end != End::kCrashed) << child.text;
  EXPECT_CLAUSE("WR-CRIT-002", child.end != End::kHung)
      << "another thread could not enter after complete, abort or a failed complete: "
      << child.text;
  EXPECT_CLAUSE("WR-CRIT-003", child.end == End::kHung || child.text.empty()) << child.text;
}

QPX_TEST_P(Crit, FailedCompleteReleasesTheRegion, AllBad(), "WR-CRIT-003") {
  PairOptions options;
  NeedsRefusal(bed(), param, options);
  const ChildResult child = RunInChild(30, [&](Bed& bed) -> std::string {
    Pair& pair = bed.Connect(options);
    Traffic traffic(bed, pair);
    if (PostBad(param, pair, traffic, 100) == 0) return "the bad region was accepted";
    std::string problem;
    const Flight good = traffic.Make(Op::kWrite, 1);
    std::thread([&] {
      const int error = Post(pair.a, good.wr);
      if (error != 0) problem = "complete returned " + std::to_string(error);
    }).join();
    return problem.empty() ? traffic.Finish({good}) : problem;
  });
  EXPECT_CLAUSE("WR-CRIT-003", child.end == ChildResult::End::kReturned && child.text.empty())
      << "a region of another thread after a failed complete: " << child.text;
}

QPX_TEST(Crit, NothingExecutesBeforeComplete, "WR-CRIT-004") {
  PairOptions options;
  options.ops = Bits({Op::kWrite, Op::kWriteImm});
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const Flight write = traffic.Make(Op::kWrite, 1);
  const Flight with_imm = traffic.Make(Op::kWriteImm, 2);
  ibv_wr_start(pair.a.ex);
  Build(pair.a, write.wr);
  Build(pair.a, with_imm.wr);
  clock().Pass(clock().QuietWindow());
  const std::string early = traffic.CheckUntouched(write) + traffic.CheckUntouched(with_imm);
  const std::vector<ibv_wc> early_receives = PollNow(pair.b.recv_cq);
  const int error = ibv_wr_complete(pair.a.ex);
  EXPECT_CLAUSE("WR-CRIT-004", early.empty()) << "before complete: " << early;
  EXPECT_CLAUSE("WR-CRIT-004", early_receives.empty())
      << "before complete: " << Describe(early_receives);
  ASSERT_CLAUSE("WR-CRIT-004", error == 0) << "complete returned " << error;
  const std::string problem = traffic.Finish({write, with_imm});
  EXPECT_CLAUSE("WR-CRIT-004", problem.empty()) << problem;
}

struct BatchOn {
  Transport transport;
  int size;  // 0: the granted max_send_wr
};
std::string ParamName(const BatchOn& batch) {
  return std::string(Name(batch.transport)) + "_" +
         (batch.size == 0 ? "capacity" : std::to_string(batch.size));
}
std::vector<BatchOn> Batches() {
  std::vector<BatchOn> out;
  for (const Transport transport :
       {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrc}) {
    for (const int size : {1, 2, 3, 7, 0}) out.push_back({transport, size});
  }
  return out;
}

QPX_TEST_P(Crit, RequestsArePostedInBuildOrder, Batches(), "WR-CRIT-005") {
  uint64_t ops = Bits({Op::kSend, Op::kSendImm});
  if (param.transport != Transport::kUd) ops |= Bits({Op::kWrite, Op::kWriteImm});
  if (param.transport == Transport::kRc || param.transport == Transport::kXrc) {
    ops |= Bits({Op::kRead});
  }
  const std::string problem = Persist(param.transport, [&] {
    PairOptions options;
    options.transport = param.transport;
    options.ops = ops;
    // The whole of a queue that is long enough for a region of more than a few cache lines.
    options.send_wr = param.size == 0 ? 64 : 16;
    Pair& pair = bed().Connect(options);
    // One region may be as long as the queue that was granted; the peer's receives as well.
    const std::size_t n = param.size != 0 ? static_cast<std::size_t>(param.size)
                                          : std::min(pair.a.cap.max_send_wr, 64u);
    Traffic traffic(bed(), pair, 64);
    const std::vector<Op> mix = traffic.Ops();
    std::vector<Flight> flights;
    for (std::size_t i = 0; i < n; ++i) {
      flights.push_back(traffic.Make(mix[i % mix.size()], i + 1));
    }
    return traffic.Run(flights);
  });
  EXPECT_CLAUSE("WR-CRIT-005", problem.empty()) << problem;
}

QPX_TEST(Crit, EmptyRegionDoesNothing, "WR-CRIT-006") {
  Pair& pair = bed().Connect({});
  Traffic traffic(bed(), pair);
  for (int i = 0; i < 1000; ++i) {
    ibv_wr_start(pair.a.ex);
    const int error = ibv_wr_complete(pair.a.ex);
    EXPECT_CLAUSE("WR-CRIT-006", error == 0) << "an empty region returned " << error;
  }
  // That a region after it works is not in doubt: WR-ATOM-004 and WR-MIX-006 rest on it too.
  const std::string problem = traffic.Run(traffic.Make(Op::kWrite, 1));
  EXPECT_TRUE(problem.empty()) << "after empty regions: " << problem;
}

QPX_TEST(Crit, AbortedEmptyRegionDoesNothing, "WR-CRIT-007") {
  PairOptions options;
  options.stop_at = IBV_QPS_RESET;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  auto abort_often = [&] {
    for (int i = 0; i < 1000; ++i) {
      ibv_wr_start(pair.a.ex);
      ibv_wr_abort(pair.a.ex);
    }
  };
  abort_often();
  BringUp(bed(), pair, IBV_QPS_RTS);
  abort_often();
  std::string problem = traffic.Run(traffic.Make(Op::kWrite, 1));
  EXPECT_CLAUSE("WR-CRIT-007", problem.empty()) << "after RESET and RTS: " << problem;
  if (ModifyState(pair.a.qp, IBV_QPS_ERR) != 0) throw SetUpFailed{"RTS -> ERR was refused"};
  abort_often();
  Reset(pair);
  BringUp(bed(), pair, IBV_QPS_RTS);
  problem = traffic.Run(traffic.Make(Op::kWrite, 2));
  EXPECT_CLAUSE("WR-CRIT-007", problem.empty()) << "after ERR: " << problem;
}

QPX_TEST(Crit, TwoQpsInOneThread, "WR-CRIT-010") {
  for (const bool shared_cq : {false, true}) {
    const ChildResult child = RunInChild(20, [&](Bed& bed) -> std::string {
      PairOptions options;
      if (shared_cq) options.send_cq = bed.Cq(1024);
      Pair& first = bed.Connect(options);
      Pair& second = bed.Connect(options);
      Traffic one(bed, first), two(bed, second);
      const Flight a = one.Make(Op::kWrite, 1), b = two.Make(Op::kWrite, 2);
      ibv_wr_start(first.a.ex);
      ibv_wr_start(second.a.ex);
      Build(first.a, a.wr);
      Build(second.a, b.wr);
      const int error_b = ibv_wr_complete(second.a.ex);
      const int error_a = ibv_wr_complete(first.a.ex);
      if (error_a != 0 || error_b != 0) return "complete failed";
      if (!shared_cq) return one.Finish({a}) + two.Finish({b});
      return DiffersAsSet(Await(options.send_cq, 2), {1, 2});
    });
    EXPECT_CLAUSE("WR-CRIT-010", child.end == ChildResult::End::kReturned && child.text.empty())
        << (shared_cq ? "one CQ: " : "two CQs: ") << child.text;
  }
}

QPX_TEST(Crit, PollingInsideARegionIsRecorded, "WR-CRIT-010") {
  const ChildResult child = RunInChild(5, [](Bed& bed) -> std::string {
    Pair& pair = bed.Connect({});
    ibv_wr_start(pair.a.ex);
    PollNow(pair.a.send_cq);
    return ibv_wr_complete(pair.a.ex) == 0 ? "" : "complete failed";
  });
  const bool works = child.end == ChildResult::End::kReturned && child.text.empty();
  Record::Current().Note(works ? "the CQ can be polled inside a region"
                               : "polling inside a region: " + child.text);
}

// --- what the caller must not do: the reference detects it -----------------------------------

QPX_TEST(Crit, BuilderOutsideARegion, "WR-CRIT-001") {
  Pair& pair = bed().Connect({});
  Traffic traffic(bed(), pair);
  Build(pair.a, traffic.Make(Op::kWrite, 1).wr);
  EXPECT_CLAUSE("WR-CRIT-001", Linted("WR-CRIT-001"));
  EXPECT_CLAUSE("WR-CRIT-001", Quiet(pair.a.send_cq).empty());
  const std::string problem = traffic.Run(traffic.Make(Op::kWrite, 2));
  EXPECT_CLAUSE("WR-CRIT-001", problem.empty()) << "the next region: " << problem;
}

QPX_TEST(Crit, StartTwice, "WR-CRIT-008") {
  Pair& pair = bed().Connect({});
  ibv_wr_start(pair.a.ex);
  ibv_wr_start(pair.a.ex);
  EXPECT_CLAUSE("WR-CRIT-008", Linted("WR-CRIT-008"));
  ibv_wr_abort(pair.a.ex);
  Traffic traffic(bed(), pair);
  const std::string problem = traffic.Run(traffic.Make(Op::kWrite, 1));
  EXPECT_CLAUSE("WR-CRIT-008", problem.empty()) << "the next region: " << problem;
}

QPX_TEST(Crit, EndWithoutStart, "WR-CRIT-009") {
  Pair& pair = bed().Connect({});
  EXPECT_CLAUSE("WR-CRIT-009", ibv_wr_complete(pair.a.ex) == EINVAL);
  EXPECT_CLAUSE("WR-CRIT-009", Linted("WR-CRIT-009"));
  ibv_wr_abort(pair.a.ex);
  EXPECT_CLAUSE("WR-CRIT-009", Linted("WR-CRIT-009"));
  Traffic traffic(bed(), pair);
  const std::string problem = traffic.Run(traffic.Make(Op::kWrite, 1));
  EXPECT_CLAUSE("WR-CRIT-009", problem.empty()) << "the next region: " << problem;
}

QPX_TEST(Crit, ModifyInsideItsOwnRegion, "WR-CRIT-011") {
  Pair& pair = bed().Connect({});
  Traffic traffic(bed(), pair);
  const Flight flight = traffic.Make(Op::kWrite, 1);
  ibv_wr_start(pair.a.ex);
  Build(pair.a, flight.wr);
  ModifyState(pair.a.qp, IBV_QPS_ERR);
  EXPECT_CLAUSE("WR-CRIT-011", Linted("WR-CRIT-011"));
  ibv_wr_abort(pair.a.ex);
}

QPX_TEST(Crit, QueryInsideItsOwnRegion, "WR-CRIT-011") {
  Pair& pair = bed().Connect({});
  ibv_wr_start(pair.a.ex);
  QueryState(pair.a.qp);
  EXPECT_CLAUSE("WR-CRIT-011", Linted("WR-CRIT-011"));
  ibv_wr_abort(pair.a.ex);
}

QPX_TEST(Crit, ResetWhileARegionIsOpen, "WR-CRIT-012") {
  Pair& pair = bed().Connect({});
  ibv_wr_start(pair.a.ex);
  // By another thread: from the region's own it would be WR-CRIT-011 as well.
  std::thread([&] { ModifyState(pair.a.qp, IBV_QPS_RESET); }).join();
  EXPECT_CLAUSE("WR-CRIT-012", Linted("WR-CRIT-012"));
  ibv_wr_abort(pair.a.ex);
}

QPX_TEST(Crit, DestroyWhileARegionIsOpen, "WR-CRIT-012") {
  Pair& pair = bed().Connect({});
  ibv_qp* qp = pair.a.qp;
  ibv_wr_start(pair.a.ex);
  if (ibv_destroy_qp(qp) == 0) {
    bed().Disown(qp);
  } else {
    ibv_wr_abort(pair.a.ex);
  }
  EXPECT_CLAUSE("WR-CRIT-012", Linted("WR-CRIT-012"));
}

}  // namespace
}  // namespace qpexam::conformance
