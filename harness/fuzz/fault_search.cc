// Searches for Programs that show the library's faults: each Program of the built-in engine runs on
// the reference, and then with each fault that it reached and that nothing has shown yet. What the
// judge cannot see (most timing, most of the ABI) is for the suites alone, and stays in the list of
// what was not caught; a Program ends at its first undefined call. A measure, not a test:
// .ci/faults_by_fuzzing.
//
//   fault_search CPU_SECONDS SEED FILE...     FILE: a Program to start from
//
// Exit status 0: all caught; 1: not all; 2: wrong usage; 5: no process or memory to be had.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/devices/provider_family.h"
#include "harness/execute/executor.h"
#include "harness/fuzz/source.h"
#include "harness/judge/judge.h"
#include "harness/program/lint.h"
#include "harness/program/parse.h"
#include "harness/trace/trace.h"
#include "reference/model/faults.h"

namespace qpexam {
namespace {

constexpr size_t kFaults = static_cast<size_t>(model::Fault::kCount);
constexpr unsigned kHangSeconds = 10;

enum class Fate : uint8_t { kMissed, kJudged, kCrash, kHang };

// What is known of a fault. In memory shared with the process that runs it, which a fault may end.
struct Known {
  Fate fate;
  char clause[24];  // the first that the judge named
  uint64_t program;
  uint64_t reached;  // Programs that reached it while nothing had shown it
  double at;         // CPU seconds
};

struct Shared {
  uint64_t program;  // the next one
  size_t fault;      // that runs now; 0: none
  double spent;      // CPU seconds, of all processes until now
  bool done;
  Known faults[kFaults];
};

double Cpu() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Runs Programs until the time is over; a fault may end the process at any point.
void Search(const ProgramSource& source, double until, Shared* shared) {
  std::string why;
  ProviderInfo info;
  std::unique_ptr<DeviceSession> session;
  if (FindProvider("reference", &info, &why)) session = OpenProvider(info, &why);
  if (!session) {
    std::fprintf(stderr, "fault_search: the reference cannot be opened: %s\n", why.c_str());
    _exit(5);
  }
  Executor executor(session.get());
  judge::JudgeOptions options;
  options.provider = judge::Provider::kReference;
  options.lints_expected = true;
  judge::Judge judge(options);
  Trace trace;
  uint32_t cut = 0;
  const double before = shared->spent;
  const auto run = [&](const Program& program) -> const judge::Verdict& {
    alarm(kHangSeconds);
    executor.Run(program, {cut}, &trace);
    executor.DropObjects();
    alarm(0);
    return judge(program, trace);
  };
  while ((shared->spent = before + Cpu()) < until) {
    const Program program = source.At(shared->program);
    const std::optional<LintFinding> undefined = FirstUndefined(program);
    cut = undefined ? undefined->cut_at : ~uint32_t{0};
    shared->fault = 0;
    model::FaultSwitch::StartRecording();
    const judge::Verdict& clean = run(program);
    const bool blank = clean.findings.empty();
    const auto reached = model::FaultSwitch::TakeReached();
    model::FaultSwitch::Set(model::Fault::kNone);
    for (size_t f = 1; blank && f < kFaults; f++) {
      Known& known = shared->faults[f];
      if (!reached[f] || known.fate != Fate::kMissed) continue;
      known.reached++;
      known.program = shared->program;
      shared->fault = f;
      model::FaultSwitch::Set(static_cast<model::Fault>(f));
      const judge::Verdict& verdict = run(program);
      model::FaultSwitch::Set(model::Fault::kNone);
      shared->fault = 0;
      for (const judge::Finding& finding : verdict.findings) {
        if (finding.kind != judge::FindingKind::kViolation &&
            finding.kind != judge::FindingKind::kWarning)
          continue;
        known.fate = Fate::kJudged;
        known.at = before + Cpu();
        std::snprintf(known.clause, sizeof known.clause, "%s", finding.clause);
        break;
      }
    }
    shared->program++;
  }
  shared->done = true;
}

int Print(const Shared& shared) {
  size_t all = 0, caught = 0, own = 0;
  std::vector<double> times;
  for (const model::FaultInfo& fault : model::AllFaults()) {
    if (fault.fault == model::Fault::kNone) continue;
    const Known& known = shared.faults[static_cast<size_t>(fault.fault)];
    all++;
    const char* by = known.fate == Fate::kJudged  ? known.clause
                     : known.fate == Fate::kCrash ? "crash"
                     : known.fate == Fate::kHang  ? "hang"
                     : known.reached              ? "not caught"
                                                  : "not reached";
    std::printf("%-48s %-14s %-14s", std::string(fault.name).c_str(),
                std::string(fault.clause).c_str(), by);
    if (known.fate == Fate::kMissed) {
      std::printf(" %llu programs reached it\n", static_cast<unsigned long long>(known.reached));
      continue;
    }
    std::printf(" program %llu, %.1f s\n", static_cast<unsigned long long>(known.program),
                known.at);
    caught++;
    own += fault.clause == known.clause;
    times.push_back(known.at);
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "%llu programs, %.0f CPU seconds: %zu of %zu faults caught, %zu under their own clause",
      static_cast<unsigned long long>(shared.program), shared.spent, caught, all, own);
  if (!times.empty())
    std::printf("; half of these after %.1f s, the last after %.1f s", times[times.size() / 2],
                times.back());
  std::printf("\n");
  return caught == all ? 0 : 1;
}

int Main(int argc, char** argv) {
  const double until = argc > 3 ? std::atof(argv[1]) : 0;
  if (until <= 0) {
    std::fprintf(stderr, "usage: fault_search CPU_SECONDS SEED FILE...\n");
    return 2;
  }
  std::vector<Program> seeds;
  for (int i = 3; i < argc; i++) {
    ParseResult parsed = LoadProgram(argv[i]);
    if (!parsed.ok) {
      std::fprintf(stderr, "fault_search: %s\n", parsed.error.Message().c_str());
      return 2;
    }
    seeds.push_back(std::move(parsed.program));
  }
  SourceOptions options;
  options.seed = std::strtoull(argv[2], nullptr, 10);
  const ProgramSource source(std::move(seeds), options);
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("fault_search: shared memory");
    return 5;
  }
  auto* shared = new (memory) Shared();
  while (!shared->done) {
    std::fflush(nullptr);
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
      std::perror("fault_search: fork");
      return 5;
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);
      Search(source, until, shared);
      _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (shared->done) break;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 5) return 5;
    if (shared->fault == 0) {
      std::fprintf(stderr, "fault_search: program %llu of this seed ends the reference itself\n",
                   static_cast<unsigned long long>(shared->program));
      shared->program++;
      continue;
    }
    Known& known = shared->faults[shared->fault];
    known.fate = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? Fate::kHang : Fate::kCrash;
    known.at = shared->spent;
  }
  return Print(*shared);
}

}  // namespace
}  // namespace qpexam

int main(int argc, char** argv) { return qpexam::Main(argc, argv); }
