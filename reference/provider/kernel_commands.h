// The few commands that libibverbs itself sends to the kernel although every operation of the
// provider is in user space: completion channels and the GID table.
#ifndef QPEXAM_REFERENCE_PROVIDER_KERNEL_COMMANDS_H_
#define QPEXAM_REFERENCE_PROVIDER_KERNEL_COMMANDS_H_

namespace qpexam::provider {

// A new command fd for device number `device`, answered by this process; -1 and errno on failure.
int OpenCommandFd(int device);

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_KERNEL_COMMANDS_H_
