// The function pointers of the extended QP: each is the model's send queue, called with the QP's
// wr_id and wr_flags as they read at that moment (WR-SAMPLE-001, -002).
#include "reference/provider/operations.h"

namespace qpexam::provider {
namespace {

using model::Lkey;
using model::QpNum;
using model::RemoteAddr;
using model::Rkey;
using model::SendQueue;
using model::WrId;

inline SendQueue& Sq(ibv_qp_ex* qp) { return *Of(qp)->send_queue; }
inline WrId Id(const ibv_qp_ex* qp) { return WrId(qp->wr_id); }

// --- The region ----------------------------------------------------------------------------------

void Start(ibv_qp_ex* qp) { Sq(qp).Start(); }
int Complete(ibv_qp_ex* qp) {
  if (__builtin_expect(model::FaultSwitch::on(), 0)) Sq(qp).ReadMembersAgain(Id(qp), qp->wr_flags);
  const int err = Sq(qp).Complete();
  if (model::Faulty(model::Fault::kCompleteClearsFlags)) qp->wr_flags = 0;
  return err;
}
void Abort(ibv_qp_ex* qp) { Sq(qp).Abort(); }

// --- Builders ------------------------------------------------------------------------------------

void RdmaWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) {
  Sq(qp).RdmaWrite(Id(qp), qp->wr_flags, Rkey(rkey), RemoteAddr(addr));
}
void RdmaWriteImm(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, __be32 imm) {
  Sq(qp).RdmaWriteImm(Id(qp), qp->wr_flags, Rkey(rkey), RemoteAddr(addr), imm);
}
void RdmaRead(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) {
  Sq(qp).RdmaRead(Id(qp), qp->wr_flags, Rkey(rkey), RemoteAddr(addr));
}
void Send(ibv_qp_ex* qp) { Sq(qp).Send(Id(qp), qp->wr_flags); }
void SendImm(ibv_qp_ex* qp, __be32 imm) { Sq(qp).SendImm(Id(qp), qp->wr_flags, imm); }
void SendInv(ibv_qp_ex* qp, uint32_t rkey) { Sq(qp).SendInv(Id(qp), qp->wr_flags, Rkey(rkey)); }
void AtomicCmpSwp(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap) {
  Sq(qp).AtomicCmpSwp(Id(qp), qp->wr_flags, Rkey(rkey), RemoteAddr(addr), compare, swap);
}
void AtomicFetchAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t add) {
  Sq(qp).AtomicFetchAdd(Id(qp), qp->wr_flags, Rkey(rkey), RemoteAddr(addr), add);
}
void LocalInv(ibv_qp_ex* qp, uint32_t rkey) { Sq(qp).LocalInv(Id(qp), qp->wr_flags, Rkey(rkey)); }
void Tso(ibv_qp_ex* qp, void* header, uint16_t header_length, uint16_t mss) {
  Sq(qp).Tso(Id(qp), qp->wr_flags, header, header_length, mss);
}
void Flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type,
           uint8_t level) {
  Sq(qp).Flush(Id(qp), qp->wr_flags, Rkey(rkey), RemoteAddr(addr), length, type, level);
}
void AtomicWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, const void* value) {
  Sq(qp).AtomicWrite(Id(qp), qp->wr_flags, Rkey(rkey), RemoteAddr(addr), value);
}
// The window's key and the bind information are read here and now (WR-BUILD-004, WR-MW-003).
void BindWindow(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  SendQueue::Bind bind;
  if (mw != nullptr) {
    bind.mw = Of(mw)->mw;
    bind.mw_key = Rkey(mw->rkey);
  }
  bind.new_key = Rkey(rkey);
  if (info->mr != nullptr) bind.mr = Of(info->mr)->mr;
  bind.addr = info->addr;
  bind.length = info->length;
  bind.access = info->mw_access_flags;
  Sq(qp).BindMw(Id(qp), qp->wr_flags, bind);
}

// --- Setters -------------------------------------------------------------------------------------

void SetSge(ibv_qp_ex* qp, uint32_t lkey, uint64_t addr, uint32_t length) {
  Sq(qp).SetSge(Lkey(lkey), addr, length);
}
void SetSgeList(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
  Sq(qp).SetSgeList(count, list);
}
void SetInlineData(ibv_qp_ex* qp, void* addr, size_t length) { Sq(qp).SetInline(addr, length); }
void SetInlineDataList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
  Sq(qp).SetInlineList(count, list);
}
void SetUdAddr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  Sq(qp).SetUdAddr(ah != nullptr ? Of(ah)->ah : nullptr, QpNum(remote_qpn),
                   model::Qkey(remote_qkey));
}
void SetXrcSrqn(ibv_qp_ex* qp, uint32_t srqn) { Sq(qp).SetXrcSrqn(model::SrqNum(srqn)); }

}  // namespace

// Every function is there whatever was asked for: a builder that was not requested, a setter of
// another QP type are the caller's mistakes, which the model reports by their clause
// (WR-CREATE-009, WR-SET-010) instead of a jump to address 0.
void SetWorkRequestFunctions(ibv_qp_ex* qp) {
  qp->wr_start = Start;
  qp->wr_complete = Complete;
  qp->wr_abort = Abort;

  qp->wr_rdma_write = RdmaWrite;
  qp->wr_rdma_write_imm = RdmaWriteImm;
  qp->wr_rdma_read = RdmaRead;
  qp->wr_send = Send;
  qp->wr_send_imm = SendImm;
  qp->wr_send_inv = SendInv;
  qp->wr_atomic_cmp_swp = AtomicCmpSwp;
  qp->wr_atomic_fetch_add = AtomicFetchAdd;
  qp->wr_local_inv = LocalInv;
  qp->wr_bind_mw = BindWindow;
  qp->wr_send_tso = Tso;
  qp->wr_flush = Flush;
  qp->wr_atomic_write = AtomicWrite;

  qp->wr_set_sge = SetSge;
  qp->wr_set_sge_list = SetSgeList;
  qp->wr_set_inline_data = SetInlineData;
  qp->wr_set_inline_data_list = SetInlineDataList;
  qp->wr_set_ud_addr = SetUdAddr;
  qp->wr_set_xrc_srqn = SetXrcSrqn;
}

}  // namespace qpexam::provider
