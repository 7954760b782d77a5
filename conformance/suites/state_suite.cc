// STATE: the QP state machine (tables B) and what posting does in each state.

#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"
#include "conformance/suites/table_b.h"

namespace qpexam::conformance {

std::string ParamName(Column column) {
  std::string name = Name(column);
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  return name;
}

namespace {

constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                    IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

const std::vector<Column> kColumns = {Column::kRc,  Column::kUc,      Column::kUd,
                                      Column::kRaw, Column::kXrcSend, Column::kXrcRecv};

class State : public Conformance {
 protected:
  static Transport TransportOf(Column column) {
    switch (column) {
      case Column::kRc:
        return Transport::kRc;
      case Column::kUc:
        return Transport::kUc;
      case Column::kUd:
        return Transport::kUd;
      case Column::kRaw:
        return Transport::kRaw;
      case Column::kXrcSend:
      case Column::kXrcRecv:
        break;
    }
    return Transport::kXrc;
  }

  // One QP of the column's type, with its partner, in RESET.
  struct Probe {
    Pair* pair = nullptr;
    End* end = nullptr;
    bool responder = false;
    uint32_t peer_qpn = 0;
  };
  Probe Make(Column column) {
    if (column == Column::kRaw && geteuid() != 0) {
      throw NotApplicable{"RAW_PACKET needs CAP_NET_RAW"};
    }
    PairOptions options;
    options.transport = TransportOf(column);
    options.ops = Bits({Op::kSend});
    options.stop_at = IBV_QPS_RESET;
    Probe probe;
    probe.pair = &bed().Connect(options);
    probe.responder = column == Column::kXrcRecv;
    probe.end = probe.responder ? &probe.pair->b : &probe.pair->a;
    probe.peer_qpn = probe.end->peer_qpn;
    return probe;
  }
  // Brings it from RESET to `state` by legal edges. False where the device refuses SQD or the type
  // has no way to SQE.
  bool Bring(Column column, Probe& probe, ibv_qp_state state) {
    const ibv_qp_state by_attributes = state == IBV_QPS_SQD || state == IBV_QPS_SQE ? IBV_QPS_RTS
                                       : state == IBV_QPS_ERR                       ? IBV_QPS_INIT
                                                                                    : state;
    if (const int rc = BringUp(bed(), probe.pair->options, *probe.end, probe.responder,
                               probe.peer_qpn, by_attributes);
        rc != 0) {
      throw SetUpFailed{std::string(Name(column)) + " could not be brought to " +
                        Name(by_attributes) + ": " + std::strerror(std::abs(rc))};
    }
    if (state == IBV_QPS_ERR) return ModifyState(probe.end->qp, IBV_QPS_ERR) == 0;
    if (state == IBV_QPS_SQD) {
      return ModifyState(probe.end->qp, IBV_QPS_SQD) == 0 &&
             ReachesState(probe.end->qp, {IBV_QPS_SQD});
    }
    if (state == IBV_QPS_SQE) {
      // Only an error of a send request on UC or UD leads there (WR-STATE-004).
      if (column != Column::kUd && column != Column::kUc) return false;
      Memory& memory = bed().Mem(64);
      Wr wr;
      wr.op = Op::kSend;
      wr.id = 1;
      wr.sge = {memory.sge(0, 16)};
      wr.sge[0].lkey ^= 0x5500;
      if (Post(*probe.end, wr) != 0) return false;
      if (Await(probe.end->send_cq, 1).size() != 1) return false;
      return QueryState(probe.end->qp) == IBV_QPS_SQE;
    }
    return true;
  }

  // Attributes with a legal value in every field that a mask could name.
  ibv_qp_attr LegalValues(const Probe& probe, ibv_qp_state present) {
    ibv_qp_attr attr{};
    attr.cur_qp_state = present;
    attr.port_num = bed().facts().port_num;
    attr.qkey = 0x11111111;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attr.ah_attr = bed().Path();
    attr.alt_ah_attr = bed().Path();
    attr.alt_port_num = bed().facts().port_num;
    attr.path_mtu = probe.pair->options.mtu;
    attr.dest_qp_num = probe.peer_qpn;
    attr.rq_psn = 0x1234;
    attr.sq_psn = 0x1234;
    attr.max_dest_rd_atomic = 1;
    attr.max_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.path_mig_state = IBV_MIG_MIGRATED;
    return attr;
  }

  // What ibv_query_qp says that a refused modify must not have changed.
  struct Snapshot {
    ibv_qp_attr attr{};
    bool operator==(const Snapshot& o) const {
      return attr.qp_state == o.attr.qp_state && attr.pkey_index == o.attr.pkey_index &&
             attr.port_num == o.attr.port_num && attr.qkey == o.attr.qkey &&
             attr.qp_access_flags == o.attr.qp_access_flags && attr.path_mtu == o.attr.path_mtu &&
             attr.dest_qp_num == o.attr.dest_qp_num && attr.rq_psn == o.attr.rq_psn &&
             attr.timeout == o.attr.timeout && attr.retry_cnt == o.attr.retry_cnt &&
             attr.rnr_retry == o.attr.rnr_retry && attr.min_rnr_timer == o.attr.min_rnr_timer &&
             attr.max_rd_atomic == o.attr.max_rd_atomic &&
             attr.max_dest_rd_atomic == o.attr.max_dest_rd_atomic;
    }
  };
  static Snapshot Take(ibv_qp* qp) {
    Snapshot snapshot;
    ibv_qp_init_attr init{};
    int mask = IBV_QP_STATE;
    for (const int bit : TestedBits()) mask |= bit;
    if (ibv_query_qp(qp, &snapshot.attr, mask, &init) != 0) throw SetUpFailed{"ibv_query_qp"};
    return snapshot;
  }

