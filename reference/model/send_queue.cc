#include "reference/model/send_queue.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "reference/model/fabric.h"
#include "reference/model/queue_pair.h"

namespace qpexam::model {
namespace {

uint64_t PowerOfTwo(uint64_t n) {
  uint64_t p = 1;
  while (p < n) p <<= 1;
  return p;
}

// The queue whose region failed last, for the fault error-leaks-to-other-qp.
std::atomic<const SendQueue*> failed_last{nullptr};

// For the fault inline-staged-in-shared-buffer: the inline data of a region's requests, by their
// place in it, and whose it is.
struct SharedInline {
  const SendQueue* of = nullptr;
  std::vector<uint8_t> bytes;
};
thread_local std::vector<SharedInline> shared_inline;

}  // namespace

SendQueue::SendQueue(Qp* qp, const Shape& shape)
    : qp_(qp), chooser_set_(&qp->fabric().chooser_set_), shape_(shape) {
  const QpType type = shape.type;
  for (const OperationInfo& info : AllOperations()) {
    const size_t i = static_cast<size_t>(info.op);
    Need need = 0;
    switch (info.data) {
      case DataRule::kSgeOrInline:
        need = kTakesSge | kTakesInline;
        break;
      case DataRule::kSge:
        need = kTakesSge;
        break;
      case DataRule::kOneSgeOf8:
        need = kTakesSge | kExactlyEight;
        break;
      case DataRule::kNone:
      case DataRule::kNoneTolerated:
        break;
    }
    switch (RequiredQpSetter(type, info.op)) {
      case QpSetter::kUdAddr:
        need |= kUdAddr;
        break;
      case QpSetter::kXrcSrqn:
        need |= kXrcSrqn;
        break;
      case QpSetter::kNone:
        break;
    }
    if ((shape.send_ops & info.send_ops_flag) == 0) need |= kNotAsked;
    need_of_[i] = need;
    // Flags that mean something here; the rest goes the slow way, where they are ignored or, by
    // choice, refused (X18, WR-SAMPLE-008, WR-DATA-030).
    uint32_t flags = IBV_SEND_SIGNALED;
    if (type == QpType::kRc || type == QpType::kXrcSend) flags |= IBV_SEND_FENCE;
    if (info.solicited_allowed) flags |= IBV_SEND_SOLICITED;
    if (type == QpType::kRawPacket) flags |= IBV_SEND_IP_CSUM;
    flags_taken_[i] = flags;
  }
  AllocateSlots(PowerOfTwo(std::max<uint64_t>(shape.max_wr, 1)));
}

SendQueue::~SendQueue() {
  const SendQueue* me = this;
  failed_last.compare_exchange_strong(me, nullptr);
}

void SendQueue::AllocateSlots(uint64_t count) {
  const size_t sges = std::max<size_t>(shape_.max_sge, 1) * sizeof(Sge);
  const size_t inlined = (shape_.max_inline + 15u) & ~size_t{15};
  const size_t header = (shape_.max_tso_header + 15u) & ~size_t{15};
  stride_ = sges + inlined + header;
  slots_ = std::make_unique<SendRequest[]>(count);
  storage_.reset(new uint8_t[count * stride_]);
  for (uint64_t i = 0; i < count; ++i) {
    uint8_t* at = storage_.get() + i * stride_;
    slots_[i].sge = reinterpret_cast<Sge*>(at);
    slots_[i].inline_data = at + sges;
    slots_[i].tso_header = at + sges + inlined;
  }
  mask_ = count - 1;
}

// A hosted provider's ring bounds what is outstanding; the copy here follows it.
void SendQueue::Grow() {
  auto old_slots = std::move(slots_);
  auto old_storage = std::move(storage_);
  const uint64_t old_mask = mask_;
  AllocateSlots((old_mask + 1) * 2);
  for (uint64_t at = done_; at < posted(); ++at) {
    const SendRequest& from = old_slots[at & old_mask];
    SendRequest& to = slots_[at & mask_];
    const SendRequest fresh = to;
    std::memcpy(fresh.sge, from.sge, stride_);
    to = from;
    to.sge = fresh.sge;
    to.inline_data = fresh.inline_data;
    to.tso_header = fresh.tso_header;
  }
}

void SendQueue::Lint(const char* clause, const char* what) {
  qp_->fabric().Report(clause, what, qp_->number());
}

// Whoever builds or sets without holding the region: where another thread does hold it, this one
// has written wr_id, wr_flags or the request of somebody else's region.
void SendQueue::LintOutside(const char* what) {
  if (!RegionOpen()) {
    Lint("WR-CRIT-001", what);
  } else if (shape_.locking == RegionLocking::kThreadDomain) {
    Lint("WR-CONC-004", "two threads in the region of a QP that has a thread domain");
  } else {
    Lint("WR-CONC-007", "a thread builds in a region that another thread holds");
  }
}

void SendQueue::Fail(int err) {
  if (error_ == 0) error_ = err;
  trap_ = true;
  need_ = 0;
}

bool SendQueue::StartSlow() {
  if (__builtin_expect(lock_leaked_.load(std::memory_order_relaxed), 0)) {
    lock_leaked_.store(false, std::memory_order_relaxed);
    return true;
  }
  if (InRegion()) {
    Lint("WR-CRIT-008", "start inside a region of the same thread");
    Fail(EINVAL);
    return false;
  }
  // A thread domain takes no lock, so a second thread is noticed, not stopped.
  if (in_region_.load(std::memory_order_relaxed) != nullptr) {
    Lint("WR-CONC-004", "two threads in the region of a QP that has a thread domain");
  }
  in_region_.store(ThisThread(), std::memory_order_relaxed);
  return true;
}

void SendQueue::EndRegion() {
  if (__builtin_expect(trap_, 0)) LeaveRegionFaults();
  staged_ = 0;
  need_ = 0;
  current_ = nullptr;
  if (shape_.locking == RegionLocking::kThreadDomain) {
    in_region_.store(nullptr, std::memory_order_relaxed);
  } else {
    lock_.Unlock();
  }
}

// The request built last lacks a setter that its operation or QP type wants.
void SendQueue::CheckLastIsWhole(const char* clause) {
  if ((need_ & kData) != 0) {
    const bool strict = qp_->fabric().options().strict_setters;
    if (!strict && (need_ & kExactlyEight) == 0) {  // X9: a message of length 0
      current_->data = DataKind::kSge;
      current_->num_sge = 0;
      need_ &= ~kData;
    } else {
      Lint(clause, "a request lacks its DATA setter");
      Fail(EINVAL);
      return;
    }
  }
  if ((need_ & (kUdAddr | kXrcSrqn)) != 0) {
    Lint("WR-SET-009",
         (need_ & kUdAddr) != 0 ? "a request lacks set_ud_addr" : "a request lacks set_xrc_srqn");
    Fail(EINVAL);
  }
}

int SendQueue::Complete() {
  if (!InRegion()) {
    Lint("WR-CRIT-009", "complete without a start");
    return EINVAL;
  }
  if ((need_ & ~kExactlyEight) != 0) CheckLastIsWhole("WR-SET-003");
  if (__builtin_expect(FaultSwitch::on(), 0) && staged_ != 0) {
    MisbuildRegion();
    MisbuildStaged();
    if (Faulty(Fault::kErrorLeaksToOtherQp)) {
      const SendQueue* failed = failed_last.exchange(error_ != 0 ? this : nullptr);
      if (failed != nullptr && failed != this) Fail(EINVAL);
    }
  }
  int err = error_;
  if (__builtin_expect(sticky_error_ != 0, 0) && err == 0 && staged_ == 1 &&
      At(posted()).op == Operation::kSend && Faulty(Fault::kErrorSurvivesRegion)) {
    err = std::exchange(sticky_error_, 0);
  } else if (err == 0 && staged_ != 0) {
    const bool split = trap_ && staged_ > 1 && shape_.locking == RegionLocking::kLocked &&
                       Faulty(Fault::kPostSendSplitsRegion);
    err = __builtin_expect(split, 0) ? PublishSplit() : Publish();
  } else if (__builtin_expect(FaultSwitch::on(), 0) && err != 0 && staged_ != 0) {
    if (staged_ > 3 && err != ENOMEM && Faulty(Fault::kFailedRegionPostsFirst)) {
      staged_ = 1;
      Publish();
    } else if (err == ENOMEM && Faulty(Fault::kFailedCompleteIsNegative)) {
      err = -err;
    } else if (Faulty(Fault::kFailedRegionLeaksCapacity)) {
      shape_.max_wr -= shape_.max_wr > 1 ? 1 : 0;
    } else if (Faulty(Fault::kFailedCompleteKeepsLock)) {
      LeakLock();
      return err;
    }
  }
  const bool leave_error = err == ENOMEM && Faulty(Fault::kErrorSurvivesRegion);
  if (trap_ && Faulty(Fault::kResultReadAfterUnlock)) return EndRegionThenRead(err);
  EndRegion();
  if (__builtin_expect(leave_error, 0)) sticky_error_ = err;
  if (__builtin_expect(sticky_error_ != 0, 0) && !Faulty(Fault::kErrorSurvivesRegion)) {
    err = sticky_error_;
    sticky_error_ = 0;
  }
  return err;
}

void SendQueue::Abort() {
  if (!InRegion()) {
    Lint("WR-CRIT-009", "abort without a start");
    return;
  }
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (staged_ != 0 && error_ == 0) {
      if (Faulty(Fault::kAbortPosts)) Publish();
      if (Faulty(Fault::kAbortKeepsFirst)) {
        staged_ = 1;
        Publish();
      }
      if (Faulty(Fault::kAbortLeaksCapacity)) freed_.fetch_sub(1);
    }
    if (error_ != 0 && Faulty(Fault::kAbortKeepsError)) sticky_error_ = error_;
    if (staged_ == 0 && Faulty(Fault::kEmptyAbortPoisons)) sticky_error_ = EINVAL;
    if (staged_ != 0 && Faulty(Fault::kAbortDropsNextPost)) drop_next_post_ = true;
    if (staged_ != 0 && error_ == 0 && (need_ & kData) != 0 &&
        Faulty(Fault::kSetterCountSurvivesAbort)) {
      half_set_ = true;
    }
    if (staged_ == 0 && error_ == 0 && Faulty(Fault::kAbortKeepsLock)) return LeakLock();
  }
  EndRegion();
}

