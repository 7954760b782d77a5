#include "reference/model/region_lock.h"

namespace qpexam::model {
namespace {
std::atomic<Scheduler*> scheduler{nullptr};
}  // namespace

void RegionLock::SetScheduler(Scheduler* s) { scheduler.store(s); }

void RegionLock::LockSlow() {
  if (Scheduler* s = scheduler.load()) {
    while (!TryLock()) s->Blocked();
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  // Counted before the attempt: an Unlock() that saw no waiter was before it, so the attempt
  // succeeds; one that comes later sees the waiter and wakes it.
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const void* nobody = nullptr;
    if (holder_.compare_exchange_strong(nobody, ThisThread(), std::memory_order_seq_cst)) break;
    released_.wait(lock);
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
}

void RegionLock::Wake() {
  std::lock_guard<std::mutex> lock(mutex_);
  released_.notify_one();
}

}  // namespace qpexam::model
