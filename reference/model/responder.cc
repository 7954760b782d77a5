#include "reference/model/responder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "reference/model/fabric.h"
#include "reference/model/faults.h"

namespace qpexam::model {
namespace {

constexpr unsigned kFlushGlobal = 1u << 8, kFlushPersistent = 1u << 9;  // IBV_ACCESS_FLUSH_*
constexpr uint32_t kTypeGlobal = 1, kTypePersistent = 2;                // IBV_FLUSH_*
constexpr uint8_t kLevelMr = 1;

// The rights that an operation asks of the QP and of the memory.
unsigned RightsFor(const SendRequest& r) {
  switch (r.op) {
    case Operation::kRdmaWrite:
    case Operation::kRdmaWriteWithImm:
      return IBV_ACCESS_REMOTE_WRITE;
    case Operation::kAtomicWrite:  // WR-DATA-022
      return Faulty(Fault::kAtomicWriteNeedsAtomic) ? IBV_ACCESS_REMOTE_ATOMIC
                                                    : IBV_ACCESS_REMOTE_WRITE;
    case Operation::kRdmaRead:
      return IBV_ACCESS_REMOTE_READ;
    case Operation::kAtomicCmpAndSwp:
    case Operation::kAtomicFetchAndAdd:
      return IBV_ACCESS_REMOTE_ATOMIC;
    case Operation::kFlush:  // WR-DATA-018
      return ((r.flush_type & kTypeGlobal) != 0 ? kFlushGlobal : 0) |
             ((r.flush_type & kTypePersistent) != 0 ? kFlushPersistent : 0);
    default:
      return 0;
  }
}

// For library faults: changes the byte behind the range that a request names.
void TouchBehind(Fabric& fabric, const Exchange& x, uint64_t length) {
  uint8_t* beyond = nullptr;
  RemoteUse use;
  use.rkey = x.request->rkey;
  use.addr = RemoteAddr(x.request->remote_addr.value + length);
  use.length = 1;
  if (ResolveRemote(fabric, *x.responder, nullptr, use, &beyond) == RemoteFault::kNone &&
      beyond != nullptr) {
    *beyond ^= 0xff;
  }
}

bool IsAtomic(Operation op) {
  return op == Operation::kAtomicCmpAndSwp || op == Operation::kAtomicFetchAndAdd;
}
bool IsSend(Operation op) { return Info(op).peer == PeerEffect::kReceive; }

// The SRQ that ran out of receives last, for the fault xrc-atomic-needs-receive.
std::atomic<const Srq*> ran_dry{nullptr};

bool Aligned(const uint8_t* p) { return (reinterpret_cast<uintptr_t>(p) & 7) == 0; }

// An aligned location is written in one piece, so that a CPU that reads it sees no mix
// (WR-DATA-021).
void Store8(uint8_t* to, uint64_t value) {
  if (Aligned(to)) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(to), value, __ATOMIC_RELEASE);
  } else {
    std::memcpy(to, &value, sizeof value);
  }
}
uint64_t Load8(const uint8_t* from) {
  uint64_t value;
  if (Aligned(from)) {
    value = __atomic_load_n(reinterpret_cast<const uint64_t*>(from), __ATOMIC_ACQUIRE);
  } else {
    std::memcpy(&value, from, sizeof value);
  }
  return value;
}

}  // namespace

void Responder::Examine(Exchange* x) {
  const OperationInfo& info = Info(x->request->op);
  if (info.peer == PeerEffect::kReceive || info.peer == PeerEffect::kReceiveRdmaWithImm) {
    ExamineReceive(x);
  }
  if (info.takes_rkey) ExamineRemote(x);
  if (__builtin_expect(FaultSwitch::on(), 0) && IsAtomic(x->request->op) &&
      x->responder->type() == QpType::kXrcRecv) {
    const Srq* srq = fabric_->srqs_.Find(x->request->remote_srqn.value);
    if (srq != nullptr && srq == ran_dry && srq->queue_.empty() &&
        Faulty(Fault::kXrcAtomicNeedsReceive)) {
      x->facts.wrong_srq = true;
    }
  }
  if (x->request->op == Operation::kSendWithInv) ExamineInvalidate(x);
}

