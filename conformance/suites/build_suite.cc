// BUILD: builders per operation and QP type (docs/spec/table-a.md).

#include <cerrno>
#include <cstring>
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

// What an operation needs on its own side and on the peer's to be checked.
PairOptions OptionsFor(Op op, Transport transport) {
  PairOptions options;
  options.transport = transport;
  options.inline_data = 64;
  options.ops = Info(op).bit;
  options.peer_ops = transport == Transport::kXrc ? 0 : Info(Op::kSend).bit;
  if (op == Op::kLocalInv) options.ops |= Info(Op::kBindMw).bit;
  if (op == Op::kSendInv) options.peer_ops |= Info(Op::kBindMw).bit;
  if (options.peer_ops == 0) options.peer_ops = options.ops;
  return options;
}

class Builder : public Conformance {
 protected:
  void Needs(Op op, Transport transport) {
    if (!facts().Has(op)) throw NotApplicable{std::string("the device has no ") + Info(op).name};
    if (op == Op::kSendInv && transport == Transport::kXrc) {
      throw NotApplicable{"the key to invalidate would have to be bound on the XRC_RECV side"};
    }
  }
};

ibv_wc_opcode ReceiveOpcode(Op op) {
  return op == Op::kWriteImm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
}

// The clause that a request breaks which works with set_sge and not with this setter.
const char* ClauseOf(Setter setter) {
  switch (setter) {
    case Setter::kNone:
    case Setter::kSge:
      return "WR-BUILD-001";
    case Setter::kSgeList:
      return "WR-SET-005";
    case Setter::kInline:
      return "WR-INL-004";
    case Setter::kInlineList:
      return "WR-SET-006";
  }
  return "WR-BUILD-001";
}

QPX_TEST_P(Builder, MakesExactlyOneRequest, OfferedCells(), "WR-BUILD-001") {
  Needs(param.op, param.transport);
  for (const Setter setter : SettersOf(param.op)) {
    const std::string problem = Persist(param.transport, [&]() -> std::string {
      Pair& pair = bed().Connect(OptionsFor(param.op, param.transport));
      Traffic traffic(bed(), pair);
      const Flight flight = traffic.Make(param.op, 1, Shape{setter, 24, 1});
      // A second one of the same kind is the sentinel: what comes before it is the first's, and
      // nothing may come after it.
      const Flight sentinel = traffic.Make(param.op, 2, Shape{setter, 24, 1});
      if (const int error = Post(pair.a, flight.wr)) {
        return "complete returned " + std::to_string(error);
      }
      const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
      if (std::string problem = Differs(sent, {1}); !problem.empty()) return problem;
      if (sent[0].opcode != Info(param.op).send_opcode) {
        return "opcode of the send completion is " + std::to_string(sent[0].opcode);
      }
      const std::vector<ibv_wc> got =
          flight.expects_receive ? Await(pair.b.recv_cq, 1) : std::vector<ibv_wc>();
      if (flight.expects_receive) {
        if (std::string problem = Differs(got, {1}); !problem.empty()) return "peer: " + problem;
        if (got[0].opcode != ReceiveOpcode(param.op)) {
          return "opcode of the receive completion is " + std::to_string(got[0].opcode);
        }
        // What tells SEND with invalidate from a plain SEND at the peer; once, since no setter is
        // concerned.
        const bool invalidated = (got[0].wc_flags & IBV_WC_WITH_INV) != 0;
        if (setter == Setter::kSge &&
            (invalidated != (param.op == Op::kSendInv) ||
             (invalidated && got[0].invalidated_rkey != flight.wr.rkey))) {
          return "the receive completion says that " + std::string(invalidated ? "another" : "no") +
                 " key was invalidated";
        }
      }
      if (std::string problem = traffic.Check(flight); !problem.empty()) return problem;
      if (const int error = Post(pair.a, sentinel.wr)) {
        return "the second complete returned " + std::to_string(error);
      }
      return traffic.Finish({sentinel});
    });
    EXPECT_CLAUSE(ClauseOf(setter), problem.empty()) << "with " << Name(setter) << ": " << problem;
  }
}

