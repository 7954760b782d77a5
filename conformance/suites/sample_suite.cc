// SAMPLE: when wr_id and wr_flags are taken, and that nobody else touches them.

#include <cstdint>
#include <optional>
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

class Sample : public Conformance {
 protected:
  PairOptions Sends(Transport transport, uint32_t inline_data = 0) {
    PairOptions options;
    options.transport = transport;
    options.ops = Bits({Op::kSend});
    options.inline_data = inline_data;
    return options;
  }
  // Leaves the test where the device cannot do unsignaled work (WR-SAMPLE-006).
  void NeedsUnsignaled(const PairOptions& options) {
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    Flight flight = traffic.Make(Op::kSend, 1);
    flight.wr.flags = 0;
    if (Post(pair.a, flight.wr) != 0) {
      Record::Current().Variation("WR-SAMPLE-006", "unsignaled requests are refused at complete");
      throw NotApplicable{"the device refuses unsignaled requests"};
    }
  }
};

std::vector<Transport> NotRaw() {
  return {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrc};
}

// One SEND built by hand: `before` and `after` run around the DATA setter.
template <typename F, typename G>
void BuildSend(End& end, const Wr& wr, F before_builder, G before_setter) {
  before_builder();
  ibv_wr_send(end.ex);
  before_setter();
  if (end.transport == Transport::kUd) {
    ibv_wr_set_ud_addr(end.ex, end.to_peer, end.peer_qpn, end.qkey);
  } else if (end.transport == Transport::kXrc) {
    ibv_wr_set_xrc_srqn(end.ex, end.peer_srqn);
  }
  if (wr.setter == Setter::kInline) {
    ibv_wr_set_inline_data(end.ex, wr.bufs[0].addr, wr.bufs[0].length);
  } else {
    ibv_wr_set_sge(end.ex, wr.sge[0].lkey, wr.sge[0].addr, wr.sge[0].length);
  }
}

QPX_TEST_P(Sample, TheBuilderTakesTheId, NotRaw(), "WR-SAMPLE-001") {
  for (const Setter setter : {Setter::kSge, Setter::kInline}) {
    const std::string problem = Persist(param, [&] {
      Pair& pair = bed().Connect(Sends(param, 32));
      Traffic traffic(bed(), pair);
      const Flight flight = traffic.Make(Op::kSend, 0xaaaa, Shape{setter, 16, 1});
      ibv_qp_ex* ex = pair.a.ex;
      ibv_wr_start(ex);
      ex->wr_flags = IBV_SEND_SIGNALED;
      BuildSend(
          pair.a, flight.wr, [&] { ex->wr_id = 0xaaaa; }, [&] { ex->wr_id = 0xbbbb; });
      ex->wr_id = 0xcccc;
      const int error = ibv_wr_complete(ex);
      if (error != 0) return "complete returned " + std::to_string(error);
      // Whatever becomes of the request, its completion carries the id.
      const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
      return wcs.size() == 1 && wcs[0].wr_id == 0xaaaa ? std::string() : Describe(wcs);
    });
    EXPECT_CLAUSE("WR-SAMPLE-001", problem.empty()) << Name(setter) << ": " << problem;
  }
}

QPX_TEST_P(Sample, FlagsGovernTheirOwnRequest, NotRaw(), "WR-SAMPLE-002") {
  NeedsUnsignaled(Sends(param));
  const std::string problem = Persist(param, [&] {
    Pair& pair = bed().Connect(Sends(param));
    Traffic traffic(bed(), pair);
    ibv_qp_ex* ex = pair.a.ex;
    const Flight one = traffic.Make(Op::kSend, 1), two = traffic.Make(Op::kSend, 2),
                 three = traffic.Make(Op::kSend, 3);
    ibv_wr_start(ex);
    auto build = [&](const Flight& flight, unsigned flags) {
      BuildSend(
          pair.a, flight.wr,
          [&] {
            ex->wr_id = flight.wr.id;
            ex->wr_flags = flags;
          },
          [] {});
    };
    build(one, IBV_SEND_SIGNALED);
    build(two, 0);
    build(three, IBV_SEND_SIGNALED);
    ex->wr_flags = 0;
    const int error = ibv_wr_complete(ex);
    if (error != 0) return "complete returned " + std::to_string(error);
    const std::string sent = Differs(Await(pair.a.send_cq, 2), {1, 3});
    const std::string received = Differs(Await(pair.b.recv_cq, 3), {1, 2, 3});
    return sent + received;
  });
  EXPECT_CLAUSE("WR-SAMPLE-002", problem.empty()) << problem;
}

