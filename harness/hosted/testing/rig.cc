#include "harness/hosted/testing/rig.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "reference/model/ops.h"

namespace qpexam::hosted {
namespace {

// Set-up that fails is the end of the test: there is nothing to compare.
void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "rig: %s failed, errno %d\n", what, errno);
  std::abort();
}

constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
// Rights of FLUSH, where the library knows them: bits 8 and 9.
constexpr unsigned kFlushAccess = 3u << 8;

}  // namespace

MakeModel ModelByName(std::string_view name) {
  for (const HostedKind& kind : HostedKinds()) {
    if (name == kind.name) return kind.make_model;
  }
  Check(false, "finding the provider");
  return nullptr;
}

Rig::Rig(std::string_view name, const KernelOptions& options)
    : provider(ModelByName(name), options), memory(1 << 16) {
  context = provider.Open(0);
  Check(context != nullptr, "ibv_open_device");
  pd = ibv_alloc_pd(context);
  Check(pd != nullptr, "ibv_alloc_pd");
  cq = ibv_create_cq(context, 256, nullptr, nullptr, 0);
  Check(cq != nullptr, "ibv_create_cq");
  const unsigned flush = name == "rxe" ? kFlushAccess : 0;
  mr = ibv_reg_mr(pd, memory.data(), memory.size(), kAccess | flush);
  Check(mr != nullptr, "ibv_reg_mr");
}

Rig::~Rig() {
  while (!qps_.empty()) Destroy(qps_.back());
  Check(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
  Check(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
  Check(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
  Check(ibv_close_device(context) == 0, "ibv_close_device");
}

ibv_qp* Rig::MakeQp(const Shape& shape) {
  ibv_qp_init_attr_ex attr = {};
  attr.qp_type = shape.type;
  attr.send_cq = attr.recv_cq = cq;
  attr.srq = shape.srq;
  attr.cap.max_send_wr = shape.depth;
  const bool receives = shape.srq == nullptr && shape.type != IBV_QPT_XRC_SEND;
  attr.cap.max_recv_wr = receives ? shape.depth : 0;
  attr.cap.max_send_sge = shape.sges;
  attr.cap.max_recv_sge = receives ? shape.sges : 0;
  attr.cap.max_inline_data = shape.inline_bytes;
  attr.sq_sig_all = shape.signal_all;
  attr.pd = pd;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = shape.ops;
  if (shape.ops == 0) {
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    if (shape.type != IBV_QPT_UD) {
      attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                             IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW;
    }
    if (shape.type == IBV_QPT_RC || shape.type == IBV_QPT_XRC_SEND) {
      attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                             IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV;
    }
  }
  ibv_qp* qp = ibv_create_qp_ex(context, &attr);
  if (qp != nullptr) qps_.push_back(qp);
  return qp;
}

int Rig::ToState(ibv_qp* qp, ibv_qp_state state, uint32_t peer) {
  ibv_qp_attr attr = {};
  int mask = IBV_QP_STATE;
  attr.qp_state = state;
  const bool datagram = qp->qp_type == IBV_QPT_UD || qp->qp_type == IBV_QPT_DRIVER;
  const bool target = qp->qp_type == IBV_QPT_XRC_RECV;
  const bool requests = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND;
  const bool responds = qp->qp_type == IBV_QPT_RC || target;
  switch (state) {
    case IBV_QPS_INIT:
      attr.port_num = 1;
      attr.qkey = 0x1234;
      attr.qp_access_flags = kAccess & ~unsigned{IBV_ACCESS_MW_BIND};
      if (qp->qp_type == IBV_QPT_UC) attr.qp_access_flags &= ~unsigned{IBV_ACCESS_REMOTE_ATOMIC};
      if (qp->qp_type == IBV_QPT_RC) attr.qp_access_flags |= mr != nullptr ? kFlushAccess : 0;
      mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
      break;
    case IBV_QPS_RTR:
      if (datagram) break;
      attr.path_mtu = IBV_MTU_1024;
      attr.dest_qp_num = peer;
      attr.ah_attr.is_global = 1;
      attr.ah_attr.port_num = 1;
      ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid);
      attr.ah_attr.grh.hop_limit = 1;
      attr.max_dest_rd_atomic = 4;
      attr.min_rnr_timer = 12;
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
      if (responds) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
      break;
    case IBV_QPS_RTS:
      mask |= IBV_QP_SQ_PSN;
      if (target) mask |= IBV_QP_TIMEOUT;
      if (!requests) break;
      attr.timeout = 14;
      attr.retry_cnt = 3;
      attr.rnr_retry = 3;
      attr.max_rd_atomic = 4;
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
      break;
    default:
      break;
  }
  return ibv_modify_qp(qp, &attr, mask);
}

void Rig::Connect(ibv_qp* a, ibv_qp* b) {
  for (auto [qp, peer] : {std::pair<ibv_qp*, ibv_qp*>{a, b}, {b, a}}) {
    for (ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      Check(ToState(qp, state, peer->qp_num) == 0, "ibv_modify_qp");
    }
    if (a == b) break;
  }
}

void Rig::Destroy(ibv_qp* qp) {
  qps_.erase(std::find(qps_.begin(), qps_.end(), qp));
  Check(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
}

int Rig::Receive(ibv_qp* qp, uint64_t wr_id, size_t offset, uint32_t length) {
  ibv_sge sge = Sge(offset, length);
  ibv_recv_wr wr = {};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

std::vector<ibv_wc> Rig::Poll() { return Poll(cq); }

std::vector<ibv_wc> Rig::Poll(ibv_cq* of) {
  provider.kernel().RunUntilIdle();
  std::vector<ibv_wc> all;
  ibv_wc wc;
  while (ibv_poll_cq(of, 1, &wc) == 1) all.push_back(wc);
  return all;
}

std::string Text(const std::vector<SeamFinding>& findings) {
  std::string text;
  for (const SeamFinding& f : findings) text += f.kind + " " + f.clause + ": " + f.what + "\n";
  return text;
}

}  // namespace qpexam::hosted
