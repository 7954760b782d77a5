// ATOM: all or nothing. Abort, failed complete, and that neither leaves anything behind.

#include <atomic>
#include <memory>
#include <optional>
#include <random>
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

class Atom : public Conformance {
 protected:
  // All that RC offers on this device.
  PairOptions Everything() {
    PairOptions options;
    for (const Op op : OpsOf(Transport::kRc)) {
      if (!facts().Has(op)) continue;
      PairOptions probe;
      probe.ops = Info(op).bit;
      ibv_qp_init_attr_ex attr = RequesterAttr(bed(), probe, cq(), cq());
      if (ibv_qp* qp = bed().TryQp(&attr); qp != nullptr) {
        options.ops |= Info(op).bit;
        bed().Destroy(qp);
      }
    }
    options.send_wr = 32;
    return options;
  }

 private:
  ibv_cq* cq() {
    if (cq_ == nullptr) cq_ = bed().Cq(64);
    return cq_;
  }
  ibv_cq* cq_ = nullptr;
};

QPX_TEST(Atom, AbortDiscardsEverything, "WR-ATOM-001") {
  Pair& pair = bed().Connect(Everything());
  Traffic traffic(bed(), pair);
  std::vector<Flight> flights;
  std::vector<Wr> wrs;
  for (const Op op : traffic.Ops()) {
    flights.push_back(traffic.Make(op, 100 + flights.size(), {}, WithReceive::kNo));
    wrs.push_back(flights.back().wr);
  }
  PostAndAbort(pair.a, wrs);
  const std::vector<ibv_wc> wcs = Quiet({pair.a.send_cq, pair.b.recv_cq});
  EXPECT_CLAUSE("WR-ATOM-001", wcs.empty()) << "after an abort: " << Describe(wcs);
  for (const Flight& flight : flights) {
    const std::string touched = traffic.CheckUntouched(flight);
    EXPECT_CLAUSE("WR-ATOM-001", touched.empty()) << touched;
  }
  // An aborted invalidation left its window bound, an aborted bind left its window free.
  for (const Flight& flight : flights) {
    if (flight.wr.op != Op::kLocalInv && flight.wr.op != Op::kBindMw) continue;
    const int error = Post(pair.a, flight.wr);
    const std::string problem = Differs(Await(pair.a.send_cq, 1), {flight.wr.id});
    ASSERT_CLAUSE("WR-ATOM-001", error == 0 && problem.empty())
        << Info(flight.wr.op).name << " that was aborted before: " << problem;
  }
}

enum class Place { kFirst, kMiddle, kLast };
struct BadAt {
  Bad bad;
  Place place;
};
std::string ParamName(const BadAt& at) {
  const char* names[] = {"first", "middle", "last"};
  return std::string(Name(at.bad)) + "_" + names[static_cast<int>(at.place)];
}
std::vector<BadAt> Places() {
  std::vector<BadAt> out;
  for (const Bad bad : AllBad()) {
    for (const Place place : {Place::kFirst, Place::kMiddle, Place::kLast}) {
      out.push_back({bad, place});
    }
  }
  return out;
}

// Good requests around a bad one at `place`.
struct MixedRegion {
  std::vector<Flight> good;
  std::vector<Wr> wrs;
};
MixedRegion MakeMixed(Pair& pair, Traffic& traffic, const BadAt& at) {
  MixedRegion region;
  auto add_good = [&](std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const Op op = i % 2 == 0 ? Op::kWrite : Op::kSend;
      region.good.push_back(traffic.Make(op, 200 + region.good.size(), {}, WithReceive::kNo));
      region.wrs.push_back(region.good.back().wr);
    }
  };
  const std::size_t before = at.place == Place::kFirst ? 0 : at.place == Place::kMiddle ? 2 : 4;
  add_good(before);
  const std::vector<Wr> bad = MakeBad(at.bad, pair, traffic, 1000);
  region.wrs.insert(region.wrs.end(), bad.begin(), bad.end());
  add_good(4 - before);
  return region;
}

