// CREATE: QP creation and send_ops_flags.

#include <unistd.h>

#include <cerrno>
#include <random>
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

class Create : public Conformance {
 protected:
  // Creation attributes as Connect would use them, for changing.
  ibv_qp_init_attr_ex Attr(Transport transport, uint64_t ops) {
    PairOptions options;
    options.transport = transport;
    options.ops = ops;
    return RequesterAttr(bed(), options, cq(), cq());
  }
  ibv_cq* cq() {
    if (cq_ == nullptr) cq_ = bed().Cq(1024);
    return cq_;
  }
  // True if the attributes make a QP, which is destroyed at once.
  bool Accepted(ibv_qp_init_attr_ex attr) {
    ibv_qp* qp = bed().TryQp(&attr);
    if (qp != nullptr) bed().Destroy(qp);
    return qp != nullptr;
  }
  // A transport on which this device offers SEND.
  Transport AnyTransport() {
    for (const Transport transport : {Transport::kRc, Transport::kUd, Transport::kUc}) {
      if (Accepted(Attr(transport, Info(Op::kSend).bit))) return transport;
    }
    throw NotApplicable{"no QP type offers SEND through send_ops_flags"};
  }
  // RAW_PACKET asks for a privilege that a user may not have.
  void NeedsRawPrivilege(Transport transport) {
    if (transport == Transport::kRaw && geteuid() != 0) {
      throw NotApplicable{"RAW_PACKET needs CAP_NET_RAW"};
    }
  }

 private:
  ibv_cq* cq_ = nullptr;
};

template <typename Qp>
auto FlushPointer(Qp* ex, int) -> decltype(ex->wr_flush != nullptr) {
  return ex->wr_flush != nullptr;
}
template <typename Qp>
bool FlushPointer(Qp*, long) {
  return false;
}
template <typename Qp>
auto AtomicWritePointer(Qp* ex, int) -> decltype(ex->wr_atomic_write != nullptr) {
  return ex->wr_atomic_write != nullptr;
}
template <typename Qp>
bool AtomicWritePointer(Qp*, long) {
  return false;
}

bool HasBuilder(ibv_qp_ex* ex, Op op) {
  switch (op) {
    case Op::kWrite:
      return ex->wr_rdma_write != nullptr;
    case Op::kWriteImm:
      return ex->wr_rdma_write_imm != nullptr;
    case Op::kSend:
      return ex->wr_send != nullptr;
    case Op::kSendImm:
      return ex->wr_send_imm != nullptr;
    case Op::kRead:
      return ex->wr_rdma_read != nullptr;
    case Op::kCmpSwp:
      return ex->wr_atomic_cmp_swp != nullptr;
    case Op::kFetchAdd:
      return ex->wr_atomic_fetch_add != nullptr;
    case Op::kLocalInv:
      return ex->wr_local_inv != nullptr;
    case Op::kBindMw:
      return ex->wr_bind_mw != nullptr;
    case Op::kSendInv:
      return ex->wr_send_inv != nullptr;
    case Op::kTso:
      return ex->wr_send_tso != nullptr;
    case Op::kFlush:
      return FlushPointer(ex, 0);
    case Op::kAtomicWrite:
      return AtomicWritePointer(ex, 0);
  }
  return false;
}

// What is missing of the functions that a QP with `op` needs; empty if nothing is.
std::string Missing(ibv_qp_ex* ex, Op op, Transport transport) {
  std::string missing;
  auto need = [&](const char* name, bool there) {
    if (!there) missing += std::string(missing.empty() ? "" : ", ") + name;
  };
  need("wr_start", ex->wr_start != nullptr);
  need("wr_complete", ex->wr_complete != nullptr);
  need("wr_abort", ex->wr_abort != nullptr);
  need(Info(op).name, HasBuilder(ex, op));
  if (Info(op).data != DataSetters::kNone) {
    need("wr_set_sge", ex->wr_set_sge != nullptr);
    need("wr_set_sge_list", ex->wr_set_sge_list != nullptr);
  }
  if (Info(op).data == DataSetters::kSgeOrInline) {
    need("wr_set_inline_data", ex->wr_set_inline_data != nullptr);
    need("wr_set_inline_data_list", ex->wr_set_inline_data_list != nullptr);
  }
  if (transport == Transport::kUd) need("wr_set_ud_addr", ex->wr_set_ud_addr != nullptr);
  if (transport == Transport::kXrc && Info(op).needs_qp_setter) {
    need("wr_set_xrc_srqn", ex->wr_set_xrc_srqn != nullptr);
  }
  return missing;
}

