"""How a provider's sources are compiled, rdma-core's own and a vendor's."""

# Calls that the seam redirects (calls.h), and stores and locks that it can watch.
_REDIRECTED = [
    "close",
    "ioctl",
    "mmap",
    "munmap",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_unlock",
    "pthread_spin_lock",
    "pthread_spin_trylock",
    "pthread_spin_unlock",
    "write",
]

def provider_copts(warnings):
    # Symbol versioning is compiled out, so no version script is needed.
    return ["-std=gnu11"] + warnings + [
        "-D_STATIC_LIBRARY_BUILD_=1",
    ] + ["-D%s=qpx_seam_%s" % (call, call) for call in _REDIRECTED]
