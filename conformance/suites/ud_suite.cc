// UD: addressing of datagrams.

#include <arpa/inet.h>

#include <cstring>
#include <string>
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

constexpr uint32_t kGrh = 40;

class Ud : public Conformance {
 protected:
  Pair& UdPair(ibv_qp_state stop_at = IBV_QPS_RTS) {
    PairOptions options;
    options.transport = Transport::kUd;
    options.ops = Bits({Op::kSend, Op::kSendImm});
    options.stop_at = stop_at;
    return bed().Connect(options);
  }
  // A SEND of `length` patterned bytes from `memory` to whatever `to` says.
  static Wr Datagram(Memory& memory, uint64_t id, uint32_t length, const UdAddress& to) {
    Wr wr;
    wr.op = Op::kSend;
    wr.id = id;
    memory.Pattern(0, length, id);
    wr.sge = {memory.sge(0, length)};
    wr.ud = to;
    return wr;
  }
  static UdAddress AddressOf(const Pair& pair) {
    return {pair.a.to_peer, pair.a.peer_qpn, pair.b.qkey};
  }
  // Sends one message and returns the receiver's completions (empty: lost or dropped).
  static std::vector<ibv_wc> SendAndReceive(Pair& pair, const Wr& wr, std::string* problem) {
    if (const int rc = Post(pair.a, wr); rc != 0) {
      *problem = "complete returned " + std::to_string(rc);
      return {};
    }
    const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
    if (sent.size() != 1 || sent[0].status != IBV_WC_SUCCESS) {
      *problem = "the sender's completion: " + Describe(sent);
      return {};
    }
    return Await(pair.b.recv_cq, 1, 2s);
  }
};

QPX_TEST(Ud, EachRequestHasItsOwnDestination, "WR-UD-001") {
  std::vector<Pair*> pairs;
  for (int i = 0; i < 3; ++i) pairs.push_back(&UdPair());
  Memory& from = bed().Mem(9 * 64);
  const std::string problem = Persist(Transport::kUd, [&]() -> std::string {
    std::vector<Memory*> into;
    for (int i = 0; i < 3; ++i) into.push_back(&bed().Mem(3 * 128));
    std::vector<Wr> wrs;
    for (uint32_t i = 0; i < 9; ++i) {
      Pair& to = *pairs[i % 3];
      if (PostRecv(to.b, i, {into[i % 3]->sge(i / 3 * 128, 128)}) != 0) return "no receive";
      Wr wr;
      wr.op = Op::kSend;
      wr.id = i;
      from.Pattern(i * 64, 64, 100 + i);
      wr.sge = {from.sge(i * 64, 64)};
      wr.ud = AddressOf(to);
      wrs.push_back(wr);
    }
    if (const int rc = Post(pairs[0]->a, wrs); rc != 0) return "refused: " + std::to_string(rc);
    if (const std::string bad = Differs(Await(pairs[0]->a.send_cq, 9), {0, 1, 2, 3, 4, 5, 6, 7, 8});
        !bad.empty()) {
      return "sender: " + bad;
    }
    for (uint32_t k = 0; k < 3; ++k) {
      const std::vector<ibv_wc> wcs = Await(pairs[k]->b.recv_cq, 3, 3s);
      if (wcs.size() != 3) return "peer " + std::to_string(k) + " got " + Describe(wcs);
      for (uint32_t i = 0; i < 3; ++i) {
        if (wcs[i].qp_num != pairs[k]->b.qp->qp_num) return "a completion of another QP";
        if (wcs[i].src_qp != pairs[0]->a.qp->qp_num) return "src_qp is not the sender's number";
        if (!into[k]->HasPattern(i * 128 + kGrh, 64, 100 + wcs[i].wr_id)) {
          return "peer " + std::to_string(k) + " message " + std::to_string(i) + " has wrong bytes";
        }
      }
    }
    return "";
  });
  EXPECT_CLAUSE("WR-UD-001", problem.empty()) << problem;
}

