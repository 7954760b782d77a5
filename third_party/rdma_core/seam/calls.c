// The redirected system calls: to whoever bound the fd or mapped the address, else to libc (never
// to syscall(), which sanitizers do not see).

#include "third_party/rdma_core/seam/calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "third_party/rdma_core/seam/seam.h"

// --- bound fds: a two-level table, since a posting driver looks one up for each doorbell ---------

enum { kPageFds = 1024, kPages = QPX_SEAM_MAX_FD / kPageFds };

struct binding {
  const struct qpx_seam_fd_ops *ops;
  void *owner;
};

struct page {
  _Atomic(struct binding *) bindings[kPageFds];
};

static _Atomic(struct page *) pages[kPages];

static _Atomic(struct binding *) *entry_of(int fd) {
  if (fd < 0 || fd >= QPX_SEAM_MAX_FD) return NULL;
  struct page *page = atomic_load_explicit(&pages[fd / kPageFds], memory_order_acquire);
  return page ? &page->bindings[fd % kPageFds] : NULL;
}

static struct binding *binding_of(int fd) {
  _Atomic(struct binding *) *entry = entry_of(fd);
  return entry ? atomic_load_explicit(entry, memory_order_acquire) : NULL;
}

static int add_page(int fd) {
  _Atomic(struct page *) *place = &pages[fd / kPageFds];
  if (atomic_load_explicit(place, memory_order_acquire)) return 0;
  struct page *page = calloc(1, sizeof(*page));
  if (!page) return -1;
  struct page *none = NULL;
  if (!atomic_compare_exchange_strong(place, &none, page)) free(page);  // another thread was faster
  return 0;
}

int qpx_seam_bind_fd(int fd, const struct qpx_seam_fd_ops *ops, void *owner) {
  if (fd < 0 || fd >= QPX_SEAM_MAX_FD) {
    errno = EBADF;
    return -1;
  }
  struct binding *binding = malloc(sizeof(*binding));
  if (!binding || add_page(fd)) {
    free(binding);
    errno = ENOMEM;
    return -1;
  }
  *binding = (struct binding){.ops = ops, .owner = owner};
  struct binding *none = NULL;
  if (!atomic_compare_exchange_strong(entry_of(fd), &none, binding)) {
    free(binding);
    errno = EEXIST;
    return -1;
  }
  return 0;
}

void qpx_seam_unbind_fd(int fd) {
  _Atomic(struct binding *) *entry = entry_of(fd);
  if (entry) free(atomic_exchange(entry, NULL));
}

int qpx_seam_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  struct binding *binding = binding_of(fd);
  if (binding && binding->ops->ioctl)
    return binding->ops->ioctl(binding->owner, fd, request, argument);
  return ioctl(fd, request, argument);
}

ssize_t qpx_seam_write(int fd, const void *bytes, size_t size) {
  struct binding *binding = binding_of(fd);
  if (binding && binding->ops->write) return binding->ops->write(binding->owner, fd, bytes, size);
  return write(fd, bytes, size);
}

int qpx_seam_close(int fd) {
  struct binding *binding = binding_of(fd);
  if (binding) {
    if (binding->ops->close) binding->ops->close(binding->owner, fd);
    qpx_seam_unbind_fd(fd);  // before the number can be given out again
  }
  return close(fd);
}

// --- mapped ranges: few, and touched only when objects come and go -------------------------------

struct range {
  uintptr_t start;
  size_t length;
  void *owner;
  int (*munmap)(void *owner, void *address, size_t length);  // NULL: the kernel's
};

static pthread_mutex_t ranges_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges;
static size_t range_count, range_capacity;

// The caller holds ranges_mutex.
static bool reserve_ranges(size_t more) {
  if (range_count + more <= range_capacity) return true;
  const size_t capacity = 2 * range_capacity + 16;
  struct range *grown = realloc(ranges, capacity * sizeof(*ranges));
  if (!grown) return false;
  ranges = grown;
  range_capacity = capacity;
  return true;
}

// Remembers who answers for a mapping; without memory for that, the mapping is given back.
static void *remember(void *address, struct range range) {
  if (address == MAP_FAILED) return address;
  range.start = (uintptr_t)address;
  pthread_mutex_lock(&ranges_mutex);
  const bool ok = reserve_ranges(1);
  if (ok) ranges[range_count++] = range;
  pthread_mutex_unlock(&ranges_mutex);
  if (ok) return address;
  if (range.munmap) {
    range.munmap(range.owner, address, range.length);
  } else {
    munmap(address, range.length);
  }
  errno = ENOMEM;
  return MAP_FAILED;
}

