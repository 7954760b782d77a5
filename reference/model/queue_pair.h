// The queue pair: creation, state machine, its queues, and where its requests stand.
#ifndef QPEXAM_REFERENCE_MODEL_QUEUE_PAIR_H_
#define QPEXAM_REFERENCE_MODEL_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "reference/model/completion_queue.h"
#include "reference/model/objects.h"
#include "reference/model/ops.h"
#include "reference/model/receive_queue.h"
#include "reference/model/request.h"
#include "reference/model/rules.h"
#include "reference/model/send_queue.h"
#include "reference/model/types.h"

namespace qpexam::model {

class Device;
class Fabric;

// Losses and delays a Program asks for, consumed in order by the messages of one QP.
enum class FaultPoint : uint8_t {
  kLoseRequest,
  kLoseAck,
  kDuplicateRequest,
  kRnr,
  kPass,  // this message meets nothing: the way to a later one
};

enum class Signaling : uint8_t { kByFlag, kAll };  // sq_sig_all

struct QpInit {
  QpType type{};
  Pd* pd = nullptr;  // every type but XRC_RECV
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  Xrcd* xrcd = nullptr;  // XRC_RECV
  ibv_qp_cap cap{};
  Signaling signaling = Signaling::kByFlag;
  std::optional<uint64_t> send_ops;  // absent: created without the extension
  uint16_t max_tso_header = 0;
  // Hosted providers: the SQ and RQ rings are theirs, and they choose the number.
  QueueKeeper keeper = QueueKeeper::kModel;
  std::optional<QpNum> number;
  void* owner = nullptr;
};

class Qp {
 public:
  ~Qp();

  QpNum number() const { return number_; }
  QpType type() const { return init_.type; }
  const QpInit& init() const { return init_; }  // cap: as granted
  Device& device() const { return *device_; }
  Fabric& fabric() const { return *fabric_; }
  uint64_t life() const { return life_; }  // grows with every RESET: what a key of this QP means
  ibv_qp_state state() const { return state_; }
  SendQueue& send_queue() { return *send_queue_; }
  Srq* srq() const { return init_.srq; }

  // ibv_modify_qp, ibv_query_qp. Both report a lint inside the caller's own region (WR-CRIT-011).
  Status Modify(const ibv_qp_attr& attr, int mask);
  void Query(ibv_qp_attr* attr, ibv_qp_init_attr* init);
  // As a device that failed by itself: to ERR, with flush.
  void EnterError();

  // Posts in order, stops at the first that fails and names it by index.
  Status PostRecv(Span<const RecvRequest> requests, size_t* bad);
  // ibv_bind_mw(): a type 1 window; *new_key is the window's key from now on.
  Status PostBindMw(Mw* mw, const SendQueue::Bind& bind, WrId wr_id, uint32_t flags, Rkey* new_key);

  Status AttachMulticast(const ibv_gid& gid, uint16_t lid);
  Status DetachMulticast(const ibv_gid& gid, uint16_t lid);

  // The next messages of this QP meet these, in order.
  void AddFaultPoint(FaultPoint point);

  // Called with the fabric's lock held before the receive queue is looked at, so that a hosted
  // queue can be read up to its doorbell.
  std::function<void(Qp&)> pump;
  // Called when an outstanding request of a hosted queue ended without a completion (unsignaled).
  std::function<void(Qp&, const SendRequest&)> on_silent_success;

  void* owner = nullptr;

 private:
  friend class Device;
  friend class Fabric;
  friend class Requester;
  friend class Responder;
  friend class SendQueue;
  friend class Cq;
  Qp(Device* device, const QpInit& init, QpNum number);

  // The attributes of the present life, as Query reports them.
  struct Attributes {
    uint16_t pkey_index = 0;
    uint8_t port = 0;
    unsigned access = 0;
    uint32_t qkey = 0;
    ibv_ah_attr address{};
    ibv_ah_attr alternate{};
    uint8_t alternate_port = 0, alternate_timeout = 0;
    uint16_t alternate_pkey_index = 0;
    ibv_mtu mtu = IBV_MTU_1024;
    uint32_t dest_qpn = 0, sq_psn = 0, rq_psn = 0;
    uint8_t max_rd_atomic = 0, max_dest_rd_atomic = 0;
    uint8_t min_rnr_timer = 0, timeout = 0, retry_count = 0, rnr_retry = 0;
    ibv_mig_state migration = IBV_MIG_MIGRATED;
    uint32_t rate_limit = 0;
  };
  // Where the first outstanding request stands.
  struct Attempt {
    bool waiting = false;
    bool rnr = false;             // waits for a receive, else for an acknowledgement
    bool for_ever = false;        // no number of retries ends it
    bool stuck = false;           // timeout 0: nothing but a state change ends it
    bool started = false;         // the request has been tried
    bool due = false;             // its deadline has come
    bool fresh = false;           // to be tried though nothing seems to have changed
    bool responder_done = false;  // executed, the acknowledgement was lost
    uint64_t byte_len = 0;        // of that execution
    uint64_t deadline = 0;
    uint64_t period = 0;
    uint64_t seen_activity = 0;  // of the fabric at the last try
    int retries_left = 0, rnr_left = 0;
    uint64_t atomic_result = 0;  // the responder's replay memory (WR-RESP-014)
  };

  Status CheckValues(const ibv_qp_attr& attr, int mask) const;
  void Apply(const ibv_qp_attr& attr, int mask);
  void MoveTo(ibv_qp_state next);
  void FlushReceives();
  void ResetQueues();

  Device* const device_;
  Fabric* const fabric_;
  QpInit init_;
  const QpNum number_;
  uint64_t life_ = 0;
  ibv_qp_state state_ = IBV_QPS_RESET;
  Attributes attr_;
  std::unique_ptr<SendQueue> send_queue_;
  ReceiveQueue recv_queue_;
  Attempt attempt_;
  std::deque<FaultPoint> fault_points_;
  uint64_t sqd_limit_ = 0;  // SQD: requests from here on wait for RTS
  bool sqd_notify_ = false, sqd_drained_ = false;
  int multicast_groups_ = 0;
  int handles_ = 1;         // XRC_RECV: CreateQp and each OpenQp
  bool listed_ = false;     // among the fabric's waiting QPs
  bool advancing_ = false;  // the engine is at work on this QP
  bool last_wqe_reported_ = false;
  int rnr_spent_ = 0;  // RNR retries of earlier requests, for a library fault
  // The peer by number, valid while the fabric's QP table has not changed.
  Qp* peer_ = nullptr;
  uint64_t peer_epoch_ = 0;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_QUEUE_PAIR_H_
