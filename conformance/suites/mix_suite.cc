// MIX: ibv_post_send and regions on one QP.

#include <random>
#include <string>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {
namespace {

class Mix : public Conformance {
 protected:
  Pair& RcPair(uint64_t ops = 0, uint32_t depth = 16) {
    PairOptions options;
    options.ops = ops;
    options.send_wr = depth;
    return bed().Connect(options);
  }
  // A request that ibv_post_send refuses at once on most providers: more elements than granted.
  static Wr TooManyElements(const Pair& pair, Memory& memory, uint64_t id) {
    Wr wr;
    wr.op = Op::kSend;
    wr.id = id;
    wr.setter = Setter::kSgeList;
    wr.sge.assign(pair.a.cap.max_send_sge + 1, memory.sge(0, 1));
    return wr;
  }
};

QPX_TEST(Mix, OrderIsCallOrder, "WR-MIX-001") {
  Pair& pair = RcPair(Bits({Op::kSend}));
  Traffic traffic(bed(), pair);
  std::mt19937_64 random(1);
  const int count = Repetitions(100000);
  for (uint64_t id = 1; id <= static_cast<uint64_t>(count);) {
    std::vector<Flight> flights;
    const int groups = 1 + static_cast<int>(random() % 3);
    for (int g = 0; g < groups; ++g) {
      std::vector<Wr> wrs;
      const int batch = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < batch; ++i) {
        flights.push_back(traffic.Make(Op::kSend, id++));
        wrs.push_back(flights.back().wr);
      }
      const bool old_way = random() % 2 == 0;
      const int rc = old_way ? PostSend(pair.a, wrs) : Post(pair.a, wrs);
      ASSERT_CLAUSE("WR-MIX-001", rc == 0)
          << (old_way ? "ibv_post_send" : "the region") << " returned " << rc;
    }
    const std::string problem = traffic.Finish(flights);
    ASSERT_CLAUSE("WR-MIX-001", problem.empty()) << problem;
  }
}

QPX_TEST(Mix, PostSendInsideARegionIsReported, "WR-MIX-002") {
  Pair& pair = RcPair(Bits({Op::kSend}));
  Traffic traffic(bed(), pair);
  const Flight flight = traffic.Make(Op::kSend, 1);
  ReferenceOnly();
  ibv_wr_start(pair.a.ex);
  PostSend(pair.a, {flight.wr});
  ibv_wr_abort(pair.a.ex);
  EXPECT_CLAUSE("WR-MIX-002", Linted("WR-MIX-002"));
}

// What one request left behind, as far as both APIs promise the same.
struct Seen {
  int rc = 0;
  ibv_wc_status status = IBV_WC_SUCCESS;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  bool received = false;
  ibv_wc_status receive_status = IBV_WC_SUCCESS;
  ibv_wc_opcode receive_opcode = IBV_WC_RECV;
  unsigned receive_flags = 0;
  uint32_t byte_len = 0;
  bool imm_right = true;
  std::string effect;  // what is wrong with it
};

std::string Differences(const Seen& region, const Seen& list) {
  std::string text;
  auto differ = [&](const char* what, auto a, auto b) {
    if (a != b) {
      text += std::string(text.empty() ? "" : ", ") + what + " " +
              std::to_string(static_cast<long>(a)) + " by region, " +
              std::to_string(static_cast<long>(b)) + " by ibv_post_send";
    }
  };
  differ("status", region.status, list.status);
  differ("opcode", region.opcode, list.opcode);
  differ("a receive completion", region.received, list.received);
  if (region.received && list.received) {
    differ("receive status", region.receive_status, list.receive_status);
    differ("receive opcode", region.receive_opcode, list.receive_opcode);
    const unsigned judged = IBV_WC_WITH_IMM | IBV_WC_WITH_INV;
    differ("receive wc_flags", region.receive_flags & judged, list.receive_flags & judged);
    differ("byte_len", region.byte_len, list.byte_len);
    differ("the immediate is right", region.imm_right, list.imm_right);
  }
  if (!region.effect.empty()) text += " by region: " + region.effect;
  if (!list.effect.empty()) text += " by ibv_post_send: " + list.effect;
  return text;
}

enum class Api { kRegion, kPostSend };

