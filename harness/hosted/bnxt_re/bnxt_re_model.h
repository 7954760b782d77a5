// The device model of a Broadcom NetXtreme-E under libbnxt_re: RC and UD, SRQ. What the device
// would do, and from where that is known: README.md.
#ifndef QPEXAM_HARNESS_HOSTED_BNXT_RE_BNXT_RE_MODEL_H_
#define QPEXAM_HARNESS_HOSTED_BNXT_RE_BNXT_RE_MODEL_H_

#include <memory>

#include "harness/hosted/device_model.h"

namespace qpexam::hosted {

// A BCM57608: send WQEs of as many slots as they need, what is sent again found by message (MSN).
std::unique_ptr<DeviceModel> MakeBnxtReModel();
// A BCM57508: all send WQEs of 8 slots, what is sent again found by WQE (PSN).
std::unique_ptr<DeviceModel> MakeBnxtReStaticModel();

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_BNXT_RE_BNXT_RE_MODEL_H_
