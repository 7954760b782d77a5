// What enters a send queue whole: a list of ibv_post_send, a request that a device has decoded.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "reference/model/fabric.h"
#include "reference/model/queue_pair.h"
#include "reference/model/send_queue.h"

namespace qpexam::model {
namespace {

bool IsAtomic(Operation op) {
  return op == Operation::kAtomicCmpAndSwp || op == Operation::kAtomicFetchAndAdd;
}

}  // namespace

int SendQueue::BeginPost() {
  if (InRegion()) {
    Lint("WR-MIX-002", "ibv_post_send inside the QP's own region");
    return EINVAL;
  }
  if (shape_.locking == RegionLocking::kThreadDomain) {
    in_region_.store(ThisThread(), std::memory_order_relaxed);
  } else {
    if (Faulty(Fault::kPostSendSplitsRegion)) LookForSplitRegion();
    lock_.Lock();
  }
  staged_ = 0;
  error_ = 0;
  need_ = 0;
  trap_ = Trapped();
  return 0;
}

void SendQueue::EndPost() { EndRegion(); }

Status SendQueue::CheckShape(Operation op, size_t num_sge, Span<const ibv_sge> list) {
  uint64_t length = 0;
  for (const ibv_sge& sge : list) length += sge.length;
  if (IsAtomic(op) && (num_sge != 1 || length != 8)) {
    return {EINVAL, "WR-DATA-014", "an atomic takes one SGE of 8 bytes"};
  }
  if (op == Operation::kRdmaRead && num_sge > qp_->device().limits().max_sge_rd) {
    return {EINVAL, "WR-SGE-005", "more SGEs than a READ takes"};
  }
  return {};
}

Status SendQueue::PostOne(const SendRequest& request, Span<const ibv_sge> list) {
  Fabric& fabric = qp_->fabric();
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  const OperationInfo& info = Info(request.op);
  const uint64_t position = posted();
  switch (qp_->state()) {
    case IBV_QPS_RESET:
    case IBV_QPS_INIT:
    case IBV_QPS_RTR:
      return {EINVAL, "WR-STATE-001", "the QP is not ready to send"};
    default:
      break;
  }
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (drop_next_post_ && Faulty(Fault::kAbortDropsNextPost)) {
      drop_next_post_ = false;
      return {};
    }
    if (shape_.send_ops != 0 && Faulty(Fault::kPostSendRefusedWithOps)) {
      return {EOPNOTSUPP, "WR-MIX-003", "a library fault"};
    }
  }
  const uint64_t behind = split_.load(std::memory_order_relaxed) ? 1 : 0;  // a library fault's
  if (position + behind - freed_.load(std::memory_order_acquire) >= shape_.max_wr) {
    if (Faulty(Fault::kPolledSlotSeenLate)) SeeFreed();
    return {ENOMEM, "WR-CAP-002", "the send queue is full"};
  }
  if (!info.has_send_wr) {
    return {EINVAL, "WR-MIX-005", "struct ibv_send_wr cannot express this operation"};
  }
  if (((info.reference_types | info.optional_types) & MaskOf(shape_.type)) == 0 &&
      !Faulty(Fault::kUnsupportedSucceeds)) {
    return {EINVAL, "WR-RESP-012", "the QP type does not carry this operation"};
  }
  if (!TakesFlags(request.op, request.flags)) {
    return {EINVAL, "WR-SAMPLE-006", "a flag that is not taken"};
  }
  if (request.op == Operation::kBindMw && request.mw != nullptr &&
      request.mw->type == IBV_MW_TYPE_1 && request.bind_call == BindCall::kWorkRequest) {
    Lint("WR-MW-001", "a BIND_MW request for a type 1 window");
    return {EINVAL, "WR-MW-001", "a type 1 window is bound by ibv_bind_mw()"};
  }
  if (NeedsAddress(shape_.type) && request.ah == nullptr) {
    return {EINVAL, "WR-UD-009", "no address handle"};
  }
  const bool takes_data = info.data != DataRule::kNone && info.data != DataRule::kNoneTolerated;
  const bool inlined = (request.flags & IBV_SEND_INLINE) != 0 && takes_data;
  if (inlined && info.data != DataRule::kSgeOrInline) {
    return {EINVAL, "WR-INL-003", "this operation takes no inline data"};
  }
  if (takes_data && !inlined && list.size > shape_.max_sge && Faulty(Fault::kBadPostSendExecuted)) {
    PostOne(request, {list.data, shape_.max_sge});
  }
  if (takes_data && !inlined && list.size > shape_.max_sge) {
    return {EINVAL, "WR-SGE-003", "more SGEs than max_send_sge"};
  }
  if (takes_data) {
    const Status shape = CheckShape(request.op, list.size, list);
    if (!shape.ok()) return shape;
  }
  if (request.op == Operation::kTso) {
    if (request.tso_header_length > shape_.max_tso_header) {
      return {EINVAL, "WR-DATA-027", "the TSO header is longer than max_tso_header"};
    }
    if (request.tso_mss == 0 || request.tso_header_length < 54) {
      Lint("WR-DATA-029", "TSO without an mss or a whole header");
      return {EINVAL, "WR-DATA-029", "TSO without an mss or a whole header"};
    }
  }
  uint64_t total = 0;
  if (inlined) {
    for (const ibv_sge& sge : list) {
      if (sge.length > shape_.max_inline - total) {
        return {EINVAL, "WR-INL-005", "more inline data than max_inline_data"};
      }
      total += sge.length;
    }
  }

