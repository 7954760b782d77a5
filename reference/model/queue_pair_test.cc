// Creation, the state machine, retries, losses.
#include "reference/model/queue_pair.h"

#include "reference/model/engine_testing.h"

namespace qpexam::model {
namespace {

class QpTest : public EngineTest {
 protected:
  void SetUp() override {
    src = Register(4096, kAllRights, 0x5a);
    dst = Register(4096);
  }
  void Pair() {
    a = Make(QpType::kRc);
    b = Make(QpType::kRc);
    Connect(a, b);
  }
  Status Modify(Qp* qp, ibv_qp_state to, int mask = IBV_QP_STATE) {
    ibv_qp_attr attr = Attr(0);
    attr.qp_state = to;
    attr.en_sqd_async_notify = 1;
    return qp->Modify(attr, mask);
  }
  ibv_qp_attr Query(Qp* qp) {
    ibv_qp_attr attr;
    qp->Query(&attr, nullptr);
    return attr;
  }
  Qp *a = nullptr, *b = nullptr;
  Region src, dst;
};

TEST_F(QpTest, CreationHoldsToTableAAndTheLimits) {  // WR-CREATE-002, -003, -004, -007, -015
  for (const OperationInfo& info : AllOperations()) {
    for (QpType type :
         {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kXrcSend, QpType::kRawPacket}) {
      QpInit init = Init(type);
      init.send_ops = info.send_ops_flag;
      const bool offered = (info.reference_types & MaskOf(type)) != 0;
      EXPECT_EQ(device->CreateQp(init).ok(), offered) << info.name << ' ' << Name(type);
    }
  }
  QpInit init = Init(QpType::kRc);
  init.send_ops = uint64_t{1} << 13;
  EXPECT_EQ(device->CreateQp(init).status.err, EINVAL);
  init = Init(QpType::kRc);
  init.pd = nullptr;
  EXPECT_EQ(device->CreateQp(init).status.err, EINVAL);
  init = Init(QpType::kRc);
  init.cap.max_send_sge = device->limits().max_sge + 1;
  EXPECT_EQ(device->CreateQp(init).status.err, EINVAL);
  init.cap.max_send_sge = device->limits().max_sge;
  const Qp* qp = device->CreateQp(init).value;
  EXPECT_EQ(qp->init().cap.max_send_sge, device->limits().max_sge);
  EXPECT_EQ(qp->init().cap.max_send_wr, 16u);
  init = Init(QpType::kRc);
  SrqInit srq;
  srq.pd = pd;
  srq.max_wr = 4;
  init.srq = device->CreateSrq(srq).value;
  init.cap.max_recv_wr = ~0u;
  init.cap.max_recv_sge = ~0u;
  EXPECT_TRUE(device->CreateQp(init).ok());
}

TEST_F(QpTest, RefusedModifyChangesNothing) {  // WR-STATE-008..-010
  a = Make(QpType::kRc);
  EXPECT_EQ(Modify(a, IBV_QPS_RTS).err, EINVAL);
  EXPECT_EQ(Modify(a, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PORT).err, EINVAL);
  EXPECT_EQ(Query(a).qp_state, IBV_QPS_RESET);
  Step(a, IBV_QPS_INIT, 0);
  const unsigned before = Query(a).qp_access_flags;
  ibv_qp_attr attr = Attr(0);
  attr.qp_access_flags = 0;
  EXPECT_EQ(a->Modify(attr, IBV_QP_ACCESS_FLAGS | IBV_QP_TIMEOUT).err, EINVAL);
  EXPECT_EQ(Query(a).qp_access_flags, before);
  EXPECT_TRUE(a->Modify(attr, IBV_QP_ACCESS_FLAGS).ok());  // WR-STATE-017
  EXPECT_EQ(Query(a).qp_access_flags, 0u);
}

TEST_F(QpTest, Values) {  // WR-LIM-001, -003
  a = Make(QpType::kRc);
  Step(a, IBV_QPS_INIT, 0);
  ibv_qp_attr attr = Attr(1);
  attr.qp_state = IBV_QPS_RTR;
  attr.rq_psn = 0x1000001;
  const int rtr = IBV_QP_STATE | FindTransition(QpType::kRc, IBV_QPS_INIT, IBV_QPS_RTR)->required;
  attr.min_rnr_timer = 32;
  EXPECT_EQ(a->Modify(attr, rtr).err, EINVAL);
  attr.min_rnr_timer = 31;
  EXPECT_TRUE(a->Modify(attr, rtr).ok());
  EXPECT_EQ(Query(a).rq_psn, 1u);
  attr.qp_state = IBV_QPS_RTS;
  const int rts = IBV_QP_STATE | FindTransition(QpType::kRc, IBV_QPS_RTR, IBV_QPS_RTS)->required;
  for (int field = 0; field < 3; ++field) {
    ibv_qp_attr wide = attr;
    (field == 0 ? wide.timeout : field == 1 ? wide.retry_cnt : wide.rnr_retry) = 40;
    EXPECT_EQ(a->Modify(wide, rts).err, EINVAL);
  }
  EXPECT_TRUE(a->Modify(attr, rts).ok());
}

TEST_F(QpTest, ErrFlushesBothQueuesInOrder) {  // WR-STATE-006
  Pair();
  for (int i = 0; i < 3; ++i) Send(a, i, src, 4, i == 1 ? kSignaled : 0);
  for (int i = 0; i < 3; ++i) Recv(a, 10 + i, dst, 0, 8);
  EXPECT_TRUE(Modify(a, IBV_QPS_ERR).ok());
  EXPECT_EQ(Ids(cq), "0:FLUSH 1:FLUSH 2:FLUSH");
  EXPECT_EQ(Ids(recv_cq), "10:FLUSH 11:FLUSH 12:FLUSH");
  Recv(a, 13, dst, 0, 8);  // WR-STATE-014
  EXPECT_EQ(Ids(recv_cq), "13:FLUSH");
}

TEST_F(QpTest, ResetForgets) {  // WR-STATE-007, WR-ATOM-011
  Pair();
  Send(a, 1, src, 4);
  Recv(a, 2, dst, 0, 8);
  Write(b, 3, src, 4, dst.mr->rkey, dst.remote());
  EXPECT_TRUE(Modify(a, IBV_QPS_RESET).ok());
  EXPECT_TRUE(Modify(b, IBV_QPS_RESET).ok());
  EXPECT_EQ(Recv(a, 4, dst, 0, 8).err, EINVAL);
  Connect(a, b);
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "");
  for (int i = 0; i < 16; ++i) EXPECT_EQ(Write(a, i, src, 4, dst.mr->rkey, dst.remote()), 0);
  EXPECT_EQ(Poll(cq).size(), 16u);
  EXPECT_EQ(Ids(recv_cq), "");
}

TEST_F(QpTest, SqdHoldsWhatIsNewAndSaysWhenItIsDrained) {  // WR-STATE-002, -003
  rnr_retry = 7;
  Pair();
  for (int i = 0; i < 4; ++i) Send(a, i, src, 4);
  EXPECT_TRUE(Modify(a, IBV_QPS_SQD, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY).ok());
  EXPECT_EQ(Query(a).sq_draining, 1);
  for (int i = 0; i < 4; ++i) Recv(b, i, dst, 0, 8);
  fabric.RunUntilIdle();
  EXPECT_EQ(async.Count(IBV_EVENT_SQ_DRAINED), 1);
  EXPECT_EQ(Query(a).sq_draining, 0);
  EXPECT_EQ(Poll(cq).size(), 4u);
  EXPECT_EQ(Write(a, 5, src, 4, dst.mr->rkey, dst.remote(100)), 0);
  fabric.RunUntilIdle();
  EXPECT_EQ(dst.bytes[100], 0);
  EXPECT_TRUE(Modify(a, IBV_QPS_RTS).ok());
  EXPECT_EQ(Ids(cq), "5:OK");
  EXPECT_EQ(dst.bytes[100], 0x5a);
}

TEST_F(QpTest, SqdWithoutNotificationRaisesNothing) {
  Pair();
  EXPECT_TRUE(Modify(a, IBV_QPS_SQD).ok());
  EXPECT_EQ(Query(a).sq_draining, 0);
  EXPECT_EQ(async.Count(IBV_EVENT_SQ_DRAINED), 0);
}

TEST_F(QpTest, SqeOfAnUnreliableQpRecovers) {  // WR-STATE-004, WR-RESP-010
  a = Make(QpType::kUc);
  b = Make(QpType::kUc);
  Connect(a, b);
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.Send(WrId(1), 0);
  sq.SetSge(Lkey(1), src.addr(), 4);
  sq.Send(WrId(2), 0);
  sq.SetSge(src.mr->lkey, src.addr(), 4);
  EXPECT_EQ(sq.Complete(), 0);
  EXPECT_EQ(Ids(cq), "1:LOC_PROT 2:FLUSH");
  EXPECT_EQ(a->state(), IBV_QPS_SQE);
  Recv(a, 9, dst, 0, 8);
  Send(b, 3, src, 4);
  EXPECT_EQ(Ids(recv_cq), "9:OK");
  EXPECT_TRUE(Modify(a, IBV_QPS_RTS).ok());
  Recv(b, 10, dst, 0, 8);
  EXPECT_EQ(Send(a, 4, src, 4), 0);
  EXPECT_EQ(Ids(cq), "3:OK 4:OK");
  EXPECT_EQ(Ids(recv_cq), "10:OK");
}

TEST_F(QpTest, RetriesAreCounted) {  // WR-RESP-003, -004
  for (uint8_t count : {0, 3, 7}) {
    retry_cnt = count;
    timeout = 10;
    a = Make(QpType::kRc);
    ToRts(a, 0x777777);
    Write(a, 1, src, 4, dst.mr->rkey, dst.remote());
    const uint64_t period = uint64_t{4096} << 10;
    fabric.AdvanceBy((count + 1) * period - 1);
    EXPECT_EQ(Ids(cq), "") << int{count};
    fabric.AdvanceBy(1);
    EXPECT_EQ(Ids(cq), "1:RETRY_EXC") << int{count};
    EXPECT_EQ(a->state(), IBV_QPS_ERR);
  }
}

TEST_F(QpTest, APeerThatComesUpInTimeIsReached) {  // WR-STATE-015
  a = Make(QpType::kRc);
  b = Make(QpType::kRc);
  ToRts(a, b->number().value);
  Step(b, IBV_QPS_INIT, a->number().value);
  Recv(b, 9, dst, 0, 8);
  Send(a, 1, src, 4);
  fabric.AdvanceBy(1000);
  EXPECT_EQ(Ids(recv_cq), "");
  Step(b, IBV_QPS_RTR, a->number().value);
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_EQ(Ids(recv_cq), "9:OK");
}

TEST_F(QpTest, TimeoutZeroNeverExpires) {  // WR-RESP-017
  timeout = 0;
  a = Make(QpType::kRc);
  ToRts(a, 0x777777);
  Write(a, 1, src, 4, dst.mr->rkey, dst.remote());
  fabric.AdvanceBy(1'000'000'000'000);
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "");
  Modify(a, IBV_QPS_ERR);
  EXPECT_EQ(Ids(cq), "1:FLUSH");
}

