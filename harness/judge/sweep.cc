// Runs Programs on a provider and judges each: what the judge's own work is checked with.
//
//   sweep [--provider=NAME] [--show=N] [--trace] FILE...
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
  bool show_trace = false;
  int show = 10;
  std::vector<Input> inputs;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--provider=", 0) == 0) {
      provider = arg.substr(11);
    } else if (arg.rfind("--show=", 0) == 0) {
      show = std::atoi(arg.c_str() + 7);
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
