// libibverbs' driver interface (<infiniband/driver.h>) for C++17: the only place that includes it.
//
// driver.h is C. It compiles as C++ inside extern "C" once what it includes has been included before
// and the two headers that are C only are replaced by the few declarations that driver.h itself
// needs of them: kern-abi.h (anonymous members inside unions, used by pointer only) and cmd_ioctl.h
// (flexible array members initialised by macros; g++ rejects them). Checked against 44.0, 56.1, 65.0.
#ifndef QPEXAM_THIRD_PARTY_RDMA_CORE_SEAM_DRIVER_H_
#define QPEXAM_THIRD_PARTY_RDMA_CORE_SEAM_DRIVER_H_

// driver.h's own includes, outside extern "C".
#include <config.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/types.h>

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>

// Stand-ins for the two C-only headers: their include guards, and what driver.h and we name.
#define KERN_ABI_H
#define __INFINIBAND_VERBS_IOCTL_H
struct ib_uverbs_attr;
// Never made or read from C++: only the member that 65.0's driver.h names.
struct ibv_command_buffer {
  uint8_t fallback_ioctl_only : 1;
};

#if defined(__GNUC__) && !defined(__clang__)
// <stdatomic.h> of g++ 12 is empty in C++17: driver.h's atomic_int is std::atomic_int.
using std::atomic_int;
#endif

#define typeof __typeof__

extern "C" {
#include <ccan/list.h>

// Used by one inline helper of 65.0's driver.h that only providers written in C call.
inline ib_uverbs_attr* fill_attr_in_ptr(ibv_command_buffer*, uint16_t, const void*) {
  return nullptr;
}

#include <infiniband/driver.h>
}

#undef typeof

#endif  // QPEXAM_THIRD_PARTY_RDMA_CORE_SEAM_DRIVER_H_
