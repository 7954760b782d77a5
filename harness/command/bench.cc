// `qpexam bench`: how fast it all is, in one run, so that ratios mean something.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <sstream>

#include "harness/command/bench_builds.h"
#include "harness/command/bench_figures.h"
#include "harness/command/commands.h"
#include "harness/command/results.h"

namespace qpexam {
namespace {

using Clock = std::chrono::steady_clock;

// What a measurement did to its process.
enum class Measured { kDone, kCrashed, kFailed };

// Measures one provider in a process of its own: what it does to that one is told, and the others
// are measured all the same. `measure` opens it, prints, and leaves its figures in `all`.
Measured InProcess(const std::string& name, double seconds, bench::Figures* all,
                   const std::function<void(bench::Figures*)>& measure) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) return Measured::kFailed;
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    bench::Figures own;
    measure(&own);
    std::fflush(nullptr);
    std::string figures;
    for (const auto& [key, value] : own) figures += fmt::format("{} {}\n", key, value);
    size_t written = 0;
    while (written < figures.size()) {
      const ssize_t n = write(fds[1], figures.data() + written, figures.size() - written);
      if (n <= 0) _exit(1);
      written += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(fds[1]);
  std::string figures;
  const Clock::time_point end =
      Clock::now() + std::chrono::milliseconds(60000 + static_cast<int64_t>(40000 * seconds));
  bool hung = false;
  while (child > 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waits = {fds[0], POLLIN, 0};
    char bytes[4096];
    const ssize_t n = left > 0 && poll(&waits, 1, static_cast<int>(left)) > 0
                          ? read(fds[0], bytes, sizeof bytes)
                          : -1;
    if (n <= 0) {
      hung = n < 0 && Clock::now() >= end;
      if (n < 0 && !hung) continue;  // a signal came
      break;
    }
    figures.append(bytes, static_cast<size_t>(n));
  }
  close(fds[0]);
  if (child < 0) return Measured::kFailed;
  if (hung) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::istringstream words(figures);
  double value;
  for (std::string key; words >> key >> value;) (*all)[key] = value;
  if (!hung && WIFEXITED(status) && WEXITSTATUS(status) == 0) return Measured::kDone;
  std::string how = "does not come to an end";
  if (!hung && WIFSIGNALED(status)) how = fmt::format("crashes (signal {})", WTERMSIG(status));
  if (!hung && WIFEXITED(status))
    how = fmt::format("ends the process (status {})", WEXITSTATUS(status));
  Print(fmt::format("{:<24} {} here: no figure\n", name, how));
  return Measured::kCrashed;
}

// The providers asked for, or those of `check`; kFine, or why not, which was said.
ExitStatus Chosen(const BenchArguments& arguments, std::vector<ProviderInfo>* providers) {
  if (arguments.providers.empty()) {
    for (const ProviderInfo& info : AllProviders())
      if (info.in_check && info.why_unavailable.empty()) providers->push_back(info);
  }
  for (const std::string& name : arguments.providers) {
    ProviderInfo info;
    std::string why;
    if (!FindProvider(name, &info, &why)) {
      Say(why);
      return kUsage;
    }
    if (!info.why_unavailable.empty()) {
      Say(info.name + ": " + info.why_unavailable);
      return info.why_is_setup ? kSetupIncomplete : kNoProvider;
    }
    providers->push_back(info);
  }
  return kFine;
}

}  // namespace

ExitStatus Bench(const BenchArguments& arguments) {
  OutputFile json;
  if (!json.Open(arguments.json)) return kUsage;
  Report report = NewReport("bench");
#ifndef NDEBUG
  Print("This build is not optimised: the figures say little. ./qpexam bench builds with -O2.\n");
#endif
  std::vector<ProviderInfo> providers;
  if (const ExitStatus status = Chosen(arguments, &providers); status != kFine) return status;
  bench::OtherBuilds others;
  if (arguments.sanitizers) {
    std::string why;
    if (!bench::FindOtherBuilds(&others, &why)) {
      Say(why);
      return kSetupIncomplete;
    }
  }
  bool crashed = false;
  const auto measure = [&](const ProviderInfo& info, void (*figure)(const bench::Subject&)) {
    const Measured end =
        InProcess(info.name, arguments.seconds, &report.timing, [&](bench::Figures* own) {
          std::string why;
          std::unique_ptr<DeviceSession> session = OpenProvider(info, &why);
          if (session)
            figure({session.get(), &info, arguments.seconds, &report.timing, own});
          else
            Print(fmt::format("{:<24} cannot be opened: {}\n", info.name, why));
        });
    if (end == Measured::kFailed)
      Say(fmt::format("no process to measure {} in: {}", info.name, std::strerror(errno)));
    crashed |= end == Measured::kCrashed;
    return end != Measured::kFailed;
  };
  struct Section {
    const char* title;
    void (*figure)(const bench::Subject&);
  };
  const Section sections[] = {
      {"Posting: batches of 32 RDMA writes of one SGE of 64 bytes, time a request\n",
       bench::Posting},
      {"\nA life: pd, mr, 2 cq, 2 qp to RTS, 47 requests, and the end of all of it\n",
       bench::LifeCycle},
      {"\nPrograms of 20 calls, run and judged, objects kept, on one core\n", bench::Programs},
  };
  for (const Section& section : sections) {
    Print(section.title);
    for (const ProviderInfo& info : providers)
      if (!measure(info, section.figure)) return kOurFailure;
  }
  for (const ProviderInfo& info : providers)
    if (info.name == bench::kYardstick && !measure(info, bench::Growth)) return kOurFailure;
  if (!bench::SuitesByGroup(&report.timing)) crashed = true;
  if (arguments.sanitizers) {
    std::vector<std::string> names;
    for (const ProviderInfo& info : providers) names.push_back(info.name);
    std::string why;
    if (!bench::CompareBuilds(others, names, arguments.seconds, &report.timing, &why) ||
        !bench::FuzzTargets(others, &report.timing, &why)) {
      Say(why);
      if (!json.Write(ReportToJson(report))) return kUsage;
      return kOurFailure;
    }
  }
  if (!json.Write(ReportToJson(report))) return kUsage;
  return crashed ? kFindings : kFine;
}

}  // namespace qpexam
