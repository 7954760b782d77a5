// A provider as small as can be: reliable connections with SEND, WRITE and READ. It is here to show
// what qpexam needs of a vendor's tree; yours takes its place.
#include <errno.h>
#include <infiniband/driver.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <util/mmio.h>

#include "acme_abi.h"

#define ACME_OPERATIONS                                                             \
  (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | \
   IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ)

struct acme_context {
  struct verbs_context verbs;
  char *doorbells;
  pthread_mutex_t mutex;  // of qps
  struct acme_qp *qps;
};

struct acme_cq {
  struct verbs_cq verbs;
  pthread_spinlock_t lock;
  struct acme_completion *ring;
  uint32_t entries;
  uint32_t taken;
};

struct acme_qp {
  struct verbs_qp verbs;
  struct acme_qp *next;
  pthread_spinlock_t send_lock, receive_lock;
  bool signal_all;
  uint32_t max_send_sge, max_receive_sge, max_inline;
  // Requests: posted up to `sent`, which the card reads; built up to `built`; free below `done`.
  struct acme_request *requests;
  uint32_t send_entries, sent, built;
  atomic_uint done;
  // Of the open region.
  struct acme_request *request;  // NULL: the last builder failed
  int error;
  struct acme_receive *receives;
  uint32_t receive_entries, received;
  atomic_uint consumed;
};

// What the driver gets with a command: the kernel's part, ours right behind it.
struct create_cq {
  struct ibv_create_cq core;
  struct acme_create_cq acme;
};
struct create_qp {
  struct ibv_create_qp_ex core;
  struct acme_create_qp acme;
};

static struct acme_context *context_of(struct ibv_context *context) {
  return container_of(context, struct acme_context, verbs.context);
}
static struct acme_cq *cq_of(struct ibv_cq *cq) {
  return container_of(cq, struct acme_cq, verbs.cq);
}
static struct acme_qp *qp_of(struct ibv_qp *qp) {
  return container_of(qp, struct acme_qp, verbs.qp);
}
static struct acme_qp *qp_of_ex(struct ibv_qp_ex *qp) {
  return container_of(qp, struct acme_qp, verbs.qp_ex);
}

static uint32_t power_of_two(uint32_t at_least) {
  uint32_t n = 1;
  while (n < at_least) n *= 2;
  return n;
}

// --- device, protection domain, memory -----------------------------------------------------------

static int acme_query_device(struct ibv_context *context,
                             const struct ibv_query_device_ex_input *input,
                             struct ibv_device_attr_ex *attr, size_t size) {
  struct ib_uverbs_ex_query_device_resp answer;
  size_t answer_size = sizeof answer;
  return ibv_cmd_query_device_any(context, input, attr, size, &answer, &answer_size);
}

static int acme_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr) {
  struct ibv_query_port command;
  return ibv_cmd_query_port(context, port, attr, &command, sizeof command);
}

static struct ibv_pd *acme_alloc_pd(struct ibv_context *context) {
  struct ibv_alloc_pd command;
  struct ib_uverbs_alloc_pd_resp answer;
  struct ibv_pd *pd = calloc(1, sizeof *pd);
  if (!pd) return NULL;
  if (!ibv_cmd_alloc_pd(context, pd, &command, sizeof command, &answer, sizeof answer)) return pd;
  free(pd);
  return NULL;
}

static int acme_dealloc_pd(struct ibv_pd *pd) {
  const int error = ibv_cmd_dealloc_pd(pd);
  if (!error) free(pd);
  return error;
}

static struct ibv_mr *acme_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                  int access) {
  struct ibv_reg_mr command;
  struct ib_uverbs_reg_mr_resp answer;
  struct verbs_mr *mr = calloc(1, sizeof *mr);
  if (!mr) return NULL;
  if (!ibv_cmd_reg_mr(pd, address, length, iova, access, mr, &command, sizeof command, &answer,
                      sizeof answer))
    return &mr->ibv_mr;
  free(mr);
  return NULL;
}

static int acme_dereg_mr(struct verbs_mr *mr) {
  const int error = ibv_cmd_dereg_mr(mr);
  if (!error) free(mr);
  return error;
}

// --- completion queues ---------------------------------------------------------------------------

