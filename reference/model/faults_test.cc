// Every fault of the library over a little of everything: what they break is the conformance
// suite's to find, here none may break our own code (run it under the sanitizers), hang, or leave
// something behind once it is off.
#include "reference/model/faults.h"

#include "reference/model/engine_testing.h"

namespace qpexam::model {
namespace {

class FaultsTest : public EngineTest {
 protected:
  void SetUp() override {
    timeout = 8;
    src = Register(8192, kAllRights, 0x5a);
    dst = Register(8192);
    xrcd = device->OpenXrcd(0).value;
  }
  void Settle() {
    fabric.RunUntilIdle();
    Poll(cq);
    Poll(recv_cq);
    if (cq->StartPoll() == 0) {
      while (cq->NextPoll() == 0) {
      }
      cq->EndPoll();
    }
  }
  void EveryOperation(Qp* a, Qp* b) {
    for (int i = 0; i < 6; ++i) Recv(b, i, dst, 0, 256);
    cq->Arm(Notify::kSolicitedOnly);
    recv_cq->Arm(Notify::kAny);
    SendQueue& sq = a->send_queue();
    const uint32_t key = src.mr->lkey.value;
    const ibv_sge list[3] = {{src.addr(), 10, key}, {0, 0, 0}, {src.addr() + 20, 5000, key}};
    const uint64_t value = 1;
    for (int round = 0; round < 4; ++round) {
      sq.Start();
      sq.RdmaWrite(WrId(1), round % 2 == 0 ? kSignaled : 0, dst.mr->rkey, dst.remote());
      sq.SetSgeList(3, list);
      sq.RdmaWriteImm(WrId(2), 0, dst.mr->rkey, dst.remote(8), 7);
      sq.SetInline("abcdef", 6);
      sq.RdmaRead(WrId(3), kSignaled, dst.mr->rkey, dst.remote());
      sq.SetSgeList(3, list);
      sq.AtomicFetchAdd(WrId(4), IBV_SEND_FENCE, dst.mr->rkey, dst.remote(8), 1);
      sq.SetSge(src.mr->lkey, src.addr(), 8);
      sq.AtomicCmpSwp(WrId(5), kSignaled, dst.mr->rkey, dst.remote(8), 1, 2);
      sq.SetSge(src.mr->lkey, src.addr(), 8);
      sq.Flush(WrId(6), 0, dst.mr->rkey, dst.remote(), 64, 1, 0);
      sq.AtomicWrite(WrId(7), 0, dst.mr->rkey, dst.remote(16), &value);
      sq.Send(WrId(8), kSignaled | IBV_SEND_SOLICITED);
      sq.SetSge(src.mr->lkey, src.addr(), 100);
      if (round == 2) {
        sq.Abort();
      } else {
        sq.Complete();
      }
      if (round == 1) {  // a region that fails, and ibv_post_send behind it
        const std::vector<uint8_t> big(65);
        sq.Start();
        sq.Send(WrId(9), kSignaled);
        sq.SetInline(big.data(), big.size());
        sq.Complete();
        SendRequest r;
        r.op = Operation::kRdmaWrite;
        r.rkey = dst.mr->rkey;
        r.remote_addr = dst.remote();
        if (sq.BeginPost() == 0) {
          sq.PostOne(r, {list, 3});
          sq.EndPost();
        }
      }
      Settle();
    }
  }
  void Windows(Qp* a, Qp* b) {
    Mw* mw = device->AllocMw(pd, IBV_MW_TYPE_2).value;
    const Rkey key = NextKey(mw->rkey);
    Bind(b, 1, mw, key, dst, 0, 64, IBV_ACCESS_REMOTE_WRITE);
    Write(a, 2, src, 8, key, dst.remote());
    Recv(b, 3, dst, 0, 64);
    SendQueue& sq = a->send_queue();
    sq.Start();
    sq.SendInv(WrId(3), kSignaled, key);
    sq.SetInline("x", 1);
    sq.Complete();
    Invalidate(b, 4, key);
    Bind(b, 5, mw, NextKey(key), dst, 0, 0, 0);
    Settle();
    device->DeallocMw(mw);
  }
  void Run() {
    for (int kind = 0; kind < 3; ++kind) {
      const QpType type = kind == 0 ? QpType::kRc : kind == 1 ? QpType::kUc : QpType::kRc;
      Qp* a = Make(type);
      Qp* b = Make(type);
      if (a == nullptr || b == nullptr) continue;
      for (Qp* qp : {a, b}) {
        const uint32_t peer = (qp == a ? b : a)->number().value;
        for (ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) Step(qp, to, peer);
      }
      if (kind == 2) {
        a->AddFaultPoint(FaultPoint::kLoseAck);
        a->AddFaultPoint(FaultPoint::kDuplicateRequest);
        Windows(a, b);
        Write(a, 1, src, 4, Rkey(77), dst.remote());
        Send(a, 2, src, 4);
        Settle();
        Step(a, IBV_QPS_RESET, 0);
      } else {
        EveryOperation(a, b);
      }
      // A depth that fills, SQD, ERR, RESET.
      for (int i = 0; i < 20; ++i) Send(a, i, src, 4, i % 3 == 0 ? kSignaled : 0);
      Step(a, IBV_QPS_SQD, 0);
      Send(a, 30, src, 4);
      Settle();
      Step(b, IBV_QPS_ERR, 0);
      Step(a, IBV_QPS_RTS, 0);
      Settle();
      Step(a, IBV_QPS_ERR, 0);
      Step(a, IBV_QPS_RESET, 0);
      Settle();
      device->DestroyQp(a);
      device->DestroyQp(b);
    }
    Datagrams();
    Xrc();
    Settle();
  }
  void Datagrams() {
    ibv_ah_attr attr{};
    attr.port_num = 1;
    Ah* ah = device->CreateAh(pd, attr).value;
    for (QpType type : {QpType::kUd, QpType::kRawPacket}) {
      Qp* a = Make(type);
      Qp* b = Make(type);
      for (Qp* qp : {a, b}) {
        for (ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) Step(qp, to, 0);
        for (int i = 0; i < 6; ++i) Recv(qp, i, dst, 0, 200);
      }
      SendQueue& sq = a->send_queue();
      sq.Start();
      for (uint32_t length : {60u, 190u}) {
        sq.Send(WrId(length), kSignaled | IBV_SEND_IP_CSUM);
        if (type == QpType::kUd) {
          sq.SetUdAddr(ah, QpNum(b->number().value | 0xff000000), Qkey(0x11));
        }
        sq.SetSge(src.mr->lkey, src.addr(), length);
      }
      if (type == QpType::kRawPacket) {
        const std::vector<uint8_t> header(60, 8);
        sq.Tso(WrId(2), kSignaled, header.data(), 60, 50);
        sq.SetSge(src.mr->lkey, src.addr(), 120);
      }
      sq.Complete();
      Settle();
      device->DestroyQp(a);
      device->DestroyQp(b);
    }
    device->DestroyAh(ah);
  }
  void Xrc() {
    SrqInit init;
    init.type = IBV_SRQT_XRC;
    init.pd = pd;
    init.max_wr = 4;
    init.max_sge = 1;
    init.xrcd = xrcd;
    init.cq = recv_cq;
    Srq* srqs[2] = {device->CreateSrq(init).value, device->CreateSrq(init).value};
    const Sge sge{dst.addr(), 64, dst.mr->lkey};
    const RecvRequest r{WrId(1), &sge, 1};
    srqs[1]->PostRecv({&r, 1}, nullptr);
    Qp* a = Make(QpType::kXrcSend);
    Qp* b = Make(QpType::kXrcRecv);
    for (Qp* qp : {a, b}) {
      const uint32_t peer = (qp == a ? b : a)->number().value;
      for (ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) Step(qp, to, peer);
    }
    SendQueue& sq = a->send_queue();
    for (Srq* srq : srqs) {
      sq.Start();
      sq.RdmaWrite(WrId(1), 0, dst.mr->rkey, dst.remote());
      sq.SetXrcSrqn(srq->number());
      sq.SetInline("x", 1);
      sq.Send(WrId(2), kSignaled);
      sq.SetSge(src.mr->lkey, src.addr(), 4);
      sq.SetXrcSrqn(srq->number());
      sq.Complete();
      Settle();
    }
    device->DestroyQp(a);
    device->DestroyQp(b);
    for (Srq* srq : srqs) device->DestroySrq(srq);
  }
  Region src, dst;
};

TEST_F(FaultsTest, NoneBreaksTheModelItself) {
  for (const FaultInfo& info : AllFaults()) {
    SCOPED_TRACE(std::string(info.name));
    FaultSwitch::Set(info.fault);
    Run();
    FaultSwitch::Set(Fault::kNone);
    fabric.TakeLints();
  }
  FaultSwitch::Set(Fault::kNone);
}

// The scripts reach many of the faults. A narrow one asks for an operation, a QP type or a length
// that they do not have: that every fault is reached and caught is for the suites
// (//harness/command:faults_test).
TEST_F(FaultsTest, TheScriptsReachManyFaults) {
  FaultSwitch::StartRecording();
  Run();
  const size_t reached = FaultSwitch::TakeReached().count();
  EXPECT_GT(reached, AllFaults().size() * 2 / 5);
}

}  // namespace
}  // namespace qpexam::model
