#include "harness/hosted/hosted_provider.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "third_party/rdma_core/seam/registered.h"

namespace qpexam::hosted {
namespace {

std::vector<HostedKind>& MutableKinds() {
  static auto* kinds = new std::vector<HostedKind>;
  return *kinds;
}

std::vector<AbsentKind>& MutableAbsent() {
  static auto* kinds = new std::vector<AbsentKind>;
  return *kinds;
}

void (*g_for_each_kind)(const HostedKind&) = nullptr;

}  // namespace

HostedProvider::HostedProvider(MakeModel make_model, const KernelOptions& options)
    : make_model_(make_model), kernel_(options), oracle_(&kernel_) {}

ibv_context* HostedProvider::Open(unsigned index) {
  while (devices_.size() <= index) {
    std::string name = kernel_.AddDevice(make_model_());
    if (name.empty()) return nullptr;
    devices_.push_back(std::move(name));
  }
  ibv_context* context = OpenByName(devices_[index]);
  if (context != nullptr) oracle_.Attach(context);
  return context;
}

ibv_context* OpenByName(std::string_view name) {
  ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr) return nullptr;
  ibv_context* context = nullptr;
  errno = ENODEV;
  for (ibv_device** device = list; *device != nullptr; ++device) {
    // The machine may have a device of that name itself.
    if (IsRegistered(*device) && name == ibv_get_device_name(*device)) {
      context = ibv_open_device(*device);
      break;
    }
  }
  int saved = errno;
  ibv_free_device_list(list);
  errno = saved;
  return context;
}

const std::vector<HostedKind>& HostedKinds() { return MutableKinds(); }

const std::vector<AbsentKind>& AbsentKinds() { return MutableAbsent(); }
void AddAbsentKind(const AbsentKind& kind) { MutableAbsent().push_back(kind); }

void AddHostedKind(const HostedKind& kind) {
  std::vector<HostedKind>& kinds = MutableKinds();
  kinds.push_back(kind);
  std::sort(kinds.begin(), kinds.end(), [](const HostedKind& a, const HostedKind& b) {
    return std::string_view(a.name) < b.name;
  });
  if (g_for_each_kind != nullptr) g_for_each_kind(kind);
}

void ForEachHostedKind(void (*f)(const HostedKind& kind)) {
  g_for_each_kind = f;
  for (const HostedKind& kind : HostedKinds()) f(kind);
}

}  // namespace qpexam::hosted
