// `qpexam fmt`: the one way to write a Program.
#include <fmt/format.h>

#include "harness/command/commands.h"
#include "harness/command/console.h"
#include "harness/program/bytes.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"

namespace qpexam {

ExitStatus Fmt(const FmtArguments& arguments) {
  ExitStatus status = kFine;
  for (const std::string& file : arguments.files) {
    std::string text, why;
    if (!ReadFile(file, &text, &why)) {
      Say(fmt::format("{}: {}", file, why));
      status = kUsage;
      continue;
    }
    if (arguments.bytes) {
      // Every string of bytes is a Program: that is what the fuzzers' engines work on.
      Program program =
          ProgramFromBytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      Rename(&program);
      Print(PrintProgram(program));
      continue;
    }
    ParseResult parsed = ParseProgram(text, file);
    if (!parsed.ok) {
      Say(parsed.error.Message());
      status = kUsage;
      continue;
    }
    const std::string formatted = PrintProgram(parsed.program);
    if (arguments.check) {
      if (formatted == text) continue;
      Print(fmt::format("{}: not formatted\n", file));
      status = Worse(status, kFindings);
    } else if (arguments.write && file != "-") {
      if (formatted == text) continue;
      OutputFile out;
      if (!out.Open(file) || !out.Write(formatted)) status = kUsage;
    } else {
      Print(formatted);
    }
  }
  return status;
}

}  // namespace qpexam
