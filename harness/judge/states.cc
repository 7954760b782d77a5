// QP states: what modify may do, what query may say; asynchronous and completion events.
#include "harness/judge/impl.h"
#include "harness/judge/words.h"
#include "harness/program/attributes.h"
#include "harness/trace/names.h"
#include "reference/model/transitions.h"

namespace qpexam::judge {
namespace {

using model::QpType;

int Single(States states) {
  for (int s = IBV_QPS_RESET; s <= IBV_QPS_ERR; ++s) {
    if (states == StateBit(s)) return s;
  }
  return -1;
}

}  // namespace

// Whether something that the judge knows of may have moved the QP to ERR (or SQE) by itself.
bool Judge::Impl::MayBeError(QpState& qp) {
  if (!qp.followed || qp.first_unsure != 0 || qp.incoming_trouble || qp.must_be_error ||
      qp.failed_here || qp.flushing || parallel_ || qp.loses) {
    return true;
  }
  // One that is no longer followed may have sent it something that it cannot take.
  if (blind_memory_ && model::NeedsAddress(qp.type)) return true;
  if (qp.send_cq != kNone && cqs_[qp.send_cq].may_overrun) return true;
  if (qp.recv_cq != kNone && cqs_[qp.recv_cq].may_overrun) return true;
  // Requests that had to wait may have met something since that makes them fail: its own, or a
  // peer's.
  auto waiting_fails = [this](QpState& sender) {
    if (sender.waiting == 0) return false;
    for (uint32_t i = sender.head; i < sender.sent.size(); ++i) {
      const Request& r = Of(sender.sent[i]);
      if (r.fate == Fate::kOutstanding && !r.sure && ProspectsOf(r).may_fail) return true;
    }
    return false;
  };
  if (waiting_fails(qp)) return true;
  if (qp.peer != kNone && &qps_[qp.peer] != &qp && waiting_fails(qps_[qp.peer])) return true;
  return false;
}

void Judge::Impl::ResetQp(QpState& qp) {
  // A message may have filled a buffer before its receive was forgotten. Who sends raw packets here
  // is not followed.
  bool may_be_filled =
      !qp.ghosts.empty() || qp.recv_doubt || !qp.followed || qp.type == model::QpType::kRawPacket;
  // In ERR its receives were flushed.
  const bool may_be_error = (qp.states & StateBit(IBV_QPS_ERR)) != 0 || MayBeError(qp);
  qp.was_error |= may_be_error;
  for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
    Request& r = Of(qp.sent[i]);
    if (r.fate != Fate::kOutstanding) continue;
    // It may have failed: its completion went, the event that it raised did not.
    if (!r.sure && qp.send_cq != kNone) cqs_[qp.send_cq].error_vanished = true;
    r.fate = Fate::kVanished;
    ++qp.vanished;
    FinishEffects(qp, r, false, false);
  }
  qp.head = static_cast<uint32_t>(qp.sent.size());
  qp.seen_visible = qp.head;
  qp.outstanding = 0;
  qp.first_unsure = 0;
  qp.waiting = 0;
  for (uint32_t i = qp.delivered; i < qp.messages.size(); ++i) {
    const Request& r = Of(qp.messages[i]);
    if (r.delivered) continue;
    if (QpState* to = PeerOf(qp, r)) {
      to->ghosts.push_back(r.id);
    } else if (model::NeedsAddress(qp.type)) {
      // A bent QP number may lead anywhere (WR-UD-010).
      for (QpState& any : qps_) {
        if (any.alive && any.type == qp.type) any.ghosts.push_back(r.id);
      }
    }
  }
  qp.messages.clear();
  qp.delivered = 0;
  qp.flushing = qp.flushing_certain = qp.flush_open = qp.must_be_error = false;
  qp.incoming_trouble = qp.failed_here = qp.error_asked = false;
  qp.send_doubt = qp.recv_doubt = qp.ghost_came = false;
  qp.was_sqd = false;
  qp.error_since = 0;
  qp.recovered_at = 0;
  const auto self = static_cast<Index>(&qp - qps_.begin());
  // Whether windows bound through it outlive RESET is not said (WR-MW-010).
  for (MwState& mw : mws_) {
    if (mw.type != 2 || (mw.pending == 0 && !(mw.now.bound && mw.now.qp == self))) continue;
    mw.unsure = true;
    mw.changed = ++clock_;
    ++epoch_;
  }
  may_be_filled |= !qp.ghosts.empty();  // its own may have come to itself
  for (const QpState& sender : qps_) {
    if (model::NeedsAddress(qp.type) ? sender.type == qp.type : sender.peer == self) {
      may_be_filled |= sender.delivered < sender.messages.size();
    }
  }
  // A receive may have failed: as with requests, its completion went and the event did not.
  if ((may_be_filled || may_be_error) && qp.recv_cq != kNone) {
    cqs_[qp.recv_cq].error_vanished = true;
  }
  for (uint32_t i = qp.rq.head; i < qp.rq.posted.size(); ++i) {
    Receive& r = qp.rq.posted[i];
    if (r.done) continue;
    r.done = true;
    ReceiveRefs(r, -1);
    if (may_be_filled) {
      for (uint32_t s = 0; s < r.sge_count; ++s) {
        const Sge& e = sges_[r.first_sge + s];
        if (e.placed) MarkAny(e.block, e.offset, e.length, 0);
      }
    }
    qp.vanished_receives.push_back(r.wr_id);
  }
  if (may_be_filled && qp.srq != kNone) {
    // Messages may have taken receives whose completions went with the QP.
    SrqState& srq = srqs_[qp.srq];
    srq.leaky = true;
    for (uint32_t i = srq.rq.head; i < srq.rq.posted.size(); ++i) {
      const Receive& r = srq.rq.posted[i];
      for (uint32_t s = 0; !r.done && s < r.sge_count; ++s) {
        const Sge& e = sges_[r.first_sge + s];
        if (e.placed) MarkAny(e.block, e.offset, e.length, 0);
      }
    }
  }
  // Completions of messages that had come may have gone with the QP, or may still be polled.
  for (QpState& sender : qps_) {
    const bool by_address = model::NeedsAddress(qp.type);
    if (by_address ? sender.type != qp.type : sender.peer != self) continue;
    for (uint32_t i = sender.delivered; i < sender.messages.size(); ++i) {
      Request& r = Of(sender.messages[i]);
      if (r.delivered || (by_address && PeerOf(sender, r) != &qp)) continue;
      r.delivered = true;
      qp.ghosts.push_back(r.id);
    }
    while (sender.delivered < sender.messages.size() &&
           Of(sender.messages[sender.delivered]).delivered) {
      ++sender.delivered;
    }
  }
  qp.rq.head = static_cast<uint32_t>(qp.rq.posted.size());
  qp.rq.outstanding = 0;
  qp.peer = kNone;
  qp.peer_known = true;
  qp.unordered = qp.type == QpType::kSrd;
  ++qp.life;
  qp.life_since = step_;
}

