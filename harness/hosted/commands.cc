// Which command it is, and those that ask for the device.
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/hosted/command_handler.h"
#include "harness/hosted/event_channel.h"

namespace qpexam::hosted {
namespace {

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

// A modify of a QP to RESET or ERR. Both forms of the command begin alike.
bool LeadsToRest(const Invocation& call) {
  ib_uverbs_modify_qp request;
  if (call.core_in.size < sizeof request) return false;
  std::memcpy(&request, call.core_in.data, sizeof request);
  return (request.attr_mask & IBV_QP_STATE) != 0 &&
         (request.qp_state == IBV_QPS_RESET || request.qp_state == IBV_QPS_ERR);
}

}  // namespace

int CommandHandler::Private(Command& command, HostedObject* object) {
  command.kernel_age = c_.kernel_age;
  if (object == nullptr) {
    return model().Answer(command, call_.private_in, call_.private_out).err;
  }
  ObjectMemory memory(k_, c_, *object);
  command.memory = &memory;
  return model().Answer(command, call_.private_in, call_.private_out).err;
}

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

}  // namespace qpexam::hosted
