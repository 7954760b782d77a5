// Needs no model: the same requests by ibv_wr_* and by ibv_post_send() must be seen to do the same
// (WR-MIX-001). Only Programs without threads, in which both ways accept everything, compare: what
// a list that is refused half-way leaves behind differs by design (WR-MIX-007).
#include <algorithm>

#include "fuzzers/program_input.h"
#include "fuzzers/program_target.h"
#include "harness/program/lint.h"
#include "harness/program/mutate.h"
#include "harness/trace/trace_text.h"

namespace qpexam {
namespace {

bool AllAccepted(const Program& program, const Trace& trace) {
  return std::all_of(trace.events.begin(), trace.events.end(), [&](const Event& event) {
    if (event.call == kEndOfRun) return true;
    const CallKind kind = program.calls[event.call].kind;
    if (kind == CallKind::kComplete || kind == CallKind::kPostSend || kind == CallKind::kStart)
      return event.ran == Ran::kDone && event.rc == 0;
    return event.ran != Ran::kCut;
  });
}

// Completions in order, then the end's memory and states, without what names a call.
std::string Observed(const Program& program, const Trace& trace) {
  std::string out;
  for (const Event& event : trace.events) {
    for (const SeenCompletion& wc : trace.CompletionsOf(event))
      out += PrintCompletion(program, wc) + "\n";
    if (event.call == kEndOfRun) out += PrintEvent(program, trace, event);
  }
  return out;
}

}  // namespace
}  // namespace qpexam

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qpexam;
  static ProgramTarget target(QPEXAM_FUZZ_PROVIDER);
  const Program program = ProgramFromInput(data, size);
  for (const Call& call : program.calls)
    if (call.kind == CallKind::kThread || call.kind == CallKind::kParallel) return 0;
  if (FirstUndefined(program)) return 0;
  Program posted = program;
  Random random(size + 1);
  bool changed = false;
  for (int i = 0; i < 64 && Apply(Mutation::kPostInstead, &random, &posted); i++) changed = true;
  if (!changed || FirstUndefined(posted)) return 0;
  const Trace& trace = target.Run(program);
  if (!AllAccepted(program, trace)) return 0;
  const std::string built = Observed(program, trace);
  if (!AllAccepted(posted, target.Run(posted))) return 0;
  const std::string listed = Observed(posted, target.Run(posted));
  if (built != listed)
    Fail(program, "FINDING equality: by ibv_wr_*\n" + built + "by ibv_post_send()\n" + listed);
  return 0;
}
