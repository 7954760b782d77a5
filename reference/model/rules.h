// The rules of requester and responder as pure functions: facts in, the set of allowed outcomes
// out. The engine takes one member (a Chooser decides which), the judge looks whether what a
// provider did is a member. So no rule is written twice.
//
// Outcome 0 of every set is the reference's way. An outcome whose level is kShould is allowed but
// is a warning ("SHOULD broken"); kMust and kMay are plain; what is in no outcome is a violation
// of the set's clause.
#ifndef QPEXAM_REFERENCE_MODEL_RULES_H_
#define QPEXAM_REFERENCE_MODEL_RULES_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "reference/model/choice.h"
#include "reference/model/ops.h"
#include "reference/model/types.h"

namespace qpexam::model {

// ---------------------------------------------------------------------------------------------
// What is known of a request when it is executed.

// What is wrong with the local buffers of a request (requester) or of a receive (responder).
enum class LocalFault : uint8_t { kNone, kUnknownKey, kWrongPd, kOutOfRange, kNoLocalWrite };

// What is wrong with the remote memory of a request, as the responder sees it.
enum class RemoteFault : uint8_t {
  kNone,
  kUnknownKey,
  kWrongPd,
  kOutOfRange,     // also address + length past 2^64 (WR-LIM-004)
  kNoRegionRight,  // the MR or the window lacks the right
  kNoQpRight,      // qp_access_flags lacks it (WR-RESP-007)
  kMisaligned,     // ATOMIC*, ATOMIC_WRITE (WR-DATA-013, -024)
  kWrongWindowQp,  // type 2B window of another QP (WR-MW-008)
};

// What a posted SEND or WRITE_WITH_IMM finds at the responder's receive queue (or SRQ).
enum class ReceiveFact : uint8_t {
  kNotNeeded,
  kReady,
  kNone,  // RNR on reliable services, dropped on unreliable ones
  kTooShort,
  kBadBuffer,  // see receive_fault
};

enum class PathFact : uint8_t {
  kReachable,
  kNoPeer,            // destroyed, never existed, wrong number
  kPeerNotReady,      // RESET, INIT
  kPeerInError,       // ERR
  kNotAddressedBack,  // the peer is connected to somebody else
  kLost,              // a fault point of the Program, or an unreliable service
};

struct RequestFacts {
  Operation op{};
  QpType type{};
  uint32_t flags = 0;     // ibv_send_flags of the request
  uint64_t length = 0;    // total of the data, of the FLUSH range, or 8
  uint64_t path_mtu = 0;  // bytes
  uint64_t max_msg_sz = 0;
  LocalFault local = LocalFault::kNone;
  RemoteFault remote = RemoteFault::kNone;
  ReceiveFact receive = ReceiveFact::kNotNeeded;
  LocalFault receive_fault = LocalFault::kNone;
  PathFact path = PathFact::kReachable;
  ibv_qp_state state = IBV_QPS_RTS;  // of the requester when the request starts
  bool ah_of_other_pd = false;       // WR-UD-008
  bool qkey_mismatch = false;        // WR-UD-002
  bool rnr_retry_infinite = false;   // 7
  bool timeout_disabled = false;     // timeout 0 (WR-RESP-017)
  bool cell_supported = true;        // table A has the cell (WR-RESP-012)
  // BIND_MW, LOCAL_INV, SEND_WITH_INV
  enum class Window : uint8_t {
    kFine,
    kType1,
    kBoundAlready,
    kFree,
    kUnknownKey,
    kPlainMr,
    kWrongQp,
    kWrongPd,
    kNoBindRight,
    kNoLocalWrite,
    kOutOfRange,
    kZeroLength,
    kForeignIndexBits,
    kNoMr,
  } window = Window::kFine;
  bool no_read_resources = false;       // READ, ATOMIC with max_rd_atomic 0 (WR-BUILD-012)
  bool exceeds_dest_rd_atomic = false;  // more of them than max_dest_rd_atomic (WR-RESP-013)
  bool wrong_srq = false;               // XRC: no such SRQ in the domain (WR-XRC-004)
};

// What happens to memory.
enum class Effect : uint8_t {
  kNone,   // nothing changes
  kWhole,  // everything the operation promises
  kMaybe,  // per byte old or new (an error in the middle of a longer message)
};

enum class NextState : uint8_t { kKeep, kErr, kSqe, kSqeOrErr };

// Bits of a set of ibv_wc_status values.
using StatusSet = uint32_t;
constexpr StatusSet StatusBit(ibv_wc_status s) { return 1u << static_cast<int>(s); }
inline constexpr StatusSet kAnyError = ~0u & ~1u;

struct Outcome {
  // The send completion. expected: the status the clause names first, which the reference gives.
  // tolerated: other statuses that are no violation (catalogue rule 12: at most a warning).
  ibv_wc_status status = IBV_WC_SUCCESS;
  StatusSet tolerated = 0;
  bool completes = true;  // false: stays outstanding (RNR for ever, timeout 0)
  Effect effect = Effect::kWhole;
  // The receive side. receive_status is meaningful where consumes_receive.
  bool consumes_receive = false;
  ibv_wc_status receive_status = IBV_WC_SUCCESS;
  StatusSet receive_tolerated = 0;
  NextState requester_next = NextState::kKeep;
  NextState responder_next = NextState::kKeep;
  Level level = Level::kMust;  // kShould: taking this outcome is a warning
  const char* clause = "";
};

// A small vector: no rule has more members.
// `choice` names the question that members 0, 1, ... answer, in the order of its outcomes; where
// the set joins several rules (a local and a remote mistake in one request) it is kLocalOrRemote.
struct OutcomeSet {
  static constexpr int kMax = 12;
  // Set and copied as far as `count` says: nearly all sets have one member, and each request of
  // every Program asks for some.
  union {
    Outcome member[kMax];
  };
  int count = 0;
  ChoicePoint choice = ChoicePoint::kCount;  // kCount: nothing to choose
  const char* clause = "";                   // broken by anything outside the set

