// RESP: errors of requester and responder, retries, resulting statuses.

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {

// What is wrong with the remote memory of a request.
enum class RemoteMistake { kUnknownKey, kWrongPd, kPastTheEnd, kBeforeTheStart, kNoRight };
std::string ParamName(RemoteMistake mistake) {
  switch (mistake) {
    case RemoteMistake::kUnknownKey:
      return "unknown_key";
    case RemoteMistake::kWrongPd:
      return "wrong_pd";
    case RemoteMistake::kPastTheEnd:
      return "past_the_end";
    case RemoteMistake::kBeforeTheStart:
      return "before_the_start";
    case RemoteMistake::kNoRight:
      return "no_right";
  }
  return "";
}

// An operation that names remote memory, with one mistake.
struct RemoteCase {
  Op op;
  RemoteMistake mistake;
};
std::string ParamName(const RemoteCase& c) { return ParamName(c.op) + "_" + ParamName(c.mistake); }

namespace {

const std::vector<Op> kRemoteOps = {Op::kWrite, Op::kRead, Op::kCmpSwp, Op::kFetchAdd};

std::vector<RemoteCase> RemoteCases() {
  std::vector<RemoteCase> cases;
  for (const Op op : kRemoteOps) {
    for (const RemoteMistake mistake :
         {RemoteMistake::kUnknownKey, RemoteMistake::kWrongPd, RemoteMistake::kPastTheEnd,
          RemoteMistake::kBeforeTheStart, RemoteMistake::kNoRight}) {
      cases.push_back({op, mistake});
    }
  }
  return cases;
}

class Resp : public Conformance {
 protected:
  Pair& RcPair(const PairOptions& changes) { return bed().Connect(changes); }
  Pair& RcPair(uint64_t ops) {
    PairOptions options;
    options.ops = ops;
    return bed().Connect(options);
  }
  static Wr Request(Op op, Memory& local, uint32_t length, uint32_t rkey, uint64_t remote) {
    Wr wr;
    wr.op = op;
    wr.id = 77;
    wr.sge = {local.sge(0, op == Op::kCmpSwp || op == Op::kFetchAdd ? 8 : length)};
    wr.rkey = rkey;
    wr.remote = remote;
    wr.compare_add = 1;
    wr.swap = 2;
    return wr;
  }
  static Wr Send(Memory& memory, uint64_t id, uint32_t length = 16) {
    Wr wr;
    wr.op = Op::kSend;
    wr.id = id;
    wr.sge = {memory.sge(0, length)};
    return wr;
  }
  // The one completion of a request that must fail; an ibv_wc with SUCCESS and wr_id ~0 when it was
  // refused at complete.
  ibv_wc Fails(const char* clause, Pair& pair, const Wr& wr, Duration limit = 60s) {
    ibv_wc none{};
    none.wr_id = ~uint64_t{0};
    if (Post(pair.a, wr) != 0) {
      Record::Current().Variation(clause, "refused at complete");
      return none;
    }
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1, limit);
    ASSERT_CLAUSE(clause, wcs.size() == 1) << "no completion of a request that must fail";
    EXPECT_CLAUSE(clause, wcs[0].wr_id == wr.id) << Describe(wcs);
    EXPECT_CLAUSE(clause, wcs[0].status != IBV_WC_SUCCESS) << Describe(wcs);
    return wcs[0];
  }
  void AKeyWhoseRegionIsGone(Op op) {
    Pair& pair = RcPair(Bits({op}));
    Memory& local = bed().Mem(64);
    Memory& remote = bed().Mem(4096);
    remote.Fill(0x22);
    ibv_mr* mr = ibv_reg_mr(bed().pd(), remote.data(), 4096, kAllAccess);
    if (mr == nullptr) return;  // a second region over the same memory
    const uint32_t rkey = mr->rkey;
    if (ibv_dereg_mr(mr) != 0) throw SetUpFailed{"a region could not be deregistered"};
    const ibv_wc wc = Fails("WR-RESP-005", pair, Request(op, local, 16, rkey, remote.address(64)));
    if (!Refused(wc)) {
      EXPECT_CLAUSE("WR-RESP-005", wc.status == IBV_WC_REM_ACCESS_ERR)
          << "the key of a region that is gone: " << ibv_wc_status_str(wc.status);
    }
    EXPECT_CLAUSE("WR-RESP-005", remote.Is(0, 4096, 0x22)) << "memory of a region that is gone";
  }
  static bool Refused(const ibv_wc& wc) { return wc.wr_id == ~uint64_t{0}; }
};

// --- receiver not ready, retries -----------------------------------------------------------------

QPX_TEST_P(Resp, ReceiverNotReadyIsCounted, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}), "WR-RESP-001",
           "WR-RESP-016") {
  for (const Op op : {Op::kSend, Op::kWriteImm}) {
    PairOptions options;
    options.ops = Bits({op});
    options.rnr_retry = static_cast<uint8_t>(param);
    options.min_rnr_timer = 12;  // 0.64 ms
    Pair& pair = bed().Connect(options);
    Memory& memory = bed().Mem(256);
    memory.Fill(0xee);
    Wr wr = Send(memory, 5);
    wr.op = op;
    wr.rkey = memory.rkey();
    wr.remote = memory.address(128);
    const Duration start = clock().Now();
    ASSERT_CLAUSE("WR-RESP-001", Post(pair.a, wr) == 0);
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1, 60s);
    const Duration elapsed = clock().Now() - start;
    ASSERT_CLAUSE("WR-RESP-001", wcs.size() == 1) << "no completion within the limit";
    EXPECT_CLAUSE("WR-RESP-001", wcs[0].status == IBV_WC_RNR_RETRY_EXC_ERR) << Describe(wcs);
    EXPECT_CLAUSE("WR-RESP-016", ReachesState(pair.a.qp, {IBV_QPS_ERR}));
    EXPECT_CLAUSE("WR-RESP-001", QueryState(pair.b.qp) == IBV_QPS_RTS) << "the responder moved";
    EXPECT_CLAUSE("WR-RESP-001", memory.Is(16, 240, 0xee)) << "memory was written";
    EXPECT_SHOULD("WR-RESP-001", elapsed >= param * 640us)
        << "gave up after " << elapsed.count() << " ns with rnr_retry " << param;
  }
}

