#include "harness/process/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace qpexam {
namespace {

// In the child: after a fork() of a process with threads nothing here may wait for one of them, so
// `argv` is made before.
[[noreturn]] void Become(const ProcessStart& start, char* const* argv, pid_t parent) {
  if (start.own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, start.when_we_end);
  if (getppid() != parent) _exit(127);
  const int null = open("/dev/null", O_RDWR);
  const int out =
      start.log.empty()
          ? start.output
          : open(start.log.c_str(), O_WRONLY | O_CREAT | (start.append ? O_APPEND : O_TRUNC), 0600);
  if (null < 0 || (!start.log.empty() && out < 0)) _exit(127);
  dup2(null, 0);
  dup2(out < 0 ? null : out, 1);
  dup2(out < 0 || !start.errors ? null : out, 2);
  if (!start.folder.empty() && chdir(start.folder.c_str())) _exit(127);
  for (const std::string& name : start.without) unsetenv(name.c_str());
  for (const std::string& entry : start.environment) putenv(const_cast<char*>(entry.c_str()));
  execvp(argv[0], argv);
  dprintf(2, "%s: cannot be started: %s\n", argv[0], std::strerror(errno));
  _exit(127);
}

}  // namespace

pid_t StartProcess(const ProcessStart& start) {
  std::vector<char*> argv;
  for (const std::string& argument : start.arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) Become(start, argv.data(), parent);
  // Here as well, so that the group is there as soon as we are back.
  if (child > 0 && start.own_group) setpgid(child, child);
  return child;
}

int ShellStatus(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

int WaitForProcess(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 127;
  }
  return ShellStatus(status);
}

std::string LastLines(const std::string& text, size_t count) {
  size_t at = text.size();
  if (at > 0 && text[at - 1] == '\n') at--;
  for (; count > 0; count--) {
    if (at == 0) return text;
    at = text.rfind('\n', at - 1);
    if (at == std::string::npos) return text;
  }
  return text.substr(at + 1);
}

}  // namespace qpexam
