#include "reference/model/memory_access.h"

#include <algorithm>
#include <cstring>

#include "reference/model/fabric.h"
#include "reference/model/faults.h"

namespace qpexam::model {
namespace {

// [addr, addr + length) inside [base, base + size), with no sum that wraps (WR-LIM-004).
bool Inside(uint64_t addr, uint64_t length, uint64_t base, uint64_t size) {
  return addr >= base && addr - base <= size && length <= size - (addr - base);
}

// As a provider that adds first: past 2^64 the sum comes out small.
bool InsideByWrappingSum(uint64_t addr, uint64_t length, uint64_t base, uint64_t size) {
  return addr + length <= base + size && (addr >= base || addr + length < addr) ? true : false;
}

}  // namespace

LocalFault ResolveLocal(Fabric& fabric, const Pd* pd, const Sge& sge, LocalUse use, Segments* out) {
  if (sge.length == 0) {
    if (!Faulty(Fault::kZeroLengthSgeNeedsKey)) return LocalFault::kNone;
    return fabric.FindMr(sge.lkey) != nullptr ? LocalFault::kNone : LocalFault::kUnknownKey;
  }
  const Mr* mr = fabric.LkeyUnlocked(sge.lkey);
  if (mr == nullptr) return LocalFault::kUnknownKey;
  if (mr->pd != pd && Faulty(Fault::kParentDomainIsAnotherPd)) return LocalFault::kWrongPd;
  if (mr->pd->Base() != pd->Base() && !Faulty(Fault::kLocalPdNotChecked)) {
    return LocalFault::kWrongPd;
  }
  if (!Inside(sge.addr, sge.length, mr->iova, mr->memory.size)) {
    // A fault lets only the start count, and then touches no more than there is.
    if (Faulty(Fault::kLocalLengthNotChecked) && Inside(sge.addr, 0, mr->iova, mr->memory.size)) {
      const uint64_t offset = sge.addr - mr->iova;
      out->push_back({mr->memory.data + offset, mr->memory.size - offset});
      return LocalFault::kNone;
    }
    return LocalFault::kOutOfRange;
  }
  if (use == LocalUse::kWrite && (mr->access & IBV_ACCESS_LOCAL_WRITE) == 0 &&
      !Faulty(Fault::kLocalWriteNotChecked)) {
    return LocalFault::kNoLocalWrite;
  }
  out->push_back({mr->memory.data + (sge.addr - mr->iova), sge.length});
  return LocalFault::kNone;
}

RemoteFault ResolveRemote(Fabric& fabric, const Qp& responder, const Pd* pd, const RemoteUse& use,
                          uint8_t** out) {
  *out = nullptr;
  if (const Mr* mr = fabric.RkeyUnlocked(use.rkey)) {
    if (pd != nullptr && mr->pd->Base() != pd->Base() && !Faulty(Fault::kRemotePdNotChecked)) {
      return RemoteFault::kWrongPd;
    }
    if ((mr->access & use.rights) != use.rights &&
        !(responder.type() == QpType::kUc ? Faulty(Fault::kUcRightsNotChecked)
                                          : Faulty(Fault::kRemoteRightsNotChecked))) {
      return RemoteFault::kNoRegionRight;
    }
    if (use.range == RemoteUse::Range::kWholeRegion) return RemoteFault::kNone;
    if (!Inside(use.addr.value, use.length, mr->iova, mr->memory.size)) {
      const bool start_inside = Inside(use.addr.value, 1, mr->iova, mr->memory.size);
      if (start_inside && Faulty(Fault::kRemoteEndNotChecked)) {
        *out = nullptr;  // the effect is lost, the status lies
        return RemoteFault::kNone;
      }
      if (use.addr.value + use.length < use.addr.value && Faulty(Fault::kRemoteSumWraps) &&
          InsideByWrappingSum(use.addr.value, use.length, mr->iova, mr->memory.size)) {
        return RemoteFault::kNone;
      }
      return RemoteFault::kOutOfRange;
    }
    *out = mr->memory.data + (use.addr.value - mr->iova);
    return RemoteFault::kNone;
  }
  Mw* mw = fabric.WindowUnlocked(use.rkey);
  if (mw == nullptr || mw->mr == nullptr) {
    Mw* other =
        Faulty(Fault::kWindowTagNotChecked) ? fabric.WindowByIndexUnlocked(use.rkey) : nullptr;
    if (other == nullptr || other->mr == nullptr) return RemoteFault::kUnknownKey;
    mw = other;
  }
  if (pd != nullptr && mw->pd->Base() != pd->Base()) return RemoteFault::kWrongPd;
  if (mw->type == IBV_MW_TYPE_2 &&
      (mw->qp_num != responder.number().value || mw->qp_life != responder.life()) &&
      !Faulty(Fault::kWindowOfOtherQpUsable)) {
    return RemoteFault::kWrongWindowQp;
  }
  if ((mw->access & use.rights) != use.rights && !Faulty(Fault::kWindowRightsNotChecked)) {
    return RemoteFault::kNoRegionRight;
  }
  if (use.range == RemoteUse::Range::kWholeRegion) return RemoteFault::kNone;
  const bool zero_based =
      (mw->access & IBV_ACCESS_ZERO_BASED) != 0 && !Faulty(Fault::kZeroBasedWindowByAddress);
  const uint64_t base = zero_based ? 0 : mw->addr;
  const uint64_t size = mw->length + (Faulty(Fault::kWindowOneByteTooLong) ? 1 : 0);
  if (!Inside(use.addr.value, use.length, base, size)) return RemoteFault::kOutOfRange;
  const uint64_t in_region = mw->addr + (use.addr.value - base);
  // The window may be larger than its MR only by choice (WR-MW-017): access still is not.
  if (!Inside(in_region, use.length, mw->mr->iova, mw->mr->memory.size)) {
    return RemoteFault::kOutOfRange;
  }
  *out = mw->mr->memory.data + (in_region - mw->mr->iova);
  return RemoteFault::kNone;
}

void CopySegments(Span<const Segment> from, Span<const Segment> to) {
  if (from.size == 1 && to.size == 1) {
    std::memmove(to[0].data, from[0].data, std::min(from[0].size, to[0].size));
    return;
  }
  size_t t = 0;
  uint64_t used = 0;
  for (const Segment& source : from) {
    uint64_t done = 0;
    while (done < source.size && t < to.size) {
      const uint64_t n = std::min(source.size - done, to[t].size - used);
      if (n != 0) std::memmove(to[t].data + used, source.data + done, n);
      done += n;
      used += n;
      if (used == to[t].size) {
        ++t;
        used = 0;
      }
    }
  }
}

}  // namespace qpexam::model