// rnr_retry is what each request may take: those that came before have used up none of it.
QPX_TEST(Resp, EachRequestHasItsOwnRetries, "WR-RESP-001") {
  PairOptions options;
  options.ops = Bits({Op::kSend});
  options.rnr_retry = 3;
  options.min_rnr_timer = 27;  // 122.88 ms
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(256);
  for (uint64_t id = 1; id <= 4; ++id) {
    const Duration start = clock().Now();
    ASSERT_CLAUSE("WR-RESP-001", Post(pair.a, Send(memory, id)) == 0);
    clock().Pass(150ms);  // one retry at least in vain, and time left for two
    ASSERT_CLAUSE("WR-RESP-001", PostRecv(pair.b, id, {memory.sge(128, 64)}) == 0);
    const Duration elapsed = clock().Now() - start;
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
    if (elapsed > 300ms && !Differs(wcs, {id}).empty()) {
      throw NotApplicable{"this machine was too slow to post a receive in time"};
    }
    ASSERT_CLAUSE("WR-RESP-001", Differs(wcs, {id}).empty())
        << "message " << id << " of 4 that each wait for their receive: " << Describe(wcs);
    ASSERT_CLAUSE("WR-RESP-001", Await(pair.b.recv_cq, 1).size() == 1);
  }
}

QPX_TEST(Resp, ReceiverNotReadyForEver, "WR-RESP-002") {
  PairOptions options;
  options.ops = Bits({Op::kSend});
  options.rnr_retry = 7;
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(256);
  memory.Pattern(0, 16, 3);
  ASSERT_CLAUSE("WR-RESP-002", Post(pair.a, Send(memory, 5)) == 0);
  clock().Pass(5s);
  const std::vector<ibv_wc> early = PollNow(pair.a.send_cq);
  ASSERT_CLAUSE("WR-RESP-002", early.empty()) << Describe(early);
  ASSERT_CLAUSE("WR-RESP-002", PostRecv(pair.b, 9, {memory.sge(128, 64)}) == 0);
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  EXPECT_CLAUSE("WR-RESP-002", Differs(wcs, {5}).empty()) << Describe(wcs);
  EXPECT_CLAUSE("WR-RESP-002", Await(pair.b.recv_cq, 1).size() == 1);
  EXPECT_CLAUSE("WR-RESP-002", memory.HasPattern(128, 16, 3));
}

