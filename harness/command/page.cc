#include "harness/command/page.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "conformance/catalogue/catalogue.h"

namespace qpexam {

bool OpenPage(const std::string& folder, OutputFile* file) {
  if (folder.empty()) return true;
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    Say(fmt::format("{}: cannot be made: {}; --html takes a folder that can be written", folder,
                    std::strerror(errno)));
    return false;
  }
  return file->Open(folder + "/index.html");
}

std::vector<PageClause> PageClauses() {
  std::vector<PageClause> all;
  for (const catalogue::Clause& c : catalogue::All())
    all.push_back({std::string(c.id), std::string(c.group), std::string(catalogue::Name(c.level)),
                   std::string(catalogue::Name(c.confidence)),
                   std::string(catalogue::Name(c.layer)), std::string(c.statement),
                   std::string(c.source)});
  return all;
}

}  // namespace qpexam
