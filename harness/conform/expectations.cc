#include "harness/conform/expectations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace qpexam::conform {
namespace {

std::vector<std::string> Split(std::string_view line, char by) {
  std::vector<std::string> fields;
  for (;;) {
    const size_t at = line.find(by);
    fields.emplace_back(line.substr(0, at));
    if (at == std::string_view::npos) return fields;
    line.remove_prefix(at + 1);
  }
}

bool IsVersion(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
}

bool IsPattern(const std::string& name) { return name.find('*') != std::string::npos; }

// Whether `name` fits a pattern in which each * stands for anything, also for nothing.
bool Matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (;; name.remove_prefix(1)) {
    if (Matches(pattern, name)) return true;
    if (name.empty()) return false;
  }
}

// What happened to a clause in a test, in the words of an entry.
std::string Happened(const TestResult& test, const ClauseResult& clause) {
  return test.outcome == "crash" || test.outcome == "hang" ? test.outcome : clause.verdict;
}

bool IsFailure(const std::string& verdict) {
  static constexpr std::string_view kFailures[] = {
      "violation", "crash", "hang", "wqe", "cqe", "lock", "residue", "kernel", "sanitizer"};
  return std::find(std::begin(kFailures), std::end(kFailures), verdict) != std::end(kFailures);
}

}  // namespace

bool ParseExpectations(std::string_view text, const std::string& file, Expectations* out,
                       std::string* why) {
  int number = 0;
  auto bad = [&](const std::string& what) {
    *why = fmt::format("{}:{}: {}", file, number, what);
    return false;
  };
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> f = Split(line, '\t');
    if (f[0] == "skips") {
      if (f.size() != 3 || f[2].empty() ||
          f[2].find_first_not_of("0123456789") != std::string::npos)
        return bad("a bound is: skips, provider, number; with tabs between");
      out->skips.push_back({f[1], static_cast<size_t>(std::atoll(f[2].c_str())), number});
      continue;
    }
    if (f.size() != 7)
      return bad(
          fmt::format("{} fields; an entry has 7 with tabs between: provider, versions, "
                      "clause, test, verdict, reason, link",
                      f.size()));
    Expectation entry;
    entry.provider = f[0];
    entry.line = number;
    if (f[1] != "*") {
      const size_t dots = f[1].find("..");
      entry.from = dots == std::string::npos ? f[1] : f[1].substr(0, dots);
      entry.to = dots == std::string::npos ? f[1] : f[1].substr(dots + 2);
      if ((!entry.from.empty() && !IsVersion(entry.from)) ||
          (!entry.to.empty() && !IsVersion(entry.to)))
        return bad(
            fmt::format("versions \"{}\"; write *, 56.1, 44.0..56.1, ..56.1 or 56.1..", f[1]));
    }
    entry.clause = f[2] == "-" ? "" : f[2];
    entry.test = f[3];
    entry.verdict = f[4];
    entry.sometimes = !entry.verdict.empty() && entry.verdict.back() == '?';
    if (entry.sometimes) {
      entry.verdict.pop_back();
      if (IsPattern(entry.test)) return bad("what need not happen names one test, without *");
    }
    if (!IsFailure(entry.verdict) && entry.verdict != "warning" && entry.verdict != "undecided")
      return bad(
          fmt::format("verdict \"{}\"; one of violation, warning, crash, hang, undecided, and for "
                      "programs wqe, cqe, lock, residue, kernel, sanitizer",
                      entry.verdict));
    entry.reason = f[5];
    entry.link = f[6];
    if (entry.reason.empty()) return bad("an entry needs a reason");
    out->entries.push_back(std::move(entry));
  }
  return true;
}

int CompareVersions(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    auto take = [](std::string_view* v) {
      const size_t dot = v->find('.');
      const int part = std::atoi(std::string(v->substr(0, dot)).c_str());
      v->remove_prefix(dot == std::string_view::npos ? v->size() : dot + 1);
      return part;
    };
    const int left = take(&a), right = take(&b);
    if (left != right) return left - right;
  }
  return 0;
}

namespace {

// As much of a version as a bound names: "6.1" speaks of 6.1.192, the newest of a series.
std::string_view AsFarAs(std::string_view version, std::string_view bound) {
  size_t end = 0;
  for (auto dots = std::count(bound.begin(), bound.end(), '.'); end != version.npos;
       --dots, ++end) {
    end = version.find('.', end);
    if (end == version.npos || dots == 0) break;
  }
  return version.substr(0, end);
}

}  // namespace

bool InRange(const Expectation& entry, std::string_view version) {
  return (entry.from.empty() || CompareVersions(AsFarAs(version, entry.from), entry.from) >= 0) &&
         (entry.to.empty() || CompareVersions(AsFarAs(version, entry.to), entry.to) <= 0);
}

Bearing BearingOn(const Expectation& entry, std::string_view provider, std::string_view version) {
  constexpr std::string_view kHosted = "hosted:", kPackaged = "packaged:", kVm = "vm:";
  const std::string_view name = provider.substr(0, provider.find('@'));
  const size_t slash = version.find('/');
  if (entry.provider == name)
    return InRange(entry, version.substr(0, slash)) ? Bearing::kOwn : Bearing::kNone;
  if (entry.provider.compare(0, kHosted.size(), kHosted) != 0) return Bearing::kNone;
  const std::string_view hosted = std::string_view(entry.provider).substr(kHosted.size());
  const bool packaged = name.substr(0, kPackaged.size()) == kPackaged &&
                        name.substr(kPackaged.size()) == hosted && InRange(entry, version);
  const bool guest = name.substr(0, kVm.size()) == kVm && name.substr(kVm.size()) == hosted &&
                     slash != version.npos && InRange(entry, version.substr(slash + 1));
  return packaged || guest ? Bearing::kSameLibrary : Bearing::kNone;
}

