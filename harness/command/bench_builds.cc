// Suites, sanitizers and fuzz targets for `qpexam bench`.
#include "harness/command/bench_builds.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "conformance/catalogue/catalogue.h"
#include "harness/command/results.h"
#include "harness/conform/suite_process.h"
#include "harness/process/process.h"
#include "harness/program/bytes.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"

namespace qpexam::bench {
namespace {

namespace fs = std::filesystem;

// A folder that goes with the object.
class Folder {
 public:
  Folder() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "qpexam-bench.XXXXXX").string();
    if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Folder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  bool made() const { return !path_.empty(); }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What a program wrote; empty where it wrote nothing.
std::string Written(const std::string& path) {
  std::string text, why;
  return ReadFile(path, &text, &why) ? text : std::string();
}

// The ShellStatus() of a program that has ended.
int Finish(ProcessStart start) {
  const pid_t child = StartProcess(start);
  return child < 0 ? 127 : WaitForProcess(child);
}

std::string Failed(const std::string& what, int status, const std::string& log) {
  return fmt::format("{} ended with status {}:\n{}", what, status, LastLines(Written(log), 10));
}

// What libFuzzer took for the `runs` runs of a file, in milliseconds: "Executed FILE in N ms". The
// first such line; negative where there is none.
double ExecutedIn(const std::string& log) {
  const std::string words = " ms";
  const size_t line = log.find("Executed ");
  if (line == std::string::npos) return -1;
  const std::string text = log.substr(line, log.find('\n', line) - line);
  const size_t in = text.rfind(" in ");
  if (in == std::string::npos) return -1;
  return std::strtod(text.c_str() + in + 4, nullptr);
}

}  // namespace

bool FindOtherBuilds(OtherBuilds* builds, std::string* why) {
  const char* sanitized = std::getenv("QPEXAM_BENCH_SANITIZED");
  const char* fuzzers = std::getenv("QPEXAM_BENCH_FUZZERS");
  builds->sanitized = sanitized != nullptr ? sanitized : "";
  builds->fuzzers = fuzzers != nullptr ? fuzzers : "";
  if (access(builds->sanitized.c_str(), X_OK) == 0 &&
      access((builds->fuzzers + "/empty_fuzz_test_bin").c_str(), X_OK) == 0)
    return true;
  *why =
      "--sanitizers compares builds that ./qpexam makes: run it as ./qpexam bench --sanitizers, in "
      "the tree";
  return false;
}

bool SuitesByGroup(Figures* figures) {
  std::string why;
  conform::SuiteOptions options;
  options.binary = conform::FindSuites(&why);
  if (options.binary.empty()) return true;
  options.blocks = conform::kBlocks;
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  conform::SuiteRun run;
  const auto start = std::chrono::steady_clock::now();
  if (conform::RunSuites(options, &run, &why) != conform::SuiteEnd::kRan) {
    Say("the suites on the reference: " + why);
    return false;
  }
  const double whole =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  struct Row {
    size_t tests = 0;
    double seconds = 0;
  };
  std::map<std::string, Row> rows;
  bool good = true;
  for (const conform::TestResult& test : run.tests) {
    good = good && (test.outcome == "pass" || test.outcome == "skip");
    const catalogue::Clause* clause =
        test.clauses.empty() ? nullptr : catalogue::Find(test.clauses.begin()->first);
    Row& row = rows[clause == nullptr ? "other" : std::string(clause->group)];
    row.tests++;
    row.seconds += static_cast<double>(test.microseconds) / 1e6;
  }
  std::vector<std::pair<std::string, Row>> slowest(rows.begin(), rows.end());
  std::stable_sort(slowest.begin(), slowest.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  Print(fmt::format("\nSuites on the reference, effort normal: {:.1f} s, {} at a time\n", whole,
                    options.jobs));
  for (const auto& [group, row] : slowest) {
    Print(fmt::format("{:<8} {:>5} tests {:>8.2f} s\n", group, row.tests, row.seconds));
    (*figures)["suites." + group + ".seconds"] = row.seconds;
  }
  (*figures)["suites.seconds"] = whole;
  return good;
}

bool CompareBuilds(const OtherBuilds& builds, const std::vector<std::string>& providers,
                   double seconds, Figures* figures, std::string* why) {
  const Folder folder;
  if (!folder.made()) {
    *why = "no temporary folder could be made; TMPDIR names another place";
    return false;
  }
  ProcessStart start;
  start.arguments = {builds.sanitized, "bench", fmt::format("--seconds={}", seconds),
                     "--json=" + folder.File("bench.json"),
                     fmt::format("--provider={}", fmt::join(providers, ","))};
  start.log = folder.File("log");
  // 1: a provider that crashes here has no figure there either.
  if (const int status = Finish(start); status > 1) {
    *why = Failed("the bench of the build with sanitizers", status, start.log);
    return false;
  }
  const nlohmann::ordered_json report =
      nlohmann::ordered_json::parse(Written(folder.File("bench.json")), nullptr, false);
  if (!report.is_object() || !report.contains("timing") || !report["timing"].is_object()) {
    *why = "the bench of the build with sanitizers wrote no figures";
    return false;
  }
  for (const auto& [key, value] : report["timing"].items())
    if (value.is_number()) (*figures)["sanitized." + key] = value.get<double>();

  Print("\n-O2 beside AddressSanitizer and UndefinedBehaviorSanitizer\n");
  Print(fmt::format("{:<24} {:>26} {:>26} {:>30}\n", "", "built, executed, polled", "a life",
                    "programs of 20 calls a second"));
  const auto pair = [&](const std::string& key, const char* unit) {
    const auto plain = figures->find(key), sanitized = figures->find("sanitized." + key);
    if (plain == figures->end() || sanitized == figures->end()) return std::string("-");
    const double ratio =
        std::max(plain->second, sanitized->second) / std::min(plain->second, sanitized->second);
    return fmt::format("{:.0f} {:.0f} {} ({:.1f}x)", plain->second, sanitized->second, unit, ratio);
  };
  for (const std::string& name : providers)
    Print(fmt::format("{:<24} {:>26} {:>26} {:>30}\n", name, pair(name + ".execute_ns", "ns"),
                      pair(name + ".life_cycle_us", "us"),
                      pair(name + ".programs_per_second", "/s")));
  return true;
}

bool FuzzTargets(const OtherBuilds& builds, Figures* figures, std::string* why) {
  const Folder folder;
  if (!folder.made()) {
    *why = "no temporary folder could be made; TMPDIR names another place";
    return false;
  }
  // As an engine hands it over. The text form would measure the parser, and does where that is the
  // target.
  const Program twenty = ParseProgram(TwentyCalls(), "bench").program;
  const std::vector<uint8_t> bytes = BytesFromProgram(twenty);
  std::ofstream(folder.File("program"), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  std::ofstream(folder.File("program.qpx")) << PrintProgram(twenty);
  struct Target {
    const char* name;
    int runs;  // some seconds' worth
    const char* input = "program";
  };
  const Target targets[] = {{"empty_fuzz_test", 200000},
                            {"reference_fuzz_test", 10000},
                            {"hosted_rxe_fuzz_test", 10000},
                            {"hosted_mlx5_fuzz_test", 10000},
                            {"hosted_rxe_equality_fuzz_test", 5000},
                            {"hosted_rxe_polling_fuzz_test", 5000},
                            {"text_fuzz_test", 10000, "program.qpx"}};
  Print("\nFuzz targets (libFuzzer, both sanitizers): the program of 20 calls, over and over\n");
  double empty = 0;
  for (const Target& target : targets) {
    ProcessStart start;
    start.arguments = {fmt::format("{}/{}_bin", builds.fuzzers, target.name),
                       fmt::format("-runs={}", target.runs), folder.File(target.input)};
    start.log = folder.File("log");
    const int status = Finish(start);
    const double milliseconds = status == 0 ? ExecutedIn(Written(start.log)) : -1;
    if (milliseconds < 0) {
      *why = Failed(target.name, status, start.log);
      return false;
    }
    // libFuzzer counts whole milliseconds.
    const double rate = target.runs / std::max(milliseconds, 1.0) * 1000;
    if (empty == 0) empty = rate;
    Print(
        fmt::format("{:<30} {:>9.0f} a second{}\n", target.name, rate,
                    rate == empty ? "" : fmt::format(", the empty target {:.0f}x", empty / rate)));
    (*figures)[fmt::format("fuzz.{}.per_second", target.name)] = rate;
  }
  return true;
}

}  // namespace qpexam::bench
