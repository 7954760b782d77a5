// Completions and events, memory and time.
#include <endian.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "harness/execute/execution.h"

namespace qpexam {
namespace {

constexpr int kPollAtOnce = 16;

bool IsReceive(int opcode) { return (opcode & IBV_WC_RECV) != 0; }

// byte_len of a send completion is meaningful for what read data only (WR-COMP-005).
bool HasByteLen(int opcode) {
  return IsReceive(opcode) || opcode == IBV_WC_RDMA_READ || opcode == IBV_WC_COMP_SWAP ||
         opcode == IBV_WC_FETCH_ADD;
}

void MakeNonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (!(flags & O_NONBLOCK)) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

}  // namespace

template <typename Ready>
void Executor::Impl::WaitFor(Ready ready, Event* event) {
  if (ready()) return;
  if (!parallel_) {
    session_->BeginWait();
    Rest rest = Rest::kIdle;
    while (session_->Step(&rest)) {
      if (ready()) return;
    }
    if (ready()) return;
    (rest == Rest::kIdle ? event->settled : event->timed_out) = true;
    return;
  }
  // Others may stand before the region that this thread holds, and would wait for it while it waits
  // for them (WR-CRIT-010).
  if (regions_held_[program_->calls[event->call].thread] > 0) {
    event->timed_out = true;
    return;
  }
  // Other threads may be about to make the call that this one waits for: the wait is over only
  // when nothing moves and every thread that still runs waits as well.
  waiting_++;
  std::unique_lock<std::mutex> lock(record_mutex_, std::defer_lock);
  bool begun = false;  // a bound was begun since all wait
  while (true) {
    lock.lock();
    const bool all_wait = waiting_ >= running_;
    if (!all_wait || !begun) session_->BeginWait();
    begun = all_wait;
    Rest rest = Rest::kIdle;
    const bool moving = session_->Step(&rest);
    lock.unlock();
    if (ready()) break;
    if (!moving && all_wait) {
      event->timed_out = true;
      break;
    }
    // Those who run need the mutex as well, and would hardly ever get it from one that spins here.
    if (all_wait) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  waiting_--;
}

// -------------------------------------------------------------------------------------------------
// Completions.

void Executor::Impl::AddCompletion(CqRef ref, ibv_context* context, const ibv_wc& wc,
                                   Trace* trace) {
  trace->completions.emplace_back();
  SeenCompletion& seen = trace->completions.back();
  seen.wr_id = wc.wr_id;
  seen.cq = ref;
  seen.status = wc.status;
  seen.vendor_err = wc.status == IBV_WC_SUCCESS ? 0 : wc.vendor_err;
  seen.qp = QpByNumber(context, wc.qp_num);
  if (wc.status != IBV_WC_SUCCESS) return ForgetBind(seen.qp, wc.wr_id);
  seen.opcode = wc.opcode;
  if (HasByteLen(wc.opcode)) seen.byte_len = wc.byte_len;
  seen.wc_flags = wc.wc_flags;
  if (wc.wc_flags & IBV_WC_WITH_IMM) seen.imm = be32toh(wc.imm_data);
  if (wc.wc_flags & IBV_WC_WITH_INV) {
    seen.invalidated = KeyOwner(wc.invalidated_rkey, &seen.invalidated_inc);
    if (seen.invalidated == kNoObject) seen.invalidated_raw = wc.invalidated_rkey;
  }
  const bool datagram = IsReceive(wc.opcode) && seen.qp != kNoObject &&
                        model::NeedsAddress(slots_[seen.qp].qp.made_by->qp_type);
  if (!datagram) return;
  seen.src_qp = QpByNumber(nullptr, wc.src_qp);
  seen.pkey_index = wc.pkey_index;
  seen.slid = wc.slid;
  seen.sl = wc.sl;
  seen.dlid_path_bits = wc.dlid_path_bits;
}

bool Executor::Impl::Poll(const Call& call, Scratch* scratch, Out out) {
  const CqRef ref{call.object, call.side};
  uint16_t index = 0;
  CqState* cq = CqOf(ref, &index);
  if (!cq) return false;
  ibv_context* context = cq->cq->context;
  uint64_t got = 0;
  scratch->wcs.resize(kPollAtOnce);
  auto poll = [&] {
    while (got < call.n) {
      const int most = static_cast<int>(std::min<uint64_t>(call.n - got, kPollAtOnce));
      const int n = ibv_poll_cq(cq->cq, most, scratch->wcs.data());
      out.event->rc = n;
      if (n <= 0) return n < 0 || got >= call.expect;
      for (int i = 0; i < std::min(n, most); i++)
        AddCompletion(ref, context, scratch->wcs[static_cast<size_t>(i)], out.trace);
      got += static_cast<uint64_t>(n);
    }
    return true;
  };
  WaitFor(poll, out.event);
  // What the last of several calls returned says nothing; a failure does.
  if (out.event->rc > 0) out.event->rc = 0;
  out.event->count = static_cast<uint32_t>(got);
  arena_.RecordChanges(out.trace);
  return true;
}

void Executor::Impl::ReadEx(CqRef ref, ibv_cq_ex* cq, uint64_t wc_flags, Trace* trace) {
  ibv_wc wc;
  std::memset(&wc, 0, sizeof wc);
  wc.wr_id = cq->wr_id;
  wc.status = cq->status;
  // Reading these is always allowed; the rest only where creation asked for it.
  wc.vendor_err = ibv_wc_read_vendor_err(cq);
  if (wc.status == IBV_WC_SUCCESS) {
    wc.opcode = ibv_wc_read_opcode(cq);
    wc.wc_flags = ibv_wc_read_wc_flags(cq);
    if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN) wc.byte_len = ibv_wc_read_byte_len(cq);
    if ((wc_flags & IBV_WC_EX_WITH_IMM) && (wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))) {
      if (wc.wc_flags & IBV_WC_WITH_IMM) {
        wc.imm_data = ibv_wc_read_imm_data(cq);
      } else {
        wc.invalidated_rkey = ibv_wc_read_invalidated_rkey(cq);
      }
    }
    if (wc_flags & IBV_WC_EX_WITH_SRC_QP) wc.src_qp = ibv_wc_read_src_qp(cq);
    if (wc_flags & IBV_WC_EX_WITH_SLID) wc.slid = static_cast<uint16_t>(ibv_wc_read_slid(cq));
    if (wc_flags & IBV_WC_EX_WITH_SL) wc.sl = ibv_wc_read_sl(cq);
    if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
      wc.dlid_path_bits = ibv_wc_read_dlid_path_bits(cq);
  }
  // Times differ from run to run: they are read, so that the reading is exercised, not recorded.
  if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) (void)ibv_wc_read_completion_ts(cq);
  if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
    (void)ibv_wc_read_completion_wallclock_ns(cq);
  if (wc_flags & IBV_WC_EX_WITH_QP_NUM) {
    wc.qp_num = ibv_wc_read_qp_num(cq);
    AddCompletion(ref, ibv_cq_ex_to_cq(cq)->context, wc, trace);
    return;
  }
  AddCompletion(ref, nullptr, wc, trace);
  trace->completions.back().qp = kNoObject;
}

