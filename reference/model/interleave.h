// Every interleaving of a few threads' calls, one after the other, with a bound on the switches
// that nothing forces: the deterministic scheduler of the concurrency tests.
//
//   Interleavings all(3);                       // at most 3 forced switches
//   std::string found = all.Explore([&] {       // a fresh start for each interleaving
//     Interleavings::Program program;
//     program.threads = {{{"start", ...}, {"complete", ...}}, {{"poll", ...}}};
//     program.check = [] { return std::string(); };  // what is wrong in the end
//     return program;
//   });                                         // empty, or the failing history
//
// Each thread of a program is a real thread; one runs at a time, and hands over between its steps
// and where a RegionLock would make it wait. A state in which all wait is reported as a deadlock.
#ifndef QPEXAM_REFERENCE_MODEL_INTERLEAVE_H_
#define QPEXAM_REFERENCE_MODEL_INTERLEAVE_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reference/model/region_lock.h"

namespace qpexam::model {

class Interleavings : public Scheduler {
 public:
  struct Step {
    std::string name;
    std::function<void()> run;
  };
  struct Program {
    std::vector<std::vector<Step>> threads;
    std::function<std::string()> check;  // after all threads have ended; empty: all is well
  };

  explicit Interleavings(unsigned most_switches) : most_switches_(most_switches) {}

  // Runs every interleaving until one fails; what is wrong and its history, or an empty string. The
  // threads of a deadlock are given up: an exception leaves the lock's call and ends their program.
  std::string Explore(const std::function<Program()>& make) {
    path_.clear();
    runs_ = 0;
    do {
      const std::string problem = Once(make());
      ++runs_;
      if (!problem.empty()) return problem + "\n" + history_;
    } while (Next());
    return "";
  }
  unsigned runs() const { return runs_; }

  // RegionLock: the running thread found a lock taken.
  void Blocked() override {
    std::unique_lock<std::mutex> lock(mutex_);
    const size_t me = running_;
    if (abandon_) return Leave(&lock);
    state_[me].blocked_at = progress_;
    state_[me].blocked = true;
    note_ = " waits";
    HandBack(&lock, me);
    if (abandon_) Leave(&lock);
  }

 private:
  static constexpr size_t kController = static_cast<size_t>(-1);
  struct Abandoned {};
  struct State {
    bool done = false, blocked = false;
    size_t blocked_at = 0;  // progress when it last found the lock taken
    size_t step = 0;
  };
  struct Choice {
    size_t answer, count;
  };

  [[noreturn]] static void Leave(std::unique_lock<std::mutex>* lock) {
    lock->unlock();
    throw Abandoned{};
  }
  void HandBack(std::unique_lock<std::mutex>* lock, size_t me) {
    running_ = kController;
    turn_.notify_all();
    turn_.wait(*lock, [&] { return running_ == me; });
  }

  void Thread(size_t me, const std::vector<Step>& steps) {
    std::unique_lock<std::mutex> lock(mutex_);
    turn_.wait(lock, [&] { return running_ == me; });
    for (size_t i = 0; i < steps.size() && !abandon_; ++i) {
      lock.unlock();
      try {
        steps[i].run();
      } catch (const Abandoned&) {
        lock.lock();
        break;
      }
      lock.lock();
      state_[me].blocked = false;
      state_[me].step = i + 1;
      ++progress_;
      note_.clear();
      if (i + 1 < steps.size()) HandBack(&lock, me);
    }
    state_[me].done = true;
    running_ = kController;
    turn_.notify_all();
  }

  std::string Once(const Program& program) {
    const size_t count = program.threads.size();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      state_.assign(count, State());
      running_ = kController;
      progress_ = 1;
      abandon_ = false;
    }
    history_.clear();
    at_ = 0;
    RegionLock::SetScheduler(this);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i)
      threads.emplace_back([this, i, &program] { Thread(i, program.threads[i]); });
    std::string problem;
    size_t last = kController;
    unsigned switches = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      std::vector<size_t> ready;
      bool over = true;
      for (size_t i = 0; i < count; ++i) {
        over = over && state_[i].done;
        // One that waits is worth another attempt once something has happened.
        if (!state_[i].done && (!state_[i].blocked || state_[i].blocked_at < progress_))
          ready.push_back(i);
      }
      if (over) break;
      if (ready.empty()) {
        problem = "deadlock: every thread waits";
        abandon_ = true;
        for (size_t i = 0; i < count; ++i) {
          if (state_[i].done) continue;
          running_ = i;
          turn_.notify_all();
          turn_.wait(lock, [&] { return running_ == kController; });
        }
        break;
      }
      size_t next;
      bool can_stay = false;
      for (const size_t i : ready) can_stay = can_stay || i == last;
      if (can_stay && switches == most_switches_) {
        next = last;
      } else {
        // The one that ran goes first, so that the first interleaving has no forced switch.
        std::vector<size_t> order;
        if (can_stay) order.push_back(last);
        for (const size_t i : ready)
          if (i != last) order.push_back(i);
        next = order[Pick(order.size())];
        switches += can_stay && next != last;
      }
      const std::string& name = program.threads[next][state_[next].step].name;
      last = running_ = next;
      turn_.notify_all();
      turn_.wait(lock, [&] { return running_ == kController; });
      history_ += "  thread " + std::to_string(next + 1) + ": " + name + note_ + "\n";
    }
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
    RegionLock::SetScheduler(nullptr);
    return problem.empty() ? program.check() : problem;
  }

  size_t Pick(size_t count) {
    if (count == 1) return 0;
    if (at_ == path_.size()) path_.push_back({0, count});
    return path_[at_++].answer;
  }
  // The next path, in the order of an odometer.
  bool Next() {
    path_.resize(at_);
    while (!path_.empty()) {
      if (++path_.back().answer < path_.back().count) return true;
      path_.pop_back();
    }
    return false;
  }

  const unsigned most_switches_;
  std::vector<Choice> path_;
  size_t at_ = 0;
  unsigned runs_ = 0;
  std::string history_;

  std::mutex mutex_;  // of all below
  std::condition_variable turn_;
  size_t running_ = kController;
  size_t progress_ = 0;
  bool abandon_ = false;
  std::string note_;
  std::vector<State> state_;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_INTERLEAVE_H_
