// The calls that post: what the caller asked for is written down on its way into the library.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <utility>

#include "harness/hosted/seam_state.h"

namespace qpexam::hosted {
namespace {

using model::DataKind;
using model::Operation;

}  // namespace

namespace {

// --- Regions: wrappers of the ibv_qp_ex members
// ---------------------------------------------------

PostedRequest* Build(ibv_qp_ex* qp, WatchedQp* w, Operation op) {
  PostedRequest& r = w->Next();
  r.Clear(op, qp->wr_id, qp->wr_flags);
  return &r;
}

PostedRequest* BuildRemote(ibv_qp_ex* qp, WatchedQp* w, Operation op, uint32_t rkey,
                           uint64_t addr) {
  PostedRequest* r = Build(qp, w, op);
  r->rkey = rkey;
  r->remote_addr = addr;
  return r;
}

void WrStart(ibv_qp_ex* qp) {
  WatchedQp* w = g_oracle->Qp(qp);
  WrapQp(qp, w);  // mlx5 changes wr_complete with the QP's state
  w->original.wr_start(qp);
  ++t_open;
  w->region_count = 0;
}

int WrComplete(ibv_qp_ex* qp) {
  WatchedQp* w = g_oracle->Qp(qp);
  Posting posting;
  posting.requests = &w->region;
  posting.count = w->region_count;
  g_oracle->Begin(*w, &posting);
  const ibv_qp_state state = qp->qp_base.state;
  // After the call the region is another thread's, and so is w->region.
  int rc = w->original.wr_complete(qp);
  g_oracle->End(*w, &posting);
  --t_open;
  if (rc == 0 && posting.handed_over < posting.count && state >= IBV_QPS_RTS) {
    g_oracle->Find("wqe", "WR-ATOM-007",
                   fmt::format("ibv_wr_complete() returned 0, but the device got {} of {} requests",
                               posting.handed_over, posting.count));
  }
  if (rc != 0 && posting.handed_over != 0) {
    g_oracle->Find("residue", "WR-ATOM-002",
                   fmt::format("ibv_wr_complete() failed, but the device got {} of {} requests",
                               posting.handed_over, posting.count));
  }
  if (rc != 0) g_oracle->CheckUnaltered(*w, "a region that failed");
  g_oracle->CheckLocks("ibv_wr_complete()", "WR-CONC-001");
  return rc;
}

void WrAbort(ibv_qp_ex* qp) {
  WatchedQp* w = g_oracle->Qp(qp);
  w->original.wr_abort(qp);
  --t_open;
  g_oracle->CheckUnaltered(*w, "a region that was aborted");
  g_oracle->CheckLocks("ibv_wr_abort()", "WR-CONC-001");
}

void WrRdmaWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) {
  WatchedQp* w = g_oracle->Qp(qp);
  BuildRemote(qp, w, Operation::kRdmaWrite, rkey, addr);
  w->original.wr_rdma_write(qp, rkey, addr);
}
void WrRdmaWriteImm(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, __be32 imm) {
  WatchedQp* w = g_oracle->Qp(qp);
  BuildRemote(qp, w, Operation::kRdmaWriteWithImm, rkey, addr)->imm = imm;
  w->original.wr_rdma_write_imm(qp, rkey, addr, imm);
}
void WrRdmaRead(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) {
  WatchedQp* w = g_oracle->Qp(qp);
  BuildRemote(qp, w, Operation::kRdmaRead, rkey, addr);
  w->original.wr_rdma_read(qp, rkey, addr);
}
void WrAtomicCmpSwp(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap) {
  WatchedQp* w = g_oracle->Qp(qp);
  PostedRequest* r = BuildRemote(qp, w, Operation::kAtomicCmpAndSwp, rkey, addr);
  r->compare_or_add = compare;
  r->swap = swap;
  w->original.wr_atomic_cmp_swp(qp, rkey, addr, compare, swap);
}
void WrAtomicFetchAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t add) {
  WatchedQp* w = g_oracle->Qp(qp);
  BuildRemote(qp, w, Operation::kAtomicFetchAndAdd, rkey, addr)->compare_or_add = add;
  w->original.wr_atomic_fetch_add(qp, rkey, addr, add);
}
void WrBindMw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  WatchedQp* w = g_oracle->Qp(qp);
  PostedRequest* r = BuildRemote(qp, w, Operation::kBindMw, rkey, info->addr);
  r->mw_rkey = mw->rkey;
  r->mr_lkey = info->mr != nullptr ? info->mr->lkey : 0;
  r->bind_length = info->length;
  r->bind_access = info->mw_access_flags;
  w->original.wr_bind_mw(qp, mw, rkey, info);
}
void WrLocalInv(ibv_qp_ex* qp, uint32_t rkey) {
  WatchedQp* w = g_oracle->Qp(qp);
  Build(qp, w, Operation::kLocalInv)->rkey = rkey;
  w->original.wr_local_inv(qp, rkey);
}
void WrSend(ibv_qp_ex* qp) {
  WatchedQp* w = g_oracle->Qp(qp);
  Build(qp, w, Operation::kSend);
  w->original.wr_send(qp);
}
void WrSendImm(ibv_qp_ex* qp, __be32 imm) {
  WatchedQp* w = g_oracle->Qp(qp);
  Build(qp, w, Operation::kSendWithImm)->imm = imm;
  w->original.wr_send_imm(qp, imm);
}
void WrSendInv(ibv_qp_ex* qp, uint32_t rkey) {
  WatchedQp* w = g_oracle->Qp(qp);
  Build(qp, w, Operation::kSendWithInv)->rkey = rkey;
  w->original.wr_send_inv(qp, rkey);
}
void WrSendTso(ibv_qp_ex* qp, void* header, uint16_t header_size, uint16_t mss) {
  WatchedQp* w = g_oracle->Qp(qp);
  PostedRequest* r = Build(qp, w, Operation::kTso);
  const auto* from = static_cast<const uint8_t*>(header);
  r->tso_header.assign(from, from + header_size);
  r->tso_mss = mss;
  w->original.wr_send_tso(qp, header, header_size, mss);
}

