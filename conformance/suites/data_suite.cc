// DATA: what each operation does to memory and to the peer.

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {
namespace {

class Data : public Conformance {
 protected:
  Pair& Of(Transport transport, std::initializer_list<Op> ops, uint32_t sges = 2) {
    PairOptions options;
    options.transport = transport;
    options.ops = Bits(ops);
    options.send_sge = sges;
    return bed().Connect(options);
  }
  static Wr Remote(Op op, Memory& local, uint32_t length, Memory& remote, std::size_t offset) {
    Wr wr;
    wr.op = op;
    wr.id = 1;
    wr.sge = {local.sge(0, length)};
    wr.rkey = remote.rkey();
    wr.remote = remote.address(offset);
    return wr;
  }
  // Posts one request; empty when it ends in SUCCESS.
  static std::string Ends(Pair& pair, const Wr& wr, ibv_wc* wc = nullptr) {
    if (const int rc = Post(pair.a, wr); rc != 0) return "complete returned " + std::to_string(rc);
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1, 60s);
    if (wcs.size() != 1) return "no completion";
    if (wc != nullptr) *wc = wcs[0];
    return wcs[0].status == IBV_WC_SUCCESS ? "" : ibv_wc_status_str(wcs[0].status);
  }
  // True when the request is refused at complete or ends in error.
  static bool Fails(Pair& pair, const Wr& wr) { return !Ends(pair, wr).empty(); }
  static bool Eventually(const std::function<bool()>& done) {
    return clock().Until(clock().Limit(5s), done);
  }
  void NeedsAtomics() {
    if (!facts().has_atomics()) throw NotApplicable{"IBV_ATOMIC_NONE"};
  }
  // One FLUSH or ATOMIC_WRITE pair, with the bits to look at the result.
  Pair& Placement(Op op, int access = kAllAccess) {
    NeedsDevice(op);
    PairOptions options;
    options.ops = Bits({op, Op::kWrite, Op::kRead, Op::kSend});
    options.access = access;
    return bed().Connect(options);
  }
  // An operation that the library offers without asking the device (WR-DATA-034 says so) is not
  // held against the device.
  void NeedsDevice(Op op) {
    if (!facts().Has(op)) throw NotApplicable{std::string("the device has no ") + Info(op).name};
  }
  static int FlushAccess() { return kAllAccess | static_cast<int>(kAccessFlushGlobal); }
};

QPX_TEST_P(Data, SendDeliversItsBytes,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kUd,
                                   Transport::kXrc}),
           "WR-DATA-001") {
  Pair& pair = Of(param, {Op::kSend});
  const uint32_t mtu = facts().mtu();
  std::vector<uint32_t> lengths = {0, 1, mtu - 1, mtu};
  if (param != Transport::kUd) {
    lengths.insert(lengths.end(), {mtu + 1, 3 * mtu + 17, 1u << 20});
  }
  const uint32_t grh = param == Transport::kUd ? 40 : 0;
  for (const uint32_t length : lengths) {
    if (length > facts().port.max_msg_sz) continue;
    Memory& from = bed().Mem(std::max(length, 8u));
    Memory& into = bed().Mem(length + grh + 64);
    from.Pattern(0, from.size(), length);
    const std::string problem = Persist(param, [&]() -> std::string {
      into.Fill(0xee);
      if (PostRecv(pair.b, length, {into.sge(0, length + grh)}) != 0) return "no receive";
      Wr wr;
      wr.op = Op::kSend;
      wr.id = 1;
      wr.sge = {from.sge(0, length)};
      if (const std::string bad = Ends(pair, wr); !bad.empty()) return bad;
      const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1, 5s);
      if (got.size() != 1) return "no receive completion";
      if (got[0].status != IBV_WC_SUCCESS) return ibv_wc_status_str(got[0].status);
      if (!into.HasPattern(grh, length, length)) return "the bytes differ";
      if (!into.Is(grh + length, 64, 0xee)) return "bytes after the message were written";
      return "";
    });
    EXPECT_CLAUSE("WR-DATA-001", problem.empty()) << "length " << length << ": " << problem;
  }
}

QPX_TEST(Data, AReceiveIsFilledInOrder, "WR-DATA-001") {
  PairOptions options;
  options.ops = Bits({Op::kSend});
  options.recv_sge = 4;
  Pair& pair = bed().Connect(options);
  Memory& from = bed().Mem(256);
  Memory& into = bed().Mem(1024);
  for (uint32_t pieces = 1; pieces <= 4; ++pieces) {
    from.Pattern(0, 128, pieces);
    into.Fill(0xee);
    std::vector<ibv_sge> list;
    for (uint32_t i = 0; i < pieces; ++i) list.push_back(into.sge(i * 256, 128 / pieces));
    const uint32_t length = 128 / pieces * pieces;
    ASSERT_CLAUSE("WR-DATA-001", PostRecv(pair.b, pieces, list) == 0);
    Wr wr;
    wr.op = Op::kSend;
    wr.id = 1;
    wr.sge = {from.sge(0, length)};
    ASSERT_CLAUSE("WR-DATA-001", Ends(pair, wr).empty());
    ASSERT_CLAUSE("WR-DATA-001", Await(pair.b.recv_cq, 1).size() == 1);
    for (uint32_t i = 0; i < length; ++i) {
      const uint32_t each = 128 / pieces;
      ASSERT_CLAUSE("WR-DATA-001", into.data()[i / each * 256 + i % each] == PatternByte(i, pieces))
          << "byte " << i << " of a receive of " << pieces << " buffers";
    }
  }
}

