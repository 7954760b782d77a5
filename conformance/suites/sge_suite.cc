// SGE: scatter/gather lists.

#include <algorithm>
#include <cstring>
#include <random>
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

class Sge : public Conformance {
 protected:
  PairOptions With(Transport transport, Op op, uint32_t send_sge) {
    PairOptions options;
    options.transport = transport;
    options.ops = Info(op).bit;
    options.peer_ops = transport == Transport::kXrc ? options.ops : Info(Op::kSend).bit;
    options.send_sge = std::min(send_sge, static_cast<uint32_t>(facts().attr.orig_attr.max_sge));
    return options;
  }
  // How many SGEs an operation may have on this device.
  uint32_t Most(const Pair& pair, Op op) {
    uint32_t most = pair.a.cap.max_send_sge;
    if (op == Op::kRead) {
      most = std::min(most, static_cast<uint32_t>(facts().attr.orig_attr.max_sge_rd));
    }
    return most;
  }
};

std::vector<OpOn> ListCells() {
  std::vector<OpOn> cells;
  for (const Transport transport :
       {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrc}) {
    for (const Op op : {Op::kSend, Op::kWrite, Op::kRead}) {
      if (TableA(op, transport) == Cell::kOffered) cells.push_back({op, transport});
    }
  }
  return cells;
}

QPX_TEST_P(Sge, ElementsAreConcatenatedInOrder, ListCells(), "WR-SGE-001") {
  std::mt19937 random(7);
  const PairOptions options = With(param.transport, param.op, 4);
  const std::string problem = Persist(param.transport, [&]() -> std::string {
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair, 4, 4096);
    const uint32_t most = Most(pair, param.op);
    if (most < 2) throw NotApplicable{"only one SGE"};
    uint32_t longest = 4096;
    if (param.transport == Transport::kUd) longest = std::min(longest, facts().mtu());
    for (int round = 0; round < Repetitions(200); ++round) {
      const uint32_t length = random() % (longest + 1);
      const uint32_t pieces = 1 + random() % most;
      Flight flight = traffic.Make(param.op, 1, Shape{Setter::kSgeList, length, pieces});
      // Cuts at random places instead of equal ones.
      std::vector<uint32_t> cuts = {0, length};
      for (uint32_t i = 1; i < pieces; ++i) cuts.push_back(random() % (length + 1));
      std::sort(cuts.begin(), cuts.end());
      flight.wr.sge.clear();
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        flight.wr.sge.push_back(
            {traffic.local().address(traffic.LocalOffset(flight.slot) + cuts[i]),
             cuts[i + 1] - cuts[i], traffic.local().lkey()});
      }
      if (std::string problem = traffic.Run(flight); !problem.empty()) {
        std::string lengths;
        for (const ibv_sge& sge : flight.wr.sge) lengths += " " + std::to_string(sge.length);
        return "elements of" + lengths + " bytes: " + problem;
      }
    }
    return "";
  });
  EXPECT_CLAUSE("WR-SGE-001", problem.empty()) << problem;
}

QPX_TEST_P(Sge, GatherSourcesMayOverlap, (std::vector<Op>{Op::kSend, Op::kWrite}), "WR-SGE-001") {
  Pair& pair = bed().Connect(With(Transport::kRc, param, 4));
  if (pair.a.cap.max_send_sge < 3) throw NotApplicable{"fewer than three SGEs"};
  Traffic traffic(bed(), pair);
  Flight flight = traffic.Make(param, 1, Shape{Setter::kSgeList, 48, 1});
  Memory& source = bed().Mem(64);
  source.Pattern(0, 64, 5);
  flight.wr.sge = {source.sge(0, 20), source.sge(10, 20), source.sge(0, 8)};
  ASSERT_CLAUSE("WR-SGE-001", Post(pair.a, flight.wr) == 0);
  const std::string sent = Differs(Await(pair.a.send_cq, 1), {1});
  ASSERT_CLAUSE("WR-SGE-001", sent.empty()) << sent;
  std::vector<uint8_t> expected;
  for (const ibv_sge& sge : flight.wr.sge) {
    const uint8_t* from = reinterpret_cast<const uint8_t*>(sge.addr);
    expected.insert(expected.end(), from, from + sge.length);
  }
  const std::size_t at = traffic.RemoteOffset(flight.slot);
  const bool right = clock().Until(
      clock().Limit(500ms), [&] { return traffic.remote().Copy(at, expected.size()) == expected; });
  EXPECT_CLAUSE("WR-SGE-001", right) << "20+20+8 overlapping bytes did not arrive in order";
}

