// A session on a device that qpexam's preloaded library emulates under the installed libibverbs
// (harness/packaged): virtual time, and findings at the seams.
#ifndef QPEXAM_HARNESS_REMOTE_EMULATED_SESSION_H_
#define QPEXAM_HARNESS_REMOTE_EMULATED_SESSION_H_

#include <string>

#include "harness/execute/session.h"
#include "harness/preload_control/control.h"

namespace qpexam::remote {

// What the preloaded library offers; nullptr where there is none.
const qpexam_packaged_control* PreloadedControl();

class EmulatedSession : public DeviceSession {
 public:
  EmulatedSession(const qpexam_packaged_control* control, std::string provider, std::string device,
                  std::string version)
      : control_(control),
        provider_(std::move(provider)),
        device_(std::move(device)),
        version_(std::move(version)) {}

  const std::string& provider() const override { return provider_; }
  const std::string& version() const override { return version_; }
  ibv_context* Open(unsigned index) override;
  ibv_qp* CreateQp(ibv_context* context, ibv_qp_init_attr_ex* attr, model::QpType type) override;
  void BeginWait() override { ran_ = false; }
  bool Step(Rest* rest) override;
  Rest Settle() override;
  bool Advance(uint64_t nanoseconds) override;
  bool Fault(ibv_qp* qp, model::FaultPoint point, unsigned count, unsigned skip) override;
  void TakeFindings(std::vector<SessionFinding>* findings) override;
  void BeginProgram(uint64_t seed) override { control_->begin(seed); }

 private:
  const qpexam_packaged_control* control_;
  std::string provider_, device_, version_;
  bool ran_ = false;
};

}  // namespace qpexam::remote

#endif  // QPEXAM_HARNESS_REMOTE_EMULATED_SESSION_H_
