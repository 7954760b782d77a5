// Programs by seed: sensible ones mostly (connected QPs, posted receives, settled and polled), with
// a known share of requests that must fail and of calls that are refused.
#ifndef QPEXAM_HARNESS_PROGRAM_GENERATE_H_
#define QPEXAM_HARNESS_PROGRAM_GENERATE_H_

#include <cstdint>

#include "harness/program/program.h"
#include "harness/program/random.h"

namespace qpexam {

struct GenerateOptions {
  uint32_t steps = 8;                 // regions, posts, polls, state changes behind the set-up
  uint32_t faulty_per_mille = 80;     // of requests: wrong key, range, length, alignment, flag
  uint32_t undefined_per_mille = 0;   // of steps: uses that the lint cuts; for the reference alone
  uint64_t ops = model::kAllSendOps;  // operations that may occur
};

// Well formed; with undefined_per_mille = 0 also clean of undefined uses.
Program Generate(Random* random, const GenerateOptions& options = {});

// One call of a kind that fits a Program with these objects, with arguments that mean something;
// what mutation inserts. Not yet mended.
Call RandomCall(Random* random, const Program& program);

// A number that is likely to matter for the field: limits, ring sizes +-1, powers of two.
uint64_t BoundaryValue(Random* random, uint64_t max);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_GENERATE_H_