// What fills the queue of WR-BUILD-002.
struct Filler {
  const char* name;
  Op op;
  Setter setter;
};
std::string ParamName(const Filler& filler) { return filler.name; }
std::vector<Filler> Fillers() {
  return {{"max_sge_list", Op::kWrite, Setter::kSgeList},
          {"max_inline", Op::kWrite, Setter::kInline},
          {"max_inline_list", Op::kWrite, Setter::kInlineList},
          {"atomic", Op::kCmpSwp, Setter::kSge},
          {"read_list", Op::kRead, Setter::kSgeList},
          {"bind_mw", Op::kBindMw, Setter::kNone}};
}

QPX_TEST_P(Builder, TakesOneUnitOfCapacityWhateverItsSize, Fillers(), "WR-BUILD-002") {
  Needs(param.op, Transport::kRc);
  PairOptions options;
  options.ops = Bits({Op::kSend, param.op});
  options.peer_ops = Bits({Op::kSend});
  options.send_wr = 8;
  options.send_sge = 4;
  options.inline_data = 64;
  Pair& pair = bed().Connect(options);
  const uint32_t capacity = pair.a.cap.max_send_wr;
  const std::size_t slot =
      std::max<std::size_t>({256, pair.a.cap.max_inline_data, pair.a.cap.max_send_sge * 8});
  Traffic traffic(bed(), pair, capacity + 1, slot);

  // The first SEND finds no receive and holds up all that follow (rnr_retry 7).
  Flight blocked = traffic.Make(Op::kSend, 1, {}, WithReceive::kNo);
  ASSERT_CLAUSE("WR-BUILD-002", Post(pair.a, blocked.wr) == 0);
  Shape shape{param.setter, 8, 1};
  if (param.setter == Setter::kSgeList && param.op != Op::kCmpSwp) {
    shape.pieces = pair.a.cap.max_send_sge;
    if (param.op == Op::kRead) {
      shape.pieces =
          std::min(shape.pieces, static_cast<uint32_t>(facts().attr.orig_attr.max_sge_rd));
    }
    shape.length = shape.pieces * 8;
  } else if (IsInline(param.setter)) {
    shape.length = pair.a.cap.max_inline_data;
    shape.pieces = param.setter == Setter::kInlineList ? 4 : 1;
  }
  std::vector<Flight> flights;
  for (uint32_t i = 1; i < capacity; ++i) {
    flights.push_back(traffic.Make(param.op, i + 1, shape));
    const int error = Post(pair.a, flights.back().wr);
    ASSERT_CLAUSE("WR-BUILD-002", error == 0)
        << "request " << i + 1 << " of " << capacity << " granted: complete returned " << error;
  }
  // The receive that lets all of them go.
  if (PostRecv(pair.b, 1, {traffic.remote().sge(0, 16)}) != 0) {
    throw SetUpFailed{"a receive could not be posted"};
  }
  // What they do is for the clauses of their data; here it counts that they were taken. Drained, so
  // that nothing is destroyed under way.
  Await(pair.a.send_cq, flights.size() + 1);
}