  OutcomeSet() {}  // NOLINT: leaves `member` as it is
  OutcomeSet(const OutcomeSet& other) { *this = other; }
  OutcomeSet& operator=(const OutcomeSet& other) {
    for (int i = 0; i < other.count; ++i) member[i] = other.member[i];
    count = other.count;
    choice = other.choice;
    clause = other.clause;
    return *this;
  }
  const Outcome* begin() const { return member; }
  const Outcome* end() const { return member + count; }
};

// What may become of a request that starts now, on the service of facts.type. Where nothing is
// wrong the set is one SUCCESS. Facts about the responder mean nothing on operations that do not
// leave the requester.
OutcomeSet RequestOutcomes(const RequestFacts& facts);

// The request cannot be carried further in this state: SQE and ERR flush it, in order, signaled or
// not (WR-STATE-004, -005, WR-COMP-003).
Outcome FlushOutcome(ibv_qp_state state);

// Whether an operation goes on the wire (BIND_MW and LOCAL_INV do not).
bool LeavesRequester(Operation op);

// ---------------------------------------------------------------------------------------------
// Posting: what ibv_wr_complete() (or ibv_post_send) may return for one request of the region.

// Mistakes of a request that a provider may or must find at complete. UNDEFINED ones (a missing
// setter, two setters) are found by the reference alone and never judged.
enum class PostFault : uint8_t {
  kNone,
  kQueueFull,
  kTooManySges,
  kTooMuchInline,
  kBadState,         // RESET, INIT, RTR
  kUnsignaled,       // no mistake; a device may be unable to do it (WR-SAMPLE-006)
  kUnsupportedFlag,  // FENCE where it has no meaning, IP_CSUM, undefined bits
  kTooManyReadSges,
  kTsoHeaderTooLong,
  kTsoTooLong,
  kMessageTooLong,
  kBadAtomicLength,
  kBadFlush,     // type 0, unknown bits, level > 1, length >= 2^32
  kBindTooLong,  // > 2 GiB (WR-MW-020)
  kWindow,       // a window mistake that may be found here or in the CQE
  kLocalKey,     // a bad lkey may be found here (WR-SGE-007)
  kMisaligned,   // WR-DATA-013
  kUdTooLong,
  kAddressHandle,
  kStateErr,  // posting in ERR may be refused (WR-STATE-005)
};

struct PostRule {
  bool may_accept;  // complete may return 0
  bool may_refuse;  // complete may return non-zero
  bool refusal_is_warning;
  bool acceptance_is_warning;
  int reference_errno;  // 0: the reference accepts
  ChoicePoint choice;
  const char* clause;
};
const PostRule& RuleOf(PostFault fault);

// UNDEFINED uses, each with its clause: what the reference reports as a lint.
struct Lint {
  const char* clause;
  const char* what;  // one line
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_RULES_H_
