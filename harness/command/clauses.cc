// `qpexam clauses`: the catalogue, and for each clause what stands behind it: the rule of the model
// that carries it, the tests that name it, the faults that break it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "conformance/catalogue/catalogue.h"
#include "harness/command/commands.h"
#include "harness/command/console.h"
#include "harness/conform/suite_process.h"
#include "reference/model/carried.h"
#include "reference/model/faults.h"

namespace qpexam {
namespace {

using catalogue::Clause;

// "Comp.ByteLength" of "Comp.ByteLength/rdma_read" -> how many cases, by clause; or why not.
struct TestsByClause {
  std::map<std::string, std::map<std::string, int>> tests;
  std::string why_not;
};

TestsByClause ListTestsByClause() {
  TestsByClause all;
  std::vector<std::pair<std::string, std::vector<std::string>>> tests;
  const std::string binary = conform::FindSuites(&all.why_not);
  if (binary.empty() || !conform::ListTests(binary, &tests, &all.why_not)) return all;
  for (const auto& [name, clauses] : tests)
    for (const std::string& clause : clauses) all.tests[clause][name.substr(0, name.find('/'))]++;
  return all;
}

std::vector<const model::FaultInfo*> FaultsOf(const Clause& clause) {
  std::vector<const model::FaultInfo*> faults;
  for (const model::FaultInfo& fault : model::AllFaults())
    if (fault.clause == clause.id) faults.push_back(&fault);
  return faults;
}

std::string Line(std::string_view what, std::string_view text) {
  constexpr size_t kIndent = 10;
  return fmt::format("  {:<{}}{}\n", what, kIndent - 2, Wrapped(text, kIndent));
}

std::string ToText(const Clause& clause, const TestsByClause& all) {
  std::string out =
      fmt::format("{}  {}  confidence {}  decided by {}{}\n", clause.id,
                  catalogue::Name(clause.level), catalogue::Name(clause.confidence),
                  catalogue::Name(clause.layer), clause.dangerous ? "  dangerous" : "");
  out += "  " + Wrapped(clause.statement, 2) + "\n";
  out += Line("source:", clause.source);
  if (!clause.how_to_test.empty()) out += Line("test:", clause.how_to_test);

  if (!clause.no_rule.empty()) out += Line("rule:", fmt::format("none: {}", clause.no_rule));
  if (const model::Carrier* carrier = model::CarrierOf(clause.id); carrier != nullptr)
    out += Line("rule:", fmt::format("{}: {}", carrier->place, carrier->how));

  if (!clause.untested.empty()) {
    out += Line("tests:", fmt::format("none: {}", clause.untested));
  } else if (!all.why_not.empty()) {
    out += Line("tests:", fmt::format("not listed: {}", all.why_not));
  } else if (const auto found = all.tests.find(std::string(clause.id)); found != all.tests.end()) {
    std::string names;
    for (const auto& [name, cases] : found->second)
      names += fmt::format("{}{}{}", names.empty() ? "" : ", ", name,
                           cases > 1 ? fmt::format(" ({} cases)", cases) : "");
    out += Line("tests:", names);
  }

  if (!clause.no_fault.empty()) out += Line("faults:", fmt::format("none: {}", clause.no_fault));
  bool first = true;
  for (const model::FaultInfo* fault : FaultsOf(clause)) {
    out += Line(first ? "faults:" : "", fmt::format("{}: {}", fault->name, fault->what));
    first = false;
  }
  return out;
}

nlohmann::ordered_json ToJson(const Clause& clause, const TestsByClause& all) {
  nlohmann::ordered_json json = {{"id", clause.id},
                                 {"group", clause.group},
                                 {"level", catalogue::Name(clause.level)},
                                 {"confidence", catalogue::Name(clause.confidence)},
                                 {"layer", catalogue::Name(clause.layer)},
                                 {"dangerous", clause.dangerous},
                                 {"statement", clause.statement},
                                 {"source", clause.source},
                                 {"how_to_test", clause.how_to_test}};
  if (const model::Carrier* carrier = model::CarrierOf(clause.id); carrier != nullptr) {
    json["rule"] = {{"place", carrier->place}, {"how", carrier->how}};
  } else {
    json["no_rule"] = clause.no_rule;
  }
  if (!clause.untested.empty()) {
    json["untested"] = clause.untested;
  } else if (all.why_not.empty()) {
    json["tests"] = nlohmann::ordered_json::array();
    if (const auto found = all.tests.find(std::string(clause.id)); found != all.tests.end())
      for (const auto& [name, cases] : found->second)
        json["tests"].push_back({{"name", name}, {"cases", cases}});
  }
  json["faults"] = nlohmann::ordered_json::array();
  for (const model::FaultInfo* fault : FaultsOf(clause))
    json["faults"].push_back({{"name", fault->name}, {"what", fault->what}});
  if (!clause.no_fault.empty()) json["no_fault"] = clause.no_fault;
  return json;
}

void PrintGroups() {
  Print(fmt::format("{:<8} {:>7} {:>5} {:>6} {:>4} {:>9}  {}\n", "group", "clauses", "MUST",
                    "SHOULD", "MAY", "UNDEFINED", "about"));
  for (const catalogue::Group& group : catalogue::Groups())
    Print(fmt::format("{:<8} {:>7} {:>5} {:>6} {:>4} {:>9}  {}\n", group.name, group.clauses,
                      group.must, group.should, group.may, group.undefined, group.title));
  size_t carried = 0, must = 0, broken = 0;
  for (const Clause& clause : catalogue::All()) {
    carried += model::CarrierOf(clause.id) != nullptr;
    if (clause.level != catalogue::Level::kMust) continue;
    must++;
    broken += !FaultsOf(clause).empty();
  }
  Print(
      fmt::format("{} clauses; `qpexam clauses ATOM` shows a group, `qpexam clauses WR-ATOM-002` "
                  "one\n{} are carried by a rule of the model, {} of {} MUST clauses have a fault; "
                  "the others say why not\n",
                  catalogue::All().size(), carried, broken, must));
}

}  // namespace

ExitStatus ListClauses(const ClausesArguments& arguments) {
  OutputFile json_file;
  if (!json_file.Open(arguments.json)) return kUsage;
  ExitStatus status = kFine;
  std::vector<const Clause*> chosen;
  const bool all = arguments.which.empty();
  if (all)
    for (const Clause& clause : catalogue::All()) chosen.push_back(&clause);
  for (std::string which : arguments.which) {
    std::transform(which.begin(), which.end(), which.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (const Clause* clause = catalogue::Find(which)) {
      chosen.push_back(clause);
    } else if (catalogue::InGroup(which).size() != 0) {
      for (const Clause& member : catalogue::InGroup(which)) chosen.push_back(&member);
    } else {
      Say(fmt::format("there is no clause and no group \"{}\"; `qpexam clauses` lists the groups",
                      which));
      status = kUsage;
    }
  }
  if (arguments.untested) {
    chosen.erase(std::remove_if(chosen.begin(), chosen.end(),
                                [](const Clause* clause) { return clause->untested.empty(); }),
                 chosen.end());
  }
  // Only what shows single clauses asks the suites for their tests.
  TestsByClause tests;
  if (json_file.wanted() || (!all && !chosen.empty())) tests = ListTestsByClause();
  if (all && arguments.untested) {
    for (const Clause* clause : chosen)
      Print(fmt::format("{}: {}\n", clause->id, clause->untested));
    Print(fmt::format("{} of {} clauses have no test\n", chosen.size(), catalogue::All().size()));
  } else if (all) {
    PrintGroups();
  } else {
    for (const Clause* clause : chosen)
      Print((clause == chosen.front() ? "" : "\n") + ToText(*clause, tests));
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  if (json_file.wanted())
    for (const Clause* clause : chosen) json.push_back(ToJson(*clause, tests));
  if (!json_file.Write(json.dump(2) + "\n")) return kUsage;
  return status;
}

}  // namespace qpexam
