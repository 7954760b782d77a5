// CQX: polling an extended CQ (ibv_create_cq_ex(3)).

#include <cerrno>
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

constexpr uint64_t kUsual =
    IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP;

class Cqx : public Conformance {
 protected:
  ibv_cq_ex* TryCqEx(uint32_t depth, uint64_t wc_flags) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = depth;
    attr.wc_flags = wc_flags;
    ibv_cq_ex* cq = ibv_create_cq_ex(bed().context(), &attr);
    if (cq != nullptr) {
      bed().Own(cq, [cq] { return ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); });
    }
    return cq;
  }
  ibv_cq_ex* CqEx(uint32_t depth, uint64_t wc_flags) {
    ibv_cq_ex* cq = TryCqEx(depth, wc_flags);
    if (cq == nullptr) throw NotApplicable{"ibv_create_cq_ex refuses the usual fields"};
    return cq;
  }
  // An RC pair whose requester's completions go to `send` and whose responder's to `recv`.
  Pair& PairOn(ibv_cq_ex* send, ibv_cq_ex* recv = nullptr, uint32_t depth = 16) {
    PairOptions options;
    options.send_wr = depth;
    options.send_cq = ibv_cq_ex_to_cq(send);
    if (recv != nullptr) options.recv_cq = ibv_cq_ex_to_cq(recv);
    return bed().Connect(options);
  }
  static int Start(ibv_cq_ex* cq) {
    ibv_poll_cq_attr attr{};
    return ibv_start_poll(cq, &attr);
  }
  // Waits until a poll can be started; the caller ends it.
  static bool StartWithin(ibv_cq_ex* cq, Duration limit = 20s) {
    return clock().Until(clock().Limit(limit), [&] { return Start(cq) == 0; });
  }
  // One whole batch of what is there: the ids, all of which must be successes.
  static std::vector<uint64_t> Batch(ibv_cq_ex* cq) {
    std::vector<uint64_t> ids;
    if (Start(cq) != 0) return ids;
    int rc = 0;
    do {
      ids.push_back(cq->wr_id);
      rc = ibv_next_poll(cq);
    } while (rc == 0);
    ibv_end_poll(cq);
    return ids;
  }
  static std::vector<uint64_t> BatchesOf(ibv_cq_ex* cq, std::size_t count) {
    std::vector<uint64_t> ids;
    clock().Until(clock().Limit(20s), [&] {
      for (const uint64_t id : Batch(cq)) ids.push_back(id);
      return ids.size() >= count;
    });
    return ids;
  }
};

QPX_TEST(Cqx, EmptyThenOneThenEmpty, "WR-CQX-001") {
  ibv_cq_ex* cq = CqEx(64, kUsual);
  Pair& pair = PairOn(cq);
  Traffic traffic(bed(), pair);
  // Twice: the first refusal must have released whatever it took.
  EXPECT_CLAUSE("WR-CQX-001", Start(cq) == ENOENT) << "start_poll on an empty CQ";
  EXPECT_CLAUSE("WR-CQX-001", Start(cq) == ENOENT) << "the second start_poll on an empty CQ";

  const Flight flight = traffic.Make(Op::kWrite, 0x1122334455667788u);
  ASSERT_CLAUSE("WR-CQX-001", Post(pair.a, flight.wr) == 0);
  ASSERT_CLAUSE("WR-CQX-001", StartWithin(cq)) << "no completion of a good WRITE";
  EXPECT_CLAUSE("WR-CQX-001", cq->wr_id == flight.wr.id) << std::hex << cq->wr_id;
  EXPECT_CLAUSE("WR-CQX-001", cq->status == IBV_WC_SUCCESS) << ibv_wc_status_str(cq->status);
  EXPECT_CLAUSE("WR-CQX-001", ibv_wc_read_opcode(cq) == IBV_WC_RDMA_WRITE);
  EXPECT_CLAUSE("WR-CQX-001", ibv_wc_read_qp_num(cq) == pair.a.qp->qp_num);
  ibv_end_poll(cq);
  EXPECT_CLAUSE("WR-CQX-001", Start(cq) == ENOENT) << "the completion was consumed";
}