QPX_TEST_P(Resp, TimeoutsAreCounted, (std::vector<int>{0, 1, 7}), "WR-RESP-003", "WR-RESP-016") {
  PairOptions options;
  options.ops = Bits({Op::kWrite});
  options.timeout = 10;
  options.retry_cnt = static_cast<uint8_t>(param);
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(256);
  ASSERT_CLAUSE("WR-RESP-003", bed().Destroy(pair.b.qp) == 0);
  // At most 8 tries, each at most four times 4.2 ms, or what the device's clock can tell: 0.3 s.
  const ibv_wc wc = Fails("WR-RESP-003", pair,
                          Request(Op::kWrite, memory, 8, memory.rkey(), memory.address(64)), 12s);
  if (Refused(wc)) return;
  EXPECT_CLAUSE("WR-RESP-003", wc.status == IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(wc.status);
  EXPECT_CLAUSE("WR-RESP-016", ReachesState(pair.a.qp, {IBV_QPS_ERR}));
}

QPX_TEST_P(Resp, APeerThatCannotAnswer,
           (std::vector<int>{-1, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR}), "WR-RESP-004") {
  PairOptions options;
  options.ops = Bits({Op::kWrite});
  options.timeout = 10;
  options.retry_cnt = 1;
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(256);
  memory.Fill(64, 64, 0xee);
  if (param == -1) {
    ASSERT_CLAUSE("WR-RESP-004", bed().Destroy(pair.b.qp) == 0);
  } else if (param == IBV_QPS_ERR) {
    ASSERT_CLAUSE("WR-RESP-004", ModifyState(pair.b.qp, IBV_QPS_ERR) == 0);
  } else {
    ASSERT_CLAUSE("WR-RESP-004", ModifyState(pair.b.qp, IBV_QPS_RESET) == 0);
    if (param == IBV_QPS_INIT) {
      ASSERT_CLAUSE("WR-RESP-004",
                    BringUp(bed(), pair.options, pair.b, true, pair.b.peer_qpn, IBV_QPS_INIT) == 0);
    }
  }
  const ibv_wc wc =
      Fails("WR-RESP-004", pair, Request(Op::kWrite, memory, 8, memory.rkey(), memory.address(64)));
  if (!Refused(wc)) {
    EXPECT_SHOULD("WR-RESP-004", wc.status == IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(wc.status);
  }
  EXPECT_CLAUSE("WR-RESP-004", memory.Is(64, 64, 0xee)) << "the peer's memory changed";
}

// --- remote memory
// ---------------------------------------------------------------------------------

QPX_TEST_P(Resp, RemoteAccessErrors, RemoteCases(), "WR-RESP-005", "WR-RESP-016") {
  // A key is unknown that was never given out, and one whose region is gone.
  if (param.mistake == RemoteMistake::kUnknownKey) AKeyWhoseRegionIsGone(param.op);
  Pair& pair = RcPair(Bits({param.op}));
  Memory& local = bed().Mem(64);
  local.Fill(0x11);
  int access = kAllAccess;
  if (param.mistake == RemoteMistake::kNoRight) {
    access &= param.op == Op::kWrite  ? ~IBV_ACCESS_REMOTE_WRITE
              : param.op == Op::kRead ? ~IBV_ACCESS_REMOTE_READ
                                      : ~IBV_ACCESS_REMOTE_ATOMIC;
  }
  ibv_pd* pd = param.mistake == RemoteMistake::kWrongPd ? bed().NewPd() : nullptr;
  Memory& remote = bed().Mem(4096, access, pd);
  remote.Fill(0x22);
  const std::vector<uint8_t> local_before = local.Copy(), remote_before = remote.Copy();
  uint32_t rkey = remote.rkey();
  uint64_t address = remote.address(64);
  if (param.mistake == RemoteMistake::kUnknownKey) rkey ^= 0x5500;
  // Aligned, so that an atomic has no second mistake.
  if (param.mistake == RemoteMistake::kPastTheEnd) address = remote.address(4096);
  if (param.mistake == RemoteMistake::kBeforeTheStart) address = remote.address(0) - 8;
  const ibv_wc wc = Fails("WR-RESP-005", pair, Request(param.op, local, 16, rkey, address));
  if (!Refused(wc)) {
    EXPECT_CLAUSE("WR-RESP-005", wc.status == IBV_WC_REM_ACCESS_ERR)
        << ibv_wc_status_str(wc.status);
    EXPECT_CLAUSE("WR-RESP-016", ReachesState(pair.a.qp, {IBV_QPS_ERR})) << "the requester";
    EXPECT_CLAUSE("WR-RESP-016", ReachesState(pair.b.qp, {IBV_QPS_ERR})) << "the responder";
  }
  EXPECT_CLAUSE("WR-RESP-005", remote.Copy() == remote_before) << "remote memory changed";
  if (param.op == Op::kRead) {
    EXPECT_CLAUSE("WR-RESP-005", local.Copy() == local_before) << "local memory changed";
  }
}

QPX_TEST(Resp, ALongWriteStaysInside, "WR-RESP-005") {
  Pair& pair = RcPair(Bits({Op::kWrite}));
  const uint32_t length = 4 * facts().mtu();
  Memory& local = bed().Mem(length);
  Memory& inside = bed().Mem(2 * length);
  local.Fill(0x11);
  inside.Fill(0x22);
  // A region over the first half of the buffer: the last byte of the WRITE lies outside.
  ibv_mr* mr = ibv_reg_mr(bed().pd(), inside.data(), length, kAllAccess);
  if (mr == nullptr) throw NotApplicable{"a second region over the same memory is refused"};
  bed().Own(mr, [mr] { return ibv_dereg_mr(mr); });
  Wr wr;
  wr.op = Op::kWrite;
  wr.id = 77;
  wr.sge = {local.sge(0, length)};
  wr.rkey = mr->rkey;
  wr.remote = inside.address(1);
  Fails("WR-RESP-005", pair, wr);
  EXPECT_CLAUSE("WR-RESP-005", inside.Is(length, length, 0x22)) << "memory outside the region";
  EXPECT_CLAUSE("WR-RESP-005", inside.Is(0, 1, 0x22)) << "memory before the range";
}

QPX_TEST_P(Resp, TheResponderIsTold, (std::vector<Op>{Op::kWrite, Op::kRead}), "WR-RESP-006") {
  Pair& pair = RcPair(Bits({param}));
  Memory& memory = bed().Mem(256);
  const ibv_wc wc = Fails("WR-RESP-006", pair,
                          Request(param, memory, 8, memory.rkey() ^ 0x5500, memory.address(64)));
  if (Refused(wc)) return;
  const bool told = bed().AwaitAsyncEvent(
      [&](const ibv_async_event& event) {
        return (event.event_type == IBV_EVENT_QP_ACCESS_ERR ||
                event.event_type == IBV_EVENT_QP_REQ_ERR) &&
               event.element.qp == pair.b.qp;
      },
      5s);
  EXPECT_CLAUSE("WR-RESP-006", told) << "no QP_ACCESS_ERR or QP_REQ_ERR for the responder";
}

QPX_TEST_P(Resp, OperationNotEnabledAtTheResponder, kRemoteOps, "WR-RESP-007") {
  PairOptions options;
  options.ops = Bits({param});
  options.stop_at = IBV_QPS_RESET;
  Pair& pair = bed().Connect(options);
  // Connect adds what the device supports; the responder gets nothing.
  pair.options.access = 0;
  BringUp(bed(), pair, IBV_QPS_RTS);
  Memory& local = bed().Mem(64);
  Memory& remote = bed().Mem(256);
  remote.Fill(0x22);
  const ibv_wc wc =
      Fails("WR-RESP-007", pair, Request(param, local, 8, remote.rkey(), remote.address(64)));
  if (!Refused(wc)) {
    EXPECT_CLAUSE("WR-RESP-007",
                  wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_ACCESS_ERR)
        << ibv_wc_status_str(wc.status);
    EXPECT_SHOULD("WR-RESP-007", wc.status == IBV_WC_REM_INV_REQ_ERR)
        << ibv_wc_status_str(wc.status);
  }
  EXPECT_CLAUSE("WR-RESP-007", remote.Is(0, 256, 0x22)) << "remote memory changed";
}

// --- receives
// ----------------------------------------------------------------------------------------

QPX_TEST_P(Resp, MessageLongerThanTheReceive, (std::vector<int>{1, 2}), "WR-RESP-008") {
  Pair& pair = RcPair(Bits({Op::kSend}));
  Memory& from = bed().Mem(256);
  Memory& into = bed().Mem(256);
  into.Fill(0xee);
  std::vector<ibv_sge> list;
  for (int i = 0; i < param; ++i) list.push_back(into.sge(64 * i, i + 1 == param ? 15 : 16));
  ASSERT_CLAUSE("WR-RESP-008", PostRecv(pair.b, 9, list) == 0);
  ASSERT_CLAUSE("WR-RESP-008", Post(pair.a, Send(from, 5, 16 * param)) == 0);
  const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1), got = Await(pair.b.recv_cq, 1);
  ASSERT_CLAUSE("WR-RESP-008", sent.size() == 1 && sent[0].status != IBV_WC_SUCCESS)
      << Describe(sent);
  ASSERT_CLAUSE("WR-RESP-008",
                got.size() == 1 && got[0].wr_id == 9 && got[0].status != IBV_WC_SUCCESS)
      << Describe(got);
  EXPECT_SHOULD("WR-RESP-008", sent[0].status == IBV_WC_REM_INV_REQ_ERR) << Describe(sent);
  EXPECT_SHOULD("WR-RESP-008", got[0].status == IBV_WC_LOC_LEN_ERR) << Describe(got);
  EXPECT_CLAUSE("WR-RESP-008", ReachesState(pair.a.qp, {IBV_QPS_ERR})) << "the requester";
  EXPECT_CLAUSE("WR-RESP-008", ReachesState(pair.b.qp, {IBV_QPS_ERR})) << "the responder";
  EXPECT_CLAUSE("WR-RESP-008", into.Is(64 * (param - 1) + 15, 64, 0xee))
      << "bytes after the receive buffer";
}

QPX_TEST_P(Resp, BadReceiveBuffer, (std::vector<int>{0, 1, 2}), "WR-RESP-009") {
  Pair& pair = RcPair(Bits({Op::kSend}));
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(64, param == 2 ? 0 : kAllAccess);
  into.Fill(0xee);
  ibv_sge sge = into.sge(0, 64);
  if (param == 0) sge.lkey ^= 0x5500;
  if (PostRecv(pair.b, 9, {sge}) != 0) {
    Record::Current().Variation("WR-RESP-009", "refused by ibv_post_recv");
    return;
  }
  if (param == 1) {
    ASSERT_CLAUSE("WR-RESP-009", ibv_dereg_mr(into.mr()) == 0);
    into.Forget();
  }
  ASSERT_CLAUSE("WR-RESP-009", Post(pair.a, Send(from, 5)) == 0);
  const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1), got = Await(pair.b.recv_cq, 1);
  ASSERT_CLAUSE("WR-RESP-009", sent.size() == 1 && sent[0].status != IBV_WC_SUCCESS)
      << Describe(sent);
  ASSERT_CLAUSE("WR-RESP-009", got.size() == 1 && got[0].status != IBV_WC_SUCCESS) << Describe(got);
  EXPECT_SHOULD("WR-RESP-009", sent[0].status == IBV_WC_REM_OP_ERR) << Describe(sent);
  EXPECT_SHOULD("WR-RESP-009", got[0].status == IBV_WC_LOC_PROT_ERR) << Describe(got);
  EXPECT_CLAUSE("WR-RESP-009", into.Is(0, 64, 0xee)) << "the buffer was written";
}

