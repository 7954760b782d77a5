// XRC: requests to shared receive queues of a domain.

#include <fcntl.h>

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

// One shared receive queue of the bed's domain, with its own CQ and memory.
struct Target {
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  uint32_t number = 0;
  Memory* memory = nullptr;
};

class Xrc : public Conformance {
 protected:
  Pair& XrcPair(uint64_t ops, uint8_t rnr_retry = 7) {
    PairOptions options;
    options.transport = Transport::kXrc;
    options.ops = ops;
    options.rnr_retry = rnr_retry;
    return bed().Connect(options);
  }
  Target MakeTarget() {
    Target target;
    target.cq = bed().Cq(64);
    target.srq = bed().XrcSrq(32, target.cq, &target.number);
    target.memory = &bed().Mem(32 * 64);
    target.memory->Fill(0xee);
    return target;
  }
  static int PostTo(const Target& target, uint64_t id) {
    ibv_sge sge = target.memory->sge(id % 32 * 64, 64);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_srq_recv(target.srq, &wr, &bad);
  }
  static Wr Message(Op op, Memory& from, uint64_t id, uint32_t srqn) {
    Wr wr;
    wr.op = op;
    wr.id = id;
    from.Pattern(id * 64, 64, id);
    wr.sge = {from.sge(id * 64, 64)};
    wr.srqn = srqn;
    wr.imm = static_cast<__be32>(0x01020304 + id);
    return wr;
  }
};

QPX_TEST(Xrc, EachRequestNamesItsQueue, "WR-XRC-001", "WR-XRC-002", "WR-XRC-003") {
  Pair& pair = XrcPair(Bits({Op::kSend}));
  Target one = MakeTarget(), two = MakeTarget();
  Memory& from = bed().Mem(16 * 64);
  std::vector<Wr> wrs;
  for (uint64_t id = 0; id < 8; ++id) {
    const Target& to = id % 2 ? two : one;
    ASSERT_CLAUSE("WR-XRC-001", PostTo(to, id) == 0);
    wrs.push_back(Message(Op::kSend, from, id, to.number));
  }
  ASSERT_CLAUSE("WR-XRC-001", Post(pair.a, wrs) == 0);
  const std::string sent = Differs(Await(pair.a.send_cq, 8), {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_CLAUSE("WR-XRC-001", sent.empty()) << "sender: " << sent;
  for (const Target* target : {&one, &two}) {
    const std::vector<ibv_wc> wcs = Await(target->cq, 4);
    ASSERT_CLAUSE("WR-XRC-002", wcs.size() == 4) << Describe(wcs);
    for (const ibv_wc& wc : wcs) {
      EXPECT_CLAUSE("WR-XRC-001", wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV)
          << Describe(wcs);
      EXPECT_CLAUSE("WR-XRC-001", wc.wr_id % 2 == (target == &two ? 1u : 0u)) << Describe(wcs);
      EXPECT_CLAUSE("WR-XRC-002", target->memory->HasPattern(wc.wr_id % 32 * 64, 64, wc.wr_id));
      EXPECT_CLAUSE("WR-XRC-003", wc.qp_num == pair.b.qp->qp_num)
          << wc.qp_num << ", the XRC_RECV QP is " << pair.b.qp->qp_num;
    }
  }
  // The same number in the same byte order, where ibv_post_send takes it (WR-MIX-003).
  for (uint64_t id = 8; id < 10; ++id) {
    const Target& to = id % 2 ? two : one;
    ASSERT_CLAUSE("WR-XRC-002", PostTo(to, id) == 0);
    if (PostSend(pair.a, {Message(Op::kSend, from, id, to.number)}) != 0) return;
    const std::string by_list = Differs(Await(pair.a.send_cq, 1), {id});
    ASSERT_CLAUSE("WR-XRC-002", by_list.empty()) << "ibv_post_send: " << by_list;
    const std::vector<ibv_wc> wcs = Await(to.cq, 1);
    EXPECT_CLAUSE("WR-XRC-002", Differs(wcs, {id}).empty())
        << "ibv_post_send to queue " << to.number << ": " << Describe(wcs);
  }
}

QPX_TEST(Xrc, UnknownQueueNumber, "WR-XRC-004") {
  Pair& pair = XrcPair(Bits({Op::kSend}));
  Target one = MakeTarget(), two = MakeTarget();
  Memory& from = bed().Mem(16 * 64);
  ASSERT_CLAUSE("WR-XRC-004", PostTo(one, 1) == 0);
  ASSERT_CLAUSE("WR-XRC-004", PostTo(two, 2) == 0);
  const int rc = Post(pair.a, Message(Op::kSend, from, 5, (one.number ^ two.number) ^ 0x00abcd));
  if (rc == 0) {
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1, 60s);
    EXPECT_CLAUSE("WR-XRC-004", wcs.size() == 1 && wcs[0].status != IBV_WC_SUCCESS)
        << Describe(wcs);
  }
  // That no queue delivers it is the MUST of the clause.
  const std::vector<ibv_wc> got = Quiet({one.cq, two.cq});
  for (const ibv_wc& wc : got) {
    EXPECT_CLAUSE("WR-XRC-004", wc.status != IBV_WC_SUCCESS) << "delivered: " << Describe(got);
  }
}

QPX_TEST(Xrc, QueueOfAnotherDomain, "WR-XRC-004") {
  Pair& pair = XrcPair(Bits({Op::kSend}));
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = O_CREAT;
  ibv_xrcd* xrcd = ibv_open_xrcd(bed().context(), &domain);
  if (xrcd == nullptr) throw NotApplicable{"a second XRC domain is refused"};
  bed().Own(xrcd, [xrcd] { return ibv_close_xrcd(xrcd); });
  Target foreign;
  foreign.cq = bed().Cq(64);
  foreign.memory = &bed().Mem(32 * 64);
  ibv_srq_init_attr_ex attr{};
  attr.attr.max_wr = 16;
  attr.attr.max_sge = 1;
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = bed().pd();
  attr.xrcd = xrcd;
  attr.cq = foreign.cq;
  foreign.srq = ibv_create_srq_ex(bed().context(), &attr);
  if (foreign.srq == nullptr) throw NotApplicable{"an SRQ in a second domain is refused"};
  ibv_srq* srq = foreign.srq;
  bed().Own(srq, [srq] { return ibv_destroy_srq(srq); });
  if (ibv_get_srq_num(srq, &foreign.number) != 0) throw SetUpFailed{"ibv_get_srq_num"};
  ASSERT_CLAUSE("WR-XRC-004", PostTo(foreign, 1) == 0);
  Memory& from = bed().Mem(16 * 64);
  if (Post(pair.a, Message(Op::kSend, from, 5, foreign.number)) == 0) {
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1, 60s);
    EXPECT_CLAUSE("WR-XRC-004", wcs.size() == 1 && wcs[0].status != IBV_WC_SUCCESS)
        << Describe(wcs);
  }
  for (const ibv_wc& wc : Quiet(foreign.cq)) {
    // That no queue delivers it is the MUST of this clause.
    if (wc.status == IBV_WC_SUCCESS) {
      Record::Current().Breach("WR-XRC-004", Strength::kMust, __FILE__, __LINE__,
                               "an SRQ of another domain received the message");
    }
  }
}

