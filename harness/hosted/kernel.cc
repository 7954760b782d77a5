#include "harness/hosted/kernel.h"

#include <fmt/format.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "harness/hosted/bytes.h"
#include "harness/hosted/event_channel.h"
#include "harness/hosted/kernel_impl.h"
#include "harness/hosted/lock_watch.h"

namespace qpexam::hosted {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

KernelImpl* g_kernel = nullptr;

Context& ContextOf(void* owner) { return *static_cast<Context*>(owner); }

int FdIoctl(void* owner, int, unsigned long request, void* argument) {
  Context& c = ContextOf(owner);
  return c.kernel->Ioctl(c, request, argument);
}
ssize_t FdWrite(void* owner, int, const void* bytes, size_t size) {
  Context& c = ContextOf(owner);
  return c.kernel->Write(c, bytes, size);
}
void* FdMmap(void* owner, int, void*, size_t length, int, int, off_t offset) {
  Context& c = ContextOf(owner);
  return c.kernel->Mmap(c, length, static_cast<uint64_t>(offset));
}
int FdMunmap(void* owner, void* address, size_t length) {
  Context& c = ContextOf(owner);
  return c.kernel->Munmap(c, address, length);
}
void FdClose(void* owner, int) {
  Context& c = ContextOf(owner);
  c.kernel->Close(c);
}

constexpr qpx_seam_fd_ops kFdOps = {FdIoctl, FdWrite, FdMmap, FdMunmap, FdClose};

int DeviceOpen(void* owner) {
  auto* device = static_cast<HostedDevice*>(owner);
  return device->kernel->Open(device);
}

const char* DeviceFile(void* owner, const char* path) {
  auto* device = static_cast<HostedDevice*>(owner);
  (void)device;
  std::string_view name(path);
  if (name == "fw_ver") return "0.0.0";
  if (name == "ports/1/pkeys/0") return "0xffff";
  if (name == "ports/1/gid_attrs/types/0") return "RoCE v2";
  return nullptr;
}

int DeviceNeighbour(void*, const uint8_t gid[16], uint8_t mac[6], uint16_t* vlan) {
  ibv_gid address;
  std::memcpy(address.raw, gid, sizeof address.raw);
  const MacAddress answer = NeighbourOf(address);
  std::memcpy(mac, answer.bytes, sizeof answer.bytes);
  *vlan = 0xffff;
  return 0;
}

int HookMmio(void* owner, void* address, const void* bytes, size_t size) {
  return static_cast<KernelImpl*>(owner)->MmioStore(static_cast<uint8_t*>(address), bytes, size);
}

// Rings that a library maps for itself.
void* HookAnonymousMmap(void* owner, size_t length, int, int) {
  auto* kernel = static_cast<KernelImpl*>(owner);
  Lock lock(kernel->fabric.mutex());
  void* data = kernel->memory.Allocate(length, GuardedMemory::Alignment::kPage);
  return data != nullptr ? data : MAP_FAILED;
}
int HookAnonymousMunmap(void* owner, void* address, size_t length) {
  auto* kernel = static_cast<KernelImpl*>(owner);
  Lock lock(kernel->fabric.mutex());
  kernel->memory.Free(static_cast<uint8_t*>(address), length);
  return 0;
}

model::DeviceLimits LimitsOf(const DeviceTraits& traits) {
  const ibv_device_attr& attr = traits.attr;
  model::DeviceLimits limits;
  limits.max_qp_wr = attr.max_qp_wr;
  limits.max_sge = attr.max_sge;
  limits.max_inline = traits.max_inline;
  limits.max_sge_rd = attr.max_sge_rd;
  limits.max_cqe = attr.max_cqe;
  limits.max_srq_wr = attr.max_srq_wr;
  limits.max_srq_sge = attr.max_srq_sge;
  limits.max_rd_atomic = attr.max_qp_rd_atom;
  limits.max_mr_size = attr.max_mr_size;
  if (traits.max_tso != 0) limits.max_tso = traits.max_tso;
  limits.max_mcast_grp = attr.max_mcast_grp;
  limits.max_mcast_qp_attach = attr.max_mcast_qp_attach;
  limits.atomic_cap = attr.atomic_cap;
  return limits;
}

model::FabricOptions FabricOptionsOf(const KernelOptions& options) {
  model::FabricOptions fabric;
  fabric.seed = options.freedom.seed;
  fabric.clock = model::ClockMode::kManual;
  return fabric;
}

}  // namespace

// --- Kernel ------------------------------------------------------------------------------------

