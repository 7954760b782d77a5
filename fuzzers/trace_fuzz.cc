// The readers of traces, text and JSON: any bytes give a trace or an error with its place; a trace
// prints to what reads as the same, in both forms, and the judge takes whatever was read.
#include <cstdlib>

#include "harness/judge/judge.h"
#include "harness/trace/trace_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qpexam;
  TraceFile file;
  if (std::optional<TraceError> error =
          ReadTrace(std::string_view(reinterpret_cast<const char*>(data), size), &file)) {
    if (error->what.empty()) std::abort();
    return 0;
  }
  const std::string text = PrintTrace(file.program, file.trace);
  TraceFile again, json;
  if (ReadTrace(text, &again) || PrintTrace(again.program, again.trace) != text) std::abort();
  if (ReadTrace(TraceToJson(file.program, file.trace), &json) ||
      PrintTrace(json.program, json.trace) != text)
    std::abort();
  judge::JudgeOnce(file.program, file.trace);
  return 0;
}