void Judge::Impl::EnterState(QpState& qp, ibv_qp_state state) {
  const States before = qp.states;
  qp.changed = ++clock_;
  ++epoch_;
  Started();
  switch (state) {
    case IBV_QPS_RESET:
      // What threads saw in a section is looked at behind it: whether before or after this is not
      // known.
      if (parallel_) Unfollow(qp);
      ResetQp(qp);
      break;
    case IBV_QPS_ERR:
      qp.error_asked = true;
      qp.flush_open = true;
      if (qp.error_since == 0) qp.error_since = clock_;
      break;
    case IBV_QPS_RTS:
      if (!model::IsReliable(qp.type) && ((before & StateBit(IBV_QPS_SQE)) || qp.first_unsure)) {
        qp.recovered_at = clock_;
        qp.flushing = qp.flushing_certain = qp.must_be_error = false;
        qp.error_since = 0;
      }
      break;
    case IBV_QPS_SQD:
      qp.was_sqd = true;
      break;
    default:
      break;
  }
  qp.states = StateBit(state);
}

void Judge::Impl::TakeAttributes(QpState& qp, const ibv_qp_attr& attr, int mask, const Call& call,
                                 const QpState* peer) {
  if (mask & IBV_QP_ACCESS_FLAGS) qp.access = attr.qp_access_flags;
  if (mask & IBV_QP_QKEY) qp.qkey = attr.qkey;
  if (mask & IBV_QP_PATH_MTU && qp.type != QpType::kUd) {
    qp.path_mtu = 128ull << attr.path_mtu;
  }
  if (mask & IBV_QP_TIMEOUT) qp.timeout = attr.timeout;
  if (mask & IBV_QP_RETRY_CNT) qp.retry_cnt = attr.retry_cnt;
  if (mask & IBV_QP_RNR_RETRY) qp.rnr_retry = attr.rnr_retry;
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) qp.max_rd_atomic = attr.max_rd_atomic;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) qp.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  if (mask & IBV_QP_DEST_QPN) {
    const bool number = Given(call, AttrField::kDestQpn).has_value();
    qp.peer = number || peer == nullptr ? kNone : static_cast<Index>(peer - qps_.begin());
    qp.peer_known = !number && peer != nullptr;
    ShareDoubt(qp);
  }
  qp.changed = ++clock_;
  ++epoch_;
}

