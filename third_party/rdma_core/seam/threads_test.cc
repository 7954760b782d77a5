// The registries of the seam under threads: run under ThreadSanitizer.

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "third_party/rdma_core/seam/calls.h"
}
#include "third_party/rdma_core/seam/seam.h"

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 500;

// Runs `body(thread)` in kThreads threads.
template <typename Body>
void InThreads(Body body) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(body, thread);
  for (std::thread& thread : threads) thread.join();
}

TEST(SeamThreads, DevicesComeAndGoWhileOthersLook) {
  InThreads([](int thread) {
    const std::string name = "toy" + std::to_string(thread);
    qpx_seam_device device = {};
    device.name = name.c_str();
    device.modalias = "toy:one";
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_EQ(0, qpx_seam_add_device(&device));
      int found = 0;
      for (unsigned slot = 0; slot < QPX_SEAM_MAX_DEVICES; ++slot) {
        found += qpx_seam_minor_in_slot(slot) >= 0 ? 1 : 0;
      }
      EXPECT_GE(found, 1);
      ASSERT_EQ(0, qpx_seam_remove_device(name.c_str()));
    }
  });
}

TEST(SeamThreads, EachThreadsFdsAreItsOwn) {
  static constexpr qpx_seam_fd_ops kOps = {
      .write =
          [](void* owner, int, const void*, size_t size) {
            *static_cast<size_t*>(owner) += size;
            return static_cast<ssize_t>(size);
          },
  };
  InThreads([](int) {
    size_t written = 0;
    for (int round = 0; round < kRounds; ++round) {
      const int fd = eventfd(0, EFD_CLOEXEC);
      ASSERT_EQ(0, qpx_seam_bind_fd(fd, &kOps, &written));
      EXPECT_EQ(3, qpx_seam_write(fd, "abc", 3));
      ASSERT_EQ(0, qpx_seam_close(fd));
    }
    EXPECT_EQ(3u * kRounds, written);
  });
}

}  // namespace
