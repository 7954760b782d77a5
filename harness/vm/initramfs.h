// What a guest boots from besides its kernel: archives in cpio's newc form, which the kernel
// unpacks one behind the other, and the order in which modules are loaded.
#ifndef QPEXAM_HARNESS_VM_INITRAMFS_H_
#define QPEXAM_HARNESS_VM_INITRAMFS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qpexam::vm {

// An archive. Folders above what is added are made by themselves.
class Cpio {
 public:
  void AddFile(std::string_view path, std::string_view bytes, bool executable);
  void AddSymlink(std::string_view path, std::string_view target);
  // The archive, ended and padded so that another may follow.
  std::string Finish();

 private:
  void Folders(std::string_view path);
  void Entry(std::string_view path, uint32_t mode, std::string_view bytes);

  std::string bytes_;
  std::map<std::string, bool, std::less<>> made_;
  uint32_t inode_ = 1;
};

// The names after `key`= in a module's .modinfo ("depends=ib_core,udp_tunnel"), commas taken apart.
std::vector<std::string> ModInfo(std::string_view module, std::string_view key);

// "crc32_generic" for both "crc32-generic.ko.xz" and "crc32_generic".
std::string ModuleName(std::string_view file);

// The order in which `wanted` and what they depend on are loaded. Names that `depends` does not
// know are built in: left out.
std::vector<std::string> LoadOrder(const std::vector<std::string>& wanted,
                                   const std::map<std::string, std::vector<std::string>>& depends);

}  // namespace qpexam::vm

#endif  // QPEXAM_HARNESS_VM_INITRAMFS_H_
