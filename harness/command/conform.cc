// `qpexam conform`: the conformance suites on providers, clause by clause; `--faults`: do they
// catch what they are there to catch?
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "conformance/catalogue/catalogue.h"
#include "harness/command/commands.h"
#include "harness/command/page.h"
#include "harness/command/results.h"
#include "harness/conform/expectations.h"
#include "harness/conform/fault_run.h"
#include "harness/conform/suite_process.h"
#include "harness/devices/provider_family.h"
#include "harness/report/junit.h"

namespace qpexam {
namespace {

using conform::Surprise;
using Tests = std::vector<std::pair<std::string, std::vector<std::string>>>;

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return text;
}

// gtest's filter for the tests that name a clause of these groups and levels; empty: all. False
// with a message said for a group or level that does not exist or has no test.
bool MakeFilter(const ConformArguments& arguments, const Tests& tests, std::string* filter) {
  *filter = arguments.filter;
  if (arguments.groups.empty() && arguments.levels.empty()) return true;
  auto wanted = [&](const catalogue::Clause& clause) {
    auto among = [](const std::vector<std::string>& list, std::string_view name) {
      return list.empty() || std::any_of(list.begin(), list.end(), [&](const std::string& item) {
               return Lower(item) == Lower(std::string(name));
             });
    };
    return among(arguments.groups, clause.group) &&
           among(arguments.levels, catalogue::Name(clause.level));
  };
  std::string names;
  for (const std::string& group : arguments.groups) {
    bool known = false;
    for (const catalogue::Group& g : catalogue::Groups()) {
      known = known || Lower(group) == Lower(std::string(g.name));
      names += (names.empty() ? "" : " ") + std::string(g.name);
    }
    if (!known) {
      Say(fmt::format("there is no group \"{}\"; --group is one of: {}", group, names));
      return false;
    }
  }
  for (const std::string& level : arguments.levels) {
    const std::string l = Lower(level);
    if (l != "must" && l != "should" && l != "may" && l != "undefined") {
      Say(fmt::format("there is no level \"{}\"; --level is one of: must, should, may, undefined",
                      level));
      return false;
    }
  }
  std::string chosen;
  for (const auto& [name, clauses] : tests) {
    if (std::any_of(clauses.begin(), clauses.end(), [&](const std::string& id) {
          const catalogue::Clause* clause = catalogue::Find(id);
          return clause != nullptr && wanted(*clause);
        }))
      chosen += (chosen.empty() ? "" : ":") + name;
  }
  if (chosen.empty()) {
    Say("no test names a clause of that group and level");
    return false;
  }
  *filter = chosen;
  return true;
}

std::string GroupOf(const std::string& clause) {
  const catalogue::Clause* found = catalogue::Find(clause);
  return found == nullptr ? "other" : std::string(found->group);
}

// The suites' results as a provider's report: verdicts by clause, counts by group. `known`: what
// was expected of a test and a clause.
void Fill(const conform::SuiteRun& run, const conform::KnownDeviations& known,
          ProviderReport* report) {
  std::set<std::string> surprising;  // clauses of which a finding was not expected
  for (const catalogue::Group& group : catalogue::Groups()) report->Group(std::string(group.name));
  for (const conform::TestResult& test : run.tests) {
    for (const auto& [id, clause] : test.clauses) {
      report->NoteClause(id, clause.verdict, test.name);
      const bool finding = clause.verdict == "violation" || clause.verdict == "warning" ||
                           clause.verdict == "undecided";
      if (!finding) continue;
      ReportFinding f;
      f.kind = test.outcome == "crash" || test.outcome == "hang" ? test.outcome : clause.verdict;
      f.clause = id;
      f.what = clause.notes.empty() ? "see the test" : clause.notes[0];
      f.where = test.name;
      f.program = fmt::format("qpexam conform --provider={} --filter={}", report->name, test.name);
      if (const catalogue::Clause* stated = catalogue::Find(id); stated != nullptr)
        f.allowed.emplace_back(stated->statement);
      f.id = FindingId(f.kind, id, test.name, 0);
      if (const auto entry = known.find({test.name, id}); entry != known.end())
        f.known = entry->second->reason;
      else if (f.kind != "warning" && f.kind != "undecided")
        surprising.insert(id);
      for (size_t i = 1; i < clause.notes.size(); ++i)
        f.observed += (f.observed.empty() ? "" : "\n") + clause.notes[i];
      report->findings.push_back(std::move(f));
    }
    const std::string group = GroupOf(test.clauses.empty() ? "" : test.clauses.begin()->first);
    report->Group(group).nanoseconds += test.microseconds * 1000;
    Counts& counts = report->Group(group).counts;
    ++counts.tests;
    if (test.outcome == "skip") ++counts.skipped;
    if (test.outcome == "crash") ++counts.crash;
    if (test.outcome == "hang") ++counts.hang;
  }
  // A clause counts once, by the worst that any test said of it.
  for (const auto& [id, verdict] : report->clauses) {
    Counts& counts = report->Group(GroupOf(id)).counts;
    if (verdict.verdict == "conforms") ++counts.conforms;
    if (verdict.verdict == "variation") ++counts.variation;
    if (verdict.verdict == "warning") ++counts.warning;
    if (verdict.verdict == "violation") ++(surprising.count(id) ? counts.violation : counts.known);
    if (verdict.verdict == "emulated") ++counts.emulated;
    if (verdict.verdict == "undecided") ++counts.undecided;
  }
}

// Group by verdict for one provider.
std::string Table(const ProviderReport& provider) {
  std::string out = fmt::format("{:<8} {:>7} {:>8} {:>10} {:>8} {:>10} {:>6} {:>9} {:>9} {:>6}\n",
                                "group", "clauses", "conforms", "variations", "warnings",
                                "violations", "known", "emulated", "undecided", "tests");
  size_t all = 0;
  auto row = [&](std::string_view name, size_t clauses, const Counts& c) {
    out += fmt::format("{:<8} {:>7} {:>8} {:>10} {:>8} {:>10} {:>6} {:>9} {:>9} {:>6}\n", name,
                       clauses, c.conforms, c.variation, c.warning, c.violation, c.known,
                       c.emulated, c.undecided, c.tests);
  };
  for (const GroupRow& group : provider.groups) {
    const Counts& c = group.counts;
    // A test may say something of another group's clause.
    if (c.tests + c.conforms + c.variation + c.warning + c.violation + c.known + c.emulated +
            c.undecided ==
        0)
      continue;
    const size_t clauses = catalogue::InGroup(group.name).size();
    all += clauses;
    row(group.name, clauses, group.counts);
  }
  row("total", all, provider.Total());
  return out;
}

std::string Surprising(const std::vector<Surprise>& surprises) {
  std::string out;
  for (const Surprise& s : surprises) {
    const char* kind = s.kind == Surprise::kUnexpectedFailure   ? "violation"
                       : s.kind == Surprise::kUnexpectedWarning ? "warning"
                       : s.kind == Surprise::kUnexpectedPass    ? "unexpected pass"
                       : s.kind == Surprise::kUnused            ? "unused expectation"
                                                                : "too many skips";
    out += fmt::format("{}{}{}{}{}: {}\n", kind, s.clause.empty() ? "" : " ", s.clause,
                       s.test.empty() ? "" : " in ", s.test, s.what);
    if (const catalogue::Clause* clause = catalogue::Find(s.clause); clause != nullptr)
      out += fmt::format("  clause:   {}, {}\n  source:   {}\n", catalogue::Name(clause->level),
                         clause->statement, clause->source);
  }
  return out;
}

// The known deviations that were seen, a reason each.
std::string Explained(const conform::KnownDeviations& expected) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> clauses;
  std::map<std::pair<std::string, std::string>, size_t> tests;
  for (const auto& [at, entry] : expected) {
    std::vector<std::string>& named = clauses[{entry->reason, entry->link}];
    if (std::find(named.begin(), named.end(), at.second) == named.end()) named.push_back(at.second);
    ++tests[{entry->reason, entry->link}];
  }
  std::string out;
  for (const auto& [entry, ids] : clauses)
    out += fmt::format("known {}: {} ({} test{}; {})\n", fmt::join(ids, " "), entry.first,
                       tests[entry], tests[entry] == 1 ? "" : "s", entry.second);
  return out;
}

