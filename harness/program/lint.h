// The lint: which calls of a Program may be UNDEFINED uses, found without running it.
//
// The check is conservative over all allowed behaviours: a Program that it passes makes no
// undefined use on any provider, whatever calls succeed or fail, as long as the executor leaves
// out calls on objects that could not be made and on regions that it could not open. Before any
// provider but the reference runs a Program, it is cut before the first call found here; the
// reference runs it whole and reports undefined uses as they happen.
//
// It also finds calls that would block for ever by the specification's own rules (a start that
// waits for a region which only a later call of the Program ends).
#ifndef QPEXAM_HARNESS_PROGRAM_LINT_H_
#define QPEXAM_HARNESS_PROGRAM_LINT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "harness/program/program.h"

namespace qpexam {

struct LintFinding {
  uint32_t call = 0;  // index into Program::calls
  // A run stops before this call: before `call`, or before the `parallel` that it is behind. What
  // the text has before a call of a section is no state in which the threads could be stopped.
  uint32_t cut_at = 0;
  const char* clause;  // "WR-SET-002"
  std::string why;     // one line
};

// The first call that may be UNDEFINED; nothing: the whole Program may run anywhere. The Program
// must be well formed (validate.h).
std::optional<LintFinding> FirstUndefined(const Program& program);

// "FILE:LINE: CALL\n  CLAUSE: WHY"
std::string Message(const Program& program, const LintFinding& finding);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_LINT_H_
