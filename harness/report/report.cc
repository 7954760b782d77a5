#include "harness/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace qpexam {
namespace {

// From harmless to worst: where two Programs say different things of a clause, the worse stays.
constexpr std::string_view kVerdicts[] = {"untested",  "skipped", "emulated",  "conforms",
                                          "variation", "warning", "undecided", "violation"};

size_t Rank(std::string_view verdict) {
  return static_cast<size_t>(std::find(std::begin(kVerdicts), std::end(kVerdicts), verdict) -
                             std::begin(kVerdicts));
}

// A clause that hundreds of Programs touch is shown by a few of them.
constexpr size_t kMostTests = 5;

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  programs += other.programs;
  tests += other.tests;
  conforms += other.conforms;
  variation += other.variation;
  warning += other.warning;
  violation += other.violation;
  emulated += other.emulated;
  undecided += other.undecided;
  skipped += other.skipped;
  crash += other.crash;
  hang += other.hang;
  known += other.known;
  return *this;
}

Counts ProviderReport::Total() const {
  Counts total;
  for (const GroupRow& group : groups) total += group.counts;
  return total;
}

GroupRow& ProviderReport::Group(const std::string& name) {
  for (GroupRow& group : groups)
    if (group.name == name) return group;
  groups.emplace_back();
  groups.back().name = name;
  return groups.back();
}

void ProviderReport::NoteClause(const std::string& clause, const std::string& verdict,
                                const std::string& test) {
  ClauseVerdict& noted = clauses[clause];
  const size_t before = noted.verdict.empty() ? 0 : Rank(noted.verdict);
  const size_t now = Rank(verdict);
  if (noted.verdict.empty() || now > before) {
    noted.verdict = verdict;
    noted.tests.clear();
  }
  if ((noted.tests.empty() || now == before) && noted.tests.size() < kMostTests &&
      std::find(noted.tests.begin(), noted.tests.end(), test) == noted.tests.end())
    noted.tests.push_back(test);
}

std::string FindingId(std::string_view kind, std::string_view clause, std::string_view program,
                      uint32_t call) {
  // FNV-1a: stable across machines and versions.
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : program) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  hash = (hash ^ call) * 0x100000001b3u;
  return fmt::format("{}{}{}-{:08x}", kind, clause.empty() ? "" : "-", clause,
                     static_cast<uint32_t>(hash ^ (hash >> 32)));
}

std::string PrintTable(const ProviderReport& provider) {
  // Columns beyond the five of every table appear where they have something to say.
  struct Column {
    const char* head;
    uint64_t Counts::*count;
    bool always;
  };
  static constexpr Column kColumns[] = {
      {"programs", &Counts::programs, true},    {"conforming", &Counts::conforms, true},
      {"variations", &Counts::variation, true}, {"warnings", &Counts::warning, false},
      {"violations", &Counts::violation, true}, {"known", &Counts::known, false},
      {"undecided", &Counts::undecided, false}, {"emulated", &Counts::emulated, false},
      {"skipped", &Counts::skipped, false},     {"crashes", &Counts::crash, false},
      {"hangs", &Counts::hang, false},
  };
  const Counts total = provider.Total();
  size_t width = 5;
  for (const GroupRow& group : provider.groups) width = std::max(width, group.name.size());
  std::string out = fmt::format("{:<{}}", "group", width);
  for (const Column& column : kColumns)
    if (column.always || total.*column.count) out += fmt::format("  {:>10}", column.head);
  out += fmt::format("  {:>9}\n", "time");
  auto row = [&](std::string_view name, const Counts& counts, uint64_t nanoseconds) {
    out += fmt::format("{:<{}}", name, width);
    for (const Column& column : kColumns)
      if (column.always || total.*column.count)
        out += fmt::format("  {:>10}", counts.*column.count);
    out += fmt::format("  {:>7.3f} s\n", static_cast<double>(nanoseconds) / 1e9);
  };
  uint64_t nanoseconds = 0;
  for (const GroupRow& group : provider.groups) {
    row(group.name, group.counts, group.nanoseconds);
    nanoseconds += group.nanoseconds;
  }
  row("total", total, nanoseconds);
  return out;
}

}  // namespace qpexam
