#include "harness/packaged/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "harness/hosted/fit_defaults.h"
#include "harness/packaged/environment.h"
#include "harness/packaged/place.h"
#include "harness/process/process.h"
#include "harness/remote/our_program.h"
#include "harness/vm/subprocess.h"

namespace qpexam::packaged {
namespace {

using remote::MachineEnd;
using remote::MachineJob;

constexpr auto kLook = std::chrono::milliseconds(5);
constexpr size_t kMostLog = 16 << 10;
constexpr int kNotFound = 127, kNotExecutable = 126;

constexpr char kNotBuilt[] =
    "the programs that run over the installed libibverbs were not built; ./qpexam builds them";

// In the child: never returns.
[[noreturn]] void Become(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  const std::string text = "qpexam: " + command[0] + ": " + std::strerror(error) + "\n";
  if (write(2, text.data(), text.size()) < 0) _exit(kNotFound);
  _exit(error == ENOENT ? kNotFound : kNotExecutable);
}

// What is typed at the terminal reaches the command as well, which decides; a SIGTERM is passed on.
volatile sig_atomic_t g_child = 0;
void PassOn(int signal) {
  if (g_child > 0) kill(static_cast<pid_t>(g_child), signal);
}
class SignalsAreTheCommands {
 public:
  SignalsAreTheCommands() {
    struct sigaction ignore = {}, pass = {};
    ignore.sa_handler = SIG_IGN;
    pass.sa_handler = PassOn;
    sigaction(SIGINT, &ignore, &before_[0]);
    sigaction(SIGQUIT, &ignore, &before_[1]);
    sigaction(SIGTERM, &pass, &before_[2]);
    sigaction(SIGPIPE, nullptr, &before_[3]);
  }
  ~SignalsAreTheCommands() {
    g_child = 0;
    Restore();
  }
  SignalsAreTheCommands(const SignalsAreTheCommands&) = delete;
  SignalsAreTheCommands& operator=(const SignalsAreTheCommands&) = delete;
  // As the command is to find them.
  void Restore() const {
    sigaction(SIGINT, &before_[0], nullptr);
    sigaction(SIGQUIT, &before_[1], nullptr);
    sigaction(SIGTERM, &before_[2], nullptr);
  }

 private:
  struct sigaction before_[4];
};

std::vector<std::string> LinesOnce(const std::string& file) {
  std::vector<std::string> lines;
  std::set<std::string> seen;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    // Raw bytes stand indented behind the finding that they belong to.
    if (line.rfind("  ", 0) == 0) continue;
    if (seen.insert(line).second) lines.push_back(line);
  }
  return lines;
}

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

const hosted::HostedKind* KindOf(const std::string& name) {
  for (const hosted::HostedKind& kind : hosted::HostedKinds())
    for (const char* known : kProviders)
      if (name == std::string("packaged:") + known && std::string_view(known) == kind.name)
        return &kind;
  return nullptr;
}

CommandEnd RunCommand(const hosted::HostedKind& kind, const std::vector<std::string>& command) {
  CommandEnd end;
  const std::string preload = PreloadLibrary();
  if (preload.empty()) return end.why = kNotBuilt, end;
  const DeviceFolder folder(kind.make_model()->traits());
  if (!folder.ok()) {
    end.why = "no temporary folder can be made; set TMPDIR to one that can be written";
    return end;
  }
  const std::string findings = folder.path() + "/findings";
  const std::vector<std::string> environment = Environment(kind.name, folder, preload, findings);
  SignalsAreTheCommands signals;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return end.why = std::string("no process: ") + std::strerror(errno), end;
  if (child == 0) {
    signals.Restore();
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kNotFound);
    Become(command, environment);
  }
  g_child = child;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  end.started = true;
  end.status = ShellStatus(status);
  end.findings = LinesOnce(findings);
  return end;
}

void PackagedMachine::FitDefaults(Program* program) const {
  hosted::FitDefaults(kind_.make_model()->traits(), program);
}

MachineEnd PackagedMachine::Run(const MachineJob& job) const {
  MachineEnd end;
  const std::string preload = PreloadLibrary();
  const std::string tool =
      job.tool == MachineJob::Tool::kSuites ? remote::SuitesProgram() : remote::ExecutorProgram();
  if (preload.empty() || tool.empty()) return end.why = kNotBuilt, end;
  const DeviceFolder folder(kind_.make_model()->traits());
  if (!folder.ok() || !vm::WriteWhole(folder.path() + "/input", job.input)) {
    end.why = "no room for temporary files; set TMPDIR to a folder that has some";
    return end;
  }
  std::vector<std::string> command = {tool};
  for (const std::string& argument : job.arguments)
    command.push_back(Substituted(argument, folder.path(), folder.device()));
  const std::vector<std::string> environment =
      Environment(kind_.name, folder, preload, folder.path() + "/findings");
  const std::string output = folder.path() + "/output", results = folder.path() + "/results";
  ProcessStart start;
  start.arguments = command;
  start.environment = environment;
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
      waitpid(child, &status, 0);
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

}  // namespace qpexam::packaged