// Clauses on which the providers differ, a line each.
std::string Differences(const Report& report) {
  if (report.providers.size() < 2) return "";
  std::string out = "\nclauses on which the providers differ:\n" + fmt::format("{:<16}", "");
  for (const ProviderReport& provider : report.providers)
    out += fmt::format("{:>16}", provider.name);
  out += "\n";
  for (const catalogue::Clause& clause : catalogue::All()) {
    std::vector<std::string> verdicts;
    for (const ProviderReport& provider : report.providers) {
      const auto found = provider.clauses.find(std::string(clause.id));
      verdicts.push_back(found == provider.clauses.end() ? "untested" : found->second.verdict);
    }
    if (std::all_of(verdicts.begin(), verdicts.end(),
                    [&](const std::string& v) { return v == verdicts[0]; }))
      continue;
    out += fmt::format("{:<16}", clause.id);
    for (const std::string& verdict : verdicts) out += fmt::format("{:>16}", verdict);
    out += "\n";
  }
  return out;
}

std::string NoteOf(const conform::TestResult& test) {
  for (const auto& [id, clause] : test.clauses)
    if (!clause.notes.empty()) return id + ": " + clause.notes[0];
  return "";
}

ExitStatus Faults(const ConformArguments& arguments, const std::string& binary, OutputFile* json) {
  conform::FaultOptions options;
  options.binary = binary;
  options.names = arguments.fault_names;
  options.breadth = arguments.breadth;
  std::string why;
  if (const std::string path = FindData("conformance/related.tsv");
      arguments.breadth && !path.empty()) {
    std::string text;
    if (!ReadFile(path, &text, &why)) {
      Say(fmt::format("{}: {}", path, why));
      return kUsage;
    }
    if (!conform::ParseRelated(text, path, &options.related, &why)) {
      Say(why);
      return kUsage;
    }
  }
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  options.stop = &StopOnInterrupt();
  Progress progress("faults", 0);
  options.progress = [&](size_t done, size_t total) { progress.Show(done, total); };
  std::vector<conform::FaultResult> results;
  if (!conform::RunFaults(options, &results, &why)) {
    Say(why);
    return kOurFailure;
  }
  Report report = NewReport("conform --faults");
  size_t caught = 0, fresh = 0, fresh_caught = 0;
  std::string missed;
  for (const conform::FaultResult& fault : results) {
    report.faults.push_back({fault.name, fault.clause,
                             fault.caught_by.empty() ? std::vector<std::string>()
                                                     : std::vector<std::string>{fault.caught_by},
                             fault.breaks, fault.origin});
    if (!fault.origin.empty()) {
      ++fresh;
      fresh_caught += !fault.caught_by.empty();
    }
    if (!fault.caught_by.empty()) {
      ++caught;
    } else {
      missed += fmt::format("not caught: {} ({}), reached by {} tests\n", fault.name, fault.clause,
                            fault.reached_by);
    }
  }
  size_t broad = 0, unused = 0, not_own = 0;
  if (arguments.breadth) {
    Print(fmt::format("{:<44} {:<14} {:>6} {:>9}\n", "fault", "clause", "breaks", "unrelated"));
    for (const conform::FaultResult& fault : results) {
      broad += fault.unrelated.size() > conform::kMostUnrelated;
      unused += fault.unused.size();
      Print(fmt::format("{:<44} {:<14} {:>6} {:>9}  {}{}\n", fault.name, fault.clause,
                        fault.breaks.size(), fault.unrelated.size(),
                        fmt::join(fault.unrelated, " "),
                        fault.cut ? " (cut: its tests hang)" : ""));
    }
    for (const conform::FaultResult& fault : results) {
      if (fault.breaks_own) continue;
      ++not_own;
      Print(
          fmt::format("{} does not break {}, which it is filed under\n", fault.name, fault.clause));
    }
    for (const conform::FaultResult& fault : results)
      if (!fault.unused.empty())
        Print(fmt::format("{} does not break {}, which conformance/related.tsv says follows\n",
                          fault.name, fmt::join(fault.unused, " ")));
    Print(fmt::format("{} of {} faults break more than {} unrelated clauses\n", broad,
                      results.size(), conform::kMostUnrelated));
  }
  Print(missed);
  Print(fmt::format("{} of {} faults caught\n", caught, results.size()));
  if (fresh != 0) {
    Print(fmt::format("of them a fresh reader's: {} of {}\n", fresh_caught, fresh));
  }
  if (json->wanted() && !json->Write(ReportToJson(report))) return kUsage;
  return caught == results.size() && broad == 0 && unused == 0 && not_own == 0 ? kFine : kFindings;
}

}  // namespace

