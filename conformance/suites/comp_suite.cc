// COMP: completions and signaling.

#include <algorithm>
#include <map>
#include <random>
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
namespace {

// Operations that need nothing but memory on both sides.
const std::vector<Op> kPlainOps = {Op::kSend, Op::kSendImm, Op::kWrite,   Op::kWriteImm,
                                   Op::kRead, Op::kCmpSwp,  Op::kFetchAdd};

class Comp : public Conformance {
 protected:
  Pair& RcPair(uint64_t ops = 0, uint32_t depth = 16, bool sig_all = false) {
    PairOptions options;
    options.ops = ops;
    options.send_wr = depth;
    options.sig_all = sig_all;
    return bed().Connect(options);
  }
  // Skips the test where unsignaled work is refused (WR-SAMPLE-006).
  void NeedsUnsignaled() {
    Pair& pair = RcPair();
    Traffic traffic(bed(), pair);
    Flight flight = traffic.Make(Op::kWrite, 1);
    flight.wr.flags = 0;
    if (Post(pair.a, flight.wr) != 0) throw NotApplicable{"unsignaled work is refused"};
  }
  static Wr BadWrite(Memory& memory, uint64_t id) {
    Wr wr;
    wr.op = Op::kWrite;
    wr.id = id;
    wr.sge = {memory.sge(0, 8)};
    wr.rkey = memory.rkey() ^ 0x5500;
    wr.remote = memory.address(32);
    return wr;
  }
};

QPX_TEST(Comp, OnlySignaledRequestsComplete, "WR-COMP-001") {
  NeedsUnsignaled();
  Pair& pair = RcPair(0, 32);
  Traffic traffic(bed(), pair);
  std::mt19937_64 random(1);
  const int count = Repetitions(1000);
  std::vector<uint64_t> expected;
  int since_signaled = 0;
  std::vector<uint64_t> seen;
  for (int id = 1; id <= count; ++id) {
    Flight flight = traffic.Make(Op::kWrite, id);
    const bool signaled =
        random() % 2 == 0 || id == count || since_signaled + 2 >= static_cast<int>(32);
    flight.wr.flags = signaled ? IBV_SEND_SIGNALED : 0;
    ASSERT_CLAUSE("WR-COMP-001", Post(pair.a, flight.wr) == 0) << "request " << id;
    if (!signaled) {
      ++since_signaled;
      continue;
    }
    since_signaled = 0;
    expected.push_back(id);
    for (const ibv_wc& wc : Await(pair.a.send_cq, expected.size() - seen.size())) {
      EXPECT_CLAUSE("WR-COMP-001", wc.status == IBV_WC_SUCCESS);
      seen.push_back(wc.wr_id);
    }
    ASSERT_CLAUSE("WR-COMP-001", seen == expected)
        << "request " << id << ": " << seen.size() << " completions, expected " << expected.size();
  }
  EXPECT_CLAUSE("WR-COMP-001", Quiet(pair.a.send_cq).empty()) << "a completion too many";
}

QPX_TEST(Comp, ErrorsCompleteUnsignaled, "WR-COMP-002") {
  NeedsUnsignaled();
  Pair& pair = RcPair();
  Memory& memory = bed().Mem(64);
  Wr wr = BadWrite(memory, 42);
  wr.flags = 0;
  if (Post(pair.a, wr) != 0) throw NotApplicable{"a bad rkey is refused at complete"};
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-COMP-002", wcs.size() == 1) << "no completion of a failed unsignaled request";
  EXPECT_CLAUSE("WR-COMP-002", wcs[0].wr_id == 42 && wcs[0].status != IBV_WC_SUCCESS)
      << Describe(wcs);
  EXPECT_CLAUSE("WR-COMP-002", Quiet(pair.a.send_cq).empty()) << "more than one";
}

QPX_TEST(Comp, FlushAfterTheFirstError, "WR-COMP-003", "WR-SAMPLE-005") {
  Pair& pair = RcPair(0, 64);
  Memory& memory = bed().Mem(64);
  Traffic traffic(bed(), pair);
  std::vector<Wr> wrs;
  for (uint64_t id = 1; id <= 10; ++id) wrs.push_back(traffic.Make(Op::kWrite, id).wr);
  wrs.push_back(BadWrite(memory, 11));
  for (uint64_t id = 12; id <= 31; ++id) {
    wrs.push_back(traffic.Make(Op::kWrite, id).wr);
    if (id % 2 == 0) wrs.back().flags = 0;
  }
  if (Post(pair.a, wrs) != 0) throw NotApplicable{"a bad rkey is refused at complete"};
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 31);
  ASSERT_CLAUSE("WR-COMP-003", wcs.size() == 31) << Describe(wcs);
  for (std::size_t i = 0; i < 31; ++i) {
    EXPECT_CLAUSE("WR-SAMPLE-005", wcs[i].wr_id == i + 1) << Describe(wcs);
    if (i < 10) {
      EXPECT_CLAUSE("WR-COMP-003", wcs[i].status == IBV_WC_SUCCESS) << Describe(wcs);
    }
    if (i == 10) {
      EXPECT_CLAUSE("WR-COMP-003",
                    wcs[i].status != IBV_WC_SUCCESS && wcs[i].status != IBV_WC_WR_FLUSH_ERR)
          << Describe(wcs);
    }
    if (i > 10) {
      EXPECT_CLAUSE("WR-COMP-003", wcs[i].status == IBV_WC_WR_FLUSH_ERR) << Describe(wcs);
    }
  }
  EXPECT_CLAUSE("WR-COMP-003", Quiet(pair.a.send_cq).empty());
}

