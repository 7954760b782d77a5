// Bugs that released versions of libbnxt_re have. Each program is minimal; the oracle knows none of
// them. Builders exist since 56.0. Where one bug makes several findings, the one that is named must
// be among them; what follows from it is not listed.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>

#include "harness/hosted/bnxt_re/bnxt_re_model.h"
#include "harness/hosted/testing/known_findings.h"
#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

const RegisterHostedKind kStatic("bnxt_re_static", MakeBnxtReStaticModel);

class BnxtReKnownTest : public ::testing::Test {
 protected:
  ~BnxtReKnownTest() override {
    if (rig_ == nullptr) return;
    EXPECT_EQ(Text(rig_->provider.oracle().Take()), "") << "not asked for";
  }
  void Open(const char* kind, const KernelOptions& options = {}) {
    rig_ = std::make_unique<Rig>(kind, options);
    std::iota(rig_->memory.begin(), rig_->memory.begin() + 4096, 1);
  }
  void Make(ibv_qp_type type, uint32_t depth = 16, ibv_srq* srq = nullptr) {
    Rig::Shape shape;
    shape.type = type;
    shape.ops = IBV_QP_EX_WITH_SEND;
    if (type == IBV_QPT_RC) {
      shape.ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    }
    shape.depth = depth;
    shape.srq = srq;
    a_ = rig_->MakeQp(shape);
    ASSERT_NE(a_, nullptr);
    rig_->Connect(a_, a_);
    x_ = ibv_qp_to_qp_ex(a_);
  }
  void MakeRc(const char* kind = "bnxt_re") {
    Open(kind);
    Make(IBV_QPT_RC);
  }
  ibv_ah* MakeAh() {
    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.port_num = 1;
    ibv_query_gid(rig_->context, 1, 0, &attr.grh.dgid);
    return ibv_create_ah(rig_->pd, &attr);
  }
  void Start(uint64_t wr_id = 1, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_wr_start(x_);
    x_->wr_id = wr_id;
    x_->wr_flags = flags;
  }
  void Write(uint32_t length = 8) {
    ibv_wr_rdma_write(x_, rig_->mr->rkey, rig_->Address(8192));
    ibv_wr_set_sge(x_, rig_->mr->lkey, rig_->Address(0), length);
  }
  void WriteAlone(uint64_t wr_id = 1, unsigned flags = IBV_SEND_SIGNALED) {
    Start(wr_id, flags);
    Write();
    ASSERT_EQ(ibv_wr_complete(x_), 0);
  }
  // Exactly this, or on a version without it nothing.
  void Expect(const KnownFinding& known) {
    EXPECT_EQ(CheckKnown(known, rig_->provider.oracle().Take()), "");
  }
  // This among what follows from it, or on a version without it nothing.
  void ExpectAmong(const KnownFinding& known) {
    const std::vector<SeamFinding> findings = rig_->provider.oracle().Take();
    bool found = false;
    for (const SeamFinding& f : findings) {
      found |= f.kind == known.kind && f.clause == known.clause &&
               f.what.find(known.what) != std::string::npos;
    }
    EXPECT_EQ(found, HasBug(known)) << known.id << "\n" << Text(findings);
    if (!HasBug(known)) {
      EXPECT_EQ(Text(findings), "") << known.id;
    }
  }

  std::unique_ptr<Rig> rig_;
  ibv_qp* a_ = nullptr;
  ibv_qp_ex* x_ = nullptr;
};

// A request without SGEs keeps no length of what the slot held before, in a list or alone.
TEST_F(BnxtReKnownTest, TheLengthOfARequestWithoutSges) {
  MakeRc();
  ibv_sge sge = rig_->Sge(0, 64);
  for (int i = 0; i < 300; ++i) {
    ibv_send_wr wrs[2] = {};
    for (ibv_send_wr& wr : wrs) {
      wr.sg_list = &sge;
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.wr.rdma.remote_addr = rig_->Address(8192);
      wr.wr.rdma.rkey = rig_->mr->rkey;
    }
    wrs[0].num_sge = 1;
    wrs[0].next = &wrs[1];
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(a_, wrs, &bad), 0);
    ASSERT_EQ(rig_->Poll().size(), 2u);
  }
  Expect({"bnxt_re-01", "", "56.0", "wqe", "WR-BUILD-001", "the header says 64 bytes"});
}