void Responder::ExamineReceive(Exchange* x) {
  Qp& qp = *x->responder;
  if (qp.type() == QpType::kXrcRecv) {
    // The SRQ that the request names, in the target's domain (WR-XRC-001, -004).
    SrqNum number = x->request->remote_srqn;
    Srq* srq = fabric_->srqs_.Find(number.value);
    const bool foreign = srq != nullptr && srq->type() == IBV_SRQT_XRC &&
                         srq->xrcd()->domain != qp.init().xrcd->domain &&
                         !Faulty(Fault::kXrcDomainNotChecked);
    if (srq == nullptr || srq->type() != IBV_SRQT_XRC || foreign) {
      x->facts.wrong_srq = true;
      return;
    }
    x->srq = srq;
    x->receive_cq = srq->cq();
  } else {
    x->srq = qp.init().srq;
    x->receive_cq = qp.init().recv_cq;
  }
  if (x->srq != nullptr) {
    if (x->srq->pump) x->srq->pump(*x->srq);
    x->queue = &x->srq->queue_;
    x->receive_pd = x->srq->pd();
  } else {
    if (qp.pump) qp.pump(qp);
    x->queue = &qp.recv_queue_;
    x->receive_pd = qp.init().pd;
  }
  if (x->queue->empty() && qp.type() == QpType::kXrcRecv &&
      Faulty(Fault::kXrcEmptySrqTakesAnother)) {
    for (Device* device : fabric_->DeviceList()) {
      for (Srq* other : device->srqs_) {
        if (other->type() == IBV_SRQT_XRC && !other->queue_.empty() && x->queue->empty()) {
          x->srq = other;
          x->queue = &other->queue_;
          x->receive_cq = other->cq();
          x->receive_pd = other->pd();
        }
      }
    }
  }
  if (x->queue->empty()) {
    x->facts.receive = ReceiveFact::kNone;
    if (x->request->op == Operation::kSendWithInv && Faulty(Fault::kRnrInvalidates)) {
      Mw* mw = fabric_->WindowUnlocked(x->request->rkey);
      if (mw != nullptr && mw->mr != nullptr) {
        --mw->mr->bound_windows;
        mw->mr = nullptr;
      }
    }
    return;
  }
  x->facts.receive = ReceiveFact::kReady;
  if (!IsSend(x->request->op)) return;  // WRITE_WITH_IMM leaves the buffers alone (WR-DATA-004)

  const RecvRequest& receive = x->queue->front();
  const uint64_t needed = x->facts.length + x->grh_length;
  uint64_t room = 0;
  for (uint32_t i = 0; i < receive.num_sge; ++i) room += receive.sge[i].length;
  if (room < needed) {
    if (!(qp.type() == QpType::kUd ? Faulty(Fault::kUdShortReceiveTruncates)
                                   : Faulty(Fault::kShortReceiveTruncates))) {
      x->facts.receive = ReceiveFact::kTooShort;
      return;
    }
    x->facts.length = room - std::min(room, x->grh_length);
  }
  // Only the buffers that the message reaches are looked at.
  uint64_t left = std::min(needed, room);
  for (uint32_t i = 0; i < receive.num_sge && left != 0; ++i) {
    const uint64_t n = std::min<uint64_t>(left, receive.sge[i].length);
    const LocalFault fault =
        ResolveLocal(*fabric_, x->receive_pd, receive.sge[i], LocalUse::kWrite, &x->scatter);
    if (fault != LocalFault::kNone) {
      if (Faulty(Fault::kReceiveKeyNotChecked)) break;
      x->facts.receive = ReceiveFact::kBadBuffer;
      x->facts.receive_fault = fault;
      return;
    }
    left -= n;
  }
}