QPX_TEST_P(Sample, TheBuilderTakesTheFlags, NotRaw(), "WR-SAMPLE-002") {
  NeedsUnsignaled(Sends(param));
  for (const bool signaled_at_builder : {true, false}) {
    const std::string problem = Persist(param, [&] {
      Pair& pair = bed().Connect(Sends(param));
      Traffic traffic(bed(), pair);
      ibv_qp_ex* ex = pair.a.ex;
      const Flight probe = traffic.Make(Op::kSend, 1), last = traffic.Make(Op::kSend, 2);
      const unsigned first = signaled_at_builder ? +IBV_SEND_SIGNALED : 0;
      ibv_wr_start(ex);
      ex->wr_id = 1;
      BuildSend(
          pair.a, probe.wr, [&] { ex->wr_flags = first; },
          [&] { ex->wr_flags = first ^ IBV_SEND_SIGNALED; });
      ex->wr_id = 2;
      BuildSend(
          pair.a, last.wr, [&] { ex->wr_flags = IBV_SEND_SIGNALED; }, [] {});
      const int error = ibv_wr_complete(ex);
      if (error != 0) return "complete returned " + std::to_string(error);
      return signaled_at_builder ? Differs(Await(pair.a.send_cq, 2), {1, 2})
                                 : Differs(Await(pair.a.send_cq, 1), {2});
    });
    EXPECT_SHOULD("WR-SAMPLE-002", problem.empty())
        << "the flags at the setter counted, not those at the builder: " << problem;
  }
}

QPX_TEST(Sample, TheProviderNeverWritesTheMembers, "WR-SAMPLE-003") {
  constexpr uint64_t kId = 0x1234567890abcdefu;
  PairOptions options;
  Pair& pair = bed().Connect(options);
  ibv_qp_ex* ex = pair.a.ex;
  Traffic traffic(bed(), pair);
  auto unchanged = [&](const char* after) {
    EXPECT_CLAUSE("WR-SAMPLE-003", ex->wr_id == kId && ex->wr_flags == IBV_SEND_SIGNALED)
        << "after " << after << " wr_id is " << ex->wr_id << " and wr_flags " << ex->wr_flags;
  };
  ex->wr_id = kId;
  ex->wr_flags = IBV_SEND_SIGNALED;
  for (int region = 0; region < 10; ++region) {
    std::vector<Flight> flights;
    for (int i = 0; i < 10; ++i) flights.push_back(traffic.Make(Op::kWrite, kId));
    ibv_wr_start(ex);
    unchanged("start");
    for (const Flight& flight : flights) {
      ibv_wr_rdma_write(ex, flight.wr.rkey, flight.wr.remote);
      unchanged("a builder");
      ibv_wr_set_sge(ex, flight.wr.sge[0].lkey, flight.wr.sge[0].addr, flight.wr.sge[0].length);
      unchanged("a setter");
    }
    ASSERT_CLAUSE("WR-SAMPLE-003", ibv_wr_complete(ex) == 0);
    unchanged("complete");
    const std::string problem = traffic.Finish(flights);
    ASSERT_CLAUSE("WR-SAMPLE-003", problem.empty()) << problem;
  }
  ibv_wr_start(ex);
  ibv_wr_abort(ex);
  unchanged("abort");
  for (const Bad bad : RefusedKinds(bed(), options)) {
    const std::vector<Wr> wrs = MakeBad(bad, pair, traffic, kId);
    ibv_wr_start(ex);
    for (Wr wr : wrs) {
      wr.id = kId;
      Build(pair.a, wr);
    }
    ASSERT_CLAUSE("WR-SAMPLE-003", ibv_wr_complete(ex) != 0);
    unchanged("a failed complete");
  }
}

