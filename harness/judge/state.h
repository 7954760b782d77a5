// What the judge knows of a run so far: objects and their lives, requests and receives.
#ifndef QPEXAM_HARNESS_JUDGE_STATE_H_
#define QPEXAM_HARNESS_JUDGE_STATE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "harness/judge/memory.h"
#include "harness/program/program.h"
#include "reference/model/ops.h"
#include "reference/model/rules.h"

namespace qpexam::judge {

// Index of an object among those of its kind; kNone where there is none.
using Index = uint16_t;
inline constexpr Index kNone = 0xffff;

// enum ibv_placement_level has no names in older headers.
inline constexpr uint64_t kFlushWholeMr = 1;

// Set of ibv_qp_state.
using States = uint8_t;
constexpr States StateBit(int s) { return static_cast<States>(1u << s); }
inline constexpr States kBeforeRts =
    StateBit(IBV_QPS_RESET) | StateBit(IBV_QPS_INIT) | StateBit(IBV_QPS_RTR);
// Requests of a peer are answered.
inline constexpr States kAnswers =
    StateBit(IBV_QPS_RTR) | StateBit(IBV_QPS_RTS) | StateBit(IBV_QPS_SQD) | StateBit(IBV_QPS_SQE);
constexpr bool Only(States s, States allowed) { return s != 0 && (s & ~allowed) == 0; }

struct PdState {
  ObjectId id = kNoObject;
  Index root = kNone;  // itself, or the pd below a parent domain (WR-CONC-008)
  bool alive = false;
  bool has_td = false;
};

struct MrState {
  ObjectId id = kNoObject;
  Index pd = kNone;
  uint32_t block = 0;
  uint64_t base = 0;  // of its first byte in the block
  uint64_t home = 0;  // ... as it was made: changes of memory are told from there
  uint64_t size = 0;
  uint64_t access = 0;
  bool alive = false;
  bool own_space = false;  // iova or zero-based: addresses mean nothing through another mr's key
  bool zero_based = false;
  bool unsure = false;  // a failed rereg: nothing is known of it
  Clock rekeyed = 0;    // when ibv_rereg_mr() may have given it another key
  bool vague = false;   // addresses count from 0 or from the iova: nothing says which wins
  Clock changed = 0;
};

struct Binding {
  bool bound = false;
  bool zero_based = false;
  uint8_t tag = 0;  // steps of the key beyond the one ibv_alloc_mw() gave
  Index mr = kNone;
  Index qp = kNone;
  uint32_t block = 0;
  uint64_t base = 0, size = 0;
  uint64_t access = 0;
};

struct MwState {
  ObjectId id = kNoObject;
  Index pd = kNone;
  uint8_t type = 0;
  bool alive = false;
  bool unsure = false;        // a race or an error left it in one of several bindings
  uint16_t pending = 0;       // binds and invalidations on their way
  bool freed_by_end = false;  // its QP was destroyed
  Binding now;                // once they have happened
  Clock changed = 0;
};

struct CqState {
  ObjectId id = kNoObject;
  ObjectId qp = kNoObject;  // private queue of a QP's side
  Side side = Side::kNone;
  ObjectId channel = kNoObject;
  bool alive = false;
  bool extended = false;
  uint32_t depth = 0;
  uint32_t possible = 0;  // completions that may be in it or come into it
  bool may_overrun = false;
  // Events: armed since `armed_at`, for which kind.
  bool armed = false, armed_solicited = false;
  bool armed_empty = false;       // it was known to be empty when it was armed
  uint32_t came_since_armed = 0;  // completions polled since
  uint32_t solicited_since_armed = 0;
  bool error_vanished = false;  // since it was armed, a RESET may have removed an error completion
  uint32_t arms = 0, events = 0;
  bool drained = false;                 // nothing was in it at the last poll ...
  uint32_t drained_at = 0;              // ... when so much had been started
  uint64_t fields = 0;                  // wc_flags that it was made with
  uint64_t seen_fields = ~uint64_t{0};  // of the present poll
  bool current_unread = false;  // start_poll or next_poll made one current that nobody has read
  uint32_t current_since = 0;   // ... at this event
};

struct Receive {
  uint64_t wr_id = 0;
  uint32_t call = 0;
  uint32_t first_sge = 0;
  uint16_t sge_count = 0;
  bool done = false;
  bool fault = false;  // a bad buffer
  bool unsure = false;
  bool alike = false;  // it may be another one with its id that was taken
  model::LocalFault local = model::LocalFault::kNone;
  uint64_t length = 0;
  uint64_t good = 0;  // of one bad element: so many bytes lie in its region
  Clock posted = 0;
};

// A receive queue, of a QP or an SRQ. `posted` is append-only; [head, end) may be outstanding.
struct ReceiveQueue {
  std::vector<Receive> posted;
  uint32_t head = 0;
  uint32_t outstanding = 0;
  uint32_t limit = 0;  // granted max_recv_wr, max_wr
  uint32_t max_sge = 0;
  void Clear() {
    posted.clear();
    head = outstanding = limit = max_sge = 0;
  }
};

struct SrqState {
  ObjectId id = kNoObject;
  Index pd = kNone, cq = kNone, xrcd = kNone;
  bool alive = false;
  bool leaky = false;  // some of its receives may be gone unseen
  ReceiveQueue rq;
};

struct AhState {
  ObjectId id = kNoObject;
  Index pd = kNone;
  bool alive = false;
  bool plain = true;  // no attribute overridden
};

// What a local buffer turned out to be.
struct LocalPlace {
  model::LocalFault fault = model::LocalFault::kNone;
  bool unsure = false;
  bool placed = false;
  uint32_t block = 0;
  uint64_t offset = 0;
};

struct Sge {
  KeyRef key;
  MemRef addr;
  uint64_t length = 0;
  // Resolved against the state at some moment.
  uint32_t block = 0;
  uint64_t offset = 0;
  bool placed = false;  // block and offset are right
  bool within = false;  // they are, whatever the key says
  // As it was when it was posted, at the event with this number (0: not yet).
  uint32_t posted_at = 0;
  LocalPlace when_posted;
};

enum class Data : uint8_t { kNone, kSge, kInline };

enum class Fate : uint8_t {
  kStaged,
  kOutstanding,
  kDone,      // SUCCESS seen, or covered by a later one
  kFailed,    // error completion
  kFlushed,   // IBV_WC_WR_FLUSH_ERR
  kAborted,   // ibv_wr_abort
  kRefused,   // complete or ibv_post_send said no
  kVanished,  // the QP was reset or destroyed
};

// What may become of a request: bits of a set.
enum Possible : uint8_t { kMaySucceed = 1, kMayFail = 2, kMayStay = 4 };

struct Request {
  RequestId id = 0;
  uint32_t call = 0;
  Index qp = kNone;
  model::Operation op{};
  Data data = Data::kNone;
  Fate fate = Fate::kStaged;
  uint8_t thread = 0;
  bool signaled = false;   // a SUCCESS makes a completion
  bool undefined = false;  // the caller broke a rule of the API
  bool sure = false;       // nothing but SUCCESS, from what was known when it was posted
  bool safe = false;       // no error, though it may have to wait
  bool visible = false;    // the responder's CPU (a local result: the requester's) must see it
  bool delivered = false;  // its receive completion was seen
  bool in_effect = false;  // its values were added to memory
  bool data_setter = false, qp_setter = false;
  bool known = false;      // its facts were certain when it was posted
  bool stable = false;     // ... and still were when it failed
  bool no_effect = false;  // whatever becomes of it, memory stays as it is
  bool maybe = false;      // where it succeeds, its effect may be missing
  bool tainted = false;    // gathered bytes that may have changed before it ran
  bool astray = false;     // which binding of a window it meets, and so where it goes, is not known
  bool by_post_send = false;
  States states_then = 0;  // of the QP, where it was refused
  uint64_t flags = 0;
  uint64_t wr_id = 0;
  uint64_t length = 0;
  uint32_t imm = 0;
  uint32_t first_sge = 0;
  uint16_t sge_count = 0;
  KeyRef rkey;
  MemRef addr;
  KeyRef qpn, srqn;
  Index ah = kNone;
  uint64_t qkey = 0;
  uint64_t compare_or_add = 0, swap = 0;
  uint64_t flush_type = 0, flush_level = 0;
  Index mw = kNone, bind_mr = kNone;
  uint64_t bind_access = 0, bind_length = 0;
  Binding before;  // of the window it binds or invalidates
  uint16_t tso_header = 0;
  uint64_t mss = 0;
  // Where its remote effect goes, when placed.
  uint32_t block = 0;
  uint64_t offset = 0;
  bool placed = false;
  // Payload of messages (kept until delivered), inline data, the value of ATOMIC_WRITE.
  uint32_t payload = 0, unknown = 0;  // in the pools; unknown: 0xffffffff none
  Clock built = 0;                    // when its keys were read
  Clock posted = 0;
  uint32_t epoch = 0;    // of facts, when posted
  uint32_t message = 0;  // number among those that need a receive, on its connection
  model::RequestFacts facts;
};

struct Region {
  bool open = false;
  uint8_t thread = 0;
  bool undefined = false;
  bool was_full = false;  // no slot was free at one of its builders
  std::vector<Request> staged;
  void Clear() {
    open = undefined = was_full = false;
    thread = 0;
    staged.clear();
  }
};

// What there is of a queue pair but for its lists: plain, so that a new one is one stretch of
// memory.
struct QpValues {
  ObjectId id = kNoObject;
  model::QpType type{};
  bool alive = false;
  bool plain = false;      // made without the extension
  bool followed = true;    // false: an UNDEFINED use or doubt ended the judging of its traffic
  bool unordered = false;  // SRD, or several threads post at once
  bool sig_all = false;
  uint64_t ops = 0;
  Index pd = kNone, send_cq = kNone, recv_cq = kNone, srq = kNone, xrcd = kNone;
  uint32_t granted[5] = {};
  States states = StateBit(IBV_QPS_RESET);
  bool must_be_error = false;  // an error completion said so
  bool was_sqd = false;
  bool was_error = false;  // in a life before a RESET it was, or may have been: events tell late
  bool modify_refused = false;
  uint32_t handles = 1;   // ibv_open_qp
  bool reopened = false;  // qp->state of one handle does not tell what another one did
  uint64_t access = 0;
  Index peer = kNone;
  bool peer_known = false;  // false with peer kNone: a number nobody can place
  uint8_t rnr_retry = 7, retry_cnt = 7, timeout = 14, max_rd_atomic = 1, max_dest_rd_atomic = 1;
  uint64_t path_mtu = 1024;
  uint32_t qkey = 0;
  bool loses = false;  // a fault point of the Program
  Clock changed = 0;
  uint32_t life = 0;
  uint32_t life_since = 0;  // the event that began it

