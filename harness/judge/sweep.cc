// Runs Programs on a provider and judges each: what the judge's own work is checked with.
//
//   sweep [--provider=NAME] [--show=N] [--trace] FILE...
//   sweep --faults FILE...          each fault of the library: who catches it
//
// FILE is a Program in text form. Exit status 1 where anything was found.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "harness/devices/provider_family.h"
#include "harness/execute/executor.h"
#include "harness/judge/judge.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/trace/trace_text.h"
#include "reference/model/faults.h"

namespace qpexam {
namespace {

struct Input {
  std::string name;
  Program program;
};

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return lines;
}

int Main(int argc, char** argv) {
  std::string provider = "reference";
  bool faults = false, show_trace = false;
  int show = 10;
  std::vector<Input> inputs;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--provider=", 0) == 0) {
      provider = arg.substr(11);
    } else if (arg.rfind("--show=", 0) == 0) {
      show = std::atoi(arg.c_str() + 7);
    } else if (arg == "--faults") {
      faults = true;
    } else if (arg == "--trace") {
      show_trace = true;
    } else {
      ParseResult parsed = LoadProgram(arg);
      if (!parsed.ok) {
        std::printf("%s\n", parsed.error.Message().c_str());
        continue;
      }
      inputs.push_back({arg, std::move(parsed.program)});
    }
  }
  std::string why;
  ProviderInfo info;
  if (!FindProvider(provider, &info, &why)) {
    std::printf("%s\n", why.c_str());
    return 2;
  }
  std::unique_ptr<DeviceSession> session = OpenProvider(info, &why);
  if (!session) {
    std::printf("%s\n", why.c_str());
    return 2;
  }
  Executor executor(session.get());
  judge::JudgeOptions options;
  options.provider = info.kind == ProviderKind::kReference ? judge::Provider::kReference
                     : info.kind == ProviderKind::kHosted  ? judge::Provider::kHosted
                                                           : judge::Provider::kDevice;
  options.lints_expected = true;
  judge::Judge judge(options);
  Trace trace;
  if (faults) {
    // Only Programs in which nothing is found without a fault say anything about faults.
    std::vector<Input> clean;
    for (Input& input : inputs) {
      executor.Run(input.program, {}, &trace);
      const judge::Verdict& verdict = judge(input.program, trace);
      if (verdict.findings.empty()) {
        clean.push_back(std::move(input));
      } else {
        std::printf("left out: %s\n", input.name.c_str());
      }
    }
    int caught = 0, by_clause = 0, total = 0;
    for (const model::FaultInfo& fault : model::AllFaults()) {
      if (fault.fault == model::Fault::kNone) continue;
      ++total;
      std::string first, first_clause, own;
      int programs = 0;
      for (const Input& input : clean) {
        model::FaultSwitch::Set(fault.fault);
        executor.Run(input.program, {}, &trace);
        executor.DropObjects();
        model::FaultSwitch::Set(model::Fault::kNone);
        const judge::Verdict& verdict = judge(input.program, trace);
        if (verdict.violations + verdict.warnings == 0) continue;
        ++programs;
        if (first.empty()) first = input.name;
        for (const judge::Finding& f : verdict.findings) {
          if (f.kind != judge::FindingKind::kViolation && f.kind != judge::FindingKind::kWarning) {
            continue;
          }
          if (first_clause.empty()) first_clause = f.clause;
          if (own.empty() && f.clause == fault.clause) own = input.name;
        }
        if (!own.empty()) break;
      }
      caught += !first.empty();
      by_clause += !own.empty();
      const std::string& by = own.empty() ? first : own;
      const size_t slash = by.rfind('/');
      std::printf("%-46s %-14s %-14s %s\n", std::string(fault.name).c_str(),
                  std::string(fault.clause).c_str(),
                  first.empty() ? "missed"
                  : own.empty() ? first_clause.c_str()
                                : "same clause",
                  by.c_str() + (slash == std::string::npos ? 0 : slash + 1));
      std::fflush(stdout);
    }
    std::printf("%d of %d faults caught, %d under their own clause\n", caught, total, by_clause);
    return 0;
  }
  int found = 0, conforms = 0, variation = 0, warning = 0, undecided = 0;
  uint64_t open = 0, any = 0, unread = 0;
  const auto start = std::chrono::steady_clock::now();
  for (const Input& input : inputs) {
    executor.Run(input.program, {}, &trace);
    const judge::Verdict& verdict = judge(input.program, trace);
    switch (verdict.result()) {
      case judge::Result::kConforms:
        ++conforms;
        break;
      case judge::Result::kVariation:
        ++variation;
        break;
      case judge::Result::kWarning:
        ++warning;
        break;
      case judge::Result::kUndecided:
        ++undecided;
        break;
      case judge::Result::kViolation:
        break;
    }
    open += verdict.leniency.requests_open;
    any += verdict.leniency.cells_any;
    unread += verdict.leniency.completions_any;
    if (show_trace) std::printf("%s", PrintTrace(input.program, trace).c_str());
    if (verdict.violations || verdict.warnings || verdict.undecided) {
      ++found;
      if (found <= show) {
        const std::string text = PrintProgram(input.program);
        std::printf("=== %s\n%s", input.name.c_str(),
                    judge::Explain(verdict, input.program, Lines(text)).c_str());
      }
    }
  }
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::printf(
      "%zu programs on %s: %d conform, %d variation, %d warning, %d undecided, %d found; open "
      "requests %llu, unknown cells %llu, completions not followed %llu; %.1f ms\n",
      inputs.size(), provider.c_str(), conforms, variation, warning, undecided, found,
      static_cast<unsigned long long>(open), static_cast<unsigned long long>(any),
      static_cast<unsigned long long>(unread), ms);
  return found ? 1 : 0;
}

}  // namespace
}  // namespace qpexam

int main(int argc, char** argv) { return qpexam::Main(argc, argv); }
