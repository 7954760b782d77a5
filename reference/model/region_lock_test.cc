#include "reference/model/region_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace qpexam::model {
namespace {

TEST(RegionLockTest, ThreadsExcludeEachOther) {
  RegionLock lock;
  int inside = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        lock.Lock();
        ++inside;  // a data race if they did not
        lock.Unlock();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(inside, 8000);
  EXPECT_FALSE(lock.Held());
}

TEST(RegionLockTest, KnowsItsHolder) {
  RegionLock lock;
  EXPECT_FALSE(lock.HeldByMe());
  lock.Lock();
  EXPECT_TRUE(lock.HeldByMe());
  std::thread([&] {
    EXPECT_FALSE(lock.HeldByMe());
    EXPECT_TRUE(lock.Held());
    EXPECT_FALSE(lock.TryLock());
  }).join();
  lock.Unlock();
  EXPECT_TRUE(lock.TryLock());
  lock.Unlock();
}

TEST(RegionLockTest, MayEndWhileHeld) {
  auto lock = std::make_unique<RegionLock>();
  std::thread([&] { lock->Lock(); }).join();
  EXPECT_TRUE(lock->Held());
}

TEST(RegionLockTest, ASchedulerIsAskedInsteadOfSleeping) {
  static RegionLock* held;
  struct Releasing : Scheduler {
    void Blocked() override {
      ++blocked;
      held->Unlock();
    }
    int blocked = 0;
  } scheduler;
  RegionLock lock;
  held = &lock;
  RegionLock::SetScheduler(&scheduler);
  std::thread([&] { lock.Lock(); }).join();
  lock.Lock();
  RegionLock::SetScheduler(nullptr);
  EXPECT_EQ(scheduler.blocked, 1);
  EXPECT_TRUE(lock.HeldByMe());
  lock.Unlock();
}

}  // namespace
}  // namespace qpexam::model
