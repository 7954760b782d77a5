// Freeing objects, and keeping some for the next Program.
//
// What is kept: contexts, protection domains, plain CQs, mrs of the arena, and QPs without SRQ and
// XRC domain, taken through RESET. A Program that did what RESET does not undo (events, faults,
// SRQs, multicast, threads ...) keeps nothing of its own.
#include <algorithm>
#include <cstring>

#include "harness/execute/execution.h"
#include "harness/program/schema.h"

namespace qpexam {
namespace {

// So many of a kind are kept; then one that nobody uses makes room. Programs that never repeat
// would otherwise fill the device.
constexpr size_t kMostKept = 64;

// A free entry, a new one, or one that `free_up` has made free; nullptr where all are in use.
template <typename Entry, typename IsFree, typename FreeUp>
Entry* FreeEntry(std::vector<Entry>* entries, IsFree is_free, FreeUp free_up, int* index) {
  size_t idle = entries->size();
  for (size_t i = 0; i < entries->size(); i++) {
    Entry& entry = (*entries)[i];
    if (!is_free(entry)) {
      if (!entry.in_use && idle == entries->size()) idle = i;
      continue;
    }
    *index = static_cast<int>(i);
    return &entry;
  }
  if (entries->size() >= kMostKept) {
    if (idle == entries->size()) return nullptr;
    free_up(&(*entries)[idle]);
    *index = static_cast<int>(idle);
    return &(*entries)[idle];
  }
  entries->emplace_back();
  *index = static_cast<int>(entries->size()) - 1;
  return &entries->back();
}

// Everything that ibv_create_qp_ex() was given, but for the objects.
bool SameQp(const Call& a, const Call& b) {
  return a.qp_type == b.qp_type && a.ops == b.ops && a.flags == b.flags && a.sq == b.sq &&
         a.rq == b.rq && a.sge_max == b.sge_max && a.recv_sge_max == b.recv_sge_max &&
         a.inline_max == b.inline_max && a.tso_max == b.tso_max && a.sig_all == b.sig_all &&
         (a.cq == kNoObject) == (b.cq == kNoObject) &&
         (a.recv_cq == kNoObject) == (b.recv_cq == kNoObject);
}

// False where it cannot be used any more: it has overrun.
bool Empty(CqState* cq) {
  if (!cq->cq) return true;
  ibv_wc wcs[16];
  int taken = 0;
  do {
    taken = ibv_poll_cq(cq->cq, 16, wcs);
  } while (taken == 16);
  return taken >= 0;
}

}  // namespace

void Executor::Impl::FreeCq(CqState* cq) {
  if (!cq->cq) return;
  if (cq->polling) ibv_end_poll(cq->ex);
  if (cq->unacked) ibv_ack_cq_events(cq->cq, cq->unacked);
  ibv_destroy_cq(cq->cq);
  *cq = CqState();
}

int Executor::Impl::FreeQp(QpState* qp) {
  if (!qp->qp) return 0;
  int rc = ibv_destroy_qp(qp->qp);
  if (rc != 0) return rc;
  qp->qp = nullptr;
  qp->ex = nullptr;
  FreeCq(&qp->own_send);
  FreeCq(&qp->own_recv);
  return 0;
}

int Executor::Impl::Free(ObjectSlot* slot) {
  Unkeep(slot);
  switch (slot->kind) {
    case ObjectKind::kDevice: {
      ContextSlot& context = contexts_[slot->context];
      if (context.implicit_pd) ibv_dealloc_pd(context.implicit_pd);
      int rc = ibv_close_device(context.context);
      context = ContextSlot();
      return rc;
    }
    case ObjectKind::kPd:
      return ibv_dealloc_pd(slot->pd);
    case ObjectKind::kTd:
      return ibv_dealloc_td(slot->td);
    case ObjectKind::kMr:
      return ibv_dereg_mr(slot->mr.mr);
    case ObjectKind::kMw:
      slot->mw.last_rkey = slot->mw.mw->rkey;
      return ibv_dealloc_mw(slot->mw.mw);
    case ObjectKind::kChannel:
      return ibv_destroy_comp_channel(slot->channel);
    case ObjectKind::kCq: {
      // ibv_destroy_cq() waits for events that were taken and not acknowledged: for ever, since
      // the only one who could acknowledge is waiting.
      if (slot->cq.unacked) ibv_ack_cq_events(slot->cq.cq, slot->cq.unacked);
      slot->cq.unacked = 0;
      return ibv_destroy_cq(slot->cq.cq);
    }
    case ObjectKind::kSrq:
      return ibv_destroy_srq(slot->srq);
    case ObjectKind::kXrcd:
      return ibv_close_xrcd(slot->xrcd);
    case ObjectKind::kQp:
      return FreeQp(&slot->qp);
    case ObjectKind::kAh:
      return ibv_destroy_ah(slot->ah);
    case ObjectKind::kThread:
      return 0;
  }
  return 0;
}

bool Executor::Impl::Destroy(const Call& call, Out out) {
  ObjectSlot* slot = nullptr;
  {
    const auto lock = LockObjects();
    if (call.object >= slots_.size() || !slots_[call.object].alive) return false;
    slot = &slots_[call.object];
    // A context goes with whatever was made on it, in use or not: no verbs function refuses that.
    for (const ObjectSlot& other : slots_)
      if (slot->kind == ObjectKind::kDevice && &other != slot && other.alive &&
          other.kind != ObjectKind::kThread && other.context == slot->context)
        return false;
    slot->alive = false;
  }
  // Without the lock: freeing may wait for what another thread has to do first.
  out.event->rc = Free(slot);
  if (out.event->rc != 0) {
    const auto lock = LockObjects();
    slot->alive = true;
  }
  return true;
}

void Executor::Impl::DetachAll(ObjectSlot* slot) {
  for (uint32_t group : slot->groups) {
    ibv_gid gid{};
    gid.raw[0] = 0xff;
    gid.raw[1] = 0x12;
    for (int i = 0; i < 4; i++) gid.raw[12 + i] = static_cast<uint8_t>(group >> (24 - 8 * i));
    ibv_detach_mcast(slot->qp.qp, &gid, 0);
  }
  slot->groups.clear();
}

void Executor::Impl::Release() {
  const bool keep = options_.keep_objects && !spoilt_;
  // QPs are reset before the CQs are emptied: a reset may leave completions there.
  for (ObjectSlot& slot : slots_)
    if (slot.alive && slot.kind == ObjectKind::kQp) DetachAll(&slot);
  // A window that is still bound holds its QP: soft-RoCE then takes 50 s to destroy that.
  static constexpr ObjectKind kOrder[] = {ObjectKind::kAh,   ObjectKind::kMw,      ObjectKind::kQp,
                                          ObjectKind::kSrq,  ObjectKind::kMr,      ObjectKind::kCq,
                                          ObjectKind::kXrcd, ObjectKind::kChannel, ObjectKind::kPd,
                                          ObjectKind::kTd,   ObjectKind::kDevice};
  for (ObjectKind kind : kOrder) {
    // Within a kind the youngest goes first: parent domains before what they stand on, second
    // handles of a QP before the first.
    for (size_t i = made_.size(); i-- > 0;) {
      ObjectSlot& slot = slots_[made_[i]];
      if (!slot.alive || slot.kind != kind) continue;
      if (!keep || !Keep(&slot)) Free(&slot);
      slot.alive = false;
    }
  }
  if (!options_.keep_objects) DropObjects();
}

bool Executor::Impl::Keep(ObjectSlot* slot) {
  switch (slot->kind) {
    case ObjectKind::kQp: {
      if (slot->kept < 0) return false;
      KeptQp& entry = kept_qps_[static_cast<size_t>(slot->kept)];
      ibv_qp_attr attr;
      std::memset(&attr, 0, sizeof attr);
      attr.qp_state = IBV_QPS_RESET;
      if (ibv_modify_qp(slot->qp.qp, &attr, IBV_QP_STATE)) return false;
      if (!Empty(&slot->qp.own_send) || !Empty(&slot->qp.own_recv)) return false;
      entry.in_use = false;
      return true;
    }
    case ObjectKind::kMr:
      if (slot->kept < 0) return false;
      kept_mrs_[static_cast<size_t>(slot->kept)].in_use = false;
      return true;
    case ObjectKind::kCq:
      if (slot->kept < 0 || slot->cq.polling) return false;
      if (!Empty(&slot->cq)) return false;
      kept_cqs_[static_cast<size_t>(slot->kept)].in_use = false;
      return true;
    case ObjectKind::kPd:
      if (slot->kept < 0) return false;
      kept_pds_[static_cast<size_t>(slot->kept)].in_use = false;
      return true;
    case ObjectKind::kDevice:
      contexts_[slot->context].object = kNoObject;
      return true;
    default:
      return false;
  }
}

void Executor::Impl::Unkeep(ObjectSlot* slot) {
  const auto index = static_cast<size_t>(slot->kept);
  switch (slot->kind) {
    case ObjectKind::kQp:
      if (slot->kept >= 0) kept_qps_[index] = KeptQp();
      break;
    case ObjectKind::kMr:
      if (slot->kept >= 0) kept_mrs_[index] = KeptMr();
      break;
    case ObjectKind::kCq:
      if (slot->kept >= 0) kept_cqs_[index] = KeptCq();
      DropKeptUsing(nullptr, slot->cq.cq, nullptr);
      break;
    case ObjectKind::kPd:
      if (slot->kept >= 0) kept_pds_[index] = KeptPd();
      DropKeptUsing(slot->pd, nullptr, nullptr);
      break;
    case ObjectKind::kDevice:
      DropKeptUsing(nullptr, nullptr, contexts_[slot->context].context);
      break;
    default:
      break;
  }
  slot->kept = -1;
}

void Executor::Impl::DropKeptUsing(ibv_pd* pd, ibv_cq* cq, ibv_context* context) {
  for (KeptQp& entry : kept_qps_) {
    if (!entry.qp.qp || entry.in_use) continue;
    if (entry.qp.pd != pd && entry.context != context &&
        (!cq || (entry.qp.send_cq != cq && entry.qp.recv_cq != cq)))
      continue;
    FreeQp(&entry.qp);
    entry = KeptQp();
  }
  for (KeptMr& entry : kept_mrs_) {
    if (!entry.mr || entry.in_use || (entry.pd != pd && entry.mr->context != context)) continue;
    ibv_dereg_mr(entry.mr);
    entry = KeptMr();
  }
  if (!context) return;
  for (KeptCq& entry : kept_cqs_) {
    if (!entry.cq.cq || entry.in_use || entry.context != context) continue;
    FreeCq(&entry.cq);
    entry = KeptCq();
  }
  for (KeptPd& entry : kept_pds_) {
    if (!entry.pd || entry.in_use || entry.pd->context != context) continue;
    ibv_dealloc_pd(entry.pd);
    entry = KeptPd();
  }
}

void Executor::Impl::DropKeptMrs() {
  for (KeptMr& entry : kept_mrs_)
    if (entry.mr) ibv_dereg_mr(entry.mr);
  kept_mrs_.clear();
}

void Executor::Impl::DropObjects() {
  for (KeptQp& entry : kept_qps_) FreeQp(&entry.qp);
  kept_qps_.clear();
  DropKeptMrs();
  for (KeptCq& entry : kept_cqs_) FreeCq(&entry.cq);
  kept_cqs_.clear();
  for (KeptPd& entry : kept_pds_)
    if (entry.pd) ibv_dealloc_pd(entry.pd);
  kept_pds_.clear();
  for (ContextSlot& context : contexts_) {
    if (context.implicit_pd) ibv_dealloc_pd(context.implicit_pd);
    if (context.opened) ibv_close_device(context.context);
  }
  contexts_.clear();
}

void Executor::Impl::AddKeptQp(const Call& call, ibv_context* context, const uint32_t (&granted)[5],
                               ObjectSlot* slot) {
  KeptQp* entry = FreeEntry(
      &kept_qps_, [](const KeptQp& e) { return !e.qp.qp; },
      [this](KeptQp* e) {
        FreeQp(&e->qp);
        *e = KeptQp();
      },
      &slot->kept);
  if (!entry) return;
  entry->qp = slot->qp;
  entry->made_by = call;
  entry->context = context;
  std::copy(granted, granted + 5, entry->granted);
  entry->in_use = true;
}

bool Executor::Impl::TakeQp(const Call& call, ibv_context* context, ObjectSlot* slot) {
  if (!options_.keep_objects) return false;
  QpState* wanted = &slot->qp;
  for (size_t i = 0; i < kept_qps_.size(); i++) {
    KeptQp& entry = kept_qps_[i];
    if (!entry.qp.qp || entry.in_use || entry.context != context || entry.qp.pd != wanted->pd ||
        !SameQp(entry.made_by, call))
      continue;
    if (call.cq != kNoObject && entry.qp.send_cq != wanted->send_cq) continue;
    if (call.recv_cq != kNoObject && entry.qp.recv_cq != wanted->recv_cq) continue;
    entry.in_use = true;
    slot->kept = static_cast<int>(i);
    wanted->qp = entry.qp.qp;
    wanted->ex = entry.qp.ex;
    wanted->own_send = entry.qp.own_send;
    wanted->own_recv = entry.qp.own_recv;
    wanted->send_cq = entry.qp.send_cq;
    wanted->recv_cq = entry.qp.recv_cq;
    wanted->made_by = &call;
    return true;
  }
  return false;
}

bool Executor::Impl::TakeMr(ibv_pd* pd, const void* addr, const Call& call, ObjectSlot* slot) {
  if (!options_.keep_objects) return false;
  for (size_t i = 0; i < kept_mrs_.size(); i++) {
    KeptMr& entry = kept_mrs_[i];
    if (!entry.mr || entry.in_use || entry.pd != pd || entry.addr != addr ||
        entry.len != call.len || entry.iova != call.iova || entry.access != call.access)
      continue;
    entry.in_use = true;
    slot->kept = static_cast<int>(i);
    slot->mr.mr = entry.mr;
    return true;
  }
  KeptMr* entry = FreeEntry(
      &kept_mrs_, [](const KeptMr& e) { return !e.mr; },
      [](KeptMr* e) {
        ibv_dereg_mr(e->mr);
        *e = KeptMr();
      },
      &slot->kept);
  if (!entry) return false;
  // Registered here rather than by the caller, so that the entry is whole.
  ibv_mr* mr = call.iova == kUnset ? ibv_reg_mr(pd, const_cast<void*>(addr), call.len,
                                                static_cast<int>(call.access))
                                   : nullptr;
  if (!mr) {
    slot->kept = -1;
    return false;
  }
  *entry = {mr, pd, addr, call.len, call.iova, call.access, true};
  slot->mr.mr = mr;
  return true;
}

bool Executor::Impl::TakeCq(ibv_context* context, const Call& call, ObjectSlot* slot) {
  if (!options_.keep_objects) return false;
  for (size_t i = 0; i < kept_cqs_.size(); i++) {
    KeptCq& entry = kept_cqs_[i];
    if (!entry.cq.cq || entry.in_use || entry.context != context || entry.n != call.n) continue;
    entry.in_use = true;
    slot->kept = static_cast<int>(i);
    slot->cq = entry.cq;
    return true;
  }
  KeptCq* entry = FreeEntry(
      &kept_cqs_, [](const KeptCq& e) { return !e.cq.cq; },
      [this](KeptCq* e) {
        DropKeptUsing(nullptr, e->cq.cq, nullptr);
        FreeCq(&e->cq);
        *e = KeptCq();
      },
      &slot->kept);
  if (!entry) return false;
  ibv_cq* cq = ibv_create_cq(context, static_cast<int>(call.n), nullptr, nullptr, 0);
  if (!cq) {
    slot->kept = -1;
    return false;
  }
  entry->cq.cq = cq;
  entry->context = context;
  entry->n = call.n;
  entry->in_use = true;
  slot->cq = entry->cq;
  return true;
}

bool Executor::Impl::TakePd(ibv_context* context, ObjectSlot* slot) {
  if (!options_.keep_objects) return false;
  for (size_t i = 0; i < kept_pds_.size(); i++) {
    KeptPd& entry = kept_pds_[i];
    if (!entry.pd || entry.in_use || entry.pd->context != context) continue;
    entry.in_use = true;
    slot->kept = static_cast<int>(i);
    slot->pd = entry.pd;
    return true;
  }
  KeptPd* entry = FreeEntry(
      &kept_pds_, [](const KeptPd& e) { return !e.pd; },
      [this](KeptPd* e) {
        DropKeptUsing(e->pd, nullptr, nullptr);
        ibv_dealloc_pd(e->pd);
        *e = KeptPd();
      },
      &slot->kept);
  if (!entry) return false;
  entry->pd = ibv_alloc_pd(context);
  if (!entry->pd) {
    slot->kept = -1;
    return false;
  }
  entry->in_use = true;
  slot->pd = entry->pd;
  return true;
}

}  // namespace qpexam