  // Calls ibv_modify_qp, which must refuse and change nothing. False when the QP moved (a fresh
  // probe is needed).
  bool MustRefuse(const char* clause, const Probe& probe, ibv_qp_attr attr, int mask,
                  const std::string& what) {
    const Snapshot before = Take(probe.end->qp);
    const int rc = ibv_modify_qp(probe.end->qp, &attr, mask);
    EXPECT_CLAUSE(clause, rc != 0) << what << " with " << MaskName(mask) << " is accepted";
    const Snapshot after = Take(probe.end->qp);
    if (rc != 0) {
      EXPECT_CLAUSE(clause, before == after)
          << what << " with " << MaskName(mask) << " was refused, yet something changed (state "
          << Name(before.attr.qp_state) << " -> " << Name(after.attr.qp_state) << ")";
    }
    return before == after;
  }

  Pair& RcPair(ibv_qp_state stop_at, uint64_t ops = 0, uint8_t rnr_retry = 7) {
    PairOptions options;
    options.ops = ops;
    options.stop_at = stop_at;
    options.rnr_retry = rnr_retry;
    return bed().Connect(options);
  }
  // SENDs of `memory`'s first 16 bytes with ids first, first+1, ...
  static std::vector<Wr> Sends(Memory& memory, uint64_t first, int count) {
    std::vector<Wr> wrs;
    for (int i = 0; i < count; ++i) {
      Wr wr;
      wr.op = Op::kSend;
      wr.id = first + i;
      wr.sge = {memory.sge(0, 16)};
      wrs.push_back(wr);
    }
    return wrs;
  }
};

QPX_TEST_P(State, PostingBeforeRtsIsAnImmediateError,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kUd,
                                   Transport::kXrc}),
           "WR-STATE-001") {
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
    PairOptions options;
    options.transport = param;
    options.ops = Bits({Op::kSend});
    options.stop_at = state;
    Pair& pair = bed().Connect(options);
    Memory& memory = bed().Mem(64);
    const int rc = Post(pair.a, Sends(memory, 1, 1));
    EXPECT_CLAUSE("WR-STATE-001", rc != 0) << "a SEND in " << Name(state) << " was accepted";
    if (rc == 0) continue;  // an accepted request may run later: X11
    // Nothing of it is left once the QP works.
    if (ModifyState(pair.a.qp, IBV_QPS_RESET) != 0) throw SetUpFailed{"RESET was refused"};
    if (ModifyState(pair.b.qp, IBV_QPS_RESET) != 0) throw SetUpFailed{"RESET was refused"};
    BringUp(bed(), pair, IBV_QPS_RTS);
    Traffic traffic(bed(), pair);
    const std::string problem =
        Persist(param, [&] { return traffic.Run(traffic.Make(Op::kSend, 2)); });
    EXPECT_CLAUSE("WR-STATE-001", problem.empty()) << "after " << Name(state) << ": " << problem;
  }
}

// Without a RESET in between: the failed request must not run once RTS is reached.
QPX_TEST(State, ARefusedRequestNeverRuns, "WR-STATE-001", "WR-ATOM-006") {
  Pair& pair = RcPair(IBV_QPS_RESET);
  Memory& memory = bed().Mem(256);
  auto bring_both = [&](ibv_qp_state to) {
    // The edges one by one from where both are.
    ibv_qp_state from = QueryState(pair.a.qp);
    for (const auto& step :
         {std::pair{IBV_QPS_RESET, IBV_QPS_INIT}, std::pair{IBV_QPS_INIT, IBV_QPS_RTR},
          std::pair{IBV_QPS_RTR, IBV_QPS_RTS}}) {
      if (step.first != from) continue;
      for (End* end : {&pair.a, &pair.b}) {
        Probe probe;
        probe.pair = &pair;
        probe.end = end;
        probe.peer_qpn = end->peer_qpn;
        ibv_qp_attr attr = LegalValues(probe, from);
        attr.qp_access_flags = kAllAccess;
        attr.qp_state = step.second;
        const Edge* edge = FindEdge(Column::kRc, step.first, step.second);
        if (ibv_modify_qp(end->qp, &attr, edge->required | IBV_QP_STATE) != 0) {
          throw SetUpFailed{std::string("to ") + Name(step.second)};
        }
      }
      from = step.second;
      if (from == to) return;
    }
  };
  int refused = 0;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR}) {
    bring_both(state);
    if (Post(pair.a, Sends(memory, 100 + refused, 1)) != 0) ++refused;
  }
  EXPECT_CLAUSE("WR-STATE-001", refused == 2) << "accepted before RTS";
  if (refused != 2) return;
  bring_both(IBV_QPS_RTS);
  ASSERT_CLAUSE("WR-ATOM-006", PostRecv(pair.b, 7, {memory.sge(64, 64)}) == 0);
  ASSERT_CLAUSE("WR-ATOM-006", Post(pair.a, Sends(memory, 200, 1)) == 0);
  EXPECT_CLAUSE("WR-ATOM-006", Differs(Await(pair.a.send_cq, 1), {200}).empty());
  EXPECT_CLAUSE("WR-ATOM-006", Await(pair.b.recv_cq, 1).size() == 1);
  EXPECT_CLAUSE("WR-ATOM-006", Quiet({pair.a.send_cq, pair.b.recv_cq}).empty())
      << "a completion of a request that was refused";
}

