// The redirected calls: bound fds and mapped ranges go to their owner, everything else to libc;
// stores and locks meet their hooks.

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "third_party/rdma_core/seam/calls.h"
}
#include "third_party/rdma_core/seam/mmio_user.h"
#include "third_party/rdma_core/seam/seam.h"

namespace {

// Records what reached it, and answers mmap from an array.
struct Recorder {
  std::vector<std::string> calls;
  alignas(4096) char memory[4 * 4096];

  void Note(const std::string& call) { calls.push_back(call); }
};

Recorder& Of(void* owner) { return *static_cast<Recorder*>(owner); }

constexpr qpx_seam_fd_ops kRecord = {
    .ioctl =
        [](void* owner, int, unsigned long request, void*) {
          Of(owner).Note("ioctl " + std::to_string(request));
          return 5;
        },
    .write =
        [](void* owner, int, const void*, size_t size) {
          Of(owner).Note("write " + std::to_string(size));
          return static_cast<ssize_t>(size);
        },
    .mmap = [](void* owner, int, void*, size_t length, int, int, off_t) -> void* {
      Of(owner).Note("mmap " + std::to_string(length));
      return Of(owner).memory;
    },
    .munmap =
        [](void* owner, void* address, size_t length) {
          Of(owner).Note("munmap " +
                         std::to_string(static_cast<char*>(address) - Of(owner).memory) + "+" +
                         std::to_string(length));
          return 0;
        },
    .close = [](void* owner, int) { Of(owner).Note("close"); },
};

using Calls = std::vector<std::string>;

class BoundFd : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = eventfd(0, EFD_CLOEXEC);
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(0, qpx_seam_bind_fd(fd_, &kRecord, &recorder_));
  }
  void TearDown() override {
    if (fd_ < 0) return;
    qpx_seam_unbind_fd(fd_);
    close(fd_);
  }

  int fd_ = -1;
  Recorder recorder_;
};

TEST_F(BoundFd, SendsCallsToItsOwner) {
  EXPECT_EQ(5, qpx_seam_ioctl(fd_, 17, nullptr));
  EXPECT_EQ(3, qpx_seam_write(fd_, "abc", 3));
  EXPECT_EQ((Calls{"ioctl 17", "write 3"}), recorder_.calls);
}

TEST_F(BoundFd, IsBoundOnce) {
  EXPECT_EQ(-1, qpx_seam_bind_fd(fd_, &kRecord, &recorder_));
  EXPECT_EQ(EEXIST, errno);
  EXPECT_EQ(-1, qpx_seam_bind_fd(-1, &kRecord, &recorder_));
  EXPECT_EQ(EBADF, errno);
  EXPECT_EQ(-1, qpx_seam_bind_fd(QPX_SEAM_MAX_FD, &kRecord, &recorder_));
  EXPECT_EQ(EBADF, errno);
}

TEST_F(BoundFd, CloseTellsTheOwnerUnbindsAndCloses) {
  const int fd = std::exchange(fd_, -1);
  EXPECT_EQ(0, qpx_seam_close(fd));
  EXPECT_EQ((Calls{"close"}), recorder_.calls);
  EXPECT_EQ(-1, close(fd)) << "is closed already";
  EXPECT_EQ(-1, qpx_seam_write(fd, "abc", 3)) << "and unbound";
  EXPECT_EQ(EBADF, errno);
}

TEST_F(BoundFd, MunmapFollowsMmap) {
  void* memory = qpx_seam_mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd_, 0);
  EXPECT_EQ(recorder_.memory, memory);
  EXPECT_EQ(0, qpx_seam_munmap(memory, 4096));
  EXPECT_EQ((Calls{"mmap 4096", "munmap 0+4096"}), recorder_.calls);
}

TEST_F(BoundFd, RangesAreUnmappedInParts) {
  char* memory = static_cast<char*>(
      qpx_seam_mmap(nullptr, sizeof(recorder_.memory), PROT_READ, MAP_SHARED, fd_, 0));
  EXPECT_EQ(0, qpx_seam_munmap(memory + 4096, 4096));
  EXPECT_EQ(0, qpx_seam_munmap(memory + 8192, 8192));
  EXPECT_EQ(0, qpx_seam_munmap(memory, 4096));
  EXPECT_EQ((Calls{"mmap 16384", "munmap 4096+4096", "munmap 8192+8192", "munmap 0+4096"}),
            recorder_.calls);
}

TEST(UnboundFd, GoesToTheKernel) {
  const int fd = eventfd(0, EFD_CLOEXEC);
  const uint64_t one = 1;
  EXPECT_EQ(static_cast<ssize_t>(sizeof(one)), qpx_seam_write(fd, &one, sizeof(one)));
  uint64_t value = 0;
  EXPECT_EQ(static_cast<ssize_t>(sizeof(value)), read(fd, &value, sizeof(value)));
  EXPECT_EQ(1u, value);
  int available = 0;
  EXPECT_EQ(-1, qpx_seam_ioctl(fd, FIONREAD, &available));
  EXPECT_EQ(ENOTTY, errno);
  EXPECT_EQ(0, qpx_seam_close(fd));
  void* memory =
      qpx_seam_mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(MAP_FAILED, memory);
  std::memset(memory, 1, 4096);
  EXPECT_EQ(0, qpx_seam_munmap(memory, 4096));
}