// Under the region lock. Everything or nothing (X12).
int SendQueue::Publish() {
  Fabric& fabric = qp_->fabric();
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  switch (qp_->state()) {
    case IBV_QPS_RESET:
    case IBV_QPS_INIT:
    case IBV_QPS_RTR:  // WR-STATE-001
      if (Faulty(Fault::kPostBeforeRtsQueued)) break;
      if (Faulty(Fault::kRefusedRegionRunsInRts)) {
        posted_.store(posted() + staged_, std::memory_order_release);
      }
      return EINVAL;
    case IBV_QPS_ERR:
      if (trap_ && fabric.Pick(ChoicePoint::kPostInErr, 2) == 1) return EINVAL;
      if (Faulty(Fault::kPostInErrLost)) return 0;
      break;
    default:
      break;
  }
  uint32_t staged = staged_;
  for (uint64_t at = posted(); NeedsAddress(shape_.type) && at != posted() + staged; ++at) {
    if (At(at).ah == nullptr || !At(at).ah->ended) continue;
    Lint("WR-UD-008", "an address handle is destroyed before its requests are done");
    return EINVAL;
  }
  if (__builtin_expect(FaultSwitch::on(), 0) && staged > 1) {
    if (LoseLast()) --staged;
    SendRequest& first = At(posted());
    SendRequest& second = At(posted() + 1);
    if (staged == 2 && shape_.type == QpType::kUc && first.op == Operation::kRdmaWrite &&
        second.op == Operation::kRdmaWriteWithImm && Faulty(Fault::kCompleteSwapsLastTwo)) {
      std::swap(first, second);
    }
  }
  const uint64_t from = posted();
  posted_.store(from + staged, std::memory_order_release);
  Refer(from, from + staged);
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    last_region_id_ = At(from + staged - 1).wr_id;
    if (shape_.locking == RegionLocking::kThreadDomain && staged == 1 &&
        Faulty(Fault::kThreadDomainLosesDoorbell)) {
      return 0;  // stays in the ring until something else is posted
    }
    if (staged > 32 && Faulty(Fault::kLongRegionLosesDoorbell)) return 0;
  }
  fabric.Activity();
  fabric.Advance(*qp_);
  return 0;
}