QPX_TEST(Xrc, TheReceivingSideHasNoSendQueue, "WR-XRC-005") {
  Pair& pair = XrcPair(Bits({Op::kSend}));
  EXPECT_CLAUSE("WR-XRC-005", ibv_qp_to_qp_ex(pair.b.qp) == nullptr)
      << "ibv_qp_to_qp_ex of an XRC_RECV QP";
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.xrcd = bed().xrcd();
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  EXPECT_CLAUSE("WR-XRC-005", bed().TryQp(&attr) == nullptr) << "XRC_RECV with SEND_OPS_FLAGS";
}

QPX_TEST_P(Xrc, RdmaConsumesNoReceive,
           (std::vector<Op>{Op::kWrite, Op::kRead, Op::kCmpSwp, Op::kFetchAdd}), "WR-XRC-006") {
  Pair& pair = XrcPair(Bits({param, Op::kSend}));
  Target one = MakeTarget();
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-XRC-006", PostTo(one, 1) == 0);
  Flight flight = traffic.Make(param, 2);
  flight.wr.srqn = one.number;
  const std::string problem = traffic.Run(flight);
  EXPECT_CLAUSE("WR-XRC-006", problem.empty()) << "with a live SRQ number: " << problem;
  // The receive is still there: a message finds it.
  Memory& from = bed().Mem(16 * 64);
  ASSERT_CLAUSE("WR-XRC-006", Post(pair.a, Message(Op::kSend, from, 3, one.number)) == 0);
  const std::vector<ibv_wc> wcs = Await(one.cq, 1);
  EXPECT_CLAUSE("WR-XRC-006", wcs.size() == 1 && wcs[0].wr_id == 1) << Describe(wcs);
  Await(pair.a.send_cq, 1);

  // Now the SRQ is empty, which is nothing to a request that takes no receive.
  Flight empty = traffic.Make(param, 5);
  empty.wr.srqn = one.number;
  const std::string with_empty = traffic.Run(empty);
  EXPECT_CLAUSE("WR-XRC-006", with_empty.empty()) << "with an SRQ that is empty: " << with_empty;

  Flight zero = traffic.Make(param, 4);
  zero.wr.srqn = 0;
  if (Post(pair.a, zero.wr) != 0) {
    Record::Current().Variation("WR-XRC-006", "srqn 0 refused at complete");
  } else {
    const std::vector<ibv_wc> end = Await(pair.a.send_cq, 1, 60s);
    Record::Current().Variation("WR-XRC-006", end.size() == 1 && end[0].status == IBV_WC_SUCCESS
                                                  ? "srqn 0 is not looked at"
                                                  : "srqn 0 ends in error");
  }
}

