// The machine form keeps its shape: what is written is what the schema file in the tree says.
#include "harness/report/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace qpexam {
namespace {

using nlohmann::json;

// The part of JSON Schema that our schema file uses. Appends what does not fit.
void Check(const json& schema, const json& root, const json& value, const std::string& at,
           std::vector<std::string>* errors) {
  if (schema.contains("$ref")) {
    const std::string name = schema["$ref"];
    Check(root["$defs"][name.substr(name.rfind('/') + 1)], root, value, at, errors);
    return;
  }
  if (schema.contains("const") && value != schema["const"]) errors->push_back(at + ": const");
  if (schema.contains("enum")) {
    bool found = false;
    for (const json& one : schema["enum"]) found |= one == value;
    if (!found) errors->push_back(at + ": " + value.dump() + " is not in the enum");
  }
  const std::string type = schema.value("type", "");
  if ((type == "object" && !value.is_object()) || (type == "array" && !value.is_array()) ||
      (type == "string" && !value.is_string()) || (type == "boolean" && !value.is_boolean()) ||
      (type == "integer" && !value.is_number_integer()) || (type == "number" && !value.is_number()))
    errors->push_back(at + ": not of type " + type);
  if (value.is_object()) {
    for (const json& name : schema.value("required", json::array()))
      if (!value.contains(name.get<std::string>()))
        errors->push_back(at + ": lacks " + name.get<std::string>());
    for (const auto& [name, member] : value.items()) {
      const json properties = schema.value("properties", json::object());
      if (properties.contains(name)) {
        Check(properties[name], root, member, at + "." + name, errors);
      } else if (schema.contains("additionalProperties")) {
        Check(schema["additionalProperties"], root, member, at + "." + name, errors);
      } else {
        errors->push_back(at + ": the schema does not know " + name);
      }
    }
  }
  if (value.is_array() && schema.contains("items"))
    for (size_t i = 0; i < value.size(); i++)
      Check(schema["items"], root, value[i], at + "[" + std::to_string(i) + "]", errors);
}

Report Example() {
  Report report;
  report.command = "check";
  report.rdma_core_version = "56.1";
  report.rdma_core_from = "apt";
  ProviderReport provider;
  provider.name = "reference";
  provider.version = "56.1";
  GroupRow& group = provider.Group("rc");
  group.counts.programs = 3;
  group.counts.conforms = 2;
  group.counts.violation = 1;
  group.nanoseconds = 1500000;
  provider.Group("ud").counts.programs = 1;
  provider.NoteClause("WR-ATOM-002", "violation", "a.qpx");
  provider.variations[{"unsignaled-refused", "refused at complete"}] = 2;
  provider.findings.push_back({"violation-WR-ATOM-002-1",
                               "violation",
                               "WR-ATOM-002",
                               "what",
                               "a.qpx:3",
                               "qp a rc\xff\n",
                               {"0"},
                               "EINVAL"});
  report.providers.push_back(provider);
  report.timing["x"] = 1.5;
  return report;
}

TEST(Report, TheMachineFormKeepsItsSchema) {
  std::ifstream file("harness/report/qpexam-report-1.schema.json");
  ASSERT_TRUE(file);
  const json schema = json::parse(file);
  const json written = json::parse(ReportToJson(Example()));
  std::vector<std::string> errors;
  Check(schema, schema, written, "report", &errors);
  EXPECT_EQ(errors, std::vector<std::string>());
  EXPECT_EQ(written["providers"]["reference"]["counts"]["programs"], 4);
  // The check itself can fail.
  json broken = written;
  broken["providers"]["reference"].erase("counts");
  broken["effort"] = "some";
  Check(schema, schema, broken, "report", &errors);
  EXPECT_EQ(errors.size(), 2u);
}

TEST(Report, TheWorseVerdictOfAClauseStays) {
  ProviderReport provider;
  provider.NoteClause("WR-X", "variation", "a");
  provider.NoteClause("WR-X", "violation", "b");
  provider.NoteClause("WR-X", "warning", "c");
  EXPECT_EQ(provider.clauses["WR-X"].verdict, "violation");
  EXPECT_EQ(provider.clauses["WR-X"].tests, std::vector<std::string>{"b"});
}

TEST(Report, TheTableHasALineAGroupAndATotal) {
  EXPECT_EQ(PrintTable(Example().providers[0]),
            "group    programs  conforming  variations  violations       time\n"
            "rc              3           2           0           1    0.002 s\n"
            "ud              1           0           0           0    0.000 s\n"
            "total           4           2           0           1    0.002 s\n");
}

TEST(Report, AFindingIsNamedByWhatItIs) {
  const std::string id = FindingId("violation", "WR-ATOM-002", "qp a rc\n", 3);
  EXPECT_EQ(id, FindingId("violation", "WR-ATOM-002", "qp a rc\n", 3));
  EXPECT_NE(id, FindingId("violation", "WR-ATOM-002", "qp a rc\n", 4));
  EXPECT_EQ(id.substr(0, 22), "violation-WR-ATOM-002-");
}

}  // namespace
}  // namespace qpexam