// FLUSH and ATOMIC_WRITE: members of newer libraries only.
struct NewerBuilders {
  // Of send_ops_flags, which older headers do not name.
  static constexpr uint64_t kWithFlush = 1 << 11, kWithAtomicWrite = 1 << 12;

  template <typename Q>
  static auto Wrap(Q* qp, Q* original, uint64_t operations, int) -> decltype(qp->wr_flush, void());
  template <typename Q>
  static void Wrap(Q*, Q*, uint64_t, long) {}

  template <typename Q>
  static void Flush(Q* qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type,
                    uint8_t level) {
    WatchedQp* w = g_oracle->Qp(qp);
    PostedRequest* r = BuildRemote(qp, w, Operation::kFlush, rkey, addr);
    r->flush_length = length;
    r->flush_type = type;
    r->flush_level = level;
    w->original.wr_flush(qp, rkey, addr, length, type, level);
  }
  template <typename Q>
  static void AtomicWrite(Q* qp, uint32_t rkey, uint64_t addr, const void* value) {
    WatchedQp* w = g_oracle->Qp(qp);
    PostedRequest* r = BuildRemote(qp, w, Operation::kAtomicWrite, rkey, addr);
    std::copy_n(static_cast<const uint8_t*>(value), 8, r->atomic_write);
    w->original.wr_atomic_write(qp, rkey, addr, value);
  }
};

// The request that a setter is about.
PostedRequest* Last(ibv_qp_ex* qp, WatchedQp* w) {
  PostedRequest* r = w->Last();
  if (r != nullptr) r->flags_in_doubt |= r->flags ^ (qp->wr_flags & ~uint32_t{IBV_SEND_INLINE});
  return r;
}

void WrSetUdAddr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  WatchedQp* w = g_oracle->Qp(qp);
  if (PostedRequest* r = Last(qp, w)) {
    r->ah_handle = ah->handle;
    r->remote_qpn = qpn;
    r->remote_qkey = qkey;
  }
  w->original.wr_set_ud_addr(qp, ah, qpn, qkey);
}

void WrSetXrcSrqn(ibv_qp_ex* qp, uint32_t srqn) {
  WatchedQp* w = g_oracle->Qp(qp);
  if (PostedRequest* r = Last(qp, w)) r->remote_srqn = srqn;
  w->original.wr_set_xrc_srqn(qp, srqn);
}

// Longer lists are refused by every provider, unread.
constexpr size_t kMostElements = 1 << 16;

