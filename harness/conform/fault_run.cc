#include "harness/conform/fault_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "harness/conform/suite_process.h"
#include "reference/model/faults.h"

namespace qpexam::conform {
namespace {

// A fault may make a test wait for ever; what takes so long in virtual time never ends.
constexpr int kFaultTestSeconds = 10;

std::string Join(const std::vector<std::string>& tests) {
  std::string filter;
  for (const std::string& test : tests) filter += (filter.empty() ? "" : ":") + test;
  return filter;
}

// The first failing test of a run, in order.
std::optional<std::pair<std::string, std::string>> FirstFailure(const SuiteRun& run) {
  for (const TestResult& test : run.tests) {
    if (test.outcome == "pass" || test.outcome == "skip") continue;
    std::string clause;
    for (const auto& [id, result] : test.clauses) {
      if (result.verdict == "violation" || result.verdict == "warning" || clause.empty()) {
        clause = id;
        if (result.verdict == "violation") break;
      }
    }
    return std::make_pair(test.name, clause);
  }
  return std::nullopt;
}

// "ATOM" of "WR-ATOM-002".
std::string GroupOf(const std::string& clause) {
  const size_t from = clause.find('-'), to = clause.rfind('-');
  return from == to ? clause : clause.substr(from + 1, to - from - 1);
}

// Every clause that a test of the run found broken.
std::set<std::string> Broken(const SuiteRun& run) {
  std::set<std::string> broken;
  for (const TestResult& test : run.tests)
    for (const auto& [id, result] : test.clauses)
      if (result.verdict == "violation" || result.verdict == "warning") broken.insert(id);
  return broken;
}

// The clauses that some test names together with `clause`: one behaviour shows them both.
std::set<std::string> NamedWith(const SuiteRun& clean, const std::string& clause) {
  std::set<std::string> related;
  for (const TestResult& test : clean.tests)
    if (test.clauses.count(clause) != 0)
      for (const auto& [id, result] : test.clauses) related.insert(id);
  return related;
}

}  // namespace

bool RunFaults(const FaultOptions& options, std::vector<FaultResult>* results, std::string* why) {
  SuiteOptions clean;
  clean.binary = options.binary;
  clean.record_reaches = true;
  clean.stop = options.stop;
  SuiteRun run;
  if (RunSuites(clean, &run, why) != SuiteEnd::kRan) return false;
  if (const auto failure = FirstFailure(run)) {
    *why = fmt::format(
        "the reference itself fails {} ({}): faults can only be judged against a "
        "clean run",
        failure->first, failure->second);
    return false;
  }
  // Fault -> tests that reach it, those that name its clause first.
  std::map<std::string, std::pair<std::vector<std::string>, std::vector<std::string>>> tests;
  std::map<std::string, std::string> clause_of;
  for (const model::FaultInfo& fault : model::AllFaults())
    clause_of[std::string(fault.name)] = std::string(fault.clause);
  for (const TestResult& test : run.tests) {
    for (const std::string& fault : test.reaches) {
      auto& [first, then] = tests[fault];
      (test.clauses.count(clause_of[fault]) != 0 ? first : then).push_back(test.name);
    }
  }

  std::vector<const model::FaultInfo*> faults;
  for (const model::FaultInfo& fault : model::AllFaults()) {
    if (options.names.empty() ||
        std::find(options.names.begin(), options.names.end(), fault.name) != options.names.end())
      faults.push_back(&fault);
  }
  std::vector<std::optional<FaultResult>> found(faults.size());
  std::atomic<size_t> next{0}, done{0};
  std::mutex mutex;
  std::string failed;
  auto work = [&] {
    for (size_t i; (i = next++) < faults.size();) {
      if (options.stop != nullptr && options.stop->load()) return;
      FaultResult result;
      result.name = std::string(faults[i]->name);
      result.clause = std::string(faults[i]->clause);
      if (faults[i]->origin == model::FaultOrigin::kFreshReader) result.origin = "fresh-reader";
      const auto& [first, then] = tests[result.name];
      result.reached_by = first.size() + then.size();
      std::vector<std::vector<std::string>> parts = {first, then};
      if (options.breadth) {
        parts[0].insert(parts[0].end(), then.begin(), then.end());
        parts.pop_back();
      }
      for (const std::vector<std::string>& part : parts) {
        if (part.empty()) continue;
        SuiteOptions one;
        one.binary = options.binary;
        one.provider = "faulty:" + result.name;
        one.filter = Join(part);
        // A warning is a catch as well: many faults break a SHOULD.
        one.strict = true;
        one.fail_fast = !options.breadth;
        one.test_seconds = kFaultTestSeconds;
        one.stop = options.stop;
        SuiteRun faulty;
        std::string error;
        const SuiteEnd end = RunSuites(one, &faulty, &error);
        if (options.breadth) {
          const std::set<std::string> related = NamedWith(run, result.clause);
          for (const std::string& id : Broken(faulty)) {
            result.breaks.push_back(id);
            if (GroupOf(id) != GroupOf(result.clause) && related.count(id) == 0)
              result.unrelated.push_back(id);
          }
        }
        if (const auto failure = FirstFailure(faulty)) {
          result.caught_by = failure->first;
          result.caught_as = failure->second;
          break;
        }
        if (end != SuiteEnd::kRan) {
          std::lock_guard<std::mutex> lock(mutex);
          failed = fmt::format("faulty:{}: {}", result.name, error);
          return;
        }
      }
      found[i] = std::move(result);
      if (options.progress) {
        std::lock_guard<std::mutex> lock(mutex);
        options.progress(++done, faults.size());
      }
    }
  };
  // tests[] must not grow under the workers.
  for (const model::FaultInfo* fault : faults) tests[std::string(fault->name)];
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < std::max(1u, options.jobs); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  for (std::optional<FaultResult>& result : found)
    if (result) results->push_back(std::move(*result));
  if (!failed.empty()) {
    *why = failed;
    return false;
  }
  return true;
}

}  // namespace qpexam::conform
