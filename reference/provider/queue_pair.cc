// Queue pairs: created, opened, modified, queried, destroyed.
#include <algorithm>
#include <mutex>
#include <optional>

#include "reference/provider/async_events.h"
#include "reference/provider/operations.h"
#include "reference/provider/ticker.h"

namespace qpexam::provider {
namespace {

constexpr uint32_t kKnownInitMasks =
    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
    IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

bool Has(const ibv_qp_init_attr_ex& attr, uint32_t mask) { return (attr.comp_mask & mask) != 0; }

model::Cq* ModelCq(ibv_cq* cq) { return cq != nullptr ? Of(cq)->cq : nullptr; }

// What verbs says of the wanted QP, in the model's words; an errno value where verbs itself says
// no.
int Translate(const ibv_qp_init_attr_ex& attr, model::QpInit* init) {
  if (!check_comp_mask(attr.comp_mask, kKnownInitMasks)) return EOPNOTSUPP;  // WR-CREATE-006
  if (Has(attr, IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0) return EOPNOTSUPP;
  if (NumberIn(attr.qp_type) > IBV_QPT_DRIVER) return EOPNOTSUPP;  // no type at all
  const std::optional<model::QpType> type = model::FromVerbsType(attr.qp_type);
  // IBV_QPT_DRIVER means what a provider's own extension says; we have none.
  if (!type.has_value() || *type == model::QpType::kSrd) return EOPNOTSUPP;
  init->type = *type;

  if (*type == model::QpType::kXrcRecv) {  // WR-CREATE-007
    if (!Has(attr, IBV_QP_INIT_ATTR_XRCD) || attr.xrcd == nullptr) return EINVAL;
    init->xrcd = Of(attr.xrcd)->xrcd;
  } else {
    if (!Has(attr, IBV_QP_INIT_ATTR_PD) || attr.pd == nullptr) return EINVAL;
    init->pd = Of(attr.pd)->pd;
    if (attr.send_cq == nullptr) return EINVAL;
    init->send_cq = ModelCq(attr.send_cq);
    if (*type != model::QpType::kXrcSend) {
      if (attr.recv_cq == nullptr) return EINVAL;
      init->recv_cq = ModelCq(attr.recv_cq);
      if (attr.srq != nullptr) init->srq = Of(attr.srq)->srq;
    }
  }

  init->cap = attr.cap;
  init->signaling = attr.sq_sig_all != 0 ? model::Signaling::kAll : model::Signaling::kByFlag;
  // WR-CREATE-005: the flags count only where the mask says so.
  if (Has(attr, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
      (Has(attr, IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
       model::Faulty(model::Fault::kOpsCountWithoutMaskBit)))
    init->send_ops = attr.send_ops_flags;
  if (Has(attr, IBV_QP_INIT_ATTR_MAX_TSO_HEADER)) init->max_tso_header = attr.max_tso_header;
  return 0;
}

// The libibverbs half of a QP; what it shows of the model's.
Qp* Wrap(model::Qp* model_qp, ibv_context* context, void* qp_context) {
  auto* qp = new Qp();
  qp->qp = model_qp;
  qp->send_queue = &model_qp->send_queue();
  ibv_qp& verbs = qp->verbs.qp;
  verbs.context = context;
  verbs.qp_context = qp_context;
  verbs.qp_num = model_qp->number().value;
  verbs.handle = model_qp->number().value;
  verbs.state = model_qp->state();
  verbs.qp_type = model::VerbsType(model_qp->type());
  pthread_mutex_init(&verbs.mutex, nullptr);
  pthread_cond_init(&verbs.cond, nullptr);

  std::lock_guard<std::recursive_mutex> lock(model_qp->fabric().mutex());
  if (model_qp->owner == nullptr) model_qp->owner = new QpHandles;
  static_cast<QpHandles*>(model_qp->owner)->list.push_back(qp);
  return qp;
}

// Takes the handle out of the QP's list, and puts it back where the QP would not go.
model::Status DestroyModel(model::Device& device, Qp* qp) {
  model::Fabric& fabric = device.fabric();
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  auto* handles = static_cast<QpHandles*>(qp->qp->owner);
  const bool last = handles->list.size() == 1;
  const model::Status status = device.DestroyQp(qp->qp);
  if (!status.ok()) return status;
  if (last) {
    delete handles;
  } else {
    handles->list.erase(std::find(handles->list.begin(), handles->list.end(), qp));
  }
  return status;
}

}  // namespace

ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  model::QpInit init;
  if (int err = Translate(*attr, &init); err != 0) return Refuse(err);
  model::Result<model::Qp> made = Of(context)->device->CreateQp(init);
  if (!made.ok()) return Refuse(made.status.err);

  Qp* qp = Wrap(made.value, context, attr->qp_context);
  ibv_qp& verbs = qp->verbs.qp;
  if (init.pd != nullptr) verbs.pd = attr->pd;
  if (init.send_cq != nullptr) verbs.send_cq = attr->send_cq;
  if (init.recv_cq != nullptr) verbs.recv_cq = attr->recv_cq;
  if (init.srq != nullptr) verbs.srq = attr->srq;
  if (init.xrcd != nullptr) {
    qp->verbs.xrcd = &Of(attr->xrcd)->verbs;
    qp->verbs.comp_mask |= VERBS_QP_XRCD;
  }
  if (init.send_ops.has_value()) {
    SetWorkRequestFunctions(&qp->verbs.qp_ex);
    if (model::Faulty(model::Fault::kBaseWithoutContext)) verbs.qp_context = nullptr;
    if (!model::Faulty(model::Fault::kNoExtendedQp))
      qp->verbs.comp_mask |= VERBS_QP_EX;  // ibv_qp_to_qp_ex() asks this (WR-ABI-001, -006)
  }
  attr->cap = made.value->init().cap;  // WR-CREATE-003
  return &verbs;
}

ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex ex = {};
  ex.qp_context = attr->qp_context;
  ex.send_cq = attr->send_cq;
  ex.recv_cq = attr->recv_cq;
  ex.srq = attr->srq;
  ex.cap = attr->cap;
  memcpy(&ex.qp_type, &attr->qp_type, sizeof(ex.qp_type));  // which may be no type at all
  ex.sq_sig_all = attr->sq_sig_all;
  ex.comp_mask = IBV_QP_INIT_ATTR_PD;
  ex.pd = pd;
  ibv_qp* qp = CreateQpEx(pd->context, &ex);
  if (qp != nullptr) attr->cap = ex.cap;
  return qp;
}

ibv_qp* OpenQp(ibv_context* context, ibv_qp_open_attr* attr) {
  constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  if (!check_comp_mask(attr->comp_mask, kNeeded | IBV_QP_OPEN_ATTR_CONTEXT) ||
      (attr->comp_mask & kNeeded) != kNeeded || NumberIn(attr->qp_type) != IBV_QPT_XRC_RECV)
    return Refuse(EINVAL);
  model::Result<model::Qp> made =
      Of(context)->device->OpenQp(Of(attr->xrcd)->xrcd, model::QpNum(attr->qp_num));
  if (!made.ok()) return Refuse(made.status.err);
  Qp* qp = Wrap(made.value, context,
                (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0 ? attr->qp_context : nullptr);
  qp->verbs.xrcd = &Of(attr->xrcd)->verbs;
  qp->verbs.comp_mask |= VERBS_QP_XRCD;
  return &qp->verbs.qp;
}

int ModifyQp(ibv_qp* verbs, ibv_qp_attr* attr, int mask) {
  Qp* qp = Of(verbs);
  // Numbers that are no state; the model looks at path_mtu itself.
  const auto wild = [&](int bit, uint32_t number, uint32_t last) {
    return (mask & bit) != 0 && number > last;
  };
  if (wild(IBV_QP_STATE, NumberIn(attr->qp_state), IBV_QPS_ERR) ||
      wild(IBV_QP_CUR_STATE, NumberIn(attr->cur_qp_state), IBV_QPS_ERR) ||
      wild(IBV_QP_PATH_MIG_STATE, NumberIn(attr->path_mig_state), IBV_MIG_ARMED))
    return EINVAL;
  const model::Status status = qp->qp->Modify(*attr, mask);
  if (status.ok() && (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && !qp->may_wait_for_drain) {
    qp->may_wait_for_drain = true;
    AddBlockingWait();
  }
  return Answer(status);
}

int QueryQp(ibv_qp* verbs, ibv_qp_attr* attr, int /*mask*/, ibv_qp_init_attr* init) {
  *attr = {};
  *init = {};
  Of(verbs)->qp->Query(attr, init);
  init->qp_context = verbs->qp_context;
  init->send_cq = verbs->send_cq;
  init->recv_cq = verbs->recv_cq;
  init->srq = verbs->srq;
  return 0;
}

int DestroyQp(ibv_qp* verbs) {
  Qp* qp = Of(verbs);
  const model::Status status = DestroyModel(*Of(verbs->context)->device, qp);
  if (!status.ok()) return Answer(status);
  if (qp->may_wait_for_drain) RemoveBlockingWait();
  FinishAsyncEvents(verbs->context, verbs, qp->async_events, verbs->mutex, verbs->cond,
                    verbs->events_completed);
  pthread_cond_destroy(&verbs->cond);
  pthread_mutex_destroy(&verbs->mutex);
  delete qp;
  return 0;
}

int AttachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return Answer(Of(qp)->qp->AttachMulticast(*gid, lid));
}

int DetachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return Answer(Of(qp)->qp->DetachMulticast(*gid, lid));
}

}  // namespace qpexam::provider
