// Program: a typed list of calls on named objects; the one input of executor, judge and fuzzers.
//
// A Call is one plain struct with named fields; which fields a kind of call has, their words in
// the text form, their types and defaults is the schema (schema.h), so that parser, printer, byte
// form, generator, mutator, minimiser and C emitter are written once over the schema and no kind
// of call is spelled out in each of them. Executor and judge read the named fields. A Call is made
// by MakeCall() (schema.h), which sets the defaults of its kind.
//
// docs/program.md is the text form's guide; the comments here say what executor and judge do.
#ifndef QPEXAM_HARNESS_PROGRAM_PROGRAM_H_
#define QPEXAM_HARNESS_PROGRAM_PROGRAM_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reference/model/ops.h"

namespace qpexam {

enum class ObjectKind : uint8_t {
  kDevice,  // one opened context
  kPd,      // also a parent domain (with td or without)
  kTd,
  kMr,  // owns its memory inside the Program's arena, unless it lies over another mr's (`at`)
  kMw,
  kChannel,  // completion channel
  kCq,
  kSrq,
  kXrcd,
  kQp,
  kAh,
  kThread,
};
inline constexpr int kObjectKindCount = 12;

// Index into Program::objects. Where a Call leaves a set-up reference at kNoObject, the implicit
// object is meant: the device that every Program has, that device's (or the named device's) one
// implicit pd, and one private CQ for each side of a QP (as deep as that side's queue, at least
// 16). Implicit objects have no ObjectId; the private CQs are named by QP and Side, and outlive
// their QP to the end of the Program.
using ObjectId = uint16_t;
inline constexpr ObjectId kNoObject = 0xffff;

struct Object {
  ObjectKind kind;
  std::string name;
};

// A number that was not given, for fields where every small number means something.
inline constexpr uint64_t kUnset = ~uint64_t{0};

// An address: offset into the memory of an mr ("src+16", "src-1"), or absolute ("0xdead0000") where
// mr is kNoObject. The executor turns it into what the place needs: a local pointer (inline data,
// store, load), or the address in the mr's own space (its iova; 0-based where ZERO_BASED) for SGEs
// and remote addresses. For the offset of a type 2 window bound with ZERO_BASED use an absolute
// one. An absolute address is only ever handed to the provider as a number that the lint has found
// not to be dereferenced on this process's behalf (remote_addr).
struct MemRef {
  ObjectId mr = kNoObject;
  int64_t offset = 0;
};

// A key or a number that belongs to an object, possibly spoilt:
//   mr: its lkey or rkey, as the field says; mw: its rkey; qp: its QP number; srq: its SRQ number.
// `inc` advances the low 8 bits (ibv_inc_rkey), written "win+1"; `flip` is XORed ("src^0x100").
// Where object is kNoObject, flip is the plain number. The rkey of a type 2 window counts from the
// rkey ibv_alloc_mw() gave ("win+1" is the key of the first bind whatever mw->rkey says now, X22);
// that of a type 1 window from the present mw->rkey, which ibv_bind_mw() changes.
struct KeyRef {
  ObjectId object = kNoObject;
  uint32_t flip = 0;
  uint8_t inc = 0;
};

struct SgeArg {
  KeyRef lkey;  // in the text form by default that of addr's mr
  MemRef addr;
  uint64_t len = 0;
};
struct BufArg {  // ibv_data_buf
  MemRef addr;
  uint64_t len = 0;
};

enum class CallKind : uint8_t {
  // objects: `object` is made
  kDevice,   // opens the provider's device once more
  kPd,       // device; with pd or td: ibv_alloc_parent_domain(pd, td)
  kTd,       // device
  kMr,       // pd len access; fill: every byte beforehand; addr: over another mr's memory ("at");
             // iova: ibv_reg_mr_iova (the low 12 bits are replaced by those of the memory)
  kMw,       // pd mw_type
  kChannel,  // device
  kCq,       // device n channel; ex: ibv_create_cq_ex with wc_flags and flags; pd: parent domain
  kSrq,      // pd n sge_max limit; with xrcd: an XRC SRQ completing to cq
  kXrcd,     // device
  kQp,       // qp_type ops pd|device cq recv_cq srq xrcd sq rq sge_max recv_sge_max inline_max
             // sig_all flags tso_max
  kOpenQp,   // makes object: ibv_open_qp of object2 (XRC_RECV) through xrcd
  kAh,       // pd; towards the port of `device`; attrs: kAv*
  kThread,
  kDestroy,   // any object (ibv_destroy_*, dealloc, dereg, close); a thread: joined
  kReregMr,   // flags: IBV_REREG_MR_CHANGE_*; pd access len addr
  kResizeCq,  // n
  // state
  kConnect,  // object, object2 (may be the same; absent for UD-like and RAW_PACKET): from RESET to
             // RTS with plain attributes, attrs override values. See attributes.h.
  kModify,   // object2: peer; attrs; attr_mask, mask_with, mask_without. See attributes.h.
  kQuery,    // a QP; attr_mask: what is asked
  kQueryDevice,
  kQueryPort,  // device port
  kQueryGid,   // device port n: index
  kQueryPkey,  // device port n: index
  kModifySrq,  // limit and n (max_wr) where given
  kQuerySrq,
  kAttachMcast,  // a QP; value: group number N, MGID ff12::N
  kDetachMcast,
  // posting
  kStart,
  kBuild,          // op wr_id flags and the arguments of that builder
  kSetSge,         // lkey addr len
  kSetSgeList,     // sge
  kSetInline,      // addr len
  kSetInlineList,  // bufs
  kSetUdAddr,      // ah qpn qkey
  kSetXrcSrqn,     // srqn
  kComplete,
  kAbort,
  kPostSend,  // one ibv_send_wr: op wr_id flags sge + the builder's and the QP setters' arguments;
              // more: the next call continues the same list
  kRecv,      // wr_id sge; more
  kSrqRecv,   // wr_id sge; more
  kBindMw,    // ibv_bind_mw: object is the QP; mw mr addr len access wr_id flags
  // completions
  kPoll,       // object: a cq, or a qp and side; ibv_poll_cq until `expect` have come or the wait's
               // bound is reached, at most n
  kPollEx,     // the same through start_poll, next_poll..., end_poll; wc_flags: which are read
  kStartPoll,  // the steps one by one. After a start_poll that did not return 0 the others are not
               // made, after a next_poll that did not, read_wc is not; a read_wc tells the fields
  kNextPoll,
  kReadWc,  // wc_flags: which fields are read
  kEndPoll,
  kArm,            // ibv_req_notify_cq; solicited
  kGetCqEvent,     // a channel; waits a bounded time
  kAckCqEvents,    // a cq; n, but never more than were got
  kGetAsyncEvent,  // a device (or the implicit one); waits a bounded time, acknowledges
  // memory and time
  kStore,    // the CPU writes bytes at addr; without bytes: len times fill
  kLoad,     // the CPU reads len bytes at addr into the Trace
  kSettle,   // run until nothing moves any more (virtual clock) or a time has passed (device)
  kAdvance,  // virtual clock, ns nanoseconds; no effect where the clock is real
  kFault,    // ask the reference: the n messages of a QP after `skip` others meet fault
  // threads
  kParallel,  // from here to kJoin each thread runs its calls in their order, all at once; outside,
              // the calls run one after the other in Program order, each on its thread
  kJoin,
};
inline constexpr int kCallKindCount = static_cast<int>(CallKind::kJoin) + 1;

// Which CQ of a QP, in "a.send" and "a.recv".
enum class Side : uint8_t { kNone, kSend, kRecv };

// In the order of model::FaultPoint.
enum class Fault : uint8_t { kLoseRequest, kLoseAck, kDuplicateRequest, kRnr };

// The fields of ibv_qp_attr (kModify, kConnect) and of ibv_ah_attr (kAh: the kAv ones).
enum class AttrField : uint8_t {
  kState,
  kCurState,
  kEnSqdAsyncNotify,
  kAccessFlags,
  kPkeyIndex,
  kPort,
  kQkey,
  kAvDlid,
  kAvSl,
  kAvSrcPathBits,
  kAvStaticRate,
  kAvPort,
  kAvIsGlobal,
  kAvSgidIndex,
  kAvFlowLabel,
  kAvTrafficClass,
  kAvHopLimit,
  kPathMtu,
  kTimeout,
  kRetryCnt,
  kRnrRetry,
  kRqPsn,
  kMaxRdAtomic,
  kAltDlid,
  kAltPort,
  kAltTimeout,
  kMinRnrTimer,
  kSqPsn,
  kMaxDestRdAtomic,
  kPathMigState,
  kCapMaxSendWr,
  kCapMaxRecvWr,
  kCapMaxSendSge,
  kCapMaxRecvSge,
  kCapMaxInline,
  kDestQpn,
  kRateLimit,
};
inline constexpr int kAttrFieldCount = static_cast<int>(AttrField::kRateLimit) + 1;

using Attr = std::pair<AttrField, uint64_t>;

// `ops` of a QP created without the extension: ibv_create_qp(), or, where only ibv_create_qp_ex()
// can (XRC_RECV), that without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
inline constexpr uint64_t kPlainQp = kUnset;

// Values of the newest headers (IBV_ACCESS_FLUSH_*, enum ibv_placement_type and
// ibv_selectivity_level), so that a Program means the same where it is built on older ones.
inline constexpr uint64_t kAccessFlushGlobal = 1 << 8, kAccessFlushPersistent = 1 << 9;
inline constexpr uint64_t kFlushGlobal = 1 << 0, kFlushPersistent = 1 << 1;
inline constexpr uint64_t kFlushRange = 0, kFlushMr = 1;

struct Call {
  CallKind kind{};
  uint8_t thread = 0;  // 0: the main thread; i: the i-th thread made (`Program::ThreadObject`)
  Side side = Side::kNone;
  model::QpType qp_type{};
  model::Operation op{};
  Fault fault{};
  uint32_t line = 0;  // of the text form, 0 where generated

