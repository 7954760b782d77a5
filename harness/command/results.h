// From the results of watched runs to a report and to what people read.
#ifndef QPEXAM_HARNESS_COMMAND_RESULTS_H_
#define QPEXAM_HARNESS_COMMAND_RESULTS_H_

#include <string>
#include <vector>

#include "harness/command/console.h"
#include "harness/conform/expectations.h"
#include "harness/report/report.h"
#include "harness/watch/watched_run.h"

namespace qpexam {

// Adds one result to the report of its provider. `known`: what of it is expected.
void AddResult(const NamedProgram& named, const RunResult& result, ProviderReport* report,
               const conform::ProgramResult* known = nullptr);

// What a verdict comes to for this provider: findings on clauses that a hosted provider's library
// does not decide count for nothing but the word "emulated".
struct Outcome {
  judge::Result result = judge::Result::kConforms;
  bool emulated = false;  // nothing worse than findings that the emulation decided
};
Outcome OutcomeOf(const judge::Verdict& verdict);

// The worst that a result means for the exit status.
ExitStatus StatusOf(const RunResult& result);

// What a result says to people: empty for one that conforms and shows nothing.
std::string ExplainResult(const NamedProgram& named, const RunResult& result);

// Runs all on one provider. Results with a finding are replayed in a fresh process first: one that
// does not recur is noted as unstable. Fills `report` and appends explanations of findings.
struct RunAllOptions {
  WatchOptions watch;
  std::string progress;  // what to call it
  // What is known of the provider. A result whose findings are all expected is status 0.
  const conform::Expectations* expectations = nullptr;
  bool whole = false;  // all Programs run, so that entries which nothing used can be judged
};
// A result's findings beside what was expected of them, in the order of the results.
struct Expected {
  std::vector<conform::ProgramResult> programs;
  std::vector<conform::Surprise> surprises;
};
ExitStatus RunAll(const ProviderInfo& provider, const std::vector<NamedProgram>& programs,
                  const RunAllOptions& options, ProviderReport* report,
                  std::vector<RunResult>* results, Expected* expected = nullptr);

// What is known of providers: the file `asked` for, else the tree's `own`; without one nothing is.
// False with a message said.
bool LoadExpectations(const std::string& asked, const std::string& own,
                      conform::Expectations* expectations);

// The Program as a C file that expects what the reference does; false with *why.
bool EmitOnReference(const Program& program, const std::string& about, std::string* source,
                     std::string* why);

// A report with what is the same for every command.
Report NewReport(const std::string& command);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_COMMAND_RESULTS_H_
