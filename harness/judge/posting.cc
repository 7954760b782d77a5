// Regions, builders, setters, ibv_post_send and receives: what is posted, and what complete may
// say.
#include <algorithm>

#include "harness/judge/impl.h"

namespace qpexam::judge {
namespace {

using model::DataRule;
using model::LocalFault;
using model::Operation;
using model::PostFault;
using model::QpType;

constexpr uint64_t kKnownFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | IBV_SEND_IP_CSUM;
constexpr uint32_t kNothing = ~uint32_t{0};

}  // namespace

Request& Judge::Impl::NewStaged(QpState& qp, const Call& call) {
  qp.region.staged.emplace_back();
  Request& r = qp.region.staged.back();
  r.qp = static_cast<Index>(&qp - qps_.begin());
  r.call = call_index_;
  r.thread = call.thread;
  r.built = clock_;
  r.payload = r.unknown = kNothing;
  return r;
}

// The arguments of a builder (or of one ibv_send_wr).
void Judge::Impl::FillRequest(const Call& call, Request* r) {
  r->op = call.op;
  r->wr_id = call.wr_id;
  r->flags = call.flags;
  r->imm = static_cast<uint32_t>(call.imm);
  r->rkey = call.rkey;
  r->addr = call.addr;
  r->compare_or_add = call.op == Operation::kAtomicCmpAndSwp ? call.compare : call.add;
  r->swap = call.swap;
  r->flush_type = call.flush_type;
  r->flush_level = call.flush_level;
  r->mss = call.mss;
  r->tso_header = static_cast<uint16_t>(call.bytes.size());
  if (call.op == Operation::kFlush) r->length = call.len;
  if (call.op == Operation::kAtomicWrite) {
    r->length = 8;
    r->payload = static_cast<uint32_t>(payloads_.size());
    payloads_.insert(payloads_.end(), call.bytes.begin(), call.bytes.end());
    payloads_.resize(r->payload + 8);
    unknowns_.resize(payloads_.size(), 0);
  }
  if (call.op == Operation::kBindMw) {
    r->mw = Is(call.mw, ObjectKind::kMw) ? Find(call.mw) : kNone;
    r->bind_mr = Is(call.mr, ObjectKind::kMr) ? Find(call.mr) : kNone;
    r->bind_access = call.access;
    r->bind_length = call.len;
    r->placed = InArena(call.addr, call.len, &r->offset);
  }
  if ((call.op == Operation::kLocalInv || call.op == Operation::kSendWithInv) &&
      Is(call.rkey.object, ObjectKind::kMw)) {
    r->mw = Find(call.rkey.object);
  }
}

void Judge::Impl::AddSges(const std::vector<SgeArg>& sges, Request* r) {
  r->data = Data::kSge;
  r->first_sge = static_cast<uint32_t>(sges_.size());
  r->sge_count = static_cast<uint16_t>(std::min<size_t>(sges.size(), 0xffff));
  if (r->op != Operation::kFlush) r->length = 0;
  for (const SgeArg& s : sges) {
    AddSge(s.lkey, s.addr, s.len);
    if (r->op != Operation::kFlush) r->length += s.len;
  }
}

// Inline data is copied by the setter (WR-INL-001): what memory holds now is what is sent.
void Judge::Impl::AddInline(MemRef addr, uint64_t len, Request* r) {
  if (r->data != Data::kInline || r->payload == kNothing) {
    r->data = Data::kInline;
    r->payload = static_cast<uint32_t>(payloads_.size());
    r->length = 0;
  }
  const size_t at = payloads_.size();
  uint64_t start = 0;
  r->length += len;
  if (InArena(addr, len, &start)) {
    gathered_.Clear();
    GatherRange(0, start, len, *r);
    payloads_.insert(payloads_.end(), gathered_.bytes.begin(), gathered_.bytes.end());
    unknowns_.resize(payloads_.size(), 0);
    if (!gathered_.unknown.empty()) {
      std::copy(gathered_.unknown.begin(), gathered_.unknown.end(),
                unknowns_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  } else if (len <= kMaxArena) {
    payloads_.resize(at + len, 0);
    unknowns_.resize(payloads_.size(), 0xff);
  }
}

// Inline data of a list is read when its request's turn comes: those before it may have changed it.
void Judge::Impl::RereadInline(Request* r) {
  if (r->data != Data::kInline || r->payload == kNothing) return;
  size_t at = r->payload;
  for (const SgeArg& s : program_->calls[r->call].sge) {
    uint64_t start = 0;
    if (InArena(s.addr, s.len, &start)) {
      gathered_.Clear();
      GatherRange(0, start, s.len, *r);
      for (size_t i = 0; i < gathered_.bytes.size(); ++i) {
        const bool known = gathered_.unknown.empty() || gathered_.unknown[i] == 0;
        if (!known || gathered_.bytes[i] != payloads_[at + i]) unknowns_[at + i] = 0xff;
      }
    } else if (s.len > kMaxArena) {
      return;  // AddInline() left it out as well
    }
    at += s.len;
  }
}

// Whether the caller broke a rule that the specification leaves undefined.
bool Judge::Impl::Misused(const QpState& qp, const Request& r) const {
  const model::OperationInfo& info = model::Info(r.op);
  if (!r.by_post_send && (qp.plain || !(qp.ops & info.send_ops_flag))) return true;
  switch (info.data) {
    case DataRule::kNone:
      if (r.data != Data::kNone) return true;
      break;
    case DataRule::kNoneTolerated:
      break;
    case DataRule::kSgeOrInline:
      if (r.data == Data::kNone) return true;
      break;
    case DataRule::kSge:
    case DataRule::kOneSgeOf8:
      if (r.data != Data::kSge) return true;
      break;
  }
  if (r.op == Operation::kTso && (r.mss == 0 || r.tso_header < 54)) return true;
  if (r.op == Operation::kBindMw && (r.mw == kNone || mws_[r.mw].type == 1)) return true;
  const model::QpSetter setter = model::RequiredQpSetter(qp.type, r.op);
  if ((setter != model::QpSetter::kNone) != r.qp_setter && !r.by_post_send) return true;
  if (r.op == Operation::kFlush || r.op == Operation::kAtomicWrite) return r.by_post_send;
  return false;
}

void Judge::Impl::Start(const Call& call) {
  QpState* qp = Qp(call.object);
  if (qp == nullptr) return;
  if (qp->region.open && !parallel_) qp->region.undefined = true;  // WR-CRIT-008
  if (!qp->region.open) {
    qp->region.staged.clear();
    qp->region.undefined = qp->region.was_full = false;
  }
  if (qp->plain || !qp->alive) qp->region.undefined = true;
  qp->region.open = true;
  qp->region.thread = call.thread;
}

void Judge::Impl::Build(const Call& call) {
  QpState* qp = Qp(call.object);
  if (qp == nullptr) return;
  if (!qp->region.open) {
    qp->region.undefined = true;  // WR-CRIT-001
    Unfollow(*qp);
    return;
  }
  Request& r = NewStaged(*qp, call);
  FillRequest(call, &r);
  qp->region.was_full |= qp->outstanding + qp->region.staged.size() > qp->granted[0];
}

void Judge::Impl::Setter(const Call& call) {
  QpState* qp = Qp(call.object);
  if (qp == nullptr) return;
  if (!qp->region.open || qp->region.staged.empty()) {
    qp->region.undefined = true;  // WR-CRIT-001, WR-SET-011
    if (!qp->region.open) Unfollow(*qp);
    return;
  }
  Request& r = qp->region.staged.back();
  if (r.thread != call.thread) r.undefined = true;  // WR-CONC-007
  switch (call.kind) {
    case CallKind::kSetUdAddr:
      if (r.qp_setter || qp->type != QpType::kUd) {
        if (!(qp->type == QpType::kSrd && !r.qp_setter)) r.undefined = true;
      }
      r.qp_setter = true;
      r.ah = Is(call.ah, ObjectKind::kAh) ? Find(call.ah) : kNone;
      r.qpn = call.qpn;
      r.qkey = call.qkey;
      return;
    case CallKind::kSetXrcSrqn:
      if (r.qp_setter || qp->type != QpType::kXrcSend) r.undefined = true;
      r.qp_setter = true;
      r.srqn = call.srqn;
      return;
    default:
      break;
  }
  if (r.data_setter) r.undefined = true;  // WR-SET-002
  r.data_setter = true;
  switch (call.kind) {
    case CallKind::kSetSge:
      r.data = Data::kSge;
      r.first_sge = static_cast<uint32_t>(sges_.size());
      r.sge_count = 1;
      AddSge(call.lkey, call.addr, call.len);
      if (r.op != Operation::kFlush) r.length = call.len;
      break;
    case CallKind::kSetSgeList:
      AddSges(call.sge, &r);
      break;
    case CallKind::kSetInline:
      if (r.op == Operation::kFlush) break;  // its length is the builder's
      AddInline(call.addr, call.len, &r);
      break;
    case CallKind::kSetInlineList:
      if (r.op == Operation::kFlush) break;
      r.data = Data::kInline;
      r.payload = static_cast<uint32_t>(payloads_.size());
      r.length = 0;
      for (const BufArg& b : call.bufs) AddInline(b.addr, b.len, &r);
      r.sge_count = static_cast<uint16_t>(call.bufs.size());
      break;
    default:
      break;
  }
}

void Judge::Impl::Apply(PostJudgement* j, PostFault fault, const char* why) {
  const model::PostRule& rule = model::RuleOf(fault);
  if (rule.may_refuse) {
    if (!j->may_refuse || j->refuse_warns) {
      j->refuse_clause = rule.clause;
      j->refuse_warns = rule.refusal_is_warning;
    }
    j->may_refuse = true;
  }
  if (!rule.may_accept) {
    j->may_accept = false;
    j->accept_clause = rule.clause;
    j->why = why;
  } else if (rule.acceptance_is_warning && !j->accept_warns) {
    j->accept_warns = true;
    j->accept_clause = rule.clause;
    j->why = why;
  }
  if (rule.choice != model::ChoicePoint::kCount && j->choice == model::ChoicePoint::kCount) {
    j->choice = rule.choice;
    j->fault = fault;
  }
}

Judge::Impl::PostJudgement Judge::Impl::JudgePosting(QpState& qp, Request* requests, size_t count) {
  PostJudgement j;
  if (count == 0) return j;
  if (Only(qp.states, kBeforeRts)) {
    Apply(&j, PostFault::kBadState, "the QP is not yet in RTS");
  } else if (qp.states & kBeforeRts) {
    j.may_refuse = true;
  }
  if (qp.states & StateBit(IBV_QPS_ERR) || MayBeError(qp)) {
    Apply(&j, PostFault::kStateErr, "the QP is in ERR");
  }
  if (uint64_t{qp.outstanding} + count > qp.granted[0]) {
    Apply(&j, PostFault::kQueueFull, "the send queue has no slot for it");
  }
  const bool efa = options_.efa || qp.type == QpType::kSrd;
  for (size_t i = 0; i < count; ++i) {
    Request& r = requests[i];
    const model::OperationInfo& info = model::Info(r.op);
    const bool connected = qp.type == QpType::kRc || qp.type == QpType::kXrcSend;
    if (!(r.flags & IBV_SEND_SIGNALED) && !qp.sig_all) {
      Apply(&j, PostFault::kUnsignaled, "a request is not signaled");
    }
    if ((r.flags & ~kKnownFlags) || ((r.flags & IBV_SEND_FENCE) && (!connected || efa)) ||
        (r.flags & IBV_SEND_IP_CSUM) ||
        ((r.flags & IBV_SEND_SOLICITED) && !info.solicited_allowed) ||
        ((r.flags & IBV_SEND_INLINE) && r.data != Data::kInline)) {
      Apply(&j, PostFault::kUnsupportedFlag, "a flag has no meaning there");
    }
    if (r.data == Data::kSge) {
      if (r.sge_count > qp.granted[2]) {
        Apply(&j, PostFault::kTooManySges, "more SGEs than max_send_sge");
      } else if (r.op == Operation::kRdmaRead && r.sge_count > 1) {
        Apply(&j, PostFault::kTooManyReadSges, "more SGEs than a READ may have");
      }
      if (r.sge_count == 0) j.may_refuse = true;  // WR-SET-004: SHOULD
    } else if (r.data == Data::kInline) {
      if (r.length > qp.granted[4]) {
        Apply(&j, PostFault::kTooMuchInline, "more inline data than max_inline_data");
      }
      if (r.length == 0 && r.sge_count == 0) j.may_refuse = true;  // WR-INL-007: SHOULD
      if (efa && r.op != Operation::kSend && r.op != Operation::kSendWithImm) {
        j.may_refuse = true;  // WR-INL-004: refused at every length
      }
    }
    if (info.data == DataRule::kOneSgeOf8 && (r.length != 8 || r.sge_count != 1)) {
      Apply(&j, PostFault::kBadAtomicLength, "the local buffer of an atomic is not one SGE of 8");
    }
    if (r.op == Operation::kFlush) {
      const uint64_t known = kFlushGlobal | kFlushPersistent;
      if (r.flush_type == 0 || (r.flush_type & ~known) || r.flush_level > kFlushWholeMr ||
          r.length >> 32) {
        Apply(&j, PostFault::kBadFlush, "type, level or length of a FLUSH");
      }
    } else if (r.length > (uint64_t{1} << 31)) {
      Apply(&j, PostFault::kMessageTooLong, "longer than max_msg_sz");
    }
    if (r.op == Operation::kTso) {
      j.may_refuse = true;  // limits of the device that the Program does not know
    }
    if (r.op == Operation::kBindMw && r.bind_length > (uint64_t{1} << 31)) {
      Apply(&j, PostFault::kBindTooLong, "a window of more than 2 GiB");
    }
    bool unsure = false;
    if (r.op == Operation::kBindMw || r.op == Operation::kLocalInv ||
        r.op == Operation::kSendWithInv) {
      if (WindowFactOf(r, qp, &unsure) != model::RequestFacts::Window::kFine || unsure) {
        Apply(&j, PostFault::kWindow, "a mistake about a window");
      }
      if (qp.type == QpType::kUc || qp.type == QpType::kXrcSend) j.may_refuse = true;
    }
    if (r.data == Data::kSge) {
      for (uint32_t s = 0; s < r.sge_count; ++s) {
        Sge& e = sges_[r.first_sge + s];
        const LocalPlace& place = PlacePosted(&e, qp.pd, info.is_read_or_atomic);
        if (place.fault != LocalFault::kNone || place.unsure || ChangedSinceBuilt(e.key, r)) {
          Apply(&j, PostFault::kLocalKey, "a bad local key");
          break;
        }
      }
    }
    if (info.data == DataRule::kOneSgeOf8 || r.op == Operation::kAtomicWrite) {
      const RemotePlace place = PlaceRemote(r, qp, PeerOf(qp, r));
      if (place.fault == model::RemoteFault::kMisaligned || place.unsure ||
          (r.addr.offset & 7) != 0) {
        Apply(&j, PostFault::kMisaligned, "a misaligned remote address");
      }
    }
    if (model::NeedsAddress(qp.type)) {
      if (r.length > qp.path_mtu && qp.type == QpType::kUd) {
        Apply(&j, PostFault::kUdTooLong, "longer than the path MTU");
      }
      if (r.ah == kNone || !ahs_[r.ah].alive) {
        Apply(&j, PostFault::kAddressHandle, "no address handle");
      } else if (ahs_[r.ah].pd != qp.pd || !ahs_[r.ah].plain || r.qpn.object == kNoObject ||
                 r.qpn.flip) {
        j.may_refuse = true;  // WR-UD-008, WR-UD-010
      }
    }
    if (qp.type == QpType::kXrcSend && r.srqn.object == kNoObject) j.may_refuse = true;
    if (qp.type == QpType::kRawPacket) j.may_refuse = true;
    if (r.op == Operation::kFlush && r.data_setter) j.may_refuse = true;
    if (!(((info.reference_types) & model::MaskOf(qp.type)) != 0)) j.may_refuse = true;
    if (r.by_post_send && (qp.plain ? !info.has_send_wr : !(qp.ops & info.send_ops_flag))) {
      j.may_refuse = true;  // WR-MIX-003: operations not requested
    }
  }
  return j;
}

void Judge::Impl::JudgeRc(const QpState& qp, const PostJudgement& j, int rc, const char* verb,
                          size_t count) {
  if (rc == 0 && j.may_accept && !j.accept_warns && j.choice == model::ChoicePoint::kCount) return;
  const std::string name = NameOf(qp.id);
  if (rc == 0) {
    if (!j.may_accept) {
      Report(j.accept_clause, name + ": " + verb + " accepted what must be refused: " + j.why,
             {"non-zero"}, "0");
    } else if (j.accept_warns) {
      Finding* f =
          Add(FindingKind::kWarning, j.accept_clause,
              name + ": " + verb + " accepted what should be refused: " + j.why, {"non-zero"}, "0");
      (void)f;
    }
    if (j.choice != model::ChoicePoint::kCount && model::RuleOf(j.fault).reference_errno != 0) {
      Vary(j.choice, 1);
    }
    return;
  }
  if (rc < 0) {
    Add(FindingKind::kWarning, "WR-ATOM-003", name + ": " + verb + " returned a negative value",
        {"0", "a positive errno"}, std::to_string(rc));
  }
  if (j.may_refuse) {
    if (j.refuse_warns) {
      Add(FindingKind::kWarning, j.refuse_clause,
          name + ": " + verb + " refused what should be accepted", {"0"}, std::to_string(rc));
    }
    if (j.choice != model::ChoicePoint::kCount && model::RuleOf(j.fault).reference_errno == 0) {
      Vary(j.choice, 1);
    }
    return;
  }
  const char* clause = "WR-BUILD-001";
  const Request* last = qp.region.staged.empty() ? nullptr : &qp.region.staged.back();
  if (count == 0) {
    clause = "WR-CRIT-006";
  } else if (qp.outstanding > 0 && uint64_t{qp.outstanding} + count == qp.granted[0]) {
    clause = "WR-CAP-001";
  } else if (qp.refused_before) {
    clause = "WR-ATOM-004";
  } else if (qp.aborted_before) {
    clause = "WR-CAP-006";
  } else if (qp.wrapped) {
    clause = "WR-CAP-004";
  } else if (uint64_t{qp.outstanding} + count == qp.granted[0]) {
    clause = "WR-CAP-001";
  } else if (last && last->data == Data::kInline) {
    clause = "WR-INL-004";
  } else if (last && last->data == Data::kSge && last->sge_count > 1) {
    clause = "WR-SGE-002";
  } else if (last && last->length == 0 && last->data == Data::kSge) {
    clause = "WR-SET-004";
  }
  Report(clause,
         name + ": " + verb + " of " + std::to_string(count) + " good request(s) failed with " +
             std::to_string(qp.outstanding) + " of " + std::to_string(qp.granted[0]) +
             " outstanding",
         {"0"}, std::to_string(rc));
}

void Judge::Impl::Complete(const Call& call, const Event& event) {
  QpState* qp = Qp(call.object);
  if (qp == nullptr) return;
  Region& region = qp->region;
  if (!region.open) region.undefined = true;
  if (region.open && region.thread != call.thread && !parallel_) {
    Unfollow(*qp);  // WR-CONC-001: nobody knows whose region is open from now on
    return;
  }
  bool undefined = region.undefined;
  for (const Request& r : region.staged) {
    undefined |= r.undefined || Misused(*qp, r) || r.thread != call.thread;  // WR-CONC-001
  }
  region.open = false;
  region.undefined = false;
  if (undefined || !qp->followed) {
    if (undefined && qp->followed && !options_.lints_expected) {
      Add(FindingKind::kUndefined, "", NameOf(qp->id) + ": the region breaks a rule of the API", {},
          "rc " + std::to_string(event.rc));
    }
    if (event.rc == 0 && undefined) Unfollow(*qp);
    for (const Request& r : region.staged) Drop(*qp, r, Fate::kRefused);
    if (event.rc == 0) {
      MayComplete(*qp, region.staged.size());
      Started();
    }
    region.staged.clear();
    return;
  }
  PostJudgement j = JudgePosting(*qp, region.staged.data(), region.staged.size());
  // A builder may take its slot, or find none, before a poll in the region frees one.
  j.may_refuse |= region.was_full;
  if (!parallel_) JudgeRc(*qp, j, event.rc, "ibv_wr_complete()", region.staged.size());
  if (event.rc == 0) {
    for (Request& r : region.staged) Accept(*qp, r);
    if (!region.staged.empty()) Started();
  } else {
    if (!region.staged.empty()) qp->refused_before = true;
    for (const Request& r : region.staged) Drop(*qp, r, Fate::kRefused);
  }
  region.staged.clear();
}

void Judge::Impl::Abort(const Call& call, const Event& event) {
  (void)event;
  QpState* qp = Qp(call.object);
  if (qp == nullptr) return;
  // WR-CRIT-009: of no region, or of another thread's.
  if (!qp->region.open || (qp->region.thread != call.thread && !parallel_)) {
    qp->region.undefined = true;
    Unfollow(*qp);
    return;
  }
  qp->aborted_before |= !qp->region.staged.empty();
  for (const Request& r : qp->region.staged) Drop(*qp, r, Fate::kAborted);
  qp->region.staged.clear();
  qp->region.open = qp->region.undefined = false;
}

// Kept only to explain what should not have happened.
void Judge::Impl::Drop(QpState& qp, const Request& staged, Fate fate) {
  if (dead_.size() >= 256) dead_.erase(dead_.begin(), dead_.begin() + 128);
  dead_.push_back(staged);
  Request& r = dead_.back();
  r.fate = fate;
  r.states_then = qp.states;
  const QpState* peer = PeerOf(qp, r);
  if (model::Info(r.op).takes_rkey && r.op != Operation::kSendWithInv) {
    const RemotePlace place = PlaceRemote(r, qp, peer);
    r.placed = place.placed;
    r.block = place.block;
    r.offset = place.offset;
  }
}

void Judge::Impl::Accept(QpState& qp, Request& staged) {
  requests_.push_back(staged);
  Request& r = requests_.back();
  r.id = 0;
  r.posted = ++clock_;
  r.fate = Fate::kOutstanding;
  r.signaled = (r.flags & IBV_SEND_SIGNALED) != 0 || qp.sig_all;
  r.message = static_cast<uint32_t>(qp.messages.size());
  bool open = false;
  if (r.mw != kNone && (r.op == Operation::kBindMw || r.op == Operation::kLocalInv ||
                        r.op == Operation::kSendWithInv)) {
    r.before = mws_[r.mw].now;
  }
  r.facts = FactsOf(r, &open);
  r.epoch = epoch_;
  r.id = static_cast<RequestId>(requests_.size());
  r.sure = r.safe = false;
  r.known = !open;
  r.maybe = true;
  if (!open) {
    const model::OutcomeSet set = model::RequestOutcomes(r.facts);
    bool sure = set.count > 0, safe = sure;
    r.no_effect = set.count > 0;
    r.maybe = false;
    for (const model::Outcome& o : set) {
      const bool good = o.completes && o.status == IBV_WC_SUCCESS;
      const bool plain = (o.tolerated & model::kAnyError) == 0;
      sure &= good && plain;
      safe &= (good && plain) || !o.completes;
      r.no_effect &= o.completes && o.effect == model::Effect::kNone;
      r.maybe |= good && o.effect != model::Effect::kWhole;
      if (good && o.responder_next != model::NextState::kKeep) {
        if (QpState* peer = PeerOf(qp, r)) peer->incoming_trouble = peer->failed_here = true;
      }
    }
    // Where nothing is acknowledged, SUCCESS of the message that may have moved the responder to
    // ERR does not tell whether it did (WR-RESP-015).
    if (model::IsConnected(qp.type) && !model::IsReliable(qp.type)) {
      const QpState* peer = PeerOf(qp, r);
      r.maybe |= peer && peer->incoming_trouble;
    }
    // What a later call can still mend (a receive, a peer's state or right, a binding) may have an
    // effect after all.
    r.no_effect &= r.facts.receive != model::ReceiveFact::kNone &&
                   r.facts.path == model::PathFact::kReachable &&
                   r.facts.remote != model::RemoteFault::kNoQpRight &&
                   !Is(r.rkey.object, ObjectKind::kMw);
    r.sure = sure;
    r.safe = safe;
  }
  qp.sent.push_back(r.id);
  ++qp.outstanding;
  if (qp.sent.size() > qp.granted[0]) qp.wrapped = true;
  if (NeedsReceive(r)) qp.messages.push_back(r.id);
  if (!r.sure && r.safe) ++qp.waiting;
  if (!r.safe) {
    // Whatever else is on its way between the two may meet an end in ERR.
    r.epoch = ++epoch_;
    if (qp.first_unsure == 0) qp.first_unsure = r.id;
    if (QpState* peer = PeerOf(qp, r)) peer->incoming_trouble = true;
    // A bent QP number may lead anywhere (WR-UD-010), also to a receive that it does not fit.
    if (model::NeedsAddress(qp.type) && PeerOf(qp, r) == nullptr) {
      for (QpState& any : qps_) {
        if (any.alive && any.type == qp.type && MayChoke(any, r)) any.incoming_trouble = true;
      }
    }
  }
  CqState& cq = cqs_[qp.send_cq];
  ++cq.possible;
  CheckOverrun(cq);
  AddEffects(qp, r);
}

// Whether one of its receives is none that the message fits into.
bool Judge::Impl::MayChoke(QpState& to, const Request& r) {
  const ReceiveQueue& rq = *ReceivesOf(to);
  const uint64_t need = r.length + (to.type == QpType::kUd ? 40 : 0);
  for (uint32_t i = rq.head; i < rq.posted.size(); ++i) {
    const Receive& receive = rq.posted[i];
    if (!receive.done &&
        (receive.fault || receive.unsure || receive.alike || receive.length < need))
      return true;
  }
  return false;
}

// So many of what it was given may complete, though nobody follows them.
void Judge::Impl::MayComplete(QpState& qp, size_t count) {
  if (qp.send_cq == kNone) return;
  cqs_[qp.send_cq].possible += static_cast<uint32_t>(count);
  CheckOverrun(cqs_[qp.send_cq]);
}

void Judge::Impl::Unfollow(QpState& qp) {
  if (!qp.followed) return;
  qp.followed = false;
  blind_memory_ = true;
  ++epoch_;
  if (qp.peer != kNone) qps_[qp.peer].followed = false;
}

// Whether the next call is one more request of the same list: what the executor goes by.
bool Judge::Impl::GoesOn(const Call& call, const Event& event) const {
  if (!call.more || call_index_ + 1 >= program_->calls.size()) return false;
  const Call& next = program_->calls[call_index_ + 1];
  if (next.kind != call.kind || next.object != call.object || next.thread != call.thread)
    return false;
  // Where the lint cut the Program, the list ends.
  const Event* after = &event + 1;
  return after == trace_->events.data() + trace_->events.size() || parallel_ ||
         (after->call == call_index_ + 1 && after->ran != Ran::kCut);
}

void Judge::Impl::PostSend(const Call& call, const Event& event) {
  QpState* qp = Qp(call.object);
  if (qp == nullptr) return;
  List& list = ListOf(call);
  if (list.of != call.object) {
    list.sends.clear();
    list.of = call.object;
  }
  list.sends.emplace_back();
  Request& r = list.sends.back();
  r = Request{};
  r.qp = static_cast<Index>(qp - qps_.begin());
  r.call = call_index_;
  r.thread = call.thread;
  r.built = clock_;
  r.payload = r.unknown = kNothing;
  r.by_post_send = true;
  FillRequest(call, &r);
  const DataRule rule = model::Info(call.op).data;
  if (call.flags & IBV_SEND_INLINE && rule == DataRule::kSgeOrInline) {
    r.data = Data::kInline;
    r.payload = static_cast<uint32_t>(payloads_.size());
    for (const SgeArg& s : call.sge) AddInline(s.addr, s.len, &r);
    r.sge_count = static_cast<uint16_t>(call.sge.size());
  } else if (rule != DataRule::kNone && rule != DataRule::kNoneTolerated) {
    AddSges(call.sge, &r);
  }
  if (model::NeedsAddress(qp->type)) {
    r.ah = Is(call.ah, ObjectKind::kAh) ? Find(call.ah) : kNone;
    r.qpn = call.qpn;
    r.qkey = call.qkey;
  }
  r.srqn = call.srqn;
  r.qp_setter = true;
  if (GoesOn(call, event)) return;
  EndPostSend(list, event);
}

void Judge::Impl::EndPostSend(List& pending, const Event& event) {
  QpState* qp = Qp(pending.of);
  pending.of = kNoObject;
  std::vector<Request>& list = pending.sends;
  if (qp == nullptr || list.empty()) return;
  const size_t n = list.size();
  size_t misused = 0;
  while (misused < n && !Misused(*qp, list[misused])) ++misused;
  const bool in_region = qp->region.open && !parallel_;  // WR-MIX-002
  // A list that was refused at its first misuse is posted as far as that.
  const bool posted_misuse = misused < n && (event.rc == 0 || event.count > misused);
  if (in_region || posted_misuse || !qp->followed) {
    if (event.rc == 0 || event.count > 0) {
      Unfollow(*qp);
      MayComplete(*qp, n);
      Started();
    }
    list.clear();
    return;
  }
  if (event.rc == 0) {
    const PostJudgement j = JudgePosting(*qp, list.data(), n);
    if (!parallel_) JudgeRc(*qp, j, 0, "ibv_post_send()", n);
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) RereadInline(&list[i]);
      Accept(*qp, list[i]);
    }
    Started();
  } else {
    // Those before bad_wr are posted, it and those behind it are not (WR-MIX-007).
    const size_t bad = std::min<size_t>(event.count, n - 1);
    for (size_t i = 0; i < bad; ++i) {
      const PostJudgement j = JudgePosting(*qp, &list[i], 1);
      if (!j.may_accept && !parallel_) {
        Report("WR-MIX-007",
               NameOf(qp->id) + ": bad_wr names request " + std::to_string(bad) +
                   " of the list, but an earlier one must be refused: " + j.why,
               {"bad_wr = request " + std::to_string(i)},
               "bad_wr = request " + std::to_string(bad));
      }
      if (i > 0) RereadInline(&list[i]);
      Accept(*qp, list[i]);
      Started();
    }
    if (!parallel_ && bad != misused) {
      JudgeRc(*qp, JudgePosting(*qp, &list[bad], 1), event.rc, "ibv_post_send()", 1);
    }
    for (size_t i = bad; i < n; ++i) Drop(*qp, list[i], Fate::kRefused);
  }
  list.clear();
}

void Judge::Impl::BindType1(const Call& call, const Event& event) {
  QpState* qp = Qp(call.object);
  const Index w = Is(call.mw, ObjectKind::kMw) ? Find(call.mw) : kNone;
  if (qp == nullptr) return;
  // ibv_bind_mw() is not of this API; what it leaves behind is followed loosely.
  if (w != kNone) {
    mws_[w].unsure = true;
    mws_[w].changed = ++clock_;
    ++epoch_;
  }
  if (event.rc != 0) return;
  Request r;
  r.qp = static_cast<Index>(qp - qps_.begin());
  r.call = call_index_;
  r.built = clock_;
  r.payload = r.unknown = kNothing;
  r.by_post_send = true;
  FillRequest(call, &r);
  r.op = Operation::kBindMw;
  r.mw = w;
  Accept(*qp, r);
  Started();
}

void Judge::Impl::PostReceive(const Call& call, const Event& event, bool srq) {
  List& list = ListOf(call);
  if (list.of != call.object) {
    list.receives.clear();
    list.of = call.object;
  }
  Receive receive;
  receive.wr_id = call.wr_id;
  receive.call = call_index_;
  receive.first_sge = static_cast<uint32_t>(sges_.size());
  receive.sge_count = static_cast<uint16_t>(call.sge.size());
  for (const SgeArg& s : call.sge) {
    AddSge(s.lkey, s.addr, s.len);
    receive.length += s.len;
  }
  list.receives.push_back(receive);
  if (GoesOn(call, event)) return;
  (void)srq;
  EndPostReceive(list, event);
}

// Of an element that ends behind its region: how many of its bytes lie in it.
uint64_t Judge::Impl::GoodBytes(const Sge& e, Index pd) const {
  uint64_t good = 0, bad = e.length;
  while (bad - good > 1) {
    const uint64_t middle = good + (bad - good) / 2;
    const bool fits = PlaceLocal(e.key, e.addr, middle, pd, true).fault == LocalFault::kNone;
    (fits ? good : bad) = middle;
  }
  return good;
}

void Judge::Impl::EndPostReceive(List& pending, const Event& event) {
  const ObjectId of = pending.of;
  pending.of = kNoObject;
  std::vector<Receive>& list = pending.receives;
  ReceiveQueue* rq = nullptr;
  QpState* qp = nullptr;
  Index pd = kNone;
  Index cq = kNone;
  if (Is(of, ObjectKind::kSrq)) {
    const Index s = Find(of);
    if (s == kNone) return;
    rq = &srqs_[s].rq;
    pd = srqs_[s].pd;
    cq = srqs_[s].cq;
  } else {
    qp = Qp(of);
    if (qp == nullptr) return;
    rq = &qp->rq;
    pd = qp->pd;
    cq = qp->recv_cq;
  }
  const size_t n = list.size();
  const size_t accepted = event.rc == 0 ? n : std::min<size_t>(event.count, n);
  bool may_refuse = uint64_t{rq->outstanding} + accepted + (event.rc ? 1 : 0) > rq->limit;
  bool must_refuse = false;
  for (size_t i = 0; i < n; ++i) {
    Receive& r = list[i];
    if (r.sge_count > rq->max_sge) may_refuse = true;
    for (uint32_t s = 0; s < r.sge_count; ++s) {
      Sge& e = sges_[r.first_sge + s];
      const LocalPlace place = PlaceLocal(e.key, e.addr, e.length, pd, true);
      e.within = place.placed;
      e.block = place.block;
      e.offset = place.offset;
      const uint64_t good = place.fault == LocalFault::kOutOfRange ? GoodBytes(e, pd) : 0;
      e.placed = place.placed && (place.fault == LocalFault::kNone || good > 0);
      if (place.fault != LocalFault::kNone && !r.fault) {
        r.fault = true;
        r.local = place.fault;
        r.good = good;
      }
      if (place.unsure) r.unsure = true;
    }
    if (r.fault) may_refuse = true;
  }
  if (qp && qp->srq != kNone) {
    list.clear();
    return;  // a QP on an SRQ has no receive queue of its own
  }
  if (qp) {
    const States reset = StateBit(IBV_QPS_RESET);
    if (qp->states == reset) must_refuse = true;
    if (qp->states & reset) may_refuse = true;
    if ((qp->states & StateBit(IBV_QPS_ERR)) || MayBeError(*qp)) may_refuse = true;
    if (qp->type == QpType::kXrcSend || qp->type == QpType::kXrcRecv) may_refuse = true;
    if (!qp->followed) may_refuse = true, must_refuse = false;
  }
  if (event.rc == 0 && must_refuse) {
    Report("WR-STATE-014", NameOf(of) + ": a receive was accepted in RESET", {"non-zero"}, "0");
  } else if (event.rc != 0 && !may_refuse && !must_refuse && !parallel_) {
    Report(qp ? "WR-STATE-014" : "WR-RESP-020",
           NameOf(of) + ": a good receive was refused with " + std::to_string(rq->outstanding) +
               " of " + std::to_string(rq->limit) + " outstanding",
           {"0"}, std::to_string(event.rc));
  }
  if (event.rc != 0 && qp && qp->followed && qp->states == StateBit(IBV_QPS_ERR) && n == 1 &&
      !list[0].fault && list[0].sge_count <= rq->max_sge && rq->outstanding < rq->limit) {
    Vary(model::ChoicePoint::kRecvInErr, 1);
  }
  for (size_t i = 0; i < accepted; ++i) {
    Receive& r = list[i];
    r.posted = ++clock_;
    rq->posted.push_back(r);
    ++rq->outstanding;
    ReceiveRefs(r, +1);
    for (uint32_t s = 0; s < r.sge_count; ++s) WildSge(sges_[r.first_sge + s]);
    if (cq != kNone) {
      ++cqs_[cq].possible;
      CheckOverrun(cqs_[cq]);
    }
  }
  if (accepted) Started();
  list.clear();
}

}  // namespace qpexam::judge
