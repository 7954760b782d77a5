#include "harness/program/layout.h"

#include <infiniband/verbs.h>

namespace qpexam {

Layout::Result Layout::Add(const Call& call) {
  if (call.kind == CallKind::kReregMr && !(call.flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
    return Result::kPlaced;
  }
  Range range{true, 0, call.len};
  if (call.addr.mr != kNoObject) {
    if (!Has(call.addr.mr)) return Result::kNoBase;
    if (!InArena(call.addr, call.len)) return Result::kOutsideBase;
    const Range& base = ranges_[call.addr.mr];
    const int64_t offset = call.addr.offset;
    if (offset < 0 || static_cast<uint64_t>(offset) + call.len > base.size) {
      return Result::kOutsideBase;
    }
    range.start = base.start + static_cast<uint64_t>(offset);
  } else if (call.kind == CallKind::kReregMr) {
    return Result::kNoBase;
  } else {
    const uint64_t start = (next_ + kMrAlignment - 1) / kMrAlignment * kMrAlignment;
    if (start > arena_ || call.len > arena_ - start) return Result::kArenaFull;
    range.start = start;
    next_ = start + call.len;
  }
  if (call.object >= ranges_.size()) ranges_.resize(call.object + size_t{1});
  ranges_[call.object] = range;
  return Result::kPlaced;
}

bool Layout::InArena(const MemRef& ref, uint64_t len) const {
  if (!Has(ref.mr) || len > arena_) return false;
  const uint64_t start = ranges_[ref.mr].start;
  if (ref.offset < 0) {
    const uint64_t back = ~static_cast<uint64_t>(ref.offset) + 1;
    return back <= start && start - back + len <= arena_;
  }
  const auto forward = static_cast<uint64_t>(ref.offset);
  return forward <= arena_ - start && start + forward + len <= arena_;
}

Layout LayoutOf(const Program& program) {
  Layout layout(program.arena);
  for (const Call& call : program.calls) {
    if (call.kind == CallKind::kMr || call.kind == CallKind::kReregMr) layout.Add(call);
  }
  return layout;
}

}  // namespace qpexam