  ObjectId object = kNoObject;   // the object made, or acted on
  ObjectId object2 = kNoObject;  // the peer
  // references
  ObjectId device = kNoObject, pd = kNoObject, td = kNoObject, cq = kNoObject, recv_cq = kNoObject,
           srq = kNoObject, xrcd = kNoObject, channel = kNoObject, ah = kNoObject, mr = kNoObject,
           mw = kNoObject;

  KeyRef rkey;  // remote key; send_inv, local_inv: the key to invalidate; bind_mw: the new key
  KeyRef lkey;
  KeyRef qpn;   // UD: the remote QP number
  KeyRef srqn;  // XRC: the remote SRQ number
  MemRef addr;  // remote address, bound range, or the local address of a setter, store, load

  uint64_t ops = 0;       // send_ops_flags, or kPlainQp
  uint64_t flags = 0;     // IBV_SEND_*; creation flags; IBV_REREG_MR_CHANGE_*
  uint64_t wc_flags = 0;  // IBV_WC_EX_WITH_*
  uint64_t access = 0;    // IBV_ACCESS_*
  uint64_t wr_id = 0;
  uint64_t n = 0;  // counts and indices: poll, cq and srq size, gid index, ...
  uint64_t expect = 0;
  uint64_t skip = 0;
  uint64_t len = 0;
  uint64_t iova = kUnset;
  uint64_t fill = kUnset;
  uint64_t limit = kUnset;
  uint64_t sq = 0, rq = 0, sge_max = 0, recv_sge_max = 0, inline_max = 0, tso_max = 0;
  uint64_t imm = 0;  // a number; the executor puts it in network order
  uint64_t compare = 0, swap = 0, add = 0;
  uint64_t mss = 0;
  uint64_t qkey = 0;
  uint64_t flush_type = 0;   // IBV_FLUSH_*
  uint64_t flush_level = 0;  // IBV_FLUSH_RANGE, IBV_FLUSH_MR
  uint64_t port = 0;
  uint64_t value = 0;  // multicast group
  uint64_t ns = 0;
  uint64_t attr_mask = kUnset;               // exactly this mask, where given
  uint64_t mask_with = 0, mask_without = 0;  // bits added to and taken from the mask
  uint8_t mw_type = 0;                       // 1 or 2
  uint8_t ex = 0;                            // a cq: made by ibv_create_cq_ex
  uint8_t sig_all = 0;
  uint8_t solicited = 0;
  uint8_t more = 0;

  std::vector<SgeArg> sge;
  std::vector<BufArg> bufs;
  std::vector<uint8_t> bytes;  // store, tso header, atomic_write (8)
  std::vector<Attr> attrs;     // in the order given; the last of a field counts
};

// Comments of the text form, kept so that formatting does not lose them; no meaning.
struct Note {
  uint32_t call;  // before this call (calls.size(): at the end), or behind it where trailing
  bool trailing;
  std::string text;  // without "#"; an empty line of the text where `blank`
  bool blank = false;
};

struct Program {
  std::vector<Object> objects;
  std::vector<Call> calls;
  uint64_t arena = 4096;  // bytes of memory the Program may touch
  uint64_t seed = 1;      // of hosted freedoms and of nothing else
  std::vector<Note> notes;
};

inline constexpr uint64_t kMaxArena = uint64_t{1} << 30;

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_PROGRAM_H_