// What a library fault makes of a region before it is posted.
void SendQueue::MisbuildStaged() {
  const uint64_t from = posted();
  for (uint64_t at = from; at != from + staged_; ++at) {
    SendRequest& r = At(at);
    const bool wrapped = at > mask_;
    if (wrapped && (at & mask_) == mask_ && shape_.type == QpType::kUc &&
        r.data == DataKind::kInline && Faulty(Fault::kWrapEmptiesLastSlot)) {
      r.inline_length = 0;
    }
    if (wrapped && (at & mask_) == 0 && mask_ < 4 && r.op == Operation::kRdmaRead &&
        At(at - 1).op == Operation::kRdmaRead && Faulty(Fault::kWrapKeepsWrId)) {
      r.wr_id = At(at - 1).wr_id;
    }
    if (r.op == Operation::kSendWithInv && Faulty(Fault::kSendInvBecomesSend)) {
      r.op = Operation::kSend;
    }
    if (wrapped && (at & mask_) == mask_ && r.op == Operation::kAtomicCmpAndSwp &&
        Faulty(Fault::kWrapLosesAtomicOperand)) {
      r.compare_or_add = r.swap = 0;
    }
    if (r.data == DataKind::kInline && at - from < shared_inline.size()) {
      const SharedInline& shared = shared_inline[at - from];
      if (shared.of != this && !shared.bytes.empty() && r.inline_length != 0 &&
          Faulty(Fault::kInlineStagedInSharedBuffer)) {
        std::memcpy(r.inline_data, shared.bytes.data(),
                    std::min<uint64_t>(r.inline_length, shared.bytes.size()));
      }
    }
    if (r.op == Operation::kLocalInv && at + 1 < from + staged_ &&
        Faulty(Fault::kBindNeedsSetter)) {
      Fail(EINVAL);
    }
    if (r.op == Operation::kFlush && r.data == DataKind::kUnset && staged_ == 1 &&
        Faulty(Fault::kFlushNeedsSetter)) {
      Fail(EINVAL);
    }
  }
}

