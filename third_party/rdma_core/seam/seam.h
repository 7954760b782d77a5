// The seam under @rdma_core: devices that this process itself offers to libibverbs.
//
// libibverbs finds devices in sysfs and talks to them through a file descriptor. This library
// stands where those two meet the kernel. Whoever registers a device here sees it in
// ibv_get_device_list() beside the machine's own, has it opened by ibv_open_device(), and answers
// its commands; the drivers above (rdma-core's own providers, or ours) are unmodified and notice
// nothing. It knows no verbs object and no model: reference/ and harness/hosted/ both build on it
// and neither knows the other.
//
// Four seams, from the outside in; a user takes those it needs:
//   1. a device       found, described and opened              qpx_seam_add_device()
//   2. its commands   every kernel command of its contexts      qpx_seam_device.command
//   3. its fds        ioctl, write, mmap, munmap, close on fds  qpx_seam_bind_fd()
//   4. its stores     doorbells, locks, anonymous rings         qpx_seam_set_hooks()
// Only calls made by rdma-core's own sources are seen. Fds, addresses and devices that nobody
// registered go on to libc and the kernel, so real devices stay reachable from the same program.
//
// Threads: registration and lookup may run in any thread. Hooks are set before providers run and
// stay. Errors are those of the call that is replaced: -1 and errno, or an errno value where so
// said.

#ifndef THIRD_PARTY_RDMA_CORE_SEAM_SEAM_H_
#define THIRD_PARTY_RDMA_CORE_SEAM_SEAM_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ib_uverbs_ioctl_hdr;
struct ibv_context;

// --- 1. devices ----------------------------------------------------------------------------------

// What libibverbs learns of a device before a driver opens it. Strings and owner must live until
// the device is removed.
struct qpx_seam_device {
  // Of ibv_get_device_name(), at most 63 characters, unique. Drivers may match by it (rxe does:
  // "rxe*").
  const char *name;
  // Drivers match it: "pci:v000015B3d00001017sv..." for a PCI driver, anything of our own for our
  // own driver.
  const char *modalias;
  // enum rdma_driver_id for drivers that match only by it (ionic); 0 (RDMA_DRIVER_UNKNOWN)
  // otherwise.
  uint32_t driver_id;
  // ABI version of the driver's commands, as a kernel driver's uverbs device has it in sysfs.
  uint32_t abi_version;
  uint32_t num_ports;
  // Host byte order; ibv_get_device_guid() gives it in network order.
  uint64_t node_guid;

  void *owner;

  // The text of a file below the device's sysfs folder ("fw_ver", "ports/1/pkeys/0",
  // "ports/1/gid_attrs/types/0"), or NULL when there is none; a newline at the end is not needed.
  // May be NULL: no files.
  const char *(*sysfs_file)(void *owner, const char *path);

  // The fd of a new context; the seam's caller owns and closes it. NULL: a fresh eventfd, which any
  // driver can close.
  int (*open)(void *owner);

  // A command of one of this device's contexts, as the kernel would get it by
  // ioctl(RDMA_VERBS_IOCTL): 0, or -1 and errno. command.h reads and answers it. When NULL, the
  // library issues ioctl() on the context's fd: see qpx_seam_bind_fd(). While a driver is in
  // alloc_context, of *context only device and cmd_fd can be relied on.
  int (*command)(void *owner, struct ibv_context *context, struct ib_uverbs_ioctl_hdr *command);

  // The Ethernet address and VLAN (0xffff: none) of a GID's owner, 0 or an errno value, for drivers
  // that resolve an address handle themselves. NULL: libibverbs asks the machine's routes and
  // neighbours by netlink, which know nothing of a device that is not there.
  int (*neighbour)(void *owner, const uint8_t gid[16], uint8_t mac[6], uint16_t *vlan);
};

// The device is in every list made from now on. Copies *device. Fails with EEXIST for a name in
// use, EINVAL for one that is missing or too long, ENOSPC beyond QPX_SEAM_MAX_DEVICES.
int qpx_seam_add_device(const struct qpx_seam_device *device);

