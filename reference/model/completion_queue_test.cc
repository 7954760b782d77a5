#include "reference/model/completion_queue.h"

#include "reference/model/engine_testing.h"

namespace qpexam::model {
namespace {

class CqTest : public EngineTest {
 protected:
  void SetUp() override {
    a = Make(QpType::kRc);
    b = Make(QpType::kRc);
    Connect(a, b);
    src = Register(256, kAllRights, 1);
    dst = Register(256);
  }
  void WriteOne(uint64_t id) { ASSERT_EQ(Write(a, id, src, 4, dst.mr->rkey, dst.remote()), 0); }
  Qp *a, *b;
  Region src, dst;
};

TEST_F(CqTest, PollTakesUpToN) {  // WR-COMP-015
  for (int i = 0; i < 5; ++i) WriteOne(i);
  Completion out[2];
  EXPECT_EQ(cq->Poll({out, 2}), 2);
  EXPECT_EQ(out[1].wr_id.value, 1u);
  EXPECT_EQ(cq->Poll({out, 0}), 0);
  EXPECT_EQ(Ids(cq), "2:OK 3:OK 4:OK");
  EXPECT_EQ(Ids(cq), "");
}

TEST_F(CqTest, ExtendedPolling) {  // WR-CQX-001, -002, -007
  EXPECT_EQ(cq->StartPoll(), ENOENT);
  EXPECT_EQ(cq->StartPoll(), ENOENT);
  WriteOne(1);
  WriteOne(2);
  EXPECT_EQ(cq->StartPoll(), 0);
  EXPECT_EQ(cq->current().wr_id.value, 1u);
  EXPECT_EQ(cq->NextPoll(), 0);
  EXPECT_EQ(cq->current().wr_id.value, 2u);
  EXPECT_EQ(cq->NextPoll(), ENOENT);
  cq->EndPoll();
  EXPECT_EQ(Ids(cq), "");
  EXPECT_EQ(LintClauses(), "");
}

TEST_F(CqTest, PollingMisuse) {  // WR-CQX-008
  WriteOne(1);
  WriteOne(2);
  cq->EndPoll();
  EXPECT_EQ(LintClauses(), "WR-CQX-008");
  EXPECT_EQ(cq->NextPoll(), EINVAL);
  EXPECT_EQ(LintClauses(), "WR-CQX-008");
  EXPECT_EQ(cq->StartPoll(), 0);
  EXPECT_EQ(cq->StartPoll(), EINVAL);
  EXPECT_EQ(Ids(cq), "");
  EXPECT_EQ(LintClauses(), "WR-CQX-008 WR-CQX-008");
  cq->EndPoll();
  EXPECT_EQ(Ids(cq), "2:OK");
}

TEST_F(CqTest, OverrunEndsTheQueue) {  // WR-COMP-012
  QpInit init = Init(QpType::kRc);
  init.send_cq = device->CreateCq(2, &cq_sink).value;
  a = device->CreateQp(init).value;
  b = Make(QpType::kRc);
  Connect(a, b);
  WriteOne(1);
  WriteOne(2);
  EXPECT_EQ(async.Count(IBV_EVENT_CQ_ERR), 0);
  WriteOne(3);
  EXPECT_EQ(async.Count(IBV_EVENT_CQ_ERR), 1);
  EXPECT_EQ(async.events.back().cq, init.send_cq);
  Completion out;
  EXPECT_EQ(init.send_cq->Poll({&out, 1}), -1);
}

TEST_F(CqTest, OneEventForOneArming) {  // WR-EVT-001
  cq->Arm(Notify::kAny);
  WriteOne(1);
  WriteOne(2);
  EXPECT_EQ(cq_sink.events, 1);
  cq->Arm(Notify::kAny);  // nothing new: no event
  EXPECT_EQ(cq_sink.events, 1);
  WriteOne(3);
  EXPECT_EQ(cq_sink.events, 2);
}

TEST_F(CqTest, SolicitedOnly) {  // WR-EVT-002, -003
  for (int i = 0; i < 4; ++i) Recv(b, i, dst, 0, 64);
  recv_cq->Arm(Notify::kSolicitedOnly);
  cq->Arm(Notify::kSolicitedOnly);
  Send(a, 1, src, 4);
  EXPECT_EQ(recv_sink.events, 0);
  Send(a, 2, src, 4, kSignaled | IBV_SEND_SOLICITED);
  EXPECT_EQ(recv_sink.events, 1);
  EXPECT_EQ(cq_sink.events, 0);
  // Any error counts (X27).
  Write(a, 3, src, 4, Rkey(1), dst.remote());
  EXPECT_EQ(cq_sink.events, 1);
}

TEST_F(CqTest, Resize) {
  for (int i = 0; i < 5; ++i) WriteOne(i);
  EXPECT_EQ(cq->Resize(4).err, EINVAL);
  EXPECT_TRUE(cq->Resize(5).ok());
  EXPECT_EQ(cq->cqe(), 5);
  EXPECT_EQ(Ids(cq), "0:OK 1:OK 2:OK 3:OK 4:OK");
}

TEST_F(CqTest, ADestroyedQpLeavesNothing) {  // WR-COMP-013
  Qp* c = Make(QpType::kRc);
  Qp* d = Make(QpType::kRc);
  Connect(c, d);
  WriteOne(1);
  Write(c, 2, src, 4, dst.mr->rkey, dst.remote());
  WriteOne(3);
  EXPECT_TRUE(device->DestroyQp(c).ok());
  EXPECT_EQ(Ids(cq), "1:OK 3:OK");
  EXPECT_EQ(device->DestroyCq(cq).err, EBUSY);
}

TEST_F(CqTest, ASinkTakesCompletionsOver) {  // hosted providers
  struct Taker : CqSink {
    bool OnCompletion(Cq&, const Completion& c) override {
      taken.push_back(c.wr_id.value);
      return true;
    }
    void OnCqEvent(Cq&) override { ++events; }
    std::vector<uint64_t> taken;
    int events = 0;
  } taker;
  QpInit init = Init(QpType::kRc);
  init.send_cq = device->CreateCq(2, &taker).value;
  init.keeper = QueueKeeper::kProvider;
  init.number = QpNum(0xabcdef);
  a = device->CreateQp(init).value;
  b = Make(QpType::kRc);
  Connect(a, b);
  init.send_cq->Arm(Notify::kAny);
  SendRequest r;
  r.op = Operation::kRdmaWrite;
  r.data = DataKind::kSge;
  r.rkey = dst.mr->rkey;
  r.remote_addr = dst.remote();
  std::vector<Sge> sges(9, Sge{src.addr(), 2, src.mr->lkey});
  r.sge = sges.data();
  for (int i = 0; i < 40; ++i) {
    r.wr_id = WrId(i);
    r.flags = i % 2 == 0 ? kSignaled : 0;
    r.num_sge = i % 9 + 1;
    a->send_queue().PostDecoded(r);
  }
  EXPECT_EQ(taker.taken.size(), 20u);
  EXPECT_EQ(taker.taken.back(), 38u);
  EXPECT_EQ(taker.events, 1);
  EXPECT_EQ(async.Count(IBV_EVENT_CQ_ERR), 0);
  EXPECT_EQ(dst.bytes[17], 1);
}

}  // namespace
}  // namespace qpexam::model
