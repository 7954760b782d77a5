// The text form of a Trace, and its inverse.
//
//   qpexam-trace 1
//   provider reference 56.1
//   program
//   | qp a rc
//   | ...
//   events
//   @0 rc=0 granted=16,16,1,1,0                      # qp a rc
//   @7 rc=1 count=1                                  # poll a.send
//     wc cq=a.send qp=a wr_id=1 status=SUCCESS opcode=RDMA_WRITE
//     mem mr=dst offset=0 bytes=5a5a5a5a
//     state qp=a state=RTS cached=RTS
//     value qp_state=3
//     lint WR-SET-002
//   @end settled
//   fatal crash: SIGSEGV
//
// A field that has its usual value (ran=done, rc=0, count=0, an empty list) is left out. What
// follows " # " on a line is for people. The Program is inside, so that a trace file can be judged
// on another machine than the one that ran it. The same Trace always prints the same.
#ifndef QPEXAM_HARNESS_TRACE_TRACE_TEXT_H_
#define QPEXAM_HARNESS_TRACE_TRACE_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/trace/trace.h"

namespace qpexam {

struct TraceFile {
  Program program;
  Trace trace;
};

// What is wrong with a trace file, where, and what would be right.
struct TraceError {
  uint32_t line = 0;  // from 1; 0: the file as a whole
  std::string what;
  std::string remedy;
  // "FILE:LINE: what; remedy"
  std::string ToString(std::string_view file) const;
};

std::string PrintTrace(const Program& program, const Trace& trace);
// One event with its lists, as above: for messages.
std::string PrintEvent(const Program& program, const Trace& trace, const Event& event);
// One completion, "cq=a.send qp=a wr_id=1 status=SUCCESS opcode=RDMA_WRITE".
std::string PrintCompletion(const Program& program, const SeenCompletion& completion);

// Whether it tells of a run up to its end: what was cut short in a file is no observation.
bool IsWhole(const Trace& trace);

// Empty on success; `file` is then whole, otherwise unspecified.
std::optional<TraceError> ParseTrace(std::string_view text, TraceFile* file);

// The JSON form, {"schema": "qpexam-trace/1", ...}, and its inverse.
std::string TraceToJson(const Program& program, const Trace& trace);
std::optional<TraceError> ParseTraceJson(std::string_view text, TraceFile* file);

// Either form, told apart by the first byte that is not a space.
std::optional<TraceError> ReadTrace(std::string_view text, TraceFile* file);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_TRACE_TRACE_TEXT_H_
