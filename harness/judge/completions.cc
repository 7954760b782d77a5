// Matching completions to requests and receives, and missing them where they were promised.
#include <algorithm>

#include "conformance/catalogue/catalogue.h"
#include "harness/judge/impl.h"
#include "harness/judge/words.h"

namespace qpexam::judge {
namespace {

using model::Operation;
using model::QpType;

constexpr unsigned kReceiveBit = IBV_WC_RECV;

bool IsHigh(const char* clause) {
  const catalogue::Clause* c = catalogue::Find(clause);
  return c != nullptr && c->confidence == catalogue::Confidence::kHigh;
}

}  // namespace

void Judge::Impl::Completions(const Event& event) {
  for (const SeenCompletion& wc : trace_->CompletionsOf(event)) SawCompletion(wc);
}

void Judge::Impl::SawCompletion(const SeenCompletion& wc) {
  CqState* cq = Cq(wc.cq);
  const bool good = wc.status == IBV_WC_SUCCESS;
  if (cq) {
    ++cq->came_since_armed;
    if (cq->possible > 0) --cq->possible;
    if (!good) ++cq->solicited_since_armed;
  }
  QpState* qp = Qp(wc.qp);
  // Of several handles the one that it was made with gives the name, ended or not.
  for (QpState& any : qps_) {
    if (qp == nullptr && any.alive && any.id == wc.qp) qp = &any;
  }
  fields_ = cq ? cq->seen_fields : ~uint64_t{0};
  if (qp == nullptr && cq && !(fields_ & IBV_WC_EX_WITH_QP_NUM)) {
    // Nobody asked whose it is.
    qp = OnlyQpOn(static_cast<Index>(cq - cqs_.begin()));
    if (qp == nullptr) {
      Doubt(*cq);
      return;
    }
  }
  if (qp == nullptr) {
    Report("WR-COMP-005", "a completion names a QP number that no QP of the Program has",
           {"the qp_num of the QP that the request was posted to"},
           "wr_id " + std::to_string(wc.wr_id));
    return;
  }
  const Index at = cq ? static_cast<Index>(cq - cqs_.begin()) : kNone;
  bool receive;
  if (good) {
    receive = (static_cast<unsigned>(wc.opcode) & kReceiveBit) != 0;
    if (receive && wc.wc_flags & IBV_WC_WITH_IMM && wc.wc_flags & IBV_WC_WITH_INV) {
      Report("WR-COMP-010", NameOf(qp->id) + ": a receive completion has WITH_IMM and WITH_INV",
             {"at most one of the two"}, "both");
    }
  } else {
    // The opcode of an error completion is not valid (WR-COMP-005): the queue tells the side.
    const bool can_send = qp->type != QpType::kXrcRecv && (at == kNone || at == qp->send_cq);
    bool can_receive = at == kNone || at == qp->recv_cq;
    if (qp->type == QpType::kXrcRecv) can_receive = true;
    if (can_send != can_receive) {
      receive = can_receive;
    } else {
      bool send_match = false, receive_match = false;
      for (uint32_t i = qp->head; i < qp->sent.size() && !send_match; ++i) {
        const Request& r = Of(qp->sent[i]);
        if (r.fate != Fate::kOutstanding) continue;
        send_match = r.wr_id == wc.wr_id;
        if (r.signaled && !send_match && !qp->unordered) break;
      }
      const ReceiveQueue* rq = ReceivesOf(*qp);
      for (uint32_t i = rq->head; i < rq->posted.size() && !receive_match; ++i) {
        if (rq->posted[i].done) continue;
        receive_match = rq->posted[i].wr_id == wc.wr_id;
        if (rq == &qp->rq) break;
      }
      if (send_match && receive_match && qp->followed && qp->alive) {
        Add(FindingKind::kUndecided, "WR-COMP-005",
            NameOf(qp->id) +
                ": an error completion on a shared queue may be of a request or of a receive",
            {}, "wr_id " + std::to_string(wc.wr_id));
        Unfollow(*qp);
      }
      receive = !send_match && receive_match;
    }
  }
  if (receive && cq && qp->alive && qp->followed && good) {
    Index expected = qp->recv_cq;
    if (qp->type == QpType::kXrcRecv) expected = at;
    if (at != expected && expected != kNone) {
      Report("WR-COMP-007", NameOf(qp->id) + ": a receive completion in the wrong queue",
             {"the recv_cq of the QP"}, "another queue");
    }
  } else if (!receive && cq && qp->alive && qp->followed && at != qp->send_cq &&
             qp->send_cq != kNone) {
    Report("WR-COMP-006", NameOf(qp->id) + ": a send completion in the wrong queue",
           {"the send_cq of the QP"}, "another queue");
  }
  if (receive) {
    ReceiveCompletion(*qp, wc);
  } else {
    SendCompletion(*qp, wc);
  }
}

// The one QP whose completions go there; nullptr where there are several.
QpState* Judge::Impl::OnlyQpOn(Index cq) {
  QpState* only = nullptr;
  for (QpState& qp : qps_) {
    if (qp.send_cq != cq && qp.recv_cq != cq && qp.type != QpType::kXrcRecv) continue;
    if (only != nullptr) return nullptr;
    only = &qp;
  }
  return only;
}

// Completions of this queue passed unseen: what its QPs still owe is no longer known.
void Judge::Impl::Doubt(CqState& cq) {
  const auto at = static_cast<Index>(&cq - cqs_.begin());
  ++verdict_.leniency.completions_any;
  for (QpState& qp : qps_) {
    if (qp.send_cq == at) qp.send_doubt = true;
    if (qp.recv_cq == at || qp.type == QpType::kXrcRecv) qp.recv_doubt = true;
  }
}

void Judge::Impl::UpdateUnsure(QpState& qp) {
  if (qp.first_unsure == 0 || Of(qp.first_unsure).fate == Fate::kOutstanding) return;
  qp.first_unsure = 0;
  for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
    const Request& r = Of(qp.sent[i]);
    if (r.fate == Fate::kOutstanding && !r.safe) {
      qp.first_unsure = r.id;
      return;
    }
  }
  // Nothing that was doubtful is left and nothing failed: the peer is where it was.
  // Without acknowledgements the requester's completions say nothing of that.
  if (!qp.flushing && qp.peer != kNone && model::IsReliable(qp.type)) {
    QpState& peer = qps_[qp.peer];
    if (peer.peer == static_cast<Index>(&qp - qps_.begin()) && !peer.failed_here) {
      peer.incoming_trouble = false;
    }
  }
}

void Judge::Impl::Retire(QpState& qp, Request& r, Fate fate) {
  if (r.fate != Fate::kOutstanding) return;
  r.fate = fate;
  if (qp.outstanding > 0) --qp.outstanding;
  if (!r.sure && r.safe && qp.waiting > 0) --qp.waiting;
  FinishEffects(qp, r, fate == Fate::kDone, fate == Fate::kFlushed && qp.flushing_certain);
}

