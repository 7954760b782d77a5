// Watches the locks that provider code takes and releases (the seam's lock hook).
//
// A lock that is released by a thread that does not hold it is a finding on the spot: a spinlock
// that is unlocked twice admits two threads later. A lock that is still held when no region and no
// poll is open is one too; the oracle asks for that at the end of each call (seam_oracle.h).
#ifndef QPEXAM_HARNESS_HOSTED_LOCK_WATCH_H_
#define QPEXAM_HARNESS_HOSTED_LOCK_WATCH_H_

#include <cstddef>
#include <string>
#include <vector>

#include "third_party/rdma_core/seam/seam.h"

namespace qpexam::hosted {

class LockWatch {
 public:
  static void Hook(void* owner, const void* lock, qpx_seam_lock_event event);
  // How many locks of providers this thread holds.
  static size_t HeldByThisThread();
  // Forgets what this thread holds, after it was reported.
  static void ForgetThisThread();
  // What was found since the last call, in all threads.
  static std::vector<std::string> Take();
  // Whether Take() or HeldByThisThread() has anything to say.
  static bool Any();
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_LOCK_WATCH_H_