QPX_TEST(State, SqdQueuesUntilRts, "WR-STATE-002") {
  Pair& pair = RcPair(IBV_QPS_RTS, Bits({Op::kWrite}));
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-STATE-002", traffic.Run(traffic.Make(Op::kWrite, 1)).empty());
  if (ModifyState(pair.a.qp, IBV_QPS_SQD) != 0) throw NotApplicable{"the device refuses SQD"};
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_CLAUSE("WR-STATE-002", clock().Until(clock().Limit(5s), [&] {
    return ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE, &init) == 0 && attr.sq_draining == 0;
  })) << "the queue does not drain";
  const Flight flight = traffic.Make(Op::kWrite, 2);
  ASSERT_CLAUSE("WR-STATE-002", Post(pair.a, flight.wr) == 0) << "posting in SQD is refused";
  EXPECT_CLAUSE("WR-STATE-002", Quiet(pair.a.send_cq).empty()) << "it ran in SQD";
  EXPECT_CLAUSE("WR-STATE-002", traffic.CheckUntouched(flight).empty()) << "it ran in SQD";
  if (ModifyState(pair.a.qp, IBV_QPS_RTS) != 0) {
    Record::Current().Note("SQD -> RTS is refused");
    return;
  }
  const std::string problem = traffic.Finish({flight});
  EXPECT_CLAUSE("WR-STATE-002", problem.empty()) << "after the return to RTS: " << problem;
}

QPX_TEST(State, DrainedIsNotified, "WR-STATE-003") {
  Pair& pair = RcPair(IBV_QPS_RTS, Bits({Op::kSend}));
  Memory& memory = bed().Mem(1024);
  ASSERT_CLAUSE("WR-STATE-003", Post(pair.a, Sends(memory, 1, 4)) == 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  if (ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0) {
    throw NotApplicable{"the device refuses SQD with a notification"};
  }
  for (int i = 0; i < 4; ++i) {
    ASSERT_CLAUSE("WR-STATE-003", PostRecv(pair.b, i, {memory.sge(64 * (i + 1), 64)}) == 0);
  }
  ibv_async_event event{};
  const bool came = bed().AwaitAsyncEvent(
      [&](const ibv_async_event& e) {
        return e.event_type == IBV_EVENT_SQ_DRAINED && e.element.qp == pair.a.qp;
      },
      5s, &event);
  EXPECT_CLAUSE("WR-STATE-003", came) << "no IBV_EVENT_SQ_DRAINED";
  ibv_qp_init_attr init{};
  ASSERT_CLAUSE("WR-STATE-003", ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE, &init) == 0);
  if (came) {
    EXPECT_CLAUSE("WR-STATE-003", attr.sq_draining == 0) << "still draining after the event";
  }
}

QPX_TEST_P(State, SendErrorOfAnUnreliableQp,
           (std::vector<Transport>{Transport::kUd, Transport::kUc}), "WR-STATE-004") {
  PairOptions options;
  options.transport = param;
  options.ops = Bits({Op::kSend});
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(1024);
  std::vector<Wr> bad = Sends(memory, 1, 1);
  bad[0].sge[0].lkey ^= 0x5500;
  if (Post(pair.a, bad) != 0) throw NotApplicable{"a bad lkey is refused at complete"};
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-STATE-004", wcs.size() == 1 && wcs[0].status != IBV_WC_SUCCESS)
      << Describe(wcs);
  ASSERT_CLAUSE("WR-STATE-004", ReachesState(pair.a.qp, {IBV_QPS_SQE, IBV_QPS_ERR}))
      << "state " << Name(QueryState(pair.a.qp));
  if (QueryState(pair.a.qp) == IBV_QPS_ERR) {
    Record::Current().Variation("WR-STATE-004", "ERR instead of SQE");
    return;
  }
  Record::Current().Variation("WR-STATE-004", "SQE");
  // Posted sends are flushed.
  if (Post(pair.a, Sends(memory, 2, 2)) == 0) {
    const std::vector<ibv_wc> flushed = Await(pair.a.send_cq, 2);
    EXPECT_CLAUSE("WR-STATE-004", flushed.size() == 2 && flushed[0].status == IBV_WC_WR_FLUSH_ERR &&
                                      flushed[1].status == IBV_WC_WR_FLUSH_ERR)
        << Describe(flushed);
  }
  // The receive side works.
  const std::string received = Persist(param, [&]() -> std::string {
    if (PostRecv(pair.a, 50, {memory.sge(256, 128)}) != 0) return "no receive";
    if (Post(pair.b, Sends(memory, 60, 1)) != 0) return "the peer cannot send";
    Await(pair.b.send_cq, 1);
    return Await(pair.a.recv_cq, 1, 2s).size() == 1 ? "" : "nothing received in SQE";
  });
  EXPECT_CLAUSE("WR-STATE-004", received.empty()) << received;
  // And it recovers.
  const int rc = ModifyState(pair.a.qp, IBV_QPS_RTS);
  EXPECT_CLAUSE("WR-STATE-004", rc == 0) << "SQE -> RTS returned " << rc;
  if (rc != 0) return;
  Traffic traffic(bed(), pair);
  const std::string problem =
      Persist(param, [&] { return traffic.Run(traffic.Make(Op::kSend, 70)); });
  EXPECT_CLAUSE("WR-STATE-004", problem.empty()) << "after the recovery: " << problem;
}