QPX_TEST(Ud, WrongQkeyIsDroppedSilently, "WR-UD-002") {
  Pair& pair = UdPair();
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(256);
  const std::string problem = Persist(Transport::kUd, [&]() -> std::string {
    into.Fill(0xee);
    if (PostRecv(pair.b, 50, {into.sge(0, 128)}) != 0) return "no receive";
    UdAddress wrong = AddressOf(pair);
    wrong.qkey ^= 0x22;
    std::string bad;
    const std::vector<ibv_wc> got = SendAndReceive(pair, Datagram(from, 1, 32, wrong), &bad);
    if (!bad.empty()) return bad;
    if (!got.empty()) return "a message with a wrong Q_Key was delivered: " + Describe(got);
    EXPECT_CLAUSE("WR-UD-002", into.Is(0, 256, 0xee)) << "the receive buffer was written";
    // The receive is still there for the next right message.
    const std::vector<ibv_wc> next =
        SendAndReceive(pair, Datagram(from, 2, 32, AddressOf(pair)), &bad);
    if (!bad.empty()) return bad;
    if (next.size() != 1 || next[0].wr_id != 50 || next[0].status != IBV_WC_SUCCESS) {
      return "the next right message: " + Describe(next);
    }
    return into.HasPattern(kGrh, 32, 2) ? "" : "the next right message has wrong bytes";
  });
  EXPECT_CLAUSE("WR-UD-002", problem.empty()) << problem;
}

QPX_TEST(Ud, PrivilegedQkeyMeansTheQpsOwn, "WR-UD-003") {
  Pair& pair = UdPair();
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(128);
  const std::string problem = Persist(Transport::kUd, [&]() -> std::string {
    if (PostRecv(pair.b, 3, {into.sge(0, 128)}) != 0) return "no receive";
    UdAddress to = AddressOf(pair);
    to.qkey = 0x80000001;
    std::string bad;
    const std::vector<ibv_wc> got = SendAndReceive(pair, Datagram(from, 7, 16, to), &bad);
    if (!bad.empty()) return bad;
    return got.size() == 1 && got[0].status == IBV_WC_SUCCESS ? "" : "not delivered";
  });
  EXPECT_CLAUSE("WR-UD-003", problem.empty()) << problem;
}

QPX_TEST(Ud, PayloadStartsAfterTheGrhArea, "WR-UD-004", "WR-UD-005", "WR-COMP-008") {
  Pair& pair = UdPair();
  Memory& from = bed().Mem(256);
  Memory& into = bed().Mem(512);
  for (const uint32_t length : {1u, 7u, 64u, 200u}) {
    ibv_wc last{};
    const std::string problem = Persist(Transport::kUd, [&]() -> std::string {
      into.Fill(0xee);
      if (PostRecv(pair.b, length, {into.sge(0, 300)}) != 0) return "no receive";
      std::string bad;
      const std::vector<ibv_wc> got =
          SendAndReceive(pair, Datagram(from, length, length, AddressOf(pair)), &bad);
      if (!bad.empty()) return bad;
      if (got.size() != 1 || got[0].status != IBV_WC_SUCCESS) return "receive: " + Describe(got);
      last = got[0];
      if (!into.HasPattern(kGrh, length, length)) return "the payload is not at offset 40";
      if (!into.Is(kGrh + length, 512 - kGrh - length, 0xee)) return "bytes after it changed";
      return "";
    });
    ASSERT_CLAUSE("WR-UD-004", problem.empty()) << "length " << length << ": " << problem;
    EXPECT_CLAUSE("WR-UD-004", last.byte_len == kGrh + length) << "byte_len " << last.byte_len;
    EXPECT_CLAUSE("WR-COMP-008", last.byte_len == kGrh + length) << "byte_len " << last.byte_len;
    if (facts().port.link_layer == IBV_LINK_LAYER_ETHERNET) {
      EXPECT_CLAUSE("WR-UD-005", (last.wc_flags & IBV_WC_GRH) != 0) << "RoCE always has a GRH";
    } else if (facts().port.link_layer != IBV_LINK_LAYER_INFINIBAND) {
      // A wire of a vendor's own has no GRH to tell of.
    } else if (facts().use_grh) {
      EXPECT_CLAUSE("WR-UD-005", (last.wc_flags & IBV_WC_GRH) != 0) << "the AH was global";
    } else {
      EXPECT_CLAUSE("WR-UD-005", (last.wc_flags & IBV_WC_GRH) == 0) << "the AH was local";
    }
  }
}

