// Stands before rdma-core's own <util/mmio.h> on the include path of its sources: the same
// functions, with the seam's hook for stores. See seam.h.

#ifndef THIRD_PARTY_RDMA_CORE_SEAM_OVERLAY_UTIL_MMIO_H_
#define THIRD_PARTY_RDMA_CORE_SEAM_OVERLAY_UTIL_MMIO_H_

#include_next <util/mmio.h>

#include "third_party/rdma_core/seam/seam.h"

static inline int qpx_seam_took_store(void *address, const void *bytes, size_t size) {
  if (__builtin_expect(!qpx_seam_active_hooks.mmio_store, 1)) return 0;
  return qpx_seam_active_hooks.mmio_store(qpx_seam_active_hooks.owner, address, bytes, size);
}

// The stores of rdma-core call one another (mmio_write32 is mmio_write32_le of a swapped value),
// but below this point only their users are renamed: each store meets the hook once, with its bytes
// as the device would see them.
#define QPX_SEAM_STORE(function, type, to_memory_order)                                 \
  static inline void qpx_seam_##function(void *address, type value) {                   \
    const type bytes = to_memory_order(value);                                          \
    if (!qpx_seam_took_store(address, &bytes, sizeof(bytes))) function(address, value); \
  }

#define QPX_SEAM_AS_IS(value) (value)

QPX_SEAM_STORE(mmio_write8, uint8_t, QPX_SEAM_AS_IS)
QPX_SEAM_STORE(mmio_write16, uint16_t, htole16)
QPX_SEAM_STORE(mmio_write16_be, __be16, QPX_SEAM_AS_IS)
QPX_SEAM_STORE(mmio_write16_le, __le16, QPX_SEAM_AS_IS)
QPX_SEAM_STORE(mmio_write32, uint32_t, htole32)
QPX_SEAM_STORE(mmio_write32_be, __be32, QPX_SEAM_AS_IS)
QPX_SEAM_STORE(mmio_write32_le, __le32, QPX_SEAM_AS_IS)
QPX_SEAM_STORE(mmio_write64, uint64_t, htole64)
QPX_SEAM_STORE(mmio_write64_be, __be64, QPX_SEAM_AS_IS)
QPX_SEAM_STORE(mmio_write64_le, __le64, QPX_SEAM_AS_IS)

static inline void qpx_seam_mmio_memcpy_x64(void *address, const void *bytes, size_t size) {
  if (!qpx_seam_took_store(address, bytes, size)) mmio_memcpy_x64(address, bytes, size);
}

#undef QPX_SEAM_STORE
#undef QPX_SEAM_AS_IS
#undef mmio_memcpy_x64  // a macro on some architectures

#define mmio_write8 qpx_seam_mmio_write8
#define mmio_write16 qpx_seam_mmio_write16
#define mmio_write16_be qpx_seam_mmio_write16_be
#define mmio_write16_le qpx_seam_mmio_write16_le
#define mmio_write32 qpx_seam_mmio_write32
#define mmio_write32_be qpx_seam_mmio_write32_be
#define mmio_write32_le qpx_seam_mmio_write32_le
#define mmio_write64 qpx_seam_mmio_write64
#define mmio_write64_be qpx_seam_mmio_write64_be
#define mmio_write64_le qpx_seam_mmio_write64_le
#define mmio_memcpy_x64 qpx_seam_mmio_memcpy_x64

#endif  // THIRD_PARTY_RDMA_CORE_SEAM_OVERLAY_UTIL_MMIO_H_