// --- local keys
// --------------------------------------------------------------------------------------

QPX_TEST_P(Resp, BadLocalKey, (std::vector<int>{0, 1, 2, 3}), "WR-RESP-010", "WR-RESP-016") {
  Pair& pair = RcPair(Bits({Op::kWrite, Op::kRead}));
  Memory& remote = bed().Mem(256);
  remote.Fill(0x22);
  ibv_pd* pd = param == 1 ? bed().NewPd() : nullptr;
  Memory& local = bed().Mem(4096, param == 3 ? IBV_ACCESS_REMOTE_READ : kAllAccess, pd);
  local.Fill(0x11);
  Wr wr =
      Request(param == 3 ? Op::kRead : Op::kWrite, local, 16, remote.rkey(), remote.address(64));
  if (param == 0) wr.sge[0].lkey ^= 0x5500;
  if (param == 2) wr.sge[0].addr = local.address(4096 - 8);
  const ibv_wc wc = Fails("WR-RESP-010", pair, wr);
  if (!Refused(wc)) {
    EXPECT_SHOULD("WR-RESP-010", wc.status == IBV_WC_LOC_PROT_ERR) << ibv_wc_status_str(wc.status);
    EXPECT_CLAUSE("WR-RESP-010", ReachesState(pair.a.qp, {IBV_QPS_ERR}));
  }
  EXPECT_CLAUSE("WR-RESP-010", remote.Is(0, 256, 0x22)) << "remote memory changed";
  EXPECT_CLAUSE("WR-RESP-010", local.Is(0, 4096, 0x11)) << "local memory changed";
}

