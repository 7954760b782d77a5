// `conform --faults`: does the suite catch the mistakes that it is there to catch?
//
// A clean run records which faults' places each test reaches; a fault then runs only the tests that
// reach its place, those that name its clause first, and stops at the first that fails.
#ifndef QPEXAM_HARNESS_CONFORM_FAULT_RUN_H_
#define QPEXAM_HARNESS_CONFORM_FAULT_RUN_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace qpexam::conform {

struct FaultResult {
  std::string name;
  std::string clause;     // that it breaks
  std::string caught_by;  // the first test that failed; empty: nothing did
  std::string caught_as;  // the clause that the test reported
  size_t reached_by = 0;  // tests that reach its place
};

struct FaultOptions {
  std::string binary;
  std::vector<std::string> names;  // empty: all
  unsigned jobs = 1;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(size_t done, size_t total)> progress;
};

// False with *why where the clean run failed or could not be made. Results are in the order of the
// library of faults; those not run because of an interrupt are missing.
bool RunFaults(const FaultOptions& options, std::vector<FaultResult>* results, std::string* why);

}  // namespace qpexam::conform

#endif  // QPEXAM_HARNESS_CONFORM_FAULT_RUN_H_