// A write that lands while its region is still open.
void SendQueue::LeakEffect(const SendRequest& r) {
  if (r.op != Operation::kRdmaWrite) return;
  Fabric& fabric = qp_->fabric();
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  const Mr* to = fabric.RkeyUnlocked(r.rkey);
  const Mr* from =
      r.data == DataKind::kSge && r.num_sge != 0 ? fabric.LkeyUnlocked(r.sge[0].lkey) : nullptr;
  const uint8_t* source = r.data == DataKind::kInline                      ? r.inline_data
                          : from != nullptr && r.sge[0].addr == from->iova ? from->memory.data
                                                                           : nullptr;
  if (to == nullptr || source == nullptr || r.remote_addr.value < to->iova ||
      r.remote_addr.value - to->iova >= to->memory.size) {
    return;
  }
  to->memory.data[r.remote_addr.value - to->iova] = source[0];
}

// Units of max_send_wr that are in use; one a request.
uint64_t SendQueue::SlotsInUse(uint64_t until) const {
  const uint64_t freed = freed_.load(std::memory_order_acquire);
  uint64_t used = until - freed;
  if (__builtin_expect(FaultSwitch::on(), 0) && Faulty(Fault::kLongInlineTakesTwoSlots)) {
    for (uint64_t at = freed; at != until; ++at) {
      const SendRequest& r = slots_[at & mask_];
      if (r.data == DataKind::kInline && r.inline_length > 32) ++used;
    }
  }
  return used;
}

// An address handle may not end while a request names it (WR-UD-008): count.
void SendQueue::Refer(uint64_t from, uint64_t to) {
  if (!NeedsAddress(shape_.type)) return;
  for (uint64_t at = from; at != to; ++at) {
    if (At(at).ah != nullptr) ++At(at).ah->pending;
  }
}

bool SendQueue::TakesFlags(Operation op, uint32_t flags) {
  const uint32_t odd = flags & ~flags_taken_[static_cast<size_t>(op)];
  Fabric& fabric = qp_->fabric();
  if (odd != 0 && (odd & IBV_SEND_INLINE) == 0) {
    const bool solicited = odd == IBV_SEND_SOLICITED;
    if (fabric.Pick(solicited ? ChoicePoint::kSolicitedElsewhere : ChoicePoint::kUnknownFlag, 2) ==
        1) {
      return false;
    }
  }
  if ((flags & IBV_SEND_SIGNALED) == 0 && qp_->init().signaling == Signaling::kByFlag &&
      shape_.type == QpType::kSrd) {
    return false;  // unsignaled work is refused there (catalogue rule 4)
  }
  return (flags & IBV_SEND_SIGNALED) != 0 || qp_->init().signaling == Signaling::kAll ||
         fabric.Pick(ChoicePoint::kUnsignaledRefused, 2) == 0;
}

