// Making objects.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/execute/execution.h"
#include "harness/program/layout.h"

namespace qpexam {
namespace {

// A creation gives a pointer or errno; some providers leave errno at 0, which is still a failure.
int ErrnoOf(const void* made) { return made ? 0 : (errno ? errno : EIO); }

}  // namespace

ContextSlot* Executor::Impl::ContextOf(ObjectId device, uint16_t* index) {
  size_t at = 0;
  if (device != kNoObject) {
    at = contexts_.size();
    for (size_t i = 1; i < contexts_.size(); i++)
      if (contexts_[i].object == device) at = i;
    if (at == contexts_.size()) return nullptr;
  }
  if (contexts_.empty()) contexts_.emplace_back();
  ContextSlot& slot = contexts_[at];
  if (!slot.opened && at == 0) {
    slot.context = session_->Open(0);
    slot.opened = slot.context != nullptr;
  }
  *index = static_cast<uint16_t>(at);
  return slot.opened ? &slot : nullptr;
}

ibv_pd* Executor::Impl::PdOf(ObjectId pd, uint16_t* context) {
  if (pd != kNoObject) {
    ObjectSlot* slot = Alive(pd, ObjectKind::kPd);
    if (!slot) return nullptr;
    *context = slot->context;
    return slot->pd;
  }
  ContextSlot* implicit = ContextOf(kNoObject, context);
  if (!implicit) return nullptr;
  if (!implicit->implicit_pd) implicit->implicit_pd = ibv_alloc_pd(implicit->context);
  return implicit->implicit_pd;
}

void Executor::Impl::LearnPort(ContextSlot* context) {
  if (context->port_known) return;
  context->port_known = true;
  ibv_port_attr port;
  std::memset(&port, 0, sizeof port);
  if (ibv_query_port(context->context, 1, &port)) return;
  context->lid = port.lid;
  context->needs_grh = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  // RoCE v2 where there is one: a RoCE v1 address may be link-local and unreachable.
  bool found = false;
  for (int i = 0; i < std::min(port.gid_tbl_len, 64); i++) {
    ibv_gid_entry entry;
    if (ibv_query_gid_ex(context->context, 1, static_cast<uint32_t>(i), &entry, 0)) continue;
    if (found && entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    context->gid = entry.gid;
    context->sgid_index = static_cast<uint8_t>(i);
    found = true;
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) break;
  }
  if (!found) ibv_query_gid(context->context, 1, 0, &context->gid);
}

const PortAddress Executor::Impl::PathFrom(ContextSlot* from, ContextSlot* to) {
  LearnPort(from);
  LearnPort(to);
  PortAddress path;
  path.lid = to->lid;
  path.gid = to->gid;
  path.sgid_index = from->sgid_index;
  path.port = 1;
  path.needs_grh = from->needs_grh;
  return path;
}

bool Executor::Impl::Create(const Call& call, Out out) {
  if (call.object >= slots_.size()) return false;
  ObjectSlot* slot = &slots_[call.object];
  // A name is made again only after it was freed; anything else is a Program that the parser
  // refuses and the byte form cannot spell.
  if (slot->alive) return false;
  ObjectKind kind = program_->objects[call.object].kind;
  slot->Reset(kind);
  slot->made_by = &call;
  made_.push_back(call.object);
  errno = 0;
  bool named = false;
  uint16_t context = 0;
  ContextSlot* device = nullptr;
  switch (call.kind) {
    case CallKind::kDevice:
      named = MakeDevice(call, slot, out);
      break;
    case CallKind::kPd:
      named = MakePd(call, slot, out);
      break;
    case CallKind::kTd: {
      device = ContextOf(call.device, &context);
      if (!device) return false;
      named = true;
      spoilt_ = true;
      ibv_td_init_attr attr{};
      slot->td = ibv_alloc_td(device->context, &attr);
      out.event->rc = ErrnoOf(slot->td);
      slot->context = context;
      break;
    }
    case CallKind::kMr:
      named = MakeMr(call, slot, out);
      break;
    case CallKind::kMw:
      named = MakeMw(call, slot, out);
      break;
    case CallKind::kChannel:
      device = ContextOf(call.device, &context);
      if (!device) return false;
      named = true;
      spoilt_ = true;
      slot->channel = ibv_create_comp_channel(device->context);
      out.event->rc = ErrnoOf(slot->channel);
      slot->context = context;
      // Waits are the session's, never the kernel's.
      if (slot->channel)
        fcntl(slot->channel->fd, F_SETFL, fcntl(slot->channel->fd, F_GETFL) | O_NONBLOCK);
      break;
    case CallKind::kCq:
      named = MakeCq(call, slot, out);
      break;
    case CallKind::kSrq:
      named = MakeSrq(call, slot, out);
      break;
    case CallKind::kXrcd: {
      device = ContextOf(call.device, &context);
      if (!device) return false;
      named = true;
      spoilt_ = true;
      ibv_xrcd_init_attr attr{};
      attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
      attr.fd = -1;
      attr.oflags = O_CREAT;
      slot->xrcd = ibv_open_xrcd(device->context, &attr);
      out.event->rc = ErrnoOf(slot->xrcd);
      slot->context = context;
      break;
    }
    case CallKind::kQp:
      named = MakeQp(call, slot, out);
      break;
    case CallKind::kOpenQp:
      named = OpenQp(call, slot, out);
      break;
    case CallKind::kAh:
      named = MakeAh(call, slot, out);
      break;
    case CallKind::kThread:
      named = true;
      break;
    default:
      break;
  }
  slot->alive = slot->existed = named && out.event->rc == 0;
  return named;
}

bool Executor::Impl::MakeDevice(const Call& call, ObjectSlot* slot, Out out) {
  if (contexts_.empty()) contexts_.emplace_back();
  size_t index = 1;
  while (index < contexts_.size() && contexts_[index].object != kNoObject) index++;
  if (index == contexts_.size()) contexts_.emplace_back();
  ContextSlot& context = contexts_[index];
  if (!context.opened) {
    context = ContextSlot();
    context.context = session_->Open(static_cast<unsigned>(index));
    context.opened = context.context != nullptr;
  }
  out.event->rc = ErrnoOf(context.context);
  if (!context.opened) return true;
  context.object = call.object;
  slot->context = static_cast<uint16_t>(index);
  return true;
}

bool Executor::Impl::MakePd(const Call& call, ObjectSlot* slot, Out out) {
  if (call.pd != kNoObject || call.td != kNoObject) {
    spoilt_ = true;
    ibv_pd* parent = PdOf(call.pd, &slot->context);
    ObjectSlot* td = call.td == kNoObject ? nullptr : Alive(call.td, ObjectKind::kTd);
    if (!parent || (call.td != kNoObject && !td)) return false;
    ibv_parent_domain_init_attr attr{};
    attr.pd = parent;
    attr.td = td ? td->td : nullptr;
    slot->pd = ibv_alloc_parent_domain(contexts_[slot->context].context, &attr);
    out.event->rc = ErrnoOf(slot->pd);
    return true;
  }
  ContextSlot* context = ContextOf(call.device, &slot->context);
  if (!context) return false;
  if (TakePd(context->context, slot)) return true;
  slot->pd = ibv_alloc_pd(context->context);
  out.event->rc = ErrnoOf(slot->pd);
  return true;
}

bool Executor::Impl::MakeMr(const Call& call, ObjectSlot* slot, Out out) {
  ibv_pd* pd = PdOf(call.pd, &slot->context);
  if (!pd) return false;
  uint8_t* host = nullptr;
  if (call.addr.mr != kNoObject) {
    if (!HostAddress(call.addr, call.len, &host)) return false;
  } else {
    host = arena_.Allocate(call.object, call.len);
    if (!host) {
      // The arena of a Program is as large as it says; the parser tells people so beforehand.
      out.event->rc = ENOMEM;
      return true;
    }
    if (call.fill != kUnset) arena_.Fill(host, static_cast<uint8_t>(call.fill), call.len);
  }
  if (!TakeMr(pd, host, call, slot)) {
    if (call.iova != kUnset) {
      uint64_t low = reinterpret_cast<uintptr_t>(host) & 0xfff;
      slot->mr.mr = ibv_reg_mr_iova(pd, host, call.len, (call.iova & ~uint64_t{0xfff}) | low,
                                    static_cast<int>(call.access));
    } else {
      slot->mr.mr = ibv_reg_mr(pd, host, call.len, static_cast<int>(call.access));
    }
    out.event->rc = ErrnoOf(slot->mr.mr);
  }
  slot->mr.host = host;
  if (call.iova != kUnset) {
    slot->mr.base =
        (call.iova & ~uint64_t{0xfff}) | (reinterpret_cast<uintptr_t>(host) & uint64_t{0xfff});
  } else {
    slot->mr.base = (call.access & IBV_ACCESS_ZERO_BASED) ? 0 : reinterpret_cast<uintptr_t>(host);
  }
  if (slot->mr.mr) {
    slot->mr.first_lkey = slot->mr.mr->lkey;
    slot->mr.first_rkey = slot->mr.mr->rkey;
  }
  return true;
}

bool Executor::Impl::MakeMw(const Call& call, ObjectSlot* slot, Out out) {
  ibv_pd* pd = PdOf(call.pd, &slot->context);
  if (!pd) return false;
  slot->mw.mw = ibv_alloc_mw(pd, static_cast<ibv_mw_type>(call.mw_type));
  out.event->rc = ErrnoOf(slot->mw.mw);
  slot->mw.type = call.mw_type;
  if (slot->mw.mw) slot->mw.first_rkey = slot->mw.last_rkey = slot->mw.mw->rkey;
  return true;
}

bool Executor::Impl::MakeCq(const Call& call, ObjectSlot* slot, Out out) {
  ibv_pd* pd = nullptr;
  ContextSlot* context = nullptr;
  if (call.pd != kNoObject) {
    pd = PdOf(call.pd, &slot->context);
    if (!pd) return false;
    context = &contexts_[slot->context];
  } else {
    context = ContextOf(call.device, &slot->context);
    if (!context) return false;
  }
  ibv_comp_channel* channel = nullptr;
  if (call.channel != kNoObject) {
    ObjectSlot* c = Alive(call.channel, ObjectKind::kChannel);
    if (!c) return false;
    channel = c->channel;
  }
  if (!call.ex && !channel && TakeCq(context->context, call, slot)) {
    out.event->granted[0] = static_cast<uint32_t>(slot->cq.cq->cqe);
    return true;
  }
  if (!call.ex) {
    slot->cq.cq = ibv_create_cq(context->context, static_cast<int>(call.n), nullptr, channel, 0);
  } else {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = static_cast<uint32_t>(call.n);
    attr.channel = channel;
    attr.wc_flags = call.wc_flags;
    if (call.flags) {
      attr.comp_mask |= IBV_CQ_INIT_ATTR_MASK_FLAGS;
      attr.flags = static_cast<uint32_t>(call.flags);
    }
    if (pd) {
      attr.comp_mask |= IBV_CQ_INIT_ATTR_MASK_PD;
      attr.parent_domain = pd;
    }
    slot->cq.ex = ibv_create_cq_ex(context->context, &attr);
    slot->cq.cq = slot->cq.ex ? ibv_cq_ex_to_cq(slot->cq.ex) : nullptr;
  }
  out.event->rc = ErrnoOf(slot->cq.cq);
  if (slot->cq.cq) out.event->granted[0] = static_cast<uint32_t>(slot->cq.cq->cqe);
  return true;
}

bool Executor::Impl::MakeSrq(const Call& call, ObjectSlot* slot, Out out) {
  spoilt_ = true;
  ibv_pd* pd = PdOf(call.pd, &slot->context);
  if (!pd) return false;
  ibv_srq_init_attr_ex attr{};
  attr.attr.max_wr = static_cast<uint32_t>(call.n);
  attr.attr.max_sge = static_cast<uint32_t>(call.sge_max);
  if (call.limit != kUnset) attr.attr.srq_limit = static_cast<uint32_t>(call.limit);
  if (call.xrcd == kNoObject) {
    ibv_srq_init_attr plain{};
    plain.attr = attr.attr;
    slot->srq = ibv_create_srq(pd, &plain);
    attr.attr = plain.attr;
  } else {
    ObjectSlot* xrcd = Alive(call.xrcd, ObjectKind::kXrcd);
    uint16_t cq_context = 0;
    CqState* cq = CqOf({call.cq, Side::kNone}, &cq_context);
    if (!xrcd || !cq) return false;
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd;
    attr.xrcd = xrcd->xrcd;
    attr.cq = cq->cq;
    slot->srq = ibv_create_srq_ex(contexts_[slot->context].context, &attr);
  }
  out.event->rc = ErrnoOf(slot->srq);
  if (slot->srq) {
    out.event->granted[0] = attr.attr.max_wr;
    out.event->granted[1] = attr.attr.max_sge;
  }
  return true;
}

bool Executor::Impl::MakeOwnCqs(const Call& call, ContextSlot* context, QpState* qp) {
  if (call.qp_type == model::QpType::kXrcRecv) return true;
  if (call.cq == kNoObject) {
    qp->own_send.cq = ibv_create_cq(context->context, OwnCqDepth(call.sq), nullptr, nullptr, 0);
    if (!qp->own_send.cq) return false;
    qp->send_cq = qp->own_send.cq;
  }
  if (call.recv_cq == kNoObject) {
    qp->own_recv.cq = ibv_create_cq(context->context, OwnCqDepth(call.rq), nullptr, nullptr, 0);
    if (!qp->own_recv.cq) return false;
    qp->recv_cq = qp->own_recv.cq;
  }
  return true;
}

bool Executor::Impl::MakeQp(const Call& call, ObjectSlot* slot, Out out) {
  QpState* qp = &slot->qp;
  ContextSlot* context = nullptr;
  uint16_t other = 0;
  if (call.pd == kNoObject && call.device != kNoObject) {
    context = ContextOf(call.device, &slot->context);
    if (!context) return false;
    if (call.qp_type != model::QpType::kXrcRecv) {
      if (!context->implicit_pd) context->implicit_pd = ibv_alloc_pd(context->context);
      qp->pd = context->implicit_pd;
    }
  } else {
    qp->pd = PdOf(call.pd, &slot->context);
    if (!qp->pd) return false;
    context = &contexts_[slot->context];
  }
  CqState* cq = nullptr;
  if (call.cq != kNoObject) {
    cq = CqOf({call.cq, Side::kNone}, &other);
    if (!cq) return false;
    qp->send_cq = cq->cq;
  }
  if (call.recv_cq != kNoObject) {
    cq = CqOf({call.recv_cq, Side::kNone}, &other);
    if (!cq) return false;
    qp->recv_cq = cq->cq;
  }
  ibv_qp_init_attr_ex attr;
  std::memset(&attr, 0, sizeof attr);
  if (call.srq != kNoObject) {
    ObjectSlot* srq = Alive(call.srq, ObjectKind::kSrq);
    if (!srq) return false;
    attr.srq = srq->srq;
  }
  if (call.xrcd != kNoObject) {
    ObjectSlot* xrcd = Alive(call.xrcd, ObjectKind::kXrcd);
    if (!xrcd) return false;
    attr.xrcd = xrcd->xrcd;
    attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  }
  const bool takeable = !attr.srq && !attr.xrcd;
  if (takeable && TakeQp(call, context->context, slot)) {
    const KeptQp& kept = kept_qps_[static_cast<size_t>(slot->kept)];
    std::copy(kept.granted, kept.granted + 5, out.event->granted);
    NameQp(slot, call.object);
    return true;
  }
  if (!MakeOwnCqs(call, context, qp)) {
    out.event->rc = ErrnoOf(nullptr);
    FreeCq(&qp->own_send);
    FreeCq(&qp->own_recv);
    return true;
  }
  attr.send_cq = qp->send_cq;
  attr.recv_cq = qp->recv_cq;
  attr.cap.max_send_wr = static_cast<uint32_t>(call.sq);
  attr.cap.max_recv_wr = attr.srq ? 0 : static_cast<uint32_t>(call.rq);
  attr.cap.max_send_sge = static_cast<uint32_t>(call.sge_max);
  attr.cap.max_recv_sge = attr.srq ? 0 : static_cast<uint32_t>(call.recv_sge_max);
  attr.cap.max_inline_data = static_cast<uint32_t>(call.inline_max);
  attr.qp_type = model::VerbsType(call.qp_type);
  attr.sq_sig_all = call.sig_all;
  if (call.qp_type == model::QpType::kXrcRecv) {
    std::memset(&attr.cap, 0, sizeof attr.cap);
  } else {
    attr.pd = qp->pd;
    attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
  }
  if (call.ops != kPlainQp) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = call.ops;
  }
  if (call.flags) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.create_flags = static_cast<uint32_t>(call.flags);
  }
  if (call.tso_max) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    attr.max_tso_header = static_cast<uint16_t>(call.tso_max);
  }
  errno = 0;
  if (attr.comp_mask == IBV_QP_INIT_ATTR_PD && call.qp_type != model::QpType::kSrd) {
    // What an application without the extension calls.
    ibv_qp_init_attr plain{};
    plain.send_cq = attr.send_cq;
    plain.recv_cq = attr.recv_cq;
    plain.srq = attr.srq;
    plain.cap = attr.cap;
    plain.qp_type = attr.qp_type;
    plain.sq_sig_all = attr.sq_sig_all;
    qp->qp = ibv_create_qp(qp->pd, &plain);
    attr.cap = plain.cap;
  } else {
    qp->qp = session_->CreateQp(context->context, &attr, call.qp_type);
  }
  out.event->rc = ErrnoOf(qp->qp);
  if (!qp->qp) {
    FreeCq(&qp->own_send);
    FreeCq(&qp->own_recv);
    return true;
  }
  if (call.ops != kPlainQp) qp->ex = ibv_qp_to_qp_ex(qp->qp);
  qp->made_by = &call;
  const ibv_qp_cap& cap = attr.cap;
  const uint32_t granted[5] = {cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge,
                               cap.max_inline_data};
  std::copy(granted, granted + 5, out.event->granted);
  NameQp(slot, call.object);
  if (takeable && options_.keep_objects) AddKeptQp(call, context->context, granted, slot);
  return true;
}

