#include "harness/packaged/launch.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "harness/hosted/fit_defaults.h"
#include "harness/packaged/environment.h"
#include "harness/packaged/place.h"
#include "harness/process/process.h"
#include "harness/remote/process_machine.h"

namespace qpexam::packaged {
namespace {

using remote::MachineEnd;
using remote::MachineJob;

constexpr int kNotFound = 127, kNotExecutable = 126;

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
  if (preload.empty()) return end.why = remote::kToolsNotBuilt, end;
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
  if (preload.empty()) return end.why = remote::kToolsNotBuilt, end;
  const DeviceFolder folder(kind_.make_model()->traits());
  if (!folder.ok()) {
    end.why = "no room for temporary files; set TMPDIR to a folder that has some";
    return end;
  }
  remote::ProcessJob place;
  place.folder = folder.path();
  place.device = folder.device();
  place.environment = Environment(kind_.name, folder, preload, folder.path() + "/findings");
  return remote::RunAsProcess(job, place);
}

}  // namespace qpexam::packaged