// The 40 bytes end in the middle of a buffer, at its end, or fill more than one.
QPX_TEST_P(Ud, TheGrhAreaMaySpanBuffers, (std::vector<int>{1, 16, 39, 40, 41}), "WR-UD-004") {
  Pair& pair = UdPair();
  if (pair.b.cap.max_recv_sge < 2) throw NotApplicable{"a receive has one SGE"};
  constexpr uint32_t kLength = 24;
  const uint32_t first = static_cast<uint32_t>(param);
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(512);
  const std::string problem = Persist(Transport::kUd, [&]() -> std::string {
    into.Fill(0xee);
    if (PostRecv(pair.b, 4, {into.sge(256, first), into.sge(0, 200)}) != 0) return "no receive";
    std::string bad;
    const std::vector<ibv_wc> got =
        SendAndReceive(pair, Datagram(from, 9, kLength, AddressOf(pair)), &bad);
    if (!bad.empty()) return bad;
    if (got.size() != 1 || got[0].status != IBV_WC_SUCCESS) return "receive: " + Describe(got);
    if (got[0].byte_len != kGrh + kLength) return "byte_len " + std::to_string(got[0].byte_len);
    std::vector<uint8_t> whole = into.Copy(256, first);
    for (const uint8_t byte : into.Copy(0, 200)) whole.push_back(byte);
    for (uint32_t i = 0; i < kLength; ++i) {
      if (whole[kGrh + i] != PatternByte(i, 9)) return "the payload is not at offset 40";
    }
    for (std::size_t i = kGrh + kLength; i < whole.size(); ++i) {
      if (whole[i] != 0xee) return "bytes after it changed";
    }
    return "";
  });
  EXPECT_CLAUSE("WR-UD-004", problem.empty()) << "first buffer of " << first << ": " << problem;
}

QPX_TEST(Ud, ShortReceiveIsNoSuccess, "WR-UD-006") {
  Pair& pair = UdPair();
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(256);
  into.Fill(0xee);
  ASSERT_CLAUSE("WR-UD-006", PostRecv(pair.b, 6, {into.sge(0, kGrh + 31)}) == 0);
  std::string bad;
  const std::vector<ibv_wc> got =
      SendAndReceive(pair, Datagram(from, 1, 32, AddressOf(pair)), &bad);
  ASSERT_CLAUSE("WR-UD-006", bad.empty()) << bad;
  if (got.empty()) {
    Record::Current().Variation("WR-UD-006", "no receive completion");
  } else {
    EXPECT_CLAUSE("WR-UD-006", got[0].status != IBV_WC_SUCCESS) << Describe(got);
    Record::Current().Variation("WR-UD-006", "an error completion of the receive");
  }
  EXPECT_CLAUSE("WR-UD-006", into.Is(kGrh + 31, 256 - kGrh - 31, 0xee))
      << "bytes after the receive buffer were written";
}

