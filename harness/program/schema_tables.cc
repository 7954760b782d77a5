// The schema itself: one line for each argument of each kind of call.
#include <string_view>
#include <utility>
#include <vector>

#include "harness/program/attributes.h"
#include "harness/program/schema.h"

namespace qpexam {
namespace {

using model::Operation;

// ---------------------------------------------------------------------------------------------
// Words that make the tables below read like the text form.

constexpr uint64_t kU8 = 0xff, kU16 = 0xffff, kU32 = 0xffffffff;

Field New(ObjectKind kind) {
  Field f;
  f.type = FieldType::kNewName;
  f.member.object = &Call::object;
  f.kinds = KindBit(kind);
  f.required = true;
  f.about = "the new object's name";
  return f;
}

Field Ref(std::string_view word, ObjectId Call::*member, KindMask kinds, std::string_view about) {
  Field f;
  f.type = FieldType::kObject;
  f.word = word;
  f.member.object = member;
  f.kinds = kinds;
  f.fallback = kNoObject;
  f.about = about;
  return f;
}

// Positional: the object that the call acts on.
Field On(ObjectKind kind) {
  Field f = Ref("", &Call::object, KindBit(kind), "the object acted on");
  f.required = true;
  return f;
}

Field Queue() {
  Field f = On(ObjectKind::kCq);
  f.type = FieldType::kQueue;
  f.kinds = KindBit(ObjectKind::kCq) | KindBit(ObjectKind::kQp);
  f.about = "a cq, or QP.send or QP.recv";
  return f;
}

Field Num(std::string_view word, uint64_t Call::*member, uint64_t fallback, uint64_t max,
          std::string_view about) {
  Field f;
  f.type = FieldType::kNumber;
  f.word = word;
  f.member.number = member;
  f.fallback = fallback;
  f.max = max;
  f.about = about;
  return f;
}

Field Hex(Field f) {
  f.style = NumberStyle::kHex;
  return f;
}

Field Flags(std::string_view word, uint64_t Call::*member, Names names, uint64_t max,
            std::string_view about) {
  Field f = Num(word, member, 0, max, about);
  f.type = FieldType::kFlags;
  f.names = names;
  return f;
}

Field Enum(std::string_view word, uint64_t Call::*member, Names names, uint64_t max,
           std::string_view about) {
  Field f = Flags(word, member, names, max, about);
  f.type = FieldType::kEnum;
  return f;
}

Field Bare(std::string_view word, uint8_t Call::*member, std::string_view about) {
  Field f;
  f.type = FieldType::kBool;
  f.word = word;
  f.member.small = member;
  f.about = about;
  return f;
}

Field Key(std::string_view word, KeyRef Call::*member, KindMask kinds, std::string_view about) {
  Field f;
  f.type = FieldType::kKey;
  f.word = word;
  f.member.key = member;
  f.kinds = kinds;
  f.about = about;
  return f;
}

Field Typed(FieldType type, std::string_view word, std::string_view about) {
  Field f;
  f.type = type;
  f.word = word;
  f.about = about;
  return f;
}

Field Mem(std::string_view word, std::string_view about) {
  return Typed(FieldType::kMem, word, about);
}

Field Required(Field f) {
  f.required = true;
  return f;
}

Field Shown(Field f) {
  f.always_printed = true;
  return f;
}

Field From(Field f, DefaultRule rule) {
  f.rule = rule;
  return f;
}

Field Default(Field f, uint64_t fallback) {
  f.fallback = fallback;
  return f;
}

template <typename... Ops>
Field For(Field f, Ops... ops) {
  f.ops = static_cast<uint16_t>(((1u << static_cast<int>(ops)) | ...));
  return f;
}

constexpr KindMask kMrBit = KindBit(ObjectKind::kMr), kMwBit = KindBit(ObjectKind::kMw),
                   kQpBit = KindBit(ObjectKind::kQp), kPdBit = KindBit(ObjectKind::kPd),
                   kDeviceBit = KindBit(ObjectKind::kDevice), kCqBit = KindBit(ObjectKind::kCq),
                   kSrqBit = KindBit(ObjectKind::kSrq), kTdBit = KindBit(ObjectKind::kTd),
                   kXrcdBit = KindBit(ObjectKind::kXrcd), kAhBit = KindBit(ObjectKind::kAh),
                   kChannelBit = KindBit(ObjectKind::kChannel);

Field DeviceRef() {
  return Ref("device", &Call::device, kDeviceBit, "on this device, not on the implicit one");
}
Field PdRef(std::string_view about = "in this protection domain, not in the implicit one") {
  return Ref("pd", &Call::pd, kPdBit, about);
}
Field DeviceOperand() {
  return Ref("", &Call::device, kDeviceBit, "the device, by default the implicit one");
}
Field WrId() { return Num("wr_id", &Call::wr_id, 0, ~uint64_t{0}, "comes back in the completion"); }
Field SendFlags() {
  return Flags("flags", &Call::flags, SendFlagNames(), kU32, "enum ibv_send_flags");
}
Field More() { return Bare("more", &Call::more, "the next call continues the same list"); }
Field WcFields() {
  return Flags("wc", &Call::wc_flags, WcFlagNames(), ~uint64_t{0}, "IBV_WC_EX_WITH_*");
}
Field PortNumber() { return Num("port", &Call::port, 1, kU8, "port number"); }

std::vector<Field> Join(std::vector<Field> a, const std::vector<Field>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What a builder takes, and struct ibv_send_wr too.
std::vector<Field> RequestFields() {
  constexpr auto kWrite = Operation::kRdmaWrite, kWriteImm = Operation::kRdmaWriteWithImm,
                 kSendImm = Operation::kSendWithImm, kRead = Operation::kRdmaRead,
                 kCas = Operation::kAtomicCmpAndSwp, kFetchAdd = Operation::kAtomicFetchAndAdd,
                 kLocalInv = Operation::kLocalInv, kBind = Operation::kBindMw,
                 kSendInv = Operation::kSendWithInv, kTso = Operation::kTso,
                 kFlush = Operation::kFlush, kAtomicWrite = Operation::kAtomicWrite;
  return {
      WrId(),
      SendFlags(),
      For(From(Key("rkey", &Call::rkey, kMrBit | kMwBit, "remote key, by default of addr's mr"),
               DefaultRule::kAddrMr),
          kWrite, kWriteImm, kRead, kCas, kFetchAdd, kFlush, kAtomicWrite),
      For(Required(Key("invalidate", &Call::rkey, kMrBit | kMwBit, "the key to invalidate")),
          kSendInv, kLocalInv),
      For(Required(Ref("mw", &Call::mw, kMwBit, "the window to bind")), kBind),
      For(Required(Mem("addr", "remote address; of a bind: the range's start")), kWrite, kWriteImm,
          kRead, kCas, kFetchAdd, kFlush, kAtomicWrite, kBind),
      For(From(Ref("mr", &Call::mr, kMrBit, "the region under the window, by default addr's"),
               DefaultRule::kAddrMr),
          kBind),
      For(From(Key("rkey", &Call::rkey, kMrBit | kMwBit, "the window's new key, by default MW+1"),
               DefaultRule::kNextOfMw),
          kBind),
      For(Num("len", &Call::len, 0, ~uint64_t{0}, "bytes bound or flushed"), kBind, kFlush),
      For(Flags("access", &Call::access, AccessNames(), kU32, "IBV_ACCESS_* of the window"), kBind),
      For(Hex(Num("imm", &Call::imm, 0, kU32, "immediate, in host order")), kWriteImm, kSendImm),
      For(Hex(Num("compare", &Call::compare, 0, ~uint64_t{0}, "compared with memory")), kCas),
      For(Hex(Num("swap", &Call::swap, 0, ~uint64_t{0}, "stored where equal")), kCas),
      For(Hex(Num("add", &Call::add, 0, ~uint64_t{0}, "added to memory")), kFetchAdd),
      For(Typed(FieldType::kBytes, "hdr", "packet headers, hexadecimal"), kTso),
      For(Num("mss", &Call::mss, 1460, kU16, "payload bytes of a segment"), kTso),
      For(Default(Flags("type", &Call::flush_type, FlushTypeNames(), kU32, "IBV_FLUSH_*"),
                  kFlushGlobal),
          kFlush),
      For(Enum("level", &Call::flush_level, FlushLevelNames(), kU8, "RANGE or MR"), kFlush),
      For(Required(Typed(FieldType::kBytes, "bytes", "the 8 bytes to write, hexadecimal")),
          kAtomicWrite),
  };
}

std::vector<Field> UdFields() {
  return {Ref("ah", &Call::ah, kAhBit, "address handle"),
          Key("qpn", &Call::qpn, kQpBit, "the remote QP's number"),
          Hex(Num("qkey", &Call::qkey, kDefaultQkey, kU32, "the remote QP's Q_Key"))};
}

Field SrqnField() { return Key("srqn", &Call::srqn, kSrqBit, "the remote SRQ's number"); }

std::vector<CallSchema> MakeSchemas() {
  const Names access = AccessNames();
  auto access_field = [&](std::string_view about) {
    return Shown(Flags("access", &Call::access, access, kU32, about));
  };
  const Field sge = Typed(FieldType::kSgeList, "sge", "ADDR:LEN[@LKEY], ...");
  std::vector<CallSchema> all;
  auto add = [&](CallKind kind, std::string_view word, std::string_view about,
                 std::vector<Field> fields) {
    all.push_back({kind, word, about, std::move(fields)});
  };

  add(CallKind::kDevice, "device", "opens the device once more", {New(ObjectKind::kDevice)});
  add(CallKind::kPd, "pd", "protection domain; with parent: ibv_alloc_parent_domain",
      {New(ObjectKind::kPd), DeviceRef(),
       Ref("parent", &Call::pd, kPdBit, "a parent domain over this pd"),
       Ref("td", &Call::td, kTdBit, "with this thread domain")});
  add(CallKind::kTd, "td", "thread domain", {New(ObjectKind::kTd), DeviceRef()});
  add(CallKind::kMr, "mr", "memory region over fresh memory of the arena",
      {New(ObjectKind::kMr), PdRef(), Required(Num("len", &Call::len, 0, kMaxArena, "bytes")),
       access_field("IBV_ACCESS_*"),
       Hex(Num("fill", &Call::fill, kUnset, kU8, "every byte beforehand")),
       Mem("at", "over this memory of another mr"),
       Hex(Num("iova", &Call::iova, kUnset, ~uint64_t{0},
               "ibv_reg_mr_iova; the low 12 bits follow the memory"))});
  add(CallKind::kMw, "mw", "memory window", {New(ObjectKind::kMw), PdRef(), [] {
                                               Field f;
                                               f.type = FieldType::kNumber;
                                               f.word = "type";
                                               f.member.small = &Call::mw_type;
                                               f.fallback = 2;
                                               f.max = kU8;
                                               f.about = "1 or 2";
                                               return f;
                                             }()});
  add(CallKind::kChannel, "channel", "completion channel",
      {New(ObjectKind::kChannel), DeviceRef()});
  add(CallKind::kCq, "cq", "completion queue",
      {New(ObjectKind::kCq), Num("n", &Call::n, 64, kU32, "entries"), DeviceRef(),
       Ref("channel", &Call::channel, kChannelBit, "where its events go"),
       PdRef("parent domain (IBV_CQ_INIT_ATTR_MASK_PD)"),
       Bare("ex", &Call::ex, "by ibv_create_cq_ex; follows from wc, flags and pd"), WcFields(),
       Flags("flags", &Call::flags, CqFlagNames(), kU32, "IBV_CREATE_CQ_ATTR_*")});
  add(CallKind::kSrq, "srq", "shared receive queue; with xrcd an XRC one",
      {New(ObjectKind::kSrq), PdRef(), Num("n", &Call::n, 16, kU32, "max_wr"),
       Num("sge", &Call::sge_max, 4, kU32, "max_sge"),
       Ref("xrcd", &Call::xrcd, kXrcdBit, "XRC domain"),
       Ref("cq", &Call::cq, kCqBit, "XRC: where receives complete")});
  add(CallKind::kXrcd, "xrcd", "XRC domain", {New(ObjectKind::kXrcd), DeviceRef()});
  add(CallKind::kQp, "qp", "queue pair",
      {New(ObjectKind::kQp), Required(Typed(FieldType::kQpType, "", "rc, uc, ud, xrc_send, ...")),
       Default(Flags("ops", &Call::ops, SendOpNames(), ~uint64_t{0},
                     "send_ops_flags; PLAIN: without the extension"),
               kPlainQp),
       DeviceRef(), PdRef(), Ref("send_cq", &Call::cq, kCqBit, "not a private one"),
       Ref("recv_cq", &Call::recv_cq, kCqBit, "not a private one"),
       Ref("srq", &Call::srq, kSrqBit, "receives from this SRQ"),
       Ref("xrcd", &Call::xrcd, kXrcdBit, "xrc_recv: its domain"),
       Num("sq", &Call::sq, 16, kU32, "max_send_wr"), Num("rq", &Call::rq, 16, kU32, "max_recv_wr"),
       Num("sge", &Call::sge_max, 4, kU32, "max_send_sge"),
       Num("recv_sge", &Call::recv_sge_max, 4, kU32, "max_recv_sge"),
       Num("inline", &Call::inline_max, 64, kU32, "max_inline_data"),
       Bare("sig_all", &Call::sig_all, "every request is signaled"),
       Flags("flags", &Call::flags, QpFlagNames(), kU32, "IBV_QP_CREATE_*"),
       Num("tso", &Call::tso_max, 0, kU16, "max_tso_header")});
  add(CallKind::kOpenQp, "open_qp", "a second handle of an xrc_recv QP",
      {New(ObjectKind::kQp),
       Required(Ref("", &Call::object2, kQpBit, "the QP to open, by its number")),
       Ref("xrcd", &Call::xrcd, kXrcdBit, "through this domain")});
  add(CallKind::kAh, "ah", "address handle towards the port of a device",
      {New(ObjectKind::kAh), PdRef(),
       Ref("device", &Call::device, kDeviceBit, "the target, by default the implicit device"),
       Typed(FieldType::kAttrs, "", "fields of ibv_ah_attr")});
  add(CallKind::kThread, "thread", "a thread that makes the calls prefixed with its name",
      {New(ObjectKind::kThread)});
  add(CallKind::kDestroy, "destroy", "frees any object; a thread is joined",
      {Required(Ref("", &Call::object, kAnyKind, "the object to free"))});
  add(CallKind::kReregMr, "rereg_mr", "ibv_rereg_mr",
      {On(ObjectKind::kMr), Flags("flags", &Call::flags, ReregFlagNames(), kU32, "what changes"),
       PdRef(), Flags("access", &Call::access, access, kU32, "IBV_ACCESS_*"),
       Mem("at", "the new memory"), Num("len", &Call::len, 0, kMaxArena, "its bytes")});
  add(CallKind::kResizeCq, "resize_cq", "ibv_resize_cq",
      {On(ObjectKind::kCq), Required(Num("n", &Call::n, 0, kU32, "entries"))});

  add(CallKind::kConnect, "connect", "brings two QPs (or one) from RESET to RTS",
      {On(ObjectKind::kQp), Ref("", &Call::object2, kQpBit, "the peer"),
       Typed(FieldType::kAttrs, "", "attributes that override the plain ones")});
  add(CallKind::kModify, "modify", "ibv_modify_qp with the edge's required attributes",
      {On(ObjectKind::kQp), Typed(FieldType::kAttrs, "", "attributes; each adds its mask bit"),
       Ref("peer", &Call::object2, kQpBit, "whose QP number dest_qpn is"),
       Default(Flags("mask", &Call::attr_mask, AttrMaskNames(), kU32, "exactly this mask"), kUnset),
       Flags("with", &Call::mask_with, AttrMaskNames(), kU32, "bits added to the mask"),
       Flags("without", &Call::mask_without, AttrMaskNames(), kU32, "bits taken from it")});
  add(CallKind::kQuery, "query", "ibv_query_qp",
      {On(ObjectKind::kQp), Default(Flags("mask", &Call::attr_mask, AttrMaskNames(), kU32,
                                          "what is asked, by default everything"),
                                    kUnset)});
  add(CallKind::kQueryDevice, "query_device", "ibv_query_device_ex", {DeviceOperand()});
  add(CallKind::kQueryPort, "query_port", "ibv_query_port", {DeviceOperand(), PortNumber()});
  add(CallKind::kQueryGid, "query_gid", "ibv_query_gid",
      {DeviceOperand(), PortNumber(), Num("index", &Call::n, 0, 0x7fffffff, "table index")});
  add(CallKind::kQueryPkey, "query_pkey", "ibv_query_pkey",
      {DeviceOperand(), PortNumber(), Num("index", &Call::n, 0, 0x7fffffff, "table index")});
  add(CallKind::kModifySrq, "modify_srq", "ibv_modify_srq",
      {On(ObjectKind::kSrq), Num("limit", &Call::limit, kUnset, kU32, "arms the limit event"),
       Num("n", &Call::n, kUnset, kU32, "new max_wr")});
  add(CallKind::kQuerySrq, "query_srq", "ibv_query_srq", {On(ObjectKind::kSrq)});
  add(CallKind::kAttachMcast, "attach_mcast", "ibv_attach_mcast to ff12::GROUP",
      {On(ObjectKind::kQp), Hex(Num("group", &Call::value, 1, kU32, "multicast group"))});
  add(CallKind::kDetachMcast, "detach_mcast", "ibv_detach_mcast",
      {On(ObjectKind::kQp), Hex(Num("group", &Call::value, 1, kU32, "multicast group"))});

  add(CallKind::kStart, "start", "ibv_wr_start", {On(ObjectKind::kQp)});
  add(CallKind::kBuild, "", "a builder: ibv_wr_*", Join({On(ObjectKind::kQp)}, RequestFields()));
  const Field lkey =
      From(Key("lkey", &Call::lkey, kMrBit, "by default that of addr's mr"), DefaultRule::kAddrMr);
  add(CallKind::kSetSge, "set_sge", "ibv_wr_set_sge",
      {On(ObjectKind::kQp), Required(Mem("addr", "local address")), lkey,
       Shown(Num("len", &Call::len, 0, kU32, "bytes"))});
  add(CallKind::kSetSgeList, "set_sge_list", "ibv_wr_set_sge_list", {On(ObjectKind::kQp), sge});
  add(CallKind::kSetInline, "set_inline", "ibv_wr_set_inline_data",
      {On(ObjectKind::kQp), Required(Mem("addr", "local address")),
       Shown(Num("len", &Call::len, 0, kMaxArena, "bytes"))});
  add(CallKind::kSetInlineList, "set_inline_list", "ibv_wr_set_inline_data_list",
      {On(ObjectKind::kQp), Typed(FieldType::kBufList, "buf", "ADDR:LEN, ...")});
  {
    std::vector<Field> ud = UdFields();
    ud[0] = Required(ud[0]);
    ud[1] = Required(ud[1]);
    add(CallKind::kSetUdAddr, "set_ud_addr", "ibv_wr_set_ud_addr", Join({On(ObjectKind::kQp)}, ud));
  }
  add(CallKind::kSetXrcSrqn, "set_xrc_srqn", "ibv_wr_set_xrc_srqn",
      {On(ObjectKind::kQp), Required(SrqnField())});
  add(CallKind::kComplete, "complete", "ibv_wr_complete", {On(ObjectKind::kQp)});
  add(CallKind::kAbort, "abort", "ibv_wr_abort", {On(ObjectKind::kQp)});
  {
    std::vector<Field> post = {On(ObjectKind::kQp),
                               Required(Typed(FieldType::kOperation, "", "send, rdma_write, ..."))};
    post = Join(post, RequestFields());
    post.push_back(sge);
    post = Join(post, UdFields());
    post.push_back(SrqnField());
    post.push_back(More());
    add(CallKind::kPostSend, "post_send", "one request of ibv_post_send", post);
  }
  add(CallKind::kRecv, "recv", "one request of ibv_post_recv",
      {On(ObjectKind::kQp), WrId(), sge, More()});
  add(CallKind::kSrqRecv, "srq_recv", "one request of ibv_post_srq_recv",
      {On(ObjectKind::kSrq), WrId(), sge, More()});
  add(CallKind::kBindMw, "ibv_bind_mw", "ibv_bind_mw, for type 1 windows",
      {On(ObjectKind::kQp), Required(Ref("mw", &Call::mw, kMwBit, "the window")), WrId(),
       SendFlags(), Required(Mem("addr", "the range's start")),
       From(Ref("mr", &Call::mr, kMrBit, "by default addr's"), DefaultRule::kAddrMr),
       Num("len", &Call::len, 0, ~uint64_t{0}, "bytes bound"),
       Flags("access", &Call::access, access, kU32, "IBV_ACCESS_* of the window")});

  add(CallKind::kPoll, "poll", "ibv_poll_cq until `expect` completions came or the wait ends",
      {Queue(), Num("n", &Call::n, 16, 0x7fffffff, "at most"),
       Num("expect", &Call::expect, 1, kU32, "waits for so many")});
  add(CallKind::kPollEx, "poll_ex", "ibv_start_poll, ibv_next_poll ..., ibv_end_poll",
      {On(ObjectKind::kCq), Num("n", &Call::n, 16, kU32, "at most"),
       Num("expect", &Call::expect, 1, kU32, "waits for so many"), WcFields()});
  add(CallKind::kStartPoll, "start_poll", "ibv_start_poll alone", {On(ObjectKind::kCq)});
  add(CallKind::kNextPoll, "next_poll", "ibv_next_poll alone", {On(ObjectKind::kCq)});
  add(CallKind::kReadWc, "read_wc", "reads fields of the current completion",
      {On(ObjectKind::kCq), WcFields()});
  add(CallKind::kEndPoll, "end_poll", "ibv_end_poll alone", {On(ObjectKind::kCq)});
  add(CallKind::kArm, "arm", "ibv_req_notify_cq",
      {Queue(), Bare("solicited", &Call::solicited, "only for solicited completions")});
  add(CallKind::kGetCqEvent, "get_cq_event", "ibv_get_cq_event", {On(ObjectKind::kChannel)});
  add(CallKind::kAckCqEvents, "ack_cq_events", "ibv_ack_cq_events",
      {On(ObjectKind::kCq), Num("n", &Call::n, 1, kU32, "events")});
  add(CallKind::kGetAsyncEvent, "get_async_event", "ibv_get_async_event", {DeviceOperand()});

  add(CallKind::kStore, "store", "the CPU writes memory",
      {Required(Mem("", "where")), Typed(FieldType::kBytes, "bytes", "hexadecimal"),
       Hex(Num("fill", &Call::fill, kUnset, kU8, "without bytes: this byte")),
       Num("len", &Call::len, 0, kMaxArena, "so many times")});
  add(CallKind::kLoad, "load", "the CPU reads memory into the trace",
      {Required(Mem("", "where")), Num("len", &Call::len, 8, kMaxArena, "bytes")});
  add(CallKind::kSettle, "settle", "runs until nothing moves any more", {});
  add(CallKind::kAdvance, "advance", "moves the virtual clock",
      {Required(Num("ns", &Call::ns, 0, uint64_t{1} << 62, "nanoseconds"))});
  add(CallKind::kFault, "fault", "a loss on the way of this QP's next messages",
      {On(ObjectKind::kQp),
       Required(Typed(FieldType::kFault, "", "lose_request, lose_ack, duplicate_request, rnr")),
       Num("n", &Call::n, 1, kU32, "so many messages"),
       Num("skip", &Call::skip, 0, kU32, "after so many others")});
  add(CallKind::kParallel, "parallel", "from here to join the threads run at once", {});
  add(CallKind::kJoin, "join", "waits for all threads", {});
  return all;
}

}  // namespace

const std::vector<CallSchema>& AllSchemas() {
  static const std::vector<CallSchema>* all = new std::vector<CallSchema>(MakeSchemas());
  return *all;
}

}  // namespace qpexam
