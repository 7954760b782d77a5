// The completion queue: ring, polling (plain and extended), arming, overrun.
#ifndef QPEXAM_REFERENCE_MODEL_COMPLETION_QUEUE_H_
#define QPEXAM_REFERENCE_MODEL_COMPLETION_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "reference/model/region_lock.h"
#include "reference/model/request.h"
#include "reference/model/types.h"

namespace qpexam::model {

class Device;
class Cq;

// Where a CQ's completions and events go besides the model's own ring. Called with the fabric's
// lock held; may call back into the model from the same thread.
class CqSink {
 public:
  virtual ~CqSink() = default;
  // A completion was generated. Return true to take it over (a hosted device encodes it into the
  // provider's CQ memory): the model's ring then does not keep it.
  virtual bool OnCompletion(Cq& cq, const Completion& completion) = 0;
  // The CQ was armed and this completion (or an error) raises its event.
  virtual void OnCqEvent(Cq& cq) = 0;
};

enum class Notify : uint8_t { kAny, kSolicitedOnly };

class Cq {
 public:
  int cqe() const { return capacity_; }
  Device& device() const { return *device_; }
  bool overrun() const { return overrun_; }

  // Takes up to out.size completions; -1 on a CQ in error (overrun, WR-COMP-012).
  int Poll(Span<Completion> out);

  // Extended polling: ENOENT where empty (the poll is then not open), 0 with current() valid.
  int StartPoll();
  int NextPoll();
  void EndPoll();
  const Completion& current() const { return current_; }

  // One event for the next completion that qualifies; one-shot (WR-EVT-001, -002).
  void Arm(Notify notify);
  // Fails with EINVAL below the number of completions held.
  Status Resize(int cqe);

  // Generates a completion: for the engine and for tests.
  void Push(const Completion& completion);
  // Removes what a destroyed or reset QP left (WR-COMP-013).
  void Purge(const Qp& qp);
  // Keeps them, without a QP to account to.
  void Orphan(const Qp& qp);
  size_t held() const { return count_; }

  void* owner = nullptr;
  int users = 0;  // QPs and SRQs; destroy is EBUSY while there are any

 private:
  void Add(const Completion& c);
  friend class Device;
  friend class Fabric;
  Cq(Device* device, int cqe, CqSink* sink);
  bool Take(Completion* out);  // under the fabric's lock

  Device* device_;
  CqSink* sink_;
  int capacity_;
  std::vector<Completion> ring_;
  size_t head_ = 0;
  std::atomic<size_t> count_{0};
  bool armed_ = false;
  Notify armed_for_ = Notify::kAny;
  bool overrun_ = false;
  RegionLock poll_lock_;  // held from StartPoll to EndPoll
  Completion current_;
  size_t leaked_ = 0;  // a library fault has not released these
  // For poll-status-of-other-qp: the send completion that was polled last.
  bool polled_ = false;
  QpNum polled_qp_;
  ibv_wc_status polled_status_ = IBV_WC_SUCCESS;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_COMPLETION_QUEUE_H_
