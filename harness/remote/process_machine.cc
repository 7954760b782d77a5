#include "harness/remote/process_machine.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "harness/process/process.h"
#include "harness/remote/our_program.h"
#include "harness/vm/subprocess.h"

namespace qpexam::remote {
namespace {

constexpr auto kLook = std::chrono::milliseconds(5);
constexpr auto kKillGrace = std::chrono::seconds(20);
constexpr size_t kMostLog = 16 << 10;

std::string Substituted(const std::string& argument, const std::string& folder,
                        const std::string& device) {
  std::string out = argument;
  for (const auto& [word, real] : {std::pair<std::string, std::string>{"@input", folder + "/input"},
                                   {"@results", folder + "/results"},
                                   {"@device", device}}) {
    const size_t at = out.find(word);
    if (at != std::string::npos) out.replace(at, word.size(), real);
  }
  return out;
}

std::string Tail(const std::string& file) {
  std::string text;
  vm::ReadWhole(file, &text);
  return text.substr(text.size() - std::min(text.size(), kMostLog));
}

}  // namespace

MachineEnd RunAsProcess(const MachineJob& job, const ProcessJob& place) {
  MachineEnd end;
  const std::string tool =
      job.tool == MachineJob::Tool::kSuites ? SuitesProgram() : ExecutorProgram();
  if (tool.empty()) return end.why = kToolsNotBuilt, end;
  if (!vm::WriteWhole(place.folder + "/input", job.input)) {
    end.why = "no room for temporary files; set TMPDIR to a folder that has some";
    return end;
  }
  std::vector<std::string> command = {tool};
  for (const std::string& argument : job.arguments)
    command.push_back(Substituted(argument, place.folder, place.device));
  const std::string output = place.folder + "/output", results = place.folder + "/results";
  ProcessStart start;
  start.arguments = command;
  start.environment = place.environment;
  start.log = output;
  start.when_we_end = SIGKILL;
  const pid_t child = StartProcess(start);
  if (child < 0) return end.why = std::string("no process: ") + std::strerror(errno), end;
  int status = 0, fd = -1;
  bool ended = false, hung = false, stopped = false;
  auto moved = std::chrono::steady_clock::now();
  std::string bytes(1 << 16, '\0');
  while (!ended) {
    ended = waitpid(child, &status, WNOHANG) != 0;
    if (fd < 0) fd = open(results.c_str(), O_RDONLY | O_CLOEXEC);
    bool more = false;
    for (ssize_t n; fd >= 0 && (n = read(fd, bytes.data(), bytes.size())) > 0; more = true)
      if (job.on_results) job.on_results({bytes.data(), static_cast<size_t>(n)});
    if (ended) break;
    const auto now = std::chrono::steady_clock::now();
    if (more) {
      moved = now;
      continue;
    }
    stopped = job.stop != nullptr && job.stop->load();
    hung = now - moved > job.stall;
    if (stopped || hung) {
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
      // One that sits in a driver does not die; it is left to the kernel.
      for (const auto since = now; waitpid(child, &status, WNOHANG) == 0 &&
                                   std::chrono::steady_clock::now() - since < kKillGrace;)
        std::this_thread::sleep_for(kLook);
      ended = true;
    } else {
      std::this_thread::sleep_for(kLook);
    }
  }
  if (fd >= 0) close(fd);
  end.log = Tail(output);
  if (stopped) {
    end.kind = MachineEnd::kStopped;
  } else if (hung) {
    end.kind = MachineEnd::kDied;
    end.why = "the process hangs: nothing moved within " + std::to_string(job.stall.count()) + " s";
  } else if (WIFSIGNALED(status)) {
    end.kind = MachineEnd::kDied;
    end.why = std::string("the process died: ") + strsignal(WTERMSIG(status));
  } else {
    end.kind = MachineEnd::kEnded;
    end.status = WEXITSTATUS(status);
  }
  return end;
}

}  // namespace qpexam::remote