// Whether it is of a request that a RESET removed (WR-COMP-013), and not of `match`, which it would
// be of otherwise. Where it can be of either, what the queue still owes is not known.
bool Judge::Impl::TakeStale(QpState& qp, const SeenCompletion& wc, const Request* match) {
  if (qp.vanished == 0) return false;
  const bool good = wc.status == IBV_WC_SUCCESS;
  Request* stale = nullptr;
  for (uint32_t i = 0; i < qp.head && stale == nullptr; ++i) {
    Request& r = Of(qp.sent[i]);
    if (r.fate != Fate::kVanished || r.wr_id != wc.wr_id) continue;
    if (!good || (r.signaled && model::Info(r.op).send_wc_opcode == wc.opcode)) stale = &r;
  }
  if (stale == nullptr) return false;
  bool plausible = match != nullptr;
  if (plausible && good) {
    plausible = model::Info(match->op).send_wc_opcode == wc.opcode &&
                (match->sure || ProspectsOf(*match).may_succeed);
  } else if (plausible && wc.status == IBV_WC_WR_FLUSH_ERR) {
    plausible = qp.flushing || (qp.states & StateBit(IBV_QPS_ERR)) || MayBeError(qp);
  } else if (plausible) {
    plausible = ProspectsOf(*match).may_fail;
  }
  if (plausible) {
    // The reference removes them.
    if (options_.provider != Provider::kReference) qp.send_doubt = true;
    return false;
  }
  stale->fate = Fate::kDone;
  --qp.vanished;
  Vary(model::ChoicePoint::kGeneratedAfterReset, 1);
  return true;
}

void Judge::Impl::UnorderedSendCompletion(QpState& qp, const SeenCompletion& wc) {
  Request* found = nullptr;
  for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
    Request& r = Of(qp.sent[i]);
    if (r.fate != Fate::kOutstanding || r.wr_id != wc.wr_id) continue;
    if (wc.status == IBV_WC_SUCCESS && !r.signaled) continue;
    found = &r;
    break;
  }
  if (TakeStale(qp, wc, found)) return;
  if (found == nullptr) {
    UnknownSend(qp, wc);
    return;
  }
  if (wc.status == IBV_WC_SUCCESS) {
    JudgeSuccess(qp, *found, wc);
    Retire(qp, *found, Fate::kDone);
  } else {
    // With the same id it may have been another one that failed.
    for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
      const Request& r = Of(qp.sent[i]);
      qp.send_doubt |= &r != found && r.fate == Fate::kOutstanding && r.wr_id == wc.wr_id;
    }
    JudgeError(qp, *found, wc);
    Retire(qp, *found, wc.status == IBV_WC_WR_FLUSH_ERR ? Fate::kFlushed : Fate::kFailed);
  }
  while (qp.head < qp.sent.size() && Of(qp.sent[qp.head]).fate != Fate::kOutstanding) ++qp.head;
  UpdateUnsure(qp);
}

void Judge::Impl::SendCompletion(QpState& qp, const SeenCompletion& wc) {
  if (!qp.alive || !qp.followed || parallel_ || qp.unordered) {
    if (qp.alive && qp.followed && !parallel_) {
      UnorderedSendCompletion(qp, wc);
      return;
    }
    ++verdict_.leniency.completions_any;
    // Of several with one id the one whose opcode it is.
    const bool good = wc.status == IBV_WC_SUCCESS;
    auto candidate = [&](const Request& r) {
      return r.fate == Fate::kOutstanding && r.wr_id == wc.wr_id && (r.signaled || !good);
    };
    bool opcode_fits = false, found = false;
    for (uint32_t i = qp.head; i < qp.sent.size() && good; ++i) {
      const Request& r = Of(qp.sent[i]);
      opcode_fits |= candidate(r) && model::Info(r.op).send_wc_opcode == wc.opcode;
    }
    for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
      Request& r = Of(qp.sent[i]);
      if (!candidate(r)) continue;
      found = true;
      if (opcode_fits && model::Info(r.op).send_wc_opcode != wc.opcode) continue;
      // With the same id it may have been another one that failed.
      for (uint32_t k = i + 1; k < qp.sent.size() && !good; ++k) {
        qp.send_doubt |= candidate(Of(qp.sent[k]));
      }
      if (parallel_ && qp.followed && qp.alive) {
        // Order is not known here, the rest is.
        if (wc.status == IBV_WC_SUCCESS) {
          JudgeSuccess(qp, r, wc);
        } else {
          JudgeError(qp, r, wc);
        }
      }
      Retire(qp, r, wc.status == IBV_WC_SUCCESS ? Fate::kDone : Fate::kFailed);
      break;
    }
    // Threads' calls are seen as they end: its posting may be still to be seen.
    if (!found) qp.send_doubt = true;
    while (qp.head < qp.sent.size() && Of(qp.sent[qp.head]).fate != Fate::kOutstanding) ++qp.head;
    UpdateUnsure(qp);
    return;
  }
  const bool good = wc.status == IBV_WC_SUCCESS;
  uint32_t at = qp.head;
  uint32_t match = ~0u;
  uint32_t weak = ~0u;  // an error on a request that should not fail
  uint32_t later = ~0u;
  for (; at < qp.sent.size(); ++at) {
    const Request& r = Of(qp.sent[at]);
    if (r.fate != Fate::kOutstanding) continue;
    if (r.wr_id == wc.wr_id && (good ? r.signaled : true)) {
      if (good || r.signaled || !r.sure || wc.status == IBV_WC_WR_FLUSH_ERR) {
        match = at;
        break;
      }
      if (weak == ~0u) weak = at;
    }
    if (r.signaled) break;
    // An unsignaled one that cannot succeed is not skipped.
    if (!r.sure && !ProspectsOf(r).may_succeed) break;
    if (qp.flushing && !good) break;
  }
  if (match == ~0u) match = weak;
  if (TakeStale(qp, wc, match == ~0u ? nullptr : &Of(qp.sent[match]))) return;
  const bool lossy = qp.send_doubt || cqs_[qp.send_cq].may_overrun;
  if (lossy && match != ~0u && wc.status != IBV_WC_WR_FLUSH_ERR) {
    // Earlier ones may have completed unseen: of several with the id the first that it fits.
    for (uint32_t i = match; i < qp.sent.size(); ++i) {
      const Request& r = Of(qp.sent[i]);
      if (r.fate != Fate::kOutstanding || r.wr_id != wc.wr_id) continue;
      const bool fits = good ? r.signaled && model::Info(r.op).send_wc_opcode == wc.opcode &&
                                   (r.sure || ProspectsOf(r).may_succeed)
                             : ProspectsOf(r).may_fail;
      if (!fits) continue;
      if (i != match) {
        at = match;
        match = ~0u;
        later = i;
      }
      break;
    }
  }
  bool alike = false;
  if (!good && match != ~0u && !Of(qp.sent[match]).signaled) {
    // With the same id further on it may have been another one that failed.
    for (uint32_t i = match + 1; i < qp.sent.size(); ++i) {
      const Request& r = Of(qp.sent[i]);
      if (r.wr_id == wc.wr_id) {
        qp.send_doubt = alike = true;
        break;
      }
      if (r.signaled) break;
    }
  }
  if (match == ~0u) {
    // Later in the queue?
    match = later;
    for (uint32_t i = at; match == ~0u && i < qp.sent.size(); ++i) {
      const Request& r = Of(qp.sent[i]);
      if (r.fate == Fate::kOutstanding && r.wr_id == wc.wr_id && (!good || r.signaled)) {
        match = i;
        break;
      }
    }
    if (match == ~0u) {
      if (!lossy) UnknownSend(qp, wc);
      return;
    }
    if (!lossy) {
      const Request& first = Of(qp.sent[at]);
      const char* clause = !first.signaled ? "WR-COMP-002" : "WR-COMP-004";
      if (qp.flushing) clause = "WR-COMP-003";
      Report(clause,
             NameOf(qp.id) + ": the completion of wr_id " + std::to_string(wc.wr_id) +
                 " came, that of an earlier request is missing",
             {"the completion of " + NameOf(first) + " first"},
             "wr_id " + std::to_string(wc.wr_id) + ", " + StatusName(wc.status));
      qp.send_doubt = true;
    }
    for (uint32_t i = qp.head; i < match; ++i) {
      Request& r = Of(qp.sent[i]);
      if (!r.safe) {
        // What it did to both sides is not known.
        qp.states |= StateBit(IBV_QPS_ERR);
        qp.incoming_trouble = true;
        if (QpState* peer = PeerOf(qp, r); peer && model::IsConnected(qp.type)) {
          peer->states |= StateBit(IBV_QPS_ERR);
          peer->incoming_trouble = peer->failed_here = true;
        }
      }
      Retire(qp, r, Fate::kDone);
    }
    qp.head = match;
  }
  for (uint32_t i = qp.head; i < match; ++i) {
    // Unsignaled ones that are covered: they succeeded.
    Retire(qp, Of(qp.sent[i]), Fate::kDone);
    CqState& cq = cqs_[qp.send_cq];
    if (cq.possible > 0) --cq.possible;
  }
  Request& r = Of(qp.sent[match]);
  if (good) {
    if (qp.flushing && !lossy) {
      Report("WR-COMP-003", NameOf(qp.id) + ": SUCCESS after an error on the same send queue",
             {"WR_FLUSH_ERR"}, NameOf(r) + ": SUCCESS");
    }
    JudgeSuccess(qp, r, wc);
    Retire(qp, r, Fate::kDone);
  } else {
    JudgeError(qp, r, wc, alike);
    Retire(qp, r, wc.status == IBV_WC_WR_FLUSH_ERR ? Fate::kFlushed : Fate::kFailed);
    if (qp.flushing && (!qp.flush_open || wc.status != IBV_WC_WR_FLUSH_ERR)) {
      qp.flushing_certain = true;
    }
  }
  qp.head = match + 1;
  UpdateUnsure(qp);
}

