// The memory that a Program may touch, and what of it has changed.
//
// A Program's mrs get their bytes here by the rule of harness/program/layout.h; nothing else is
// ever read or written on its behalf. A second copy holds what was last recorded, so that a Trace
// tells only what changed.
#ifndef QPEXAM_HARNESS_EXECUTE_ARENA_H_
#define QPEXAM_HARNESS_EXECUTE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/trace/trace.h"

namespace qpexam {

// Bytes of an mr that was made over fresh memory.
struct ArenaRegion {
  ObjectId mr = kNoObject;
  size_t start = 0;  // in the arena
  size_t size = 0;
};

class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Starts a Program: all of `size` bytes read as zero and belong to nobody. The address stays the
  // same while the size does not grow, so that registrations of it can be kept.
  void Begin(size_t size);
  // Whether Begin() leaves the memory where it is. Where not, registrations of it must go first.
  bool Stays(size_t size) const { return size <= capacity_; }

  // Bytes for an mr; nullptr where the arena has not so many left.
  uint8_t* Allocate(ObjectId mr, size_t size);
  // The CPU writes on the Program's behalf: known, so never reported as a change.
  void Store(uint8_t* at, const uint8_t* bytes, size_t size);
  void Fill(uint8_t* at, uint8_t byte, size_t size);

  // Whether [at, at + size) lies inside.
  bool Contains(const uint8_t* at, size_t size) const;
  // The same, and where it does the Program may write there from now on, in no mr's bytes of their
  // own or not: the next Begin() clears it.
  bool Lend(const uint8_t* at, size_t size);
  uint8_t* base() const { return memory_; }

  // Appends what differs from what was last recorded, in runs of whole 8-byte cells.
  void RecordChanges(Trace* trace);
  // Appends these bytes as they are now, which must lie inside; `mr` and `offset` name them.
  void RecordBytes(const uint8_t* at, size_t size, ObjectId mr, uint64_t offset, Trace* trace);

 private:
  void RecordRegion(const ArenaRegion& region, Trace* trace);

  uint8_t* memory_ = nullptr;
  std::vector<uint8_t> recorded_;
  size_t capacity_ = 0;
  size_t size_ = 0;
  size_t used_ = 0;
  size_t lent_ = 0;  // nothing at or behind it can differ from zero
  std::vector<ArenaRegion> regions_;
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_EXECUTE_ARENA_H_
