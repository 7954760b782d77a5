// Set-up shared by the engine's tests: devices, pairs of QPs in RTS, memory, one-line posting.
#ifndef QPEXAM_REFERENCE_MODEL_ENGINE_TESTING_H_
#define QPEXAM_REFERENCE_MODEL_ENGINE_TESTING_H_

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "reference/model/engine.h"
#include "reference/model/transitions.h"

namespace qpexam::model {

class RecordingSink : public AsyncSink {
 public:
  void OnAsyncEvent(Device&, const AsyncEvent& event) override { events.push_back(event); }
  int Count(ibv_event_type type) const {
    int n = 0;
    for (const AsyncEvent& e : events) n += e.type == type;
    return n;
  }
  std::vector<AsyncEvent> events;
};

class CountingCqSink : public CqSink {
 public:
  bool OnCompletion(Cq&, const Completion&) override { return false; }
  void OnCqEvent(Cq&) override { ++events; }
  int events = 0;
};

// Memory with its region.
struct Region {
  std::vector<uint8_t> bytes;
  Mr* mr = nullptr;
  uint64_t addr() const { return reinterpret_cast<uint64_t>(bytes.data()); }
  RemoteAddr remote(uint64_t offset = 0) const { return RemoteAddr(addr() + offset); }
};

inline constexpr unsigned kAllRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                       IBV_ACCESS_MW_BIND | 1u << 8 | 1u << 9;

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() : fabric({1, true, ClockMode::kManual}) {
    device = fabric.OpenDevice({}, &async);
    pd = device->AllocPd().value;
    cq = device->CreateCq(4096, &cq_sink).value;
    recv_cq = device->CreateCq(4096, &recv_sink).value;
  }

  QpInit Init(QpType type) {
    QpInit init;
    init.type = type;
    init.pd = pd;
    init.send_cq = cq;
    init.recv_cq = recv_cq;
    init.cap.max_send_wr = 16;
    init.cap.max_recv_wr = 16;
    init.cap.max_send_sge = 4;
    init.cap.max_recv_sge = 4;
    init.cap.max_inline_data = 64;
    init.send_ops = ReferenceSendOps(type);
    if (type == QpType::kRawPacket) init.max_tso_header = 128;
    if (type == QpType::kXrcRecv) {
      init.send_ops.reset();
      init.xrcd = xrcd;
    }
    return init;
  }
  Qp* Make(QpType type) {
    Result<Qp> made = device->CreateQp(Init(type));
    EXPECT_TRUE(made.ok()) << made.status.why;
    return made.value;
  }

  static int InitMask(QpType type) {
    return IBV_QP_STATE | FindTransition(type, IBV_QPS_RESET, IBV_QPS_INIT)->required;
  }
  // One step of the bring-up, with the attributes that it requires.
  Status Step(Qp* qp, ibv_qp_state to, uint32_t peer) {
    ibv_qp_attr a = Attr(peer);
    a.qp_state = to;
    const Transition* t = FindTransition(qp->type(), qp->state(), to);
    return qp->Modify(a, IBV_QP_STATE | (t != nullptr ? t->required : 0));
  }
  ibv_qp_attr Attr(uint32_t peer) const {
    ibv_qp_attr a{};
    a.port_num = 1;
    a.qp_access_flags = access;
    a.qkey = 0x11;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer;
    a.max_rd_atomic = a.max_dest_rd_atomic = 4;
    a.min_rnr_timer = 12;
    a.timeout = timeout;
    a.retry_cnt = retry_cnt;
    a.rnr_retry = rnr_retry;
    return a;
  }
  void ToRts(Qp* qp, uint32_t peer) {
    for (ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      const Status s = Step(qp, to, peer);
      ASSERT_TRUE(s.ok()) << s.why;
    }
  }
  void Connect(Qp* a, Qp* b) {
    ToRts(a, b->number().value);
    if (b != a) ToRts(b, a->number().value);
  }

  Region Register(size_t size, unsigned rights = kAllRights, uint8_t fill = 0) {
    Region r;
    r.bytes.assign(size, fill);
    r.mr = device->RegMr(pd, {r.bytes.data(), size}, r.addr(), rights).value;
    return r;
  }

  Status Recv(Qp* qp, uint64_t id, const Region& r, uint64_t offset, uint32_t length) {
    const Sge sge{r.addr() + offset, length, r.mr->lkey};
    const RecvRequest request{WrId(id), &sge, 1};
    return qp->PostRecv({&request, 1}, nullptr);
  }

