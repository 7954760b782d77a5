// `qpexam minimize`: the shortest Program that still shows the same finding on the same provider.
#include "harness/program/minimize.h"

#include <fmt/format.h>

#include "harness/command/commands.h"
#include "harness/command/results.h"
#include "harness/program/print.h"

namespace qpexam {
namespace {

// What must stay: not just any failure, but this one. Rather what the caller of libibverbs sees
// than what is seen below it: a C file can show the former.
std::string Shown(const RunResult& result) {
  if (result.ended != Ended::kWell) return result.fatal.substr(0, result.fatal.find(':'));
  for (const judge::Finding& f : result.verdict.findings)
    if (f.kind == judge::FindingKind::kViolation && !f.emulated)
      return fmt::format("violation {}", f.clause);
  for (const SessionFinding& f : result.below) return f.kind + " " + f.clause;
  return "";
}

bool Shows(const RunResult& result, const std::string& wanted) {
  if (Shown(result) == wanted) return true;
  if (result.ended != Ended::kWell) return false;
  for (const SessionFinding& f : result.below)
    if (f.kind + " " + f.clause == wanted) return true;
  for (const judge::Finding& f : result.verdict.findings)
    if (f.kind == judge::FindingKind::kViolation && !f.emulated &&
        fmt::format("violation {}", f.clause) == wanted)
      return true;
  return false;
}

}  // namespace

ExitStatus MinimizeFile(const MinimizeArguments& arguments) {
  ProviderInfo provider;
  std::string why;
  if (!FindProvider(arguments.provider, &provider, &why)) {
    Say(why);
    return kUsage;
  }
  if (!provider.why_unavailable.empty()) {
    Say(fmt::format("{}: {}", provider.name, provider.why_unavailable));
    return provider.why_is_setup ? kSetupIncomplete : kNoProvider;
  }
  std::vector<NamedProgram> programs;
  if (LoadPrograms({arguments.file}, &programs) != kFine) return kUsage;
  if (programs.size() != 1) {
    Say("minimize takes one program; name one file");
    return kUsage;
  }
  OutputFile output;
  if (!output.Open(arguments.output)) return kUsage;
  const std::atomic<bool>& stop = StopOnInterrupt();
  // Each try has a fresh process: what it shows depends on nothing that was tried before.
  auto run = [&](const Program& program) {
    RunResult result;
    WatchOptions options;
    options.stop = &stop;
    options.stall = std::chrono::milliseconds(2000);
    why = RunWatched(provider, {program}, options, [&](RunResult&& r) { result = std::move(r); });
    return result;
  };
  const std::string wanted = Shown(run(programs[0].program));
  if (!why.empty()) {
    Say(fmt::format("{} cannot be opened: {}", provider.name, why));
    return kNoProvider;
  }
  if (wanted.empty()) {
    Say(fmt::format("{} shows no finding on {}; there is nothing to keep while it is made shorter",
                    arguments.file, provider.name));
    return kUsage;
  }
  MinimizeLimits limits;
  limits.tries = arguments.tries;
  Program shortest;
  {
    Progress progress("tries", static_cast<size_t>(arguments.tries));
    shortest = Minimize(
        programs[0].program,
        [&](const Program& program) {
          progress.Step();
          return !stop.load() && Shows(run(program), wanted);
        },
        limits);
  }
  // The comment goes behind the line that names the version of the form.
  std::string text = PrintProgram(shortest, Notes::kDrop);
  text.insert(text.find('\n') + 1, fmt::format("# minimized from {}: {} on {} {}\n", arguments.file,
                                               wanted, provider.name, provider.version));
  if (output.wanted()) {
    if (!output.Write(text)) return kUsage;
    Print(fmt::format("{}: {} calls, from {}: {}\n", arguments.output, shortest.calls.size(),
                      programs[0].program.calls.size(), wanted));
  } else {
    Print(text);
  }
  const RunResult last = run(shortest);
  if (last.ended == Ended::kWell && last.verdict.violations == 0 && !last.below.empty())
    Say("seen below libibverbs alone: nothing that emit-c's file looks at need differ");
  if (stop.load()) Say("interrupted; this is the shortest that was found until then");
  return stop.load() ? kInterrupted : kFine;
}

}  // namespace qpexam