static struct ibv_cq *acme_create_cq(struct ibv_context *context, int entries,
                                     struct ibv_comp_channel *channel, int vector) {
  struct create_cq command = {};
  struct ib_uverbs_create_cq_resp answer = {};
  if (entries < 1 || entries > ACME_MAX_ENTRIES) {
    errno = EINVAL;
    return NULL;
  }
  struct acme_cq *cq = calloc(1, sizeof *cq);
  if (!cq) return NULL;
  cq->entries = power_of_two((uint32_t)entries);
  cq->ring = calloc(cq->entries, sizeof *cq->ring);
  if (!cq->ring) goto no_ring;
  pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
  command.acme.ring = (uintptr_t)cq->ring;
  command.acme.taken = (uintptr_t)&cq->taken;
  command.acme.entries = cq->entries;
  if (ibv_cmd_create_cq(context, (int)cq->entries, channel, vector, &cq->verbs.cq, &command.core,
                        sizeof command, &answer, sizeof answer))
    goto no_cq;
  return &cq->verbs.cq;
no_cq:
  free(cq->ring);
no_ring:
  free(cq);
  return NULL;
}

static int acme_destroy_cq(struct ibv_cq *ibv_cq) {
  struct acme_cq *cq = cq_of(ibv_cq);
  const int error = ibv_cmd_destroy_cq(ibv_cq);
  if (error) return error;
  pthread_spin_destroy(&cq->lock);
  free(cq->ring);
  free(cq);
  return 0;
}

// The completion at a place of the ring, once the card has written it.
static struct acme_completion *completion_at(struct acme_cq *cq, uint32_t n) {
  struct acme_completion *c = &cq->ring[n % cq->entries];
  const uint32_t round = atomic_load_explicit((_Atomic uint32_t *)&c->round, memory_order_acquire);
  return round == n / cq->entries + 1 ? c : NULL;
}

static void free_entry(struct acme_context *context, const struct acme_completion *c) {
  pthread_mutex_lock(&context->mutex);
  for (struct acme_qp *qp = context->qps; qp; qp = qp->next) {
    if (qp->verbs.qp.qp_num != c->qp_number) continue;
    const bool receive = c->opcode & IBV_WC_RECV;
    atomic_store(receive ? &qp->consumed : &qp->done, c->entry + 1);
  }
  pthread_mutex_unlock(&context->mutex);
}

static int acme_poll_cq(struct ibv_cq *ibv_cq, int most, struct ibv_wc *wc) {
  struct acme_cq *cq = cq_of(ibv_cq);
  struct acme_completion *c;
  int got = 0;
  pthread_spin_lock(&cq->lock);
  while (got < most && (c = completion_at(cq, cq->taken))) {
    if (c->qp_number) {  // else of a QP that was reset or destroyed
      memset(&wc[got], 0, sizeof wc[got]);
      wc[got].wr_id = c->wr_id;
      wc[got].status = c->status;
      wc[got].opcode = c->opcode;
      wc[got].byte_len = c->byte_length;
      wc[got].imm_data = c->immediate;
      wc[got].qp_num = c->qp_number;
      wc[got].wc_flags = c->flags;
      free_entry(context_of(ibv_cq->context), c);
      got++;
    }
    atomic_store_explicit((_Atomic uint32_t *)&cq->taken, cq->taken + 1, memory_order_release);
  }
  pthread_spin_unlock(&cq->lock);
  return got;
}

static void forget_completions(struct acme_cq *cq, uint32_t qp_number) {
  struct acme_completion *c;
  pthread_spin_lock(&cq->lock);
  for (uint32_t n = cq->taken; n - cq->taken < cq->entries && (c = completion_at(cq, n)); n++)
    if (c->qp_number == qp_number) c->qp_number = 0;
  pthread_spin_unlock(&cq->lock);
}

// --- posting -------------------------------------------------------------------------------------

static void begin_region(struct acme_qp *qp) {
  pthread_spin_lock(&qp->send_lock);
  qp->error = qp->verbs.qp.state < IBV_QPS_RTS ? EINVAL : 0;
  qp->request = NULL;
}

static void abort_region(struct acme_qp *qp) {
  qp->built = qp->sent;
  pthread_spin_unlock(&qp->send_lock);
}