// What one that is not followed sends may reach its peer.
void Judge::Impl::ShareDoubt(QpState& qp) {
  if (qp.peer == kNone || qp.followed == qps_[qp.peer].followed) return;
  Unfollow(qp);
  Unfollow(qps_[qp.peer]);
}

void Judge::Impl::Connect(const Call& call, const Event& event) {
  QpState* a = Qp(call.object);
  QpState* b = call.object2 == kNoObject ? nullptr : Qp(call.object2);
  if (a == nullptr || (call.object2 != kNoObject && b == nullptr)) return;
  auto connected = [&](QpState& qp, QpState* peer) {
    qp.changed = ++clock_;
    ++epoch_;
    ModifyFacts facts;
    facts.type = qp.type;
    const ibv_qp_attr plain = PlainAttributes(facts);
    // From INIT to INIT (table B1) nothing is required: what the QP has there, it keeps.
    if (qp.states != StateBit(IBV_QPS_INIT)) {
      qp.access = plain.qp_access_flags;
      qp.qkey = plain.qkey;
    }
    qp.rnr_retry = plain.rnr_retry;
    qp.retry_cnt = plain.retry_cnt;
    qp.timeout = plain.timeout;
    qp.max_rd_atomic = plain.max_rd_atomic;
    qp.max_dest_rd_atomic = plain.max_dest_rd_atomic;
    if (qp.type != QpType::kUd && qp.type != QpType::kSrd) qp.path_mtu = 128ull << plain.path_mtu;
    qp.peer = kNone;
    qp.peer_known = true;
    if (model::IsConnected(qp.type)) {
      qp.peer = peer ? static_cast<Index>(peer - qps_.begin()) : kNone;
      qp.peer_known = peer != nullptr;
      ShareDoubt(qp);
    }
    for (const Attr& given : call.attrs) {
      const uint64_t value = given.second;
      switch (given.first) {
        case AttrField::kAccessFlags:
          qp.access = value;
          break;
        case AttrField::kQkey:
          qp.qkey = static_cast<uint32_t>(value);
          break;
        case AttrField::kPathMtu:
          if (qp.type != QpType::kUd) qp.path_mtu = 128ull << (value & 7);
          break;
        case AttrField::kTimeout:
          qp.timeout = static_cast<uint8_t>(value);
          break;
        case AttrField::kRetryCnt:
          qp.retry_cnt = static_cast<uint8_t>(value);
          break;
        case AttrField::kRnrRetry:
          qp.rnr_retry = static_cast<uint8_t>(value);
          break;
        case AttrField::kMaxRdAtomic:
          qp.max_rd_atomic = static_cast<uint8_t>(value);
          break;
        case AttrField::kMaxDestRdAtomic:
          qp.max_dest_rd_atomic = static_cast<uint8_t>(value);
          break;
        case AttrField::kDestQpn:
          qp.peer = kNone;
          qp.peer_known = false;
          break;
        default:
          break;
      }
    }
    qp.states = StateBit(IBV_QPS_RTS);
  };
  // Refused on the way. What a step has given stays, and what none has, a later one must give.
  auto stopped = [&](QpState& qp, QpState* peer) {
    if (Only(qp.states, StateBit(IBV_QPS_RESET) | StateBit(IBV_QPS_INIT))) {
      // Whether INIT took it, or RTR was the one to refuse?
      for (const Attr& given : call.attrs) {
        if (qp.states != StateBit(IBV_QPS_RESET) &&
            (given.first == AttrField::kAccessFlags || given.first == AttrField::kQkey)) {
          Unfollow(qp);
        }
      }
      connected(qp, peer);
    }
    qp.states = 0x7f;  // somewhere on the way: what is seen says where
    ++epoch_;
  };
  const bool first_done = event.rc == 0 || event.count == 1;
  const bool second = b != nullptr && b != a;
  auto judge = [&](QpState& qp, bool done) {
    if (!qp.followed || parallel_) return;
    const bool from_reset = qp.states == StateBit(IBV_QPS_RESET);
    // INIT->INIT is a pair of table B1, too.
    if (done && !(qp.states & (StateBit(IBV_QPS_RESET) | StateBit(IBV_QPS_INIT))) &&
        !MayBeError(qp)) {
      Report("WR-STATE-008", NameOf(qp.id) + " went to INIT from " + StatesName(qp.states),
             {"non-zero"}, "0");
    } else if (!done && from_reset && call.attrs.empty() && !qp.reopened &&
               options_.provider == Provider::kReference && qp.type != QpType::kRawPacket &&
               (!model::IsConnected(qp.type) || b != nullptr)) {
      Report("WR-STATE-012", NameOf(qp.id) + ": the plain way from RESET to RTS failed", {"0"},
             std::to_string(event.rc));
    }
  };
  judge(*a, first_done);
  if (first_done) {
    connected(*a, b);
    if (second) {
      judge(*b, event.rc == 0);
      if (event.rc == 0) {
        connected(*b, a);
      } else {
        stopped(*b, a);
      }
    }
  } else {
    stopped(*a, b);
  }
  Started();
}

