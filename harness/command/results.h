// From the results of watched runs to a report and to what people read.
#ifndef QPEXAM_HARNESS_COMMAND_RESULTS_H_
#define QPEXAM_HARNESS_COMMAND_RESULTS_H_

#include <string>
#include <vector>

#include "harness/command/console.h"
#include "harness/report/report.h"
#include "harness/watch/watched_run.h"

namespace qpexam {

// Adds one result to the report of its provider.
void AddResult(const NamedProgram& named, const RunResult& result, ProviderReport* report);

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
};
ExitStatus RunAll(const ProviderInfo& provider, const std::vector<NamedProgram>& programs,
                  const RunAllOptions& options, ProviderReport* report,
                  std::vector<RunResult>* results);

// The Program as a C file that expects what the reference does; false with *why.
bool EmitOnReference(const Program& program, const std::string& about, std::string* source,
                     std::string* why);

// A report with what is the same for every command.
Report NewReport(const std::string& command);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_COMMAND_RESULTS_H_
