// Devices and contexts: listed, opened, described, closed.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "reference/provider/async_events.h"
#include "reference/provider/control.h"
#include "reference/provider/kernel_commands.h"
#include "reference/provider/objects.h"
#include "reference/provider/operations.h"
#include "reference/provider/port.h"
#include "third_party/rdma_core/seam/seam.h"

namespace qpexam::provider {
namespace {

constexpr const char* kModalias = "qpexam:reference";
constexpr uint32_t kAbiVersion = 1;

// --- Operations of a context ---------------------------------------------------------------------

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t attr_size) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  const Context* c = Of(context);
  const ibv_device_attr_ex all = DeviceAttributes(c->number, c->device->limits());
  memcpy(attr, &all, std::min(attr_size, sizeof(all)));
  return 0;
}

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  if (port != 1) return EINVAL;
  *attr = PortAttributes(Of(context)->device->limits());
  return 0;
}

int QueryRtValues(ibv_context* /*context*/, ibv_values_ex* values) {
  // The virtual clock, which is also the clock of the completion timestamps.
  const uint64_t now = Fabric().Now();
  if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
    values->raw_clock.tv_sec = static_cast<time_t>(now / 1'000'000'000);
    values->raw_clock.tv_nsec = static_cast<long>(now % 1'000'000'000);
  }
  values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
  return 0;
}

void FreeContext(ibv_context* context) {
  Context* c = Of(context);
  Fabric().CloseDevice(c->device);
  verbs_uninit_context(&c->verbs);
  delete c;
}

const verbs_context_ops& Operations() {
  static const verbs_context_ops ops = [] {
    verbs_context_ops o = {};
    o.query_device_ex = QueryDeviceEx;
    o.query_port = QueryPort;
    o.query_rt_values = QueryRtValues;
    o.free_context = FreeContext;

    o.alloc_pd = AllocPd;
    o.dealloc_pd = DeallocPd;
    o.alloc_td = AllocTd;
    o.dealloc_td = DeallocTd;
    o.alloc_parent_domain = AllocParentDomain;
    o.reg_mr = RegMr;
    o.rereg_mr = ReregMr;
    o.dereg_mr = DeregMr;
    o.alloc_mw = AllocMw;
    o.dealloc_mw = DeallocMw;
    o.bind_mw = BindMw;
    o.create_ah = CreateAh;
    o.destroy_ah = DestroyAh;
    o.open_xrcd = OpenXrcd;
    o.close_xrcd = CloseXrcd;

    o.create_cq = CreateCq;
    o.create_cq_ex = CreateCqEx;
    o.destroy_cq = DestroyCq;
    o.resize_cq = ResizeCq;
    o.poll_cq = PollCq;
    o.req_notify_cq = ReqNotifyCq;
    o.cq_event = CqEventRead;
    o.async_event = AsyncEventRead;

    o.create_srq = CreateSrq;
    o.create_srq_ex = CreateSrqEx;
    o.modify_srq = ModifySrq;
    o.query_srq = QuerySrq;
    o.destroy_srq = DestroySrq;
    o.get_srq_num = GetSrqNum;
    o.post_srq_recv = PostSrqRecv;

    o.create_qp = CreateQp;
    o.create_qp_ex = CreateQpEx;
    o.open_qp = OpenQp;
    o.modify_qp = ModifyQp;
    o.query_qp = QueryQp;
    o.destroy_qp = DestroyQp;
    o.attach_mcast = AttachMcast;
    o.detach_mcast = DetachMcast;
    o.post_send = PostSend;
    o.post_recv = PostRecv;
    return o;
  }();
  return ops;
}

// --- The driver, as libibverbs knows it ----------------------------------------------------------

// libibverbs looks a device of a known driver up in every driver's table, without asking whether it
// has one.
constexpr verbs_match_ent kMatches[] = {
    {.u = {.modalias = kModalias}, .kind = VERBS_MATCH_MODALIAS},
    {.kind = VERBS_MATCH_SENTINEL},
};

verbs_device* AllocDevice(verbs_sysfs_dev* sysfs) {
  auto* device = new (std::nothrow) Device();
  if (device == nullptr) return nullptr;
  device->number = atoi(sysfs->ibdev_name + strlen("qpexam"));
  // Without it libibverbs clears the optional access bits before we see them.
  device->verbs.core_support |= IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
  return &device->verbs;
}

void UninitDevice(verbs_device* device) { delete reinterpret_cast<Device*>(device); }

// Owns cmd_fd from the first line on, as libibverbs demands.
verbs_context* AllocContext(ibv_device* device, int cmd_fd, void* /*private_data*/) {
  auto* context = new Context();
  if (verbs_init_context(&context->verbs, device, cmd_fd, RDMA_DRIVER_UNKNOWN) != 0) {
    delete context;
    return nullptr;
  }
  context->async_events = EventPipe::Create(EventPipe::Format::kAsync);
  if (context->async_events == nullptr) {
    verbs_uninit_context(&context->verbs);
    delete context;
    return nullptr;
  }
  context->number = Of(device)->number;
  context->device = Fabric().OpenDevice(model::DeviceLimits(), AsyncEventSink());
  context->device->owner = context;
  for (int i = 0; i < kGidTableLength; ++i) {
    GidEntry entry;
    if (GidAt(context->number, i, &entry)) context->device->gids.push_back(entry.gid);
  }
  ibv_context& verbs = context->verbs.context;
  verbs.async_fd = context->async_events->read_fd();
  verbs.num_comp_vectors = 1;
  verbs_set_ops(&context->verbs, &Operations());
  return &context->verbs;
}

constexpr verbs_device_ops MakeDriver() {
  verbs_device_ops ops = {};
  ops.name = "qpexam";
  ops.match_min_abi_version = kAbiVersion;
  ops.match_max_abi_version = kAbiVersion;
  ops.match_table = kMatches;
  ops.alloc_context = AllocContext;
  ops.alloc_device = AllocDevice;
  ops.uninit_device = UninitDevice;
  return ops;
}
constexpr verbs_device_ops kDriver = MakeDriver();

// --- Registration with the seam ------------------------------------------------------------------

const char* SysfsFile(void* /*owner*/, const char* path) {
  if (strcmp(path, "fw_ver") == 0) return "1.0.0";
  if (strcmp(path, "ports/1/pkeys/0") == 0) return kPkeyText;
  return nullptr;
}

struct Registration {
  std::mutex mutex;
  int count = 0;
  std::string names[kMaxDevices];  // the seam keeps the pointers
  bool driver_known = false;
};
Registration& Registered() {
  static Registration* registration = new Registration;
  return *registration;
}

int OpenOfOwner(void* owner) {
  return OpenCommandFd(static_cast<int>(static_cast<std::string*>(owner) - Registered().names));
}

int Add(int number) {
  std::string& name = Registered().names[number];
  name = DeviceName(number);
  qpx_seam_device device = {};
  device.name = name.c_str();
  device.modalias = kModalias;
  device.abi_version = kAbiVersion;
  device.num_ports = 1;
  device.node_guid = NodeGuid(number);
  device.owner = &name;
  device.sysfs_file = SysfsFile;
  device.open = OpenOfOwner;
  return qpx_seam_add_device(&device);
}

// Runs when the program starts; alwayslink keeps it.
__attribute__((constructor)) void RegisterOnStart() {
  const char* wanted = getenv("QPEXAM_DEVICES");
  int count = wanted != nullptr ? atoi(wanted) : 1;
  if (count < 0 || count > kMaxDevices) {
    fprintf(stderr, "qpexam: QPEXAM_DEVICES=%s: want a number from 0 to %d; using 1\n", wanted,
            kMaxDevices);
    count = 1;
  }
  if (int err = SetDeviceCount(count); err != 0)
    fprintf(stderr, "qpexam: cannot register %s: %s\n", DeviceName(0).c_str(), strerror(err));
}

}  // namespace

std::string DeviceName(int number) { return "qpexam" + std::to_string(number); }

int SetDeviceCount(int count) {
  if (count < 0 || count > kMaxDevices) return EINVAL;
  Registration& all = Registered();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.driver_known) {
    verbs_register_driver(&kDriver);
    all.driver_known = true;
  }
  int err = 0;
  while (all.count < count && err == 0) {
    err = Add(all.count);
    if (err == 0) ++all.count;
  }
  while (all.count > count && err == 0) {
    err = qpx_seam_remove_device(all.names[all.count - 1].c_str());
    if (err == 0) --all.count;
  }
  return err;
}

int DeviceCount() {
  Registration& all = Registered();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.count;
}

bool IsReference(ibv_context* context) {
  return reinterpret_cast<verbs_device*>(context->device)->ops == &kDriver;
}

}  // namespace qpexam::provider
