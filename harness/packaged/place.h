// What this machine has of a packaged provider, and a place for it to find its device in.
#ifndef QPEXAM_HARNESS_PACKAGED_PLACE_H_
#define QPEXAM_HARNESS_PACKAGED_PLACE_H_

#include <string>
#include <vector>

#include "harness/hosted/device_model.h"
#include "harness/vm/subprocess.h"

namespace qpexam::packaged {

// The installed libibverbs.
struct Library {
  std::string path;     // empty: there is none
  std::string version;  // "44.0", of its file's name; empty where that says nothing
  std::string abi;      // of the interface between it and its plugins: "34"
};
Library InstalledLibrary();

// The plugin of a provider ("rxe").
struct Plugin {
  std::string path;     // "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"
  std::string why_not;  // there is none, or it does not load: in one line, with the remedy
  bool missing = false;
};
Plugin InstalledPlugin(const std::string& provider, const Library& library);

// "34" of "librxe-rdmav34.so"; empty for what is no plugin's name.
std::string AbiOfPlugin(const std::string& file);

// A folder laid out like /sys, with one RDMA device in it; gone with this.
class DeviceFolder {
 public:
  explicit DeviceFolder(const hosted::DeviceTraits& traits);
  bool ok() const { return ok_; }
  const std::string& path() const { return folder_.path(); }
  const std::string& device() const { return device_; }  // "rxe0"

 private:
  vm::TemporaryFolder folder_;
  std::string device_;
  bool ok_ = false;
};

// The environment of a program that is to see the device, beside what it has: NAME=VALUE each.
std::vector<std::string> Environment(const std::string& provider, const DeviceFolder& folder,
                                     const std::string& preload, const std::string& findings);

// The preloaded library, beside this program; empty where it was not built.
std::string PreloadLibrary();

}  // namespace qpexam::packaged

#endif  // QPEXAM_HARNESS_PACKAGED_PLACE_H_
