// `qpexam fuzz`: Programs by seed on a provider until a time is over; each new finding is made
// short and kept as a folder. Engines other than the built-in one drive a program of their own
// (//fuzzers), which leaves what it found in a folder for this one to explain.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "harness/command/commands.h"
#include "harness/command/engine.h"
#include "harness/command/results.h"
#include "harness/conform/expectations.h"
#include "harness/fuzz/engine_folder.h"
#include "harness/fuzz/finding_key.h"
#include "harness/fuzz/source.h"
#include "harness/program/bytes.h"
#include "harness/program/minimize.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"

namespace qpexam {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A child is replaced after so many Programs: what the provider leaks goes with it.
constexpr uint64_t kChunk = 20000;
constexpr int kMinimizeTries = 2000;
constexpr std::chrono::milliseconds kStall{5000};
// Each try that still hangs costs the whole bound.
constexpr int kMinimizeHangTries = 100;
constexpr std::chrono::milliseconds kMinimizeHangStall{300};
constexpr uint32_t kUndefinedPerMille = 40;
// Of the inputs that ended an engine's process, so many are looked at: mostly they are one finding.
constexpr size_t kArtifacts = 200;

// What the parent is told of.
bool Tell(const RunResult& result) { return !result.below.empty() || result.verdict.violations; }

bool WriteFile(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out) return true;
  Say(fmt::format("{}: cannot be written; free some room or choose another --output",
                  path.string()));
  return false;
}

std::string Slug(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '-';
  return text;
}

class Campaign {
 public:
  Campaign(const FuzzArguments& arguments, const ProviderInfo& provider)
      : arguments_(arguments), provider_(provider), folder_(arguments.output) {
    watch_.keep_objects = true;
    watch_.lints_expected = Reference();
    watch_.cut_parallel = true;
    watch_.stall = kStall;
    watch_.stop = &stop_;
    watch_.send = Tell;
    // The file that `check` compares with. Its entries name Programs, and these are new ones: here
    // an entry stands for its kind and clause on this provider and version.
    conform::Expectations known;
    if (arguments.no_known) return;
    readable_ = LoadExpectations("", "corpus/expectations.tsv", &known);
    for (conform::Expectation& entry : known.entries) {
      if (conform::BearingOn(entry, provider.name, provider.version) != conform::Bearing::kNone)
        recorded_.push_back(std::move(entry));
    }
  }

  ExitStatus Run(std::vector<Program> seeds) {
    SourceOptions options;
    options.seed = arguments_.seed;
    options.undefined_per_mille = Reference() ? kUndefinedPerMille : 0;
    source_ = std::make_unique<ProgramSource>(std::move(seeds), options);
    if (!Prepare()) return kUsage;
    const uint64_t first = ReadProgress();
    next_chunk_ = first;
    if (first > 0)
      Say(fmt::format("continuing seed {} at program {}; another --seed or --output begins anew",
                      arguments_.seed, first));
    last_ = arguments_.runs ? first + arguments_.runs : ~uint64_t{0};
    const Clock::time_point start = Clock::now();
    std::vector<std::thread> jobs;
    const unsigned at_a_time = at_once_ ? 1 : arguments_.jobs;
    begun_ = std::vector<std::atomic<uint64_t>>(at_a_time);
    running_ = static_cast<int>(at_a_time);
    for (unsigned job = 0; job < at_a_time; job++) jobs.emplace_back([this, job] { Work(job); });
    Tick(start);
    for (std::thread& job : jobs) job.join();
    KeepLate();
    const double seconds = Seconds(start);
    if (!why_.empty()) {
      Say(fmt::format("{} cannot be opened: {}", provider_.name, why_));
      return kNoProvider;
    }
    WriteProgress();
    Summary(seconds);
    if (StopOnInterrupt().load()) return kInterrupted;
    return Status();
  }

  // What another engine found: each file is a Program, in bytes or as text.
  ExitStatus Import(const std::vector<std::string>& files) {
    if (!Prepare()) return kUsage;
    const Clock::time_point start = Clock::now();
    for (const std::string& file : files) {
      if (!TakeFile(file)) Say(fmt::format("{}: does not recur in a process of its own", file));
    }
    Summary(Seconds(start));
    return Status();
  }