void Responder::ExamineRemote(Exchange* x) {
  Qp& qp = *x->responder;
  const SendRequest& r = *x->request;
  const unsigned rights = RightsFor(r);
  const bool flush = r.op == Operation::kFlush;
  if ((qp.attr_.access & rights) != rights && qp.type() != QpType::kSrd &&
      !Faulty(Fault::kQpRightsNotChecked) && !(flush && Faulty(Fault::kFlushQpRightNotChecked))) {
    x->facts.remote = RemoteFault::kNoQpRight;
    return;
  }
  const bool eight = IsAtomic(r.op) || r.op == Operation::kAtomicWrite;
  if (eight && (r.remote_addr.value & 7) != 0) {
    const bool unchecked = r.op == Operation::kAtomicWrite
                               ? Faulty(Fault::kAtomicWriteAlignmentNotChecked)
                               : Faulty(Fault::kAtomicAlignmentNotChecked);
    if (!unchecked) {
      x->facts.remote = RemoteFault::kMisaligned;
      return;
    }
  }
  RemoteUse use;
  use.rkey = r.rkey;
  use.addr = r.remote_addr;
  use.length = x->facts.length;
  use.rights = flush && Faulty(Fault::kFlushRegionRightNotChecked) ? 0 : rights;
  if (flush && r.flush_level == kLevelMr && !Faulty(Fault::kFlushMrChecksRange)) {
    use.range = RemoteUse::Range::kWholeRegion;
  }
  const Pd* pd = qp.init().pd;
  if (qp.type() == QpType::kXrcRecv) {
    // Keys are held to the PD of the SRQ that the request names.
    const Srq* srq = fabric_->srqs_.Find(r.remote_srqn.value);
    pd = srq != nullptr ? srq->pd() : nullptr;
  }
  if (eight) use.length = 8;
  x->facts.remote = ResolveRemote(*fabric_, qp, pd, use, &x->remote);
  if (x->facts.remote == RemoteFault::kNone) return;
  if (use.length == 0 &&
      (r.op == Operation::kRdmaWriteWithImm ? Faulty(Fault::kZeroLengthImmKeyChecked)
                                            : Faulty(Fault::kZeroLengthKeyChecked))) {
    x->facts.length = 1;
  }
  if (flush ? Faulty(Fault::kFlushKeyNotChecked)
            : r.op == Operation::kAtomicWrite && Faulty(Fault::kAtomicWriteKeyNotChecked)) {
    x->facts.remote = RemoteFault::kNone;
  }
}

void Responder::ExamineInvalidate(Exchange* x) {
  using Window = RequestFacts::Window;
  const Rkey key = x->request->rkey;
  Mw* mw = fabric_->WindowUnlocked(key);
  x->window = mw;
  if (mw == nullptr) {
    x->facts.window =
        fabric_->RkeyUnlocked(key) != nullptr ? Window::kPlainMr : Window::kUnknownKey;
  } else if (mw->type == IBV_MW_TYPE_1) {
    x->facts.window = Window::kType1;
  } else if (mw->mr == nullptr) {
    x->facts.window = Window::kFree;
  } else if (mw->qp_num != x->responder->number().value || mw->qp_life != x->responder->life()) {
    x->facts.window = Window::kWrongQp;
  }
  if (x->facts.window != Window::kFine && Faulty(Fault::kSendInvKeyNotChecked)) {
    x->facts.window = Window::kFine;
    x->window = nullptr;
  }
}

