// A guest's kernel: the newest that Debian has of a series ("6.1"), fetched by apt and cached with
// what of it a guest boots from. No root is needed, and no apt list of the machine is changed.
#ifndef QPEXAM_HARNESS_VM_KERNEL_PACKAGE_H_
#define QPEXAM_HARNESS_VM_KERNEL_PACKAGE_H_

#include <string>
#include <string_view>
#include <vector>

namespace qpexam::vm {

struct Kernel {
  std::string image;    // the kernel as QEMU takes it
  std::string modules;  // an archive of modules and the order to load them in
  std::string version;  // "6.1.192", of the kernel itself
  std::string package;  // "linux-image-6.1.0-57-amd64_6.1.192-3_amd64"
};

// Debian's kernels that have soft-RoCE and are fetched by name; the first is the default.
const std::vector<std::string>& KnownSeries();

// Where kernels are kept: QPEXAM_VM_CACHE, else below XDG_CACHE_HOME or ~/.cache.
std::string CacheFolder();

// A kernel of the series that is in the cache already; false where none is.
bool CachedKernel(const std::string& series, Kernel* kernel);
// The same, fetched first where there is none. False with *why: each way that was tried.
bool GetKernel(const std::string& series, Kernel* kernel, std::string* why);

// Of package names, the newest plain image of the series; empty where there is none.
std::string NewestOfSeries(const std::vector<std::string>& names, std::string_view series);
// "6.1.192" of "linux-image-6.1.0-57-amd64_6.1.192-3_amd64.deb"; empty where it is no such name.
std::string UpstreamVersion(std::string_view file);
// Compares dotted and dashed numbers one by one: negative, zero or positive.
int CompareNumbers(std::string_view a, std::string_view b);

}  // namespace qpexam::vm

#endif  // QPEXAM_HARNESS_VM_KERNEL_PACKAGE_H_