QPX_TEST(Create, ExtendedQpSends, "WR-CREATE-001", "WR-ABI-001") {
  PairOptions options;
  options.transport = AnyTransport();
  options.ops = Info(Op::kSend).bit;
  Pair& pair = bed().Connect(options);
  ASSERT_CLAUSE("WR-ABI-001", ibv_qp_to_qp_ex(pair.a.qp) != nullptr);
  Traffic traffic(bed(), pair);
  const std::string problem =
      Persist(options.transport, [&] { return traffic.Run(traffic.Make(Op::kSend, 1)); });
  EXPECT_CLAUSE("WR-CREATE-001", problem.empty()) << problem;
}

std::vector<OpOn> EveryCell() {
  std::vector<OpOn> cells;
  for (const Transport transport : AllTransports()) {
    for (const Op op : AllOps()) cells.push_back({op, transport});
  }
  return cells;
}

QPX_TEST_P(Create, EachBitIsOfferedWholeOrRefused, EveryCell(), "WR-CREATE-002", "WR-ABI-001") {
  NeedsRawPrivilege(param.transport);
  // A provider need not have the type at all.
  ibv_qp_init_attr_ex plain = Attr(param.transport, 0);
  plain.comp_mask = IBV_QP_INIT_ATTR_PD;
  const bool has_type = Accepted(plain);
  ibv_qp_init_attr_ex attr = Attr(param.transport, Info(param.op).bit);
  ibv_qp* qp = bed().TryQp(&attr);
  if (qp == nullptr) {
    Record::Current().Note(std::string("refused with errno ") + std::to_string(errno));
    // A refused creation leaves nothing behind.
    for (int i = 0; i < Repetitions(1000); ++i) {
      EXPECT_CLAUSE("WR-CREATE-002", !Accepted(Attr(param.transport, Info(param.op).bit)))
          << "refused first, accepted later";
    }
    EXPECT_CLAUSE("WR-CREATE-002", Accepted(plain) == has_type)
        << "a plain QP can no longer be created after refusals";
    return;
  }
  // A blank cell of table A is refused by the reference; a provider that offers one is held to
  // WR-RESP-012.
  if (TheHooks().is_reference) {
    EXPECT_CLAUSE("WR-CREATE-002", TableA(param.op, param.transport) != Cell::kRefused)
        << "an operation that the QP type does not carry is granted";
  }
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ASSERT_CLAUSE("WR-ABI-001", ex != nullptr);
  const std::string missing = Missing(ex, param.op, param.transport);
  EXPECT_CLAUSE("WR-CREATE-002", missing.empty()) << "NULL function pointers: " << missing;
}

QPX_TEST_P(Create, UndefinedBitsAreRefused, AllTransports(), "WR-CREATE-002") {
  NeedsRawPrivilege(param);
  for (int bit = kOpCount; bit < 64; ++bit) {
    for (const uint64_t more : {uint64_t{0}, Info(Op::kSend).bit}) {
      EXPECT_CLAUSE("WR-CREATE-002", !Accepted(Attr(param, (uint64_t{1} << bit) | more)))
          << "send_ops bit " << bit << ", which no header defines, was accepted";
    }
  }
}

std::vector<Transport> NotRaw() {
  return {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrc};
}