QPX_TEST_P(Resp, BadLocalKeyOnAnUnreliableQp,
           (std::vector<Transport>{Transport::kUc, Transport::kUd}), "WR-RESP-010") {
  PairOptions options;
  options.transport = param;
  options.ops = Bits({Op::kSend});
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(64);
  Wr wr = Send(memory, 77);
  wr.sge[0].lkey ^= 0x5500;
  const ibv_wc wc = Fails("WR-RESP-010", pair, wr);
  if (Refused(wc)) return;
  EXPECT_SHOULD("WR-RESP-010", wc.status == IBV_WC_LOC_PROT_ERR) << ibv_wc_status_str(wc.status);
  EXPECT_CLAUSE("WR-RESP-010", ReachesState(pair.a.qp, {IBV_QPS_SQE, IBV_QPS_ERR}))
      << Name(QueryState(pair.a.qp));
}

QPX_TEST(Resp, WriteWithImmediateToABadKey, "WR-RESP-011") {
  Pair& pair = RcPair(Bits({Op::kWriteImm}));
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(256);
  into.Fill(0xee);
  ASSERT_CLAUSE("WR-RESP-011", PostRecv(pair.b, 9, {into.sge(128, 64)}) == 0);
  const ibv_wc wc = Fails("WR-RESP-011", pair,
                          Request(Op::kWriteImm, from, 16, into.rkey() ^ 0x5500, into.address()));
  EXPECT_CLAUSE("WR-RESP-011", into.Is(0, 256, 0xee)) << "memory changed";
  if (Refused(wc)) return;
  EXPECT_SHOULD("WR-RESP-011", wc.status == IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(wc.status);
  ASSERT_CLAUSE("WR-RESP-011", ReachesState(pair.b.qp, {IBV_QPS_ERR}));
  const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1);
  EXPECT_CLAUSE("WR-RESP-011", got.size() == 1 && got[0].status != IBV_WC_SUCCESS) << Describe(got);
}

