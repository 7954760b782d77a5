// Reads the text form of a Program (grammar: docs/program.md).
//
// Any input gives a well-formed Program (validate.h) or an error that names file, line and column,
// says what was expected and what would be right. Nothing else is read than the text; nothing
// crashes on any bytes.
#ifndef QPEXAM_HARNESS_PROGRAM_PARSE_H_
#define QPEXAM_HARNESS_PROGRAM_PARSE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/program/program.h"

namespace qpexam {

struct ParseError {
  std::string file;
  uint32_t line = 0;    // from 1; 0: the file as a whole
  uint32_t column = 0;  // from 1, in bytes
  std::string what;
  std::string remedy;

  // "FILE:LINE:COLUMN: WHAT\n  REMEDY"
  std::string Message() const;
};

struct ParseResult {
  bool ok = false;
  Program program;   // where ok
  ParseError error;  // where not
};

// `file` is for messages alone.
ParseResult ParseProgram(std::string_view text, std::string_view file);

// Reads and parses a file; "-" is standard input.
ParseResult LoadProgram(const std::string& path);

// Longer files are refused.
inline constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_PARSE_H_