// A completion of a send queue that no outstanding request explains.
void Judge::Impl::UnknownSend(QpState& qp, const SeenCompletion& wc) {
  const std::string seen = "wr_id " + std::to_string(wc.wr_id) + ", " + StatusName(wc.status);
  for (uint32_t i = static_cast<uint32_t>(qp.sent.size()); i-- > 0;) {
    const Request& r = Of(qp.sent[i]);
    if (r.wr_id != wc.wr_id) continue;
    if (r.fate == Fate::kVanished) return;  // WR-COMP-013
    if (r.fate == Fate::kOutstanding && !r.signaled) {
      Report("WR-COMP-001", NameOf(qp.id) + ": a completion for an unsignaled request",
             {"no completion for " + NameOf(r)}, seen);
      Retire(qp, Of(r.id), Fate::kDone);
      return;
    }
  }
  for (uint32_t i = static_cast<uint32_t>(dead_.size()); i-- > 0;) {
    const Request& r = dead_[i];
    if (r.wr_id != wc.wr_id || &qps_[r.qp] != &qp) continue;
    const char* clause = r.fate == Fate::kAborted          ? "WR-ATOM-001"
                         : Only(r.states_then, kBeforeRts) ? "WR-ATOM-006"
                                                           : "WR-ATOM-002";
    Report(clause,
           NameOf(qp.id) + ": a completion of a request that was " +
               (r.fate == Fate::kAborted ? "aborted" : "refused at complete"),
           {"no completion for " + NameOf(r)}, seen);
    return;
  }
  for (const Request& r : qp.region.staged) {
    if (r.wr_id != wc.wr_id) continue;
    Report("WR-CRIT-004", NameOf(qp.id) + ": a completion before ibv_wr_complete()",
           {"no completion for " + NameOf(r)}, seen);
    return;
  }
  for (uint32_t i = static_cast<uint32_t>(qp.sent.size()); i-- > 0;) {
    const Request& r = Of(qp.sent[i]);
    if (r.wr_id != wc.wr_id) continue;
    const char* clause = qp.sig_all && r.fate == Fate::kDone ? "WR-COMP-014" : "WR-COMP-015";
    if (!r.signaled && r.fate == Fate::kDone) clause = "WR-COMP-001";
    Report(clause, NameOf(qp.id) + ": a second completion of " + NameOf(r),
           {"one completion at most"}, seen);
    return;
  }
  // Nothing has that id: the oldest outstanding one was meant.
  for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
    Request& r = Of(qp.sent[i]);
    if (r.fate != Fate::kOutstanding || !r.signaled) continue;
    const bool truncated = static_cast<uint32_t>(r.wr_id) == static_cast<uint32_t>(wc.wr_id);
    Report(truncated                     ? "WR-SAMPLE-004"
           : wc.status != IBV_WC_SUCCESS ? "WR-SAMPLE-005"
                                         : "WR-SAMPLE-001",
           NameOf(qp.id) + ": a completion with a wr_id that nothing was posted with",
           {"wr_id " + std::to_string(r.wr_id)}, seen);
    if (wc.status == IBV_WC_SUCCESS) JudgeSuccess(qp, r, wc);
    Retire(qp, r, wc.status == IBV_WC_SUCCESS ? Fate::kDone : Fate::kFailed);
    if (wc.status != IBV_WC_SUCCESS) JudgeError(qp, r, wc);
    qp.head = i + 1;
    UpdateUnsure(qp);
    return;
  }
  Report("WR-COMP-015", NameOf(qp.id) + ": a send completion although nothing is outstanding",
         {"no completion"}, seen);
}

