// Matching completions of receive queues to receives and messages.
#include <algorithm>

#include "harness/judge/impl.h"
#include "harness/judge/words.h"

namespace qpexam::judge {
namespace {

using model::Operation;
using model::QpType;

}  // namespace

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
  if (!fifo) DoubtAlike(qp, *rq, found);
  Receive& r = rq->posted[found];
  r.done = true;
  --rq->outstanding;
  while (rq->head < rq->posted.size() && rq->posted[rq->head].done) ++rq->head;
  if (!r.alike) ReceiveRefs(r, -1);
  *taken = &r;
  return true;
}

// Completions of several takers of one queue may be polled in another order than they took in: of
// receives with one id it is not known which one this is.
void Judge::Impl::DoubtAlike(const QpState& qp, ReceiveQueue& rq, uint32_t found) {
  int takers = 0;
  for (const QpState& q : qps_) {
    takers +=
        qp.type == QpType::kXrcRecv ? q.type == qp.type && q.xrcd == qp.xrcd : q.srq == qp.srq;
  }
  // Nor where a RESET took completions with it.
  bool leaky = false;
  for (const SrqState& s : srqs_) leaky |= &s.rq == &rq && s.leaky;
  if (takers < 2 && !leaky && &rq != &qp.rq) return;
  Receive& taken = rq.posted[found];
  for (uint32_t i = found + 1; i < rq.posted.size(); ++i) {
    Receive& other = rq.posted[i];
    if (other.done || other.wr_id != taken.wr_id || SamePlaces(other, taken)) continue;
    taken.alike = other.alike = true;
  }
  for (uint32_t i = found; taken.alike && i < rq.posted.size(); ++i) {
    const Receive& r = rq.posted[i];
    for (uint32_t s = 0; r.alike && r.wr_id == taken.wr_id && s < r.sge_count; ++s) {
      const Sge& e = sges_[r.first_sge + s];
      if (e.placed) MarkAny(e.block, e.offset, e.length, 0);
    }
  }
}

bool Judge::Impl::SamePlaces(const Receive& a, const Receive& b) const {
  if (a.sge_count != b.sge_count || a.fault != b.fault || a.unsure != b.unsure) return false;
  for (uint32_t i = 0; i < a.sge_count; ++i) {
    const Sge &x = sges_[a.first_sge + i], &y = sges_[b.first_sge + i];
    if (x.placed != y.placed || x.block != y.block || x.offset != y.offset || x.length != y.length)
      return false;
  }
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
  // Where one was taken for that of a former life, it may have been the one that is next now.
  if (fitting > 1 || qp.ghost_came) *ambiguous = true;
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
    if (watched && !receive->fault && !receive->unsure && !receive->alike && !may_be_error) {
      Report("WR-DATA-001", NameOf(qp.id) + ": a good receive ended in an error", {"SUCCESS"},
             StatusName(wc.status));
    }
    Request* message = TakeMessage(qp, wc, &ambiguous);
    if (message == nullptr || message->op != Operation::kRdmaWriteWithImm) {
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
    for (uint32_t i = 0; i < receive->sge_count; ++i) {
      const Sge& e = sges_[receive->first_sge + i];
      if (e.placed) MarkAny(e.block, e.offset, e.length, 0);
    }
    // A raw packet carries its address itself; who sent it is not followed.
    if (!watched || ambiguous || blind_memory_ || qp.type == QpType::kRawPacket) return;
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
    if (receive->alike) {
      // Whether it fits is asked of the one that was taken.
    } else if (message->op != Operation::kRdmaWriteWithImm && receive->length < need) {
      Report(qp.type == QpType::kUd ? "WR-UD-006" : "WR-RESP-008",
             NameOf(*message) + " was received into a buffer that is too short",
             {"an error completion, or none"}, "SUCCESS");
    } else if (receive->fault && !receive->unsure && receive->sge_count == 1 &&
               message->op != Operation::kRdmaWriteWithImm && need > receive->good) {
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

}  // namespace qpexam::judge