QPX_TEST_P(Create, GrantsAtLeastWhatIsAsked, NotRaw(), "WR-CREATE-003") {
  std::mt19937 random(1);
  const ibv_device_attr& device = facts().attr.orig_attr;
  auto up_to = [&](uint32_t most) { return most == 0 ? 0 : random() % (most + 1); };
  int made = 0;
  for (int i = 0; i < Repetitions(100); ++i) {
    ibv_qp_init_attr_ex attr = Attr(param, Info(Op::kSend).bit);
    attr.cap.max_send_wr = 1 + up_to(std::min(device.max_qp_wr - 1, 511));
    attr.cap.max_send_sge = 1 + up_to(static_cast<uint32_t>(device.max_sge - 1));
    attr.cap.max_inline_data = up_to(256);
    if (param != Transport::kXrc) {
      attr.cap.max_recv_wr = 1 + up_to(std::min(device.max_qp_wr - 1, 511));
      attr.cap.max_recv_sge = 1 + up_to(static_cast<uint32_t>(device.max_sge - 1));
    }
    const ibv_qp_cap asked = attr.cap;
    ibv_qp* qp = bed().TryQp(&attr);
    if (qp == nullptr) continue;  // a combination may be too big
    ++made;
    const ibv_qp_cap& got = attr.cap;
    EXPECT_CLAUSE("WR-CREATE-003", got.max_send_wr >= asked.max_send_wr &&
                                       got.max_send_sge >= asked.max_send_sge &&
                                       got.max_inline_data >= asked.max_inline_data)
        << "asked " << asked.max_send_wr << "/" << asked.max_send_sge << "/"
        << asked.max_inline_data << " (send_wr/send_sge/inline), granted " << got.max_send_wr << "/"
        << got.max_send_sge << "/" << got.max_inline_data;
    if (param != Transport::kXrc) {
      EXPECT_CLAUSE("WR-CREATE-003",
                    got.max_recv_wr >= asked.max_recv_wr && got.max_recv_sge >= asked.max_recv_sge)
          << "asked " << asked.max_recv_wr << "/" << asked.max_recv_sge
          << " (recv_wr/recv_sge), granted " << got.max_recv_wr << "/" << got.max_recv_sge;
    }
    ibv_qp_attr queried{};
    ibv_qp_init_attr init{};
    if (ibv_query_qp(qp, &queried, IBV_QP_CAP, &init) == 0) {
      EXPECT_SHOULD("WR-CREATE-003", queried.cap.max_send_wr == got.max_send_wr &&
                                         queried.cap.max_send_sge == got.max_send_sge &&
                                         queried.cap.max_inline_data == got.max_inline_data)
          << "ibv_query_qp reports other capacities than creation returned";
    }
    bed().Destroy(qp);
  }
  if (made == 0) throw NotApplicable{"no QP of this type could be created"};
}

QPX_TEST_P(Create, NeverClipsARequestAboveALimit, NotRaw(), "WR-CREATE-004") {
  if (!Accepted(Attr(param, Info(Op::kSend).bit))) {
    throw NotApplicable{"no QP of this type could be created"};
  }
  const ibv_device_attr& device = facts().attr.orig_attr;
  struct Case {
    const char* what;
    uint32_t ibv_qp_cap::*member;
    uint32_t value;
  };
  const Case cases[] = {
      {"max_send_sge", &ibv_qp_cap::max_send_sge, static_cast<uint32_t>(device.max_sge) + 1},
      {"max_send_wr", &ibv_qp_cap::max_send_wr, static_cast<uint32_t>(device.max_qp_wr) + 1},
      {"max_inline_data", &ibv_qp_cap::max_inline_data, 1u << 31},
  };
  for (const Case& test : cases) {
    ibv_qp_init_attr_ex attr = Attr(param, Info(Op::kSend).bit);
    attr.cap.*test.member = test.value;
    ibv_qp* qp = bed().TryQp(&attr);
    if (qp == nullptr) continue;
    EXPECT_CLAUSE("WR-CREATE-004", attr.cap.*test.member >= test.value)
        << test.what << " asked " << test.value << ", granted " << attr.cap.*test.member;
    bed().Destroy(qp);
  }
}

QPX_TEST(Create, SendOpsAreIgnoredWithoutTheirMaskBit, "WR-CREATE-005") {
  for (const uint32_t mask : {uint32_t{IBV_QP_INIT_ATTR_PD} | IBV_QP_INIT_ATTR_CREATE_FLAGS,
                              uint32_t{IBV_QP_INIT_ATTR_PD}}) {
    ibv_qp_init_attr_ex zero = Attr(Transport::kRc, 0), ones = Attr(Transport::kRc, ~uint64_t{0});
    zero.comp_mask = ones.comp_mask = mask;
    const bool with_zero = Accepted(zero), with_ones = Accepted(ones);
    EXPECT_CLAUSE("WR-CREATE-005", with_zero == with_ones)
        << "comp_mask " << mask << ": send_ops_flags 0 is " << (with_zero ? "accepted" : "refused")
        << ", ~0 is " << (with_ones ? "accepted" : "refused");
  }
}