bool Executor::Impl::OpenQp(const Call& call, ObjectSlot* slot, Out out) {
  spoilt_ = true;
  ObjectSlot* target = Alive(call.object2, ObjectKind::kQp);
  ObjectSlot* xrcd = Alive(call.xrcd, ObjectKind::kXrcd);
  if (!target || !xrcd) return false;
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = target->qp.number;
  attr.xrcd = xrcd->xrcd;
  attr.qp_type = IBV_QPT_XRC_RECV;
  slot->context = xrcd->context;
  slot->qp.qp = ibv_open_qp(contexts_[slot->context].context, &attr);
  slot->qp.made_by = target->qp.made_by;
  out.event->rc = ErrnoOf(slot->qp.qp);
  if (slot->qp.qp) slot->qp.number = slot->qp.qp->qp_num;
  return true;
}

bool Executor::Impl::MakeAh(const Call& call, ObjectSlot* slot, Out out) {
  ibv_pd* pd = PdOf(call.pd, &slot->context);
  uint16_t target_index = 0;
  ContextSlot* target = ContextOf(call.device, &target_index);
  if (!pd || !target) return false;
  ibv_ah_attr attr = AttributesOfAh(call, PathFrom(&contexts_[slot->context], target));
  slot->ah = ibv_create_ah(pd, &attr);
  out.event->rc = ErrnoOf(slot->ah);
  return true;
}

