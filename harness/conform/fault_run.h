// `conform --faults`: does the suite catch the mistakes that it is there to catch?
//
// A clean run records which faults' places each test reaches; a fault then runs only the tests that
// reach its place, those that name its clause first, and stops at the first that fails. With
// `breadth` it runs them all and says which clauses break: a good fault breaks its own and little
// else. Related is what breaks with it: the clauses of its group, those that some test names
// together with its own, and what conformance/related.tsv says of it.
#ifndef QPEXAM_HARNESS_CONFORM_FAULT_RUN_H_
#define QPEXAM_HARNESS_CONFORM_FAULT_RUN_H_

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace qpexam::conform {

struct FaultResult {
  std::string name;
  std::string clause;     // that it breaks
  std::string origin;     // "fresh-reader"; empty for the library's own
  std::string caught_by;  // the first test that failed; empty: nothing did
  std::string caught_as;  // the clause that the test reported
  size_t reached_by = 0;  // tests that reach its place
  // With FaultOptions::breadth: every clause that some test found broken, those of them that are
  // not related to the fault's, and what the data calls related though it did not break.
  std::vector<std::string> breaks, unrelated, unused;
  bool breaks_own = false;  // some test found the fault's own clause broken
  bool cut = false;         // breadth ended early, since its tests hang
};

// A line of conformance/related.tsv: clauses that follow from what a fault breaks, and why.
struct Related {
  std::string fault;
  std::vector<std::string> clauses;
  std::string reason;
};
// Tab-separated: fault, clauses with a blank between, reason. # starts a comment. False with *why:
// file, line and what would be right.
bool ParseRelated(std::string_view text, const std::string& file, std::vector<Related>* out,
                  std::string* why);

// A fault that breaks more unrelated clauses than this says little about its own.
constexpr size_t kMostUnrelated = 3;

struct FaultOptions {
  std::string binary;
  std::vector<std::string> names;  // empty: all
  bool breadth = false;            // every test that reaches the fault, not only the first to fail
  std::vector<Related> related;    // for breadth
  unsigned jobs = 1;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(size_t done, size_t total)> progress;
};

// False with *why where the clean run failed or could not be made. Results are in the order of the
// library of faults; those not run because of an interrupt are missing.
bool RunFaults(const FaultOptions& options, std::vector<FaultResult>* results, std::string* why);

}  // namespace qpexam::conform

#endif  // QPEXAM_HARNESS_CONFORM_FAULT_RUN_H_
