#include "harness/packaged/emulation.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "harness/hosted/bnxt_re/bnxt_re_model.h"
#include "harness/hosted/efa/efa_model.h"
#include "harness/hosted/hns/hns_model.h"
#include "harness/hosted/mlx5/mlx5_model.h"
#include "harness/hosted/rxe/rxe_model.h"
#include "harness/packaged/environment.h"
#include "third_party/rdma_core/seam/seam.h"

namespace qpexam::packaged {

thread_local int t_inside = 0;

namespace {

constexpr long kTickNanoseconds = 1'000'000;

// Held for each tick, so that a fork finds the clock at rest.
std::mutex g_tick;
std::atomic<bool> g_clock_runs{false};
std::atomic<Emulation*> g_made{nullptr};

hosted::KernelOptions Options() {
  hosted::KernelOptions options;
  options.watch_locks = false;  // the installed binaries' locks are not ours to see
  return options;
}

std::unique_ptr<hosted::DeviceModel> MakeModel(std::string_view provider) {
  if (provider == "rxe") return hosted::MakeRxeModel();
  if (provider == "mlx5") return hosted::MakeMlx5Model();
  if (provider == "efa") return hosted::MakeEfaModel();
  // Of the two chips the one that a library from before 56.0 knows as well.
  if (provider == "bnxt_re") return hosted::MakeBnxtReStaticModel();
  if (provider == "hns") return hosted::MakeHnsModel();
  return nullptr;
}

uint64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

Emulation::Emulation(std::unique_ptr<hosted::DeviceModel> model)
    : kernel_(Options()), oracle_(&kernel_) {
  kernel_.AddDevice(std::move(model));
  if (const char* file = std::getenv(kFindingsVariable)) findings_file_ = file;
  g_clock_runs = true;
  StartClock();
  // A fork copies the device whole, but not the thread.
  pthread_atfork([] { g_tick.lock(); }, [] { g_tick.unlock(); },
                 [] {
                   g_tick.unlock();
                   if (g_clock_runs) Get()->StartClock();
                 });
}

Emulation* Emulation::Get() {
  static Emulation* one = [] {
    Inside inside;
    const char* provider = std::getenv(kProviderVariable);
    std::unique_ptr<hosted::DeviceModel> model = MakeModel(provider ? provider : "");
    if (model != nullptr) g_made = new Emulation(std::move(model));
    return g_made.load();
  }();
  return one;
}

Emulation* Emulation::IfMade() { return g_made; }

int Emulation::Open() {
  const int minor = qpx_seam_minor_in_slot(0);
  const qpx_seam_device* device =
      minor < 0 ? nullptr : qpx_seam_device_of_minor(static_cast<unsigned>(minor));
  if (device == nullptr) return errno = ENODEV, -1;
  return device->open(device->owner);
}

void Emulation::StartClock() {
  // Signals are the program's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, &Emulation::Tick, this) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void* Emulation::Tick(void* self) {
  Inside inside;
  auto& emulation = *static_cast<Emulation*>(self);
  const timespec nap = {0, kTickNanoseconds};
  uint64_t before = Now();
  while (true) {
    nanosleep(&nap, nullptr);
    std::lock_guard<std::mutex> lock(g_tick);
    if (!g_clock_runs) return nullptr;
    const uint64_t now = Now();
    emulation.kernel_.Pump();
    emulation.kernel_.fabric().AdvanceBy(now - before);
    emulation.kernel_.Pump();
    before = now;
  }
}

void Emulation::TakeOverClock() {
  std::lock_guard<std::mutex> lock(g_tick);
  g_clock_runs = false;
}

void Emulation::TellFindings() {
  if (findings_file_.empty()) return;
  std::string text;
  for (const hosted::SeamFinding& f : oracle_.Take()) {
    text += f.kind + (f.clause.empty() ? "" : " " + f.clause) + ": " + f.what + "\n";
    // The bytes in hex, indented: they are of the finding above.
    for (size_t at = 0; at < f.raw.size();) {
      const size_t end = std::min(f.raw.find('\n', at), f.raw.size());
      text += "  " + f.raw.substr(at, end - at) + "\n";
      at = end + 1;
    }
  }
  if (text.empty()) return;
  const int fd = open(findings_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (write(fd, text.data(), text.size()) < 0) text.clear();  // the program's own end matters more
  close(fd);
}

}  // namespace qpexam::packaged