void Judge::Impl::Modify(const Call& call, const Event& event) {
  QpState* qp = Qp(call.object);
  if (qp == nullptr) return;
  const QpState* peer = call.object2 == kNoObject ? nullptr : Qp(call.object2);
  ModifyFacts facts;
  facts.type = qp->type;
  const int single = Single(qp->states);
  // Several states are possible: the executor went by qp->state, which is the likelier one.
  facts.present = single >= 0                          ? static_cast<ibv_qp_state>(single)
                  : qp->states & StateBit(IBV_QPS_RTS) ? IBV_QPS_RTS
                                                       : IBV_QPS_ERR;
  const ModifyArgs args = ArgsOfModify(call, facts);
  const bool undefined = qp->region.open && !parallel_;  // WR-CRIT-011
  if (undefined) Unfollow(*qp);
  if (qp->followed && single >= 0 && !MayBeError(*qp) && !parallel_ && !qp->reopened) {
    const model::ModifyCheck check =
        model::CheckModify(qp->type, facts.present, args.mask, args.attr);
    const bool to_reset = (args.mask & IBV_QP_STATE) && args.attr.qp_state == IBV_QPS_RESET;
    const bool to_error = (args.mask & IBV_QP_STATE) && args.attr.qp_state == IBV_QPS_ERR;
    const bool open_point = to_error && facts.present == IBV_QPS_RESET;
    // What state a device is in that went by a claim, and with which attributes, nobody can say.
    if (event.rc == 0 && check.by_claim) return Unfollow(*qp);
    if (event.rc == 0 && open_point) Vary(model::ChoicePoint::kResetToErr, 1);
    if (event.rc == 0 && check.verdict != model::ModifyVerdict::kRefused &&
        (args.mask & (IBV_QP_CAP | IBV_QP_RATE_LIMIT))) {
      Vary(model::ChoicePoint::kModifyCap, 1);
    }
    if (event.rc != 0 && check.verdict == model::ModifyVerdict::kAllowed && check.may_refuse &&
        (args.mask & ~IBV_QP_STATE) == 0 && args.attr.qp_state == IBV_QPS_SQD) {
      Vary(model::ChoicePoint::kSqdRefused, 1);
    }
    if (event.rc == 0 && check.verdict == model::ModifyVerdict::kRefused && !open_point) {
      Report(check.clause, NameOf(qp->id) + ": ibv_modify_qp succeeded, but " + check.why,
             {"non-zero"}, "0");
    } else if (event.rc != 0 && check.verdict == model::ModifyVerdict::kAllowed &&
               !check.may_refuse) {
      if (to_reset || to_error) {
        if (!open_point && (args.mask & ~IBV_QP_STATE) == 0) {
          Report("WR-STATE-012",
                 NameOf(qp->id) + ": going to " +
                     std::string(model::StateName(args.attr.qp_state)) + " was refused",
                 {"0"}, std::to_string(event.rc));
        }
      } else if (options_.provider == Provider::kReference && call.attrs.size() <= 1 &&
                 call.attr_mask == kUnset && (args.mask & IBV_QP_STATE) &&
                 (peer != nullptr || !model::IsConnected(qp->type) ||
                  !(args.mask & IBV_QP_DEST_QPN))) {
        Report("WR-STATE-008",
               NameOf(qp->id) + ": a legal transition with plain attributes was refused", {"0"},
               std::to_string(event.rc));
      }
    }
  }
  if (event.rc != 0) return;
  TakeAttributes(*qp, args.attr, args.mask, call, peer);
  if (args.mask & IBV_QP_STATE) {
    EnterState(*qp, args.attr.qp_state);
  }
}