void SetSges(ibv_qp_ex* qp, WatchedQp* w, size_t count, const ibv_sge* list) {
  PostedRequest* r = Last(qp, w);
  if (r == nullptr) return;
  r->data = DataKind::kSge;
  r->sge.clear();
  if (count > kMostElements) return;
  for (size_t i = 0; i < count; ++i) {
    r->sge.push_back({list[i].addr, list[i].length, model::Lkey(list[i].lkey)});
  }
}
void WrSetSge(ibv_qp_ex* qp, uint32_t lkey, uint64_t addr, uint32_t length) {
  WatchedQp* w = g_oracle->Qp(qp);
  const ibv_sge one = {addr, length, lkey};
  SetSges(qp, w, 1, &one);
  w->original.wr_set_sge(qp, lkey, addr, length);
}
void WrSetSgeList(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
  WatchedQp* w = g_oracle->Qp(qp);
  SetSges(qp, w, count, list);
  w->original.wr_set_sge_list(qp, count, list);
}

void SetInline(ibv_qp_ex* qp, WatchedQp* w, size_t count, const ibv_data_buf* list) {
  PostedRequest* r = Last(qp, w);
  if (r == nullptr) return;
  r->data = DataKind::kInline;
  r->inline_data.clear();
  r->inline_buffers = count;
  if (count > kMostElements) return;
  for (size_t i = 0; i < count; ++i) {
    // What no device takes inline is refused by the provider, unread.
    if (r->inline_data.size() + list[i].length > 1 << 20) return;
    const auto* from = static_cast<const uint8_t*>(list[i].addr);
    r->inline_data.insert(r->inline_data.end(), from, from + list[i].length);
  }
}
void WrSetInline(ibv_qp_ex* qp, void* addr, size_t length) {
  WatchedQp* w = g_oracle->Qp(qp);
  const ibv_data_buf one = {addr, length};
  SetInline(qp, w, 1, &one);
  w->original.wr_set_inline_data(qp, addr, length);
}
void WrSetInlineList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
  WatchedQp* w = g_oracle->Qp(qp);
  SetInline(qp, w, count, list);
  w->original.wr_set_inline_data_list(qp, count, list);
}

template <typename Q>
auto NewerBuilders::Wrap(Q* qp, Q* original, uint64_t operations, int)
    -> decltype(qp->wr_flush, void()) {
  // An older library's object ends before these members: it has accepted neither operation.
  if (operations & kWithFlush) hosted::Wrap(&qp->wr_flush, &original->wr_flush, Flush<Q>);
  if (operations & kWithAtomicWrite)
    hosted::Wrap(&qp->wr_atomic_write, &original->wr_atomic_write, AtomicWrite<Q>);
}

}  // namespace

void WrapQp(ibv_qp_ex* ex, WatchedQp* w) {
  ibv_qp_ex& o = w->original;
  Wrap(&ex->wr_start, &o.wr_start, WrStart);
  Wrap(&ex->wr_complete, &o.wr_complete, WrComplete);
  Wrap(&ex->wr_abort, &o.wr_abort, WrAbort);
  Wrap(&ex->wr_rdma_write, &o.wr_rdma_write, WrRdmaWrite);
  Wrap(&ex->wr_rdma_write_imm, &o.wr_rdma_write_imm, WrRdmaWriteImm);
  Wrap(&ex->wr_rdma_read, &o.wr_rdma_read, WrRdmaRead);
  Wrap(&ex->wr_atomic_cmp_swp, &o.wr_atomic_cmp_swp, WrAtomicCmpSwp);
  Wrap(&ex->wr_atomic_fetch_add, &o.wr_atomic_fetch_add, WrAtomicFetchAdd);
  Wrap(&ex->wr_bind_mw, &o.wr_bind_mw, WrBindMw);
  Wrap(&ex->wr_local_inv, &o.wr_local_inv, WrLocalInv);
  Wrap(&ex->wr_send, &o.wr_send, WrSend);
  Wrap(&ex->wr_send_imm, &o.wr_send_imm, WrSendImm);
  Wrap(&ex->wr_send_inv, &o.wr_send_inv, WrSendInv);
  Wrap(&ex->wr_send_tso, &o.wr_send_tso, WrSendTso);
  Wrap(&ex->wr_set_ud_addr, &o.wr_set_ud_addr, WrSetUdAddr);
  Wrap(&ex->wr_set_xrc_srqn, &o.wr_set_xrc_srqn, WrSetXrcSrqn);
  Wrap(&ex->wr_set_sge, &o.wr_set_sge, WrSetSge);
  Wrap(&ex->wr_set_sge_list, &o.wr_set_sge_list, WrSetSgeList);
  Wrap(&ex->wr_set_inline_data, &o.wr_set_inline_data, WrSetInline);
  Wrap(&ex->wr_set_inline_data_list, &o.wr_set_inline_data_list, WrSetInlineList);
  NewerBuilders::Wrap(ex, &o, w->operations, 0);
}

ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  ibv_qp* qp = g_oracle->Context(context).create_qp_ex(context, attr);
  g_oracle->CheckLocks("ibv_create_qp_ex()", "");
  if (qp == nullptr) return nullptr;
  if (ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp)) {
    WatchedQp* w = g_oracle->Qp(ex);
    w->operations = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;
    WrapQp(ex, w);
  }
  return qp;
}