void Judge::Impl::JudgeSuccess(QpState& qp, Request& r, const SeenCompletion& wc) {
  (void)qp;
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0 &&
      (r.op == Operation::kSendWithImm || r.op == Operation::kRdmaWriteWithImm)) {
    Vary(model::ChoicePoint::kSendImmFlags, 1);
  }
  if (wc.opcode != model::Info(r.op).send_wc_opcode) {
    Report("WR-COMP-006", NameOf(r) + ": wrong opcode in the send completion",
           {OpcodeName(model::Info(r.op).send_wc_opcode)}, OpcodeName(wc.opcode));
  }
  const bool length_read = (fields_ & IBV_WC_EX_WITH_BYTE_LEN) != 0;
  if (r.op == Operation::kRdmaRead && length_read &&
      wc.byte_len != static_cast<uint32_t>(r.length) && r.length <= 0xffffffff) {
    Report("WR-COMP-008", NameOf(r) + ": byte_len of a READ", {std::to_string(r.length)},
           std::to_string(wc.byte_len));
  }
  if (model::Info(r.op).data == model::DataRule::kOneSgeOf8 && length_read && wc.byte_len != 8 &&
      r.length == 8) {
    Report("WR-COMP-008", NameOf(r) + ": byte_len of an atomic", {"8"},
           std::to_string(wc.byte_len));
  }
  if (r.sure && r.epoch == epoch_) return;
  const Prospects p = ProspectsOf(r);
  if (p.open) {
    ++verdict_.leniency.requests_open;
    return;
  }
  if (!p.may_succeed) {
    std::vector<std::string> allowed;
    Finding* f = Report(p.set.clause, NameOf(r) + " succeeded, but must not: " + Why(p.set, r), {},
                        "SUCCESS");
    if (f) {
      for (const model::Outcome& o : p.set) f->allowed.push_back(OutcomeWords(o));
    }
    return;
  }
  for (int i = 0; i < p.set.count; ++i) {
    const model::Outcome& o = p.set.member[i];
    if (o.status != IBV_WC_SUCCESS || !o.completes) continue;
    if (o.level == model::Level::kShould) {
      Add(FindingKind::kWarning, o.clause[0] ? o.clause : p.set.clause,
          NameOf(r) + " succeeded, but should not", {}, "SUCCESS");
    }
    if (i > 0 && p.set.choice != model::ChoicePoint::kCount) {
      Vary(p.set.choice, static_cast<unsigned>(i));
    }
    return;
  }
  // Only tolerated: a warning.
  if (p.set.count > 0 && r.facts.local == model::LocalFault::kNone) {
    bool plain = false;
    for (const model::Outcome& o : model::RequestOutcomes(r.facts)) {
      plain |= o.completes && o.status == IBV_WC_SUCCESS;
    }
    if (!plain) {
      Add(FindingKind::kWarning, p.set.clause, NameOf(r) + " succeeded, which is only tolerated",
          {OutcomeWords(p.set.member[0])}, "SUCCESS");
    }
  }
}

// alike: it may be another one with the same id that failed.
void Judge::Impl::JudgeError(QpState& qp, Request& r, const SeenCompletion& wc, bool alike) {
  const States flushed = StateBit(IBV_QPS_ERR) | StateBit(IBV_QPS_SQE);
  if (wc.status == IBV_WC_WR_FLUSH_ERR) {
    const bool recovered = r.posted < qp.recovered_at;
    const bool allowed = qp.flushing || (qp.states & flushed) || MayBeError(qp) || recovered;
    if (!allowed) {
      Report("WR-COMP-003", NameOf(r) + " was flushed although nothing had failed", {"SUCCESS"},
             "WR_FLUSH_ERR");
    }
    if (!qp.flushing && !recovered) {
      qp.flushing = true;
      if (model::IsReliable(qp.type)) {
        qp.states |= StateBit(IBV_QPS_ERR);
        qp.changed = ++clock_;
        ++epoch_;
      } else {
        qp.states |= flushed;
      }
    }
    return;
  }
  if (qp.flushing && !qp.unordered) {
    Report("WR-COMP-003", NameOf(r) + ": an error other than a flush after the first error",
           {"WR_FLUSH_ERR"}, StatusName(wc.status));
    return;
  }
  Prospects looked = ProspectsOf(r);
  looked.open |= alike;
  const Prospects& p = looked;
  if (p.open) {
    ++verdict_.leniency.requests_open;
  } else if (qp.flush_open && !qp.flushing) {
    // Set to ERR by the caller while it was on its way: any error (WR-STATE-006).
  } else if (!p.may_fail) {
    Finding* f = Report(p.set.clause[0] ? p.set.clause : "WR-ATOM-007",
                        NameOf(r) + " failed, but nothing is wrong with it", {"SUCCESS"},
                        StatusName(wc.status));
    (void)f;
  } else {
    const model::StatusSet bit = model::StatusBit(wc.status);
    bool named = false, tolerated = false;
    int which = -1;
    const model::OutcomeSet before = model::RequestOutcomes(r.facts);
    for (const model::OutcomeSet* set : {&p.set, &before}) {
      for (int i = 0; i < set->count; ++i) {
        const model::Outcome& o = set->member[i];
        if (o.completes && o.status == wc.status) {
          if (!named && set == &p.set) which = i;
          named = true;
        }
        tolerated |= o.completes && (o.tolerated & bit) != 0;
      }
    }
    if (which > 0 && p.set.choice != model::ChoicePoint::kCount) {
      Vary(p.set.choice, static_cast<unsigned>(which));
    }
    if (which >= 0 && p.set.member[which].level == model::Level::kShould) {
      Add(FindingKind::kWarning, p.set.member[which].clause, NameOf(r) + " failed, but should not",
          {"SUCCESS"}, StatusName(wc.status));
    }
    if (!named) {
      const char* clause = p.set.clause;
      bool fails_now = false;
      for (const model::Outcome& o : p.set) fails_now |= o.status != IBV_WC_SUCCESS;
      if (!fails_now) clause = before.clause;
      const std::string what = NameOf(r) + " failed with another status than named";
      Finding* f = IsHigh(clause) && !tolerated
                       ? Report(clause, what, {}, StatusName(wc.status))
                       : Add(FindingKind::kWarning, clause, what, {}, StatusName(wc.status));
      if (f) {
        for (const model::Outcome& o : p.set) f->allowed.push_back(OutcomeWords(o));
      }
    }
  }
  // What the error does to both sides.
  r.stable = r.known && r.epoch == epoch_ && !p.open;
  if (qp.error_since == 0) qp.error_since = clock_;
  ++epoch_;
  qp.changed = ++clock_;
  if (r.posted < qp.recovered_at) {
    qp.states |= flushed;
    return;
  }
  qp.flushing = true;
  if (qp.type == QpType::kSrd) {
    qp.flushing = false;
    qp.states |= flushed;
  } else if (model::IsReliable(qp.type)) {
    qp.states = StateBit(IBV_QPS_ERR);
    qp.must_be_error = true;
  } else {
    qp.states = flushed;
    qp.must_be_error = true;
  }
  if (model::IsConnected(qp.type)) {
    if (QpState* peer = PeerOf(qp, r)) {
      bool keeps = !p.open, leaves = !p.open && p.set.count > 0;
      const model::OutcomeSet before = model::RequestOutcomes(r.facts);
      for (const model::OutcomeSet* set : {&p.set, &before}) {
        for (const model::Outcome& o : *set) {
          if (o.completes && o.status == IBV_WC_SUCCESS) continue;
          keeps &= o.responder_next == model::NextState::kKeep;
          leaves &= o.responder_next == model::NextState::kErr;
        }
      }
      if (keeps && !model::IsReliable(qp.type)) {
        // An earlier message may have moved it: nothing that was acknowledged says otherwise.
      } else if (keeps) {
        peer->incoming_trouble = peer->failed_here;
      } else {
        peer->incoming_trouble = true;
        peer->failed_here = true;
        peer->changed = ++clock_;
        if (leaves && options_.provider != Provider::kDevice) {
          // WR-RESP-016: the responder as well.
          peer->states = StateBit(IBV_QPS_ERR);
          peer->must_be_error = true;
          if (peer->error_since == 0) peer->error_since = clock_;
        } else {
          peer->states |= StateBit(IBV_QPS_ERR);
        }
      }
    }
  }
}

