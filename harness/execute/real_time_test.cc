// How long nothing can be said of a request in real time.
#include "harness/execute/real_time.h"

#include <gtest/gtest.h>

namespace qpexam {
namespace {

using std::chrono::milliseconds;

class Session : public RealTimeSession {
 public:
  explicit Session(bool patient = true)
      : RealTimeSession({milliseconds(1), milliseconds(1), patient}) {}
  const std::string& provider() const override { return name_; }
  const std::string& version() const override { return name_; }
  ibv_context* Open(unsigned) override { return nullptr; }

 private:
  std::string name_;
};

ibv_qp_attr Timers(uint8_t timeout, uint8_t retry_cnt, uint8_t min_rnr_timer, uint8_t rnr_retry) {
  ibv_qp_attr attr{};
  attr.timeout = timeout;
  attr.retry_cnt = retry_cnt;
  attr.min_rnr_timer = min_rnr_timer;
  attr.rnr_retry = rnr_retry;
  return attr;
}
constexpr int kAll =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_MIN_RNR_TIMER | IBV_QP_RNR_RETRY | IBV_QP_STATE;

TEST(RealTime, IsPatientForAllTriesOfARequest) {
  Session session;
  EXPECT_EQ(session.patience().count(), 0);
  // 4.096 us x 2^10, four times for each of four tries; 0.01 ms for each of two.
  session.Modified(Timers(10, 3, 1, 1), kAll);
  EXPECT_EQ(session.patience().count(), 4'194'304 * 16 + 2 * 10'000);
  // What a mask does not name is not there, and the longest of all QPs counts.
  session.Modified(Timers(31, 7, 31, 7), IBV_QP_STATE);
  session.Modified(Timers(9, 3, 1, 1), kAll);
  EXPECT_EQ(session.patience().count(), 4'194'304 * 16 + 2 * 10'000);
  session.BeginProgram(1);
  EXPECT_EQ(session.patience().count(), 0);
  // What measures the device waits for nothing else.
  Session measuring(false);
  measuring.Modified(Timers(10, 3, 1, 1), kAll);
  EXPECT_EQ(measuring.patience().count(), 0);
}

TEST(RealTime, HasNoEndAndNoTimeoutInBounds) {
  Session session;
  session.Modified(Timers(31, 7, 1, 7), kAll);
  EXPECT_EQ(session.patience(), std::chrono::seconds(10));
  session.BeginProgram(1);
  session.Modified(Timers(0, 7, 31, 0), IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT);
  EXPECT_EQ(session.patience().count(), 0);
  session.Modified(Timers(0, 0, 0, 0), IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(session.patience(), std::chrono::microseconds(655'360));
}

TEST(RealTime, WaitsSoLongOnlyForWhatWasPosted) {
  Session session;
  session.Modified(Timers(12, 0, 1, 0), kAll);  // 67 ms
  session.Posted();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(session.Settle(), Rest::kTimedOut);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(67));
  // A wait begun now takes as long, whatever was posted.
  Rest rest = Rest::kIdle;
  session.BeginWait();
  const auto wait = std::chrono::steady_clock::now();
  while (session.Step(&rest)) {
  }
  EXPECT_EQ(rest, Rest::kTimedOut);
  EXPECT_GE(std::chrono::steady_clock::now() - wait, milliseconds(67));
}

}  // namespace
}  // namespace qpexam
