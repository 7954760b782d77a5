// The same mutations for AFL++: AFL_CUSTOM_MUTATOR_LIBRARY=.../libqpexam_afl_mutator.so. By name:
// afl-fuzz looks these functions up in the library.
#include <cstring>
#include <vector>

#include "fuzzers/program_input.h"

namespace {

struct Mutator {
  qpexam::Random random;
  std::vector<uint8_t> out;
};

}  // namespace

#define QPEXAM_EXPORT extern "C" __attribute__((visibility("default")))

QPEXAM_EXPORT void* afl_custom_init(void*, unsigned int seed) {
  return new Mutator{qpexam::Random(seed), {}};
}

QPEXAM_EXPORT size_t afl_custom_fuzz(void* state, uint8_t* data, size_t size, uint8_t** out,
                                     uint8_t* other, size_t other_size, size_t max_size) {
  auto* mutator = static_cast<Mutator*>(state);
  mutator->out.resize(max_size);
  *out = mutator->out.data();
  const uint64_t seed = mutator->random.Next();
  if (other != nullptr && other_size > 0 && mutator->random.OneIn(6)) {
    const size_t n = qpexam::CrossOverInputs(data, size, other, other_size, *out, max_size, seed);
    if (n > 0) return n;
  }
  const size_t n = size < max_size ? size : max_size;
  if (n > 0) std::memcpy(*out, data, n);
  return qpexam::MutateInput(*out, n, max_size, seed);
}

QPEXAM_EXPORT void afl_custom_deinit(void* state) { delete static_cast<Mutator*>(state); }
