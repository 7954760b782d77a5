// Commands about everything but queue pairs: pd, mr, mw, ah, channel, cq, xrcd, srq.
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "harness/hosted/command_handler.h"
#include "harness/hosted/event_channel.h"

namespace qpexam::hosted {

int CommandHandler::AllocPd() {
  model::Result<model::Pd> pd = c_.engine->AllocPd();
  if (!pd.ok()) return pd.status.err;
  auto object = std::make_unique<HostedPd>();
  object->pd = pd.value;
  HostedPd* made = c_.pds.Add(std::move(object));
  Command command;
  command.kind = Command::Kind::kAllocPd;
  command.pd = made->handle + 1;
  if (int err = Private(command, made)) {
    c_.engine->DeallocPd(pd.value);
    c_.pds.Remove(made->handle);
    return err;
  }
  ib_uverbs_alloc_pd_resp response = {};
  response.pd_handle = made->handle;
  return Respond(call_, response);
}

int CommandHandler::DeallocPd() {
  HostedPd* pd = FindPd(Request<ib_uverbs_dealloc_pd>(call_).pd_handle);
  if (pd == nullptr) return EINVAL;
  model::Status status = c_.engine->DeallocPd(pd->pd);
  if (!status.ok()) return status.err;
  c_.pds.Remove(pd->handle);
  return 0;
}

int CommandHandler::RegMr() {
  auto request = Request<ib_uverbs_reg_mr>(call_);
  HostedPd* pd = FindPd(request.pd_handle);
  if (pd == nullptr) return EINVAL;
  // A region's key is its index; lkey and rkey are equal, as on rxe and mlx5. Devices with short
  // keys use them again.
  const uint32_t key_mask = static_cast<uint32_t>((uint64_t{1} << model().traits().key_bits) - 1);
  model::KeyChoice keys;
  do {
    keys.lkey = keys.rkey = ((k_.next_key_++ << 8 | 0x5a) | k_.freedom.key_high_bits) & key_mask;
  } while (k_.fabric.FindMr(model::Lkey(*keys.lkey)) != nullptr);
  uint64_t iova = request.access_flags & IBV_ACCESS_ZERO_BASED ? 0 : request.hca_va;
  model::Result<model::Mr> mr =
      c_.engine->RegMr(pd->pd, MutBytes{reinterpret_cast<uint8_t*>(request.start), request.length},
                       iova, request.access_flags, keys);
  if (!mr.ok()) return mr.status.err;
  auto object = std::make_unique<HostedMr>();
  object->mr = mr.value;
  HostedMr* made = c_.mrs.Add(std::move(object));
  mr.value->owner = made;
  Command command;
  command.kind = Command::Kind::kRegMr;
  if (int err = Private(command, made)) {
    c_.engine->DeregMr(mr.value);
    c_.mrs.Remove(made->handle);
    return err;
  }
  ib_uverbs_reg_mr_resp response = {};
  response.mr_handle = made->handle;
  response.lkey = mr.value->lkey.value;
  response.rkey = mr.value->rkey.value;
  return Respond(call_, response);
}

int CommandHandler::ReregMr() {
  auto request = Request<ib_uverbs_rereg_mr>(call_);
  HostedMr* mr = c_.mrs.Find(request.mr_handle);
  if (mr == nullptr) return EINVAL;
  HostedPd* pd = nullptr;
  if (request.flags & IBV_REREG_MR_CHANGE_PD) {
    pd = FindPd(request.pd_handle);
    if (pd == nullptr) return EINVAL;
  }
  model::Status status = c_.engine->ReregMr(
      mr->mr, static_cast<int>(request.flags), pd != nullptr ? pd->pd : nullptr,
      MutBytes{reinterpret_cast<uint8_t*>(request.start), request.length}, request.access_flags);
  if (!status.ok()) return status.err;
  ib_uverbs_rereg_mr_resp response = {};
  response.lkey = mr->mr->lkey.value;
  response.rkey = mr->mr->rkey.value;
  return Respond(call_, response);
}

int CommandHandler::DeregMr() {
  HostedMr* mr = c_.mrs.Find(Request<ib_uverbs_dereg_mr>(call_).mr_handle);
  if (mr == nullptr) return EINVAL;
  model::Status status = c_.engine->DeregMr(mr->mr);
  if (!status.ok()) return status.err;
  c_.mrs.Remove(mr->handle);
  return 0;
}

int CommandHandler::AllocMw() {
  auto request = Request<ib_uverbs_alloc_mw>(call_);
  HostedPd* pd = FindPd(request.pd_handle);
  if (pd == nullptr) return EINVAL;
  model::Result<model::Mw> mw =
      c_.engine->AllocMw(pd->pd, static_cast<ibv_mw_type>(request.mw_type),
                         model::Rkey((k_.next_key_++ << 8) | k_.freedom.key_high_bits));
  if (!mw.ok()) return mw.status.err;
  auto object = std::make_unique<HostedMw>();
  object->mw = mw.value;
  HostedMw* made = c_.mws.Add(std::move(object));
  mw.value->owner = made;
  Command command;
  command.kind = Command::Kind::kAllocMw;
  if (int err = Private(command, made)) {
    c_.engine->DeallocMw(mw.value);
    c_.mws.Remove(made->handle);
    return err;
  }
  ib_uverbs_alloc_mw_resp response = {};
  response.mw_handle = made->handle;
  response.rkey = mw.value->rkey.value;
  return Respond(call_, response);
}

int CommandHandler::DeallocMw() {
  HostedMw* mw = c_.mws.Find(Request<ib_uverbs_dealloc_mw>(call_).mw_handle);
  if (mw == nullptr) return EINVAL;
  model::Status status = c_.engine->DeallocMw(mw->mw);
  if (!status.ok()) return status.err;
  c_.mws.Remove(mw->handle);
  return 0;
}

// --- Addresses ---------------------------------------------------------------------------------

int CommandHandler::CreateAh() {
  auto request = Request<ib_uverbs_create_ah>(call_);
  HostedPd* pd = FindPd(request.pd_handle);
  if (pd == nullptr) return EINVAL;
  auto object = std::make_unique<HostedAh>();
  ibv_ah_attr& a = object->facts.attr;
  std::memcpy(a.grh.dgid.raw, request.attr.grh.dgid, 16);
  a.grh.flow_label = request.attr.grh.flow_label;
  a.grh.sgid_index = request.attr.grh.sgid_index;
  a.grh.hop_limit = request.attr.grh.hop_limit;
  a.grh.traffic_class = request.attr.grh.traffic_class;
  a.dlid = request.attr.dlid;
  a.sl = request.attr.sl;
  a.src_path_bits = request.attr.src_path_bits;
  a.static_rate = request.attr.static_rate;
  a.is_global = request.attr.is_global;
  a.port_num = request.attr.port_num;
  model::Result<model::Ah> ah = c_.engine->CreateAh(pd->pd, a);
  if (!ah.ok()) return ah.status.err;
  object->ah = ah.value;
  // 16 bits, which is all that some devices have.
  do {
    object->facts.number = k_.next_ah_ = k_.next_ah_ % 0xffff + 1;
  } while (k_.ahs_.count(object->facts.number) != 0);
  HostedAh* made = c_.ahs.Add(std::move(object));
  ah.value->owner = made;
  Command command;
  command.kind = Command::Kind::kCreateAh;
  command.ah = &made->facts;
  if (int err = Private(command, made)) {
    c_.engine->DestroyAh(ah.value);
    c_.ahs.Remove(made->handle);
    return err;
  }
  k_.ahs_[made->facts.number] = made;
  ib_uverbs_create_ah_resp response = {};
  response.ah_handle = made->handle;
  return Respond(call_, response);
}

int CommandHandler::DestroyAh() {
  HostedAh* ah = c_.ahs.Find(Request<ib_uverbs_destroy_ah>(call_).ah_handle);
  if (ah == nullptr) return EINVAL;
  model::Status status = c_.engine->DestroyAh(ah->ah);
  if (!status.ok()) return status.err;
  k_.ahs_.erase(ah->facts.number);
  c_.ahs.Remove(ah->handle);
  return 0;
}

// --- Completion channels and queues
// ----------------------------------------------------------------

int CommandHandler::CreateChannel() {
  ib_uverbs_create_comp_channel_resp response = {};
  int fd = EventChannel::Open();
  if (fd < 0) return errno;
  response.fd = fd;
  return Respond(call_, response);
}

int CommandHandler::CreateCqFrom(uint64_t user_handle, uint32_t cqe, int32_t channel,
                                 uint32_t flags, HostedCq** out) {
  const ibv_device_attr& attr = model().traits().attr;
  if (cqe == 0 || cqe > static_cast<uint32_t>(attr.max_cqe)) return EINVAL;
  if (flags &
      ~uint32_t{IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN}) {
    return EOPNOTSUPP;
  }
  HostedCq* made = c_.cqs.Add(std::make_unique<HostedCq>());
  made->context = &c_;
  made->user_handle = user_handle;
  made->channel = channel;
  made->facts.number = k_.next_cq_++;
  made->facts.cqe = cqe;
  Command command;
  command.kind = Command::Kind::kCreateCq;
  command.cq = &made->facts;
  command.extended = call_.extended;
  int err = Private(command, made);
  model::Result<model::Cq> cq;
  if (err == 0) {
    // The ring is the provider's; the engine's own is never filled.
    cq = c_.engine->CreateCq(static_cast<int>(made->facts.cqe), made);
    err = cq.status.err;
  }
  if (err != 0) {
    k_.ReleaseMemory(c_, *made);
    c_.cqs.Remove(made->handle);
    return err;
  }
  made->facts.queue.library_object = user_handle;
  made->cq = cq.value;
  made->cq->owner = made;
  k_.cqs_[made->facts.number] = made;
  *out = made;
  return 0;
}

int CommandHandler::CreateCq() {
  HostedCq* cq = nullptr;
  if (call_.extended) {
    auto request = Request<ib_uverbs_ex_create_cq>(call_);
    if (int err = CreateCqFrom(request.user_handle, request.cqe, request.comp_channel,
                               request.flags, &cq)) {
      return err;
    }
    ib_uverbs_ex_create_cq_resp response = {};
    response.base.cq_handle = cq->handle;
    response.base.cqe = cq->facts.cqe;
    response.response_length = sizeof response;
    return Respond(call_, response);
  }
  auto request = Request<ib_uverbs_create_cq>(call_);
  if (int err = CreateCqFrom(request.user_handle, request.cqe, request.comp_channel, 0, &cq)) {
    return err;
  }
  ib_uverbs_create_cq_resp response = {};
  response.cq_handle = cq->handle;
  response.cqe = cq->facts.cqe;
  return Respond(call_, response);
}

int CommandHandler::ResizeCq() {
  auto request = Request<ib_uverbs_resize_cq>(call_);
  HostedCq* cq = c_.cqs.Find(request.cq_handle);
  if (cq == nullptr) return EINVAL;
  if (request.cqe == 0 || request.cqe > static_cast<uint32_t>(model().traits().attr.max_cqe)) {
    return EINVAL;
  }
  uint32_t before = cq->facts.cqe;
  std::vector<uint64_t> old;
  old.swap(cq->mappings);
  cq->facts.cqe = request.cqe;
  Command command;
  command.kind = Command::Kind::kResizeCq;
  command.cq = &cq->facts;
  if (int err = Private(command, cq)) {
    cq->facts.cqe = before;
    k_.ReleaseMemory(c_, *cq);
    cq->mappings.swap(old);
    return err;
  }
  HostedObject retired;
  retired.mappings.swap(old);
  k_.ReleaseMemory(c_, retired);
  ib_uverbs_resize_cq_resp response = {};
  response.cqe = cq->facts.cqe;
  return Respond(call_, response);
}

int CommandHandler::NotifyCq() {
  auto request = Request<ib_uverbs_req_notify_cq>(call_);
  HostedCq* cq = c_.cqs.Find(request.cq_handle);
  if (cq == nullptr) return EINVAL;
  k_.Arm(*cq, request.solicited_only ? CqFacts::Arm::kSolicited : CqFacts::Arm::kAny);
  return 0;
}

int CommandHandler::DestroyCq() {
  HostedCq* cq = c_.cqs.Find(Request<ib_uverbs_destroy_cq>(call_).cq_handle);
  if (cq == nullptr) return EINVAL;
  if (cq->cq->users > 0) return EBUSY;
  // The library waits until it has acknowledged as many events as we report read.
  ib_uverbs_destroy_cq_resp response = {};
  uint32_t unread = cq->channel >= 0 ? EventChannel::Purge(cq->channel, 8, cq->user_handle) : 0;
  response.comp_events_reported = cq->comp_events - unread;
  response.async_events_reported = cq->async_events - k_.PurgeAsync(*cq);
  k_.DestroyCq(*cq);
  return Respond(call_, response);
}

// --- XRC domains ---------------------------------------------------------------------------------

// ibv_open_xrcd(3): a file stands for a domain of the device; without one (-1) the domain is new.
int CommandHandler::OpenXrcd() {
  if (!(model().traits().types & model::MaskOf(model::QpType::kXrcRecv))) return EOPNOTSUPP;
  auto request = Request<ib_uverbs_open_xrcd>(call_);
  const auto fd = static_cast<int32_t>(request.fd);
  uint64_t number = 0;
  if (fd != -1) {
    struct stat st;
    if (fstat(fd, &st) != 0) return EBADF;
    auto [it, fresh] = k_.xrcd_files_.try_emplace({c_.device, st.st_dev, st.st_ino});
    if (fresh && !(request.oflags & O_CREAT)) {
      k_.xrcd_files_.erase(it);
      return EAGAIN;
    }
    if (!fresh && (request.oflags & O_EXCL)) return EINVAL;
    if (fresh) it->second.number = k_.next_xrcd_file_++;
    ++it->second.users;
    number = it->second.number;
  }
  auto object = std::make_unique<HostedXrcd>();
  object->context = &c_;
  object->xrcd = c_.engine->OpenXrcd(number).value;
  HostedXrcd* made = c_.xrcds.Add(std::move(object));
  ib_uverbs_open_xrcd_resp response = {};
  response.xrcd_handle = made->handle;
  return Respond(call_, response);
}

int CommandHandler::CloseXrcd() {
  HostedXrcd* xrcd = c_.xrcds.Find(Request<ib_uverbs_close_xrcd>(call_).xrcd_handle);
  if (xrcd == nullptr) return EINVAL;
  if (xrcd->xrcd->users > 0) return EBUSY;
  k_.CloseXrcd(*xrcd);
  return 0;
}

// --- Shared receive queues -----------------------------------------------------------------------

int CommandHandler::CreateSrq() {
  const bool extended = call_.command == IB_USER_VERBS_CMD_CREATE_XSRQ;
  ib_uverbs_create_xsrq request = {};
  if (extended) {
    request = Request<ib_uverbs_create_xsrq>(call_);
    const bool xrc = request.srq_type == IBV_SRQT_XRC &&
                     (model().traits().types & model::MaskOf(model::QpType::kXrcRecv));
    if (request.srq_type != IBV_SRQT_BASIC && !xrc) return EOPNOTSUPP;
  } else {
    auto basic = Request<ib_uverbs_create_srq>(call_);
    request.user_handle = basic.user_handle;
    request.pd_handle = basic.pd_handle;
    request.max_wr = basic.max_wr;
    request.max_sge = basic.max_sge;
    request.srq_limit = basic.srq_limit;
  }
  HostedPd* pd = FindPd(request.pd_handle);
  if (pd == nullptr) return EINVAL;
  HostedXrcd* xrcd = nullptr;
  HostedCq* cq = nullptr;
  if (request.srq_type == IBV_SRQT_XRC) {
    xrcd = c_.xrcds.Find(request.xrcd_handle);
    cq = c_.cqs.Find(request.cq_handle);
    if (xrcd == nullptr || cq == nullptr) return EINVAL;
  }
  const ibv_device_attr& attr = model().traits().attr;
  if (request.max_wr == 0 || request.max_wr > static_cast<uint32_t>(attr.max_srq_wr) ||
      request.max_sge > static_cast<uint32_t>(attr.max_srq_sge)) {
    return EINVAL;
  }
  HostedSrq* made = c_.srqs.Add(std::make_unique<HostedSrq>());
  made->context = &c_;
  made->user_handle = request.user_handle;
  made->facts.number = k_.next_srq_++;
  made->facts.cq = cq != nullptr ? &cq->facts : nullptr;
  made->cq = cq;
  made->facts.attr.max_wr = request.max_wr;
  made->facts.attr.max_sge = request.max_sge;
  Command command;
  command.kind = Command::Kind::kCreateSrq;
  command.srq = &made->facts;
  command.extended = extended;
  command.pd = pd->handle + 1;
  int err = Private(command, made);
  model::Result<model::Srq> srq;
  if (err == 0) {
    made->facts.queue.number = made->facts.number;
    made->facts.queue.library_object = request.user_handle;
    model::SrqInit init;
    init.pd = pd->pd;
    init.max_wr = made->facts.attr.max_wr;
    init.max_sge = made->facts.attr.max_sge;
    init.limit = request.srq_limit;
    init.number = model::SrqNum(made->facts.number);
    init.unbounded = true;
    if (cq != nullptr) {
      init.type = IBV_SRQT_XRC;
      init.xrcd = xrcd->xrcd;
      init.cq = cq->cq;
    }
    srq = c_.engine->CreateSrq(init);
    err = srq.status.err;
  }
  if (err != 0) {
    k_.ReleaseMemory(c_, *made);
    c_.srqs.Remove(made->handle);
    return err;
  }
  made->srq = srq.value;
  made->srq->owner = made;
  if (cq != nullptr) cq->xrc_srqs.push_back(made);
  KernelImpl* kernel = &k_;
  made->srq->pump = [kernel, made](model::Srq&) { kernel->ReadSharedQueue(*made); };
  ib_uverbs_create_srq_resp response = {};
  response.srq_handle = made->handle;
  response.max_wr = made->facts.attr.max_wr;
  response.max_sge = made->facts.attr.max_sge;
  response.srqn = made->facts.number;
  return Respond(call_, response);
}

int CommandHandler::ModifySrq() {
  auto request = Request<ib_uverbs_modify_srq>(call_);
  HostedSrq* srq = c_.srqs.Find(request.srq_handle);
  if (srq == nullptr) return EINVAL;
  Command command;
  command.kind = Command::Kind::kModifySrq;
  command.srq = &srq->facts;
  command.attr_mask = static_cast<int>(request.attr_mask);
  if (int err = Private(command, srq)) return err;
  k_.ReadSharedQueue(*srq);
  ibv_srq_attr attr = {};
  attr.max_wr = request.max_wr;
  attr.srq_limit = request.srq_limit;
  return srq->srq->Modify(attr, static_cast<int>(request.attr_mask)).err;
}

int CommandHandler::QuerySrq() {
  HostedSrq* srq = c_.srqs.Find(Request<ib_uverbs_query_srq>(call_).srq_handle);
  if (srq == nullptr) return EINVAL;
  ibv_srq_attr attr = srq->srq->Query();
  ib_uverbs_query_srq_resp response = {};
  response.max_wr = srq->facts.attr.max_wr;
  response.max_sge = srq->facts.attr.max_sge;
  response.srq_limit = attr.srq_limit;
  return Respond(call_, response);
}

int CommandHandler::DestroySrq() {
  HostedSrq* srq = c_.srqs.Find(Request<ib_uverbs_destroy_srq>(call_).srq_handle);
  if (srq == nullptr) return EINVAL;
  if (srq->srq->users > 0) return EBUSY;
  ib_uverbs_destroy_srq_resp response = {};
  response.events_reported = srq->async_events - k_.PurgeAsync(*srq);
  k_.DestroySrq(*srq);
  return Respond(call_, response);
}

// --- Queue pairs ---------------------------------------------------------------------------------

}  // namespace qpexam::hosted
