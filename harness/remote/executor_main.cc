// The executor as a program of its own, for the machine that has the device: it reads Programs,
// runs them through that machine's libibverbs and writes Traces. The judge sits elsewhere.
//
//   qpexam-executor --list
//   qpexam-executor --device=mlx5_0 --traces=DIR FILE.qpx...    a trace a file: qpexam judge
//   DIR/... qpexam-executor --device=mlx5_0 --batch=FILE --results=FILE   what `qpexam` itself uses
//
// Programs run in a child; one that crashes or hangs is recorded as that, and the next child goes
// on behind it. With --jobs=N as many children share the Programs: on a device where most of the
// time is waiting for what never comes. The lint cuts every Program before a call that may be
// UNDEFINED.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "harness/execute/executor.h"
#include "harness/program/lint.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/remote/batch.h"
#include "harness/remote/emulated_session.h"
#include "harness/remote/verbs_session.h"
#include "harness/trace/trace_text.h"

namespace qpexam::remote {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUsage = 2, kNoDevice = 3, kStuck = 6;
constexpr std::chrono::seconds kKillGrace{15};
// So long those that could not be killed are waited for.
constexpr std::chrono::seconds kStuckGrace{90};
constexpr unsigned kMostWorkers = 64;
constexpr uint64_t kIdle = ~uint64_t{0};

struct Arguments {
  std::string device, provider, version, batch, results, traces;
  std::vector<std::string> files;
  std::chrono::milliseconds stall{20000};
  unsigned jobs = 1;
  bool list = false, real_time = false;
};

struct Job {
  uint64_t index = 0;
  std::string name;
  Program program;
};

// What a child says without a system call.
struct Record {
  std::atomic<uint64_t> at{kIdle};  // index into the jobs
  std::atomic<uint32_t> call{0};
  std::atomic<uint64_t> heartbeat{0};
};

// What all of them share.
struct Shared {
  std::atomic<uint64_t> next{0};    // the first job that nobody has taken
  std::atomic<bool> paused{false};  // nobody takes one
  // The first child measures the device while it is alone on it.
  std::atomic<bool> calibrated{false};
  RealTimeBounds bounds;
  Record records[kMostWorkers];
};

struct Worker {
  pid_t pid = 0;  // 0: none runs
  Record* record = nullptr;
  uint64_t seen = 0;
  Clock::time_point moved;
  bool hung = false;
};

int Complain(const std::string& what) {
  std::fprintf(stderr, "qpexam-executor: %s\n", what.c_str());
  return kUsage;
}

bool ReadAll(const std::string& path, std::string* text) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  text->assign(std::istreambuf_iterator<char>(file), {});
  return !file.bad();
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool Parse(int argc, char** argv, Arguments* a, std::string* why) {
  for (int i = 1; i < argc; i++) {
    const std::string_view arg = argv[i];
    const size_t equals = arg.find('=');
    const std::string_view name = arg.substr(0, equals);
    const std::string value(equals == arg.npos ? "" : arg.substr(equals + 1));
    if (name == "--list") {
      a->list = true;
    } else if (name == "--real_time") {
      a->real_time = true;
    } else if (name == "--device") {
      a->device = value;
    } else if (name == "--provider") {
      a->provider = value;
    } else if (name == "--version") {
      a->version = value;
    } else if (name == "--batch") {
      a->batch = value;
    } else if (name == "--results") {
      a->results = value;
    } else if (name == "--traces") {
      a->traces = value;
    } else if (name == "--stall") {
      const int ms = std::atoi(value.c_str());
      if (ms <= 0) return *why = "--stall takes milliseconds above 0", false;
      a->stall = std::chrono::milliseconds(ms);
    } else if (name == "--jobs") {
      const int jobs = std::atoi(value.c_str());
      if (jobs < 1 || jobs > static_cast<int>(kMostWorkers))
        return *why = "--jobs takes 1 to " + std::to_string(kMostWorkers), false;
      a->jobs = static_cast<unsigned>(jobs);
    } else if (arg.substr(0, 2) == "--") {
      return *why = "unknown option " + std::string(arg), false;
    } else {
      a->files.emplace_back(arg);
    }
  }
  if (a->list) return true;
  if (a->device.empty()) return *why = "name a device: --device=NAME; --list shows them", false;
  if (a->batch.empty() != a->results.empty())
    return *why = "--batch and --results belong together", false;
  if (a->batch.empty() && (a->files.empty() || a->traces.empty()))
    return *why = "nothing to run: give --traces=DIR and programs", false;
  if (a->provider.empty()) a->provider = "device:" + a->device;
  return true;
}

class Run {
 public:
  Run(const Arguments& arguments, std::vector<Job> jobs)
      : arguments_(arguments), jobs_(std::move(jobs)) {}

