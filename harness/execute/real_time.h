// The clock of real devices: waits are bounded in real time, and absence is "none within T".
#ifndef QPEXAM_HARNESS_EXECUTE_REAL_TIME_H_
#define QPEXAM_HARNESS_EXECUTE_REAL_TIME_H_

#include <chrono>

#include "harness/execute/session.h"

namespace qpexam {

struct RealTimeBounds {
  // A completion that is owed comes within this, unless the device is broken: generous, since it
  // is only ever waited out in full when something is missing.
  std::chrono::milliseconds wait{2000};
  // After this long without a call a device counts as at rest.
  std::chrono::milliseconds quiet{50};
};

// The waiting half of a session on a device whose time is the machine's.
class RealTimeSession : public DeviceSession {
 public:
  explicit RealTimeSession(RealTimeBounds bounds) : bounds_(bounds) {}

  void BeginWait() override;
  bool Step(Rest* rest) override;
  Rest Settle() override;

 private:
  RealTimeBounds bounds_;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::microseconds nap_{0};
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_EXECUTE_REAL_TIME_H_