QPX_TEST_P(State, PostingInErrIsFlushed,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kUd,
                                   Transport::kXrc}),
           "WR-STATE-005") {
  PairOptions options;
  options.transport = param;
  options.ops = Bits({Op::kSend});
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(64);
  ASSERT_CLAUSE("WR-STATE-005", ModifyState(pair.a.qp, IBV_QPS_ERR) == 0);
  std::vector<Wr> wrs = Sends(memory, 1, 3);
  wrs[1].flags = 0;  // signaled or not
  if (Post(pair.a, wrs) != 0) {
    Record::Current().Variation("WR-STATE-005", "refused at complete");
    EXPECT_CLAUSE("WR-STATE-005", Quiet(pair.a.send_cq).empty()) << "refused, yet completed";
    return;
  }
  Record::Current().Variation("WR-STATE-005", "accepted and flushed");
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 3);
  ASSERT_CLAUSE("WR-STATE-005", wcs.size() == 3) << Describe(wcs);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_CLAUSE("WR-STATE-005", wcs[i].wr_id == i + 1 && wcs[i].status == IBV_WC_WR_FLUSH_ERR)
        << Describe(wcs);
  }
}

QPX_TEST(State, EnteringErrFlushesBothQueues, "WR-STATE-006") {
  Pair& pair = RcPair(IBV_QPS_RTS, Bits({Op::kSend}));
  Memory& memory = bed().Mem(1024);
  // Blocked: the peer has no receive.
  std::vector<Wr> wrs = Sends(memory, 1, 5);
  wrs[1].flags = wrs[3].flags = 0;
  for (int i = 0; i < 4; ++i) {
    ASSERT_CLAUSE("WR-STATE-006", PostRecv(pair.a, 20 + i, {memory.sge(64 * (i + 1), 64)}) == 0);
  }
  ASSERT_CLAUSE("WR-STATE-006", Post(pair.a, wrs) == 0);
  ASSERT_CLAUSE("WR-STATE-006", ModifyState(pair.a.qp, IBV_QPS_ERR) == 0);
  const std::vector<ibv_wc> sends = Await(pair.a.send_cq, 5, 5s);
  EXPECT_CLAUSE("WR-STATE-006", sends.size() == 5) << Describe(sends);
  for (std::size_t i = 0; i < sends.size(); ++i) {
    EXPECT_CLAUSE("WR-STATE-006", sends[i].wr_id == i + 1 && sends[i].status != IBV_WC_SUCCESS)
        << Describe(sends);
    if (i > 0) {
      EXPECT_CLAUSE("WR-STATE-006", sends[i].status == IBV_WC_WR_FLUSH_ERR) << Describe(sends);
    }
  }
  const std::vector<ibv_wc> receives = Await(pair.a.recv_cq, 4, 5s);
  EXPECT_CLAUSE("WR-STATE-006", receives.size() == 4) << Describe(receives);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    EXPECT_CLAUSE("WR-STATE-006",
                  receives[i].wr_id == 20 + i && receives[i].status == IBV_WC_WR_FLUSH_ERR)
        << Describe(receives);
  }
  EXPECT_CLAUSE("WR-STATE-006", Quiet({pair.a.send_cq, pair.a.recv_cq}).empty())
      << "a request completed twice";
}

QPX_TEST(State, SrqReceivesAreNotFlushed, "WR-STATE-006") {
  ibv_srq* srq = bed().Srq(16);
  PairOptions options;
  options.ops = Bits({Op::kSend});
  options.srq = srq;
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(256);
  ibv_sge sge = memory.sge(0, 64);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = 5;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ASSERT_CLAUSE("WR-STATE-006", ibv_post_srq_recv(srq, &wr, &bad) == 0);
  ASSERT_CLAUSE("WR-STATE-006", ModifyState(pair.b.qp, IBV_QPS_ERR) == 0);
  EXPECT_CLAUSE("WR-STATE-006", Quiet(pair.b.recv_cq).empty())
      << "a receive of the SRQ was flushed";
}

