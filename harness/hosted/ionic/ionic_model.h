// The device model of an AMD Pensando card under libionic: RC. What the device would do, and from
// where that is known: README.md.
#ifndef QPEXAM_HARNESS_HOSTED_IONIC_IONIC_MODEL_H_
#define QPEXAM_HARNESS_HOSTED_IONIC_IONIC_MODEL_H_

#include <memory>

#include "harness/hosted/device_model.h"

namespace qpexam::hosted {

// Its firmware's first or second set of opcodes; the library writes what the context says.
std::unique_ptr<DeviceModel> MakeIonicModel();
std::unique_ptr<DeviceModel> MakeIonicV2Model();

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_IONIC_IONIC_MODEL_H_
