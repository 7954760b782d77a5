#include "harness/command/results.h"

#include <fmt/format.h>
#include <rdma_core_version.h>

#include <algorithm>
#include <map>

#include "harness/program/print.h"
#include "reference/model/choice.h"

namespace qpexam {
namespace {

bool Died(const RunResult& result) { return result.ended != Ended::kWell; }

std::string_view KindWord(Ended ended) {
  switch (ended) {
    case Ended::kWell:
      return "";
    case Ended::kCrash:
      return "crash";
    case Ended::kHang:
      return "hang";
    case Ended::kSanitizer:
      return "sanitizer";
    case Ended::kOurs:
      return "internal";
  }
  return "";
}

std::string_view KindWord(judge::FindingKind kind) {
  switch (kind) {
    case judge::FindingKind::kViolation:
      return "violation";
    case judge::FindingKind::kWarning:
      return "warning";
    case judge::FindingKind::kUndecided:
      return "undecided";
    case judge::FindingKind::kUndefined:
      return "undefined";
  }
  return "";
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string Where(const NamedProgram& named, uint32_t line) {
  return line == 0 ? named.name : fmt::format("{}:{}", named.name, line);
}

uint32_t LineOf(const Program& program, uint32_t call) {
  return call < program.calls.size() ? program.calls[call].line : 0;
}

// What makes a finding the same finding in another run.
std::vector<std::string> Signature(const RunResult& result) {
  std::vector<std::string> all;
  if (Died(result)) all.push_back(std::string(KindWord(result.ended)));
  for (const judge::Finding& f : result.verdict.findings)
    if (f.kind == judge::FindingKind::kViolation && !f.emulated)
      all.push_back(fmt::format("{} {}", f.clause, f.call));
  for (const SessionFinding& f : result.below) all.push_back(f.kind + " " + f.what);
  std::sort(all.begin(), all.end());
  return all;
}

// The name that expectations know a Program by: its file's, without folder and ending.
std::string ShortName(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot);
}

conform::ProgramResult InWords(const NamedProgram& named, const RunResult& result) {
  conform::ProgramResult words;
  words.name = ShortName(named.name);
  if (Died(result)) {
    words.findings.push_back({"", std::string(KindWord(result.ended)), FirstLine(result.fatal)});
    return words;
  }
  for (const judge::Finding& f : result.verdict.findings) {
    if (f.emulated || f.kind == judge::FindingKind::kUndefined) continue;
    words.findings.push_back({f.clause, std::string(KindWord(f.kind)), f.what});
  }
  for (const SessionFinding& f : result.below) words.findings.push_back({f.clause, f.kind, f.what});
  return words;
}

}  // namespace

bool LoadExpectations(const std::string& asked, const std::string& own,
                      conform::Expectations* expectations) {
  const std::string path = asked.empty() ? FindData(own) : asked;
  if (path.empty()) return true;
  std::string text, why;
  if (!ReadFile(path, &text, &why)) {
    Say(fmt::format("{}: {}", path, why));
    return false;
  }
  if (!conform::ParseExpectations(text, path, expectations, &why)) {
    Say(why);
    return false;
  }
  return true;
}

Report NewReport(const std::string& command) {
  Report report;
  report.command = command;
  report.rdma_core_version = RDMA_CORE_VERSION;
  report.rdma_core_from = RDMA_CORE_FROM;
  return report;
}

void AddResult(const NamedProgram& named, const RunResult& result, ProviderReport* report,
               const conform::ProgramResult* known) {
  GroupRow& group = report->Group(named.group);
  Counts& counts = group.counts;
  counts.programs++;
  group.nanoseconds += result.nanoseconds;
  const std::string program = PrintProgram(named.program, Notes::kDrop);
  const judge::Verdict& verdict = result.verdict;
  auto add = [&](std::string_view kind, std::string_view clause, uint32_t call, uint32_t line,
                 std::string what) -> ReportFinding& {
    report->findings.emplace_back();
    ReportFinding& f = report->findings.back();
    f.id = FindingId(kind, clause, program, call);
    f.kind = kind;
    f.clause = clause;
    f.what = std::move(what);
    f.where = Where(named, line);
    f.program = program;
    if (const conform::Expectation* entry = known ? known->Known(clause, kind) : nullptr)
      f.known = entry->reason;
    return f;
  };
  const bool all_known = known && known->AllKnown();
  if (result.cut_at != ~uint32_t{0}) report->cut++;
  if (result.not_made) report->in_part++;
  if (Died(result)) {
    if (all_known) {
      counts.known++;
    } else {
      counts.crash += result.ended != Ended::kHang;
      counts.hang += result.ended == Ended::kHang;
    }
    add(KindWord(result.ended), "", result.fatal_call, LineOf(named.program, result.fatal_call),
        FirstLine(result.fatal))
        .observed = result.fatal;
    return;
  }
  for (const judge::Finding& f : verdict.findings) {
    if (f.kind == judge::FindingKind::kUndefined) {
      report->undefined++;
      continue;
    }
    // A clause that the library does not decide is never held for or against a hosted provider.
    if (f.emulated) {
      report->NoteClause(f.clause, "emulated", named.name);
      continue;
    }
    ReportFinding& finding = add(KindWord(f.kind), f.clause, f.call, f.line, f.what);
    finding.allowed = f.allowed;
    finding.observed = f.observed;
    if (*f.clause) report->NoteClause(f.clause, std::string(KindWord(f.kind)), named.name);
  }
  for (const SessionFinding& f : result.below) {
    ReportFinding& finding = add(f.kind, f.clause, ~uint32_t{0}, 0, f.what);
    finding.observed = f.evidence;
    if (!f.clause.empty()) report->NoteClause(f.clause, "violation", named.name);
  }
  for (const judge::Variation& v : verdict.variations) {
    const model::ChoiceInfo& choice = model::Info(v.choice);
    const std::string outcome =
        v.outcome < choice.outcomes.size() ? std::string(choice.outcomes[v.outcome]) : "?";
    report->variations[{std::string(choice.name), outcome}] += v.count;
    report->NoteClause(std::string(choice.clause), "variation", named.name);
  }
  if (all_known) {
    counts.known++;
    return;
  }
  if (!result.below.empty()) {
    counts.violation++;
    return;
  }
  const Outcome outcome = OutcomeOf(verdict);
  if (outcome.emulated) {
    counts.emulated++;
    return;
  }
  switch (outcome.result) {
    case judge::Result::kConforms:
      counts.conforms++;
      break;
    case judge::Result::kVariation:
      counts.variation++;
      break;
    case judge::Result::kWarning:
      counts.warning++;
      break;
    case judge::Result::kViolation:
      counts.violation++;
      break;
    case judge::Result::kUndecided:
      counts.undecided++;
      break;
  }
}

Outcome OutcomeOf(const judge::Verdict& verdict) {
  uint32_t violations = 0, warnings = 0, undecided = 0;
  Outcome outcome;
  for (const judge::Finding& f : verdict.findings) {
    outcome.emulated |= f.emulated;
    if (f.emulated) continue;
    violations += f.kind == judge::FindingKind::kViolation;
    warnings += f.kind == judge::FindingKind::kWarning;
    undecided += f.kind == judge::FindingKind::kUndecided;
  }
  outcome.result = violations                   ? judge::Result::kViolation
                   : undecided                  ? judge::Result::kUndecided
                   : warnings                   ? judge::Result::kWarning
                   : verdict.variations.empty() ? judge::Result::kConforms
                                                : judge::Result::kVariation;
  outcome.emulated = outcome.emulated && (outcome.result == judge::Result::kConforms ||
                                          outcome.result == judge::Result::kVariation);
  return outcome;
}

ExitStatus StatusOf(const RunResult& result) {
  if (result.ended == Ended::kOurs) return kOurFailure;
  if (Died(result) || !result.below.empty() ||
      OutcomeOf(result.verdict).result == judge::Result::kViolation)
    return kFindings;
  return kFine;
}

std::string ExplainResult(const NamedProgram& named, const RunResult& result) {
  std::string out;
  if (Died(result)) {
    out += fmt::format("{}: {}\n", Where(named, LineOf(named.program, result.fatal_call)),
                       result.fatal);
  }
  if (!result.verdict.findings.empty()) {
    const std::vector<std::string> lines = named.lines.empty() ? LinesOf(named.name) : named.lines;
    for (const judge::Finding& f : result.verdict.findings)
      out += judge::Explain(f, named.program, lines);
  }
  for (const SessionFinding& f : result.below) {
    out += fmt::format("{}: {}{}{}: {}\n", named.name, f.kind, f.clause.empty() ? "" : " ",
                       f.clause, f.what);
    if (!f.evidence.empty()) out += "  " + f.evidence + "\n";
  }
  if (!out.empty() && out.back() != '\n') out += '\n';
  return out;
}

ExitStatus RunAll(const ProviderInfo& provider, const std::vector<NamedProgram>& programs,
                  const RunAllOptions& options, ProviderReport* report,
                  std::vector<RunResult>* results, Expected* expected) {
  report->name = provider.name;
  report->version = provider.version;
  std::vector<Program> bare;
  bare.reserve(programs.size());
  for (const NamedProgram& named : programs) bare.push_back(named.program);
  ExitStatus status = kFine;
  std::vector<RunResult> all;
  std::string why;
  {
    Progress progress(options.progress, programs.size());
    why = RunWatched(provider, bare, options.watch, [&](RunResult&& result) {
      progress.Step();
      all.push_back(std::move(result));
    });
  }
  if (!why.empty()) {
    Say(fmt::format("{} cannot be opened: {}", provider.name, why));
    report->not_run = why;
    return kNoProvider;
  }
  Expected words;
  for (const RunResult& result : all)
    words.programs.push_back(InWords(programs[result.index], result));
  if (options.expectations) {
    words.surprises = conform::ComparePrograms(*options.expectations, provider.name,
                                               provider.version, options.whole, &words.programs);
    for (const conform::Surprise& surprise : words.surprises)
      if (surprise.kind != conform::Surprise::kUnexpectedFailure) status = kFindings;
  }
  // What has a finding that is not known runs once more in a fresh process: what depends on what
  // ran before is no finding of this Program. Alone, except where a start takes seconds (a guest).
  std::map<size_t, RunResult> again;
  WatchOptions replay = options.watch;
  replay.keep_objects = false;
  std::vector<std::vector<size_t>> batches;
  const bool at_once = MachineOf(provider) != nullptr;
  for (size_t i = 0; i < all.size(); ++i) {
    if (StatusOf(all[i]) == kFine || words.programs[i].AllKnown()) continue;
    if (batches.empty() || !at_once) batches.emplace_back();
    batches.back().push_back(all[i].index);
  }
  for (const std::vector<size_t>& batch : batches) {
    if (options.watch.stop && options.watch.stop->load()) break;
    std::vector<Program> some;
    for (size_t index : batch) some.push_back(bare[index]);
    RunWatched(provider, some, replay, [&](RunResult&& r) {
      const size_t index = batch[r.index];
      again[index] = std::move(r);
    });
  }
  for (size_t i = 0; i < all.size(); ++i) {
    RunResult& result = all[i];
    const NamedProgram& named = programs[result.index];
    const bool known = words.programs[i].AllKnown();
    if (StatusOf(result) != kFine && !known &&
        !(options.watch.stop && options.watch.stop->load())) {
      const auto found = again.find(result.index);
      if (found == again.end() || Signature(found->second) != Signature(result)) {
        report->findings.push_back(
            {FindingId("unstable", "", PrintProgram(named.program, Notes::kDrop), 0),
             "unstable",
             "",
             Died(result) ? FirstLine(result.fatal)
                          : "a violation that did not recur in a fresh process",
             named.name,
             PrintProgram(named.program, Notes::kDrop),
             {},
             "",
             ""});
      }
    }
    AddResult(named, result, report, &words.programs[i]);
    if (!known) status = Worse(status, StatusOf(result));
    if (results) results->push_back(std::move(result));
  }
  std::sort(report->groups.begin(), report->groups.end(),
            [](const GroupRow& a, const GroupRow& b) { return a.name < b.name; });
  if (expected) *expected = std::move(words);
  return status;
}

}  // namespace qpexam
