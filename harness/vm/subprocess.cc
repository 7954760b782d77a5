#include "harness/vm/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/process/process.h"

namespace qpexam::vm {

ToolEnd RunTool(const std::vector<std::string>& arguments, const std::string& folder,
                bool stdout_alone) {
  ToolEnd end;
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) return end;
  ProcessStart start;
  start.arguments = arguments;
  start.environment = {"LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"};
  start.folder = folder;
  start.output = fds[1];
  start.errors = !stdout_alone;
  start.own_group = false;
  start.when_we_end = SIGKILL;
  const pid_t child = StartProcess(start);
  close(fds[1]);
  if (child > 0) {
    char bytes[1 << 16];
    while (true) {
      const ssize_t n = read(fds[0], bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      end.output.append(bytes, static_cast<size_t>(n));
    }
    end.status = WaitForProcess(child);
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