void Judge::Impl::SawStates(const Event& event, bool asked) {
  // ibv_query_qp() renews qp->state only where IBV_QP_STATE was asked for (and it returned 0).
  const bool query = event.call != kEndOfRun && call_->kind == CallKind::kQuery;
  for (const SeenState& seen : trace_->StatesOf(event)) {
    if (query && seen.state < 0) continue;
    QpState* qp = Qp(seen.qp);
    if (qp && qp->alive) SawState(*qp, seen, asked);
  }
}

// Whether nothing that was sent to it can still move it to ERR: on an unreliable service its state
// is the only thing that tells how it took what came.
bool Judge::Impl::TookEverything(const QpState& qp) const {
  if (!settled_ || parallel_ || qp.type != model::QpType::kUc) return false;
  const auto self = static_cast<Index>(&qp - qps_.begin());
  for (const QpState& sender : qps_) {
    if (sender.peer == self && (sender.first_unsure != 0 || sender.loses)) return false;
  }
  return true;
}

// asked: the event is a modify (or connect) of this very QP, so that the state is fresh.
void Judge::Impl::SawState(QpState& qp, const SeenState& seen, bool asked) {
  const bool watch = qp.followed && !parallel_;
  if (seen.state >= 0 && seen.cached >= 0 && seen.state != seen.cached && watch) {
    Report("WR-STATE-013", NameOf(qp.id) + ": qp->state differs from what ibv_query_qp said",
           {std::string(model::StateName(static_cast<ibv_qp_state>(seen.state)))},
           QpStateWord(seen.cached));
  }
  const int state = seen.state >= 0 ? seen.state : seen.cached;
  if (state < 0) return;
  if (state > IBV_QPS_ERR) {
    Report("WR-STATE-013", NameOf(qp.id) + ": not a state", {StatesName(qp.states)},
           std::to_string(state));
    return;
  }
  const States bit = StateBit(state);
  if (watch && state == IBV_QPS_ERR && qp.must_be_error && !model::IsReliable(qp.type) &&
      qp.states == (bit | StateBit(IBV_QPS_SQE))) {
    Vary(model::ChoicePoint::kSqeOrErr, 1);
  }
  if (qp.states & bit) {
    const bool late =
        qp.must_be_error && qp.states != bit && state != IBV_QPS_ERR && state != IBV_QPS_SQE;
    if (!late) {
      if (bit & kAnswers && (qp.incoming_trouble || qp.failed_here) && TookEverything(qp)) {
        qp.incoming_trouble = qp.failed_here = false;
      }
      if (qp.states != bit) {
        qp.states = bit;
        qp.changed = ++clock_;
        ++epoch_;
        if (state == IBV_QPS_ERR && qp.error_since == 0) {
          qp.error_since = clock_;
          qp.flush_open = true;
        }
      }
      return;
    }
  }
  if (state == IBV_QPS_ERR && MayBeError(qp)) {
    qp.states = bit;
    qp.changed = ++clock_;
    ++epoch_;
    if (qp.error_since == 0) qp.error_since = clock_;
    qp.flush_open = true;
    return;
  }
  if (state == IBV_QPS_SQE && MayBeError(qp) && !model::IsReliable(qp.type)) {
    qp.states = bit;
    qp.changed = ++clock_;
    ++epoch_;
    return;
  }
  if (!watch) {
    qp.states = bit;
    ++epoch_;
    return;
  }
  const bool settled = settled_ || options_.provider != Provider::kDevice;
  if (qp.must_be_error) {
    if (settled) {
      Report(model::IsReliable(qp.type) ? "WR-RESP-016" : "WR-STATE-004",
             NameOf(qp.id) + " is in " +
                 std::string(model::StateName(static_cast<ibv_qp_state>(state))) +
                 " after an error completion",
             {StatesName(qp.states)}, QpStateWord(state));
      qp.must_be_error = false;
      qp.states = bit;
      qp.send_doubt = true;
      ++epoch_;
    }
    return;
  }
  Report(asked && qp.modify_refused ? "WR-STATE-008" : "WR-STATE-013",
         NameOf(qp.id) + ": the state is another one than it must be", {StatesName(qp.states)},
         QpStateWord(state));
  qp.states = bit;
  qp.changed = ++clock_;
  ++epoch_;
}

