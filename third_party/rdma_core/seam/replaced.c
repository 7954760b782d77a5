// The functions of libibverbs and its util library by which it finds, opens and commands a device,
// and asks the network for an address. Compiled into @rdma_core, where the originals are compiled
// under the names qpx_real_*. For devices that nobody registered with the seam each does what the
// original does.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/driver.h>
#include <libibverbs/ibverbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <util/util.h>

#include "third_party/rdma_core/seam/seam.h"

int qpx_real_find_sysfs_devs_nl(struct list_head *list);
int qpx_real_open_cdev(const char *devname_hint, dev_t cdev);
int qpx_real_execute_ioctl(struct ibv_context *context, struct ibv_command_buffer *command);

// What the original execute_ioctl calls instead of ioctl(): the BUILD file names it so.
int qpx_seam_command_ioctl(int fd, unsigned long request, ...);

// libibverbs' idea of the kernel's ABI version, 0 until it has read it (init.c).
extern int abi_ver;

// ibdev_idx of our devices: beyond what a kernel counts up to, so that none is taken for a real
// one.
enum { kFirstIndex = 1 << 24 };

// --- listing -------------------------------------------------------------------------------------

static void append(struct list_head *list, const struct qpx_seam_device *device,
                   unsigned int minor) {
  struct verbs_sysfs_dev *entry = calloc(1, sizeof(*entry));
  if (!entry) return;
  snprintf(entry->ibdev_name, sizeof(entry->ibdev_name), "%s", device->name);
  snprintf(entry->sysfs_name, sizeof(entry->sysfs_name), "uverbs-seam%u", minor);
  // No folder is there: tools that read attribute files by path get "no such file".
  snprintf(entry->ibdev_path, sizeof(entry->ibdev_path), "/nonexistent/seam/%s", device->name);
  snprintf(entry->modalias, sizeof(entry->modalias), "%s", device->modalias);
  entry->sysfs_cdev = makedev(QPX_SEAM_MAJOR, minor);
  entry->flags = VSYSFS_READ_MODALIAS | VSYSFS_READ_NODE_GUID;
  entry->node_guid = device->node_guid;
  entry->driver_id = device->driver_id;
  entry->node_type = IBV_NODE_CA;
  entry->ibdev_idx = kFirstIndex + (int)minor;
  entry->num_ports = device->num_ports;
  entry->abi_ver = device->abi_version;
  list_add_tail(list, &entry->entry);
}

// One device of the machine, as libibverbs reads it when it has no netlink.
static void append_real(struct list_head *list, int class_fd, const char *uverbs) {
  const int fd = openat(class_fd, uverbs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  struct verbs_sysfs_dev *entry = calloc(1, sizeof(*entry));
  char node_type[32];
  bool usable = false;
  if (entry) {
    entry->ibdev_idx = -1;
    usable =
        ibv_read_sysfs_file_at(fd, "ibdev", entry->ibdev_name, sizeof(entry->ibdev_name)) >= 0 &&
        check_snprintf(entry->ibdev_path, sizeof(entry->ibdev_path), "%s/class/infiniband/%s",
                       ibv_get_sysfs_path(), entry->ibdev_name) &&
        !setup_sysfs_uverbs(fd, uverbs, entry);
  }
  if (usable) {
    entry->node_type =
        ibv_read_ibdev_sysfs_file(node_type, sizeof(node_type), entry, "node_type") > 0
            ? decode_knode_type((unsigned int)strtoul(node_type, NULL, 10))
            : IBV_NODE_UNKNOWN;
    usable = !try_access_device(entry);
  }
  close(fd);
  if (usable) {
    list_add_tail(list, &entry->entry);
  } else {
    free(entry);
  }
}

static void append_real_devices(struct list_head *list) {
  char path[IBV_SYSFS_PATH_MAX];
  if (!check_snprintf(path, sizeof(path), "%s/class/infiniband_verbs", ibv_get_sysfs_path()))
    return;
  DIR *folder = opendir(path);
  if (!folder) return;  // a machine without RDMA
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] != '.') append_real(list, dirfd(folder), entry->d_name);
  }
  closedir(folder);
}

