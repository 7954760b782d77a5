#include "conformance/catalogue/catalogue.h"

namespace qpexam::catalogue {
namespace {

// kClauses[] and kGroups[], generated from groups.tsv and clauses/*.tsv.
#include "conformance/catalogue/clauses.inc"

constexpr std::size_t kClauseCount = sizeof(kClauses) / sizeof(kClauses[0]);
constexpr std::size_t kGroupCount = sizeof(kGroups) / sizeof(kGroups[0]);

}  // namespace

View<Clause> All() { return {kClauses, kClauseCount}; }

View<Group> Groups() { return {kGroups, kGroupCount}; }

View<Clause> InGroup(std::string_view group) {
  std::size_t first = 0;
  while (first < kClauseCount && kClauses[first].group != group) ++first;
  std::size_t last = first;
  while (last < kClauseCount && kClauses[last].group == group) ++last;
  return {kClauses + first, last - first};
}

const Clause* Find(std::string_view id) {
  constexpr std::string_view kPrefix = "WR-";
  for (const Clause& clause : All()) {
    if (clause.id == id || clause.id.substr(kPrefix.size()) == id) return &clause;
  }
  return nullptr;
}

std::string_view Name(Level level) {
  switch (level) {
    case Level::kMust:
      return "MUST";
    case Level::kShould:
      return "SHOULD";
    case Level::kMay:
      return "MAY";
    case Level::kUndefined:
      return "UNDEFINED";
  }
  return "";
}

std::string_view Name(Confidence confidence) {
  switch (confidence) {
    case Confidence::kHigh:
      return "H";
    case Confidence::kMedium:
      return "M";
    case Confidence::kLow:
      return "L";
  }
  return "";
}

std::string_view Name(Layer layer) {
  switch (layer) {
    case Layer::kLib:
      return "lib";
    case Layer::kKernel:
      return "kernel";
    case Layer::kDevice:
      return "device";
  }
  return "";
}

}  // namespace qpexam::catalogue
