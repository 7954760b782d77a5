// What the memory of a Program may hold: per 8-byte cell the value that it has when all that was
// posted has happened, and the few values that may still be seen instead.
//
// A write adds a value and keeps the old ones; a completion, a receive or a settle that promises
// the write drops them; an error leaves them all. Bytes that nobody can know (a race) are marked
// in a mask. A fourth old value makes the cell's older content unknown, counted.
#ifndef QPEXAM_HARNESS_JUDGE_MEMORY_H_
#define QPEXAM_HARNESS_JUDGE_MEMORY_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace qpexam::judge {

// Number of a request among all of a run, from 1; 0 is the CPU (or nobody).
using RequestId = uint32_t;
// Order of what happened in a run.
using Clock = uint32_t;

// What is asked for each cell is put in place by force: checked by sanitizers, it is too long for
// the compiler's liking, and a call costs more than what it does.
struct Cell {
  uint64_t value = 0;  // once everything posted has happened
  uint64_t seen = 0;   // as last recorded by the executor
  uint64_t old[3] = {};
  RequestId writer = 0;    // the latest that may still be on its way, or was
  Clock touched = 0;       // when it was last written, or might have been, in a way that races
  Clock fenced_at = 0;     // when it was last written behind a fence of queue `fenced_qp`
  uint16_t fenced_qp = 0;  // these two excuse nothing to that queue's own earlier reads
  uint16_t receives = 0;   // posted receives whose buffer covers it
  uint8_t old_count = 0;
  uint8_t writers = 0;       // on their way since it was last definite (255: many)
  uint8_t raced = 0;         // bytes that a thread stored to beside others, and nobody loaded since
  uint8_t any = 0;           // bytes of value that nobody can know, bit i: byte i
  bool open = false;         // value or an old one, and nothing will say which but to look
  bool any_old = false;      // more old values than fit
  bool mixed = false;        // writers of several queues on their way at once
  bool listed = false;       // in Memory::touched()
  bool local = false;        // `writer` writes to its own side: a completion makes it visible
  bool adds = false;         // all that is on its way are additions
  bool received = false;     // a message was received here
  bool overwritten = false;  // written again while the first write was on its way

  [[gnu::always_inline]] bool definite() const { return old_count == 0 && !open && !any_old; }
};

// Expands bit i to byte i = 0xff.
inline uint64_t ByteMask(uint8_t bits) {
  // Spread 8 bits over 8 bytes: multiply copies, select one bit a byte, widen it.
  uint64_t spread = (bits * 0x0101010101010101ull) & 0x8040201008040201ull;
  // Any bit set in a byte becomes 0xff.
  spread |= (spread >> 4) & 0x0f0f0f0f0f0f0f0full;
  spread |= (spread >> 2) & 0x0303030303030303ull;
  spread |= (spread >> 1) & 0x0101010101010101ull;
  return (spread & 0x0101010101010101ull) * 0xff;
}
// Bits of the bytes in which x is not zero.
inline uint8_t NonZeroBytes(uint64_t x) {
  x |= x >> 4;
  x |= x >> 2;
  x |= x >> 1;
  x &= 0x0101010101010101ull;
  return static_cast<uint8_t>((x * 0x0102040810204080ull) >> 56);
}
// Mask of the bytes [from, to) of a cell.
inline uint64_t RangeMask(unsigned from, unsigned to) {
  const uint64_t high = to >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * to)) - 1;
  return high & ~((uint64_t{1} << (8 * from)) - 1);
}

// Bytes on their way, with a mask of those that nobody can know.
struct Payload {
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> unknown;  // 0xff where unknown; empty: all are known
  void Clear() {
    bytes.clear();
    unknown.clear();
  }
  void MarkUnknown(size_t from, size_t count) {
    if (count == 0) return;  // of an empty message there are no bytes to point at
    if (unknown.size() < bytes.size()) unknown.resize(bytes.size(), 0);
    std::memset(unknown.data() + from, 0xff, count);
  }
};

