// What is known of a provider, as data: conformance/expectations.tsv for the suites,
// corpus/expectations.tsv for the Programs of `qpexam check`.
//
// A run fails on a failure that no entry expects, on an entry whose test passes, and on an entry
// that nothing used, so the file stays true.
#ifndef QPEXAM_HARNESS_CONFORM_EXPECTATIONS_H_
#define QPEXAM_HARNESS_CONFORM_EXPECTATIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/conform/suite_process.h"

namespace qpexam::conform {

struct Expectation {
  std::string provider;  // "hosted:rxe"
  std::string from, to;  // versions, both included; empty: open
  std::string clause;    // "WR-SGE-001"
  std::string test;      // a test's or a Program's name; each * in it stands for anything
  // violation|warning|crash|hang|undecided; for Programs also the kinds of findings below
  // libibverbs: wqe|cqe|lock|residue|kernel|sanitizer
  std::string verdict;
  bool sometimes = false;  // "violation?": the order of threads decides, so that it need not happen
  std::string reason, link;
  int line = 0;  // of the file
};

// Bounds on what may be skipped, by provider: more skips than that fail the run.
struct SkipBound {
  std::string provider;
  size_t most = 0;
  int line = 0;
};

struct Expectations {
  std::vector<Expectation> entries;
  std::vector<SkipBound> skips;
};

// Tab-separated: provider, versions ("*", "44.0..56.1", "..56.1"), clause ("-": none), test,
// verdict (a ? after it: the order of threads decides, so that it need not happen in a run),
// reason, link. A line "skips<TAB>provider<TAB>N" is a bound. # starts a comment. False with *why:
// file, line and what would be right.
bool ParseExpectations(std::string_view text, const std::string& file, Expectations* out,
                       std::string* why);

// True where `version` (such as "56.1") lies in the entry's range. A bound speaks of all that
// begins with it: "6.1" of 6.1.192.
bool InRange(const Expectation& entry, std::string_view version);
// Whether an entry speaks of a provider in that version. What is known of a library as it is built
// from source (hosted:NAME) excuses the installed one (packaged:NAME) as well, and that of a guest
// (vm:NAME, whose version is the kernel's and, behind a slash, the library's: "6.1.192/44.0");
// nothing is missed where that does not show it, since locks, for one, are not watched there.
// An entry for vm:NAME is keyed on the kernel, and speaks of vm:NAME@SERIES too.
enum class Bearing : uint8_t { kNone, kSameLibrary, kOwn };
Bearing BearingOn(const Expectation& entry, std::string_view provider, std::string_view version);
// Compares dotted numbers: negative, zero or positive.
int CompareVersions(std::string_view a, std::string_view b);

struct Surprise {
  enum Kind {
    kUnexpectedFailure,
    kUnexpectedWarning,
    kUnexpectedPass,
    kUnused,
    kTooManySkips
  } kind;
  std::string clause, test, what;
};

// Whether a warning that no entry expects fails a run, as a violation does: --strict.
enum class Warnings : uint8_t { kTold, kFail };

// What was expected of a test and a clause: the entry that says so.
using KnownDeviations = std::map<std::pair<std::string, std::string>, const Expectation*>;

// What of a run contradicts the expectations. `whole`: every test ran, so that unused entries and
// skips can be judged. Expected failures are in *expected, which points into `expectations`.
std::vector<Surprise> Compare(const Expectations& expectations, const SuiteRun& run,
                              std::string_view provider, std::string_view version, bool whole,
                              KnownDeviations* expected, Warnings warnings = Warnings::kTold);

// What a Program did, in the words of the entries.
struct ProgramResult {
  std::string name;
  struct Finding {
    std::string clause, verdict, what;
    const Expectation* known = nullptr;  // filled by ComparePrograms()
  };
  std::vector<Finding> findings;
  // The entry that expects such a finding; nullptr: none does.
  const Expectation* Known(std::string_view clause, std::string_view verdict) const;
  // Whether there are failures, and all of them are expected.
  bool AllKnown() const;
};

// The same for Programs: marks what is expected, and returns what contradicts the expectations.
// Warnings and undecided ones need no entry, but an entry for them must be used too.
std::vector<Surprise> ComparePrograms(const Expectations& expectations, std::string_view provider,
                                      std::string_view version, bool whole,
                                      std::vector<ProgramResult>* programs);

}  // namespace qpexam::conform

#endif  // QPEXAM_HARNESS_CONFORM_EXPECTATIONS_H_