static int end_region(struct acme_qp *qp) {
  const int error = qp->error;
  if (error) {
    abort_region(qp);
    return error;
  }
  if (qp->sent != qp->built) {
    atomic_store_explicit((_Atomic uint32_t *)&qp->sent, qp->built, memory_order_release);
    mmio_write32(context_of(qp->verbs.qp.context)->doorbells + ACME_DOORBELL, qp->verbs.qp.qp_num);
  }
  pthread_spin_unlock(&qp->send_lock);
  return 0;
}

static void build(struct acme_qp *qp, uint64_t wr_id, uint32_t opcode, unsigned int flags) {
  qp->request = NULL;
  if (qp->error) return;
  if (qp->built - atomic_load(&qp->done) >= qp->send_entries) {
    qp->error = ENOMEM;
    return;
  }
  struct acme_request *r = &qp->requests[qp->built++ % qp->send_entries];
  memset(r, 0, sizeof *r);
  r->wr_id = wr_id;
  r->opcode = opcode;
  r->flags = (flags & IBV_SEND_SIGNALED || qp->signal_all ? ACME_SIGNALED : 0) |
             (flags & IBV_SEND_SOLICITED ? ACME_SOLICITED : 0) |
             (flags & IBV_SEND_FENCE ? ACME_FENCE : 0);
  qp->request = r;
}

static void build_ex(struct ibv_qp_ex *qpx, uint32_t opcode, uint32_t rkey, uint64_t address,
                     __be32 immediate) {
  struct acme_qp *qp = qp_of_ex(qpx);
  build(qp, qpx->wr_id, opcode, qpx->wr_flags);
  if (!qp->request) return;
  qp->request->rkey = rkey;
  qp->request->remote_address = address;
  qp->request->immediate = immediate;
}

static void set_elements(struct acme_qp *qp, size_t count, const struct ibv_sge *list) {
  if (!qp->request) return;
  if (count > qp->max_send_sge) {
    qp->error = EINVAL;
    return;
  }
  qp->request->elements = (uint32_t)count;
  for (size_t i = 0; i < count; i++)
    qp->request->data.element[i] =
        (struct acme_element){list[i].addr, list[i].length, list[i].lkey};
}

static void set_inline(struct acme_qp *qp, size_t count, const struct ibv_data_buf *list) {
  if (!qp->request) return;
  size_t total = 0;
  for (size_t i = 0; i < count; i++) {
    if (list[i].length > qp->max_inline - total) {
      qp->error = ENOMEM;
      return;
    }
    if (list[i].length) memcpy(qp->request->data.bytes + total, list[i].addr, list[i].length);
    total += list[i].length;
  }
  qp->request->flags |= ACME_INLINE;
  qp->request->elements = (uint32_t)total;
}

static void wr_start(struct ibv_qp_ex *qp) { begin_region(qp_of_ex(qp)); }
static int wr_complete(struct ibv_qp_ex *qp) { return end_region(qp_of_ex(qp)); }
static void wr_abort(struct ibv_qp_ex *qp) { abort_region(qp_of_ex(qp)); }
static void wr_send(struct ibv_qp_ex *qp) { build_ex(qp, IBV_WR_SEND, 0, 0, 0); }
static void wr_send_imm(struct ibv_qp_ex *qp, __be32 immediate) {
  build_ex(qp, IBV_WR_SEND_WITH_IMM, 0, 0, immediate);
}
static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address) {
  build_ex(qp, IBV_WR_RDMA_WRITE, rkey, address, 0);
}
static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address,
                              __be32 immediate) {
  build_ex(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address, immediate);
}
static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address) {
  build_ex(qp, IBV_WR_RDMA_READ, rkey, address, 0);
}
static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t address, uint32_t length) {
  const struct ibv_sge one = {address, length, lkey};
  set_elements(qp_of_ex(qp), 1, &one);
}
static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list) {
  set_elements(qp_of_ex(qp), count, list);
}
static void wr_set_inline_data(struct ibv_qp_ex *qp, void *address, size_t length) {
  const struct ibv_data_buf one = {address, length};
  set_inline(qp_of_ex(qp), 1, &one);
}
static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t count,
                                    const struct ibv_data_buf *list) {
  set_inline(qp_of_ex(qp), count, list);
}