bool Judge::Impl::TakeReceive(QpState& qp, const SeenCompletion& wc, Receive** taken,
                              bool* vanished) {
  *taken = nullptr;
  ReceiveQueue* rq = ReceivesOf(qp);
  if (qp.type == QpType::kXrcRecv) {
    // The SRQ is known by the queue it completes to (and by the id).
    rq = nullptr;
    const CqState* cq = Cq(wc.cq);
    const Index at = cq ? static_cast<Index>(cq - cqs_.begin()) : kNone;
    for (SrqState& s : srqs_) {
      if (s.xrcd == kNone || s.cq != at) continue;
      for (uint32_t i = s.rq.head; i < s.rq.posted.size(); ++i) {
        if (!s.rq.posted[i].done && s.rq.posted[i].wr_id == wc.wr_id) {
          rq = &s.rq;
          break;
        }
      }
      if (rq) break;
    }
    if (rq == nullptr) {
      *vanished = UnknownReceive(qp, wc);
      return false;
    }
  }
  const bool fifo = rq == &qp.rq && !qp.unordered && !parallel_ && qp.followed;
  uint32_t found = ~0u;
  for (uint32_t i = rq->head; i < rq->posted.size(); ++i) {
    if (rq->posted[i].done) continue;
    if (rq->posted[i].wr_id == wc.wr_id) {
      found = i;
      break;
    }
  }
  if (found == ~0u) {
    *vanished = UnknownReceive(qp, wc);
    return false;
  }
  if (fifo && found != rq->head) {
    bool skipped = false;
    for (uint32_t i = rq->head; i < found; ++i) skipped |= !rq->posted[i].done;
    if (skipped) {
      if (qp.alive && !qp.recv_doubt && !cqs_[qp.recv_cq].may_overrun) {
        Report("WR-DATA-004", NameOf(qp.id) + ": a receive completed before an earlier one",
               {"wr_id " + std::to_string(rq->posted[rq->head].wr_id)},
               "wr_id " + std::to_string(wc.wr_id));
      }
      for (uint32_t i = rq->head; i < found; ++i) {
        if (rq->posted[i].done) continue;
        rq->posted[i].done = true;
        --rq->outstanding;
        ReceiveRefs(rq->posted[i], -1);
      }
      qp.recv_doubt = true;
    }
  }
  Receive& r = rq->posted[found];
  r.done = true;
  --rq->outstanding;
  while (rq->head < rq->posted.size() && rq->posted[rq->head].done) ++rq->head;
  ReceiveRefs(r, -1);
  *taken = &r;
  return true;
}

// Returns true where it is of a receive that a RESET removed.
bool Judge::Impl::UnknownReceive(QpState& qp, const SeenCompletion& wc) {
  if (!qp.alive || !qp.followed || parallel_) {
    ++verdict_.leniency.completions_any;
    if (parallel_) qp.recv_doubt = true;
    return false;
  }
  const std::string seen = "wr_id " + std::to_string(wc.wr_id) + ", " + StatusName(wc.status);
  for (const uint64_t id : qp.vanished_receives) {
    if (id == wc.wr_id) return true;  // WR-COMP-013
  }
  if (qp.recv_doubt) return false;
  const ReceiveQueue* rq = ReceivesOf(qp);
  for (uint32_t i = static_cast<uint32_t>(rq->posted.size()); i-- > 0;) {
    if (rq->posted[i].wr_id == wc.wr_id) {
      Report("WR-COMP-015", NameOf(qp.id) + ": a second completion of a receive",
             {"one completion a receive"}, seen);
      return false;
    }
  }
  Report("WR-COMP-015", NameOf(qp.id) + ": a receive completion with a wr_id that was not posted",
         {"the wr_id of an outstanding receive"}, seen);
  return false;
}

// Whether the completion is what this message would give.
bool Judge::Impl::Fits(const Request& r, const QpState& to, const SeenCompletion& wc) const {
  const bool with_imm = r.op == Operation::kSendWithImm || r.op == Operation::kRdmaWriteWithImm;
  const ibv_wc_opcode opcode =
      r.op == Operation::kRdmaWriteWithImm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  if (wc.opcode != opcode) return false;
  const uint64_t len = r.length + (to.type == QpType::kUd ? 40 : 0);
  if ((fields_ & IBV_WC_EX_WITH_BYTE_LEN) && wc.byte_len != static_cast<uint32_t>(len)) {
    return false;
  }
  if (((wc.wc_flags & IBV_WC_WITH_IMM) != 0) != with_imm) return false;
  if (with_imm && (fields_ & IBV_WC_EX_WITH_IMM) && wc.imm != r.imm) return false;
  if (((wc.wc_flags & IBV_WC_WITH_INV) != 0) != (r.op == Operation::kSendWithInv)) return false;
  return true;
}

// Whether an unreliable service that loses nothing delivers it.
bool Judge::Impl::MustArrive(const Request& r, const QpState& sender, const QpState& to) const {
  // Not carried out at all, or dropped for its key (WR-CREATE-010, WR-MW-013).
  if (r.op == Operation::kSendWithInv && !model::IsReliable(sender.type)) return false;
  return r.sure && r.epoch == epoch_ && r.facts.receive == model::ReceiveFact::kReady &&
         r.facts.remote == model::RemoteFault::kNone &&
         r.facts.path == model::PathFact::kReachable && !r.facts.qkey_mismatch &&
         !r.facts.ah_of_other_pd && r.length <= uint64_t{1} << 31 &&
         (to.type != QpType::kUd || r.length <= sender.path_mtu);
}

// Whether it names an SRQ that completes to another queue than this completion came from.
bool Judge::Impl::GoesElsewhere(const Request& r, const QpState& to, const SeenCompletion& wc) {
  if (to.type != QpType::kXrcRecv || !Is(r.srqn.object, ObjectKind::kSrq)) return false;
  const CqState* cq = Cq(wc.cq);
  const Index s = Find(r.srqn.object);
  return s != kNone && cq && srqs_[s].cq != static_cast<Index>(cq - cqs_.begin());
}