void Responder::Apply(Exchange* x, const Outcome& outcome) {
  Qp* qp = x->responder;
  if (qp == nullptr) return;
  const SendRequest& r = *x->request;
  // A NAK without a receive involved is the responder's to report (WR-RESP-006).
  const bool refused = outcome.responder_next == NextState::kErr && !outcome.consumes_receive &&
                       IsReliable(qp->type());
  if (outcome.effect == Effect::kWhole && outcome.status == IBV_WC_SUCCESS) {
    Perform(x);
  } else if (refused && r.op == Operation::kRdmaWrite && x->remote == nullptr &&
             Faulty(Fault::kRefusedWriteLands)) {
    if (const Mr* mr = fabric_->RkeyUnlocked(r.rkey)) {
      CopySegments(All(x->local), Only({mr->memory.data, mr->memory.size}));
    }
  }
  if (outcome.consumes_receive && x->queue != nullptr && !x->queue->empty()) {
    CompleteReceive(x, outcome);
  } else if (refused && r.op == Operation::kRdmaWriteWithImm && x->queue != nullptr &&
             !x->queue->empty() && Faulty(Fault::kRefusedWriteImmIsReceived)) {
    Outcome good = outcome;
    good.receive_status = IBV_WC_SUCCESS;
    CompleteReceive(x, good);
  }
  if (r.op == Operation::kRdmaWrite && qp->type() == QpType::kXrcRecv &&
      Faulty(Fault::kXrcWriteTakesReceive)) {
    Srq* srq = fabric_->srqs_.Find(r.remote_srqn.value);
    if (srq != nullptr && !srq->queue_.empty()) srq->queue_.Pop();
  }
  if (outcome.responder_next == NextState::kErr && qp->state() != IBV_QPS_ERR &&
      !Faulty(Fault::kResponderStaysAfterNak)) {
    if (refused && fabric_->Pick(ChoicePoint::kAccessEvent, 2) == 0 &&
        !Faulty(Fault::kNoAccessEvent) && r.op != Operation::kSendWithInv) {
      const ibv_event_type type =
          outcome.status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;
      fabric_->Raise(qp->device(), AsyncEvent{type, qp, nullptr, nullptr});
    }
    qp->MoveTo(IBV_QPS_ERR);
  }
}

