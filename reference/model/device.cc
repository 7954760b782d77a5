// Creation and end of every object: what is checked, what is granted, what is in use (EBUSY).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "reference/model/fabric.h"
#include "reference/model/faults.h"

namespace qpexam::model {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

constexpr unsigned kRemoteWrites = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
// IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT, by value (older headers lack the names).
constexpr unsigned kFlushRights = 1u << 8 | 1u << 9;
constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | kRemoteWrites | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                  IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | kFlushRights |
                                  IBV_ACCESS_OPTIONAL_RANGE;

Status Busy(const char* why) { return {EBUSY, "", why}; }

Status CheckMr(MutBytes memory, uint64_t iova, unsigned access) {
  if ((access & ~kKnownAccess) != 0) return {EINVAL, "", "unknown access flags"};
  if ((access & kRemoteWrites) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    return {EINVAL, "WR-MW-005", "remote write and atomic rights need LOCAL_WRITE"};
  }
  if (memory.size == 0) return {EINVAL, "", "a region of no bytes"};
  if (iova + memory.size < iova && iova + memory.size != 0) {
    return {EINVAL, "WR-LIM-004", "the region passes the end of the address space"};
  }
  return {};
}

template <typename T>
Result<T> Fail(int err, const char* clause, const char* why) {
  return {nullptr, {err, clause, why}};
}

}  // namespace

Device::Device(Fabric* fabric, const DeviceLimits& limits, AsyncSink* sink)
    : fabric_(fabric), limits_(limits), sink_(sink) {}

Device::~Device() {
  Lock lock(fabric_->mutex());
  for (Qp* qp : qps_) {
    qp->send_queue_->Reset();
    fabric_->Forget(qp);
    delete qp;
  }
  for (Srq* srq : srqs_) {
    fabric_->srqs_.Erase(srq->number().value);
    delete srq;
  }
  for (Cq* cq : cqs_) delete cq;
  for (Mw* mw : mws_) {
    fabric_->windows_.Erase(mw->rkey.value);
    delete mw;
  }
  for (Mr* mr : mrs_) {
    fabric_->lkeys_.Erase(mr->lkey.value);
    fabric_->rkeys_.Erase(mr->rkey.value);
    delete mr;
  }
  for (Ah* ah : ahs_) delete ah;
  for (Ah* ah : ended_ahs_) delete ah;
  for (Xrcd* xrcd : xrcds_) delete xrcd;
  for (Pd* pd : pds_) delete pd;
  for (Td* td : tds_) delete td;
}

bool Device::Covers(const void* address) const {
  Lock lock(fabric_->mutex());
  const auto* at = static_cast<const uint8_t*>(address);
  for (const Mr* mr : mrs_) {
    if (at >= mr->memory.data && at < mr->memory.data + mr->memory.size) return true;
  }
  return false;
}

Result<Td> Device::AllocTd() {
  Lock lock(fabric_->mutex());
  auto* td = new Td;
  td->device = this;
  tds_.insert(td);
  return {td, {}};
}

Status Device::DeallocTd(Td* td) {
  Lock lock(fabric_->mutex());
  if (td->users != 0) return Busy("a parent domain holds the thread domain");
  tds_.erase(td);
  delete td;
  return {};
}

Result<Pd> Device::AllocPd() {
  Lock lock(fabric_->mutex());
  auto* pd = new Pd;
  pd->device = this;
  pds_.insert(pd);
  return {pd, {}};
}

Result<Pd> Device::AllocParentDomain(Pd* pd, Td* td) {
  Lock lock(fabric_->mutex());
  if (pd == nullptr) return Fail<Pd>(EINVAL, "WR-CONC-008", "a parent domain stands on a PD");
  auto* parent = new Pd;
  parent->device = this;
  parent->parent_of = pd->parent_of != nullptr ? pd->parent_of : pd;
  parent->td = td;
  if (td != nullptr) ++td->users;
  ++parent->parent_of->users;
  pds_.insert(parent);
  return {parent, {}};
}