Request* Judge::Impl::TakeMessage(QpState& qp, const SeenCompletion& wc, bool* ambiguous) {
  *ambiguous = false;
  const auto self = static_cast<Index>(&qp - qps_.begin());
  // Of a sender that was reset or destroyed since.
  for (size_t i = 0; i < qp.ghosts.size(); ++i) {
    Request& r = Of(qp.ghosts[i]);
    if (!Fits(r, qp, wc) || GoesElsewhere(r, qp, wc)) continue;
    qp.ghosts.erase(qp.ghosts.begin() + static_cast<std::ptrdiff_t>(i));
    r.delivered = true;
    qp.recv_doubt = qp.ghost_came = true;
    *ambiguous = true;
    return &r;
  }
  Request* best = nullptr;     // fits
  Request* nearest = nullptr;  // would have been next
  QpState* from = nullptr;
  int fitting = 0;
  bool best_must = false;
  for (QpState& sender : qps_) {
    if (sender.messages.size() == sender.delivered) continue;
    const bool by_address = model::NeedsAddress(qp.type);
    if (by_address ? sender.type != qp.type : sender.peer != self) continue;
    const bool in_order = !by_address && qp.type != QpType::kUc && qp.type != QpType::kXrcRecv &&
                          !sender.unordered && !parallel_;
    for (uint32_t i = sender.delivered; i < sender.messages.size(); ++i) {
      Request& r = Of(sender.messages[i]);
      if (r.delivered) continue;
      if (by_address && !(Is(r.qpn.object, ObjectKind::kQp) && Qp(r.qpn.object) == &qp)) {
        // A bent QP number may lead anywhere (WR-UD-010).
        if (r.qpn.object == kNoObject || r.qpn.flip) *ambiguous = true;
        continue;
      }
      if (by_address && wc.src_qp != kNoObject && wc.src_qp != sender.id) continue;
      if (GoesElsewhere(r, qp, wc)) continue;
      if (nearest == nullptr) {
        nearest = &r;
        if (from == nullptr) from = &sender;
      }
      if (Fits(r, qp, wc)) {
        ++fitting;
        // Of datagrams that look alike the one that must come is taken to have come.
        const bool must = by_address && !best_must && MustArrive(r, sender, qp);
        if (best == nullptr || must) {
          best = &r;
          from = &sender;
          best_must = must;
        }
        if (in_order) break;
        if (fitting > 1 && (best_must || !by_address)) break;
      }
      if (in_order) break;
      // What was sent before may have been dropped; this one must have come.
      if (!by_address && options_.provider != Provider::kDevice && r.sure && !r.maybe &&
          r.facts.receive == model::ReceiveFact::kReady && r.epoch == epoch_) {
        break;
      }
    }
    if (fitting > 1 && (best_must || !model::NeedsAddress(qp.type))) break;
  }
  if (fitting > 1) *ambiguous = true;
  // The one that is taken may have been dropped, and be one behind it: which is missing is not
  // known.
  if (fitting > 1 && qp.type == QpType::kUc && !MustArrive(*best, *from, qp)) qp.recv_doubt = true;
  Request* taken = best ? best : nearest;
  if (taken == nullptr) return nullptr;
  taken->delivered = true;
  while (from->delivered < from->messages.size() &&
         (Of(from->messages[from->delivered]).delivered ||
          (qp.type == QpType::kUc && Of(from->messages[from->delivered]).id < taken->id))) {
    ++from->delivered;
  }
  return taken;
}

void Judge::Impl::CheckReceived(QpState& qp, const SeenCompletion& wc, const Request& message) {
  if (message.op != Operation::kSendWithInv && Fits(message, qp, wc)) return;
  const bool write = message.op == Operation::kRdmaWriteWithImm;
  const bool with_imm = write || message.op == Operation::kSendWithImm;
  const bool with_inv = message.op == Operation::kSendWithInv;
  const std::string name = NameOf(qp.id) + ": the receive completion of " + NameOf(message);
  const ibv_wc_opcode opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  if (wc.opcode != opcode) {
    Report("WR-COMP-007", name + " has the wrong opcode", {OpcodeName(opcode)},
           OpcodeName(wc.opcode));
  }
  const uint64_t len = message.length + (qp.type == QpType::kUd ? 40 : 0);
  if ((fields_ & IBV_WC_EX_WITH_BYTE_LEN) && wc.byte_len != static_cast<uint32_t>(len)) {
    const bool is_inline = message.data == Data::kInline, list = message.sge_count > 1;
    Report(is_inline && list        ? "WR-INL-007"
           : write                  ? "WR-DATA-006"
           : qp.type == QpType::kUd ? "WR-UD-004"
           : list                   ? "WR-SGE-001"
           : is_inline              ? "WR-INL-005"
                                    : "WR-COMP-008",
           name + " has the wrong byte_len", {std::to_string(len)}, std::to_string(wc.byte_len));
  }
  if (with_imm) {
    if (!(wc.wc_flags & IBV_WC_WITH_IMM)) {
      Report(write ? "WR-DATA-006" : "WR-DATA-002", name + " lacks WITH_IMM", {"IBV_WC_WITH_IMM"},
             "flags " + std::to_string(wc.wc_flags));
    } else if ((fields_ & IBV_WC_EX_WITH_IMM) && wc.imm != message.imm) {
      Report(write ? "WR-DATA-006" : "WR-DATA-002", name + " has another immediate",
             {Hex(message.imm)}, Hex(wc.imm));
    }
  } else if (wc.wc_flags & IBV_WC_WITH_IMM) {
    Report("WR-DATA-001", name + " has WITH_IMM", {"no IBV_WC_WITH_IMM"}, "IBV_WC_WITH_IMM");
  }
  if (with_inv) {
    if (!(wc.wc_flags & IBV_WC_WITH_INV)) {
      Report("WR-DATA-003", name + " lacks WITH_INV", {"IBV_WC_WITH_INV"},
             "flags " + std::to_string(wc.wc_flags));
    } else if ((fields_ & IBV_WC_EX_WITH_IMM) && message.mw != kNone && message.rkey.flip == 0 &&
               (wc.invalidated != mws_[message.mw].id ||
                wc.invalidated_inc != static_cast<uint8_t>(message.rkey.inc)) &&
               (wc.invalidated != kNoObject || wc.invalidated_raw != 0)) {
      Report("WR-DATA-003", name + " reports another key",
             {"the key of " + NameOf(mws_[message.mw].id)},
             wc.invalidated == kNoObject ? Hex(wc.invalidated_raw) : NameOf(wc.invalidated));
    }
  } else if (wc.wc_flags & IBV_WC_WITH_INV) {
    Report("WR-DATA-003", name + " has WITH_INV", {"no IBV_WC_WITH_INV"}, "IBV_WC_WITH_INV");
  }
}

void Judge::Impl::MarkVisible(QpState& qp, const Request& upto) {
  while (qp.seen_visible < qp.sent.size() && qp.sent[qp.seen_visible] <= upto.id) {
    Request& r = Of(qp.sent[qp.seen_visible++]);
    if (r.fate == Fate::kOutstanding || r.fate == Fate::kDone) r.visible = true;
  }
}