bool Executor::Impl::PollEx(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kCq);
  if (!slot || !slot->cq.ex) return false;
  ibv_cq_ex* cq = slot->cq.ex;
  const CqRef ref{call.object, Side::kNone};
  // Only fields that creation asked for may be read (CQX).
  const uint64_t wc_flags =
      call.wc_flags ? call.wc_flags & slot->made_by->wc_flags : slot->made_by->wc_flags;
  uint64_t got = 0;
  auto poll = [&] {
    if (got >= call.n) return true;
    ibv_poll_cq_attr attr{};
    int rc = ibv_start_poll(cq, &attr);
    if (rc == 0) {
      do {
        ReadEx(ref, cq, wc_flags, out.trace);
        got++;
        rc = got < call.n ? ibv_next_poll(cq) : 0;
      } while (rc == 0 && got < call.n);
      ibv_end_poll(cq);
    }
    out.event->rc = rc == ENOENT ? 0 : rc;
    return got >= call.expect || out.event->rc != 0;
  };
  WaitFor(poll, out.event);
  out.event->count = static_cast<uint32_t>(got);
  arena_.RecordChanges(out.trace);
  return true;
}

bool Executor::Impl::PollStep(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kCq);
  if (!slot || !slot->cq.ex) return false;
  CqState* cq = &slot->cq;
  spoilt_ = true;
  switch (call.kind) {
    case CallKind::kStartPoll: {
      ibv_poll_cq_attr attr{};
      auto start = [&] {
        out.event->rc = ibv_start_poll(cq->ex, &attr);
        return out.event->rc != ENOENT;
      };
      WaitFor(start, out.event);
      if (out.event->rc == 0) {
        cq->polling = cq->current = true;
        cq->poll_thread = call.thread;
        out.event->count = 1;
      }
      return true;
    }
    case CallKind::kNextPoll:
      // Outside of a poll these are the caller's error (WR-CQX) that no provider survives.
      if (!cq->polling) return false;
      out.event->rc = ibv_next_poll(cq->ex);
      cq->current = out.event->rc == 0;
      out.event->count = cq->current ? 1 : 0;
      return true;
    case CallKind::kReadWc:
      if (!cq->polling || !cq->current) return false;
      ReadEx({call.object, Side::kNone}, cq->ex,
             call.wc_flags ? call.wc_flags & slot->made_by->wc_flags : slot->made_by->wc_flags,
             out.trace);
      return true;
    case CallKind::kEndPoll:
      if (!cq->polling) return false;
      ibv_end_poll(cq->ex);
      cq->polling = false;
      arena_.RecordChanges(out.trace);
      return true;
    default:
      return false;
  }
}