QPX_TEST(Ud, LongerThanTheMtu, "WR-UD-007") {
  Pair& pair = UdPair();
  const uint32_t length = facts().mtu() + 10;
  Memory& from = bed().Mem(length);
  Memory& into = bed().Mem(length + kGrh);
  ASSERT_CLAUSE("WR-UD-007", PostRecv(pair.b, 7, {into.sge(0, length + kGrh)}) == 0);
  const int rc = Post(pair.a, Datagram(from, 1, length, AddressOf(pair)));
  if (rc != 0) {
    Record::Current().Variation("WR-UD-007", "refused at complete");
    return;
  }
  const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-UD-007", sent.size() == 1) << "no completion of the sender";
  EXPECT_CLAUSE("WR-UD-007",
                sent[0].status == IBV_WC_SUCCESS || sent[0].status == IBV_WC_LOC_LEN_ERR)
      << Describe(sent);
  Record::Current().Variation("WR-UD-007", sent[0].status == IBV_WC_SUCCESS
                                               ? "silently not sent, SUCCESS"
                                               : "error completion");
  for (const ibv_wc& wc : Quiet(pair.b.recv_cq)) {
    EXPECT_CLAUSE("WR-UD-007", wc.status != IBV_WC_SUCCESS || wc.byte_len == length + kGrh)
        << "a truncated message with SUCCESS: " << wc.byte_len << " bytes";
  }
}

QPX_TEST(Ud, AddressHandleOfAnotherPd, "WR-UD-008") {
  Pair& pair = UdPair();
  Pair& other = UdPair();
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(256);
  Memory& foreign = bed().Mem(256);
  ASSERT_CLAUSE("WR-UD-008", PostRecv(pair.b, 8, {into.sge(0, 128)}) == 0);
  ASSERT_CLAUSE("WR-UD-008", PostRecv(other.b, 9, {foreign.sge(0, 128)}) == 0);
  UdAddress to = AddressOf(pair);
  to.ah = bed().AddressHandle(bed().NewPd());
  const int rc = Post(pair.a, Datagram(from, 1, 32, to));
  if (rc != 0) {
    Record::Current().Variation("WR-UD-008", "refused at complete");
  } else {
    const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
    ASSERT_CLAUSE("WR-UD-008", sent.size() == 1) << "no completion of the sender";
    const bool arrived = !Await(pair.b.recv_cq, 1, 1s).empty();
    Record::Current().Variation("WR-UD-008", sent[0].status != IBV_WC_SUCCESS ? "error completion"
                                             : arrived                        ? "delivered"
                                                                              : "silently lost");
  }
  EXPECT_CLAUSE("WR-UD-008", Quiet(other.b.recv_cq).empty()) << "delivered to another QP";
  // The next request with a right AH works, to a peer with nothing left over from the first.
  if (QueryState(pair.a.qp) != IBV_QPS_RTS) return;
  Pair& fresh = UdPair();
  Memory& fresh_into = bed().Mem(128);
  const std::string problem = Persist(Transport::kUd, [&]() -> std::string {
    if (PostRecv(fresh.b, 12, {fresh_into.sge(0, 128)}) != 0) return "no receive";
    if (Post(pair.a, Datagram(from, 2, 32, AddressOf(fresh))) != 0) return "refused";
    if (Await(pair.a.send_cq, 1).size() != 1) return "no completion of the sender";
    const std::vector<ibv_wc> got = Await(fresh.b.recv_cq, 1, 2s);
    return got.size() == 1 && got[0].status == IBV_WC_SUCCESS ? "" : "not delivered";
  });
  EXPECT_CLAUSE("WR-UD-008", problem.empty()) << problem;
}

QPX_TEST(Ud, NoAddressHandle, "WR-UD-009") {
  const ChildResult child = RunInChild(30, [](Bed& bed) -> std::string {
    PairOptions options;
    options.transport = Transport::kUd;
    options.ops = Bits({Op::kSend});
    Pair& pair = bed.Connect(options);
    Memory& from = bed.Mem(64);
    Wr wr;
    wr.op = Op::kSend;
    wr.id = 1;
    wr.sge = {from.sge(0, 16)};
    wr.ud = UdAddress{nullptr, pair.a.peer_qpn, pair.b.qkey};
    return Post(pair.a, wr) != 0 ? "refused" : "accepted";
  });
  EXPECT_CLAUSE("WR-UD-009", child.end == ChildResult::End::kReturned) << child.text;
  if (child.end == ChildResult::End::kReturned) {
    Record::Current().Variation("WR-UD-009", child.text);
  }
}