// Every device, real or ours. Always succeeds: returning an error would make the library list the
// real ones alone.
int find_sysfs_devs_nl(struct list_head *list) {
  if (qpx_real_find_sysfs_devs_nl(list)) append_real_devices(list);
  const bool any_real = !list_empty(list);
  for (unsigned int slot = 0; slot < QPX_SEAM_MAX_DEVICES; slot++) {
    const int minor = qpx_seam_minor_in_slot(slot);
    const struct qpx_seam_device *device =
        minor < 0 ? NULL : qpx_seam_device_of_minor((unsigned int)minor);
    if (device) append(list, device, (unsigned int)minor);
  }
  // The library refuses all devices when the kernel states no ABI version, which one without RDMA
  // does not.
  if (!any_real && !list_empty(list) && !abi_ver) abi_ver = IB_USER_VERBS_MAX_ABI_VERSION;
  return 0;
}

// --- opening, reading, commanding ----------------------------------------------------------------

static const struct qpx_seam_device *device_of(const struct verbs_sysfs_dev *entry) {
  if (!entry || major(entry->sysfs_cdev) != QPX_SEAM_MAJOR) return NULL;
  return qpx_seam_device_of_minor(minor(entry->sysfs_cdev));
}

int open_cdev(const char *devname_hint, dev_t cdev) {
  if (major(cdev) != QPX_SEAM_MAJOR) return qpx_real_open_cdev(devname_hint, cdev);
  const struct qpx_seam_device *device = qpx_seam_device_of_minor(minor(cdev));
  if (!device) {
    errno = ENODEV;  // it was removed since the list was made
    return -1;
  }
  return device->open ? device->open(device->owner) : eventfd(0, EFD_CLOEXEC);
}

static int read_registered(const struct qpx_seam_device *device, const char *path, char *buf,
                           size_t size) {
  const char *text = device->sysfs_file ? device->sysfs_file(device->owner, path) : NULL;
  if (!text) {
    errno = ENOENT;
    return -1;
  }
  size_t length = strlen(text);
  if (length > 0 && text[length - 1] == '\n') length--;
  if (length >= size) {
    errno = EOVERFLOW;  // the original fails as well rather than cut a value short
    return -1;
  }
  memcpy(buf, text, length);
  buf[length] = '\0';
  return (int)length;
}

int ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct verbs_sysfs_dev *sysfs_dev,
                              const char *fnfmt, ...) {
  if (!sysfs_dev) {
    errno = EINVAL;
    return -1;
  }
  char path[256];
  va_list arguments;
  va_start(arguments, fnfmt);
  const int needed = vsnprintf(path, sizeof(path), fnfmt, arguments);
  va_end(arguments);
  if (needed < 0 || (size_t)needed >= sizeof(path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  const struct qpx_seam_device *device = device_of(sysfs_dev);
  if (device) return read_registered(device, path, buf, size);
  return ibv_read_sysfs_file(sysfs_dev->ibdev_path, path, buf, size);
}

// The context whose command the original execute_ioctl is issuing in this thread, if a registered
// device answers it.
static _Thread_local struct ibv_context *commanding;

int execute_ioctl(struct ibv_context *context, struct ibv_command_buffer *command) {
  const struct qpx_seam_device *device = device_of(verbs_get_device(context->device)->sysfs);
  // The original puts the command into its final form and takes the answers out of it.
  struct ibv_context *outer = commanding;
  commanding = device && device->command ? context : NULL;
  const int error = qpx_real_execute_ioctl(context, command);
  commanding = outer;
  return error;
}

int qpx_seam_command_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  if (!commanding) return ioctl(fd, request, argument);
  const struct qpx_seam_device *device = device_of(verbs_get_device(commanding->device)->sysfs);
  return device->command(device->owner, commanding, argument);
}

// --- the network ---------------------------------------------------------------------------------

int qpx_real_ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                         uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid) {
  const struct qpx_seam_device *device = device_of(verbs_get_device(context->device)->sysfs);
  if (!device || !device->neighbour)
    return qpx_real_ibv_resolve_eth_l2_from_gid(context, attr, eth_mac, vid);
  // As the original: an unknown GID of our own fails before anybody is asked.
  union ibv_gid own;
  const int error = ibv_query_gid(context, attr->port_num, attr->grh.sgid_index, &own);
  if (error) return error;
  uint16_t vlan = 0xffff;
  const int failed = device->neighbour(device->owner, attr->grh.dgid.raw, eth_mac, &vlan);
  if (vid) *vid = vlan;
  return -failed;
}

// --- ThreadSanitizer -----------------------------------------------------------------------------

#if defined(__SANITIZE_THREAD__)
#define QPX_SEAM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QPX_SEAM_TSAN 1
#endif
#endif

#ifdef QPX_SEAM_TSAN
// libibverbs notes without a lock that memory was registered before ibv_fork_init(): known, and of
// no consequence.
const char *__tsan_default_suppressions(void) { return "race:ibv_dontfork_range\n"; }
#endif
