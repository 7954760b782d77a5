// A verbs program as any application is one: a queue pair connected to itself writes two elements
// of a list into another region. Ends with 0 when it completes as a success.
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int give_up(const char *what) {
  fprintf(stderr, "two_elements: %s\n", what);
  return 3;
}

static int connect_to_itself(struct ibv_qp *qp, union ibv_gid gid) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    return -1;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.hop_limit = 1;
  attr.ah_attr.port_num = 1;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return -1;
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int main(void) {
  static char from[64], to[64];
  struct ibv_device **devices = ibv_get_device_list(NULL);
  if (!devices || !devices[0]) return give_up("no device");
  struct ibv_context *context = ibv_open_device(devices[0]);
  if (!context) return give_up("the device cannot be opened");
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
  if (!pd || !cq) return give_up("no PD or no CQ");
  struct ibv_mr *source = ibv_reg_mr(pd, from, sizeof from, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_mr *target =
      ibv_reg_mr(pd, to, sizeof to, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_qp_init_attr_ex init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  init.cap.max_send_wr = init.cap.max_recv_wr = init.cap.max_recv_sge = 1;
  init.cap.max_send_sge = 2;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
  if (!source || !target || !qp) return give_up("no region or no queue pair");
  union ibv_gid gid;
  if (ibv_query_gid(context, 1, 0, &gid) || connect_to_itself(qp, gid))
    return give_up("the queue pair does not get to RTS");

  memset(from, 0x5a, sizeof from);
  struct ibv_sge list[2] = {{(uintptr_t)from, 8, source->lkey},
                            {(uintptr_t)from + 32, 16, source->lkey}};
  struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);
  if (!qpx) return give_up("no extended queue pair");
  ibv_wr_start(qpx);
  qpx->wr_id = 1;
  qpx->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qpx, target->rkey, (uintptr_t)to);
  ibv_wr_set_sge_list(qpx, 2, list);
  if (ibv_wr_complete(qpx)) return give_up("the request is refused");
  struct ibv_wc wc;
  int got;
  while ((got = ibv_poll_cq(cq, 1, &wc)) == 0) {
  }
  printf("%s, %zu bytes arrived\n", got == 1 ? ibv_wc_status_str(wc.status) : "no completion",
         strnlen(to, sizeof to));
  ibv_destroy_qp(qp);
  ibv_dereg_mr(source);
  ibv_dereg_mr(target);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(devices);
  return got == 1 && wc.status == IBV_WC_SUCCESS ? 0 : 3;
}