SendRequest* SendQueue::BeginSlow(Operation op, WrId id, uint32_t flags) {
  if (!InRegion()) {
    LintOutside("a builder outside of start .. complete");
    return nullptr;
  }
  if (error_ != 0) {
    if (op != Operation::kAtomicWrite || !Faulty(Fault::kErrorForgottenByNextBuilder)) {
      return nullptr;  // WR-SET-012
    }
    error_ = 0;
  }
  if ((need_ & ~kExactlyEight) != 0) {
    CheckLastIsWhole("WR-BUILD-009");
    if (error_ != 0) return nullptr;
  }
  Need need = need_of_[static_cast<size_t>(op)];
  if ((need & kNotAsked) != 0) {
    Lint("WR-CREATE-009", "a builder whose operation was not asked for at creation");
    Fail(EINVAL);
    return nullptr;
  }
  const uint64_t position = posted() + staged_;
  const uint64_t used = SlotsInUse(position);
  if (__builtin_expect(FaultSwitch::on(), 0)) poster_.store(ThisThread());
  if (used >= shape_.max_wr) {
    if (Faulty(Fault::kPolledSlotSeenLate)) SeeFreed();
    if (Faulty(Fault::kFullQueueOverwrites) && used > mask_) {
      Stage(position - 1, op, id, flags, need);  // writes over a request that was posted
      --staged_;
    } else if (Faulty(Fault::kFullQueueDropsSilently)) {
      current_ = nullptr;
      return nullptr;
    }
    Fail(ENOMEM);  // WR-CAP-002
    return nullptr;
  }
  if (Faulty(Fault::kDepthOneLess) && used + 1 >= shape_.max_wr && shape_.max_wr > 1) {
    Fail(ENOMEM);
    return nullptr;
  }
  if (!TakesFlags(op, flags)) {
    Fail(EINVAL);
    return nullptr;
  }
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (staged_ == 0 && Faulty(Fault::kCompleteWaitsForOthers)) OpenBesideOthers();
    if (Faulty(Fault::kFenceFlagLost)) flags &= ~IBV_SEND_FENCE;
    if (Faulty(Fault::kSolicitedFlagLost)) flags &= ~IBV_SEND_SOLICITED;
    if (Faulty(Fault::kFlagsOfPreviousRequest) && staged_ != 0 && current_ != nullptr) {
      flags = (flags & ~IBV_SEND_SIGNALED) | (current_->flags & IBV_SEND_SIGNALED);
    }
    if (Faulty(Fault::kWrIdTruncated)) id = WrId(id.value & 0xffffffff);
    if (op == Operation::kRdmaWriteWithImm && staged_ != 0 &&
        Faulty(Fault::kEffectBeforeComplete)) {
      LeakEffect(At(position - 1));
    }
  }
  return Stage(position, op, id, flags, need);
}

void SendQueue::BindMw(WrId id, uint32_t flags, const Bind& bind) {
  SendRequest* r = Begin(Operation::kBindMw, id, flags);
  if (r == nullptr) return;
  r->bind_call = bind.call;
  r->mw = bind.mw;
  r->mw_key = bind.mw_key;
  r->bind_rkey = bind.new_key;
  r->bind_mr = bind.mr;
  r->bind_addr = bind.addr;
  r->bind_length = bind.length;
  r->bind_access = bind.access;
  if (bind.length <= 256 && Faulty(Fault::kTypeTwoBindRefused)) {
    Fail(EINVAL);
    return;
  }
  if (bind.call == BindCall::kWorkRequest && bind.mw != nullptr && bind.mw->type == IBV_MW_TYPE_1) {
    Lint("WR-MW-001", "ibv_wr_bind_mw() of a type 1 window");
    Fail(EINVAL);
  }
}

void SendQueue::Tso(WrId id, uint32_t flags, const void* header, uint16_t header_length,
                    uint16_t mss) {
  SendRequest* r = Begin(Operation::kTso, id, flags);
  if (r == nullptr) return;
  if (header_length > shape_.max_tso_header && Faulty(Fault::kBadTsoDroppedSilently)) {
    --staged_;
    need_ = 0;
    current_ = nullptr;
    return;
  }
  if (header_length > shape_.max_tso_header && !Faulty(Fault::kTsoHeaderClipped)) {
    Fail(EINVAL);  // WR-DATA-027
    return;
  }
  if (mss == 0) {
    Lint("WR-DATA-029", "TSO with an mss of 0");
    Fail(EINVAL);
    return;
  }
  if (header_length < 54) {
    Lint("WR-DATA-027", "a TSO header shorter than Ethernet, IP and TCP");
    Fail(EINVAL);
    return;
  }
  header_length = std::min(header_length, shape_.max_tso_header);
  r->tso_header_length = header_length;
  r->tso_mss = mss;
  std::memcpy(r->tso_header, header, header_length);  // WR-BUILD-006
}