QPX_TEST_P(Atom, OneBadRequestDiscardsTheRegion, Places(), "WR-ATOM-002", "WR-ATOM-003") {
  PairOptions options;
  NeedsRefusal(bed(), param.bad, options);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 256);
  // At every offset of the ring.
  for (uint32_t offset = 0; offset <= pair.a.cap.max_send_wr && offset < 64; ++offset) {
    const MixedRegion region = MakeMixed(pair, traffic, param);
    const int error = Post(pair.a, region.wrs);
    ASSERT_CLAUSE("WR-ATOM-002", error != 0) << "the region was accepted at offset " << offset;
    EXPECT_SHOULD("WR-ATOM-003", error > 0) << "complete returned " << error;
    // The next good region's completion is the first to come.
    const Flight next = traffic.Make(Op::kSend, 1);
    const std::string problem = traffic.Run(next);
    ASSERT_CLAUSE("WR-ATOM-002", problem.empty())
        << "offset " << offset << ", the next region: " << problem;
    for (const Flight& flight : region.good) {
      const std::string touched = traffic.CheckUntouched(flight);
      ASSERT_CLAUSE("WR-ATOM-002", touched.empty()) << "offset " << offset << ": " << touched;
    }
  }
}

QPX_TEST_P(Atom, FailureIsNonZeroAndPositive, AllBad(), "WR-ATOM-003") {
  PairOptions options;
  NeedsRefusal(bed(), param, options);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const int error = PostBad(param, pair, traffic, 1000);
  EXPECT_CLAUSE("WR-ATOM-003", error != 0);
  EXPECT_SHOULD("WR-ATOM-003", error > 0) << "complete returned " << error;
  const Flight good = traffic.Make(Op::kWrite, 1);
  const int success = Post(pair.a, good.wr);
  EXPECT_CLAUSE("WR-ATOM-003", success == 0) << "a good region returned " << success;
  Await(pair.a.send_cq, 1);
}

QPX_TEST_P(Atom, AFailedRegionLeavesLaterOnesAlone, AllBad(), "WR-ATOM-004") {
  PairOptions options;
  NeedsRefusal(bed(), param, options);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 256);
  for (uint64_t round = 1; round <= static_cast<uint64_t>(Repetitions(1000)); ++round) {
    ASSERT_CLAUSE("WR-ATOM-004", PostBad(param, pair, traffic, 100000) != 0);
    const std::string problem =
        traffic.Run(traffic.Make(round % 2 == 0 ? Op::kWrite : Op::kSend, round));
    ASSERT_CLAUSE("WR-ATOM-004", problem.empty()) << "round " << round << ": " << problem;
  }
}

QPX_TEST(Atom, TheFirstErrorIsReported, "WR-ATOM-005") {
  PairOptions options;
  const std::vector<Bad> kinds = RefusedKinds(bed(), options);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 256);
  bool told_apart = false;
  for (const Bad first : kinds) {
    for (const Bad second : kinds) {
      const int alone = PostBad(first, pair, traffic, 1000);
      if (alone == PostBad(second, pair, traffic, 1000)) continue;
      told_apart = true;
      std::vector<Wr> region = MakeBad(first, pair, traffic, 1000);
      const std::vector<Wr> more = MakeBad(second, pair, traffic, 3000);
      region.insert(region.end(), more.begin(), more.end());
      const int error = Post(pair.a, region);
      EXPECT_CLAUSE("WR-ATOM-005", error == alone)
          << Name(first) << " alone gives " << alone << ", followed by " << Name(second)
          << " it gives " << error;
    }
  }
  if (!told_apart) throw NotApplicable{"all kinds of error give the same value here"};
}

