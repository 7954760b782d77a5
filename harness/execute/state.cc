// State transitions and queries.
#include <algorithm>
#include <cstring>

#include "harness/execute/execution.h"
#include "harness/trace/names.h"
#include "reference/model/transitions.h"

namespace qpexam {
namespace {

// What ibv_query_qp gave for one attribute; the address vector's parts are addresses of the process
// and are not recorded.
std::optional<uint64_t> ValueOf(AttrField field, const ibv_qp_attr& attr) {
  switch (field) {
    case AttrField::kState:
      return attr.qp_state;
    case AttrField::kCurState:
      return attr.cur_qp_state;
    case AttrField::kEnSqdAsyncNotify:
      return attr.en_sqd_async_notify;
    case AttrField::kAccessFlags:
      return attr.qp_access_flags;
    case AttrField::kPkeyIndex:
      return attr.pkey_index;
    case AttrField::kPort:
      return attr.port_num;
    case AttrField::kQkey:
      return attr.qkey;
    case AttrField::kPathMtu:
      return attr.path_mtu;
    case AttrField::kTimeout:
      return attr.timeout;
    case AttrField::kRetryCnt:
      return attr.retry_cnt;
    case AttrField::kRnrRetry:
      return attr.rnr_retry;
    case AttrField::kRqPsn:
      return attr.rq_psn;
    case AttrField::kSqPsn:
      return attr.sq_psn;
    case AttrField::kMaxRdAtomic:
      return attr.max_rd_atomic;
    case AttrField::kMaxDestRdAtomic:
      return attr.max_dest_rd_atomic;
    case AttrField::kMinRnrTimer:
      return attr.min_rnr_timer;
    case AttrField::kPathMigState:
      return attr.path_mig_state;
    case AttrField::kCapMaxSendWr:
      return attr.cap.max_send_wr;
    case AttrField::kCapMaxRecvWr:
      return attr.cap.max_recv_wr;
    case AttrField::kCapMaxSendSge:
      return attr.cap.max_send_sge;
    case AttrField::kCapMaxRecvSge:
      return attr.cap.max_recv_sge;
    case AttrField::kCapMaxInline:
      return attr.cap.max_inline_data;
    default:
      return std::nullopt;
  }
}

// Everything that every kernel answers; IBV_QP_RATE_LIMIT is not among it.
constexpr int kAskedByDefault = (IBV_QP_DEST_QPN << 1) - 1;

ibv_gid GroupOf(uint64_t group) {
  ibv_gid gid{};
  gid.raw[0] = 0xff;
  gid.raw[1] = 0x12;
  for (int i = 0; i < 4; i++) gid.raw[12 + i] = static_cast<uint8_t>(group >> (24 - 8 * i));
  return gid;
}

void AddValue(Out out, Queried what, uint64_t value) {
  out.trace->values.push_back({static_cast<uint16_t>(what), value});
}

}  // namespace

ModifyFacts Executor::Impl::FactsOf(ObjectSlot* slot, ObjectSlot* peer) {
  ModifyFacts facts;
  facts.type = slot->qp.made_by ? slot->qp.made_by->qp_type : model::QpType::kRc;
  facts.present = slot->qp.qp->state;
  if (peer) facts.peer_qpn = peer->qp.number;
  ContextSlot* from = &contexts_[slot->context];
  facts.path = PathFrom(from, peer ? &contexts_[peer->context] : from);
  return facts;
}

int Executor::Impl::ConnectOne(const Call& call, ObjectSlot* slot, ObjectSlot* peer) {
  ModifyFacts facts = FactsOf(slot, peer);
  // An XRC_RECV QP has no requester: RTR is as far as a connected one needs to go, and RTS is legal
  // (Table B), so the same three steps serve every type.
  for (ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ModifyArgs args = ArgsOfConnectStep(call, facts, to);
    int rc = ibv_modify_qp(slot->qp.qp, &args.attr, args.mask);
    if (rc != 0) return rc;
    session_->Modified(args.attr, args.mask);
    facts.present = to;
  }
  return 0;
}

bool Executor::Impl::Connect(const Call& call, Out out) {
  ObjectSlot* a = Alive(call.object, ObjectKind::kQp);
  ObjectSlot* b = call.object2 == kNoObject ? nullptr : Alive(call.object2, ObjectKind::kQp);
  if (!a || (call.object2 != kNoObject && !b)) return false;
  out.event->rc = ConnectOne(call, a, b);
  if (out.event->rc == 0 && b && b != a) {
    out.event->rc = ConnectOne(call, b, a);
    // Which of the two failed: 0 the first, 1 the second.
    if (out.event->rc != 0) out.event->count = 1;
  }
  RecordState(call.object, out.event->rc != 0, out.trace);
  if (b && b != a) RecordState(call.object2, out.event->rc != 0, out.trace);
  return true;
}

bool Executor::Impl::Modify(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  ObjectSlot* peer = call.object2 == kNoObject ? nullptr : Alive(call.object2, ObjectKind::kQp);
  if (!slot || (call.object2 != kNoObject && !peer)) return false;
  ModifyArgs args = ArgsOfModify(call, FactsOf(slot, peer));
  out.event->rc = ibv_modify_qp(slot->qp.qp, &args.attr, args.mask);
  if (out.event->rc == 0) session_->Modified(args.attr, args.mask);
  RecordState(call.object, true, out.trace);
  return true;
}

void Executor::Impl::RecordState(ObjectId qp, bool query, Trace* trace) {
  ibv_qp* verbs = slots_[qp].qp.qp;
  SeenState seen;
  seen.qp = qp;
  if (query) {
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    std::memset(&attr, 0, sizeof attr);
    if (ibv_query_qp(verbs, &attr, IBV_QP_STATE, &init) == 0)
      seen.state = static_cast<int8_t>(attr.qp_state);
  }
  // After the query, which refreshes it (WR-STATE-013).
  seen.cached = static_cast<int8_t>(verbs->state);
  trace->states.push_back(seen);
}

void Executor::Impl::RecordStates(Trace* trace) {
  for (size_t i = 0; i < slots_.size(); i++)
    if (slots_[i].alive && slots_[i].kind == ObjectKind::kQp && slots_[i].qp.qp)
      RecordState(static_cast<ObjectId>(i), true, trace);
}

bool Executor::Impl::Query(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (!slot) return false;
  const int mask = call.attr_mask == kUnset ? kAskedByDefault : static_cast<int>(call.attr_mask);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  std::memset(&attr, 0, sizeof attr);
  std::memset(&init, 0, sizeof init);
  out.event->rc = ibv_query_qp(slot->qp.qp, &attr, mask, &init);
  if (out.event->rc != 0) return true;
  for (int i = 0; i < kAttrFieldCount; i++) {
    const auto field = static_cast<AttrField>(i);
    if (!(InfoOf(field).mask & mask)) continue;
    if (std::optional<uint64_t> value = ValueOf(field, attr))
      out.trace->values.push_back({static_cast<uint16_t>(field), *value});
  }
  SeenState seen;
  seen.qp = call.object;
  if (mask & IBV_QP_STATE) seen.state = static_cast<int8_t>(attr.qp_state);
  seen.cached = static_cast<int8_t>(slot->qp.qp->state);
  out.trace->states.push_back(seen);
  return true;
}

bool Executor::Impl::QueryDevice(const Call& call, Out out) {
  uint16_t index = 0;
  ContextSlot* context = ContextOf(call.object, &index);
  if (!context) return false;
  ibv_device_attr_ex attr;
  std::memset(&attr, 0, sizeof attr);
  out.event->rc = ibv_query_device_ex(context->context, nullptr, &attr);
  if (out.event->rc != 0) return true;
  const ibv_device_attr& plain = attr.orig_attr;
  AddValue(out, Queried::kMaxQpWr, static_cast<uint64_t>(plain.max_qp_wr));
  AddValue(out, Queried::kMaxSge, static_cast<uint64_t>(plain.max_sge));
  AddValue(out, Queried::kMaxSgeRd, static_cast<uint64_t>(plain.max_sge_rd));
  AddValue(out, Queried::kMaxCqe, static_cast<uint64_t>(plain.max_cqe));
  AddValue(out, Queried::kMaxSrqWr, static_cast<uint64_t>(plain.max_srq_wr));
  AddValue(out, Queried::kMaxQpRdAtom, static_cast<uint64_t>(plain.max_qp_rd_atom));
  AddValue(out, Queried::kDeviceCapFlags, attr.device_cap_flags_ex);
  AddValue(out, Queried::kAtomicCap, static_cast<uint64_t>(plain.atomic_cap));
  AddValue(out, Queried::kMaxTso, attr.tso_caps.max_tso);
  return true;
}

bool Executor::Impl::QueryPort(const Call& call, Out out) {
  uint16_t index = 0;
  ContextSlot* context = ContextOf(call.object, &index);
  if (!context) return false;
  ibv_port_attr attr;
  std::memset(&attr, 0, sizeof attr);
  out.event->rc = ibv_query_port(context->context, static_cast<uint8_t>(call.port), &attr);
  if (out.event->rc != 0) return true;
  AddValue(out, Queried::kPortState, attr.state);
  AddValue(out, Queried::kActiveMtu, attr.active_mtu);
  AddValue(out, Queried::kMaxMsgSz, attr.max_msg_sz);
  return true;
}

bool Executor::Impl::QueryGid(const Call& call, Out out) {
  uint16_t index = 0;
  ContextSlot* context = ContextOf(call.object, &index);
  if (!context) return false;
  // A GID is an address of this machine: whether there is one is all that is recorded.
  ibv_gid gid;
  out.event->rc = ibv_query_gid(context->context, static_cast<uint8_t>(call.port),
                                static_cast<int>(call.n), &gid);
  return true;
}

bool Executor::Impl::QueryPkey(const Call& call, Out out) {
  uint16_t index = 0;
  ContextSlot* context = ContextOf(call.object, &index);
  if (!context) return false;
  __be16 pkey = 0;
  out.event->rc = ibv_query_pkey(context->context, static_cast<uint8_t>(call.port),
                                 static_cast<int>(call.n), &pkey);
  if (out.event->rc == 0) AddValue(out, Queried::kPkey, be16toh(pkey));
  return true;
}

bool Executor::Impl::ModifySrq(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kSrq);
  if (!slot) return false;
  ibv_srq_attr attr{};
  int mask = 0;
  if (call.limit != kUnset) {
    mask |= IBV_SRQ_LIMIT;
    attr.srq_limit = static_cast<uint32_t>(call.limit);
  }
  if (call.n != kUnset) {
    mask |= IBV_SRQ_MAX_WR;
    attr.max_wr = static_cast<uint32_t>(call.n);
  }
  out.event->rc = ibv_modify_srq(slot->srq, &attr, mask);
  return true;
}

bool Executor::Impl::QuerySrq(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kSrq);
  if (!slot) return false;
  ibv_srq_attr attr{};
  out.event->rc = ibv_query_srq(slot->srq, &attr);
  if (out.event->rc != 0) return true;
  AddValue(out, Queried::kSrqMaxWr, attr.max_wr);
  AddValue(out, Queried::kSrqMaxSge, attr.max_sge);
  AddValue(out, Queried::kSrqLimit, attr.srq_limit);
  return true;
}

bool Executor::Impl::Mcast(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (!slot) return false;
  spoilt_ = true;
  ibv_gid gid = GroupOf(call.value);
  std::vector<uint32_t>& groups = slot->groups;
  if (call.kind == CallKind::kAttachMcast) {
    out.event->rc = ibv_attach_mcast(slot->qp.qp, &gid, 0);
    if (out.event->rc == 0) groups.push_back(static_cast<uint32_t>(call.value));
  } else {
    out.event->rc = ibv_detach_mcast(slot->qp.qp, &gid, 0);
    auto it = std::find(groups.begin(), groups.end(), static_cast<uint32_t>(call.value));
    if (out.event->rc == 0 && it != groups.end()) groups.erase(it);
  }
  return true;
}

}  // namespace qpexam
