// Trace: what was observed when a Program ran, and all that the judge ever sees of a provider.
//
// One Event a Call, in the order the calls returned, plus events between calls (a settle). No
// handle, key value, QP number or address of the process appears: objects are named by the
// Program's ObjectId, so that two runs of the same Program print the same Trace.
#ifndef QPEXAM_HARNESS_TRACE_TRACE_H_
#define QPEXAM_HARNESS_TRACE_TRACE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/program/program.h"

namespace qpexam {

// A work completion as the caller saw it. Fields that are not valid (anything but status, wr_id,
// qp and vendor_err on an error) are recorded as zero (WR-COMP-005).
struct SeenCompletion {
  uint64_t wr_id = 0;
  ibv_wc_status status = IBV_WC_SUCCESS;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  uint32_t byte_len = 0;
  uint32_t imm = 0;                  // network order, as delivered
  ObjectId invalidated = kNoObject;  // the mw or mr whose key was reported
  uint32_t invalidated_raw = 0;      // where no object has it
  unsigned wc_flags = 0;
  ObjectId qp = kNoObject;      // by qp_num; kNoObject where no live or dead QP has it
  ObjectId src_qp = kNoObject;  // UD
  uint32_t vendor_err = 0;      // recorded, never judged
};

// Bytes of an mr that differ from what was last recorded: [offset, offset + bytes.size()).
struct SeenMemory {
  ObjectId mr = kNoObject;
  uint64_t offset = 0;
  std::vector<uint8_t> bytes;
};

enum class SeenAsync : uint8_t { kQp, kCq, kSrq, kDevice };

enum class Ran : uint8_t {
  kDone,     // the call was made; rc is what it returned
  kNotMade,  // an object it names could not be created: rc is 0 and means nothing
  kCut,      // the lint cut the Program here (UNDEFINED on any provider but the reference)
  kSkipped,  // the provider lacks it (creation returned NULL: not applicable)
};

struct Event {
  uint32_t call = 0;  // index into Program::calls
  Ran ran = Ran::kDone;
  int rc = 0;          // return value; creations: 0 = non-NULL, else errno
  uint32_t count = 0;  // posts: index of bad_wr; polls: completions returned
  std::vector<SeenCompletion> completions;
  std::vector<SeenMemory> memory;
  // query_qp, modify (afterwards), settle: state of a QP as ibv_query_qp reports it
  int qp_state = -1;
  int qp_state_cached = -1;  // qp->state without a query
  uint32_t granted[5] =
      {};  // creation: max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline
  ibv_event_type async_type{};  // get_async_event
  ObjectId async_object = kNoObject;
  std::vector<const char*> lints;  // the reference alone: clauses of UNDEFINED uses
  bool settled = false;            // nothing can happen any more unless a further call is made
  bool timed_out = false;          // a wait ended by its bound ("none within T")
};

struct Trace {
  std::string provider;  // "reference", "hosted:rxe", ...
  std::string version;
  std::vector<Event> events;
  // How the run ended: empty, or "crash: SIGSEGV in ...", "hang: ...", "sanitizer: ...".
  std::string fatal;
};

// Stable text and JSON forms (trace_text.cc); Parse* are their inverses and report line and
// remedy.
std::string PrintTrace(const Program& program, const Trace& trace);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_TRACE_TRACE_H_
