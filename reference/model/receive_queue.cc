#include "reference/model/receive_queue.h"

#include <algorithm>
#include <cerrno>

#include "reference/model/fabric.h"
#include "reference/model/faults.h"

namespace qpexam::model {

ReceiveQueue::ReceiveQueue(uint32_t max_wr, uint32_t max_sge) : max_wr_(0), max_sge_(0) {
  Rebuild(max_wr, max_sge);
}

void ReceiveQueue::Rebuild(uint32_t max_wr, uint32_t max_sge) {
  std::vector<RecvRequest> slots(max_wr);
  std::vector<Sge> sges(size_t{max_wr} * max_sge);
  for (uint32_t i = 0; i < max_wr; ++i) slots[i].sge = sges.data() + size_t{i} * max_sge;
  for (uint32_t i = 0; i < count_; ++i) {
    const RecvRequest& from = slots_[(head_ + i) % max_wr_];
    std::copy(from.sge, from.sge + from.num_sge, sges.data() + size_t{i} * max_sge);
    slots[i].wr_id = from.wr_id;
    slots[i].num_sge = from.num_sge;
  }
  slots_.swap(slots);
  sges_.swap(sges);
  head_ = 0;
  max_wr_ = max_wr;
  max_sge_ = max_sge;
}

Status ReceiveQueue::Push(const RecvRequest& request) {
  if (unbounded_ && (count_ == max_wr_ || request.num_sge > max_sge_)) {
    Rebuild(std::max(count_ == max_wr_ ? max_wr_ * 2 : max_wr_, 8u),
            std::max(max_sge_, request.num_sge));
  }
  if (request.num_sge > max_sge_) {
    return {EINVAL, "WR-CREATE-003", "more SGEs than max_recv_sge"};
  }
  if (count_ == max_wr_) return {ENOMEM, "WR-CAP-002", "the receive queue is full"};
  uint32_t at = head_ + count_;
  if (at >= max_wr_) at -= max_wr_;
  RecvRequest& slot = slots_[at];
  slot.wr_id = request.wr_id;
  slot.num_sge = request.num_sge;
  std::copy(request.sge, request.sge + request.num_sge, sges_.data() + size_t{at} * max_sge_);
  ++count_;
  return {};
}

void ReceiveQueue::Pop() {
  if (++head_ == max_wr_) head_ = 0;
  --count_;
}

void ReceiveQueue::Resize(uint32_t max_wr) { Rebuild(max_wr, max_sge_); }

Srq::Srq(Device* device, const SrqInit& init, SrqNum number)
    : device_(device),
      init_(init),
      number_(number),
      queue_(init.max_wr, init.max_sge),
      limit_(init.limit) {
  if (init.unbounded) queue_.set_unbounded();
}

Status Srq::PostRecv(Span<const RecvRequest> requests, size_t* bad) {
  Fabric& fabric = device_->fabric();
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  Status status;
  for (size_t i = 0; i < requests.size && status.ok(); ++i) {
    status = queue_.Push(requests[i]);
    if (!status.ok() && bad != nullptr) *bad = i;
  }
  fabric.WakeSenders();
  return status;
}

Status Srq::Modify(const ibv_srq_attr& attr, int mask) {
  std::lock_guard<std::recursive_mutex> lock(device_->fabric().mutex());
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) {
    return {EINVAL, "", "an SRQ has IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT"};
  }
  const uint32_t max_wr = (mask & IBV_SRQ_MAX_WR) != 0 ? attr.max_wr : queue_.max_wr();
  if ((mask & IBV_SRQ_MAX_WR) != 0 &&
      (max_wr < queue_.size() || max_wr == 0 || max_wr > device_->limits().max_srq_wr)) {
    return {EINVAL, "", "max_wr is below what waits or above the device's limit"};
  }
  if ((mask & IBV_SRQ_LIMIT) != 0 && attr.srq_limit > max_wr) {
    return {EINVAL, "", "srq_limit is above max_wr"};
  }
  if ((mask & IBV_SRQ_MAX_WR) != 0) queue_.Resize(max_wr);
  if ((mask & IBV_SRQ_LIMIT) != 0) limit_ = attr.srq_limit;
  return {};
}

ibv_srq_attr Srq::Query() const {
  std::lock_guard<std::recursive_mutex> lock(device_->fabric().mutex());
  ibv_srq_attr attr{};
  attr.max_wr = queue_.max_wr();
  attr.max_sge = queue_.max_sge();
  attr.srq_limit = limit_;
  return attr;
}

}  // namespace qpexam::model