// Finds the remembered range that holds [start, start + length).
static bool find_range(uintptr_t start, size_t length, struct range *found) {
  pthread_mutex_lock(&ranges_mutex);
  bool hit = false;
  for (size_t i = range_count;
       i-- > 0 && !hit;) {  // the newest first: objects mostly go in reverse order
    if (start >= ranges[i].start && start - ranges[i].start < ranges[i].length &&
        length <= ranges[i].length - (start - ranges[i].start)) {
      *found = ranges[i];
      hit = true;
    }
  }
  pthread_mutex_unlock(&ranges_mutex);
  return hit;
}

// Forgets [start, start + length) of a range; what remains at either side stays remembered.
static void forget(const struct range *range, uintptr_t start, size_t length) {
  const uintptr_t end = start + length, range_end = range->start + range->length;
  pthread_mutex_lock(&ranges_mutex);
  for (size_t i = range_count; i-- > 0;) {
    if (ranges[i].start != range->start) continue;
    struct range left = ranges[i], right = ranges[i];
    left.length = start - range->start;
    right.start = end;
    right.length = range_end - end;
    if (left.length && right.length) {
      // Out of memory loses only the tail's owner: its munmap then goes to the kernel.
      ranges[i] = left;
      if (reserve_ranges(1)) ranges[range_count++] = right;
    } else if (left.length || right.length) {
      ranges[i] = left.length ? left : right;
    } else {
      ranges[i] = ranges[--range_count];
    }
    break;
  }
  pthread_mutex_unlock(&ranges_mutex);
}

void *qpx_seam_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
  const struct qpx_seam_hooks *hooks = &qpx_seam_active_hooks;
  if ((flags & MAP_ANONYMOUS) && !(flags & MAP_FIXED) && hooks->anonymous_mmap) {
    void *mapped = hooks->anonymous_mmap(hooks->owner, length, protection, flags);
    if (mapped != MAP_FAILED || errno != ENOSYS) {
      return remember(
          mapped, (struct range){
                      .length = length, .owner = hooks->owner, .munmap = hooks->anonymous_munmap});
    }
  }
  struct binding *binding = flags & MAP_ANONYMOUS ? NULL : binding_of(fd);
  if (binding && binding->ops->mmap) {
    void *mapped =
        binding->ops->mmap(binding->owner, fd, address, length, protection, flags, offset);
    return remember(
        mapped,
        (struct range){.length = length, .owner = binding->owner, .munmap = binding->ops->munmap});
  }
  return mmap(address, length, protection, flags, fd, offset);
}

int qpx_seam_munmap(void *address, size_t length) {
  struct range range;
  if (!find_range((uintptr_t)address, length, &range)) return munmap(address, length);
  const int result =
      range.munmap ? range.munmap(range.owner, address, length) : munmap(address, length);
  if (result == 0) forget(&range, (uintptr_t)address, length);
  return result;
}

// --- locks ---------------------------------------------------------------------------------------

static void report(const void *lock, enum qpx_seam_lock_event event) {
  const struct qpx_seam_hooks *hooks = &qpx_seam_active_hooks;
  if (__builtin_expect(hooks->lock != NULL, 0)) hooks->lock(hooks->owner, lock, event);
}

static int report_taken(const void *lock, int error) {
  if (!error) report(lock, QPX_SEAM_LOCK_TAKEN);
  return error;
}

int qpx_seam_pthread_spin_lock(pthread_spinlock_t *lock) {
  report((const void *)lock, QPX_SEAM_LOCK_WAIT);
  return report_taken((const void *)lock, pthread_spin_lock(lock));
}

int qpx_seam_pthread_spin_trylock(pthread_spinlock_t *lock) {
  return report_taken((const void *)lock, pthread_spin_trylock(lock));
}

int qpx_seam_pthread_spin_unlock(pthread_spinlock_t *lock) {
  report((const void *)lock, QPX_SEAM_LOCK_RELEASE);
  return pthread_spin_unlock(lock);
}

int qpx_seam_pthread_mutex_lock(pthread_mutex_t *mutex) {
  report(mutex, QPX_SEAM_LOCK_WAIT);
  return report_taken(mutex, pthread_mutex_lock(mutex));
}

int qpx_seam_pthread_mutex_trylock(pthread_mutex_t *mutex) {
  return report_taken(mutex, pthread_mutex_trylock(mutex));
}

int qpx_seam_pthread_mutex_unlock(pthread_mutex_t *mutex) {
  report(mutex, QPX_SEAM_LOCK_RELEASE);
  return pthread_mutex_unlock(mutex);
}
