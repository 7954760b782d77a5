#include "harness/packaged/device_window.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "harness/packaged/device_store.h"

namespace qpexam::packaged {
namespace {

constexpr size_t kMostWindows = 1 << 14;

// Read in a signal handler, without a lock: `start` is written last, and first when it goes.
struct Window {
  std::atomic<uintptr_t> start{0};
  size_t size = 0;
  uint8_t* device = nullptr;
};
Window g_windows[kMostWindows];
std::atomic<size_t> g_used{0};
std::mutex g_mutex;

int (*g_store)(void*, const void*, size_t) = nullptr;
LibcSignals g_libc;
struct sigaction g_programs_own;  // what the program thinks its action is

const Window* WindowAt(uintptr_t address) {
  const size_t used = g_used.load(std::memory_order_acquire);
  for (size_t i = used; i-- > 0;) {
    const uintptr_t start = g_windows[i].start.load(std::memory_order_acquire);
    if (start != 0 && address - start < g_windows[i].size) return &g_windows[i];
  }
  return nullptr;
}

void PassOn(int signal, siginfo_t* info, void* context) {
  const struct sigaction own = g_programs_own;
  if (own.sa_flags & SA_SIGINFO) return own.sa_sigaction(signal, info, context);
  if (own.sa_handler != SIG_DFL && own.sa_handler != SIG_IGN) return own.sa_handler(signal);
  // The fault comes again, and takes the process down as it would have.
  struct sigaction fatal = {};
  fatal.sa_handler = SIG_DFL;
  g_libc.sigaction(SIGSEGV, &fatal, nullptr);
}

#if defined(__x86_64__)

[[noreturn]] void GiveUp(const uint8_t* code) {
  char text[] =
      "qpexam: a store to a device page is of a kind that is not read yet; its code:            "
      "                                     \n";
  char* at = std::strchr(text, ':');  // behind "qpexam"
  at = std::strchr(at + 1, ':') + 2;
  for (unsigned i = 0; i < 12; ++i) {
    *at++ = "0123456789abcdef"[code[i] >> 4];
    *at++ = "0123456789abcdef"[code[i] & 15];
    *at++ = ' ';
  }
  if (write(2, text, sizeof text - 1) < 0) std::abort();
  std::abort();
}

void ReadRegisters(const ucontext_t& context, Registers* out) {
  constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15};
  for (unsigned i = 0; i < 16; ++i)
    out->general[i] = static_cast<uint64_t>(context.uc_mcontext.gregs[kOrder[i]]);
  std::memcpy(out->vector, context.uc_mcontext.fpregs->_xmm, sizeof out->vector);
}

void OnFault(int signal, siginfo_t* info, void* opaque) {
  auto* context = static_cast<ucontext_t*>(opaque);
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const Window* window = WindowAt(address);
  constexpr long kWrite = 2;  // of a page fault's error code
  if (window == nullptr || !(context->uc_mcontext.gregs[REG_ERR] & kWrite))
    return PassOn(signal, info, opaque);
  const int saved = errno;
  const auto* code = reinterpret_cast<const uint8_t*>(context->uc_mcontext.gregs[REG_RIP]);
  Registers registers;
  ReadRegisters(*context, &registers);
  Store store;
  if (!DecodeStore(code, registers, &store)) GiveUp(code);
  g_store(window->device + (address - window->start.load()), store.bytes, store.size);
  context->uc_mcontext.gregs[REG_RIP] += static_cast<greg_t>(store.length);
  errno = saved;
}

#endif

}  // namespace

void DeviceWindows::Watch(int (*store)(void* address, const void* bytes, size_t size),
                          const LibcSignals& libc) {
  g_store = store;
  g_libc = libc;
#if defined(__x86_64__)
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  // A store may be the program's within its own handler, and its work may fault as well.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  libc.sigaction(SIGSEGV, &action, &g_programs_own);
#endif
}

void* DeviceWindows::Open(void* device, size_t size) {
#if defined(__x86_64__)
  std::lock_guard<std::mutex> lock(g_mutex);
  size_t i = 0;
  const size_t used = g_used.load();
  while (i < used && g_windows[i].start.load() != 0) ++i;
  if (i == kMostWindows) return errno = ENOMEM, nullptr;
  void* window = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (window == MAP_FAILED) return nullptr;
  g_windows[i].size = size;
  g_windows[i].device = static_cast<uint8_t*>(device);
  g_windows[i].start.store(reinterpret_cast<uintptr_t>(window), std::memory_order_release);
  if (i == used) g_used.store(used + 1, std::memory_order_release);
  return window;
#else
  (void)device, (void)size;
  errno = EOPNOTSUPP;  // rings by MMIO are read from x86-64's stores alone
  return nullptr;
#endif
}

void* DeviceWindows::Close(void* address) {
  std::lock_guard<std::mutex> lock(g_mutex);
  for (size_t i = 0; i < g_used.load(); ++i) {
    if (address == nullptr || g_windows[i].start.load() != reinterpret_cast<uintptr_t>(address))
      continue;
    g_windows[i].start.store(0, std::memory_order_release);
    munmap(address, g_windows[i].size);
    return g_windows[i].device;
  }
  return nullptr;
}

int DeviceWindows::Action(const struct sigaction* wanted, struct sigaction* before) {
  if (before != nullptr) *before = g_programs_own;
  if (wanted != nullptr) g_programs_own = *wanted;
  return 0;
}

}  // namespace qpexam::packaged