// Each element has its own lkey.
QPX_TEST_P(Sge, ElementsOfSeveralRegions, (std::vector<Op>{Op::kSend, Op::kWrite, Op::kRead}),
           "WR-SGE-001") {
  Pair& pair = bed().Connect(With(Transport::kRc, param, 3));
  if (Most(pair, param) < 3) throw NotApplicable{"fewer than three SGEs"};
  Traffic traffic(bed(), pair);
  Flight flight = traffic.Make(param, 1, Shape{Setter::kSgeList, 48, 1});
  Memory& one = bed().Mem(64);
  Memory& two = bed().Mem(64);
  one.Pattern(0, 64, 5);
  two.Pattern(0, 64, 6);
  const std::vector<uint8_t> one_before = one.Copy(), two_before = two.Copy();
  flight.wr.sge = {one.sge(8, 16), two.sge(0, 16), one.sge(40, 16)};
  ASSERT_CLAUSE("WR-SGE-001", Post(pair.a, flight.wr) == 0);
  const std::string sent = Differs(Await(pair.a.send_cq, 1), {1});
  ASSERT_CLAUSE("WR-SGE-001", sent.empty()) << sent;
  const std::size_t at = traffic.RemoteOffset(flight.slot);
  auto local = [&] {
    std::vector<uint8_t> bytes = one.Copy(8, 16);
    for (const uint8_t byte : two.Copy(0, 16)) bytes.push_back(byte);
    for (const uint8_t byte : one.Copy(40, 16)) bytes.push_back(byte);
    return bytes;
  };
  const bool right =
      clock().Until(clock().Limit(500ms), [&] { return traffic.remote().Copy(at, 48) == local(); });
  EXPECT_CLAUSE("WR-SGE-001", right) << "three times 16 bytes of two regions are not in order";
  if (param != Op::kRead) {
    EXPECT_CLAUSE("WR-SGE-001", one.Copy() == one_before && two.Copy() == two_before)
        << "a source changed";
  }
}

QPX_TEST(Sge, EveryCountUpToTheLimit, "WR-SGE-002") {
  constexpr uint32_t kLength = 4096;
  Pair& pair = bed().Connect(With(Transport::kRc, Op::kSend, 16));
  Traffic traffic(bed(), pair, 4, kLength);
  for (uint32_t n = 1; n <= pair.a.cap.max_send_sge; ++n) {
    const std::string problem =
        traffic.Run(traffic.Make(Op::kSend, n, Shape{Setter::kSgeList, kLength, n}));
    ASSERT_CLAUSE("WR-SGE-002", problem.empty())
        << n << " of " << pair.a.cap.max_send_sge << " granted SGEs: " << problem;
  }
}

QPX_TEST(Sge, TooManyAreNeverTruncated, "WR-SGE-003") {
  for (const uint32_t asked : {1u, 4u}) {
    for (const std::size_t extra : {std::size_t{1}, std::size_t{1000}}) {
      Memory& source = bed().Mem(4096);
      source.Pattern(0, 4096, 3);
      JudgeOversized(bed(), With(Transport::kRc, Op::kWrite, asked), "WR-SGE-003",
                     "max_send_sge asked " + std::to_string(asked) + ", " + std::to_string(extra) +
                         " too many",
                     [&](Pair& pair) {
                       Oversized oversized;
                       oversized.wr.setter = Setter::kSgeList;
                       for (std::size_t i = 0; i < pair.a.cap.max_send_sge + extra; ++i) {
                         oversized.wr.sge.push_back(source.sge(i % 4000, 2));
                         oversized.expected.push_back(source.data()[i % 4000]);
                         oversized.expected.push_back(source.data()[i % 4000 + 1]);
                       }
                       return oversized;
                     });
    }
  }
}

QPX_TEST(Sge, NoneGranted, "WR-SGE-004") {
  PairOptions options = With(Transport::kRc, Op::kSend, 0);
  Pair& pair = bed().Connect(options);
  if (pair.a.cap.max_send_sge != 0) throw NotApplicable{"more than 0 SGEs are granted"};
  Traffic traffic(bed(), pair);
  const Flight flight = traffic.Make(Op::kSend, 1);
  if (Post(pair.a, flight.wr) != 0) return;
  const std::string problem = traffic.Finish({flight});
  EXPECT_CLAUSE("WR-SGE-004", problem.empty()) << "set_sge where none is granted: " << problem;
}