std::vector<uint64_t> StrangeIds() {
  return {
      0,      1,     (uint64_t{1} << 32) - 1, uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0},
      0x5555, 0x5555};
}

QPX_TEST_P(Sample, IdsComeBackBitExact, NotRaw(), "WR-SAMPLE-004") {
  const std::string problem = Persist(param, [&] {
    Pair& pair = bed().Connect(Sends(param));
    Traffic traffic(bed(), pair);
    std::vector<Flight> flights;
    for (const uint64_t id : StrangeIds()) flights.push_back(traffic.Make(Op::kSend, id));
    return traffic.Run(flights);
  });
  EXPECT_CLAUSE("WR-SAMPLE-004", problem.empty()) << problem;
}

QPX_TEST(Sample, IdsComeBackBitExactThroughAnExtendedCq, "WR-SAMPLE-004") {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 256;
  ibv_cq_ex* cq = ibv_create_cq_ex(bed().context(), &attr);
  if (cq == nullptr) throw NotApplicable{"ibv_create_cq_ex is refused"};
  bed().Own(cq, [cq] { return ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); });
  PairOptions options = Sends(Transport::kRc);
  options.send_cq = ibv_cq_ex_to_cq(cq);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  std::vector<Wr> wrs;
  for (const uint64_t id : StrangeIds()) wrs.push_back(traffic.Make(Op::kSend, id).wr);
  ASSERT_CLAUSE("WR-SAMPLE-004", Post(pair.a, wrs) == 0);
  Await(pair.b.recv_cq, wrs.size());
  std::vector<uint64_t> seen;
  clock().Until(clock().Limit(10s), [&] {
    ibv_poll_cq_attr poll{};
    if (ibv_start_poll(cq, &poll) != 0) return false;
    do {
      seen.push_back(cq->wr_id);
    } while (ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
    return seen.size() >= wrs.size();
  });
  EXPECT_CLAUSE("WR-SAMPLE-004", seen == StrangeIds())
      << seen.size() << " completions, first id " << (seen.empty() ? 0 : seen[0]);
}

QPX_TEST(Sample, IdsComeBackWithErrors, "WR-SAMPLE-005") {
  Pair& pair = bed().Connect({});
  Traffic traffic(bed(), pair);
  std::vector<Wr> wrs;
  for (uint64_t id = 1; id <= 8; ++id) {
    Wr wr = traffic.Make(Op::kWrite, id * 0x1111111111111111u).wr;
    wr.flags = id % 2 == 0 ? 0 : +IBV_SEND_SIGNALED;
    wrs.push_back(wr);
  }
  wrs[0].rkey ^= 0x5a;  // an unknown key: low bits, a sum could hit a neighbour
  if (Post(pair.a, wrs) != 0) throw NotApplicable{"a bad rkey or unsignaled work is refused"};
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, wrs.size());
  ASSERT_CLAUSE("WR-SAMPLE-005", wcs.size() == wrs.size()) << Describe(wcs);
  for (std::size_t i = 0; i < wcs.size(); ++i) {
    EXPECT_CLAUSE("WR-SAMPLE-005", wcs[i].status != IBV_WC_SUCCESS && wcs[i].wr_id == wrs[i].id)
        << "completion " << i << ": " << Describe({wcs[i]}) << ", expected an error of "
        << wrs[i].id;
  }
}

struct FlagCase {
  const char* name;
  unsigned flags;
};
std::string ParamName(const FlagCase& flag) { return flag.name; }

