// `qpexam emit-c`: a Program as one C file for people who have libibverbs and not qpexam.
#include "harness/emit/emit_c.h"

#include <fmt/format.h>

#include "harness/command/commands.h"
#include "harness/command/results.h"
#include "harness/trace/trace_text.h"

namespace qpexam {

bool EmitOnReference(const Program& program, const std::string& about, std::string* source,
                     std::string* why) {
  *why = WhyNoC(program);
  if (!why->empty()) return false;
  ProviderInfo reference;
  if (!FindProvider("reference", &reference, why)) return false;
  const Program bare = ForC(program);
  WatchOptions options;
  options.want_trace = true;
  options.cut_undefined = true;
  RunResult result;
  *why = RunWatched(reference, {bare}, options, [&](RunResult&& r) { result = std::move(r); });
  TraceFile file;
  if (why->empty() && (result.trace.empty() || ReadTrace(result.trace, &file)))
    *why = "the reference did not come to its end: " + result.fatal;
  if (!why->empty()) return false;
  *source = EmitC(bare, file.trace, about);
  return true;
}

ExitStatus EmitCFile(const EmitArguments& arguments) {
  std::vector<NamedProgram> programs;
  if (LoadPrograms({arguments.file}, &programs) != kFine) return kUsage;
  if (programs.size() != 1) {
    Say("emit-c takes one program; name one file");
    return kUsage;
  }
  OutputFile output;
  if (!output.Open(arguments.output)) return kUsage;
  std::string source, why;
  if (!EmitOnReference(programs[0].program, "Made by qpexam from " + arguments.file + ".\n",
                       &source, &why)) {
    Say(fmt::format("{}: {}", arguments.file, why));
    return kUsage;
  }
  if (output.wanted()) return output.Write(source) ? kFine : kUsage;
  Print(source);
  return kFine;
}

}  // namespace qpexam