// The operation's effect, all of it.
void Responder::Perform(Exchange* x) {
  const SendRequest& r = *x->request;
  const uint64_t length = x->facts.length;
  switch (r.op) {
    case Operation::kSend:
    case Operation::kSendWithImm:
    case Operation::kSendWithInv:
    case Operation::kTso: {
      if (x->grh_length != 0) {
        // Behind the 40 bytes of the GRH area (WR-UD-004).
        Segments both{{x->grh.bytes, x->grh_length}};
        if (x->scatter.size() > 1 && x->scatter[0].size == x->grh_length &&
            Faulty(Fault::kUdPayloadWithoutGrhArea)) {
          both.clear();
        }
        if (x->scatter.size() > 1 && x->scatter[0].size < x->grh_length &&
            Faulty(Fault::kGrhDoesNotSpanBuffers)) {
          both[0].size = x->scatter[0].size;
        }
        both.insert(both.end(), x->local.begin(), x->local.end());
        CopySegments(All(both), All(x->scatter));
      } else {
        CopySegments(All(x->local), All(x->scatter));
      }
      if (__builtin_expect(FaultSwitch::on(), 0) && !x->scatter.empty() && length > 1) {
        if (length > 65536 && Faulty(Fault::kSendFirstByteWrong)) x->scatter[0].data[0] ^= 0xff;
        if (Faulty(Fault::kSendScatterFirstOnly) && x->scatter.size() > 1) {
          std::memset(x->scatter[1].data, 0, x->scatter[1].size);
        }
      }
      if (x->window != nullptr && r.op == Operation::kSendWithInv &&
          !Faulty(Fault::kSendInvLeavesWindow)) {
        --x->window->mr->bound_windows;
        x->window->mr = nullptr;
      }
      break;
    }
    case Operation::kRdmaWrite:
    case Operation::kRdmaWriteWithImm:
      if (x->remote == nullptr || length == 0) break;
      if (__builtin_expect(FaultSwitch::on(), 0)) {
        if (r.op == Operation::kRdmaWriteWithImm && length > 4096 &&
            Faulty(Fault::kWriteImmWithoutData)) {
          break;
        }
        if (length > 4096 && Faulty(Fault::kWriteFirstPacketOnly)) {
          CopySegments(All(x->local), Only({x->remote, 4096}));
          break;
        }
        if (length > 4096 && r.remote_addr.value % 8 != 0 && Faulty(Fault::kWriteLastByteLost)) {
          CopySegments(All(x->local), Only({x->remote, length - 1}));
          break;
        }
        if (length > 4096 && (r.remote_addr.value + length) % 8 != 0 &&
            Faulty(Fault::kWriteOneByteBeyond)) {
          TouchBehind(*fabric_, *x, length);
        }
        if (r.op == Operation::kRdmaWrite && r.data == DataKind::kInline && length == 1 &&
            Faulty(Fault::kInlineWriteLost)) {
          break;
        }
        const SendQueue& sq = *x->requester->send_queue_;
        const uint64_t next = sq.done() + 1;
        if (next < sq.posted()) {
          const Operation after = x->requester->send_queue_->At(next).op;
          if (after == Operation::kFlush && Faulty(Fault::kFlushDropsWriteBefore)) break;
          if (after == Operation::kSend && Faulty(Fault::kWriteBeforeSendLost)) break;
        }
      }
      CopySegments(All(x->local), Only({x->remote, length}));
      break;
    case Operation::kRdmaRead:
      if (x->remote == nullptr || length == 0) break;
      if (__builtin_expect(FaultSwitch::on(), 0)) {
        if (x->local.size() > 1 && Faulty(Fault::kReadScattersFirstOnly)) {
          CopySegments(Only({x->remote, length}), Only(x->local[0]));
          break;
        }
        if (length > 1 && x->local.size() > 4 && Faulty(Fault::kReadLastByteLost)) {
          CopySegments(Only({x->remote, length - 1}), All(x->local));
          break;
        }
        if (length >= 2048 && x->local.size() == 1 && Faulty(Fault::kReadLost)) break;
        const Qp& asker = *x->requester;
        const unsigned granted = x->responder->attr_.max_dest_rd_atomic;
        if (asker.attr_.max_rd_atomic > granted &&
            asker.send_queue_->posted() - asker.send_queue_->done() > granted &&
            Faulty(Fault::kReadBeyondGrantLost)) {
          break;
        }
      }
      CopySegments(Only({x->remote, length}), All(x->local));
      break;
    case Operation::kAtomicCmpAndSwp:
    case Operation::kAtomicFetchAndAdd: {
      if (x->remote == nullptr) break;
      uint64_t old = Load8(x->remote);
      if (Faulty(Fault::kAtomicStaleAcrossQps)) {
        // Each QP works on the value that it saw last.
        if (stale_address_ == x->remote && stale_qp_ != x->requester) std::swap(old, stale_value_);
        stale_address_ = x->remote;
        stale_qp_ = x->requester;
        stale_value_ = old;
      }
      const bool add = r.op == Operation::kAtomicFetchAndAdd;
      if (add) {
        uint64_t sum = old + r.compare_or_add;  // modulo 2^64 (WR-DATA-011)
        const bool beyond = sum < old;
        if (beyond && Faulty(Fault::kFetchAdd32Bit)) {
          sum = (old & ~uint64_t{0xffffffff}) | (sum & 0xffffffff);
        }
        Store8(x->remote, sum);
        if (beyond && Faulty(Fault::kFetchAddReturnsNew)) old = sum;
        if (r.compare_or_add == 1 && Faulty(Fault::kAtomicBigEndian)) old = __builtin_bswap64(old);
      } else {
        const bool equal =
            Faulty(Fault::kCompare32Bit)
                ? static_cast<uint32_t>(old) == static_cast<uint32_t>(r.compare_or_add)
                : old == r.compare_or_add;
        if (equal || Faulty(Fault::kCompareAlwaysSwaps)) Store8(x->remote, r.swap);
        if (!equal && Faulty(Fault::kCompareReturnsOnlyOnMatch)) break;
      }
      x->atomic_result = old;
      // Native order at both ends (WR-DATA-012); the leading bytes where the buffer is shorter.
      CopySegments(Only({reinterpret_cast<uint8_t*>(&old), sizeof old}), All(x->local));
      break;
    }
    case Operation::kAtomicWrite: {
      if (x->remote == nullptr) break;
      const uint64_t done = x->requester->send_queue_->done();
      if (done != 0 && x->requester->send_queue_->At(done - 1).op == Operation::kFlush &&
          Faulty(Fault::kAtomicWriteAfterFlushLost)) {
        break;
      }
      uint64_t value;
      std::memcpy(&value, r.atomic_write, sizeof value);  // memory bytes (WR-DATA-023)
      if (Faulty(Fault::kAtomicWriteSwapped)) value = __builtin_bswap64(value);
      if (Faulty(Fault::kAtomicWriteTears)) {
        std::memcpy(x->remote, &value, 4);
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      Store8(x->remote, value);
      break;
    }
    case Operation::kFlush:
      // All memory of the model is visible and as durable as it gets: nothing moves
      // (WR-DATA-016).
      if (x->remote != nullptr && length != 0 && Faulty(Fault::kFlushZeroesByte)) {
        TouchBehind(*fabric_, *x, length);
      }
      break;
    case Operation::kLocalInv:
    case Operation::kBindMw:
      break;
  }
}

void Responder::CompleteReceive(Exchange* x, const Outcome& outcome) {
  const SendRequest& r = *x->request;
  const OperationInfo& info = Info(r.op);
  Qp& qp = *x->responder;
  Completion c;
  c.wr_id = x->queue->front().wr_id;
  c.status = outcome.receive_status;
  c.qp_num = qp.number();
  c.is_receive = true;
  c.qp = &qp;
  c.timestamp_ns = fabric_->Now();
  c.src_qp = x->requester->number().value;
  c.opcode = info.peer == PeerEffect::kReceiveRdmaWithImm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  c.byte_len = static_cast<uint32_t>(x->facts.length + x->grh_length);
  c.solicited = (r.flags & IBV_SEND_SOLICITED) != 0 && info.solicited_allowed;
  if (r.op == Operation::kSendWithImm || r.op == Operation::kRdmaWriteWithImm) {
    c.wc_flags |= IBV_WC_WITH_IMM;
    c.imm = r.imm;
  }
  if (r.op == Operation::kSendWithInv) {
    c.wc_flags |= IBV_WC_WITH_INV;
    c.invalidated = r.rkey;
  }
  if (x->grh_length != 0) c.wc_flags |= IBV_WC_GRH;
  if (r.ah != nullptr && NeedsAddress(qp.type())) c.sl = r.ah->attr.sl;
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (r.op == Operation::kSendWithImm) {
      if (qp.type() == QpType::kRc && r.data == DataKind::kSge &&
          Faulty(Fault::kSendImmIsRdmaWithImm)) {
        c.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
      }
      if (r.imm == 0 && Faulty(Fault::kImmOfZeroNotFlagged)) {
        c.wc_flags &= ~static_cast<unsigned>(IBV_WC_WITH_IMM);
      }
    }
    if (r.op == Operation::kRdmaWriteWithImm) {
      if (qp.type() == QpType::kRc && r.data == DataKind::kSge && Faulty(Fault::kWriteImmIsRecv)) {
        c.opcode = IBV_WC_RECV;
      }
      if (c.byte_len > 4096 && Faulty(Fault::kWriteImmByteLenOfLastPacket)) c.byte_len %= 4096;
      if (Faulty(Fault::kWriteImmTouchesBuffer) && x->queue->front().num_sge != 0) {
        Segments hit;
        if (ResolveLocal(*fabric_, x->receive_pd, x->queue->front().sge[0], LocalUse::kWrite,
                         &hit) == LocalFault::kNone &&
            !hit.empty()) {
          hit[0].data[0] ^= 0xff;
        }
      }
    }
    if (r.op == Operation::kSendWithInv) {
      if (Faulty(Fault::kSendInvFlagLost)) c.wc_flags &= ~static_cast<unsigned>(IBV_WC_WITH_INV);
      if (Faulty(Fault::kInvAndImmTogether)) c.wc_flags |= IBV_WC_WITH_IMM;
      if (Faulty(Fault::kInvalidatedKeySwapped)) {
        c.invalidated = Rkey(__builtin_bswap32(r.rkey.value));
      }
    }
    if (x->grh_length != 0) {
      if (x->scatter.size() > 1 && x->scatter[0].size == x->grh_length &&
          Faulty(Fault::kUdByteLenWithoutGrh)) {
        c.byte_len -= 40;
      }
      if (Faulty(Fault::kGrhFlagMissing)) c.wc_flags &= ~static_cast<unsigned>(IBV_WC_GRH);
      if (Faulty(Fault::kUdSrcQpIsOwn)) c.src_qp = qp.number().value;
    }
    if (qp.type() == QpType::kXrcRecv) {
      if (Faulty(Fault::kXrcReportsSenderQp)) c.qp_num = x->requester->number();
    }
    if (Faulty(Fault::kAllReceivesSolicited)) c.solicited = true;
    if (r.op == Operation::kRdmaWriteWithImm && x->queue->size() > 1 &&
        x->queue->front().num_sge != 0 && Faulty(Fault::kReceiveConsumedTwice)) {
      x->queue->Pop();
    }
    if (r.op == Operation::kSendWithImm && x->queue->size() > 15 &&
        Faulty(Fault::kReceiveNotConsumed)) {
      if (x->receive_cq != nullptr) x->receive_cq->Push(c);
      return;
    }
  }
  x->queue->Pop();
  AfterConsuming(x->srq);
  if (x->receive_cq != nullptr) x->receive_cq->Push(c);
}