QPX_TEST(Create, UnknownCompMaskIsRefused, "WR-CREATE-006") {
  const Transport transport = AnyTransport();
  for (const int bit : {30, 31}) {
    ibv_qp_init_attr_ex attr = Attr(transport, Info(Op::kSend).bit);
    attr.comp_mask |= 1u << bit;
    EXPECT_CLAUSE("WR-CREATE-006", !Accepted(attr)) << "comp_mask bit " << bit << " was accepted";
  }
}

QPX_TEST_P(Create, NeedsItsDomain, NotRaw(), "WR-CREATE-007") {
  const ChildResult child = RunInChild(20, [&](Bed& bed) -> std::string {
    ibv_cq* cq = bed.Cq(64);
    PairOptions options;
    options.transport = param;
    options.ops = Info(Op::kSend).bit;
    ibv_qp_init_attr_ex attr = RequesterAttr(bed, options, cq, cq);
    attr.comp_mask &= ~uint32_t{IBV_QP_INIT_ATTR_PD};
    if (ibv_create_qp_ex(bed.context(), &attr) != nullptr) return "created without a PD";
    if (param == Transport::kXrc) {
      ibv_qp_init_attr_ex target{};
      target.qp_type = IBV_QPT_XRC_RECV;
      target.xrcd = bed.xrcd();
      target.comp_mask = 0;
      if (ibv_create_qp_ex(bed.context(), &target) != nullptr) return "created without an XRCD";
    }
    return "";
  });
  EXPECT_CLAUSE("WR-CREATE-007", child.end == ChildResult::End::kReturned && child.text.empty())
      << child.text;
}

QPX_TEST(Create, NoOperationsAtAll, "WR-CREATE-008") {
  ibv_qp_init_attr_ex attr = Attr(Transport::kRc, 0);
  ibv_qp* qp = bed().TryQp(&attr);
  if (qp == nullptr) {
    Record::Current().Variation("WR-CREATE-008", "refused at creation");
    return;
  }
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  if (ex == nullptr || ex->wr_start == nullptr) {
    Record::Current().Variation("WR-CREATE-008", "created without region functions");
    return;
  }
  ibv_wr_start(ex);
  ibv_wr_abort(ex);
  Record::Current().Variation("WR-CREATE-008", "created, regions can be opened");
}

QPX_TEST(Create, BuilderThatWasNotRequested, "WR-CREATE-009") {
  PairOptions options;
  options.ops = Info(Op::kSend).bit;
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(64);
  ibv_qp_ex* ex = pair.a.ex;
  ASSERT_CLAUSE("WR-CREATE-009", ex->wr_rdma_write != nullptr)
      << "the reference cannot report a call through a NULL pointer";
  ibv_wr_start(ex);
  ex->wr_id = 1;
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(ex, memory.rkey(), memory.address());
  ibv_wr_set_sge(ex, memory.lkey(), memory.address(), 8);
  EXPECT_CLAUSE("WR-CREATE-009", ibv_wr_complete(ex) == EINVAL);
  EXPECT_CLAUSE("WR-CREATE-009", Linted("WR-CREATE-009"));
  EXPECT_CLAUSE("WR-CREATE-009", Quiet(pair.a.send_cq).empty());
}

