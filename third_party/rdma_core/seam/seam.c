// Registered devices and hooks; see seam.h. The redirected calls are in calls.c.

#include "third_party/rdma_core/seam/seam.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

// IBV_SYSFS_NAME_MAX of libibverbs, terminator included.
enum { kNameSize = 64 };

struct slot {
  // 0 when free: written last at registration, first at removal. Minors of a slot are slot + n *
  // QPX_SEAM_MAX_DEVICES with n from 1, so none is 0 and the slot follows from the minor.
  atomic_uint minor;
  unsigned int registrations;
  struct qpx_seam_device device;
};

static pthread_mutex_t slots_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct slot slots[QPX_SEAM_MAX_DEVICES];

struct qpx_seam_hooks qpx_seam_active_hooks;

void qpx_seam_set_hooks(const struct qpx_seam_hooks *hooks) {
  static const struct qpx_seam_hooks none;
  qpx_seam_active_hooks = hooks ? *hooks : none;
}

static unsigned int minor_of(struct slot *slot) {
  return atomic_load_explicit(&slot->minor, memory_order_acquire);
}

// The caller holds slots_mutex.
static struct slot *find_by_name(const char *name) {
  for (size_t i = 0; i < QPX_SEAM_MAX_DEVICES; i++) {
    if (minor_of(&slots[i]) && !strcmp(slots[i].device.name, name)) return &slots[i];
  }
  return NULL;
}

// The caller holds slots_mutex.
static struct slot *find_free(void) {
  for (size_t i = 0; i < QPX_SEAM_MAX_DEVICES; i++) {
    if (!minor_of(&slots[i])) return &slots[i];
  }
  return NULL;
}

int qpx_seam_add_device(const struct qpx_seam_device *device) {
  if (!device->name || !device->modalias || !device->name[0] || strlen(device->name) >= kNameSize) {
    errno = EINVAL;
    return -1;
  }
  int error = 0;
  pthread_mutex_lock(&slots_mutex);
  struct slot *slot = find_free();
  if (find_by_name(device->name)) {
    error = EEXIST;
  } else if (!slot) {
    error = ENOSPC;
  } else {
    slot->device = *device;
    slot->registrations++;
    const unsigned int index = (unsigned int)(slot - slots);
    atomic_store_explicit(&slot->minor, index + slot->registrations * QPX_SEAM_MAX_DEVICES,
                          memory_order_release);
  }
  pthread_mutex_unlock(&slots_mutex);
  if (!error) return 0;
  errno = error;
  return -1;
}

int qpx_seam_remove_device(const char *name) {
  pthread_mutex_lock(&slots_mutex);
  struct slot *slot = find_by_name(name);
  if (slot) atomic_store_explicit(&slot->minor, 0, memory_order_release);
  pthread_mutex_unlock(&slots_mutex);
  if (slot) return 0;
  errno = ENODEV;
  return -1;
}

int qpx_seam_minor_in_slot(unsigned int slot) {
  const unsigned int minor = slot < QPX_SEAM_MAX_DEVICES ? minor_of(&slots[slot]) : 0;
  return minor ? (int)minor : -1;
}

const struct qpx_seam_device *qpx_seam_device_of_minor(unsigned int minor) {
  struct slot *slot = &slots[minor % QPX_SEAM_MAX_DEVICES];
  return minor && minor_of(slot) == minor ? &slot->device : NULL;
}
