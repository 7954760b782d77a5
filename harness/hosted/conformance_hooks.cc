// Hosted devices for the suites: one of each kind, there before the suites list devices
// (`conform --device=rxe0`), and what the suites must know about them.
#include <map>
#include <memory>
#include <string>

#include "conformance/fixture/provider_hooks.h"
#include "harness/hosted/hosted_provider.h"

namespace qpexam::hosted {
namespace {

using conformance::ProviderHooks;

class SuiteDevices {
 public:
  void Add(const HostedKind& kind) {
    std::string device = kernel_.AddDevice(kind.make_model());
    if (device.empty()) return;
    ProviderHooks& hooks = hooks_[device];
    hooks.provider = std::string("hosted:") + kind.name;
    hooks.hosted = true;
    hooks.virtual_time = true;
    hooks.advance = Advance;
    hooks.lose = Lose;
  }

  const ProviderHooks* Find(const std::string& device) const {
    auto it = hooks_.find(device);
    return it == hooks_.end() ? nullptr : &it->second;
  }

  static SuiteDevices& Instance() {
    // Never destroyed: contexts of a test that failed may still be open.
    static auto* devices = new SuiteDevices;
    return *devices;
  }

 private:
  static void Advance(uint64_t nanoseconds) {
    Kernel& kernel = Instance().kernel_;
    kernel.Pump();
    kernel.fabric().AdvanceBy(nanoseconds);
    kernel.Pump();
  }
  static bool Lose(ibv_qp* qp, const char* what) {
    model::Qp* engine = Instance().kernel_.fabric().FindQp(model::QpNum(qp->qp_num));
    if (engine == nullptr) return false;
    const std::string point = what;
    if (point == "request") {
      engine->AddFaultPoint(model::FaultPoint::kLoseRequest);
    } else if (point == "ack") {
      engine->AddFaultPoint(model::FaultPoint::kLoseAck);
    } else if (point == "duplicate") {
      engine->AddFaultPoint(model::FaultPoint::kDuplicateRequest);
    } else {
      return false;
    }
    return true;
  }

  Kernel kernel_;
  std::map<std::string, ProviderHooks> hooks_;
};

// Before main(): the suites list devices once.
struct MakeDevices {
  MakeDevices() {
    ForEachHostedKind([](const HostedKind& kind) { SuiteDevices::Instance().Add(kind); });
  }
};
const MakeDevices kMade;

}  // namespace
}  // namespace qpexam::hosted

extern "C" const qpexam::conformance::ProviderHooks* qpexam_provider_hooks(
    const char* device_name) {
  return qpexam::hosted::SuiteDevices::Instance().Find(device_name);
}