// The device is in no list made from now on. Contexts that are still open must be closed first.
// ENODEV if unknown.
int qpx_seam_remove_device(const char *name);

enum { QPX_SEAM_MAX_DEVICES = 64 };

// --- 3. file descriptors -------------------------------------------------------------------------

// What the drivers' system calls on a bound fd do instead. A NULL member goes to the kernel, as if
// not bound.
struct qpx_seam_fd_ops {
  int (*ioctl)(void *owner, int fd, unsigned long request, void *argument);
  ssize_t (*write)(void *owner, int fd, const void *bytes, size_t size);
  // The seam remembers a range that was returned, and hands its munmap to the same owner.
  void *(*mmap)(void *owner, int fd, void *address, size_t length, int protection, int flags,
                off_t offset);
  // Called before the seam forgets the range. address and length as the driver gave them.
  int (*munmap)(void *owner, void *address, size_t length);
  // Called once, when a driver closes the fd; afterwards the seam unbinds it and closes it in libc.
  void (*close)(void *owner, int fd);
};

// Binds an open fd (a memfd, an eventfd, one end of a pipe). ops must be static. Fails with EBADF
// for an fd that is negative or above QPX_SEAM_MAX_FD, EEXIST for one already bound, ENOMEM.
int qpx_seam_bind_fd(int fd, const struct qpx_seam_fd_ops *ops, void *owner);

// For an fd that its owner closes itself. Ranges mapped through it stay with their owner. Unknown
// fds are ignored.
void qpx_seam_unbind_fd(int fd);

enum { QPX_SEAM_MAX_FD = 1 << 20 };

// --- 4. stores, locks, anonymous memory ----------------------------------------------------------

enum qpx_seam_lock_event {
  QPX_SEAM_LOCK_WAIT,     // about to take it, perhaps waiting
  QPX_SEAM_LOCK_TAKEN,    // holds it now
  QPX_SEAM_LOCK_RELEASE,  // about to release it
};

// Each may be NULL; then it costs its callers one predictable branch.
struct qpx_seam_hooks {
  void *owner;

  // A store to device memory by rdma-core's mmio_write*() (1 to 8 bytes, in memory order) or
  // mmio_memcpy_x64() (a multiple of 64, one call). Called instead of the store: nonzero when the
  // hook has consumed it, 0 to let it reach the memory at address. This is where a doorbell rings,
  // synchronously.
  int (*mmio_store)(void *owner, void *address, const void *bytes, size_t size);

  // A pthread spinlock or mutex of a driver or of libibverbs. A trylock that fails has no event.
  void (*lock)(void *owner, const void *lock, enum qpx_seam_lock_event event);

  // mmap() of anonymous memory (some drivers' rings) and its munmap(). Returning MAP_FAILED with
  // errno ENOSYS leaves it to the kernel. The seam remembers the ranges.
  void *(*anonymous_mmap)(void *owner, size_t length, int protection, int flags);
  int (*anonymous_munmap)(void *owner, void *address, size_t length);
};

// Replaces all hooks; NULL removes them. To be called while no provider code runs.
void qpx_seam_set_hooks(const struct qpx_seam_hooks *hooks);

// --- for what is compiled into @rdma_core --------------------------------------------------------

// What qpx_seam_set_hooks() was given; read directly so that an unset hook costs a load and a
// branch.
extern struct qpx_seam_hooks qpx_seam_active_hooks;

// Device numbers of registered devices have this major, which the kernel never gives out (its own
// end at 511).
enum { QPX_SEAM_MAJOR = 0xfff };

// The minor number of the device in a slot below QPX_SEAM_MAX_DEVICES, or -1 when the slot is free.
// No two registrations share a minor, so that a list that outlives its device cannot reach the next
// one.
int qpx_seam_minor_in_slot(unsigned int slot);

// The device with that minor, or NULL. Valid until it is removed.
const struct qpx_seam_device *qpx_seam_device_of_minor(unsigned int minor);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // THIRD_PARTY_RDMA_CORE_SEAM_SEAM_H_