  int operator()() {
    ibv_context* context = OpenListed(arguments_.device);
    if (!context) {
      Complain(arguments_.device + " cannot be opened: " + std::strerror(errno) +
               "; --list shows what there is");
      return kNoDevice;
    }
    if (arguments_.version.empty()) arguments_.version = FirmwareOf(context);
    ibv_close_device(context);
    if (!arguments_.results.empty()) {
      out_ = open(arguments_.results.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      if (out_ < 0) return Complain(arguments_.results + ": " + std::strerror(errno));
      if (!WriteAll(out_, PrintHead(arguments_.device, arguments_.version))) return kUsage;
    }
    void* shared =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return Complain("no memory");
    shared_ = new (shared) Shared;
    workers_.resize(std::min<size_t>(arguments_.jobs, jobs_.size()));
    for (size_t i = 0; i < workers_.size(); i++) workers_[i].record = &shared_->records[i];
    if (const int status = RunChildren(); status != 0) return status;
    if (out_ >= 0 && !WriteAll(out_, PrintEnd())) return kUsage;
    return 0;
  }

 private:
  // Keeps the trace of a job: in the stream, or as a file of its own.
  void Keep(const Job& job, const Trace& trace, uint64_t nanoseconds) {
    const std::string text = PrintTrace(job.program, trace);
    if (out_ >= 0) {
      if (!WriteAll(out_, PrintItem(job.index, text, nanoseconds))) _exit(kUsage);
      return;
    }
    const std::string path = arguments_.traces + "/" + job.name + ".trace";
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || !WriteAll(fd, text)) {
      Complain(path + ": " + std::strerror(errno));
      _exit(kUsage);
    }
    close(fd);
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
  }

  // In the machine's time, or in that of a device which the preloaded library emulates.
  std::unique_ptr<DeviceSession> OpenSession() const {
    const qpexam_packaged_control* control = arguments_.real_time ? nullptr : PreloadedControl();
    if (control)
      return std::make_unique<EmulatedSession>(control, arguments_.provider, arguments_.device,
                                               arguments_.version);
    if (!shared_->calibrated.load()) {
      shared_->bounds = Calibrate(arguments_.device);
      shared_->calibrated.store(true);
    }
    return std::make_unique<VerbsSession>(arguments_.provider, arguments_.device,
                                          arguments_.version, shared_->bounds);
  }

  [[noreturn]] void Child(Record* record) {
    const std::unique_ptr<DeviceSession> session = OpenSession();
    shared_->calibrated.store(true);
    {
      Executor executor(session.get());
      RunOptions options;
      options.current_call = &record->call;
      options.heartbeat = &record->heartbeat;
      Trace trace;
      for (uint64_t i;
           !shared_->paused.load() && (i = shared_->next.fetch_add(1)) < jobs_.size();) {
        const Job& job = jobs_[i];
        record->call.store(0);
        record->at.store(i);
        if (out_ >= 0 && !WriteAll(out_, PrintBegin(job.index))) _exit(kUsage);
        options.cut_at = ~uint32_t{0};
        if (std::optional<LintFinding> cut = FirstUndefined(job.program))
          options.cut_at = cut->cut_at;
        const Clock::time_point start = Clock::now();
        executor.Run(job.program, options, &trace);
        const auto took =
            std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
        std::vector<SessionFinding> findings;
        session->TakeFindings(&findings);
        for (const SessionFinding& finding : findings) {
          if (out_ >= 0 && !WriteAll(out_, PrintFinding(job.index, finding))) _exit(kUsage);
          if (out_ < 0) Complain(job.name + ": " + finding.kind + ": " + finding.what);
        }
        Keep(job, trace, static_cast<uint64_t>(took.count()));
        record->at.store(kIdle);
      }
    }
    _exit(0);
  }

  bool Start(Worker* worker) {
    std::fflush(nullptr);
    const pid_t parent = getpid();
    worker->record->at.store(kIdle);
    worker->hung = false;
    worker->moved = Clock::now();
    worker->seen = ~uint64_t{0};
    worker->pid = fork();
    if (worker->pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);
      Child(worker->record);
    }
    return worker->pid > 0;
  }

  // Runs the jobs to their end; 0: all have run.
  int RunChildren() {
    while (true) {
      if (stuck_ && StuckAreGone()) stuck_ = false;
      if (stuck_ && Clock::now() - stuck_since_ > kStuckGrace) return kStuck;
      shared_->paused.store(stuck_);
      bool busy = stuck_;
      for (Worker& worker : workers_) {
        if (worker.pid == 0 && !stuck_ && shared_->next.load() < jobs_.size() && MayStart(worker) &&
            !Start(&worker))
          return Complain(std::string("no process: ") + std::strerror(errno));
        if (worker.pid == 0) continue;
        busy = true;
        if (const int status = Look(&worker); status != 0) return status;
      }
      if (!busy && shared_->next.load() >= jobs_.size()) return 0;
      usleep(2000);
    }
  }

  // The first is alone until it has measured the device.
  bool MayStart(const Worker& worker) const {
    return &worker == workers_.data() || shared_->calibrated.load();
  }

