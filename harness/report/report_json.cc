// The machine form. Its shape is harness/report/qpexam-report-1.schema.json.
#include <nlohmann/json.hpp>

#include "harness/report/report.h"

namespace qpexam {
namespace {

using Json = nlohmann::ordered_json;

Json CountsToJson(const Counts& c) {
  return {{"programs", c.programs},   {"tests", c.tests},         {"conforms", c.conforms},
          {"variation", c.variation}, {"warning", c.warning},     {"violation", c.violation},
          {"emulated", c.emulated},   {"undecided", c.undecided}, {"skipped", c.skipped},
          {"crash", c.crash},         {"hang", c.hang},           {"known", c.known}};
}

Json ProviderToJson(const ProviderReport& provider) {
  Json json;
  json["version"] = provider.version;
  if (!provider.not_run.empty()) json["not_run"] = provider.not_run;
  json["counts"] = CountsToJson(provider.Total());
  Json groups = Json::object();
  for (const GroupRow& group : provider.groups) groups[group.name] = CountsToJson(group.counts);
  json["groups"] = std::move(groups);
  Json clauses = Json::object();
  for (const auto& [id, verdict] : provider.clauses)
    clauses[id] = {{"verdict", verdict.verdict}, {"tests", verdict.tests}};
  json["clauses"] = std::move(clauses);
  Json variations = Json::array();
  for (const auto& [key, count] : provider.variations)
    variations.push_back({{"choice", key.first}, {"outcome", key.second}, {"count", count}});
  json["variations"] = std::move(variations);
  json["cut"] = provider.cut;
  json["in_part"] = provider.in_part;
  json["undefined"] = provider.undefined;
  Json findings = Json::array();
  for (const ReportFinding& f : provider.findings)
    findings.push_back({{"id", f.id},
                        {"kind", f.kind},
                        {"clause", f.clause},
                        {"what", f.what},
                        {"where", f.where},
                        {"program", f.program},
                        {"allowed", f.allowed},
                        {"observed", f.observed},
                        {"known", f.known}});
  json["findings"] = std::move(findings);
  return json;
}

}  // namespace

std::string ReportToJson(const Report& report) {
  Json json;
  json["schema"] = kReportSchema;
  json["tool"] = "qpexam " + std::string(kToolVersion);
  json["command"] = report.command;
  json["rdma_core"] = {{"version", report.rdma_core_version}, {"from", report.rdma_core_from}};
  json["seed"] = report.seed;
  json["effort"] = report.effort;
  json["interrupted"] = report.interrupted;
  Json providers = Json::object();
  for (const ProviderReport& provider : report.providers)
    providers[provider.name] = ProviderToJson(provider);
  json["providers"] = std::move(providers);
  Json faults = Json::object();
  for (const FaultReport& fault : report.faults) {
    Json& one = faults[fault.name] = {{"clause", fault.clause}, {"caught_by", fault.caught_by}};
    if (!fault.breaks.empty()) one["breaks"] = fault.breaks;
    if (!fault.origin.empty()) one["origin"] = fault.origin;
  }
  json["faults"] = std::move(faults);
  Json timing = Json::object();
  for (const auto& [name, value] : report.timing) timing[name] = value;
  for (const ProviderReport& provider : report.providers) {
    double seconds = 0;
    for (const GroupRow& group : provider.groups)
      seconds += static_cast<double>(group.nanoseconds) / 1e9;
    if (!provider.groups.empty()) timing[provider.name] = seconds;
  }
  json["timing"] = std::move(timing);
  // A crash report may hold any byte; what is not UTF-8 is replaced rather than refused.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace qpexam
