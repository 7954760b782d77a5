// One provider, opened once in the process, that runs and judges Programs for a fuzz target.
#ifndef QPEXAM_FUZZERS_PROGRAM_TARGET_H_
#define QPEXAM_FUZZERS_PROGRAM_TARGET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "harness/devices/provider_family.h"
#include "harness/execute/executor.h"
#include "harness/judge/judge.h"

namespace qpexam {

class ProgramTarget {
 public:
  // Ends the process where the provider cannot be opened.
  explicit ProgramTarget(const char* provider);

  // Runs what the lint passes of it. The trace stays until the next run.
  const Trace& Run(const Program& program);
  // The verdict on the last run, with what the seams found: prints an explanation and aborts where
  // there is a finding, which is what every engine takes for a crash.
  void Judge();

 private:
  std::unique_ptr<DeviceSession> session_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<judge::Judge> judge_;
  Program program_;  // as it ran
  Trace trace_;
};

// Prints the Program and `what`, and aborts.
[[noreturn]] void Fail(const Program& program, const std::string& what);

}  // namespace qpexam

#endif  // QPEXAM_FUZZERS_PROGRAM_TARGET_H_