QPX_TEST(State, ResetForgets, "WR-STATE-007") {
  Pair& pair = RcPair(IBV_QPS_RTS, Bits({Op::kSend}));
  Memory& memory = bed().Mem(1024);
  memory.Fill(0xee);
  ASSERT_CLAUSE("WR-STATE-007", PostRecv(pair.a, 30, {memory.sge(512, 64)}) == 0);
  ASSERT_CLAUSE("WR-STATE-007", Post(pair.a, Sends(memory, 1, 6)) == 0);  // blocked
  Reset(pair);
  PollNow(pair.a.send_cq);
  PollNow(pair.a.recv_cq);
  PollNow(pair.b.recv_cq);
  BringUp(bed(), pair, IBV_QPS_RTS);
  ASSERT_CLAUSE("WR-STATE-007", PostRecv(pair.b, 40, {memory.sge(128, 64)}) == 0);
  ASSERT_CLAUSE("WR-STATE-007", Post(pair.a, Sends(memory, 100, 1)) == 0);
  EXPECT_CLAUSE("WR-STATE-007", Differs(Await(pair.a.send_cq, 1), {100}).empty());
  const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1);
  EXPECT_CLAUSE("WR-STATE-007", got.size() == 1 && got[0].wr_id == 40) << Describe(got);
  // A message the other way must not find the receive of the former life.
  ASSERT_CLAUSE("WR-STATE-007", PostRecv(pair.a, 41, {memory.sge(256, 64)}) == 0);
  ASSERT_CLAUSE("WR-STATE-007", Post(pair.b, Sends(memory, 101, 1)) == 0);
  const std::vector<ibv_wc> back = Await(pair.a.recv_cq, 1);
  EXPECT_CLAUSE("WR-STATE-007", back.size() == 1 && back[0].wr_id == 41) << Describe(back);
  EXPECT_CLAUSE("WR-STATE-007", memory.Is(512, 64, 0xee)) << "memory of a forgotten receive";
  EXPECT_CLAUSE("WR-STATE-007", Quiet({pair.a.send_cq, pair.b.recv_cq, pair.a.recv_cq}).empty());
}

// What creation said holds in every life of the QP.
QPX_TEST(State, SigAllOutlivesReset, "WR-STATE-007", "WR-COMP-014") {
  PairOptions options;
  options.ops = Bits({Op::kWrite});
  options.sig_all = true;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  for (uint64_t id = 1; id <= 3; ++id) {
    Flight flight = traffic.Make(Op::kWrite, id);
    flight.wr.flags = 0;
    ASSERT_CLAUSE("WR-STATE-007", Post(pair.a, flight.wr) == 0);
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
    ASSERT_CLAUSE("WR-STATE-007", Differs(wcs, {id}).empty())
        << "life " << id << " of a QP with sq_sig_all: " << Describe(wcs);
    Reset(pair);
    BringUp(bed(), pair, IBV_QPS_RTS);
  }
}

// Completions that nobody polled before RESET must not keep slots in use.
QPX_TEST(State, ResetFreesTheQueue, "WR-STATE-007", "WR-ATOM-011") {
  Pair& pair = RcPair(IBV_QPS_RTS, Bits({Op::kWrite}));
  Memory& memory = bed().Mem(256);
  auto fill = [&](uint64_t first) {
    std::vector<Wr> wrs;
    for (uint32_t i = 0; i < pair.options.send_wr; ++i) {
      Wr wr;
      wr.op = Op::kWrite;
      wr.id = first + i;
      wr.sge = {memory.sge(0, 8)};
      wr.rkey = memory.rkey();
      wr.remote = memory.address(64);
      wrs.push_back(wr);
    }
    return Post(pair.a, wrs);
  };
  ASSERT_CLAUSE("WR-STATE-007", fill(1) == 0);
  clock().Pass(100ms);
  Reset(pair);
  PollNow(pair.a.send_cq);
  BringUp(bed(), pair, IBV_QPS_RTS);
  EXPECT_CLAUSE("WR-ATOM-011", fill(1000) == 0) << "the queue is not empty after RESET";
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, pair.options.send_wr);
  EXPECT_CLAUSE("WR-STATE-007", wcs.size() == pair.options.send_wr && wcs[0].wr_id == 1000)
      << Describe(wcs);
}

QPX_TEST_P(State, PairsOutsideTheTableAreRefused, kColumns, "WR-STATE-008") {
  for (const ibv_qp_state from : kStates) {
    Probe probe = Make(param);
    if (!Bring(param, probe, from)) {
      Record::Current().Note(std::string(Name(from)) + " was not reached");
      continue;
    }
    for (const ibv_qp_state to : kStates) {
      if (FindEdge(param, from, to) != nullptr) continue;
      if (from == IBV_QPS_RESET && to == IBV_QPS_ERR) continue;  // record only
      // The full required set of some legal edge into the target.
      int mask = IBV_QP_STATE;
      for (const Edge& edge : EdgesOf(param)) {
        if (edge.to == to && edge.from != to) mask |= edge.required;
      }
      ibv_qp_attr attr = LegalValues(probe, from);
      attr.qp_state = to;
      const std::string what = std::string(Name(param)) + " " + Name(from) + " -> " + Name(to);
      if (!MustRefuse("WR-STATE-008", probe, attr, mask, what)) {
        probe = Make(param);
        if (!Bring(param, probe, from)) break;
      }
    }
  }
}