static int post_one(struct acme_qp *qp, const struct ibv_send_wr *wr) {
  struct ibv_data_buf buffers[ACME_MAX_SGE];
  if (wr->opcode > IBV_WR_RDMA_READ || wr->num_sge < 0 || wr->num_sge > ACME_MAX_SGE) return EINVAL;
  build(qp, wr->wr_id, wr->opcode, wr->send_flags);
  if (!qp->request) return qp->error;
  qp->request->immediate = wr->imm_data;
  qp->request->rkey = wr->wr.rdma.rkey;
  qp->request->remote_address = wr->wr.rdma.remote_addr;
  if (!(wr->send_flags & IBV_SEND_INLINE) || wr->opcode == IBV_WR_RDMA_READ) {
    set_elements(qp, (size_t)wr->num_sge, wr->sg_list);
    return qp->error;
  }
  for (int i = 0; i < wr->num_sge; i++)
    buffers[i] =
        (struct ibv_data_buf){(void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length};
  set_inline(qp, (size_t)wr->num_sge, buffers);
  return qp->error;
}

// A request that fails ends the list; those before it are sent.
static int acme_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
  struct acme_qp *qp = qp_of(ibv_qp);
  begin_region(qp);
  int error = qp->error;
  for (; wr && !error; wr = wr->next) {
    const uint32_t before = qp->built;
    error = post_one(qp, wr);
    if (!error) continue;
    qp->built = before;
    break;
  }
  if (error) *bad = wr;
  qp->error = 0;
  end_region(qp);
  return error;
}

static int receive_one(struct acme_qp *qp, const struct ibv_recv_wr *wr) {
  if (qp->verbs.qp.state == IBV_QPS_RESET) return EINVAL;
  if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->max_receive_sge) return EINVAL;
  if (qp->received - atomic_load(&qp->consumed) >= qp->receive_entries) return ENOMEM;
  struct acme_receive *r = &qp->receives[qp->received % qp->receive_entries];
  memset(r, 0, sizeof *r);
  r->wr_id = wr->wr_id;
  r->elements = (uint32_t)wr->num_sge;
  for (int i = 0; i < wr->num_sge; i++)
    r->element[i] =
        (struct acme_element){wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey};
  atomic_store_explicit((_Atomic uint32_t *)&qp->received, qp->received + 1, memory_order_release);
  return 0;
}

static int acme_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  struct acme_qp *qp = qp_of(ibv_qp);
  int error = 0;
  pthread_spin_lock(&qp->receive_lock);
  for (; wr; wr = wr->next) {
    error = receive_one(qp, wr);
    if (!error) continue;
    *bad = wr;
    break;
  }
  pthread_spin_unlock(&qp->receive_lock);
  return error;
}

// --- queue pairs ---------------------------------------------------------------------------------

static void offer_operations(struct ibv_qp_ex *qp, uint64_t operations) {
  qp->wr_start = wr_start;
  qp->wr_complete = wr_complete;
  qp->wr_abort = wr_abort;
  if (operations & IBV_QP_EX_WITH_SEND) qp->wr_send = wr_send;
  if (operations & IBV_QP_EX_WITH_SEND_WITH_IMM) qp->wr_send_imm = wr_send_imm;
  if (operations & IBV_QP_EX_WITH_RDMA_WRITE) qp->wr_rdma_write = wr_rdma_write;
  if (operations & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) qp->wr_rdma_write_imm = wr_rdma_write_imm;
  if (operations & IBV_QP_EX_WITH_RDMA_READ) qp->wr_rdma_read = wr_rdma_read;
  qp->wr_set_sge = wr_set_sge;
  qp->wr_set_sge_list = wr_set_sge_list;
  qp->wr_set_inline_data = wr_set_inline_data;
  qp->wr_set_inline_data_list = wr_set_inline_data_list;
}

