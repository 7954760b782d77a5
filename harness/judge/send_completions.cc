// Matching completions of send queues to requests.
#include "conformance/catalogue/catalogue.h"
#include "harness/judge/impl.h"
#include "harness/judge/words.h"

namespace qpexam::judge {
namespace {

using model::Operation;
using model::QpType;

bool IsHigh(const char* clause) {
  const catalogue::Clause* c = catalogue::Find(clause);
  return c != nullptr && c->confidence == catalogue::Confidence::kHigh;
}

}  // namespace

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
    bool alike = false;
    for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
      const Request& r = Of(qp.sent[i]);
      alike |= &r != found && r.fate == Fate::kOutstanding && r.wr_id == wc.wr_id;
    }
    qp.send_doubt |= alike;
    JudgeError(qp, *found, wc, alike);
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
      bool alike = false;
      for (uint32_t k = i + 1; k < qp.sent.size() && !good; ++k) {
        alike |= candidate(Of(qp.sent[k]));
      }
      qp.send_doubt |= alike;
      if (parallel_ && qp.followed && qp.alive) {
        // Order is not known here, the rest is.
        if (wc.status == IBV_WC_SUCCESS) {
          JudgeSuccess(qp, r, wc);
        } else {
          JudgeError(qp, r, wc, alike);
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
  if (lossy && wc.status != IBV_WC_WR_FLUSH_ERR) {
    // Earlier ones may have completed unseen: of several with the id the first that it fits.
    const uint32_t first = match != ~0u ? match : at;
    for (uint32_t i = first; i < qp.sent.size(); ++i) {
      const Request& r = Of(qp.sent[i]);
      if (r.fate != Fate::kOutstanding || r.wr_id != wc.wr_id) continue;
      const bool fits = good ? r.signaled && model::Info(r.op).send_wc_opcode == wc.opcode &&
                                   (r.sure || ProspectsOf(r).may_succeed)
                             : ProspectsOf(r).may_fail;
      if (!fits) continue;
      if (i != match) {
        at = first;
        match = ~0u;
        later = i;
      }
      break;
    }
  }
  bool alike = false;
  const uint32_t failed = match != ~0u ? match : later;
  if (!good && failed != ~0u && (lossy || !Of(qp.sent[failed]).signaled)) {
    // With the same id further on it may have been another one that failed.
    for (uint32_t i = failed + 1; i < qp.sent.size(); ++i) {
      const Request& r = Of(qp.sent[i]);
      if (r.wr_id == wc.wr_id) {
        qp.send_doubt = alike = true;
        break;
      }
      if (r.signaled && !lossy) break;
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
      // Its completion passed unseen, and may have been an error.
      r.maybe |= !r.sure;
      Retire(qp, r, Fate::kDone);
    }
    qp.head = match;
  }
  for (uint32_t i = qp.head; i < match; ++i) {
    // Unsignaled ones that are covered: they succeeded, where no error of theirs passed unseen.
    Request& covered = Of(qp.sent[i]);
    covered.maybe |= lossy && !covered.sure;
    Retire(qp, covered, Fate::kDone);
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

}  // namespace qpexam::judge