QPX_TEST_P(Data, ImmediateIsOpaque,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kUd,
                                   Transport::kXrc}),
           "WR-DATA-002") {
  Pair& pair = Of(param, {Op::kSendImm});
  Traffic traffic(bed(), pair);
  for (const uint32_t imm : {0u, 1u, htonl(1), 0xffffffffu, 0x01020304u}) {
    const std::string problem = Persist(param, [&]() -> std::string {
      Flight flight = traffic.Make(Op::kSendImm, 1);
      flight.wr.imm = imm;
      if (Post(pair.a, flight.wr) != 0) return "refused";
      Await(pair.a.send_cq, 1);
      const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1, 5s);
      if (got.size() != 1 || got[0].status != IBV_WC_SUCCESS) return Describe(got);
      if (got[0].opcode != IBV_WC_RECV) return "opcode " + std::to_string(got[0].opcode);
      if ((got[0].wc_flags & IBV_WC_WITH_IMM) == 0) return "no WITH_IMM";
      if (got[0].imm_data != imm) return "imm_data " + std::to_string(got[0].imm_data);
      return "";
    });
    EXPECT_CLAUSE("WR-DATA-002", problem.empty()) << "immediate " << imm << ": " << problem;
  }
}

QPX_TEST(Data, SendWithInvalidateEndsTheKey, "WR-DATA-003") {
  PairOptions options;
  options.ops = Bits({Op::kSendInv, Op::kWrite});
  options.peer_ops = Bits({Op::kBindMw, Op::kSend});
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const Flight flight = traffic.Make(Op::kSendInv, 1);
  ASSERT_CLAUSE("WR-DATA-003", Post(pair.a, flight.wr) == 0);
  const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1);
  ASSERT_CLAUSE("WR-DATA-003", got.size() == 1 && got[0].status == IBV_WC_SUCCESS) << Describe(got);
  EXPECT_CLAUSE("WR-DATA-003", (got[0].wc_flags & IBV_WC_WITH_INV) != 0);
  EXPECT_CLAUSE("WR-DATA-003", got[0].invalidated_rkey == flight.wr.rkey)
      << std::hex << got[0].invalidated_rkey << " instead of " << flight.wr.rkey;
  EXPECT_CLAUSE("WR-DATA-003", traffic.Check(flight).empty()) << traffic.Check(flight);
  Await(pair.a.send_cq, 1);
  Memory& local = bed().Mem(64);
  Wr write = Remote(Op::kWrite, local, 8, traffic.remote(), 0);
  write.rkey = flight.wr.rkey;
  ibv_wc wc{};
  EXPECT_CLAUSE("WR-DATA-003", !Ends(pair, write, &wc).empty()) << "the key still works";
  EXPECT_SHOULD("WR-DATA-003", wc.status == IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(wc.status);
}

QPX_TEST(Data, WhatConsumesAReceive, "WR-DATA-004") {
  PairOptions options;
  options.ops = Bits({Op::kSend, Op::kSendImm, Op::kWrite, Op::kWriteImm, Op::kRead});
  if (facts().has_atomics()) options.ops |= Bits({Op::kCmpSwp, Op::kFetchAdd});
  options.peer_ops = Bits({Op::kSend});
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  Memory& buffers = bed().Mem(64 * 64);
  buffers.Fill(0xee);
  // All receives beforehand; each request in turn takes one or none.
  for (uint64_t id = 0; id < 20; ++id) {
    ASSERT_CLAUSE("WR-DATA-004", PostRecv(pair.b, id, {buffers.sge(id * 64, 64)}) == 0);
  }
  uint64_t next = 0;
  for (const Op op : traffic.Ops()) {
    for (int i = 0; i < 2; ++i) {
      const Flight flight = traffic.Make(op, 100, {}, WithReceive::kNo);
      ASSERT_CLAUSE("WR-DATA-004", Ends(pair, flight.wr).empty()) << Info(op).name;
      const bool takes = Info(op).takes_receive;
      const std::vector<ibv_wc> got = takes ? Await(pair.b.recv_cq, 1) : std::vector<ibv_wc>();
      if (takes) {
        ASSERT_CLAUSE("WR-DATA-004", got.size() == 1) << Info(op).name;
        EXPECT_CLAUSE("WR-DATA-004", got[0].wr_id == next)
            << Info(op).name << " took receive " << got[0].wr_id << ", expected " << next;
        if (op == Op::kWriteImm) {
          EXPECT_CLAUSE("WR-DATA-004", buffers.Is(next * 64, 64, 0xee))
              << "WRITE_WITH_IMM wrote into the receive buffer";
        }
        ++next;
      }
      EXPECT_CLAUSE("WR-DATA-004", PollNow(pair.b.recv_cq).empty())
          << Info(op).name << " took one receive too many";
    }
  }
  // The sentinel: the next SEND finds exactly the next receive.
  ASSERT_CLAUSE("WR-DATA-004",
                Ends(pair, traffic.Make(Op::kSend, 7, {}, WithReceive::kNo).wr).empty());
  const std::vector<ibv_wc> last = Await(pair.b.recv_cq, 1);
  EXPECT_CLAUSE("WR-DATA-004", last.size() == 1 && last[0].wr_id == next) << Describe(last);
}

