#include "harness/command/engine.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <thread>

#include "harness/process/process.h"

namespace qpexam {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A Program of 200 calls, in bytes.
constexpr int kLongestInput = 16384;
constexpr int kInputSeconds = 10;
// What an engine may take to end after it was asked to.
constexpr std::chrono::seconds kPatience{20};

// bazel-*-bin/harness/qpexam -> bazel-*-bin/fuzzers/NAME
fs::path Beside(const std::string& name) {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "fuzzers" / name;
}

fs::path Target() { return Beside("reference_fuzz_test_bin"); }
// Of another build than the target: afl-fuzz loads it, without a sanitizer.
fs::path Mutator() {
  const char* named = std::getenv("QPEXAM_AFL_MUTATOR");
  return named != nullptr ? fs::path(named) : Beside("libqpexam_afl_mutator.so");
}

bool OnPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// One process of an engine, with its own process group: what it starts ends with it.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
          const std::string& log) {
    ProcessStart start;
    start.arguments = arguments;
    start.environment = environment;
    start.log = log;
    start.append = true;
    pid_ = StartProcess(start);
  }
  ~Process() {
    Signal(SIGKILL);
    if (Running()) waitpid(pid_, &status_, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool Running() {
    if (pid_ > 0 && !ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
    return pid_ > 0 && !ended_;
  }
  void Signal(int signal) const {
    if (pid_ > 0) kill(-pid_, signal);
  }
  // As a shell says it.
  int status() const { return pid_ < 0 ? 127 : ShellStatus(status_); }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

// A job of libFuzzer: one process that runs until its time is over. Its fork mode starts a process
// every few seconds, which reads the corpus anew and is merged into it by another one: where a
// target keeps what judge and seams find, as ours does, nothing but a crash needs that.
class LibFuzzerJob {
 public:
  LibFuzzerJob(const EngineOptions& options, fs::path root, unsigned number,
               std::vector<std::string> environment)
      : options_(options),
        root_(std::move(root)),
        number_(number),
        log_(root_ / (number == 0 ? "log" : "log" + std::to_string(number))),
        environment_(std::move(environment)) {
    std::error_code error;
    fs::remove(log_, error);
    Start();
  }

  // Starts it again behind an input that ended it. False once it is over.
  bool Running() {
    if (process_->Running()) return true;
    Read();
    const size_t artifacts = Artifacts();
    if (stopping_ || process_->status() == 0 || artifacts <= artifacts_) return false;
    // It came as far as nothing: another start would do the same.
    if (executed_ == 0 && !TakeOut()) return false;
    crashes_++;
    before_ += executed_;
    executed_ = 0;
    if (Left() <= 0 || (Share() > 0 && before_ >= Share())) {
      over_ = true;
      return false;
    }
    TakeOut();
    Start();
    return true;
  }
  void Stop() {
    stopping_ = true;
    process_->Signal(SIGINT);
  }
  int status() const { return over_ ? 0 : process_->status(); }
  const std::string& log() const { return log_; }

  void Add(EngineState* state) {
    Read();
    state->executed += before_ + executed_;
    state->crashes += crashes_;
    state->edges = std::max(state->edges, edges_);
    state->inputs = std::max(state->inputs, inputs_);
  }

 private:
  // Seconds of its time; without a bound, a year.
  double Left() const {
    if (options_.seconds <= 0) return 31536000;
    return options_.seconds - std::chrono::duration<double>(Clock::now() - began_).count();
  }
  uint64_t Share() const { return (options_.runs + options_.jobs - 1) / options_.jobs; }

  size_t Artifacts() const {
    std::error_code error;
    size_t n = 0;
    for (const fs::directory_entry& artifact : fs::directory_iterator(root_ / "artifacts", error))
      n += artifact.is_regular_file();
    return n;
  }

  void Start() {
    artifacts_ = Artifacts();
    const uint64_t seed = options_.seed + number_ + 1000003 * starts_++;
    std::vector<std::string> arguments = {
        Target().string(), fmt::format("-timeout={}", kInputSeconds), "-rss_limit_mb=4096",
        fmt::format("-max_len={}", kLongestInput),
        fmt::format("-seed={}", static_cast<uint32_t>(seed)),
        // Weights by rare features cost more than a Program does.
        "-entropic=0",
        // Objects are kept from one Program to the next, which looks like a leak to it.
        "-detect_leaks=0", fmt::format("-artifact_prefix={}/", (root_ / "artifacts").string())};
    if (options_.seconds > 0)
      arguments.push_back(
          fmt::format("-max_total_time={}", std::max<int64_t>(1, std::lround(Left()))));
    if (options_.runs > 0) arguments.push_back(fmt::format("-runs={}", Share() - before_));
    arguments.push_back(root_ / "corpus");
    arguments.push_back(root_ / "seeds");
    process_ = std::make_unique<Process>(arguments, environment_, log_);
  }

  // An input that ends the process when the corpus is read would end the next one, too.
  bool TakeOut() {
    std::error_code error;
    bool taken = false;
    for (const fs::directory_entry& artifact : fs::directory_iterator(root_ / "artifacts", error)) {
      const std::string ended = ReadText(artifact.path());
      for (const char* from : {"corpus", "seeds"}) {
        std::vector<fs::path> same;
        for (const fs::directory_entry& input : fs::directory_iterator(root_ / from, error)) {
          if (input.file_size(error) == ended.size() && ReadText(input.path()) == ended)
            same.push_back(input.path());
        }
        for (const fs::path& input : same) taken |= fs::remove(input, error);
      }
    }
    return taken;
  }

  // "#1024	NEW    cov: 512 ft: 900 corp: 77/12Kb exec/s: 80 rss: 60Mb ..."
  void Read() {
    std::ifstream in(log_);
    in.seekg(at_);
    for (std::string line; std::getline(in, line) && !in.eof();) {
      at_ = in.tellg();
      if (line.empty() || line[0] != '#') continue;
      std::istringstream words(line.substr(1));
      if (!(words >> executed_)) continue;
      for (std::string word; words >> word;) {
        if (word == "cov:") words >> edges_;
        if (word == "corp:") words >> inputs_;
      }
    }
  }

  const EngineOptions& options_;
  const fs::path root_;
  const unsigned number_;
  const std::string log_;
  const std::vector<std::string> environment_;
  const Clock::time_point began_ = Clock::now();
  std::unique_ptr<Process> process_;
  uint64_t starts_ = 0, before_ = 0, executed_ = 0, crashes_ = 0, edges_ = 0, inputs_ = 0;
  std::streamoff at_ = 0;
  size_t artifacts_ = 0;
  bool over_ = false, stopping_ = false;
};

void ReadAfl(const std::string& folder, EngineState* state) {
  uint64_t executed = 0, crashes = 0, inputs = 0, edges = 0;
  std::error_code error;
  for (const fs::directory_entry& instance : fs::directory_iterator(folder, error)) {
    std::ifstream in(instance.path() / "fuzzer_stats");
    std::string name, colon;
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      uint64_t value = 0;
      if (!(words >> name >> colon >> value)) continue;
      if (name == "execs_done") executed += value;
      if (name == "saved_crashes" || name == "saved_hangs") crashes += value;
      if (name == "corpus_count") inputs = std::max(inputs, value);
      if (name == "edges_found") edges = std::max(edges, value);
    }
  }
  state->executed = executed;
  state->crashes = crashes;
  state->inputs = inputs;
  state->edges = edges;
}

void ReadCoverage(const EngineFolder& folder, EngineState* state) {
  std::ifstream in(folder.CoverageFile(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  state->provider_points = bytes.size();
  state->provider_reached =
      bytes.size() - static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\0'));
}

}  // namespace

std::string EngineMissing(const std::string& engine) {
  if (access(Target().c_str(), X_OK) != 0 ||
      (engine == "afl" && access(Mutator().c_str(), R_OK) != 0)) {
    return fmt::format(
        "the engine {0} needs a build of its own, which is not beside this program; start it from "
        "the tree: ./qpexam fuzz --engine={0}",
        engine);
  }
  if (engine == "afl" && !OnPath("afl-fuzz"))
    return "there is no afl-fuzz on this machine; on Debian: apt-get install afl++";
  return "";
}

std::string RunEngine(const EngineOptions& options, const EngineFolder& folder,
                      const std::function<bool(const EngineState&)>& stop, EngineState* end) {
  const fs::path root = folder.path();
  std::error_code error;
  for (const char* name : {"corpus", "artifacts"}) fs::create_directories(root / name, error);
  const std::string log = root / "log";
  fs::remove(log, error);
  std::vector<std::string> environment = {
      fmt::format("{}={}", kEngineFolderVariable, folder.path()),
      fmt::format("{}={}", kEngineProviderVariable, options.provider)};
  const auto seconds = static_cast<uint64_t>(options.seconds + 0.999);
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<std::unique_ptr<LibFuzzerJob>> fuzzers;
  if (options.engine == "libfuzzer") {
    // They share what they find through the corpus folder.
    for (unsigned job = 0; job < options.jobs; job++)
      fuzzers.push_back(std::make_unique<LibFuzzerJob>(options, root, job, environment));
  } else {
    // A job of AFL++ is a process; they share what they find through the output folder.
    for (const std::string& variable :
         {"AFL_CUSTOM_MUTATOR_LIBRARY=" + Mutator().string(), std::string("AFL_NO_UI=1"),
          std::string("AFL_NO_AFFINITY=1"), std::string("AFL_SKIP_CPUFREQ=1"),
          std::string("AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1"), std::string("AFL_AUTORESUME=1"),
          std::string("AFL_IGNORE_SEED_PROBLEMS=1")})
      environment.push_back(variable);
    for (unsigned job = 0; job < options.jobs; job++) {
      std::vector<std::string> arguments = {"afl-fuzz",
                                            job == 0 ? "-M" : "-S",
                                            fmt::format("job{}", job),
                                            "-i",
                                            root / "seeds",
                                            "-o",
                                            root / "afl",
                                            "-m",
                                            "none",
                                            "-t",
                                            fmt::format("{}", 1000 * kInputSeconds),
                                            "-s",
                                            fmt::format("{}", options.seed + job)};
      if (seconds > 0) {
        arguments.push_back("-V");
        arguments.push_back(fmt::format("{}", seconds));
      }
      if (options.runs > 0) {
        arguments.push_back("-E");
        arguments.push_back(fmt::format("{}", (options.runs + options.jobs - 1) / options.jobs));
      }
      arguments.push_back("--");
      arguments.push_back(Target());
      processes.push_back(std::make_unique<Process>(arguments, environment,
                                                    job == 0 ? log : log + std::to_string(job)));
    }
  }
  const auto running = [&] {
    bool any = false;
    for (const auto& process : processes) any |= process->Running();
    for (const auto& fuzzer : fuzzers) any |= fuzzer->Running();
    return any;
  };
  const auto read = [&] {
    *end = EngineState();
    if (options.engine == "afl") ReadAfl(root / "afl", end);
    for (const auto& fuzzer : fuzzers) fuzzer->Add(end);
    ReadCoverage(folder, end);
  };
  bool stopped = false;
  for (Clock::time_point told{}; running();) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    read();
    if (!stopped && stop(*end)) {
      stopped = true;
      told = Clock::now();
      for (const auto& process : processes) process->Signal(SIGINT);
      for (const auto& fuzzer : fuzzers) fuzzer->Stop();
    }
    if (stopped && Clock::now() - told > kPatience) break;
  }
  read();
  if (stopped) return "";
  const auto last_words = [](int status, const std::string& from) {
    return fmt::format("the engine ended with status {}; its last words ({}):\n{}", status, from,
                       LastLines(ReadText(from), 12));
  };
  for (const auto& process : processes)
    if (process->status() != 0) return last_words(process->status(), log);
  for (const auto& fuzzer : fuzzers)
    if (fuzzer->status() != 0) return last_words(fuzzer->status(), fuzzer->log());
  return "";
}

std::vector<std::string> EngineArtifacts(const EngineOptions& options, const EngineFolder& folder) {
  std::vector<std::string> files;
  std::error_code error;
  const auto add = [&](const fs::path& from, const std::vector<std::string>& prefixes) {
    for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
      const std::string name = entry.path().filename();
      if (std::any_of(prefixes.begin(), prefixes.end(),
                      [&](const std::string& p) { return name.rfind(p, 0) == 0; }))
        files.push_back(entry.path());
    }
  };
  const fs::path root = folder.path();
  if (options.engine == "libfuzzer") {
    add(root / "artifacts", {"crash-", "timeout-", "oom-", "leak-"});
  } else {
    for (const fs::directory_entry& instance : fs::directory_iterator(root / "afl", error)) {
      add(instance.path() / "crashes", {"id"});
      add(instance.path() / "hangs", {"id"});
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace qpexam
