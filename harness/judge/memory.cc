#include "harness/judge/memory.h"

#include <algorithm>

namespace qpexam::judge {

void Memory::Clear() {
  blocks_.clear();
  fills_.clear();
  pages_.clear();
  slots_.clear();
  cell_count_ = 0;
  touched_.clear();
}

uint32_t Memory::AddBlock(uint64_t size) {
  Block block;
  block.size = size;
  block.pages = static_cast<uint32_t>(pages_.size());
  const uint64_t cells = (size + 7) / 8;
  pages_.resize(pages_.size() + (cells >> kPageShift) + 1, 0);
  blocks_.push_back(block);
  return static_cast<uint32_t>(blocks_.size() - 1);
}

uint32_t Memory::NewPage(const Block& block, uint64_t page) {
  const uint64_t cells = (block.size + 7) / 8;
  const uint64_t first = page << kPageShift;
  const uint64_t count = cells - first < (kPageMask + 1) ? cells - first : kPageMask + 1;
  const auto at = static_cast<uint32_t>(slots_.size());
  slots_.resize(slots_.size() + count, 0);
  return at + 1;
}

void Memory::AddFill(uint64_t start, uint64_t size, uint8_t fill) {
  fills_.push_back({start, start + size, fill});
  // Cells that something has looked at before the region was made.
  for (uint64_t cell = start / 8; cell_count_ != 0 && cell * 8 < start + size; ++cell) {
    if (pages_[blocks_[0].pages + (cell >> kPageShift)] == 0) {
      cell |= kPageMask;
      continue;
    }
    Cell* known = Find(0, cell);
    if (known == nullptr) continue;
    const uint64_t end = std::min<uint64_t>(8, start + size - cell * 8);
    SetValue(*known, fill * 0x0101010101010101ull, RangeMask(0, static_cast<unsigned>(end)), 0);
    known->seen = known->value;
  }
}

uint64_t Memory::InitialValue(uint64_t cell) const {
  const uint64_t from = cell * 8, to = from + 8;
  // Regions begin at multiples of 64, so that a cell meets one at most; cells are asked for in
  // stretches.
  if (last_fill_ >= fills_.size() || from < fills_[last_fill_].start ||
      from >= fills_[last_fill_].end) {
    const auto it = std::upper_bound(fills_.begin(), fills_.end(), from,
                                     [](uint64_t at, const FillRange& f) { return at < f.start; });
    if (it == fills_.begin() || (it - 1)->end <= from) return 0;
    last_fill_ = static_cast<size_t>(it - 1 - fills_.begin());
  }
  const FillRange& f = fills_[last_fill_];
  const uint64_t value = f.byte * 0x0101010101010101ull;
  return f.end >= to ? value : value & RangeMask(0, static_cast<unsigned>(f.end - from));
}

uint32_t Memory::NewCell(uint64_t index) {
  if ((cell_count_ >> kChunkShift) == chunks_.size()) {
    chunks_.push_back(std::make_unique<Cell[]>(1u << kChunkShift));
  }
  Cell& cell = CellAt(cell_count_++);
  cell = Cell{};
  cell.value = cell.seen = InitialValue(index);
  return cell_count_;
}

void AddValue(Cell& cell, uint64_t value, uint64_t mask, uint8_t unknown, uint64_t* counted_any) {
  const uint64_t next = (cell.value & ~mask) | (value & mask);
  const uint8_t bytes = NonZeroBytes(mask);
  // What is unknown stays so where the new value does not cover it; what the old value left
  // unknown may be seen until the new one lands, which the mask of `any` says too.
  const uint8_t old_any = cell.any & bytes;
  if (old_any) {
    cell.any_old = true;
    ++*counted_any;
  }
  {
    // Also where nothing differs: that something is on its way is what old values say.
    bool known = false;
    for (int i = 0; i < cell.old_count; ++i) known |= cell.old[i] == cell.value;
    if (!known) {
      if (cell.old_count < 3) {
        cell.old[cell.old_count++] = cell.value;
      } else {
        cell.any_old = true;
        ++*counted_any;
      }
    }
  }
  cell.value = next;
  cell.any = static_cast<uint8_t>((cell.any & ~bytes) | (unknown & bytes));
}

void SetValue(Cell& cell, uint64_t value, uint64_t mask, uint8_t unknown) {
  cell.value = (cell.value & ~mask) | (value & mask);
  const uint8_t bytes = NonZeroBytes(mask);
  cell.any = static_cast<uint8_t>((cell.any & ~bytes) | (unknown & bytes));
  if (mask == ~uint64_t{0}) {
    cell.old_count = 0;
    cell.open = cell.any_old = cell.mixed = false;
    return;
  }
  for (int i = 0; i < cell.old_count; ++i) cell.old[i] = (cell.old[i] & ~mask) | (value & mask);
}

uint8_t Unexplained(const Cell& cell, uint64_t seen) {
  uint8_t wrong = NonZeroBytes(seen ^ cell.value);
  if (wrong == 0) return 0;
  wrong &= static_cast<uint8_t>(~cell.any);
  if (wrong == 0 || cell.any_old) return 0;
  for (int i = 0; i < cell.old_count && wrong; ++i) wrong &= NonZeroBytes(seen ^ cell.old[i]);
  return wrong;
}

uint8_t Unsure(const Cell& cell) {
  if (cell.any_old) return 0xff;
  uint8_t unsure = cell.any;
  for (int i = 0; i < cell.old_count; ++i) unsure |= NonZeroBytes(cell.old[i] ^ cell.value);
  return unsure;
}

}  // namespace qpexam::judge