bool Executor::Impl::ReregMr(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kMr);
  if (!slot) return false;
  spoilt_ = true;
  uint16_t context = 0;
  ibv_pd* pd = nullptr;
  if (call.flags & IBV_REREG_MR_CHANGE_PD) {
    pd = PdOf(call.pd, &context);
    if (!pd) return false;
  }
  uint8_t* host = nullptr;
  if (call.flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
    if (!HostAddress(call.addr, call.len, &host)) return false;
  }
  int rc = ibv_rereg_mr(slot->mr.mr, static_cast<int>(call.flags), pd, host, call.len,
                        static_cast<int>(call.access));
  out.event->rc = rc;
  if (rc != 0) return true;
  if (host) {
    slot->mr.host = host;
    slot->mr.base = reinterpret_cast<uintptr_t>(host);
  }
  slot->mr.first_lkey = slot->mr.mr->lkey;
  slot->mr.first_rkey = slot->mr.mr->rkey;
  return true;
}

bool Executor::Impl::ResizeCq(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kCq);
  if (!slot) return false;
  spoilt_ = true;
  out.event->rc = ibv_resize_cq(slot->cq.cq, static_cast<int>(call.n));
  out.event->granted[0] = static_cast<uint32_t>(slot->cq.cq->cqe);
  return true;
}

}  // namespace qpexam
