#include "harness/hosted/testing/known_findings.h"

#include <rdma_core_version.h>

#include <cstdlib>

namespace qpexam::hosted {
namespace {

// 56.1 as 56001, so that versions compare as numbers.
int Number(const std::string& version) {
  char* end = nullptr;
  const long major = std::strtol(version.c_str(), &end, 10);
  const long minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return static_cast<int>(major * 1000 + minor);
}

}  // namespace

bool HasBug(const KnownFinding& known) {
  const int version = Number(RDMA_CORE_VERSION);
  if (*known.first != 0 && version < Number(known.first)) return false;
  return *known.fixed == 0 || version < Number(known.fixed);
}

std::string CheckKnown(const KnownFinding& known, const std::vector<SeamFinding>& findings) {
  std::string seen;
  for (const SeamFinding& f : findings) seen += "\n  " + f.kind + " " + f.clause + ": " + f.what;
  const std::string version = std::string(" on rdma-core ") + RDMA_CORE_VERSION;
  if (!HasBug(known)) {
    return findings.empty() ? "" : std::string(known.id) + " is fixed" + version + ", but" + seen;
  }
  for (const SeamFinding& f : findings) {
    if (f.kind != known.kind || f.clause != known.clause ||
        f.what.find(known.what) == std::string::npos) {
      return "besides " + std::string(known.id) + version + seen;
    }
  }
  return findings.empty() ? std::string(known.id) + " was not found" + version : "";
}

}  // namespace qpexam::hosted