QPX_TEST(Cqx, NextPollEndsABatchWithoutLoss, "WR-CQX-002") {
  ibv_cq_ex* cq = CqEx(64, kUsual);
  Pair& pair = PairOn(cq);
  Traffic traffic(bed(), pair);
  uint64_t id = 1;
  for (int round = 0; round < 8; ++round) {
    const uint64_t first = id;
    std::vector<Flight> flights;
    std::vector<Wr> wrs;
    for (int i = 0; i <= round % 3; ++i) {
      flights.push_back(traffic.Make(Op::kWrite, id++));
      wrs.push_back(flights.back().wr);
    }
    ASSERT_CLAUSE("WR-CQX-002", Post(pair.a, wrs) == 0);
    // Every completion of the round, each batch walked until next_poll says ENOENT.
    std::vector<uint64_t> ids = BatchesOf(cq, wrs.size());
    ASSERT_CLAUSE("WR-CQX-002", ids.size() == wrs.size())
        << ids.size() << " completions of " << wrs.size() << " in round " << round;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_CLAUSE("WR-CQX-002", ids[i] == first + i) << "id " << ids[i] << " in place " << i;
    }
    ASSERT_CLAUSE("WR-CQX-002", Start(cq) == ENOENT) << "a completion came twice";
  }
}

QPX_TEST(Cqx, NextPollSaysNoEntryAtTheEnd, "WR-CQX-002") {
  ibv_cq_ex* cq = CqEx(64, kUsual);
  Pair& pair = PairOn(cq);
  Traffic traffic(bed(), pair);
  for (uint64_t id = 1; id <= 20; ++id) {
    ASSERT_CLAUSE("WR-CQX-002", Post(pair.a, traffic.Make(Op::kWrite, id).wr) == 0);
    ASSERT_CLAUSE("WR-CQX-002", StartWithin(cq));
    EXPECT_CLAUSE("WR-CQX-002", cq->wr_id == id);
    EXPECT_CLAUSE("WR-CQX-002", ibv_next_poll(cq) == ENOENT) << "one completion, then the next";
    ibv_end_poll(cq);
    ASSERT_CLAUSE("WR-CQX-002", Start(cq) == ENOENT)
        << "a completion after ENOENT and end_poll (a repeat, or the CQ's lock is lost)";
  }
}

QPX_TEST(Cqx, UnknownAttributesAreRefused, "WR-CQX-003") {
  ibv_cq_ex* cq = CqEx(64, kUsual);
  Pair& pair = PairOn(cq);
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-CQX-003", Post(pair.a, traffic.Make(Op::kWrite, 5).wr) == 0);
  // The completion is there once a plain start sees it; it is left in the CQ by looking through
  // a later request's arrival instead of consuming it.
  clock().Pass(10ms);
  ibv_poll_cq_attr attr{};
  attr.comp_mask = 1;
  const int rc = ibv_start_poll(cq, &attr);
  EXPECT_CLAUSE("WR-CQX-003", rc != 0) << "start_poll accepts an unknown comp_mask bit";
  if (rc == 0) {
    ibv_end_poll(cq);
    return;
  }
  ASSERT_CLAUSE("WR-CQX-003", StartWithin(cq)) << "the refused start_poll lost the completion";
  EXPECT_CLAUSE("WR-CQX-003", cq->wr_id == 5);
  ibv_end_poll(cq);
}

