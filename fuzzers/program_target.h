// One provider, opened once in the process, that runs and judges Programs for a fuzz target.
//
// By itself a target aborts at a finding. Under `qpexam fuzz` (harness/fuzz/engine_folder.h) it
// keeps the Program in the command's folder and goes on, so that an easy finding costs the engine
// no process.
#ifndef QPEXAM_FUZZERS_PROGRAM_TARGET_H_
#define QPEXAM_FUZZERS_PROGRAM_TARGET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "fuzzers/provider_coverage.h"
#include "harness/devices/provider_family.h"
#include "harness/execute/executor.h"
#include "harness/fuzz/engine_folder.h"
#include "harness/judge/judge.h"

namespace qpexam {

class ProgramTarget {
 public:
  // Ends the process where the provider cannot be opened. $QPEXAM_FUZZ_PROVIDER names another.
  explicit ProgramTarget(const char* provider);
  ~ProgramTarget();

  // Runs what the lint passes of it. The trace stays until the next run.
  const Trace& Run(const Program& program);
  // The same of a Program that was put into Next(), whose memory is that of the ones before.
  Program* Next() { return &program_; }
  const Trace& RunNext();
  // The verdict on the last run, with what the seams found: keeps a finding in the folder, or
  // prints an explanation and aborts, which is what every engine takes for a crash.
  void Judge();

 private:
  std::unique_ptr<DeviceSession> session_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<judge::Judge> judge_;
  Program program_;  // as it ran
  Trace trace_;
  std::vector<SessionFinding> below_;

  std::optional<EngineFolder> folder_;
  std::set<std::string> known_, kept_;
  std::map<std::string, uint64_t> known_seen_;
  std::unique_ptr<ProviderCoverage> coverage_;
};

// Prints the Program and `what`, and aborts.
[[noreturn]] void Fail(const Program& program, const std::string& what);

}  // namespace qpexam

#endif  // QPEXAM_FUZZERS_PROGRAM_TARGET_H_
