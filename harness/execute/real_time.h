// The clock of real devices: waits are bounded in real time, and absence is "none within T".
#ifndef QPEXAM_HARNESS_EXECUTE_REAL_TIME_H_
#define QPEXAM_HARNESS_EXECUTE_REAL_TIME_H_

#include <atomic>
#include <chrono>

#include "harness/execute/session.h"

namespace qpexam {

struct RealTimeBounds {
  // A completion that is owed comes within this, unless the device is broken: generous, since it
  // is only ever waited out in full when something is missing.
  std::chrono::milliseconds wait{2000};
  // After this long without a call a device counts as at rest.
  std::chrono::milliseconds quiet{50};
  // Whether it also waits as long as the requests of a Program may be tried.
  bool patient = true;
};

// The waiting half of a session on a device whose time is the machine's.
class RealTimeSession : public DeviceSession {
 public:
  explicit RealTimeSession(RealTimeBounds bounds) : bounds_(bounds) {}

  void BeginProgram(uint64_t seed) override;
  void Modified(const ibv_qp_attr& attr, int mask) override;
  void Posted() override { posted_.store(true, std::memory_order_relaxed); }
  void BeginWait() override;
  bool Step(Rest* rest) override;
  Rest Settle() override;

  // How long a request of this Program's QPs may be tried before it has failed, up to ten seconds:
  // four times the timeout for each try (IBA 9.7.6.1.3), and the waits for a receive.
  std::chrono::nanoseconds patience() const;

 private:
  RealTimeBounds bounds_;
  // The largest that any QP of the Program was given. A timeout of 0 is none.
  int timeout_ = 0, retry_cnt_ = 0, min_rnr_timer_ = -1, rnr_retry_ = 0;
  std::atomic<bool> posted_{false};  // since the last settle
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::microseconds nap_{0};
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_EXECUTE_REAL_TIME_H_
