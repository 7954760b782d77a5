// The verbs of the reference, by the file that implements them.
#ifndef QPEXAM_REFERENCE_PROVIDER_OPERATIONS_H_
#define QPEXAM_REFERENCE_PROVIDER_OPERATIONS_H_

#include "reference/provider/objects.h"

namespace qpexam::provider {

// device.cc: adds the operations of a context.
void SetContextOperations(verbs_context* context);

// memory.cc
ibv_pd* AllocPd(ibv_context* context);
int DeallocPd(ibv_pd* pd);
ibv_td* AllocTd(ibv_context* context, ibv_td_init_attr* attr);
int DeallocTd(ibv_td* td);
ibv_pd* AllocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* attr);
ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access);
int ReregMr(verbs_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access);
int DeregMr(verbs_mr* mr);
ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type);
int DeallocMw(ibv_mw* mw);
ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attr);
int DestroyAh(ibv_ah* ah);
ibv_xrcd* OpenXrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int CloseXrcd(ibv_xrcd* xrcd);

// completion.cc
ibv_cq* CreateCq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector);
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr);
int DestroyCq(ibv_cq* cq);
int ResizeCq(ibv_cq* cq, int cqe);
int PollCq(ibv_cq* cq, int count, ibv_wc* wc);
int ReqNotifyCq(ibv_cq* cq, int solicited_only);
void CqEventRead(ibv_cq* cq);

// shared_receive.cc
ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attr);
ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* attr);
int ModifySrq(ibv_srq* srq, ibv_srq_attr* attr, int mask);
int QuerySrq(ibv_srq* srq, ibv_srq_attr* attr);
int DestroySrq(ibv_srq* srq);
int GetSrqNum(ibv_srq* srq, uint32_t* number);
int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

// queue_pair.cc
ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr);
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr);
ibv_qp* OpenQp(ibv_context* context, ibv_qp_open_attr* attr);
int ModifyQp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int QueryQp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init);
int DestroyQp(ibv_qp* qp);
int AttachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);
int DetachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);

// post.cc
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

// work_request.cc: the function pointers of an extended QP.
void SetWorkRequestFunctions(ibv_qp_ex* qp);

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_OPERATIONS_H_
