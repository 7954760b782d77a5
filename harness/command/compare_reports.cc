// `qpexam report A.json [B.json]`: a report summed up, or what two differ in.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/command/commands.h"
#include "harness/command/console.h"
#include "harness/command/page.h"
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

constexpr std::string_view kAbsent = "absent";

// Each clause on which a provider's verdict differs, and each provider that only one report has.
Json Differences(const Json& a, const Json& b) {
  std::set<std::string> names;
  for (const Json* report : {&a, &b})
    for (const auto& [name, provider] : (*report)["providers"].items()) names.insert(name);
  Json found = Json::array();
  auto note = [&](const std::string& name, const std::string& id, std::string_view was,
                  std::string_view is) {
    found.push_back({{"provider", name}, {"clause", id}, {"before", was}, {"after", is}});
  };
  for (const std::string& name : names) {
    const bool in_a = a["providers"].contains(name), in_b = b["providers"].contains(name);
    if (!in_a || !in_b) {
      note(name, "", in_a ? "present" : kAbsent, in_b ? "present" : kAbsent);
      continue;
    }
    const Json &before = a["providers"][name], &after = b["providers"][name];
    std::set<std::string> clauses;
    for (const Json* provider : {&before, &after})
      if (provider->contains("clauses"))
        for (const auto& [id, clause] : (*provider)["clauses"].items()) clauses.insert(id);
    for (const std::string& id : clauses) {
      const std::string was = VerdictOf(before, id), is = VerdictOf(after, id);
      if (was != is) note(name, id, was, is);
    }
  }
  return found;
}

// "a.json" of "out/a.json".
std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Both reports as one, a column for each provider of each.
Json SideBySide(const Json& a, const std::string& a_path, const Json& b,
                const std::string& b_path) {
  std::string first = FileName(a_path), second = FileName(b_path);
  if (first == second) first = a_path, second = b_path;
  if (first == second) first += " (A)", second += " (B)";
  Json both = b;
  Json& providers = both["providers"] = Json::object();
  std::set<std::string> seen;
  auto add = [&](const Json& report, const std::string& name, const std::string& label) {
    if (!report["providers"].contains(name)) return;
    Json& column = providers[name + " in " + label] = report["providers"][name];
    // What a page reads, also of a report that another tool made.
    if (!column.contains("clauses")) column["clauses"] = Json::object();
    if (!column.contains("findings")) column["findings"] = Json::array();
  };
  for (const Json* report : {&a, &b}) {
    for (const auto& [name, provider] : (*report)["providers"].items()) {
      if (!seen.insert(name).second) continue;
      add(a, name, first);
      add(b, name, second);
    }
  }
  return both;
}

}  // namespace

ExitStatus CompareReports(const ReportArguments& arguments) {
  Json a, b;
  if (!Load(arguments.a, &a)) return kUsage;
  OutputFile json, html;
  if (!json.Open(arguments.json) || !OpenPage(arguments.html, &html)) return kUsage;
  ExitStatus status = kFine;
  Json written = a, page = a;
  Json differences = Json::array();
  if (arguments.b.empty()) {
    for (const auto& [name, provider] : a["providers"].items())
      Print(fmt::format("{}: {}\n", name, Sum(provider)));
  } else {
    if (!Load(arguments.b, &b)) return kUsage;
    differences = Differences(a, b);
    for (const Json& d : differences) {
      const std::string name = d["provider"], id = d["clause"];
      if (id.empty()) {
        Print(fmt::format("{}: only in {}\n", name,
                          d["before"] == kAbsent ? arguments.b : arguments.a));
      } else {
        Print(fmt::format("{} {}: {} -> {}\n", name, id, d["before"].get<std::string>(),
                          d["after"].get<std::string>()));
      }
    }
    if (differences.empty()) Print("no differences\n");
    if (!differences.empty()) status = kFindings;
    written = b;
    page = SideBySide(a, arguments.a, b, arguments.b);
  }
  written["command"] = "report";
  written["differences"] = differences;
  constexpr auto kReplace = Json::error_handler_t::replace;
  if (json.wanted() && !json.Write(written.dump(2, ' ', false, kReplace) + "\n")) status = kUsage;
  if (html.wanted() &&
      !html.Write(PrintHtml(page.dump(-1, ' ', false, kReplace), PageClauses(), {},
                            arguments.b.empty() ? "" : "qpexam: what two runs differ in",
                            !arguments.b.empty())))
    status = kUsage;
  return Worse(status, FinishOutput());
}

}  // namespace qpexam
