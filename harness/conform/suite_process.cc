#include "harness/conform/suite_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/process/process.h"

namespace qpexam::conform {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A file of its own for each run, gone with it.
class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/qpexam-XXXXXX";
    const int fd = mkostemp(path_.data(), O_CLOEXEC);
    ok_ = fd >= 0;
    if (ok_) close(fd);
  }
  ~TemporaryFile() {
    if (ok_) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool ok() const { return ok_; }
  const std::string& path() const { return path_; }
  std::string Read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
  bool ok_ = false;
};

// Starts `arguments` with both outputs in `log`; -1 with errno.
pid_t Start(const std::vector<std::string>& arguments, const std::string& log) {
  ProcessStart start;
  start.arguments = arguments;
  start.log = log;
  // Bazel's sharding and its report belong to the test that we may be running in.
  start.without = {"TEST_TOTAL_SHARDS", "TEST_SHARD_INDEX", "TEST_SHARD_STATUS_FILE",
                   "XML_OUTPUT_FILE",   "GTEST_OUTPUT",     "TESTBRIDGE_TEST_ONLY"};
  return StartProcess(start);
}

size_t CountLines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return static_cast<size_t>(
      std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}

}  // namespace

void ParseResults(const std::string& text, SuiteRun* run) {
  std::istringstream lines(text);
  std::string line;
  std::vector<std::pair<size_t, TestResult>> found;  // by their place among all tests
  while (std::getline(lines, line)) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    if (json.contains("provider")) {
      run->provider = json["provider"].get<std::string>();
      continue;
    }
    if (!json.contains("test")) continue;
    TestResult test;
    test.name = json["test"].get<std::string>();
    test.outcome = json.value("outcome", "fail");
    if (json.contains("clauses")) {
      for (const auto& [id, result] : json["clauses"].items()) {
        test.clauses[id] = {result.value("verdict", "undecided"),
                            result.value("notes", std::vector<std::string>())};
      }
    }
    test.notes = json.value("notes", std::vector<std::string>());
    test.reaches = json.value("reaches", std::vector<std::string>());
    test.microseconds = json.value("us", uint64_t{0});
    found.emplace_back(json.value("index", size_t{0}), std::move(test));
  }
  // Several processes may have written them.
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [index, test] : found) run->tests.push_back(std::move(test));
}

SuiteEnd RunSuites(const SuiteOptions& options, SuiteRun* run, std::string* why) {
  if (options.machine != nullptr) return RunSuitesOnMachine(options, run, why);
  TemporaryFile results, log;
  if (!results.ok() || !log.ok()) {
    *why = fmt::format(
        "no temporary file can be made: {}; set TMPDIR to a folder that can be "
        "written",
        std::strerror(errno));
    return SuiteEnd::kFailed;
  }
  std::vector<std::string> arguments = {options.binary, "--device=" + options.provider,
                                        "--results=" + results.path(), "--effort=" + options.effort,
                                        "--gtest_color=no"};
  if (!options.filter.empty()) arguments.push_back("--gtest_filter=" + options.filter);
  if (options.strict) arguments.push_back("--strict");
  if (options.unsafe) arguments.push_back("--unsafe");
  if (options.fail_fast) arguments.push_back("--gtest_fail_fast");
  if (options.record_reaches) arguments.push_back("--record_reaches");
  if (options.test_seconds > 0)
    arguments.push_back("--test_seconds=" + std::to_string(options.test_seconds));
  if (options.blocks > 1) {
    arguments.push_back("--blocks=" + std::to_string(options.blocks));
    arguments.push_back("--jobs=" + std::to_string(options.jobs));
  }
  const pid_t child = Start(arguments, log.path());
  if (child < 0) {
    *why = fmt::format("the suites cannot be started: {}", std::strerror(errno));
    return SuiteEnd::kFailed;
  }
  int status = 0;
  bool stopped = false;
  unsigned turns = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    usleep(5000);
    if (options.progress && ++turns % 8 == 0) {
      const size_t lines = CountLines(results.path());
      options.progress(lines > 0 ? lines - 1 : 0);
    }
    if (!stopped && options.stop != nullptr && options.stop->load()) {
      stopped = true;
      kill(-child, SIGTERM);
    }
  }
  ParseResults(results.Read(), run);
  if (stopped) {
    *why = "interrupted";
    return SuiteEnd::kStopped;
  }
  const int code = ShellStatus(status);
  if (code == 0 || (code == 1 && !run->tests.empty())) return SuiteEnd::kRan;
  if (code == 3) {  // conformance/fixture/supervisor.h
    *why = fmt::format(
        "results could not be written to {}, so some are missing: is the disk full? Set TMPDIR to "
        "a "
        "folder that has room",
        fs::path(results.path()).parent_path().string());
    return SuiteEnd::kFailed;
  }
  *why = LastLines(log.Read(), 8);
  if (why->empty()) *why = fmt::format("the suites ended with status {}", code);
  // Status 2 before any test: the device could not be opened, or an argument was wrong.
  return code == 2 && run->tests.empty() ? SuiteEnd::kNoProvider : SuiteEnd::kFailed;
}

bool ListTests(const std::string& binary,
               std::vector<std::pair<std::string, std::vector<std::string>>>* tests,
               std::string* why) {
  TemporaryFile log;
  if (!log.ok()) {
    *why = "no temporary file can be made";
    return false;
  }
  const pid_t child = Start({binary, "--list_clauses"}, log.path());
  if (child < 0 || WaitForProcess(child) != 0) {
    *why = "the suites do not list their tests: " + log.Read();
    return false;
  }
  std::istringstream lines(log.Read());
  std::string line;
  while (std::getline(lines, line)) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    const std::string name = line.substr(0, tab);
    if (tests->empty() || tests->back().first != name) tests->push_back({name, {}});
    tests->back().second.push_back(line.substr(tab + 1));
  }
  return true;
}

std::string FindSuites(std::string* why) {
  std::vector<fs::path> places;
  if (const char* named = std::getenv("QPEXAM_SUITES"); named != nullptr) {
    places.emplace_back(named);
  } else {
    std::error_code ignored;
    const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
    places.push_back(self.string() + ".runfiles/qpexam/conformance/suites_on_provider");
    places.push_back(self.parent_path().parent_path() / "conformance/suites_on_provider");
    places.push_back(self.parent_path() / "qpexam-suites");
    places.push_back(self.parent_path().parent_path() / "lib/qpexam/qpexam-suites");
  }
  std::string tried;
  for (const fs::path& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place.string();
    tried += (tried.empty() ? "" : ", ") + place.string();
  }
  *why = fmt::format(
      "the conformance suites were not found (looked at {}); ./qpexam conform builds them, or set "
      "QPEXAM_SUITES",
      tried);
  return "";
}

}  // namespace qpexam::conform
