#include "harness/conform/fault_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "harness/conform/suite_process.h"
#include "reference/model/faults.h"

namespace qpexam::conform {
namespace {

// A fault may make a test wait for ever; what takes so long in virtual time never ends.
constexpr int kFaultTestSeconds = 10;
// Where many tests hang, the rest would tell nothing more. Longer than the two seconds after which
// a test that watches a child says which clause a hang breaks.
constexpr int kBreadthTestSeconds = 6;
// What shows whether a fault breaks its own clause is given time: threads that wait for each other
// take some seconds on a machine under load.
constexpr int kOwnTestSeconds = 25;
constexpr std::chrono::seconds kBreadthSeconds(120);

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

// What of that which broke under a fault follows from its clause and what does not.
void Judge(const FaultOptions& options, const SuiteRun& clean, const std::set<std::string>& broken,
           FaultResult* result) {
  std::set<std::string> related = NamedWith(clean, result->clause);
  for (const Related& line : options.related) {
    if (line.fault != result->name) continue;
    for (const std::string& id : line.clauses) {
      related.insert(id);
      if (broken.count(id) == 0 && !result->cut) result->unused.push_back(id);
    }
  }
  result->breaks_own = broken.count(result->clause) != 0;
  for (const std::string& id : broken) {
    result->breaks.push_back(id);
    if (GroupOf(id) != GroupOf(result->clause) && related.count(id) == 0)
      result->unrelated.push_back(id);
  }
}

}  // namespace

bool ParseRelated(std::string_view text, const std::string& file, std::vector<Related>* out,
                  std::string* why) {
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty() || line[0] == '#') continue;
    const size_t first = line.find('\t');
    const size_t second = first == line.npos ? line.npos : line.find('\t', first + 1);
    if (second == line.npos || first == 0 || second == first + 1 || second + 1 == line.size() ||
        line.find('\t', second + 1) != line.npos) {
      *why = fmt::format("{}:{}: not three columns: fault, clauses, reason", file, number);
      return false;
    }
    Related related{std::string(line.substr(0, first)), {}, std::string(line.substr(second + 1))};
    const auto known = [&](const model::FaultInfo& fault) { return fault.name == related.fault; };
    if (std::none_of(model::AllFaults().begin(), model::AllFaults().end(), known)) {
      *why = fmt::format("{}:{}: there is no fault {}; faults.inc names them", file, number,
                         related.fault);
      return false;
    }
    std::istringstream ids(std::string(line.substr(first + 1, second - first - 1)));
    for (std::string id; ids >> id;) {
      if (id.rfind("WR-", 0) != 0) {
        *why = fmt::format("{}:{}: {} is no clause; name each that follows, as WR-ATOM-002", file,
                           number, id);
        return false;
      }
      related.clauses.push_back(id);
    }
    out->push_back(std::move(related));
  }
  return true;
}

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
  for (const TestResult& test : run.tests) {
    const std::set<std::string> reached(test.reaches.begin(), test.reaches.end());
    for (const model::FaultInfo& fault : model::AllFaults()) {
      const std::string name(fault.name);
      auto& [first, then] = tests[name];
      // What a test does in a child is not recorded, so its clause's own tests always run.
      if (test.clauses.count(std::string(fault.clause)) != 0) {
        first.push_back(test.name);
      } else if (reached.count(name) != 0) {
        then.push_back(test.name);
      }
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
      std::set<std::string> broken;
      const auto breadth_end = std::chrono::steady_clock::now() + kBreadthSeconds;
      for (const auto* part : {&first, &then}) {
        if (part->empty()) continue;
        SuiteOptions one;
        one.binary = options.binary;
        one.provider = "faulty:" + result.name;
        one.filter = Join(*part);
        // A warning is a catch as well: many faults break a SHOULD.
        one.strict = true;
        one.fail_fast = !options.breadth;
        one.test_seconds = !options.breadth ? kFaultTestSeconds
                           : part == &first ? kOwnTestSeconds
                                            : kBreadthTestSeconds;
        one.stop = options.stop;
        std::atomic<bool> enough{false};
        if (options.breadth) {
          one.stop = &enough;
          one.progress = [&enough, &result, &options, breadth_end](size_t) {
            result.cut = std::chrono::steady_clock::now() > breadth_end;
            enough = result.cut || (options.stop != nullptr && options.stop->load());
          };
        }
        SuiteRun faulty;
        std::string error;
        const SuiteEnd end = RunSuites(one, &faulty, &error);
        for (const std::string& id : Broken(faulty)) broken.insert(id);
        if (const auto failure = FirstFailure(faulty); failure && result.caught_by.empty()) {
          result.caught_by = failure->first;
          result.caught_as = failure->second;
        }
        if (options.breadth ? result.cut : !result.caught_by.empty()) break;
        if (options.stop != nullptr && options.stop->load()) return;
        if (end != SuiteEnd::kRan && !result.cut) {
          std::lock_guard<std::mutex> lock(mutex);
          failed = fmt::format("faulty:{}: {}", result.name, error);
          return;
        }
      }
      if (options.breadth) Judge(options, run, broken, &result);
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
