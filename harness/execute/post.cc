// Posting: regions and their builders, setters, the lists of ibv_post_send and ibv_post_recv.
#include <endian.h>

#include <algorithm>
#include <cstring>

#include "harness/execute/execution.h"
#include "reference/model/ops.h"

namespace qpexam {
namespace {

// A builder may read what it was given only until it returns (WR-SET-013): afterwards the lists
// hold nonsense.
template <typename T>
void Poison(std::vector<T>* list) {
  if (!list->empty()) std::memset(static_cast<void*>(list->data()), 0xa5, list->size() * sizeof(T));
}

}  // namespace

bool Executor::Impl::Start(const Call& call, Out out) {
  (void)out;
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (!slot || !slot->qp.ex) return false;
  ibv_wr_start(slot->qp.ex);
  slot->qp.in_region = true;
  slot->qp.region_thread = call.thread;
  slot->qp.region_spoilt = false;
  regions_held_[call.thread]++;
  return true;
}

void Executor::Impl::SpoilRegion(const Call& call) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (slot && slot->qp.in_region && slot->qp.region_thread == call.thread) {
    slot->qp.region_spoilt = true;
  }
}

bool Executor::Impl::EndRegion(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (!slot || !slot->qp.ex) return false;
  // Another thread may start the moment the region ends: the flag goes first. Ending the region of
  // another thread (UNDEFINED, WR-CONC-001) ends nothing.
  if (slot->qp.region_thread == call.thread) {
    slot->qp.in_region = false;
    if (regions_held_[call.thread] > 0) regions_held_[call.thread]--;
  }
  const bool spoilt = slot->qp.region_spoilt;
  slot->qp.region_spoilt = false;
  if (spoilt && call.kind == CallKind::kComplete) {
    ibv_wr_abort(slot->qp.ex);
    EndBinds(call.object, false);
    return false;
  }
  if (call.kind == CallKind::kAbort) {
    ibv_wr_abort(slot->qp.ex);
  } else {
    out.event->rc = ibv_wr_complete(slot->qp.ex);
    session_->Posted();
  }
  EndBinds(call.object, call.kind == CallKind::kComplete && out.event->rc == 0);
  return true;
}

// The caller's part of a bind to `rkey`: mw->rkey is the current key before, and it knows the next.
void Executor::Impl::KeepKey(MwState* mw, const Call& call, uint32_t rkey) {
  if (mw->type == 1) return;
  if (mw->bind != MwState::kStaged)
    mw->rkey_before = mw->bind == MwState::kPosted ? mw->bound_rkey : mw->mw->rkey;
  if (mw->bind != MwState::kNone) mw->mw->rkey = mw->bound_rkey;
  mw->bind = MwState::kStaged;
  mw->bound_rkey = (mw->mw->rkey & ~0xffu) | (rkey & 0xff);
  mw->bound_by = call.object;
  mw->bound_wr_id = call.wr_id;
  binds_.store(true, std::memory_order_relaxed);
}

// A QP's region or list was posted, or not. Of binds on several threads nobody can say in what
// order they are executed: there the keys stay as they were last assigned.
void Executor::Impl::EndBinds(ObjectId qp, bool posted) {
  if (parallel_ || !binds_.load(std::memory_order_relaxed)) return;
  for (const ObjectId made : made_) {
    MwState& mw = slots_[made].mw;
    if (slots_[made].kind != ObjectKind::kMw || !slots_[made].alive ||
        mw.bind != MwState::kStaged || mw.bound_by != qp)
      continue;
    mw.bind = posted ? MwState::kPosted : MwState::kNone;
    if (!posted) mw.mw->rkey = mw.rkey_before;
  }
}

// A request of the QP with this wr_id failed.
void Executor::Impl::ForgetBind(ObjectId qp, uint64_t wr_id) {
  if (parallel_ || !binds_.load(std::memory_order_relaxed)) return;
  for (const ObjectId made : made_) {
    MwState& mw = slots_[made].mw;
    if (slots_[made].kind == ObjectKind::kMw && mw.bind == MwState::kPosted && mw.bound_by == qp &&
        mw.bound_wr_id == wr_id)
      mw.bind = MwState::kNone;
  }
}