TEST_F(QpTest, RnrSevenWaitsForEver) {  // WR-RESP-002
  rnr_retry = 7;
  Pair();
  Send(a, 1, src, 4);
  fabric.RunUntilIdle();
  fabric.AdvanceBy(5'000'000'000);
  EXPECT_EQ(Ids(cq), "");
  Recv(b, 9, dst, 0, 8);
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "1:OK");
}

TEST_F(QpTest, EmptyPollsMoveTheClockToTheError) {
  fabric.SetClockMode(ClockMode::kAutomatic);
  retry_cnt = 7;
  timeout = 31;  // 2.4 hours a try
  a = Make(QpType::kRc);
  ToRts(a, 0x777777);
  Write(a, 1, src, 4, dst.mr->rkey, dst.remote());
  int polls = 0;
  Completion c;
  while (cq->Poll({&c, 1}) == 0 && ++polls < 200'000) {
  }
  EXPECT_EQ(c.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_LT(polls, 200'000);
}

TEST_F(QpTest, LostMessagesAreRepeatedAndHaveEffectOnce) {  // WR-RESP-014
  Pair();
  const auto add = [&](uint64_t id) {
    SendQueue& sq = a->send_queue();
    sq.Start();
    sq.AtomicFetchAdd(WrId(id), kSignaled, dst.mr->rkey, dst.remote(), 1);
    sq.SetSge(src.mr->lkey, src.addr(), 8);
    EXPECT_EQ(sq.Complete(), 0);
  };
  for (FaultPoint point :
       {FaultPoint::kLoseRequest, FaultPoint::kLoseAck, FaultPoint::kDuplicateRequest}) {
    a->AddFaultPoint(point);
    add(1);
    fabric.RunUntilIdle();
    EXPECT_EQ(Ids(cq), "1:OK");
  }
  EXPECT_EQ(dst.bytes[0], 3);
  uint64_t last;
  std::memcpy(&last, src.bytes.data(), 8);
  EXPECT_EQ(last, 2u);
  Recv(b, 9, dst, 64, 8);
  Recv(b, 10, dst, 64, 8);
  a->AddFaultPoint(FaultPoint::kLoseAck);
  Send(a, 2, src, 4);
  EXPECT_EQ(Ids(cq), "");
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "2:OK");
  EXPECT_EQ(Ids(recv_cq), "9:OK");
  a->AddFaultPoint(FaultPoint::kRnr);
  Send(a, 3, src, 4);
  EXPECT_EQ(Ids(cq), "");
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "3:OK");
}