namespace {

// --- Lists: wrappers of the context's operations
// ---------------------------------------------------

void Record(const ibv_qp* qp, const ibv_send_wr& wr, PostedRequest* r) {
  Operation op = Operation::kSend;
  bool expressible = false;
  for (const model::OperationInfo& info : model::AllOperations()) {
    if (!info.has_send_wr || info.wr_opcode != wr.opcode) continue;
    op = info.op;
    expressible = true;
  }
  r->Clear(op, wr.wr_id, wr.send_flags);
  r->expressible = expressible;
  switch (op) {
    case Operation::kRdmaWrite:
    case Operation::kRdmaWriteWithImm:
    case Operation::kRdmaRead:
      r->rkey = wr.wr.rdma.rkey;
      r->remote_addr = wr.wr.rdma.remote_addr;
      break;
    case Operation::kAtomicCmpAndSwp:
    case Operation::kAtomicFetchAndAdd:
      r->rkey = wr.wr.atomic.rkey;
      r->remote_addr = wr.wr.atomic.remote_addr;
      r->compare_or_add = wr.wr.atomic.compare_add;
      r->swap = wr.wr.atomic.swap;
      break;
    case Operation::kSendWithInv:
    case Operation::kLocalInv:
      r->rkey = wr.invalidate_rkey;
      break;
    case Operation::kBindMw:
      r->mw_rkey = wr.bind_mw.mw->rkey;
      r->rkey = wr.bind_mw.rkey;
      r->mr_lkey = wr.bind_mw.bind_info.mr != nullptr ? wr.bind_mw.bind_info.mr->lkey : 0;
      r->remote_addr = wr.bind_mw.bind_info.addr;
      r->bind_length = wr.bind_mw.bind_info.length;
      r->bind_access = wr.bind_mw.bind_info.mw_access_flags;
      break;
    case Operation::kTso: {
      const auto* from = static_cast<const uint8_t*>(wr.tso.hdr);
      if (from != nullptr) r->tso_header.assign(from, from + wr.tso.hdr_sz);
      r->tso_mss = wr.tso.mss;
      break;
    }
    default:
      break;
  }
  if (op == Operation::kSendWithImm || op == Operation::kRdmaWriteWithImm) r->imm = wr.imm_data;
  if (qp->qp_type == IBV_QPT_UD && wr.wr.ud.ah != nullptr) {
    r->ah_handle = wr.wr.ud.ah->handle;
    r->remote_qpn = wr.wr.ud.remote_qpn;
    r->remote_qkey = wr.wr.ud.remote_qkey;
  }
  if (qp->qp_type == IBV_QPT_XRC_SEND) r->remote_srqn = wr.qp_type.xrc.remote_srqn;
  const bool is_inline =
      (wr.send_flags & IBV_SEND_INLINE) && model::Info(op).data == model::DataRule::kSgeOrInline;
  r->data = is_inline ? DataKind::kInline : DataKind::kSge;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    if (is_inline) {
      if (r->inline_data.size() + sge.length > 1 << 20) break;
      const auto* from = reinterpret_cast<const uint8_t*>(sge.addr);
      r->inline_data.insert(r->inline_data.end(), from, from + sge.length);
      ++r->inline_buffers;
    } else {
      r->sge.push_back({sge.addr, sge.length, model::Lkey(sge.lkey)});
    }
  }
}

}  // namespace