QPX_TEST(Atom, WhatFailedBeforeRtsNeverExecutes, "WR-ATOM-006") {
  PairOptions options;
  options.stop_at = IBV_QPS_INIT;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const Flight early = traffic.Make(Op::kWrite, 1, {}, WithReceive::kNo);
  if (Post(pair.a, early.wr) == 0) {
    ModifyState(pair.a.qp, IBV_QPS_ERR);
    Await(pair.a.send_cq, 1, 1s);
    throw NotApplicable{"a request in INIT is accepted (WR-STATE-001 judges that)"};
  }
  // From INIT on: the states that are left.
  for (End* end : {&pair.a, &pair.b}) {
    if (ModifyState(end->qp, IBV_QPS_RESET) != 0) throw SetUpFailed{"RESET was refused"};
  }
  BringUp(bed(), pair, IBV_QPS_RTS);
  const std::string problem = traffic.Run(traffic.Make(Op::kSend, 2));
  EXPECT_CLAUSE("WR-ATOM-006", problem.empty()) << problem;
  const std::string touched = traffic.CheckUntouched(early);
  EXPECT_CLAUSE("WR-ATOM-006", touched.empty()) << touched;
}

// The same without the RESET between, which could hide what was left in the ring.
QPX_TEST(Atom, WhatFailedInInitNeverExecutes, "WR-ATOM-006") {
  PairOptions options;
  options.stop_at = IBV_QPS_RESET;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const Flight early = traffic.Make(Op::kWrite, 1, {}, WithReceive::kNo);
  if (BringUp(bed(), pair.options, pair.a, false, pair.a.peer_qpn, IBV_QPS_INIT) != 0) {
    throw SetUpFailed{"INIT was refused"};
  }
  if (Post(pair.a, early.wr) == 0) {
    throw NotApplicable{"a request in INIT is accepted (WR-STATE-001 judges that)"};
  }
  // INIT -> INIT is a legal transition: bringing it up goes through it.
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.ah_attr = bed().Path();
  attr.path_mtu = pair.options.mtu;
  attr.dest_qp_num = pair.a.peer_qpn;
  attr.rq_psn = pair.options.psn;
  attr.max_dest_rd_atomic = pair.options.rd_atomic;
  attr.min_rnr_timer = pair.options.min_rnr_timer;
  int error = ibv_modify_qp(pair.a.qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = pair.options.psn;
  attr.timeout = pair.options.timeout;
  attr.retry_cnt = pair.options.retry_cnt;
  attr.rnr_retry = pair.options.rnr_retry;
  attr.max_rd_atomic = pair.options.rd_atomic;
  if (error == 0) {
    error = ibv_modify_qp(pair.a.qp, &attr,
                          IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                              IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error == 0) {
    error = BringUp(bed(), pair.options, pair.b, true, pair.b.peer_qpn, IBV_QPS_RTS);
  }
  if (error != 0) throw SetUpFailed{"the pair could not be brought to RTS"};
  const std::string problem = traffic.Run(traffic.Make(Op::kSend, 2));
  EXPECT_CLAUSE("WR-ATOM-006", problem.empty()) << problem;
  const std::string touched = traffic.CheckUntouched(early);
  EXPECT_CLAUSE("WR-ATOM-006", touched.empty()) << touched;
}

QPX_TEST_P(Atom, EveryAcceptedRequestEnds, (std::vector<int>{1, 2, 3}), "WR-ATOM-007") {
  std::mt19937 random(static_cast<unsigned>(param));
  PairOptions options;
  options.ops = Bits({Op::kSend, Op::kWrite, Op::kRead});
  const std::vector<Bad> kinds = RefusedKinds(bed(), options);
  int left = Repetitions(100000);
  Pair* current = nullptr;
  std::unique_ptr<Traffic> its_traffic;
  for (int life = 0; left > 0; ++life) {
    // Some lives begin with a QP's creation, the others with its RESET.
    if (life % 16 == 0) {
      current = &bed().Connect(options);
      its_traffic = std::make_unique<Traffic>(bed(), *current, 64);
    } else {
      Reset(*current);
      BringUp(bed(), *current, IBV_QPS_RTS);
    }
    Pair& pair = *current;
    Traffic& traffic = *its_traffic;
    uint64_t id = 1;
    std::vector<uint64_t> accepted;
    std::size_t unpolled = 0;
    // One life: regions good and refused, then one request with an unknown key ends it.
    for (int region = 0; region < 40; ++region) {
      const std::size_t n = 1 + random() % 4;
      std::vector<Wr> wrs;
      const bool bad = random() % 3 == 0;
      for (std::size_t i = 0; i < n; ++i) {
        const Op op = random() % 2 == 0 ? Op::kWrite : Op::kRead;
        wrs.push_back(traffic.Make(op, id++).wr);
      }
      if (bad) {
        const std::vector<Wr> more = MakeBad(kinds[random() % kinds.size()], pair, traffic, id);
        wrs.insert(wrs.begin() + static_cast<long>(random() % (wrs.size() + 1)), more.begin(),
                   more.end());
        id += more.size();
      }
      if (region == 39) wrs.back().rkey ^= 0x5a;
      if (Post(pair.a, wrs) == 0) {
        for (const Wr& wr : wrs) accepted.push_back(wr.id);
        unpolled += wrs.size();
      }
      if (unpolled + 5 > pair.a.cap.max_send_wr) {
        const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, unpolled);
        ASSERT_CLAUSE("WR-ATOM-007", wcs.size() == unpolled)
            << unpolled << " requests were accepted, " << wcs.size() << " completions came";
        unpolled = 0;
      }
      left -= static_cast<int>(n);
    }
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, unpolled);
    ASSERT_CLAUSE("WR-ATOM-007", wcs.size() == unpolled)
        << unpolled << " requests were accepted, " << wcs.size() << " completions came";
  }
}

