// libibverbs' driver interface for C++17: <infiniband/driver.h>, which is written for C.
//
// Gives verbs_device, verbs_device_ops, verbs_context, verbs_context_ops, verbs_qp, verbs_cq,
// verbs_init_context(), verbs_set_ops(), verbs_register_driver() and their like, as the rdma-core
// of this build declares them. Include it instead of <infiniband/driver.h>, everywhere. Not
// available in C++: the kernel's command structures of kern-abi.h (use <rdma/ib_user_verbs.h>), the
// command buffers (use command.h), the match macros and PROVIDER_DRIVER (write out the
// verbs_match_ent, register in a static initialiser), and verbs_init_and_alloc_context() (allocate
// zeroed memory and call verbs_init_context(); the library frees nothing of it).
//
// Compiled with gcc 12 and clang 14 against rdma-core 44.0 to 65.0.

#ifndef THIRD_PARTY_RDMA_CORE_SEAM_DRIVER_H_
#define THIRD_PARTY_RDMA_CORE_SEAM_DRIVER_H_

#ifndef __cplusplus
#error "C includes <infiniband/driver.h> itself"
#endif

// All that driver.h includes and that is C++ as it stands, so that the extern "C" below holds only
// its declarations. config.h comes first: the others ask it what the compiler can do.
#include <config.h>
#include <sys/types.h>

#include <cassert>
#include <cerrno>
#include <cstdbool>
#include <cstddef>
#include <cstdint>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-parameter"

#include <ccan/container_of.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <util/compiler.h>
#include <util/util.h>

// driver.h has an atomic_int member, of C's kind; std::atomic<int> has the same layout. The header
// of C's kind stays out: clang's defines atomic_load() and others as macros, which breaks <memory>.
#include <atomic>
using std::atomic_int;
#define __CLANG_STDATOMIC_H

// typeof is a keyword of GNU C only.
#pragma push_macro("typeof")
#undef typeof
#define typeof __typeof__
#include <ccan/list.h>

// kern-abi.h and cmd_ioctl.h do not compile as C++. Of what they declare, driver.h needs the names
// below: the command structures only as pointers (declared where they are first named), and the
// means to append one attribute.
#define KERN_ABI_H
#define __INFINIBAND_VERBS_IOCTL_H

extern "C" {

struct ibv_command_buffer {
  bool fallback_ioctl_only;
};

#define fill_attr_in_ptr(command, attr_id, ptr) \
  static_cast<void>(command), static_cast<void>(attr_id), static_cast<void>(ptr)

#include <infiniband/driver.h>

#undef fill_attr_in_ptr

}  // extern "C"

#pragma pop_macro("typeof")
#pragma GCC diagnostic pop

#endif  // THIRD_PARTY_RDMA_CORE_SEAM_DRIVER_H_
