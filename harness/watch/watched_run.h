// Runs Programs on a provider in a child process that lives as long as the provider lets it.
//
// A provider that crashes, hangs or corrupts memory is a finding, not the end of the run. The child
// takes the whole batch; before each Program (and each call) it writes into shared memory where it
// is, and sends what it found through a pipe. The parent watches only that: when the child dies or
// stands still, it reads the record and what the child wrote on stderr (a sanitizer's report),
// makes a result of it, and starts the next child behind that Program.
//
// No child outlives its parent (PR_SET_PDEATHSIG).
#ifndef QPEXAM_HARNESS_WATCH_WATCHED_RUN_H_
#define QPEXAM_HARNESS_WATCH_WATCHED_RUN_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/devices/provider_family.h"
#include "harness/judge/judge.h"
#include "harness/program/program.h"
#include "harness/trace/trace.h"

namespace qpexam {

enum class Ended : uint8_t {
  kWell,
  kCrash,      // a signal, or an exit that nobody asked for
  kHang,       // no call returned within the bound
  kSanitizer,  // a sanitizer ended the process
  kOurs,       // the same, but in the judge: a fault of qpexam, never held against a provider
};

// What became of one Program.
struct RunResult {
  size_t index = 0;  // into the batch
  judge::Verdict verdict;
  Ended ended = Ended::kWell;
  std::string fatal;        // "crash: SIGSEGV in line 12: complete a", with the report behind it
  uint32_t fatal_call = 0;  // index into the Program's calls
  // The lint's cut: calls from here on were not made, and why. ~0: none.
  uint32_t cut_at = ~uint32_t{0};
  std::string cut_why;
  // Calls that were not made since an object they name is not there, and the first creation that
  // the provider refused (~0: none): what such a Program says of the provider, it says in part.
  uint32_t not_made = 0;
  uint32_t refused = ~uint32_t{0};
  int refused_with = 0;               // the errno
  uint64_t nanoseconds = 0;           // run and judged
  std::vector<SessionFinding> below;  // seen below libibverbs (hosted)
  std::string trace;                  // its text form, where asked for
};

// Fills in not_made, refused and refused_with.
void NoteNotMade(const Program& program, const Trace& trace, RunResult* result);

struct WatchOptions {
  bool keep_objects = false;
  bool want_trace = false;
  // Cut Programs of several threads before an UNDEFINED use on the reference as well: these may
  // then wait for each other for ever.
  bool cut_parallel = false;
  bool cut_undefined = false;   // ... every Program
  bool lints_expected = false;  // UNDEFINED uses are part of what is tried (the reference)
  std::chrono::milliseconds stall{10000};
  const std::atomic<bool>* stop = nullptr;  // set: end the child and return
  // Results in which `send` finds nothing stay in the child: for runs of millions of Programs.
  bool (*send)(const RunResult&) = nullptr;
  // Where the count of Programs begun so far is kept for others to read.
  std::atomic<uint64_t>* begun = nullptr;
};

// Runs all of `programs`; `on_result` is called for each, in order, except for those after a stop.
// Returns an empty string, or why the provider could not be opened.
std::string RunWatched(const ProviderInfo& provider, const std::vector<Program>& programs,
                       const WatchOptions& options,
                       const std::function<void(RunResult&&)>& on_result);

// The same for `count` Programs that `program` makes, in the child as well as here: the same for
// the same index, whenever asked.
std::string RunWatched(const ProviderInfo& provider, size_t count,
                       const std::function<Program(size_t)>& program, const WatchOptions& options,
                       const std::function<void(RunResult&&)>& on_result);

// How the judge is set for this provider.
judge::JudgeOptions JudgingOf(const ProviderInfo& provider);

// A clause as static storage, for results that come from another process or a file.
const char* KeepClause(std::string_view clause);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_WATCH_WATCHED_RUN_H_
