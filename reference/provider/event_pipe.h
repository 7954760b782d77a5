// The kernel's side of an event file descriptor: of a completion channel or of async events.
//
// libibverbs reads fixed-size descriptors from an fd that the kernel made; programs poll(2) that
// fd, make it non-blocking or block in read(2). A pipe does all that. What a pipe does not do by
// itself is here: events never block the one who raises them, and an object's unread events can be
// taken out again when it is destroyed, so that the count its destruction waits for is exact
// (WR-EVT-006).
#ifndef QPEXAM_REFERENCE_PROVIDER_EVENT_PIPE_H_
#define QPEXAM_REFERENCE_PROVIDER_EVENT_PIPE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace qpexam::provider {

class EventPipe {
 public:
  // What libibverbs reads. Both kernel formats begin with the 64-bit user handle.
  struct Event {
    uint64_t handle = 0;
    uint32_t type = 0;
    uint32_t reserved = 0;
  };
  enum class Format : uint8_t { kCompletion = 8, kAsync = 16 };  // bytes of an event

  // Null where the process is out of file descriptors; errno says so. The read end is bound to the
  // seam: when libibverbs closes it, the pipe is freed.
  static std::shared_ptr<EventPipe> Create(Format format);
  // The pipe whose read end this is; null for any other fd.
  static std::shared_ptr<EventPipe> Find(int read_fd);

  ~EventPipe();
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;

  int read_fd() const { return read_fd_; }

  void Raise(const Event& event);
  // Takes out every unread event of that handle and says how many there were.
  unsigned Purge(uint64_t handle);
  // Moves what did not fit into the pipe; called when a reader has made room.
  void Flush();

 private:
  EventPipe(Format format, int read_fd, int write_fd, int drain_fd);
  bool Write(const Event& event);
  void FlushLocked();

  const size_t event_size_;
  const int read_fd_;   // the program's; its flags are the program's too
  const int write_fd_;  // ours, non-blocking
  const int drain_fd_;  // the read end once more, non-blocking: another open file description
  std::mutex mutex_;
  std::deque<Event> waiting_;  // beyond the capacity of the pipe
};

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_EVENT_PIPE_H_
