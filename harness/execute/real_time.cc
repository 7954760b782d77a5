#include "harness/execute/real_time.h"

#include <algorithm>
#include <thread>

#include "reference/model/timers.h"

namespace qpexam {
namespace {
using std::chrono::nanoseconds;

// A wait that has lasted long is looked at less often: many Programs may wait beside each other.
constexpr std::chrono::microseconds kLongestNap{10000};
constexpr std::chrono::seconds kMostPatience{10};
}  // namespace

void RealTimeSession::BeginProgram(uint64_t seed) {
  (void)seed;
  timeout_ = retry_cnt_ = rnr_retry_ = 0;
  min_rnr_timer_ = -1;
  posted_.store(false, std::memory_order_relaxed);
}

void RealTimeSession::Modified(const ibv_qp_attr& attr, int mask) {
  auto keep = [mask](int bit, int value, int* most) {
    if (mask & bit) *most = std::max(*most, value);
  };
  keep(IBV_QP_TIMEOUT, attr.timeout, &timeout_);
  keep(IBV_QP_RETRY_CNT, attr.retry_cnt, &retry_cnt_);
  keep(IBV_QP_RNR_RETRY, attr.rnr_retry, &rnr_retry_);
  // 0 stands for the longest (IBA table 45).
  keep(IBV_QP_MIN_RNR_TIMER, attr.min_rnr_timer == 0 ? 32 : attr.min_rnr_timer, &min_rnr_timer_);
}

nanoseconds RealTimeSession::patience() const {
  nanoseconds longest{0};
  if (!bounds_.patient) return longest;
  if (timeout_ > 0)
    longest += nanoseconds(4 * model::AckPeriod(static_cast<uint8_t>(timeout_))) * (retry_cnt_ + 1);
  if (min_rnr_timer_ > 0)
    longest +=
        nanoseconds(model::RnrPeriod(static_cast<uint8_t>(min_rnr_timer_))) * (rnr_retry_ + 1);
  return std::min<nanoseconds>(longest, kMostPatience);
}

void RealTimeSession::BeginWait() {
  deadline_ = std::chrono::steady_clock::now() + std::max<nanoseconds>(bounds_.wait, patience());
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
  const bool posted = posted_.exchange(false, std::memory_order_relaxed);
  std::this_thread::sleep_for(bounds_.quiet + (posted ? patience() : nanoseconds{0}));
  return Rest::kTimedOut;
}

}  // namespace qpexam
