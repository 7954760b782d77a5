#include "reference/model/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "reference/model/fabric.h"
#include "reference/model/faults.h"
#include "reference/model/transitions.h"

namespace qpexam::model {
namespace {

// A caller's enum may hold any number, which is looked at as one.
bool IsMtu(const ibv_mtu& mtu, ibv_mtu most) {
  static_assert(sizeof(ibv_mtu) == sizeof(uint32_t), "the header's enum is an int");
  uint32_t number;
  std::memcpy(&number, &mtu, sizeof(number));
  return number >= IBV_MTU_256 && number <= static_cast<uint32_t>(most);
}

constexpr uint32_t k24Bits = 0xffffff;

SendQueue::Shape ShapeOf(const Device& device, const QpInit& init) {
  (void)device;
  SendQueue::Shape shape;
  shape.max_wr = init.cap.max_send_wr;
  shape.max_sge = init.cap.max_send_sge;
  shape.max_inline = init.cap.max_inline_data;
  shape.max_tso_header = init.max_tso_header;
  shape.send_ops = init.send_ops.value_or(0);
  shape.type = init.type;
  shape.keeper = init.keeper;
  shape.locking = init.pd != nullptr && init.pd->td != nullptr ? RegionLocking::kThreadDomain
                                                               : RegionLocking::kLocked;
  if (init.pd != nullptr && init.pd->parent_of != nullptr && init.pd->td == nullptr &&
      Faulty(Fault::kParentDomainNotLocked)) {
    shape.locking = RegionLocking::kThreadDomain;
  }
  if (shape.locking == RegionLocking::kLocked && Faulty(Fault::kRegionNotLocked)) {
    shape.locking = RegionLocking::kThreadDomain;
  }
  return shape;
}

}  // namespace

Qp::Qp(Device* device, const QpInit& init, QpNum number)
    : owner(init.owner),
      device_(device),
      fabric_(&device->fabric()),
      init_(init),
      number_(number),
      recv_queue_(init.srq != nullptr ? 0 : init.cap.max_recv_wr, init.cap.max_recv_sge) {
  send_queue_ = std::make_unique<SendQueue>(this, ShapeOf(*device, init));
  if (init.keeper == QueueKeeper::kProvider) recv_queue_.set_unbounded();
}

Qp::~Qp() = default;

// --- state ---------------------------------------------------------------------------------------

Status Qp::Modify(const ibv_qp_attr& attr, int mask) {
  std::lock_guard<std::recursive_mutex> lock(fabric_->mutex());
  if (send_queue_->RegionOpenByMe()) {
    fabric_->Report("WR-CRIT-011", "ibv_modify_qp inside the QP's own region", number_);
  } else if (send_queue_->RegionOpen() && (mask & IBV_QP_STATE) != 0 &&
             attr.qp_state == IBV_QPS_RESET) {
    fabric_->Report("WR-CRIT-012", "a QP is reset while a region on it is open", number_);
  }
  const ModifyCheck check = CheckModify(init_.type, state_, mask, attr);
  if (check.verdict == ModifyVerdict::kRefused || check.by_claim) {
    const bool let_pass =
        (Faulty(Fault::kIllegalTransitionAccepted) && (mask & IBV_QP_STATE) != 0 &&
         std::string_view(check.clause) == "WR-STATE-008") ||
        (Faulty(Fault::kMissingAttributeAccepted) &&
         std::string_view(check.clause) == "WR-STATE-009") ||
        (Faulty(Fault::kForeignAttributeAccepted) &&
         std::string_view(check.clause) == "WR-STATE-010") ||
        (Faulty(Fault::kAnyCurStateAccepted) && std::string_view(check.clause) == "WR-STATE-011") ||
        (Faulty(Fault::kRtrToRtrAccepted) && std::string_view(check.clause) == "WR-STATE-017");
    if (!let_pass) {
      if (Faulty(Fault::kRefusedModifyChangesState) && (mask & IBV_QP_STATE) != 0 &&
          attr.qp_state == IBV_QPS_ERR) {
        MoveTo(IBV_QPS_ERR);
      }
      if (Faulty(Fault::kRefusedModifyChangesAttributes) && (mask & IBV_QP_ACCESS_FLAGS) != 0) {
        attr_.access = attr.qp_access_flags;
      }
      return {EINVAL, check.clause, check.why};
    }
  }
  if (check.verdict == ModifyVerdict::kCapabilityDependent) {
    const bool rate = (mask & IBV_QP_RATE_LIMIT) != 0;
    const ChoicePoint point = std::string_view(check.clause) == "WR-STATE-012"
                                  ? ChoicePoint::kResetToErr
                                  : ChoicePoint::kModifyCap;
    if (std::string_view(check.clause) == "WR-STATE-011" || fabric_->Pick(point, 2) == 0) {
      return {rate ? EOPNOTSUPP : EINVAL, check.clause, check.why};
    }
  }
  const Status values = CheckValues(attr, mask);
  if (!values.ok()) return values;
  if (__builtin_expect(FaultSwitch::on(), 0) && (mask & IBV_QP_STATE) != 0) {
    if (state_ == IBV_QPS_SQE && attr.qp_state == IBV_QPS_RTS && Faulty(Fault::kSqeIsFinal)) {
      return {EINVAL, "WR-STATE-004", "a library fault"};
    }
    if (state_ == IBV_QPS_ERR && attr.qp_state == IBV_QPS_RESET &&
        Faulty(Fault::kErrToResetRefused)) {
      return {EINVAL, "WR-STATE-012", "a library fault"};
    }
  }
  if (check.may_refuse && (mask & IBV_QP_STATE) != 0 && attr.qp_state != state_ &&
      fabric_->Pick(ChoicePoint::kSqdRefused, 2) == 1) {
    return {EOPNOTSUPP, "WR-STATE-002", "this device refuses the transition"};
  }
  Apply(attr, mask);
  if ((mask & IBV_QP_STATE) != 0) {
    sqd_notify_ = (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && attr.en_sqd_async_notify != 0;
    MoveTo(attr.qp_state);
  }
  return {};
}

// Values above their field or the device (WR-LIM-003) and those that name nothing.
Status Qp::CheckValues(const ibv_qp_attr& a, int mask) const {
  const DeviceLimits& limits = device_->limits();
  const auto above = [&](int bit, uint64_t value, uint64_t limit) {
    return (mask & bit) != 0 && value > limit;
  };
  if (!Faulty(Fault::kWideAttributesKept)) {
    if (above(IBV_QP_TIMEOUT, a.timeout, 31) || above(IBV_QP_RETRY_CNT, a.retry_cnt, 7) ||
        above(IBV_QP_RNR_RETRY, a.rnr_retry, 7) ||
        above(IBV_QP_MIN_RNR_TIMER, a.min_rnr_timer, 31)) {
      return {EINVAL, "WR-LIM-003", "a value does not fit its field"};
    }
  }
  if (above(IBV_QP_MAX_QP_RD_ATOMIC, a.max_rd_atomic, limits.max_rd_atomic) ||
      above(IBV_QP_MAX_DEST_RD_ATOMIC, a.max_dest_rd_atomic, limits.max_rd_atomic)) {
    return {EINVAL, "WR-LIM-003", "more READ and ATOMIC resources than the device has"};
  }
  if ((mask & IBV_QP_PORT) != 0 && a.port_num != 1) {
    return {EINVAL, "WR-STATE-009", "the device has one port, number 1"};
  }
  if (above(IBV_QP_PKEY_INDEX, a.pkey_index, limits.pkey_table_len - 1u)) {
    return {EINVAL, "WR-STATE-009", "pkey_index is beyond the port's table"};
  }
  if ((mask & IBV_QP_PATH_MTU) != 0 && !IsMtu(a.path_mtu, limits.port_mtu)) {
    return {EINVAL, "WR-STATE-009", "path_mtu is none of the port's"};
  }
  return {};
}

void Qp::Apply(const ibv_qp_attr& a, int mask) {
  const auto named = [&](int bit) { return (mask & bit) != 0; };
  if (named(IBV_QP_PKEY_INDEX)) attr_.pkey_index = a.pkey_index;
  if (named(IBV_QP_PORT)) attr_.port = a.port_num;
  if (named(IBV_QP_ACCESS_FLAGS) &&
      !(state_ == IBV_QPS_RTS && Faulty(Fault::kAccessFlagsFrozenInRts))) {
    attr_.access = a.qp_access_flags;
  }
  if (named(IBV_QP_QKEY)) attr_.qkey = a.qkey;
  if (named(IBV_QP_AV)) attr_.address = a.ah_attr;
  if (named(IBV_QP_ALT_PATH)) {
    attr_.alternate = a.alt_ah_attr;
    attr_.alternate_port = a.alt_port_num;
    attr_.alternate_timeout = a.alt_timeout;
    attr_.alternate_pkey_index = a.alt_pkey_index;
  }
  if (named(IBV_QP_PATH_MTU)) attr_.mtu = a.path_mtu;
  if (named(IBV_QP_DEST_QPN)) attr_.dest_qpn = a.dest_qp_num & k24Bits;
  // WR-LIM-001: PSNs are 24 bits; the rest is dropped.
  const uint32_t psn_bits = Faulty(Fault::kPsnNotMasked) ? ~0u : k24Bits;
  if (named(IBV_QP_SQ_PSN)) attr_.sq_psn = a.sq_psn & psn_bits;
  if (named(IBV_QP_RQ_PSN)) attr_.rq_psn = a.rq_psn & psn_bits;
  if (named(IBV_QP_MAX_QP_RD_ATOMIC)) attr_.max_rd_atomic = a.max_rd_atomic;
  if (named(IBV_QP_MAX_DEST_RD_ATOMIC)) attr_.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if (named(IBV_QP_MIN_RNR_TIMER)) attr_.min_rnr_timer = a.min_rnr_timer;
  if (named(IBV_QP_TIMEOUT)) attr_.timeout = a.timeout;
  if (named(IBV_QP_RETRY_CNT)) attr_.retry_count = a.retry_cnt;
  if (named(IBV_QP_RNR_RETRY)) attr_.rnr_retry = a.rnr_retry;
  if (named(IBV_QP_PATH_MIG_STATE)) attr_.migration = a.path_mig_state;
  if (named(IBV_QP_RATE_LIMIT)) attr_.rate_limit = a.rate_limit;
}

void Qp::MoveTo(ibv_qp_state next) {
  const ibv_qp_state before = state_;
  state_ = next;
  fabric_->Activity();
  switch (next) {
    case IBV_QPS_RESET:
      ResetQueues();
      break;
    case IBV_QPS_ERR:
      attempt_ = Attempt{};
      fabric_->Advance(*this);  // flushes what is outstanding (WR-STATE-006)
      FlushReceives();
      if (init_.srq != nullptr && !last_wqe_reported_ && before != IBV_QPS_ERR &&
          fabric_->Pick(ChoicePoint::kLastWqe, 2) == 0 && !Faulty(Fault::kNoLastWqeEvent)) {
        last_wqe_reported_ = true;
        fabric_->Raise(*device_, AsyncEvent{IBV_EVENT_QP_LAST_WQE_REACHED, this, nullptr, nullptr});
      }
      break;
    case IBV_QPS_SQD:
      if (before != IBV_QPS_SQD) {
        // Everything posted before counts as started (WR-STATE-002).
        sqd_limit_ = send_queue_->posted();
        sqd_drained_ = false;
      }
      fabric_->Advance(*this);
      break;
    case IBV_QPS_SQE:
      attempt_ = Attempt{};
      fabric_->Advance(*this);
      break;
    default:
      fabric_->Advance(*this);
      break;
  }
}

void Qp::ResetQueues() {
  if (fabric_->Pick(ChoicePoint::kGeneratedAfterReset, 2) == 0) {
    if (init_.send_cq != nullptr) init_.send_cq->Purge(*this);
    if (init_.recv_cq != nullptr && init_.recv_cq != init_.send_cq) init_.recv_cq->Purge(*this);
  } else {
    if (init_.send_cq != nullptr) init_.send_cq->Orphan(*this);
    if (init_.recv_cq != nullptr) init_.recv_cq->Orphan(*this);
  }
  if (!Faulty(Fault::kResetKeepsSendQueue)) send_queue_->Reset();
  if (!Faulty(Fault::kResetKeepsReceives)) recv_queue_.Clear();
  attempt_ = Attempt{};
  rnr_spent_ = 0;
  if (init_.signaling == Signaling::kAll && Faulty(Fault::kResetForgetsSigAll)) {
    init_.signaling = Signaling::kByFlag;
  }
  attr_ = Attributes{};
  fault_points_.clear();
  last_wqe_reported_ = false;
  sqd_notify_ = sqd_drained_ = false;
  life_ = fabric_->next_life_++;
}

// Every receive of the QP's own queue ends, in order; those of an SRQ stay (WR-STATE-006,
// WR-RESP-020).
void Qp::FlushReceives() {
  if (init_.srq != nullptr) {
    if (Faulty(Fault::kErrFlushesSrq) && !init_.srq->queue_.empty()) init_.srq->queue_.Pop();
    return;
  }
  if (pump) pump(*this);
  if (Faulty(Fault::kErrKeepsReceives)) return;
  const bool newest_first = recv_queue_.size() > 1 && Faulty(Fault::kReceivesFlushedNewestFirst);
  std::vector<Completion> held;
  while (!recv_queue_.empty()) {
    Completion c;
    c.wr_id = recv_queue_.front().wr_id;
    c.status = IBV_WC_WR_FLUSH_ERR;
    c.opcode = IBV_WC_RECV;
    c.qp_num = number_;
    c.is_receive = true;
    c.qp = this;
    c.timestamp_ns = fabric_->Now();
    recv_queue_.Pop();
    if (init_.recv_cq == nullptr) continue;
    if (__builtin_expect(newest_first, 0)) {
      held.push_back(c);
    } else {
      init_.recv_cq->Push(c);
    }
  }
  for (; !held.empty(); held.pop_back()) init_.recv_cq->Push(held.back());
}

void Qp::EnterError() {
  std::lock_guard<std::recursive_mutex> lock(fabric_->mutex());
  if (state_ == IBV_QPS_RESET || state_ == IBV_QPS_ERR) return;
  MoveTo(IBV_QPS_ERR);
  fabric_->Raise(*device_, AsyncEvent{IBV_EVENT_QP_FATAL, this, nullptr, nullptr});
}

void Qp::Query(ibv_qp_attr* attr, ibv_qp_init_attr* init) {
  std::lock_guard<std::recursive_mutex> lock(fabric_->mutex());
  if (send_queue_->RegionOpenByMe()) {
    fabric_->Report("WR-CRIT-011", "ibv_query_qp inside the QP's own region", number_);
  }
  *attr = ibv_qp_attr{};
  attr->qp_state = state_;
  attr->cur_qp_state = state_;
  if (state_ == IBV_QPS_RTR && Faulty(Fault::kQueryReportsRtrAsInit)) {
    attr->qp_state = attr->cur_qp_state = IBV_QPS_INIT;
  }
  attr->path_mtu = attr_.mtu;
  attr->path_mig_state = attr_.migration;
  attr->qkey = attr_.qkey;
  attr->rq_psn = attr_.rq_psn;
  attr->sq_psn = attr_.sq_psn;
  attr->dest_qp_num = attr_.dest_qpn;
  attr->qp_access_flags = attr_.access;
  attr->cap = init_.cap;
  attr->ah_attr = attr_.address;
  attr->alt_ah_attr = attr_.alternate;
  attr->pkey_index = attr_.pkey_index;
  attr->alt_pkey_index = attr_.alternate_pkey_index;
  attr->en_sqd_async_notify = 0;
  attr->sq_draining = state_ == IBV_QPS_SQD && !sqd_drained_ ? 1 : 0;
  attr->max_rd_atomic = attr_.max_rd_atomic;
  attr->max_dest_rd_atomic = attr_.max_dest_rd_atomic;
  attr->min_rnr_timer = attr_.min_rnr_timer;
  attr->port_num = attr_.port;
  attr->timeout = attr_.timeout;
  attr->retry_cnt = attr_.retry_count;
  attr->rnr_retry = attr_.rnr_retry;
  attr->alt_port_num = attr_.alternate_port;
  attr->alt_timeout = attr_.alternate_timeout;
  attr->rate_limit = attr_.rate_limit;
  if (init == nullptr) return;
  *init = ibv_qp_init_attr{};
  init->cap = init_.cap;
  init->qp_type = VerbsType(init_.type);
  init->sq_sig_all = init_.signaling == Signaling::kAll ? 1 : 0;
}

// --- receives ------------------------------------------------------------------------------------

Status Qp::PostRecv(Span<const RecvRequest> requests, size_t* bad) {
  std::lock_guard<std::recursive_mutex> lock(fabric_->mutex());
  if (bad != nullptr) *bad = 0;
  if (init_.type == QpType::kXrcSend || init_.type == QpType::kXrcRecv) {
    fabric_->Report("WR-XRC-005", "ibv_post_recv on an XRC QP", number_);
    return {EINVAL, "WR-XRC-005", "an XRC QP has no receive queue"};
  }
  if (init_.srq != nullptr) {
    fabric_->Report("WR-CREATE-015", "ibv_post_recv on a QP that has an SRQ", number_);
    return {EINVAL, "WR-CREATE-015", "the QP takes its receives from an SRQ"};
  }
  if (state_ == IBV_QPS_RESET && !Faulty(Fault::kReceiveInResetAccepted)) {
    return {EINVAL, "WR-STATE-014", "receives are not taken in RESET"};
  }
  if (state_ == IBV_QPS_ERR && fabric_->Pick(ChoicePoint::kRecvInErr, 2) == 1) {
    return {EINVAL, "WR-STATE-014", "receives are not taken in ERR"};
  }
  Status status;
  for (size_t i = 0; i < requests.size && status.ok(); ++i) {
    status = recv_queue_.Push(requests[i]);
    if (!status.ok() && bad != nullptr) *bad = i;
  }
  if (state_ == IBV_QPS_ERR && !Faulty(Fault::kReceiveInErrNotFlushed)) FlushReceives();
  fabric_->WakeSenders();
  return status;
}

Status Qp::PostBindMw(Mw* mw, const SendQueue::Bind& bind, WrId wr_id, uint32_t flags,
                      Rkey* new_key) {
  if (mw->type != IBV_MW_TYPE_1) {
    fabric_->Report("WR-MW-001", "ibv_bind_mw() of a type 2 window", number_);
    return {EINVAL, "WR-MW-001", "ibv_bind_mw() takes type 1 windows"};
  }
  SendRequest request;
  request.wr_id = wr_id;
  request.op = Operation::kBindMw;
  request.flags = flags & ~static_cast<uint32_t>(IBV_SEND_INLINE);
  request.bind_call = BindCall::kBindMwVerb;
  request.mw = mw;
  request.mw_key = mw->rkey;
  request.bind_rkey = Rkey((mw->rkey.value & ~0xffu) | ((mw->rkey.value + 1) & 0xff));
  request.bind_mr = bind.mr;
  request.bind_addr = bind.addr;
  request.bind_length = bind.length;
  request.bind_access = bind.access;
  const int rc = send_queue_->BeginPost();
  if (rc != 0) return {rc, "WR-MIX-002", "inside the QP's own region"};
  const Status status = send_queue_->PostOne(request, {});
  send_queue_->EndPost();
  if (status.ok() && new_key != nullptr) *new_key = request.bind_rkey;
  return status;
}

// --- multicast -----------------------------------------------------------------------------------

Status Qp::AttachMulticast(const ibv_gid& gid, uint16_t lid) {
  std::lock_guard<std::recursive_mutex> lock(fabric_->mutex());
  if (init_.type != QpType::kUd && init_.type != QpType::kRawPacket) {
    return {EINVAL, "WR-CREATE-017", "only UD and RAW_PACKET QPs join multicast groups"};
  }
  if (init_.type == QpType::kUd && gid.raw[0] != 0xff) {
    return {EINVAL, "WR-CREATE-017", "not a multicast GID"};
  }
  for (const auto& member : fabric_->multicast_) {
    if (member.qp == this && std::memcmp(&member.gid, &gid, sizeof gid) == 0) return {};
  }
  fabric_->multicast_.push_back({gid, lid, this});
  ++multicast_groups_;
  return {};
}

Status Qp::DetachMulticast(const ibv_gid& gid, uint16_t) {
  std::lock_guard<std::recursive_mutex> lock(fabric_->mutex());
  auto& all = fabric_->multicast_;
  for (auto it = all.begin(); it != all.end(); ++it) {
    if (it->qp == this && std::memcmp(&it->gid, &gid, sizeof gid) == 0) {
      all.erase(it);
      --multicast_groups_;
      return {};
    }
  }
  return {EINVAL, "WR-CREATE-017", "the QP is not in that group"};
}

void Qp::AddFaultPoint(FaultPoint point) {
  std::lock_guard<std::recursive_mutex> lock(fabric_->mutex());
  fault_points_.push_back(point);
}

}  // namespace qpexam::model