QPX_TEST(Builder, ParametersAreTakenByValue, "WR-BUILD-003") {
  PairOptions options;
  options.ops = Bits({Op::kWrite, Op::kWriteImm, Op::kSendImm});
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const Flight write = traffic.Make(Op::kWrite, 1), with_imm = traffic.Make(Op::kWriteImm, 2),
               send = traffic.Make(Op::kSendImm, 3);
  ibv_qp_ex* ex = pair.a.ex;
  ibv_wr_start(ex);
  // Whoever keeps pointers into the caller's frame would see what is left there.
  volatile uint32_t rkey = 0;
  volatile uint64_t remote = 0;
  volatile uint32_t imm = 0;
  for (const Flight* flight : {&write, &with_imm, &send}) {
    const Wr& wr = flight->wr;
    ex->wr_id = wr.id;
    ex->wr_flags = IBV_SEND_SIGNALED;
    rkey = wr.rkey;
    remote = wr.remote;
    imm = wr.imm;
    if (wr.op == Op::kWrite) {
      ibv_wr_rdma_write(ex, rkey, remote);
    } else if (wr.op == Op::kWriteImm) {
      ibv_wr_rdma_write_imm(ex, rkey, remote, imm);
    } else {
      ibv_wr_send_imm(ex, imm);
    }
    rkey = 0xdeadbeef;
    remote = 0xdeadbeef;
    imm = 0xdeadbeef;
    uint32_t lkey = wr.sge[0].lkey, length = wr.sge[0].length;
    uint64_t address = wr.sge[0].addr;
    ibv_wr_set_sge(ex, lkey, address, length);
    lkey = length = 0;
    address = 0;
    (void)lkey, (void)length, (void)address;
  }
  ASSERT_CLAUSE("WR-BUILD-003", ibv_wr_complete(ex) == 0);
  const std::string problem = traffic.Finish({write, with_imm, send});
  EXPECT_CLAUSE("WR-BUILD-003", problem.empty()) << problem;
}

QPX_TEST(Builder, BindInfoIsReadDuringTheCall, "WR-BUILD-004") {
  PairOptions options;
  options.ops = Bits({Op::kBindMw});
  options.peer_ops = Bits({Op::kRead});
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  Flight bind = traffic.Make(Op::kBindMw, 1);
  const uint32_t old_key = bind.wr.mw->rkey;
  ibv_mw_bind_info info = bind.wr.bind;
  ibv_qp_ex* ex = pair.a.ex;
  ibv_wr_start(ex);
  ex->wr_id = 1;
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_bind_mw(ex, bind.wr.mw, bind.wr.bind_rkey, &info);
  info.addr = 0;
  info.length = 0;
  info.mw_access_flags = 0;
  bind.wr.mw->rkey ^= 0x77;
  const int error = ibv_wr_complete(ex);
  bind.wr.mw->rkey = old_key;
  ASSERT_CLAUSE("WR-BUILD-004", error == 0) << "complete returned " << error;
  const std::string bound = Differs(Await(pair.a.send_cq, 1), {1});
  ASSERT_CLAUSE("WR-BUILD-004", bound.empty()) << bound;
  // The peer reads through the new key.
  Memory& sink = bed().Mem(64);
  traffic.local().Pattern(0, 16, 9);
  Wr read;
  read.op = Op::kRead;
  read.id = 2;
  read.rkey = bind.wr.bind_rkey;
  read.remote = bind.wr.bind.addr;
  read.sge = {sink.sge(0, 16)};
  ASSERT_CLAUSE("WR-BUILD-004", Post(pair.b, read) == 0);
  const std::string problem = Differs(Await(pair.b.send_cq, 1), {2});
  EXPECT_CLAUSE("WR-BUILD-004", problem.empty()) << "reading through the window: " << problem;
  EXPECT_CLAUSE("WR-BUILD-004", !problem.empty() || sink.HasPattern(0, 16, 9))
      << "the window shows other bytes";
}

#ifndef QPEXAM_HEADER_44
QPX_TEST(Builder, AtomicWriteReadsItsBytesDuringTheCall, "WR-BUILD-005") {
  Needs(Op::kAtomicWrite, Transport::kRc);
  PairOptions options;
  options.ops = Bits({Op::kAtomicWrite});
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const Flight flight = traffic.Make(Op::kAtomicWrite, 1);
  uint64_t value = flight.wr.value;
  ibv_qp_ex* ex = pair.a.ex;
  ibv_wr_start(ex);
  ex->wr_id = 1;
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_atomic_write(ex, flight.wr.rkey, flight.wr.remote, &value);
  value = ~value;
  ASSERT_CLAUSE("WR-BUILD-005", ibv_wr_complete(ex) == 0);
  const std::string problem = traffic.Finish({flight});
  EXPECT_CLAUSE("WR-BUILD-005", problem.empty()) << problem;
}
#endif

