// What the seam oracle must say about a minimal program on a version of rdma-core that has a known
// bug, and that it must say nothing on a version that has not.
#ifndef QPEXAM_HARNESS_HOSTED_TESTING_KNOWN_FINDINGS_H_
#define QPEXAM_HARNESS_HOSTED_TESTING_KNOWN_FINDINGS_H_

#include <string>
#include <vector>

#include "harness/hosted/hosted_provider.h"

namespace qpexam::hosted {

struct KnownFinding {
  const char* id;
  // The range of versions that have it: [first, fixed). "" is open.
  const char* first;
  const char* fixed;
  const char* kind;
  const char* clause;
  const char* what;  // a part of the finding's text
};

// Whether the rdma-core of this build has it.
bool HasBug(const KnownFinding& known);

// "" where `findings` are what this version should give: exactly this one kind of finding, or none.
// Otherwise a message for the test.
std::string CheckKnown(const KnownFinding& known, const std::vector<SeamFinding>& findings);

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_TESTING_KNOWN_FINDINGS_H_
