// What the reference's devices say of themselves: limits, the port, its addresses.
//
// One port, RoCE (link layer Ethernet): a LID-less world in which every address handle carries a
// GRH, which is what most programs meet today. The port is always active.
#ifndef QPEXAM_REFERENCE_PROVIDER_PORT_H_
#define QPEXAM_REFERENCE_PROVIDER_PORT_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "reference/model/engine.h"

namespace qpexam::provider {

inline constexpr int kGidTableLength = 16;
inline constexpr const char* kPkeyText = "0xffff";  // every entry of the table: full member
// A unit of the completion timestamps and of query_rt_values_ex(): one virtual nanosecond.
inline constexpr uint64_t kCoreClockKhz = 1'000'000;

struct GidEntry {
  ibv_gid gid;
  ibv_gid_type type;
};
// Entry `index` of the GID table of device number `device`; false for an empty slot.
//   0  fe80::2:c9ff:fe00:N   RoCE v1
//   1  the same              RoCE v2
//   2  ::ffff:192.0.2.N      RoCE v2 over IPv4 (a documentation address)
bool GidAt(int device, int index, GidEntry* entry);

uint64_t NodeGuid(int device);

ibv_device_attr_ex DeviceAttributes(int device, const model::DeviceLimits& limits);
ibv_port_attr PortAttributes(const model::DeviceLimits& limits);

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_PORT_H_
