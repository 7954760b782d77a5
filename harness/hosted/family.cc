// `hosted:NAME`: the family of hosted providers in the registry of harness/devices.
#include <rdma_core_version.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "harness/devices/provider_family.h"
#include "harness/hosted/fit_defaults.h"
#include "harness/hosted/hosted_provider.h"

namespace qpexam {
namespace {

class HostedSession : public DeviceSession {
 public:
  HostedSession(std::string name, const hosted::HostedKind& kind)
      : name_(std::move(name)),
        version_(RDMA_CORE_VERSION),
        kind_(kind),
        provider_(kind.make_model),
        model_(kind.make_model()) {}

  const std::string& provider() const override { return name_; }
  const std::string& version() const override { return version_; }

  ibv_context* Open(unsigned index) override { return provider_.Open(index); }
  ibv_qp* CreateQp(ibv_context* context, ibv_qp_init_attr_ex* attr, model::QpType type) override {
    if (type != model::QpType::kSrd) return ibv_create_qp_ex(context, attr);
    errno = EOPNOTSUPP;
    if (kind_.create_srd == nullptr) return nullptr;
    ibv_qp* qp = kind_.create_srd(context, attr);
    ibv_qp_ex* ex = qp != nullptr ? ibv_qp_to_qp_ex(qp) : nullptr;
    if (ex != nullptr) provider_.oracle().Watch(ex);
    return qp;
  }
  void FitDefaults(Program* program) const override {
    hosted::FitDefaults(model_->traits(), program);
  }

  void BeginWait() override { ran_ = false; }
  bool Step(Rest* rest) override {
    *rest = Rest::kIdle;
    if (ran_) return false;
    ran_ = true;
    provider_.kernel().RunUntilIdle();
    return true;
  }
  Rest Settle() override {
    provider_.kernel().RunUntilIdle();
    return Rest::kIdle;
  }
  bool Advance(uint64_t nanoseconds) override {
    provider_.kernel().Pump();
    provider_.kernel().fabric().AdvanceBy(nanoseconds);
    provider_.kernel().Pump();
    return true;
  }
  bool Fault(ibv_qp* qp, model::FaultPoint point, unsigned count, unsigned skip) override {
    model::Qp* engine = provider_.kernel().fabric().FindQp(model::QpNum(qp->qp_num));
    if (engine == nullptr) return false;
    // Fault points are met in order, one a message.
    for (unsigned i = 0; i < skip && i < kMostFaults; ++i) {
      engine->AddFaultPoint(model::FaultPoint::kPass);
    }
    for (unsigned i = 0; i < count && i < kMostFaults; ++i) engine->AddFaultPoint(point);
    return true;
  }
  void TakeFindings(std::vector<SessionFinding>* findings) override {
    for (hosted::SeamFinding& f : provider_.oracle().Take()) {
      findings->push_back(
          {std::move(f.kind), std::move(f.clause), std::move(f.what), std::move(f.raw)});
    }
  }
  void BeginProgram(uint64_t seed) override {
    provider_.kernel().SetFreedom(hosted::FreedomOf(seed));
  }

 private:
  static constexpr unsigned kMostFaults = 1024;
  std::string name_, version_;
  const hosted::HostedKind kind_;
  hosted::HostedProvider provider_;
  std::unique_ptr<hosted::DeviceModel> model_;  // for its traits
  bool ran_ = false;
};

class HostedFamily : public ProviderFamily {
 public:
  std::string_view family() const override { return "hosted"; }
  std::vector<ProviderInfo> List() const override {
    std::vector<ProviderInfo> all;
    for (const hosted::HostedKind& kind : hosted::HostedKinds()) {
      ProviderInfo info;
      info.name = std::string("hosted:") + kind.name;
      info.version = RDMA_CORE_VERSION;
      info.about =
          std::string("rdma-core's own ") + kind.name + " provider over an emulated kernel";
      info.kind = ProviderKind::kHosted;
      info.in_check = true;
      all.push_back(std::move(info));
    }
    for (const hosted::AbsentKind& kind : hosted::AbsentKinds()) {
      ProviderInfo info;
      info.name = std::string("hosted:") + kind.name;
      info.version = RDMA_CORE_VERSION;
      info.why_unavailable = "rdma-core " RDMA_CORE_VERSION " does not have this provider: " +
                             std::string(kind.remedy);
      info.kind = ProviderKind::kHosted;
      all.push_back(std::move(info));
    }
    return all;
  }
  std::unique_ptr<DeviceSession> Open(const ProviderInfo& info, std::string* why) const override {
    for (const hosted::HostedKind& kind : hosted::HostedKinds()) {
      if (info.name == std::string("hosted:") + kind.name) {
        return std::make_unique<HostedSession>(info.name, kind);
      }
    }
    *why = info.name + " is not built into this binary";
    return nullptr;
  }
};

const RegisterFamily<HostedFamily> kHosted;

}  // namespace
}  // namespace qpexam
