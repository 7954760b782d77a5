// Memory that the provider and the emulated device share, placed so that a byte written behind it
// is caught: under AddressSanitizer on its heap (redzones, use after free), otherwise right before
// a page that nobody may touch.
#ifndef QPEXAM_HARNESS_HOSTED_GUARDED_MEMORY_H_
#define QPEXAM_HARNESS_HOSTED_GUARDED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace qpexam::hosted {

class GuardedMemory {
 public:
  GuardedMemory() = default;
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  enum class Alignment : uint8_t { kCacheLine, kPage };
  // Zeroed. A size that is no multiple of the alignment is guarded to the alignment (to the byte
  // under AddressSanitizer). nullptr: no memory.
  uint8_t* Allocate(size_t size, Alignment alignment = Alignment::kCacheLine);
  void Free(uint8_t* data, size_t size);

 private:
  // Freed blocks by their number of pages: mapping costs more than a life cycle may.
  std::map<size_t, std::vector<uint8_t*>> free_;
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_GUARDED_MEMORY_H_
