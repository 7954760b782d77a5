// A session on a device that the linked libibverbs lists, in the machine's own time.
//
// Bounds follow a calibration: a card answers in microseconds, soft-RoCE in an emulated guest in
// milliseconds. They are only waited out in full when something is missing.
#ifndef QPEXAM_HARNESS_REMOTE_VERBS_SESSION_H_
#define QPEXAM_HARNESS_REMOTE_VERBS_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "harness/execute/real_time.h"

namespace qpexam::remote {

class VerbsSession : public RealTimeSession {
 public:
  VerbsSession(std::string provider, std::string device, std::string version, RealTimeBounds bounds)
      : RealTimeSession(bounds),
        provider_(std::move(provider)),
        device_(std::move(device)),
        version_(std::move(version)) {}

  const std::string& provider() const override { return provider_; }
  const std::string& version() const override { return version_; }
  ibv_context* Open(unsigned index) override;

 private:
  std::string provider_, device_, version_;
};

// The names that libibverbs lists.
std::vector<std::string> ListedDevices();
// nullptr with errno.
ibv_context* OpenListed(const std::string& device);
// What the device calls its firmware; "unknown" where it says nothing.
std::string FirmwareOf(ibv_context* context);

// Measures round trips of a small Program on this device.
RealTimeBounds Calibrate(const std::string& device);

}  // namespace qpexam::remote

#endif  // QPEXAM_HARNESS_REMOTE_VERBS_SESSION_H_
