// CAP: send-queue capacity and ring wrap.

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "conformance/fixture/bad.h"
#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {
namespace {

class Cap : public Conformance {
 protected:
  // RC, the peer without receives: a first SEND holds up everything behind it (rnr_retry 7).
  static PairOptions Blockable(uint32_t send_wr) {
    PairOptions options;
    options.ops = Bits({Op::kSend, Op::kWrite});
    options.send_wr = send_wr;
    return options;
  }
  // Posts the receive that lets a blocked queue go, polls `ids` and says what differs.
  std::string Release(Pair& pair, Traffic& traffic, const std::vector<uint64_t>& ids) {
    if (PostRecv(pair.b, 1, {traffic.remote().sge(0, 16)}) != 0) {
      throw SetUpFailed{"a receive could not be posted"};
    }
    return Differs(Await(pair.a.send_cq, ids.size(), 20s), ids);
  }
};

std::vector<uint64_t> Count(uint64_t n) {
  std::vector<uint64_t> ids;
  for (uint64_t id = 1; id <= n; ++id) ids.push_back(id);
  return ids;
}

QPX_TEST_P(Cap, TheGrantedDepthCanBeOutstanding, (std::vector<int>{1, 2, 3, 8, 16, 100}),
           "WR-CAP-001") {
  for (const bool one_region : {true, false}) {
    Pair& pair = bed().Connect(Blockable(static_cast<uint32_t>(param)));
    const uint32_t capacity = pair.a.cap.max_send_wr;
    Traffic traffic(bed(), pair, capacity, 64);
    std::vector<Wr> wrs = {traffic.Make(Op::kSend, 1, {}, WithReceive::kNo).wr};
    for (uint64_t id = 2; id <= capacity; ++id) wrs.push_back(traffic.Make(Op::kWrite, id).wr);
    if (one_region) {
      const int error = Post(pair.a, wrs);
      ASSERT_CLAUSE("WR-CAP-001", error == 0)
          << "one region of the granted " << capacity << ": complete returned " << error;
    } else {
      for (const Wr& wr : wrs) {
        const int error = Post(pair.a, wr);
        ASSERT_CLAUSE("WR-CAP-001", error == 0) << "region " << wr.id << " of the granted "
                                                << capacity << ": complete returned " << error;
      }
    }
    const std::string problem = Release(pair, traffic, Count(capacity));
    EXPECT_CLAUSE("WR-CAP-001", problem.empty()) << problem;
  }
}

QPX_TEST(Cap, AFullQueueRefusesWholeRegions, "WR-CAP-002", "WR-CAP-003") {
  Pair& pair = bed().Connect(Blockable(8));
  const uint32_t capacity = pair.a.cap.max_send_wr;
  const uint32_t most = 4 * capacity + 64;
  Traffic traffic(bed(), pair, most + 8, 64);
  std::vector<uint64_t> accepted;
  for (uint64_t id = 1; accepted.size() < most; ++id) {
    const Wr wr = id == 1 ? traffic.Make(Op::kSend, id, {}, WithReceive::kNo).wr
                          : traffic.Make(Op::kWrite, id).wr;
    if (Post(pair.a, wr) != 0) break;
    accepted.push_back(id);
  }
  Record::Current().Variation("WR-CAP-003", std::to_string(accepted.size()) + " accepted of " +
                                                std::to_string(capacity) + " granted");
  if (accepted.size() == most) {
    // What was accepted without a slot would be missing here.
    const std::string lost = Release(pair, traffic, accepted);
    ASSERT_CLAUSE("WR-CAP-002", lost.empty()) << "nothing was refused, and then: " << lost;
    throw NotApplicable{"the queue is deeper than the suites probe"};
  }
  std::vector<Flight> refused;
  for (const std::size_t n : {1, 2, 3}) {
    std::vector<Wr> region;
    for (std::size_t i = 0; i < n; ++i) {
      refused.push_back(traffic.Make(Op::kWrite, 1000 + refused.size()));
      region.push_back(refused.back().wr);
    }
    EXPECT_CLAUSE("WR-CAP-002", Post(pair.a, region) != 0)
        << "a region of " << n << " into a full queue was accepted";
  }
  const std::string problem = Release(pair, traffic, accepted);
  EXPECT_CLAUSE("WR-CAP-002", problem.empty()) << problem;
  for (const Flight& flight : refused) {
    const std::string touched = traffic.CheckUntouched(flight);
    EXPECT_CLAUSE("WR-CAP-002", touched.empty()) << touched;
  }
}

// A region that does not fit although some of its requests would.
QPX_TEST(Cap, ARegionThatFitsHalfIsRefusedWhole, "WR-CAP-002") {
  for (const uint32_t free : {1u, 2u}) {
    Pair& pair = bed().Connect(Blockable(8));
    const uint32_t most = 4 * pair.a.cap.max_send_wr + 64;
    Traffic traffic(bed(), pair, most + 16, 64);
    // The real depth is known from filling the queue once.
    std::vector<uint64_t> accepted;
    for (uint64_t id = 1; accepted.size() < most; ++id) {
      const Wr wr = id == 1 ? traffic.Make(Op::kSend, id, {}, WithReceive::kNo).wr
                            : traffic.Make(Op::kWrite, id).wr;
      if (Post(pair.a, wr) != 0) break;
      accepted.push_back(id);
    }
    if (accepted.size() == most) throw NotApplicable{"the queue is deeper than the suites probe"};
    const std::size_t depth = accepted.size();
    if (std::string problem = Release(pair, traffic, accepted); !problem.empty()) {
      throw SetUpFailed{problem};
    }
    // Now all but `free` slots, then a region of more.
    accepted.clear();
    for (uint64_t id = 1; id <= depth - free; ++id) {
      const Wr wr = id == 1 ? traffic.Make(Op::kSend, id, {}, WithReceive::kNo).wr
                            : traffic.Make(Op::kWrite, id).wr;
      ASSERT_CLAUSE("WR-CAP-002", Post(pair.a, wr) == 0) << "a slot that was free before";
      accepted.push_back(id);
    }
    std::vector<Flight> refused;
    std::vector<Wr> region;
    for (uint64_t i = 0; i <= free; ++i) {
      refused.push_back(traffic.Make(Op::kWrite, 1000 + i));
      region.push_back(refused.back().wr);
    }
    EXPECT_CLAUSE("WR-CAP-002", Post(pair.a, region) != 0)
        << "a region of " << region.size() << " with " << free << " free slots was accepted";
    // The slots that were free still are.
    for (uint64_t i = 0; i < free; ++i) {
      const uint64_t id = depth - free + 1 + i;
      EXPECT_CLAUSE("WR-CAP-002", Post(pair.a, traffic.Make(Op::kWrite, id).wr) == 0)
          << "a refused region took a slot";
      accepted.push_back(id);
    }
    const std::string problem = Release(pair, traffic, accepted);
    EXPECT_CLAUSE("WR-CAP-002", problem.empty()) << problem;
    for (const Flight& flight : refused) {
      const std::string touched = traffic.CheckUntouched(flight);
      EXPECT_CLAUSE("WR-CAP-002", touched.empty()) << touched;
    }
  }
}

QPX_TEST(Cap, APolledCompletionFreesWhatItCovers, "WR-CAP-004") {
  PairOptions options;
  options.send_wr = 8;
  Pair& pair = bed().Connect(options);
  const uint32_t capacity = pair.a.cap.max_send_wr;
  Traffic traffic(bed(), pair, capacity, 64);
  for (int round = 0; round < Repetitions(1000); ++round) {
    for (uint64_t id = 1; id <= capacity; ++id) {
      Wr wr = traffic.Make(Op::kWrite, id).wr;
      wr.flags = id == capacity ? +IBV_SEND_SIGNALED : 0;
      const int error = Post(pair.a, wr);
      if (round == 0 && id == 1 && error != 0) {
        throw NotApplicable{"the device refuses unsignaled requests"};
      }
      ASSERT_CLAUSE("WR-CAP-004", error == 0)
          << "round " << round << ", request " << id << " of " << capacity << ": complete returned "
          << error << " although the last completion was polled";
    }
    const std::string problem = Differs(Await(pair.a.send_cq, 1), {capacity});
    ASSERT_CLAUSE("WR-CAP-004", problem.empty()) << "round " << round << ": " << problem;
  }
}

QPX_TEST(Cap, UnsignaledRequestsAlone, "WR-CAP-005") {
  PairOptions options;
  options.send_wr = 8;
  Pair& pair = bed().Connect(options);
  const uint32_t capacity = pair.a.cap.max_send_wr;
  Traffic traffic(bed(), pair, 64, 64);
  uint32_t accepted = 0;
  for (; accepted < 8 * capacity + 64; ++accepted) {
    Wr wr = traffic.Make(Op::kWrite, accepted + 1).wr;
    wr.flags = 0;
    if (Post(pair.a, wr) != 0) break;
    TheClock().Pass(1ms);
  }
  Record::Current().Variation("WR-CAP-005", accepted > 4 * capacity + 64
                                                ? "slots free themselves"
                                                : "full until a completion is polled");
  // Never a crash, and the peer has what was accepted.
  EXPECT_CLAUSE("WR-CAP-005", accepted >= 1);
}

QPX_TEST_P(Cap, AbortsLeaveCapacityAndRing,
           (std::vector<Setter>{Setter::kSge, Setter::kSgeList, Setter::kInline}), "WR-CAP-006") {
  PairOptions options;
  options.send_wr = 8;
  options.send_sge = 4;
  options.inline_data = 64;
  const Shape shape{param, 48, param == Setter::kSgeList ? 3u : 1u};
  if (!WorksOnce(bed(), options, Op::kWrite, shape)) {
    throw NotApplicable{"not even one such request works: WR-BUILD-001, WR-INL-004"};
  }
  Pair& pair = bed().Connect(options);
  const uint32_t capacity = pair.a.cap.max_send_wr;
  Traffic traffic(bed(), pair, 4 * capacity, 64);
  for (int round = 0; round < Repetitions(100000) / 10; ++round) {
    std::vector<Wr> region;
    for (uint32_t i = 0; i < capacity; ++i) {
      region.push_back(traffic.Make(Op::kWrite, 5000 + i, shape).wr);
    }
    PostAndAbort(pair.a, region);
    // Every offset of the ring gets its turn.
    if (round % 7 == 0) {
      const std::string problem = traffic.Run(traffic.Make(Op::kWrite, 1, shape));
      ASSERT_CLAUSE("WR-CAP-006", problem.empty()) << "after " << round << " aborts: " << problem;
    }
  }
  for (int half = 0; half < 2; ++half) {
    std::vector<Flight> flights;
    for (uint64_t id = 1; id <= capacity; ++id) {
      flights.push_back(traffic.Make(Op::kWrite, id, shape));
    }
    const std::string problem = traffic.Run(flights);
    EXPECT_CLAUSE("WR-CAP-006", problem.empty()) << "a full queue after the aborts: " << problem;
  }
}

QPX_TEST_P(Cap, FailedRegionsLeaveCapacityAndRing, AllBad(), "WR-CAP-006") {
  PairOptions options;
  options.send_wr = 8;
  NeedsRefusal(bed(), param, options);
  Pair& pair = bed().Connect(options);
  const uint32_t capacity = pair.a.cap.max_send_wr;
  Traffic traffic(bed(), pair, 4 * capacity + 80, 64);
  for (int round = 0; round < Repetitions(10000); ++round) {
    ASSERT_CLAUSE("WR-CAP-006", PostBad(param, pair, traffic, 5000) != 0);
    if (round % 7 == 0) {
      const std::string problem = traffic.Run(traffic.Make(Op::kWrite, 1));
      ASSERT_CLAUSE("WR-CAP-006", problem.empty())
          << "after " << round << " failed regions: " << problem;
    }
  }
  std::vector<Flight> flights;
  for (uint64_t id = 1; id <= capacity; ++id) flights.push_back(traffic.Make(Op::kWrite, id));
  const std::string problem = traffic.Run(flights);
  EXPECT_CLAUSE("WR-CAP-006", problem.empty()) << "a full queue after failures: " << problem;
}

struct WrapCase {
  OpOn cell;
  Setter setter;
};
std::string ParamName(const WrapCase& wrap) {
  return ParamName(wrap.cell) + "_" + Name(wrap.setter);
}
std::vector<WrapCase> Wraps() {
  std::vector<WrapCase> out;
  for (const OpOn& cell : OfferedCells()) {
    if (cell.op == Op::kSendInv && cell.transport == Transport::kXrc) continue;
    for (const Setter setter : SettersOf(cell.op)) out.push_back({cell, setter});
  }
  return out;
}

// Every offset of small rings, for each operation, setter and a size that needs more than one basic
// block where a provider has such; alone and in regions of three.
QPX_TEST_P(Cap, TheRingWraps, Wraps(), "WR-CAP-007") {
  const Op op = param.cell.op;
  const Transport transport = param.cell.transport;
  if (!facts().Has(op)) throw NotApplicable{std::string("the device has no ") + Info(op).name};
  PairOptions options;
  options.transport = transport;
  options.ops = Info(op).bit;
  if (op == Op::kLocalInv) options.ops |= Info(Op::kBindMw).bit;
  options.peer_ops = transport == Transport::kXrc ? options.ops : Info(Op::kSend).bit;
  if (op == Op::kSendInv) options.peer_ops |= Info(Op::kBindMw).bit;
  options.send_sge = 4;
  options.inline_data = 64;
  const bool list = param.setter == Setter::kSgeList || param.setter == Setter::kInlineList;
  const bool eight = Info(op).data == DataSetters::kEightBytes;
  if (!WorksOnce(bed(), options, op, Shape{param.setter, 48, list && !eight ? 2u : 1u})) {
    throw NotApplicable{"not even one such request works: WR-BUILD-001, WR-INL-004, WR-SET-005"};
  }
  for (const uint32_t ring : {1u, 2u, 3u, 8u}) {
    options.send_wr = ring;
    const std::string problem = Persist(transport, [&]() -> std::string {
      Pair& pair = bed().Connect(options);
      const uint32_t capacity = pair.a.cap.max_send_wr;
      Traffic traffic(bed(), pair, 64, 64);
      const uint32_t total = std::min(3 * capacity + 2, 200u);
      uint64_t id = 0;
      uint32_t batch = 1;
      while (id < total) {
        const uint32_t n = std::min({batch, capacity, 3u});
        std::vector<Flight> flights;
        for (uint32_t i = 0; i < n; ++i) {
          // Sizes alternate, so that slots of different length meet at the end of the ring; each
          // lap the other way, so that each size starts at each offset.
          const uint64_t number = id;
          const bool large = (number + number / capacity) % 2 == 0;
          const uint32_t pieces = list && !eight ? (large ? 4u : 1u) : 1u;
          flights.push_back(traffic.Make(op, ++id, Shape{param.setter, large ? 60u : 4u, pieces}));
        }
        if (std::string problem = traffic.Run(flights); !problem.empty()) {
          return "ring of " + std::to_string(capacity) + ", request " + std::to_string(id) + ": " +
                 problem;
        }
        batch = batch % 3 + 1;
      }
      return "";
    });
    ASSERT_CLAUSE("WR-CAP-007", problem.empty()) << "max_send_wr " << ring << ": " << problem;
  }
}

QPX_TEST_P(Cap, ARingOfOne,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kUd,
                                   Transport::kXrc}),
           "WR-CAP-008") {
  const std::string problem = Persist(param, [&]() -> std::string {
    PairOptions options;
    options.transport = param;
    options.ops = Bits({Op::kSend});
    options.send_wr = 1;
    Pair& pair = bed().Connect(options);
    Traffic there(bed(), pair);
    for (uint64_t round = 0; round < 100; ++round) {
      if (std::string problem = there.Run(there.Make(Op::kSend, round)); !problem.empty()) {
        return "round " + std::to_string(round) + ": " + problem;
      }
    }
    return "";
  });
  EXPECT_CLAUSE("WR-CAP-008", problem.empty()) << problem;
}

