#include "harness/remote/emulated_session.h"

#include <dlfcn.h>
#include <infiniband/efadv.h>

#include <cerrno>

#include "harness/remote/verbs_session.h"

namespace qpexam::remote {
namespace {

void Keep(void* owner, const qpexam_packaged_finding* f) {
  static_cast<std::vector<SessionFinding>*>(owner)->push_back(
      {f->kind, f->clause, f->what, f->evidence});
}

// The vendor's own call, of the library that libibverbs has loaded as its plugin.
ibv_qp* CreateSrd(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  errno = EOPNOTSUPP;
  void* library = dlopen("libefa.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto* const create =
      reinterpret_cast<decltype(&efadv_create_qp_ex)>(dlsym(library, "efadv_create_qp_ex"));
  if (create == nullptr) return nullptr;
  efadv_qp_init_attr efa = {};
  efa.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
  return create(context, attr, &efa, sizeof efa);
}

}  // namespace

const qpexam_packaged_control* PreloadedControl() {
  auto* const get = reinterpret_cast<qpexam_packaged_control_getter>(
      dlsym(RTLD_DEFAULT, QPEXAM_PACKAGED_CONTROL));
  return get != nullptr ? get() : nullptr;
}

ibv_context* EmulatedSession::Open(unsigned) { return OpenListed(device_); }

ibv_qp* EmulatedSession::CreateQp(ibv_context* context, ibv_qp_init_attr_ex* attr,
                                  model::QpType type) {
  if (type != model::QpType::kSrd) return ibv_create_qp_ex(context, attr);
  ibv_qp* qp = CreateSrd(context, attr);
  ibv_qp_ex* ex = qp != nullptr ? ibv_qp_to_qp_ex(qp) : nullptr;
  if (ex != nullptr) control_->watch(ex);
  return qp;
}

bool EmulatedSession::Step(Rest* rest) {
  *rest = Rest::kIdle;
  if (ran_) return false;
  ran_ = true;
  control_->settle();
  return true;
}

Rest EmulatedSession::Settle() {
  control_->settle();
  return Rest::kIdle;
}

bool EmulatedSession::Advance(uint64_t nanoseconds) {
  control_->advance(nanoseconds);
  return true;
}

bool EmulatedSession::Fault(ibv_qp* qp, model::FaultPoint point, unsigned count, unsigned skip) {
  return control_->fault(qp->qp_num, static_cast<int>(point), count, skip) != 0;
}

void EmulatedSession::TakeFindings(std::vector<SessionFinding>* findings) {
  control_->take_findings(findings, Keep);
}

}  // namespace qpexam::remote
