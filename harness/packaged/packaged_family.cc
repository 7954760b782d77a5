// `packaged:rxe`, ...: the installed libibverbs.so.1 and provider plugins over the emulated kernel.
#include "harness/devices/provider_family.h"
#include "harness/packaged/environment.h"
#include "harness/packaged/launch.h"
#include "harness/packaged/place.h"

namespace qpexam::packaged {
namespace {

class PackagedFamily : public ProviderFamily {
 public:
  std::string_view family() const override { return "packaged"; }

  std::vector<ProviderInfo> List() const override {
    std::vector<ProviderInfo> all;
    const Library library = InstalledLibrary();
    for (const char* provider : kProviders) {
      ProviderInfo info;
      info.name = std::string("packaged:") + provider;
      // A vendor's own build has no device model but the vendor's.
      if (KindOf(info.name) == nullptr) continue;
      const Plugin plugin = InstalledPlugin(provider, library);
      info.version = library.version;
      info.about = std::string("the installed ") +
                   (plugin.path.empty() ? "" : plugin.path.substr(plugin.path.rfind('/') + 1)) +
                   " over an emulated kernel";
      info.why_unavailable = plugin.why_not;
      info.why_is_setup = !plugin.why_not.empty();
      info.kind = ProviderKind::kHosted;
      all.push_back(std::move(info));
    }
    return all;
  }

  std::unique_ptr<DeviceSession> Open(const ProviderInfo& info, std::string* why) const override {
    *why = info.name + " runs in a process of its own, and cannot be opened here";
    return nullptr;
  }

  std::unique_ptr<remote::Machine> MachineOf(const ProviderInfo& info) const override {
    const hosted::HostedKind* kind = KindOf(info.name);
    return kind == nullptr ? nullptr : std::make_unique<PackagedMachine>(*kind);
  }
};

const RegisterFamily<PackagedFamily> kPackaged;

}  // namespace
}  // namespace qpexam::packaged
