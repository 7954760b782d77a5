// Runs Programs on one hosted provider and prints what the seams and the judge found. For people
// who write device models; the qpexam command has the finished form of this.
//
//   corpus_run PROVIDER [SEED] FILE...      SEED: the freedoms of the emulated device
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/devices/provider_family.h"
#include "harness/execute/executor.h"
#include "harness/judge/judge.h"
#include "harness/program/lint.h"
#include "harness/program/parse.h"
#include "harness/trace/trace.h"

int main(int argc, char** argv) {
  using namespace qpexam;
  if (argc < 3) {
    std::fprintf(stderr, "usage: corpus_run PROVIDER FILE...\n");
    return 2;
  }
  ProviderInfo info;
  std::string why;
  if (!FindProvider(argv[1], &info, &why)) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 2;
  }
  std::unique_ptr<DeviceSession> session = OpenProvider(info, &why);
  if (session == nullptr) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 2;
  }
  judge::JudgeOptions options;
  options.provider =
      info.kind == ProviderKind::kHosted ? judge::Provider::kHosted : judge::Provider::kReference;
  judge::Judge judge(options);
  std::map<std::string, int> results;
  {
    Executor executor(session.get());
    int first = 2;
    uint64_t seed = 0;
    if (std::isdigit(static_cast<unsigned char>(argv[2][0]))) {
      seed = std::strtoull(argv[2], nullptr, 10);
      ++first;
    }
    for (int i = first; i < argc; ++i) {
      std::fprintf(stderr, "%s\n", argv[i]);
      ParseResult parsed = LoadProgram(argv[i]);
      if (!parsed.ok) {
        std::printf("%s\n", parsed.error.Message().c_str());
        continue;
      }
      session->FitDefaults(&parsed.program);
      RunOptions run;
      if (auto undefined = FirstUndefined(parsed.program)) run.cut_at = undefined->cut_at;
      Trace trace;
      session->BeginProgram(seed != 0 ? seed : parsed.program.seed);
      executor.Run(parsed.program, run, &trace);
      std::vector<SessionFinding> findings;
      session->TakeFindings(&findings);
      const judge::Verdict& verdict = judge(parsed.program, trace);
      ++results[std::string(judge::Name(verdict.result())) + (findings.empty() ? "" : "+seam")];
      if (findings.empty() && verdict.violations == 0 && verdict.undecided == 0) continue;
      std::printf("== %s%s: %s\n", argv[i], run.cut_at != ~0u ? " (cut)" : "",
                  std::string(judge::Name(verdict.result())).c_str());
      for (const SessionFinding& f : findings) {
        std::printf("  %s %s: %s\n", f.kind.c_str(), f.clause.c_str(), f.what.c_str());
      }
      for (const judge::Finding& f : verdict.findings) {
        if (f.kind != judge::FindingKind::kViolation && f.kind != judge::FindingKind::kUndecided) {
          continue;
        }
        std::printf("  %s%s %s line %u: %s | %s\n", std::string(judge::Name(f.kind)).c_str(),
                    f.emulated ? " (emulated)" : "", f.clause, f.line, f.what.c_str(),
                    f.observed.c_str());
      }
    }
  }
  for (auto& [name, count] : results) std::printf("%6d %s\n", count, name.c_str());
  return 0;
}