QPX_TEST(Builder, WithoutASlotNothingElseIsTouched, "WR-BUILD-007") {
  PairOptions options;
  options.ops = Bits({Op::kSend, Op::kWrite});
  options.send_wr = 8;
  options.inline_data = 64;
  options.send_sge = 4;
  NeedsRefusal(bed(), Bad::kFull, options);
  for (const Setter setter : WorkingSetters(bed(), options, Op::kWrite, 48)) {
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair, 4 * pair.a.cap.max_send_wr + 66, 128);
    // Fill the queue behind a SEND that finds no receive.
    std::vector<Flight> accepted = {traffic.Make(Op::kSend, 1, {}, WithReceive::kNo)};
    ASSERT_CLAUSE("WR-BUILD-007", Post(pair.a, accepted[0].wr) == 0);
    bool full = false;
    for (uint32_t i = 1; !full && i < 4 * pair.a.cap.max_send_wr + 64; ++i) {
      Flight flight = traffic.Make(Op::kWrite, i + 1, Shape{setter, 48, 3});
      full = Post(pair.a, flight.wr) != 0;
      if (!full) accepted.push_back(flight);
    }
    if (!full) throw NotApplicable{"the queue is deeper than the suites probe"};
    // One more, all the same: builder, setter, complete.
    Flight extra = traffic.Make(Op::kWrite, 9999, Shape{setter, 64, 4}, WithReceive::kNo);
    EXPECT_CLAUSE("WR-BUILD-007", Post(pair.a, extra.wr) != 0) << "a full queue took a request";
    if (PostRecv(pair.b, 1, {traffic.remote().sge(0, 16)}) != 0) {
      throw SetUpFailed{"a receive could not be posted"};
    }
    std::vector<uint64_t> ids;
    for (const Flight& flight : accepted) ids.push_back(flight.wr.id);
    std::string problem = Differs(Await(pair.a.send_cq, ids.size()), ids);
    for (const Flight& flight : accepted) problem += traffic.Check(flight);
    EXPECT_CLAUSE("WR-BUILD-007", problem.empty()) << Name(setter) << ": " << problem;
    const std::string untouched = traffic.CheckUntouched(extra);
    EXPECT_CLAUSE("WR-BUILD-007", untouched.empty()) << untouched;
  }
}

// The queue was filled by the other call: no builder has left anything behind that this one could
// take for its own.
QPX_TEST(Builder, TheFirstOneMayMeetAFullQueue, "WR-BUILD-007") {
  PairOptions options;
  options.ops = Bits({Op::kSend, Op::kWrite});
  options.send_wr = 8;
  NeedsRefusal(bed(), Bad::kFull, options);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 4 * pair.a.cap.max_send_wr + 66, 64);
  std::vector<Flight> accepted = {traffic.Make(Op::kSend, 1, {}, WithReceive::kNo)};
  ASSERT_CLAUSE("WR-BUILD-007", PostSend(pair.a, {accepted[0].wr}) == 0);
  bool full = false;
  for (uint32_t i = 1; !full && i < 4 * pair.a.cap.max_send_wr + 64; ++i) {
    Flight flight = traffic.Make(Op::kWrite, i + 1);
    full = PostSend(pair.a, {flight.wr}) != 0;
    if (!full) accepted.push_back(flight);
  }
  if (!full) throw NotApplicable{"the queue is deeper than the suites probe"};
  Flight extra = traffic.Make(Op::kWrite, 9999, {}, WithReceive::kNo);
  EXPECT_CLAUSE("WR-BUILD-007", Post(pair.a, extra.wr) != 0) << "a full queue took a request";
  if (PostRecv(pair.b, 1, {traffic.remote().sge(0, 16)}) != 0) {
    throw SetUpFailed{"a receive could not be posted"};
  }
  std::vector<uint64_t> ids;
  for (const Flight& flight : accepted) ids.push_back(flight.wr.id);
  std::string problem = Differs(Await(pair.a.send_cq, ids.size()), ids);
  for (const Flight& flight : accepted) problem += traffic.Check(flight);
  EXPECT_CLAUSE("WR-BUILD-007", problem.empty()) << problem;
  const std::string untouched = traffic.CheckUntouched(extra);
  EXPECT_CLAUSE("WR-BUILD-007", untouched.empty()) << untouched;
}

