#include "reference/model/completion_queue.h"

#include <algorithm>
#include <cerrno>

#include "reference/model/fabric.h"
#include "reference/model/faults.h"
#include "reference/model/queue_pair.h"
#include "reference/model/send_queue.h"

namespace qpexam::model {

Cq::Cq(Device* device, int cqe, CqSink* sink)
    : device_(device), sink_(sink), capacity_(cqe), ring_(std::min(cqe, 64)) {}

void Cq::Push(const Completion& completion) {
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    Completion c = completion;
    if (c.status != IBV_WC_SUCCESS && c.status != IBV_WC_WR_FLUSH_ERR) {
      if (Faulty(Fault::kErrorCompletionTruncatesWrId)) c.wr_id = WrId(c.wr_id.value & 0xffffffff);
      if (Faulty(Fault::kErrorCompletionLosesQpNum)) c.qp_num = QpNum(0);
    }
    if (c.status == IBV_WC_WR_FLUSH_ERR && Faulty(Fault::kFlushCompletionLosesWrId)) {
      c.wr_id = WrId(0);
    }
    Add(c);
  } else {
    Add(completion);
  }
}

void Cq::Add(const Completion& c) {
  Fabric& fabric = device_->fabric();
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  fabric.Activity();
  const bool taken = sink_ != nullptr && sink_->OnCompletion(*this, c);
  if (!taken) {
    if (overrun_) return;
    const size_t count = count_.load(std::memory_order_relaxed);
    if (count + leaked_ >= static_cast<size_t>(capacity_)) {
      // WR-COMP-012: the queue is unusable from now on.
      if (Faulty(Fault::kCqOverrunSilent)) return;
      overrun_ = true;
      if (!Faulty(Fault::kCqOverrunNoEvent)) {
        fabric.Raise(*device_, AsyncEvent{IBV_EVENT_CQ_ERR, nullptr, this, nullptr});
      }
      return;
    }
    if (count == ring_.size()) {  // grows up to the capacity as it is used
      std::vector<Completion> larger(std::min<size_t>(capacity_, std::max<size_t>(1, count * 2)));
      for (size_t i = 0; i < count; ++i) larger[i] = ring_[(head_ + i) % ring_.size()];
      ring_.swap(larger);
      head_ = 0;
    }
    size_t at = head_ + count;
    if (at >= ring_.size()) at -= ring_.size();
    ring_[at] = c;
    if (__builtin_expect(FaultSwitch::on(), 0) && count > 5 && !c.is_receive && c.qp != nullptr &&
        c.qp->type() == QpType::kUd && Faulty(Fault::kCompletionsReordered)) {
      Completion& before = ring_[at == 0 ? ring_.size() - 1 : at - 1];
      if (before.qp == c.qp && !before.is_receive) std::swap(before, ring_[at]);
    }
    count_.store(count + 1, std::memory_order_release);
  }
  if (!armed_) return;
  // Errors count as solicited (X27, WR-EVT-002).
  bool raises =
      armed_for_ == Notify::kAny || (c.is_receive && c.solicited) || c.status != IBV_WC_SUCCESS;
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (armed_for_ == Notify::kSolicitedOnly) {
      if (Faulty(Fault::kSolicitedOnlyRaisesForAll)) raises = true;
      if (c.status != IBV_WC_SUCCESS && Faulty(Fault::kErrorRaisesNoSolicitedEvent)) {
        raises = c.is_receive && c.solicited;
      }
      if (c.status == IBV_WC_SUCCESS && Faulty(Fault::kSolicitedRaisesNothing)) raises = false;
    } else if (!c.is_receive && Faulty(Fault::kSendCompletionRaisesNoEvent)) {
      raises = false;
    }
  }
  if (!raises) return;
  if (!Faulty(Fault::kArmStaysArmed)) armed_ = false;
  if (sink_ != nullptr) sink_->OnCqEvent(*this);
}

bool Cq::Take(Completion* out) {
  const size_t count = count_.load(std::memory_order_relaxed);
  if (count == 0) return false;
  *out = ring_[head_];
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (armed_ && Faulty(Fault::kPollThatTakesDisarms)) armed_ = false;
    if (out->is_receive && out->opcode == IBV_WC_RECV && (out->wc_flags & IBV_WC_WITH_IMM) != 0) {
      if (__builtin_bswap32(out->imm) < 65536 && Faulty(Fault::kPollImmSwapped)) {
        out->imm = __builtin_bswap32(out->imm);
      }
      if (Faulty(Fault::kByteLenRoundedUp)) out->byte_len = (out->byte_len + 3) & ~3u;
    }
    if (!out->is_receive) {
      const ibv_wc_status status = out->status;
      if (polled_ && polled_qp_ != out->qp_num && Faulty(Fault::kPollStatusOfOtherQp)) {
        out->status = polled_status_;
      }
      polled_ = true;
      polled_qp_ = out->qp_num;
      polled_status_ = status;
    }
  }
  if (++head_ == ring_.size()) head_ = 0;
  count_.store(count - 1, std::memory_order_release);
  if (out->qp != nullptr && out->covers != 0) out->qp->send_queue().Free(out->covers);
  return true;
}

