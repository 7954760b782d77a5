#include "harness/hosted/event_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace qpexam::hosted {

int EventChannel::Open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  int both = open(fmt::format("/proc/self/fd/{}", ends[0]).c_str(), O_RDWR | O_CLOEXEC);
  int saved = errno;
  close(ends[0]);
  close(ends[1]);
  errno = saved;
  return both;
}

bool EventChannel::Raise(int fd, const void* event, size_t size) {
  // A channel that nobody reads fills up; the kernel would run out of memory much later. Dropping
  // is better than blocking the only thread there is.
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return false;
  if ((flags & O_NONBLOCK) == 0) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  ssize_t written = write(fd, event, size);
  if ((flags & O_NONBLOCK) == 0) fcntl(fd, F_SETFL, flags);
  return written == static_cast<ssize_t>(size);
}

uint32_t EventChannel::Purge(int fd, size_t event_size, uint64_t element) {
  int unread = 0;
  if (ioctl(fd, FIONREAD, &unread) != 0 || unread <= 0) return 0;
  std::vector<uint8_t> events(unread / event_size * event_size);
  size_t have = 0;
  while (have < events.size()) {
    ssize_t n = read(fd, events.data() + have, events.size() - have);
    if (n <= 0) break;
    have += n;
  }
  uint32_t purged = 0;
  for (size_t at = 0; at + event_size <= have; at += event_size) {
    uint64_t of;
    std::memcpy(&of, &events[at], sizeof of);
    if (of == element) {
      ++purged;
    } else {
      Raise(fd, &events[at], event_size);
    }
  }
  return purged;
}

}  // namespace qpexam::hosted
