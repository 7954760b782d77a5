// A completion to its queue pair and side, and what holds for both sides.
#include "harness/judge/impl.h"

namespace qpexam::judge {
namespace {

using model::QpType;

constexpr unsigned kReceiveBit = IBV_WC_RECV;

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
  // An open poll held it before the RESET (WR-COMP-013).
  if (call_ != nullptr && call_->kind == CallKind::kReadWc && cq &&
      qp->life_since > cq->current_since) {
    ++verdict_.leniency.completions_any;
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
  // Where it is not known which one failed first, it may be one before the failure.
  FinishEffects(qp, r, fate == Fate::kDone,
                fate == Fate::kFlushed && qp.flushing_certain && !qp.send_doubt);
}

}  // namespace qpexam::judge
