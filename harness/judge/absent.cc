// What was promised and did not come, once nothing moves.
#include <algorithm>

#include "harness/judge/impl.h"

namespace qpexam::judge {
namespace {

using model::Operation;
using model::QpType;

}  // namespace

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
    // Of two requests with one id it may be the other that was flushed.
    if (sender.send_doubt) continue;
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
