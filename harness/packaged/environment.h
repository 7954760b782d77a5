// What `qpexam exec` tells the preloaded library, by the environment.
#ifndef QPEXAM_HARNESS_PACKAGED_ENVIRONMENT_H_
#define QPEXAM_HARNESS_PACKAGED_ENVIRONMENT_H_

namespace qpexam::packaged {

inline constexpr char kProviderVariable[] = "QPEXAM_PACKAGED";  // "rxe": which device there is
// Those that the preloaded library has a device model of.
inline constexpr const char* kProviders[] = {"bnxt_re", "efa", "hns", "mlx5", "rxe"};

// A folder laid out like /sys, in which that device stands.
inline constexpr char kRootVariable[] = "QPEXAM_PACKAGED_ROOT";
// A file to which each process appends what was found, a line each.
inline constexpr char kFindingsVariable[] = "QPEXAM_PACKAGED_FINDINGS";

// Below /dev there is nothing to see: the preloaded library answers for this path.
inline constexpr char kDeviceNode[] = "/dev/infiniband/uverbs0";
// A device number that no kernel gives out.
inline constexpr unsigned kMajor = 0xffe, kMinor = 0;

}  // namespace qpexam::packaged

#endif  // QPEXAM_HARNESS_PACKAGED_ENVIRONMENT_H_