// Sets hooks for one test.
class Hooks {
 public:
  explicit Hooks(const qpx_seam_hooks& hooks) { qpx_seam_set_hooks(&hooks); }
  ~Hooks() { qpx_seam_set_hooks(nullptr); }
};

TEST(Hook, AnonymousMemoryComesFromTheHookOrFromTheKernel) {
  Recorder recorder;
  qpx_seam_hooks hooks = {};
  hooks.owner = &recorder;
  hooks.anonymous_mmap = [](void* owner, size_t length, int, int) -> void* {
    if (length == 4096) return Of(owner).memory;
    errno = ENOSYS;
    return MAP_FAILED;
  };
  hooks.anonymous_munmap = kRecord.munmap;
  Hooks set(hooks);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  EXPECT_EQ(recorder.memory, qpx_seam_mmap(nullptr, 4096, PROT_READ, flags, -1, 0));
  EXPECT_EQ(0, qpx_seam_munmap(recorder.memory, 4096));
  EXPECT_EQ((Calls{"munmap 0+4096"}), recorder.calls);
  void* real = qpx_seam_mmap(nullptr, 8192, PROT_READ, flags, -1, 0);
  ASSERT_NE(MAP_FAILED, real);
  EXPECT_EQ(0, qpx_seam_munmap(real, 8192));
  EXPECT_EQ(1u, recorder.calls.size());
}

TEST(Hook, StoresReachMemoryWithoutOne) {
  alignas(64) char memory[64] = {};
  char copied[64];
  std::memset(copied, 7, sizeof(copied));
  MmioWrite32(memory, 0x01020304);
  EXPECT_EQ(0, std::memcmp(memory, "\x04\x03\x02\x01", 4));
  MmioWrite64Be(memory, 0x0102030405060708);
  EXPECT_EQ(0, std::memcmp(memory, "\x01\x02\x03\x04\x05\x06\x07\x08", 8));
  MmioCopy64(memory, copied);
  EXPECT_EQ(0, std::memcmp(memory, copied, 64));
}

TEST(Hook, StoresMeetItOnceWithTheirBytesInMemoryOrder) {
  static std::vector<std::string> stores;
  static int consume;
  stores.clear();
  qpx_seam_hooks hooks = {};
  hooks.mmio_store = [](void*, void*, const void* bytes, size_t size) {
    stores.emplace_back(static_cast<const char*>(bytes), size);
    return consume;
  };
  Hooks set(hooks);
  alignas(64) char memory[64] = {};
  const std::string copied(64, 'c');

  consume = 1;
  MmioWrite32(memory, 0x01020304);
  MmioWrite64Be(memory, 0x0102030405060708);
  MmioCopy64(memory, copied.data());
  EXPECT_EQ(
      (std::vector<std::string>{"\x04\x03\x02\x01", "\x01\x02\x03\x04\x05\x06\x07\x08", copied}),
      stores);
  EXPECT_EQ(std::string(64, '\0'), std::string(memory, 64)) << "consumed";

  consume = 0;
  MmioCopy64(memory, copied.data());
  EXPECT_EQ(copied, std::string(memory, 64));
}

TEST(Hook, LocksAreReportedBeforeAndAfter) {
  static std::vector<qpx_seam_lock_event> events;
  events.clear();
  qpx_seam_hooks hooks = {};
  hooks.lock = [](void*, const void*, qpx_seam_lock_event event) { events.push_back(event); };
  Hooks set(hooks);
  pthread_spinlock_t spin;
  pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
  EXPECT_EQ(0, qpx_seam_pthread_spin_lock(&spin));
  EXPECT_EQ(EBUSY, qpx_seam_pthread_spin_trylock(&spin)) << "a failing trylock has no event";
  EXPECT_EQ(0, qpx_seam_pthread_spin_unlock(&spin));
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  EXPECT_EQ(0, qpx_seam_pthread_mutex_trylock(&mutex));
  EXPECT_EQ(0, qpx_seam_pthread_mutex_unlock(&mutex));
  EXPECT_EQ(0, qpx_seam_pthread_mutex_lock(&mutex));
  EXPECT_EQ(0, qpx_seam_pthread_mutex_unlock(&mutex));
  const std::vector<qpx_seam_lock_event> expected = {
      QPX_SEAM_LOCK_WAIT,    QPX_SEAM_LOCK_TAKEN, QPX_SEAM_LOCK_RELEASE, QPX_SEAM_LOCK_TAKEN,
      QPX_SEAM_LOCK_RELEASE, QPX_SEAM_LOCK_WAIT,  QPX_SEAM_LOCK_TAKEN,   QPX_SEAM_LOCK_RELEASE,
  };
  EXPECT_EQ(expected, events);
  pthread_spin_destroy(&spin);
}

}  // namespace
