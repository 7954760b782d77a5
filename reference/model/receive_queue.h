// Receive requests waiting for messages: a QP's own queue, and the shared receive queue.
#ifndef QPEXAM_REFERENCE_MODEL_RECEIVE_QUEUE_H_
#define QPEXAM_REFERENCE_MODEL_RECEIVE_QUEUE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "reference/model/completion_queue.h"
#include "reference/model/objects.h"
#include "reference/model/request.h"

namespace qpexam::model {

class Device;

// A ring of receive requests with their scatter lists, allocated once.
class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t max_wr, uint32_t max_sge);

  uint32_t max_wr() const { return max_wr_; }
  uint32_t max_sge() const { return max_sge_; }
  uint32_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

  // ENOMEM when full, EINVAL for too many SGEs; copies the list.
  Status Push(const RecvRequest& request);
  const RecvRequest& front() const { return slots_[head_]; }
  void Pop();
  void Clear() { head_ = count_ = 0; }
  // Keeps the waiting requests; max_wr >= size().
  void Resize(uint32_t max_wr);
  // Whether Push may enlarge the ring (hosted queues, whose bound is the provider's).
  void set_unbounded() { unbounded_ = true; }

 private:
  uint32_t max_wr_, max_sge_;
  bool unbounded_ = false;
  uint32_t head_ = 0, count_ = 0;
  std::vector<RecvRequest> slots_;
  std::vector<Sge> sges_;
  void Rebuild(uint32_t max_wr, uint32_t max_sge);
};

struct SrqInit {
  ibv_srq_type type = IBV_SRQT_BASIC;
  Pd* pd = nullptr;
  Xrcd* xrcd = nullptr;  // XRC only
  Cq* cq = nullptr;      // XRC only
  uint32_t max_wr = 0, max_sge = 0, limit = 0;
  std::optional<SrqNum> number;  // chosen by the caller (hosted seeds)
  bool unbounded = false;        // hosted: the provider's ring is the bound
};

class Srq {
 public:
  SrqNum number() const { return number_; }
  ibv_srq_type type() const { return init_.type; }
  Pd* pd() const { return init_.pd; }
  Xrcd* xrcd() const { return init_.xrcd; }
  Cq* cq() const { return init_.cq; }
  Device& device() const { return *device_; }
  uint32_t waiting() const { return queue_.size(); }

  // Posts in order, stops at the first that fails and names it by index.
  Status PostRecv(Span<const RecvRequest> requests, size_t* bad);
  // mask: IBV_SRQ_MAX_WR, IBV_SRQ_LIMIT.
  Status Modify(const ibv_srq_attr& attr, int mask);
  ibv_srq_attr Query() const;

  // Called with the fabric's lock held before the queue is looked at: hosted queues are read then.
  std::function<void(Srq&)> pump;

  void* owner = nullptr;
  int users = 0;  // QPs

 private:
  friend class Device;
  friend class Fabric;
  friend class Qp;
  friend class Responder;
  Srq(Device* device, const SrqInit& init, SrqNum number);

  Device* device_;
  SrqInit init_;
  SrqNum number_;
  ReceiveQueue queue_;
  uint32_t limit_ = 0;  // armed where not 0
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_RECEIVE_QUEUE_H_