int PostSend(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) {
  WatchedQp* w = g_oracle->Qp(qp);
  std::vector<PostedRequest> requests;
  std::vector<const ibv_send_wr*> wrs;
  for (const ibv_send_wr* wr = list; wr != nullptr; wr = wr->next) {
    requests.emplace_back();
    Record(qp, *wr, &requests.back());
    wrs.push_back(wr);
  }
  Posting posting;
  posting.requests = &requests;
  posting.count = requests.size();
  g_oracle->Begin(*w, &posting);
  const ibv_qp_state state = qp->state;
  int rc = g_oracle->Context(qp->context).ops.post_send(qp, list, bad);
  g_oracle->End(*w, &posting);
  size_t accepted = requests.size();
  if (rc != 0 && bad != nullptr) {
    accepted = std::find(wrs.begin(), wrs.end(), *bad) - wrs.begin();
    // A call that fails before its list is looked at names none.
    if (accepted == wrs.size()) accepted = posting.handed_over;
  }
  if (posting.handed_over != accepted && state >= IBV_QPS_RTS) {
    g_oracle->Find("wqe", rc == 0 ? "WR-MIX-001" : "WR-MIX-007",
                   fmt::format("ibv_post_send() accepted {} requests, but the device got {}",
                               accepted, posting.handed_over));
  }
  g_oracle->CheckLocks("ibv_post_send()", "WR-CONC-002");
  return rc;
}

int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  WatchedQp* w = g_oracle->Qp(qp);
  std::vector<PostedRequest> requests(1);
  PostedRequest& r = requests[0];
  r.Clear(Operation::kBindMw, bind->wr_id, bind->send_flags);
  r.mw_rkey = mw->rkey;
  r.new_key_known = false;
  r.mr_lkey = bind->bind_info.mr != nullptr ? bind->bind_info.mr->lkey : 0;
  r.remote_addr = bind->bind_info.addr;
  r.bind_length = bind->bind_info.length;
  r.bind_access = bind->bind_info.mw_access_flags;
  Posting posting;
  posting.requests = &requests;
  posting.count = 1;
  g_oracle->Begin(*w, &posting);
  int rc = g_oracle->Context(qp->context).ops.bind_mw(qp, mw, bind);
  g_oracle->End(*w, &posting);
  g_oracle->CheckLocks("ibv_bind_mw()", "WR-CONC-002");
  return rc;
}

namespace {

// Receives are recorded before the call, since the device may read the queue at any time, and those
// that the call refused are taken back.
template <typename Call>
int PostReceives(WatchedQueue* queue, ibv_recv_wr* list, ibv_recv_wr** bad, const char* name,
                 Call call) {
  size_t count = 0;
  {
    std::lock_guard<std::mutex> lock(g_oracle->mutex);
    for (const ibv_recv_wr* wr = list; wr != nullptr; wr = wr->next, ++count) {
      queue->posted.emplace_back();
      PostedReceive& r = queue->posted.back();
      r.wr_id = wr->wr_id;
      if (!g_oracle->spare_sges.empty()) {
        r.sge = std::move(g_oracle->spare_sges.back());
        g_oracle->spare_sges.pop_back();
        r.sge.clear();
      }
      for (int i = 0; i < wr->num_sge; ++i) {
        r.sge.push_back(
            {wr->sg_list[i].addr, wr->sg_list[i].length, model::Lkey(wr->sg_list[i].lkey)});
      }
    }
  }
  int rc = call();
  if (rc != 0) {
    size_t accepted = 0;
    const ibv_recv_wr* wr = list;
    if (bad != nullptr && *bad != nullptr) {
      while (wr != nullptr && wr != *bad) {
        wr = wr->next;
        ++accepted;
      }
      if (wr == nullptr) accepted = 0;
    }
    std::lock_guard<std::mutex> lock(g_oracle->mutex);
    size_t refused = std::min(count - accepted, queue->posted.size());
    queue->posted.erase(queue->posted.end() - refused, queue->posted.end());
  }
  g_oracle->CheckLocks(name, "WR-CONC-001");
  return rc;
}

}  // namespace

int PostRecv(ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) {
  WatchedQueue* queue = &g_oracle->Qp(qp)->receive;
  return PostReceives(queue, list, bad, "ibv_post_recv()",
                      [&] { return g_oracle->Context(qp->context).ops.post_recv(qp, list, bad); });
}

int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) {
  WatchedQueue* queue;
  {
    std::lock_guard<std::mutex> lock(g_oracle->mutex);
    queue = &g_oracle->srqs[srq];
  }
  return PostReceives(queue, list, bad, "ibv_post_srq_recv()", [&] {
    return g_oracle->Context(srq->context).ops.post_srq_recv(srq, list, bad);
  });
}

}  // namespace qpexam::hosted