Seen RunOne(Pair& pair, Traffic& traffic, const Flight& flight, Api api) {
  Seen seen;
  seen.rc = api == Api::kRegion ? Post(pair.a, flight.wr) : PostSend(pair.a, {flight.wr});
  if (seen.rc != 0) return seen;
  const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
  if (sent.size() != 1) {
    seen.effect = "no send completion";
    return seen;
  }
  seen.status = sent[0].status;
  if (seen.status == IBV_WC_SUCCESS) seen.opcode = sent[0].opcode;
  if (flight.expects_receive) {
    // What failed at the sender need not arrive.
    const std::vector<ibv_wc> got =
        seen.status == IBV_WC_SUCCESS ? Await(pair.b.recv_cq, 1, 2s) : PollNow(pair.b.recv_cq);
    seen.received = got.size() == 1;
    if (seen.received) {
      seen.receive_status = got[0].status;
      seen.receive_opcode = got[0].opcode;
      seen.receive_flags = got[0].wc_flags;
      seen.byte_len = got[0].byte_len;
      if ((got[0].wc_flags & IBV_WC_WITH_IMM) != 0) {
        seen.imm_right = got[0].imm_data == flight.wr.imm;
      }
    }
  }
  if (seen.status == IBV_WC_SUCCESS) seen.effect = traffic.Check(flight);
  return seen;
}

// The cells that struct ibv_send_wr can express and that need no window.
std::vector<OpOn> PlainCells() {
  std::vector<OpOn> cells;
  for (const OpOn& cell : OfferedCells()) {
    switch (cell.op) {
      case Op::kFlush:
      case Op::kAtomicWrite:
      case Op::kBindMw:
      case Op::kLocalInv:
      case Op::kSendInv:
      case Op::kTso:
        break;
      default:
        if (cell.transport != Transport::kXrc) cells.push_back(cell);
    }
  }
  return cells;
}

// A pair made without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
struct PlainPair {
  PlainPair(Bed& bed, Transport transport) {
    pair.options.transport = transport;
    pair.options.mtu = bed.facts().port.active_mtu;
    for (End* end : {&pair.a, &pair.b}) {
      end->transport = transport;
      end->send_cq = bed.Cq(256);
      end->recv_cq = bed.Cq(256);
      ibv_qp_init_attr_ex attr = RequesterAttr(bed, pair.options, end->send_cq, end->recv_cq);
      attr.comp_mask = IBV_QP_INIT_ATTR_PD;
      end->qp = bed.TryQp(&attr);
      if (end->qp == nullptr) throw NotApplicable{"a QP without the extension is refused"};
      end->cap = attr.cap;
      if (transport == Transport::kUd) end->to_peer = bed.AddressHandle();
    }
    pair.a.peer_qpn = pair.b.qp->qp_num;
    pair.b.peer_qpn = pair.a.qp->qp_num;
    BringUp(bed, pair, IBV_QPS_RTS);
  }
  Pair pair;
};

QPX_TEST_P(Mix, RequestedOperationsWorkThroughPostSend, PlainCells(), "WR-MIX-003") {
  PlainPair plain(bed(), param.transport);
  Traffic plain_traffic(bed(), plain.pair);
  const Seen without =
      RunOne(plain.pair, plain_traffic, plain_traffic.Make(param.op, 1), Api::kPostSend);
  if (without.rc != 0 || without.status != IBV_WC_SUCCESS || !without.effect.empty()) {
    throw NotApplicable{"ibv_post_send does not do it on a plain QP"};
  }
  PairOptions options;
  options.transport = param.transport;
  options.ops = Info(param.op).bit;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const std::string problem = Persist(param.transport, [&]() -> std::string {
    const Seen with = RunOne(pair, traffic, traffic.Make(param.op, 2), Api::kPostSend);
    if (with.rc != 0) return "refused with " + std::to_string(with.rc);
    if (with.status != IBV_WC_SUCCESS) return ibv_wc_status_str(with.status);
    return with.effect;
  });
  EXPECT_CLAUSE("WR-MIX-003", problem.empty())
      << "ibv_post_send on a QP made with SEND_OPS_FLAGS: " << problem;
}

QPX_TEST(Mix, OperationsNotRequested, "WR-MIX-003") {
  Pair& pair = RcPair(Bits({Op::kSend}));
  Traffic traffic(bed(), pair);
  const Seen seen = RunOne(pair, traffic, traffic.Make(Op::kWrite, 1), Api::kPostSend);
  Record::Current().Variation("WR-MIX-003", seen.rc != 0 ? "an operation not requested is refused"
                                            : seen.status != IBV_WC_SUCCESS
                                                ? "an operation not requested ends in error"
                                                : "an operation not requested is carried out");
}

