#include "third_party/rdma_core/seam/mmio_user.h"

#include <endian.h>
#include <util/mmio.h>

void MmioWrite32(void *address, uint32_t value) { mmio_write32(address, value); }

void MmioWrite64Be(void *address, uint64_t value) { mmio_write64_be(address, htobe64(value)); }

void MmioCopy64(void *address, const void *bytes) { mmio_memcpy_x64(address, bytes, 64); }