void SendQueue::Flush(WrId id, uint32_t flags, Rkey rkey, RemoteAddr addr, uint64_t length,
                      uint8_t type, uint8_t level) {
  SendRequest* r = Begin(Operation::kFlush, id, flags);
  if (r == nullptr) return;
  Remote(r, rkey, addr);
  if (Faulty(Fault::kFlushLengthTruncated)) length &= 0xffffffff;
  r->flush_length = length;
  r->flush_type = type;
  r->flush_level = level;
  if (type == 0 || (type & ~3u) != 0 || level > 1 || length > 0xffffffff) {
    Fail(EINVAL);  // WR-DATA-019, -020
  }
}

void SendQueue::AtomicWrite(WrId id, uint32_t flags, Rkey rkey, RemoteAddr addr,
                            const void* value) {
  SendRequest* r = Begin(Operation::kAtomicWrite, id, flags);
  if (r == nullptr) return;
  Remote(r, rkey, addr);
  std::memcpy(r->atomic_write, value, sizeof r->atomic_write);  // WR-BUILD-005
}

void SendQueue::CheckEight() {
  uint64_t length = 0;
  for (uint32_t i = 0; i < current_->num_sge; ++i) length += current_->sge[i].length;
  if (current_->num_sge != 1 || length != 8) {
    need_ = 0;
    Fail(EINVAL);  // WR-DATA-014: refused here
  }
}

// True where the setter has nothing to act on; says why where that is the caller's mistake.
bool SendQueue::SetterMisused(Need takes) {
  if (!InRegion()) {
    LintOutside("a setter outside of start .. complete");
    return true;
  }
  if (error_ != 0) return true;  // WR-SET-012
  if (current_ == nullptr &&
      (Faulty(Fault::kFullQueueDropsSilently) || Faulty(Fault::kBadTsoDroppedSilently))) {
    return true;
  }
  if (staged_ == 0) {
    Lint("WR-SET-011", "a setter before any builder of the region");
    Fail(EINVAL);
    return true;
  }
  if ((need_ & takes) != 0) return false;
  const Operation op = current_->op;
  if (takes == kUdAddr || takes == kXrcSrqn) {
    const bool type_has_it =
        takes == kUdAddr ? NeedsAddress(shape_.type) : shape_.type == QpType::kXrcSend;
    if (!type_has_it) {
      Lint("WR-SET-010", takes == kUdAddr ? "set_ud_addr on a QP that takes no address"
                                          : "set_xrc_srqn on a QP that is not XRC_SEND");
    } else if (!Info(op).needs_xrc_srqn && takes == kXrcSrqn) {
      Lint("WR-BUILD-011", "a QP setter after BIND_MW or LOCAL_INV");
    } else {
      Lint("WR-SET-007", "two QP setters on one request");
    }
  } else if (op == Operation::kFlush) {
    Lint("WR-SET-014", "a DATA setter after FLUSH (tolerated)");
    return true;
  } else if (Info(op).data == DataRule::kNone) {
    Lint(op == Operation::kAtomicWrite ? "WR-SET-014" : "WR-BUILD-011",
         "a DATA setter after an operation without data");
  } else if (current_->data != DataKind::kUnset) {
    Lint("WR-SET-002", "two DATA setters on one request");
  } else {
    Lint("WR-INL-003", "an inline setter after an operation that takes none");
  }
  Fail(EINVAL);
  return true;
}

void SendQueue::SetSgeList(size_t num_sge, const ibv_sge* list) {
  if (__builtin_expect((need_ & kTakesSge) == 0 || trap_ || !InRegion() || num_sge > shape_.max_sge,
                       0)) {
    in_list_setter_ = true;
    SetSgeListSlow(num_sge, list);
    in_list_setter_ = false;
    return;
  }
  SendRequest* r = current_;
  r->data = DataKind::kSge;
  r->num_sge = static_cast<uint32_t>(num_sge);
  for (size_t i = 0; i < num_sge; ++i) {
    r->sge[i] = Sge{list[i].addr, list[i].length, Lkey(list[i].lkey)};
  }
  if ((need_ & kExactlyEight) != 0) CheckEight();
  need_ &= ~kData;
}

