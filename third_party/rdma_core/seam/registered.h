// Which devices of libibverbs' list were registered with the seam, and which are the machine's own:
// a name does not tell them apart, since both may have an mlx5_0.
#ifndef THIRD_PARTY_RDMA_CORE_SEAM_REGISTERED_H_
#define THIRD_PARTY_RDMA_CORE_SEAM_REGISTERED_H_

#include <infiniband/verbs.h>

#include <string_view>

namespace qpexam {

// Registered devices have their sysfs folder where no machine has one (append() in replaced.c;
// device_test holds the two together).
inline bool IsRegistered(const ibv_device* device) {
  constexpr std::string_view kFolder = "/nonexistent/seam/";
  return std::string_view(device->ibdev_path).substr(0, kFolder.size()) == kFolder;
}

}  // namespace qpexam

#endif  // THIRD_PARTY_RDMA_CORE_SEAM_REGISTERED_H_