  std::vector<Completion> Poll(Cq* from) {
    std::vector<Completion> out(64);
    const int n = from->Poll({out.data(), out.size()});
    out.resize(n < 0 ? 0 : n);
    return out;
  }
  // "id:status" of everything in the queue, for one-line expectations.
  std::string Ids(Cq* from) {
    std::string s;
    for (const Completion& c : Poll(from)) {
      if (!s.empty()) s += ' ';
      s += std::to_string(c.wr_id.value) + ":" + StatusName(c.status);
    }
    return s;
  }
  static std::string StatusName(ibv_wc_status s) {
    switch (s) {
      case IBV_WC_SUCCESS:
        return "OK";
      case IBV_WC_WR_FLUSH_ERR:
        return "FLUSH";
      case IBV_WC_LOC_LEN_ERR:
        return "LOC_LEN";
      case IBV_WC_LOC_QP_OP_ERR:
        return "LOC_QP_OP";
      case IBV_WC_LOC_PROT_ERR:
        return "LOC_PROT";
      case IBV_WC_MW_BIND_ERR:
        return "MW_BIND";
      case IBV_WC_REM_INV_REQ_ERR:
        return "REM_INV_REQ";
      case IBV_WC_REM_ACCESS_ERR:
        return "REM_ACCESS";
      case IBV_WC_REM_OP_ERR:
        return "REM_OP";
      case IBV_WC_RETRY_EXC_ERR:
        return "RETRY_EXC";
      case IBV_WC_RNR_RETRY_EXC_ERR:
        return "RNR_RETRY_EXC";
      default:
        return std::to_string(static_cast<int>(s));
    }
  }
  std::string LintClauses() {
    std::string s;
    for (const FoundLint& l : fabric.TakeLints())
      s += (s.empty() ? "" : " ") + std::string(l.clause);
    return s;
  }

  // --- one-request regions -----------------------------------------------------------------------
  static constexpr uint32_t kSignaled = IBV_SEND_SIGNALED;
  int Write(Qp* qp, uint64_t id, const Region& from, uint32_t length, Rkey rkey, RemoteAddr to,
            uint32_t flags = kSignaled) {
    SendQueue& sq = qp->send_queue();
    sq.Start();
    sq.RdmaWrite(WrId(id), flags, rkey, to);
    sq.SetSge(from.mr->lkey, from.addr(), length);
    return sq.Complete();
  }
  int Read(Qp* qp, uint64_t id, const Region& into, uint32_t length, Rkey rkey, RemoteAddr from,
           uint32_t flags = kSignaled) {
    SendQueue& sq = qp->send_queue();
    sq.Start();
    sq.RdmaRead(WrId(id), flags, rkey, from);
    sq.SetSge(into.mr->lkey, into.addr(), length);
    return sq.Complete();
  }
  int Send(Qp* qp, uint64_t id, const Region& from, uint32_t length, uint32_t flags = kSignaled) {
    SendQueue& sq = qp->send_queue();
    sq.Start();
    sq.Send(WrId(id), flags);
    sq.SetSge(from.mr->lkey, from.addr(), length);
    return sq.Complete();
  }
  int Bind(Qp* qp, uint64_t id, Mw* mw, Rkey key, const Region& r, uint64_t offset, uint64_t length,
           unsigned rights) {
    SendQueue& sq = qp->send_queue();
    sq.Start();
    SendQueue::Bind bind;
    bind.mw = mw;
    bind.mw_key = mw->rkey;
    bind.new_key = key;
    bind.mr = r.mr;
    bind.addr = r.addr() + offset;
    bind.length = length;
    bind.access = rights;
    sq.BindMw(WrId(id), kSignaled, bind);
    return sq.Complete();
  }
  int Invalidate(Qp* qp, uint64_t id, Rkey key) {
    SendQueue& sq = qp->send_queue();
    sq.Start();
    sq.LocalInv(WrId(id), kSignaled, key);
    return sq.Complete();
  }
  static Rkey NextKey(Rkey key) { return Rkey((key.value & ~0xffu) | ((key.value + 1) & 0xff)); }

  RecordingSink async;
  CountingCqSink cq_sink, recv_sink;
  Fabric fabric;
  Device* device;
  Pd* pd;
  Cq* cq;
  Cq* recv_cq;
  Xrcd* xrcd = nullptr;
  unsigned access = kAllRights & ~(IBV_ACCESS_MW_BIND);
  uint8_t timeout = 14, retry_cnt = 2, rnr_retry = 3;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_ENGINE_TESTING_H_
