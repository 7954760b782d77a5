// Commands about queue pairs.
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/hosted/command_handler.h"

namespace qpexam::hosted {
namespace {

// The address of a peer in the two forms that commands carry it.
ibv_ah_attr FromDest(const ib_uverbs_qp_dest& d) {
  ibv_ah_attr a = {};
  std::memcpy(a.grh.dgid.raw, d.dgid, 16);
  a.grh.flow_label = d.flow_label;
  a.grh.sgid_index = d.sgid_index;
  a.grh.hop_limit = d.hop_limit;
  a.grh.traffic_class = d.traffic_class;
  a.dlid = d.dlid;
  a.sl = d.sl;
  a.src_path_bits = d.src_path_bits;
  a.static_rate = d.static_rate;
  a.is_global = d.is_global;
  a.port_num = d.port_num;
  return a;
}

ib_uverbs_qp_dest ToDest(const ibv_ah_attr& a) {
  ib_uverbs_qp_dest d = {};
  std::memcpy(d.dgid, a.grh.dgid.raw, 16);
  d.flow_label = a.grh.flow_label;
  d.sgid_index = a.grh.sgid_index;
  d.hop_limit = a.grh.hop_limit;
  d.traffic_class = a.grh.traffic_class;
  d.dlid = a.dlid;
  d.sl = a.sl;
  d.src_path_bits = a.src_path_bits;
  d.static_rate = a.static_rate;
  d.is_global = a.is_global;
  d.port_num = a.port_num;
  return d;
}

}  // namespace

uint32_t CommandHandler::NewQpNumber() {
  // 0 and 1 are special.
  const DeviceTraits& traits = model().traits();
  const uint32_t mask = (uint32_t{1} << traits.qp_number_bits) - 1;
  auto taken = [&](uint32_t number) {
    if (traits.qp_numbers_modulo == 0) return k_.qps_.count(number) != 0;
    return std::any_of(k_.qps_.begin(), k_.qps_.end(), [&](const auto& qp) {
      return (qp.first - number) % traits.qp_numbers_modulo == 0;
    });
  };
  if (k_.freedom.reuse_qp_numbers) {
    k_.next_qp_ = k_.freedom.first_qp_number & mask;
  } else {
    k_.next_qp_ = (k_.next_qp_ + k_.freedom.qp_number_step) & mask;
  }
  while (k_.next_qp_ < 2 || taken(k_.next_qp_)) k_.next_qp_ = (k_.next_qp_ + 1) & mask;
  return k_.next_qp_;
}

int CommandHandler::CreateQpFrom(const ib_uverbs_ex_create_qp& request,
                                 ib_uverbs_create_qp_resp* response) {
  std::optional<model::QpType> type =
      model::FromVerbsType(static_cast<ibv_qp_type>(request.qp_type));
  if (!type) return EOPNOTSUPP;
  if (!(model().traits().types & model::MaskOf(*type))) return EOPNOTSUPP;
  if (request.create_flags != 0) return EOPNOTSUPP;
  // An XRC_RECV QP has a domain in place of a PD, and neither kind of XRC QP receives by itself.
  const bool target = *type == model::QpType::kXrcRecv;
  const bool receives = !target && *type != model::QpType::kXrcSend;
  HostedPd* pd = target ? nullptr : FindPd(request.pd_handle);
  HostedXrcd* xrcd = target ? c_.xrcds.Find(request.pd_handle) : nullptr;
  HostedCq* send_cq = target ? nullptr : c_.cqs.Find(request.send_cq_handle);
  HostedCq* recv_cq = receives ? c_.cqs.Find(request.recv_cq_handle) : nullptr;
  HostedSrq* srq = request.is_srq && receives ? c_.srqs.Find(request.srq_handle) : nullptr;
  if (target ? xrcd == nullptr : pd == nullptr || send_cq == nullptr) return EINVAL;
  if (receives && recv_cq == nullptr) return EINVAL;
  if (request.is_srq && srq == nullptr) return EINVAL;
  const ibv_device_attr& attr = model().traits().attr;
  if (request.max_send_wr > static_cast<uint32_t>(attr.max_qp_wr) ||
      request.max_send_sge > static_cast<uint32_t>(attr.max_sge) ||
      request.max_inline_data > c_.engine->limits().max_inline) {
    return EINVAL;
  }
  if (receives && !request.is_srq &&
      (request.max_recv_wr > static_cast<uint32_t>(attr.max_qp_wr) ||
       request.max_recv_sge > static_cast<uint32_t>(attr.max_sge))) {
    return EINVAL;
  }

  HostedQp* made = c_.qps.Add(std::make_unique<HostedQp>());
  made->context = &c_;
  made->user_handle = request.user_handle;
  made->send_cq = send_cq;
  made->recv_cq = recv_cq;
  made->srq = srq;
  QpFacts& f = made->facts;
  f.number = NewQpNumber();
  f.number_bits = model().traits().qp_number_bits;
  f.type = *type;
  f.cap.max_send_wr = request.max_send_wr;
  const bool own_receives = receives && !request.is_srq;
  f.cap.max_recv_wr = own_receives ? request.max_recv_wr : 0;
  f.cap.max_send_sge = request.max_send_sge;
  f.cap.max_recv_sge = own_receives ? request.max_recv_sge : 0;
  f.cap.max_inline_data = request.max_inline_data;
  f.signal_all = request.sq_sig_all != 0;
  f.send_cq = send_cq != nullptr ? &send_cq->facts : nullptr;
  f.recv_cq = recv_cq != nullptr ? &recv_cq->facts : nullptr;
  f.srq = srq != nullptr ? &srq->facts : nullptr;

  model::QpInit init;
  init.type = *type;
  init.pd = pd != nullptr ? pd->pd : nullptr;
  init.xrcd = xrcd != nullptr ? xrcd->xrcd : nullptr;
  init.send_cq = send_cq != nullptr ? send_cq->cq : nullptr;
  init.recv_cq = recv_cq != nullptr ? recv_cq->cq : nullptr;
  init.srq = srq != nullptr ? srq->srq : nullptr;
  init.cap = f.cap;
  init.signaling = f.signal_all ? model::Signaling::kAll : model::Signaling::kByFlag;
  init.keeper = model::QueueKeeper::kProvider;
  init.number = model::QpNum(f.number);
  init.owner = made;

  Command command;
  command.kind = Command::Kind::kCreateQp;
  command.qp = &f;
  command.extended = call_.extended;
  command.pd = pd != nullptr ? pd->handle + 1 : 0;
  int err = Private(command, made);
  model::Result<model::Qp> qp;
  if (err == 0) {
    f.sq.type = f.rq.type = f.type;
    f.sq.number = f.rq.number = f.number;
    f.sq.library_object = f.rq.library_object = request.user_handle;
    init.cap.max_send_sge = f.cap.max_send_sge;
    init.cap.max_recv_sge = f.cap.max_recv_sge;
    qp = c_.engine->CreateQp(init);
    err = qp.status.err;
  }
  if (err != 0) {
    k_.ReleaseMemory(c_, *made);
    c_.qps.Remove(made->handle);
    return err;
  }
  made->qp = qp.value;
  made->qp->owner = made;
  KernelImpl* kernel = &k_;
  if (srq == nullptr) {
    made->qp->pump = [kernel, made](model::Qp&) { kernel->ReadReceiveQueue(*made); };
  }
  made->qp->on_silent_success = [kernel, made](model::Qp&, const model::SendRequest& request) {
    kernel->OnSilentSuccess(*made, request);
  };
  k_.qps_[f.number] = made;
  if (target) k_.xrc_handles_[f.number] = {made};
  response->qp_handle = made->handle;
  response->qpn = f.number;
  response->max_send_wr = f.cap.max_send_wr;
  response->max_recv_wr = f.cap.max_recv_wr;
  response->max_send_sge = f.cap.max_send_sge;
  response->max_recv_sge = f.cap.max_recv_sge;
  response->max_inline_data = f.cap.max_inline_data;
  return 0;
}

int CommandHandler::CreateQp() {
  if (call_.extended) {
    ib_uverbs_ex_create_qp_resp response = {};
    auto request = Request<ib_uverbs_ex_create_qp>(call_);
    if (request.comp_mask != 0) return EOPNOTSUPP;  // indirection tables
    if (int err = CreateQpFrom(request, &response.base)) return err;
    response.response_length = sizeof response;
    return Respond(call_, response);
  }
  auto basic = Request<ib_uverbs_create_qp>(call_);
  ib_uverbs_ex_create_qp request = {};
  request.user_handle = basic.user_handle;
  request.pd_handle = basic.pd_handle;
  request.send_cq_handle = basic.send_cq_handle;
  request.recv_cq_handle = basic.recv_cq_handle;
  request.srq_handle = basic.srq_handle;
  request.max_send_wr = basic.max_send_wr;
  request.max_recv_wr = basic.max_recv_wr;
  request.max_send_sge = basic.max_send_sge;
  request.max_recv_sge = basic.max_recv_sge;
  request.max_inline_data = basic.max_inline_data;
  request.sq_sig_all = basic.sq_sig_all;
  request.qp_type = basic.qp_type;
  request.is_srq = basic.is_srq;
  ib_uverbs_create_qp_resp response = {};
  if (int err = CreateQpFrom(request, &response)) return err;
  return Respond(call_, response);
}

// Another handle of an XRC_RECV QP of the domain.
int CommandHandler::OpenQp() {
  auto request = Request<ib_uverbs_open_qp>(call_);
  HostedXrcd* xrcd = c_.xrcds.Find(request.pd_handle);
  if (xrcd == nullptr || request.qp_type != IBV_QPT_XRC_RECV) return EINVAL;
  model::Result<model::Qp> qp = c_.engine->OpenQp(xrcd->xrcd, model::QpNum(request.qpn));
  if (!qp.ok()) return qp.status.err;
  auto object = std::make_unique<HostedQp>();
  object->context = &c_;
  object->user_handle = request.user_handle;
  object->qp = qp.value;
  QpFacts& f = object->facts;
  f.number = qp.value->number().value;
  f.number_bits = model().traits().qp_number_bits;
  f.type = model::QpType::kXrcRecv;
  f.state = qp.value->state();
  f.sq.library_object = f.rq.library_object = request.user_handle;
  HostedQp* made = c_.qps.Add(std::move(object));
  k_.xrc_handles_[f.number].push_back(made);
  ib_uverbs_create_qp_resp response = {};
  response.qp_handle = made->handle;
  response.qpn = made->facts.number;
  return Respond(call_, response);
}

int CommandHandler::ModifyQp() {
  // The extended form only adds a rate limit, which RAW_PACKET alone has.
  ib_uverbs_modify_qp request;
  if (call_.extended) {
    request = Request<ib_uverbs_ex_modify_qp>(call_).base;
  } else {
    request = Request<ib_uverbs_modify_qp>(call_);
  }
  HostedQp* qp = c_.qps.Find(request.qp_handle);
  if (qp == nullptr) return EINVAL;
  ibv_qp_attr a = {};
  a.qp_state = static_cast<ibv_qp_state>(request.qp_state);
  a.cur_qp_state = static_cast<ibv_qp_state>(request.cur_qp_state);
  a.path_mtu = static_cast<ibv_mtu>(request.path_mtu);
  a.path_mig_state = static_cast<ibv_mig_state>(request.path_mig_state);
  a.qkey = request.qkey;
  a.rq_psn = request.rq_psn;
  a.sq_psn = request.sq_psn;
  a.dest_qp_num = request.dest_qp_num;
  a.qp_access_flags = request.qp_access_flags;
  a.ah_attr = FromDest(request.dest);
  a.alt_ah_attr = FromDest(request.alt_dest);
  a.pkey_index = request.pkey_index;
  a.alt_pkey_index = request.alt_pkey_index;
  a.en_sqd_async_notify = request.en_sqd_async_notify;
  a.max_rd_atomic = request.max_rd_atomic;
  a.max_dest_rd_atomic = request.max_dest_rd_atomic;
  a.min_rnr_timer = request.min_rnr_timer;
  a.port_num = request.port_num;
  a.timeout = request.timeout;
  a.retry_cnt = request.retry_cnt;
  a.rnr_retry = request.rnr_retry;
  a.alt_port_num = request.alt_port_num;
  a.alt_timeout = request.alt_timeout;
  Command command;
  command.kind = Command::Kind::kModifyQp;
  command.qp = &qp->facts;
  command.attr_mask = static_cast<int>(request.attr_mask);
  command.attr = &a;
  command.extended = call_.extended;
  if (int err = Private(command, qp)) return err;
  // What lies in the queues when the state changes is subject to the change.
  if (request.attr_mask & IBV_QP_STATE && a.qp_state == IBV_QPS_ERR) {
    if (qp->facts.state >= IBV_QPS_RTS) k_.ReadSendQueue(*qp);
    if (qp->facts.state >= IBV_QPS_INIT) k_.ReadReceiveQueue(*qp);
  }
  // A completion that was generated before RESET is in the CQ when RESET returns.
  if (request.attr_mask & IBV_QP_STATE) k_.ReleaseHeld();
  model::Status status = qp->qp->Modify(a, command.attr_mask);
  if (!status.ok()) return status.err;
  if (request.attr_mask & IBV_QP_STATE) {
    qp->facts.state = a.qp_state;
    if (a.qp_state == IBV_QPS_RESET) {
      qp->sends.clear();
      qp->receives.clear();
      if (k_.observer != nullptr) k_.observer->OnQpReset(qp->facts);
      model().Reset(qp->facts);
    }
  }
  return 0;
}

int CommandHandler::QueryQp() {
  HostedQp* qp = c_.qps.Find(Request<ib_uverbs_query_qp>(call_).qp_handle);
  if (qp == nullptr) return EINVAL;
  ibv_qp_attr a = {};
  ibv_qp_init_attr init = {};
  qp->qp->Query(&a, &init);
  qp->facts.state = a.qp_state;
  ib_uverbs_query_qp_resp r = {};
  r.dest = ToDest(a.ah_attr);
  r.alt_dest = ToDest(a.alt_ah_attr);
  r.max_send_wr = qp->facts.cap.max_send_wr;
  r.max_recv_wr = qp->facts.cap.max_recv_wr;
  r.max_send_sge = qp->facts.cap.max_send_sge;
  r.max_recv_sge = qp->facts.cap.max_recv_sge;
  r.max_inline_data = qp->facts.cap.max_inline_data;
  r.qkey = a.qkey;
  r.rq_psn = a.rq_psn;
  r.sq_psn = a.sq_psn;
  r.dest_qp_num = a.dest_qp_num;
  r.qp_access_flags = a.qp_access_flags;
  r.pkey_index = a.pkey_index;
  r.alt_pkey_index = a.alt_pkey_index;
  r.qp_state = a.qp_state;
  r.cur_qp_state = a.cur_qp_state;
  r.path_mtu = a.path_mtu;
  r.path_mig_state = a.path_mig_state;
  r.sq_draining = a.sq_draining;
  r.max_rd_atomic = a.max_rd_atomic;
  r.max_dest_rd_atomic = a.max_dest_rd_atomic;
  r.min_rnr_timer = a.min_rnr_timer;
  r.port_num = a.port_num;
  r.timeout = a.timeout;
  r.retry_cnt = a.retry_cnt;
  r.rnr_retry = a.rnr_retry;
  r.alt_port_num = a.alt_port_num;
  r.alt_timeout = a.alt_timeout;
  r.sq_sig_all = qp->facts.signal_all;
  return Respond(call_, r);
}

int CommandHandler::DestroyQp() {
  HostedQp* qp = c_.qps.Find(Request<ib_uverbs_destroy_qp>(call_).qp_handle);
  if (qp == nullptr) return EINVAL;
  if (!qp->multicast_groups.empty()) return EBUSY;  // WR-CREATE-017
  ib_uverbs_destroy_qp_resp response = {};
  response.events_reported = qp->async_events - k_.PurgeAsync(*qp);
  k_.DestroyQp(*qp);
  return Respond(call_, response);
}

int CommandHandler::PostSend() {
  auto request = Request<ib_uverbs_post_send>(call_);
  HostedQp* qp = c_.qps.Find(request.qp_handle);
  if (qp == nullptr) return EINVAL;
  if (request.wr_count != 0) return EOPNOTSUPP;  // requests come by the shared ring
  Command command;
  command.kind = Command::Kind::kPostSend;
  command.qp = &qp->facts;
  Reply reply = model().Answer(command, call_.private_in, call_.private_out);
  if (reply.err != 0) return reply.err;
  if (reply.doorbell) k_.ReadSendQueue(*qp);
  return 0;
}

int CommandHandler::Multicast(bool attach) {
  auto request = Request<ib_uverbs_attach_mcast>(call_);
  HostedQp* qp = c_.qps.Find(request.qp_handle);
  if (qp == nullptr) return EINVAL;
  ibv_gid gid;
  std::memcpy(gid.raw, request.gid, 16);
  const int err = (attach ? qp->qp->AttachMulticast(gid, request.mlid)
                          : qp->qp->DetachMulticast(gid, request.mlid))
                      .err;
  if (err != 0) return err;
  const std::string group(reinterpret_cast<const char*>(gid.raw), 16);
  if (attach) {
    qp->multicast_groups.insert(group);
  } else {
    qp->multicast_groups.erase(group);
  }
  return 0;
}

}  // namespace qpexam::hosted
