// LIM: limits and out-of-range values.

#include <sys/mman.h>

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

class Lim : public Conformance {
 protected:
  // The attributes of RTR -> RTS as BringUp would use them.
  static ibv_qp_attr RtsAttr(const PairOptions& options) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = options.timeout;
    attr.retry_cnt = options.retry_cnt;
    attr.rnr_retry = options.rnr_retry;
    attr.sq_psn = options.psn;
    attr.max_rd_atomic = options.rd_atomic;
    return attr;
  }
  static constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
};

QPX_TEST(Lim, PsnAbove24BitsIsMaskedOrRefused, "WR-LIM-001") {
  PairOptions options;
  options.stop_at = IBV_QPS_RTR;
  options.psn = 0x000001;
  Pair& pair = bed().Connect(options);
  ibv_qp_attr attr = RtsAttr(options);
  attr.sq_psn = 0x1000001;
  const int rc = ibv_modify_qp(pair.a.qp, &attr, kRtsMask);
  if (rc != 0) {
    Record::Current().Variation("WR-LIM-001", "refused");
    EXPECT_CLAUSE("WR-LIM-001", QueryState(pair.a.qp) == IBV_QPS_RTR) << "refused, yet moved";
    return;
  }
  Record::Current().Variation("WR-LIM-001", "masked");
  ibv_qp_attr got{};
  ibv_qp_init_attr init{};
  ASSERT_CLAUSE("WR-LIM-001", ibv_query_qp(pair.a.qp, &got, IBV_QP_SQ_PSN, &init) == 0);
  EXPECT_CLAUSE("WR-LIM-001", got.sq_psn <= 0xffffff) << std::hex << got.sq_psn;
  Traffic traffic(bed(), pair);
  const std::string problem = traffic.Run(traffic.Make(Op::kWrite, 1));
  EXPECT_CLAUSE("WR-LIM-001", problem.empty()) << "traffic with the masked PSN: " << problem;
}

QPX_TEST_P(Lim, PsnWraps, OpsOf(Transport::kRc), "WR-LIM-002") {
  if (!facts().Has(param))
    throw NotApplicable{std::string("the device has no ") + Info(param).name};
  PairOptions options;
  options.ops = Info(param).bit;
  options.psn = 0xfffff0;
  options.small_mtu = true;
  if (param == Op::kLocalInv) options.ops |= Info(Op::kBindMw).bit;
  if (param == Op::kSendInv) options.peer_ops = Bits({Op::kSend, Op::kBindMw});
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  for (uint64_t id = 1; id <= 64; ++id) {
    const std::string problem = traffic.Run(traffic.Make(param, id));
    ASSERT_CLAUSE("WR-LIM-002", problem.empty()) << "request " << id << " of 64: " << problem;
  }
}

QPX_TEST(Lim, FieldsAboveTheirWidth, "WR-LIM-003") {
  struct Case {
    const char* name;
    int mask;
    void (*set)(ibv_qp_attr*);
    unsigned (*get)(const ibv_qp_attr&);
    unsigned max;
  };
  const std::vector<Case> cases = {
      {"timeout", IBV_QP_TIMEOUT, [](ibv_qp_attr* a) { a->timeout = 32; },
       [](const ibv_qp_attr& a) { return unsigned{a.timeout}; }, 31},
      {"retry_cnt", IBV_QP_RETRY_CNT, [](ibv_qp_attr* a) { a->retry_cnt = 8; },
       [](const ibv_qp_attr& a) { return unsigned{a.retry_cnt}; }, 7},
      {"rnr_retry", IBV_QP_RNR_RETRY, [](ibv_qp_attr* a) { a->rnr_retry = 8; },
       [](const ibv_qp_attr& a) { return unsigned{a.rnr_retry}; }, 7},
      {"min_rnr_timer", IBV_QP_MIN_RNR_TIMER, [](ibv_qp_attr* a) { a->min_rnr_timer = 32; },
       [](const ibv_qp_attr& a) { return unsigned{a.min_rnr_timer}; }, 31},
  };
  for (const Case& c : cases) {
    PairOptions options;
    options.stop_at = IBV_QPS_RTR;
    Pair& pair = bed().Connect(options);
    ibv_qp_attr attr = RtsAttr(options);
    attr.min_rnr_timer = options.min_rnr_timer;
    c.set(&attr);
    const int rc = ibv_modify_qp(pair.a.qp, &attr, kRtsMask | c.mask);
    if (rc != 0) {
      Record::Current().Variation("WR-LIM-003", std::string(c.name) + " refused");
      continue;
    }
    ibv_qp_attr got{};
    ibv_qp_init_attr init{};
    ASSERT_CLAUSE("WR-LIM-003", ibv_query_qp(pair.a.qp, &got, c.mask, &init) == 0);
    EXPECT_CLAUSE("WR-LIM-003", c.get(got) <= c.max)
        << c.name << " reads " << c.get(got) << ", above " << c.max;
    Record::Current().Variation("WR-LIM-003", std::string(c.name) + " masked");
  }
}

