// libqpexam_packaged.so: under LD_PRELOAD it gives the installed libibverbs, and the installed
// provider's plugin, a device of our emulated kernel. `qpexam exec` sets it up.
//
// libibverbs looks for devices in /sys/class/infiniband and its like, opens
// /dev/infiniband/uverbs0, and talks to that fd. Those calls are answered here; any other path, fd
// and address goes to libc. Nothing else of the program changes: it is the distribution's own
// binaries that run.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "harness/packaged/device_window.h"
#include "harness/packaged/emulation.h"
#include "harness/packaged/environment.h"
#include "harness/preload_control/control.h"

extern "C" {
#include "third_party/rdma_core/seam/calls.h"
#include "third_party/rdma_core/seam/seam.h"
}

namespace {

using qpexam::packaged::DeviceWindows;
using qpexam::packaged::Emulation;
using qpexam::packaged::Inside;
using qpexam::packaged::t_inside;

// libc's function of that name. Resolved at its first use, which may be before our constructors.
template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

constexpr int kMostFds = 1 << 16;
std::atomic<bool> g_ours[kMostFds];
bool IsOurs(int fd) { return t_inside == 0 && fd >= 0 && fd < kMostFds && g_ours[fd].load(); }

bool IsDevice(const char* path) {
  return t_inside == 0 && path != nullptr &&
         std::strcmp(path, qpexam::packaged::kDeviceNode) == 0 &&
         std::getenv(qpexam::packaged::kProviderVariable) != nullptr;
}

// Where the device is described: /sys/class/infiniband, infiniband_verbs and what lies below.
class SysPath {
 public:
  explicit SysPath(const char* path) : path_(path) {
    constexpr std::string_view kSys = "/sys", kOurs = "/sys/class/infiniband";
    if (t_inside > 0 || path == nullptr || std::strncmp(path, kOurs.data(), kOurs.size()) != 0)
      return;
    const char* root = std::getenv(qpexam::packaged::kRootVariable);
    if (root == nullptr) return;
    moved_ = std::string(root) + (path + kSys.size());
    path_ = moved_.c_str();
  }
  operator const char*() const { return path_; }

 private:
  std::string moved_;
  const char* path_;
};

int OpenDevice() {
  Inside inside;
  Emulation* emulation = Emulation::Get();
  if (emulation == nullptr) return errno = ENODEV, -1;
  const int fd = emulation->Open();
  if (fd >= kMostFds) {
    qpx_seam_close(fd);
    return errno = EMFILE, -1;
  }
  if (fd >= 0) g_ours[fd] = true;
  return fd;
}

template <typename Stat>
int DescribeDevice(Stat* out) {
  std::memset(out, 0, sizeof *out);
  out->st_mode = S_IFCHR | 0666;
  out->st_rdev = makedev(qpexam::packaged::kMajor, qpexam::packaged::kMinor);
  out->st_nlink = 1;
  return 0;
}

int StoreToDevice(void* address, const void* bytes, size_t size) {
  Inside inside;
  return qpx_seam_active_hooks.mmio_store(qpx_seam_active_hooks.owner, address, bytes, size);
}

void TellFindings() {
  Inside inside;
  if (Emulation* emulation = Emulation::IfMade()) emulation->TellFindings();
}

void* MapDevice(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  Inside inside;
  void* mapped = qpx_seam_mmap(address, length, protection, flags, fd, offset);
  if (mapped == MAP_FAILED || !Emulation::Get()->kernel().IsDevicePage(mapped)) return mapped;
  void* window = DeviceWindows::Open(mapped, length);
  if (window != nullptr) return window;
  const int saved = errno;
  qpx_seam_munmap(mapped, length);
  errno = saved;
  return MAP_FAILED;
}

// --- for our own programs: control.h
void Settle() {
  Inside inside;
  Emulation::Get()->kernel().RunUntilIdle();
}
void Advance(uint64_t nanoseconds) {
  Inside inside;
  qpexam::hosted::Kernel& kernel = Emulation::Get()->kernel();
  kernel.Pump();
  kernel.fabric().AdvanceBy(nanoseconds);
  kernel.Pump();
}
int Fault(uint32_t qp_number, int point, unsigned count, unsigned skip) {
  Inside inside;
  constexpr unsigned kMost = 1024;
  namespace model = qpexam::model;
  model::Qp* qp = Emulation::Get()->kernel().fabric().FindQp(model::QpNum(qp_number));
  if (qp == nullptr) return 0;
  for (unsigned i = 0; i < skip && i < kMost; ++i) qp->AddFaultPoint(model::FaultPoint::kPass);
  for (unsigned i = 0; i < count && i < kMost; ++i)
    qp->AddFaultPoint(static_cast<model::FaultPoint>(point));
  return 1;
}
void Begin(uint64_t seed) {
  Inside inside;
  qpexam::hosted::Freedom freedom = qpexam::hosted::FreedomOf(seed);
  // On an older kernel the installed libraries ask the machine's network for addresses.
  freedom.kernel_age = qpexam::hosted::KernelAge::kToday;
  Emulation::Get()->kernel().SetFreedom(freedom);
}
void Watch(void* qp_ex) {
  Inside inside;
  Emulation::Get()->oracle().Watch(static_cast<ibv_qp_ex*>(qp_ex));
}
void TakeFindings(void* owner, void (*one)(void*, const qpexam_packaged_finding*)) {
  std::vector<qpexam::hosted::SeamFinding> findings;
  {
    Inside inside;
    findings = Emulation::Get()->oracle().Take();
  }
  for (const qpexam::hosted::SeamFinding& f : findings) {
    const qpexam_packaged_finding plain = {f.kind.c_str(), f.clause.c_str(), f.what.c_str(),
                                           f.raw.c_str()};
    one(owner, &plain);
  }
}
constexpr qpexam_packaged_control kControl = {Settle, Advance, Fault, Begin, Watch, TakeFindings};

}  // namespace