QPX_TEST_P(Data, WriteChangesItsRangeAlone,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kXrc}),
           "WR-DATA-005") {
  Pair& pair = Of(param, {Op::kWrite, Op::kSend});
  constexpr std::size_t kSize = 16384;
  Memory& from = bed().Mem(kSize);
  Memory& into = bed().Mem(kSize);
  std::mt19937_64 random(5);
  std::vector<uint8_t> expected(kSize);
  for (std::size_t i = 0; i < kSize; ++i) expected[i] = PatternByte(i, 99);
  into.Pattern(0, kSize, 99);
  for (int round = 0; round < 60; ++round) {
    const std::size_t offset = random() % kSize;
    const auto length = static_cast<uint32_t>(
        random() % std::min<std::size_t>(kSize - offset + 1, round % 2 ? 64 : 9000));
    const std::string problem = Persist(param, [&]() -> std::string {
      from.Pattern(0, length, round);
      if (const std::string bad = Ends(pair, Remote(Op::kWrite, from, length, into, offset));
          !bad.empty()) {
        return bad;
      }
      for (uint32_t i = 0; i < length; ++i) expected[offset + i] = PatternByte(i, round);
      return Eventually([&] { return into.Copy() == expected; })
                 ? ""
                 : "the region differs from what was written";
    });
    ASSERT_CLAUSE("WR-DATA-005", problem.empty())
        << "offset " << offset << ", length " << length << ": " << problem;
  }
}

QPX_TEST_P(Data, WriteWithImmediate,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kXrc}),
           "WR-DATA-006") {
  Pair& pair = Of(param, {Op::kWriteImm});
  const uint32_t mtu = facts().mtu();
  for (const uint32_t length : {0u, 1u, mtu - 1, mtu, mtu + 1, 3 * mtu}) {
    Memory& from = bed().Mem(std::max(length, 8u));
    Memory& into = bed().Mem(length + 128);
    const std::string problem = Persist(param, [&]() -> std::string {
      into.Fill(0xee);
      from.Pattern(0, from.size(), length + 1);
      if (PostRecv(pair.b, 5, {}) != 0) return "no receive";
      Wr wr = Remote(Op::kWriteImm, from, length, into, 64);
      wr.imm = 0x0a0b0c0d;
      if (const std::string bad = Ends(pair, wr); !bad.empty()) return bad;
      const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1, 5s);
      if (got.size() != 1 || got[0].status != IBV_WC_SUCCESS) return "receive: " + Describe(got);
      if (got[0].opcode != IBV_WC_RECV_RDMA_WITH_IMM) return "a wrong opcode";
      if (got[0].byte_len != length) return "byte_len " + std::to_string(got[0].byte_len);
      if (got[0].imm_data != 0x0a0b0c0d) return "a wrong immediate";
      // Visible at this very moment.
      if (!into.HasPattern(64, length, length + 1)) return "the data is not there";
      return into.Is(0, 64, 0xee) && into.Is(64 + length, 64, 0xee) ? "" : "more was written";
    });
    EXPECT_CLAUSE("WR-DATA-006", problem.empty()) << "length " << length << ": " << problem;
  }
}

QPX_TEST_P(Data, ZeroLengthWriteWithImmediate,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kXrc}),
           "WR-DATA-007") {
  Pair& pair = Of(param, {Op::kWriteImm});
  Memory& memory = bed().Mem(64);
  ASSERT_CLAUSE("WR-DATA-007", PostRecv(pair.b, 5, {}) == 0);
  Wr wr = Remote(Op::kWriteImm, memory, 0, memory, 0);
  wr.rkey = 0xdead5500;
  wr.remote = 0x123456789abcu;
  wr.imm = 0x01020304;
  const std::string problem = Ends(pair, wr);
  const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1, 5s);
  const bool right = problem.empty() && got.size() == 1 && got[0].status == IBV_WC_SUCCESS &&
                     got[0].imm_data == 0x01020304;
  if (param == Transport::kUc) {
    EXPECT_SHOULD("WR-DATA-007", right) << problem << " receive: " << Describe(got);
  } else {
    EXPECT_CLAUSE("WR-DATA-007", right) << problem << " receive: " << Describe(got);
  }
}