bool Executor::Impl::Build(const Call& call) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (!slot || !slot->qp.ex || slot->qp.region_spoilt) return false;
  ibv_qp_ex* qp = slot->qp.ex;
  uint32_t rkey = 0;
  uint64_t remote = 0;
  const model::OperationInfo& info = model::Info(call.op);
  // The builders of an older libibverbs end before these two: their pointers exist only where
  // creation accepted their bit (the reference detects the misuse itself).
  const bool newer =
      call.op == model::Operation::kFlush || call.op == model::Operation::kAtomicWrite;
  if (newer && !(slot->qp.made_by->ops & info.send_ops_flag) && !session_->detects_undefined())
    return false;
  const bool names_key = info.takes_rkey || call.op == model::Operation::kLocalInv ||
                         call.op == model::Operation::kBindMw ||
                         call.op == model::Operation::kSendWithInv;
  if (names_key && !RemoteKey(call.rkey, &rkey)) return false;
  if (!WireAddress(call.addr, &remote)) return false;
  qp->wr_id = call.wr_id;
  qp->wr_flags = static_cast<unsigned>(call.flags);
  switch (call.op) {
    case model::Operation::kRdmaWrite:
      ibv_wr_rdma_write(qp, rkey, remote);
      return true;
    case model::Operation::kRdmaWriteWithImm:
      ibv_wr_rdma_write_imm(qp, rkey, remote, htobe32(static_cast<uint32_t>(call.imm)));
      return true;
    case model::Operation::kSend:
      ibv_wr_send(qp);
      return true;
    case model::Operation::kSendWithImm:
      ibv_wr_send_imm(qp, htobe32(static_cast<uint32_t>(call.imm)));
      return true;
    case model::Operation::kRdmaRead:
      ibv_wr_rdma_read(qp, rkey, remote);
      return true;
    case model::Operation::kAtomicCmpAndSwp:
      ibv_wr_atomic_cmp_swp(qp, rkey, remote, call.compare, call.swap);
      return true;
    case model::Operation::kAtomicFetchAndAdd:
      ibv_wr_atomic_fetch_add(qp, rkey, remote, call.add);
      return true;
    case model::Operation::kLocalInv:
      ibv_wr_local_inv(qp, rkey);
      return true;
    case model::Operation::kBindMw: {
      ObjectSlot* mw = Alive(call.mw, ObjectKind::kMw);
      ObjectSlot* mr = Alive(call.mr, ObjectKind::kMr);
      if (!mw || !mr) return false;
      ibv_mw_bind_info bind{};
      bind.mr = mr->mr.mr;
      bind.addr = remote;
      bind.length = call.len;
      bind.mw_access_flags = static_cast<unsigned>(call.access);
      KeepKey(&mw->mw, call, rkey);
      ibv_wr_bind_mw(qp, mw->mw.mw, rkey, &bind);
      return true;
    }
    case model::Operation::kSendWithInv:
      ibv_wr_send_inv(qp, rkey);
      return true;
    case model::Operation::kTso: {
      // An array of exactly the header's size, so that a read beyond it is a report.
      std::vector<uint8_t> header = call.bytes;
      ibv_wr_send_tso(qp, header.data(), static_cast<uint16_t>(header.size()),
                      static_cast<uint16_t>(call.mss));
      return true;
    }
    case model::Operation::kFlush:
#ifdef QPEXAM_VERBS_WITHOUT_FLUSH
      return false;
#else
      ibv_wr_flush(qp, rkey, remote, call.len, static_cast<uint8_t>(call.flush_type),
                   static_cast<uint8_t>(call.flush_level));
      return true;
#endif
    case model::Operation::kAtomicWrite: {
#ifdef QPEXAM_VERBS_WITHOUT_FLUSH
      return false;
#else
      uint8_t value[8] = {};
      std::memcpy(value, call.bytes.data(), std::min<size_t>(8, call.bytes.size()));
      ibv_wr_atomic_write(qp, rkey, remote, value);
      return true;
#endif
    }
  }
  return false;
}

