// The text form of a Program (grammar: docs/program.md). Equal Programs print equally, and what is
// printed parses to the same Program.
#ifndef QPEXAM_HARNESS_PROGRAM_PRINT_H_
#define QPEXAM_HARNESS_PROGRAM_PRINT_H_

#include <string>

#include "harness/program/program.h"

namespace qpexam {

// The version of the text form that is written, and the newest that is read.
inline constexpr int kTextVersion = 1;

enum class Notes : uint8_t { kKeep, kDrop };

std::string PrintProgram(const Program& program, Notes notes = Notes::kKeep);

// One call, without indentation, thread and newline: for messages and reports.
std::string PrintCall(const Program& program, const Call& call);

// "src+16", "win+1^0x100", "SIGNALED|FENCE", ...: the values alone.
std::string PrintMem(const Program& program, const MemRef& ref);
std::string PrintKey(const Program& program, const KeyRef& key);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_PRINT_H_
