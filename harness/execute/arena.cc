#include "harness/execute/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "harness/program/layout.h"

namespace qpexam {
namespace {
constexpr size_t kPage = 4096;
constexpr size_t kCell = 8;

size_t RoundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

// As memcmp() == 0; a whole cell without a call.
bool Same(const uint8_t* a, const uint8_t* b, size_t size) {
  if (size != kCell) return std::memcmp(a, b, size) == 0;
  uint64_t x, y;
  std::memcpy(&x, a, kCell);
  std::memcpy(&y, b, kCell);
  return x == y;
}
}  // namespace

Arena::~Arena() {
  if (memory_) munmap(memory_, capacity_);
}

void Arena::Begin(size_t size) {
  size_t wanted = RoundUp(std::max(size, kPage), kPage);
  if (wanted > capacity_) {
    if (memory_) munmap(memory_, capacity_);
    void* fresh = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) {
      memory_ = nullptr;
      capacity_ = 0;
      throw std::bad_alloc();
    }
    memory_ = static_cast<uint8_t*>(fresh);
    capacity_ = wanted;
    recorded_.assign(wanted, 0);
  } else {
    std::memset(memory_, 0, lent_);
    std::memset(recorded_.data(), 0, lent_);
  }
  size_ = std::max(size, kPage);
  used_ = lent_ = 0;
  regions_.clear();
}

uint8_t* Arena::Allocate(ObjectId mr, size_t size) {
  size_t start = RoundUp(used_, kMrAlignment);
  if (start > size_ || size > size_ - start) return nullptr;
  used_ = start + size;
  lent_ = std::max(lent_, used_);
  regions_.push_back({mr, start, size});
  return memory_ + start;
}

void Arena::Store(uint8_t* at, const uint8_t* bytes, size_t size) {
  std::memcpy(at, bytes, size);
  std::memcpy(recorded_.data() + (at - memory_), bytes, size);
}

void Arena::Fill(uint8_t* at, uint8_t byte, size_t size) {
  std::memset(at, byte, size);
  std::memset(recorded_.data() + (at - memory_), byte, size);
}

bool Arena::Contains(const uint8_t* at, size_t size) const {
  // Compared as numbers: the pointer may be anything that a Program wrote down.
  uintptr_t address = reinterpret_cast<uintptr_t>(at);
  uintptr_t start = reinterpret_cast<uintptr_t>(memory_);
  return address >= start && address - start <= size_ && size <= size_ - (address - start);
}

bool Arena::Lend(const uint8_t* at, size_t size) {
  if (!Contains(at, size)) return false;
  lent_ = std::max(lent_, static_cast<size_t>(at - memory_) + size);
  return true;
}

void Arena::RecordChanges(Trace* trace) {
  if (used_ == 0 || std::memcmp(memory_, recorded_.data(), used_) == 0) return;
  for (const ArenaRegion& region : regions_) RecordRegion(region, trace);
}

void Arena::RecordRegion(const ArenaRegion& region, Trace* trace) {
  const uint8_t* now = memory_ + region.start;
  uint8_t* before = recorded_.data() + region.start;
  size_t at = 0;
  while (at < region.size) {
    size_t cell = std::min(kCell, region.size - at);
    if (Same(now + at, before + at, cell)) {
      at += cell;
      continue;
    }
    size_t end = at + cell;
    while (end < region.size) {
      cell = std::min(kCell, region.size - end);
      if (Same(now + end, before + end, cell)) break;
      end += cell;
    }
    // One copy of the memory is taken and both recorded and kept: a device may write meanwhile.
    std::memcpy(before + at, now + at, end - at);
    SeenMemory seen;
    seen.mr = region.mr;
    seen.offset = at;
    seen.first = static_cast<uint32_t>(trace->bytes.size());
    seen.size = static_cast<uint32_t>(end - at);
    trace->bytes.insert(trace->bytes.end(), before + at, before + end);
    trace->memory.push_back(seen);
    at = end;
  }
}

void Arena::RecordBytes(const uint8_t* at, size_t size, ObjectId mr, uint64_t offset,
                        Trace* trace) {
  SeenMemory seen;
  seen.mr = mr;
  seen.offset = offset;
  seen.first = static_cast<uint32_t>(trace->bytes.size());
  seen.size = static_cast<uint32_t>(size);
  trace->bytes.insert(trace->bytes.end(), at, at + size);
  std::memcpy(recorded_.data() + (at - memory_), trace->bytes.data() + seen.first, size);
  trace->memory.push_back(seen);
}

}  // namespace qpexam