QPX_TEST_P(Data, ZeroLengthNamesNoMemory, (std::vector<Op>{Op::kWrite, Op::kRead}), "WR-DATA-008") {
  Pair& pair = Of(Transport::kRc, {param});
  Memory& memory = bed().Mem(64);
  Wr wr = Remote(param, memory, 0, memory, 0);
  wr.rkey = 0xdead5500;
  wr.remote = 0x123456789abcu;
  const std::string problem = Ends(pair, wr);
  EXPECT_CLAUSE("WR-DATA-008", problem.empty()) << problem;
}

QPX_TEST_P(Data, ReadScattersExactly, (std::vector<Transport>{Transport::kRc, Transport::kXrc}),
           "WR-DATA-009") {
  uint32_t most = 8;
  most = std::min<uint32_t>(most, static_cast<uint32_t>(facts().attr.orig_attr.max_sge));
  if (facts().attr.orig_attr.max_sge_rd > 0) {
    most = std::min<uint32_t>(most, static_cast<uint32_t>(facts().attr.orig_attr.max_sge_rd));
  }
  Pair& pair = Of(param, {Op::kRead}, most);
  Memory& into = bed().Mem(16384);
  Memory& from = bed().Mem(16384);
  from.Pattern(0, 16384, 4);
  std::mt19937_64 random(9);
  for (int round = 0; round < 60; ++round) {
    into.Fill(0xee);
    const std::size_t offset = random() % 4096;
    Wr wr;
    wr.op = Op::kRead;
    wr.id = 1;
    wr.setter = Setter::kSgeList;
    wr.rkey = from.rkey();
    wr.remote = from.address(offset);
    const uint32_t pieces = 1 + static_cast<uint32_t>(random() % most);
    std::size_t at = 64, total = 0;
    std::vector<std::pair<std::size_t, std::size_t>> places;  // offset, length
    for (uint32_t i = 0; i < pieces; ++i) {
      const std::size_t length = random() % (round % 3 == 0 ? 1200 : 70);
      places.push_back({at, length});
      wr.sge.push_back(into.sge(at, static_cast<uint32_t>(length)));
      at += length + 64;
      total += length;
    }
    const std::string problem = Ends(pair, wr);
    ASSERT_CLAUSE("WR-DATA-009", problem.empty()) << pieces << " pieces: " << problem;
    std::vector<uint8_t> expected(16384, 0xee);
    std::size_t taken = 0;
    for (const auto& [where, length] : places) {
      for (std::size_t i = 0; i < length; ++i) {
        expected[where + i] = PatternByte(offset + taken + i, 4);
      }
      taken += length;
    }
    ASSERT_CLAUSE("WR-DATA-009", into.Copy() == expected)
        << total << " bytes in " << pieces << " pieces from offset " << offset;
  }
}

QPX_TEST(Data, CompareAndSwap, "WR-DATA-010") {
  NeedsAtomics();
  Pair& pair = Of(Transport::kRc, {Op::kCmpSwp});
  Memory& local = bed().Mem(64);
  Memory& remote = bed().Mem(64);
  // Unequal in the lowest bit, then in one of the upper half alone.
  for (const uint64_t differs : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40}) {
    const bool equal = differs == 0;
    remote.Fill(0xee);
    local.Fill(0xee);
    remote.SetU64(8, 0x1122334455667788u);
    Wr wr = Remote(Op::kCmpSwp, local, 8, remote, 8);
    wr.compare_add = 0x1122334455667788u ^ differs;
    wr.swap = 0xa1a2a3a4a5a6a7a8u;
    const std::string problem = Ends(pair, wr);
    ASSERT_CLAUSE("WR-DATA-010", problem.empty()) << problem;
    EXPECT_CLAUSE("WR-DATA-010", local.U64(0) == 0x1122334455667788u)
        << "returned " << std::hex << local.U64(0) << (equal ? " (equal)" : " (unequal)");
    const uint64_t expected = equal ? 0xa1a2a3a4a5a6a7a8u : 0x1122334455667788u;
    EXPECT_CLAUSE("WR-DATA-010", Eventually([&] { return remote.U64(8) == expected; }))
        << "remote " << std::hex << remote.U64(8) << (equal ? " (equal)" : " (unequal)");
    EXPECT_CLAUSE("WR-DATA-010", remote.Is(0, 8, 0xee) && remote.Is(16, 48, 0xee));
    EXPECT_CLAUSE("WR-DATA-010", local.Is(8, 56, 0xee));
  }
}

