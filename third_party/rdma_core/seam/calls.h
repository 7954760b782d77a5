// The calls that rdma-core's sources make instead of libc's. The BUILD file renames ioctl to
// qpx_seam_ioctl and so on for those sources alone (a -D each, so that libc's own headers declare
// the new name with the right signature, and structure members of the same name stay consistent).

#ifndef THIRD_PARTY_RDMA_CORE_SEAM_CALLS_H_
#define THIRD_PARTY_RDMA_CORE_SEAM_CALLS_H_

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

int qpx_seam_ioctl(int fd, unsigned long request, ...);
ssize_t qpx_seam_write(int fd, const void *bytes, size_t size);
void *qpx_seam_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int qpx_seam_munmap(void *address, size_t length);
int qpx_seam_close(int fd);

int qpx_seam_pthread_spin_lock(pthread_spinlock_t *lock);
int qpx_seam_pthread_spin_trylock(pthread_spinlock_t *lock);
int qpx_seam_pthread_spin_unlock(pthread_spinlock_t *lock);
int qpx_seam_pthread_mutex_lock(pthread_mutex_t *mutex);
int qpx_seam_pthread_mutex_trylock(pthread_mutex_t *mutex);
int qpx_seam_pthread_mutex_unlock(pthread_mutex_t *mutex);

#endif  // THIRD_PARTY_RDMA_CORE_SEAM_CALLS_H_