QPX_TEST(Cqx, EverySubsetOfFieldsReadsRight, "WR-CQX-004") {
  const std::vector<uint64_t> fields = {IBV_WC_EX_WITH_BYTE_LEN,      IBV_WC_EX_WITH_IMM,
                                        IBV_WC_EX_WITH_QP_NUM,        IBV_WC_EX_WITH_SRC_QP,
                                        IBV_WC_EX_WITH_SLID,          IBV_WC_EX_WITH_SL,
                                        IBV_WC_EX_WITH_DLID_PATH_BITS};
  int subsets = 0;
  for (unsigned subset = 0; subset < 1u << fields.size(); ++subset) {
    uint64_t wc_flags = 0;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (subset >> i & 1) wc_flags |= fields[i];
    }
    ibv_cq_ex* cq = TryCqEx(16, wc_flags);
    if (cq == nullptr) continue;
    ++subsets;
    PairOptions options;
    options.ops = Bits({Op::kSendImm});
    options.recv_cq = ibv_cq_ex_to_cq(cq);
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair, 2);
    const Flight flight = traffic.Make(Op::kSendImm, 77, Shape{Setter::kSge, 24, 1});
    ASSERT_CLAUSE("WR-CQX-004", Post(pair.a, flight.wr) == 0);
    ASSERT_CLAUSE("WR-CQX-004", StartWithin(cq)) << "no receive completion";
    EXPECT_CLAUSE("WR-CQX-004", cq->wr_id == 77);
    EXPECT_CLAUSE("WR-CQX-004", cq->status == IBV_WC_SUCCESS);
    EXPECT_CLAUSE("WR-CQX-004", ibv_wc_read_opcode(cq) == IBV_WC_RECV);
    EXPECT_CLAUSE("WR-CQX-004", (ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM) != 0);
    if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN) {
      EXPECT_CLAUSE("WR-CQX-004", ibv_wc_read_byte_len(cq) == 24) << ibv_wc_read_byte_len(cq);
    }
    if (wc_flags & IBV_WC_EX_WITH_IMM) {
      EXPECT_CLAUSE("WR-CQX-004", ibv_wc_read_imm_data(cq) == flight.wr.imm);
    }
    if (wc_flags & IBV_WC_EX_WITH_QP_NUM) {
      EXPECT_CLAUSE("WR-CQX-004", ibv_wc_read_qp_num(cq) == pair.b.qp->qp_num);
    }
    ibv_end_poll(cq);
    Await(pair.a.send_cq, 1);
    bed().Destroy(pair.a.qp);
    bed().Destroy(pair.b.qp);
  }
  if (subsets == 0) throw NotApplicable{"ibv_create_cq_ex refuses every set of fields"};
}

