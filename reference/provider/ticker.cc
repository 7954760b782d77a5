#include "reference/provider/ticker.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "reference/model/engine.h"

namespace qpexam::provider {
namespace {

constexpr std::chrono::milliseconds kTick(1);

class Ticker {
 public:
  // Never destroyed: its thread outlives main().
  static Ticker& Get() {
    static Ticker* ticker = new Ticker;
    return *ticker;
  }

  void Add() {
    std::lock_guard<std::mutex> lock(mutex_);
    ++waits_;
    Wake();
  }
  void Remove() {
    std::lock_guard<std::mutex> lock(mutex_);
    --waits_;
  }
  void SetTicking(bool ticking) {
    std::lock_guard<std::mutex> lock(mutex_);
    ticking_ = ticking;
    Wake();
  }

 private:
  // Under the lock. No thread before there is something for it to do.
  void Wake() {
    if (!started_ && waits_ > 0 && ticking_) {
      started_ = true;
      std::thread([this] { Run(); }).detach();
    }
    changed_.notify_one();
  }

  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return waits_ > 0 && ticking_; });
      lock.unlock();
      std::this_thread::sleep_for(kTick);
      Tick(model::Fabric::Process());
      lock.lock();
    }
  }

  static void Tick(model::Fabric& fabric) {
    std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
    if (fabric.options().clock != model::ClockMode::kAutomatic) return;
    if (!fabric.NextDeadline().has_value()) return;
    fabric.AdvanceBy(std::chrono::nanoseconds(kTick).count());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int waits_ = 0;
  bool ticking_ = true;
  bool started_ = false;
};

}  // namespace

void AddBlockingWait() { Ticker::Get().Add(); }
void RemoveBlockingWait() { Ticker::Get().Remove(); }
void StopTicking() { Ticker::Get().SetTicking(false); }
void GoOnTicking() { Ticker::Get().SetTicking(true); }

}  // namespace qpexam::provider
