// An event file descriptor of the emulated kernel: completion channels and async events.
//
// One fd is both ends of a pipe, because libibverbs only ever closes the one it was given, and
// read(), poll() and fcntl() of the application must work on it as on the kernel's.
#ifndef QPEXAM_HARNESS_HOSTED_EVENT_CHANNEL_H_
#define QPEXAM_HARNESS_HOSTED_EVENT_CHANNEL_H_

#include <cstddef>
#include <cstdint>

namespace qpexam::hosted {

class EventChannel {
 public:
  // -1 and errno where the process has no more fds. The fd is the library's to close.
  static int Open();
  // Queues one event of `size` bytes.
  static bool Raise(int fd, const void* event, size_t size);
  // Takes the unread events whose first 8 bytes are `element` out of the channel and returns how
  // many there were: events of a destroyed object are not delivered any more.
  static uint32_t Purge(int fd, size_t event_size, uint64_t element);
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_EVENT_CHANNEL_H_
