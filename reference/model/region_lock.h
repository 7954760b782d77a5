// A mutex that spans calls and knows its holder: start .. complete (WR-CONC-001), start_poll ..
// end_poll.
//
// Not std::mutex, because a caller's mistake must stay defined here: the holder can ask whether it
// holds it, a thread may die inside, and the lock may be destroyed while held.
#ifndef QPEXAM_REFERENCE_MODEL_REGION_LOCK_H_
#define QPEXAM_REFERENCE_MODEL_REGION_LOCK_H_

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace qpexam::model {

// A value that differs between threads that live at the same time.
inline const void* ThisThread() {
  static thread_local char tag;
  return &tag;
}

// A deterministic scheduler's hook: called, instead of sleeping, by a thread that found the lock
// taken; it returns when another attempt makes sense.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual void Blocked() = 0;
};

class RegionLock {
 public:
  // Waits until nobody holds it. The holder must not call it again.
  void Lock() {
    const void* nobody = nullptr;
    if (holder_.compare_exchange_strong(nobody, ThisThread(), std::memory_order_acquire)) return;
    LockSlow();
  }
  bool TryLock() {
    const void* nobody = nullptr;
    return holder_.compare_exchange_strong(nobody, ThisThread(), std::memory_order_acquire);
  }
  void Unlock() {
    holder_.store(nullptr, std::memory_order_seq_cst);
    if (waiters_.load(std::memory_order_seq_cst) != 0) Wake();
  }
  bool HeldByMe() const { return holder_.load(std::memory_order_relaxed) == ThisThread(); }
  bool Held() const { return holder_.load(std::memory_order_relaxed) != nullptr; }

  static void SetScheduler(Scheduler* scheduler);  // process-wide, for tests; nullptr: none

 private:
  void LockSlow();
  void Wake();

  std::atomic<const void*> holder_{nullptr};
  std::atomic<int> waiters_{0};
  std::mutex mutex_;  // only of the slow path
  std::condition_variable released_;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_REGION_LOCK_H_