QPX_TEST(Sge, ReadMayHaveFewer, "WR-SGE-005") {
  Record& record = Record::Current();
  PairOptions options = With(Transport::kRc, Op::kRead, 64);
  Pair& pair = bed().Connect(options);
  const uint32_t granted = pair.a.cap.max_send_sge;
  const uint32_t for_reads = static_cast<uint32_t>(facts().attr.orig_attr.max_sge_rd);
  if (for_reads >= granted) {
    record.Variation("WR-SGE-005", "READ has as many SGEs as other operations");
    return;
  }
  Traffic traffic(bed(), pair, 4, 4096);
  const Flight flight = traffic.Make(Op::kRead, 1, Shape{Setter::kSgeList, granted * 8, granted});
  if (Post(pair.a, flight.wr) != 0) {
    record.Variation("WR-SGE-005", "more than max_sge_rd are refused at complete");
    return;
  }
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-SGE-005", wcs.size() == 1) << Describe(wcs);
  if (wcs[0].status != IBV_WC_SUCCESS) {
    record.Variation("WR-SGE-005", "more than max_sge_rd end in error");
    return;
  }
  record.Variation("WR-SGE-005", "more than max_sge_rd are carried out");
  const std::string problem = traffic.Check(flight);
  EXPECT_CLAUSE("WR-SGE-005", problem.empty()) << problem;
}

QPX_TEST_P(Sge, EmptyElementsAreSkipped, ListCells(), "WR-SGE-006") {
  const std::string problem = Persist(param.transport, [&] {
    Pair& pair = bed().Connect(With(param.transport, param.op, 3));
    if (Most(pair, param.op) < 3) throw NotApplicable{"fewer than three SGEs"};
    Traffic traffic(bed(), pair);
    Flight flight = traffic.Make(param.op, 1, Shape{Setter::kSgeList, 8, 2});
    std::vector<ibv_sge>& sge = flight.wr.sge;
    sge.insert(sge.begin() + 1, ibv_sge{sge[0].addr, 0, ~sge[0].lkey});
    return traffic.Run(flight);
  });
  EXPECT_CLAUSE("WR-SGE-006", problem.empty())
      << "an empty element with an unknown lkey between two of 4 bytes: " << problem;
}

enum class KeyFault { kUnknown, kOtherPd, kOutside, kAcrossTheEnd, kNotWritable };
struct BadKey {
  Op op;
  KeyFault fault;
};
std::string ParamName(const BadKey& bad) {
  const char* names[] = {"unknown", "other_pd", "outside", "across_the_end", "not_writable"};
  return std::string(Info(bad.op).name) + "_" + names[static_cast<int>(bad.fault)];
}
std::vector<BadKey> BadKeys() {
  std::vector<BadKey> out;
  for (const Op op : {Op::kSend, Op::kWrite, Op::kRead, Op::kCmpSwp, Op::kFetchAdd}) {
    for (const KeyFault fault :
         {KeyFault::kUnknown, KeyFault::kOtherPd, KeyFault::kOutside, KeyFault::kAcrossTheEnd}) {
      out.push_back({op, fault});
    }
    if (op != Op::kSend && op != Op::kWrite) out.push_back({op, KeyFault::kNotWritable});
  }
  return out;
}

QPX_TEST_P(Sge, ABadLocalKeyNeverSucceeds, BadKeys(), "WR-SGE-007") {
  if (!facts().Has(param.op)) throw NotApplicable{"the device has no atomics"};
  Pair& pair = bed().Connect(With(Transport::kRc, param.op, 1));
  Traffic traffic(bed(), pair);
  Flight flight = traffic.Make(param.op, 1, Shape{Setter::kSge, 8, 1});
  // One page that is registered as the fault wants it; the buffer fills it exactly.
  Memory& page =
      bed().Mem(4096, param.fault == KeyFault::kNotWritable ? IBV_ACCESS_REMOTE_READ : kAllAccess,
                param.fault == KeyFault::kOtherPd ? bed().NewPd() : nullptr);
  page.Fill(0x5c);
  ibv_sge& sge = flight.wr.sge[0];
  sge = page.sge(128, 8);
  switch (param.fault) {
    case KeyFault::kUnknown:
      sge.lkey ^= 0x5a;  // low bits: an added number could hit a neighbour's key
      break;
    case KeyFault::kOutside:
      sge = {traffic.local().address(0), 8, page.lkey()};
      break;
    case KeyFault::kAcrossTheEnd:
      sge = page.sge(4092, 8);
      break;
    case KeyFault::kOtherPd:
    case KeyFault::kNotWritable:
      break;
  }
  const std::vector<uint8_t> local_before = traffic.local().Copy();
  if (Post(pair.a, flight.wr) != 0) {
    Record::Current().Note("refused at complete");
    return;
  }
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-SGE-007", wcs.size() == 1) << "no completion: " << Describe(wcs);
  EXPECT_CLAUSE("WR-SGE-007", wcs[0].status != IBV_WC_SUCCESS) << "SUCCESS with a bad local key";
  Record::Current().Note(Describe(wcs));
  if (param.op == Op::kSend) {
    for (const ibv_wc& wc : Await(pair.b.recv_cq, 1, 100ms)) {
      EXPECT_CLAUSE("WR-SGE-007", wc.status != IBV_WC_SUCCESS) << "the peer received a message";
    }
  }
  if (param.op == Op::kWrite) {
    const std::string touched = traffic.CheckUntouched(flight);
    EXPECT_CLAUSE("WR-SGE-007", touched.empty()) << touched;
  }
  if (param.fault == KeyFault::kNotWritable) {
    EXPECT_CLAUSE("WR-SGE-007", page.Is(0, 4096, 0x5c)) << "memory without LOCAL_WRITE changed";
  }
  EXPECT_CLAUSE("WR-SGE-007", traffic.local().Copy() == local_before)
      << "other local memory changed";
}

