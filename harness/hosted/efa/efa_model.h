// The device model of an Elastic Fabric Adapter under libefa: UD and SRD. What the device would do,
// and from where that is known: README.md.
#ifndef QPEXAM_HARNESS_HOSTED_EFA_EFA_MODEL_H_
#define QPEXAM_HARNESS_HOSTED_EFA_EFA_MODEL_H_

#include <memory>

#include "harness/hosted/device_model.h"

namespace qpexam::hosted {

// Bytes of inline data that fit into a WQE: 32 on the first devices, 80 where WQEs may have 128
// bytes.
std::unique_ptr<DeviceModel> MakeEfaModelOf(uint32_t max_inline);

// The widest that the library of this build handles.
std::unique_ptr<DeviceModel> MakeEfaModel();

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_EFA_EFA_MODEL_H_