TEST_F(QpTest, LostForGood) {  // WR-RESP-003
  Pair();
  for (int i = 0; i < 3; ++i) a->AddFaultPoint(FaultPoint::kLoseRequest);
  Write(a, 1, src, 4, dst.mr->rkey, dst.remote());
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "1:RETRY_EXC");
  EXPECT_EQ(dst.bytes[0], 0);
  EXPECT_EQ(b->state(), IBV_QPS_RTS);
}

TEST_F(QpTest, RightsOfTheQp) {  // WR-RESP-007, WR-STATE-016
  Pair();
  ibv_qp_attr attr = Attr(0);
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  EXPECT_TRUE(b->Modify(attr, IBV_QP_ACCESS_FLAGS).ok());
  EXPECT_EQ(Read(a, 1, src, 4, dst.mr->rkey, dst.remote()), 0);
  EXPECT_EQ(Write(a, 2, src, 4, dst.mr->rkey, dst.remote()), 0);
  EXPECT_EQ(Ids(cq), "1:OK 2:REM_INV_REQ");
  EXPECT_EQ(async.Count(IBV_EVENT_QP_REQ_ERR), 1);
}

TEST_F(QpTest, ShortAndBadReceives) {  // WR-RESP-008, -009
  Pair();
  Recv(b, 9, dst, 0, 3);
  Send(a, 1, src, 4);
  EXPECT_EQ(Ids(cq), "1:REM_INV_REQ");
  EXPECT_EQ(Ids(recv_cq), "9:LOC_LEN");
  Pair();
  const Sge bad{dst.addr(), 8, Lkey(dst.mr->lkey.value ^ 1)};
  const RecvRequest r{WrId(9), &bad, 1};
  b->PostRecv({&r, 1}, nullptr);
  Send(a, 1, src, 4);
  EXPECT_EQ(Ids(cq), "1:REM_OP");
  EXPECT_EQ(Ids(recv_cq), "9:LOC_PROT");
  EXPECT_EQ(a->state(), IBV_QPS_ERR);
  EXPECT_EQ(b->state(), IBV_QPS_ERR);
}

