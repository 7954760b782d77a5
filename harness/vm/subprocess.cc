#include "harness/vm/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace qpexam::vm {

ToolEnd RunTool(const std::vector<std::string>& arguments, const std::string& folder,
                bool stdout_alone) {
  ToolEnd end;
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) return end;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    const int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(fds[1], 1);
    dup2(stdout_alone ? null : fds[1], 2);
    if (!folder.empty() && chdir(folder.c_str())) _exit(127);
    setenv("LC_ALL", "C", 1);
    setenv("DEBIAN_FRONTEND", "noninteractive", 1);
    std::vector<char*> argv;
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(fds[1]);
  if (child > 0) {
    char bytes[1 << 16];
    while (true) {
      const ssize_t n = read(fds[0], bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      end.output.append(bytes, static_cast<size_t>(n));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  close(fds[0]);
  return end;
}

std::string FindProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string places = std::string(path ? path : "") + ":/usr/bin:/usr/sbin:/sbin";
  for (size_t at = 0; at <= places.size();) {
    const size_t end = std::min(places.find(':', at), places.size());
    const std::string file = places.substr(at, end - at) + "/" + name;
    if (end > at && access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return "";
}

TemporaryFolder::TemporaryFolder(const std::string& below) {
  const char* tmp = std::getenv("TMPDIR");
  std::string path = (!below.empty() ? below : tmp && *tmp ? tmp : "/tmp") + "/qpexam-vm-XXXXXX";
  if (mkdtemp(path.data())) path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (ok()) std::filesystem::remove_all(path_, ignored);
}

bool ReadWhole(const std::string& path, std::string* bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  return !file.bad();
}

bool WriteWhole(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  return file.good();
}

}  // namespace qpexam::vm