static int check(const struct ibv_qp_init_attr_ex *attr, uint64_t operations) {
  const struct ibv_qp_cap *cap = &attr->cap;
  if (attr->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
    return EOPNOTSUPP;
  if (attr->qp_type != IBV_QPT_RC || operations & ~(uint64_t)ACME_OPERATIONS) return EOPNOTSUPP;
  if (attr->srq || cap->max_send_wr > ACME_MAX_ENTRIES || cap->max_recv_wr > ACME_MAX_ENTRIES ||
      cap->max_send_sge > ACME_MAX_SGE || cap->max_recv_sge > ACME_MAX_SGE ||
      cap->max_inline_data > ACME_MAX_INLINE)
    return EINVAL;
  return 0;
}

static void free_qp(struct acme_qp *qp) {
  free(qp->requests);
  free(qp->receives);
  free(qp);
}

static struct ibv_qp *acme_create_qp_ex(struct ibv_context *ibv_context,
                                        struct ibv_qp_init_attr_ex *attr) {
  struct acme_context *context = context_of(ibv_context);
  struct create_qp command = {};
  struct ib_uverbs_ex_create_qp_resp answer = {};
  const bool extended = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const uint64_t operations = extended ? attr->send_ops_flags : 0;
  errno = check(attr, operations);
  if (errno) return NULL;
  struct acme_qp *qp = calloc(1, sizeof *qp);
  if (!qp) return NULL;
  // The rings' sizes are what is granted; an empty queue has no ring.
  if (attr->cap.max_send_wr) attr->cap.max_send_wr = power_of_two(attr->cap.max_send_wr);
  if (attr->cap.max_recv_wr) attr->cap.max_recv_wr = power_of_two(attr->cap.max_recv_wr);
  qp->send_entries = attr->cap.max_send_wr;
  qp->receive_entries = attr->cap.max_recv_wr;
  qp->requests = calloc(qp->send_entries + 1, sizeof *qp->requests);
  qp->receives = calloc(qp->receive_entries + 1, sizeof *qp->receives);
  if (!qp->requests || !qp->receives) goto failed;
  qp->signal_all = attr->sq_sig_all;
  qp->max_send_sge = attr->cap.max_send_sge;
  qp->max_receive_sge = attr->cap.max_recv_sge;
  qp->max_inline = attr->cap.max_inline_data;
  pthread_spin_init(&qp->send_lock, PTHREAD_PROCESS_PRIVATE);
  pthread_spin_init(&qp->receive_lock, PTHREAD_PROCESS_PRIVATE);
  command.acme.send_ring = (uintptr_t)qp->requests;
  command.acme.receive_ring = (uintptr_t)qp->receives;
  command.acme.sent = (uintptr_t)&qp->sent;
  command.acme.received = (uintptr_t)&qp->received;
  command.acme.send_entries = qp->send_entries;
  command.acme.receive_entries = qp->receive_entries;
  if (ibv_cmd_create_qp_ex2(ibv_context, &qp->verbs, attr, &command.core, sizeof command, &answer,
                            sizeof answer))
    goto failed;
  if (extended) {
    offer_operations(&qp->verbs.qp_ex, operations);
    qp->verbs.comp_mask |= VERBS_QP_EX;
  }
  pthread_mutex_lock(&context->mutex);
  qp->next = context->qps;
  context->qps = qp;
  pthread_mutex_unlock(&context->mutex);
  return &qp->verbs.qp;
failed:
  free_qp(qp);
  return NULL;
}

static struct ibv_qp *acme_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
  struct ibv_qp_init_attr_ex ex = {};
  memcpy(&ex, attr, sizeof *attr);
  ex.comp_mask = IBV_QP_INIT_ATTR_PD;
  ex.pd = pd;
  struct ibv_qp *qp = acme_create_qp_ex(pd->context, &ex);
  if (qp) attr->cap = ex.cap;
  return qp;
}

static int acme_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                         struct ibv_qp_init_attr *init) {
  struct ibv_query_qp command;
  return ibv_cmd_query_qp(qp, attr, mask, init, &command, sizeof command);
}