QPX_TEST_P(Comp, InPostingOrder,
           (std::vector<Transport>{Transport::kRc, Transport::kUc, Transport::kUd,
                                   Transport::kXrc}),
           "WR-COMP-004") {
  PairOptions options;
  options.transport = param;
  options.ops = Bits({Op::kSend});
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const int count = Repetitions(100000);
  std::mt19937 random(4);
  uint64_t next = 1;
  for (int id = 1; id <= count;) {
    std::vector<Wr> wrs;
    const int batch = std::min(1 + static_cast<int>(random() % 8), count - id + 1);
    for (int i = 0; i < batch; ++i) wrs.push_back(traffic.Make(Op::kSend, id++).wr);
    ASSERT_CLAUSE("WR-COMP-004", Post(pair.a, wrs) == 0);
    for (const ibv_wc& wc : Await(pair.a.send_cq, batch)) {
      ASSERT_CLAUSE("WR-COMP-004", wc.wr_id == next) << wc.wr_id << ", expected " << next;
      ++next;
    }
    ASSERT_CLAUSE("WR-COMP-004", next == static_cast<uint64_t>(id)) << "a completion is missing";
    PollNow(pair.b.recv_cq);
  }
}

QPX_TEST(Comp, AlwaysValidFields, "WR-COMP-005") {
  // Two QPs on one CQ, so that qp_num tells them apart.
  ibv_cq* cq = bed().Cq(256);
  PairOptions options;
  options.send_cq = cq;
  Pair& one = bed().Connect(options);
  Pair& two = bed().Connect(options);
  Memory& memory = bed().Mem(64);
  Traffic traffic(bed(), one);
  ASSERT_CLAUSE("WR-COMP-005", Post(one.a, traffic.Make(Op::kWrite, 1).wr) == 0);
  const bool accepted = Post(two.a, BadWrite(memory, 2)) == 0;
  const std::vector<ibv_wc> wcs = Await(cq, accepted ? 2 : 1);
  ASSERT_CLAUSE("WR-COMP-005", wcs.size() == (accepted ? 2u : 1u)) << Describe(wcs);
  for (const ibv_wc& wc : wcs) {
    const bool first = wc.wr_id == 1;
    EXPECT_CLAUSE("WR-COMP-005", first || wc.wr_id == 2) << Describe(wcs);
    EXPECT_CLAUSE("WR-COMP-005", (wc.status == IBV_WC_SUCCESS) == first) << Describe(wcs);
    EXPECT_CLAUSE("WR-COMP-005", wc.qp_num == (first ? one : two).a.qp->qp_num)
        << "qp_num of " << wc.wr_id;
  }
}