void Judge::Impl::QueryValues(const Call& call, const Event& event) {
  QpState* qp = Qp(call.object);
  if (qp == nullptr || event.rc != 0 || !qp->followed) return;
  if (qp->region.open && !parallel_) return;
  for (const SeenValue& seen : trace_->ValuesOf(event)) {
    const auto field = static_cast<AttrField>(seen.field);
    const std::string name = NameOf(qp->id) + ": ibv_query_qp: ";
    auto at_most = [&](const char* what, uint64_t max, const char* clause) {
      if (seen.value > max) {
        Report(clause, name + what, {"at most " + std::to_string(max)}, std::to_string(seen.value));
      }
    };
    auto same = [&](const char* what, uint32_t granted) {
      if (seen.value != granted && seen.value != 0) {
        Add(FindingKind::kWarning, "WR-CREATE-003", name + what + " differs from what was granted",
            {std::to_string(granted)}, std::to_string(seen.value));
      }
    };
    switch (field) {
      case AttrField::kRqPsn:
      case AttrField::kSqPsn:
        at_most("a PSN of more than 24 bits", 0xffffff, "WR-LIM-001");
        break;
      case AttrField::kTimeout:
        at_most("timeout", 31, "WR-LIM-003");
        break;
      case AttrField::kRetryCnt:
      case AttrField::kRnrRetry:
        at_most("a retry count", 7, "WR-LIM-003");
        break;
      case AttrField::kMinRnrTimer:
        at_most("min_rnr_timer", 31, "WR-LIM-003");
        break;
      case AttrField::kCapMaxSendWr:
        same("max_send_wr", qp->granted[0]);
        break;
      case AttrField::kCapMaxSendSge:
        same("max_send_sge", qp->granted[2]);
        break;
      case AttrField::kCapMaxInline:
        same("max_inline_data", qp->granted[4]);
        break;
      default:
        break;
    }
  }
}

