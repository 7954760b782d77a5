// `device:NAME`: an RDMA device of this machine, through its own kernel. Opened only when named.
#include <cerrno>
#include <cstring>

#include "harness/devices/provider_family.h"
#include "harness/execute/real_time.h"
#include "third_party/rdma_core/seam/registered.h"

namespace qpexam {
namespace {

class RealDeviceSession : public RealTimeSession {
 public:
  RealDeviceSession(std::string name, std::string device, std::string version)
      : RealTimeSession({}),
        name_(std::move(name)),
        device_(std::move(device)),
        version_(std::move(version)) {}

  const std::string& provider() const override { return name_; }
  const std::string& version() const override { return version_; }

  ibv_context* Open(unsigned) override { return OpenByName(device_); }

  static ibv_context* OpenByName(const std::string& name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (!list) return nullptr;
    ibv_context* context = nullptr;
    for (int i = 0; i < count && !context; i++)
      if (!IsRegistered(list[i]) && name == ibv_get_device_name(list[i]))
        context = ibv_open_device(list[i]);
    if (!context && errno == 0) errno = ENODEV;
    ibv_free_device_list(list);
    return context;
  }

 private:
  std::string name_, device_, version_;
};

class DeviceFamily : public ProviderFamily {
 public:
  std::string_view family() const override { return "device"; }

  std::vector<ProviderInfo> List() const override {
    std::vector<ProviderInfo> all;
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (!list) return all;
    for (int i = 0; i < count; i++) {
      if (IsRegistered(list[i])) continue;
      ProviderInfo info;
      info.name = std::string("device:") + ibv_get_device_name(list[i]);
      info.about = "a device of this machine; opened only when named";
      info.kind = ProviderKind::kDevice;
      info.efa = std::strncmp(ibv_get_device_name(list[i]), "efa", 3) == 0;
      all.push_back(std::move(info));
    }
    ibv_free_device_list(list);
    return all;
  }

  std::unique_ptr<DeviceSession> Open(const ProviderInfo& info, std::string* why) const override {
    const std::string device = info.name.substr(info.name.find(':') + 1);
    errno = 0;
    ibv_context* context = RealDeviceSession::OpenByName(device);
    if (!context) {
      *why = device + " cannot be opened: " + std::strerror(errno) +
             "; is /dev/infiniband readable for this user?";
      return nullptr;
    }
    ibv_device_attr attr;
    std::memset(&attr, 0, sizeof attr);
    std::string version = "unknown";
    if (ibv_query_device(context, &attr) == 0 && attr.fw_ver[0]) version = attr.fw_ver;
    ibv_close_device(context);
    return std::make_unique<RealDeviceSession>(info.name, device, version);
  }
};

const RegisterFamily<DeviceFamily> kDevice;

}  // namespace
}  // namespace qpexam