Status Device::DeallocPd(Pd* pd) {
  Lock lock(fabric_->mutex());
  if (pd->users != 0) return Busy("objects of the PD are left");
  if (pd->parent_of != nullptr) --pd->parent_of->users;
  if (pd->td != nullptr) --pd->td->users;
  pds_.erase(pd);
  delete pd;
  return {};
}

// --- memory --------------------------------------------------------------------------------------

Result<Mr> Device::RegMr(Pd* pd, MutBytes memory, uint64_t iova, unsigned access, KeyChoice keys) {
  Lock lock(fabric_->mutex());
  const Status check = CheckMr(memory, iova, access);
  if (!check.ok()) return {nullptr, check};
  const uint32_t index = fabric_->ReserveKeyIndex();
  const uint32_t tag = fabric_->next_key_tag_++;
  auto* mr = new Mr;
  mr->pd = pd;
  mr->memory = memory;
  mr->iova = iova;
  mr->access = access;
  // Two keys that differ: who takes one for the other is found out.
  mr->lkey = Lkey(keys.lkey.value_or(index << 8 | tag));
  mr->rkey = Rkey(keys.rkey.value_or(index << 8 | (tag ^ 0x55)));
  if (!fabric_->lkeys_.Insert(mr->lkey.value, mr)) {
    delete mr;
    return Fail<Mr>(EEXIST, "", "the lkey is taken");
  }
  if (fabric_->windows_.FindByIndex(mr->rkey.value) != nullptr ||
      !fabric_->rkeys_.Insert(mr->rkey.value, mr)) {
    fabric_->lkeys_.Erase(mr->lkey.value);
    delete mr;
    return Fail<Mr>(EEXIST, "", "the rkey is taken");
  }
  ++pd->users;
  mrs_.insert(mr);
  return {mr, {}};
}

Status Device::ReregMr(Mr* mr, int flags, Pd* pd, MutBytes memory, unsigned access) {
  Lock lock(fabric_->mutex());
  if ((flags & ~(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
                 IBV_REREG_MR_CHANGE_ACCESS)) != 0) {
    return {EINVAL, "", "unknown flags"};
  }
  if (mr->bound_windows != 0) return {EBUSY, "WR-MW-014", "windows are bound to the region"};
  const bool moved = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const MutBytes bytes = moved ? memory : mr->memory;
  const unsigned rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : mr->access;
  const uint64_t iova = !moved ? mr->iova
                        : (rights & IBV_ACCESS_ZERO_BASED) != 0
                            ? 0
                            : reinterpret_cast<uint64_t>(memory.data);
  const Status check = CheckMr(bytes, iova, rights);
  if (!check.ok()) return check;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    --mr->pd->users;
    mr->pd = pd;
    ++pd->users;
  }
  mr->memory = bytes;
  mr->iova = iova;
  mr->access = rights;
  // The tag moves on, so that keys handed out before are dead.
  const auto next = [](uint32_t key) { return (key & ~0xffu) | ((key + 1) & 0xff); };
  mr->lkey = Lkey(next(mr->lkey.value));
  mr->rkey = Rkey(next(mr->rkey.value));
  fabric_->lkeys_.Retag(mr->lkey.value);
  fabric_->rkeys_.Retag(mr->rkey.value);
  return {};
}

Status Device::DeregMr(Mr* mr) {
  Lock lock(fabric_->mutex());
  if (mr->bound_windows != 0) {
    if (fabric_->Pick(ChoicePoint::kDeregBound, 2) == 0 &&
        !Faulty(Fault::kDeregBoundLeavesWindow)) {
      return {EBUSY, "WR-MW-014", "windows are bound to the region"};
    }
    for (Device* device : fabric_->DeviceList()) {
      for (Mw* mw : device->mws_) {
        if (mw->mr != mr) continue;
        if (Faulty(Fault::kDeregBoundLeavesWindow)) {
          // The window keeps its rights to memory that is no longer registered.
          auto* ghost = new Mr(*mr);
          ghost->bound_windows = 1;
          ghost->pd = mw->pd;
          fabric_->ghosts_.emplace_back(ghost);
          mw->mr = ghost;
        } else {
          mw->mr = nullptr;
        }
      }
    }
  }
  if (Faulty(Fault::kDeregLeavesKeys)) {
    auto* ghost = new Mr(*mr);
    fabric_->ghosts_.emplace_back(ghost);
    fabric_->lkeys_.Erase(mr->lkey.value);
    fabric_->rkeys_.Erase(mr->rkey.value);
    fabric_->lkeys_.Insert(mr->lkey.value, ghost);
    fabric_->rkeys_.Insert(mr->rkey.value, ghost);
  } else {
    fabric_->lkeys_.Erase(mr->lkey.value);
    fabric_->rkeys_.Erase(mr->rkey.value);
  }
  --mr->pd->users;
  mrs_.erase(mr);
  delete mr;
  return {};
}