  // A run of another engine, and then what it found.
  ExitStatus Engine(const std::vector<NamedProgram>& seeds) {
    const std::string missing = EngineMissing(arguments_.engine);
    if (!missing.empty()) {
      Say(missing);
      return kSetupIncomplete;
    }
    if (!Prepare()) return kUsage;
    const fs::path root =
        fs::absolute(folder_) / fmt::format(".{}-{}", arguments_.engine, Slug(provider_.name));
    const EngineFolder folder(root);
    std::error_code error;
    fs::create_directories(root / "seeds", error);
    fs::create_directories(folder.FoundFolder(), error);
    fs::remove(folder.CountsFile(), error);
    std::set<std::string> names;
    for (const conform::Expectation& entry : recorded_)
      names.insert(EngineFolder::KnownName({entry.verdict, entry.clause, "", ""}));
    std::string known;
    for (const std::string& name : names) known += name + "\n";
    if (!WriteFile(folder.KnownFile(), known)) return kUsage;
    for (const NamedProgram& seed : seeds) {
      const std::string name = fs::path(seed.name).filename();
      if (!WriteFile(root / "seeds" / name, PrintProgram(seed.program, Notes::kDrop)))
        return kUsage;
    }
    EngineOptions options;
    options.engine = arguments_.engine;
    options.provider = provider_.name;
    options.seconds = arguments_.seconds;
    options.runs = arguments_.runs;
    options.jobs = arguments_.jobs;
    options.seed = arguments_.seed;
    const Clock::time_point start = Clock::now();
    const bool terminal = isatty(2) == 1;
    double shown = 0;
    uint64_t before = 0;
    EngineState end;
    const std::string why = RunEngine(
        options, folder,
        [&](const EngineState& state) {
          const double now = Seconds(start);
          if (now - shown >= (terminal ? 1 : 10)) {
            std::fprintf(
                stderr, "%s%s%s", terminal ? "\r" : "",
                StateLine(state, now, static_cast<double>(state.executed - before) / (now - shown))
                    .c_str(),
                terminal ? " " : "\n");
            std::fflush(stderr);
            shown = now;
            before = state.executed;
          }
          if (StopOnInterrupt().load()) return true;
          return arguments_.until_finding &&
                 (state.crashes > 0 || !fs::is_empty(folder.FoundFolder()));
        },
        &end);
    if (terminal) std::fputs("\r\033[K", stderr);
    const double seconds = Seconds(start);
    if (!why.empty()) Say(why);
    // Explained even after an interrupt: an engine's finding is nothing a person can read.
    executed_ = end.executed;
    known_ = folder.ReadCounts();
    for (const auto& [name, count] : known_) known_total_ += count;
    std::vector<std::string> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.FoundFolder(), error))
      if (entry.path().extension() == ".qpx") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    const std::vector<std::string> artifacts = EngineArtifacts(options, folder);
    files.insert(
        files.end(), artifacts.begin(),
        artifacts.begin() + static_cast<std::ptrdiff_t>(std::min(artifacts.size(), kArtifacts)));
    if (artifacts.size() > kArtifacts)
      Say(fmt::format("{} inputs ended a process; the first {} are looked at, the rest stay in {}",
                      artifacts.size(), kArtifacts, root.string()));
    for (const std::string& file : files) {
      if (TakeFile(file)) {
        fs::remove(file, error);
      } else {
        Say(fmt::format("{}: does not recur in a process of its own", file));
      }
    }
    Summary(seconds);
    Print("  " + StateLine(end, seconds, static_cast<double>(end.executed) / seconds) + "\n");
    if (StopOnInterrupt().load()) return kInterrupted;
    return why.empty() ? Status() : kOurFailure;
  }

 private:
  struct Late {
    FindingKey key;
    Program program;
    RunResult seen;
  };

  struct Found {
    uint64_t count = 0;
    bool stable = true;
    size_t calls = 0;
  };

  ExitStatus Status() const { return ours_ ? kOurFailure : found_.empty() ? kFine : kFindings; }

  static std::string StateLine(const EngineState& state, double seconds, double rate) {
    std::string line = fmt::format("{:.0f} s, {} programs, {:.0f}/s, {} inputs kept, {} edges",
                                   seconds, state.executed, rate, state.inputs, state.edges);
    if (state.provider_points > 0)
      line += fmt::format(", {} of {} points of the provider's code", state.provider_reached,
                          state.provider_points);
    return line + fmt::format(", {} crashes", state.crashes);
  }

  // One input of an engine. False where it shows nothing by itself.
  bool TakeFile(const std::string& file) {
    std::string bytes, why;
    if (!ReadFile(file, &bytes, &why)) {
      Say(fmt::format("{}: {}", file, why));
      return true;
    }
    ParseResult parsed = ParseProgram(bytes, file);
    const Program program =
        parsed.ok ? std::move(parsed.program)
                  : ProgramFromBytes(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    const RunResult result = Alone(program);
    const bool recurs = !KeysOf(program, result).empty();
    Take(program, result);
    // A Program that the target itself kept was a finding there.
    const std::optional<FindingKey> key = KeyInNote(bytes);
    if (key && !Shows(program, result, *key)) {
      std::lock_guard<std::mutex> lock(take_);
      Found& found = found_[*key];
      if (found.count++ == 0) Keep(program, result, *key, &found);
      return true;
    }
    return recurs;
  }

  bool Reference() const { return provider_.kind == ProviderKind::kReference; }

  static double Seconds(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  bool Prepare() {
    if (!readable_) return false;
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!error) return true;
    Say(fmt::format("{}: cannot be made: {}; choose another --output", folder_.string(),
                    error.message()));
    return false;
  }

  // ---------------------------------------------------------------------------------------------
  // Where a run of this provider and seed has got to.

  fs::path ProgressFile() const {
    return folder_ / fmt::format(".progress-{}-{}", Slug(provider_.name), arguments_.seed);
  }

  uint64_t ReadProgress() const {
    std::ifstream in(ProgressFile());
    uint64_t next = 0;
    return in >> next ? next : 0;
  }

  void WriteProgress() {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t next = unfinished_.empty() ? std::min(next_chunk_, last_) : *unfinished_.begin();
    WriteFile(ProgressFile(), std::to_string(next) + "\n");
  }

  // ---------------------------------------------------------------------------------------------
  // The work of one job.

  void Work(unsigned job) {
    while (!stop_.load()) {
      uint64_t first = 0, count = 0;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        first = next_chunk_;
        if (first >= last_) break;
        count = std::min(kChunk, last_ - first);
        next_chunk_ += count;
        unfinished_.insert(first);
      }
      WatchOptions watch = watch_;
      watch.begun = &begun_[job];
      begun_[job] = 0;
      const std::string why = RunWatched(
          provider_, count, [&](size_t i) { return ToRun(first + i); }, watch,
          [&](RunResult&& result) {
            if (!stop_.load()) Take(source_->At(first + result.index), result);
          });
      std::lock_guard<std::mutex> lock(mutex_);
      if (!why.empty()) {
        why_ = why;
        stop_ = true;
        break;
      }
      if (stop_.load()) {
        executed_ += begun_[job];
      } else {
        executed_ += count;
        unfinished_.erase(first);
      }
      begun_[job] = 0;
    }
    running_--;
  }

  // A guest is told Programs as text: one that uses an object it never makes has none, and is run
  // as an empty one.
  Program ToRun(uint64_t number) {
    Program program = source_->At(number);
    if (at_once_ && !ParseProgram(PrintProgram(program, Notes::kDrop), "").ok) {
      program = Program();
      textless_++;
    }
    if (at_once_ && !arguments_.no_known && InvalidatesWindow(program)) {
      program = Program();
      avoided_++;
    }
    return program;
  }

  // Soft-RoCE's kernel dies of the invalidation of a window that is not bound (WR-MW-012), and all
  // that runs beside it with it. Whether a window is bound only a run can tell.
  static bool InvalidatesWindow(const Program& program) {
    return std::any_of(program.calls.begin(), program.calls.end(), [&](const Call& call) {
      const ObjectId key = call.rkey.object;
      const bool invalidates =
          call.op == model::Operation::kLocalInv || call.op == model::Operation::kSendWithInv;
      return invalidates && key != kNoObject && program.objects[key].kind == ObjectKind::kMw;
    });
  }

  uint64_t Executed() {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t n = executed_;
    for (const std::atomic<uint64_t>& job : begun_) n += job.load();
    return n;
  }

  // The clock, the interrupt and the line that says how it goes.
  void Tick(Clock::time_point start) {
    const bool terminal = isatty(2) == 1;
    double shown = 0;
    uint64_t before = 0;
    while (running_.load() > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const double now = Seconds(start);
      if (StopOnInterrupt().load() || (arguments_.seconds > 0 && now >= arguments_.seconds))
        stop_ = true;
      if (now - shown < (terminal ? 1 : 10)) continue;
      const uint64_t n = Executed();
      std::fprintf(stderr, "%s%s: %.0f s, %llu programs, %.0f/s, %llu findings, %llu known%s",
                   terminal ? "\r" : "", provider_.name.c_str(), now,
                   static_cast<unsigned long long>(n),
                   static_cast<double>(n - before) / (now - shown),
                   static_cast<unsigned long long>(found_total_.load()),
                   static_cast<unsigned long long>(known_total_.load()), terminal ? " " : "\n");
      std::fflush(stderr);
      shown = now;
      before = n;
      WriteProgress();
    }
    if (terminal) std::fputs("\r\033[K", stderr);
  }

  // ---------------------------------------------------------------------------------------------
  // Findings.

  RunResult Alone(const Program& program, std::chrono::milliseconds stall = kStall) {
    WatchOptions watch = watch_;
    watch.keep_objects = false;
    watch.stall = stall;
    watch.send = nullptr;
    watch.stop = &StopOnInterrupt();
    watch.want_trace = true;
    RunResult result;
    RunWatched(provider_, {program}, watch, [&](RunResult&& r) { result = std::move(r); });
    return result;
  }

  static bool Shows(const Program& program, const RunResult& result, const FindingKey& key) {
    const std::vector<FindingKey> keys = KeysOf(program, result);
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  }

  void Take(const Program& program, const RunResult& result) {
    std::lock_guard<std::mutex> lock(take_);
    for (const FindingKey& key : KeysOf(program, result)) {
      const auto recorded =
          std::find_if(recorded_.begin(), recorded_.end(), [&](const conform::Expectation& e) {
            return e.verdict == key.kind && e.clause == key.clause;
          });
      if (recorded != recorded_.end()) {
        known_[key.kind + (key.clause.empty() ? "" : " " + key.clause)]++;
        known_total_++;
        continue;
      }
      Found& found = found_[key];
      if (found.count++ > 0) continue;
      found_total_++;
      ours_ |= key.kind == "internal";
      if (at_once_) {
        late_.push_back({key, program, result});
      } else {
        Keep(program, result, key, &found);
      }
      if (arguments_.until_finding) stop_ = true;
    }
  }

  // Writes findings/ID/, unless an earlier run has.
  void Keep(const Program& program, const RunResult& seen, const FindingKey& key, Found* found) {
    const fs::path folder = folder_ / key.Id();
    std::error_code error;
    if (fs::exists(folder / "program.qpx", error)) return;
    Program shortest = program;
    found->stable = Shows(program, Alone(program), key);
    if (found->stable) {
      MinimizeLimits limits;
      const bool hang = key.kind == "hang";
      limits.tries = hang ? kMinimizeHangTries : kMinimizeTries;
      const std::chrono::milliseconds stall = hang ? kMinimizeHangStall : kStall;
      shortest = Minimize(
          program,
          [&](const Program& p) {
            return !StopOnInterrupt().load() && Shows(p, Alone(p, stall), key);
          },
          limits);
    }
    Write(program, seen, shortest, key, found);
  }

  // On a machine that starts for each batch (a guest): all that was found once more in one batch,
  // whole, since each try of a reduction would be a start. `qpexam minimize` does that on demand.
  void KeepLate() {
    std::vector<Program> programs;
    for (const Late& late : late_) programs.push_back(late.program);
    std::vector<RunResult> again(programs.size());
    if (programs.empty()) return;
    WatchOptions watch = watch_;
    watch.keep_objects = false;
    watch.send = nullptr;
    watch.stop = &StopOnInterrupt();
    watch.want_trace = true;
    RunWatched(provider_, programs, watch, [&](RunResult&& r) {
      if (r.index < again.size()) again[r.index] = std::move(r);
    });
    for (size_t i = 0; i < late_.size(); i++) {
      const Late& late = late_[i];
      std::error_code error;
      if (fs::exists(folder_ / late.key.Id() / "program.qpx", error)) continue;
      Found& found = found_[late.key];
      found.stable = Shows(late.program, again[i], late.key);
      Write(late.program, found.stable ? again[i] : late.seen, late.program, late.key, &found);
    }
  }

  void Write(const Program& program, const RunResult& seen, const Program& shortest,
             const FindingKey& key, Found* found) {
    const fs::path folder = folder_ / key.Id();
    std::error_code error;
    found->calls = shortest.calls.size();
    std::string text = PrintProgram(shortest, Notes::kDrop);
    text.insert(text.find('\n') + 1,
                fmt::format("# {} on {} {}\n", key.Text(), provider_.name, provider_.version));
    fs::create_directories(folder, error);
    // Parsed again, so that lines mean those of the file.
    NamedProgram named;
    named.name = (folder / "program.qpx").string();
    ParseResult parsed = ParseProgram(text, named.name);
    named.program = parsed.ok ? std::move(parsed.program) : shortest;
    named.lines = SplitLines(text);
    const RunResult result = at_once_ ? seen : Alone(named.program);
    std::string explanation = fmt::format("{} on {} {}, by seed {}\n\n", key.Text(), provider_.name,
                                          provider_.version, arguments_.seed);
    if (found->stable) {
      explanation += ExplainResult(named, result);
    } else {
      named.program = program;
      explanation += "It did not recur in a process of its own: it may need what ran before.\n" +
                     ExplainResult(named, seen);
    }
    bool good = WriteFile(folder / "explanation.txt", explanation);
    if (!result.trace.empty()) good = WriteFile(folder / "trace.txt", result.trace) && good;
    std::string source, why;
    std::string about = fmt::format("{} on {} {}, found by qpexam.\n", key.Text(), provider_.name,
                                    provider_.version);
    if (result.ended == Ended::kWell && result.verdict.violations == 0 && !result.below.empty())
      about += "Seen below libibverbs alone: nothing that this file looks at need differ.\n";
    if (EmitOnReference(named.program, about, &source, &why)) {
      good = WriteFile(folder / "repro.c", source) && good;
    }
    // Last: a folder with a Program is whole.
    if (!WriteFile(named.name, text) || !good) stop_ = true;
    Say(fmt::format("{}: {} ({} calls)", found->stable ? "found" : "found, unstable", named.name,
                    found->calls));
  }

  void Summary(double seconds) {
    std::string out = fmt::format("{} {}: {} programs in {:.1f} s, {:.0f} a second\n",
                                  provider_.name, provider_.version, executed_, seconds,
                                  seconds > 0 ? static_cast<double>(executed_) / seconds : 0);
    if (avoided_ > 0)
      out += fmt::format("  not run, since they may kill the kernel (--no-known runs them): {}\n",
                         avoided_.load());
    if (textless_ > 0)
      out += fmt::format("  not run, since text cannot say them: {}\n", textless_.load());
    for (const auto& [name, count] : known_) out += fmt::format("  known {}: {}\n", name, count);
    for (const auto& [key, found] : found_)
      out += fmt::format("  {}: {}{}\n", (folder_ / key.Id()).string(), found.count,
                         found.stable ? "" : " (unstable)");
    if (found_.empty()) out += "  no findings\n";
    Print(out);
  }

  const FuzzArguments& arguments_;
  const ProviderInfo& provider_;
  const fs::path folder_;
  // A guest, whose start takes seconds.
  const bool at_once_ = provider_.kind == ProviderKind::kDevice && MachineOf(provider_) != nullptr;
  WatchOptions watch_;
  std::vector<conform::Expectation> recorded_;
  bool readable_ = true;  // the file of recorded deviations
  std::unique_ptr<ProgramSource> source_;
  std::atomic<bool> stop_{false};
  std::atomic<int> running_{0};
  std::atomic<uint64_t> known_total_{0}, found_total_{0}, textless_{0}, avoided_{0};
  std::vector<std::atomic<uint64_t>> begun_;

  std::mutex mutex_;  // of what follows
  uint64_t next_chunk_ = 0, last_ = 0, executed_ = 0;
  std::set<uint64_t> unfinished_;
  std::string why_;

  std::mutex take_;  // of what follows
  std::map<FindingKey, Found> found_;
  std::vector<Late> late_;
  std::map<std::string, uint64_t> known_;
  bool ours_ = false;
};

}  // namespace

ExitStatus Fuzz(const FuzzArguments& arguments) {
  ProviderInfo provider;
  std::string why;
  if (!FindProvider(arguments.provider, &provider, &why)) {
    Say(why);
    return kUsage;
  }
  if (!provider.why_unavailable.empty()) {
    Say(fmt::format("{}: {}", provider.name, provider.why_unavailable));
    return kNoProvider;
  }
  StopOnInterrupt();
  Campaign campaign(arguments, provider);
  if (!arguments.imports.empty()) return campaign.Import(arguments.imports);
  std::vector<std::string> places = arguments.corpus;
  if (places.empty()) {
    const std::string corpus = FindCorpus("");
    if (corpus.empty()) return kUsage;
    // Misuse would be cut by the lint on anything but the reference.
    places = {corpus + "/seeds"};
  }
  std::vector<NamedProgram> named;
  const ExitStatus status = LoadPrograms(places, &named);
  if (status != kFine) return status;
  if (arguments.engine != "builtin") return campaign.Engine(named);
  std::vector<Program> seeds;
  for (NamedProgram& n : named) seeds.push_back(std::move(n.program));
  return campaign.Run(std::move(seeds));
}

}  // namespace qpexam