QPX_TEST_P(Sample, AFlagIsHonouredOrRefused,
           (std::vector<FlagCase>{{"unsignaled", 0},
                                  {"fence", IBV_SEND_SIGNALED | IBV_SEND_FENCE},
                                  {"solicited", IBV_SEND_SIGNALED | IBV_SEND_SOLICITED}}),
           "WR-SAMPLE-006") {
  for (const Transport transport : NotRaw()) {
    // FENCE is for RC and XRC_SEND (ibv_post_send(3)).
    const bool reliable = transport == Transport::kRc || transport == Transport::kXrc;
    if ((param.flags & IBV_SEND_FENCE) != 0 && !reliable) continue;
    ibv_cq* cq = bed().Cq(64);
    ibv_qp_init_attr_ex attr = RequesterAttr(bed(), Sends(transport), cq, cq);
    ibv_qp* probe = bed().TryQp(&attr);
    if (probe == nullptr) continue;
    const std::string problem = Persist(transport, [&] {
      Pair& pair = bed().Connect(Sends(transport));
      Traffic traffic(bed(), pair);
      Flight flagged = traffic.Make(Op::kSend, 1, {}, WithReceive::kNo);
      flagged.wr.flags = param.flags;
      // Posted first, so that an accepted request finds a receive for itself.
      const Flight good = traffic.Make(Op::kSend, 2);
      const int error = Post(pair.a, flagged.wr);
      if (error != 0) {
        Record::Current().Variation("WR-SAMPLE-006", std::string(Name(transport)) + ": " +
                                                         param.name + " is refused at complete");
        return traffic.Run(good);
      }
      Record::Current().Variation(
          "WR-SAMPLE-006", std::string(Name(transport)) + ": " + param.name + " is accepted");
      const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1);
      if (got.size() != 1 || got[0].status != IBV_WC_SUCCESS) {
        return "an accepted request was not carried out: " + Describe(got);
      }
      return std::string();
    });
    EXPECT_CLAUSE("WR-SAMPLE-006", problem.empty()) << Name(transport) << ": " << problem;
  }
}

QPX_TEST_P(Sample, TheSetterAloneMakesInline, NotRaw(), "WR-SAMPLE-007") {
  for (const Setter setter : {Setter::kInline, Setter::kInlineList}) {
    const std::string problem = Persist(param, [&] {
      Pair& pair = bed().Connect(Sends(param, 32));
      Traffic traffic(bed(), pair);
      Flight flight = traffic.Make(Op::kSend, 1, Shape{setter, 16, 1});
      uint8_t unregistered[16];
      for (std::size_t i = 0; i < sizeof(unregistered); ++i) {
        unregistered[i] = PatternByte(i, flight.seed);
      }
      flight.wr.bufs = {{unregistered, sizeof(unregistered)}};
      return traffic.Run(flight);
    });
    EXPECT_CLAUSE("WR-SAMPLE-007", problem.empty()) << Name(setter) << ": " << problem;
  }
}

QPX_TEST_P(Sample, TheInlineFlagDoesNotTurnAnSgeIntoInline, NotRaw(), "WR-SAMPLE-007") {
  const std::string problem = Persist(param, [&] {
    Pair& pair = bed().Connect(Sends(param, 32));
    Traffic traffic(bed(), pair);
    Flight flight = traffic.Make(Op::kSend, 1);
    flight.wr.flags |= IBV_SEND_INLINE;
    if (Post(pair.a, flight.wr) != 0) return std::string();
    return traffic.Finish({flight});
  });
  EXPECT_SHOULD("WR-SAMPLE-007", problem.empty())
      << "IBV_SEND_INLINE in wr_flags with set_sge: " << problem;
}