Kernel::Kernel(const KernelOptions& options) : impl_(std::make_unique<KernelImpl>(options)) {}
Kernel::~Kernel() = default;
std::string Kernel::AddDevice(std::unique_ptr<DeviceModel> model) {
  return impl_->AddDevice(std::move(model));
}
model::Fabric& Kernel::fabric() { return impl_->fabric; }
void Kernel::SetObserver(SeamObserver* observer) { impl_->observer = observer; }
void Kernel::SetFreedom(const Freedom& freedom) { impl_->SetFreedom(freedom); }
bool Kernel::Pump() { return impl_->Pump(); }
void Kernel::RunUntilIdle() { impl_->RunUntilIdle(); }
bool Kernel::IsDevicePage(const void* address) const { return impl_->IsDevicePage(address); }
uint64_t Kernel::commands() const { return impl_->command_count; }

// About as many commands as a Program of two QPs makes.
constexpr uint32_t kMostCommandsBeforeFailure = 24;

Freedom FreedomOf(uint64_t seed) {
  Freedom f;
  f.seed = seed;
  if (seed <= 1) return f;
  // Each freedom on or off by one bit of the mixed seed.
  const uint64_t bits = seed * 0x9e3779b97f4a7c15u >> 40;
  if (bits & 1) f.qp_number_step = 4096;
  if (bits & 2) f.first_qp_number = 0xfff000;
  if (bits & 4) f.key_high_bits = 0x80000000;
  f.late_completions = bits & 8;
  f.reorder_across_qps = bits & 16;
  f.write_only = bits & 32;
  f.reuse_qp_numbers = bits & 64;
  if (bits & 128) f.kernel_age = bits & 256 ? KernelAge::kOlder : KernelAge::kNewer;
  // One seed in eight: most Programs end where their set-up fails.
  if ((bits >> 9 & 7) == 0) f.fail_command = 1 + (bits >> 12) % kMostCommandsBeforeFailure;
  return f;
}

// --- KernelImpl: devices and contexts ------------------------------------------------------------

KernelImpl::KernelImpl(const KernelOptions& options)
    : fabric(FabricOptionsOf(options)), freedom(options.freedom) {
  assert(g_kernel == nullptr && "one Kernel at a time");
  g_kernel = this;
  next_qp_ = freedom.first_qp_number;
  random_ = freedom.seed;
  qpx_seam_hooks hooks = {};
  hooks.owner = this;
  hooks.mmio_store = HookMmio;
  hooks.anonymous_mmap = HookAnonymousMmap;
  hooks.anonymous_munmap = HookAnonymousMunmap;
  if (options.watch_locks) hooks.lock = LockWatch::Hook;
  qpx_seam_set_hooks(&hooks);
}

KernelImpl::~KernelImpl() {
  for (const auto& device : devices_) qpx_seam_remove_device(device->name.c_str());
  for (const auto& context : contexts_) {
    if (context->fd >= 0) Close(*context);
    for (auto& [offset, m] : context->memory) FreeMemory(m);
  }
  qpx_seam_set_hooks(nullptr);
  g_kernel = nullptr;
}

std::string KernelImpl::AddDevice(std::unique_ptr<DeviceModel> model) {
  auto device = std::make_unique<HostedDevice>();
  device->kernel = this;
  const DeviceTraits& traits = model->traits();
  unsigned index = 0;
  for (const auto& other : devices_) {
    if (std::string_view(other->model->traits().provider) == traits.provider) ++index;
  }
  device->name = fmt::format("{}{}", traits.name_prefix, index);
  device->guid = 0x0200000000000000u + devices_.size();
  device->model = std::move(model);

  qpx_seam_device seam = {};
  seam.name = device->name.c_str();
  seam.modalias = traits.modalias;
  seam.driver_id = traits.driver_id;
  seam.abi_version = traits.abi_version;
  seam.num_ports = traits.attr.phys_port_cnt;
  seam.node_guid = device->guid;
  seam.owner = device.get();
  seam.sysfs_file = DeviceFile;
  seam.open = DeviceOpen;
  seam.neighbour = DeviceNeighbour;
  if (int err = qpx_seam_add_device(&seam)) {
    errno = err;
    return "";
  }
  devices_.push_back(std::move(device));
  return devices_.back()->name;
}

int KernelImpl::Open(HostedDevice* device) {
  Lock lock(fabric.mutex());
  int fd = eventfd(0, EFD_CLOEXEC);
  if (fd < 0) return -1;
  // Closed contexts stay until the last of their memory is unmapped.
  contexts_.erase(std::remove_if(contexts_.begin(), contexts_.end(),
                                 [](const auto& c) { return c->fd < 0 && c->memory.empty(); }),
                  contexts_.end());
  auto context = std::make_unique<Context>();
  context->kernel = this;
  context->device = device;
  context->fd = fd;
  context->write_only = freedom.write_only;
  context->kernel_age = freedom.kernel_age;
  context->engine = fabric.OpenDevice(LimitsOf(device->model->traits()), this);
  context->engine->owner = context.get();
  ibv_gid gid = {};
  // fe80::<guid>, as RoCE's first entry is.
  gid.global.subnet_prefix = htobe64(0xfe80000000000000u);
  gid.global.interface_id = htobe64(device->guid);
  context->engine->gids.assign(1, gid);
  if (int err = qpx_seam_bind_fd(fd, &kFdOps, context.get())) {
    fabric.CloseDevice(context->engine);
    close(fd);
    errno = err;
    return -1;
  }
  contexts_.push_back(std::move(context));
  return fd;
}