bool Executor::Impl::Sges(const std::vector<SgeArg>& args, Scratch* scratch) {
  for (const SgeArg& arg : args) {
    ibv_sge sge;
    if (!WireAddress(arg.addr, &sge.addr) || !LocalKey(arg.lkey, &sge.lkey)) return false;
    sge.length = static_cast<uint32_t>(arg.len);
    scratch->sges.push_back(sge);
  }
  return true;
}

bool Executor::Impl::Setter(const Call& call, Scratch* scratch) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (!slot || !slot->qp.ex || slot->qp.region_spoilt) return false;
  ibv_qp_ex* qp = slot->qp.ex;
  switch (call.kind) {
    case CallKind::kSetSge: {
      uint64_t addr = 0;
      uint32_t lkey = 0;
      if (!WireAddress(call.addr, &addr) || !LocalKey(call.lkey, &lkey)) return false;
      ibv_wr_set_sge(qp, lkey, addr, static_cast<uint32_t>(call.len));
      return true;
    }
    case CallKind::kSetSgeList:
      scratch->sges.clear();
      if (!Sges(call.sge, scratch)) return false;
      ibv_wr_set_sge_list(qp, scratch->sges.size(), scratch->sges.data());
      Poison(&scratch->sges);
      return true;
    case CallKind::kSetInline: {
      uint8_t* host = nullptr;
      if (!HostAddress(call.addr, call.len, &host)) return false;
      ibv_wr_set_inline_data(qp, host, call.len);
      return true;
    }
    case CallKind::kSetInlineList:
      scratch->bufs.clear();
      for (const BufArg& arg : call.bufs) {
        uint8_t* host = nullptr;
        if (!HostAddress(arg.addr, arg.len, &host)) return false;
        scratch->bufs.push_back({host, arg.len});
      }
      ibv_wr_set_inline_data_list(qp, scratch->bufs.size(), scratch->bufs.data());
      Poison(&scratch->bufs);
      return true;
    case CallKind::kSetUdAddr: {
      ObjectSlot* ah = Alive(call.ah, ObjectKind::kAh);
      uint32_t qpn = 0;
      if (!ah || !Number(call.qpn, &qpn)) return false;
      ibv_wr_set_ud_addr(qp, ah->ah, qpn, static_cast<uint32_t>(call.qkey));
      return true;
    }
    case CallKind::kSetXrcSrqn: {
      uint32_t srqn = 0;
      if (!Number(call.srqn, &srqn)) return false;
      ibv_wr_set_xrc_srqn(qp, srqn);
      return true;
    }
    default:
      return false;
  }
}

// Whether the next call is one more request of the same list.
bool Executor::Impl::ContinuesList(const Call& call, uint32_t index) const {
  if (!call.more || index + 1 >= program_->calls.size() || index + 1 >= options_.cut_at)
    return false;
  const Call& next = program_->calls[index + 1];
  return next.kind == call.kind && next.object == call.object && next.thread == call.thread;
}

