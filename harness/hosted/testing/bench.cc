// How long a whole life takes on a hosted provider: pd, mr, 2 cq, 2 qp to RTS, 47 requests, and the
// destruction of all of it; without and with the seam oracle.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "bench: %s failed\n", what);
  std::abort();
}

enum class Oracle { kOff, kOn };

void LifeCycle(benchmark::State& state, const char* provider, Oracle oracle) {
  KernelOptions options;
  options.watch_locks = oracle == Oracle::kOn;
  Kernel kernel(options);
  std::unique_ptr<SeamOracle> seams;
  if (oracle == Oracle::kOn) seams = std::make_unique<SeamOracle>(&kernel);
  const std::string device = kernel.AddDevice(ModelByName(provider)());
  ibv_context* context = OpenByName(device);
  Check(context != nullptr, "open");
  if (seams != nullptr) seams->Attach(context);
  std::vector<uint8_t> memory(4096);
  constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  ibv_gid gid;
  Check(ibv_query_gid(context, 1, 0, &gid) == 0, "query_gid");

  for (auto _ : state) {
    ibv_pd* pd = ibv_alloc_pd(context);
    ibv_mr* mr = ibv_reg_mr(pd, memory.data(), memory.size(), kAccess);
    ibv_cq* cq[2];
    ibv_qp* qp[2];
    for (int i = 0; i < 2; ++i) {
      cq[i] = ibv_create_cq(context, 64, nullptr, nullptr, 0);
      ibv_qp_init_attr_ex attr = {};
      attr.qp_type = IBV_QPT_RC;
      attr.send_cq = attr.recv_cq = cq[i];
      attr.cap = {64, 16, 2, 2, 32};
      attr.pd = pd;
      attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
      qp[i] = ibv_create_qp_ex(context, &attr);
      Check(qp[i] != nullptr, "create_qp_ex");
    }
    for (int i = 0; i < 2; ++i) {
      ibv_qp_attr a = {};
      a.qp_state = IBV_QPS_INIT;
      a.port_num = 1;
      a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      int rc = ibv_modify_qp(qp[i], &a,
                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      a.qp_state = IBV_QPS_RTR;
      a.path_mtu = IBV_MTU_1024;
      a.dest_qp_num = qp[1 - i]->qp_num;
      a.ah_attr.is_global = 1;
      a.ah_attr.port_num = 1;
      a.ah_attr.grh.dgid = gid;
      rc |= ibv_modify_qp(qp[i], &a,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
      a.qp_state = IBV_QPS_RTS;
      rc |= ibv_modify_qp(qp[i], &a,
                          IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                              IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
      Check(rc == 0, "modify_qp");
    }
    ibv_qp_ex* x = ibv_qp_to_qp_ex(qp[0]);
    ibv_wr_start(x);
    x->wr_flags = IBV_SEND_SIGNALED;
    for (int i = 0; i < 47; ++i) {
      x->wr_id = i;
      ibv_wr_rdma_write(x, mr->rkey, reinterpret_cast<uint64_t>(&memory[2048]));
      ibv_wr_set_sge(x, mr->lkey, reinterpret_cast<uint64_t>(&memory[0]), 64);
    }
    Check(ibv_wr_complete(x) == 0, "wr_complete");
    ibv_wc wc[64];
    Check(ibv_poll_cq(cq[0], 64, wc) == 47, "poll_cq");
    for (int i = 0; i < 2; ++i) {
      Check(ibv_destroy_qp(qp[i]) == 0, "destroy_qp");
      Check(ibv_destroy_cq(cq[i]) == 0, "destroy_cq");
    }
    Check(ibv_dereg_mr(mr) == 0, "dereg_mr");
    Check(ibv_dealloc_pd(pd) == 0, "dealloc_pd");
  }
  Check(ibv_close_device(context) == 0, "close_device");
}

BENCHMARK_CAPTURE(LifeCycle, rxe, "rxe", Oracle::kOff)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(LifeCycle, rxe_with_oracle, "rxe", Oracle::kOn)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(LifeCycle, mlx5, "mlx5", Oracle::kOff)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(LifeCycle, mlx5_with_oracle, "mlx5", Oracle::kOn)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace qpexam::hosted

BENCHMARK_MAIN();
