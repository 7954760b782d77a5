// The device model of a HiSilicon HIP09 under libhns: RC and UD, SRQ. What the device would do, and
// from where that is known: README.md.
#ifndef QPEXAM_HARNESS_HOSTED_HNS_HNS_MODEL_H_
#define QPEXAM_HARNESS_HOSTED_HNS_HNS_MODEL_H_

#include <memory>

#include "harness/hosted/device_model.h"

namespace qpexam::hosted {

std::unique_ptr<DeviceModel> MakeHnsModel();

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_HNS_HNS_MODEL_H_