bool Executor::Impl::FillSendWr(const Call& call, Scratch* scratch, ibv_send_wr* wr) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (!slot) return false;
  std::memset(wr, 0, sizeof *wr);
  const model::OperationInfo& info = model::Info(call.op);
  wr->wr_id = call.wr_id;
  wr->send_flags = static_cast<unsigned>(call.flags);
  wr->opcode = info.wr_opcode;
  size_t first = scratch->sges.size();
  if (!Sges(call.sge, scratch)) return false;
  wr->num_sge = static_cast<int>(scratch->sges.size() - first);
  if (call.flags & IBV_SEND_INLINE) {
    // The provider's library reads the bytes itself, at the address given: only the arena's.
    for (size_t i = first; i < scratch->sges.size(); i++) {
      const ibv_sge& sge = scratch->sges[i];
      if (!arena_.Contains(reinterpret_cast<const uint8_t*>(sge.addr), sge.length)) return false;
    }
  }
  uint32_t rkey = 0;
  uint64_t remote = 0;
  switch (call.op) {
    case model::Operation::kRdmaWrite:
    case model::Operation::kRdmaWriteWithImm:
    case model::Operation::kRdmaRead:
      if (!RemoteKey(call.rkey, &rkey) || !WireAddress(call.addr, &remote)) return false;
      wr->wr.rdma.rkey = rkey;
      wr->wr.rdma.remote_addr = remote;
      break;
    case model::Operation::kAtomicCmpAndSwp:
    case model::Operation::kAtomicFetchAndAdd:
      if (!RemoteKey(call.rkey, &rkey) || !WireAddress(call.addr, &remote)) return false;
      wr->wr.atomic.rkey = rkey;
      wr->wr.atomic.remote_addr = remote;
      wr->wr.atomic.compare_add =
          call.op == model::Operation::kAtomicCmpAndSwp ? call.compare : call.add;
      wr->wr.atomic.swap = call.swap;
      break;
    case model::Operation::kLocalInv:
    case model::Operation::kSendWithInv:
      if (!RemoteKey(call.rkey, &rkey)) return false;
      wr->invalidate_rkey = rkey;
      break;
    case model::Operation::kBindMw: {
      ObjectSlot* mw = Alive(call.mw, ObjectKind::kMw);
      ObjectSlot* mr = Alive(call.mr, ObjectKind::kMr);
      if (!mw || !mr || !RemoteKey(call.rkey, &rkey) || !WireAddress(call.addr, &remote))
        return false;
      KeepKey(&mw->mw, call, rkey);
      wr->bind_mw.mw = mw->mw.mw;
      wr->bind_mw.rkey = rkey;
      wr->bind_mw.bind_info.mr = mr->mr.mr;
      wr->bind_mw.bind_info.addr = remote;
      wr->bind_mw.bind_info.length = call.len;
      wr->bind_mw.bind_info.mw_access_flags = static_cast<unsigned>(call.access);
      break;
    }
    case model::Operation::kTso:
      wr->tso.hdr = const_cast<uint8_t*>(call.bytes.data());
      wr->tso.hdr_sz = static_cast<uint16_t>(call.bytes.size());
      wr->tso.mss = static_cast<uint16_t>(call.mss);
      break;
    default:
      break;
  }
  if (call.op == model::Operation::kRdmaWriteWithImm || call.op == model::Operation::kSendWithImm)
    wr->imm_data = htobe32(static_cast<uint32_t>(call.imm));
  const model::QpType type = slot->qp.made_by->qp_type;
  if (model::NeedsAddress(type) && call.ah != kNoObject) {
    ObjectSlot* ah = Alive(call.ah, ObjectKind::kAh);
    uint32_t qpn = 0;
    if (!ah || !Number(call.qpn, &qpn)) return false;
    wr->wr.ud.ah = ah->ah;
    wr->wr.ud.remote_qpn = qpn;
    wr->wr.ud.remote_qkey = static_cast<uint32_t>(call.qkey);
  }
  if (type == model::QpType::kXrcSend) {
    uint32_t srqn = 0;
    if (!Number(call.srqn, &srqn)) return false;
    wr->qp_type.xrc.remote_srqn = srqn;
  }
  return true;
}