QPX_TEST_P(Mix, BothApisHaveTheSameEffect, PlainCells(), "WR-MIX-004") {
  PairOptions options;
  options.transport = param.transport;
  options.ops = Info(param.op).bit;
  options.inline_data = 32;
  uint64_t id = 1;
  for (const Setter setter : SettersOf(param.op)) {
    // What one setter broke says nothing of the next, and a pair in ERR lets each wait run out.
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    for (const uint32_t length : {1u, 8u, 31u}) {
      if (Info(param.op).data == DataSetters::kEightBytes && length != 8) continue;
      if (IsInline(setter) && pair.a.cap.max_inline_data < length) continue;
      Shape shape{setter, length, setter == Setter::kSgeList && length > 8 ? 2u : 1u};
      const std::string problem = Persist(param.transport, [&]() -> std::string {
        const Seen region =
            RunOne(pair, traffic, traffic.Make(param.op, id++, shape), Api::kRegion);
        const Seen list =
            RunOne(pair, traffic, traffic.Make(param.op, id++, shape), Api::kPostSend);
        if (list.rc != 0) return "";  // ibv_post_send need not support it (WR-MIX-003)
        if (region.rc != 0) return "complete returned " + std::to_string(region.rc);
        return Differences(region, list);
      });
      EXPECT_CLAUSE("WR-MIX-004", problem.empty())
          << Info(param.op).name << " by " << Name(setter) << " of " << length << ": " << problem;
      if (!problem.empty()) break;
    }
  }
}

// What a datagram of a region may do, one of a list may: each has its own destination.
QPX_TEST(Mix, EachDatagramOfAListHasItsOwnDestination, "WR-MIX-004", "WR-UD-001") {
  PairOptions options;
  options.transport = Transport::kUd;
  options.ops = Bits({Op::kSend});
  std::vector<Pair*> pairs;
  for (int i = 0; i < 3; ++i) pairs.push_back(&bed().Connect(options));
  Memory& from = bed().Mem(6 * 64);
  Memory& into = bed().Mem(6 * 128);
  uint64_t next = 1;
  const std::string problem = Persist(Transport::kUd, [&]() -> std::string {
    std::vector<Wr> wrs;
    std::vector<uint64_t> ids;
    for (uint32_t i = 0; i < 6; ++i) {
      const Pair& to = *pairs[i % 3];
      Wr wr;
      wr.id = next++;
      if (PostRecv(pairs[i % 3]->b, wr.id, {into.sge(i * 128, 128)}) != 0) return "no receive";
      from.Pattern(i * 64, 64, wr.id);
      wr.sge = {from.sge(i * 64, 64)};
      wr.ud = UdAddress{to.a.to_peer, to.a.peer_qpn, to.b.qkey};
      ids.push_back(wr.id);
      wrs.push_back(wr);
    }
    if (PostSend(pairs[0]->a, wrs) != 0) return "";  // WR-MIX-003
    if (std::string bad = Differs(Await(pairs[0]->a.send_cq, 6), ids); !bad.empty()) {
      return "sender: " + bad;
    }
    for (uint32_t k = 0; k < 3; ++k) {
      const std::vector<ibv_wc> wcs = Await(pairs[k]->b.recv_cq, 2, 3s);
      if (std::string bad = Differs(wcs, {ids[k], ids[k + 3]}); !bad.empty()) {
        return "peer " + std::to_string(k) + ": " + bad;
      }
      for (const uint32_t i : {k, k + 3}) {
        if (!into.HasPattern(i * 128 + 40, 64, ids[i])) {
          return "message " + std::to_string(i) + " has wrong bytes";
        }
      }
    }
    return "";
  });
  EXPECT_CLAUSE("WR-MIX-004", problem.empty()) << problem;
}

QPX_TEST(Mix, BadRequestsFailThroughBoth, "WR-MIX-004") {
  bool succeeded[2];
  for (const Api api : {Api::kRegion, Api::kPostSend}) {
    Pair& pair = RcPair(Bits({Op::kWrite}));
    Traffic traffic(bed(), pair);
    Flight flight = traffic.Make(Op::kWrite, 1);
    flight.wr.rkey ^= 0x5500;
    const Seen seen = RunOne(pair, traffic, flight, api);
    succeeded[api == Api::kPostSend] = seen.rc == 0 && seen.status == IBV_WC_SUCCESS;
  }
  EXPECT_CLAUSE("WR-MIX-004", !succeeded[0] && !succeeded[1]) << "a bad rkey ends in SUCCESS";
}

