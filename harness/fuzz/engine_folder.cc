#include "harness/fuzz/engine_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <vector>

#include "harness/program/print.h"

namespace qpexam {
namespace {

constexpr char kNote[] = "# finding";

}  // namespace

std::string EngineFolder::KnownName(const FindingKey& key) {
  return key.clause.empty() ? key.kind : key.kind + " " + key.clause;
}

std::set<std::string> EngineFolder::ReadKnown() const {
  std::set<std::string> known;
  std::ifstream in(KnownFile());
  for (std::string line; std::getline(in, line);) known.insert(line);
  return known;
}

void EngineFolder::AddCounts(const std::map<std::string, uint64_t>& counts) const {
  std::string text;
  for (const auto& [name, count] : counts) text += name + "\t" + std::to_string(count) + "\n";
  if (text.empty()) return;
  // One write, so that processes that end together do not mix their lines.
  const int fd = open(CountsFile().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  if (write(fd, text.data(), text.size()) < 0) std::perror(CountsFile().c_str());
  close(fd);
}

std::map<std::string, uint64_t> EngineFolder::ReadCounts() const {
  std::map<std::string, uint64_t> counts;
  std::ifstream in(CountsFile());
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    counts[line.substr(0, tab)] += std::strtoull(line.c_str() + tab + 1, nullptr, 10);
  }
  return counts;
}

void EngineFolder::KeepFound(const FindingKey& key, const Program& program) const {
  const std::string file = FoundFolder() + "/" + key.Id() + ".qpx";
  if (access(file.c_str(), F_OK) == 0) return;
  std::string text = PrintProgram(program, Notes::kDrop);
  text.insert(text.find('\n') + 1, FindingNote(key));
  // Whole or not at all, for whoever looks while the engine runs.
  const std::string part = file + "." + std::to_string(getpid());
  std::ofstream(part, std::ios::binary) << text;
  std::rename(part.c_str(), file.c_str());
}

std::string FindingNote(const FindingKey& key) {
  return std::string(kNote) + "\t" + key.kind + "\t" + key.clause + "\t" + key.call + "\t" +
         key.place + "\n";
}

std::optional<FindingKey> KeyInNote(const std::string& text) {
  const size_t at = text.find(std::string("\n") + kNote + "\t");
  if (at == std::string::npos) return std::nullopt;
  const size_t start = at + 1 + sizeof(kNote);
  std::istringstream line(text.substr(start, text.find('\n', start) - start));
  FindingKey key;
  std::getline(line, key.kind, '\t');
  std::getline(line, key.clause, '\t');
  std::getline(line, key.call, '\t');
  std::getline(line, key.place, '\t');
  return key;
}

}  // namespace qpexam
