// Program: a typed list of calls on named objects; the one input of executor, judge and fuzzers.
//
// A Call is one plain struct with named fields; which fields a kind of call has, their words in
// the text form, their types and defaults is the schema (schema.h), so that parser, printer, byte
// form, generator, mutator, minimiser and C emitter are written once over the schema and no kind
// of call is spelled out in each of them. Executor and judge read the named fields.
#ifndef QPEXAM_HARNESS_PROGRAM_PROGRAM_H_
#define QPEXAM_HARNESS_PROGRAM_PROGRAM_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "reference/model/ops.h"

namespace qpexam {

enum class ObjectKind : uint8_t {
  kDevice,  // one opened context
  kPd,      // also a parent domain (with td or without)
  kTd,
  kMr,  // owns its memory inside the Program's arena
  kMw,
  kChannel,  // completion channel
  kCq,
  kSrq,
  kXrcd,
  kQp,
  kAh,
  kThread,
};

// Index into Program::objects.
using ObjectId = uint16_t;
inline constexpr ObjectId kNoObject = 0xffff;

struct Object {
  ObjectKind kind;
  std::string name;
};

// An address: offset into the memory of an mr ("src+16", "src-1"), or absolute ("0xdead0000") where
// mr is kNoObject. An absolute address is only ever handed to the provider as a number that the
// lint has found not to be dereferenced on this process's behalf (remote_addr).
struct MemRef {
  ObjectId mr = kNoObject;
  int64_t offset = 0;
};

// A key: that of an mr ("src": its lkey or rkey, as the field says) or of an mw ("win": its present
// rkey), with bits flipped ("src^0x100"); a plain number where object is kNoObject.
struct KeyRef {
  ObjectId object = kNoObject;
  uint32_t flip = 0;  // XORed into the key; the key itself where object is kNoObject
};

struct SgeArg {
  KeyRef lkey;
  MemRef addr;
  uint64_t len = 0;
};
struct BufArg {  // ibv_data_buf
  MemRef addr;
  uint64_t len = 0;
};

// One work request of an ibv_post_send list or of a batch of builders is spelled by the same
// fields, so `post_send` is one Call a request with `more=1` on all but the last of the list.
enum class CallKind : uint8_t {
  // objects
  kDevice,
  kPd,
  kTd,
  kMr,
  kMw,
  kChannel,
  kCq,
  kSrq,
  kXrcd,
  kQp,
  kAh,
  kThread,
  kDestroy,
  kReregMr,
  kResizeCq,
  kOpenQp,
  // state
  kConnect,  // brings two QPs (or one with itself, or a UD QP alone) to RTS with plain attributes
  kModify,
  kQuery,
  kQueryDevice,
  kQueryPort,
  kModifySrq,
  kQuerySrq,
  kAttachMcast,
  kDetachMcast,
  // posting
  kStart,
  kBuild,
  kSetSge,
  kSetSgeList,
  kSetInline,
  kSetInlineList,
  kSetUdAddr,
  kSetXrcSrqn,
  kComplete,
  kAbort,
  kPostSend,
  kRecv,
  kSrqRecv,
  kBindMw,  // kBindMw: ibv_bind_mw, type 1
  // completions
  kPoll,    // ibv_poll_cq of up to n, waiting until `expect` have come (bounded)
  kPollEx,  // start_poll, next_poll..., end_poll
  kArm,
  kGetCqEvent,
  kAckCqEvents,
  kGetAsyncEvent,
  // memory and time
  kStore,    // the CPU writes bytes
  kLoad,     // the CPU reads bytes into the Trace
  kSettle,   // run until nothing moves any more (virtual clock) or a time has passed (device)
  kAdvance,  // virtual clock, nanoseconds
  kFault,    // ask the reference for a loss, a duplicate, an RNR
};

// Which CQ of a QP, in "a.send" and "a.recv".
enum class Side : uint8_t { kNone, kSend, kRecv };

struct Call {
  CallKind kind{};
  uint8_t thread = 0;  // index among the Program's threads; 0 is the main thread
  uint32_t line = 0;   // of the text form, 0 where generated

  ObjectId object = kNoObject;   // the object made, or acted on
  ObjectId object2 = kNoObject;  // connect: the peer; destroy: -
  // set-up references
  ObjectId device = kNoObject, pd = kNoObject, td = kNoObject, cq = kNoObject, recv_cq = kNoObject,
           srq = kNoObject, xrcd = kNoObject, channel = kNoObject, ah = kNoObject;
  Side side = Side::kNone;

  model::QpType qp_type{};
  model::Operation op{};
  uint64_t ops = 0;     // send_ops_flags; kPlainQp: created without the extension
  uint64_t flags = 0;   // IBV_SEND_*, creation flags, wc_flags of a cq
  uint64_t access = 0;  // IBV_ACCESS_*
  uint64_t wr_id = 0;
  uint64_t n = 0;  // counts: poll, list sizes, cq size
  uint64_t expect = 0;
  uint64_t len = 0;
  uint64_t sq = 0, rq = 0, sge_max = 0, recv_sge_max = 0, inline_max = 0;
  uint64_t value = 0;      // fill byte, compare, add, imm, ...
  uint64_t value2 = 0;     // swap, ...
  uint64_t attr_mask = 0;  // modify
  uint64_t more = 0;
  KeyRef rkey;
  KeyRef lkey;
  MemRef addr;  // remote address, or the local one of a setter, store, load
  std::vector<SgeArg> sge;
  std::vector<BufArg> bufs;
  std::vector<uint8_t> bytes;                       // store, tso header, atomic_write
  std::vector<std::pair<uint8_t, uint64_t>> attrs;  // modify: (AttrField, value)
};

// `ops` of a QP created by plain ibv_create_qp().
inline constexpr uint64_t kPlainQp = ~uint64_t{0};

struct Program {
  std::vector<Object> objects;
  std::vector<Call> calls;
  uint64_t arena = 4096;  // bytes of memory the Program may touch
  uint64_t seed = 1;      // of hosted freedoms and of nothing else
  std::string comment;    // leading # lines of the text form
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_PROGRAM_H_