  SendRequest& slot = At(position);
  Sge* const sge = slot.sge;
  uint8_t* const inline_data = slot.inline_data;
  uint8_t* const tso_header = slot.tso_header;
  slot = request;
  slot.sge = sge;
  slot.inline_data = inline_data;
  slot.tso_header = tso_header;
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (Faulty(Fault::kPostSendImmSwapped)) slot.imm = __builtin_bswap32(slot.imm);
    if (Faulty(Fault::kSrqnByteOrder)) {
      slot.remote_srqn = SrqNum(__builtin_bswap32(slot.remote_srqn.value) >> 8);
    }
    if (Faulty(Fault::kPostSendKeepsRegionsWrId) && last_region_id_.value != 0) {
      slot.wr_id = last_region_id_;
    }
  }
  slot.num_sge = 0;
  slot.inline_length = 0;
  slot.data = inlined ? DataKind::kInline : DataKind::kSge;
  if (inlined) {
    for (const ibv_sge& from : list) {
      if (from.length == 0) continue;
      std::memcpy(inline_data + slot.inline_length, reinterpret_cast<const void*>(from.addr),
                  from.length);
      slot.inline_length += from.length;
    }
  } else if (takes_data) {
    for (const ibv_sge& from : list) {
      slot.sge[slot.num_sge++] = Sge{from.addr, from.length, Lkey(from.lkey)};
    }
  }
  if (request.op == Operation::kTso && request.tso_header != nullptr) {
    std::memcpy(tso_header, request.tso_header, request.tso_header_length);
  }
  posted_.store(position + 1, std::memory_order_release);
  Refer(position, position + 1);
  fabric.Activity();
  fabric.Advance(*qp_);
  return {};
}

void SendQueue::PostDecoded(const SendRequest& request) {
  Fabric& fabric = qp_->fabric();
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  if (posted() - done_ > mask_) Grow();
  // Lists longer than the slots were made for: make all of them larger.
  const bool inlined = request.data == DataKind::kInline;
  const uint16_t header_length = std::max(request.tso_header_length, request.frame_header_length);
  if (request.num_sge > shape_.max_sge || request.inline_length > shape_.max_inline ||
      header_length > shape_.max_tso_header) {
    const Shape old = shape_;
    shape_.max_sge = std::max(shape_.max_sge, request.num_sge);
    if (inlined) {
      shape_.max_inline = std::max(shape_.max_inline, static_cast<uint32_t>(request.inline_length));
    }
    shape_.max_tso_header = std::max(shape_.max_tso_header, header_length);
    auto old_slots = std::move(slots_);
    auto old_storage = std::move(storage_);
    AllocateSlots(mask_ + 1);
    for (uint64_t at = done_; at < posted(); ++at) {
      const SendRequest& from = old_slots[at & mask_];
      SendRequest& to = slots_[at & mask_];
      const SendRequest fresh = to;
      to = from;
      to.sge = fresh.sge;
      to.inline_data = fresh.inline_data;
      to.tso_header = fresh.tso_header;
      std::copy(from.sge, from.sge + std::max<uint32_t>(old.max_sge, 1), to.sge);
      std::memcpy(to.inline_data, from.inline_data, old.max_inline);
      std::memcpy(to.tso_header, from.tso_header, old.max_tso_header);
    }
  }
  const uint64_t position = posted();
  SendRequest& slot = At(position);
  Sge* const sge = slot.sge;
  uint8_t* const inline_data = slot.inline_data;
  uint8_t* const tso_header = slot.tso_header;
  slot = request;
  slot.sge = sge;
  slot.inline_data = inline_data;
  slot.tso_header = tso_header;
  if (inlined) {
    if (request.inline_length != 0) {
      std::memcpy(inline_data, request.inline_data, request.inline_length);
    }
  } else {
    std::copy(request.sge, request.sge + request.num_sge, sge);
  }
  if (header_length != 0) std::memcpy(tso_header, request.tso_header, header_length);
  posted_.store(position + 1, std::memory_order_release);
  Refer(position, position + 1);
  fabric.Activity();
  fabric.Advance(*qp_);
}

}  // namespace qpexam::model