int Cq::Poll(Span<Completion> out) {
  if (poll_lock_.HeldByMe()) {
    device_->fabric().Report("WR-CQX-008", "ibv_poll_cq between start_poll and end_poll");
    return 0;
  }
  // An empty queue is looked at without its lock: a program that spins must not starve the rest.
  poll_lock_.Lock();
  Fabric& fabric = device_->fabric();
  size_t n = 0;
  int result;
  {
    std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
    if (overrun_) {
      result = -1;
    } else {
      while (n < out.size && Take(&out.data[n])) ++n;
      if (n == 0 && Faulty(Fault::kEmptyPollDisarms)) armed_ = false;
      if (n == 0 && out.size != 0) {
        fabric.OnEmptyPoll();
        while (n < out.size && Take(&out.data[n])) ++n;
      }
      result = static_cast<int>(n);
    }
  }
  poll_lock_.Unlock();
  return result;
}

int Cq::StartPoll() {
  Fabric& fabric = device_->fabric();
  if (poll_lock_.HeldByMe()) {
    fabric.Report("WR-CQX-008", "start_poll twice without end_poll");
    return EINVAL;
  }
  poll_lock_.Lock();
  int rc = 0;
  {
    std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
    if (overrun_) {
      rc = EIO;
    } else if (!Take(&current_)) {
      fabric.OnEmptyPoll();
      if (!Take(&current_)) rc = ENOENT;
    }
  }
  if (rc != 0 && !Faulty(Fault::kStartPollKeepsLock)) poll_lock_.Unlock();
  if (rc == ENOENT && Faulty(Fault::kStartPollEmptyIsEagain)) return EAGAIN;
  return rc;
}

int Cq::NextPoll() {
  Fabric& fabric = device_->fabric();
  if (!poll_lock_.HeldByMe()) {
    fabric.Report("WR-CQX-008", "next_poll outside of start_poll .. end_poll");
    return EINVAL;
  }
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  if (overrun_) return EIO;
  if (Faulty(Fault::kNextPollSkips)) {
    Completion lost;
    Take(&lost);
  }
  const unsigned flags_before = current_.wc_flags;
  if (!Take(&current_)) return ENOENT;
  if ((flags_before & ~current_.wc_flags) != 0 && Faulty(Fault::kWcFlagsLingerInBatch)) {
    current_.wc_flags |= flags_before;
  }
  if (Faulty(Fault::kBatchNotReleased)) ++leaked_;
  return 0;
}

void Cq::EndPoll() {
  if (!poll_lock_.HeldByMe()) {
    device_->fabric().Report("WR-CQX-008", "end_poll without start_poll");
    return;
  }
  poll_lock_.Unlock();
}

void Cq::Arm(Notify notify) {
  std::lock_guard<std::recursive_mutex> lock(device_->fabric().mutex());
  // Arming for any completion is the wider wish; arming again narrows nothing that is armed.
  if (armed_ && armed_for_ == Notify::kAny) return;
  armed_ = true;
  armed_for_ = notify;
}

Status Cq::Resize(int cqe) {
  std::lock_guard<std::recursive_mutex> lock(device_->fabric().mutex());
  const size_t count = count_.load();
  if (cqe < 1 || static_cast<uint32_t>(cqe) > device_->limits().max_cqe ||
      static_cast<size_t>(cqe) < count) {
    return {EINVAL, "", "a CQ holds at least what is in it and at most max_cqe"};
  }
  std::vector<Completion> ring(std::max<size_t>(count, std::min(cqe, 64)));
  for (size_t i = 0; i < count; ++i) ring[i] = ring_[(head_ + i) % ring_.size()];
  if (count > 1 && Faulty(Fault::kResizeLosesCompletion)) count_.store(count - 1);
  ring_.swap(ring);
  head_ = 0;
  capacity_ = cqe;
  return {};
}

void Cq::Purge(const Qp& qp) {
  std::lock_guard<std::recursive_mutex> lock(device_->fabric().mutex());
  const size_t count = count_.load();
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const Completion& c = ring_[(head_ + i) % ring_.size()];
    if (c.qp == &qp) continue;
    if (Faulty(Fault::kPurgeTakesOthersToo)) continue;
    if (kept != i) ring_[(head_ + kept) % ring_.size()] = c;
    ++kept;
  }
  count_.store(kept, std::memory_order_release);
}

void Cq::Orphan(const Qp& qp) {
  std::lock_guard<std::recursive_mutex> lock(device_->fabric().mutex());
  const size_t count = count_.load();
  for (size_t i = 0; i < count; ++i) {
    Completion& c = ring_[(head_ + i) % ring_.size()];
    if (c.qp == &qp) c.qp = nullptr;
  }
}

}  // namespace qpexam::model