QPX_TEST_P(Atom, WhereAMistakeIsFound, AllBad(), "WR-ATOM-008") {
  PairOptions options;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 256);
  Record& record = Record::Current();
  if (PostBad(param, pair, traffic, 1) != 0) {
    record.Variation("WR-ATOM-008", std::string(Name(param)) + " is found at complete");
    return;
  }
  if (param == Bad::kFull) {
    const std::size_t n = 4 * pair.a.cap.max_send_wr + 64;
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, n);
    EXPECT_CLAUSE("WR-ATOM-008", wcs.size() == n)
        << "a region of " << n << " was accepted and is not carried out whole";
    record.Variation("WR-ATOM-008", "the queue is deeper than the suites probe");
    return;
  }
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-ATOM-008", wcs.size() == 1) << "accepted, and no completion";
  // A short SUCCESS is judged by WR-SGE-003 and WR-INL-005.
  record.Variation("WR-ATOM-008", std::string(Name(param)) + (wcs[0].status == IBV_WC_SUCCESS
                                                                  ? " is carried out"
                                                                  : " is found in the completion"));
}

QPX_TEST(Atom, OneQpsErrorsLeaveAnotherAlone, "WR-ATOM-009") {
  PairOptions options;
  options.ops = Bits({Op::kSend, Op::kWrite, Op::kRead});
  ibv_cq* shared = bed().Cq(8192);
  options.send_cq = shared;
  Pair& good = bed().Connect(options);
  Traffic traffic(bed(), good);
  for (uint64_t round = 1; round <= 12; ++round) {
    Pair& bad = bed().Connect(options);
    Traffic other(bed(), bad);
    Flight broken = other.Make(round % 2 == 0 ? Op::kWrite : Op::kRead, 0xbad00 + round);
    if (round % 3 == 0) {
      broken.wr.sge[0].lkey ^= 0x5a;
    } else {
      broken.wr.rkey ^= 0x5a;
    }
    const Flight one = traffic.Make(Op::kWrite, round * 2),
                 two = traffic.Make(Op::kSend, round * 2 + 1);
    ASSERT_CLAUSE("WR-ATOM-009", Post(good.a, one.wr) == 0);
    const bool posted = Post(bad.a, broken.wr) == 0;
    ASSERT_CLAUSE("WR-ATOM-009", Post(good.a, two.wr) == 0);
    std::vector<ibv_wc> wcs = Await(shared, 2 + (posted ? 1 : 0));
    std::vector<ibv_wc> mine;
    for (const ibv_wc& wc : wcs) {
      if (wc.qp_num == good.a.qp->qp_num) mine.push_back(wc);
    }
    std::string problem = Differs(mine, {one.wr.id, two.wr.id}) + traffic.Check(one);
    problem += Differs(Await(good.b.recv_cq, 1), {two.wr.id}) + traffic.Check(two);
    ASSERT_CLAUSE("WR-ATOM-009", problem.empty()) << "beside a failing QP: " << problem;
  }
}

