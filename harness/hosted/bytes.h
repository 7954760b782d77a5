// Reading and writing scalars at byte offsets, in host or network order.
#ifndef QPEXAM_HARNESS_HOSTED_BYTES_H_
#define QPEXAM_HARNESS_HOSTED_BYTES_H_

#include <endian.h>

#include <cstdint>
#include <cstring>

namespace qpexam::hosted {

template <typename T>
T Get(const uint8_t* base, size_t offset) {
  T value;
  std::memcpy(&value, base + offset, sizeof value);
  return value;
}

template <typename T>
void Put(uint8_t* base, size_t offset, T value) {
  std::memcpy(base + offset, &value, sizeof value);
}

inline uint16_t GetBe16(const uint8_t* b, size_t o) { return be16toh(Get<uint16_t>(b, o)); }
inline uint32_t GetBe32(const uint8_t* b, size_t o) { return be32toh(Get<uint32_t>(b, o)); }
inline uint64_t GetBe64(const uint8_t* b, size_t o) { return be64toh(Get<uint64_t>(b, o)); }
inline void PutBe16(uint8_t* b, size_t o, uint16_t v) { Put<uint16_t>(b, o, htobe16(v)); }
inline void PutBe32(uint8_t* b, size_t o, uint32_t v) { Put<uint32_t>(b, o, htobe32(v)); }
inline void PutBe64(uint8_t* b, size_t o, uint64_t v) { Put<uint64_t>(b, o, htobe64(v)); }

// Indices that provider and device share: the provider's side is atomic.
inline uint32_t LoadShared32(const uint8_t* at) {
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(at), __ATOMIC_ACQUIRE);
}
inline void StoreShared32(uint8_t* at, uint32_t value) {
  __atomic_store_n(reinterpret_cast<uint32_t*>(at), value, __ATOMIC_RELEASE);
}

constexpr uint32_t RoundUpToPowerOf2(uint32_t v) {
  uint32_t p = 1;
  while (p < v) p <<= 1;
  return p;
}
constexpr uint32_t Log2(uint32_t power_of_2) {
  uint32_t l = 0;
  while ((uint32_t{1} << l) < power_of_2) ++l;
  return l;
}

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_BYTES_H_