// Every cell that the device offers, also after the ring has wrapped.
QPX_TEST_P(Comp, SendOpcode, OfferedCells(), "WR-COMP-006") {
  if (!facts().Has(param.op)) {
    throw NotApplicable{std::string("the device has no ") + Info(param.op).name};
  }
  PairOptions options;
  options.transport = param.transport;
  options.ops = Info(param.op).bit;
  if (param.op == Op::kLocalInv) options.ops |= Info(Op::kBindMw).bit;
  if (param.op == Op::kSendInv) options.peer_ops = Bits({Op::kSend, Op::kBindMw});
  options.send_wr = 4;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const std::vector<Op> ops = traffic.Ops();
  if (std::find(ops.begin(), ops.end(), param.op) == ops.end()) {
    throw NotApplicable{"the peer cannot bind the window that this operation needs"};
  }
  for (uint64_t id = 1; id <= 9; ++id) {
    const Flight flight = traffic.Make(param.op, id);
    ASSERT_CLAUSE("WR-COMP-006", Post(pair.a, flight.wr) == 0);
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
    ASSERT_CLAUSE("WR-COMP-006", wcs.size() == 1 && wcs[0].status == IBV_WC_SUCCESS)
        << Describe(wcs);
    EXPECT_CLAUSE("WR-COMP-006", wcs[0].opcode == Info(param.op).send_opcode)
        << Info(param.op).name << " completes with opcode " << wcs[0].opcode << ", request " << id;
    if (flight.expects_receive) Await(pair.b.recv_cq, 1, 2s);
  }
}

QPX_TEST(Comp, ReceiveOpcode, "WR-COMP-007", "WR-COMP-010") {
  struct Case {
    Op op;
    ibv_wc_opcode opcode;
    unsigned flags;
  };
  for (const Case& c :
       {Case{Op::kSend, IBV_WC_RECV, 0}, Case{Op::kSendImm, IBV_WC_RECV, IBV_WC_WITH_IMM},
        Case{Op::kSendInv, IBV_WC_RECV, IBV_WC_WITH_INV},
        Case{Op::kWriteImm, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM}}) {
    PairOptions options;
    options.ops = Bits({c.op});
    options.peer_ops = Bits({Op::kSend, Op::kBindMw});
    Pair* pair = nullptr;
    try {
      pair = &bed().Connect(options);
    } catch (const NotApplicable& e) {
      Record::Current().Note(std::string(Info(c.op).name) + ": " + e.reason);
      continue;
    }
    Traffic traffic(bed(), *pair);
    const Flight flight = traffic.Make(c.op, 5);
    ASSERT_CLAUSE("WR-COMP-007", Post(pair->a, flight.wr) == 0);
    const std::vector<ibv_wc> wcs = Await(pair->b.recv_cq, 1);
    ASSERT_CLAUSE("WR-COMP-007", wcs.size() == 1 && wcs[0].status == IBV_WC_SUCCESS)
        << Describe(wcs);
    EXPECT_CLAUSE("WR-COMP-007", wcs[0].opcode == c.opcode)
        << Info(c.op).name << " gives opcode " << wcs[0].opcode;
    const unsigned both = IBV_WC_WITH_IMM | IBV_WC_WITH_INV;
    EXPECT_CLAUSE("WR-COMP-007", (wcs[0].wc_flags & both) == c.flags)
        << Info(c.op).name << " gives wc_flags " << wcs[0].wc_flags;
    EXPECT_CLAUSE("WR-COMP-010", (wcs[0].wc_flags & both) != both);
    Await(pair->a.send_cq, 1);
  }
}

QPX_TEST_P(Comp, ByteLength, kPlainOps, "WR-COMP-008") {
  Pair& pair = RcPair(Bits({param}));
  Traffic traffic(bed(), pair);
  for (const uint32_t length : {1u, 8u, 13u, 200u}) {
    const Flight flight = traffic.Make(param, length, Shape{Setter::kSge, length, 1});
    ASSERT_CLAUSE("WR-COMP-008", Post(pair.a, flight.wr) == 0);
    const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
    ASSERT_CLAUSE("WR-COMP-008", sent.size() == 1 && sent[0].status == IBV_WC_SUCCESS);
    const bool atomic = param == Op::kCmpSwp || param == Op::kFetchAdd;
    if (param == Op::kRead || atomic) {
      EXPECT_CLAUSE("WR-COMP-008", sent[0].byte_len == (atomic ? 8 : length))
          << "byte_len " << sent[0].byte_len << " of " << Info(param).name << " of " << length;
    } else {
      // WR-COMP-009: unspecified on other send completions, so never compared.
      Record::Current().Note("byte_len of a send completion: " + std::to_string(sent[0].byte_len));
    }
    if (!flight.expects_receive) continue;
    const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1);
    ASSERT_CLAUSE("WR-COMP-008", got.size() == 1 && got[0].status == IBV_WC_SUCCESS);
    EXPECT_CLAUSE("WR-COMP-008", got[0].byte_len == length)
        << "byte_len " << got[0].byte_len << " of a receive of " << length;
  }
}

