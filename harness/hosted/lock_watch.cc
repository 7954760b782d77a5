#include "harness/hosted/lock_watch.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace qpexam::hosted {
namespace {

// More locks at once than any call chain of a provider holds.
constexpr size_t kMaxHeld = 64;
struct Held {
  const void* locks[kMaxHeld];
  size_t count = 0;
};
thread_local Held t_held;

std::mutex g_mutex;
std::vector<std::string> g_found;
std::atomic<bool> g_any{false};

void Found(const char* what) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_found.push_back(what);
  g_any.store(true, std::memory_order_release);
}

}  // namespace

void LockWatch::Hook(void*, const void* lock, qpx_seam_lock_event event) {
  Held& held = t_held;
  const void** end = held.locks + held.count;
  const void** at = std::find(held.locks + 0, end, lock);
  switch (event) {
    case QPX_SEAM_LOCK_WAIT:
      if (at != end) Found("takes a lock that the same thread holds (it will wait for ever)");
      break;
    case QPX_SEAM_LOCK_TAKEN:
      if (held.count < kMaxHeld) held.locks[held.count++] = lock;
      break;
    case QPX_SEAM_LOCK_RELEASE:
      if (at == end) {
        Found("releases a lock that the thread does not hold");
        break;
      }
      std::copy(at + 1, end, at);
      --held.count;
      break;
  }
}

size_t LockWatch::HeldByThisThread() { return t_held.count; }
void LockWatch::ForgetThisThread() { t_held.count = 0; }

bool LockWatch::Any() { return t_held.count != 0 || g_any.load(std::memory_order_acquire); }

std::vector<std::string> LockWatch::Take() {
  std::vector<std::string> found;
  if (!g_any.load(std::memory_order_acquire)) return found;
  std::lock_guard<std::mutex> lock(g_mutex);
  found.swap(g_found);
  g_any.store(false, std::memory_order_release);
  return found;
}

}  // namespace qpexam::hosted
