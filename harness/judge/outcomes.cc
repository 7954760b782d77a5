// Facts of a request as the run has them, and what may become of it.
#include "harness/judge/impl.h"

namespace qpexam::judge {
namespace {

using model::DataRule;
using model::LocalFault;
using model::Operation;
using model::PathFact;
using model::QpType;
using model::ReceiveFact;
using model::RemoteFault;
using model::RequestFacts;

constexpr uint64_t kMaxMessage = uint64_t{1} << 31;

// What a remote access must be allowed.
uint64_t RightOf(const Request& r) {
  switch (r.op) {
    case Operation::kRdmaRead:
      return IBV_ACCESS_REMOTE_READ;
    case Operation::kAtomicCmpAndSwp:
    case Operation::kAtomicFetchAndAdd:
      return IBV_ACCESS_REMOTE_ATOMIC;
    case Operation::kFlush:
      return (r.flush_type & kFlushGlobal ? kAccessFlushGlobal : 0) |
             (r.flush_type & kFlushPersistent ? kAccessFlushPersistent : 0);
    default:
      return IBV_ACCESS_REMOTE_WRITE;
  }
}

// Sets placed, block and offset where addr lies in memory of the Program; false where it does not.
bool WithinOwnMemory(const MrState& mr, MemRef addr, uint64_t len) {
  return addr.offset >= 0 && static_cast<uint64_t>(addr.offset) <= mr.size &&
         len <= mr.size - static_cast<uint64_t>(addr.offset);
}

}  // namespace

// Where the bytes are, whatever any key says.
bool Judge::Impl::InArena(MemRef addr, uint64_t len, uint64_t* start) const {
  const Index m = Is(addr.mr, ObjectKind::kMr) ? Find(addr.mr) : kNone;
  if (m == kNone || len > program_->arena) return false;
  const int64_t at = static_cast<int64_t>(mrs_[m].base) + addr.offset;
  if (at < 0 || static_cast<uint64_t>(at) > program_->arena - len) return false;
  *start = static_cast<uint64_t>(at);
  return true;
}

// Whether [addr, addr + len) lies inside an mr, as a device sees it that is given this mr's key.
bool Judge::Impl::Inside(const MrState& mr, ObjectId key, MemRef addr, uint64_t len, bool placed,
                         uint64_t start, bool* unsure) const {
  if (addr.mr == key) return WithinOwnMemory(mr, addr, len);
  const Index m = Is(addr.mr, ObjectKind::kMr) ? Find(addr.mr) : kNone;
  if (m != kNone && !mrs_[m].own_space && !mr.own_space) {
    return placed && start >= mr.base && start + len <= mr.base + mr.size;
  }
  // Numbers of one address space under the key of another, or a plain number.
  if (mr.own_space || m != kNone) *unsure = true;
  return false;
}

// Where (key, addr) leads: the check that a device makes, in the Program's terms.
LocalPlace Judge::Impl::PlaceLocal(KeyRef key, MemRef addr, uint64_t len, Index pd,
                                   bool write) const {
  LocalPlace place;
  place.placed = InArena(addr, len, &place.offset);
  // A zero-length element needs no valid key (WR-SGE-006, WR-SET-004: SHOULD): any outcome.
  const Index index = Is(key.object, ObjectKind::kMr) ? Find(key.object) : kNone;
  if (index == kNone || key.flip || key.inc || !mrs_[index].alive) {
    place.fault = LocalFault::kUnknownKey;
    place.unsure = len == 0 || (key.flip && key.inc);  // bent twice may be straight
    return place;
  }
  const MrState& mr = mrs_[index];
  place.unsure = mr.unsure;
  place.placed &= !mr.vague;
  if (mr.pd != pd) {
    place.fault = LocalFault::kWrongPd;
  } else if (!Inside(mr, key.object, addr, len, place.placed, place.offset, &place.unsure)) {
    place.fault = LocalFault::kOutOfRange;
  } else if (write && !(mr.access & IBV_ACCESS_LOCAL_WRITE)) {
    place.fault = LocalFault::kNoLocalWrite;
  }
  if (place.fault != LocalFault::kNone && len == 0) place.unsure = true;
  return place;
}

const LocalPlace& Judge::Impl::PlacePosted(Sge* sge, Index pd, bool write) {
  if (sge->posted_at != step_) {
    sge->when_posted = PlaceLocal(sge->key, sge->addr, sge->length, pd, write);
    sge->posted_at = step_;
  }
  return sge->when_posted;
}

// Whether the key that a builder or setter was given may be another one than the region has when
// the request is posted (ibv_rereg_mr() inside the region) or runs.
bool Judge::Impl::ChangedSinceBuilt(KeyRef key, const Request& r) const {
  // A bent key was nobody's when it was read, and may be that of a region made since.
  if ((key.flip || key.inc) && keys_made_ > r.built) return true;
  const Index m = Is(key.object, ObjectKind::kMr) ? Find(key.object) : kNone;
  if (m == kNone) return false;
  const Clock changed = mrs_[m].changed;
  return (changed > r.built && (r.posted == 0 || changed < r.posted)) || mrs_[m].rekeyed > r.built;
}

QpState* Judge::Impl::PeerOf(const QpState& qp, const Request& r) {
  if (model::NeedsAddress(qp.type)) {
    return Is(r.qpn.object, ObjectKind::kQp) && r.qpn.flip == 0 ? Qp(r.qpn.object) : nullptr;
  }
  return qp.peer == kNone ? nullptr : &qps_[qp.peer];
}

RemotePlace Judge::Impl::PlaceRemote(const Request& r, const QpState& qp,
                                     const QpState* peer) const {
  const uint64_t right = RightOf(r);
  RemotePlace place = PlaceByKey(r, peer, right);
  // Of two faults the missing right of the QP allows either status (WR-RESP-007), and it counts
  // where the key does not: at a length of 0.
  if (peer && !model::NeedsAddress(qp.type) && (peer->access & right) != right) {
    place.fault = RemoteFault::kNoQpRight;
  }
  return place;
}

RemotePlace Judge::Impl::PlaceByKey(const Request& r, const QpState* peer, uint64_t right) const {
  RemotePlace place;
  const bool flush = r.op == Operation::kFlush;
  const bool whole_mr = flush && r.flush_level == kFlushWholeMr;
  const bool atomic = r.op == Operation::kAtomicCmpAndSwp || r.op == Operation::kAtomicFetchAndAdd;
  const uint64_t len = atomic || r.op == Operation::kAtomicWrite ? 8 : r.length;
  place.placed = InArena(r.addr, len, &place.offset);
  Index pd = peer ? peer->pd : kNone;
  bool pd_unsure = false;
  if (peer && peer->type == QpType::kXrcRecv) {
    // A target QP has no protection domain of its own: the SRQ's is the likeliest to count.
    const Index s = Is(r.srqn.object, ObjectKind::kSrq) ? Find(r.srqn.object) : kNone;
    pd = s == kNone ? kNone : srqs_[s].pd;
    pd_unsure = true;
  }

  if (Is(r.rkey.object, ObjectKind::kMw)) {
    const Index w = Find(r.rkey.object);
    if (w == kNone) {
      place.fault = RemoteFault::kUnknownKey;
      return place;
    }
    const MwState& mw = mws_[w];
    place.changed = mw.changed;
    if (mw.pending || mw.unsure) place.unsure = true;
    const Binding& b = mw.now;
    if (!mw.alive || r.rkey.flip || !b.bound ||
        (mw.type == 2 && b.tag != static_cast<uint8_t>(r.rkey.inc))) {
      place.fault = RemoteFault::kUnknownKey;
      // A window that was bound twice by ibv_bind_mw() has keys that only the executor knows; and
      // bent twice a key may be straight.
      if (mw.alive && (mw.type == 1 || (r.rkey.flip && (r.rkey.inc || b.tag)))) place.unsure = true;
      return place;
    }
    if (b.mr != kNone && !mrs_[b.mr].alive) {  // WR-MW-014: no access any more
      place.fault = RemoteFault::kUnknownKey;
      return place;
    }
    if (b.mr != kNone && mrs_[b.mr].vague) {
      place.placed = false;
      place.unsure = true;
      return place;
    }
    if (pd != kNone && mw.pd != pd) {
      place.unsure |= pd_unsure;
      place.fault = RemoteFault::kWrongPd;
      return place;
    }
    if (mw.type == 2 && peer && b.qp != static_cast<Index>(peer - qps_.begin())) {
      place.fault = RemoteFault::kWrongWindowQp;
      return place;
    }
    uint64_t offset = 0;
    bool inside;
    if (b.zero_based) {
      // An absolute number, or nothing that can be judged.
      if (r.addr.mr != kNoObject) {
        place.unsure = true;
        return place;
      }
      offset = static_cast<uint64_t>(r.addr.offset);
      inside = whole_mr || (offset <= b.size && len <= b.size - offset);
      if (inside) {
        place.placed = true;
        place.offset = b.base + offset;
      }
    } else {
      inside = whole_mr ||
               (place.placed && place.offset >= b.base && place.offset + len <= b.base + b.size);
      const Index m = Is(r.addr.mr, ObjectKind::kMr) ? Find(r.addr.mr) : kNone;
      if ((m != kNone && mrs_[m].own_space && m != b.mr) ||
          (b.mr != kNone && mrs_[b.mr].own_space && m != b.mr)) {
        place.unsure = true;
      }
    }
    if (!inside) {
      place.fault = RemoteFault::kOutOfRange;
    } else if ((b.access & right) != right) {
      place.fault = RemoteFault::kNoRegionRight;
    }
    // WR-MW-004: an atomic through a window works only if supported.
    if (atomic && place.fault == RemoteFault::kNone) place.unsure = true;
  } else {
    const Index m = Is(r.rkey.object, ObjectKind::kMr) ? Find(r.rkey.object) : kNone;
    if (m == kNone || r.rkey.flip || r.rkey.inc || !mrs_[m].alive) {
      place.fault = RemoteFault::kUnknownKey;
      place.unsure = r.rkey.flip && r.rkey.inc;  // bent twice may be straight
      if (m != kNone) place.changed = mrs_[m].changed;
      return place;
    }
    const MrState& mr = mrs_[m];
    place.changed = mr.changed;
    if (mr.unsure) place.unsure = true;
    if (mr.vague) {
      place.placed = false;
      return place;
    }
    if (pd == kNone && pd_unsure) place.unsure = true;
    if (pd != kNone && mr.pd != pd) {
      place.unsure |= pd_unsure;
      place.fault = RemoteFault::kWrongPd;
      return place;
    }
    bool inside = true;
    if (!whole_mr && r.addr.mr == kNoObject && mr.zero_based) {
      const auto offset = static_cast<uint64_t>(r.addr.offset);
      inside = offset <= mr.size && len <= mr.size - offset;
      place.placed = inside;
      place.offset = mr.base + offset;
    } else if (!whole_mr) {
      inside = Inside(mr, r.rkey.object, r.addr, len, place.placed, place.offset, &place.unsure);
    }
    if (!inside) {
      place.fault = RemoteFault::kOutOfRange;
    } else if ((mr.access & right) != right) {
      place.fault = RemoteFault::kNoRegionRight;
    }
  }
  if (atomic || r.op == Operation::kAtomicWrite) {
    // Blocks begin at an address that is a multiple of 8.
    const bool misaligned = place.placed ? (place.offset & 7) != 0 : (r.addr.offset & 7) != 0;
    if (misaligned) {
      if (place.fault == RemoteFault::kNone) {
        place.fault = RemoteFault::kMisaligned;
      } else {
        place.unsure = true;  // which of two faults is named is nobody's promise
      }
    }
  }
  return place;
}

bool Judge::Impl::NeedsReceive(const Request& r) const {
  const model::PeerEffect effect = model::Info(r.op).peer;
  return effect == model::PeerEffect::kReceive || effect == model::PeerEffect::kReceiveRdmaWithImm;
}

ReceiveFact Judge::Impl::ReceiveFactOf(const Request& r, QpState* peer, LocalFault* fault,
                                       bool* wrong_srq, bool* open) {
  if (!NeedsReceive(r)) return ReceiveFact::kNotNeeded;
  if (r.delivered) return ReceiveFact::kReady;
  if (peer == nullptr) return ReceiveFact::kReady;  // the path fact decides
  QpState& qp = qps_[r.qp];
  ReceiveQueue* rq = nullptr;
  if (qp.type == QpType::kXrcSend) {
    const Index s =
        Is(r.srqn.object, ObjectKind::kSrq) && !r.srqn.flip ? Find(r.srqn.object) : kNone;
    if (s == kNone || !srqs_[s].alive || srqs_[s].xrcd == kNone || srqs_[s].xrcd != peer->xrcd) {
      *wrong_srq = true;
      return ReceiveFact::kNone;
    }
    rq = &srqs_[s].rq;
  } else {
    rq = ReceivesOf(*peer);
  }
  const bool shared = rq != &peer->rq || model::NeedsAddress(qp.type) || qp.unordered ||
                      peer->unordered || parallel_;
  const uint64_t need =
      r.length + (model::NeedsAddress(qp.type) && qp.type == QpType::kUd ? 40 : 0);
  if (!shared && qp.type == QpType::kRc) {
    const uint32_t ahead = r.message - qp.delivered;
    const uint64_t at = uint64_t{rq->head} + ahead;
    // Messages of a former life may have taken some, or have.
    if (!peer->ghosts.empty() || peer->ghost_came) *open = true;
    if (at >= rq->posted.size()) return ReceiveFact::kNone;
    const Receive& receive = rq->posted[at];

    if (receive.unsure || receive.alike) *open = true;
    if (r.op == Operation::kRdmaWriteWithImm)
      return ReceiveFact::kReady;  // its buffer is untouched
    if (receive.length < need) return ReceiveFact::kTooShort;
    if (receive.fault) {
      *fault = receive.local;
      // A fault in an element beyond the message, or behind its last byte, need not be found.
      if (receive.sge_count > 1 || need <= receive.good) *open = true;
      return ReceiveFact::kBadBuffer;
    }
    return ReceiveFact::kReady;
  }
  for (const SrqState& s : srqs_) {
    if (&s.rq == rq && s.leaky) *open = true;
  }
  // The receive of a message of a former life may have been this one's; so may one that a queue
  // pair took that nobody follows.
  if (peer->ghost_came || (blind_memory_ && (rq != &peer->rq || model::NeedsAddress(qp.type)))) {
    *open = true;
  }
  // Others may take what is there: sure only where there is enough for all that are on their way.
  uint64_t wanted = 1;
  for (const QpState& q : qps_) wanted += q.messages.size() - q.delivered + q.ghosts.size();
  if (r.id != 0 && r.fate == Fate::kOutstanding) --wanted;
  bool short_one = false, bad_one = false, late = false;
  uint64_t there = 0;
  for (uint32_t i = rq->head; i < rq->posted.size() && there < 64; ++i) {
    const Receive& receive = rq->posted[i];
    if (receive.done) continue;
    ++there;
    short_one |= receive.length < need && r.op != Operation::kRdmaWriteWithImm;
    bad_one |= receive.fault || receive.unsure || receive.alike;
    late |= r.posted != 0 && receive.posted > r.posted;
  }
  if (short_one || bad_one) {
    *open = true;
    return ReceiveFact::kReady;
  }
  if (there == 0) {
    if (r.posted != 0 && wanted > 1) *open = true;
    return ReceiveFact::kNone;
  }
  if (there < wanted || late) *open = true;
  return ReceiveFact::kReady;
}

RequestFacts::Window Judge::Impl::WindowFactOf(const Request& r, const QpState& qp,
                                               bool* open) const {
  using W = RequestFacts::Window;
  if (r.op == Operation::kBindMw) {
    if (r.mw == kNone || !mws_[r.mw].alive) return W::kUnknownKey;
    const MwState& mw = mws_[r.mw];
    const Binding& b = r.id != 0 ? r.before : mw.now;
    if (mw.unsure || (mw.pending > (r.id != 0 ? 1 : 0))) *open = true;
    if (mw.type == 1) return W::kType1;
    if (mw.freed_by_end && !b.bound) *open = true;
    if (b.bound) {
      // Bound to a region that is gone, or by a queue that was: who frees it when is left open.
      if ((b.mr != kNone && !mrs_[b.mr].alive) || (b.qp != kNone && !qps_[b.qp].alive))
        *open = true;
      return W::kBoundAlready;
    }
    if (r.bind_mr == kNone || !mrs_[r.bind_mr].alive) return W::kNoMr;
    const MrState& mr = mrs_[r.bind_mr];
    if (mr.unsure) *open = true;
    if (mw.pd != qp.pd || mr.pd != qp.pd) return W::kWrongPd;
    if (!(mr.access & IBV_ACCESS_MW_BIND)) return W::kNoBindRight;
    if ((r.bind_access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(mr.access & IBV_ACCESS_LOCAL_WRITE)) {
      return W::kNoLocalWrite;
    }
    if (r.bind_length == 0) return W::kZeroLength;
    if (!Inside(mr, mr.id, r.addr, r.bind_length, r.placed, r.offset, open)) return W::kOutOfRange;
    if (NamesItsWindow(r) && (r.rkey.flip & ~0xffu)) {
      *open = true;  // WR-MW-002
      return W::kForeignIndexBits;
    }
    if (!NamesItsWindow(r) || r.rkey.flip) *open = true;
    return W::kFine;
  }
  // LOCAL_INV and SEND_WITH_INV: the key to invalidate.
  if (Is(r.rkey.object, ObjectKind::kMr)) {
    if (r.rkey.flip && r.rkey.inc) *open = true;
    return r.rkey.flip || r.rkey.inc ? W::kUnknownKey : W::kPlainMr;
  }
  if (!Is(r.rkey.object, ObjectKind::kMw) || Find(r.rkey.object) == kNone) return W::kUnknownKey;
  const Index w = Find(r.rkey.object);
  const MwState& mw = mws_[w];
  const Binding& b = r.id != 0 && r.mw == w ? r.before : mw.now;
  if (mw.unsure || mw.pending > (r.id != 0 && r.mw == w ? 1 : 0)) *open = true;
  if (r.rkey.flip && (r.rkey.inc || b.tag)) *open = true;
  if (!mw.alive || r.rkey.flip) return W::kUnknownKey;
  if (mw.type == 1) return W::kType1;
  if (!b.bound) {
    if (r.rkey.inc != b.tag) return W::kUnknownKey;
    return W::kFree;
  }
  if (r.rkey.inc != b.tag) return W::kUnknownKey;
  if (b.mr != kNone && !mrs_[b.mr].alive) *open = true;
  const Index holder = r.op == Operation::kLocalInv ? r.qp : qp.peer;
  if (holder == kNone) *open = true;
  if (b.qp != holder) return W::kWrongQp;
  return W::kFine;
}

// Whether states of the two sides, or what else is on its way, leave the outcome to a race.
bool Judge::Impl::PathOpen(const QpState& qp, const Request& r) const {
  if (!qp.followed || qp.loses || parallel_) return true;
  if (qp.first_unsure != 0 && (r.id == 0 || r.id > qp.first_unsure)) return true;
  if (qp.incoming_trouble && !qp.flushing) return true;
  return false;
}

RequestFacts Judge::Impl::FactsOf(const Request& r, bool* open) {
  QpState& qp = qps_[r.qp];
  RequestFacts f;
  f.op = r.op;
  f.type = qp.type;
  f.flags = static_cast<uint32_t>(r.flags);
  f.length = r.length;
  f.path_mtu = qp.path_mtu;
  f.max_msg_sz = kMaxMessage;
  f.rnr_retry_infinite = qp.rnr_retry == 7;
  f.timeout_disabled = qp.timeout == 0;
  const model::OperationInfo& info = model::Info(r.op);
  f.cell_supported = ((info.reference_types | info.optional_types) & model::MaskOf(qp.type)) != 0;
  if (PathOpen(qp, r)) *open = true;

  if (r.data == Data::kSge) {
    const bool write = info.is_read_or_atomic;
    for (uint32_t i = 0; i < r.sge_count; ++i) {
      Sge& s = sges_[r.first_sge + i];
      const LocalPlace place = r.id == 0 ? PlacePosted(&s, qp.pd, write)
                                         : PlaceLocal(s.key, s.addr, s.length, qp.pd, write);
      // What a FLUSH does with a buffer is nobody's promise.
      const bool unread = info.data == DataRule::kNoneTolerated && place.fault != LocalFault::kNone;
      if (place.unsure || unread || ChangedSinceBuilt(s.key, r)) *open = true;
      if (!place.unsure && f.local == LocalFault::kNone) f.local = place.fault;
    }
  }

  const States states = qp.states;
  if (states == StateBit(IBV_QPS_RTS)) {
    f.state = IBV_QPS_RTS;
  } else {
    if ((states & (states - 1)) != 0) *open = true;
    for (int s = IBV_QPS_RESET; s <= IBV_QPS_ERR; ++s) {
      if (states & StateBit(s)) f.state = static_cast<ibv_qp_state>(s);
    }
    if (f.state == IBV_QPS_SQD) *open = true;
  }

  if (r.op == Operation::kBindMw || r.op == Operation::kLocalInv) {
    f.window = WindowFactOf(r, qp, open);
    return f;
  }
  if (r.op == Operation::kSendWithInv) f.window = WindowFactOf(r, qp, open);

  QpState* peer = nullptr;
  if (model::NeedsAddress(qp.type)) {
    peer = PeerOf(qp, r);
    if (peer == nullptr) {
      f.path = PathFact::kNoPeer;
      *open = *open || r.qpn.object == kNoObject || r.qpn.flip != 0;
    }
    if (r.ah == kNone || !ahs_[r.ah].alive || !ahs_[r.ah].plain) {
      *open = true;
    } else {
      f.ah_of_other_pd = ahs_[r.ah].pd != qp.pd;
    }
    if (peer) {
      const uint32_t qkey =
          r.qkey & 0x80000000u ? qp.qkey : static_cast<uint32_t>(r.qkey);  // WR-UD-003
      if (qp.type == QpType::kUd) f.qkey_mismatch = qkey != peer->qkey;
      if (peer->type != qp.type) f.path = PathFact::kNotAddressedBack;
    }
  } else if (qp.type == QpType::kRawPacket) {
    f.path = PathFact::kReachable;
    return f;
  } else {
    peer = PeerOf(qp, r);
    if (peer == nullptr) {
      f.path = PathFact::kNoPeer;
      if (!qp.peer_known) *open = true;
    }
  }
  if (peer) {
    if (!peer->followed || peer->loses) *open = true;
    if (peer->alive && peer->incoming_trouble && peer->peer != kNone && peer->peer != r.qp) {
      *open = true;
    }
    // Its own requests may have moved it to ERR.
    if (peer->first_unsure != 0 && peer != &qp && !model::NeedsAddress(qp.type)) *open = true;
    const QpType answering = qp.type == QpType::kXrcSend ? QpType::kXrcRecv : qp.type;
    if (!peer->alive || (model::IsConnected(qp.type) && peer->type != answering)) {
      f.path = PathFact::kNoPeer;
    } else if (f.path != PathFact::kReachable) {
    } else if (Only(peer->states, StateBit(IBV_QPS_RESET) | StateBit(IBV_QPS_INIT))) {
      f.path = PathFact::kPeerNotReady;
    } else if (peer->states == StateBit(IBV_QPS_ERR)) {
      f.path = PathFact::kPeerInError;
    } else if (!Only(peer->states, kAnswers)) {
      *open = true;
    } else if (model::IsConnected(qp.type) && peer->peer != r.qp) {
      f.path = PathFact::kNotAddressedBack;
      if (!peer->peer_known) *open = true;
    }
    f.receive = ReceiveFactOf(r, peer, &f.receive_fault, &f.wrong_srq, open);
  }
  if (info.takes_rkey && r.op != Operation::kSendWithInv) {
    const RemotePlace place = PlaceRemote(r, qp, peer);
    f.remote = place.fault;
    if (place.unsure || ChangedSinceBuilt(r.rkey, r)) *open = true;
  }
  // WR-DATA-014: it may be executed as far as its buffer goes, or fail.
  if (info.data == model::DataRule::kOneSgeOf8 && (r.length != 8 || r.sge_count != 1)) *open = true;
  if (r.op == Operation::kRdmaRead || r.op == Operation::kAtomicCmpAndSwp ||
      r.op == Operation::kAtomicFetchAndAdd || r.op == Operation::kAtomicWrite ||
      r.op == Operation::kFlush) {
    // WR-BUILD-012; WR-RESP-013: more than the responder takes.
    f.no_read_resources = qp.max_rd_atomic == 0;
    f.exceeds_dest_rd_atomic = peer && qp.max_rd_atomic > peer->max_dest_rd_atomic;
  }
  return f;
}

Prospects Judge::Impl::ProspectsOf(const Request& r) {
  Prospects p;
  bool open = false;
  const RequestFacts now = FactsOf(r, &open);
  p.set = model::RequestOutcomes(now);
  auto add = [&p](const model::OutcomeSet& set) {
    for (const model::Outcome& o : set) {
      if (!o.completes) {
        p.may_stay = true;
      } else if (o.status == IBV_WC_SUCCESS) {
        p.may_succeed = true;
      } else {
        p.may_fail = true;
      }
      if (o.status != IBV_WC_SUCCESS && (o.tolerated & model::StatusBit(IBV_WC_SUCCESS))) {
        p.may_succeed = true;
      }
      if (o.status == IBV_WC_SUCCESS && (o.tolerated & model::kAnyError)) p.may_fail = true;
    }
  };
  add(p.set);
  p.whole = p.set.count == 1 && p.set.member[0].effect == model::Effect::kWhole;
  if (r.id != 0 && !open) {
    // What held when it was posted counts too; what held in between is lost, so that with more
    // than one change anything is allowed.
    const QpState& qp = qps_[r.qp];
    const bool same = now.local == r.facts.local && now.remote == r.facts.remote &&
                      now.receive == r.facts.receive && now.path == r.facts.path &&
                      now.state == r.facts.state && now.window == r.facts.window &&
                      now.qkey_mismatch == r.facts.qkey_mismatch;
    if (epoch_ - r.epoch > 1 || (!same && epoch_ != r.epoch)) {
      const Request& request = r;
      QpState* peer = PeerOf(qp, request);
      bool changed = qp.changed > r.posted || (peer && peer->changed > r.posted);
      if (model::Info(r.op).takes_rkey) {
        changed |= PlaceRemote(r, qp, peer).changed > r.posted;
      }
      // Of inline data the count is that of the buffers.
      for (uint32_t i = 0; r.data == Data::kSge && i < r.sge_count; ++i) {
        const Index m = Find(sges_[r.first_sge + i].key.object);
        if (m != kNone && Is(sges_[r.first_sge + i].key.object, ObjectKind::kMr)) {
          changed |= mrs_[m].changed > r.posted;
        }
      }
      if (r.mw != kNone) changed |= mws_[r.mw].changed > r.posted;
      if (changed) open = true;
    }
    // What it was to meet then is not all known.
    if (!same && !r.known && epoch_ != r.epoch) open = true;
    // Retried for ever, it met the receive that is there now.
    const bool met = r.facts.receive == ReceiveFact::kNone && now.receive != r.facts.receive &&
                     now.rnr_retry_infinite;
    if (!same && !met) {
      add(model::RequestOutcomes(r.facts));
      p.whole = false;
    }
  }
  if (open) {
    p.open = true;
    p.may_succeed = p.may_fail = p.may_stay = true;
    p.whole = false;
  }
  return p;
}

// Whether a rested provider must have completed it.
bool Judge::Impl::Due(QpState& qp, const Request& r) {
  if (!qp.followed || qp.loses) return false;
  if (qp.states == StateBit(IBV_QPS_ERR)) return true;  // executed before, or flushed
  if (qp.flushing) return IsReliable(qp.type);
  if (!(qp.states & StateBit(IBV_QPS_RTS))) return false;
  if (qp.states & StateBit(IBV_QPS_SQD)) return false;
  if (r.sure && r.epoch == epoch_) return true;
  const Prospects p = ProspectsOf(r);
  return !p.open && !p.may_stay;
}

// The first outstanding request that a rested provider need not have completed (and with it all
// behind it); a number beyond all where there is none.
RequestId Judge::Impl::DueUpTo(QpState& qp) {
  for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
    const Request& r = Of(qp.sent[i]);
    if (r.fate == Fate::kOutstanding && !Due(qp, r)) return r.id;
  }
  return ~RequestId{0};
}

// The first outstanding request that may fail, and with it all behind it.
RequestId Judge::Impl::SuccessUpTo(QpState& qp) {
  if (qp.first_unsure == 0 && qp.waiting == 0 && qp.states == StateBit(IBV_QPS_RTS)) {
    return ~RequestId{0};
  }
  for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
    const Request& r = Of(qp.sent[i]);
    if (r.fate != Fate::kOutstanding || (r.sure && r.epoch == epoch_)) continue;
    const Prospects p = ProspectsOf(r);
    if (p.may_fail || p.may_stay) return r.id;
  }
  return ~RequestId{0};
}

}  // namespace qpexam::judge