QPX_TEST(Mix, NoListFormOfFlushAndAtomicWrite, "WR-MIX-005") {
  for (const int opcode : {14, 15}) {
    Pair& pair = RcPair(Bits({Op::kWrite}));
    Memory& memory = bed().Mem(64);
    ibv_sge sge = memory.sge(0, 8);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = 1;
    wr.opcode = static_cast<ibv_wr_opcode>(opcode);
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.rkey = memory.rkey();
    wr.wr.rdma.remote_addr = memory.address(32);
    if (ibv_post_send(pair.a.qp, &wr, &bad) != 0) {
      Record::Current().Variation("WR-MIX-005", "refused by ibv_post_send");
      continue;
    }
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
    EXPECT_CLAUSE("WR-MIX-005", wcs.size() == 1 && wcs[0].status != IBV_WC_SUCCESS)
        << "opcode " << opcode << ": " << Describe(wcs);
    Record::Current().Variation("WR-MIX-005", "ends in error");
  }
}

QPX_TEST(Mix, FailuresOfOneLeaveTheOther, "WR-MIX-006") {
  Pair& pair = RcPair(Bits({Op::kSend}));
  Traffic traffic(bed(), pair);
  Memory& memory = bed().Mem(64);
  const int rounds = Repetitions(1000);
  uint64_t id = 1;
  for (int round = 0; round < rounds; ++round) {
    PostAndAbort(pair.a, {traffic.Make(Op::kSend, 900001, {}, WithReceive::kNo).wr});
    const int failed = Post(pair.a, TooManyElements(pair, memory, 900002));
    if (failed == 0) throw NotApplicable{"more elements than granted are accepted"};

    const Flight by_list = traffic.Make(Op::kSend, id++);
    ASSERT_CLAUSE("WR-MIX-006", PostSend(pair.a, {by_list.wr}) == 0) << "round " << round;
    std::string problem = traffic.Finish({by_list});
    ASSERT_CLAUSE("WR-MIX-006", problem.empty())
        << "ibv_post_send after an aborted and a failed region: " << problem;

    // A list that stops at its second request.
    const Flight first = traffic.Make(Op::kSend, id++);
    std::size_t bad = 0;
    const int rc = PostSend(pair.a, {first.wr, TooManyElements(pair, memory, 900003)}, &bad);
    if (rc == 0) throw NotApplicable{"ibv_post_send accepts more elements than granted"};
    problem = traffic.Finish({first});
    ASSERT_CLAUSE("WR-MIX-006", problem.empty()) << "the first of a failed list: " << problem;

    const Flight by_region = traffic.Make(Op::kSend, id++);
    problem = traffic.Run(by_region);
    ASSERT_CLAUSE("WR-MIX-006", problem.empty())
        << "a region after a failed ibv_post_send: " << problem;
  }
}

QPX_TEST(Mix, AListStopsWhereItFails, "WR-MIX-007") {
  Pair& pair = RcPair(Bits({Op::kSend}));
  Traffic traffic(bed(), pair);
  Memory& memory = bed().Mem(64);
  const Flight first = traffic.Make(Op::kSend, 1);
  const Flight third = traffic.Make(Op::kSend, 3, {}, WithReceive::kNo);
  std::size_t bad = 0;
  const int rc = PostSend(pair.a, {first.wr, TooManyElements(pair, memory, 2), third.wr}, &bad);
  if (rc == 0) throw NotApplicable{"ibv_post_send accepts more elements than granted"};
  EXPECT_CLAUSE("WR-MIX-007", bad == 1) << "bad_wr is request " << bad;
  std::string problem = traffic.Finish({first});
  EXPECT_CLAUSE("WR-MIX-007", problem.empty()) << "the first: " << problem;
  problem = traffic.CheckUntouched(third);
  EXPECT_CLAUSE("WR-MIX-007", problem.empty()) << problem;

  // The region with the same three posts none of them.
  const Flight again = traffic.Make(Op::kSend, 4, {}, WithReceive::kNo);
  if (Post(pair.a, {again.wr, TooManyElements(pair, memory, 5), third.wr}) != 0) {
    EXPECT_CLAUSE("WR-MIX-007", Quiet({pair.a.send_cq, pair.b.recv_cq}).empty())
        << "a failed region posted something";
  }
  problem = traffic.Run(traffic.Make(Op::kSend, 6));
  EXPECT_CLAUSE("WR-MIX-007", problem.empty()) << "the next region: " << problem;
}

}  // namespace
}  // namespace qpexam::conformance
