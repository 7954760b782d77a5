// The text form: any bytes give a Program or an error with its place; what is a Program prints to
// text that is the same Program, and its byte form is, too.
#include <cstdlib>

#include "harness/program/bytes.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/program/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qpexam;
  ParseResult first =
      ParseProgram(std::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (!first.ok) {
    if (first.error.Message().empty() || first.error.what.empty()) std::abort();
    return 0;
  }
  if (Validate(first.program)) std::abort();
  const std::string text = PrintProgram(first.program);
  ParseResult second = ParseProgram(text, "printed");
  if (!second.ok || !SameProgram(first.program, second.program)) std::abort();
  if (PrintProgram(second.program) != text) std::abort();
  const std::vector<uint8_t> bytes = BytesFromProgram(first.program);
  Program decoded = ProgramFromBytes(bytes.data(), bytes.size(), kNoByteLimits);
  Rename(&first.program);
  if (!SameProgram(first.program, decoded)) std::abort();
  return 0;
}