void Judge::Impl::ReceiveCompletion(QpState& qp, const SeenCompletion& wc) {
  Receive* receive = nullptr;
  bool vanished = false;
  // Asked while the receive is there: a message that waited for it may be too long for it.
  const bool may_be_error = wc.status != IBV_WC_SUCCESS && MayBeError(qp);
  if (!TakeReceive(qp, wc, &receive, &vanished)) {
    if (wc.status == IBV_WC_SUCCESS && qp.alive && (!vanished || !qp.ghosts.empty())) {
      bool ambiguous;
      TakeMessage(qp, wc, &ambiguous);
    }
    return;
  }
  if (!qp.alive) return;
  // Who may send here, or take receives of the same SRQ, may be one that is no longer followed.
  const bool anyone = blind_memory_ && (model::NeedsAddress(qp.type) || qp.srq != kNone ||
                                        qp.type == QpType::kXrcRecv);
  const bool watched = qp.followed && !parallel_ && !qp.recv_doubt && !anyone;
  if (wc.status != IBV_WC_SUCCESS) {
    bool ambiguous = false;
    if (wc.status == IBV_WC_WR_FLUSH_ERR) {
      if (watched && !(qp.states & StateBit(IBV_QPS_ERR)) && !may_be_error) {
        Report("WR-STATE-006", NameOf(qp.id) + ": a receive was flushed although it is not in ERR",
               {"no completion"}, "WR_FLUSH_ERR");
      }
      if (!may_be_error || qp.states == StateBit(IBV_QPS_ERR)) return;
      qp.states |= StateBit(IBV_QPS_ERR);
      return;
    }
    // An error while a message was received. In a former life of the sender or of this queue pair?
    if (!qp.ghosts.empty()) {
      for (uint32_t i = 0; i < receive->sge_count; ++i) {
        const Sge& s = sges_[receive->first_sge + i];
        if (s.placed) MarkAny(s.block, s.offset, s.length, 0);
      }
      qp.states |= StateBit(IBV_QPS_ERR);
      qp.failed_here = qp.incoming_trouble = qp.recv_doubt = true;
      qp.changed = ++clock_;
      ++epoch_;
      return;
    }
    if (watched && !receive->fault && !receive->unsure && !may_be_error) {
      Report("WR-DATA-001", NameOf(qp.id) + ": a good receive ended in an error", {"SUCCESS"},
             StatusName(wc.status));
    }
    Request* message = TakeMessage(qp, wc, &ambiguous);
    if (message && message->op != Operation::kRdmaWriteWithImm) {
      for (uint32_t i = 0; i < receive->sge_count; ++i) {
        const Sge& s = sges_[receive->first_sge + i];
        if (s.placed) MarkAny(s.block, s.offset, s.length, 0);
      }
    }
    if (message && message->op == Operation::kSendWithInv && message->mw != kNone) {
      mws_[message->mw].unsure = true;
    }
    qp.states |= StateBit(IBV_QPS_ERR);
    qp.failed_here = qp.incoming_trouble = true;
    qp.changed = ++clock_;
    ++epoch_;
    return;
  }
  bool ambiguous = false;
  Request* message = TakeMessage(qp, wc, &ambiguous);
  if (message == nullptr) {
    if (!watched || ambiguous || blind_memory_) return;
    if (qp.type == QpType::kRawPacket) {
      // A raw packet carries its address itself; who sent it is not followed.
      for (uint32_t i = 0; i < receive->sge_count; ++i) {
        const Sge& s = sges_[receive->first_sge + i];
        if (s.placed) MarkAny(s.block, s.offset, s.length, 0);
      }
      return;
    }
    // Who sent it? A region that was aborted, refused or is still open.
    const auto self = static_cast<Index>(&qp - qps_.begin());
    const char* clause = "WR-DATA-004";
    std::string what = "a receive completion although no message is on its way";
    for (const Request& r : dead_) {
      if (!NeedsReceive(r) || (!model::NeedsAddress(qp.type) && qps_[r.qp].peer != self)) continue;
      clause = r.fate == Fate::kAborted          ? "WR-ATOM-001"
               : Only(r.states_then, kBeforeRts) ? "WR-ATOM-006"
                                                 : "WR-ATOM-002";
      what = std::string("a message was delivered that was ") +
             (r.fate == Fate::kAborted ? "aborted" : "refused at complete");
    }
    for (const QpState& sender : qps_) {
      for (const Request& r : sender.region.staged) {
        if (!NeedsReceive(r) || sender.peer != self) continue;
        clause = "WR-CRIT-004";
        what = "a message was delivered before ibv_wr_complete()";
      }
    }
    Report(clause, NameOf(qp.id) + ": " + what, {"no completion"},
           "wr_id " + std::to_string(wc.wr_id));
    for (uint32_t i = 0; i < receive->sge_count; ++i) {
      const Sge& s = sges_[receive->first_sge + i];
      if (s.placed) MarkAny(s.block, s.offset, s.length, 0);
    }
    return;
  }
  if (watched && !ambiguous) {
    CheckReceived(qp, wc, *message);
    // What must not have been delivered.
    const model::RequestFacts& f = message->facts;
    if (model::NeedsAddress(qp.type) && f.qkey_mismatch && !message->undefined &&
        message->epoch == epoch_) {
      Report("WR-UD-002", NameOf(*message) + " was delivered in spite of its Q_Key",
             {"no receive completion"}, "SUCCESS");
    }
    const uint64_t need = message->length + (qp.type == QpType::kUd ? 40 : 0);
    if (message->op != Operation::kRdmaWriteWithImm && receive->length < need) {
      Report(qp.type == QpType::kUd ? "WR-UD-006" : "WR-RESP-008",
             NameOf(*message) + " was received into a buffer that is too short",
             {"an error completion, or none"}, "SUCCESS");
    } else if (receive->fault && !receive->unsure && receive->sge_count == 1 &&
               message->op != Operation::kRdmaWriteWithImm && message->length > 0) {
      Report("WR-RESP-009", NameOf(*message) + " was received into a buffer with a bad key",
             {"an error completion"}, "SUCCESS");
    }
  }
  if (message->flags & IBV_SEND_SOLICITED) {
    if (CqState* cq = Cq(wc.cq)) ++cq->solicited_since_armed;
  }
  Deliver(qp, *receive, wc, message);
  if (ambiguous) {
    for (uint32_t i = 0; i < receive->sge_count; ++i) {
      const Sge& s = sges_[receive->first_sge + i];
      if (s.placed) MarkAny(s.block, s.offset, s.length, 0);
    }
  } else if (model::IsReliable(qp.type) || qp.type == QpType::kUc) {
    MarkVisible(qps_[message->qp], *message);
  }
}