QPX_TEST(Comp, OtherSendFieldsAreUnspecified, "WR-COMP-009") {
  Pair& pair = RcPair(Bits({Op::kSendImm}));
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-COMP-009", Post(pair.a, traffic.Make(Op::kSendImm, 1).wr) == 0);
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
  ASSERT_CLAUSE("WR-COMP-009", wcs.size() == 1 && wcs[0].status == IBV_WC_SUCCESS);
  Record::Current().Variation("WR-COMP-009", (wcs[0].wc_flags & IBV_WC_WITH_IMM) != 0
                                                 ? "WITH_IMM on the sender's completion"
                                                 : "no WITH_IMM on the sender's completion");
}

QPX_TEST(Comp, ResultsAreThereWhenPolled, "WR-COMP-011") {
  Pair& pair = RcPair(Bits({Op::kRead, Op::kFetchAdd, Op::kSend}));
  Memory& local = bed().Mem(4096);
  Memory& remote = bed().Mem(4096);
  for (int round = 0; round < 50; ++round) {
    local.Fill(0xee);
    remote.Pattern(0, 2048, round);
    Wr read;
    read.op = Op::kRead;
    read.id = 1;
    read.sge = {local.sge(0, 2048)};
    read.rkey = remote.rkey();
    read.remote = remote.address();
    ASSERT_CLAUSE("WR-COMP-011", Post(pair.a, read) == 0);
    ASSERT_CLAUSE("WR-COMP-011", Differs(Await(pair.a.send_cq, 1), {1}).empty());
    ASSERT_CLAUSE("WR-COMP-011", local.HasPattern(0, 2048, round)) << "READ data not there";

    remote.SetU64(2048, 1000 + round);
    Wr add;
    add.op = Op::kFetchAdd;
    add.id = 2;
    add.sge = {local.sge(2048, 8)};
    add.rkey = remote.rkey();
    add.remote = remote.address(2048);
    add.compare_add = 5;
    ASSERT_CLAUSE("WR-COMP-011", Post(pair.a, add) == 0);
    ASSERT_CLAUSE("WR-COMP-011", Differs(Await(pair.a.send_cq, 1), {2}).empty());
    ASSERT_CLAUSE("WR-COMP-011", local.U64(2048) == 1000u + round) << "the old value not there";

    // The source may be reused at once.
    local.Pattern(0, 512, 7000 + round);
    ASSERT_CLAUSE("WR-COMP-011", PostRecv(pair.b, 9, {remote.sge(3072, 512)}) == 0);
    Wr send;
    send.op = Op::kSend;
    send.id = 3;
    send.sge = {local.sge(0, 512)};
    ASSERT_CLAUSE("WR-COMP-011", Post(pair.a, send) == 0);
    ASSERT_CLAUSE("WR-COMP-011", Differs(Await(pair.a.send_cq, 1), {3}).empty());
    local.Fill(0, 512, 0x00);
    ASSERT_CLAUSE("WR-COMP-011", Await(pair.b.recv_cq, 1).size() == 1);
    ASSERT_CLAUSE("WR-COMP-011", remote.HasPattern(3072, 512, 7000 + round))
        << "the peer got bytes that were stored after the completion";
  }
}

