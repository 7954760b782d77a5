#include "reference/model/requester.h"

#include <algorithm>
#include <cstring>

#include "reference/model/fabric.h"
#include "reference/model/faults.h"
#include "reference/model/timers.h"

namespace qpexam::model {
namespace {

constexpr uint32_t kMulticastQpn = 0xffffff;
constexpr uint8_t kRnrInfinite = 7;

uint64_t MtuBytes(ibv_mtu mtu) { return uint64_t{128} << static_cast<int>(mtu); }

bool IsAtomic(Operation op) {
  return op == Operation::kAtomicCmpAndSwp || op == Operation::kAtomicFetchAndAdd;
}

bool Receives(ibv_qp_state state) {
  return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
         state == IBV_QPS_SQE;
}

bool Signaled(const Qp& qp, const SendRequest& r) {
  return qp.init().signaling == Signaling::kAll || (r.flags & IBV_SEND_SIGNALED) != 0;
}

// What the requester's own data and the responder have nothing against: the common case, for which
// no set need be built.
bool NothingWrong(const RequestFacts& f) {
  return f.local == LocalFault::kNone && f.remote == RemoteFault::kNone &&
         (f.receive == ReceiveFact::kNotNeeded || f.receive == ReceiveFact::kReady) &&
         f.path == PathFact::kReachable && f.window == RequestFacts::Window::kFine &&
         f.cell_supported && !f.no_read_resources && !f.exceeds_dest_rd_atomic && !f.wrong_srq &&
         f.length <= f.max_msg_sz;
}

}  // namespace

void Requester::Advance(Qp& qp) {
  if (qp.advancing_) return;  // re-entered from a sink, a pump or a state change: the loop goes on
  qp.advancing_ = true;
  if (__builtin_expect(late_qp_ == &qp, 0)) BindLate(qp);
  SendQueue& sq = *qp.send_queue_;
  while (sq.done() != sq.posted()) {
    if (qp.state_ == IBV_QPS_SQD && sq.done() >= qp.sqd_limit_ &&
        !Faulty(Fault::kSqdStartsNewRequests)) {
      break;
    }
    if (qp.state_ == IBV_QPS_RESET || qp.state_ == IBV_QPS_INIT || qp.state_ == IBV_QPS_RTR) break;
    Qp::Attempt& attempt = qp.attempt_;
    if (attempt.waiting && qp.state_ != IBV_QPS_ERR && qp.state_ != IBV_QPS_SQE) {
      if (attempt.stuck || !attempt.due) break;
      attempt.due = false;
    }
    if (__builtin_expect(!passed_.empty(), 0) && FinishPassed(qp)) continue;
    if (__builtin_expect(fabric_->chooser_set_.load(std::memory_order_relaxed) || FaultSwitch::on(),
                         0)) {
      PassLater(qp);
    }
    if (Execute(qp, sq.At(sq.done())) == Step::kWaits) break;
    if (__builtin_expect(!passing_.empty(), 0)) {
      // What passed the request that is done now is next.
      auto it = passing_.find(&qp);
      if (it != passing_.end()) {
        if (qp.state_ != IBV_QPS_ERR) passed_[&qp] = std::move(it->second);
        passing_.erase(it);
      }
    }
  }
  qp.advancing_ = false;
  if (qp.state_ == IBV_QPS_SQD) CheckDrained(qp);
}

// Whether `later` may take effect before `first`, which stands before it in the queue.
bool Requester::MayPass(const SendRequest& first, const SendRequest& later) {
  // WR-ORD-005: a fence waits for the READs and ATOMICs before it.
  const bool moves_data = Info(later.op).data == DataRule::kSgeOrInline;
  if ((later.flags & IBV_SEND_FENCE) != 0) {
    return IsAtomic(first.op) && (moves_data || IsAtomic(later.op)) &&
           Faulty(Fault::kFenceWaitsForReadsOnly);
  }
  switch (first.op) {
    case Operation::kRdmaRead:
      if (later.op == Operation::kRdmaRead) {
        return fabric_->Pick(ChoicePoint::kReadRead, 2) == 1;
      }
      if (!moves_data && !IsAtomic(later.op)) return false;
      return Faulty(Fault::kFenceFlagLost) || fabric_->Pick(ChoicePoint::kReadLate, 2) == 1;
    case Operation::kAtomicCmpAndSwp:
    case Operation::kAtomicFetchAndAdd:
      if (!moves_data && !IsAtomic(later.op)) return false;
      return Faulty(Fault::kFenceFlagLost) || fabric_->Pick(ChoicePoint::kAtomicTable, 2) == 1;
    case Operation::kRdmaWrite:  // # in every cell: only a fault lets anything pass
      if (later.op == Operation::kRdmaWrite) return Faulty(Fault::kWritesSwapped);
      if (later.op == Operation::kRdmaRead) return Faulty(Fault::kReadPassesWrite);
      if (IsAtomic(later.op)) return Faulty(Fault::kAtomicPassesWrite);
      return false;
    default:
      return false;
  }
}

// Lets requests behind the first one take effect before it. Only those that nothing is wrong with:
// an error ends the queue where it stands.
void Requester::PassLater(Qp& qp) {
  SendQueue& sq = *qp.send_queue_;
  if ((qp.type() != QpType::kRc && qp.type() != QpType::kXrcSend) || qp.attempt_.started ||
      !qp.fault_points_.empty() || qp.state_ == IBV_QPS_ERR) {
    return;
  }
  const SendRequest& first = sq.At(sq.done());
  Passed passed;
  passed.life = qp.life_;
  for (uint64_t at = sq.done() + 1; at != sq.posted(); ++at) {
    SendRequest& later = sq.At(at);
    if (!LeavesRequester(later.op) || !MayPass(first, later)) break;
    Exchange x;
    Prepare(&x, qp, later);
    if (!x.facts.cell_supported) break;
    ExamineLocal(&x);
    FindPeer(&x);
    if (x.facts.path != PathFact::kReachable || x.facts.local != LocalFault::kNone) break;
    responder_.Examine(&x);
    if (!NothingWrong(x.facts)) break;
    Outcome outcome;
    outcome.consumes_receive = Info(later.op).peer != PeerEffect::kNone;
    responder_.Apply(&x, outcome);
    passed.byte_len.push_back(IsAtomic(later.op) ? 8 : x.facts.length);
  }
  if (!passed.byte_len.empty()) passing_[&qp] = std::move(passed);
}

// The first request has passed earlier: all that is left is its completion.
bool Requester::FinishPassed(Qp& qp) {
  auto it = passed_.find(&qp);
  if (it == passed_.end()) return false;
  if (it->second.life != qp.life_ || qp.state_ == IBV_QPS_ERR) {
    passed_.erase(it);
    return false;
  }
  const uint64_t byte_len = it->second.byte_len.front();
  it->second.byte_len.pop_front();
  if (it->second.byte_len.empty()) passed_.erase(it);
  Exchange x;
  Prepare(&x, qp, qp.send_queue_->At(qp.send_queue_->done()));
  Finish(&x, Outcome{}, byte_len);
  return true;
}

// SQD: once what was started is done, the QP says so, once (WR-STATE-003).
void Requester::CheckDrained(Qp& qp) {
  if (qp.sqd_drained_ || qp.send_queue_->done() < qp.sqd_limit_) return;
  qp.sqd_drained_ = true;
  if (qp.sqd_notify_ && !Faulty(Fault::kNoDrainedEvent)) {
    fabric_->Raise(*qp.device_, AsyncEvent{IBV_EVENT_SQ_DRAINED, &qp, nullptr, nullptr});
  }
}

void Requester::Prepare(Exchange* x, Qp& qp, SendRequest& request) {
  x->requester = &qp;
  x->responder = nullptr;
  x->request = &request;
  x->local.clear();
  x->scatter.clear();
  x->remote = nullptr;
  x->queue = nullptr;
  x->srq = nullptr;
  x->window = nullptr;
  x->grh_length = 0;
  static const RequestFacts kBlank;
  x->facts = kBlank;  // copied whole: built anew it would be stored byte by byte and read wide
  RequestFacts& f = x->facts;
  f.op = request.op;
  f.type = qp.type();
  f.flags = request.flags;
  f.state = qp.state_;
  f.max_msg_sz = qp.device_->limits().max_msg_sz;
  f.path_mtu =
      NeedsAddress(qp.type()) ? MtuBytes(qp.device_->limits().port_mtu) : MtuBytes(qp.attr_.mtu);
  f.rnr_retry_infinite = qp.attr_.rnr_retry == kRnrInfinite;
  // SRD is no IBA service: the device retries by itself, nothing of it is set by modify.
  f.timeout_disabled = qp.attr_.timeout == 0 && qp.type() != QpType::kSrd;
  const OperationInfo& info = Info(request.op);
  f.cell_supported = ((info.reference_types | info.optional_types) & MaskOf(qp.type())) != 0;
}

Requester::Step Requester::Execute(Qp& qp, SendRequest& request) {
  if (__builtin_expect(exchange_used_, 0)) {
    // A sink posted on another QP while a request is in execution: that one gets its own record.
    Exchange nested;
    return ExecuteIn(&nested, qp, request);
  }
  exchange_used_ = true;
  const Step step = ExecuteIn(&exchange_, qp, request);
  exchange_used_ = false;
  return step;
}

Requester::Step Requester::ExecuteIn(Exchange* x, Qp& qp, SendRequest& request) {
  Prepare(x, qp, request);
  RequestFacts& f = x->facts;

  Step step = Step::kDone;
  if (f.state == IBV_QPS_ERR || f.state == IBV_QPS_SQE) {
    Outcome flush = FlushOutcome(f.state);
    if ((request.flags & IBV_SEND_SIGNALED) == 0 && Faulty(Fault::kFlushHasOtherStatus)) {
      flush.status = IBV_WC_GENERAL_ERR;
    }
    if (!Signaled(qp, request) && Faulty(Fault::kUnsignaledNotFlushed)) {
      qp.send_queue_->set_done(qp.send_queue_->done() + 1);
    } else {
      Finish(x, flush, 0);
    }
  } else if (!f.cell_supported) {
    Outcome outcome = Choose(RequestOutcomes(f));
    if (Faulty(Fault::kUnsupportedSucceeds)) outcome = Outcome{};
    Finish(x, outcome, 0);
  } else if (!LeavesRequester(request.op)) {
    step = ExecuteLocal(x);
  } else {
    if (request.op == Operation::kAtomicWrite) {
      f.length = 8;
    } else if (request.op == Operation::kFlush) {
      f.length = request.flush_length;
    } else {
      ExamineLocal(x);
    }
    if (qp.type() == QpType::kUd) {
      step = ExecuteDatagram(x);
    } else if (qp.type() == QpType::kRawPacket) {
      step = ExecuteFrames(x);
    } else {
      step = ExecuteConnected(x);
    }
  }
  return step;
}

// --- what the requester finds out ----------------------------------------------------------------

void Requester::ExamineLocal(Exchange* x) {
  SendRequest& r = *x->request;
  if (r.data == DataKind::kInline) {
    x->facts.length = r.inline_length;
    if (r.inline_length != 0) x->local.push_back({r.inline_data, r.inline_length});
    return;
  }
  const bool writes = r.op == Operation::kRdmaRead || IsAtomic(r.op);
  for (uint32_t i = 0; i < r.num_sge; ++i) {
    x->facts.length += r.sge[i].length;
    if (x->facts.local != LocalFault::kNone) continue;
    x->facts.local = ResolveLocal(*fabric_, x->requester->init().pd, r.sge[i],
                                  writes ? LocalUse::kWrite : LocalUse::kRead, &x->local);
  }
  if (Faulty(Fault::kLengthOf32Bits)) x->facts.length &= 0xffffffff;
}

void Requester::FindPeer(Exchange* x) {
  Qp& qp = *x->requester;
  Qp* peer;
  if (qp.type() == QpType::kSrd) {
    peer = fabric_->qps_.Find(x->request->remote_qpn.value & 0xffffff);
  } else {
    if (qp.peer_epoch_ != fabric_->qp_epoch_ || qp.peer_ == nullptr ||
        qp.peer_->number_.value != qp.attr_.dest_qpn) {
      qp.peer_ = fabric_->qps_.Find(qp.attr_.dest_qpn);
      qp.peer_epoch_ = fabric_->qp_epoch_;
    }
    peer = qp.peer_;
  }
  const QpType wanted = qp.type() == QpType::kXrcSend ? QpType::kXrcRecv : qp.type();
  if (peer == nullptr || peer->type() != wanted) {
    x->facts.path = PathFact::kNoPeer;
    return;
  }
  if (peer->state_ == IBV_QPS_ERR) {
    x->facts.path = PathFact::kPeerInError;
    if (Faulty(Fault::kErrorPeerReceives)) x->facts.path = PathFact::kReachable;
  } else if (!Receives(peer->state_)) {
    x->facts.path = PathFact::kPeerNotReady;
    if (peer->state_ == IBV_QPS_INIT && Faulty(Fault::kInitReceives)) {
      x->facts.path = PathFact::kReachable;
    }
  } else if (IsConnected(qp.type()) && peer->attr_.dest_qpn != qp.number_.value) {
    x->facts.path = PathFact::kNotAddressedBack;
  }
  x->responder = peer;
}

const Outcome& Requester::Choose(const OutcomeSet& set) {
  if (set.count == 1 || set.choice == ChoicePoint::kCount) return set.member[0];
  return set.member[fabric_->Pick(set.choice, static_cast<unsigned>(set.count))];
}

// --- reliable and unreliable connections, SRD ----------------------------------------------------

Requester::Step Requester::ExecuteConnected(Exchange* x) {
  Qp& qp = *x->requester;
  RequestFacts& f = x->facts;
  Qp::Attempt& attempt = qp.attempt_;
  const OperationInfo& info = Info(f.op);
  const bool reliable = IsReliable(qp.type());
  // The timeout has passed: another try, or none is left.
  bool expired = false;
  if (attempt.waiting && !attempt.rnr) {
    expired = attempt.retries_left == 0;
    if (!expired) --attempt.retries_left;
  }
  attempt.waiting = false;
  if (info.is_read_or_atomic && qp.type() != QpType::kSrd) {
    f.no_read_resources = qp.attr_.max_rd_atomic == 0;
  }

  std::optional<FaultPoint> point;
  if (__builtin_expect(!qp.fault_points_.empty(), 0) && !expired) {
    point = qp.fault_points_.front();
    qp.fault_points_.pop_front();
  }

  FindPeer(x);
  if (__builtin_expect(FaultSwitch::on(), 0) && f.path == PathFact::kReachable) {
    if (((qp.attr_.sq_psn + qp.send_queue_->done()) >> 24) != 0 && Faulty(Fault::kPsnWrapStalls)) {
      f.path = PathFact::kLost;
    }
  }
  if (f.path == PathFact::kReachable && (expired || point == FaultPoint::kLoseRequest)) {
    f.path = PathFact::kLost;
  }
  if (f.path == PathFact::kReachable && attempt.responder_done) {
    // A retransmission of what was executed: acknowledged again, and nothing more
    // (WR-RESP-014); a READ is read again (ORDERING.md, note 3).
    Outcome done;
    if (f.op == Operation::kRdmaRead) {
      responder_.Examine(x);
      if (f.remote == RemoteFault::kNone) responder_.Apply(x, done);
    } else if (Faulty(Fault::kDuplicateExecuted)) {
      responder_.Examine(x);
      if (NothingWrong(f)) responder_.Apply(x, done);
    } else if (IsAtomic(f.op)) {
      uint64_t old = attempt.atomic_result;
      if (Faulty(Fault::kDuplicateAtomicReadsAgain)) {
        responder_.Examine(x);
        if (f.remote == RemoteFault::kNone && x->remote != nullptr) {
          std::memcpy(&old, x->remote, sizeof old);
        }
      }
      CopySegments(Only({reinterpret_cast<uint8_t*>(&old), sizeof old}), All(x->local));
    }
    const uint64_t byte_len = attempt.byte_len;
    Finish(x, done, byte_len);
    return Step::kDone;
  }
  if (f.path == PathFact::kReachable && f.local == LocalFault::kNone) {
    if (info.is_read_or_atomic && reliable && qp.type() != QpType::kSrd) {
      f.exceeds_dest_rd_atomic = x->responder->attr_.max_dest_rd_atomic == 0;
    }
    responder_.Examine(x);
    if (point == FaultPoint::kRnr && reliable && f.receive != ReceiveFact::kNotNeeded) {
      f.receive = ReceiveFact::kNone;
    }
  } else if (f.local != LocalFault::kNone) {
    // The requester stops here; what the responder would have found is not asked.
    f.path = PathFact::kReachable;
  }

  Outcome outcome;
  if (__builtin_expect(NothingWrong(f) && !fabric_->chooser_set_.load(std::memory_order_relaxed),
                       1)) {
    outcome.consumes_receive = info.peer != PeerEffect::kNone;
  } else {
    outcome = Choose(RequestOutcomes(f));
    const bool no_receive = reliable && f.receive == ReceiveFact::kNone &&
                            (outcome.status == IBV_WC_RNR_RETRY_EXC_ERR || !outcome.completes);
    const bool no_path = reliable && f.path != PathFact::kReachable;
    if (no_receive && RetryReceive(x)) return Step::kWaits;
    if (no_path && !expired && RetryPath(x)) return Step::kWaits;
    if (__builtin_expect(FaultSwitch::on(), 0)) {
      if (no_path && !outcome.completes && !f.timeout_disabled) {
        outcome = Choose(RequestOutcomes(f));  // a fault has let a timeout of 0 expire
      }
      if (f.local != LocalFault::kNone && Faulty(Fault::kLocalErrorSucceeds)) {
        outcome = Outcome{};
        outcome.effect = Effect::kNone;
      }
      if (no_receive && Faulty(Fault::kRnrExhaustedSucceeds)) {
        outcome = Outcome{};
        outcome.effect = Effect::kNone;
      }
      if (no_receive && Faulty(Fault::kRnrKillsResponder)) {
        outcome.responder_next = NextState::kErr;
      }
      if (no_path && Faulty(Fault::kNoPeerSucceeds)) {
        outcome = Outcome{};
        outcome.effect = Effect::kNone;
      }
    }
    if (!outcome.completes) {
      // Timeout 0 and its like: nothing but a state change ends it.
      if (x->responder != nullptr && outcome.consumes_receive) responder_.Apply(x, outcome);
      attempt.started = attempt.waiting = attempt.stuck = true;
      return Step::kWaits;
    }
  }

  if (__builtin_expect(FaultSwitch::on(), 0)) {
    if (info.is_read_or_atomic && outcome.status == IBV_WC_SUCCESS &&
        qp.send_queue_->posted() - qp.send_queue_->done() > qp.attr_.max_rd_atomic &&
        Faulty(Fault::kReadLimitFails)) {
      outcome = Outcome{};
      outcome.status = IBV_WC_LOC_QP_OP_ERR;
      outcome.effect = Effect::kNone;
      outcome.requester_next = NextState::kErr;
    }
    if (!reliable && f.receive == ReceiveFact::kNone && Faulty(Fault::kUnreliableNoReceiveFails)) {
      outcome.status = IBV_WC_RNR_RETRY_EXC_ERR;
      outcome.requester_next = NextState::kSqeOrErr;
    }
  }
  const uint64_t byte_len = IsAtomic(f.op) ? 8 : f.length;
  if (f.path == PathFact::kReachable && x->responder != nullptr) {
    responder_.Apply(x, outcome);
    if (point == FaultPoint::kDuplicateRequest && reliable && outcome.status == IBV_WC_SUCCESS &&
        Faulty(Fault::kDuplicateExecuted)) {
      responder_.Apply(x, outcome);
    }
    if (point == FaultPoint::kLoseAck && reliable && outcome.status == IBV_WC_SUCCESS) {
      attempt.responder_done = true;
      attempt.atomic_result = x->atomic_result;
      attempt.byte_len = byte_len;
      f.path = PathFact::kLost;
      if (RetryPath(x)) return Step::kWaits;
      f.state = qp.state_;
      outcome = Choose(RequestOutcomes(f));
      outcome.responder_next = NextState::kKeep;
      if (!outcome.completes) {
        attempt.started = attempt.waiting = attempt.stuck = true;
        return Step::kWaits;
      }
    }
  }
  Finish(x, outcome, byte_len);
  return Step::kDone;
}

void Requester::WaitUntil(Qp& qp, uint64_t period) {
  Qp::Attempt& a = qp.attempt_;
  a.waiting = true;
  a.due = a.fresh = false;
  a.period = period;
  a.deadline = std::max(a.deadline, fabric_->Now()) + period;
  a.seen_activity = fabric_->activity_;
  if (!qp.listed_) {
    qp.listed_ = true;
    fabric_->waiting_.push_back(&qp);
  }
}

// The first try of a request has failed: what it may still do.
void Requester::BeginRetries(Qp& qp) {
  Qp::Attempt& a = qp.attempt_;
  if (a.started) return;
  a.started = true;
  a.retries_left = qp.attr_.retry_count;
  a.rnr_left = qp.attr_.rnr_retry;
  if (Faulty(Fault::kRnrRetryOneLess) && a.rnr_left > 0 && a.rnr_left < 7) --a.rnr_left;
  if (__builtin_expect(qp.rnr_spent_ != 0, 0) && Faulty(Fault::kRnrBudgetNotRestored)) {
    a.rnr_left -= std::min(a.rnr_left, qp.rnr_spent_);
  }
}

// RNR: again after the responder's timer, rnr_retry times, or for ever (WR-RESP-001, -002).
bool Requester::RetryReceive(Exchange* x) {
  Qp& qp = *x->requester;
  Qp::Attempt& a = qp.attempt_;
  BeginRetries(qp);
  const bool for_ever = x->facts.rnr_retry_infinite && !Faulty(Fault::kRnrInfiniteIsFinite);
  if (!for_ever && a.rnr_left == 0) return false;
  if (!for_ever) --a.rnr_left;
  if (!for_ever && FaultSwitch::on()) ++qp.rnr_spent_;
  a.for_ever = for_ever;
  a.rnr = true;
  a.deadline = 0;
  const uint64_t period =
      RnrPeriod(x->responder != nullptr ? x->responder->attr_.min_rnr_timer : 0);
  WaitUntil(qp, Faulty(Fault::kRnrTimerIgnored) ? 1 : period);
  return true;
}

// No acknowledgement: after each timeout again, retry_cnt times (WR-RESP-003).
bool Requester::RetryPath(Exchange* x) {
  Qp& qp = *x->requester;
  Qp::Attempt& a = qp.attempt_;
  BeginRetries(qp);
  if (x->facts.timeout_disabled) {
    if (Faulty(Fault::kTimeoutZeroExpires)) {
      x->facts.timeout_disabled = false;
      return false;
    }
    a.waiting = a.stuck = true;
    return true;
  }
  if (qp.attr_.retry_count == 7 && Faulty(Fault::kRetrySevenIsInfinite)) a.retries_left = 7;
  a.for_ever = false;
  a.rnr = false;
  a.deadline = 0;
  WaitUntil(qp, AckPeriod(qp.attr_.timeout));
  return true;
}

// --- datagrams -----------------------------------------------------------------------------------

// One destination's share of a datagram.
void Requester::Deliver(Exchange* x, Qp* to) {
  RequestFacts& f = x->facts;
  f.receive = ReceiveFact::kNotNeeded;
  f.qkey_mismatch = false;
  f.path = PathFact::kReachable;
  x->responder = to;
  x->queue = nullptr;
  x->srq = nullptr;
  x->scatter.clear();
  if (to->type() != QpType::kUd || !Receives(to->state_)) return;
  const SendRequest& r = *x->request;
  const Qp& qp = *x->requester;
  // WR-UD-003: a privileged bit stands for the sender's own Q_Key.
  uint32_t qkey = r.remote_qkey.value;
  if ((qkey & 0x80000000u) != 0 && !Faulty(Fault::kQkeyHighBitIgnored) &&
      fabric_->Pick(ChoicePoint::kQkeyHighBit, 2) == 0) {
    qkey = qp.attr_.qkey;
  }
  f.qkey_mismatch = qkey != to->attr_.qkey && !Faulty(Fault::kQkeyNotChecked);
  const uint64_t length = f.length;
  x->grh_length = sizeof x->grh.bytes;
  const ibv_ah_attr& ah = r.ah->attr;
  const auto& gids = qp.device_->gids;
  const ibv_gid own = ah.grh.sgid_index < gids.size() ? gids[ah.grh.sgid_index] : ibv_gid{};
  x->grh = MakeGrh(own, ah.grh.dgid, length, ah.grh);
  if (!f.qkey_mismatch) responder_.Examine(x);
  const Outcome outcome = Choose(RequestOutcomes(f));
  responder_.Apply(x, outcome);
  f.length = length;
}

Requester::Step Requester::ExecuteDatagram(Exchange* x) {
  RequestFacts& f = x->facts;
  const SendRequest& r = *x->request;
  Qp& qp = *x->requester;
  if (r.ah == nullptr) {
    Outcome error;
    error.status = IBV_WC_LOC_QP_OP_ERR;
    error.requester_next = NextState::kSqeOrErr;
    Finish(x, error, 0);
    return Step::kDone;
  }
  f.ah_of_other_pd = r.ah->pd != nullptr && r.ah->pd->Base() != qp.init().pd->Base();
  // The sender's own side first: with a destination that takes it, only its own mistakes remain.
  Outcome own = Choose(RequestOutcomes(f));
  if (__builtin_expect(FaultSwitch::on(), 0) && f.local != LocalFault::kNone &&
      Faulty(Fault::kLocalErrorSucceeds)) {
    own = Outcome{};
    own.effect = Effect::kNone;
  }
  bool lost = false;
  if (__builtin_expect(!qp.fault_points_.empty(), 0)) {
    const FaultPoint point = qp.fault_points_.front();
    qp.fault_points_.pop_front();
    lost = point == FaultPoint::kLoseRequest || point == FaultPoint::kRnr;
  }
  lost = lost || fabric_->Pick(ChoicePoint::kUnreliableDrop, 2) == 1;
  const uint64_t length = f.length;
  if (own.status == IBV_WC_SUCCESS && own.effect == Effect::kWhole && !lost) {
    const uint32_t qpn = r.remote_qpn.value & 0xffffff;  // WR-UD-010
    const ibv_gid& dgid = r.ah->attr.grh.dgid;
    f.ah_of_other_pd = false;
    if (r.ah->attr.is_global != 0 && dgid.raw[0] == 0xff) {
      const auto members = fabric_->multicast_;
      for (const auto& member : members) {
        if (std::memcmp(&member.gid, &dgid, sizeof dgid) == 0) Deliver(x, member.qp);
      }
    } else if (qpn != kMulticastQpn) {
      const bool wide =
          (r.remote_qpn.value & ~0xffffffu) != 0 && Faulty(Fault::kWideQpnMisdelivers);
      Qp* to = fabric_->qps_.Find(wide ? qpn + 1 : qpn);
      if (to != nullptr) Deliver(x, to);
    }
  }
  Finish(x, own, length);
  return Step::kDone;
}

// --- frames --------------------------------------------------------------------------------------

Requester::Step Requester::ExecuteFrames(Exchange* x) {
  RequestFacts& f = x->facts;
  const SendRequest& r = *x->request;
  Qp& qp = *x->requester;
  const Outcome own = Choose(RequestOutcomes(f));
  if (own.status != IBV_WC_SUCCESS || own.effect != Effect::kWhole) {
    Finish(x, own, 0);
    return Step::kDone;
  }
  bool lost = false;
  if (__builtin_expect(!qp.fault_points_.empty(), 0)) {
    lost = qp.fault_points_.front() == FaultPoint::kLoseRequest;
    qp.fault_points_.pop_front();
  }
  Frame payload(r.tso_header, r.tso_header + r.frame_header_length);
  for (const Segment& s : x->local) payload.insert(payload.end(), s.data, s.data + s.size);
  const bool checksums =
      (r.flags & IBV_SEND_IP_CSUM) != 0 && !Faulty(Fault::kIpChecksumFlagIgnored);
  std::vector<Frame> frames;
  if (r.op == Operation::kTso) {
    if (payload.size() > qp.device_->limits().max_tso) {  // WR-DATA-028, where no post found it
      Outcome error;
      error.status = IBV_WC_LOC_LEN_ERR;
      error.requester_next = NextState::kSqeOrErr;
      Finish(x, error, 0);
      return Step::kDone;
    }
    uint16_t mss = r.tso_mss;
    if (Faulty(Fault::kTsoMssOff) && mss > 1) --mss;
    frames = CutSegments({r.tso_header, r.tso_header_length}, {payload.data(), payload.size()}, mss,
                         checksums ? Checksums::kFilled : Checksums::kAsGiven);
  } else if (x->local.size() > 1 && x->local[0].size < 14 && Faulty(Fault::kRawHeaderMustBeWhole)) {
    // lost
  } else if (payload.size() >= 14) {  // shorter than an L2 header: not on the wire
    frames.push_back(std::move(payload));
    if (checksums) FillChecksums(&frames.back());
  }
  if (!lost && fabric_->Pick(ChoicePoint::kUnreliableDrop, 2) == 0) {
    const auto listeners = fabric_->raw_packet_;
    for (const Frame& frame : frames) {
      for (Qp* to : listeners) responder_.Capture(*to, frame);
    }
  }
  Finish(x, own, f.length);
  return Step::kDone;
}

// --- windows -------------------------------------------------------------------------------------

void Requester::ExamineWindow(Exchange* x) {
  using Window = RequestFacts::Window;
  const SendRequest& r = *x->request;
  const Pd* pd = x->requester->init().pd->Base();
  RequestFacts& f = x->facts;
  if (r.op == Operation::kLocalInv) {
    Mw* mw = fabric_->WindowUnlocked(r.rkey);
    if (mw == nullptr && Faulty(Fault::kLocalInvTagNotChecked)) {
      mw = fabric_->WindowByIndexUnlocked(r.rkey);
    }
    x->window = mw;
    if (mw == nullptr) {
      f.window = fabric_->RkeyUnlocked(r.rkey) != nullptr ? Window::kPlainMr : Window::kUnknownKey;
    } else if (mw->type == IBV_MW_TYPE_1) {
      f.window = Window::kType1;
    } else if (mw->pd->Base() != pd) {
      f.window = Window::kWrongPd;
    } else if (mw->mr == nullptr) {
      f.window = Window::kFree;
    } else if (mw->qp_num != x->requester->number().value || mw->qp_life != x->requester->life()) {
      f.window = Window::kWrongQp;
    }
    if (f.window != Window::kFine && Faulty(Fault::kLocalInvAlwaysSucceeds)) {
      f.window = Window::kFine;
      x->window = nullptr;
    }
    return;
  }
  // BIND_MW: the window is what the key's index names (WR-MW-003).
  Mw* mw = fabric_->WindowByIndexUnlocked(r.mw_key);
  x->window = mw;
  f.length = r.bind_length;
  const bool type1_verb = r.bind_call == BindCall::kBindMwVerb;
  if (mw == nullptr || (r.mw != nullptr && r.mw != mw)) {
    f.window = Window::kUnknownKey;
  } else if ((mw->type == IBV_MW_TYPE_1) != type1_verb) {
    f.window = Window::kType1;
  } else if (mw->pd->Base() != pd) {
    f.window = Faulty(Fault::kBindPdNotChecked) ? Window::kFine : Window::kWrongPd;
  } else if (type1_verb && r.bind_length == 0) {
    f.window = Window::kFine;  // a zero-length bind frees a type 1 window
  } else if (r.bind_mr == nullptr || x->requester->device().mrs_.count(r.bind_mr) == 0) {
    f.window = Window::kNoMr;
  } else if (r.bind_mr->pd->Base() != pd) {
    f.window = Faulty(Fault::kBindPdNotChecked) ? Window::kFine : Window::kWrongPd;
  } else if (mw->type == IBV_MW_TYPE_2 && mw->mr != nullptr &&
             !Faulty(Fault::kBoundWindowBoundAgain)) {
    f.window = Window::kBoundAlready;
  } else if (r.bind_length == 0 && !Faulty(Fault::kZeroLengthBind)) {
    f.window = Window::kZeroLength;
  } else if ((r.bind_mr->access & IBV_ACCESS_MW_BIND) == 0 &&
             !Faulty(Fault::kBindRightNotChecked)) {
    f.window = Window::kNoBindRight;
  } else if ((r.bind_access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
             (r.bind_mr->access & IBV_ACCESS_LOCAL_WRITE) == 0 &&
             !Faulty(Fault::kBindWriteRightNotChecked)) {
    f.window = Window::kNoLocalWrite;
  } else if ((r.bind_addr < r.bind_mr->iova ||
              r.bind_addr - r.bind_mr->iova > r.bind_mr->memory.size ||
              r.bind_length > r.bind_mr->memory.size - (r.bind_addr - r.bind_mr->iova)) &&
             !Faulty(Fault::kBindRangeNotChecked)) {
    f.window = Window::kOutOfRange;
  } else if (!type1_verb && (r.bind_rkey.value & ~0xffu) != (mw->rkey.value & ~0xffu)) {
    f.window = Window::kForeignIndexBits;
  }
}

void Requester::BindWindow(Exchange* x) {
  const SendRequest& r = *x->request;
  Mw* mw = x->window;
  if (mw == nullptr) return;
  if (mw->mr != nullptr) --mw->mr->bound_windows;  // a type 1 window moves
  const uint32_t index = mw->rkey.value & ~0xffu;
  mw->rkey = Rkey(index | (r.bind_rkey.value & 0xff));  // WR-MW-002
  fabric_->windows_.Retag(mw->rkey.value);
  if (r.bind_length == 0 || r.bind_mr == nullptr) {
    mw->mr = nullptr;
    return;
  }
  mw->mr = r.bind_mr;
  ++mw->mr->bound_windows;
  mw->qp_num = x->requester->number().value;
  mw->qp_life = x->requester->life();
  mw->addr = r.bind_addr;
  mw->length = r.bind_length;
  constexpr unsigned kRights =
      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  const unsigned earlier = mw->access & kRights & ~r.bind_access;
  mw->access = r.bind_access;
  if (earlier != 0 && Faulty(Fault::kRebindAddsRights)) mw->access |= earlier;
  if (Faulty(Fault::kBindGivesAllRights)) {
    mw->access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  }
}

bool Requester::SendFollows(const Exchange* x) const {
  SendQueue& sq = x->requester->send_queue();
  const uint64_t next = sq.done() + 1;
  return next < sq.posted() && sq.At(next).op == Operation::kSend;
}

void Requester::BindLate(Qp& qp) {
  late_qp_ = nullptr;
  if (late_life_ != qp.life_) return;
  Exchange x;
  Prepare(&x, qp, late_bind_);
  ExamineWindow(&x);
  if (x.facts.window == RequestFacts::Window::kFine) BindWindow(&x);
}

void Requester::InvalidateWindow(Exchange* x) {
  Mw* mw = x->window;
  if (mw == nullptr || mw->mr == nullptr || Faulty(Fault::kLocalInvWithoutEffect)) return;
  --mw->mr->bound_windows;
  mw->mr = nullptr;
}

Requester::Step Requester::ExecuteLocal(Exchange* x) {
  ExamineWindow(x);
  const bool bind = x->request->op == Operation::kBindMw;
  if (!bind && x->facts.window == RequestFacts::Window::kFree &&
      Faulty(Fault::kFreeWindowStallsQueue)) {
    Qp::Attempt& attempt = x->requester->attempt_;
    attempt.started = attempt.waiting = attempt.stuck = true;
    return Step::kWaits;
  }
  Outcome outcome = Choose(RequestOutcomes(x->facts));
  if (outcome.status == IBV_WC_SUCCESS && outcome.effect == Effect::kWhole) {
    if (!bind) {
      InvalidateWindow(x);
    } else if (SendFollows(x) && Faulty(Fault::kBindTakesEffectLate)) {
      late_qp_ = x->requester;
      late_life_ = x->requester->life();
      late_bind_ = *x->request;
    } else {
      BindWindow(x);
    }
  } else if (Faulty(Fault::kFailedBindKeepsQp)) {
    outcome.requester_next = NextState::kKeep;
  }
  Finish(x, outcome, 0);
  return Step::kDone;
}

// --- completion ----------------------------------------------------------------------------------

void Requester::Finish(Exchange* x, const Outcome& outcome, uint64_t byte_len) {
  Qp& qp = *x->requester;
  SendRequest& r = *x->request;
  SendQueue& sq = *qp.send_queue_;
  const OperationInfo& info = Info(r.op);
  const uint64_t position = sq.done();
  bool completes = Signaled(qp, r) || outcome.status != IBV_WC_SUCCESS;
  if (__builtin_expect(FaultSwitch::on(), 0)) {
    const bool signaled = Signaled(qp, r);
    if (outcome.status != IBV_WC_SUCCESS && outcome.status != IBV_WC_WR_FLUSH_ERR && !signaled &&
        Faulty(Fault::kUnsignaledErrorSilent)) {
      completes = false;
    }
    if (!signaled && outcome.status == IBV_WC_SUCCESS && Faulty(Fault::kUnsignaledCompletes)) {
      completes = true;
    }
    if (qp.init().signaling == Signaling::kAll && (r.flags & IBV_SEND_SIGNALED) == 0 &&
        outcome.status == IBV_WC_SUCCESS &&
        (Faulty(Fault::kSigAllNeedsFlag) ||
         (r.op == Operation::kLocalInv && Faulty(Fault::kSigAllSparesLocalInv)))) {
      completes = false;
    }
  }
  if (completes) {
    Completion c;
    c.wr_id = r.wr_id;
    c.status = outcome.status;
    c.opcode = info.send_wc_opcode;
    c.qp_num = qp.number_;
    c.qp = &qp;
    c.covers = position + 1;
    c.byte_len = static_cast<uint32_t>(byte_len);
    c.timestamp_ns = fabric_->Now();
    if ((r.op == Operation::kSendWithImm || r.op == Operation::kRdmaWriteWithImm) &&
        fabric_->Pick(ChoicePoint::kSendImmFlags, 2) == 1) {
      c.wc_flags |= IBV_WC_WITH_IMM;
    }
    if (__builtin_expect(FaultSwitch::on(), 0)) {
      if (r.op == Operation::kLocalInv && Faulty(Fault::kLocalInvReportsBind)) {
        c.opcode = IBV_WC_BIND_MW;
      }
      if (r.op == Operation::kAtomicFetchAndAdd && Faulty(Fault::kFetchAddReportsCompSwap)) {
        c.opcode = IBV_WC_COMP_SWAP;
      }
      if (r.op == Operation::kAtomicWrite && Faulty(Fault::kAtomicWriteReportsWrite)) {
        c.opcode = IBV_WC_RDMA_WRITE;
      }
      if (r.op == Operation::kRdmaRead && Faulty(Fault::kReadByteLenZero)) c.byte_len = 0;
      if (c.status == IBV_WC_RNR_RETRY_EXC_ERR && Faulty(Fault::kRnrReportsRetry)) {
        c.status = IBV_WC_RETRY_EXC_ERR;
      }
    }
    sq.set_done(position + 1);
    if (qp.attempt_.started) qp.attempt_ = Qp::Attempt{};
    if (qp.init_.send_cq != nullptr) {
      if (__builtin_expect(FaultSwitch::on(), 0)) {
        if (c.status == IBV_WC_SUCCESS && r.op == Operation::kRdmaRead &&
            sq.posted() > position + 2 && sq.At(position + 1).op == Operation::kRdmaWrite &&
            sq.At(position + 2).op == Operation::kRdmaRead && Faulty(Fault::kCompletionLost)) {
          goto state;
        }
        if (qp.init_.signaling == Signaling::kAll && (r.flags & IBV_SEND_SIGNALED) != 0 &&
            Faulty(Fault::kCompletionTwice)) {
          qp.init_.send_cq->Push(c);
        }
      }
      qp.init_.send_cq->Push(c);
    }
  } else {
    sq.set_done(position + 1);
    if (qp.attempt_.started) qp.attempt_ = Qp::Attempt{};
    if (qp.on_silent_success) qp.on_silent_success(qp, r);
  }
state:
  switch (outcome.requester_next) {
    case NextState::kKeep:
      break;
    case NextState::kErr:
      if (outcome.status != IBV_WC_RNR_RETRY_EXC_ERR || !Faulty(Fault::kRequesterStaysAfterError)) {
        qp.MoveTo(IBV_QPS_ERR);
      }
      if (Faulty(Fault::kErrorKillsCqNeighbours)) {
        const auto others = qp.device_->qps_;
        for (Qp* other : others) {
          if (other != &qp && other != x->responder && other->state_ == IBV_QPS_RTS &&
              other->init_.send_cq == qp.init_.send_cq) {
            other->MoveTo(IBV_QPS_ERR);
          }
        }
      }
      break;
    case NextState::kSqe:
    case NextState::kSqeOrErr:
      if (Faulty(Fault::kUdStaysAfterError)) break;
      qp.MoveTo(fabric_->Pick(ChoicePoint::kSqeOrErr, 2) == 0 ? IBV_QPS_SQE : IBV_QPS_ERR);
      break;
  }
}

}  // namespace qpexam::model