  uint32_t head = 0;
  uint32_t vanished = 0;          // of sent[0 .. head): a RESET removed them, maybe not their end
  uint32_t seen_visible = 0;      // sent[0 .. seen_visible) are visible to the responder
  uint32_t outstanding = 0;       // accepted, not known to have freed their slot
  RequestId first_unsure = 0;     // earliest outstanding one that may fail
  RequestId success_limit = 0;    // during one look: see SuccessUpTo()
  uint32_t waiting = 0;           // outstanding ones that are safe but may have to wait
  RequestId due_limit = 0;        // during one look: see DueUpTo()
  bool flushing = false;          // an error or a flush was seen: everything after is flushed
  bool flush_open = false;        // set to ERR by the caller: the first may end in any error
  bool incoming_trouble = false;  // a peer's request may have moved it to ERR
  bool flushing_certain = false;  // what is flushed from now on cannot have started
  bool failed_here = false;       // as responder
  bool error_asked = false;       // by ibv_modify_qp
  Clock error_since = 0;          // when the caller set it to ERR, or an error was seen
  Clock recovered_at = 0;         // an unreliable one may have come back from SQE
  bool posted_in_error(Clock posted) const { return error_since != 0 && posted > error_since; }
  bool ghost_came = false;  // a completion may have been of one of them
  bool refused_before = false, aborted_before = false, wrapped = false;  // to name the clause
  bool send_doubt = false, recv_doubt = false;  // duplicate ids: which one it was is unknown
  uint32_t delivered = 0;                       // messages[0 .. delivered) have been matched
};

struct QpState : QpValues {
  std::vector<uint64_t> attached;  // multicast groups
  Region region;
  std::vector<RequestId> sent;              // append-only; [head, end) outstanding in order
  std::vector<RequestId> ghosts;            // messages on their way here whose sender was reset
  std::vector<uint64_t> vanished_receives;  // ids that a RESET removed
  // Messages that need a receive, in order; their completions at the responder.
  std::vector<RequestId> messages;
  ReceiveQueue rq;

  // Back to the state of a new one; the lists keep their storage.
  void Clear();
};

}  // namespace qpexam::judge

#endif  // QPEXAM_HARNESS_JUDGE_STATE_H_
