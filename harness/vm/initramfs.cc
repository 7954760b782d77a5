#include "harness/vm/initramfs.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

namespace qpexam::vm {
namespace {
constexpr uint32_t kFolder = 0040755, kSymlink = 0120777;
}  // namespace

void Cpio::Entry(std::string_view path, uint32_t mode, std::string_view bytes) {
  // newc: a magic and 13 numbers of 8 hexadecimal digits, the name and its 0, the bytes; name and
  // bytes end at multiples of 4.
  char head[6 + 13 * 8 + 1];
  std::snprintf(head, sizeof head, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
                inode_++, mode, 0u, 0u, 1u, 0u, static_cast<unsigned>(bytes.size()), 0u, 0u, 0u, 0u,
                static_cast<unsigned>(path.size() + 1), 0u);
  bytes_ += head;
  bytes_ += path;
  bytes_ += '\0';
  bytes_.resize((bytes_.size() + 3) & ~size_t{3});
  bytes_ += bytes;
  bytes_.resize((bytes_.size() + 3) & ~size_t{3});
}

void Cpio::Folders(std::string_view path) {
  for (size_t at = path.find('/'); at != std::string_view::npos; at = path.find('/', at + 1)) {
    const std::string_view folder = path.substr(0, at);
    if (folder.empty() || made_.count(folder)) continue;
    made_[std::string(folder)] = true;
    Entry(folder, kFolder, "");
  }
}

void Cpio::AddFile(std::string_view path, std::string_view bytes, bool executable) {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  if (made_.count(path)) return;
  Folders(path);
  made_[std::string(path)] = true;
  Entry(path, executable ? 0100755 : 0100644, bytes);
}

void Cpio::AddSymlink(std::string_view path, std::string_view target) {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  if (made_.count(path)) return;
  Folders(path);
  made_[std::string(path)] = true;
  Entry(path, kSymlink, target);
}

std::string Cpio::Finish() {
  Entry("TRAILER!!!", 0, "");
  bytes_.resize((bytes_.size() + 511) & ~size_t{511});
  made_.clear();
  return std::move(bytes_);
}

std::vector<std::string> ModInfo(std::string_view module, std::string_view key) {
  const std::string mark = std::string(1, '\0') + std::string(key) + "=";
  std::vector<std::string> names;
  for (size_t at = module.find(mark); at != std::string_view::npos;
       at = module.find(mark, at + 1)) {
    std::string_view value = module.substr(at + mark.size());
    value = value.substr(0, value.find('\0'));
    while (!value.empty()) {
      const size_t comma = std::min(value.find_first_of(", "), value.size());
      if (comma > 0) names.emplace_back(value.substr(0, comma));
      value.remove_prefix(std::min(comma + 1, value.size()));
    }
  }
  return names;
}

std::string ModuleName(std::string_view file) {
  std::string name(file.substr(file.rfind('/') + 1));
  name = name.substr(0, name.find(".ko"));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<std::string> LoadOrder(const std::vector<std::string>& wanted,
                                   const std::map<std::string, std::vector<std::string>>& depends) {
  std::vector<std::string> order;
  std::set<std::string> visited;
  std::function<void(const std::string&)> visit = [&](const std::string& name) {
    const auto found = depends.find(ModuleName(name));
    if (found == depends.end() || !visited.insert(found->first).second) return;
    for (const std::string& below : found->second) visit(below);
    order.push_back(found->first);
  };
  for (const std::string& name : wanted) visit(name);
  return order;
}

}  // namespace qpexam::vm