QPX_TEST(Comp, AnOverrunRaisesCqError, "WR-COMP-012") {
  // A context of its own: its CQ is broken afterwards.
  Bed own{Bed::OwnContext{}};
  ibv_cq* cq = own.Cq(1);
  PairOptions options;
  options.send_cq = cq;
  options.send_wr = 16;
  const int total = cq->cqe + 64;
  // As many pairs as it takes for all requests to be outstanding at once.
  std::vector<Pair*> pairs;
  int posted = 0;
  Memory& memory = own.Mem(4096);
  while (posted < total) {
    pairs.push_back(&own.Connect(options));
    const int depth = std::min(static_cast<int>(pairs.back()->a.cap.max_send_wr), total - posted);
    for (int i = 0; i < depth; ++i) {
      Wr wr;
      wr.op = Op::kWrite;
      wr.id = ++posted;
      wr.sge = {memory.sge(0, 8)};
      wr.rkey = memory.rkey();
      wr.remote = memory.address(64);
      if (Post(pairs.back()->a, wr) != 0) {
        --posted;
        break;
      }
    }
    if (pairs.size() > 400) throw NotApplicable{"the CQ is too large to overrun"};
  }
  const bool raised = own.AwaitAsyncEvent(
      [&](const ibv_async_event& event) {
        return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
      },
      5s);
  if (raised) return;
  // A CQ that is in error may refuse to be polled at all.
  int polled = 0, got = 0;
  clock().Until(clock().Limit(5s), [&] {
    ibv_wc wcs[16];
    while ((got = ibv_poll_cq(cq, 16, wcs)) > 0) polled += got;
    return got < 0 || polled >= posted;
  });
  ASSERT_CLAUSE("WR-COMP-012", polled == posted)
      << "no IBV_EVENT_CQ_ERR, and only " << polled << " of " << posted << " completions";
  throw NotApplicable{"the CQ was larger than it said"};
}

QPX_TEST(Comp, DestroyWithCompletionsPending, "WR-COMP-013") {
  ibv_cq* cq = bed().Cq(256);
  PairOptions options;
  options.send_cq = cq;
  Pair& doomed = bed().Connect(options);
  Pair& other = bed().Connect(options);
  Traffic doomed_traffic(bed(), doomed), other_traffic(bed(), other);
  for (uint64_t id = 1; id <= 6; ++id) {
    ASSERT_CLAUSE("WR-COMP-013", Post(doomed.a, doomed_traffic.Make(Op::kWrite, id).wr) == 0);
    ASSERT_CLAUSE("WR-COMP-013", Post(other.a, other_traffic.Make(Op::kWrite, 100 + id).wr) == 0);
  }
  clock().Pass(10ms);
  ASSERT_CLAUSE("WR-COMP-013", bed().Destroy(doomed.a.qp) == 0);
  std::multiset<uint64_t> seen;
  clock().Until(clock().Limit(5s), [&] {
    for (const ibv_wc& wc : PollNow(cq)) seen.insert(wc.wr_id);
    return seen.count(106) > 0;
  });
  for (const ibv_wc& wc : Quiet(cq)) seen.insert(wc.wr_id);
  std::size_t of_doomed = 0;
  for (const uint64_t id : seen) {
    EXPECT_CLAUSE("WR-COMP-013", (id >= 1 && id <= 6) || (id >= 101 && id <= 106))
        << "unknown wr_id " << id;
    EXPECT_CLAUSE("WR-COMP-013", seen.count(id) == 1) << "wr_id " << id << " came twice";
    of_doomed += id <= 6;
  }
  for (uint64_t id = 101; id <= 106; ++id) {
    EXPECT_CLAUSE("WR-COMP-013", seen.count(id) == 1) << "lost: " << id << " of the other QP";
  }
  Record::Current().Variation("WR-COMP-013", of_doomed == 6   ? "all returned"
                                             : of_doomed == 0 ? "all removed"
                                                              : "some returned");
}

QPX_TEST(Comp, SigAllMakesOneEach, "WR-COMP-014") {
  Pair& pair = RcPair(0, 16, true);
  Traffic traffic(bed(), pair);
  std::mt19937_64 random(2);
  uint64_t next = 1;
  for (uint64_t id = 1; id <= 100; ++id) {
    Flight flight = traffic.Make(Op::kWrite, id);
    flight.wr.flags = random() % 2 ? IBV_SEND_SIGNALED : 0;
    ASSERT_CLAUSE("WR-COMP-014", Post(pair.a, flight.wr) == 0);
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
    ASSERT_CLAUSE("WR-COMP-014", wcs.size() == 1 && wcs[0].wr_id == next)
        << "request " << id << " (flag " << flight.wr.flags << "): " << Describe(wcs);
    ++next;
  }
  EXPECT_CLAUSE("WR-COMP-014", Quiet(pair.a.send_cq).empty()) << "a completion too many";
}

