// `qpexam check`: the whole corpus, judged, on everything that needs no hardware.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "harness/command/commands.h"
#include "harness/command/results.h"

namespace qpexam {
namespace {

// What was found, once a clause: the Program with the fewest calls shows it, the others are
// counted. A broken provider breaks one clause in a hundred Programs.
std::string ExplainByClause(const std::vector<NamedProgram>& programs,
                            const std::vector<RunResult>& results, const Expected& expected) {
  struct Found {
    size_t programs = 0;
    const RunResult* shortest = nullptr;
    const judge::Finding* finding = nullptr;
  };
  struct Below {
    size_t programs = 0;
    const RunResult* shortest = nullptr;
    const SessionFinding* finding = nullptr;
  };
  std::map<std::pair<judge::FindingKind, std::string>, Found> by_clause;
  std::map<std::pair<std::string, std::string>, Below> by_seam;
  std::string out;
  for (size_t i = 0; i < results.size(); ++i) {
    const RunResult& result = results[i];
    const conform::ProgramResult& known = expected.programs[i];
    const NamedProgram& named = programs[result.index];
    if (result.ended != Ended::kWell) {
      if (known.AllKnown()) continue;
      out += "\n" + ExplainResult(named, result);
      continue;
    }
    std::set<std::string> counted;
    for (const SessionFinding& finding : result.below) {
      if (known.Known(finding.clause, finding.kind)) continue;
      Below& found = by_seam[{finding.kind, finding.clause}];
      if (counted.insert(finding.kind + finding.clause).second) found.programs++;
      if (!found.shortest ||
          named.program.calls.size() < programs[found.shortest->index].program.calls.size()) {
        found.shortest = &result;
        found.finding = &finding;
      }
    }
    for (const judge::Finding& finding : result.verdict.findings) {
      // Undefined uses are what some of the corpus is about; known bugs are counted in the report.
      if (finding.emulated || finding.kind == judge::FindingKind::kUndefined) continue;
      if (finding.kind == judge::FindingKind::kViolation &&
          known.Known(finding.clause, "violation"))
        continue;
      Found& found = by_clause[{finding.kind, finding.clause}];
      if (counted.insert(finding.clause).second) found.programs++;
      if (!found.shortest ||
          named.program.calls.size() < programs[found.shortest->index].program.calls.size()) {
        found.shortest = &result;
        found.finding = &finding;
      }
    }
  }
  auto head = [&](size_t index, size_t count) {
    return fmt::format("\n{}{}:\n", programs[index].name,
                       count == 1
                           ? std::string()
                           : fmt::format(", the shortest of {} programs that show it", count));
  };
  for (const auto& [key, found] : by_seam) {
    const SessionFinding& f = *found.finding;
    out += head(found.shortest->index, found.programs) +
           fmt::format("{}{}{}: {}\n", f.kind, f.clause.empty() ? "" : " ", f.clause, f.what);
    if (!f.evidence.empty()) out += "  " + f.evidence + "\n";
  }
  for (const auto& [key, found] : by_clause) {
    const NamedProgram& named = programs[found.shortest->index];
    out += head(found.shortest->index, found.programs);
    out += judge::Explain(*found.finding, named.program, LinesOf(named.name));
    if (out.back() != '\n') out += '\n';
  }
  return out;
}

// The deviations that were expected, a line each, and what contradicts the expectations.
std::string ExplainExpected(const Expected& expected) {
  struct Count {
    size_t findings = 0, programs = 0;
    const conform::ProgramResult* last = nullptr;
  };
  std::map<std::pair<std::string, std::string>, Count> known;
  for (const conform::ProgramResult& program : expected.programs) {
    for (const conform::ProgramResult::Finding& finding : program.findings) {
      if (!finding.known) continue;
      Count& count = known[{finding.known->reason, finding.known->link}];
      count.findings++;
      if (count.last != &program) count.programs++;
      count.last = &program;
    }
  }
  std::string out;
  for (const auto& [entry, count] : known)
    out += fmt::format("known: {} ({} finding{} in {} program{}; {})\n", entry.first,
                       count.findings, count.findings == 1 ? "" : "s", count.programs,
                       count.programs == 1 ? "" : "s", entry.second);
  for (const conform::Surprise& s : expected.surprises) {
    if (s.kind == conform::Surprise::kUnexpectedFailure) continue;  // explained with its program
    out +=
        fmt::format("{} {} {}: {}\n",
                    s.kind == conform::Surprise::kUnused ? "unused expectation" : "unexpected pass",
                    s.clause, s.test, s.what);
  }
  return out;
}

// What a reader can do next, which depends on what was found.
std::string HowToGoOn(const Report& report, ExitStatus status) {
  std::string out = "\n";
  const ReportFinding* first = nullptr;
  for (const ProviderReport& provider : report.providers)
    for (const ReportFinding& finding : provider.findings)
      if (!first && finding.known.empty() && finding.kind != "warning" &&
          finding.kind != "undecided")
        first = &finding;
  if (status == kFindings && first) {
    const std::string file = first->where.substr(0, first->where.rfind(':'));
    if (!first->clause.empty())
      out += fmt::format("The clause:       qpexam clauses {}\n", first->clause);
    // The tree that is judged is chosen outside of this program.
    const char* tree = std::getenv("RDMA_CORE_DIR");
    out += fmt::format("That run alone:   {}qpexam run {} --provider={} --trace=-\n",
                       tree != nullptr && *tree ? fmt::format("RDMA_CORE_DIR={} ", tree) : "", file,
                       report.providers.back().name);
    return out;
  }
  return out +
         "What was allowed: qpexam variations\n"
         "Your own program: qpexam run FILE.qpx\n"
         "What else runs:   qpexam providers\n";
}

}  // namespace

ExitStatus Check(const CheckArguments& arguments) {
  std::vector<ProviderInfo> providers;
  std::vector<std::string> named = arguments.providers;
  if (named.empty()) {
    for (const ProviderInfo& info : AllProviders())
      if (info.in_check) providers.push_back(info);
    // The reference first: what it says is there before the slower ones begin.
    std::stable_sort(providers.begin(), providers.end(),
                     [](const ProviderInfo& a, const ProviderInfo& b) {
                       return (a.name == "reference") > (b.name == "reference");
                     });
  }
  named.insert(named.end(), arguments.with.begin(), arguments.with.end());
  for (const std::string& name : named) {
    ProviderInfo info;
    std::string why;
    if (!FindProvider(name, &info, &why)) {
      Say(why);
      return kUsage;
    }
    providers.push_back(info);
  }
  const std::string corpus = FindCorpus(arguments.corpus);
  if (corpus.empty()) return kUsage;
  std::vector<NamedProgram> programs;
  ExitStatus status = LoadPrograms({corpus}, &programs);
  if (!arguments.filter.empty()) {
    programs.erase(std::remove_if(programs.begin(), programs.end(),
                                  [&](const NamedProgram& p) {
                                    return p.name.find(arguments.filter) == std::string::npos;
                                  }),
                   programs.end());
    if (programs.empty()) {
      Say(fmt::format("no program of {} has \"{}\" in its path", corpus, arguments.filter));
      return kUsage;
    }
  }
  if (programs.empty()) return Worse(status, kUsage);
  OutputFile json;
  if (!json.Open(arguments.json)) return kUsage;

  conform::Expectations expectations;
  if (!arguments.strict &&
      !LoadExpectations(arguments.expectations, "corpus/expectations.tsv", &expectations))
    return kUsage;

  Report report = NewReport("check");
  const std::atomic<bool>& stop = StopOnInterrupt();
  for (const ProviderInfo& provider : providers) {
    if (stop.load()) break;
    report.providers.emplace_back();
    ProviderReport& found = report.providers.back();
    if (!provider.why_unavailable.empty()) {
      found.name = provider.name;
      found.not_run = provider.why_unavailable;
      Print(fmt::format("{}: not run: {}\n\n", provider.name, provider.why_unavailable));
      if (!named.empty())
        status = Worse(status, provider.why_is_setup ? kSetupIncomplete : kNoProvider);
      continue;
    }
    RunAllOptions options;
    options.progress = provider.name;
    options.watch.stop = &stop;
    options.watch.lints_expected = true;
    // Undefined uses are for the provider that is made to meet them.
    std::vector<NamedProgram> here;
    for (const NamedProgram& program : programs)
      if (provider.kind == ProviderKind::kReference || program.group != "misuse")
        here.push_back(program);
    std::vector<RunResult> results;
    if (!arguments.strict) options.expectations = &expectations;
    options.whole = arguments.filter.empty() && arguments.corpus.empty();
    Expected expected;
    status = Worse(status, RunAll(provider, here, options, &found, &results, &expected));
    if (!found.not_run.empty()) continue;
    Print(fmt::format("{} {}\n", provider.name, provider.version));
    Print(PrintTable(found));
    if (found.cut)
      Print(
          fmt::format("{} programs ran only up to a call that the specification leaves "
                      "undefined.\n",
                      found.cut));
    if (found.in_part)
      Print(fmt::format("{} programs ran in part: the provider refused an object that they name.\n",
                        found.in_part));
    for (const auto& [key, count] : found.variations)
      Print(fmt::format("variation {}: {} ({}x)\n", key.first, key.second, count));
    for (const ReportFinding& f : found.findings)
      if (f.kind == "unstable") Print(fmt::format("unstable: {}: {}\n", f.where, f.what));
    Print(ExplainExpected(expected));
    Print(ExplainByClause(here, results, expected));
    Print("\n");
    std::fflush(stdout);
  }
  report.interrupted = stop.load();
  if (report.interrupted) Say("interrupted; this is what was found until then");
  Print(HowToGoOn(report, status).substr(1));
  if (!json.Write(ReportToJson(report))) status = Worse(status, kUsage);
  if (report.interrupted) return kInterrupted;
  return status;
}

}  // namespace qpexam
