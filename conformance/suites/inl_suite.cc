// INL: inline data.

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"
#include "conformance/suites/oversize.h"

namespace qpexam::conformance {
namespace {

class Inline : public Conformance {
 protected:
  static PairOptions With(Transport transport, Op op, uint32_t inline_data) {
    PairOptions options;
    options.transport = transport;
    options.ops = Info(op).bit;
    options.peer_ops = transport == Transport::kXrc ? options.ops : Info(Op::kSend).bit;
    if (op == Op::kSendInv) options.peer_ops |= Info(Op::kBindMw).bit;
    options.inline_data = inline_data;
    return options;
  }
  // A provider may refuse inline data of one operation at every length (WR-INL-004): a variation.
  void NeedsInline(const PairOptions& options, Op op) {
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    if (Post(pair.a, traffic.Make(op, 1, Shape{Setter::kInline, 1, 1}).wr) != 0) {
      Record::Current().Variation("WR-INL-004", std::string("inline data of ") + Info(op).name +
                                                    " is refused at every length");
      throw NotApplicable{std::string("no inline data for ") + Info(op).name};
    }
  }
};

std::vector<OpOn> InlineCells() {
  std::vector<OpOn> cells;
  for (const OpOn& cell : OfferedCells()) {
    if (Info(cell.op).data != DataSetters::kSgeOrInline) continue;
    if (cell.op == Op::kSendInv && cell.transport == Transport::kXrc) continue;
    cells.push_back(cell);
  }
  return cells;
}

constexpr Setter kInlineSetters[] = {Setter::kInline, Setter::kInlineList};

QPX_TEST_P(Inline, BytesAreCopiedByTheSetter, InlineCells(), "WR-INL-001") {
  const PairOptions options = With(param.transport, param.op, 64);
  for (const Setter setter : kInlineSetters) {
    // What never works is judged by WR-INL-004; here it is about the copy.
    if (!WorksOnce(bed(), options, param.op, Shape{setter, 48, 1})) {
      Record::Current().Note(std::string(Name(setter)) + " does not work even without a change");
      continue;
    }
    const std::string problem = Persist(param.transport, [&] {
      Pair& pair = bed().Connect(options);
      Traffic traffic(bed(), pair);
      Flight flight = traffic.Make(param.op, 1, Shape{setter, 48, 1});
      auto* bytes = static_cast<uint8_t*>(std::malloc(48));
      for (std::size_t i = 0; i < 48; ++i) bytes[i] = PatternByte(i, flight.seed);
      flight.wr.bufs = {{bytes, 48}};
      ibv_wr_start(pair.a.ex);
      Build(pair.a, flight.wr);
      std::memset(bytes, 0xdd, 48);
      std::free(bytes);
      const int error = ibv_wr_complete(pair.a.ex);
      if (error != 0) return "complete returned " + std::to_string(error);
      return traffic.Finish({flight});
    });
    EXPECT_CLAUSE("WR-INL-001", problem.empty()) << Name(setter) << ": " << problem;
  }
}

// Longer than any cache line, in the program's read-only data.
const char kConstant[] = "inline data needs no key: any readable memory of the process will do";

QPX_TEST_P(Inline, AnyReadableMemoryWorks, InlineCells(), "WR-INL-002") {
  const uint32_t length = 32;
  const PairOptions options = With(param.transport, param.op, 64);
  NeedsInline(options, param.op);
  char on_stack[32];
  std::memcpy(on_stack, kConstant, sizeof(on_stack));
  for (const bool constant : {true, false}) {
    const std::string problem = Persist(param.transport, [&]() -> std::string {
      Pair& pair = bed().Connect(options);
      Traffic traffic(bed(), pair);
      Flight flight = traffic.Make(param.op, 1, Shape{Setter::kInline, length, 1});
      char* source = constant ? const_cast<char*>(kConstant) : on_stack;
      flight.wr.bufs = {{source, length}};
      if (const int error = Post(pair.a, flight.wr)) {
        return "complete returned " + std::to_string(error);
      }
      if (std::string sent = Differs(Await(pair.a.send_cq, 1), {1}); !sent.empty()) return sent;
      const uint8_t* there = traffic.remote().data() + traffic.RemoteOffset(flight.slot);
      const bool arrived = clock().Until(
          clock().Limit(500ms), [&] { return std::memcmp(there, kConstant, length) == 0; });
      return arrived ? "" : "other bytes arrived";
    });
    EXPECT_CLAUSE("WR-INL-002", problem.empty())
        << (constant ? "constant data: " : "stack: ") << problem;
  }
}

QPX_TEST_P(Inline, EveryLengthUpToTheLimit, InlineCells(), "WR-INL-004") {
  PairOptions options = With(param.transport, param.op, 64);
  NeedsInline(options, param.op);
  for (const Setter setter : kInlineSetters) {
    const std::string problem = Persist(param.transport, [&]() -> std::string {
      Pair& pair = bed().Connect(options);
      uint32_t most = pair.a.cap.max_inline_data;
      if (param.transport == Transport::kUd) most = std::min(most, facts().mtu());
      Traffic traffic(bed(), pair, 8, std::max(256u, most));
      const uint32_t step = most > 512 && TheOptions().effort == Effort::kNormal ? 7 : 1;
      for (uint32_t length = 0; length <= most;) {
        std::vector<Flight> flights;
        for (uint64_t id = 1; id <= 4 && length <= most; ++id, length += step) {
          flights.push_back(
              traffic.Make(param.op, id, Shape{setter, length, length < 3 ? 1u : 3u}));
        }
        if (std::string problem = traffic.Run(flights); !problem.empty()) {
          return "lengths up to " + std::to_string(length - 1) + ": " + problem;
        }
      }
      return "";
    });
    EXPECT_CLAUSE("WR-INL-004", problem.empty()) << Name(setter) << ": " << problem;
  }
}

// A request with `pieces` buffers of `each` bytes.
Oversized InlineOf(std::vector<uint8_t>* storage, std::size_t pieces, std::size_t each) {
  storage->resize(pieces * each);
  for (std::size_t i = 0; i < storage->size(); ++i) (*storage)[i] = PatternByte(i, 77);
  Oversized oversized;
  oversized.wr.setter = pieces == 1 ? Setter::kInline : Setter::kInlineList;
  for (std::size_t i = 0; i < pieces; ++i) {
    oversized.wr.bufs.push_back({storage->data() + i * each, each});
  }
  oversized.expected = *storage;
  return oversized;
}

QPX_TEST(Inline, TooMuchIsNeverTruncated, "WR-INL-005") {
  for (const uint32_t asked : {0u, 1u, 64u}) {
    const PairOptions options = With(Transport::kRc, Op::kWrite, asked);
    for (const bool doubled : {false, true}) {
      std::vector<uint8_t> storage;
      JudgeOversized(bed(), options, "WR-INL-005",
                     "max_inline_data asked " + std::to_string(asked) +
                         (doubled ? ", twice as much" : ", one byte too much"),
                     [&](Pair& pair) {
                       const std::size_t most = pair.a.cap.max_inline_data;
                       return InlineOf(&storage, 1, doubled ? 2 * most + 2 : most + 1);
                     });
    }
  }
}

QPX_TEST(Inline, InAListTheSumCounts, "WR-INL-006") {
  const PairOptions options = With(Transport::kRc, Op::kWrite, 64);
  for (std::size_t pieces = 2; pieces <= 8; ++pieces) {
    std::vector<uint8_t> storage;
    JudgeOversized(
        bed(), options, "WR-INL-006", std::to_string(pieces) + " buffers of max_inline_data each",
        [&](Pair& pair) { return InlineOf(&storage, pieces, pair.a.cap.max_inline_data); });
  }
}

QPX_TEST_P(Inline, AListIsConcatenated, InlineCells(), "WR-INL-007") {
  const PairOptions options = With(param.transport, param.op, 64);
  NeedsInline(options, param.op);
  const std::string problem = Persist(param.transport, [&] {
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    std::vector<Flight> flights;
    // Cuts of the same message, with empty elements of either kind between.
    for (uint64_t id = 1; id <= 3; ++id) {
      Flight flight = traffic.Make(param.op, id, Shape{Setter::kInlineList, 48, 3});
      std::vector<ibv_data_buf>& bufs = flight.wr.bufs;
      if (id >= 2) bufs.insert(bufs.begin() + 1, ibv_data_buf{nullptr, 0});
      if (id >= 3) {
        bufs.insert(bufs.begin(), ibv_data_buf{bufs[0].addr, 0});
        bufs.push_back({bufs[0].addr, 0});
      }
      flights.push_back(flight);
    }
    return traffic.Run(flights);
  });
  EXPECT_CLAUSE("WR-INL-007", problem.empty()) << problem;

  const std::string empty = Persist(param.transport, [&] {
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    Flight flight = traffic.Make(param.op, 1, Shape{Setter::kInlineList, 0, 1});
    flight.wr.bufs.clear();
    return traffic.Run(flight);
  });
  EXPECT_SHOULD("WR-INL-007", empty.empty()) << "num_buf 0: " << empty;
}

QPX_TEST_P(Inline, NotForOtherOperations, (std::vector<Op>{Op::kRead, Op::kCmpSwp, Op::kFetchAdd}),
           "WR-INL-003") {
  for (const Setter setter : kInlineSetters) {
    Pair& pair = bed().Connect(With(Transport::kRc, param, 64));
    Traffic traffic(bed(), pair);
    Flight flight = traffic.Make(param, 1);
    flight.wr.setter = setter;
    EXPECT_CLAUSE("WR-INL-003", Post(pair.a, flight.wr) == EINVAL);
    EXPECT_CLAUSE("WR-INL-003", Linted("WR-INL-003"));
    EXPECT_CLAUSE("WR-INL-003", Quiet(pair.a.send_cq).empty());
    EXPECT_CLAUSE("WR-INL-003", traffic.CheckUntouched(flight).empty());
  }
}

}  // namespace
}  // namespace qpexam::conformance