void SendQueue::SetSgeListSlow(size_t num_sge, const ibv_sge* list) {
  if (SetterMisused(kTakesSge)) return;
  if (num_sge == 1 && list[0].length == 0 && !in_list_setter_ &&
      current_->op == Operation::kRdmaWriteWithImm && shape_.type == QpType::kXrcSend &&
      Faulty(Fault::kZeroLengthRefused)) {
    Fail(EINVAL);
    return;
  }
  if (num_sge == 1 && in_list_setter_ && current_->op == Operation::kRdmaWriteWithImm &&
      Faulty(Fault::kListOfOneIsEmpty)) {
    num_sge = 0;
  }
  if (num_sge == 1 && shape_.max_sge == 0 && list[0].length == 0) num_sge = 0;  // WR-SGE-004
  if (num_sge > shape_.max_sge) {
    if (Faulty(Fault::kSgeListClipped)) {
      num_sge = shape_.max_sge;
    } else {
      Fail(EINVAL);  // WR-SGE-003
      return;
    }
  }
  if (current_->op == Operation::kRdmaRead && num_sge > qp_->device().limits().max_sge_rd) {
    Fail(EINVAL);  // WR-SGE-005
    return;
  }
  SendRequest* r = current_;
  if (staged_ > 1 && num_sge == 1) {
    const SendRequest& before = At(posted() + staged_ - 2);
    if (before.num_sge == 1 && list[0].length > before.sge[0].length &&
        Faulty(Fault::kLongerSgeHitsFirst)) {
      r = &At(posted());
    }
  }
  r->data = DataKind::kSge;
  current_->data = DataKind::kSge;
  r->num_sge = static_cast<uint32_t>(num_sge);
  if (in_list_setter_ && Faulty(Fault::kListIsWritten)) {
    for (size_t i = 0; i < num_sge; ++i) {
      auto* length = const_cast<volatile uint32_t*>(&list[i].length);
      *length = *length;
    }
  }
  const bool reversed = num_sge > 1 && Faulty(Fault::kSgeListReversed);
  const bool one_key = num_sge > 1 && list[1].lkey != list[0].lkey && list[1].length != 0 &&
                       Faulty(Fault::kListUsesFirstLkey);
  for (size_t i = 0; i < num_sge; ++i) {
    const ibv_sge& from = list[reversed ? num_sge - 1 - i : i];
    r->sge[i] = Sge{from.addr, from.length, Lkey(one_key ? list[0].lkey : from.lkey)};
  }
  if (num_sge > 12 && Faulty(Fault::kSgeListLosesThirteenth)) r->num_sge = 12;
  if (num_sge > 1 && Faulty(Fault::kZeroLengthSgeEndsList)) {
    for (size_t i = 0; i < num_sge; ++i) {
      if (r->sge[i].length == 0) {
        r->num_sge = static_cast<uint32_t>(i);
        break;
      }
    }
  }
  if ((need_ & kExactlyEight) != 0) {
    CheckEight();
    if (error_ != 0) return;
  }
  need_ &= ~kData;
}

void SendQueue::SetInlineBuffers(size_t num_buf, const ibv_data_buf* list, InlineSetter setter) {
  if (SetterMisused(kTakesInline)) return;
  // Each length is compared before it is added, so that no sum wraps (WR-INL-006).
  SendRequest* r = current_;
  // Refused before the list is read (WR-LIM-005).
  if (num_buf > UINT32_MAX) {
    Fail(EINVAL);
    return;
  }
  uint64_t total = 0;
  for (size_t i = 0; i < num_buf; ++i) {
    uint64_t length = list[i].length;
    if (length == 0 && i + 1 < num_buf && Faulty(Fault::kInlineListStopsAtEmptyBuffer)) break;
    if (length > shape_.max_inline - total) {
      if (i == 0 ? Faulty(Fault::kInlineTruncated) : Faulty(Fault::kInlineSumNotChecked)) {
        length = shape_.max_inline - total;
      } else {
        Fail(EINVAL);  // WR-INL-005
        return;
      }
    }
    if (length != 0 &&
        (Faulty(Fault::kInlineNeedsRegion) ||
         (setter == InlineSetter::kList && (r->flags & IBV_SEND_INLINE) == 0 &&
          Faulty(Fault::kInlineNeedsFlag))) &&
        !qp_->device().Covers(list[i].addr)) {
      Fail(EINVAL);
      return;
    }
    if (length != 0 && Faulty(Fault::kInlineCopiedByComplete)) {
      late_inline_.push_back({r->inline_data + total, list[i].addr, length});
    } else if (length != 0) {
      std::memcpy(r->inline_data + total, list[i].addr, length);  // WR-INL-001
    }
    total += length;
    if (i == 0 && num_buf > 1 && Faulty(Fault::kInlineListFirstOnly)) break;
  }
  if (total == shape_.max_inline && total > 0 && Faulty(Fault::kInlineMaxRefused)) {
    Fail(EINVAL);
    return;
  }
  current_->data = DataKind::kInline;
  r->data = DataKind::kInline;
  r->inline_length = total;
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (total > 1 && setter == InlineSetter::kList && num_buf == 1 &&
        r->op == Operation::kSendWithImm && shape_.type == QpType::kUd &&
        Faulty(Fault::kInlineLastByteLost)) {
      r->inline_data[total - 1] = 0;
    }
    if (r->op == Operation::kRdmaWriteWithImm && shape_.type == QpType::kXrcSend &&
        (need_ & kXrcSrqn) == 0 && Faulty(Fault::kSrqnBeforeInlineLost)) {
      current_->remote_srqn = SrqNum(0);
    }
    if (shared_inline.size() < staged_) shared_inline.resize(staged_);
    shared_inline[staged_ - 1] = {this, {r->inline_data, r->inline_data + total}};
  }
  need_ &= ~kData;
}