// Operations that the service cannot carry, where a provider offers them all the same.
QPX_TEST(Resp, ACellThatTableALacks, "WR-RESP-012") {
  int offered = 0;
  for (const Transport transport : {Transport::kUc, Transport::kUd}) {
    for (const Op op : kRemoteOps) {
      if (TableA(op, transport) != Cell::kRefused) continue;
      PairOptions options;
      options.transport = transport;
      options.ops = Bits({op});
      options.peer_ops = Bits({Op::kSend});
      Pair* pair = nullptr;
      try {
        pair = &bed().Connect(options);
      } catch (const NotApplicable&) {
        continue;  // refused at creation, as it should be
      }
      ++offered;
      Memory& local = bed().Mem(64);
      Memory& remote = bed().Mem(256);
      remote.Fill(0x22);
      Fails("WR-RESP-012", *pair, Request(op, local, 8, remote.rkey(), remote.address(64)));
      EXPECT_CLAUSE("WR-RESP-012", remote.Is(0, 256, 0x22))
          << Info(op).name << " on " << Name(transport) << " changed memory";
    }
  }
  // Through ibv_post_send, which knows no table at creation.
  for (const Transport transport : {Transport::kUc, Transport::kUd}) {
    PairOptions options;
    options.transport = transport;
    options.ops = Bits({Op::kSend});
    Pair& pair = bed().Connect(options);
    Memory& local = bed().Mem(64);
    Memory& remote = bed().Mem(256);
    remote.Fill(0x22);
    const Wr wr = Request(Op::kRead, local, 8, remote.rkey(), remote.address(64));
    if (PostSend(pair.a, {wr}) == 0) {
      const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
      EXPECT_CLAUSE("WR-RESP-012", wcs.size() == 1 && wcs[0].status != IBV_WC_SUCCESS)
          << "READ on " << Name(transport) << ": " << Describe(wcs);
      EXPECT_CLAUSE("WR-RESP-012", ReachesState(pair.a.qp, {IBV_QPS_SQE, IBV_QPS_ERR}));
    }
    EXPECT_CLAUSE("WR-RESP-012", remote.Is(0, 256, 0x22));
  }
  Record::Current().Note(std::to_string(offered) + " cells beyond table A are offered");
}

QPX_TEST(Resp, MoreReadsThanTheResponderGrants, "WR-RESP-013") {
  PairOptions options;
  options.ops = Bits({Op::kRead, Op::kFetchAdd});
  options.stop_at = IBV_QPS_RESET;
  options.send_wr = 32;
  Pair& pair = bed().Connect(options);
  // The responder grants one, the requester takes as many as the device has.
  PairOptions greedy = pair.options, strict = pair.options;
  greedy.rd_atomic = static_cast<uint8_t>(facts().attr.orig_attr.max_qp_init_rd_atom);
  strict.rd_atomic = 1;
  if (greedy.rd_atomic < 2) throw NotApplicable{"the device has one outstanding READ"};
  if (BringUp(bed(), greedy, pair.a, false, pair.a.peer_qpn, IBV_QPS_RTS) != 0 ||
      BringUp(bed(), strict, pair.b, true, pair.b.peer_qpn, IBV_QPS_RTS) != 0) {
    throw SetUpFailed{"bring-up"};
  }
  Memory& local = bed().Mem(32 * 64);
  Memory& remote = bed().Mem(32 * 64);
  for (int i = 0; i < 16; ++i) remote.Pattern(i * 64, 32, i);
  remote.SetU64(31 * 64, 0);
  std::vector<Wr> wrs;
  for (int i = 0; i < 16; ++i) {
    Wr wr;
    const bool add = i % 2 == 1;
    wr.op = add ? Op::kFetchAdd : Op::kRead;
    wr.id = i;
    wr.sge = {local.sge(i * 64, add ? 8 : 32)};
    wr.rkey = remote.rkey();
    wr.remote = remote.address(add ? 31 * 64 : i * 64);
    wr.compare_add = 1;
    wrs.push_back(wr);
  }
  ASSERT_CLAUSE("WR-RESP-013", Post(pair.a, wrs) == 0);
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 16, 60s);
  ASSERT_CLAUSE("WR-RESP-013", wcs.size() == 16) << Describe(wcs);
  uint64_t adds = 0;
  for (const ibv_wc& wc : wcs) {
    if (wc.status == IBV_WC_SUCCESS) {
      if (wc.wr_id % 2 == 1) {
        ++adds;
      } else {
        EXPECT_CLAUSE("WR-RESP-013", local.HasPattern(wc.wr_id * 64, 32, wc.wr_id))
            << "READ " << wc.wr_id << " succeeded with wrong data";
      }
    } else {
      EXPECT_CLAUSE("WR-RESP-013",
                    wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_WR_FLUSH_ERR)
          << Describe(wcs);
    }
  }
  const uint64_t sum = remote.U64(31 * 64);
  EXPECT_CLAUSE("WR-RESP-013", sum >= adds && sum <= 8) << sum << " added, " << adds << " SUCCESS";
}