// A message with an immediate and one without, read in one batch where both are there.
QPX_TEST(Cqx, FlagsAreThoseOfTheCurrentCompletion, "WR-CQX-004") {
  ibv_cq_ex* cq = CqEx(16, kUsual);
  PairOptions options;
  options.ops = Bits({Op::kSend, Op::kSendImm});
  options.recv_cq = ibv_cq_ex_to_cq(cq);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  std::vector<Wr> wrs;
  for (uint64_t id = 1; id <= 6; ++id) {
    wrs.push_back(traffic.Make(id % 2 == 1 ? Op::kSendImm : Op::kSend, id).wr);
  }
  ASSERT_CLAUSE("WR-CQX-004", Post(pair.a, wrs) == 0);
  ASSERT_CLAUSE("WR-CQX-004", Await(pair.a.send_cq, 6).size() == 6);
  clock().Pass(10ms);  // the receives are there, as well
  uint64_t next = 1;
  clock().Until(clock().Limit(20s), [&] {
    if (Start(cq) != 0) return false;
    do {
      const bool with_imm = (ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM) != 0;
      EXPECT_CLAUSE("WR-CQX-004", cq->wr_id == next) << cq->wr_id << " in place of " << next;
      EXPECT_CLAUSE("WR-CQX-004", with_imm == (next % 2 == 1))
          << "message " << next << (with_imm ? " has" : " lacks") << " IBV_WC_WITH_IMM";
      ++next;
    } while (ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
    return next > 6;
  });
  EXPECT_CLAUSE("WR-CQX-004", next == 7) << next - 1 << " of 6 completions";
}

QPX_TEST(Cqx, InvalidatedKeyInHostOrder, "WR-CQX-005") {
  ibv_cq_ex* cq = CqEx(16, kUsual);
  PairOptions options;
  options.ops = Bits({Op::kSendInv});
  options.peer_ops = Bits({Op::kSend, Op::kBindMw});
  options.recv_cq = ibv_cq_ex_to_cq(cq);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const Flight flight = traffic.Make(Op::kSendInv, 3);
  ASSERT_CLAUSE("WR-CQX-005", Post(pair.a, flight.wr) == 0);
  ASSERT_CLAUSE("WR-CQX-005", StartWithin(cq)) << "no receive completion";
  EXPECT_CLAUSE("WR-CQX-005", cq->status == IBV_WC_SUCCESS) << ibv_wc_status_str(cq->status);
  EXPECT_CLAUSE("WR-CQX-005", (ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_INV) != 0);
  EXPECT_CLAUSE("WR-CQX-005", ibv_wc_read_invalidated_rkey(cq) == flight.wr.rkey)
      << std::hex << ibv_wc_read_invalidated_rkey(cq) << " instead of " << flight.wr.rkey;
  ibv_end_poll(cq);
  Await(pair.a.send_cq, 1);
}

QPX_TEST(Cqx, UnsupportedFieldsAreRefused, "WR-CQX-006") {
  for (int bit = 0; bit <= 40; ++bit) {
    if (bit > 12 && bit < 40) continue;  // 0..12 are or may be defined; 40 never is
    const uint64_t flag = uint64_t{1} << bit;
    ibv_cq_ex* cq = TryCqEx(16, flag);
    if (cq == nullptr) continue;
    const auto there = [&](uint64_t which, bool pointer) {
      if (flag != which) return;
      EXPECT_CLAUSE("WR-CQX-006", pointer) << "wc_flags bit " << bit << " granted without a reader";
    };
    there(IBV_WC_EX_WITH_BYTE_LEN, cq->read_byte_len != nullptr);
    there(IBV_WC_EX_WITH_IMM, cq->read_imm_data != nullptr);
    there(IBV_WC_EX_WITH_QP_NUM, cq->read_qp_num != nullptr);
    there(IBV_WC_EX_WITH_SRC_QP, cq->read_src_qp != nullptr);
    there(IBV_WC_EX_WITH_SLID, cq->read_slid != nullptr);
    there(IBV_WC_EX_WITH_SL, cq->read_sl != nullptr);
    there(IBV_WC_EX_WITH_DLID_PATH_BITS, cq->read_dlid_path_bits != nullptr);
    there(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, cq->read_completion_ts != nullptr);
    there(IBV_WC_EX_WITH_CVLAN, cq->read_cvlan != nullptr);
    there(IBV_WC_EX_WITH_FLOW_TAG, cq->read_flow_tag != nullptr);
    there(IBV_WC_EX_WITH_TM_INFO, cq->read_tm_info != nullptr);
    there(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
          cq->read_completion_wallclock_ns != nullptr);
    EXPECT_CLAUSE("WR-CQX-006", bit != 40) << "an undefined wc_flags bit is granted";
  }
}

QPX_TEST(Cqx, PlainPollSeesTheSameStream, "WR-CQX-007") {
  ibv_cq_ex* cq = CqEx(64, kUsual);
  Pair& pair = PairOn(cq);
  Traffic traffic(bed(), pair);
  const int count = Repetitions(1000);
  uint64_t next_id = 1, next_seen = 1;
  for (int i = 0; i < count; ++i) {
    std::vector<Wr> wrs;
    for (int k = 0; k < 2; ++k) wrs.push_back(traffic.Make(Op::kWrite, next_id++).wr);
    ASSERT_CLAUSE("WR-CQX-007", Post(pair.a, wrs) == 0);
    // One by ibv_poll_cq, the other by start/end.
    const std::vector<ibv_wc> plain = Await(ibv_cq_ex_to_cq(cq), 1);
    // Await may have taken both.
    for (const ibv_wc& wc : plain) {
      ASSERT_CLAUSE("WR-CQX-007", wc.wr_id == next_seen) << wc.wr_id << ", expected " << next_seen;
      ++next_seen;
    }
    while (next_seen < next_id) {
      ASSERT_CLAUSE("WR-CQX-007", StartWithin(cq)) << "completion " << next_seen << " is missing";
      EXPECT_CLAUSE("WR-CQX-007", cq->wr_id == next_seen) << cq->wr_id;
      ++next_seen;
      ibv_end_poll(cq);
    }
  }
  EXPECT_CLAUSE("WR-CQX-007", PollNow(ibv_cq_ex_to_cq(cq)).empty());
}

QPX_TEST(Cqx, MisuseIsReported, "WR-CQX-008") {
  ibv_cq_ex* cq = CqEx(64, kUsual);
  ReferenceOnly();
  ibv_end_poll(cq);
  EXPECT_CLAUSE("WR-CQX-008", Linted("WR-CQX-008")) << "end_poll without start_poll";

  Pair& pair = PairOn(cq);
  Traffic traffic(bed(), pair);
  std::vector<Wr> wrs = {traffic.Make(Op::kWrite, 1).wr, traffic.Make(Op::kWrite, 2).wr};
  ASSERT_CLAUSE("WR-CQX-008", Post(pair.a, wrs) == 0);
  ASSERT_CLAUSE("WR-CQX-008", StartWithin(cq));
  ReferenceOnly();
  EXPECT_CLAUSE("WR-CQX-008", Start(cq) != 0) << "start_poll inside a poll";
  EXPECT_CLAUSE("WR-CQX-008", Linted("WR-CQX-008")) << "start_poll inside a poll";
  ibv_end_poll(cq);
}

QPX_TEST(Cqx, ABatchIsReleasedByEndPoll, "WR-CQX-009") {
  ibv_cq_ex* cq = CqEx(16, kUsual);
  Pair& pair = PairOn(cq, nullptr, 16);
  Traffic traffic(bed(), pair);
  const int rounds = Repetitions(1000);
  uint64_t id = 1;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Wr> wrs;
    for (int i = 0; i < 16; ++i) wrs.push_back(traffic.Make(Op::kWrite, id + i).wr);
    ASSERT_CLAUSE("WR-CQX-009", Post(pair.a, wrs) == 0) << "round " << round;
    const std::vector<uint64_t> ids = BatchesOf(cq, 16);
    ASSERT_CLAUSE("WR-CQX-009", ids.size() == 16) << ids.size() << " in round " << round;
    for (int i = 0; i < 16; ++i) EXPECT_CLAUSE("WR-CQX-009", ids[i] == id + i);
    id += 16;
  }
  // An overrun would have moved the QP to ERR or raised CQ_ERR; a good request shows neither did.
  const std::string problem = [&] {
    const Flight flight = traffic.Make(Op::kWrite, id);
    if (Post(pair.a, flight.wr) != 0) return std::string("a request after the rounds is refused");
    return BatchesOf(cq, 1) == std::vector<uint64_t>{id} ? std::string()
                                                         : std::string("no completion any more");
  }();
  EXPECT_CLAUSE("WR-CQX-009", problem.empty()) << problem;
}

QPX_TEST(Cqx, WallclockMayBeBusyForAMoment, "WR-CQX-010") {
  ibv_cq_ex* cq = TryCqEx(64, kUsual | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
  if (cq == nullptr) throw NotApplicable{"no wall-clock timestamps"};
  Pair& pair = PairOn(cq);
  Traffic traffic(bed(), pair);
  bool busy = false;
  for (uint64_t id = 1; id <= 100; ++id) {
    ASSERT_CLAUSE("WR-CQX-010", Post(pair.a, traffic.Make(Op::kWrite, id).wr) == 0);
    const bool started = clock().Until(clock().Limit(1s), [&] {
      const int rc = Start(cq);
      busy = busy || rc == EBUSY;
      return rc == 0;
    });
    ASSERT_CLAUSE("WR-CQX-010", started) << "start_poll stays busy or the completion is lost";
    EXPECT_CLAUSE("WR-CQX-010", cq->wr_id == id) << cq->wr_id << " instead of " << id;
    ibv_end_poll(cq);
  }
  Record::Current().Variation("WR-CQX-010", busy ? "EBUSY was seen" : "never EBUSY");
}

}  // namespace
}  // namespace qpexam::conformance
