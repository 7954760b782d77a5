#include "harness/program/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/program/attributes.h"
#include "harness/program/print.h"
#include "harness/program/schema.h"
#include "harness/program/validate.h"
#include "reference/model/ops.h"

namespace qpexam {
namespace {

using model::DataRule;
using model::Operation;
using model::QpType;

// What a finding says, before its call is known.
struct Undefined {
  const char* clause;
  std::string why;
};
using Verdict = std::optional<Undefined>;

// An open region of one thread on one QP.
struct Region {
  ObjectId qp;
  uint8_t thread;
  bool built = false;  // a builder was called
  Operation op{};
  int data_setters = 0;
  int qp_setters = 0;
  std::vector<ObjectId> named;  // by handle or key: must outlive the region (WR-CRIT-012)
};

// What is known of an object from the call that made it.
struct Known {
  bool alive = false;
  uint8_t thread_of_batch = 0;  // a cq: who holds it between start_poll and end_poll
  bool in_batch = false;
  bool has_td = false;            // a pd; a qp on one
  int dependents = 0;             // live objects that were made on this one
  std::vector<ObjectId> made_on;  // what it depends on
  const Call* made_by = nullptr;
  int events_got = 0;              // a channel: get_cq_event
  int events_acked = 0;            // a cq
  std::vector<ObjectId> ah_users;  // an ah: QPs whose requests may not have completed
};

class Linter {
 public:
  explicit Linter(const Program& program) : program_(program), known_(program.objects.size()) {}

  std::optional<LintFinding> Run();

 private:
  Verdict Check(uint32_t index);
  Verdict CheckSection(uint32_t parallel);
  Verdict CheckHandles(const Call& call);
  Verdict Make(const Call& call);
  Verdict Destroy(const Call& call);
  Verdict Start(const Call& call);
  Verdict End(const Call& call);
  Verdict Build(const Call& call);
  Verdict SetData(const Call& call);
  Verdict SetQp(const Call& call);
  Verdict PostSend(const Call& call);
  Verdict BindArguments(const Call& call, uint8_t wanted_type);
  Verdict TsoArguments(const Call& call) const;
  Verdict PollBatch(const Call& call);
  Verdict Unfinished(const Region& region) const;
  Verdict LocalAddresses(const Call& call) const;
  Verdict OutsideRegions(const Call& call, std::string_view what) const;
  Verdict OutsideBatches(const Call& call, std::string_view what) const;

  Region* Find(ObjectId qp, uint8_t thread);
  const Region* FindOther(ObjectId qp, uint8_t thread) const;
  const Call& Maker(ObjectId id) const { return *known_[id].made_by; }
  std::string_view Name(ObjectId id) const { return program_.objects[id].name; }
  void UseAh(const Call& call);
  void ForgetUsesOf(ObjectId qp);

