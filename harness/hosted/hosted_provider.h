// One hosted provider, ready to be opened: the kernel, its devices and the seam oracle together.
// What `hosted:rxe` is to the harness, and what tests of this folder stand on.
#ifndef QPEXAM_HARNESS_HOSTED_HOSTED_PROVIDER_H_
#define QPEXAM_HARNESS_HOSTED_HOSTED_PROVIDER_H_

#include <infiniband/verbs.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/hosted/kernel.h"
#include "harness/hosted/seam_oracle.h"

namespace qpexam::hosted {

using MakeModel = std::unique_ptr<DeviceModel> (*)();

class HostedProvider {
 public:
  explicit HostedProvider(MakeModel make_model, const KernelOptions& options = {});

  // A new context of the index-th device, which is made when it is first asked for. nullptr with
  // errno. To be closed before this ends.
  ibv_context* Open(unsigned index);

  Kernel& kernel() { return kernel_; }
  SeamOracle& oracle() { return oracle_; }

 private:
  MakeModel make_model_;
  Kernel kernel_;
  SeamOracle oracle_;
  std::vector<std::string> devices_;
};

// A device by the name that libibverbs lists it under; nullptr with errno.
ibv_context* OpenByName(std::string_view name);

// The providers that this binary was built with.
struct HostedKind {
  const char* name;  // "rxe"
  MakeModel make_model;
  // The vendor's own call that makes an SRD QP; nullptr: it has none.
  ibv_qp* (*create_srd)(ibv_context* context, ibv_qp_init_attr_ex* attr);
};
const std::vector<HostedKind>& HostedKinds();
void AddHostedKind(const HostedKind& kind);
// Calls `f` for each kind, also for those that register later.
void ForEachHostedKind(void (*f)(const HostedKind& kind));

// A provider that there is a device model for, and that the rdma-core of this build does not have.
struct AbsentKind {
  const char* name;
  const char* remedy;
};
const std::vector<AbsentKind>& AbsentKinds();
void AddAbsentKind(const AbsentKind& kind);

// In a library with alwayslink = 1, both.
struct RegisterAbsentKind {
  RegisterAbsentKind(const char* name, const char* remedy) { AddAbsentKind({name, remedy}); }
};
struct RegisterHostedKind {
  RegisterHostedKind(const char* name, MakeModel make_model,
                     ibv_qp* (*create_srd)(ibv_context*, ibv_qp_init_attr_ex*) = nullptr) {
    AddHostedKind({name, make_model, create_srd});
  }
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_HOSTED_PROVIDER_H_