QPX_TEST_P(State, EveryRequiredAttributeIsRequired, kColumns, "WR-STATE-009") {
  for (const Edge& edge : EdgesOf(param)) {
    if (edge.required == 0) continue;
    Probe probe = Make(param);
    if (!Bring(param, probe, edge.from)) continue;
    for (const int bit : TestedBits()) {
      if ((edge.required & bit) == 0) continue;
      ibv_qp_attr attr = LegalValues(probe, edge.from);
      attr.qp_state = edge.to;
      const std::string what = std::string(Name(param)) + " " + Name(edge.from) + " -> " +
                               Name(edge.to) + " without " + MaskName(bit);
      if (!MustRefuse("WR-STATE-009", probe, attr, IBV_QP_STATE | (edge.required & ~bit), what)) {
        probe = Make(param);
        if (!Bring(param, probe, edge.from)) break;
      }
    }
    // The full set works, so the refusals above had no other reason.
    ibv_qp_attr attr = LegalValues(probe, edge.from);
    attr.qp_state = edge.to;
    const int rc = ibv_modify_qp(probe.end->qp, &attr, IBV_QP_STATE | edge.required);
    EXPECT_CLAUSE("WR-STATE-009", rc == 0)
        << Name(param) << " " << Name(edge.from) << " -> " << Name(edge.to) << " with "
        << MaskName(edge.required) << " returned " << rc;
  }
}

QPX_TEST_P(State, ForeignAttributesAreRefused, kColumns, "WR-STATE-010") {
  for (const Edge& edge : EdgesOf(param)) {
    Probe probe = Make(param);
    if (!Bring(param, probe, edge.from)) continue;
    for (const int bit : TestedBits()) {
      if (((edge.required | edge.optional) & bit) != 0) continue;
      ibv_qp_attr attr = LegalValues(probe, edge.from);
      attr.qp_state = edge.to;
      const std::string what = std::string(Name(param)) + " " + Name(edge.from) + " -> " +
                               Name(edge.to) + " plus " + MaskName(bit);
      if (!MustRefuse("WR-STATE-010", probe, attr, IBV_QP_STATE | edge.required | bit, what)) {
        probe = Make(param);
        if (!Bring(param, probe, edge.from)) break;
      }
    }
  }
}

QPX_TEST(State, CurrentStateMustBeTheTrueOne, "WR-STATE-011") {
  Column column = Column::kRc;
  for (const ibv_qp_state claimed : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR}) {
    Probe probe = Make(column);
    if (!Bring(column, probe, IBV_QPS_RTS)) throw SetUpFailed{"RTS"};
    ibv_qp_attr attr = LegalValues(probe, claimed);
    attr.qp_state = IBV_QPS_RTS;
    MustRefuse("WR-STATE-011", probe, attr, IBV_QP_STATE | IBV_QP_CUR_STATE,
               std::string("cur_qp_state ") + Name(claimed));
  }
  Probe probe = Make(column);
  if (!Bring(column, probe, IBV_QPS_RTR)) throw SetUpFailed{"RTR"};
  ibv_qp_attr attr = LegalValues(probe, IBV_QPS_RTR);
  attr.qp_state = IBV_QPS_RTS;
  const Edge* edge = FindEdge(column, IBV_QPS_RTR, IBV_QPS_RTS);
  const int rc =
      ibv_modify_qp(probe.end->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE | edge->required);
  EXPECT_CLAUSE("WR-STATE-011", rc == 0) << "the true cur_qp_state is refused: " << rc;
}

QPX_TEST_P(State, EveryStateGoesToErrAndReset, kColumns, "WR-STATE-012") {
  for (const ibv_qp_state from : kStates) {
    Probe probe = Make(param);
    if (!Bring(param, probe, from)) continue;
    if (from != IBV_QPS_RESET) {
      EXPECT_CLAUSE("WR-STATE-012", ModifyState(probe.end->qp, IBV_QPS_ERR) == 0)
          << Name(from) << " -> ERR";
      EXPECT_CLAUSE("WR-STATE-012", QueryState(probe.end->qp) == IBV_QPS_ERR);
    }
    Probe second = Make(param);
    if (!Bring(param, second, from)) continue;
    EXPECT_CLAUSE("WR-STATE-012", ModifyState(second.end->qp, IBV_QPS_RESET) == 0)
        << Name(from) << " -> RESET";
    EXPECT_CLAUSE("WR-STATE-012", QueryState(second.end->qp) == IBV_QPS_RESET);
    // And the whole bring-up works again.
    EXPECT_CLAUSE("WR-STATE-012", BringUp(bed(), second.pair->options, *second.end,
                                          second.responder, second.peer_qpn, IBV_QPS_RTS) == 0)
        << "bring-up after " << Name(from) << " -> RESET";
  }
}