std::vector<Surprise> Compare(const Expectations& expectations, const SuiteRun& run,
                              std::string_view provider, std::string_view version, bool whole,
                              KnownDeviations* expected, Warnings warnings) {
  std::vector<Surprise> surprises;
  std::vector<bool> used(expectations.entries.size(), false);
  size_t skipped = 0;
  expected->clear();
  for (const TestResult& test : run.tests) {
    if (test.outcome == "skip") ++skipped;
    for (const auto& [id, clause] : test.clauses) {
      const std::string happened = Happened(test, clause);
      const Expectation* is_expected = nullptr;
      for (size_t i = 0; i < expectations.entries.size(); ++i) {
        const Expectation& entry = expectations.entries[i];
        const Bearing bearing = BearingOn(entry, provider, version);
        if (bearing == Bearing::kNone || entry.clause != id || !Matches(entry.test, test.name))
          continue;
        if (entry.verdict == happened) {
          is_expected = &entry;
          used[i] = true;
        } else if (bearing == Bearing::kOwn && !entry.sometimes &&
                   (happened == "conforms" || happened == "variation")) {
          // A pattern may name tests of which only some fail.
          if (!IsPattern(entry.test)) {
            surprises.push_back({Surprise::kUnexpectedPass, id, test.name,
                                 fmt::format("{} where line {} of the expectations says {}",
                                             happened, entry.line, entry.verdict)});
            used[i] = true;
          }
        }
      }
      if (is_expected != nullptr) {
        (*expected)[{test.name, id}] = is_expected;
      } else if (IsFailure(happened)) {
        surprises.push_back({Surprise::kUnexpectedFailure, id, test.name,
                             clause.notes.empty() ? happened : clause.notes[0]});
      } else if (happened == "warning" && warnings == Warnings::kFail) {
        surprises.push_back({Surprise::kUnexpectedWarning, id, test.name,
                             clause.notes.empty() ? happened : clause.notes[0]});
      }
    }
    // A failure that names no clause.
    if (test.outcome == "fail" &&
        std::none_of(test.clauses.begin(), test.clauses.end(), [](const auto& c) {
          return c.second.verdict == "violation" || c.second.verdict == "warning" ||
                 c.second.verdict == "undecided";
        }))
      surprises.push_back({Surprise::kUnexpectedFailure, "", test.name, "the test failed"});
  }
  if (!whole) return surprises;
  for (size_t i = 0; i < expectations.entries.size(); ++i) {
    const Expectation& entry = expectations.entries[i];
    if (BearingOn(entry, provider, version) != Bearing::kOwn || used[i] || entry.sometimes)
      continue;
    surprises.push_back(
        {Surprise::kUnused, entry.clause, entry.test,
         fmt::format("line {} of the expectations was used by nothing", entry.line)});
  }
  for (const SkipBound& bound : expectations.skips) {
    if (bound.provider == provider && skipped > bound.most)
      surprises.push_back({Surprise::kTooManySkips, "", "",
                           fmt::format("{} tests were skipped, line {} of the expectations allows "
                                       "{}",
                                       skipped, bound.line, bound.most)});
  }
  return surprises;
}

const Expectation* ProgramResult::Known(std::string_view clause, std::string_view verdict) const {
  for (const Finding& finding : findings)
    if (finding.clause == clause && finding.verdict == verdict) return finding.known;
  return nullptr;
}

bool ProgramResult::AllKnown() const {
  bool any = false;
  for (const Finding& finding : findings) {
    if (!IsFailure(finding.verdict)) continue;
    if (finding.known == nullptr) return false;
    any = true;
  }
  return any;
}

std::vector<Surprise> ComparePrograms(const Expectations& expectations, std::string_view provider,
                                      std::string_view version, bool whole,
                                      std::vector<ProgramResult>* programs) {
  std::vector<Surprise> surprises;
  std::vector<const Expectation*> here;
  std::vector<bool> used;
  for (const Expectation& entry : expectations.entries) {
    const Bearing bearing = BearingOn(entry, provider, version);
    if (bearing == Bearing::kNone) continue;
    here.push_back(&entry);
    used.push_back(bearing == Bearing::kSameLibrary || entry.sometimes);
  }
  for (ProgramResult& program : *programs) {
    for (ProgramResult::Finding& finding : program.findings) {
      for (size_t i = 0; i < here.size(); ++i) {
        // What ends the process is a sanitizer's report where there is one.
        const bool same = here[i]->verdict == finding.verdict ||
                          (here[i]->verdict == "crash" && finding.verdict == "sanitizer");
        if (here[i]->clause != finding.clause || !same || !Matches(here[i]->test, program.name))
          continue;
        finding.known = here[i];
        used[i] = true;
      }
      if (finding.known == nullptr && IsFailure(finding.verdict))
        surprises.push_back(
            {Surprise::kUnexpectedFailure, finding.clause, program.name, finding.what});
    }
    for (size_t i = 0; i < here.size(); ++i) {
      if (used[i] || here[i]->test != program.name) continue;
      used[i] = true;  // said once
      surprises.push_back(
          {Surprise::kUnexpectedPass, here[i]->clause, program.name,
           fmt::format("nothing was found where line {} of the expectations says {}", here[i]->line,
                       here[i]->verdict)});
    }
  }
  if (!whole) return surprises;
  for (size_t i = 0; i < here.size(); ++i) {
    if (used[i]) continue;
    surprises.push_back(
        {Surprise::kUnused, here[i]->clause, here[i]->test,
         fmt::format("line {} of the expectations was used by nothing", here[i]->line)});
  }
  return surprises;
}

}  // namespace qpexam::conform