QPX_TEST_P(Xrc, EmptyQueueIsReceiverNotReady, (std::vector<Op>{Op::kSend, Op::kWriteImm}),
           "WR-XRC-007") {
  Pair& pair = XrcPair(Bits({param}), 1);
  Target empty = MakeTarget(), full = MakeTarget();
  Memory& from = bed().Mem(16 * 64);
  Memory& remote = bed().Mem(64);
  ASSERT_CLAUSE("WR-XRC-007", PostTo(full, 1) == 0);
  Wr wr = Message(param, from, 2, empty.number);
  wr.rkey = remote.rkey();
  wr.remote = remote.address();
  ASSERT_CLAUSE("WR-XRC-007", Post(pair.a, wr) == 0);
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1, 60s);
  ASSERT_CLAUSE("WR-XRC-007", wcs.size() == 1) << "no completion";
  EXPECT_CLAUSE("WR-XRC-007", wcs[0].status == IBV_WC_RNR_RETRY_EXC_ERR) << Describe(wcs);
  EXPECT_CLAUSE("WR-XRC-007", Quiet({empty.cq, full.cq}).empty()) << "another queue was consumed";
}

QPX_TEST(Xrc, WriteWithImmediateConsumesTheNamedQueue, "WR-XRC-008") {
  Pair& pair = XrcPair(Bits({Op::kWriteImm}));
  Target one = MakeTarget(), two = MakeTarget();
  Memory& from = bed().Mem(16 * 64);
  Memory& remote = bed().Mem(16 * 64);
  std::vector<Wr> wrs;
  for (uint64_t id = 0; id < 6; ++id) {
    const Target& to = id % 3 == 0 ? one : two;
    ASSERT_CLAUSE("WR-XRC-008", PostTo(to, id) == 0);
    Wr wr = Message(Op::kWriteImm, from, id, to.number);
    wr.rkey = remote.rkey();
    wr.remote = remote.address(id * 64);
    wrs.push_back(wr);
  }
  ASSERT_CLAUSE("WR-XRC-008", Post(pair.a, wrs) == 0);
  const std::vector<ibv_wc> at_one = Await(one.cq, 2), at_two = Await(two.cq, 4);
  EXPECT_CLAUSE("WR-XRC-008", at_one.size() == 2 && at_two.size() == 4)
      << "first queue " << Describe(at_one) << ", second " << Describe(at_two);
  for (const auto* wcs : {&at_one, &at_two}) {
    for (const ibv_wc& wc : *wcs) {
      EXPECT_CLAUSE("WR-XRC-008", wc.status == IBV_WC_SUCCESS &&
                                      wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
                                      (wc.wc_flags & IBV_WC_WITH_IMM) != 0)
          << Describe(*wcs);
      EXPECT_CLAUSE("WR-XRC-008", wc.imm_data == wrs[wc.wr_id].imm) << "immediate of " << wc.wr_id;
      EXPECT_CLAUSE("WR-XRC-008", remote.HasPattern(wc.wr_id * 64, 64, wc.wr_id));
    }
  }
  EXPECT_CLAUSE("WR-XRC-008", Differs(Await(pair.a.send_cq, 6), {0, 1, 2, 3, 4, 5}).empty());
}

}  // namespace
}  // namespace qpexam::conformance