static int acme_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask) {
  struct acme_qp *qp = qp_of(ibv_qp);
  struct ibv_modify_qp command = {};
  const int error = ibv_cmd_modify_qp(ibv_qp, attr, mask, &command, sizeof command);
  if (error || !(mask & IBV_QP_STATE) || attr->qp_state != IBV_QPS_RESET) return error;
  forget_completions(cq_of(ibv_qp->send_cq), ibv_qp->qp_num);
  if (ibv_qp->recv_cq != ibv_qp->send_cq)
    forget_completions(cq_of(ibv_qp->recv_cq), ibv_qp->qp_num);
  qp->sent = qp->built = qp->received = 0;
  atomic_store(&qp->done, 0);
  atomic_store(&qp->consumed, 0);
  return 0;
}

static int acme_destroy_qp(struct ibv_qp *ibv_qp) {
  struct acme_context *context = context_of(ibv_qp->context);
  struct acme_qp *qp = qp_of(ibv_qp), **at;
  const int error = ibv_cmd_destroy_qp(ibv_qp);
  if (error) return error;
  forget_completions(cq_of(ibv_qp->send_cq), ibv_qp->qp_num);
  if (ibv_qp->recv_cq != ibv_qp->send_cq)
    forget_completions(cq_of(ibv_qp->recv_cq), ibv_qp->qp_num);
  pthread_mutex_lock(&context->mutex);
  for (at = &context->qps; *at != qp; at = &(*at)->next) {
  }
  *at = qp->next;
  pthread_mutex_unlock(&context->mutex);
  pthread_spin_destroy(&qp->send_lock);
  pthread_spin_destroy(&qp->receive_lock);
  free_qp(qp);
  return 0;
}

// --- contexts, and how libibverbs finds all this -------------------------------------------------

enum { PAGE = 4096 };

static void acme_free_context(struct ibv_context *ibv_context) {
  struct acme_context *context = context_of(ibv_context);
  munmap(context->doorbells, PAGE);
  pthread_mutex_destroy(&context->mutex);
  verbs_uninit_context(&context->verbs);
  free(context);
}

static const struct verbs_context_ops operations = {
    .alloc_pd = acme_alloc_pd,
    .create_cq = acme_create_cq,
    .create_qp = acme_create_qp,
    .create_qp_ex = acme_create_qp_ex,
    .dealloc_pd = acme_dealloc_pd,
    .dereg_mr = acme_dereg_mr,
    .destroy_cq = acme_destroy_cq,
    .destroy_qp = acme_destroy_qp,
    .free_context = acme_free_context,
    .modify_qp = acme_modify_qp,
    .poll_cq = acme_poll_cq,
    .post_recv = acme_post_recv,
    .post_send = acme_post_send,
    .query_device_ex = acme_query_device,
    .query_port = acme_query_port,
    .query_qp = acme_query_qp,
    .reg_mr = acme_reg_mr,
    .req_notify_cq = ibv_cmd_req_notify_cq,
};

static struct verbs_context *acme_alloc_context(struct ibv_device *device, int fd, void *unused) {
  struct ibv_get_context command;
  struct ib_uverbs_get_context_resp answer;
  struct acme_context *context;
  (void)unused;
  context = verbs_init_and_alloc_context(device, fd, context, verbs, RDMA_DRIVER_UNKNOWN);
  if (!context) return NULL;
  if (ibv_cmd_get_context(&context->verbs, &command, sizeof command, &answer, sizeof answer))
    goto failed;
  context->doorbells = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, 0);
  if (context->doorbells == MAP_FAILED) goto failed;
  pthread_mutex_init(&context->mutex, NULL);
  verbs_set_ops(&context->verbs, &operations);
  return &context->verbs;
failed:
  verbs_uninit_context(&context->verbs);
  free(context);
  return NULL;
}

static struct verbs_device *acme_alloc_device(struct verbs_sysfs_dev *sysfs) {
  (void)sysfs;
  return calloc(1, sizeof(struct verbs_device));
}
static void acme_uninit_device(struct verbs_device *device) { free(device); }

static const struct verbs_match_ent matches[] = {VERBS_NAME_MATCH("acme", NULL), {}};

static const struct verbs_device_ops device_operations = {
    .name = "acme",
    .match_min_abi_version = 1,
    .match_max_abi_version = 1,
    .match_table = matches,
    .alloc_device = acme_alloc_device,
    .uninit_device = acme_uninit_device,
    .alloc_context = acme_alloc_context,
};
PROVIDER_DRIVER(acme, device_operations);
