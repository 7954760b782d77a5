#include "harness/program/minimize.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/program/bytes.h"
#include "harness/program/repair.h"
#include "harness/program/schema.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

bool IsSetter(CallKind kind) {
  switch (kind) {
    case CallKind::kSetSge:
    case CallKind::kSetSgeList:
    case CallKind::kSetInline:
    case CallKind::kSetInlineList:
    case CallKind::kSetUdAddr:
    case CallKind::kSetXrcSrqn:
      return true;
    default:
      return false;
  }
}

class Minimizer {
 public:
  Minimizer(Program program, const std::function<bool(const Program&)>& keep, int tries)
      : best_(std::move(program)), keep_(keep), tries_(tries) {}

  Program Run() {
    best_.notes.clear();
    bool progress = true;
    while (progress && tries_ > 0) {
      progress = false;
      progress |= DropGroups();
      progress |= DropRuns();
      progress |= SimplifyArguments();
    }
    Program renamed = best_;
    Rename(&renamed);
    if (Try(renamed)) best_ = std::move(renamed);
    return std::move(best_);
  }

 private:
  bool Try(const Program& candidate) {
    if (tries_ <= 0 || Validate(candidate)) return false;
    --tries_;
    return keep_(candidate);
  }

  // Without the calls at these (ascending) places, if the rest still serves.
  bool TryWithout(const std::vector<size_t>& places) {
    Program candidate;
    candidate.objects = best_.objects;
    candidate.arena = best_.arena;
    candidate.seed = best_.seed;
    candidate.calls.reserve(best_.calls.size() - places.size());
    size_t next = 0;
    for (size_t i = 0; i < best_.calls.size(); ++i) {
      if (next < places.size() && places[next] == i) {
        ++next;
        continue;
      }
      candidate.calls.push_back(best_.calls[i]);
    }
    Repair(&candidate);
    if (candidate.calls.size() >= best_.calls.size() || !Try(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  // Calls that make sense only together: a region; a builder and its setters; an object and the
  // calls that name it.
  std::vector<size_t> GroupAt(size_t at) const {
    const Call& first = best_.calls[at];
    std::vector<size_t> group = {at};
    auto same = [&](const Call& c) { return c.object == first.object && c.thread == first.thread; };
    if (first.kind == CallKind::kStart) {
      for (size_t i = at + 1; i < best_.calls.size(); ++i) {
        const Call& c = best_.calls[i];
        if (!same(c)) continue;
        if (c.kind == CallKind::kBuild || IsSetter(c.kind)) group.push_back(i);
        if (c.kind == CallKind::kComplete || c.kind == CallKind::kAbort) {
          group.push_back(i);
          break;
        }
      }
    } else if (first.kind == CallKind::kBuild) {
      for (size_t i = at + 1; i < best_.calls.size(); ++i) {
        const Call& c = best_.calls[i];
        if (!same(c)) continue;
        if (!IsSetter(c.kind)) break;
        group.push_back(i);
      }
    } else if (first.kind == CallKind::kParallel) {
      for (size_t i = at + 1; i < best_.calls.size(); ++i) {
        if (best_.calls[i].kind == CallKind::kJoin) {
          group.push_back(i);
          break;
        }
      }
    } else if (Makes(first.kind)) {
      for (size_t i = at + 1; i < best_.calls.size(); ++i) {
        bool names = false;
        Call copy = best_.calls[i];
        ForEachObject(&copy, [&](ObjectId& id, KindMask) { names |= id == first.object; });
        if (names) group.push_back(i);
      }
    }
    return group;
  }

  bool DropGroups() {
    bool progress = false;
    for (size_t at = 0; at < best_.calls.size() && tries_ > 0;) {
      const std::vector<size_t> group = GroupAt(at);
      if (group.size() > 1 && TryWithout(group)) {
        progress = true;
      } else {
        ++at;
      }
    }
    return progress;
  }

  // Runs of calls: halves, quarters, ..., single ones.
  bool DropRuns() {
    bool progress = false;
    for (size_t length = std::max<size_t>(best_.calls.size() / 2, 1); length >= 1; length /= 2) {
      // From the end: what is not needed behind the finding goes first.
      size_t end = best_.calls.size();
      while (end > 0 && tries_ > 0) {
        const size_t begin = end > length ? end - length : 0;
        std::vector<size_t> run;
        for (size_t i = begin; i < end; ++i) run.push_back(i);
        if (TryWithout(run)) progress = true;
        end = std::min(begin, best_.calls.size());
      }
    }
    return progress;
  }

  template <typename F>
  bool TryChange(size_t at, F change) {
    Program candidate = best_;
    change(&candidate.calls[at]);
    if (SameCall(candidate.calls[at], best_.calls[at])) return false;
    if (!Try(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool SimplifyNumber(size_t at, const Field& f) {
    bool progress = false;
    auto set = [&](uint64_t v) { return TryChange(at, [&](Call* c) { SetNumber(f, c, v); }); };
    auto now = [&] { return NumberOf(f, best_.calls[at]); };
    if (now() != f.fallback && set(f.fallback)) return true;
    if (f.type == FieldType::kFlags) {
      for (int bit = 0; bit < 64; ++bit) {
        const uint64_t mask = uint64_t{1} << bit;
        if (now() != kUnset && (now() & mask)) progress |= set(now() & ~mask);
      }
      return progress;
    }
    if (f.type != FieldType::kNumber || now() == f.fallback) return progress;
    if (now() != 0 && set(0)) return true;
    if (now() > 1 && set(1)) return true;
    while (now() > 1 && set(now() / 2)) progress = true;
    return progress;
  }

  bool SimplifyField(size_t at, const Field& f) {
    bool progress = false;
    switch (f.type) {
      case FieldType::kNumber:
      case FieldType::kBool:
      case FieldType::kFlags:
      case FieldType::kEnum:
        return SimplifyNumber(at, f);
      case FieldType::kObject:
        if (f.required || IsDefault(f, best_.calls[at])) return false;
        return TryChange(at, [&](Call* c) {
          c->*f.member.object = f.rule == DefaultRule::kAddrMr ? c->addr.mr : kNoObject;
        });
      case FieldType::kKey:
        return TryChange(at, [&](Call* c) { c->*f.member.key = DerivedKey(f, *c); });
      case FieldType::kMem:
        if (best_.calls[at].addr.offset == 0) return false;
        return TryChange(at, [](Call* c) { c->addr.offset = 0; });
      case FieldType::kSgeList:
        for (size_t i = best_.calls[at].sge.size(); i-- > 0;) {
          progress |= TryChange(at, [&](Call* c) { c->sge.erase(c->sge.begin() + i); });
        }
        for (size_t i = 0; i < best_.calls[at].sge.size(); ++i) {
          progress |= TryChange(at, [&](Call* c) {
            c->sge[i].lkey = KeyRef{};
            c->sge[i].lkey.object = c->sge[i].addr.mr;
          });
          progress |= TryChange(at, [&](Call* c) { c->sge[i].addr.offset = 0; });
          while (best_.calls[at].sge[i].len > 1 &&
                 TryChange(at, [&](Call* c) { c->sge[i].len /= 2; })) {
            progress = true;
          }
        }
        return progress;
      case FieldType::kBufList:
        for (size_t i = best_.calls[at].bufs.size(); i-- > 0;) {
          progress |= TryChange(at, [&](Call* c) { c->bufs.erase(c->bufs.begin() + i); });
        }
        return progress;
      case FieldType::kBytes:
        progress |= TryChange(at, [](Call* c) {
          for (uint8_t& b : c->bytes) b = 0;
        });
        while (best_.calls[at].bytes.size() > 1 &&
               TryChange(at, [](Call* c) { c->bytes.resize(c->bytes.size() / 2); })) {
          progress = true;
        }
        return progress;
      case FieldType::kAttrs:
        for (size_t i = best_.calls[at].attrs.size(); i-- > 0;) {
          progress |= TryChange(at, [&](Call* c) { c->attrs.erase(c->attrs.begin() + i); });
        }
        return progress;
      default:
        return false;
    }
  }

  bool SimplifyArguments() {
    bool progress = false;
    if (best_.seed != Program{}.seed || best_.arena != Program{}.arena) {
      Program candidate = best_;
      candidate.seed = Program{}.seed;
      candidate.arena = Program{}.arena;
      if (Try(candidate)) best_ = std::move(candidate);
    }
    for (size_t at = 0; at < best_.calls.size() && tries_ > 0; ++at) {
      if (best_.calls[at].thread) progress |= TryChange(at, [](Call* c) { c->thread = 0; });
      if (best_.calls[at].more) progress |= TryChange(at, [](Call* c) { c->more = 0; });
      for (const Field& f : SchemaOf(best_.calls[at].kind).fields) {
        if (Applies(f, best_.calls[at])) progress |= SimplifyField(at, f);
      }
    }
    return progress;
  }

  Program best_;
  const std::function<bool(const Program&)>& keep_;
  int tries_;
};

}  // namespace

Program Minimize(Program program, const std::function<bool(const Program&)>& keep,
                 const MinimizeLimits& limits) {
  return Minimizer(std::move(program), keep, limits.tries).Run();
}

}  // namespace qpexam