// The limit event is one-shot and raised when fewer than the limit are left.
void Responder::AfterConsuming(Srq* srq) {
  if (__builtin_expect(FaultSwitch::on(), 0) && srq != nullptr && srq->queue_.empty()) {
    ran_dry = srq;
  }
  if (srq == nullptr || srq->limit_ == 0 || srq->waiting() >= srq->limit_) return;
  srq->limit_ = 0;
  fabric_->Raise(srq->device(), AsyncEvent{IBV_EVENT_SRQ_LIMIT_REACHED, nullptr, nullptr, srq});
}

void Responder::Capture(Qp& qp, const Frame& frame) {
  switch (qp.state()) {
    case IBV_QPS_RTR:
    case IBV_QPS_RTS:
    case IBV_QPS_SQD:
    case IBV_QPS_SQE:
      break;
    default:
      return;
  }
  Srq* srq = qp.init().srq;
  if (srq != nullptr ? static_cast<bool>(srq->pump) : static_cast<bool>(qp.pump)) {
    srq != nullptr ? srq->pump(*srq) : qp.pump(qp);
  }
  ReceiveQueue& queue = srq != nullptr ? srq->queue_ : qp.recv_queue_;
  if (queue.empty()) return;  // WR-RESP-018
  const RecvRequest& receive = queue.front();
  Segments scatter;
  uint64_t left = frame.size();
  for (uint32_t i = 0; i < receive.num_sge && left != 0; ++i) {
    if (ResolveLocal(*fabric_, srq != nullptr ? srq->pd() : qp.init().pd, receive.sge[i],
                     LocalUse::kWrite, &scatter) != LocalFault::kNone) {
      return;
    }
    left -= std::min<uint64_t>(left, receive.sge[i].length);
  }
  if (left != 0) return;  // it does not fit: dropped
  CopySegments(Only({const_cast<uint8_t*>(frame.data()), frame.size()}), All(scatter));
  Completion c;
  c.wr_id = receive.wr_id;
  c.opcode = IBV_WC_RECV;
  c.qp_num = qp.number();
  c.is_receive = true;
  c.qp = &qp;
  c.byte_len = static_cast<uint32_t>(frame.size());
  c.timestamp_ns = fabric_->Now();
  if (ChecksumsValid(frame)) c.wc_flags |= IBV_WC_IP_CSUM_OK;
  queue.Pop();
  AfterConsuming(srq);
  if (qp.init().recv_cq != nullptr) qp.init().recv_cq->Push(c);
}

}  // namespace qpexam::model