#define QPEXAM_EXPORT extern "C" __attribute__((visibility("default")))

QPEXAM_EXPORT const qpexam_packaged_control* qpexam_packaged_control_1() {
  Emulation* emulation = Emulation::Get();
  if (emulation == nullptr) return nullptr;
  emulation->TakeOverClock();
  return &kControl;
}

// --- libibverbs ----------------------------------------------------------------------------------

QPEXAM_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  static auto* const real = Real<ibv_context* (*)(ibv_device*)>("ibv_open_device");
  ibv_context* context = real(device);
  if (context == nullptr || !IsOurs(context->cmd_fd)) return context;
  Inside inside;
  Emulation::Get()->Attach(context);
  return context;
}

// --- files ---------------------------------------------------------------------------------------

#define QPEXAM_OPEN(name)                                                           \
  QPEXAM_EXPORT int name(const char* path, int flags, ...) {                        \
    va_list more;                                                                   \
    va_start(more, flags);                                                          \
    const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                                   \
    if (IsDevice(path)) return OpenDevice();                                        \
    static auto* const real = Real<int (*)(const char*, int, ...)>(#name);          \
    return real(SysPath(path), flags, mode);                                        \
  }
QPEXAM_OPEN(open)
QPEXAM_OPEN(open64)

#define QPEXAM_OPENAT(name)                                                         \
  QPEXAM_EXPORT int name(int folder, const char* path, int flags, ...) {            \
    va_list more;                                                                   \
    va_start(more, flags);                                                          \
    const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                                   \
    if (IsDevice(path)) return OpenDevice();                                        \
    static auto* const real = Real<int (*)(int, const char*, int, ...)>(#name);     \
    return real(folder, SysPath(path), flags, mode);                                \
  }
QPEXAM_OPENAT(openat)
QPEXAM_OPENAT(openat64)

#define QPEXAM_STAT(name, type)                                                \
  QPEXAM_EXPORT int name(const char* path, struct type* out) noexcept {        \
    if (IsDevice(path)) return DescribeDevice(out);                            \
    static auto* const real = Real<int (*)(const char*, struct type*)>(#name); \
    return real(SysPath(path), out);                                           \
  }
QPEXAM_STAT(stat, stat)
QPEXAM_STAT(stat64, stat64)
QPEXAM_STAT(lstat, stat)
QPEXAM_STAT(lstat64, stat64)

#define QPEXAM_FSTAT(name, type)                                       \
  QPEXAM_EXPORT int name(int fd, struct type* out) noexcept {          \
    if (IsOurs(fd)) return DescribeDevice(out);                        \
    static auto* const real = Real<int (*)(int, struct type*)>(#name); \
    return real(fd, out);                                              \
  }
QPEXAM_FSTAT(fstat, stat)
QPEXAM_FSTAT(fstat64, stat64)

QPEXAM_EXPORT int access(const char* path, int mode) noexcept {
  if (IsDevice(path)) return 0;
  static auto* const real = Real<int (*)(const char*, int)>("access");
  return real(SysPath(path), mode);
}

QPEXAM_EXPORT DIR* opendir(const char* path) {
  static auto* const real = Real<DIR* (*)(const char*)>("opendir");
  return real(SysPath(path));
}

#define QPEXAM_FOPEN(name)                                                      \
  QPEXAM_EXPORT FILE* name(const char* path, const char* mode) {                \
    static auto* const real = Real<FILE* (*)(const char*, const char*)>(#name); \
    return real(SysPath(path), mode);                                           \
  }
QPEXAM_FOPEN(fopen)
QPEXAM_FOPEN(fopen64)

QPEXAM_EXPORT ssize_t readlink(const char* path, char* out, size_t size) noexcept {
  static auto* const real = Real<ssize_t (*)(const char*, char*, size_t)>("readlink");
  return real(SysPath(path), out, size);
}

// Through netlink libibverbs would see this machine's own devices; without, it reads /sys.
QPEXAM_EXPORT int socket(int domain, int type, int protocol) noexcept {
  constexpr int kNetlinkRdma = 20;
  if (t_inside == 0 && domain == AF_NETLINK && protocol == kNetlinkRdma)
    return errno = EPROTONOSUPPORT, -1;
  static auto* const real = Real<int (*)(int, int, int)>("socket");
  return real(domain, type, protocol);
}

// --- the device's fd -----------------------------------------------------------------------------

QPEXAM_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list more;
  va_start(more, request);
  void* argument = va_arg(more, void*);
  va_end(more);
  static auto* const real = Real<int (*)(int, unsigned long, ...)>("ioctl");
  if (!IsOurs(fd)) return real(fd, request, argument);
  Inside inside;
  return qpx_seam_ioctl(fd, request, argument);
}

QPEXAM_EXPORT ssize_t write(int fd, const void* bytes, size_t size) {
  static auto* const real = Real<ssize_t (*)(int, const void*, size_t)>("write");
  if (!IsOurs(fd)) return real(fd, bytes, size);
  Inside inside;
  return qpx_seam_write(fd, bytes, size);
}

QPEXAM_EXPORT int close(int fd) {
  static auto* const real = Real<int (*)(int)>("close");
  if (!IsOurs(fd)) return real(fd);
  g_ours[fd] = false;
  Inside inside;
  const int result = qpx_seam_close(fd);
  TellFindings();
  return result;
}

#define QPEXAM_MMAP(name, offset_type)                                                           \
  QPEXAM_EXPORT void* name(void* address, size_t length, int protection, int flags, int fd,      \
                           offset_type offset) noexcept {                                        \
    static auto* const real = Real<void* (*)(void*, size_t, int, int, int, offset_type)>(#name); \
    if ((flags & MAP_ANONYMOUS) || !IsOurs(fd))                                                  \
      return real(address, length, protection, flags, fd, offset);                               \
    return MapDevice(address, length, protection, flags, fd, offset);                            \
  }
QPEXAM_MMAP(mmap, off_t)
QPEXAM_MMAP(mmap64, off64_t)

QPEXAM_EXPORT int munmap(void* address, size_t length) noexcept {
  static auto* const real = Real<int (*)(void*, size_t)>("munmap");
  if (t_inside > 0 || Emulation::IfMade() == nullptr) return real(address, length);
  Inside inside;
  if (void* device = DeviceWindows::Close(address)) address = device;
  return qpx_seam_munmap(address, length);
}

// --- the signal by which stores to device pages come ---------------------------------------------

QPEXAM_EXPORT int sigaction(int signal, const struct sigaction* wanted,
                            struct sigaction* before) noexcept {
  static auto* const real =
      Real<int (*)(int, const struct sigaction*, struct sigaction*)>("sigaction");
  if (signal != SIGSEGV || t_inside > 0) return real(signal, wanted, before);
  return DeviceWindows::Action(wanted, before);
}

QPEXAM_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  static auto* const real = Real<sighandler_t (*)(int, sighandler_t)>("signal");
  if (number != SIGSEGV || t_inside > 0) return real(number, handler);
  struct sigaction wanted = {}, before = {};
  wanted.sa_handler = handler;
  wanted.sa_flags = SA_RESTART;
  DeviceWindows::Action(&wanted, &before);
  return before.sa_handler;
}

namespace {

__attribute__((constructor)) void Begins() {
  Inside inside;
  DeviceWindows::Watch(
      StoreToDevice, {Real<int (*)(int, const struct sigaction*, struct sigaction*)>("sigaction")});
}

__attribute__((destructor)) void Ends() {
  if (Emulation* emulation = Emulation::IfMade()) {
    Inside inside;
    emulation->TakeOverClock();
    emulation->TellFindings();
  }
}

}  // namespace