  const Program& program_;
  std::vector<Known> known_;
  std::vector<Region> regions_;
  std::vector<ObjectId> threads_;   // Call::thread - 1
  std::vector<ObjectId> used_ahs_;  // those with ah_users
  std::vector<ObjectId> batches_;   // cqs between start_poll and end_poll
  bool in_parallel_ = false;
  uint32_t section_ = 0;  // its `parallel`
};

std::optional<LintFinding> Linter::Run() {
  for (uint32_t i = 0; i < program_.calls.size(); ++i) {
    Verdict found = Check(i);
    if (!found) continue;
    if (!in_parallel_) return LintFinding{i, i, found->clause, std::move(found->why)};
    const Call& call = program_.calls[i];
    return LintFinding{
        i, section_, found->clause,
        fmt::format("{} (at {})", found->why,
                    call.line ? fmt::format("line {}", call.line) : fmt::format("call {}", i))};
  }
  return std::nullopt;
}

Region* Linter::Find(ObjectId qp, uint8_t thread) {
  for (Region& r : regions_) {
    if (r.qp == qp && r.thread == thread) return &r;
  }
  return nullptr;
}

const Region* Linter::FindOther(ObjectId qp, uint8_t thread) const {
  for (const Region& r : regions_) {
    if (r.qp == qp && r.thread != thread) return &r;
  }
  return nullptr;
}

// Whether a field holds a handle that the library dereferences, not a key or a number.
bool IsHandle(const Field& f, const Call& call) {
  if (f.type == FieldType::kObject) {
    if (f.member.object != &Call::object2) return true;
    return call.kind == CallKind::kConnect;  // elsewhere only the QP's number is used
  }
  // A QP's private queues outlive it.
  return f.type == FieldType::kQueue && call.side == Side::kNone;
}

Verdict Linter::CheckHandles(const Call& call) {
  for (const Field& f : SchemaOf(call.kind).fields) {
    if (!Applies(f, call) || !IsHandle(f, call)) continue;
    const ObjectId id = call.*f.member.object;
    if (id == kNoObject || known_[id].alive) continue;
    const bool is_ah = program_.objects[id].kind == ObjectKind::kAh;
    return Undefined{is_ah ? "WR-UD-008" : "WR-CRIT-012",
                     fmt::format("{} was destroyed before", Name(id))};
  }
  if (call.thread != 0 && !known_[threads_[call.thread - 1]].alive) {
    return Undefined{"WR-CRIT-012",
                     fmt::format("thread {} has ended", Name(threads_[call.thread - 1]))};
  }
  return std::nullopt;
}

Verdict Linter::Check(uint32_t index) {
  const Call& call = program_.calls[index];
  if (Verdict bad = CheckHandles(call)) return bad;
  if (Makes(call.kind)) return Make(call);
  switch (call.kind) {
    case CallKind::kDestroy:
      return Destroy(call);
    case CallKind::kStart:
      return Start(call);
    case CallKind::kBuild:
      return Build(call);
    case CallKind::kSetSge:
    case CallKind::kSetSgeList:
    case CallKind::kSetInline:
    case CallKind::kSetInlineList:
      return SetData(call);
    case CallKind::kSetUdAddr:
    case CallKind::kSetXrcSrqn:
      return SetQp(call);
    case CallKind::kComplete:
    case CallKind::kAbort:
      return End(call);
    case CallKind::kPostSend:
      return PostSend(call);
    case CallKind::kBindMw:
      if (Verdict bad = OutsideRegions(call, "ibv_bind_mw posts")) return bad;
      if (Maker(call.object).qp_type == QpType::kXrcRecv) {
        return Undefined{"WR-XRC-005", "an XRC_RECV QP has no send queue"};
      }
      return BindArguments(call, 1);
    case CallKind::kRecv: {
      const Call& qp = Maker(call.object);
      if (qp.kind == CallKind::kOpenQp || qp.qp_type == QpType::kXrcRecv ||
          qp.qp_type == QpType::kXrcSend) {
        return Undefined{"WR-XRC-005", "an XRC QP has no receive queue"};
      }
      if (qp.srq != kNoObject) {
        return Undefined{"WR-RESP-020", "receives of a QP on an SRQ are posted to the SRQ"};
      }
      return LocalAddresses(call);
    }
    case CallKind::kSrqRecv:
      return LocalAddresses(call);
    case CallKind::kConnect:
    case CallKind::kModify:
    case CallKind::kQuery:
    case CallKind::kAttachMcast:
    case CallKind::kDetachMcast: {
      if (Verdict bad = OutsideRegions(call, WordOf(call))) return bad;
      if (call.kind != CallKind::kQuery) {
        if (Verdict bad = OutsideBatches(call, WordOf(call))) return bad;
      }
      if (call.kind == CallKind::kConnect && call.object2 != kNoObject) {
        Call peer = call;
        peer.object = call.object2;
        if (Verdict bad = OutsideRegions(peer, WordOf(call))) return bad;
      }
      if (Given(call, AttrField::kState) == uint64_t{IBV_QPS_RESET}) ForgetUsesOf(call.object);
      return std::nullopt;
    }
    case CallKind::kReregMr:
      for (const Region& r : regions_) {
        if (std::count(r.named.begin(), r.named.end(), call.object)) {
          return Undefined{"WR-CRIT-012", fmt::format("an open region of {} uses {}", Name(r.qp),
                                                      Name(call.object))};
        }
      }
      return std::nullopt;
    case CallKind::kResizeCq:
      return OutsideBatches(call, "resize_cq");
    case CallKind::kPoll:
    case CallKind::kPollEx:
    case CallKind::kStartPoll:
    case CallKind::kNextPoll:
    case CallKind::kReadWc:
    case CallKind::kEndPoll:
      return PollBatch(call);
    case CallKind::kGetCqEvent:
      ++known_[call.object].events_got;
      return std::nullopt;
    case CallKind::kAckCqEvents:
      known_[call.object].events_acked += static_cast<int>(std::min<uint64_t>(call.n, 1 << 20));
      return std::nullopt;
    case CallKind::kSettle:
      for (const Region& r : regions_) {
        return Undefined{"WR-CRIT-010",
                         fmt::format("waiting inside the open region of {}", Name(r.qp))};
      }
      for (ObjectId ah : used_ahs_) known_[ah].ah_users.clear();
      used_ahs_.clear();
      return std::nullopt;
    case CallKind::kParallel:
      if (Verdict bad = CheckSection(index)) return bad;
      in_parallel_ = true;
      section_ = index;
      return std::nullopt;
    case CallKind::kJoin:
      in_parallel_ = false;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Verdict Linter::Make(const Call& call) {
  Known& made = known_[call.object];
  made.alive = true;
  made.made_by = &call;
  if (call.kind == CallKind::kOpenQp) {
    // Uses the other QP's number; its own rules are those of an XRC_RECV QP.
    if (call.xrcd != kNoObject) made.made_on.push_back(call.xrcd);
  } else {
    for (ObjectId id : {call.device, call.pd, call.td, call.cq, call.recv_cq, call.srq, call.xrcd,
                        call.channel}) {
      if (id != kNoObject && call.kind != CallKind::kAh) made.made_on.push_back(id);
    }
    if (call.kind == CallKind::kAh && call.pd != kNoObject) made.made_on.push_back(call.pd);
  }
  for (ObjectId id : made.made_on) ++known_[id].dependents;
  if (call.kind == CallKind::kThread) threads_.push_back(call.object);
  if (call.kind == CallKind::kPd) made.has_td = call.td != kNoObject;
  if (call.kind == CallKind::kQp && call.pd != kNoObject) made.has_td = known_[call.pd].has_td;
  return std::nullopt;
}

Verdict Linter::Destroy(const Call& call) {
  const ObjectId id = call.object;
  Known& k = known_[id];
  const ObjectKind kind = program_.objects[id].kind;
  if (k.dependents > 0) {
    return Undefined{"WR-CRIT-012", fmt::format("{} is in use by other objects", Name(id))};
  }
  for (const Region& r : regions_) {
    if (r.qp == id) {
      return Undefined{r.thread == call.thread ? "WR-CRIT-011" : "WR-CRIT-012",
                       fmt::format("a region of {} is open", Name(id))};
    }
    if (std::count(r.named.begin(), r.named.end(), id)) {
      return Undefined{"WR-CRIT-012",
                       fmt::format("an open region of {} uses {}", Name(r.qp), Name(id))};
    }
  }
  if (kind == ObjectKind::kAh && !k.ah_users.empty()) {
    return Undefined{
        "WR-UD-008",
        fmt::format("a request of {} that uses {} may not have completed (settle first)",
                    Name(k.ah_users[0]), Name(id))};
  }
  if (kind == ObjectKind::kCq) {
    if (k.in_batch) {
      return Undefined{"WR-CQX-008",
                       fmt::format("{} is between start_poll and end_poll", Name(id))};
    }
    const ObjectId channel = k.made_by->channel;
    if (channel != kNoObject && known_[channel].events_got > k.events_acked) {
      return Undefined{"WR-EVT-006",
                       fmt::format("{} may have events that were not acknowledged: destroying it "
                                   "would wait for ever",
                                   Name(id))};
    }
  }
  if (kind == ObjectKind::kQp) {
    if (Verdict bad = OutsideBatches(call, "destroy")) return bad;
    ForgetUsesOf(id);
  }
  if (kind == ObjectKind::kThread) {
    for (const Region& r : regions_) {
      if (r.thread != 0 && threads_[r.thread - 1] == id) {
        return Undefined{"WR-CRIT-002",
                         fmt::format("{} holds the region of {}", Name(id), Name(r.qp))};
      }
    }
  }
  k.alive = false;
  for (ObjectId base : k.made_on) --known_[base].dependents;
  return std::nullopt;
}

// ibv_wr_* need the extension.
Verdict Extended(const Call& qp) {
  if (qp.kind == CallKind::kOpenQp || qp.qp_type == QpType::kXrcRecv) {
    return Undefined{"WR-XRC-005", "an XRC_RECV QP has no send queue"};
  }
  if (qp.ops == kPlainQp) {
    return Undefined{"WR-CREATE-009", "the QP was made without send_ops_flags"};
  }
  return std::nullopt;
}

Verdict Linter::Start(const Call& call) {
  if (Verdict bad = Extended(Maker(call.object))) return bad;
  if (Find(call.object, call.thread)) {
    return Undefined{"WR-CRIT-008",
                     fmt::format("the region of {} is open already", Name(call.object))};
  }
  if (const Region* other = FindOther(call.object, call.thread); other && !in_parallel_) {
    if (known_[call.object].has_td) {
      return Undefined{"WR-CONC-004",
                       fmt::format("another thread is in the region of {}, which has "
                                   "a thread domain",
                                   Name(call.object))};
    }
    return Undefined{
        "WR-CONC-001",
        fmt::format("start waits for another thread to end its region of {}, which only "
                    "a later call does",
                    Name(other->qp))};
  }
  Region region;
  region.qp = call.object;
  region.thread = call.thread;
  regions_.push_back(region);
  return std::nullopt;
}

Verdict Linter::Unfinished(const Region& region) const {
  if (!region.built) return std::nullopt;
  const model::OperationInfo& info = model::Info(region.op);
  const bool needs_data = info.data == DataRule::kSgeOrInline || info.data == DataRule::kSge ||
                          info.data == DataRule::kOneSgeOf8;
  if (needs_data && region.data_setters == 0) {
    return Undefined{"WR-SET-003", fmt::format("{} has no data setter", info.builder)};
  }
  const QpType type = Maker(region.qp).qp_type;
  if (model::RequiredQpSetter(type, region.op) != model::QpSetter::kNone &&
      region.qp_setters == 0) {
    return Undefined{"WR-SET-009",
                     fmt::format("{} has no {}", info.builder,
                                 model::NeedsAddress(type) ? "set_ud_addr" : "set_xrc_srqn")};
  }
  return std::nullopt;
}

Verdict Linter::End(const Call& call) {
  if (Verdict bad = Extended(Maker(call.object))) return bad;
  Region* region = Find(call.object, call.thread);
  if (region == nullptr) {
    return Undefined{
        FindOther(call.object, call.thread) && !in_parallel_ ? "WR-CONC-007" : "WR-CRIT-009",
        fmt::format("{} without a start of this thread", WordOf(call))};
  }
  if (call.kind == CallKind::kComplete) {
    if (Verdict bad = Unfinished(*region)) return bad;
  }
  regions_.erase(regions_.begin() + (region - regions_.data()));
  return std::nullopt;
}

Verdict Linter::BindArguments(const Call& call, uint8_t wanted_type) {
  if (call.mw == kNoObject) return std::nullopt;
  if (Maker(call.mw).mw_type != wanted_type) {
    return Undefined{"WR-MW-001",
                     fmt::format("{} is a type {} window", Name(call.mw), Maker(call.mw).mw_type)};
  }
  if (call.mr == kNoObject) {
    return Undefined{"WR-MW-016", "the bind names no region; what a NULL mr does is not described"};
  }
  return std::nullopt;
}

Verdict Linter::TsoArguments(const Call& call) const {
  if (call.op != Operation::kTso) return std::nullopt;
  if (call.mss == 0) return Undefined{"WR-DATA-029", "mss is 0"};
  if (call.bytes.size() < 54) {
    return Undefined{"WR-DATA-027",
                     fmt::format("hdr has {} bytes, less than Ethernet, IPv4 and TCP headers",
                                 call.bytes.size())};
  }
  return std::nullopt;
}

Verdict Linter::Build(const Call& call) {
  const Call& qp = Maker(call.object);
  if (Verdict bad = Extended(qp)) return bad;
  Region* region = Find(call.object, call.thread);
  if (region == nullptr) {
    if (!in_parallel_ && FindOther(call.object, call.thread)) {
      return Undefined{"WR-CONC-007", "the region belongs to another thread"};
    }
    return Undefined{"WR-CRIT-001", "a builder outside start ... complete/abort"};
  }
  const model::OperationInfo& info = model::Info(call.op);
  if (!(qp.ops & info.send_ops_flag)) {
    return Undefined{"WR-CREATE-009", fmt::format("{} was not requested in ops", info.name)};
  }
  if (Verdict unfinished = Unfinished(*region)) {
    return Undefined{"WR-BUILD-009", "before the next builder: " + unfinished->why};
  }
  region->built = true;
  region->op = call.op;
  region->data_setters = 0;
  region->qp_setters = 0;
  if (call.op == Operation::kBindMw) {
    if (Verdict bad = BindArguments(call, 2)) return bad;
    region->named.push_back(call.mw);
    region->named.push_back(call.mr);
  }
  return TsoArguments(call);
}

Verdict Linter::SetData(const Call& call) {
  if (Verdict bad = Extended(Maker(call.object))) return bad;
  Region* region = Find(call.object, call.thread);
  if (region == nullptr) {
    if (!in_parallel_ && FindOther(call.object, call.thread)) {
      return Undefined{"WR-CONC-007", "the region belongs to another thread"};
    }
    return Undefined{"WR-CRIT-001", "a setter outside start ... complete/abort"};
  }
  if (!region->built) return Undefined{"WR-SET-011", "a setter before any builder"};
  const model::OperationInfo& info = model::Info(region->op);
  const bool is_inline = call.kind == CallKind::kSetInline || call.kind == CallKind::kSetInlineList;
  if (info.data == DataRule::kNone) {
    return Undefined{"WR-BUILD-011", fmt::format("{} takes no data setter", info.builder)};
  }
  if (is_inline && info.data != DataRule::kSgeOrInline) {
    return Undefined{"WR-INL-003", fmt::format("{} takes no inline data", info.builder)};
  }
  if (++region->data_setters > 1) {
    return Undefined{"WR-SET-002", "a second data setter of one request"};
  }
  if (!is_inline) {
    if (call.kind == CallKind::kSetSge) {
      region->named.push_back(call.lkey.object);
    }
    for (const SgeArg& s : call.sge) region->named.push_back(s.lkey.object);
  }
  return LocalAddresses(call);
}

Verdict Linter::SetQp(const Call& call) {
  const Call& qp = Maker(call.object);
  if (Verdict bad = Extended(qp)) return bad;
  Region* region = Find(call.object, call.thread);
  if (region == nullptr) {
    if (!in_parallel_ && FindOther(call.object, call.thread)) {
      return Undefined{"WR-CONC-007", "the region belongs to another thread"};
    }
    return Undefined{"WR-CRIT-001", "a setter outside start ... complete/abort"};
  }
  const bool wants_address = call.kind == CallKind::kSetUdAddr;
  if (wants_address ? !model::NeedsAddress(qp.qp_type) : qp.qp_type != QpType::kXrcSend) {
    return Undefined{"WR-SET-010",
                     fmt::format("{} on a QP of type {}", WordOf(call), model::Name(qp.qp_type))};
  }
  if (!region->built) return Undefined{"WR-SET-011", "a setter before any builder"};
  if (model::RequiredQpSetter(qp.qp_type, region->op) == model::QpSetter::kNone) {
    return Undefined{"WR-BUILD-011",
                     fmt::format("{} takes no {}", model::Info(region->op).builder, WordOf(call))};
  }
  if (++region->qp_setters > 1) {
    return Undefined{"WR-SET-007", fmt::format("a second {} of one request", WordOf(call))};
  }
  if (wants_address) {
    region->named.push_back(call.ah);
    UseAh(call);
  }
  return std::nullopt;
}

Verdict Linter::PostSend(const Call& call) {
  const Call& qp = Maker(call.object);
  if (qp.kind == CallKind::kOpenQp || qp.qp_type == QpType::kXrcRecv) {
    return Undefined{"WR-XRC-005", "an XRC_RECV QP has no send queue"};
  }
  if (Verdict bad = OutsideRegions(call, "post_send")) return bad;
  const model::OperationInfo& info = model::Info(call.op);
  if ((call.flags & IBV_SEND_INLINE) && info.data != DataRule::kSgeOrInline) {
    return Undefined{"WR-INL-003", fmt::format("{} takes no inline data", info.builder)};
  }
  if (model::NeedsAddress(qp.qp_type)) {
    if (call.ah == kNoObject) return Undefined{"WR-SET-009", "a UD request without an ah"};
    UseAh(call);
  }
  if (call.op == Operation::kBindMw) {
    if (Verdict bad = BindArguments(call, 2)) return bad;
  }
  if (Verdict bad = TsoArguments(call)) return bad;
  if (call.flags & IBV_SEND_INLINE) return std::nullopt;
  return LocalAddresses(call);
}

Verdict Linter::LocalAddresses(const Call& call) const {
  auto absolute = [](const MemRef& addr, uint64_t len) { return addr.mr == kNoObject && len != 0; };
  constexpr const char* kWhy = "a local address outside the Program's memory";
  if (call.kind == CallKind::kSetSge && absolute(call.addr, call.len)) {
    return Undefined{"WR-SGE-007", kWhy};
  }
  for (const SgeArg& s : call.sge) {
    if (absolute(s.addr, s.len)) return Undefined{"WR-SGE-007", kWhy};
  }
  return std::nullopt;
}

// Calls that post to, change or ask of a QP wait for its open region, or disturb it.
Verdict Linter::OutsideRegions(const Call& call, std::string_view what) const {
  const bool posts = call.kind == CallKind::kPostSend || call.kind == CallKind::kBindMw;
  for (const Region& r : regions_) {
    if (r.qp != call.object) continue;
    if (r.thread == call.thread) {
      return Undefined{posts ? "WR-MIX-002" : "WR-CRIT-011",
                       fmt::format("{} inside the open region of {}", what, Name(r.qp))};
    }
    if (in_parallel_) continue;
    return Undefined{
        posts ? "WR-CONC-002" : "WR-CRIT-012",
        fmt::format("{} while another thread is in the region of {}", what, Name(r.qp))};
  }
  return std::nullopt;
}

// A provider may hold a CQ's lock between start_poll and end_poll, and these take it.
Verdict Linter::OutsideBatches(const Call& call, std::string_view what) const {
  for (ObjectId cq : batches_) {
    if (known_[cq].thread_of_batch == call.thread || !in_parallel_) {
      return Undefined{"WR-CQX-008", fmt::format("{} while {} is between start_poll and end_poll",
                                                 what, Name(cq))};
    }
  }
  return std::nullopt;
}

Verdict Linter::PollBatch(const Call& call) {
  for (const Region& r : regions_) {
    if (r.thread == call.thread || !in_parallel_) {
      return Undefined{"WR-CRIT-010",
                       fmt::format("polling inside the open region of {} may block", Name(r.qp))};
    }
  }
  ObjectId queue = call.object;
  if (call.side != Side::kNone) {
    const Call* qp = known_[call.object].made_by;
    if (qp == nullptr) return std::nullopt;
    queue = call.side == Side::kSend ? qp->cq : qp->recv_cq;
    if (queue == kNoObject) return std::nullopt;  // a private queue, never an extended one
  }
  Known& cq = known_[queue];
  const bool extended_call = call.kind != CallKind::kPoll;
  if (extended_call && !cq.made_by->ex) {
    return Undefined{"WR-CQX-008", fmt::format("{} was not made by ibv_create_cq_ex", Name(queue))};
  }
  if (extended_call && (call.wc_flags & ~cq.made_by->wc_flags)) {
    return Undefined{"WR-CQX-004",
                     fmt::format("a field is read that {} was not made with", Name(queue))};
  }
  const bool opens = call.kind == CallKind::kPoll || call.kind == CallKind::kPollEx ||
                     call.kind == CallKind::kStartPoll;
  if (opens) {
    if (cq.in_batch && (cq.thread_of_batch == call.thread || !in_parallel_)) {
      return Undefined{"WR-CQX-008",
                       fmt::format("{} is between start_poll and end_poll", Name(queue))};
    }
    if (call.kind == CallKind::kStartPoll) {
      cq.in_batch = true;
      batches_.push_back(queue);
      cq.thread_of_batch = call.thread;
    }
    return std::nullopt;
  }
  if (!cq.in_batch || cq.thread_of_batch != call.thread) {
    return Undefined{"WR-CQX-008", fmt::format("{} without start_poll", WordOf(call))};
  }
  if (call.kind == CallKind::kEndPoll) {
    cq.in_batch = false;
    batches_.erase(std::find(batches_.begin(), batches_.end(), queue));
  }
  return std::nullopt;
}

void Linter::UseAh(const Call& call) {
  if (call.ah == kNoObject) return;
  std::vector<ObjectId>& users = known_[call.ah].ah_users;
  if (std::count(users.begin(), users.end(), call.object)) return;
  users.push_back(call.object);
  used_ahs_.push_back(call.ah);
}

void Linter::ForgetUsesOf(ObjectId qp) {
  for (ObjectId ah : used_ahs_) {
    std::vector<ObjectId>& users = known_[ah].ah_users;
    users.erase(std::remove(users.begin(), users.end(), qp), users.end());
  }
}

// What only shows when the threads' calls are seen together. Found at the `parallel` itself.
Verdict Linter::CheckSection(uint32_t parallel) {
  enum What : uint8_t { kRegion = 1, kPost = 2, kChange = 4, kDestroy = 8, kOther = 16 };
  struct Use {
    ObjectId object;
    uint8_t thread;
    uint8_t what;
  };
  if (!regions_.empty()) {
    return Undefined{"WR-CONC-005", fmt::format("the region of {} is open when the threads begin",
                                                Name(regions_[0].qp))};
  }
  if (!batches_.empty()) return Undefined{"WR-CQX-008", "a poll is open when the threads begin"};
  std::vector<Use> uses;
  std::vector<std::pair<uint8_t, ObjectId>> open;  // regions
  std::vector<std::pair<uint8_t, ObjectId>> batches;
  for (uint32_t i = parallel + 1; i < program_.calls.size(); ++i) {
    const Call& call = program_.calls[i];
    if (call.kind == CallKind::kJoin) break;
    Call copy = call;
    ForEachObject(&copy, [&](ObjectId& id, KindMask) {
      if (id == kNoObject) return;
      What what = kOther;
      if (id == call.object) {
        switch (call.kind) {
          case CallKind::kStart:
            what = kRegion;
            break;
          case CallKind::kPostSend:
          case CallKind::kBindMw:
            what = kPost;
            break;
          case CallKind::kConnect:
          case CallKind::kModify:
          case CallKind::kQuery:
          case CallKind::kAttachMcast:
          case CallKind::kDetachMcast:
          case CallKind::kReregMr:
            what = kChange;
            break;
          case CallKind::kDestroy:
            what = kDestroy;
            break;
          default:
            break;
        }
      } else if (id == call.object2 && call.kind == CallKind::kConnect) {
        what = kChange;
      }
      uses.push_back({id, call.thread, what});
    });
    const std::pair<uint8_t, ObjectId> mine{call.thread, call.object};
    if (call.kind == CallKind::kStart) {
      for (const auto& other : open) {
        if (other.first == call.thread && other.second != call.object) {
          return Undefined{"WR-CONC-005", "a thread holds two regions at once"};
        }
      }
      open.push_back(mine);
    }
    if (call.kind == CallKind::kComplete || call.kind == CallKind::kAbort) {
      open.erase(std::remove(open.begin(), open.end(), mine), open.end());
    }
    if (call.kind == CallKind::kStartPoll) batches.push_back(mine);
    if (call.kind == CallKind::kEndPoll) {
      batches.erase(std::remove(batches.begin(), batches.end(), mine), batches.end());
    }
  }
  if (!open.empty()) {
    return Undefined{"WR-CRIT-002",
                     fmt::format("a thread leaves the region of {} open", Name(open[0].second))};
  }
  if (!batches.empty()) {
    return Undefined{"WR-CQX-008",
                     fmt::format("a thread leaves the poll of {} open", Name(batches[0].second))};
  }
  std::stable_sort(uses.begin(), uses.end(),
                   [](const Use& a, const Use& b) { return a.object < b.object; });
  for (size_t first = 0, next; first < uses.size(); first = next) {
    const ObjectId id = uses[first].object;
    uint8_t by_thread[kMaxThreads + 1] = {};  // What bits
    for (next = first; next < uses.size() && uses[next].object == id; ++next) {
      by_thread[uses[next].thread] |= uses[next].what;
    }
    const ObjectKind kind = program_.objects[id].kind;
    for (int a = 0; a <= kMaxThreads; ++a) {
      for (int b = 0; b <= kMaxThreads; ++b) {
        if (a == b || !by_thread[a] || !by_thread[b]) continue;
        if (by_thread[a] & kDestroy) {
          return Undefined{
              "WR-CRIT-012",
              fmt::format("{} is destroyed by one thread and used by another", Name(id))};
        }
        if (kind == ObjectKind::kQp && known_[id].has_td && (by_thread[a] & (kRegion | kPost)) &&
            (by_thread[b] & (kRegion | kPost))) {
          return Undefined{"WR-CONC-004", fmt::format("two threads post to {}, which has a thread "
                                                      "domain",
                                                      Name(id))};
        }
        if ((by_thread[a] & kChange) && (kind != ObjectKind::kQp || (by_thread[b] & kRegion))) {
          return Undefined{
              "WR-CRIT-012",
              fmt::format("{} is changed by one thread and used by another", Name(id))};
        }
        if (kind == ObjectKind::kCq && (Maker(id).flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED)) {
          return Undefined{"WR-CONC-006",
                           fmt::format("two threads use {}, which is single threaded", Name(id))};
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<LintFinding> FirstUndefined(const Program& program) { return Linter(program).Run(); }

std::string Message(const Program& program, const LintFinding& finding) {
  const Call& call = program.calls[finding.call];
  const std::string where =
      call.line ? fmt::format("line {}", call.line) : fmt::format("call {}", finding.call);
  return fmt::format("{}: {}\n  {}: {}", where, PrintCall(program, call), finding.clause,
                     finding.why);
}

}  // namespace qpexam
