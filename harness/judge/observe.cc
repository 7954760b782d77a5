// Memory: what requests do to it, what was seen of it, and whether that is explained.
#include <algorithm>

#include "harness/judge/impl.h"
#include "harness/judge/words.h"

namespace qpexam::judge {
namespace {

bool IsAtomic(model::Operation op) {
  return op == model::Operation::kAtomicCmpAndSwp || op == model::Operation::kAtomicFetchAndAdd;
}

using model::Operation;
using model::QpType;

uint64_t LoadBytes(const uint8_t* bytes, unsigned at, unsigned count) {
  uint64_t value = 0;
  if (count == 8) {  // of a length that the compiler knows: a load, no call
    std::memcpy(&value, bytes, 8);
  } else {
    std::memcpy(reinterpret_cast<uint8_t*>(&value) + at, bytes, count);
  }
  return value;
}

bool WritesLocally(Operation op) {
  return op == Operation::kRdmaRead || op == Operation::kAtomicCmpAndSwp ||
         op == Operation::kAtomicFetchAndAdd;
}
bool WritesRemotely(Operation op) {
  return op == Operation::kRdmaWrite || op == Operation::kRdmaWriteWithImm ||
         op == Operation::kAtomicWrite || op == Operation::kAtomicCmpAndSwp ||
         op == Operation::kAtomicFetchAndAdd;
}

}  // namespace

// Drops old values where the writer's effect must be seen by now.
void Judge::Impl::Resolve(Cell& cell) {
  if (cell.definite() || cell.open || cell.mixed) return;
  bool there = cell.writer == 0;
  if (!there) {
    const Request& w = Of(cell.writer);
    there = !w.maybe && (cell.local ? w.fate == Fate::kDone : w.visible);
  }
  if (there) {
    cell.old_count = 0;
    cell.any_old = false;
  }
}

void Judge::Impl::Store(const Call& call) {
  const uint64_t len = call.bytes.empty() ? call.len : call.bytes.size();
  uint64_t start = 0;
  if (!InArena(call.addr, len, &start)) return;
  ++clock_;
  const auto fill = static_cast<uint8_t>(call.fill == kUnset ? 0 : call.fill);
  ForCells(0, start, len, [&](Cell& c, uint64_t index, unsigned from, unsigned to, uint64_t done) {
    const uint64_t mask = RangeMask(from, to);
    const uint64_t value = call.bytes.empty()
                               ? fill * 0x0101010101010101ull
                               : LoadBytes(call.bytes.data() + done, from, to - from);
    Resolve(c);
    c.touched = clock_;
    if (c.definite() && !parallel_) {
      SetValue(c, value, mask, 0);
      c.writer = 0;
      c.raced &= static_cast<uint8_t>(~NonZeroBytes(mask));
    } else {
      // A device may still be writing there (S07), or another thread: either may win. A load that
      // is judged behind this store may have come before it.
      AddValue(c, value, mask, 0, &verdict_.leniency.cells_any);
      c.open = true;
      // An atomic that comes after it makes something of it, with a carry into all eight.
      if (c.adds || (c.writer != 0 && IsAtomic(Of(c.writer).op))) {
        c.any = 0xff;
        c.any_old = true;
      }
      if (parallel_) c.raced |= NonZeroBytes(mask);
    }
    c.seen = (c.seen & ~mask) | (value & mask);
    memory_.List(c, 0, index);
  });
  Started();
}

// Appends what a device reads there to gathered_.
void Judge::Impl::GatherRange(uint32_t block, uint64_t offset, uint64_t len, const Request& r) {
  const size_t start = gathered_.bytes.size();
  gathered_.bytes.resize(start + len);
  const bool fenced = (r.flags & IBV_SEND_FENCE) != 0;
  const bool cpu = r.data == Data::kInline;  // read by the CPU in the setter
  const bool remote = WritesLocally(r.op);
  ForCells(block, offset, len, [&](Cell& c, uint64_t, unsigned from, unsigned to, uint64_t done) {
    Resolve(c);
    const uint64_t value = cpu && !c.definite() ? c.seen : c.value;
    uint8_t* to_bytes = gathered_.bytes.data() + start + done;
    if (to - from == 8) {
      std::memcpy(to_bytes, &value, 8);
    } else {
      std::memcpy(to_bytes, reinterpret_cast<const uint8_t*>(&value) + from, to - from);
    }
    uint8_t unsure = c.any;
    if (c.receives) {
      unsure = 0xff;
    } else if (!c.definite()) {
      bool known = false;
      if (c.writer != 0 && !c.mixed && !c.open && !cpu) {
        const Request& w = Of(c.writer);
        if (w.qp == r.qp && r.qp != kNone && !qps_[r.qp].unordered && !w.maybe) {
          if (w.fate == Fate::kDone && c.local != remote) {
            known = remote;  // complete before this one was posted
          } else if (remote) {
            // W->R, W->A, A->R in order; A->A only with a fence (table 2.1).
            known =
                !c.local && model::IsReliable(qps_[r.qp].type) &&
                (!model::Info(w.op).is_read_or_atomic || fenced || r.op == Operation::kRdmaRead);
          } else {
            known = c.local && fenced;  // S18
          }
        }
      }
      if (!known) unsure |= c.open ? 0xff : Unsure(c);
    }
    unsure = static_cast<uint8_t>(unsure >> from);
    if (unsure) {
      for (unsigned i = 0; i < to - from; ++i) {
        if (unsure & (1u << i)) gathered_.MarkUnknown(start + done + i, 1);
      }
    }
  });
  if (!gathered_.unknown.empty()) gathered_.unknown.resize(gathered_.bytes.size(), 0);
}

// The payload of a request as its SGEs name it; false where it cannot be read.
bool Judge::Impl::Gather(const Request& r) {
  gathered_.Clear();
  for (uint32_t i = 0; i < r.sge_count; ++i) {
    const Sge& s = sges_[r.first_sge + i];
    uint64_t start = 0;
    if (!InArena(s.addr, s.length, &start) || s.length > kMaxArena) return false;
    const size_t at = gathered_.bytes.size();
    GatherRange(0, start, s.length, r);
    // Where it succeeds all the same, the key led elsewhere.
    if (!s.placed) gathered_.MarkUnknown(at, s.length);
  }
  return true;
}

void Judge::Impl::WriteOnWay(uint32_t block, uint64_t offset, const uint8_t* bytes,
                             const uint8_t* unknown, uint64_t len, Request& r, bool local,
                             bool adding) {
  const bool fenced = (r.flags & IBV_SEND_FENCE) != 0;
  ForCells(block, offset, len,
           [&](Cell& c, uint64_t index, unsigned from, unsigned to, uint64_t done) {
             const uint64_t mask = RangeMask(from, to);
             const uint64_t value = LoadBytes(bytes + done, from, to - from);
             uint8_t any = 0;
             if (unknown) {
               any = NonZeroBytes(LoadBytes(unknown + done, from, to - from));
             }
             Resolve(c);
             if (!c.definite() && c.writer != 0 && c.writer != r.id && !adding) {
               const Request& w = Of(c.writer);
               if (w.maybe) c.mixed = true;  // what this one leaves of it need not have come
               const bool ordered =
                   w.qp == r.qp && c.local == local && !qps_[r.qp].unordered && !parallel_;
               if (!ordered) {
                 c.mixed = true;
                 any |= NonZeroBytes(mask);
               } else if (!model::Info(w.op).is_read_or_atomic) {
                 c.overwritten = true;
               } else if (!local && !fenced && w.fate != Fate::kDone) {
                 any |= NonZeroBytes(mask);  // an atomic may be passed by a later write (S20)
               }
             }
             if (c.receives || parallel_) any |= NonZeroBytes(mask);
             if (c.definite()) {
               c.writers = 1;
             } else if (c.writers < 255) {
               ++c.writers;
             }
             AddValue(c, value, mask, any, &verdict_.leniency.cells_any);
             c.writer = r.id;
             c.local = local;
             c.adds = false;
             if (fenced && !local) {
               if (c.fenced_at != 0 && c.fenced_qp != r.qp) c.touched = c.fenced_at;
               c.fenced_at = clock_;
               c.fenced_qp = r.qp;
             } else {
               c.touched = clock_;
             }
             memory_.List(c, block, index);
           });
}

// A receive completion put it there: visible from now on.
void Judge::Impl::PutBytes(uint32_t block, uint64_t offset, const uint8_t* bytes,
                           const uint8_t* unknown, uint64_t len, Clock since) {
  ++clock_;
  ForCells(block, offset, len,
           [&](Cell& c, uint64_t index, unsigned from, unsigned to, uint64_t done) {
             const uint64_t mask = RangeMask(from, to);
             const uint64_t value = LoadBytes(bytes + done, from, to - from);
             uint8_t any = 0;
             if (unknown) any = NonZeroBytes(LoadBytes(unknown + done, from, to - from));
             Resolve(c);
             // Others write there too, or wrote there while the message may already have come.
             if (!c.definite() || c.receives || c.touched > since || c.fenced_at > since) {
               any |= NonZeroBytes(mask);
             }
             // What an atomic made of bytes that the message has changed reaches all eight.
             if (!c.definite() && c.writer != 0 && IsAtomic(Of(c.writer).op)) {
               c.any = 0xff;
               c.any_old = true;
             }
             if (!c.definite() && c.writer != 0 && Of(c.writer).fate == Fate::kOutstanding) {
               // It may write there still.
               AddValue(c, value, mask, any, &verdict_.leniency.cells_any);
               c.open = true;
             } else {
               SetValue(c, value, mask, any);
               if (c.definite()) c.writer = 0;
             }
             c.touched = clock_;
             c.received = true;
             memory_.List(c, block, index);
           });
}

void Judge::Impl::MarkAny(uint32_t block, uint64_t offset, uint64_t len, RequestId writer_only) {
  ForCells(block, offset, len, [&](Cell& c, uint64_t index, unsigned from, unsigned to, uint64_t) {
    if (writer_only != 0 && c.writer != writer_only) {
      // What a later one is to overwrite is not what it was held to be.
      if (!c.definite()) c.any_old = true;
      return;
    }
    const uint8_t bits = NonZeroBytes(RangeMask(from, to));
    if ((c.any & bits) != bits) ++verdict_.leniency.cells_any;
    c.any |= bits;
    // Whatever it is that may be there, it may be there without the writer as well.
    if (writer_only == 0 && !c.definite()) c.any_old = true;
    c.touched = clock_;
    memory_.List(c, block, index);
  });
}

void Judge::Impl::ReceiveRefs(const Receive& receive, int change) {
  for (uint32_t i = 0; i < receive.sge_count; ++i) {
    const Sge& s = sges_[receive.first_sge + i];
    if (!s.placed) continue;
    ForCells(s.block, s.offset, s.length, [&](Cell& c, uint64_t, unsigned, unsigned, uint64_t) {
      if (change > 0) {
        ++c.receives;
        // What is on its way there meets a receive that may be filled at any time.
      } else if (c.receives > 0) {
        --c.receives;
      }
    });
  }
}

// Bytes of a message that may have changed between posting and execution become unknown.
void Judge::Impl::TaintPayload(Request& r) {
  if (r.data != Data::kSge || r.payload == ~0u || r.tainted || r.fate == Fate::kDone) return;
  uint64_t done = 0;
  for (uint32_t i = 0; i < r.sge_count; ++i) {
    const Sge& s = sges_[r.first_sge + i];
    if (s.placed) {
      ForCells(s.block, s.offset, s.length,
               [&](Cell& c, uint64_t, unsigned from, unsigned to, uint64_t at) {
                 if (c.touched > r.posted || c.fenced_at > r.posted || c.receives) {
                   std::memset(unknowns_.data() + r.payload + done + at, 0xff, to - from);
                 }
               });
    }
    done += s.length;
  }
}

// The zero-based bindings that the window which the request names has had.
template <typename F>
void Judge::Impl::ForBindings(const Request& r, F f) {
  for (const Request& bind : requests_) {
    if (bind.op == Operation::kBindMw && bind.mw == Find(r.rkey.object) && bind.placed &&
        (bind.bind_access & IBV_ACCESS_ZERO_BASED)) {
      f(bind);
    }
  }
}

// Whether the address is a number of another address space than the region's: what it means to the
// region's key is not known here.
bool Judge::Impl::OfAnotherSpace(const MrState& mr, MemRef addr) const {
  if (addr.mr == mr.id) return false;
  const Index m = Is(addr.mr, ObjectKind::kMr) ? Find(addr.mr) : kNone;
  return mr.own_space || (m != kNone && mrs_[m].own_space);
}

void Judge::Impl::Wild(uint32_t block, uint64_t offset, uint64_t len) {
  wild_.push_back({block, offset, len});
  MarkAny(block, offset, len, 0);
}

// Of a buffer that is to be filled.
void Judge::Impl::WildSge(const Sge& s) {
  const Index m = Is(s.key.object, ObjectKind::kMr) ? Find(s.key.object) : kNone;
  if (m == kNone || s.length == 0 || !OfAnotherSpace(mrs_[m], s.addr)) return;
  Wild(mrs_[m].block, mrs_[m].base, mrs_[m].size);
}

// Posted: from now on its values may be seen.
void Judge::Impl::AddEffects(QpState& qp, Request& r) {
  const model::OperationInfo& info = model::Info(r.op);
  if (r.mw != kNone && (r.op == Operation::kBindMw || r.op == Operation::kLocalInv ||
                        r.op == Operation::kSendWithInv)) {
    MwState& mw = mws_[r.mw];
    ++mw.pending;
    mw.changed = clock_;
    ++epoch_;
    r.epoch = epoch_;
    if (r.op == Operation::kBindMw) {
      Binding b;
      b.bound = true;
      b.zero_based = (r.bind_access & IBV_ACCESS_ZERO_BASED) != 0;
      b.tag = static_cast<uint8_t>(r.rkey.inc ^ (r.rkey.flip & 0xff));
      b.mr = r.bind_mr;
      b.qp = r.qp;
      b.block = r.block;
      b.base = r.offset;
      b.size = r.placed ? r.bind_length : 0;
      b.access = r.bind_access;
      mw.now = b;
      // With a key of something else (WR-MW-002) which one it has by then is not said.
      if (!NamesItsWindow(r) || r.rkey.flip) mw.unsure = true;
    } else if (r.op == Operation::kLocalInv) {
      mw.now.bound = false;
    }
    r.in_effect = true;
    if (r.op != Operation::kSendWithInv) return;
  }
  // Places of SGEs, for what comes later.
  if (r.data == Data::kSge) {
    for (uint32_t i = 0; i < r.sge_count; ++i) {
      Sge& s = sges_[r.first_sge + i];
      const LocalPlace& place = PlacePosted(&s, qp.pd, info.is_read_or_atomic);
      s.placed =
          place.placed && (place.fault == model::LocalFault::kNone || ChangedSinceBuilt(s.key, r));
      s.block = place.block;
      s.offset = place.offset;
      if (WritesLocally(r.op)) WildSge(s);
    }
  }
  const bool atomic = r.op == Operation::kAtomicCmpAndSwp || r.op == Operation::kAtomicFetchAndAdd;
  const bool message = NeedsReceive(r) && r.op != Operation::kRdmaWriteWithImm;
  bool known = true;
  if (r.data == Data::kSge && !info.is_read_or_atomic && r.op != Operation::kFlush &&
      (message || WritesRemotely(r.op))) {
    known = Gather(r);
  }
  if (message) {
    if (r.data == Data::kSge) {
      if (!known) {
        r.payload = ~0u;
        return;
      }
      r.payload = static_cast<uint32_t>(payloads_.size());
      payloads_.insert(payloads_.end(), gathered_.bytes.begin(), gathered_.bytes.end());
      unknowns_.resize(payloads_.size(), 0);
      if (!gathered_.unknown.empty()) {
        std::copy(gathered_.unknown.begin(), gathered_.unknown.end(),
                  unknowns_.begin() + r.payload);
      }
    }
    r.in_effect = true;
    return;
  }
  if (!info.takes_rkey || r.op == Operation::kFlush) return;
  const RemotePlace remote = PlaceRemote(r, qp, PeerOf(qp, r));
  // An offset into a window of which binds are on their way.
  if (const Index w = Find(r.rkey.object);
      Is(r.rkey.object, ObjectKind::kMw) && w != kNone && r.addr.mr == kNoObject) {
    r.astray = mws_[w].pending > 0 || mws_[w].unsure;
  }
  if (r.astray && WritesRemotely(r.op)) {
    ForBindings(r, [&](const Request& b) { MarkAny(b.block, b.offset, b.bind_length, 0); });
  }
  const Index region = Is(r.rkey.object, ObjectKind::kMr) ? Find(r.rkey.object)
                       : Is(r.rkey.object, ObjectKind::kMw) && Find(r.rkey.object) != kNone
                           ? mws_[Find(r.rkey.object)].now.mr
                           : kNone;
  if (region != kNone && (!mrs_[region].zero_based || r.addr.mr != kNoObject) &&
      OfAnotherSpace(mrs_[region], r.addr) && remote.unsure) {
    r.astray = true;
    if (WritesRemotely(r.op)) Wild(mrs_[region].block, mrs_[region].base, mrs_[region].size);
  }
  r.placed = remote.placed && !r.astray;
  r.block = remote.block;
  r.offset = remote.offset;
  // A request that reads what it writes has no defined result.
  bool tangled = false;
  if (r.data == Data::kSge) {
    // What IBV_SEND_INLINE does in wr_flags is not described (WR-SAMPLE-007, X7): a provider that
    // lets it decide sends what else the WQE holds, and that is no breach of a data clause.
    tangled = options_.provider != Provider::kReference && (r.flags & IBV_SEND_INLINE) != 0 &&
              info.data == model::DataRule::kSgeOrInline;
    const uint64_t span = atomic ? 8 : r.length;
    for (uint32_t i = 0; i < r.sge_count && !tangled; ++i) {
      const Sge& s = sges_[r.first_sge + i];
      uint64_t at = 0;
      if (!InArena(s.addr, s.length, &at)) continue;
      tangled |= r.placed && at < r.offset + span && r.offset < at + s.length;
      for (uint32_t k = 0; info.is_read_or_atomic && k < i; ++k) {
        const Sge& other = sges_[r.first_sge + k];
        uint64_t there = 0;
        if (!InArena(other.addr, other.length, &there)) continue;
        tangled |= at < there + other.length && there < at + s.length;
      }
    }
  }
  const bool hopeless = r.no_effect && !WritesLocally(r.op);
  if (r.op == Operation::kRdmaRead) {
    gathered_.Clear();
    if (r.placed) {
      GatherRange(r.block, r.offset, r.length, r);
    } else {
      gathered_.bytes.resize(r.length <= kMaxArena ? r.length : 0);
      gathered_.MarkUnknown(0, gathered_.bytes.size());
    }
    if (r.length > 0 && gathered_.bytes.empty()) return;
    if (tangled) gathered_.MarkUnknown(0, gathered_.bytes.size());
    uint64_t done = 0;
    for (uint32_t i = 0; i < r.sge_count; ++i) {
      const Sge& s = sges_[r.first_sge + i];
      if (s.placed) {
        WriteOnWay(s.block, s.offset, gathered_.bytes.data() + done,
                   gathered_.unknown.empty() ? nullptr : gathered_.unknown.data() + done, s.length,
                   r, true);
      }
      done += s.length;
    }
    r.in_effect = true;
    return;
  }
  if (atomic) {
    uint64_t old = 0;
    uint8_t old_any = 0xff;
    if (r.placed && (r.offset & 7) == 0 && !r.no_effect) {
      Cell& c = memory_.At(r.block, r.offset >> 3);
      gathered_.Clear();
      GatherRange(r.block, r.offset, 8, r);
      std::memcpy(&old, gathered_.bytes.data(), 8);
      old_any =
          gathered_.unknown.empty() ? 0 : NonZeroBytes(LoadBytes(gathered_.unknown.data(), 0, 8));
      uint64_t next;
      if (tangled) old_any = 0xff;
      uint8_t next_any = old_any ? 0xff : 0;
      bool adds = false;
      if (r.op == Operation::kAtomicFetchAndAdd) {
        next = c.value + r.compare_or_add;
        // Sums do not depend on the order of additions (S19, S31).
        const bool only_adds = !tangled && c.any == 0 && !c.open && !c.receives &&
                               (c.definite() || (c.adds && !c.local) || (old_any == 0 && !c.mixed));
        if (only_adds) next_any = 0;
        adds = only_adds && r.sure;  // one that may fail may be missing in the sum
      } else {
        next = old == r.compare_or_add ? r.swap : old;
      }
      uint8_t bytes[8], unknown[8];
      std::memcpy(bytes, &next, 8);
      const uint64_t mask = ByteMask(next_any);
      std::memcpy(unknown, &mask, 8);
      const bool was_adds = adds && !c.definite() && c.adds;
      const bool other = was_adds && c.writer != 0 && Of(c.writer).qp != r.qp;

      // Nothing races with an addition but what is not one.
      WriteOnWay(r.block, r.offset, bytes, next_any ? unknown : nullptr, 8, r, false, was_adds);
      c.adds = adds;
      if (was_adds && (other || c.mixed)) c.mixed = true;
    }
    if (r.sge_count == 1 && r.length == 8 && sges_[r.first_sge].placed) {
      const Sge& s = sges_[r.first_sge];
      uint8_t bytes[8], unknown[8];
      std::memcpy(bytes, &old, 8);
      const uint64_t mask = ByteMask(old_any);
      std::memcpy(unknown, &mask, 8);
      WriteOnWay(s.block, s.offset, bytes, old_any ? unknown : nullptr, 8, r, true);
    } else {
      for (uint32_t i = 0; i < r.sge_count; ++i) {
        const Sge& s = sges_[r.first_sge + i];
        if (s.placed) MarkAny(s.block, s.offset, s.length, 0);
      }
    }
    r.in_effect = true;
    return;
  }
  if (!WritesRemotely(r.op) || !r.placed || hopeless) return;
  if (r.op == Operation::kAtomicWrite) {
    WriteOnWay(r.block, r.offset, payloads_.data() + r.payload, nullptr, 8, r, false);
  } else if (r.data == Data::kInline) {
    if (r.payload + r.length > payloads_.size()) return;
    WriteOnWay(r.block, r.offset, payloads_.data() + r.payload, unknowns_.data() + r.payload,
               r.length, r, false);
  } else if (known) {
    if (tangled) gathered_.MarkUnknown(0, gathered_.bytes.size());
    WriteOnWay(r.block, r.offset, gathered_.bytes.data(),
               gathered_.unknown.empty() ? nullptr : gathered_.unknown.data(), r.length, r, false);
  } else {
    MarkAny(r.block, r.offset, r.length, 0);
  }
  r.in_effect = true;
}

// What it writes is not known where its source may have changed since it was posted.
void Judge::Impl::TaintTarget(const Request& r, RequestId writer_only) {
  if (r.data != Data::kSge) return;
  uint64_t done = 0;
  for (uint32_t i = 0; i < r.sge_count; ++i) {
    const Sge& s = sges_[r.first_sge + i];
    if (s.placed) {
      ForCells(s.block, s.offset, s.length,
               [&](Cell& c, uint64_t, unsigned from, unsigned to, uint64_t at) {
                 if (c.touched > r.posted || c.fenced_at > r.posted || c.receives) {
                   MarkAny(r.block, r.offset + done + at, to - from, writer_only);
                 }
               });
    }
    done += s.length;
  }
}

void Judge::Impl::FinishEffects(QpState& qp, Request& r, bool success, bool cannot_have_started) {
  if (r.mw != kNone && (r.op == Operation::kBindMw || r.op == Operation::kLocalInv ||
                        r.op == Operation::kSendWithInv)) {
    MwState& mw = mws_[r.mw];
    mw.changed = ++clock_;
    ++epoch_;
    if (r.op == Operation::kSendWithInv) {
      if (!success) {
        if (mw.pending > 0 && !r.delivered) --mw.pending;
        // RNR exhausted (WR-MW-021) and a flush leave the key alone; what else may have happened?
        if (!cannot_have_started && r.facts.receive != model::ReceiveFact::kNone) mw.unsure = true;
      }
    } else {
      if (mw.pending > 0) --mw.pending;
      if (!success) {
        if (mw.pending > 0 || r.fate == Fate::kVanished) mw.unsure = true;
        mw.now = r.before;
      }
      if (success && !r.sure && ProspectsOf(r).open) mw.unsure = true;
      return;
    }
  }
  if (!r.in_effect) return;
  const bool message = NeedsReceive(r) && r.op != Operation::kRdmaWriteWithImm;
  if (message) {
    if (success) {
      r.fate = Fate::kOutstanding;
      TaintPayload(r);
      r.tainted = true;
      r.fate = Fate::kDone;
    }
    return;
  }
  if (success) {
    // Sources that may have changed meanwhile make the result unknown.
    if (WritesLocally(r.op)) {
      if (r.placed) {
        uint64_t done = 0;
        uint32_t sge = 0;
        uint64_t in_sge = 0;
        ForCells(r.block, r.offset,
                 WritesLocally(r.op) && r.op != Operation::kRdmaRead ? 8 : r.length,
                 [&](Cell& c, uint64_t, unsigned from, unsigned to, uint64_t) {
                   uint64_t n = to - from;
                   const bool raced =
                       (c.touched > r.posted && !(c.writer == r.id && c.touched <= r.posted)) ||
                       (c.fenced_at > r.posted && c.fenced_qp != r.qp) || c.receives;
                   while (n > 0 && sge < r.sge_count) {
                     const Sge& s = sges_[r.first_sge + sge];
                     const uint64_t part = std::min<uint64_t>(n, s.length - in_sge);
                     if (raced && s.placed && part > 0) {
                       MarkAny(s.block, s.offset + in_sge, part, r.id);
                     }
                     in_sge += part;
                     n -= part;
                     if (in_sge == s.length) {
                       ++sge;
                       in_sge = 0;
                     }
                     if (part == 0 && sge >= r.sge_count) break;
                   }
                   done += to - from;
                 });
      }
      return;
    }
    TaintTarget(r, r.id);
    // UC may have lost it; a faulty one of several packets may have left a prefix.
    if (r.maybe || (!model::IsReliable(qp.type) && options_.provider == Provider::kDevice)) {
      ForCells(r.block, r.offset, r.length, [&](Cell& c, uint64_t, unsigned, unsigned, uint64_t) {
        if (c.writer == r.id) c.open = true;
      });
    }
    return;
  }
  // It failed: per cell the old value or the new one, or surely the old.
  auto undo = [&](uint32_t block, uint64_t offset, uint64_t len, bool surely) {
    ForCells(block, offset, len, [&](Cell& c, uint64_t, unsigned from, unsigned to, uint64_t) {
      if (c.writer != r.id) {
        if (!c.definite()) c.open = true;
        return;
      }
      if (surely && c.writers == 1 && c.old_count == 1 && !c.any_old && !c.open && !c.mixed) {
        c.value = c.old[0];
        c.any &= static_cast<uint8_t>(~NonZeroBytes(RangeMask(from, to)));
        c.old_count = 0;
      } else if (!c.definite()) {
        c.open = true;
      } else if (c.any) {
        c.any_old = true;
      }
    });
  };
  bool fails_without_effect = r.stable;
  if (r.stable) {
    for (const model::Outcome& o : model::RequestOutcomes(r.facts)) {
      fails_without_effect &= o.status != IBV_WC_SUCCESS && o.effect == model::Effect::kNone;
    }
  }
  if (WritesRemotely(r.op) && r.placed) {
    const bool surely =
        cannot_have_started || fails_without_effect ||
        (r.facts.local != model::LocalFault::kNone && r.op != Operation::kAtomicCmpAndSwp &&
         r.op != Operation::kAtomicFetchAndAdd && r.length <= qp.path_mtu);
    undo(r.block, r.offset, model::Info(r.op).data == model::DataRule::kOneSgeOf8 ? 8 : r.length,
         surely);
    if (!surely && !WritesLocally(r.op)) TaintTarget(r, 0);
  }
  if (WritesLocally(r.op)) {
    const bool surely = cannot_have_started ||
                        (r.facts.remote != model::RemoteFault::kNone && r.length <= qp.path_mtu);
    for (uint32_t i = 0; i < r.sge_count; ++i) {
      const Sge& s = sges_[r.first_sge + i];
      if (s.placed) undo(s.block, s.offset, s.length, surely);
    }
  }
}

// ------------------------------------------------------------------------------------------------
// What was seen.

void Judge::Impl::SawMemory(const Event& event) {
  // The bytes that a load asked for come last, from where the region is now.
  const auto all = trace_->MemoryOf(event);
  const bool load = event.call != kEndOfRun && call_->kind == CallKind::kLoad;
  for (size_t i = 0; i < all.size; ++i) {
    const Index m = Is(all[i].mr, ObjectKind::kMr) ? Find(all[i].mr) : kNone;
    if (m == kNone) continue;
    SawBytes(all[i], load && i + 1 == all.size ? mrs_[m].base : mrs_[m].home);
  }
}

// Bytes of a region, from the place that its first byte had.
void Judge::Impl::SawBytes(const SeenMemory& m, uint64_t base) {
  const MrState& mr = mrs_[Find(m.mr)];
  const model::Bytes bytes = trace_->BytesOf(m);
  const uint64_t start = base + m.offset;
  if (start + bytes.size > memory_.block(mr.block).size) return;
  ForCells(mr.block, start, bytes.size,
           [&](Cell& c, uint64_t index, unsigned from, unsigned to, uint64_t done) {
             const uint64_t mask = RangeMask(from, to);
             const uint64_t seen = (c.seen & ~mask) | LoadBytes(bytes.data + done, from, to - from);
             Resolve(c);
             const auto bits = NonZeroBytes(mask);
             c.seen = seen;
             if (!parallel_) c.raced &= static_cast<uint8_t>(~bits);
             memory_.List(c, mr.block, index);
             if (c.definite() && c.value == seen && c.any == 0) return;
             const uint8_t wrong = Unexplained(c, seen) & bits;
             if (wrong) {
               if (!blind_memory_ && !parallel_ && !ExplainedOtherwise(mr.block, index, wrong)) {
                 WrongMemory(mr.block, index, c, seen, wrong, c.definite());
               }
               // Go on from what is there.
               if (c.definite()) {
                 const uint64_t adopt = ByteMask(wrong);
                 c.value = (c.value & ~adopt) | (seen & adopt);
               } else if (c.old_count < 3) {
                 c.old[c.old_count++] = seen;  // what is on its way still has to come
               } else {
                 c.any_old = true;
               }
             }
             // Seen once and nothing on its way: known from now on.
             if (c.definite() && c.any && c.receives == 0) {
               const uint64_t known = ByteMask(c.any & bits);
               c.value = (c.value & ~known) | (seen & known);
               c.any &= static_cast<uint8_t>(~bits);
             }
           });
}

// Everything was recorded: what must be there is compared, and what is settled collapses.
void Judge::Impl::WholeLook(bool settled) {
  std::vector<Memory::Place>& places = memory_.touched();
  // Whether something that is still outstanding may write later.
  bool at_rest = settled, all_sure = settled;
  if (settled) {
    for (QpState& qp : qps_) {
      if (!qp.alive) continue;
      if (qp.outstanding == 0) continue;
      qp.due_limit = DueUpTo(qp);
      qp.success_limit = SuccessUpTo(qp);
      for (uint32_t i = qp.head; i < qp.sent.size() && (at_rest || all_sure); ++i) {
        const Request& r = Of(qp.sent[i]);
        if (r.fate != Fate::kOutstanding || !r.in_effect) continue;
        at_rest &= r.id < qp.due_limit;
        all_sure &= r.sure && r.epoch == epoch_ && !r.maybe && r.id < qp.success_limit;
      }
    }
  }
  size_t kept = 0;
  for (size_t p = 0; p < places.size(); ++p) {
    const Memory::Place place = places[p];
    Cell& c = *place.at;
    Resolve(c);
    if (!settled && c.seen == c.value) {  // as it should be in the end; until then it stays listed
      if (kept != p) places[kept] = place;
      ++kept;
      continue;
    }
    bool pending = false;
    if (!c.definite() && c.writer != 0) {
      const Request& w = Of(c.writer);
      if (settled && !c.open && !c.mixed) {
        bool there = w.fate == Fate::kDone && !w.maybe;
        if (w.fate == Fate::kOutstanding) {
          QpState& qp = qps_[w.qp];
          if (w.id < qp.due_limit) {
            const Prospects prospects = ProspectsOf(w);
            there = !w.maybe && w.id < qp.success_limit && prospects.may_succeed &&
                    !prospects.may_fail && !prospects.may_stay;
          } else {
            pending = true;
          }
        }
        if (!model::IsReliable(qps_[w.qp].type) && options_.provider == Provider::kDevice) {
          there = false;
        }
        if (there) {
          c.old_count = 0;
          c.any_old = false;
        }
      } else if (c.mixed && at_rest && all_sure && c.adds && !c.open) {
        c.old_count = 0;
        c.any_old = c.mixed = false;
      }
      pending |= !at_rest && (c.mixed || c.open);
    }
    const uint8_t wrong = Unexplained(c, c.seen);
    if (wrong && !blind_memory_ && !parallel_ &&
        !ExplainedOtherwise(place.block, place.cell, wrong)) {
      WrongMemory(place.block, place.cell, c, c.seen, wrong, true);
    }
    if (settled && !pending) {
      c.value = c.seen;
      // The executor tells what changed behind a store, and not which of two came last.
      c.any = static_cast<uint8_t>((c.receives == 0 ? 0 : c.any) | c.raced);
      c.old_count = 0;
      c.any_old = c.open = c.mixed = c.adds = c.received = c.overwritten = false;
      c.writer = 0;
      c.listed = false;
    } else {
      if (wrong && c.definite()) {
        const uint64_t adopt = ByteMask(wrong);
        c.value = (c.value & ~adopt) | (c.seen & adopt);
      } else if (wrong) {
        c.any_old = true;
      }
      if (kept != p) places[kept] = place;
      ++kept;
    }
  }
  places.erase(places.begin() + static_cast<std::ptrdiff_t>(kept), places.end());
}

// The slow, lenient look before an accusation: did anything that may have run write there?
bool Judge::Impl::ExplainedOtherwise(uint32_t block, uint64_t cell, uint8_t bytes) {
  (void)bytes;
  const uint64_t from = cell * 8, to = from + 8;
  auto overlaps = [&](uint32_t b, uint64_t at, uint64_t len) {
    return b == block && at < to && at + len > from;
  };
  Cell& c = memory_.At(block, cell);
  for (const MrState& mr : mrs_) {
    if (mr.vague && overlaps(mr.block, mr.home, mr.size)) return true;
  }
  for (const Stretch& s : wild_) {
    if (overlaps(s.block, s.offset, s.length)) return true;
  }
  bool hit = false;
  for (const Request& r : requests_) {
    if (!r.astray || !WritesRemotely(r.op)) continue;
    ForBindings(r, [&](const Request& b) { hit |= overlaps(b.block, b.offset, b.bind_length); });
  }
  if (hit) return true;
  for (QpState& qp : qps_) {
    if (!qp.followed) return true;
    // A receive that may have been filled before its completion was polled.
    auto receives = [&](const ReceiveQueue& rq, bool any_message) {
      if (!any_message) return false;
      for (uint32_t i = rq.head; i < rq.posted.size(); ++i) {
        if (rq.posted[i].done) continue;
        for (uint32_t s = 0; s < rq.posted[i].sge_count; ++s) {
          const Sge& e = sges_[rq.posted[i].first_sge + s];
          if (e.placed && overlaps(e.block, e.offset, e.length)) return true;
        }
      }
      return false;
    };
    if (c.receives && !qp.ghosts.empty()) return true;
    // Who sends raw packets here is not followed.
    if (c.receives && qp.alive && receives(*ReceivesOf(qp), qp.type == QpType::kRawPacket))
      return true;
    if (c.receives && qp.alive) {
      const auto self = static_cast<Index>(&qp - qps_.begin());
      bool any_message = false;
      for (const QpState& sender : qps_) {
        if (model::NeedsAddress(qp.type) ? sender.type != qp.type : sender.peer != self) continue;
        for (uint32_t i = sender.delivered; i < sender.messages.size(); ++i) {
          const Request& r = Of(sender.messages[i]);
          any_message |= !r.delivered && r.op != Operation::kRdmaWriteWithImm;
        }
      }
      if (receives(qp.rq, any_message)) return true;
      for (const SrqState& s : srqs_) {
        if (receives(s.rq, any_message)) return true;
      }
    }
    // Requests whose source may have changed before they read it.
    for (uint32_t i = qp.head; i < qp.sent.size(); ++i) {
      const Request& r = Of(qp.sent[i]);
      if (r.fate != Fate::kOutstanding || !r.in_effect) continue;
      bool there = false;
      bool raced = false;
      auto changed_since = [&](Cell& source) {
        raced |=
            source.touched > r.posted ||
            (source.fenced_at > r.posted && (source.fenced_qp != r.qp || !WritesLocally(r.op))) ||
            source.receives != 0;
      };
      if (WritesLocally(r.op)) {
        for (uint32_t s = 0; s < r.sge_count; ++s) {
          const Sge& e = sges_[r.first_sge + s];
          there |= e.placed && overlaps(e.block, e.offset, e.length);
        }
        // A swap depends on what was there; a sum does not.
        if (r.op == Operation::kAtomicCmpAndSwp) {
          there |= r.placed && overlaps(r.block, r.offset, 8);
        }
        if (r.placed && there) {
          ForCells(
              r.block, r.offset, std::max<uint64_t>(r.length, 1),
              [&](Cell& source, uint64_t, unsigned, unsigned, uint64_t) { changed_since(source); });
        }
      } else if (r.data == Data::kSge && WritesRemotely(r.op) && r.placed) {
        there = overlaps(r.block, r.offset, r.length);
        for (uint32_t s = 0; there && s < r.sge_count; ++s) {
          const Sge& e = sges_[r.first_sge + s];
          if (!e.placed) continue;
          ForCells(
              e.block, e.offset, e.length,
              [&](Cell& source, uint64_t, unsigned, unsigned, uint64_t) { changed_since(source); });
        }
      } else if (WritesRemotely(r.op) && r.placed) {
        there = overlaps(r.block, r.offset, r.length ? r.length : 8);
      }
      if (there && raced) return true;
      // Several receives or an undecided request: it may have done anything within its range.
      if (there && !r.sure && qp.loses) return true;
    }
  }
  return false;
}

std::string Judge::Impl::Place(uint32_t block, uint64_t offset) const {
  const MrState* best = nullptr;
  for (const MrState& mr : mrs_) {
    if (mr.block != block || offset < mr.base || offset >= mr.base + mr.size) continue;
    if (best == nullptr || mr.size < best->size) best = &mr;
  }
  if (best == nullptr) return "memory+" + std::to_string(offset);
  return NameOf(best->id) + "+" + std::to_string(offset - best->base);
}

void Judge::Impl::WrongMemory(uint32_t block, uint64_t cell, const Cell& c, uint64_t seen,
                              uint8_t bytes, bool promised) {
  if (wrong_at_call_ == call_index_ && wrong_block_ == block && wrong_cell_ + 1 == cell) {
    wrong_cell_ = cell;  // one finding for a stretch
    return;
  }
  wrong_at_call_ = call_index_;
  wrong_block_ = block;
  wrong_cell_ = cell;
  unsigned first = 0, last = 8;
  while (first < 7 && !(bytes & (1u << first))) ++first;
  while (last > first + 1 && !(bytes & (1u << (last - 1)))) --last;
  const uint64_t offset = cell * 8 + first;
  const uint64_t from = offset, to = cell * 8 + last;
  auto overlaps = [&](uint32_t b, uint64_t at, uint64_t len) {
    return b == block && at < to && at + len > from;
  };
  const char* clause = "WR-DATA-005";
  std::string what = "changed although nothing wrote there";
  const Request* writer = c.writer ? &Of(c.writer) : nullptr;
  bool is_old = false;
  for (int i = 0; i < c.old_count; ++i) {
    is_old |= (NonZeroBytes(seen ^ c.old[i]) & bytes) == 0;
  }
  const uint64_t fill = memory_.InitialValue(cell);
  is_old |= (NonZeroBytes(seen ^ fill) & bytes) == 0;
  const Request* dead = nullptr;
  for (const Request& r : dead_) {
    if (WritesRemotely(r.op) && r.placed && overlaps(r.block, r.offset, r.length ? r.length : 8)) {
      dead = &r;
    }
    if (WritesLocally(r.op)) {
      for (uint32_t s = 0; s < r.sge_count; ++s) {
        const Sge& e = sges_[r.first_sge + s];
        const LocalPlace place = PlaceLocal(e.key, e.addr, e.length, qps_[r.qp].pd, false);
        if (place.placed && overlaps(place.block, place.offset, e.length)) dead = &r;
      }
    }
  }
  const Request* staged = nullptr;
  for (const QpState& qp : qps_) {
    for (const Request& r : qp.region.staged) {
      if (!model::Info(r.op).takes_rkey) continue;
      const RemotePlace place = PlaceRemote(r, qp, qp.peer == kNone ? nullptr : &qps_[qp.peer]);
      if (place.placed && overlaps(place.block, place.offset, r.length ? r.length : 8)) staged = &r;
    }
  }
  // Requests that named the place and must not have had an effect there.
  const Request* failed = nullptr;
  for (size_t i = requests_.size(); i-- > 0 && i + 512 > requests_.size() && failed == nullptr;) {
    const Request& r = requests_[i];
    if (r.fate != Fate::kFailed && r.fate != Fate::kFlushed && !r.no_effect) continue;
    bool there =
        WritesRemotely(r.op) && r.placed && overlaps(r.block, r.offset, r.length ? r.length : 8);
    if (WritesLocally(r.op)) {
      for (uint32_t s = 0; s < r.sge_count; ++s) {
        const Sge& e = sges_[r.first_sge + s];
        uint64_t start = 0;
        there |= InArena(e.addr, e.length, &start) && overlaps(0, start, e.length);
      }
    }
    if (there) failed = &r;
  }
  if (writer && writer->fate != Fate::kFailed && writer->fate != Fate::kFlushed) {
    what = is_old ? "lacks the effect of " + NameOf(*writer)
                  : "does not hold what " + NameOf(*writer) + " writes";
    switch (writer->op) {
      case Operation::kRdmaRead:
        clause = "WR-DATA-009";
        break;
      case Operation::kAtomicCmpAndSwp:
        clause = "WR-DATA-010";
        break;
      case Operation::kAtomicFetchAndAdd:
        clause = "WR-DATA-011";
        break;
      case Operation::kAtomicWrite:
        clause = "WR-DATA-023";
        break;
      default:
        if (writer->data == Data::kInline) {
          const bool list = writer->sge_count > 1;
          clause = writer->length > qps_[writer->qp].granted[4]
                       ? (list ? "WR-INL-006" : "WR-INL-005")
                   : list && is_old ? "WR-INL-007"
                                    : "WR-INL-001";
        } else {
          clause = writer->sge_count > 1 ? "WR-SGE-001" : "WR-DATA-005";
        }
        if (c.overwritten && (NonZeroBytes(seen ^ memory_.InitialValue(cell)) & bytes)) {
          clause = "WR-ORD-003";
        }
        break;
    }
    if (is_old && promised && writer->op != Operation::kRdmaRead && writer->data != Data::kInline) {
      if (writer->visible && !c.local) {
        clause = "WR-ORD-002";
      } else if (writer->fate == Fate::kOutstanding) {
        clause = "WR-ATOM-007";
      }
    }
  } else if (c.received) {
    clause = "WR-DATA-001";
    what = "does not hold what was received there";
  } else if (staged) {
    clause = "WR-CRIT-004";
    what = "changed by " + NameOf(*staged) + " before ibv_wr_complete()";
  } else if (dead) {
    clause = dead->fate == Fate::kAborted          ? "WR-ATOM-001"
             : Only(dead->states_then, kBeforeRts) ? "WR-ATOM-006"
                                                   : "WR-ATOM-002";
    what = "changed by " + NameOf(*dead) + ", which was " +
           (dead->fate == Fate::kAborted ? "aborted" : "refused at complete");
  } else if (failed) {
    const Request& r = *failed;
    const model::OutcomeSet set = model::RequestOutcomes(r.facts);
    clause = r.fate == Fate::kFlushed ? "WR-COMP-003" : set.clause;
    what = "changed by " + NameOf(r) + ", which must have no effect";
  } else if (c.receives) {
    clause = "WR-DATA-004";
    what = "is a receive buffer and changed although no message came";
  }
  Finding* f = Report(clause, Place(block, offset) + " " + what, {}, HexBytes(seen, first, last));
  if (f == nullptr) return;
  f->allowed.push_back(HexBytes(c.value, first, last));
  for (int i = 0; i < c.old_count; ++i) f->allowed.push_back(HexBytes(c.old[i], first, last));
}

}  // namespace qpexam::judge
