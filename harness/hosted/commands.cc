// The write commands of the uverbs interface (IB_USER_VERBS_CMD_*), in either envelope.
//
// Layouts are <rdma/ib_user_verbs.h>'s. A request shorter than ours is extended by zeros and a
// response longer than asked for is cut, as the kernel does for libraries of other versions.
#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/ib_user_verbs.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "harness/hosted/bytes.h"
#include "harness/hosted/event_channel.h"
#include "harness/hosted/kernel_impl.h"

namespace qpexam::hosted {
namespace {

template <typename T>
T Request(const Invocation& call) {
  T request = {};
  std::copy_n(call.core_in.data, std::min(sizeof request, call.core_in.size),
              reinterpret_cast<uint8_t*>(&request));
  return request;
}

template <typename T>
int Respond(const Invocation& call, const T& response) {
  std::copy_n(reinterpret_cast<const uint8_t*>(&response),
              std::min(sizeof response, call.core_out.size), call.core_out.data);
  return 0;
}

class ObjectMemory : public SharedMemory {
 public:
  ObjectMemory(KernelImpl& kernel, Context& context, HostedObject& object)
      : kernel_(kernel), context_(context), object_(object) {}
  Mapping Allocate(size_t size) override { return kernel_.Allocate(context_, size, &object_); }
  Mapping AllocateDevicePages(size_t size, uint32_t owner) override {
    return kernel_.AllocateDevicePages(context_, size, owner, &object_);
  }
  Mapping Mapped(uint64_t offset) override {
    auto it = context_.memory.find(offset);
    return it != context_.memory.end() ? it->second.mapping : Mapping();
  }

 private:
  KernelImpl& kernel_;
  Context& context_;
  HostedObject& object_;
};

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

// One command of one context. A class of its own so that the handlers share its four members.
class CommandHandler {
 public:
  CommandHandler(KernelImpl& kernel, Context& context, const Invocation& call)
      : k_(kernel), c_(context), call_(call) {}

  int Run();

 private:
  DeviceModel& model() { return c_.model(); }
  // Lets the device model answer the private part.
  int Private(Command& command, HostedObject* object) {
    command.kernel_age = c_.kernel_age;
    if (object == nullptr) {
      return model().Answer(command, call_.private_in, call_.private_out).err;
    }
    ObjectMemory memory(k_, c_, *object);
    command.memory = &memory;
    return model().Answer(command, call_.private_in, call_.private_out).err;
  }
  HostedPd* FindPd(uint32_t handle) { return c_.pds.Find(handle); }

  int GetContext();
  int QueryDevice();
  int QueryPort();
  int AllocPd();
  int DeallocPd();
  int RegMr();
  int ReregMr();
  int DeregMr();
  int AllocMw();
  int DeallocMw();
  int CreateAh();
  int DestroyAh();
  int CreateChannel();
  int CreateCq();
  int CreateCqFrom(uint64_t user_handle, uint32_t cqe, int32_t channel, uint32_t flags,
                   HostedCq** out);
  int ResizeCq();
  int NotifyCq();
  int DestroyCq();
  int OpenXrcd();
  int CloseXrcd();
  int CreateSrq();
  int ModifySrq();
  int QuerySrq();
  int DestroySrq();
  int CreateQp();
  int CreateQpFrom(const ib_uverbs_ex_create_qp& request, ib_uverbs_create_qp_resp* response);
  int OpenQp();
  int ModifyQp();
  int QueryQp();
  int DestroyQp();
  int PostSend();
  int Multicast(bool attach);

  ib_uverbs_query_device_resp DeviceResponse();
  uint32_t NewQpNumber();