void KernelImpl::Close(Context& c) {
  Lock lock(fabric.mutex());
  if (c.fd < 0) return;
  // What the context made ends with it: handles that others have of its QPs too.
  for (const auto& other : contexts_) {
    other->qps.ForEach([&](HostedQp& qp) {
      if (&qp.qp->device() == c.engine) DestroyQp(qp);
    });
  }
  c.qps.ForEach([&](HostedQp& qp) { DestroyQp(qp); });
  c.srqs.ForEach([&](HostedSrq& srq) { DestroySrq(srq); });
  c.cqs.ForEach([&](HostedCq& cq) { DestroyCq(cq); });
  c.ahs.ForEach([&](HostedAh& ah) { ahs_.erase(ah.facts.number); });
  c.xrcds.ForEach([&](HostedXrcd& xrcd) { CloseXrcd(xrcd); });
  fabric.CloseDevice(c.engine);  // takes what is left with it
  c.engine = nullptr;
  c.fd = -1;
}

int KernelImpl::Ioctl(Context& context, unsigned long, void* argument) {
  auto* header = static_cast<ib_uverbs_ioctl_hdr*>(argument);
  Lock lock(fabric.mutex());
  int err = context.write_only ? ENOTTY : Native(context, header);
  if (err == 0) return 0;
  errno = err;
  return -1;
}

// --- Memory ------------------------------------------------------------------------------------

Mapping KernelImpl::Allocate(Context& context, size_t size, HostedObject* owner) {
  Mapping m;
  m.data = memory.Allocate(size);
  m.size = size;
  m.offset = next_offset_;
  next_offset_ += (size + 0xfff) & ~size_t{0xfff};
  MappedMemory record;
  record.mapping = m;
  context.memory.emplace(m.offset, record);
  owner->mappings.push_back(m.offset);
  return m;
}

Mapping KernelImpl::AllocateDevicePages(Context& context, size_t size, uint32_t number,
                                        HostedObject* owner) {
  Mapping m;
  m.size = (size + 0xfff) & ~size_t{0xfff};
  m.data = memory.Allocate(m.size, GuardedMemory::Alignment::kPage);
  m.offset = next_offset_;
  m.owner = number;
  next_offset_ += m.size;
  MappedMemory record;
  record.mapping = m;
  record.device_page = true;
  context.memory.emplace(m.offset, record);
  pages_[reinterpret_cast<uintptr_t>(m.data)] = Page{&context, m};
  owner->mappings.push_back(m.offset);
  return m;
}

void KernelImpl::FreeMemory(const MappedMemory& m) {
  if (m.device_page) pages_.erase(reinterpret_cast<uintptr_t>(m.mapping.data));
  memory.Free(m.mapping.data, m.mapping.size);
}

void KernelImpl::ReleaseMemory(Context& context, HostedObject& object) {
  for (uint64_t offset : object.mappings) {
    auto it = context.memory.find(offset);
    if (it == context.memory.end()) continue;
    it->second.owned = false;
    if (it->second.mapped == 0) {
      FreeMemory(it->second);
      context.memory.erase(it);
    }
  }
  object.mappings.clear();
}

namespace {
class PageAllocator : public SharedMemory {
 public:
  explicit PageAllocator(GuardedMemory& memory) : memory_(memory) {}
  Mapping Allocate(size_t size) override {
    Mapping m;
    m.size = (size + 0xfff) & ~size_t{0xfff};
    m.data = memory_.Allocate(m.size, GuardedMemory::Alignment::kPage);
    return m;
  }
  Mapping AllocateDevicePages(size_t size, uint32_t owner) override {
    Mapping m = Allocate(size);
    m.owner = owner;
    return m;
  }
  Mapping Mapped(uint64_t) override { return Mapping(); }

 private:
  GuardedMemory& memory_;
};
}  // namespace

