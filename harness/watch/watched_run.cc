#include "harness/watch/watched_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "harness/execute/executor.h"
#include "harness/program/lint.h"
#include "harness/program/print.h"
#include "harness/program/schema.h"
#include "harness/trace/trace_text.h"
#include "harness/watch/frame.h"
#include "harness/watch/remote_run.h"

// Of clang's coverage, and there in such a build alone; it counts at exit(), which the child never
// calls.
extern "C" __attribute__((weak)) int __llvm_profile_write_file();

namespace qpexam {

void NoteNotMade(const Program& program, const Trace& trace, RunResult* result) {
  for (const Event& event : trace.events) {
    if (event.call >= program.calls.size()) continue;
    if (event.ran == Ran::kNotMade) ++result->not_made;
    if (event.ran == Ran::kDone && event.rc != 0 && result->refused == ~uint32_t{0} &&
        Makes(program.calls[event.call].kind)) {
      result->refused = event.call;
      result->refused_with = event.rc;
    }
  }
}

namespace {

using Clock = std::chrono::steady_clock;
using Source = std::function<Program(size_t)>;

enum class Phase : uint32_t { kOpening, kMaking, kRunning, kJudging, kSending };

// What the child says without a system call.
struct Record {
  std::atomic<uint64_t> index{0};      // of the Program
  std::atomic<uint32_t> call{0};       // last call begun
  std::atomic<uint32_t> phase{0};      // Phase
  std::atomic<uint64_t> heartbeat{0};  // grows with every call
};

constexpr size_t kMostReport = 64 << 10;  // bytes kept of what the child wrote on stderr
constexpr int kPollMs = 50;

void WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(0);  // the parent is gone
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void SendFrame(int fd, char kind, std::string_view body) {
  FrameWriter head;
  head.Put(kind);
  head.Put(static_cast<uint64_t>(body.size()));
  WriteAll(fd, head.bytes());
  WriteAll(fd, body);
}

// -------------------------------------------------------------------------------------------------
// The child.

[[noreturn]] void Child(const ProviderInfo& provider, size_t count, const Source& source,
                        const WatchOptions& options, size_t first, int pipe, Record* record) {
  std::string why;
  std::unique_ptr<DeviceSession> session = OpenProvider(provider, &why);
  if (!session) {
    SendFrame(pipe, 'N', why);
    _exit(0);
  }
  {
    Executor executor(session.get());
    judge::JudgeOptions judging = JudgingOf(provider);
    judging.lints_expected = options.lints_expected;
    judge::Judge judge(judging);
    Trace trace;
    RunOptions run;
    run.keep_objects = options.keep_objects;
    run.current_call = &record->call;
    run.heartbeat = &record->heartbeat;
    for (size_t i = first; i < count; i++) {
      record->phase.store(static_cast<uint32_t>(Phase::kMaking));
      record->index.store(i);
      record->call.store(0);
      Program program = source(i);
      record->phase.store(static_cast<uint32_t>(Phase::kRunning));
      session->FitDefaults(&program);
      RunResult result;
      result.index = i;
      const bool parallel =
          options.cut_parallel &&
          std::any_of(program.calls.begin(), program.calls.end(), [](const Call& call) {
            return call.kind == CallKind::kParallel || call.thread != 0;
          });
      if (!session->detects_undefined() || parallel || options.cut_undefined) {
        if (std::optional<LintFinding> cut = FirstUndefined(program)) {
          result.cut_at = cut->cut_at;
          result.cut_why = std::string(cut->clause) + ": " + cut->why;
        }
      }
      run.cut_at = result.cut_at;
      const Clock::time_point start = Clock::now();
      executor.Run(program, run, &trace);
      record->phase.store(static_cast<uint32_t>(Phase::kJudging));
      result.verdict = judge(program, trace);
      NoteNotMade(program, trace, &result);
      session->TakeFindings(&result.below);
      result.nanoseconds = static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
      if (options.want_trace) result.trace = PrintTrace(program, trace);
      record->phase.store(static_cast<uint32_t>(Phase::kSending));
      record->heartbeat++;
      if (options.send && !options.send(result)) continue;
      SendFrame(pipe, 'R', EncodeResult(result));
    }
    record->phase.store(static_cast<uint32_t>(Phase::kRunning));
  }
  if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
  SendFrame(pipe, 'E', "");
  // Exit handlers are the parent's; what the provider leaks is not looked for here.
  _exit(0);
}

// -------------------------------------------------------------------------------------------------
// The parent.

const char* SignalWord(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGABRT:
      return "SIGABRT";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    case SIGKILL:
      return "SIGKILL";
    case SIGTERM:
      return "SIGTERM";
    default:
      return nullptr;
  }
}

// The line of a sanitizer's report that says what it is about; empty where there is none.
std::string SanitizerLine(const std::string& report) {
  for (const char* mark : {"ERROR: AddressSanitizer", "runtime error:", "WARNING: ThreadSanitizer",
                           "ERROR: LeakSanitizer", "WARNING: MemorySanitizer"}) {
    const size_t at = report.find(mark);
    if (at == std::string::npos) continue;
    const size_t start = report.rfind('\n', at) + 1;
    std::string line = report.substr(start, report.find('\n', at) - start);
    // "==123==ERROR: ..." carries the number of the process, "...0x6020 at pc 0x..." addresses.
    const size_t error = line.find("ERROR: ");
    return error == std::string::npos ? line : line.substr(error + 7);
  }
  return "";
}

class Watched {
 public:
  Watched(const ProviderInfo& provider, size_t count, const Source& source,
          const WatchOptions& options, const std::function<void(RunResult&&)>& on_result)
      : provider_(provider),
        count_(count),
        source_(source),
        options_(options),
        on_result_(on_result) {
    void* shared =
        mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::bad_alloc();
    record_ = new (shared) Record;
  }
  ~Watched() { munmap(record_, sizeof(Record)); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  std::string Run() {
    while (next_ < count_ && !Stopped()) {
      std::string why = RunChild();
      if (!why.empty()) return why;
    }
    return "";
  }

 private:
  bool Stopped() const { return options_.stop && options_.stop->load(); }

  std::string RunChild() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) return std::string("no pipe: ") + std::strerror(errno);
    const int report = memfd_create("qpexam-child-stderr", MFD_CLOEXEC);
    record_->phase.store(static_cast<uint32_t>(Phase::kOpening));
    record_->heartbeat.store(0);
    record_->index.store(next_);
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
      close(fds[0]);
      close(fds[1]);
      if (report >= 0) close(report);
      return std::string("no child process: ") + std::strerror(errno);
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);
      // An interrupt from the terminal reaches the whole group; the parent decides.
      signal(SIGINT, SIG_IGN);
      signal(SIGPIPE, SIG_IGN);
      if (report >= 0) dup2(report, 2);
      close(fds[0]);
      Child(provider_, count_, source_, options_, next_, fds[1], record_);
    }
    close(fds[1]);
    const std::string why = Watch(child, fds[0], report);
    close(fds[0]);
    if (report >= 0) close(report);
    return why;
  }

  // Follows one child to its end. Returns why the provider cannot be opened, if so.
  std::string Watch(pid_t child, int pipe, int report) {
    std::string buffer, refusal;
    bool ended_well = false, hung = false, open = true;
    uint64_t last_beat = ~uint64_t{0};
    Clock::time_point last_move = Clock::now();
    while (open) {
      pollfd wait{pipe, POLLIN, 0};
      const int ready = poll(&wait, 1, kPollMs);
      if (Stopped()) break;
      if (ready > 0) {
        char bytes[1 << 16];
        const ssize_t n = read(pipe, bytes, sizeof bytes);
        if (n > 0) {
          buffer.append(bytes, static_cast<size_t>(n));
          TakeFrames(&buffer, &ended_well, &refusal);
        } else if (n == 0 || errno != EINTR) {
          open = false;
        }
      }
      if (options_.begun) options_.begun->store(record_->index.load());
      const uint64_t beat = record_->heartbeat.load() + (record_->index.load() << 32);
      if (ready > 0 || beat != last_beat) {
        last_beat = beat;
        last_move = Clock::now();
      } else if (Clock::now() - last_move > options_.stall) {
        hung = true;
        break;
      }
    }
    if (open) kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!refusal.empty() || Stopped()) return refusal;
    if (ended_well) {
      next_ = count_;
      return "";
    }
    AddFatal(status, hung, ReadReport(report));
    return "";
  }

  void TakeFrames(std::string* buffer, bool* ended_well, std::string* refusal) {
    constexpr size_t kHead = 1 + sizeof(uint64_t);
    size_t at = 0;
    while (buffer->size() - at >= kHead) {
      FrameReader head(std::string_view(*buffer).substr(at, kHead));
      const char kind = head.Get<char>();
      const auto size = head.Get<uint64_t>();
      if (buffer->size() - at - kHead < size) break;
      const std::string_view body = std::string_view(*buffer).substr(at + kHead, size);
      at += kHead + size;
      if (kind == 'E') *ended_well = true;
      if (kind == 'N') *refusal = body;
      if (kind == 'R') {
        RunResult result;
        // What a corrupted child sends is not believed; its death tells the rest.
        if (!DecodeResult(body, &result) || result.index >= count_) continue;
        if (options_.send ? result.index < next_ : result.index != next_) continue;
        next_ = result.index + 1;
        on_result_(std::move(result));
      }
    }
    buffer->erase(0, at);
  }

  static std::string ReadReport(int fd) {
    if (fd < 0) return "";
    const off_t end = lseek(fd, 0, SEEK_END);
    std::string report(std::min<size_t>(kMostReport, end > 0 ? static_cast<size_t>(end) : 0), '\0');
    const ssize_t n = pread(fd, report.data(), report.size(), 0);
    report.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return report;
  }

  void AddFatal(int status, bool hung, const std::string& report) {
    // All results arrived and the child then died: in freeing what it kept.
    const size_t index = std::min<size_t>(record_->index.load(), count_ - 1);
    RunResult result;
    result.index =
        next_ < count_ && !options_.send ? next_ : std::max(index, std::min(next_, count_ - 1));
    const Program program = source_(result.index);
    result.fatal_call = result.index == index ? record_->call.load() : 0;
    std::string what;
    const std::string sanitizer = SanitizerLine(report);
    if (hung) {
      result.ended = Ended::kHang;
      what = "hang: nothing moved within " + std::to_string(options_.stall.count()) + " ms";
    } else if (!sanitizer.empty()) {
      result.ended = Ended::kSanitizer;
      what = "sanitizer: " + sanitizer;
    } else if (WIFSIGNALED(status)) {
      result.ended = Ended::kCrash;
      const char* word = SignalWord(WTERMSIG(status));
      what = "crash: " + (word ? word : "signal " + std::to_string(WTERMSIG(status)));
    } else {
      result.ended = Ended::kCrash;
      what =
          "crash: the process ended by itself with status " + std::to_string(WEXITSTATUS(status));
    }
    const auto phase = static_cast<Phase>(record_->phase.load());
    if (phase == Phase::kMaking) {
      result.ended = Ended::kOurs;
      what += ", while the program was made";
    } else if (phase == Phase::kJudging || phase == Phase::kSending) {
      result.ended = Ended::kOurs;
      what += ", in the judge";
    } else if (phase == Phase::kOpening) {
      what += ", while the provider was opened";
    } else if (result.fatal_call < program.calls.size()) {
      const Call& call = program.calls[result.fatal_call];
      what += call.line ? " in line " + std::to_string(call.line)
                        : " in call " + std::to_string(result.fatal_call);
      what += ": " + PrintCall(program, call);
    } else {
      what += " at the end of the run";
    }
    result.fatal = what;
    if (!report.empty()) result.fatal += "\n" + report;
    next_ = result.index + 1;
    on_result_(std::move(result));
  }

  const ProviderInfo& provider_;
  const size_t count_;
  const Source& source_;
  const WatchOptions& options_;
  const std::function<void(RunResult&&)>& on_result_;
  Record* record_;
  size_t next_ = 0;
};

}  // namespace

judge::JudgeOptions JudgingOf(const ProviderInfo& provider) {
  judge::JudgeOptions options;
  options.provider = provider.kind == ProviderKind::kReference ? judge::Provider::kReference
                     : provider.kind == ProviderKind::kHosted  ? judge::Provider::kHosted
                                                               : judge::Provider::kDevice;
  options.efa = provider.efa;
  return options;
}

std::string RunWatched(const ProviderInfo& provider, const std::vector<Program>& programs,
                       const WatchOptions& options,
                       const std::function<void(RunResult&&)>& on_result) {
  return RunWatched(
      provider, programs.size(), [&](size_t i) { return programs[i]; }, options, on_result);
}

std::string RunWatched(const ProviderInfo& provider, size_t count,
                       const std::function<Program(size_t)>& program, const WatchOptions& options,
                       const std::function<void(RunResult&&)>& on_result) {
  // A machine takes its batch whole.
  if (const std::unique_ptr<remote::Machine> machine = MachineOf(provider)) {
    std::vector<Program> programs;
    for (size_t i = 0; i < count; ++i) programs.push_back(program(i));
    return RunOnMachine(*machine, provider, programs, options, on_result);
  }
  return Watched(provider, count, program, options, on_result).Run();
}

}  // namespace qpexam
