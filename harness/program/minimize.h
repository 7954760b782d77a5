// Shrinks a Program that shows something to the shortest readable one that still shows it.
//
// Delta debugging: regions, requests, runs of calls and single calls are left out, then each
// argument is made simpler (its default, fewer flags and list elements, smaller numbers), as long
// as `keep` holds. Knows nothing of crashes or verdicts: that is `keep`'s business. Deterministic
// where `keep` is.
#ifndef QPEXAM_HARNESS_PROGRAM_MINIMIZE_H_
#define QPEXAM_HARNESS_PROGRAM_MINIMIZE_H_

#include <functional>

#include "harness/program/program.h"

namespace qpexam {

struct MinimizeLimits {
  int tries = 20000;  // calls of `keep`
};

// `program` is well formed and keep(program) holds. What is returned is, too. `keep` is only given
// well-formed Programs.
Program Minimize(Program program, const std::function<bool(const Program&)>& keep,
                 const MinimizeLimits& limits = {});

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_MINIMIZE_H_