// A first-in-first-out list of what was accepted predicts every completion.
QPX_TEST_P(Cap, CompletionsNeverMix, (std::vector<int>{1, 2, 3, 4}), "WR-CAP-009") {
  std::mt19937 random(static_cast<unsigned>(param));
  PairOptions options;
  // Operations that take no receive: nothing has to be put back when a region fails.
  options.ops = Bits({Op::kWrite, Op::kRead});
  options.send_wr = 1u << param;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 256, 64);
  std::deque<Flight> outstanding;
  uint64_t id = 1;
  for (int round = 0; round < Repetitions(10000); ++round) {
    const uint32_t n = 1 + random() % (pair.a.cap.max_send_wr + 1);
    std::vector<Flight> region;
    const bool aborted = random() % 4 == 0;
    for (uint32_t i = 0; i < n; ++i) {
      const Op op = random() % 2 == 0 ? Op::kWrite : Op::kRead;
      region.push_back(traffic.Make(op, id++));
    }
    std::vector<Wr> wrs;
    for (const Flight& flight : region) wrs.push_back(flight.wr);
    if (aborted) {
      PostAndAbort(pair.a, wrs);
    } else if (outstanding.size() + n <= static_cast<std::size_t>(pair.a.send_cq->cqe) &&
               Post(pair.a, wrs) == 0) {
      outstanding.insert(outstanding.end(), region.begin(), region.end());
    } else {
      // Full, the queue or the CQ: a provider may take more than the CQ has room for. What is under
      // way has to come first, exactly.
      const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, outstanding.size());
      ASSERT_CLAUSE("WR-CAP-009", wcs.size() == outstanding.size()) << Describe(wcs);
      for (const ibv_wc& wc : wcs) {
        const Flight flight = outstanding.front();
        outstanding.pop_front();
        ASSERT_CLAUSE("WR-CAP-009", wc.status == IBV_WC_SUCCESS && wc.wr_id == flight.wr.id &&
                                        wc.opcode == Info(flight.wr.op).send_opcode)
            << "completion " << wc.wr_id << " with opcode " << wc.opcode << ", expected "
            << flight.wr.id << " of " << Info(flight.wr.op).name;
      }
    }
  }
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, outstanding.size());
  ASSERT_CLAUSE("WR-CAP-009", wcs.size() == outstanding.size()) << Describe(wcs);
  for (std::size_t i = 0; i < wcs.size(); ++i) {
    EXPECT_CLAUSE("WR-CAP-009", wcs[i].wr_id == outstanding[i].wr.id &&
                                    wcs[i].opcode == Info(outstanding[i].wr.op).send_opcode);
  }
}

}  // namespace
}  // namespace qpexam::conformance