QPX_TEST(Ud, QpNumberIs24Bits, "WR-UD-010") {
  Pair& pair = UdPair();
  Pair& third = UdPair();
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(256);
  Memory& foreign = bed().Mem(256);
  ASSERT_CLAUSE("WR-UD-010", PostRecv(pair.b, 10, {into.sge(0, 128)}) == 0);
  // Both QPs of the other pair wait, whose numbers follow the peer's where numbers are consecutive.
  ASSERT_CLAUSE("WR-UD-010", PostRecv(third.b, 11, {foreign.sge(0, 128)}) == 0);
  ASSERT_CLAUSE("WR-UD-010", PostRecv(third.a, 12, {foreign.sge(128, 128)}) == 0);
  UdAddress to = AddressOf(pair);
  to.qpn |= 0xff000000;
  const int rc = Post(pair.a, Datagram(from, 1, 32, to));
  if (rc == 0) {
    ASSERT_CLAUSE("WR-UD-010", Await(pair.a.send_cq, 1).size() == 1) << "no completion";
    const bool arrived = !Await(pair.b.recv_cq, 1, 1s).empty();
    Record::Current().Variation("WR-UD-010", arrived ? "masked and delivered" : "dropped");
  } else {
    Record::Current().Variation("WR-UD-010", "refused at complete");
  }
  EXPECT_CLAUSE("WR-UD-010", Quiet({third.a.recv_cq, third.b.recv_cq}).empty())
      << "delivered to a third QP";
}

QPX_TEST(Ud, NetworkHeaderInTheGrhArea, "WR-UD-011") {
  if (facts().port.link_layer != IBV_LINK_LAYER_ETHERNET) throw NotApplicable{"not RoCE"};
  Pair& pair = UdPair();
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(128);
  ibv_wc last{};
  const std::string problem = Persist(Transport::kUd, [&]() -> std::string {
    into.Fill(0xee);
    if (PostRecv(pair.b, 3, {into.sge(0, 128)}) != 0) return "no receive";
    std::string bad;
    const std::vector<ibv_wc> got =
        SendAndReceive(pair, Datagram(from, 7, 16, AddressOf(pair)), &bad);
    if (!bad.empty()) return bad;
    if (got.size() != 1 || got[0].status != IBV_WC_SUCCESS) return "receive: " + Describe(got);
    last = got[0];
    return "";
  });
  ASSERT_CLAUSE("WR-UD-011", problem.empty()) << problem;
  if ((last.wc_flags & IBV_WC_GRH) == 0) throw NotApplicable{"no GRH flag"};
  const uint8_t* gid = facts().gid.raw;
  const uint8_t v4_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const uint8_t* area = into.data();
  if (std::memcmp(gid, v4_mapped, 12) == 0) {
    EXPECT_CLAUSE("WR-UD-011", area[20] >> 4 == 4) << "no IPv4 header at byte 20";
    EXPECT_CLAUSE("WR-UD-011", std::memcmp(area + 20 + 12, gid + 12, 4) == 0) << "source address";
    EXPECT_CLAUSE("WR-UD-011", std::memcmp(area + 20 + 16, gid + 12, 4) == 0) << "destination";
  } else {
    EXPECT_CLAUSE("WR-UD-011", area[0] >> 4 == 6) << "no IPv6 header (GRH) at byte 0";
    EXPECT_CLAUSE("WR-UD-011", std::memcmp(area + 8, gid, 16) == 0) << "source GID";
    EXPECT_CLAUSE("WR-UD-011", std::memcmp(area + 24, gid, 16) == 0) << "destination GID";
  }
}

}  // namespace
}  // namespace qpexam::conformance