QPX_TEST(State, ResetToErrIsRecorded, "WR-STATE-012") {
  Probe probe = Make(Column::kRc);
  const int rc = ModifyState(probe.end->qp, IBV_QPS_ERR);
  Record::Current().Variation("WR-STATE-012",
                              rc == 0 ? "RESET -> ERR is accepted" : "RESET -> ERR is refused");
  EXPECT_CLAUSE("WR-STATE-012",
                QueryState(probe.end->qp) == (rc == 0 ? IBV_QPS_ERR : IBV_QPS_RESET));
}

QPX_TEST(State, TheStructFollows, "WR-STATE-013") {
  Pair& pair = RcPair(IBV_QPS_RESET);
  ibv_qp* qp = pair.a.qp;
  EXPECT_CLAUSE("WR-STATE-013", qp->state == IBV_QPS_RESET) << Name(qp->state);
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    Reset(pair);
    BringUp(bed(), pair, state);
    EXPECT_CLAUSE("WR-STATE-013", qp->state == state)
        << "qp->state reads " << Name(qp->state) << " after the modify to " << Name(state);
    EXPECT_CLAUSE("WR-STATE-013", QueryState(qp) == state);
    EXPECT_CLAUSE("WR-STATE-013", qp->state == state) << "after the query";
  }
  // An asynchronous error: old or ERR until the next query.
  Memory& memory = bed().Mem(64);
  Wr wr;
  wr.op = Op::kWrite;
  wr.id = 1;
  wr.sge = {memory.sge(0, 8)};
  wr.rkey = memory.rkey() ^ 0x5500;
  wr.remote = memory.address(32);
  if (Post(pair.a, wr) != 0) return;
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-STATE-013", wcs.size() == 1 && wcs[0].status != IBV_WC_SUCCESS);
  EXPECT_CLAUSE("WR-STATE-013", qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_ERR);
  ASSERT_CLAUSE("WR-STATE-013", ReachesState(qp, {IBV_QPS_ERR}));
  EXPECT_CLAUSE("WR-STATE-013", qp->state == IBV_QPS_ERR) << "after the query";
}

QPX_TEST_P(State, ReceivePostingPerState,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kUd}),
           "WR-STATE-014") {
  PairOptions options;
  options.transport = param;
  options.ops = Bits({Op::kSend});
  options.stop_at = IBV_QPS_RESET;
  Memory& memory = bed().Mem(1024);
  Pair& in_reset = bed().Connect(options);
  EXPECT_CLAUSE("WR-STATE-014", PostRecv(in_reset.b, 1, {memory.sge(0, 64)}) != 0)
      << "a receive in RESET is accepted";
  bool flushed = true;  // posted in ERR: one that was waited for in vain is enough
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    options.stop_at = state;
    Pair& pair = bed().Connect(options);
    EXPECT_CLAUSE("WR-STATE-014", PostRecv(pair.b, 2, {memory.sge(0, 64)}) == 0)
        << "a receive in " << Name(state) << " is refused";
    EXPECT_CLAUSE("WR-STATE-014", PollNow(pair.b.recv_cq).empty()) << "it completed at once";
    ASSERT_CLAUSE("WR-STATE-014", ModifyState(pair.b.qp, IBV_QPS_ERR) == 0);
    std::vector<ibv_wc> wcs = Await(pair.b.recv_cq, 1);
    EXPECT_CLAUSE("WR-STATE-014",
                  wcs.size() == 1 && wcs[0].wr_id == 2 && wcs[0].status == IBV_WC_WR_FLUSH_ERR)
        << Name(state) << ": " << Describe(wcs);
    if (!flushed) continue;
    if (PostRecv(pair.b, 3, {memory.sge(0, 64)}) != 0) {
      Record::Current().Variation("WR-STATE-014", "a receive in ERR is refused");
      continue;
    }
    Record::Current().Variation("WR-STATE-014", "a receive in ERR is flushed");
    wcs = Await(pair.b.recv_cq, 1);
    flushed = wcs.size() == 1 && wcs[0].wr_id == 3 && wcs[0].status == IBV_WC_WR_FLUSH_ERR;
    EXPECT_CLAUSE("WR-STATE-014", flushed) << "posted in ERR: " << Describe(wcs);
  }
}

