// The way in from outside of verbs: clock, faults, lints.
#include "reference/provider/control.h"

#include "reference/model/faults.h"
#include "reference/provider/testing.h"

namespace qpexam::provider {
namespace {

class ControlTest : public VerbsTest {
 protected:
  void SetUp() override {
    VerbsTest::SetUp();
    QpWish wish;
    wish.ops = IBV_QP_EX_WITH_SEND;
    a_ = CreateQp(wish);
    b_ = CreateQp(wish);
    Connect(a_.get(), b_.get());
    TakeLints();
  }
  void TearDown() override {
    SetAutomaticClock();
    SetFault("");
    a_.reset();
    b_.reset();
  }
  int Send() {
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(a_.get());
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr_->lkey, RemoteAt(0), 8);
    return ibv_wr_complete(qp);
  }
  QpPtr a_, b_;
};

TEST_F(ControlTest, TheManualClockStandsStill) {
  SetManualClock();
  b_.reset();  // nobody answers: only time ends this
  ASSERT_EQ(Send(), 0);
  const uint64_t before = Fabric().Now();
  for (int i = 0; i < 100000; ++i) ASSERT_TRUE(Empty());
  EXPECT_EQ(Fabric().Now(), before);
  // timeout 8 is 4.096 us * 2^8, tried three times with retry_cnt 2.
  Advance(model::Nanoseconds(1'000'000));
  EXPECT_EQ(Fabric().Now(), before + 1'000'000);
  EXPECT_TRUE(Empty());
  RunUntilIdle();
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_.get(), 1, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(ControlTest, RunUntilIdleEndsWithAnInfiniteRetry) {
  SetManualClock();
  ASSERT_EQ(Send(), 0);  // rnr_retry 7 and no receive
  RunUntilIdle();
  EXPECT_TRUE(Empty());
  ASSERT_EQ(PostRecv(b_.get(), 1, 64, 8), 0);
  RunUntilIdle();
  EXPECT_EQ(Poll(2).size(), 2u);
}

TEST_F(ControlTest, TheModelIsBehindEveryObject) {
  EXPECT_EQ(ModelOf(a_.get()).number().value, a_->qp_num);
  EXPECT_EQ(&ModelOf(a_.get()).device(), &ModelOf(context_.get()));
  EXPECT_EQ(ModelOf(cq_.get()).cqe(), cq_->cqe);
}

TEST_F(ControlTest, FaultsGoOnAndOffByName) {
  EXPECT_FALSE(SetFault("no such fault"));
  ASSERT_FALSE(model::AllFaults().empty());
  for (const model::FaultInfo& fault : model::AllFaults()) {
    ASSERT_TRUE(SetFault(fault.name));
    EXPECT_EQ(model::FaultSwitch::active(), fault.fault);
  }
  EXPECT_TRUE(SetFault(""));
  EXPECT_EQ(model::FaultSwitch::active(), model::Fault::kNone);
}

TEST_F(ControlTest, LintsAreTakenOnce) {
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(a_.get());
  ibv_wr_abort(qp);  // without a start
  std::vector<model::FoundLint> lints = TakeLints();
  ASSERT_EQ(lints.size(), 1u);
  EXPECT_STREQ(lints[0].clause, "WR-CRIT-009");
  EXPECT_TRUE(TakeLints().empty());
}

}  // namespace
}  // namespace qpexam::provider
