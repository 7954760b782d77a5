#include "harness/hosted/guarded_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace qpexam::hosted {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kOnHeap = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kOnHeap = true;
#else
constexpr bool kOnHeap = false;
#endif
#else
constexpr bool kOnHeap = false;
#endif

constexpr size_t kPage = 4096, kLine = 64;

size_t PagesFor(size_t size) { return (size + kPage - 1) / kPage; }
// The block ends at a page: where in its pages it begins.
size_t LeadOf(size_t size) { return PagesFor(size) * kPage - (size + kLine - 1) / kLine * kLine; }

}  // namespace

GuardedMemory::~GuardedMemory() {
  for (auto& [pages, blocks] : free_) {
    for (uint8_t* block : blocks) munmap(block, (pages + 1) * kPage);
  }
}

uint8_t* GuardedMemory::Allocate(size_t size, Alignment alignment) {
  if (size == 0) size = 1;
  if (alignment == Alignment::kPage) size = PagesFor(size) * kPage;
  if (kOnHeap) {
    void* data = nullptr;
    if (posix_memalign(&data, alignment == Alignment::kPage ? kPage : kLine, size) != 0) {
      return nullptr;
    }
    std::memset(data, 0, size);
    return static_cast<uint8_t*>(data);
  }
  const size_t pages = PagesFor(size);
  std::vector<uint8_t*>& cache = free_[pages];
  uint8_t* block;
  if (!cache.empty()) {
    block = cache.back();
    cache.pop_back();
  } else {
    void* mapped = mmap(nullptr, (pages + 1) * kPage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    block = static_cast<uint8_t*>(mapped);
    mprotect(block + pages * kPage, kPage, PROT_NONE);
  }
  uint8_t* data = block + LeadOf(size);
  std::memset(data, 0, size);
  return data;
}

void GuardedMemory::Free(uint8_t* data, size_t size) {
  if (data == nullptr) return;
  if (size == 0) size = 1;
  if (kOnHeap) {
    std::free(data);
    return;
  }
  uint8_t* block = reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(data) & ~(kPage - 1));
  free_[PagesFor(size)].push_back(block);
}

}  // namespace qpexam::hosted