QPX_TEST(State, PacketsInInitAreDropped, "WR-STATE-015") {
  PairOptions options;
  options.ops = Bits({Op::kSend});
  options.stop_at = IBV_QPS_INIT;
  options.timeout = 12;
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(256);
  memory.Fill(0xee);
  // The requester alone goes on to RTS.
  Probe requester;
  requester.pair = &pair;
  requester.end = &pair.a;
  requester.peer_qpn = pair.a.peer_qpn;
  for (const auto& step :
       {std::pair{IBV_QPS_INIT, IBV_QPS_RTR}, std::pair{IBV_QPS_RTR, IBV_QPS_RTS}}) {
    ibv_qp_attr attr = LegalValues(requester, step.first);
    attr.qp_state = step.second;
    attr.timeout = 12;
    if (ibv_modify_qp(pair.a.qp, &attr,
                      IBV_QP_STATE | FindEdge(Column::kRc, step.first, step.second)->required)) {
      throw SetUpFailed{"the requester's bring-up"};
    }
  }
  ASSERT_CLAUSE("WR-STATE-015", PostRecv(pair.b, 9, {memory.sge(128, 64)}) == 0);
  ASSERT_CLAUSE("WR-STATE-015", Post(pair.a, Sends(memory, 1, 1)) == 0);
  const std::vector<ibv_wc> early = Await(pair.b.recv_cq, 1, 10ms);
  EXPECT_CLAUSE("WR-STATE-015", early.empty()) << "received in INIT: " << Describe(early);
  const std::vector<ibv_wc> sent = PollNow(pair.a.send_cq);
  for (const ibv_wc& wc : sent) {
    EXPECT_CLAUSE("WR-STATE-015", wc.status != IBV_WC_SUCCESS) << "SUCCESS before RTR";
  }
  EXPECT_CLAUSE("WR-STATE-015", memory.Is(128, 64, 0xee));
  if (!sent.empty()) return;
  // From RTR on it is accepted: a retry delivers it.
  Probe responder;
  responder.pair = &pair;
  responder.end = &pair.b;
  responder.peer_qpn = pair.b.peer_qpn;
  ibv_qp_attr attr = LegalValues(responder, IBV_QPS_INIT);
  attr.qp_state = IBV_QPS_RTR;
  if (ibv_modify_qp(pair.b.qp, &attr,
                    IBV_QP_STATE | FindEdge(Column::kRc, IBV_QPS_INIT, IBV_QPS_RTR)->required) !=
      0) {
    throw SetUpFailed{"the responder's RTR"};
  }
  const std::vector<ibv_wc> end = Await(pair.a.send_cq, 1, 60s);
  ASSERT_CLAUSE("WR-STATE-015", end.size() == 1) << "no completion";
  if (end[0].status == IBV_WC_SUCCESS) {
    EXPECT_CLAUSE("WR-STATE-015", Await(pair.b.recv_cq, 1).size() == 1);
  }
}

QPX_TEST(State, NewAccessFlagsGovernLaterRequests, "WR-STATE-016") {
  Pair& pair = RcPair(IBV_QPS_RTS, Bits({Op::kWrite}));
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-STATE-016", traffic.Run(traffic.Make(Op::kWrite, 1)).empty());
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  if (ibv_modify_qp(pair.b.qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS) != 0) {
    throw NotApplicable{"the device refuses ACCESS_FLAGS in RTS"};
  }
  const Flight flight = traffic.Make(Op::kWrite, 2);
  ASSERT_CLAUSE("WR-STATE-016", Post(pair.a, flight.wr) == 0);
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-STATE-016", wcs.size() == 1) << "no completion";
  EXPECT_CLAUSE("WR-STATE-016",
                wcs[0].status == IBV_WC_REM_INV_REQ_ERR || wcs[0].status == IBV_WC_REM_ACCESS_ERR)
      << Describe(wcs);
  EXPECT_CLAUSE("WR-STATE-016", traffic.CheckUntouched(flight).empty());
}

QPX_TEST(State, ModifyWithoutStateStays, "WR-STATE-017") {
  Column column = Column::kRc;
  Probe init = Make(column);
  if (!Bring(column, init, IBV_QPS_INIT)) throw SetUpFailed{"INIT"};
  ibv_qp_attr attr = LegalValues(init, IBV_QPS_INIT);
  EXPECT_SHOULD("WR-STATE-017", ibv_modify_qp(init.end->qp, &attr, IBV_QP_PKEY_INDEX) == 0)
      << "PKEY_INDEX alone in INIT is refused";
  EXPECT_CLAUSE("WR-STATE-017", QueryState(init.end->qp) == IBV_QPS_INIT);

  Probe rtr = Make(column);
  if (!Bring(column, rtr, IBV_QPS_RTR)) throw SetUpFailed{"RTR"};
  for (const int bit : TestedBits()) {
    if (!MustRefuse("WR-STATE-017", rtr, LegalValues(rtr, IBV_QPS_RTR), bit, "in RTR, no STATE")) {
      rtr = Make(column);
      if (!Bring(column, rtr, IBV_QPS_RTR)) break;
    }
  }

  Probe rts = Make(column);
  if (!Bring(column, rts, IBV_QPS_RTS)) throw SetUpFailed{"RTS"};
  attr = LegalValues(rts, IBV_QPS_RTS);
  attr.min_rnr_timer = 20;
  const int rc = ibv_modify_qp(rts.end->qp, &attr, IBV_QP_MIN_RNR_TIMER);
  Record::Current().Variation("WR-STATE-017", rc == 0 ? "MIN_RNR_TIMER alone in RTS is accepted"
                                                      : "MIN_RNR_TIMER alone in RTS is refused");
  EXPECT_CLAUSE("WR-STATE-017", QueryState(rts.end->qp) == IBV_QPS_RTS);
}

}  // namespace
}  // namespace qpexam::conformance
