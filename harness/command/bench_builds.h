// What `qpexam bench` measures by running other programs: the suites, and builds with sanitizers.
#ifndef QPEXAM_HARNESS_COMMAND_BENCH_BUILDS_H_
#define QPEXAM_HARNESS_COMMAND_BENCH_BUILDS_H_

#include <string>
#include <vector>

#include "harness/command/bench_figures.h"

namespace qpexam::bench {

struct OtherBuilds {
  std::string
      sanitized;        // this program, built with AddressSanitizer and UndefinedBehaviorSanitizer
  std::string fuzzers;  // the folder of the fuzz targets, built with these and libFuzzer
};

// Where ./qpexam put them: QPEXAM_BENCH_SANITIZED, QPEXAM_BENCH_FUZZERS. False with *why.
bool FindOtherBuilds(OtherBuilds* builds, std::string* why);

// Prints the seconds that the suites take on the reference, by group, where the suites' program is
// beside this one. False where a test fails: what it took then says nothing.
bool SuitesByGroup(Figures* figures);

// Runs the sanitized build's bench, and prints what both do side by side; its figures get the
// prefix "sanitized.". False with *why.
bool CompareBuilds(const OtherBuilds& builds, const std::vector<std::string>& providers,
                   double seconds, Figures* figures, std::string* why);

// Prints how often a second each fuzz target takes the Program of 20 calls, beside a target that
// does nothing. False with *why.
bool FuzzTargets(const OtherBuilds& builds, Figures* figures, std::string* why);

}  // namespace qpexam::bench

#endif  // QPEXAM_HARNESS_COMMAND_BENCH_BUILDS_H_
