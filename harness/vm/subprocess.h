// Tools of the machine (apt-get, dpkg-deb, xz) run to their end.
#ifndef QPEXAM_HARNESS_VM_SUBPROCESS_H_
#define QPEXAM_HARNESS_VM_SUBPROCESS_H_

#include <string>
#include <vector>

namespace qpexam::vm {

struct ToolEnd {
  int status = -1;     // of the tool; 127 where there is none
  std::string output;  // both streams; stdout alone where `quiet`
};
// Runs it in `folder` (empty: here), with an empty stdin. The tool dies with us.
ToolEnd RunTool(const std::vector<std::string>& arguments, const std::string& folder,
                bool stdout_alone = false);

// The path of a program of $PATH and the sbin folders; empty where there is none.
std::string FindProgram(const std::string& name);

// A folder of its own below the temporary folder, gone with this.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& below = "");
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  bool ok() const { return !path_.empty(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

bool ReadWhole(const std::string& path, std::string* bytes);
bool WriteWhole(const std::string& path, const std::string& bytes);

}  // namespace qpexam::vm

#endif  // QPEXAM_HARNESS_VM_SUBPROCESS_H_