  KernelImpl& k_;
  Context& c_;
  const Invocation& call_;
};

int CommandHandler::Run() {
  if (call_.extended) {
    switch (call_.command) {
      case IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
        return QueryDevice();
      case IB_USER_VERBS_EX_CMD_CREATE_CQ:
        return CreateCq();
      case IB_USER_VERBS_EX_CMD_CREATE_QP:
        return CreateQp();
      case IB_USER_VERBS_EX_CMD_MODIFY_QP:
        return ModifyQp();
      default:
        return EOPNOTSUPP;
    }
  }
  switch (call_.command) {
    case IB_USER_VERBS_CMD_GET_CONTEXT:
      return GetContext();
    case IB_USER_VERBS_CMD_QUERY_DEVICE:
      return QueryDevice();
    case IB_USER_VERBS_CMD_QUERY_PORT:
      return QueryPort();
    case IB_USER_VERBS_CMD_ALLOC_PD:
      return AllocPd();
    case IB_USER_VERBS_CMD_DEALLOC_PD:
      return DeallocPd();
    case IB_USER_VERBS_CMD_REG_MR:
      return RegMr();
    case IB_USER_VERBS_CMD_REREG_MR:
      return ReregMr();
    case IB_USER_VERBS_CMD_DEREG_MR:
      return DeregMr();
    case IB_USER_VERBS_CMD_ALLOC_MW:
      return AllocMw();
    case IB_USER_VERBS_CMD_DEALLOC_MW:
      return DeallocMw();
    case IB_USER_VERBS_CMD_CREATE_AH:
      return CreateAh();
    case IB_USER_VERBS_CMD_DESTROY_AH:
      return DestroyAh();
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
      return CreateChannel();
    case IB_USER_VERBS_CMD_CREATE_CQ:
      return CreateCq();
    case IB_USER_VERBS_CMD_RESIZE_CQ:
      return ResizeCq();
    case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
      return NotifyCq();
    case IB_USER_VERBS_CMD_DESTROY_CQ:
      return DestroyCq();
    case IB_USER_VERBS_CMD_OPEN_XRCD:
      return OpenXrcd();
    case IB_USER_VERBS_CMD_CLOSE_XRCD:
      return CloseXrcd();
    case IB_USER_VERBS_CMD_CREATE_SRQ:
      return CreateSrq();
    case IB_USER_VERBS_CMD_CREATE_XSRQ:
      return CreateSrq();
    case IB_USER_VERBS_CMD_MODIFY_SRQ:
      return ModifySrq();
    case IB_USER_VERBS_CMD_QUERY_SRQ:
      return QuerySrq();
    case IB_USER_VERBS_CMD_DESTROY_SRQ:
      return DestroySrq();
    case IB_USER_VERBS_CMD_CREATE_QP:
      return CreateQp();
    case IB_USER_VERBS_CMD_OPEN_QP:
      return OpenQp();
    case IB_USER_VERBS_CMD_MODIFY_QP:
      return ModifyQp();
    case IB_USER_VERBS_CMD_QUERY_QP:
      return QueryQp();
    case IB_USER_VERBS_CMD_DESTROY_QP:
      return DestroyQp();
    case IB_USER_VERBS_CMD_POST_SEND:
      return PostSend();
    case IB_USER_VERBS_CMD_ATTACH_MCAST:
      return Multicast(true);
    case IB_USER_VERBS_CMD_DETACH_MCAST:
      return Multicast(false);
    default:
      return EOPNOTSUPP;
  }
}

// --- Context, device, port ---------------------------------------------------------------------

int CommandHandler::GetContext() {
  Command command;
  command.kind = Command::Kind::kGetContext;
  if (int err = Private(command, nullptr)) return err;
  c_.async_fd = EventChannel::Open();
  if (c_.async_fd < 0) return errno;
  ib_uverbs_get_context_resp response = {};
  response.async_fd = c_.async_fd;
  response.num_comp_vectors = 1;
  return Respond(call_, response);
}

ib_uverbs_query_device_resp CommandHandler::DeviceResponse() {
  const ibv_device_attr& a = model().traits().attr;
  ib_uverbs_query_device_resp r = {};
  r.node_guid = htobe64(c_.device->guid);
  r.sys_image_guid = htobe64(c_.device->guid);
  r.max_mr_size = a.max_mr_size;
  r.page_size_cap = a.page_size_cap;
  r.vendor_id = a.vendor_id;
  r.vendor_part_id = a.vendor_part_id;
  r.hw_ver = a.hw_ver;
  r.max_qp = a.max_qp;
  r.max_qp_wr = a.max_qp_wr;
  r.device_cap_flags = a.device_cap_flags;
  r.max_sge = a.max_sge;
  r.max_sge_rd = a.max_sge_rd;
  r.max_cq = a.max_cq;
  r.max_cqe = a.max_cqe;
  r.max_mr = a.max_mr;
  r.max_pd = a.max_pd;
  r.max_qp_rd_atom = a.max_qp_rd_atom;
  r.max_res_rd_atom = a.max_res_rd_atom;
  r.max_qp_init_rd_atom = a.max_qp_init_rd_atom;
  r.atomic_cap = a.atomic_cap;
  r.max_mw = a.max_mw;
  r.max_mcast_grp = a.max_mcast_grp;
  r.max_mcast_qp_attach = a.max_mcast_qp_attach;
  r.max_total_mcast_qp_attach = a.max_total_mcast_qp_attach;
  r.max_ah = a.max_ah;
  r.max_srq = a.max_srq;
  r.max_srq_wr = a.max_srq_wr;
  r.max_srq_sge = a.max_srq_sge;
  r.max_pkeys = a.max_pkeys;
  r.local_ca_ack_delay = a.local_ca_ack_delay;
  r.phys_port_cnt = a.phys_port_cnt;
  return r;
}

int CommandHandler::QueryDevice() {
  Command command;
  command.kind = Command::Kind::kQueryDevice;
  command.extended = call_.extended;
  if (int err = Private(command, nullptr)) return err;
  if (!call_.extended) return Respond(call_, DeviceResponse());
  ib_uverbs_ex_query_device_resp response = {};
  response.base = DeviceResponse();
  response.response_length = std::min(sizeof response, call_.core_out.size);
  response.device_cap_flags_ex = response.base.device_cap_flags | model().traits().more_cap_flags;
  return Respond(call_, response);
}

int CommandHandler::QueryPort() {
  auto request = Request<ib_uverbs_query_port>(call_);
  if (request.port_num != 1) return EINVAL;
  ib_uverbs_query_port_resp r = {};
  r.state = IBV_PORT_ACTIVE;
  r.max_mtu = IBV_MTU_4096;
  r.active_mtu = IBV_MTU_4096;
  r.gid_tbl_len = static_cast<uint32_t>(c_.engine->gids.size());
  r.pkey_tbl_len = 1;
  r.max_msg_sz = uint32_t{1} << 31;
  r.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  r.max_vl_num = 1;
  r.active_width = 1;
  r.active_speed = 1;
  r.phys_state = 5;  // LinkUp
  r.link_layer = model().traits().link_layer;
  r.flags = IBV_QPF_GRH_REQUIRED;
  return Respond(call_, r);
}

// --- Protection domains, regions, windows
// ----------------------------------------------------------

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

// A modify of a QP to RESET or ERR. Both forms of the command begin alike.
bool LeadsToRest(const Invocation& call) {
  ib_uverbs_modify_qp request;
  if (call.core_in.size < sizeof request) return false;
  std::memcpy(&request, call.core_in.data, sizeof request);
  return (request.attr_mask & IBV_QP_STATE) != 0 &&
         (request.qp_state == IBV_QPS_RESET || request.qp_state == IBV_QPS_ERR);
}

int KernelImpl::Execute(Context& context, const Invocation& call) {
  ++command_count;
  // A kernel zeroes what it does not fill of the part that all drivers share. In the private part
  // it leaves the bytes that the library had there, and an older one fills less of it.
  if (call.core_out.size != 0) std::memset(call.core_out.data, 0, call.core_out.size);
  if (call.private_out.size != 0 && context.kernel_age != KernelAge::kOlder) {
    std::memset(call.private_out.data, 0, call.private_out.size);
  }
  switch (call.command) {
    case IB_USER_VERBS_CMD_POST_SEND:
    case IB_USER_VERBS_CMD_DEALLOC_PD:
    case IB_USER_VERBS_CMD_DEREG_MR:
    case IB_USER_VERBS_CMD_DEALLOC_MW:
    case IB_USER_VERBS_CMD_DESTROY_AH:
    case IB_USER_VERBS_CMD_CLOSE_XRCD:
    case IB_USER_VERBS_CMD_DESTROY_CQ:
    case IB_USER_VERBS_CMD_DESTROY_SRQ:
    case IB_USER_VERBS_CMD_DESTROY_QP:
      break;                           // a destroy that fails leaks; not a freedom
    case IB_USER_VERBS_CMD_MODIFY_QP:  // in both its forms
      // Nor is a way to RESET or ERR that fails: those are open from every state (WR-STATE-012).
      if (LeadsToRest(call)) break;
      [[fallthrough]];
    default:
      if (freedom.fail_command != 0 && --freedom.fail_command == 0) return freedom.fail_with;
  }
  return CommandHandler(*this, context, call).Run();
}

// --- The write() envelope
// --------------------------------------------------------------------------

namespace {

// Sizes of a command's core request and response; the rest of its bytes is private.
struct CoreSize {
  uint32_t command;
  size_t in, out;
};
constexpr CoreSize kCoreSizes[] = {
    {IB_USER_VERBS_CMD_GET_CONTEXT, sizeof(ib_uverbs_get_context),
     sizeof(ib_uverbs_get_context_resp)},
    {IB_USER_VERBS_CMD_QUERY_DEVICE, sizeof(ib_uverbs_query_device),
     sizeof(ib_uverbs_query_device_resp)},
    {IB_USER_VERBS_CMD_QUERY_PORT, sizeof(ib_uverbs_query_port), sizeof(ib_uverbs_query_port_resp)},
    {IB_USER_VERBS_CMD_ALLOC_PD, sizeof(ib_uverbs_alloc_pd), sizeof(ib_uverbs_alloc_pd_resp)},
    {IB_USER_VERBS_CMD_DEALLOC_PD, sizeof(ib_uverbs_dealloc_pd), 0},
    {IB_USER_VERBS_CMD_REG_MR, sizeof(ib_uverbs_reg_mr), sizeof(ib_uverbs_reg_mr_resp)},
    {IB_USER_VERBS_CMD_REREG_MR, sizeof(ib_uverbs_rereg_mr), sizeof(ib_uverbs_rereg_mr_resp)},
    {IB_USER_VERBS_CMD_DEREG_MR, sizeof(ib_uverbs_dereg_mr), 0},
    {IB_USER_VERBS_CMD_ALLOC_MW, sizeof(ib_uverbs_alloc_mw), sizeof(ib_uverbs_alloc_mw_resp)},
    {IB_USER_VERBS_CMD_DEALLOC_MW, sizeof(ib_uverbs_dealloc_mw), 0},
    {IB_USER_VERBS_CMD_CREATE_AH, sizeof(ib_uverbs_create_ah), sizeof(ib_uverbs_create_ah_resp)},
    {IB_USER_VERBS_CMD_DESTROY_AH, sizeof(ib_uverbs_destroy_ah), 0},
    {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, sizeof(ib_uverbs_create_comp_channel),
     sizeof(ib_uverbs_create_comp_channel_resp)},
    {IB_USER_VERBS_CMD_CREATE_CQ, sizeof(ib_uverbs_create_cq), sizeof(ib_uverbs_create_cq_resp)},
    {IB_USER_VERBS_CMD_RESIZE_CQ, sizeof(ib_uverbs_resize_cq), sizeof(ib_uverbs_resize_cq_resp)},
    {IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, sizeof(ib_uverbs_req_notify_cq), 0},
    {IB_USER_VERBS_CMD_DESTROY_CQ, sizeof(ib_uverbs_destroy_cq), sizeof(ib_uverbs_destroy_cq_resp)},
    {IB_USER_VERBS_CMD_OPEN_XRCD, sizeof(ib_uverbs_open_xrcd), sizeof(ib_uverbs_open_xrcd_resp)},
    {IB_USER_VERBS_CMD_CLOSE_XRCD, sizeof(ib_uverbs_close_xrcd), 0},
    {IB_USER_VERBS_CMD_CREATE_SRQ, sizeof(ib_uverbs_create_srq), sizeof(ib_uverbs_create_srq_resp)},
    {IB_USER_VERBS_CMD_CREATE_XSRQ, sizeof(ib_uverbs_create_xsrq),
     sizeof(ib_uverbs_create_srq_resp)},
    {IB_USER_VERBS_CMD_MODIFY_SRQ, sizeof(ib_uverbs_modify_srq), 0},
    {IB_USER_VERBS_CMD_QUERY_SRQ, sizeof(ib_uverbs_query_srq), sizeof(ib_uverbs_query_srq_resp)},
    {IB_USER_VERBS_CMD_DESTROY_SRQ, sizeof(ib_uverbs_destroy_srq),
     sizeof(ib_uverbs_destroy_srq_resp)},
    {IB_USER_VERBS_CMD_CREATE_QP, sizeof(ib_uverbs_create_qp), sizeof(ib_uverbs_create_qp_resp)},
    {IB_USER_VERBS_CMD_OPEN_QP, sizeof(ib_uverbs_open_qp), sizeof(ib_uverbs_create_qp_resp)},
    {IB_USER_VERBS_CMD_MODIFY_QP, sizeof(ib_uverbs_modify_qp), 0},
    {IB_USER_VERBS_CMD_QUERY_QP, sizeof(ib_uverbs_query_qp), sizeof(ib_uverbs_query_qp_resp)},
    {IB_USER_VERBS_CMD_DESTROY_QP, sizeof(ib_uverbs_destroy_qp), sizeof(ib_uverbs_destroy_qp_resp)},
    {IB_USER_VERBS_CMD_POST_SEND, sizeof(ib_uverbs_post_send), sizeof(ib_uverbs_post_send_resp)},
    {IB_USER_VERBS_CMD_ATTACH_MCAST, sizeof(ib_uverbs_attach_mcast), 0},
    {IB_USER_VERBS_CMD_DETACH_MCAST, sizeof(ib_uverbs_detach_mcast), 0},
};

}  // namespace

ssize_t KernelImpl::Write(Context& context, const void* bytes, size_t size) {
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  const auto* in = static_cast<const uint8_t*>(bytes);
  auto fail = [](int err) {
    errno = err;
    return ssize_t{-1};
  };
  ib_uverbs_cmd_hdr header;
  if (size < sizeof header) return fail(EINVAL);
  std::memcpy(&header, in, sizeof header);
  Invocation call;
  call.command = header.command & IB_USER_VERBS_CMD_COMMAND_MASK;
  call.extended = (header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
  if (call.extended) {
    ib_uverbs_ex_cmd_hdr extended;
    if (size < sizeof header + sizeof extended) return fail(EINVAL);
    std::memcpy(&extended, in + sizeof header, sizeof extended);
    const uint8_t* core = in + sizeof header + sizeof extended;
    size_t core_size = header.in_words * size_t{8};
    size_t private_size = extended.provider_in_words * size_t{8};
    if (sizeof header + sizeof extended + core_size + private_size != size) return fail(EINVAL);
    call.core_in = {core, core_size};
    call.private_in = {core + core_size, private_size};
    auto* out = reinterpret_cast<uint8_t*>(extended.response);
    call.core_out = {out, out != nullptr ? header.out_words * size_t{8} : 0};
    call.private_out = {out + call.core_out.size,
                        out != nullptr ? extended.provider_out_words * size_t{8} : 0};
  } else {
    if (header.in_words * size_t{4} != size) return fail(EINVAL);
    const CoreSize* core =
        std::find_if(std::begin(kCoreSizes), std::end(kCoreSizes),
                     [&](const CoreSize& c) { return c.command == call.command; });
    if (core == std::end(kCoreSizes)) return fail(EOPNOTSUPP);
    size_t body = size - sizeof header;
    if (body < core->in) return fail(EINVAL);
    call.core_in = {in + sizeof header, core->in};
    call.private_in = {in + sizeof header + core->in, body - core->in};
    if (core->out != 0) {
      size_t out_size = header.out_words * size_t{4};
      if (out_size < core->out) return fail(ENOSPC);
      auto* out = reinterpret_cast<uint8_t*>(Get<uint64_t>(in, sizeof header));
      call.core_out = {out, core->out};
      call.private_out = {out + core->out, out_size - core->out};
    }
  }
  if (int err = Execute(context, call)) return fail(err);
  return static_cast<ssize_t>(size);
}

}  // namespace qpexam::hosted
