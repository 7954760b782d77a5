// What `qpexam bench` measures on a provider that is open: each function prints its lines and
// leaves its figures. Nothing is asserted; a loaded machine gives worse figures, so each is the
// best of several rounds.
#ifndef QPEXAM_HARNESS_COMMAND_BENCH_FIGURES_H_
#define QPEXAM_HARNESS_COMMAND_BENCH_FIGURES_H_

#include <map>
#include <string>

#include "harness/devices/provider_family.h"

namespace qpexam::bench {

using Figures = std::map<std::string, double>;  // name -> value, as Report::timing

// The reference's figures are there before the others', which are told as ratios to them.
constexpr const char* kYardstick = "reference";

struct Subject {
  DeviceSession* session;
  const ProviderInfo* info;
  double seconds;         // of each figure
  const Figures* before;  // what was measured earlier in this run
  Figures* found;
};

// Nanoseconds a request: built alone, and built, executed and polled.
void Posting(const Subject& subject);
// Microseconds of a pd, mr, two CQs, two QPs to RTS, 47 requests, and the end of all of it.
void LifeCycle(const Subject& subject);
// Programs of 20 calls a second, run and judged.
void Programs(const Subject& subject);
// How the above grow with the length of a Program, open objects, the depth of the send queue,
// threads; and what memory many Programs take.
void Growth(const Subject& subject);

// "2.3x" of what the reference took for the figure of this name; empty where it was not measured.
std::string OfReference(const Subject& subject, const std::string& figure, double value);

// The Program of 20 calls, in its text form.
const char* TwentyCalls();

}  // namespace qpexam::bench

#endif  // QPEXAM_HARNESS_COMMAND_BENCH_FIGURES_H_
