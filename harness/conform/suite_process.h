// The conformance suites as a process of their own: what they are asked, what they say.
//
// The suites are plain libibverbs and know nothing of the harness; they write a line of JSON a test
// (conformance/fixture/record.h). A provider that crashes or hangs takes a worker of the suites
// with it, never this process.
#ifndef QPEXAM_HARNESS_CONFORM_SUITE_PROCESS_H_
#define QPEXAM_HARNESS_CONFORM_SUITE_PROCESS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/remote/machine.h"

namespace qpexam::conform {

struct ClauseResult {
  std::string verdict;  // conforms|variation|warning|violation|emulated|undecided|skipped
  std::vector<std::string> notes;
};

struct TestResult {
  std::string name;     // "Atom.AbortDiscardsEverything", "Comp.ByteLength/rdma_read"
  std::string outcome;  // pass|fail|skip|crash|hang
  std::map<std::string, ClauseResult> clauses;
  std::vector<std::string> notes;
  std::vector<std::string> reaches;  // faults whose place the test reached, when that was asked
  uint64_t microseconds = 0;         // real ones; 0 for what crashed or hung
};

// SuiteOptions::blocks of a whole run: enough to keep many processors busy; the same everywhere, so
// that reports are.
constexpr unsigned kBlocks = 16;

struct SuiteRun {
  std::string provider;  // as the suites call it
  std::vector<TestResult> tests;
};

struct SuiteOptions {
  std::string binary;
  std::string provider = "reference";
  std::string filter;  // gtest's pattern; empty: all
  std::string effort = "normal";
  bool strict = false;
  bool unsafe = false;
  bool fail_fast = false;       // stop at the first failing test
  bool record_reaches = false;  // fill TestResult::reaches
  int test_seconds = 0;         // a test that takes longer hangs; 0: the suites' own limit
  unsigned blocks = 1;  // parts with a process of their own each; what is found may depend on them
  unsigned jobs = 1;    // how many of these at a time, which changes nothing else
  const std::atomic<bool>* stop = nullptr;
  // Where the suites run instead of here, started afresh behind each test that kills it.
  const remote::Machine* machine = nullptr;
  // Called now and then with the number of tests that have ended.
  std::function<void(size_t)> progress;
};

enum class SuiteEnd { kRan, kNoProvider, kFailed, kStopped };

// Runs the suites. What has ended is in `run` whatever happens; *why says what went wrong.
SuiteEnd RunSuites(const SuiteOptions& options, SuiteRun* run, std::string* why);

// Which clauses each test names, in the order of the tests; without opening anything.
bool ListTests(const std::string& binary,
               std::vector<std::pair<std::string, std::vector<std::string>>>* tests,
               std::string* why);

// The suites' binary: QPEXAM_SUITES, else beside this one. Empty with *why.
std::string FindSuites(std::string* why);

// RunSuites() on options.machine.
SuiteEnd RunSuitesOnMachine(const SuiteOptions& options, SuiteRun* run, std::string* why);

// gtest's filter for what `filter` takes, less the tests of these names.
std::string FilterWithout(const std::string& filter, const std::vector<TestResult>& done);

// Reads the lines that the suites wrote; a truncated last line is left out.
void ParseResults(const std::string& text, SuiteRun* run);

}  // namespace qpexam::conform

#endif  // QPEXAM_HARNESS_CONFORM_SUITE_PROCESS_H_