Result<Mw> Device::AllocMw(Pd* pd, ibv_mw_type type, std::optional<Rkey> key) {
  Lock lock(fabric_->mutex());
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    return Fail<Mw>(EINVAL, "WR-MW-001", "windows are of type 1 or 2");
  }
  auto* mw = new Mw;
  mw->pd = pd;
  mw->type = type;
  mw->rkey = key.value_or(
      Rkey(fabric_->ReserveKeyIndex() << 8 | static_cast<uint32_t>(fabric_->next_key_tag_++)));
  if (fabric_->rkeys_.FindByIndex(mw->rkey.value) != nullptr ||
      !fabric_->windows_.Insert(mw->rkey.value, mw)) {
    delete mw;
    return Fail<Mw>(EEXIST, "", "the rkey is taken");
  }
  ++pd->users;
  mws_.insert(mw);
  return {mw, {}};
}

Status Device::DeallocMw(Mw* mw) {
  Lock lock(fabric_->mutex());
  if (mw->mr != nullptr) {
    if (Faulty(Fault::kDeallocBoundWindowRefused)) return Busy("the window is bound");
    --mw->mr->bound_windows;  // WR-MW-014: deallocation unbinds
  }
  fabric_->windows_.Erase(mw->rkey.value);
  --mw->pd->users;
  mws_.erase(mw);
  delete mw;
  return {};
}

// --- addresses, XRC domains ----------------------------------------------------------------------

Result<Ah> Device::CreateAh(Pd* pd, const ibv_ah_attr& attr) {
  Lock lock(fabric_->mutex());
  if (attr.port_num != 1) return Fail<Ah>(EINVAL, "WR-UD-001", "the device has one port");
  if (attr.is_global != 0 && !gids.empty() && attr.grh.sgid_index >= gids.size()) {
    return Fail<Ah>(EINVAL, "WR-UD-001", "sgid_index is beyond the port's GID table");
  }
  SweepAhs();
  auto* ah = new Ah;
  ah->pd = pd;
  ah->attr = attr;
  ++pd->users;
  ahs_.insert(ah);
  return {ah, {}};
}

Status Device::DestroyAh(Ah* ah) {
  Lock lock(fabric_->mutex());
  --ah->pd->users;
  ahs_.erase(ah);
  if (ah->pending != 0) {
    fabric_->Report("WR-UD-008", "an address handle is destroyed before its requests are done");
  }
  ah->ended = true;
  ah->pd = nullptr;
  ended_ahs_.push_back(ah);
  SweepAhs();
  return {};
}

// Frees the address handles that ended, once nothing can name them any more. What an open region
// has staged belongs to its thread: while there is one, nobody knows.
void Device::SweepAhs() {
  if (ended_ahs_.empty()) return;
  for (const Qp* qp : qps_) {
    if (NeedsAddress(qp->type()) && qp->send_queue_->RegionOpen()) return;
  }
  ended_ahs_.erase(std::remove_if(ended_ahs_.begin(), ended_ahs_.end(),
                                  [](Ah* ah) {
                                    if (ah->pending != 0) return false;
                                    delete ah;
                                    return true;
                                  }),
                   ended_ahs_.end());
}

Result<Xrcd> Device::OpenXrcd(uint64_t inode) {
  Lock lock(fabric_->mutex());
  auto* xrcd = new Xrcd;
  xrcd->device = this;
  xrcd->inode = inode;
  xrcd->domain = fabric_->next_domain_++;
  if (inode != 0) {
    for (Device* device : fabric_->DeviceList()) {
      for (const Xrcd* other : device->xrcds_) {
        if (other->inode == inode) xrcd->domain = other->domain;
      }
    }
  }
  xrcds_.insert(xrcd);
  return {xrcd, {}};
}