bool Executor::Impl::PostSend(const Call& call, uint32_t index, Scratch* scratch, Out out) {
  const bool goes_on = ContinuesList(call, index);
  // A list is posted by its last request; the requests before it only join it.
  bool first = index == 0;
  if (!first) {
    const Call& before = program_->calls[index - 1];
    first = before.kind != call.kind || !ContinuesList(before, index - 1);
  }
  if (first) {
    scratch->send_wrs.clear();
    scratch->sges.clear();
    scratch->first_sge.clear();
    scratch->list_whole = true;
  }
  ibv_send_wr wr;
  scratch->first_sge.push_back(scratch->sges.size());
  if (FillSendWr(call, scratch, &wr)) {
    scratch->send_wrs.push_back(wr);
  } else {
    scratch->list_whole = false;
  }
  if (goes_on) return true;
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  if (!slot || !scratch->list_whole) {
    EndBinds(call.object, false);
    return false;
  }
  std::vector<ibv_send_wr>& wrs = scratch->send_wrs;
  for (size_t i = 0; i < wrs.size(); i++) {
    wrs[i].sg_list = scratch->sges.data() + scratch->first_sge[i];
    wrs[i].next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  out.event->rc = ibv_post_send(slot->qp.qp, wrs.data(), &bad);
  session_->Posted();
  EndBinds(call.object, out.event->rc == 0);
  if (out.event->rc != 0 && bad) out.event->count = static_cast<uint32_t>(bad - wrs.data());
  return true;
}

bool Executor::Impl::PostRecv(const Call& call, uint32_t index, Scratch* scratch, Out out) {
  const bool goes_on = ContinuesList(call, index);
  bool first = index == 0;
  if (!first) {
    const Call& before = program_->calls[index - 1];
    first = before.kind != call.kind || !ContinuesList(before, index - 1);
  }
  if (first) {
    scratch->recv_wrs.clear();
    scratch->sges.clear();
    scratch->first_sge.clear();
    scratch->list_whole = true;
  }
  ibv_recv_wr wr{};
  wr.wr_id = call.wr_id;
  scratch->first_sge.push_back(scratch->sges.size());
  if (Sges(call.sge, scratch)) {
    wr.num_sge = static_cast<int>(scratch->sges.size() - scratch->first_sge.back());
    scratch->recv_wrs.push_back(wr);
  } else {
    scratch->list_whole = false;
  }
  if (goes_on) return true;
  const bool to_srq = call.kind == CallKind::kSrqRecv;
  ObjectSlot* slot = Alive(call.object, to_srq ? ObjectKind::kSrq : ObjectKind::kQp);
  if (!slot || !scratch->list_whole) return false;
  std::vector<ibv_recv_wr>& wrs = scratch->recv_wrs;
  for (size_t i = 0; i < wrs.size(); i++) {
    wrs[i].sg_list = scratch->sges.data() + scratch->first_sge[i];
    wrs[i].next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  out.event->rc = to_srq ? ibv_post_srq_recv(slot->srq, wrs.data(), &bad)
                         : ibv_post_recv(slot->qp.qp, wrs.data(), &bad);
  if (out.event->rc != 0 && bad) out.event->count = static_cast<uint32_t>(bad - wrs.data());
  return true;
}

bool Executor::Impl::BindMw(const Call& call, Out out) {
  ObjectSlot* slot = Alive(call.object, ObjectKind::kQp);
  ObjectSlot* mw = Alive(call.mw, ObjectKind::kMw);
  ObjectSlot* mr = call.mr == kNoObject ? nullptr : Alive(call.mr, ObjectKind::kMr);
  uint64_t addr = 0;
  if (!slot || !mw || (call.mr != kNoObject && !mr) || !WireAddress(call.addr, &addr)) return false;
  ibv_mw_bind bind{};
  bind.wr_id = call.wr_id;
  bind.send_flags = static_cast<unsigned>(call.flags);
  bind.bind_info.mr = mr ? mr->mr.mr : nullptr;
  bind.bind_info.addr = addr;
  bind.bind_info.length = call.len;
  bind.bind_info.mw_access_flags = static_cast<unsigned>(call.access);
  out.event->rc = ibv_bind_mw(slot->qp.qp, mw->mw.mw, &bind);
  mw->mw.last_rkey = mw->mw.mw->rkey;
  return true;
}

}  // namespace qpexam
