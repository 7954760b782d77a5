// A Program's defaults, where a device has less.
#ifndef QPEXAM_HARNESS_HOSTED_FIT_DEFAULTS_H_
#define QPEXAM_HARNESS_HOSTED_FIT_DEFAULTS_H_

#include "harness/hosted/device_model.h"
#include "harness/program/program.h"

namespace qpexam::hosted {

// Lowers the capacities that a Program left at the language's defaults to what the device has.
void FitDefaults(const DeviceTraits& traits, Program* program);

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_FIT_DEFAULTS_H_