ExitStatus Conform(const ConformArguments& arguments) {
  std::string why;
  const std::string binary = conform::FindSuites(&why);
  if (binary.empty()) {
    Say(why);
    return kSetupIncomplete;
  }
  OutputFile json, junit, html;
  if (!json.Open(arguments.json) || !junit.Open(arguments.junit)) return kUsage;
  if (!OpenPage(arguments.html, &html)) return kUsage;
  if (arguments.faults) return Worse(Faults(arguments, binary, &json), FinishOutput());

  std::vector<ProviderInfo> providers;
  for (const std::string& name : arguments.providers) {
    ProviderInfo info;
    if (!FindProvider(name, &info, &why)) {
      Say(why);
      return kUsage;
    }
    providers.push_back(info);
  }
  Tests tests;
  if (!conform::ListTests(binary, &tests, &why)) {
    Say(why);
    return kOurFailure;
  }
  std::string filter;
  if (!MakeFilter(arguments, tests, &filter)) return kUsage;
  conform::Expectations expectations;
  if (!LoadExpectations(arguments.expectations, "conformance/expectations.tsv", &expectations))
    return kUsage;

  ExitStatus status = kFine;
  Report report = NewReport("conform");
  report.effort = arguments.effort;
  std::vector<JunitSuite> junit_suites;
  std::vector<PageTest> page_tests;
  for (const ProviderInfo& provider : providers) {
    if (StopOnInterrupt().load()) break;
    report.providers.emplace_back();
    ProviderReport& found = report.providers.back();
    found.name = provider.name;
    found.version = provider.version;
    if (!provider.why_unavailable.empty()) {
      found.not_run = provider.why_unavailable;
      Print(fmt::format("{}: not run: {}\n\n", provider.name, provider.why_unavailable));
      status = Worse(status, provider.why_is_setup ? kSetupIncomplete : kNoProvider);
      continue;
    }
    conform::SuiteOptions options;
    options.binary = binary;
    options.provider = provider.name;
    options.filter = filter;
    options.effort = arguments.effort;
    options.strict = arguments.strict;
    options.unsafe = arguments.unsafe;
    // A guest is there to be broken.
    const std::unique_ptr<remote::Machine> machine = MachineOf(provider);
    options.machine = machine.get();
    // A device or a guest is one, and its tests measure time.
    if (provider.kind == ProviderKind::kReference || provider.kind == ProviderKind::kHosted) {
      options.blocks = conform::kBlocks;
      options.jobs = std::max(1u, std::thread::hardware_concurrency());
    }
    options.stop = &StopOnInterrupt();
    conform::SuiteRun run;
    conform::SuiteEnd end;
    {
      Progress progress(provider.name, tests.size());
      options.progress = [&](size_t done) { progress.Show(done, tests.size()); };
      end = conform::RunSuites(options, &run, &why);
    }
    // What there is to be told is known only when the whole run is compared.
    conform::KnownDeviations expected;
    const std::vector<Surprise> surprises =
        conform::Compare(expectations, run, provider.name, provider.version,
                         filter.empty() && end == conform::SuiteEnd::kRan, &expected,
                         arguments.strict ? conform::Warnings::kFail : conform::Warnings::kTold);
    Fill(run, expected, &found);
    if (end == conform::SuiteEnd::kNoProvider) {
      found.not_run = why;
      Say(fmt::format("{}: {}", provider.name, why));
      status = Worse(status, kNoProvider);
      continue;
    }
    if (end == conform::SuiteEnd::kFailed) {
      Say(fmt::format("{}: {}", provider.name, why));
      status = Worse(status, kOurFailure);
    }
    report.interrupted = report.interrupted || end == conform::SuiteEnd::kStopped;
    if (end == conform::SuiteEnd::kRan && run.tests.empty()) {
      Say(fmt::format("no test matches --filter={}; `qpexam clauses` names the groups for --group",
                      arguments.filter));
      status = Worse(status, kUsage);
    }
    Print(fmt::format("{} {}, effort {}\n", provider.name, provider.version, arguments.effort));
    Print(Table(found));
    size_t skipped = 0;
    JunitSuite junit_suite{provider.name, {}};
    for (const conform::TestResult& test : run.tests) {
      skipped += test.outcome == "skip";
      const size_t dot = test.name.find('.');
      JunitCase c{test.name.substr(0, dot), test.name.substr(dot + 1), "", ""};
      if (test.outcome == "skip") c.skipped = NoteOf(test);
      if (test.outcome != "skip" && test.outcome != "pass")
        c.failure = test.outcome + ": " + NoteOf(test);
      junit_suite.cases.push_back(std::move(c));
      PageTest page{provider.name, test.name, test.outcome, {}, NoteOf(test)};
      for (const auto& [id, clause] : test.clauses) page.clauses.push_back(id);
      page_tests.push_back(std::move(page));
    }
    junit_suites.push_back(std::move(junit_suite));
    Print(fmt::format(
        "{} tests, {} skipped{}\n", run.tests.size(), skipped,
        expected.empty() ? "" : fmt::format(", {} known deviations seen", expected.size())));
    Print(Explained(expected));
    // Why something was skipped is said once each.
    if (skipped != 0) {
      std::map<std::string, size_t> reasons;
      for (const conform::TestResult& test : run.tests) {
        if (test.outcome != "skip" || test.clauses.empty()) continue;
        const auto& notes = test.clauses.begin()->second.notes;
        ++reasons[notes.empty() ? "no reason given" : notes[0]];
      }
      for (const auto& [reason, count] : reasons)
        Print(fmt::format("  skipped {}: {}\n", count, reason));
    }
    Print(Surprising(surprises));
    Print("\n");
    if (!surprises.empty()) status = Worse(status, kFindings);
  }
  Print(Differences(report));
  if (report.interrupted) Say("interrupted; this is what was found until then");
  if (json.wanted() && !json.Write(ReportToJson(report))) status = Worse(status, kUsage);
  if (junit.wanted() && !junit.Write(PrintJunit(junit_suites))) status = Worse(status, kUsage);
  if (html.wanted() && !html.Write(PrintHtml(report, PageClauses(), page_tests)))
    status = Worse(status, kUsage);
  if (report.interrupted) status = kInterrupted;
  return Worse(status, FinishOutput());
}

}  // namespace qpexam