QPX_TEST(Data, FetchAndAddWraps, "WR-DATA-011") {
  NeedsAtomics();
  Pair& pair = Of(Transport::kRc, {Op::kFetchAdd});
  Memory& local = bed().Mem(64);
  Memory& remote = bed().Mem(64);
  for (const uint64_t old : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, ~uint64_t{0}}) {
    for (const uint64_t add : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      remote.SetU64(8, old);
      Wr wr = Remote(Op::kFetchAdd, local, 8, remote, 8);
      wr.compare_add = add;
      const std::string problem = Ends(pair, wr);
      ASSERT_CLAUSE("WR-DATA-011", problem.empty()) << problem;
      EXPECT_CLAUSE("WR-DATA-011", local.U64(0) == old) << old << " + " << add;
      EXPECT_CLAUSE("WR-DATA-011", Eventually([&] { return remote.U64(8) == old + add; }))
          << old << " + " << add << " gives " << remote.U64(8);
    }
  }
}

QPX_TEST(Data, AtomicsAreHostOrder, "WR-DATA-012") {
  NeedsAtomics();
  Pair& pair = Of(Transport::kRc, {Op::kFetchAdd});
  Memory& local = bed().Mem(64);
  Memory& remote = bed().Mem(64);
  remote.SetU64(0, 0x0102030405060708u);
  Wr wr = Remote(Op::kFetchAdd, local, 8, remote, 0);
  wr.compare_add = 1;
  ASSERT_CLAUSE("WR-DATA-012", Ends(pair, wr).empty());
  uint64_t value = 0x0102030405060708u;
  EXPECT_CLAUSE("WR-DATA-012", std::memcmp(local.data(), &value, 8) == 0) << "the returned bytes";
  ++value;
  EXPECT_CLAUSE("WR-DATA-012",
                Eventually([&] { return std::memcmp(remote.data(), &value, 8) == 0; }))
      << "the remote bytes";
}

QPX_TEST_P(Data, AtomicsAreAligned, (std::vector<Op>{Op::kCmpSwp, Op::kFetchAdd}), "WR-DATA-013") {
  NeedsAtomics();
  for (std::size_t shift = 1; shift < 8; ++shift) {
    Pair& pair = Of(Transport::kRc, {param});
    Memory& local = bed().Mem(64);
    Memory& remote = bed().Mem(64);
    remote.Fill(0xee);
    ibv_wc wc{};
    const Wr wr = Remote(param, local, 8, remote, 8 + shift);
    if (Post(pair.a, wr) != 0) {
      Record::Current().Variation("WR-DATA-013", "refused at complete");
    } else {
      const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1, 60s);
      ASSERT_CLAUSE("WR-DATA-013", wcs.size() == 1) << "no completion";
      wc = wcs[0];
      EXPECT_CLAUSE("WR-DATA-013", wc.status == IBV_WC_REM_INV_REQ_ERR)
          << "address + " << shift << ": " << ibv_wc_status_str(wc.status);
    }
    EXPECT_CLAUSE("WR-DATA-013", remote.Is(0, 64, 0xee)) << "memory changed, + " << shift;
  }
}

QPX_TEST(Data, AtomicsWithAnotherLength, "WR-DATA-014") {
  NeedsAtomics();
  for (const uint32_t length : {4u, 7u, 9u, 16u, 44u}) {  // 44: two elements of four
    Pair& pair = Of(Transport::kRc, {Op::kFetchAdd});
    Memory& local = bed().Mem(256);
    Memory& remote = bed().Mem(64);
    local.Fill(0xee);
    remote.SetU64(0, 100);
    Wr wr = Remote(Op::kFetchAdd, local, length, remote, 0);
    wr.setter = Setter::kSgeList;
    wr.sge = {local.sge(64, length)};
    if (length == 44) wr.sge = {local.sge(64, 4), local.sge(128, 4)};
    wr.compare_add = 7;
    const std::string end = Ends(pair, wr);
    Record::Current().Variation("WR-DATA-014",
                                std::to_string(length) + ": " + (end.empty() ? "SUCCESS" : end));
    clock().Pass(10ms);
    EXPECT_CLAUSE("WR-DATA-014", remote.U64(0) == 100 || remote.U64(0) == 107)
        << "remote " << remote.U64(0);
    // Nothing outside the elements.
    const bool inside =
        length == 44 ? local.Is(0, 64, 0xee) && local.Is(68, 60, 0xee) && local.Is(132, 124, 0xee)
                     : local.Is(0, 64, 0xee) && local.Is(64 + length, 192 - length, 0xee);
    EXPECT_CLAUSE("WR-DATA-014", inside) << "bytes outside the elements, length " << length;
  }
}

QPX_TEST_P(Data, NoAtomicsNoAtomicBits, (std::vector<Op>{Op::kCmpSwp, Op::kFetchAdd}),
           "WR-DATA-015") {
  if (facts().has_atomics()) throw NotApplicable{"the device has atomics"};
  PairOptions options;
  options.ops = Bits({param});
  ibv_cq* cq = bed().Cq(64);
  ibv_qp_init_attr_ex attr = RequesterAttr(bed(), options, cq, cq);
  EXPECT_CLAUSE("WR-DATA-015", bed().TryQp(&attr) == nullptr)
      << Info(param).name << " is granted with IBV_ATOMIC_NONE";
}

// --- FLUSH and ATOMIC_WRITE
// ------------------------------------------------------------------------