// Every bit that ibv_send_flags does not have, on every operation and QP type: as if it were clear,
// or refused, and nothing between.
QPX_TEST_P(Sample, UndefinedFlagBits, NotRaw(), "WR-SAMPLE-008") {
  constexpr unsigned kFirstUndefined = 5;  // behind IBV_SEND_IP_CSUM
  int swept = 0;
  for (const Op op : OpsOf(param)) {
    // The key that it invalidates would have to be bound on the XRC_RECV side.
    if (!facts().Has(op) || (op == Op::kSendInv && param == Transport::kXrc)) continue;
    PairOptions options;
    options.transport = param;
    options.ops = Info(op).bit | (op == Op::kLocalInv ? Info(Op::kBindMw).bit : 0);
    if (param != Transport::kXrc) {
      options.peer_ops = Bits({Op::kSend}) | (op == Op::kSendInv ? Info(Op::kBindMw).bit : 0);
    }
    Pair* pair = nullptr;
    try {
      pair = &bed().Connect(options);
    } catch (const NotApplicable&) {
      continue;  // not offered here
    }
    ++swept;
    std::optional<Traffic> traffic;
    traffic.emplace(bed(), *pair);
    for (unsigned bit = kFirstUndefined; bit < 32; ++bit) {
      const std::string problem = Persist(param, [&]() -> std::string {
        if (pair == nullptr) {
          pair = &bed().Connect(options);
          traffic.emplace(bed(), *pair);
        }
        Flight flight = traffic->Make(op, bit);
        flight.wr.flags |= 1u << bit;
        if (Post(pair->a, flight.wr) == 0) {
          Record::Current().Variation("WR-SAMPLE-008", "ignored");
          std::string wrong = traffic->Finish({flight});
          if (!wrong.empty()) pair = nullptr;  // its queue may be in an error
          return wrong;
        }
        Record::Current().Variation("WR-SAMPLE-008", "refused at complete");
        pair = nullptr;  // the peer has a receive too many
        return traffic->CheckUntouched(flight);
      });
      ASSERT_CLAUSE("WR-SAMPLE-008", problem.empty())
          << Info(op).name << ", bit " << bit << ": " << problem;
    }
  }
  if (swept == 0) throw NotApplicable{std::string("no operation on ") + Name(param)};
}

QPX_TEST(Sample, MembersBelongToOneQp, "WR-SAMPLE-009") {
  PairOptions options;
  Pair& first = bed().Connect(options);
  Pair& second = bed().Connect(options);
  Traffic one(bed(), first), two(bed(), second);
  ibv_qp_ex *a = first.a.ex, *b = second.a.ex;
  for (uint64_t round = 0; round < 50; ++round) {
    const Flight x = one.Make(Op::kWrite, 0x1000 + round), y = two.Make(Op::kWrite, 0x2000 + round),
                 z = one.Make(Op::kWrite, 0x3000 + round);
    // Both regions open at once would need WR-CRIT-010; one after the other is enough here.
    a->wr_id = x.wr.id;
    a->wr_flags = IBV_SEND_SIGNALED;
    b->wr_id = y.wr.id;
    b->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
    EXPECT_CLAUSE("WR-SAMPLE-009", a->wr_id == x.wr.id && a->wr_flags == IBV_SEND_SIGNALED)
        << "writing one QP's members changed another's";
    b->wr_flags = IBV_SEND_SIGNALED;
    auto post = [](ibv_qp_ex* ex, const Wr& wr) {
      ibv_wr_start(ex);
      ibv_wr_rdma_write(ex, wr.rkey, wr.remote);
      ibv_wr_set_sge(ex, wr.sge[0].lkey, wr.sge[0].addr, wr.sge[0].length);
      return ibv_wr_complete(ex);
    };
    ASSERT_CLAUSE("WR-SAMPLE-009", post(a, x.wr) == 0 && post(b, y.wr) == 0);
    // ibv_post_send takes id and flags from its own structure.
    const uint64_t id_before = a->wr_id;
    const unsigned flags_before = a->wr_flags = 0;
    const bool posted = PostSend(first.a, {z.wr}) == 0;
    EXPECT_CLAUSE("WR-SAMPLE-009", a->wr_id == id_before && a->wr_flags == flags_before)
        << "ibv_post_send changed the members";
    std::string problem = posted ? one.Finish({x, z}) : one.Finish({x});
    problem += two.Finish({y});
    ASSERT_CLAUSE("WR-SAMPLE-009", problem.empty()) << problem;
  }
}

}  // namespace
}  // namespace qpexam::conformance