QPX_TEST(Create, SendWithInvalidateOnUc, "WR-CREATE-010") {
  Record& record = Record::Current();
  PairOptions options;
  options.transport = Transport::kUc;
  options.ops = Bits({Op::kSendInv});
  options.peer_ops = Bits({Op::kSend, Op::kBindMw});
  if (!Accepted(Attr(Transport::kUc, options.ops))) {
    record.Variation("WR-CREATE-010", "refused at creation");
    return;
  }
  if (!Accepted(Attr(Transport::kUc, options.peer_ops))) {
    throw NotApplicable{"UC has no BIND_MW, so there is no key to invalidate"};
  }
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const Flight flight = traffic.Make(Op::kSendInv, 1);
  if (Post(pair.a, flight.wr) != 0) {
    record.Variation("WR-CREATE-010", "refused at complete");
    return;
  }
  const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-CREATE-010", sent.size() == 1) << Describe(sent);
  if (sent[0].status != IBV_WC_SUCCESS) {
    record.Variation("WR-CREATE-010", "ends in error");
    return;
  }
  record.Variation("WR-CREATE-010", "carried out");
  const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1, 1s);
  if (got.size() == 1 && got[0].status == IBV_WC_SUCCESS &&
      (got[0].wc_flags & IBV_WC_WITH_INV) != 0) {
    // The key named by the completion must be dead: the owner cannot invalidate it a second time
    // without an error on kernels that check; a write through it is the sure way.
    PairOptions probe;
    probe.transport = Transport::kUc;
    probe.ops = Bits({Op::kWrite});
    probe.peer_ops = probe.ops;
    Pair& other = bed().Connect(probe);
    Wr write;
    write.op = Op::kWrite;
    write.rkey = flight.wr.rkey;
    write.remote = traffic.remote().address();
    write.sge = {traffic.local().sge(0, 8)};
    const std::vector<uint8_t> before = traffic.remote().Copy(0, 8);
    Post(other.a, write);
    Quiet(other.a.send_cq);
    EXPECT_CLAUSE("WR-CREATE-010", traffic.remote().Copy(0, 8) == before)
        << "a key reported as invalidated still gives access";
  }
}

QPX_TEST(Create, LocalInvalidateOnUc, "WR-CREATE-011") {
  Record& record = Record::Current();
  PairOptions options;
  options.transport = Transport::kUc;
  options.ops = Bits({Op::kLocalInv, Op::kBindMw});
  if (!Accepted(Attr(Transport::kUc, options.ops))) {
    record.Variation("WR-CREATE-011", "refused at creation");
    return;
  }
  record.Variation("WR-CREATE-011", "offered");
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const std::string problem = traffic.Run(traffic.Make(Op::kLocalInv, 1));
  EXPECT_CLAUSE("WR-CREATE-011", problem.empty()) << problem;
}

QPX_TEST(Create, TsoOnUd, "WR-CREATE-012") {
  ibv_qp_init_attr_ex attr = Attr(Transport::kUd, Info(Op::kTso).bit);
  attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  attr.max_tso_header = 64;
  if (!Accepted(attr)) {
    Record::Current().Variation("WR-CREATE-012", "refused at creation");
    return;
  }
  // Offered: one small request must end in one completion; what segments would look like on UD no
  // page says.
  Record::Current().Variation("WR-CREATE-012", "offered");
  PairOptions options;
  options.transport = Transport::kUd;
  Pair& pair = bed().Connect(options);
  ibv_qp* qp = bed().TryQp(&attr);
  ASSERT_CLAUSE("WR-CREATE-012", qp != nullptr);
  End end = pair.a;
  end.qp = qp;
  end.ex = ibv_qp_to_qp_ex(qp);
  if (BringUp(bed(), options, end, false, pair.a.peer_qpn, IBV_QPS_RTS) != 0) {
    throw SetUpFailed{"the TSO QP could not be brought up"};
  }
  Memory& memory = bed().Mem(256);
  uint8_t header[64] = {};
  ibv_wr_start(end.ex);
  end.ex->wr_id = 1;
  end.ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_tso(end.ex, header, 54, 64);
  ibv_wr_set_ud_addr(end.ex, pair.a.to_peer, pair.a.peer_qpn, pair.a.qkey);
  ibv_wr_set_sge(end.ex, memory.lkey(), memory.address(), 128);
  if (ibv_wr_complete(end.ex) != 0) return;
  EXPECT_CLAUSE("WR-CREATE-012", Await(cq(), 1).size() == 1)
      << "an accepted TSO request has no completion";
}