// After RESET the library counts from the first entry again, as the device does.
TEST_F(BnxtReKnownTest, TheIndicesAfterReset) {
  MakeRc();
  for (uint64_t i = 0; i < 3; ++i) WriteAlone(i);
  rig_->Poll();
  ASSERT_EQ(rig_->ToState(a_, IBV_QPS_RESET), 0);
  rig_->Connect(a_, a_);
  WriteAlone(7);
  std::vector<ibv_wc> all = rig_->Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].wr_id, 7u);
  Expect({"bnxt_re-20", "", "56.0", "cqe", "WR-SAMPLE-001", "wr_id"});
}

// Only the last request of a region gets its opcode and size. Where that is mended, all are found
// again where the first is.
TEST_F(BnxtReKnownTest, ARegionOfTwo) {
  MakeRc();
  Start();
  Write();
  Write();
  ibv_wr_complete(x_);
  rig_->Poll();
  const KnownFinding headers = {"bnxt_re-26",      "", "65.0", "wqe", "WR-SAMPLE-002",
                                "a WQE of 0 slots"};
  if (HasBug(headers)) {
    ExpectAmong(headers);
  } else {
    Expect({"bnxt_re-batch-table", "", "", "wqe", "WR-BUILD-001",
            "the table of what to send again has slot 0 for the request in slot 3"});
  }
}

// In static mode each begins 8 slots behind the one before; the builders leave out none.
TEST_F(BnxtReKnownTest, ARegionOfTwoInStaticMode) {
  MakeRc("bnxt_re_static");
  Start();
  Write();
  Write();
  ibv_wr_complete(x_);
  rig_->Poll();
  ExpectAmong(
      {"bnxt_re-batch-static", "", "", "wqe", "WR-SAMPLE-002", "a WQE of 0 slots, where 8"});
}

