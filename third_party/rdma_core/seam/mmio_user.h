// Stores as a driver makes them: compiled like rdma-core's sources, for calls_test.

#ifndef THIRD_PARTY_RDMA_CORE_SEAM_MMIO_USER_H_
#define THIRD_PARTY_RDMA_CORE_SEAM_MMIO_USER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void MmioWrite32(void *address, uint32_t value);
void MmioWrite64Be(void *address, uint64_t value);
void MmioCopy64(void *address, const void *bytes);

#ifdef __cplusplus
}
#endif

#endif  // THIRD_PARTY_RDMA_CORE_SEAM_MMIO_USER_H_