// A WRITE and a READ that reach past the end of the region or of the address space.
QPX_TEST_P(Lim, RemoteRangePastTheEnd, (std::vector<Op>{Op::kWrite, Op::kRead}), "WR-LIM-004") {
  for (const bool past_memory : {true, false}) {
    PairOptions options;
    options.ops = Bits({param});
    Pair& pair = bed().Connect(options);
    Memory& local = bed().Mem(64);
    Memory& remote = bed().Mem(4096);
    local.Fill(0x11);
    remote.Fill(0x22);
    const std::vector<uint8_t> local_before = local.Copy(), remote_before = remote.Copy();
    Wr wr;
    wr.op = param;
    wr.id = 4;
    wr.sge = {local.sge(0, 8)};
    wr.rkey = remote.rkey();
    wr.remote = past_memory ? ~uint64_t{0} : remote.address(4096 - 4);
    if (Post(pair.a, wr) == 0) {
      const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
      ASSERT_CLAUSE("WR-LIM-004", wcs.size() == 1) << "no completion";
      EXPECT_CLAUSE("WR-LIM-004", wcs[0].status != IBV_WC_SUCCESS) << Describe(wcs);
      EXPECT_SHOULD("WR-LIM-004", wcs[0].status == IBV_WC_REM_ACCESS_ERR) << Describe(wcs);
    }
    clock().Pass(clock().QuietWindow());
    EXPECT_CLAUSE("WR-LIM-004", remote.Copy() == remote_before) << "remote memory changed";
    EXPECT_CLAUSE("WR-LIM-004", local.Copy() == local_before) << "local memory changed";
  }
}

// Counts that do not fit 32 bits, with one mapped element: in a child, which may crash.
QPX_TEST_P(Lim, CountsAbove32BitsAreRefused,
           (std::vector<Setter>{Setter::kSgeList, Setter::kInlineList, Setter::kInline}),
           "WR-LIM-005") {
  for (const std::size_t count :
       {std::size_t{1} << 32, (std::size_t{1} << 32) + 1, std::size_t{1} << 63}) {
    const Setter setter = param;
    const ChildResult child = RunInChild(30, [count, setter](Bed& bed) -> std::string {
      PairOptions options;
      options.ops = Bits({Op::kWrite});
      options.inline_data = 32;
      Pair& pair = bed.Connect(options);
      Memory& local = bed.Mem(64);
      ibv_sge sge = local.sge(0, 8);
      ibv_data_buf buf{local.data(), 8};
      pair.a.ex->wr_id = 1;
      pair.a.ex->wr_flags = IBV_SEND_SIGNALED;
      ibv_wr_start(pair.a.ex);
      ibv_wr_rdma_write(pair.a.ex, local.rkey(), local.address(32));
      if (setter == Setter::kSgeList) ibv_wr_set_sge_list(pair.a.ex, count, &sge);
      if (setter == Setter::kInlineList) ibv_wr_set_inline_data_list(pair.a.ex, count, &buf);
      if (setter == Setter::kInline) ibv_wr_set_inline_data(pair.a.ex, local.data(), count);
      return ibv_wr_complete(pair.a.ex) == 0 ? "accepted" : "refused";
    });
    EXPECT_CLAUSE("WR-LIM-005", child.end == ChildResult::End::kReturned)
        << "with " << count << ": " << child.text;
    EXPECT_CLAUSE("WR-LIM-005", child.text != "accepted") << count << " was truncated";
  }
}

}  // namespace
}  // namespace qpexam::conformance
