// The reference part of docs/program.md, written from the schema: each call with its arguments.
#ifndef QPEXAM_HARNESS_PROGRAM_GUIDE_H_
#define QPEXAM_HARNESS_PROGRAM_GUIDE_H_

#include <string>

namespace qpexam {

// Markdown. A test holds docs/program.md to it.
std::string CallReference();

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_GUIDE_H_