TEST_F(QpTest, LocalKeys) {  // WR-SGE-007, WR-RESP-010
  Pd* other = device->AllocPd().value;
  Region read_only = Register(64, IBV_ACCESS_REMOTE_READ);
  std::vector<uint8_t> bytes(64);
  Mr* foreign =
      device->RegMr(other, {bytes.data(), 64}, reinterpret_cast<uint64_t>(bytes.data()), kAllRights)
          .value;
  const auto status = [&](Lkey key, uint64_t addr, uint32_t length, Operation op) {
    Pair();
    SendQueue& sq = a->send_queue();
    sq.Start();
    if (op == Operation::kRdmaRead) {
      sq.RdmaRead(WrId(1), 0, dst.mr->rkey, dst.remote());
    } else {
      sq.RdmaWrite(WrId(1), 0, dst.mr->rkey, dst.remote());
    }
    sq.SetSge(key, addr, length);
    EXPECT_EQ(sq.Complete(), 0);
    return Ids(cq);
  };
  EXPECT_EQ(status(Lkey(7), src.addr(), 4, Operation::kRdmaWrite), "1:LOC_PROT");
  EXPECT_EQ(status(src.mr->lkey, src.addr() + 4094, 4, Operation::kRdmaWrite), "1:LOC_PROT");
  EXPECT_EQ(status(src.mr->lkey, ~uint64_t{0} - 1, 4, Operation::kRdmaWrite), "1:LOC_PROT");
  EXPECT_EQ(status(foreign->lkey, foreign->iova, 4, Operation::kRdmaWrite), "1:LOC_PROT");
  EXPECT_EQ(status(read_only.mr->lkey, read_only.addr(), 4, Operation::kRdmaWrite), "");
  EXPECT_EQ(status(read_only.mr->lkey, read_only.addr(), 4, Operation::kRdmaRead), "1:LOC_PROT");
  EXPECT_EQ(dst.bytes[0], 0);
}