Status Device::CloseXrcd(Xrcd* xrcd) {
  Lock lock(fabric_->mutex());
  if (xrcd->users != 0) return Busy("QPs or SRQs of the XRC domain are left");
  xrcds_.erase(xrcd);
  delete xrcd;
  return {};
}

// --- queues --------------------------------------------------------------------------------------

Result<Cq> Device::CreateCq(int cqe, CqSink* sink) {
  Lock lock(fabric_->mutex());
  if (cqe < 1 || static_cast<uint32_t>(cqe) > limits_.max_cqe) {
    return Fail<Cq>(EINVAL, "WR-CQX-006", "a CQ holds between 1 and max_cqe completions");
  }
  auto* cq = new Cq(this, cqe, sink);
  cqs_.insert(cq);
  return {cq, {}};
}

Status Device::DestroyCq(Cq* cq) {
  Lock lock(fabric_->mutex());
  if (cq->users != 0) return Busy("QPs or SRQs of the CQ are left");
  cqs_.erase(cq);
  delete cq;
  return {};
}

Result<Srq> Device::CreateSrq(const SrqInit& init) {
  Lock lock(fabric_->mutex());
  if (init.pd == nullptr) return Fail<Srq>(EINVAL, "WR-XRC-001", "an SRQ needs a PD");
  if (init.type == IBV_SRQT_XRC && (init.xrcd == nullptr || init.cq == nullptr)) {
    return Fail<Srq>(EINVAL, "WR-XRC-001", "an XRC SRQ needs an XRC domain and a CQ");
  }
  if (init.type != IBV_SRQT_XRC && init.type != IBV_SRQT_BASIC) {
    return Fail<Srq>(EOPNOTSUPP, "WR-XRC-001", "SRQs are basic or XRC");
  }
  if (!init.unbounded &&
      (init.max_wr < 1 || init.max_wr > limits_.max_srq_wr || init.max_sge > limits_.max_srq_sge)) {
    return Fail<Srq>(EINVAL, "WR-CREATE-004", "beyond max_srq_wr or max_srq_sge");
  }
  if (init.limit > init.max_wr) return Fail<Srq>(EINVAL, "", "srq_limit is above max_wr");
  const SrqNum number = init.number.value_or(SrqNum(fabric_->srqs_.Reserve()));
  SrqInit made = init;
  auto* srq = new Srq(this, made, number);
  if (!fabric_->srqs_.Insert(number.value, srq)) {
    delete srq;
    return Fail<Srq>(EEXIST, "", "the SRQ number is taken");
  }
  ++init.pd->users;
  if (init.xrcd != nullptr) ++init.xrcd->users;
  if (init.cq != nullptr) ++init.cq->users;
  srqs_.insert(srq);
  return {srq, {}};
}

Status Device::DestroySrq(Srq* srq) {
  Lock lock(fabric_->mutex());
  if (srq->users != 0) return Busy("QPs of the SRQ are left");
  --srq->init_.pd->users;
  if (srq->init_.xrcd != nullptr) --srq->init_.xrcd->users;
  if (srq->init_.cq != nullptr) --srq->init_.cq->users;
  fabric_->srqs_.Erase(srq->number().value);
  srqs_.erase(srq);
  delete srq;
  return {};
}