QPX_TEST(Resp, DuplicatesHaveEffectOnce, "WR-RESP-014") {
  if (TheHooks().lose == nullptr) {
    throw NotApplicable{"this provider's messages cannot be lost on purpose"};
  }
  for (const Op op : {Op::kSend, Op::kWrite, Op::kFetchAdd, Op::kCmpSwp}) {
    for (const char* what : {"request", "ack", "duplicate"}) {
      PairOptions options;
      options.ops = Bits({op});
      options.timeout = 10;
      Pair& pair = bed().Connect(options);
      Traffic traffic(bed(), pair);
      const Flight flight = traffic.Make(op, 1);
      ASSERT_CLAUSE("WR-RESP-014", TheHooks().lose(pair.a.qp, what));
      const std::string problem = traffic.Run(flight);
      EXPECT_CLAUSE("WR-RESP-014", problem.empty())
          << Info(op).name << " with a lost or doubled " << what << ": " << problem;
      if (op == Op::kSend) {
        EXPECT_CLAUSE("WR-RESP-014", Quiet(pair.b.recv_cq).empty()) << "received twice";
      }
    }
  }
}

QPX_TEST_P(Resp, UcDropsFaultyRequests, (std::vector<int>{0, 1, 2, 3}), "WR-RESP-015") {
  PairOptions options;
  options.transport = Transport::kUc;
  options.ops = Bits({Op::kSend, Op::kWrite});
  Pair& pair = bed().Connect(options);
  Memory& from = bed().Mem(256);
  Memory& into = bed().Mem(4096, param == 1 ? IBV_ACCESS_LOCAL_WRITE : kAllAccess);
  into.Fill(0xee);
  Wr wr;
  switch (param) {
    case 0:  // unknown key
      wr = Request(Op::kWrite, from, 16, into.rkey() ^ 0x5500, into.address(64));
      break;
    case 1:  // missing right
      wr = Request(Op::kWrite, from, 16, into.rkey(), into.address(64));
      break;
    case 2:  // longer than its receive
      ASSERT_CLAUSE("WR-RESP-015", PostRecv(pair.b, 9, {into.sge(0, 15)}) == 0);
      wr = Send(from, 77, 16);
      break;
    default:  // no receive
      wr = Send(from, 77, 16);
      break;
  }
  ASSERT_CLAUSE("WR-RESP-015", Post(pair.a, wr) == 0);
  const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
  EXPECT_CLAUSE("WR-RESP-015", sent.size() == 1 && sent[0].status == IBV_WC_SUCCESS)
      << Describe(sent);
  for (const ibv_wc& wc : Quiet(pair.b.recv_cq)) {
    EXPECT_CLAUSE("WR-RESP-015", wc.status != IBV_WC_SUCCESS) << "received with SUCCESS";
  }
  EXPECT_CLAUSE("WR-RESP-015", into.Is(15, 4096 - 15, 0xee)) << "memory changed";
  EXPECT_SHOULD("WR-RESP-015", QueryState(pair.b.qp) == IBV_QPS_RTS)
      << "the responder is in " << Name(QueryState(pair.b.qp));
  if (QueryState(pair.b.qp) != IBV_QPS_RTS || param == 2) return;
  Traffic traffic(bed(), pair);
  const std::string problem =
      Persist(Transport::kUc, [&] { return traffic.Run(traffic.Make(Op::kWrite, 2)); });
  EXPECT_SHOULD("WR-RESP-015", problem.empty()) << "the next good WRITE: " << problem;
}

// --- timers and partitions
// -------------------------------------------------------------------------

QPX_TEST(Resp, TimeoutZeroNeverExpires, "WR-RESP-017") {
  PairOptions options;
  options.ops = Bits({Op::kWrite});
  options.timeout = 0;
  options.retry_cnt = 1;
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().Mem(256);
  ASSERT_CLAUSE("WR-RESP-017", ModifyState(pair.b.qp, IBV_QPS_RESET) == 0);
  ASSERT_CLAUSE("WR-RESP-017",
                BringUp(bed(), pair.options, pair.b, true, pair.b.peer_qpn, IBV_QPS_INIT) == 0);
  ASSERT_CLAUSE("WR-RESP-017", Post(pair.a, Request(Op::kWrite, memory, 8, memory.rkey(),
                                                    memory.address(64))) == 0);
  clock().Pass(5s);
  const std::vector<ibv_wc> early = PollNow(pair.a.send_cq);
  EXPECT_CLAUSE("WR-RESP-017", early.empty()) << Describe(early);
  if (!early.empty()) return;
  ASSERT_CLAUSE("WR-RESP-017", ModifyState(pair.a.qp, IBV_QPS_ERR) == 0);
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  EXPECT_CLAUSE("WR-RESP-017", wcs.size() == 1 && wcs[0].status == IBV_WC_WR_FLUSH_ERR)
      << Describe(wcs);
}

