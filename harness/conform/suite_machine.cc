// The suites on another machine (a guest), which may die of a test.
#include <nlohmann/json.hpp>

#include "harness/conform/suite_process.h"

namespace qpexam::conform {
namespace {

using remote::MachineEnd;
using remote::MachineJob;

constexpr int kTestSeconds = 120;  // the suites' own limit
// The suites end a test that hangs; what outlasts that by so much hangs in the kernel.
constexpr int kGrace = 45;

// The test of the last line that announces one, where its result does not follow; else empty.
std::string Unfinished(const std::string& results) {
  std::string begun;
  for (size_t at = 0; at < results.size();) {
    const size_t end = std::min(results.find('\n', at), results.size());
    const auto json = nlohmann::json::parse(results.substr(at, end - at), nullptr, false);
    if (json.is_object() && json.contains("begin")) begun = json["begin"].get<std::string>();
    if (json.is_object() && json.contains("test") && json["test"] == begun) begun.clear();
    at = end + 1;
  }
  return begun;
}

}  // namespace

std::string FilterWithout(const std::string& filter, const std::vector<TestResult>& done) {
  if (done.empty()) return filter;
  std::string out = filter.empty() ? "*" : filter;
  // What stands behind the first '-' is left out, patterns with ':' between.
  char before = out.find('-') == std::string::npos ? '-' : ':';
  for (const TestResult& test : done) {
    out += before + test.name;
    before = ':';
  }
  return out;
}

SuiteEnd RunSuitesOnMachine(const SuiteOptions& options, SuiteRun* run, std::string* why) {
  std::vector<std::pair<std::string, std::vector<std::string>>> tests;
  if (!ListTests(options.binary, &tests, why)) return SuiteEnd::kFailed;
  while (true) {
    const int seconds = options.test_seconds > 0 ? options.test_seconds : kTestSeconds;
    MachineJob job;
    job.tool = MachineJob::Tool::kSuites;
    job.arguments = {"--device=@device",
                     "--results=@results",
                     "--effort=" + options.effort,
                     "--test_seconds=" + std::to_string(seconds),
                     "--announce",
                     "--gtest_color=no",
                     "--gtest_brief=1"};
    if (options.unsafe || options.machine->expendable()) job.arguments.push_back("--unsafe");
    const std::string filter = FilterWithout(options.filter, run->tests);
    if (!filter.empty()) job.arguments.push_back("--gtest_filter=" + filter);
    if (options.strict) job.arguments.push_back("--strict");
    if (options.fail_fast) job.arguments.push_back("--gtest_fail_fast");
    job.stall = std::chrono::seconds(seconds + kGrace);
    job.stop = options.stop;
    std::string results;
    const size_t before = run->tests.size();
    size_t ended = 0, looked = 0;
    job.on_results = [&](std::string_view bytes) {
      results += bytes;
      for (size_t at; (at = results.find("{\"test\"", looked)) != std::string::npos;
           looked = at + 1)
        ended++;
      if (options.progress) options.progress(before + ended);
    };
    const MachineEnd end = options.machine->Run(job);
    ParseResults(results, run);
    if (end.kind == MachineEnd::kStopped) {
      *why = "interrupted";
      return SuiteEnd::kStopped;
    }
    *why = end.why + (end.log.empty() ? "" : "\n" + end.log);
    if (end.kind == MachineEnd::kNotUp) return SuiteEnd::kNoProvider;
    if (end.kind == MachineEnd::kEnded) {
      if (end.status == 0 || (end.status == 1 && !run->tests.empty())) return SuiteEnd::kRan;
      return end.status == 2 && run->tests.empty() ? SuiteEnd::kNoProvider : SuiteEnd::kFailed;
    }
    const std::string culprit = Unfinished(results);
    if (culprit.empty()) return SuiteEnd::kFailed;  // it died of nothing that can be left out
    TestResult test;
    test.name = culprit;
    const bool hang = end.why.find("hangs") != std::string::npos;
    test.outcome = hang ? "hang" : "crash";
    for (const auto& [name, clauses] : tests) {
      if (name != culprit) continue;
      // A hang breaches only what promises progress, which the clause's own test says.
      for (const std::string& id : clauses)
        test.clauses[id] = {hang ? "undecided" : "violation", {end.why}};
    }
    test.notes = {*why};
    run->tests.push_back(std::move(test));
  }
}

}  // namespace qpexam::conform
