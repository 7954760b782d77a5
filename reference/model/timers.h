// What the transport timers of a QP stand for, in nanoseconds.
#ifndef QPEXAM_REFERENCE_MODEL_TIMERS_H_
#define QPEXAM_REFERENCE_MODEL_TIMERS_H_

#include <cstdint>

namespace qpexam::model {

// min_rnr_timer: 0 to 31, of which 0 is the longest (IBA table 45).
constexpr uint64_t RnrPeriod(uint8_t timer) {
  constexpr uint32_t kTensOfMicroseconds[32] = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return uint64_t{kTensOfMicroseconds[timer & 31]} * 10'000;
}

// timeout: 4.096 us x 2^timeout; 0 stands for no timeout at all (IBA 9.7.6.1.3).
constexpr uint64_t AckPeriod(uint8_t timeout) { return uint64_t{4096} << (timeout & 31); }

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_TIMERS_H_
