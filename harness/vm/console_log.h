// What a guest's console says of how it ended.
#ifndef QPEXAM_HARNESS_VM_CONSOLE_LOG_H_
#define QPEXAM_HARNESS_VM_CONSOLE_LOG_H_

#include <string>
#include <string_view>

namespace qpexam::vm {

// The first line that tells of a kernel that went wrong ("BUG: kernel NULL pointer dereference,
// address: 0000000000000008"), without time stamps and addresses of this run; empty where it did
// not.
std::string KernelFailure(std::string_view console);

// From that line on, at most `most` bytes; without one, the last lines.
std::string KernelReport(std::string_view console, size_t most);

// What our init complained of ("no soft-RoCE device: ..."); empty where it did not.
std::string InitComplaint(std::string_view console);

}  // namespace qpexam::vm

#endif  // QPEXAM_HARNESS_VM_CONSOLE_LOG_H_
