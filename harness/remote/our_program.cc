#include "harness/remote/our_program.h"

#include <unistd.h>

#include <filesystem>

namespace qpexam::remote {

std::string FindOurProgram(const std::string& in_tree, const std::string& installed) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  for (const fs::path& place :
       {fs::path(self.string() + ".runfiles/qpexam") / in_tree,
        self.parent_path().parent_path() / in_tree, self.parent_path() / installed,
        self.parent_path().parent_path() / "lib/qpexam" / installed})
    if (access(place.c_str(), X_OK) == 0) return fs::canonical(place, ignored);
  return "";
}

std::string ExecutorProgram() {
  return FindOurProgram("harness/remote/executor_sys", "qpexam-executor");
}
std::string SuitesProgram() {
  return FindOurProgram("conformance/conform_sys", "qpexam-suites-sys");
}

}  // namespace qpexam::remote
