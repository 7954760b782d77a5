// Shared receive queues, basic and XRC.
#include "reference/provider/async_events.h"
#include "reference/provider/operations.h"
#include "reference/provider/receive_list.h"

namespace qpexam::provider {
namespace {

// The caller fills in what libibverbs has not.
Srq* Create(ibv_context* context, const model::SrqInit& init) {
  model::Result<model::Srq> made = Of(context)->device->CreateSrq(init);
  if (!made.ok()) return Refuse(made.status.err);
  auto* srq = new Srq();
  srq->srq = made.value;
  srq->context = context;
  srq->verbs.srq_type = init.type;
  srq->verbs.srq_num = made.value->number().value;
  srq->verbs.srq.handle = made.value->number().value;
  srq->srq->owner = srq;
  return srq;
}

}  // namespace

ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  model::SrqInit init;
  init.pd = Of(pd)->pd;
  init.max_wr = attr->attr.max_wr;
  init.max_sge = attr->attr.max_sge;
  Srq* srq = Create(pd->context, init);
  if (srq == nullptr) return nullptr;
  const ibv_srq_attr granted = srq->srq->Query();
  attr->attr.max_wr = granted.max_wr;
  attr->attr.max_sge = granted.max_sge;
  return &srq->verbs.srq;
}

// ibv_create_srq_ex() sends a plain basic SRQ to CreateSrq() and fills in nothing of what comes
// from here.
ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* attr) {
  constexpr uint32_t kMasks =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if (!check_comp_mask(attr->comp_mask, kMasks)) return Refuse(EOPNOTSUPP);
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) return Refuse(EINVAL);
  model::SrqInit init;
  init.pd = Of(attr->pd)->pd;
  init.max_wr = attr->attr.max_wr;
  init.max_sge = attr->attr.max_sge;
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0) {
    if (NumberIn(attr->srq_type) > IBV_SRQT_TM) return Refuse(EINVAL);
    init.type = attr->srq_type;
  }
  if (init.type == IBV_SRQT_XRC) {
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 ||
        (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0)
      return Refuse(EINVAL);
    init.xrcd = Of(attr->xrcd)->xrcd;
    init.cq = Of(attr->cq)->cq;
  } else if (init.type != IBV_SRQT_BASIC) {
    return Refuse(EOPNOTSUPP);  // no tag matching
  }
  Srq* srq = Create(context, init);
  if (srq == nullptr) return nullptr;
  ibv_srq& verbs = srq->verbs.srq;
  verbs.context = context;
  verbs.srq_context = attr->srq_context;
  verbs.pd = attr->pd;
  pthread_mutex_init(&verbs.mutex, nullptr);
  pthread_cond_init(&verbs.cond, nullptr);
  if (init.type == IBV_SRQT_XRC) {
    srq->verbs.xrcd = &Of(attr->xrcd)->verbs;
    srq->verbs.cq = attr->cq;
  }
  const ibv_srq_attr granted = srq->srq->Query();
  attr->attr.max_wr = granted.max_wr;
  attr->attr.max_sge = granted.max_sge;
  return &verbs;
}

int ModifySrq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  return Answer(Of(srq)->srq->Modify(*attr, mask));
}

int QuerySrq(ibv_srq* srq, ibv_srq_attr* attr) {
  *attr = Of(srq)->srq->Query();
  return 0;
}

int GetSrqNum(ibv_srq* srq, uint32_t* number) {
  if (Of(srq)->srq->type() != IBV_SRQT_XRC) return EOPNOTSUPP;
  *number = Of(srq)->srq->number().value;
  return 0;
}

int DestroySrq(ibv_srq* verbs) {
  Srq* srq = Of(verbs);
  const model::Status status = Of(verbs->context)->device->DestroySrq(srq->srq);
  if (!status.ok()) return Answer(status);
  FinishAsyncEvents(verbs->context, verbs, srq->async_events, verbs->mutex, verbs->cond,
                    verbs->events_completed);
  delete srq;
  return 0;
}

int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return PostReceives(*Of(srq)->srq, wr, bad_wr);
}

}  // namespace qpexam::provider