void Executor::Impl::DrainCq(CqRef ref, CqState* cq, Scratch* scratch, Out out) {
  if (!cq->cq || cq->polling) return;
  scratch->wcs.resize(kPollAtOnce);
  while (true) {
    const int n = ibv_poll_cq(cq->cq, kPollAtOnce, scratch->wcs.data());
    for (int i = 0; i < std::min(n, kPollAtOnce); i++)
      AddCompletion(ref, cq->cq->context, scratch->wcs[static_cast<size_t>(i)], out.trace);
    if (n > 0) out.event->count += static_cast<uint32_t>(n);
    if (n < 0) out.event->rc = n;
    // A CQ in error, or one that never runs dry, ends the draining.
    if (n < kPollAtOnce || out.event->count > 1u << 20) return;
  }
}

void Executor::Impl::DrainAll(Scratch* scratch, Out out) {
  for (size_t i = 0; i < slots_.size(); i++) {
    ObjectSlot& slot = slots_[i];
    if (!slot.alive) continue;
    const auto id = static_cast<ObjectId>(i);
    if (slot.kind == ObjectKind::kCq) DrainCq({id, Side::kNone}, &slot.cq, scratch, out);
    if (slot.kind == ObjectKind::kQp) {
      DrainCq({id, Side::kSend}, &slot.qp.own_send, scratch, out);
      DrainCq({id, Side::kRecv}, &slot.qp.own_recv, scratch, out);
    }
  }
}

// -------------------------------------------------------------------------------------------------
// Events.

bool Executor::Impl::Arm(const Call& call, Out out) {
  uint16_t index = 0;
  CqState* cq = CqOf({call.object, call.side}, &index);
  if (!cq) return false;
  spoilt_ = true;
  out.event->rc = ibv_req_notify_cq(cq->cq, call.solicited);
  return true;
}

CqRef Executor::Impl::RefOfCq(const ibv_cq* cq) {
  for (size_t i = 0; i < slots_.size(); i++) {
    const ObjectSlot& slot = slots_[i];
    if (!slot.alive) continue;
    const auto id = static_cast<ObjectId>(i);
    if (slot.kind == ObjectKind::kCq && slot.cq.cq == cq) return {id, Side::kNone};
    if (slot.kind == ObjectKind::kQp && slot.qp.own_send.cq == cq) return {id, Side::kSend};
    if (slot.kind == ObjectKind::kQp && slot.qp.own_recv.cq == cq) return {id, Side::kRecv};
  }
  return {};
}

bool Executor::Impl::GetCqEvent(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kChannel);
  if (!slot) return false;
  auto get = [&] {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    errno = 0;
    if (ibv_get_cq_event(slot->channel, &cq, &context)) {
      out.event->rc = errno ? errno : EIO;
      return out.event->rc != EAGAIN && out.event->rc != EINTR;
    }
    out.event->rc = 0;
    out.event->count = 1;
    out.event->event_of = RefOfCq(cq);
    uint16_t index = 0;
    if (CqState* state = CqOf(out.event->event_of, &index)) state->unacked++;
    return true;
  };
  WaitFor(get, out.event);
  return true;
}

