// Where the memory of each mr lies in a Program's arena: the one rule that executor, parser, lint
// and C emitter share.
//
// The arena begins at a page boundary. Each mr without `at` takes the next free bytes at a
// multiple of 64, in the order of the calls; memory of a destroyed mr is not used again, so that a
// late write to it is seen. An mr with `at` lies over another's memory.
#ifndef QPEXAM_HARNESS_PROGRAM_LAYOUT_H_
#define QPEXAM_HARNESS_PROGRAM_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "harness/program/program.h"

namespace qpexam {

inline constexpr uint64_t kMrAlignment = 64;

class Layout {
 public:
  explicit Layout(uint64_t arena) : arena_(arena) {}
  // As new, but for its memory.
  void Clear(uint64_t arena) {
    arena_ = arena;
    next_ = 0;
    ranges_.clear();
  }

  enum class Result : uint8_t { kPlaced, kArenaFull, kOutsideBase, kNoBase };
  // Places the mr that this kMr call makes. A kReregMr that changes the translation moves it.
  Result Add(const Call& call);

  bool Has(ObjectId mr) const { return mr < ranges_.size() && ranges_[mr].placed; }
  uint64_t Start(ObjectId mr) const { return ranges_[mr].start; }  // offset in the arena
  uint64_t Size(ObjectId mr) const { return ranges_[mr].size; }
  uint64_t arena() const { return arena_; }
  uint64_t Free() const { return next_ < arena_ ? arena_ - next_ : 0; }
  // The longest region that still finds a place.
  uint64_t Room() const {
    const uint64_t start = (next_ + kMrAlignment - 1) / kMrAlignment * kMrAlignment;
    return start < arena_ ? arena_ - start : 0;
  }

  // Whether [ref, ref + len) is memory of the arena, so that the CPU may touch it.
  bool InArena(const MemRef& ref, uint64_t len) const;

 private:
  struct Range {
    bool placed = false;
    uint64_t start = 0, size = 0;
  };
  uint64_t arena_;
  uint64_t next_ = 0;
  std::vector<Range> ranges_;  // by ObjectId
};

// The layout after all calls.
Layout LayoutOf(const Program& program);

// Depth of a QP's own CQ: it holds every completion that the queue asked for can have outstanding,
// twice. What is flushed as it is posted, in ERR, may overrun it, and so may the requests of a
// queue that was granted far deeper than asked.
constexpr int OwnCqDepth(uint64_t wrs) {
  return static_cast<int>(wrs < (1 << 15) - 32 ? 2 * wrs + 64 : 1 << 16);
}

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_LAYOUT_H_