Status Device::CheckQpInit(const QpInit& init) const {
  const bool xrc_recv = init.type == QpType::kXrcRecv;
  const bool xrc = xrc_recv || init.type == QpType::kXrcSend;
  if (xrc_recv ? init.xrcd == nullptr : init.pd == nullptr) {
    return {EINVAL, "WR-CREATE-007",
            xrc_recv ? "an XRC_RECV QP needs an XRC domain" : "a QP needs a PD"};
  }
  if (!xrc_recv && init.send_cq == nullptr) return {EINVAL, "WR-CREATE-001", "no send CQ"};
  if (!xrc && init.recv_cq == nullptr) return {EINVAL, "WR-CREATE-001", "no receive CQ"};
  if (xrc && init.srq != nullptr) {
    return {EINVAL, "WR-XRC-001", "an XRC QP takes its SRQs from the requests"};
  }
  if (init.srq != nullptr && init.srq->type() != IBV_SRQT_BASIC) {
    return {EINVAL, "WR-XRC-001", "a QP takes a basic SRQ"};
  }
  if (init.keeper == QueueKeeper::kProvider) return {};  // the hosted provider has checked
  if (init.type == QpType::kSrd) {
    return {EOPNOTSUPP, "WR-CREATE-002", "SRD is a vendor's type"};
  }
  if (init.send_ops.has_value()) {
    const uint64_t ops = *init.send_ops;
    if (xrc_recv && Faulty(Fault::kXrcRecvTakesOperations)) return {};
    if (xrc_recv) return {EINVAL, "WR-XRC-005", "an XRC_RECV QP has no send queue"};
    if ((ops & ~kAllSendOps) != 0 && !Faulty(Fault::kUnknownOpsIgnored)) {
      return {EINVAL, "WR-CREATE-002", "send_ops_flags has bits that are not defined"};
    }
    if ((ops & kAllSendOps & ~ReferenceSendOps(init.type)) != 0 &&
        !Faulty(Fault::kUnsupportedOpsDropped)) {
      return {EOPNOTSUPP, "WR-CREATE-002", "the QP type does not carry a requested operation"};
    }
    if (ops == 0 && fabric_->Pick(ChoicePoint::kNoOperations, 2) == 1) {
      return {EINVAL, "WR-CREATE-008", "no operation was asked for"};
    }
  }
  const ibv_qp_cap& cap = init.cap;
  const bool own_receives = init.srq == nullptr && !xrc;
  if (!Faulty(Fault::kCapsClipped) &&
      (cap.max_send_wr > limits_.max_qp_wr || cap.max_send_sge > limits_.max_sge ||
       cap.max_inline_data > limits_.max_inline ||
       (own_receives &&
        (cap.max_recv_wr > limits_.max_qp_wr || cap.max_recv_sge > limits_.max_sge)))) {
    return {EINVAL, "WR-CREATE-004", "a capability is above the device's limit"};
  }
  if (init.srq != nullptr && Faulty(Fault::kSrqQpChecksReceiveCaps) &&
      (cap.max_recv_wr > limits_.max_qp_wr || cap.max_recv_sge > limits_.max_sge)) {
    return {EINVAL, "WR-CREATE-015", "a receive capability is above the device's limit"};
  }
  if (init.max_tso_header > limits_.max_tso_header) {
    return {EINVAL, "WR-CREATE-004", "max_tso_header is above the device's limit"};
  }
  return {};
}

Result<Qp> Device::CreateQp(const QpInit& init) {
  Lock lock(fabric_->mutex());
  const Status check = CheckQpInit(init);
  if (!check.ok()) return {nullptr, check};
  QpInit made = init;
  // Granted exactly as asked; what the type has no use for reads 0 (WR-CREATE-003).
  if (init.type == QpType::kXrcRecv) {
    made.cap = ibv_qp_cap{};
    made.pd = nullptr;
    made.send_cq = made.recv_cq = nullptr;
  }
  if (init.type == QpType::kXrcSend) {
    made.cap.max_recv_wr = made.cap.max_recv_sge = 0;
    made.recv_cq = nullptr;
  }
  if (init.srq != nullptr) made.cap.max_recv_wr = made.cap.max_recv_sge = 0;
  if (Faulty(Fault::kCapsClipped)) {
    made.cap.max_send_wr = std::min(made.cap.max_send_wr, limits_.max_qp_wr);
    made.cap.max_send_sge = std::min(made.cap.max_send_sge, limits_.max_sge);
    made.cap.max_inline_data = std::min(made.cap.max_inline_data, limits_.max_inline);
  }
  if (Faulty(Fault::kGrantedDepthTooLow) && made.cap.max_send_wr > 1) --made.cap.max_send_wr;
  if (made.send_ops.has_value() && Faulty(Fault::kUnsupportedOpsDropped)) {
    *made.send_ops &= ReferenceSendOps(made.type);
  }
  if (made.send_ops.has_value() && made.type == QpType::kXrcSend &&
      *made.send_ops == ReferenceSendOps(made.type) &&
      Faulty(Fault::kOneOperationOfSeveralMissing)) {
    *made.send_ops &= *made.send_ops - 1;
  }
  if (made.send_ops.has_value() && Faulty(Fault::kSigAllIgnoredWithOps)) {
    made.signaling = Signaling::kByFlag;
  }
  const QpNum number = init.number.value_or(QpNum(fabric_->qps_.Reserve()));
  auto* qp = new Qp(this, made, number);
  if (!fabric_->qps_.Insert(number.value, qp)) {
    delete qp;
    return Fail<Qp>(EEXIST, "", "the QP number is taken");
  }
  qp->life_ = fabric_->next_life_++;
  if (Faulty(Fault::kGrantedInlineTooHigh)) qp->init_.cap.max_inline_data += 16;
  if (made.pd != nullptr) ++made.pd->users;
  if (made.send_cq != nullptr) ++made.send_cq->users;
  if (made.recv_cq != nullptr) ++made.recv_cq->users;
  if (made.srq != nullptr) ++made.srq->users;
  if (made.xrcd != nullptr) ++made.xrcd->users;
  if (made.type == QpType::kRawPacket) fabric_->raw_packet_.push_back(qp);
  ++fabric_->qp_epoch_;
  qps_.insert(qp);
  return {qp, {}};
}

