// What `qpexam fuzz` and a fuzz target that an engine drives tell each other, by files: the command
// makes the folder and names it in the target's environment.
#ifndef QPEXAM_HARNESS_FUZZ_ENGINE_FOLDER_H_
#define QPEXAM_HARNESS_FUZZ_ENGINE_FOLDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "harness/fuzz/finding_key.h"

namespace qpexam {

// The folder, and the provider in place of the one that the target was built for.
constexpr char kEngineFolderVariable[] = "QPEXAM_FUZZ_FOLDER";
constexpr char kEngineProviderVariable[] = "QPEXAM_FUZZ_PROVIDER";

class EngineFolder {
 public:
  explicit EngineFolder(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // Deviations that are stepped over: "kind clause" each.
  std::string KnownFile() const { return path_ + "/known"; }
  // Lines "kind clause<TAB>count", one a process and deviation.
  std::string CountsFile() const { return path_ + "/counts"; }
  // A byte for each point of the provider's code (fuzzers/provider_coverage.h).
  std::string CoverageFile() const { return path_ + "/coverage"; }
  // One Program a finding, by FindingKey::Id().
  std::string FoundFolder() const { return path_ + "/found"; }

  // What one entry of the first two files is about.
  static std::string KnownName(const FindingKey& key);

  std::set<std::string> ReadKnown() const;
  void AddCounts(const std::map<std::string, uint64_t>& counts) const;
  std::map<std::string, uint64_t> ReadCounts() const;
  // Keeps the Program unless one of that finding is there.
  void KeepFound(const FindingKey& key, const Program& program) const;

 private:
  std::string path_;
};

// The second line of a kept Program says of which finding it is.
std::string FindingNote(const FindingKey& key);
std::optional<FindingKey> KeyInNote(const std::string& text);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_FUZZ_ENGINE_FOLDER_H_