QPX_TEST_P(Sge, LargeMessagesArriveWhole, (std::vector<Op>{Op::kSend, Op::kWrite, Op::kRead}),
           "WR-SGE-008") {
  const std::size_t length = std::min<std::size_t>(
      TheOptions().effort == Effort::kFull ? 64u << 20 : 1u << 20, facts().port.max_msg_sz);
  Pair& pair = bed().Connect(With(Transport::kRc, param, 2));
  Memory &local = bed().Mem(length), &remote = bed().Mem(length);
  (param == Op::kRead ? remote : local).Pattern(0, length, 21);
  Wr wr;
  wr.op = param;
  wr.id = 1;
  wr.rkey = remote.rkey();
  wr.remote = remote.address();
  wr.sge = {local.sge(0, static_cast<uint32_t>(length))};
  if (param == Op::kSend &&
      PostRecv(pair.b, 1, {remote.sge(0, static_cast<uint32_t>(length))}) != 0) {
    throw SetUpFailed{"a receive could not be posted"};
  }
  ASSERT_CLAUSE("WR-SGE-008", Post(pair.a, wr) == 0);
  const std::string problem = Differs(Await(pair.a.send_cq, 1, 30s), {1});
  ASSERT_CLAUSE("WR-SGE-008", problem.empty()) << length << " bytes: " << problem;
  Memory& target = param == Op::kRead ? local : remote;
  EXPECT_CLAUSE("WR-SGE-008",
                clock().Until(clock().Limit(2s), [&] { return target.HasPattern(0, length, 21); }))
      << length << " bytes: other bytes arrived";
}

// Totals that a 31- or 32-bit sum would make small.
struct Total {
  const char* name;
  uint64_t bytes;
};
std::string ParamName(const Total& total) { return total.name; }

QPX_TEST_P(Sge, TooLongMessagesAreNeverTruncated,
           (std::vector<Total>{{"2GiB_and_1", (uint64_t{1} << 31) + 1},
                               {"4GiB", uint64_t{1} << 32},
                               {"4GiB_and_8", (uint64_t{1} << 32) + 8}}),
           "WR-SGE-008") {
  for (const Op op : {Op::kSend, Op::kWrite}) {
    Pair& pair = bed().Connect(With(Transport::kRc, op, 32));
    const uint32_t elements = std::min(pair.a.cap.max_send_sge, 32u);
    const uint64_t each = param.bytes / elements + 1;
    if (each > (256u << 20)) throw NotApplicable{"not enough SGEs for this total"};
    // Every element is legal: they gather the same memory again and again.
    Memory& source = bed().Mem(each);
    Memory& receive = bed().Mem(4096);
    receive.Fill(0xee);
    Wr wr;
    wr.op = op;
    wr.id = 1;
    wr.setter = Setter::kSgeList;
    wr.rkey = receive.rkey();
    wr.remote = receive.address();
    uint64_t left = param.bytes;
    for (uint32_t i = 0; i < elements; ++i) {
      const uint64_t length = std::min(each, left);
      wr.sge.push_back(source.sge(0, static_cast<uint32_t>(length)));
      left -= length;
    }
    if (op == Op::kSend && PostRecv(pair.b, 1, {receive.sge(0, 64)}) != 0) {
      throw SetUpFailed{"a receive could not be posted"};
    }
    if (Post(pair.a, wr) != 0) {
      Record::Current().Note(std::string(Info(op).name) + ": refused at complete");
      continue;
    }
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
    // No such amount can have been delivered into 4 KiB.
    EXPECT_CLAUSE("WR-SGE-008", wcs.empty() || wcs[0].status != IBV_WC_SUCCESS)
        << Info(op).name << " of " << param.bytes << " bytes ended in SUCCESS";
    EXPECT_CLAUSE("WR-SGE-008", !wcs.empty())
        << Info(op).name << " of " << param.bytes << " bytes was accepted and has no completion";
    EXPECT_CLAUSE("WR-SGE-008",
                  receive.Is(op == Op::kSend ? 64 : 0, op == Op::kSend ? 4032 : 4096, 0xee))
        << "bytes beyond the receive buffer or through a refused range were written";
  }
}

}  // namespace
}  // namespace qpexam::conformance