QPX_TEST(Data, FlushMovesNothing, "WR-DATA-016") {
  Pair& pair = Placement(Op::kFlush, FlushAccess());
  Memory& local = bed().Mem(256);
  Memory& remote = bed().MemAll(256);
  local.Pattern(0, 256, 3);
  remote.Fill(0xee);
  std::vector<Wr> wrs(2);
  wrs[0] = Remote(Op::kWrite, local, 64, remote, 64);
  wrs[1] = Remote(Op::kFlush, local, 0, remote, 64);
  wrs[1].setter = Setter::kNone;
  wrs[1].id = 2;
  wrs[1].flush_length = 64;
  ASSERT_CLAUSE("WR-DATA-016", Post(pair.a, wrs) == 0);
  EXPECT_CLAUSE("WR-DATA-016", Differs(Await(pair.a.send_cq, 2), {1, 2}).empty());
  EXPECT_CLAUSE("WR-DATA-016", remote.HasPattern(64, 64, 3)) << "written and flushed, not there";
  EXPECT_CLAUSE("WR-DATA-016", remote.Is(0, 64, 0xee) && remote.Is(128, 128, 0xee));
}

QPX_TEST(Data, FlushOfTheWholeRegion, "WR-DATA-017") {
  Pair& pair = Placement(Op::kFlush, FlushAccess());
  Memory& remote = bed().MemAll(256);
  remote.Pattern(0, 256, 3);
  Wr wr = Remote(Op::kFlush, remote, 0, remote, 0);
  wr.setter = Setter::kNone;
  wr.flush_level = kFlushRegion;
  wr.flush_length = 0;
  wr.remote = 0x123456789abcu;
  const std::string problem = Ends(pair, wr);
  EXPECT_CLAUSE("WR-DATA-017", problem.empty()) << problem;
  EXPECT_CLAUSE("WR-DATA-017", remote.HasPattern(0, 256, 3)) << "memory changed";
}

QPX_TEST(Data, FlushNeedsItsRight, "WR-DATA-018") {
  {
    Pair& pair = Placement(Op::kFlush, FlushAccess());
    Memory& remote = bed().Mem(256, FlushAccess());
    Wr wr = Remote(Op::kFlush, remote, 0, remote, 0);
    wr.setter = Setter::kNone;
    wr.flush_length = 64;
    wr.flush_type = kFlushPersistent;
    ibv_wc wc{};
    EXPECT_CLAUSE("WR-DATA-018", !Ends(pair, wr, &wc).empty())
        << "PERSISTENT on a region with GLOBAL alone";
    if (wc.status != IBV_WC_SUCCESS) {
      EXPECT_CLAUSE("WR-DATA-018",
                    wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR)
          << ibv_wc_status_str(wc.status);
    }
  }
  {
    Pair& pair = Placement(Op::kFlush, FlushAccess());
    Memory& remote = bed().Mem(256, kAllAccess);  // no FLUSH right at all
    Wr wr = Remote(Op::kFlush, remote, 0, remote, 0);
    wr.setter = Setter::kNone;
    wr.flush_length = 64;
    EXPECT_CLAUSE("WR-DATA-018", !Ends(pair, wr).empty()) << "a region without any FLUSH right";
  }
  PairOptions options;
  options.ops = Bits({Op::kFlush});
  options.stop_at = IBV_QPS_RESET;
  Pair& pair = bed().Connect(options);
  pair.options.access = kAllAccess;  // without FLUSH_GLOBAL
  BringUp(bed(), pair, IBV_QPS_RTS);
  Memory& remote = bed().Mem(256, FlushAccess());
  Wr wr = Remote(Op::kFlush, remote, 0, remote, 0);
  wr.setter = Setter::kNone;
  wr.flush_length = 64;
  ibv_wc wc{};
  EXPECT_CLAUSE("WR-DATA-018", !Ends(pair, wr, &wc).empty()) << "a QP without the right";
  if (wc.status != IBV_WC_SUCCESS) {
    EXPECT_CLAUSE("WR-DATA-018",
                  wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR)
        << ibv_wc_status_str(wc.status);
  }
}

QPX_TEST(Data, FlushWithOddArguments, "WR-DATA-019") {
  struct Case {
    const char* name;
    uint8_t type, level;
  };
  for (const Case& c : {Case{"type 0", 0, kFlushRange}, Case{"type 0x80", 0x80, kFlushRange},
                        Case{"level 2", kFlushGlobal, 2}}) {
    Pair& pair = Placement(Op::kFlush, FlushAccess());
    Memory& remote = bed().MemAll(256);
    remote.Pattern(0, 256, 3);
    Wr wr = Remote(Op::kFlush, remote, 0, remote, 0);
    wr.setter = Setter::kNone;
    wr.flush_length = 64;
    wr.flush_type = c.type;
    wr.flush_level = c.level;
    const std::string end = Ends(pair, wr);
    Record::Current().Variation("WR-DATA-019",
                                std::string(c.name) + ": " + (end.empty() ? "SUCCESS" : end));
    EXPECT_CLAUSE("WR-DATA-019", end != "no completion") << c.name;
    EXPECT_CLAUSE("WR-DATA-019", remote.HasPattern(0, 256, 3)) << c.name;
  }
}

