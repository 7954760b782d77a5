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
  // One request: its builder.
  void Build(SendQueue* sq, Operation op, uint64_t id, uint32_t flags, Rkey key) {
    const uint64_t value = 5;
    switch (op) {
      case Operation::kSend:
        return sq->Send(WrId(id), flags);
      case Operation::kSendWithImm:
        return sq->SendImm(WrId(id), flags, 0);
      case Operation::kRdmaWrite:
        return sq->RdmaWrite(WrId(id), flags, key, dst.remote(16));
      case Operation::kRdmaWriteWithImm:
        return sq->RdmaWriteImm(WrId(id), flags, key, dst.remote(16), 7);
      case Operation::kRdmaRead:
        return sq->RdmaRead(WrId(id), flags, key, dst.remote(16));
      case Operation::kAtomicCmpAndSwp:
        return sq->AtomicCmpSwp(WrId(id), flags, key, dst.remote(16), 0, 3);
      case Operation::kAtomicFetchAndAdd:
        return sq->AtomicFetchAdd(WrId(id), flags, key, dst.remote(16), 3);
      case Operation::kFlush:
        return sq->Flush(WrId(id), flags, key, dst.remote(16), 64, 1, 0);
      default:
        return sq->AtomicWrite(WrId(id), flags, key, dst.remote(16), &value);
    }
  }
  // Each operation with each setter and several lengths, alone and thrice in a region, with a good
  // key and a bad one.
  void Cells(QpType type, Srq* srq) {
    constexpr Operation kOperations[] = {Operation::kSend,
                                         Operation::kSendWithImm,
                                         Operation::kRdmaWrite,
                                         Operation::kRdmaWriteWithImm,
                                         Operation::kRdmaRead,
                                         Operation::kAtomicCmpAndSwp,
                                         Operation::kAtomicFetchAndAdd,
                                         Operation::kFlush,
                                         Operation::kAtomicWrite};
    const uint32_t lkey = src.mr->lkey.value;
    for (Operation op : kOperations) {
      const bool reads = op == Operation::kRdmaRead;
      const bool atomic = op == Operation::kAtomicCmpAndSwp || op == Operation::kAtomicFetchAndAdd;
      const bool bare = op == Operation::kFlush || op == Operation::kAtomicWrite;
      for (int setter = 0; setter < (bare ? 1 : reads || atomic ? 2 : 4); ++setter) {
        for (uint32_t length : {0u, 1u, 8u, 40u, 64u, 2048u}) {
          if ((atomic && length != 8) || (bare && length != 0) || (setter >= 2 && length > 64))
            continue;
          for (int count : {1, 3}) {
            for (Rkey key : {dst.mr->rkey, Rkey(77)}) {
              Qp* a = Make(type);
              Qp* b = Make(type == QpType::kXrcSend ? QpType::kXrcRecv : type);
              for (Qp* qp : {a, b}) {
                const uint32_t peer = (qp == a ? b : a)->number().value;
                for (ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) Step(qp, to, peer);
              }
              for (int i = 0; i < count; ++i) {
                if (srq == nullptr) {
                  Recv(b, static_cast<uint64_t>(i), dst, 4096, 2048);
                } else {
                  const Sge sge{dst.addr() + 4096, 2048, dst.mr->lkey};
                  const RecvRequest r{WrId(1), &sge, 1};
                  srq->PostRecv({&r, 1}, nullptr);
                }
              }
              SendQueue& sq = a->send_queue();
              sq.Start();
              for (int i = 0; i < count; ++i) {
                Build(&sq, op, static_cast<uint64_t>(i),
                      i + 1 == count ? kSignaled | IBV_SEND_SOLICITED : 0, key);
                if (srq != nullptr) sq.SetXrcSrqn(srq->number());
                const ibv_sge list[2] = {{src.addr(), length / 2, lkey},
                                         {src.addr() + 512, length - length / 2, lkey}};
                const ibv_data_buf bufs[2] = {{const_cast<char*>(kText), length / 2},
                                              {const_cast<char*>(kText), length - length / 2}};
                if (bare) {
                } else if (setter == 0) {
                  sq.SetSge(src.mr->lkey, src.addr(), length);
                } else if (setter == 1) {
                  sq.SetSgeList(atomic ? 1 : 2, atomic ? list + 1 : list);
                } else if (setter == 2) {
                  sq.SetInline(kText, length);
                } else {
                  sq.SetInlineList(2, bufs);
                }
              }
              sq.Complete();
              Settle();
              device->DestroyQp(a);
              device->DestroyQp(b);
            }
          }
        }
      }
    }
  }
  void RunCells() {
    for (QpType type : {QpType::kRc, QpType::kUc}) Cells(type, nullptr);
    SrqInit init;
    init.type = IBV_SRQT_XRC;
    init.pd = pd;
    init.max_wr = 16;
    init.max_sge = 1;
    init.xrcd = xrcd;
    init.cq = recv_cq;
    Srq* srq = device->CreateSrq(init).value;
    Cells(QpType::kXrcSend, srq);
    device->DestroySrq(srq);
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
  static constexpr char kText[65] =
      "sixty-four bytes and a zero, for what is sent inline: 0123456789";
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

// The scripts reach most places where a fault would be made: what they miss is for the suite.
TEST_F(FaultsTest, TheScriptsReachMostFaults) {
  FaultSwitch::StartRecording();
  Run();
  RunCells();
  const size_t reached = FaultSwitch::TakeReached().count();
  EXPECT_GT(reached, AllFaults().size() / 2);
}

}  // namespace
}  // namespace qpexam::model