void Judge::Impl::Deliver(QpState& qp, Receive& receive, const SeenCompletion& wc,
                          Request* message) {
  (void)wc;
  if (message->op == Operation::kSendWithInv && message->mw != kNone) {
    MwState& mw = mws_[message->mw];
    if (mw.pending > 0) --mw.pending;
    mw.now.bound = false;
    mw.changed = ++clock_;
    ++epoch_;
  }
  if (message->op == Operation::kRdmaWriteWithImm) return;
  // Bytes that may have changed before they were read are not known.
  TaintPayload(*message);
  bool tangled = false;  // it fills what it is read from, or one place twice
  for (uint32_t i = 0; i < receive.sge_count; ++i) {
    const Sge& to = sges_[receive.first_sge + i];
    auto meets = [&](const Sge& other) {
      return to.placed && other.placed && to.offset < other.offset + other.length &&
             other.offset < to.offset + to.length;
    };
    for (uint32_t k = 0; k < i; ++k) tangled |= meets(sges_[receive.first_sge + k]);
    for (uint32_t k = 0; message->data == Data::kSge && k < message->sge_count; ++k) {
      tangled |= meets(sges_[message->first_sge + k]);
    }
  }
  const uint64_t skip = qp.type == QpType::kUd ? 40 : 0;
  const uint64_t total = message->length + skip;
  uint64_t done = 0;
  for (uint32_t i = 0; i < receive.sge_count && done < total; ++i) {
    const Sge& s = sges_[receive.first_sge + i];
    const uint64_t n = std::min<uint64_t>(s.length, total - done);
    if (s.placed) {
      uint64_t at = 0;
      if (done < skip) {
        at = std::min<uint64_t>(n, skip - done);
        MarkAny(s.block, s.offset, at, 0);
      }
      if (at < n) {
        const uint64_t from = done + at - skip;
        if (tangled || message->payload == ~0u ||
            message->payload + from + (n - at) > payloads_.size()) {
          MarkAny(s.block, s.offset + at, n - at, 0);
        } else {
          PutBytes(s.block, s.offset + at, payloads_.data() + message->payload + from,
                   unknowns_.data() + message->payload + from, n - at,
                   std::min(receive.posted, message->posted));
        }
      }
    }
    done += n;
  }
}

void Judge::Impl::CheckOverrun(CqState& cq) {
  if (cq.possible > cq.depth) cq.may_overrun = true;
}

// The queue is known to be empty and nothing moves: what was promised must have come.
void Judge::Impl::Drained(Index cq, const Event& event) {
  if (cq == kNone) return;
  // An open poll holds a completion that is not read yet.
  if (cqs_[cq].current_unread) return;
  cqs_[cq].drained = true;
  cqs_[cq].drained_at = activity_;
  if (event.settled || settled_) CheckAbsent(cq, false);
}

void Judge::Impl::CheckAbsent(Index cq, bool all) {
  if (parallel_) return;
  for (QpState& qp : qps_) {
    if (!qp.alive || !qp.followed) continue;
    if (all || qp.send_cq == cq) CheckAbsentSends(qp);
    Index receives = qp.recv_cq;
    if (qp.type == QpType::kXrcRecv) {
      if (!all) continue;
    }
    if (all || receives == cq) CheckAbsentReceives(qp);
  }
}

void Judge::Impl::CheckAbsentSends(QpState& qp) {
  if (qp.send_doubt || qp.outstanding == 0) return;
  if (qp.send_cq == kNone || cqs_[qp.send_cq].may_overrun) return;
  const RequestId limit = DueUpTo(qp);
  for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
    Request& r = Of(qp.sent[i]);
    if (r.fate != Fate::kOutstanding) continue;
    if (r.id >= limit) return;
    const char* clause;
    const char* what;
    if (qp.flushing && qp.type != QpType::kSrd) {
      // Without an order it may have succeeded before the error.
      if (qp.unordered && !r.signaled && !qp.posted_in_error(r.posted)) continue;
      clause = "WR-COMP-003";
      what = " was not flushed after the error before it";
    } else if (qp.states == StateBit(IBV_QPS_ERR)) {
      if (!r.signaled && !qp.posted_in_error(r.posted)) continue;  // it may have succeeded before
      clause = qp.posted_in_error(r.posted) ? "WR-STATE-005" : "WR-STATE-006";
      what = " has no completion although the QP is in ERR";
    } else {
      const Prospects p = ProspectsOf(r);
      if (!r.signaled && p.may_succeed) continue;
      if (p.may_succeed) {
        clause = qp.sig_all && !(r.flags & IBV_SEND_SIGNALED) ? "WR-COMP-014" : "WR-COMP-001";
        what = " has no completion";
      } else {
        clause = r.signaled ? "WR-ATOM-007" : "WR-COMP-002";
        what = " must have failed and has no completion";
      }
    }
    Report(clause, NameOf(r) + what, {"a completion with wr_id " + std::to_string(r.wr_id)},
           "none, and nothing moves any more");
    qp.send_doubt = true;
    return;
  }
}

void Judge::Impl::CheckAbsentReceives(QpState& qp) {
  if (qp.recv_doubt || qp.incoming_trouble) return;
  if (blind_memory_ && (model::NeedsAddress(qp.type) || qp.srq != kNone)) return;
  if (qp.recv_cq != kNone && cqs_[qp.recv_cq].may_overrun) return;
  const auto self = static_cast<Index>(&qp - qps_.begin());
  const bool ideal = options_.provider != Provider::kDevice;
  for (QpState& sender : qps_) {
    if (!sender.alive || !sender.followed || sender.loses) continue;
    if (sender.messages.size() == sender.delivered) continue;
    const bool by_address = model::NeedsAddress(qp.type);
    if (by_address ? sender.type != qp.type : sender.peer != self) continue;
    if (!model::IsReliable(sender.type) && !ideal) continue;
    const RequestId limit = std::min(DueUpTo(sender), SuccessUpTo(sender));
    for (uint32_t i = sender.delivered; i < sender.messages.size(); ++i) {
      Request& r = Of(sender.messages[i]);
      if (r.delivered) continue;
      if (by_address &&
          !(Is(r.qpn.object, ObjectKind::kQp) && Qp(r.qpn.object) == &qp && r.qpn.flip == 0)) {
        continue;
      }
      bool due;
      if (model::IsReliable(sender.type)) {
        due = r.fate == Fate::kDone || (r.fate == Fate::kOutstanding && r.sure && r.id < limit);
      } else {
        due = MustArrive(r, sender, qp) &&
              (r.fate == Fate::kDone || (r.fate == Fate::kOutstanding && r.id < limit));
      }
      if (!due) {
        if (by_address) continue;
        break;
      }
      if (qp.type == QpType::kXrcRecv) {
        const Index s = Is(r.srqn.object, ObjectKind::kSrq) ? Find(r.srqn.object) : kNone;
        if (s == kNone || srqs_[s].cq == kNone || cqs_[srqs_[s].cq].may_overrun) break;
      }
      Report(r.op == Operation::kRdmaWriteWithImm ? "WR-DATA-006"
             : qp.type == QpType::kUd             ? "WR-UD-001"
                                                  : "WR-DATA-001",
             NameOf(r) + " has no receive completion at " + NameOf(qp.id), {"a receive completion"},
             "none, and nothing moves any more");
      qp.recv_doubt = true;
      return;
    }
  }
  if (qp.states == StateBit(IBV_QPS_ERR) && qp.srq == kNone && qp.error_asked &&
      qp.rq.outstanding > 0 && qp.type != QpType::kXrcSend && qp.type != QpType::kXrcRecv) {
    Report("WR-STATE-006",
           NameOf(qp.id) + ": " + std::to_string(qp.rq.outstanding) +
               " receive(s) have no completion although the QP is in ERR",
           {"WR_FLUSH_ERR for each"}, "none, and nothing moves any more");
    qp.recv_doubt = true;
  }
}

}  // namespace qpexam::judge