QPX_TEST(Data, FlushLengthIsNotTruncated, "WR-DATA-020") {
  Pair& pair = Placement(Op::kFlush, FlushAccess());
  Memory& remote = bed().MemAll(256);
  Wr wr = Remote(Op::kFlush, remote, 0, remote, 0);
  wr.setter = Setter::kNone;
  wr.flush_length = (uint64_t{1} << 32) + 8;
  // The region is shorter than that, so only a truncated length could succeed.
  EXPECT_CLAUSE("WR-DATA-020", Fails(pair, wr)) << "2^32 + 8 bytes of a region of 256";
}

QPX_TEST(Data, AtomicWriteDoesNotTear, "WR-DATA-021") {
  Pair& pair = Placement(Op::kAtomicWrite);
  Memory& remote = bed().Mem(64);
  remote.SetU64(0, 0);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> torn{0};
  std::thread reader([&] {
    auto* place = reinterpret_cast<std::atomic<uint64_t>*>(remote.data());
    while (!stop) {
      const uint64_t value = place->load(std::memory_order_relaxed);
      if (value != 0 && value != ~uint64_t{0}) torn = value;
    }
  });
  std::string problem;
  const int rounds = Repetitions(10000);
  for (int round = 0; round < rounds && problem.empty(); ++round) {
    Wr wr = Remote(Op::kAtomicWrite, remote, 8, remote, 0);
    wr.setter = Setter::kNone;
    wr.value = round % 2 ? 0 : ~uint64_t{0};
    problem = Ends(pair, wr);
  }
  stop = true;
  reader.join();
  EXPECT_CLAUSE("WR-DATA-021", problem.empty()) << problem;
  EXPECT_CLAUSE("WR-DATA-021", torn == 0) << "a reader saw " << std::hex << torn;
}

QPX_TEST(Data, AtomicWriteNeedsRemoteWriteAlone, "WR-DATA-022") {
  if (sizeof(void*) != 8) throw NotApplicable{"not a 64-bit host"};
  NeedsDevice(Op::kAtomicWrite);
  PairOptions options;
  options.ops = Bits({Op::kAtomicWrite});
  options.stop_at = IBV_QPS_RESET;
  Pair& pair = bed().Connect(options);
  pair.options.access = IBV_ACCESS_REMOTE_WRITE;
  BringUp(bed(), pair, IBV_QPS_RTS);
  Memory& remote = bed().Mem(64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  Wr wr = Remote(Op::kAtomicWrite, remote, 8, remote, 8);
  wr.setter = Setter::kNone;
  wr.value = 0x1122334455667788u;
  const std::string problem = Ends(pair, wr);
  EXPECT_CLAUSE("WR-DATA-022", problem.empty()) << problem;
  EXPECT_CLAUSE("WR-DATA-022", Eventually([&] { return remote.U64(8) == 0x1122334455667788u; }));
}

QPX_TEST(Data, AtomicWriteKeepsByteOrder, "WR-DATA-023") {
  Pair& pair = Placement(Op::kAtomicWrite);
  Memory& remote = bed().Mem(64);
  const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  Wr wr = Remote(Op::kAtomicWrite, remote, 8, remote, 16);
  wr.setter = Setter::kNone;
  std::memcpy(&wr.value, bytes, 8);
  const std::string problem = Ends(pair, wr);
  EXPECT_CLAUSE("WR-DATA-023", problem.empty()) << problem;
  EXPECT_CLAUSE("WR-DATA-023",
                Eventually([&] { return std::memcmp(remote.data() + 16, bytes, 8) == 0; }));
}

QPX_TEST(Data, AtomicWriteIsAligned, "WR-DATA-024") {
  for (std::size_t shift = 1; shift < 8; ++shift) {
    Pair& pair = Placement(Op::kAtomicWrite);
    Memory& remote = bed().Mem(64);
    remote.Fill(0xee);
    Wr wr = Remote(Op::kAtomicWrite, remote, 8, remote, 8 + shift);
    wr.setter = Setter::kNone;
    ibv_wc wc{};
    const std::string end = Ends(pair, wr, &wc);
    EXPECT_CLAUSE("WR-DATA-024", !end.empty()) << "address + " << shift << " succeeds";
    if (wc.status != IBV_WC_SUCCESS) {
      EXPECT_SHOULD("WR-DATA-024", wc.status == IBV_WC_REM_INV_REQ_ERR)
          << ibv_wc_status_str(wc.status);
    }
    EXPECT_CLAUSE("WR-DATA-024", remote.Is(0, 64, 0xee)) << "memory changed, + " << shift;
  }
}

QPX_TEST(Data, ReadsBeyondTheLimitStall, "WR-DATA-025") {
  PairOptions options;
  options.ops = Bits({Op::kRead});
  options.send_wr = 64;
  options.rd_atomic = 1;
  Pair& pair = bed().Connect(options);
  Memory& local = bed().Mem(64 * 64);
  Memory& remote = bed().Mem(64 * 64);
  std::vector<Wr> wrs;
  for (uint64_t id = 0; id < 64; ++id) {
    remote.Pattern(id * 64, 64, id);
    Wr wr = Remote(Op::kRead, local, 64, remote, id * 64);
    wr.id = id;
    wr.sge = {local.sge(id * 64, 64)};
    wrs.push_back(wr);
  }
  ASSERT_CLAUSE("WR-DATA-025", Post(pair.a, wrs) == 0);
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 64, 60s);
  ASSERT_CLAUSE("WR-DATA-025", wcs.size() == 64) << wcs.size() << " completions";
  for (const ibv_wc& wc : wcs) {
    EXPECT_CLAUSE("WR-DATA-025", wc.status == IBV_WC_SUCCESS) << Describe(wcs);
    EXPECT_CLAUSE("WR-DATA-025", local.HasPattern(wc.wr_id * 64, 64, wc.wr_id));
  }
}

