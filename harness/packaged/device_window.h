// Device pages as the program sees them: pages that refuse its stores, so that each store becomes a
// call. A store faults, is read from the instruction (device_store.h), carried out on the device,
// and the program goes on behind it: a doorbell rings synchronously, as in a build of our own.
#ifndef QPEXAM_HARNESS_PACKAGED_DEVICE_WINDOW_H_
#define QPEXAM_HARNESS_PACKAGED_DEVICE_WINDOW_H_

#include <signal.h>

#include <cstddef>

namespace qpexam::packaged {

// libc's own functions, below our interposed ones.
struct LibcSignals {
  int (*sigaction)(int, const struct sigaction*, struct sigaction*) = nullptr;
};

class DeviceWindows {
 public:
  // From now on stores of a program to a window go to `store`.
  static void Watch(int (*store)(void* address, const void* bytes, size_t size),
                    const LibcSignals& libc);

  // A window onto `size` bytes of the device's memory; nullptr with errno.
  static void* Open(void* device, size_t size);
  // The memory behind a window that begins at `address`, which is closed; nullptr: there is none.
  static void* Close(void* address);

  // The program's own action for SIGSEGV, which is kept for faults that are no stores of these.
  static int Action(const struct sigaction* wanted, struct sigaction* before);
};

}  // namespace qpexam::packaged

#endif  // QPEXAM_HARNESS_PACKAGED_DEVICE_WINDOW_H_