bool Executor::Impl::AckCqEvents(const Call& call, Out out) {
  (void)out;
  ObjectSlot* slot = Alive(call.object, ObjectKind::kCq);
  // More than were taken is the caller's error, and leaves a CQ that no longer can be freed.
  if (!slot || call.n > slot->cq.unacked) return false;
  ibv_ack_cq_events(slot->cq.cq, static_cast<unsigned>(call.n));
  slot->cq.unacked -= static_cast<uint32_t>(call.n);
  return true;
}

bool Executor::Impl::GetAsyncEvent(const Call& call, Out out) {
  uint16_t index = 0;
  ContextSlot* context = ContextOf(call.object, &index);
  if (!context) return false;
  spoilt_ = true;
  MakeNonblocking(context->context->async_fd);
  auto get = [&] {
    ibv_async_event event{};
    errno = 0;
    if (ibv_get_async_event(context->context, &event)) {
      out.event->rc = errno ? errno : EIO;
      return out.event->rc != EAGAIN && out.event->rc != EINTR;
    }
    out.event->rc = 0;
    out.event->count = 1;
    out.event->has_async = true;
    out.event->async_type = event.event_type;
    switch (event.event_type) {
      case IBV_EVENT_CQ_ERR:
        out.event->event_of = RefOfCq(event.element.cq);
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_SQ_DRAINED:
      case IBV_EVENT_PATH_MIG:
      case IBV_EVENT_PATH_MIG_ERR:
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        for (size_t i = 0; i < slots_.size(); i++)
          if (slots_[i].alive && slots_[i].kind == ObjectKind::kQp &&
              slots_[i].qp.qp == event.element.qp)
            out.event->event_of.object = static_cast<ObjectId>(i);
        break;
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_SRQ_LIMIT_REACHED:
        for (size_t i = 0; i < slots_.size(); i++)
          if (slots_[i].alive && slots_[i].kind == ObjectKind::kSrq &&
              slots_[i].srq == event.element.srq)
            out.event->event_of.object = static_cast<ObjectId>(i);
        break;
      default:
        break;
    }
    ibv_ack_async_event(&event);
    return true;
  };
  WaitFor(get, out.event);
  return true;
}

// -------------------------------------------------------------------------------------------------
// Memory and time.

bool Executor::Impl::Load(const Call& call, Out out) {
  uint8_t* host = nullptr;
  if (!HostAddress(call.addr, call.len, &host)) return false;
  // What else has changed is recorded first: the bytes of the load itself are then said once more,
  // whether they changed or not.
  arena_.RecordChanges(out.trace);
  arena_.RecordBytes(host, call.len, call.addr.mr, static_cast<uint64_t>(call.addr.offset),
                     out.trace);
  return true;
}

bool Executor::Impl::Store(const Call& call) {
  uint8_t* host = nullptr;
  const uint64_t len = call.bytes.empty() ? call.len : call.bytes.size();
  if (!HostAddress(call.addr, len, &host)) return false;
  if (call.bytes.empty()) {
    arena_.Fill(host, static_cast<uint8_t>(call.fill == kUnset ? 0 : call.fill), len);
  } else {
    arena_.Store(host, call.bytes.data(), len);
  }
  return true;
}

bool Executor::Impl::Settle(Out out) {
  out.event->settled = true;
  out.event->timed_out = session_->Settle() == Rest::kTimedOut;
  arena_.RecordChanges(out.trace);
  RecordStates(out.trace);
  return true;
}

bool Executor::Impl::Advance(const Call& call, Out out) {
  if (!session_->Advance(call.ns)) {
    out.event->ran = Ran::kSkipped;
    return true;
  }
  arena_.RecordChanges(out.trace);
  return true;
}

bool Executor::Impl::FaultPoint(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (!slot) return false;
  spoilt_ = true;
  if (!session_->Fault(slot->qp.qp, static_cast<model::FaultPoint>(call.fault),
                       static_cast<unsigned>(call.n), static_cast<unsigned>(call.skip)))
    out.event->ran = Ran::kSkipped;
  return true;
}

}  // namespace qpexam
