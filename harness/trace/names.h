// The words of <infiniband/verbs.h> for what a Trace holds, without the IBV_ prefix: shared by the
// text form, the JSON form and the reports.
#ifndef QPEXAM_HARNESS_TRACE_NAMES_H_
#define QPEXAM_HARNESS_TRACE_NAMES_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/trace/trace.h"

namespace qpexam {

// "SUCCESS", "RNR_RETRY_EXC_ERR"; a number where this header has no name for the value.
std::string WcStatusWord(int status);
std::optional<int> WcStatusFromWord(std::string_view word);

// "SEND", "RECV_RDMA_WITH_IMM".
std::string WcOpcodeWord(int opcode);
std::optional<int> WcOpcodeFromWord(std::string_view word);

// "WITH_IMM|GRH"; "0" for none.
std::string WcFlagsWord(unsigned flags);
std::optional<unsigned> WcFlagsFromWord(std::string_view word);

// "RESET" ... "ERR"; "-" for -1 (not asked).
std::string QpStateWord(int state);
std::optional<int> QpStateFromWord(std::string_view word);

// "COMM_EST", "SRQ_LIMIT_REACHED".
std::string AsyncEventWord(int type);
std::optional<int> AsyncEventFromWord(std::string_view word);

// "EINVAL"; a number where the table has none. 0 is "0".
std::string ErrnoWord(int err);
std::optional<int> ErrnoFromWord(std::string_view word);

// "done", "not-made", "cut", "skipped".
std::string_view RanWord(Ran ran);
std::optional<Ran> RanFromWord(std::string_view word);

// "a", "a.send", "a.recv"; "-" for none.
std::string ObjectWord(const Program& program, ObjectId object);
std::string CqWord(const Program& program, CqRef cq);
std::optional<ObjectId> ObjectFromWord(const Program& program, std::string_view word);
std::optional<CqRef> CqFromWord(const Program& program, std::string_view word);

// Names of what query_device, query_port, query_pkey and query_srq record, by SeenValue::field.
enum class Queried : uint16_t {
  kMaxQpWr,
  kMaxSge,
  kMaxSgeRd,
  kMaxCqe,
  kMaxSrqWr,
  kMaxQpRdAtom,
  kDeviceCapFlags,
  kAtomicCap,
  kMaxTso,
  kPortState,
  kActiveMtu,
  kMaxMsgSz,
  kSrqMaxWr,
  kSrqMaxSge,
  kSrqLimit,
  kPkey,
  kCount,
};
std::string_view QueriedWord(Queried what);
std::optional<Queried> QueriedFromWord(std::string_view word);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_TRACE_NAMES_H_
