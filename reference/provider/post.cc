// ibv_post_send(), ibv_post_recv(), ibv_bind_mw(): the same queues by the older calls.
#include <array>
#include <optional>

#include "reference/provider/operations.h"
#include "reference/provider/receive_list.h"

namespace qpexam::provider {
namespace {

using model::Operation;
using model::OperationInfo;
using model::Rkey;
using model::SendRequest;

// The operation of an opcode; none for FLUSH and ATOMIC_WRITE, which struct ibv_send_wr cannot
// express (WR-MIX-005), and for numbers that are no opcode.
std::optional<Operation> OperationOf(uint32_t opcode) {
  static const auto table = [] {
    std::array<std::optional<Operation>, 32> t;
    for (const OperationInfo& info : model::AllOperations()) {
      if (info.has_send_wr) t[static_cast<size_t>(info.wr_opcode)] = info.op;
    }
    return t;
  }();
  return opcode < table.size() ? table[opcode] : std::nullopt;
}

void FillBind(const ibv_send_wr& wr, SendRequest* request) {
  const ibv_mw* mw = wr.bind_mw.mw;
  const ibv_mw_bind_info& info = wr.bind_mw.bind_info;
  if (mw != nullptr) {
    request->mw = Of(const_cast<ibv_mw*>(mw))->mw;
    request->mw_key = Rkey(mw->rkey);
  }
  request->bind_rkey = Rkey(wr.bind_mw.rkey);
  if (info.mr != nullptr) request->bind_mr = Of(info.mr)->mr;
  request->bind_addr = info.addr;
  request->bind_length = info.length;
  request->bind_access = info.mw_access_flags;
}

SendRequest Translate(const ibv_send_wr& wr, Operation op, ibv_qp_type type) {
  SendRequest request;
  request.wr_id = model::WrId(wr.wr_id);
  request.op = op;
  request.flags = wr.send_flags;
  switch (op) {
    case Operation::kRdmaWriteWithImm:
      request.imm = wr.imm_data;
      [[fallthrough]];
    case Operation::kRdmaWrite:
    case Operation::kRdmaRead:
      request.rkey = Rkey(wr.wr.rdma.rkey);
      request.remote_addr = model::RemoteAddr(wr.wr.rdma.remote_addr);
      break;
    case Operation::kAtomicCmpAndSwp:
    case Operation::kAtomicFetchAndAdd:
      request.rkey = Rkey(wr.wr.atomic.rkey);
      request.remote_addr = model::RemoteAddr(wr.wr.atomic.remote_addr);
      request.compare_or_add = wr.wr.atomic.compare_add;
      request.swap = wr.wr.atomic.swap;
      break;
    case Operation::kSendWithImm:
      request.imm = wr.imm_data;
      break;
    case Operation::kSendWithInv:
    case Operation::kLocalInv:
      request.rkey = Rkey(wr.invalidate_rkey);
      break;
    case Operation::kBindMw:
      FillBind(wr, &request);
      break;
    case Operation::kTso:
      request.tso_header = static_cast<uint8_t*>(wr.tso.hdr);
      request.tso_header_length = wr.tso.hdr_sz;
      request.tso_mss = wr.tso.mss;
      break;
    case Operation::kSend:
    case Operation::kFlush:
    case Operation::kAtomicWrite:
      break;
  }
  if (type == IBV_QPT_UD) {
    // An operation that UD has not is refused; the union holds something else than an address then.
    if (!(model::Info(op).reference_types & model::MaskOf(model::QpType::kUd))) return request;
    request.ah = wr.wr.ud.ah != nullptr ? Of(wr.wr.ud.ah)->ah : nullptr;
    request.remote_qpn = model::QpNum(wr.wr.ud.remote_qpn);
    request.remote_qkey = model::Qkey(wr.wr.ud.remote_qkey);
  } else if (type == IBV_QPT_XRC_SEND) {
    request.remote_srqn = model::SrqNum(wr.qp_type.xrc.remote_srqn);
  }
  return request;
}

int PostOne(Qp* qp, const ibv_send_wr& wr, const ibv_send_wr& first) {
  const std::optional<Operation> op = OperationOf(NumberIn(wr.opcode));
  if (!op.has_value() || wr.num_sge < 0) return EINVAL;
  SendRequest request = Translate(wr, *op, qp->verbs.qp.qp_type);
  if (qp->verbs.qp.qp_type == IBV_QPT_UD && &wr != &first &&
      model::Faulty(model::Fault::kPostSendListFirstAddress)) {
    request.ah = first.wr.ud.ah != nullptr ? Of(first.wr.ud.ah)->ah : nullptr;
    request.remote_qpn = model::QpNum(first.wr.ud.remote_qpn);
    request.remote_qkey = model::Qkey(first.wr.ud.remote_qkey);
  }
  if (model::Faulty(model::Fault::kPostSendWritesMembers)) {
    qp->verbs.qp_ex.wr_id = wr.wr_id;
    qp->verbs.qp_ex.wr_flags = wr.send_flags;
  }
  return qp->send_queue->PostOne(request, {wr.sg_list, static_cast<size_t>(wr.num_sge)}).err;
}

}  // namespace

int PostSend(ibv_qp* verbs, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Qp* qp = Of(verbs);
  int err = qp->send_queue->BeginPost();
  if (err == 0) {
    const ibv_send_wr* const first = wr;
    for (; wr != nullptr; wr = wr->next) {
      err = PostOne(qp, *wr, *first);
      if (err != 0) break;  // WR-MIX-007: what came before stays posted
    }
    qp->send_queue->EndPost();
  }
  if (err == 0) return 0;
  if (bad_wr != nullptr) *bad_wr = wr;
  errno = err;
  return err;
}

int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return PostReceives(*Of(qp)->qp, wr, bad_wr);
}

int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  const ibv_mw_bind_info& info = bind->bind_info;
  model::SendQueue::Bind wanted;
  wanted.mw = Of(mw)->mw;
  wanted.mw_key = Rkey(mw->rkey);
  if (info.mr != nullptr) wanted.mr = Of(info.mr)->mr;
  wanted.addr = info.addr;
  wanted.length = info.length;
  wanted.access = info.mw_access_flags;
  wanted.call = model::BindCall::kBindMwVerb;
  Rkey new_key;
  const model::Status status = Of(qp)->qp->PostBindMw(Of(mw)->mw, wanted, model::WrId(bind->wr_id),
                                                      bind->send_flags, &new_key);
  if (status.ok()) mw->rkey = new_key.value;
  return Answer(status);
}

}  // namespace qpexam::provider