QPX_TEST_P(Create, SigAllSignalsEveryRequest, NotRaw(), "WR-CREATE-013") {
  PairOptions options;
  options.transport = param;
  options.ops = Info(Op::kSend).bit;
  options.sig_all = true;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  std::vector<Flight> flights;
  for (uint64_t id = 1; id <= 10; ++id) {
    flights.push_back(traffic.Make(Op::kSend, id));
    flights.back().wr.flags = 0;
  }
  std::vector<Wr> wrs;
  for (const Flight& flight : flights) wrs.push_back(flight.wr);
  ASSERT_CLAUSE("WR-CREATE-013", Post(pair.a, wrs) == 0);
  const std::string problem = Differs(Await(pair.a.send_cq, 10), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  EXPECT_CLAUSE("WR-CREATE-013", problem.empty()) << problem;
}

QPX_TEST_P(Create, NewQpHasZeroedMembers, NotRaw(), "WR-CREATE-014") {
  for (int i = 0; i < 10; ++i) {
    ibv_qp_init_attr_ex attr = Attr(param, Info(Op::kSend).bit);
    ibv_qp* qp = bed().TryQp(&attr);
    if (qp == nullptr) throw NotApplicable{"SEND is refused on this type"};
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    EXPECT_CLAUSE("WR-CREATE-014", ex->comp_mask == 0 && ex->wr_id == 0 && ex->wr_flags == 0)
        << "comp_mask " << ex->comp_mask << ", wr_id " << ex->wr_id << ", wr_flags "
        << ex->wr_flags;
    // A recycled object must not remember its last life.
    ex->wr_id = ~uint64_t{0};
    ex->wr_flags = ~0u;
    bed().Destroy(qp);
  }
}

QPX_TEST(Create, ReceiveCapacitiesAreIgnoredWithAnSrq, "WR-CREATE-015") {
  ibv_srq* srq = bed().Srq(16);
  ibv_qp_init_attr_ex attr = Attr(Transport::kRc, Info(Op::kSend).bit);
  attr.srq = srq;
  attr.cap.max_recv_wr = 0;
  attr.cap.max_recv_sge = 0;
  if (!Accepted(attr)) throw NotApplicable{"RC on an SRQ is refused"};
  attr.cap.max_recv_wr = static_cast<uint32_t>(facts().attr.orig_attr.max_qp_wr) + 1;
  attr.cap.max_recv_sge = static_cast<uint32_t>(facts().attr.orig_attr.max_sge) + 1;
  EXPECT_CLAUSE("WR-CREATE-015", Accepted(attr))
      << "max_recv_wr and max_recv_sge above the device's limits are refused although an SRQ is "
         "given";
}

QPX_TEST_P(Create, SeveralBitsWorkTogether, NotRaw(), "WR-CREATE-016") {
  uint64_t all = 0;
  std::string names;
  for (const Op op : OpsOf(param)) {
    if (!facts().Has(op) || !Accepted(Attr(param, Info(op).bit))) continue;
    all |= Info(op).bit;
    names += std::string(names.empty() ? "" : "|") + Info(op).name;
  }
  if (all == 0) throw NotApplicable{"no operation is offered on this type"};
  if (!Accepted(Attr(param, all))) {
    EXPECT_SHOULD("WR-CREATE-016", false) << "each alone is accepted, together refused: " << names;
    return;
  }
  const std::string problem = Persist(param, [&] {
    PairOptions options;
    options.transport = param;
    options.ops = all;
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    std::vector<Flight> flights;
    for (const Op op : traffic.Ops()) flights.push_back(traffic.Make(op, flights.size() + 1));
    return traffic.Run(flights);
  });
  EXPECT_CLAUSE("WR-CREATE-016", problem.empty()) << names << ": " << problem;
}

QPX_TEST(Create, NotDestroyedWhileInAMulticastGroup, "WR-CREATE-017") {
  PairOptions options;
  options.transport = Transport::kUd;
  Pair& pair = bed().Connect(options);
  ibv_gid group{};
  const uint8_t raw[16] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  std::copy(raw, raw + 16, group.raw);
  if (ibv_attach_mcast(pair.b.qp, &group, 0) != 0) {
    throw NotApplicable{"ibv_attach_mcast is refused"};
  }
  const int destroyed = ibv_destroy_qp(pair.b.qp);
  if (destroyed == 0) bed().Disown(pair.b.qp);
  ASSERT_CLAUSE("WR-CREATE-017", destroyed != 0) << "destroyed while attached to a group";
  Traffic traffic(bed(), pair);
  const std::string problem =
      Persist(Transport::kUd, [&] { return traffic.Run(traffic.Make(Op::kSend, 1)); });
  EXPECT_CLAUSE("WR-CREATE-017", problem.empty()) << "after the refused destroy: " << problem;
  EXPECT_CLAUSE("WR-CREATE-017", ibv_detach_mcast(pair.b.qp, &group, 0) == 0);
  EXPECT_CLAUSE("WR-CREATE-017", bed().Destroy(pair.b.qp) == 0) << "after detaching";
}

}  // namespace
}  // namespace qpexam::conformance
