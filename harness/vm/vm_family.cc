// `vm:rxe`, `vm:rxe@6.12`: soft-RoCE of a guest kernel, started for the run.
#include <algorithm>

#include "harness/devices/provider_family.h"
#include "harness/vm/guest.h"

namespace qpexam::vm {
namespace {

std::string SeriesOf(const std::string& name) {
  const size_t at = name.find('@');
  return at == std::string::npos ? KnownSeries()[0] : name.substr(at + 1);
}

class VmFamily : public ProviderFamily {
 public:
  std::string_view family() const override { return "vm"; }

  std::vector<ProviderInfo> List() const override {
    std::vector<ProviderInfo> all;
    const std::string why = WhyNoGuest(), verbs = InstalledVerbsVersion();
    for (const std::string& series : KnownSeries()) {
      ProviderInfo info;
      info.name = series == KnownSeries()[0] ? "vm:rxe" : "vm:rxe@" + series;
      Kernel kernel;
      const bool cached = CachedKernel(series, &kernel);
      info.version = cached ? kernel.version : series;
      if (!verbs.empty()) info.version += "/" + verbs;
      info.about = "soft-RoCE of a guest with Debian's kernel " + series +
                   " and the installed libibverbs" +
                   (cached ? "" : "; apt fetches the kernel at first");
      info.why_unavailable = why;
      info.why_is_setup = !why.empty();
      info.kind = ProviderKind::kDevice;
      all.push_back(std::move(info));
    }
    return all;
  }

  std::unique_ptr<DeviceSession> Open(const ProviderInfo& info, std::string* why) const override {
    *why = info.name + " runs whole batches of programs, and cannot be opened here";
    return nullptr;
  }

  std::unique_ptr<remote::Machine> MachineOf(const ProviderInfo& info) const override {
    return std::make_unique<Guest>(SeriesOf(info.name));
  }
};

const RegisterFamily<VmFamily> kVm;

}  // namespace
}  // namespace qpexam::vm