// Two regions of one thread, on two QPs, built by turns; empty, or what went wrong. Refused:
// nullopt.
std::optional<std::string> BuildByTurns(Bed& bed, Setter setter) {
  PairOptions options;
  options.inline_data = 64;
  Pair& first = bed.Connect(options);
  Pair& second = bed.Connect(options);
  Traffic one(bed, first), two(bed, second);
  std::vector<Flight> of_one, of_two;
  for (uint64_t id = 1; id <= 3; ++id) {
    of_one.push_back(one.Make(Op::kWrite, id, Shape{setter, 40, 1}));
    of_two.push_back(two.Make(Op::kWrite, 10 + id, Shape{setter, 40, 1}));
  }
  ibv_wr_start(first.a.ex);
  ibv_wr_start(second.a.ex);
  for (std::size_t i = 0; i < of_one.size(); ++i) {
    Build(first.a, of_one[i].wr);
    Build(second.a, of_two[i].wr);
  }
  const int error_two = ibv_wr_complete(second.a.ex);
  const int error_one = ibv_wr_complete(first.a.ex);
  if (error_one != 0 || error_two != 0) return std::nullopt;
  return one.Finish(of_one) + two.Finish(of_two);
}

QPX_TEST(Atom, TwoOpenRegionsKeepTheirData, "WR-ATOM-009") {
  // That a thread can hold two regions is only a SHOULD (WR-CRIT-010): tried where it may block.
  const ChildResult tried = RunInChild(20, [](Bed& bed) {
    return BuildByTurns(bed, Setter::kSge).has_value() ? std::string() : "refused";
  });
  if (tried.end != ChildResult::End::kReturned || !tried.text.empty()) {
    throw NotApplicable{"one thread cannot hold two regions: " + tried.text};
  }
  PairOptions options;
  options.inline_data = 64;
  for (const Setter setter : WorkingSetters(bed(), options, Op::kWrite, 40)) {
    const std::optional<std::string> problem = BuildByTurns(bed(), setter);
    EXPECT_CLAUSE("WR-ATOM-009", !problem.has_value() || problem->empty())
        << Name(setter) << ": " << *problem;
  }
}

// Threads below only count; gtest and clauses are for the test's own thread.
QPX_TEST(Atom, EachThreadGetsItsOwnResult, "WR-ATOM-010") {
  PairOptions options;
  options.send_wr = 32;
  const std::vector<Bad> kinds = RefusedKinds(bed(), options);
  const Bad kind = kinds.front();
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 512);
  const std::vector<Wr> bad = MakeBad(kind, pair, traffic, 1000000);
  const Wr good = traffic.Make(Op::kWrite, 1).wr;
  const int rounds = Repetitions(1000000) / 10;
  std::atomic<int> passed_bad{0}, failed_good{0};
  std::thread failing([&] {
    for (int i = 0; i < rounds; ++i) passed_bad += Post(pair.a, bad) == 0;
  });
  int posted = 0;
  std::size_t polled = 0;
  std::vector<ibv_wc> wrong;
  for (int i = 0; i < rounds; ++i) {
    failed_good += Post(pair.a, good) != 0;
    ++posted;
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
    polled += wcs.size();
    for (const ibv_wc& wc : wcs) {
      if (wc.wr_id != 1 || wc.status != IBV_WC_SUCCESS) wrong.push_back(wc);
    }
  }
  failing.join();
  EXPECT_CLAUSE("WR-ATOM-010", passed_bad == 0)
      << passed_bad << " failing regions of " << rounds << " returned 0";
  EXPECT_CLAUSE("WR-ATOM-010", failed_good == 0)
      << failed_good << " good regions of " << rounds << " returned an error";
  EXPECT_CLAUSE("WR-ATOM-010",
                wrong.empty() && polled + failed_good == static_cast<std::size_t>(posted))
      << polled << " completions of " << posted << ", wrong ones: " << Describe(wrong);
}

