// What posting costs on the reference: the figures of issue 2; `per_request` is what counts.
//   build_abort     start, 32 x (rdma_write + set_sge), abort
//   build_complete  the same with complete and execution of 64 bytes each, and the poll
#include <benchmark/benchmark.h>
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kBatch = 32;
constexpr uint32_t kBytes = 64;

void Check(bool ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "post_benchmark: %s failed\n", what);
  exit(1);
}

// One connected RC pair on qpexam0.
struct Pair {
  ibv_context* context = nullptr;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_mr* mr;
  ibv_qp* qp[2];
  std::vector<uint8_t> memory = std::vector<uint8_t>(2 * kBytes);

  Pair() {
    ibv_device** list = ibv_get_device_list(nullptr);
    for (int i = 0; list[i] != nullptr; ++i) {
      if (strcmp(ibv_get_device_name(list[i]), "qpexam0") == 0) context = ibv_open_device(list[i]);
    }
    ibv_free_device_list(list);
    Check(context != nullptr, "opening qpexam0");
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 256, nullptr, nullptr, 0);
    mr = ibv_reg_mr(pd, memory.data(), memory.size(),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    for (ibv_qp*& q : qp) q = Create();
    for (int i = 0; i < 2; ++i) BringUp(qp[i], qp[1 - i]->qp_num);
  }
  ~Pair() {
    for (ibv_qp* q : qp) ibv_destroy_qp(q);
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }

  ibv_qp* Create() {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq;
    attr.cap.max_send_wr = 2 * kBatch;
    attr.cap.max_recv_wr = 1;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    ibv_qp* made = ibv_create_qp_ex(context, &attr);
    Check(made != nullptr, "ibv_create_qp_ex");
    return made;
  }
  void BringUp(ibv_qp* q, uint32_t dest) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    Check(ibv_modify_qp(q, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
          "modify to INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = dest;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = 1;
    ibv_query_gid(context, 1, 1, &attr.ah_attr.grh.dgid);
    Check(ibv_modify_qp(q, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
          "modify to RTR");
    attr.qp_state = IBV_QPS_RTS;
    Check(ibv_modify_qp(q, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
          "modify to RTS");
  }
  void Build(ibv_qp_ex* ex) {
    const uint64_t from = reinterpret_cast<uint64_t>(memory.data());
    for (int i = 0; i < kBatch; ++i) {
      ex->wr_id = static_cast<uint64_t>(i);
      ex->wr_flags = i == kBatch - 1 ? IBV_SEND_SIGNALED : 0;
      ibv_wr_rdma_write(ex, mr->rkey, from + kBytes);
      ibv_wr_set_sge(ex, mr->lkey, from, kBytes);
    }
  }
};

void CountRequests(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * kBatch);
  state.counters["per_request"] = benchmark::Counter(
      kBatch, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BuildAbort(benchmark::State& state) {
  Pair pair;
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(pair.qp[0]);
  for (auto _ : state) {
    ibv_wr_start(ex);
    pair.Build(ex);
    ibv_wr_abort(ex);
  }
  CountRequests(state);
}
BENCHMARK(BuildAbort)->Name("build_abort");

void BuildComplete(benchmark::State& state) {
  Pair pair;
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(pair.qp[0]);
  ibv_wc wc;
  for (auto _ : state) {
    ibv_wr_start(ex);
    pair.Build(ex);
    if (ibv_wr_complete(ex) != 0 || ibv_poll_cq(pair.cq, 1, &wc) != 1 ||
        wc.status != IBV_WC_SUCCESS) {
      state.SkipWithError("a batch did not complete");
      break;
    }
  }
  CountRequests(state);
}
BENCHMARK(BuildComplete)->Name("build_complete");

}  // namespace

BENCHMARK_MAIN();