QPX_TEST_P(Resp, UnreliableMessageWithoutReceive,
           (std::vector<Transport>{Transport::kUc, Transport::kUd}), "WR-RESP-018") {
  PairOptions options;
  options.transport = param;
  options.ops = Bits({Op::kSend});
  Pair& pair = bed().Connect(options);
  Memory& from = bed().Mem(64);
  ASSERT_CLAUSE("WR-RESP-018", Post(pair.a, Send(from, 5)) == 0);
  const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
  EXPECT_CLAUSE("WR-RESP-018", sent.size() == 1 && sent[0].status == IBV_WC_SUCCESS)
      << Describe(sent);
  EXPECT_CLAUSE("WR-RESP-018", Quiet(pair.b.recv_cq).empty()) << "received without a receive";
  Traffic traffic(bed(), pair);
  const std::string problem =
      Persist(param, [&] { return traffic.Run(traffic.Make(Op::kSend, 6)); });
  EXPECT_CLAUSE("WR-RESP-018", problem.empty()) << "the next message: " << problem;
}

QPX_TEST(Resp, PartitionMismatch, "WR-RESP-019") {
  // Two usable entries of the P_Key table.
  std::vector<int> usable;
  for (int i = 0; i < facts().port.pkey_tbl_len && i < 64; ++i) {
    __be16 pkey = 0;
    if (ibv_query_pkey(bed().context(), facts().port_num, i, &pkey) == 0 && (pkey & 0xff7f) != 0) {
      usable.push_back(i);
    }
  }
  if (usable.size() < 2) throw NotApplicable{"the P_Key table has no two usable entries"};
  PairOptions options;
  options.ops = Bits({Op::kWrite});
  options.stop_at = IBV_QPS_INIT;
  options.timeout = 10;
  options.retry_cnt = 1;
  Pair& pair = bed().Connect(options);
  for (End* end : {&pair.a, &pair.b}) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.pkey_index = static_cast<uint16_t>(usable[end == &pair.b ? 1 : 0]);
    attr.ah_attr = bed().Path();
    attr.path_mtu = pair.options.mtu;
    attr.dest_qp_num = end->peer_qpn;
    attr.rq_psn = attr.sq_psn = options.psn;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.timeout = 10;
    attr.retry_cnt = 1;
    if (ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_PATH_MTU |
                          IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                          IBV_QP_MIN_RNR_TIMER) != 0) {
      throw NotApplicable{"the P_Key index cannot be chosen on the way to RTR"};
    }
    attr.qp_state = IBV_QPS_RTS;
    if (ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
      throw SetUpFailed{"RTS"};
    }
  }
  Memory& memory = bed().Mem(256);
  memory.Fill(64, 64, 0xee);
  ASSERT_CLAUSE("WR-RESP-019", Post(pair.a, Request(Op::kWrite, memory, 8, memory.rkey(),
                                                    memory.address(64))) == 0);
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1, 60s);
  ASSERT_CLAUSE("WR-RESP-019", wcs.size() == 1) << "no completion";
  Record::Current().Variation("WR-RESP-019",
                              wcs[0].status == IBV_WC_SUCCESS ? "carried out" : "dropped");
  if (wcs[0].status != IBV_WC_SUCCESS) {
    EXPECT_CLAUSE("WR-RESP-019", memory.Is(64, 64, 0xee)) << "dropped, yet memory changed";
  }
}

QPX_TEST(Resp, SrqReceivesServeOtherQps, "WR-RESP-020") {
  ibv_srq* srq = bed().Srq(16);
  PairOptions options;
  options.ops = Bits({Op::kSend});
  options.srq = srq;
  Pair& one = bed().Connect(options);
  Pair& two = bed().Connect(options);
  Memory& from = bed().Mem(64);
  Memory& into = bed().Mem(8 * 64);
  for (int i = 0; i < 4; ++i) {
    ibv_sge sge = into.sge(i * 64, 64);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ASSERT_CLAUSE("WR-RESP-020", ibv_post_srq_recv(srq, &wr, &bad) == 0);
  }
  ASSERT_CLAUSE("WR-RESP-020", ModifyState(one.b.qp, IBV_QPS_ERR) == 0);
  const bool told = bed().AwaitAsyncEvent(
      [&](const ibv_async_event& event) {
        return event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == one.b.qp;
      },
      5s);
  EXPECT_SHOULD("WR-RESP-020", told) << "no IBV_EVENT_QP_LAST_WQE_REACHED";
  for (int i = 0; i < 4; ++i) {
    ASSERT_CLAUSE("WR-RESP-020", Post(two.a, Send(from, 100 + i)) == 0);
  }
  const std::vector<ibv_wc> sent = Await(two.a.send_cq, 4), got = Await(two.b.recv_cq, 4);
  EXPECT_CLAUSE("WR-RESP-020", Differs(sent, {100, 101, 102, 103}).empty()) << Describe(sent);
  EXPECT_CLAUSE("WR-RESP-020", DiffersAsSet(got, {0, 1, 2, 3}).empty()) << Describe(got);
  EXPECT_CLAUSE("WR-RESP-020", PollNow(one.b.recv_cq).empty()) << "flushed from the SRQ";
}

}  // namespace
}  // namespace qpexam::conformance
