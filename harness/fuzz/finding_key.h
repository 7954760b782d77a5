// What makes two findings the same finding: kind, clause, the kind of call, and its place.
#ifndef QPEXAM_HARNESS_FUZZ_FINDING_KEY_H_
#define QPEXAM_HARNESS_FUZZ_FINDING_KEY_H_

#include <string>
#include <vector>

#include "harness/watch/watched_run.h"

namespace qpexam {

struct FindingKey {
  std::string kind;    // "violation", "wqe", "crash", "hang", "sanitizer", "internal"
  std::string clause;  // may be empty
  std::string call;    // "poll", "rdma_write"; "end" for the end of a run
  std::string place;   // type of the queue pair; of a sanitizer's report the function
  friend bool operator==(const FindingKey& a, const FindingKey& b) {
    return a.kind == b.kind && a.clause == b.clause && a.call == b.call && a.place == b.place;
  }
  friend bool operator<(const FindingKey& a, const FindingKey& b) { return a.Text() < b.Text(); }
  // "violation WR-COMP-001 poll rc"
  std::string Text() const;
  // The folder's name under findings/: "violation-WR-COMP-001-poll-rc".
  std::string Id() const;
};

// Each once, the fatal one first. Nothing for a run that only has warnings, variations, or
// what the emulation decided.
std::vector<FindingKey> KeysOf(const Program& program, const RunResult& result);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_FUZZ_FINDING_KEY_H_