class Memory {
 public:
  struct Block {
    uint64_t size = 0;
    uint32_t pages = 0;  // first in pages_
  };

  void Clear();
  // A stretch of memory of its own, all zero; returns its number.
  uint32_t AddBlock(uint64_t size);
  // Bytes that hold `fill` before anything happens to them. Stretches of block 0, ascending.
  void AddFill(uint64_t start, uint64_t size, uint8_t fill);
  uint64_t InitialValue(uint64_t cell) const;
  const Block& block(uint32_t b) const { return blocks_[b]; }
  uint32_t block_count() const { return static_cast<uint32_t>(blocks_.size()); }

  // The cell, made when first asked for.
  [[gnu::always_inline]] Cell& At(uint32_t block, uint64_t cell) {
    uint32_t& page = pages_[blocks_[block].pages + (cell >> kPageShift)];
    if (page == 0) page = NewPage(blocks_[block], cell >> kPageShift);
    uint32_t& slot = slots_[page - 1 + (cell & kPageMask)];
    if (slot == 0) slot = NewCell(cell);
    return CellAt(slot - 1);
  }
  // nullptr where nothing has ever touched it.
  Cell* Find(uint32_t block, uint64_t cell) {
    const uint32_t page = pages_[blocks_[block].pages + (cell >> kPageShift)];
    if (page == 0) return nullptr;
    const uint32_t slot = slots_[page - 1 + (cell & kPageMask)];
    return slot == 0 ? nullptr : &CellAt(slot - 1);
  }

  // Cells that changed since the last whole look, to be compared at the next.
  struct Place {
    Place(uint32_t block, uint64_t cell, Cell* at) : block(block), cell(cell), at(at) {}
    uint32_t block;
    uint64_t cell;
    Cell* at;
  };
  std::vector<Place>& touched() { return touched_; }
  void List(Cell& cell, uint32_t block, uint64_t index) {
    if (cell.listed) return;
    cell.listed = true;
    touched_.emplace_back(block, index, &cell);
  }

 private:
  static constexpr unsigned kPageShift = 6;  // cells of a page: 512 bytes of memory
  static constexpr uint64_t kPageMask = (1u << kPageShift) - 1;

  static constexpr unsigned kChunkShift = 8;
  [[gnu::always_inline]] Cell& CellAt(uint32_t i) {
    return chunks_[i >> kChunkShift][i & ((1u << kChunkShift) - 1)];
  }

  uint32_t NewPage(const Block& block, uint64_t page);
  uint32_t NewCell(uint64_t cell);

  struct FillRange {
    uint64_t start, end;
    uint8_t byte;
  };
  std::vector<Block> blocks_;
  std::vector<FillRange> fills_;
  std::vector<uint32_t> pages_;  // first slot of a page + 1
  std::vector<uint32_t> slots_;  // index of a cell + 1
  // In chunks, so that a reference to a cell stays good while others are made.
  std::vector<std::unique_ptr<Cell[]>> chunks_;
  uint32_t cell_count_ = 0;
  mutable size_t last_fill_ = 0;  // where InitialValue() found one
  std::vector<Place> touched_;
};

// Adds a value on its way to the masked bytes of a cell: what was there may be seen until it lands.
void AddValue(Cell& cell, uint64_t value, uint64_t mask, uint8_t unknown, uint64_t* counted_any);
// The CPU (or a completion that says so) put it there: only this value remains in those bytes.
void SetValue(Cell& cell, uint64_t value, uint64_t mask, uint8_t unknown);
// Bytes of the cell in which `seen` is none of the values it may hold (0: all explained).
uint8_t Unexplained(const Cell& cell, uint64_t seen);
// Bytes in which the values that may be held differ: what a reader cannot know.
uint8_t Unsure(const Cell& cell);

}  // namespace qpexam::judge

#endif  // QPEXAM_HARNESS_JUDGE_MEMORY_H_