  // Whether a child has ended or hangs; 0: go on.
  int Look(Worker* worker) {
    int status = 0;
    const Record& record = *worker->record;
    if (waitpid(worker->pid, &status, WNOHANG) != 0) {
      worker->pid = 0;
      return Ended(*worker, status);
    }
    const uint64_t beat = record.heartbeat.load() + (record.at.load() << 32);
    if (beat != worker->seen) {
      worker->seen = beat;
      worker->moved = Clock::now();
    } else if (!worker->hung && Clock::now() - worker->moved > arguments_.stall) {
      worker->hung = true;
      kill(worker->pid, SIGKILL);
      worker->moved = Clock::now();
    } else if (worker->hung && Clock::now() - worker->moved > kKillGrace) {
      // It sits in the kernel and cannot be killed. The kernel may let it go yet; until then nobody
      // begins anything, since what is slow beside it may be slow for it.
      if (record.at.load() == kIdle) return kStuck;
      if (!stuck_) Fatal(*worker, "hang in the kernel: the process does not die");
      stuck_ = true;
      stuck_since_ = Clock::now();
      stuck_pids_.push_back(worker->pid);
      worker->pid = 0;
    }
    return 0;
  }

  // What to do about a child that has ended with `status`; 0: go on.
  int Ended(const Worker& worker, int status) {
    if (WIFEXITED(status) && (WEXITSTATUS(status) == kUsage || WEXITSTATUS(status) == kNoDevice))
      return WEXITSTATUS(status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && worker.record->at.load() == kIdle)
      return 0;
    std::string what;
    if (worker.hung) {
      what = "hang: nothing moved within " + std::to_string(arguments_.stall.count()) + " ms";
    } else if (WIFSIGNALED(status)) {
      what = std::string("crash: ") + strsignal(WTERMSIG(status));
    } else {
      what =
          "crash: the process ended by itself with status " + std::to_string(WEXITSTATUS(status));
    }
    if (worker.record->at.load() == kIdle) {
      if (shared_->next.load() >= jobs_.size()) return 0;  // all is recorded
      // The device does not open any more: by what ran before, or from the beginning.
      Complain("outside of any program: " + what);
      return fatal_ ? kStuck : kNoDevice;
    }
    // Beside one that sits in the kernel it is nobody's fault: the sender sees that it has no
    // trace, and sends it again.
    if (!stuck_ || !worker.hung) Fatal(worker, what);
    return 0;
  }

  // Whether the kernel has let go of all that could not be killed.
  bool StuckAreGone() {
    stuck_pids_.erase(std::remove_if(stuck_pids_.begin(), stuck_pids_.end(),
                                     [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; }),
                      stuck_pids_.end());
    return stuck_pids_.empty();
  }

  // The Program of a child that is gone, or as good as that, ends with this.
  void Fatal(const Worker& worker, const std::string& what) {
    const Job& job = jobs_[worker.record->at.load()];
    const uint32_t call = worker.record->call.load();
    Trace trace;
    trace.provider = arguments_.provider;
    trace.version = arguments_.version;
    trace.fatal = what;
    if (call < job.program.calls.size()) {
      trace.fatal += " in call " + std::to_string(call) + ": " +
                     PrintCall(job.program, job.program.calls[call]);
    }
    Keep(job, trace, 0);
    fatal_ = true;
    worker.record->at.store(kIdle);
  }

  Arguments arguments_;
  std::vector<Job> jobs_;
  Shared* shared_ = nullptr;
  std::vector<Worker> workers_;
  // Processes that could not be killed.
  std::vector<pid_t> stuck_pids_;
  bool stuck_ = false, fatal_ = false;
  Clock::time_point stuck_since_;
  int out_ = -1;
};

int Main(int argc, char** argv) {
  Arguments arguments;
  std::string why;
  if (!Parse(argc, argv, &arguments, &why)) return Complain(why);
  if (arguments.list) {
    for (const std::string& name : ListedDevices()) std::printf("%s\n", name.c_str());
    return 0;
  }
  std::vector<Job> jobs;
  auto add = [&](uint64_t index, std::string name, ParseResult&& parsed) {
    if (!parsed.ok) {
      why = parsed.error.Message();
      return false;
    }
    jobs.push_back({index, std::move(name), std::move(parsed.program)});
    return true;
  };
  if (!arguments.batch.empty()) {
    std::string bytes;
    if (!ReadAll(arguments.batch, &bytes)) return Complain(arguments.batch + " cannot be read");
    std::vector<BatchProgram> programs;
    if (!ParseBatch(bytes, &programs, &why)) return Complain(arguments.batch + ": " + why);
    for (const BatchProgram& p : programs) {
      const std::string name = "program " + std::to_string(p.index);
      if (!add(p.index, name, ParseProgram(p.text, name))) return Complain(why);
    }
  }
  for (size_t i = 0; i < arguments.files.size(); i++) {
    const std::string& file = arguments.files[i];
    const std::string name = file.substr(file.rfind('/') + 1);
    if (!add(i, name, LoadProgram(file))) return Complain(why);
  }
  return Run(arguments, std::move(jobs))();
}

}  // namespace
}  // namespace qpexam::remote

int main(int argc, char** argv) { return qpexam::remote::Main(argc, argv); }