void Judge::Impl::AsyncEvent(const Call& call, const Event& event) {
  (void)call;
  if (!event.has_async || parallel_) return;
  const std::string word = AsyncEventWord(event.async_type);
  QpState* qp = Qp(event.event_of.object);
  switch (event.async_type) {
    case IBV_EVENT_CQ_ERR: {
      const CqState* cq = Cq(event.event_of);
      if (cq && !cq->may_overrun) {
        Report("WR-COMP-012", "IBV_EVENT_CQ_ERR although the CQ cannot have overrun",
               {"no such event: at most " + std::to_string(cq->possible) + " of " +
                std::to_string(cq->depth) + " entries"},
               word);
      }
      break;
    }
    case IBV_EVENT_SQ_DRAINED:
      if (qp && qp->followed && !qp->was_sqd) {
        Report("WR-STATE-003", NameOf(qp->id) + ": SQ_DRAINED although it never was in SQD",
               {"no such event"}, word);
      }
      break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      if (qp && qp->followed &&
          (qp->srq == kNone ||
           !((qp->states & StateBit(IBV_QPS_ERR)) || qp->was_error || MayBeError(*qp)))) {
        Report("WR-RESP-020",
               NameOf(qp->id) + ": LAST_WQE_REACHED although it is not on an SRQ and in ERR",
               {"no such event"}, word);
      }
      break;
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_REQ_ERR:
      if (qp && qp->followed && !qp->incoming_trouble && !qp->failed_here) {
        Report("WR-RESP-006", NameOf(qp->id) + ": an access event although no request was refused",
               {"no such event"}, word);
      }
      break;
    default:
      break;
  }
}

void Judge::Impl::Arm(const Call& call, const Event& event) {
  CqState* cq = Cq({call.object, call.side});
  if (cq == nullptr || event.rc != 0) return;
  ++cq->arms;
  // The stronger request stands until its event (M-NOTIFY).
  cq->armed_solicited = call.solicited && (!cq->armed || cq->armed_solicited);
  cq->armed_empty = !cq->armed && cq->drained && cq->drained_at == activity_ && settled_;
  cq->armed = true;
  cq->came_since_armed = cq->solicited_since_armed = 0;
  cq->error_vanished = false;
}

void Judge::Impl::CqEvent(const Call& call, const Event& event) {
  if (parallel_) return;
  if (event.rc == 0 && event.count > 0) {
    CqState* cq = Cq(event.event_of);
    if (cq == nullptr) return;
    ++cq->events;
    if (cq->events > cq->arms) {
      Report("WR-EVT-001", "more completion events than ibv_req_notify_cq() calls",
             {std::to_string(cq->arms)}, std::to_string(cq->events));
      cq->events = cq->arms;
    } else if (cq->armed && cq->armed_solicited && cq->events == cq->arms &&
               cq->solicited_since_armed == 0 && !cq->error_vanished && !MaySolicit(*cq)) {
      Report("WR-EVT-002",
             "an event of a queue armed for solicited completions, but none can have come",
             {"no event"}, "an event");
    }
    cq->armed = false;
    return;
  }
  if (!event.settled && !event.timed_out) return;
  for (CqState& cq : cqs_) {
    if (cq.channel != call.object || !cq.armed || !cq.armed_empty || !cq.alive) continue;
    if (cq.events >= cq.arms) continue;
    const bool due = cq.armed_solicited ? cq.solicited_since_armed > 0 : cq.came_since_armed > 0;
    if (!due || cq.may_overrun) continue;
    Report(cq.armed_solicited ? "WR-EVT-003" : "WR-EVT-004",
           NameOf(cq.id) + ": a completion came after arming and raised no event", {"one event"},
           "none");
    cq.armed = false;
  }
}

// Whether a solicited (or failed) completion may have been generated and not yet been polled.
bool Judge::Impl::MaySolicit(const CqState& cq) {
  const auto at = static_cast<Index>(&cq - cqs_.begin());
  for (QpState& qp : qps_) {
    if (!qp.followed) return true;
    if (qp.send_cq == at || qp.recv_cq == at) {
      if (MayBeError(qp) || qp.states == StateBit(IBV_QPS_ERR)) return true;
    }
    for (uint32_t i = qp.delivered; i < qp.messages.size(); ++i) {
      const Request& r = Of(qp.messages[i]);
      if (!r.delivered && (r.flags & IBV_SEND_SOLICITED)) return true;
    }
    // Of a life before a RESET: its completion, or the event alone, may have come.
    for (const auto ghost : qp.ghosts) {
      if (Of(ghost).flags & IBV_SEND_SOLICITED) return true;
    }
  }
  return false;
}

}  // namespace qpexam::judge