Result<Qp> Device::OpenQp(Xrcd* xrcd, QpNum number) {
  Lock lock(fabric_->mutex());
  Qp* qp = fabric_->FindQp(number);
  if (qp == nullptr || qp->type() != QpType::kXrcRecv || qp->init_.xrcd->domain != xrcd->domain) {
    return Fail<Qp>(EINVAL, "WR-XRC-003", "no XRC_RECV QP of that number in the domain");
  }
  ++qp->handles_;
  return {qp, {}};
}

Status Device::DestroyQp(Qp* qp) {
  Lock lock(fabric_->mutex());
  if (qp->multicast_groups_ != 0 && !Faulty(Fault::kDestroyAttachedQp)) {
    return {EBUSY, "WR-CREATE-017", "the QP is attached to a multicast group"};
  }
  if (qp->send_queue_->RegionOpen()) {
    fabric_->Report("WR-CRIT-012", "a QP is destroyed while a region on it is open", qp->number());
    return {EBUSY, "WR-CRIT-012", "a region on the QP is open"};
  }
  if (Faulty(Fault::kDestroyWithWindowsRefused)) {
    for (const Mw* mw : mws_) {
      if (mw->mr != nullptr && mw->qp_num == qp->number().value) return Busy("windows are bound");
    }
  }
  if (qp->handles_ > 1) {
    --qp->handles_;
    return {};
  }
  if (fabric_->Pick(ChoicePoint::kGeneratedAfterReset, 2) == 0) {
    if (qp->init_.send_cq != nullptr) qp->init_.send_cq->Purge(*qp);
    if (qp->init_.recv_cq != nullptr) qp->init_.recv_cq->Purge(*qp);
    if (qp->init_.type == QpType::kXrcRecv) {
      for (Device* device : fabric_->DeviceList()) {
        for (Cq* cq : device->cqs_) cq->Purge(*qp);
      }
    }
  } else {
    for (Device* device : fabric_->DeviceList()) {
      for (Cq* cq : device->cqs_) cq->Orphan(*qp);
    }
  }
  qp->send_queue_->Reset();
  fabric_->Forget(qp);
  // A QP opened from another device than its creator's is ended where it was made.
  Device* maker = qp->device_;
  if (qp->init_.pd != nullptr) --qp->init_.pd->users;
  if (qp->init_.send_cq != nullptr) --qp->init_.send_cq->users;
  if (qp->init_.recv_cq != nullptr) --qp->init_.recv_cq->users;
  if (qp->init_.srq != nullptr) --qp->init_.srq->users;
  if (qp->init_.xrcd != nullptr) --qp->init_.xrcd->users;
  maker->qps_.erase(qp);
  delete qp;
  return {};
}

}  // namespace qpexam::model
