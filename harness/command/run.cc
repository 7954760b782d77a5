// `qpexam run` and `qpexam judge`.
#include <fmt/format.h>

#include "harness/command/commands.h"
#include "harness/command/results.h"
#include "harness/program/print.h"
#include "harness/trace/names.h"
#include "harness/trace/trace_text.h"

namespace qpexam {
namespace {

// "-" is the terminal.
bool OpenTrace(const std::string& path, OutputFile* file) {
  return path == "-" || file->Open(path);
}

bool WriteTrace(const std::string& path, const std::string& text, OutputFile* file) {
  if (path == "-") {
    Print(text);
    return true;
  }
  return file->Write(text);
}

std::string OneLine(const RunResult& result) {
  if (result.ended != Ended::kWell) return result.fatal.substr(0, result.fatal.find('\n'));
  if (!result.below.empty()) return "violation";
  const judge::Verdict& verdict = result.verdict;
  const Outcome outcome = OutcomeOf(verdict);
  std::string line(outcome.emulated ? "emulated" : judge::Name(outcome.result));
  if (verdict.undefined)
    line += fmt::format(", with {} undefined use{} by the program", verdict.undefined,
                        verdict.undefined == 1 ? "" : "s");
  return line;
}

// What was not tried, and which refusal that comes from.
std::string NotMade(const Program& program, const RunResult& result) {
  const std::string count =
      fmt::format("{} call{} not made", result.not_made, result.not_made == 1 ? " was" : "s were");
  if (result.refused >= program.calls.size()) return "  " + count + ": an object is not there\n";
  const Call& call = program.calls[result.refused];
  return fmt::format("  {}: line {} was refused ({})\n    {}\n", count, call.line,
                     ErrnoWord(result.refused_with), PrintCall(program, call));
}

// An older trace does not say what ran it; its name does.
judge::JudgeOptions JudgingOfTrace(const std::string& provider) {
  ProviderInfo info;
  const std::string family = provider.substr(0, provider.find(':'));
  info.kind = family == "reference" || family == "faulty"  ? ProviderKind::kReference
              : family == "hosted" || family == "packaged" ? ProviderKind::kHosted
                                                           : ProviderKind::kDevice;
  info.efa = provider.find(":efa") != std::string::npos;
  return JudgingOf(info);
}

std::string Variations(const judge::Verdict& verdict) {
  std::string out;
  for (const judge::Variation& v : verdict.variations) {
    const model::ChoiceInfo& choice = model::Info(v.choice);
    out += fmt::format("  variation {}: {} ({})\n", choice.name,
                       v.outcome < choice.outcomes.size() ? choice.outcomes[v.outcome] : "?",
                       choice.clause);
  }
  return out;
}

}  // namespace

ExitStatus RunFiles(const RunArguments& arguments) {
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
  ExitStatus status = LoadPrograms(arguments.files, &programs);
  if (status != kFine && programs.empty()) return status;
  const bool tracing = !arguments.trace.empty() || !arguments.trace_json.empty();
  if (tracing && programs.size() != 1) {
    Say(fmt::format("a trace is of one program, and {} were given; name one file",
                    programs.size()));
    return kUsage;
  }
  OutputFile json, trace, trace_json;
  if (!json.Open(arguments.json) || !OpenTrace(arguments.trace, &trace) ||
      !OpenTrace(arguments.trace_json, &trace_json))
    return kUsage;

  Report report = NewReport("run");
  report.providers.emplace_back();
  const std::atomic<bool>& stop = StopOnInterrupt();
  RunAllOptions options;
  options.progress = provider.name;
  options.watch.stop = &stop;
  options.watch.want_trace = tracing;
  std::vector<RunResult> results;
  status = Worse(status, RunAll(provider, programs, options, &report.providers.back(), &results));
  for (const RunResult& result : results) {
    const NamedProgram& named = programs[result.index];
    if (!arguments.quiet || StatusOf(result) != kFine)
      Print(fmt::format("{}: {}\n", named.name, OneLine(result)));
    if (result.cut_at != ~uint32_t{0} && result.cut_at < named.program.calls.size()) {
      const Call& call = named.program.calls[result.cut_at];
      Print(fmt::format("  cut before line {}: {}\n    {}\n", call.line,
                        PrintCall(named.program, call), result.cut_why));
    }
    if (result.not_made && !arguments.quiet) Print(NotMade(named.program, result));
    if (!arguments.quiet) Print(Variations(result.verdict));
    Print(ExplainResult(named, result));
  }
  for (const ReportFinding& f : report.providers.back().findings)
    if (f.kind == "unstable") Print(fmt::format("{}: unstable: {}\n", f.where, f.what));
  report.interrupted = stop.load();
  if (!json.Write(ReportToJson(report))) status = Worse(status, kUsage);
  if (tracing && results.size() == 1) {
    const RunResult& result = results[0];
    if (result.trace.empty()) {
      Say("there is no trace: the run did not end");
    } else {
      bool good = true;
      if (!arguments.trace.empty()) good = WriteTrace(arguments.trace, result.trace, &trace);
      if (!arguments.trace_json.empty()) {
        TraceFile file;
        good = !ReadTrace(result.trace, &file) && good &&
               WriteTrace(arguments.trace_json, TraceToJson(file.program, file.trace), &trace_json);
      }
      if (!good) status = Worse(status, kUsage);
    }
  }
  if (report.interrupted) {
    Say("interrupted; this is what was found until then");
    return kInterrupted;
  }
  return status;
}

ExitStatus JudgeTrace(const JudgeArguments& arguments) {
  std::string text, why;
  if (!ReadFile(arguments.trace, &text, &why)) {
    Say(fmt::format("{}: {}", arguments.trace, why));
    return kUsage;
  }
  TraceFile file;
  if (std::optional<TraceError> error = ReadTrace(text, &file)) {
    Say(error->ToString(arguments.trace));
    return kUsage;
  }
  OutputFile json;
  if (!json.Open(arguments.json)) return kUsage;
  NamedProgram named;
  named.name = arguments.trace;
  named.group = "-";
  named.program = file.program;
  RunResult result;
  result.verdict = judge::JudgeOnce(file.program, file.trace, JudgingOfTrace(file.trace.provider));
  if (!file.trace.fatal.empty()) {
    result.ended = Ended::kCrash;
    result.fatal = file.trace.fatal;
    result.fatal_call = kEndOfRun;
  }
  Print(fmt::format("{} ({} {}): {}\n", named.name, file.trace.provider, file.trace.version,
                    OneLine(result)));
  Print(Variations(result.verdict));
  if (!result.verdict.findings.empty()) Print(judge::Explain(result.verdict, file.program));
  Report report = NewReport("judge");
  report.providers.emplace_back();
  report.providers.back().name = file.trace.provider;
  report.providers.back().version = file.trace.version;
  AddResult(named, result, &report.providers.back());
  ExitStatus status = StatusOf(result);
  if (!json.Write(ReportToJson(report))) status = Worse(status, kUsage);
  return status;
}

}  // namespace qpexam
