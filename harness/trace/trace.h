// Trace: what was observed when a Program ran, and all that the judge ever sees of a provider.
//
// One Event a Call, in the order the calls returned, then one Event of the end of the run. No
// handle, key value, QP number or address of the process appears: objects are named by the
// Program's ObjectId, so that two runs of the same Program print the same Trace.
//
// Events are plain; what varies in number (completions, memory, states, lints) lies in the Trace's
// own vectors and an Event holds a range of them. So a Trace that is cleared and filled again
// allocates nothing, which is what lets one core run and judge 200,000 programs a second.
#ifndef QPEXAM_HARNESS_TRACE_TRACE_H_
#define QPEXAM_HARNESS_TRACE_TRACE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/program/program.h"
#include "reference/model/types.h"

namespace qpexam {

// A completion queue as a Program names it: a cq object (side kNone), or the queue that a QP was
// given for one side ("a.send").
struct CqRef {
  ObjectId object = kNoObject;
  Side side = Side::kNone;
  friend bool operator==(CqRef a, CqRef b) { return a.object == b.object && a.side == b.side; }
};

// A work completion as the caller saw it. Fields that are not valid (anything but status, wr_id,
// qp and vendor_err on an error) are recorded as zero (WR-COMP-005).
struct SeenCompletion {
  uint64_t wr_id = 0;
  CqRef cq;                     // where it was found
  ObjectId qp = kNoObject;      // by qp_num; kNoObject where no live or dead QP has it
  ObjectId src_qp = kNoObject;  // UD
  ibv_wc_status status = IBV_WC_SUCCESS;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  uint32_t byte_len = 0;             // recorded where the opcode gives it a meaning
  uint32_t imm = 0;                  // the 4 bytes as delivered, big endian: 0x1234 is 0x1234
  ObjectId invalidated = kNoObject;  // the mw or mr whose key (upper 24 bits) was reported
  uint8_t invalidated_inc = 0;   // its low 8 bits, counted from the key the object was made with
  uint32_t invalidated_raw = 0;  // where no object has it
  unsigned wc_flags = 0;
  uint32_t vendor_err = 0;  // recorded, never judged
  uint16_t pkey_index = 0, slid = 0;
  uint8_t sl = 0, dlid_path_bits = 0;
};

// Bytes of an mr that differ from what was last recorded (a load: the bytes it asked for):
// [offset, offset + size) of the mr.
struct SeenMemory {
  ObjectId mr = kNoObject;
  uint64_t offset = 0;
  uint32_t first = 0, size = 0;  // in Trace::bytes
};

// State of a QP: by ibv_query_qp, and qp->state without a query. -1: not asked.
struct SeenState {
  ObjectId qp = kNoObject;
  int8_t state = -1;
  int8_t cached = -1;
};

// A value that a query returned: AttrField of harness/program/schema.h for a QP, the index into
// the list of names in trace_text.h (kQueriedNames) for device, port and SRQ.
struct SeenValue {
  uint16_t field = 0;
  uint64_t value = 0;
};

enum class Ran : uint8_t {
  kDone,     // the call was made; rc is what it returned
  kNotMade,  // an object it names could not be created or is gone: rc is 0 and means nothing
  kCut,      // the lint cut the Program here (UNDEFINED on any provider but the reference)
  kSkipped,  // this provider has no way to do it (fault and advance on a device)
};

// Event::call of the end of the run: everything has been let come to rest, every completion queue
// emptied, all memory and all states recorded.
inline constexpr uint32_t kEndOfRun = ~uint32_t{0};

struct Range {
  uint32_t first = 0, count = 0;
};

struct Event {
  uint32_t call = 0;  // index into Program::calls, or kEndOfRun
  Ran ran = Ran::kDone;
  bool settled = false;    // nothing can happen any more unless a further call is made
  bool timed_out = false;  // a wait ended by its bound ("none within T")
  bool has_async = false;  // get_async_event returned one: async_type says which
  // What the call returned. Creations: 0 = non-NULL, else errno. Calls that return nothing
  // (builders, setters, start, abort): 0. Polls: the last return value of the verbs function.
  int rc = 0;
  // Posts: index of bad_wr in its list; polls: completions returned.
  uint32_t count = 0;
  Range completions, memory, states, values, lints;
  // Creation of a QP: max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
  // of a CQ, resize_cq: cqe; of an SRQ: max_wr, max_sge.
  uint32_t granted[5] = {};
  // get_async_event: type and object; get_cq_event: the queue.
  ibv_event_type async_type{};
  CqRef event_of;
};

struct Trace {
  std::string provider;  // "reference", "hosted:rxe", ...
  std::string version;
  std::vector<Event> events;
  // How the run ended: empty, or "crash: SIGSEGV in ...", "hang: ...", "sanitizer: ...".
  std::string fatal;

  // What the ranges of the events lead into.
  std::vector<SeenCompletion> completions;
  std::vector<SeenMemory> memory;
  std::vector<SeenState> states;
  std::vector<SeenValue> values;
  std::vector<const char*> lints;  // the reference alone: clauses of UNDEFINED uses; static storage
  std::vector<uint8_t> bytes;      // of `memory`

  template <typename T>
  static model::Span<const T> Of(const std::vector<T>& all, Range r) {
    return {all.data() + r.first, r.count};
  }
  model::Span<const SeenCompletion> CompletionsOf(const Event& e) const {
    return Of(completions, e.completions);
  }
  model::Span<const SeenMemory> MemoryOf(const Event& e) const { return Of(memory, e.memory); }
  model::Span<const SeenState> StatesOf(const Event& e) const { return Of(states, e.states); }
  model::Span<const SeenValue> ValuesOf(const Event& e) const { return Of(values, e.values); }
  model::Span<const char* const> LintsOf(const Event& e) const { return Of(lints, e.lints); }
  model::Bytes BytesOf(const SeenMemory& m) const { return {bytes.data() + m.first, m.size}; }

  // Adds the events of another trace behind those of this one.
  void Append(const Trace& other);

  // Empties it and keeps the storage.
  void Clear() {
    events.clear();
    completions.clear();
    memory.clear();
    states.clear();
    values.clear();
    lints.clear();
    bytes.clear();
    fatal.clear();
  }
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_TRACE_TRACE_H_