QPX_TEST(Atom, AFailedRegionLeavesNoIndexBehind, "WR-ATOM-011") {
  PairOptions options;
  options.send_wr = 32;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 256);
  for (uint64_t id = 1; id <= 37; ++id) {
    const std::string problem = traffic.Run(traffic.Make(Op::kWrite, id));
    ASSERT_CLAUSE("WR-ATOM-011", problem.empty()) << "first life: " << problem;
  }
  Reset(pair);
  BringUp(bed(), pair, IBV_QPS_INIT);
  if (Post(pair.a, traffic.Make(Op::kSend, 999, {}, WithReceive::kNo).wr) == 0) {
    throw NotApplicable{"a request in INIT is accepted (WR-STATE-001 judges that)"};
  }
  Reset(pair);
  BringUp(bed(), pair, IBV_QPS_RTS);
  for (uint64_t id = 101; id <= 200; ++id) {
    const std::string problem = traffic.Run(traffic.Make(id % 2 == 0 ? Op::kWrite : Op::kSend, id));
    ASSERT_CLAUSE("WR-ATOM-011", problem.empty()) << "second life: " << problem;
  }
  EXPECT_CLAUSE("WR-ATOM-011", PollNow(pair.a.send_cq).empty());
}

QPX_TEST_P(Atom, AbortClearsTheError, AllBad(), "WR-ATOM-012") {
  PairOptions options;
  NeedsRefusal(bed(), param, options);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 256);
  auto abort_bad = [&] {
    const MixedRegion region = MakeMixed(pair, traffic, {param, Place::kMiddle});
    PostAndAbort(pair.a, region.wrs);
    return region;
  };
  for (uint64_t round = 1; round <= static_cast<uint64_t>(Repetitions(1000)); ++round) {
    MixedRegion region;
    // Now and then the abort is another thread's.
    if (round % 16 == 0) {
      std::thread([&] { region = abort_bad(); }).join();
    } else {
      region = abort_bad();
    }
    const std::string problem = traffic.Run(traffic.Make(Op::kSend, round));
    ASSERT_CLAUSE("WR-ATOM-012", problem.empty())
        << "round " << round << ", the region after the abort: " << problem;
    for (const Flight& flight : region.good) {
      const std::string touched = traffic.CheckUntouched(flight);
      ASSERT_CLAUSE("WR-ATOM-012", touched.empty()) << touched;
    }
  }
}

QPX_TEST_P(Atom, AnErrorStaysOnItsQp, AllBad(), "WR-ATOM-013") {
  PairOptions options;
  NeedsRefusal(bed(), param, options);
  Pair& first = bed().Connect(options);
  Pair& second = bed().Connect(options);
  Traffic one(bed(), first, 256), two(bed(), second, 256);
  for (uint64_t round = 1; round <= static_cast<uint64_t>(Repetitions(1000)); ++round) {
    ASSERT_CLAUSE("WR-ATOM-013", PostBad(param, first, one, 100000) != 0);
    const std::string problem = two.Run(two.Make(Op::kWrite, round));
    ASSERT_CLAUSE("WR-ATOM-013", problem.empty()) << "after an error on another QP: " << problem;
  }
  // The same with a thread for each.
  const std::vector<Wr> bad = MakeBad(param, first, one, 100000);
  std::atomic<bool> stop{false};
  std::atomic<int> accepted{0};
  std::thread failing([&] {
    while (!stop) accepted += Post(first.a, bad) == 0;
  });
  std::string problem;
  for (uint64_t round = 1; problem.empty() && round <= 100; ++round) {
    problem = two.Run(two.Make(Op::kWrite, round));
  }
  stop = true;
  failing.join();
  EXPECT_CLAUSE("WR-ATOM-013", problem.empty()) << "beside a failing thread: " << problem;
  EXPECT_CLAUSE("WR-ATOM-013", accepted == 0)
      << accepted << " failing regions returned 0 beside a good thread";
}

}  // namespace
}  // namespace qpexam::conformance
