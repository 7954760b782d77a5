// `qpexam diff A B`: the same Programs on two providers, each judged; what one does that the other
// does not, by clause and by variation, each with its shortest Program.
#include <fmt/format.h>

#include <map>
#include <set>

#include "harness/command/commands.h"
#include "harness/command/results.h"

namespace qpexam {
namespace {

// What a run showed, as words that can be compared: "violation of WR-X", "variation x: refused".
std::set<std::string> Shown(const RunResult& result) {
  std::set<std::string> shown;
  if (result.ended != Ended::kWell) {
    shown.insert(result.fatal.substr(0, result.fatal.find(':')));
    return shown;
  }
  for (const judge::Finding& f : result.verdict.findings) {
    if (f.emulated || f.kind == judge::FindingKind::kUndefined) continue;
    shown.insert(fmt::format("{} of {}", judge::Name(f.kind), f.clause));
  }
  for (const SessionFinding& f : result.below)
    shown.insert(fmt::format("{} {}: {}", f.kind, f.clause, f.what));
  for (const judge::Variation& v : result.verdict.variations) {
    const model::ChoiceInfo& choice = model::Info(v.choice);
    shown.insert(fmt::format("variation {}: {} ({})", choice.name,
                             v.outcome < choice.outcomes.size() ? choice.outcomes[v.outcome] : "?",
                             choice.clause));
  }
  return shown;
}

struct Difference {
  size_t programs = 0;
  size_t shortest = 0;  // index
};

}  // namespace

ExitStatus Diff(const DiffArguments& arguments) {
  ProviderInfo providers[2];
  const std::string* names[2] = {&arguments.a, &arguments.b};
  for (int side = 0; side < 2; side++) {
    std::string why;
    if (!FindProvider(*names[side], &providers[side], &why)) {
      Say(why);
      return kUsage;
    }
    if (!providers[side].why_unavailable.empty()) {
      Say(fmt::format("{}: {}", providers[side].name, providers[side].why_unavailable));
      return providers[side].why_is_setup ? kSetupIncomplete : kNoProvider;
    }
  }
  std::vector<std::string> paths = arguments.files;
  if (paths.empty()) {
    paths.push_back(FindCorpus(""));
    if (paths[0].empty()) return kUsage;
  }
  std::vector<NamedProgram> programs;
  ExitStatus status = LoadPrograms(paths, &programs);
  if (programs.empty()) return Worse(status, kUsage);
  OutputFile json;
  if (!json.Open(arguments.json)) return kUsage;
  Report report = NewReport("diff");
  const std::atomic<bool>& stop = StopOnInterrupt();
  std::vector<std::set<std::string>> shown[2];
  for (int side = 0; side < 2; side++) {
    report.providers.emplace_back();
    RunAllOptions options;
    options.progress = providers[side].name;
    options.watch.stop = &stop;
    options.watch.lints_expected = true;
    std::vector<RunResult> results;
    status = Worse(status,
                   RunAll(providers[side], programs, options, &report.providers.back(), &results));
    shown[side].resize(programs.size());
    for (const RunResult& result : results) shown[side][result.index] = Shown(result);
    if (!report.providers.back().not_run.empty()) return status;
  }
  bool any = false;
  for (int side = 0; side < 2; side++) {
    std::map<std::string, Difference> only;
    for (size_t i = 0; i < programs.size(); i++) {
      for (const std::string& one : shown[side][i]) {
        if (shown[1 - side][i].count(one)) continue;
        Difference& difference = only[one];
        if (difference.programs++ == 0 ||
            programs[i].program.calls.size() < programs[difference.shortest].program.calls.size())
          difference.shortest = i;
      }
    }
    if (only.empty()) continue;
    any = true;
    Print(fmt::format("only {}:\n", providers[side].name));
    for (const auto& [what, difference] : only)
      Print(fmt::format("  {}\n    {} program{}, the shortest: {}\n", what, difference.programs,
                        difference.programs == 1 ? "" : "s", programs[difference.shortest].name));
  }
  if (!any)
    Print(fmt::format("{} and {} do the same in all {} programs\n", providers[0].name,
                      providers[1].name, programs.size()));
  report.interrupted = stop.load();
  if (!json.Write(ReportToJson(report))) status = Worse(status, kUsage);
  return report.interrupted ? kInterrupted : status;
}

}  // namespace qpexam