void* KernelImpl::Mmap(Context& context, size_t length, uint64_t offset) {
  Lock lock(fabric.mutex());
  auto it = context.memory.find(offset);
  if (it == context.memory.end()) {
    PageAllocator pages(memory);
    Mapping page = context.model().MapDevicePage(offset, length, pages);
    if (page.data == nullptr) {
      errno = EINVAL;
      return MAP_FAILED;
    }
    page.offset = offset;
    MappedMemory record;
    record.mapping = page;
    record.owned = false;
    record.device_page = true;
    it = context.memory.emplace(offset, record).first;
    pages_[reinterpret_cast<uintptr_t>(page.data)] = Page{&context, page};
  }
  MappedMemory& m = it->second;
  if (length > m.mapping.size) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  ++m.mapped;
  context.mapped_[m.mapping.data] = offset;
  return m.mapping.data;
}

int KernelImpl::Munmap(Context& context, void* address, size_t length) {
  Lock lock(fabric.mutex());
  auto found = context.mapped_.find(address);
  if (found == context.mapped_.end()) {
    Misuse("kernel", fmt::format("munmap of {} bytes that were not mapped", length));
    errno = EINVAL;
    return -1;
  }
  auto it = context.memory.find(found->second);
  MappedMemory& m = it->second;
  if (--m.mapped == 0) {
    context.mapped_.erase(found);
    if (!m.owned) {
      FreeMemory(m);
      context.memory.erase(it);
    }
  }
  return 0;
}

bool KernelImpl::IsDevicePage(const void* address) {
  Lock lock(fabric.mutex());
  return pages_.count(reinterpret_cast<uintptr_t>(address)) != 0;
}

int KernelImpl::MmioStore(uint8_t* address, const void* bytes, size_t size) {
  uintptr_t at = reinterpret_cast<uintptr_t>(address);
  Lock lock(fabric.mutex());
  auto it = pages_.upper_bound(at);
  if (it == pages_.begin()) return 0;
  --it;
  const Page page = it->second;
  uint64_t offset = at - it->first;
  if (offset >= page.mapping.size) return 0;
  if (size > page.mapping.size - offset) {
    Misuse("wqe", fmt::format("a store of {} bytes runs {} bytes over the end of its device page",
                              size, size - (page.mapping.size - offset)));
  }
  std::memcpy(address, bytes, std::min<size_t>(size, page.mapping.size - offset));
  const std::optional<Doorbell> rung = page.context->model().OnWrite(
      page.mapping, offset, Bytes{static_cast<const uint8_t*>(bytes), size});
  if (!rung.has_value()) return 1;
  const Doorbell& bell = *rung;
  switch (bell.kind) {
    case Doorbell::Kind::kSend: {
      auto qp = qps_.find(bell.number);
      if (qp == qps_.end() || qp->second->context != page.context) {
        Misuse("wqe", fmt::format("doorbell for QP {:#x}, which is none", bell.number));
        break;
      }
      qp->second->facts.sq.doorbell = bell.value;
      ReadSendQueue(*qp->second);
      break;
    }
    case Doorbell::Kind::kReceive: {
      auto qp = qps_.find(bell.number);
      if (qp == qps_.end() || qp->second->context != page.context) {
        Misuse("wqe", fmt::format("receive doorbell for QP {:#x}, which is none", bell.number));
        break;
      }
      qp->second->facts.rq.doorbell = bell.value;
      // Where the library flushes by itself, the device's own word must not come behind it.
      if (qp->second->qp->state() == IBV_QPS_ERR &&
          page.context->model().traits().library_flushes) {
        ReadReceiveQueue(*qp->second);
      }
      break;
    }
    case Doorbell::Kind::kShared: {
      bool found = false;
      page.context->srqs.ForEach([&](HostedSrq& srq) {
        if (srq.facts.number != bell.number) return;
        srq.facts.queue.doorbell = bell.value;
        found = true;
      });
      if (!found) {
        Misuse("wqe", fmt::format("doorbell for SRQ {:#x}, which is none", bell.number));
      }
      break;
    }
    case Doorbell::Kind::kCqConsumer: {
      auto cq = cqs_.find(bell.number);
      if (cq == cqs_.end() || cq->second->context != page.context) {
        Misuse("kernel", fmt::format("doorbell for CQ {:#x}, which is none", bell.number));
        break;
      }
      cq->second->facts.queue.doorbell = bell.value;
      break;
    }
    case Doorbell::Kind::kArmCq: {
      auto cq = cqs_.find(bell.number);
      if (cq == cqs_.end() || cq->second->context != page.context) {
        Misuse("kernel", fmt::format("arms CQ {:#x}, which is none", bell.number));
        break;
      }
      if (!bell.keeps_value) cq->second->facts.queue.doorbell = bell.value;
      Arm(*cq->second, bell.arm);
      break;
    }
  }
  return 1;
}

void KernelImpl::Misuse(std::string_view kind, const std::string& what) {
  if (observer != nullptr) observer->OnMisuse(kind, what);
}

}  // namespace qpexam::hosted