TEST_F(QpTest, RemoteRanges) {  // WR-LIM-004, WR-RESP-005
  for (uint64_t addr : {dst.addr() + 4093, dst.addr() - 1, ~uint64_t{0}, uint64_t{0}}) {
    Pair();
    Write(a, 1, src, 4, dst.mr->rkey, RemoteAddr(addr));
    EXPECT_EQ(Ids(cq), "1:REM_ACCESS");
  }
  for (uint8_t byte : dst.bytes) ASSERT_EQ(byte, 0);
}

TEST_F(QpTest, ZeroBasedRegion) {
  std::vector<uint8_t> bytes(64);
  Mr* mr = device->RegMr(pd, {bytes.data(), 64}, 0, kAllRights | IBV_ACCESS_ZERO_BASED).value;
  Pair();
  EXPECT_EQ(Write(a, 1, src, 4, mr->rkey, RemoteAddr(60)), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_EQ(bytes[63], 0x5a);
}

TEST_F(QpTest, WindowsOfOtherQpsAndTypes) {  // WR-MW-005..-008, -010, -011, -018
  Mw* mw = device->AllocMw(pd, IBV_MW_TYPE_2).value;
  const auto fails = [&](int rc) {
    EXPECT_EQ(rc, 0);
    const std::string ids = Ids(cq);
    EXPECT_EQ(b->state(), IBV_QPS_ERR);
    Pair();
    return ids;
  };
  Pair();
  const Rkey key = NextKey(mw->rkey);
  EXPECT_EQ(fails(Bind(b, 1, mw, key, dst, 0, 0, IBV_ACCESS_REMOTE_READ)), "1:MW_BIND");
  EXPECT_EQ(fails(Bind(b, 1, mw, key, dst, 4090, 8, IBV_ACCESS_REMOTE_READ)), "1:MW_BIND");
  Region no_bind = Register(64, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(fails(Bind(b, 1, mw, key, no_bind, 0, 8, IBV_ACCESS_REMOTE_READ)), "1:MW_BIND");
  Region no_write = Register(64, IBV_ACCESS_MW_BIND);
  EXPECT_EQ(fails(Bind(b, 1, mw, key, no_write, 0, 8, IBV_ACCESS_REMOTE_WRITE)), "1:MW_BIND");
  Qp* holder = b;
  Qp* holder_peer = a;
  EXPECT_EQ(Bind(holder, 1, mw, key, dst, 0, 64, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  Pair();
  EXPECT_EQ(fails(Bind(b, 2, mw, NextKey(key), dst, 0, 64, IBV_ACCESS_REMOTE_READ)), "2:MW_BIND");
  EXPECT_EQ(fails(Invalidate(b, 3, key)), "3:MW_BIND");
  EXPECT_EQ(fails(Invalidate(b, 4, NextKey(key))), "4:MW_BIND");
  EXPECT_EQ(fails(Invalidate(b, 5, dst.mr->rkey)), "5:MW_BIND");
  Read(a, 6, src, 4, key, dst.remote());
  EXPECT_EQ(Ids(cq), "6:REM_ACCESS");
  Read(holder_peer, 7, src, 4, key, dst.remote());  // the first binding still works
  EXPECT_EQ(Ids(cq), "7:OK");
  EXPECT_TRUE(device->DestroyQp(holder).ok());
  EXPECT_TRUE(device->DeallocMw(mw).ok());
  EXPECT_TRUE(device->DeregMr(dst.mr).ok());
}

TEST_F(QpTest, TypeOneWindow) {
  Mw* mw = device->AllocMw(pd, IBV_MW_TYPE_1).value;
  Pair();
  SendQueue::Bind bind;
  bind.mr = dst.mr;
  bind.addr = dst.addr();
  bind.length = 8;
  bind.access = IBV_ACCESS_REMOTE_WRITE;
  Rkey key;
  EXPECT_TRUE(b->PostBindMw(mw, bind, WrId(1), kSignaled, &key).ok());
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_NE(key, dst.mr->rkey);
  Write(a, 2, src, 8, key, dst.remote());
  EXPECT_EQ(Ids(cq), "2:OK");
  bind.length = 0;  // unbinds
  EXPECT_TRUE(b->PostBindMw(mw, bind, WrId(3), kSignaled, &key).ok());
  EXPECT_EQ(Ids(cq), "3:OK");
  EXPECT_TRUE(device->DeregMr(dst.mr).ok());
  Bind(b, 4, mw, key, src, 0, 8, 0);  // WR-MW-001
  EXPECT_EQ(LintClauses(), "WR-MW-001");
}

TEST_F(QpTest, BadInvalidateKillsTheResponder) {  // WR-MW-013
  Pair();
  Recv(b, 9, dst, 0, 8);
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.SendInv(WrId(1), kSignaled, Rkey(0x77));
  sq.SetInline("x", 1);
  EXPECT_EQ(sq.Complete(), 0);
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "1:RETRY_EXC");
  EXPECT_EQ(Ids(recv_cq), "9:MW_BIND");
  EXPECT_EQ(b->state(), IBV_QPS_ERR);
}

TEST_F(QpTest, AQpMayBeItsOwnPeer) {
  a = Make(QpType::kRc);
  ToRts(a, a->number().value);
  Recv(a, 9, dst, 0, 8);
  EXPECT_EQ(Send(a, 1, src, 4), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_EQ(Ids(recv_cq), "9:OK");
  Recv(a, 10, dst, 0, 8);
  Write(a, 2, src, 4, Rkey(3), dst.remote());
  EXPECT_EQ(Ids(cq), "2:REM_ACCESS");
  EXPECT_EQ(Ids(recv_cq), "10:FLUSH");
}

TEST_F(QpTest, TheSameCallsGiveTheSameRun) {
  std::string runs[2];
  for (std::string& log : runs) {
    Fabric f({1, true, ClockMode::kAutomatic});
    Device* d = f.OpenDevice({}, nullptr);
    QpInit init = Init(QpType::kRc);
    init.pd = d->AllocPd().value;
    init.send_cq = init.recv_cq = d->CreateCq(64, nullptr).value;
    Qp* q = d->CreateQp(init).value;
    ToRts(q, q->number().value);
    std::vector<uint8_t> bytes(64);
    Mr* mr = d->RegMr(init.pd, {bytes.data(), 64}, 0x1000, kAllRights).value;
    q->send_queue().Start();
    q->send_queue().Send(WrId(1), kSignaled);
    q->send_queue().SetSge(mr->lkey, 0x1000, 4);
    q->send_queue().Complete();
    Completion c;
    for (int i = 0; i < 20'000; ++i) {
      if (init.send_cq->Poll({&c, 1}) == 1) log += std::to_string(i) + ":" + StatusName(c.status);
    }
    log += ' ' + std::to_string(f.Now()) + ' ' + std::to_string(mr->lkey.value);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0].find("RNR_RETRY_EXC"), std::string::npos);
}

}  // namespace
}  // namespace qpexam::model