// The setters of inline data do not say in the header that it is.
TEST_F(BnxtReKnownTest, InlineData) {
  MakeRc();
  Start();
  ibv_wr_rdma_write(x_, rig_->mr->rkey, rig_->Address(8192));
  ibv_wr_set_inline_data(x_, rig_->memory.data(), 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_->Poll();
  Expect({"bnxt_re-inline-flag", "", "", "wqe", "WR-SAMPLE-007", "the WQE has SGEs"});
}

// An aborted region has taken its packet numbers and its entry of the table.
TEST_F(BnxtReKnownTest, AnAbortedRegionLeavesTheTable) {
  MakeRc();
  Start();
  Write();
  ibv_wr_abort(x_);
  WriteAlone(1);
  WriteAlone(2);
  rig_->Poll();
  Expect({"bnxt_re-abort-table", "", "", "wqe", "WR-BUILD-001",
          "the table of what to send again has slot 0 for the request in slot 3"});
}
TEST_F(BnxtReKnownTest, AnAbortedRegionLeavesTheTableInStaticMode) {
  MakeRc("bnxt_re_static");
  Start();
  Write();
  ibv_wr_abort(x_);
  WriteAlone(1);
  rig_->Poll();
  Expect({"bnxt_re-abort-table", "", "", "wqe", "WR-BUILD-001",
          "the table of what to send again has packets"});
}

// The length of a datagram is laid over what the slot held a lap before.
TEST_F(BnxtReKnownTest, TheLengthOfADatagramInTheSecondLap) {
  Open("bnxt_re_static");
  Make(IBV_QPT_UD);
  ibv_ah* ah = MakeAh();
  ASSERT_NE(ah, nullptr);
  for (int i = 0; i < 16 + 129 + 1; ++i) {
    Start();
    ibv_wr_send(x_);
    ibv_wr_set_ud_addr(x_, ah, a_->qp_num, 0x1234);
    ibv_wr_set_sge(x_, rig_->mr->lkey, rig_->Address(0), i < 16 + 129 ? 8 : 16);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    rig_->Poll();
  }
  Expect({"bnxt_re-ud-second-lap", "", "", "wqe", "WR-BUILD-001",
          "the header says 24 bytes, the SGEs have 16"});
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// The error of a region is kept, and no later one can be completed.
TEST_F(BnxtReKnownTest, ARegionAfterOneThatFailed) {
  MakeRc();
  Start();
  ibv_wr_atomic_fetch_add(x_, rig_->mr->rkey, rig_->Address(8192), 1);
  ibv_sge list[2] = {rig_->Sge(16384, 4), rig_->Sge(16400, 4)};
  ibv_wr_set_sge_list(x_, 2, list);
  EXPECT_NE(ibv_wr_complete(x_), 0);
  Start();
  Write();
  const int rc = ibv_wr_complete(x_);
  EXPECT_EQ(rc != 0, HasBug({"bnxt_re-error-stays", "", "", "", "", ""})) << rc;
}

// An error CQE covers the unsignaled requests before the one that failed; the library takes it for
// the first of them, and has the device's error of the other left over as a flush.
TEST_F(BnxtReKnownTest, AnErrorAfterAnUnsignaledRequest) {
  MakeRc();
  WriteAlone(1, 0);
  Start(2);
  ibv_wr_rdma_write(x_, rig_->mr->rkey ^ 0x100, rig_->Address(8192));
  ibv_wr_set_sge(x_, rig_->mr->lkey, rig_->Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> all = rig_->Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].wr_id, 1u);
  EXPECT_EQ(all[0].status, IBV_WC_REM_ACCESS_ERR);
  ExpectAmong({"bnxt_re-error-of-the-first", "", "", "cqe", "WR-SAMPLE-001",
               "wr_id is 0x1, the CQE has 0x2"});
}

// Of the high bits of a source QP number the library keeps two.
TEST_F(BnxtReKnownTest, TheSourceOfADatagram) {
  KernelOptions options;
  options.freedom.first_qp_number = 0x21000;
  Open("bnxt_re", options);
  Make(IBV_QPT_UD);
  ibv_ah* ah = MakeAh();
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(rig_->Receive(a_, 5, 8192, 64), 0);
  Start();
  ibv_wr_send(x_);
  ibv_wr_set_ud_addr(x_, ah, a_->qp_num, 0x1234);
  ibv_wr_set_sge(x_, rig_->mr->lkey, rig_->Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(rig_->Poll().size(), 2u);
  Expect({"bnxt_re-ud-source", "", "", "cqe", "WR-UD-005", "src_qp is another QP's"});
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// Where the library would crash, a process of its own does. Only where death tests can be trusted
// to fork: a process of one thread, as this one is.
#if !defined(__SANITIZE_THREAD__)

// The builder notes that the queue is full, and the setter goes on with a header that is none.
TEST_F(BnxtReKnownTest, ARegionOnAFullQueue) {
  MakeRc();
  for (int i = 0; i < 300; ++i) {
    ibv_sge sge = rig_->Sge(0, 8);
    ibv_send_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = rig_->Address(8192);
    wr.wr.rdma.rkey = rig_->mr->rkey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(a_, &wr, &bad) != 0) break;
  }
  Start();
  EXPECT_DEATH(Write(), "");
  ibv_wr_abort(x_);
}

// A QP with an SRQ has no receive queue of its own; before 65.0 the library flushes it nonetheless.
TEST_F(BnxtReKnownTest, AFlushOfAQpWithAnSrq) {
  Open("bnxt_re");
  ibv_srq_init_attr attr = {};
  attr.attr.max_wr = 8;
  attr.attr.max_sge = 2;
  ibv_srq* srq = ibv_create_srq(rig_->pd, &attr);
  ASSERT_NE(srq, nullptr);
  Make(IBV_QPT_RC, 16, srq);
  ASSERT_EQ(rig_->ToState(a_, IBV_QPS_ERR), 0);
  WriteAlone();
  if (HasBug({"bnxt_re-srq-flush", "", "65.0", "", "", ""})) {
    EXPECT_DEATH(rig_->Poll(), "");
  } else {
    EXPECT_EQ(rig_->Poll().size(), 1u);
  }
  rig_->Destroy(a_);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

#endif

}  // namespace
}  // namespace qpexam::hosted
