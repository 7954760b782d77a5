// `reference`, our provider over the model, and `faulty:NAME`, the same with one known fault.
#include <rdma_core_version.h>

#include "harness/devices/provider_family.h"
#include "reference/model/fabric.h"
#include "reference/model/faults.h"
#include "reference/provider/control.h"
#include "third_party/rdma_core/seam/registered.h"

namespace qpexam {
namespace {

class ReferenceSession : public DeviceSession {
 public:
  ReferenceSession(std::string name, std::string_view fault)
      : name_(std::move(name)), version_(RDMA_CORE_VERSION) {
    provider::SetManualClock();
    provider::SetFault(fault);
  }
  ~ReferenceSession() override { provider::SetFault(""); }

  const std::string& provider() const override { return name_; }
  const std::string& version() const override { return version_; }
  bool detects_undefined() const override { return true; }

  ibv_context* Open(unsigned) override {
    // Each device of a Program is one more context of the same one.
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (!list) return nullptr;
    ibv_context* context = nullptr;
    for (int i = 0; i < count && !context; i++)
      if (IsRegistered(list[i]) && ibv_get_device_name(list[i]) == provider::DeviceName(0))
        context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    return context;
  }

  void BeginWait() override { ran_ = false; }
  bool Step(Rest* rest) override {
    *rest = Rest::kIdle;
    if (ran_) return false;
    ran_ = true;
    provider::RunUntilIdle();
    return true;
  }
  Rest Settle() override {
    provider::RunUntilIdle();
    return Rest::kIdle;
  }
  bool Advance(uint64_t nanoseconds) override {
    provider::Advance(model::Nanoseconds(nanoseconds));
    return true;
  }
  bool Fault(ibv_qp* qp, model::FaultPoint point, unsigned count, unsigned skip) override {
    // Fault points are met in order, one a message.
    for (unsigned i = 0; i < skip && i < kMostFaults; i++)
      provider::AddFaultPoint(qp, model::FaultPoint::kPass);
    for (unsigned i = 0; i < count && i < kMostFaults; i++) provider::AddFaultPoint(qp, point);
    return true;
  }
  void TakeLints(std::vector<const char*>* lints) override {
    if (!provider::Fabric().HasLints()) return;
    for (const model::FoundLint& lint : provider::TakeLints()) lints->push_back(lint.clause);
  }

 private:
  static constexpr unsigned kMostFaults = 1024;
  std::string name_, version_;
  bool ran_ = false;
};

class ReferenceFamily : public ProviderFamily {
 public:
  std::string_view family() const override { return "reference"; }
  std::vector<ProviderInfo> List() const override {
    ProviderInfo info;
    info.name = "reference";
    info.version = RDMA_CORE_VERSION;
    info.about = "our own provider over the model of ibv_qp_ex";
    info.kind = ProviderKind::kReference;
    info.in_check = true;
    return {info};
  }
  std::unique_ptr<DeviceSession> Open(const ProviderInfo& info, std::string*) const override {
    return std::make_unique<ReferenceSession>(info.name, "");
  }
};

class FaultyFamily : public ProviderFamily {
 public:
  std::string_view family() const override { return "faulty"; }
  std::vector<ProviderInfo> List() const override {
    std::vector<ProviderInfo> all;
    for (const model::FaultInfo& fault : model::AllFaults()) {
      ProviderInfo info;
      info.name = "faulty:" + std::string(fault.name);
      info.version = RDMA_CORE_VERSION;
      info.about = std::string(fault.clause) + ": " + std::string(fault.what);
      info.kind = ProviderKind::kReference;
      all.push_back(std::move(info));
    }
    return all;
  }
  std::unique_ptr<DeviceSession> Open(const ProviderInfo& info, std::string*) const override {
    return std::make_unique<ReferenceSession>(info.name, std::string_view(info.name).substr(7));
  }
};

const RegisterFamily<ReferenceFamily> kReference;
const RegisterFamily<FaultyFamily> kFaulty;

}  // namespace
}  // namespace qpexam
