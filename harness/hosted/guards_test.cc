// What stands around provider code can see what it is there for: memory ends where it ends, and a
// lock that is left or given back twice is told of.
#include <gtest/gtest.h>

#include "harness/hosted/guarded_memory.h"
#include "harness/hosted/lock_watch.h"

namespace qpexam::hosted {
namespace {

TEST(GuardedMemoryDeathTest, TheByteBehindIsNobodys) {
  GuardedMemory memory;
  for (size_t size : {size_t{64}, size_t{4032}, size_t{4096}, size_t{12288 + 192}}) {
    volatile uint8_t* data = memory.Allocate(size);
    ASSERT_NE(data, nullptr);
    data[0] = data[size - 1] = 1;
    EXPECT_DEATH(data[size] = 1, "") << size;
    memory.Free(const_cast<uint8_t*>(data), size);
  }
}

TEST(GuardedMemoryTest, ComesBackClean) {
  GuardedMemory memory;
  uint8_t* data = memory.Allocate(256);
  data[255] = 1;
  memory.Free(data, 256);
  data = memory.Allocate(256);
  EXPECT_EQ(data[255], 0);
  memory.Free(data, 256);
}

class LockWatchTest : public ::testing::Test {
 protected:
  ~LockWatchTest() override {
    LockWatch::ForgetThisThread();
    LockWatch::Take();
  }
  static void Lock(const void* lock) {
    LockWatch::Hook(nullptr, lock, QPX_SEAM_LOCK_WAIT);
    LockWatch::Hook(nullptr, lock, QPX_SEAM_LOCK_TAKEN);
  }
  static void Unlock(const void* lock) { LockWatch::Hook(nullptr, lock, QPX_SEAM_LOCK_RELEASE); }
  int a_ = 0, b_ = 0;
};

TEST_F(LockWatchTest, PairsAreSilentInAnyOrder) {
  Lock(&a_);
  Lock(&b_);
  EXPECT_EQ(LockWatch::HeldByThisThread(), 2u);
  Unlock(&a_);
  Unlock(&b_);
  EXPECT_EQ(LockWatch::HeldByThisThread(), 0u);
  EXPECT_TRUE(LockWatch::Take().empty());
}

TEST_F(LockWatchTest, OneThatIsLeftIsCounted) {
  Lock(&a_);
  EXPECT_EQ(LockWatch::HeldByThisThread(), 1u);
}

TEST_F(LockWatchTest, GivenBackTwiceOrTakenTwiceIsFound) {
  Lock(&a_);
  Unlock(&a_);
  Unlock(&a_);
  ASSERT_EQ(LockWatch::Take().size(), 1u);
  Lock(&b_);
  LockWatch::Hook(nullptr, &b_, QPX_SEAM_LOCK_WAIT);
  EXPECT_EQ(LockWatch::Take().size(), 1u);
}

}  // namespace
}  // namespace qpexam::hosted
