// `qpexam report A.json [B.json]`: a report summed up, or what two differ in.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/command/commands.h"
#include "harness/command/console.h"
#include "harness/report/report.h"

namespace qpexam {
namespace {

using Json = nlohmann::ordered_json;

bool Load(const std::string& path, Json* report) {
  std::string text, why;
  if (!ReadFile(path, &text, &why)) {
    Say(fmt::format("{}: {}", path, why));
    return false;
  }
  *report = Json::parse(text, nullptr, false);
  if (report->is_discarded()) {
    Say(fmt::format("{}: is {}; write a report with --json=FILE", path,
                    text.empty() ? "empty" : "no JSON, or was cut off"));
    return false;
  }
  const std::string schema =
      report->is_object() && report->contains("schema") && (*report)["schema"].is_string()
          ? (*report)["schema"].get<std::string>()
          : "";
  if (schema != kReportSchema || !report->contains("providers") ||
      !(*report)["providers"].is_object()) {
    Say(fmt::format("{}: is no report of this tool ({}); write one with --json=FILE", path,
                    schema.empty() ? "it has no schema field" : "its schema is " + schema));
    return false;
  }
  return true;
}

std::string VerdictOf(const Json& provider, const std::string& clause) {
  const auto clauses = provider.find("clauses");
  if (clauses == provider.end() || !clauses->contains(clause)) return "untested";
  return (*clauses)[clause].value("verdict", "untested");
}

// What was run: programs of `check` and `run`, tests of `conform`; then clauses by verdict.
std::string Sum(const Json& provider) {
  std::map<std::string, size_t> tally;
  if (provider.contains("clauses"))
    for (const auto& [id, clause] : provider["clauses"].items())
      ++tally[clause.value("verdict", "untested")];
  std::string out;
  for (const auto& [verdict, count] : tally)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, verdict);
  if (!out.empty()) out = "clauses: " + out;
  std::map<std::string, size_t> counts;
  size_t programs = 0, tests = 0;
  const Json all = provider.value("counts", Json::object());
  for (const auto& [name, count] : all.items()) {
    if (!count.is_number_unsigned()) continue;
    size_t& to = name == "programs" ? programs : name == "tests" ? tests : counts[name];
    to += count.get<size_t>();
  }
  if (programs != 0) {
    std::string of;
    for (const auto& [name, count] : counts)
      if (count != 0) of += fmt::format("{}{} {}", of.empty() ? ": " : ", ", count, name);
    out = fmt::format("{} program{}{}{}{}", programs, programs == 1 ? "" : "s", of,
                      out.empty() ? "" : "; ", out);
  } else if (tests != 0) {
    out = fmt::format("{} test{}{}{}", tests, tests == 1 ? "" : "s", out.empty() ? "" : "; ", out);
  }
  return out.empty() ? "nothing ran" : out;
}

}  // namespace

ExitStatus CompareReports(const ReportArguments& arguments) {
  Json a, b;
  if (!Load(arguments.a, &a)) return kUsage;
  if (arguments.b.empty()) {
    for (const auto& [name, provider] : a["providers"].items())
      Print(fmt::format("{}: {}\n", name, Sum(provider)));
    return FinishOutput();
  }
  if (!Load(arguments.b, &b)) return kUsage;
  std::set<std::string> names;
  for (const Json* report : {&a, &b})
    for (const auto& [name, provider] : (*report)["providers"].items()) names.insert(name);
  size_t differences = 0;
  for (const std::string& name : names) {
    if (!a["providers"].contains(name) || !b["providers"].contains(name)) {
      Print(fmt::format("{}: only in {}\n", name,
                        a["providers"].contains(name) ? arguments.a : arguments.b));
      ++differences;
      continue;
    }
    const Json &before = a["providers"][name], &after = b["providers"][name];
    std::set<std::string> clauses;
    for (const Json* provider : {&before, &after})
      if (provider->contains("clauses"))
        for (const auto& [id, clause] : (*provider)["clauses"].items()) clauses.insert(id);
    for (const std::string& id : clauses) {
      const std::string was = VerdictOf(before, id), is = VerdictOf(after, id);
      if (was == is) continue;
      Print(fmt::format("{} {}: {} -> {}\n", name, id, was, is));
      ++differences;
    }
  }
  if (differences == 0) Print("no differences\n");
  return Worse(differences == 0 ? kFine : kFindings, FinishOutput());
}

}  // namespace qpexam
