#include "harness/execute/real_time.h"

#include <algorithm>
#include <thread>

namespace qpexam {
namespace {
constexpr std::chrono::microseconds kLongestNap{500};
}  // namespace

void RealTimeSession::BeginWait() {
  deadline_ = std::chrono::steady_clock::now() + bounds_.wait;
  nap_ = std::chrono::microseconds{0};
}

bool RealTimeSession::Step(Rest* rest) {
  if (std::chrono::steady_clock::now() >= deadline_) {
    *rest = Rest::kTimedOut;
    return false;
  }
  // The first steps spin (a device answers in microseconds), later ones sleep longer and longer, so
  // that a completion that never comes costs no processor.
  if (nap_.count() == 0) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(nap_);
  }
  nap_ = std::min(kLongestNap, nap_ * 2 + std::chrono::microseconds{1});
  return true;
}

Rest RealTimeSession::Settle() {
  std::this_thread::sleep_for(bounds_.quiet);
  return Rest::kTimedOut;
}

}  // namespace qpexam