QPX_TEST_P(Data, FlushErrors, (std::vector<int>{0, 1, 2}), "WR-DATA-032") {
  Pair& pair = Placement(Op::kFlush, FlushAccess());
  Memory& remote = bed().MemAll(256, param == 1 ? bed().NewPd() : nullptr);
  remote.Pattern(0, 256, 3);
  Wr wr = Remote(Op::kFlush, remote, 0, remote, param == 2 ? 224 : 0);
  wr.setter = Setter::kNone;
  wr.flush_length = 64;
  if (param == 0) wr.rkey ^= 0x5500;
  ibv_wc wc{};
  const char* names[] = {"unknown key", "wrong PD", "past the end"};
  EXPECT_CLAUSE("WR-DATA-032", !Ends(pair, wr, &wc).empty()) << names[param] << " succeeds";
  EXPECT_CLAUSE("WR-DATA-032", wc.status == IBV_WC_REM_ACCESS_ERR)
      << names[param] << ": " << ibv_wc_status_str(wc.status);
  EXPECT_CLAUSE("WR-DATA-032", ReachesState(pair.a.qp, {IBV_QPS_ERR}));
  EXPECT_CLAUSE("WR-DATA-032", ReachesState(pair.b.qp, {IBV_QPS_ERR}));
  EXPECT_CLAUSE("WR-DATA-032", remote.HasPattern(0, 256, 3)) << names[param];
}

QPX_TEST_P(Data, AtomicWriteErrors, (std::vector<int>{0, 1, 2, 3}), "WR-DATA-033") {
  NeedsDevice(Op::kAtomicWrite);
  PairOptions options;
  options.ops = Bits({Op::kAtomicWrite});
  options.stop_at = IBV_QPS_RESET;
  Pair& pair = bed().Connect(options);
  if (param == 3) pair.options.access = IBV_ACCESS_REMOTE_READ;
  BringUp(bed(), pair, IBV_QPS_RTS);
  Memory& remote = bed().Mem(256, param == 2 ? IBV_ACCESS_LOCAL_WRITE : kAllAccess);
  remote.Fill(0xee);
  Wr wr = Remote(Op::kAtomicWrite, remote, 8, remote, param == 1 ? 256 : 64);
  wr.setter = Setter::kNone;
  if (param == 0) wr.rkey ^= 0x5500;
  ibv_wc wc{};
  const char* names[] = {"unknown key", "past the end", "no right of the region",
                         "no right of the QP"};
  EXPECT_CLAUSE("WR-DATA-033", !Ends(pair, wr, &wc).empty()) << names[param] << " succeeds";
  EXPECT_CLAUSE("WR-DATA-033", wc.status == IBV_WC_REM_ACCESS_ERR ||
                                   (param == 3 && wc.status == IBV_WC_REM_INV_REQ_ERR))
      << names[param] << ": " << ibv_wc_status_str(wc.status);
  EXPECT_CLAUSE("WR-DATA-033", remote.Is(0, 256, 0xee)) << names[param];
}

QPX_TEST_P(Data, CapabilityBitsAreHonoured, (std::vector<Op>{Op::kFlush, Op::kAtomicWrite}),
           "WR-DATA-034") {
  const bool has = param == Op::kFlush ? facts().has_flush() : facts().has_atomic_write();
  if (has) throw NotApplicable{"the device reports the capability"};
  PairOptions options;
  options.ops = Bits({param});
  ibv_cq* cq = bed().Cq(64);
  ibv_qp_init_attr_ex attr = RequesterAttr(bed(), options, cq, cq);
  EXPECT_CLAUSE("WR-DATA-034", bed().TryQp(&attr) == nullptr)
      << Info(param).name << " is granted by a device without the capability";
}

}  // namespace
}  // namespace qpexam::conformance
