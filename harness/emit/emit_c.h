// A Program as one C file that needs nothing but libibverbs: what one attaches to a mail.
//
// The file opens the device named on its command line, makes the Program's calls in plain verbs,
// and prints for each thing observed what was expected and what was seen; status 1 where they
// differ. What is expected is what the reference did, which a Trace tells. Calls that the reference
// did not make (their objects could not be created) are comments.
#ifndef QPEXAM_HARNESS_EMIT_EMIT_C_H_
#define QPEXAM_HARNESS_EMIT_EMIT_C_H_

#include <string>

#include "harness/program/program.h"
#include "harness/trace/trace.h"

namespace qpexam {

// Empty, or why this Program cannot be told so, and what can be done instead.
std::string WhyNoC(const Program& program);

// The Program without the calls that only the reference answers (fault, advance): what is to be run
// on the reference for `expected`.
Program ForC(const Program& program);

// `program` is what ForC() gave, `expected` its Trace on the reference. `about` goes into the
// comment at the top, a line each: what was found, and where.
std::string EmitC(const Program& program, const Trace& expected, const std::string& about);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_EMIT_EMIT_C_H_
