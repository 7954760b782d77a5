// A seeded source of choices: the same seed gives the same choices on every platform.
#ifndef QPEXAM_HARNESS_PROGRAM_RANDOM_H_
#define QPEXAM_HARNESS_PROGRAM_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace qpexam {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // splitmix64: every seed is a good one.
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // 0 .. n-1; 0 where n is 0.
  uint64_t Below(uint64_t n) { return n ? Next() % n : 0; }
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return *(values.begin() + Below(values.size()));
  }

 private:
  uint64_t state_;
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_RANDOM_H_