QPX_TEST_P(Builder, BindAndInvalidateNeedNoSetter,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kXrc}),
           "WR-BUILD-010") {
  PairOptions options;
  options.transport = param;
  options.ops = Bits({Op::kBindMw, Op::kWrite});
  options.peer_ops = Bits({Op::kSend});
  ibv_cq* cq = bed().Cq(64);
  PairOptions with_inv = options;
  with_inv.ops |= Info(Op::kLocalInv).bit;
  ibv_qp_init_attr_ex attr = RequesterAttr(bed(), with_inv, cq, cq);
  const bool has_inv = bed().TryQp(&attr) != nullptr;
  if (has_inv) options = with_inv;
  const std::string problem = Persist(param, [&] {
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    std::string problem;
    for (const Op op : {Op::kBindMw, Op::kLocalInv}) {
      if (op == Op::kLocalInv && !has_inv) continue;
      problem += traffic.Run(traffic.Make(op, 1));
      for (std::size_t place = 0; place < 3; ++place) {
        std::vector<Flight> region;
        for (std::size_t i = 0; i < 3; ++i) {
          region.push_back(traffic.Make(i == place ? op : Op::kWrite, i + 1));
        }
        problem += traffic.Run(region);
      }
    }
    return problem;
  });
  EXPECT_CLAUSE("WR-BUILD-010", problem.empty()) << problem;
}

QPX_TEST_P(Builder, ReadWithoutReadResources, (std::vector<Op>{Op::kRead, Op::kFetchAdd}),
           "WR-BUILD-012") {
  Needs(param, Transport::kRc);
  PairOptions options;
  options.ops = Bits({param});
  options.rd_atomic = 0;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const Flight flight = traffic.Make(param, 1);
  Record& record = Record::Current();
  if (Post(pair.a, flight.wr) != 0) {
    record.Variation("WR-BUILD-012", "refused at complete");
  } else if (const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1, 5s); wcs.empty()) {
    record.Variation("WR-BUILD-012", "no progress within 5 s");
  } else {
    record.Variation("WR-BUILD-012",
                     wcs[0].status == IBV_WC_SUCCESS ? "carried out" : "ends in error");
  }
  EXPECT_CLAUSE("WR-BUILD-012", bed().Destroy(pair.a.qp) == 0) << "the QP cannot be destroyed";
}

// --- what the caller must not do: the reference detects it -----------------------------------

QPX_TEST(Builder, TwoBuildersWithoutASetter, "WR-BUILD-009") {
  Pair& pair = bed().Connect({});
  Traffic traffic(bed(), pair);
  Flight first = traffic.Make(Op::kWrite, 1), second = traffic.Make(Op::kWrite, 2);
  first.wr.setter = Setter::kNone;
  EXPECT_CLAUSE("WR-BUILD-009", Post(pair.a, {first.wr, second.wr}) == EINVAL);
  EXPECT_CLAUSE("WR-BUILD-009", Linted("WR-BUILD-009"));
  EXPECT_CLAUSE("WR-BUILD-009", Quiet(pair.a.send_cq).empty());
}

QPX_TEST_P(Builder, SetterAfterARequestThatTakesNone, (std::vector<Op>{Op::kBindMw, Op::kLocalInv}),
           "WR-BUILD-011") {
  PairOptions options;
  options.ops = Bits({Op::kBindMw, Op::kLocalInv});
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  Flight flight = traffic.Make(param, 1);
  flight.wr.setter = Setter::kSge;
  flight.wr.sge = {traffic.local().sge(0, 8)};
  EXPECT_CLAUSE("WR-BUILD-011", Post(pair.a, flight.wr) == EINVAL);
  EXPECT_CLAUSE("WR-BUILD-011", Linted("WR-BUILD-011"));
}

}  // namespace
}  // namespace qpexam::conformance