void SendQueue::SetUdAddr(Ah* ah, QpNum remote_qpn, Qkey remote_qkey) {
  if (SetterMisused(kUdAddr)) return;
  if (half_set_ && Faulty(Fault::kSetterCountSurvivesAbort)) {
    half_set_ = false;
    Fail(EINVAL);
    return;
  }
  need_ &= ~kUdAddr;
  if (ah == nullptr) {
    Fail(EINVAL);  // WR-UD-009
    return;
  }
  if (Faulty(Fault::kAddressOfRegionsFirst) && staged_ > 1) {
    const SendRequest& first = At(posted());
    ah = first.ah;
    remote_qpn = first.remote_qpn;
    remote_qkey = first.remote_qkey;
  }
  if (current_->data != DataKind::kUnset && Faulty(Fault::kQpSetterAfterDataLost)) {
    remote_qpn = QpNum(0);
  }
  current_->ah = ah;
  current_->remote_qpn = remote_qpn;
  current_->remote_qkey = remote_qkey;
}

void SendQueue::SetXrcSrqn(SrqNum srqn) {
  if (SetterMisused(kXrcSrqn)) return;
  if (half_set_ && Faulty(Fault::kSetterCountSurvivesAbort)) {
    half_set_ = false;
    Fail(EINVAL);
    return;
  }
  need_ &= ~kXrcSrqn;
  if (staged_ > 1 &&
      (Faulty(Fault::kSrqnOfRegionsFirst) || (current_->op == Operation::kRdmaWriteWithImm &&
                                              Faulty(Fault::kXrcWriteImmTakesFirstSrq)))) {
    srqn = At(posted()).remote_srqn;
  }
  if (current_->data != DataKind::kUnset && Faulty(Fault::kQpSetterAfterDataLost)) {
    srqn = SrqNum(0);
  }
  current_->remote_srqn = srqn;
}

void SendQueue::ReadMembersAgain(WrId id, uint32_t flags) {
  if (staged_ == 0 || current_ == nullptr) return;
  if (current_->flags != flags && Faulty(Fault::kFlagsReadAtComplete)) current_->flags = flags;
  if (current_->wr_id != id && Faulty(Fault::kWrIdReadAtComplete)) current_->wr_id = id;
}

// --- for the engine ------------------------------------------------------------------------------

void SendQueue::set_done(uint64_t position) {
  if (NeedsAddress(shape_.type)) {
    for (uint64_t at = done_; at != position; ++at) {
      if (Ah* ah = At(at).ah) --ah->pending;
    }
  }
  done_ = position;
  if (shape_.keeper == QueueKeeper::kProvider) freed_.store(position, std::memory_order_release);
}

void SendQueue::Free(uint64_t position) {
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (Faulty(Fault::kPollFreesOneSlot)) position = freed_.load() + 1;
    if (shape_.max_wr == 1 && Faulty(Fault::kDepthOneStaysFull)) return;
    if (poster_.load() != ThisThread() && Faulty(Fault::kPolledSlotSeenLate)) {
      unseen_freed_.store(std::max(position, unseen_freed_.load()));
      return;
    }
  }
  if (position > freed_.load(std::memory_order_relaxed)) {
    freed_.store(position, std::memory_order_release);
  }
}

void SendQueue::Reset() {
  set_done(posted());
  if (Faulty(Fault::kResetKeepsPositions)) return;
  done_ = 0;
  unseen_freed_.store(0);
  posted_.store(0, std::memory_order_release);
  freed_.store(0, std::memory_order_release);
}

}  // namespace qpexam::model
