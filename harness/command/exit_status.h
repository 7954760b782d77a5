// What the program's exit status says; the highest that applies wins.
#ifndef QPEXAM_HARNESS_COMMAND_EXIT_STATUS_H_
#define QPEXAM_HARNESS_COMMAND_EXIT_STATUS_H_

#include <algorithm>

namespace qpexam {

enum ExitStatus : int {
  kFine = 0,
  kFindings = 1,         // a violation, crash, hang, or a difference that was asked for
  kUsage = 2,            // wrong usage, or a file that cannot be read, parsed or written
  kNoProvider = 3,       // a provider that was named cannot be opened
  kSetupIncomplete = 4,  // something of this machine is missing
  kOurFailure = 5,       // qpexam itself went wrong: please report it
  kInterrupted = 130,    // SIGINT, after the partial report was written
};

inline ExitStatus Worse(ExitStatus a, ExitStatus b) { return std::max(a, b); }

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_COMMAND_EXIT_STATUS_H_