QPX_TEST_P(Comp, SigAllHoldsForEveryOperation, OpsOf(Transport::kRc), "WR-COMP-014") {
  if (!facts().Has(param))
    throw NotApplicable{std::string("the device has no ") + Info(param).name};
  PairOptions options;
  options.ops = Info(param).bit;
  if (param == Op::kLocalInv) options.ops |= Info(Op::kBindMw).bit;
  options.peer_ops = Bits({Op::kSend});
  if (param == Op::kSendInv) options.peer_ops |= Info(Op::kBindMw).bit;
  options.sig_all = true;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  // Each shows that the one before made no completion too many.
  uint64_t id = 0;
  for (const unsigned flags : {0u, static_cast<unsigned>(IBV_SEND_SIGNALED), 0u}) {
    Flight flight = traffic.Make(param, ++id);
    flight.wr.flags = flags;
    ASSERT_CLAUSE("WR-COMP-014", Post(pair.a, flight.wr) == 0);
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
    ASSERT_CLAUSE("WR-COMP-014", Differs(wcs, {id}).empty())
        << Info(param).name << " with wr_flags " << flags << ": " << Describe(wcs);
  }
}

QPX_TEST(Comp, APolledCompletionIsGone, "WR-COMP-015") {
  Pair& pair = RcPair(0, 64);
  Traffic traffic(bed(), pair);
  std::mt19937_64 random(3);
  const int count = Repetitions(1000000);
  uint64_t posted = 0, seen = 0;
  while (seen < static_cast<uint64_t>(count)) {
    std::vector<Wr> wrs;
    const uint64_t room = std::min<uint64_t>(64 - (posted - seen), count - posted);
    const uint64_t batch = room == 0 ? 0 : 1 + random() % room;
    for (uint64_t i = 0; i < batch; ++i) wrs.push_back(traffic.Make(Op::kWrite, ++posted).wr);
    if (batch > 0) {
      ASSERT_CLAUSE("WR-COMP-015", Post(pair.a, wrs) == 0);
    }
    // Poll sizes 1..64.
    ibv_wc wcs[64];
    const int size = 1 + static_cast<int>(random() % 64);
    int got = 0;
    clock().Until(clock().Limit(5s),
                  [&] { return (got = ibv_poll_cq(pair.a.send_cq, size, wcs)) != 0; });
    ASSERT_CLAUSE("WR-COMP-015", got > 0 && got <= size) << "poll returned " << got;
    for (int i = 0; i < got; ++i) {
      ++seen;
      ASSERT_CLAUSE("WR-COMP-015", wcs[i].wr_id == seen)
          << "wr_id " << wcs[i].wr_id << ", expected " << seen;
    }
  }
  EXPECT_CLAUSE("WR-COMP-015", PollNow(pair.a.send_cq).empty()) << "a completion came again";
}

QPX_TEST(Comp, ResizingKeepsCompletions, "WR-COMP-015") {
  ibv_cq* cq = bed().Cq(16);
  PairOptions options;
  options.send_cq = cq;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  for (uint64_t id = 1; id <= 5; ++id) {
    ASSERT_CLAUSE("WR-COMP-015", Post(pair.a, traffic.Make(Op::kWrite, id).wr) == 0);
  }
  clock().Pass(10ms);
  if (ibv_resize_cq(cq, 64) != 0) throw NotApplicable{"ibv_resize_cq is refused"};
  const std::vector<ibv_wc> wcs = Await(cq, 5);
  EXPECT_CLAUSE("WR-COMP-015", Differs(wcs, {1, 2, 3, 4, 5}).empty()) << Describe(wcs);
  EXPECT_CLAUSE("WR-COMP-015", PollNow(cq).empty());
}

QPX_TEST(Comp, SlotsMayBeFreedEarly, "WR-COMP-016") {
  NeedsUnsignaled();
  Pair& pair = RcPair(0, 8);
  Traffic traffic(bed(), pair);
  int accepted = 0;
  for (int id = 1; id <= 64; ++id) {
    Flight flight = traffic.Make(Op::kWrite, id);
    flight.wr.flags = 0;
    if (Post(pair.a, flight.wr) != 0) break;
    ++accepted;
    clock().Pass(1ms);
  }
  EXPECT_CLAUSE("WR-COMP-016", accepted >= static_cast<int>(8)) << accepted;
  Record::Current().Variation("WR-COMP-016", accepted == 64 ? "unsignaled requests free their slots"
                                                            : "slots are freed only by polling");
}

}  // namespace
}  // namespace qpexam::conformance
