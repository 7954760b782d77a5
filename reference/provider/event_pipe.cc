#include "reference/provider/event_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reference/provider/ticker.h"
#include "third_party/rdma_core/seam/seam.h"

namespace qpexam::provider {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<int, std::shared_ptr<EventPipe>> pipes;  // by read end
};
// Never destroyed: libibverbs may close an fd after our statics are gone.
Registry& AllPipes() {
  static Registry* registry = new Registry;
  return *registry;
}

void OnClose(void* /*owner*/, int fd) {
  std::shared_ptr<EventPipe> last;  // freed outside the lock
  Registry& all = AllPipes();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.pipes.find(fd);
  if (found == all.pipes.end()) return;
  last = std::move(found->second);
  all.pipes.erase(found);
}

const qpx_seam_fd_ops kFdOps = {
    .ioctl = nullptr,
    .write = nullptr,
    .mmap = nullptr,
    .munmap = nullptr,
    .close = OnClose,
};

}  // namespace

std::shared_ptr<EventPipe> EventPipe::Create(Format format) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return nullptr;
  int saved = 0;
  if (fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) saved = errno;
  const std::string path = "/proc/self/fd/" + std::to_string(ends[0]);
  int drain = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (drain < 0) saved = errno;
  if (saved == 0 && qpx_seam_bind_fd(ends[0], &kFdOps, nullptr) != 0) saved = errno;
  if (saved != 0) {
    close(ends[0]);
    close(ends[1]);
    if (drain >= 0) close(drain);
    errno = saved;
    return nullptr;
  }
  std::shared_ptr<EventPipe> pipe(new EventPipe(format, ends[0], ends[1], drain));
  Registry& all = AllPipes();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.pipes[ends[0]] = pipe;
  return pipe;
}

std::shared_ptr<EventPipe> EventPipe::Find(int read_fd) {
  Registry& all = AllPipes();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.pipes.find(read_fd);
  return found == all.pipes.end() ? nullptr : found->second;
}

EventPipe::EventPipe(Format format, int read_fd, int write_fd, int drain_fd)
    : event_size_(static_cast<size_t>(format)),
      read_fd_(read_fd),
      write_fd_(write_fd),
      drain_fd_(drain_fd) {
  if (format == Format::kCompletion) AddBlockingWait();
}

EventPipe::~EventPipe() {
  if (event_size_ == static_cast<size_t>(Format::kCompletion)) RemoveBlockingWait();
  close(write_fd_);
  close(drain_fd_);
}

bool EventPipe::Write(const Event& event) {
  // Below PIPE_BUF: all or nothing.
  return write(write_fd_, &event, event_size_) == static_cast<ssize_t>(event_size_);
}

void EventPipe::Raise(const Event& event) {
  std::lock_guard<std::mutex> lock(mutex_);
  waiting_.push_back(event);
  FlushLocked();
}

void EventPipe::Flush() {
  std::lock_guard<std::mutex> lock(mutex_);
  FlushLocked();
}

void EventPipe::FlushLocked() {
  while (!waiting_.empty() && Write(waiting_.front())) waiting_.pop_front();
}

unsigned EventPipe::Purge(uint64_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::deque<Event> kept;
  unsigned purged = 0;
  auto sort = [&](const Event& event) {
    if (event.handle == handle)
      ++purged;
    else
      kept.push_back(event);
  };
  Event event;
  while (read(drain_fd_, &event, event_size_) == static_cast<ssize_t>(event_size_)) sort(event);
  for (const Event& late : waiting_) sort(late);
  waiting_ = std::move(kept);
  FlushLocked();
  return purged;
}

}  // namespace qpexam::provider
