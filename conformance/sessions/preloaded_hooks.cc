// The suites over the installed libibverbs, on a device that qpexam's preloaded library emulates
// (packaged:NAME): virtual time, and findings at the seams. Without that library: no hooks.

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/fixture/provider_hooks.h"
#include "harness/remote/emulated_session.h"

namespace qpexam::conformance {
namespace {

const qpexam_packaged_control* g_control;

void Advance(uint64_t ns) { g_control->advance(ns); }

std::vector<std::string> TakeFindings() {
  std::vector<std::string> lines;
  g_control->take_findings(&lines, [](void* owner, const qpexam_packaged_finding* f) {
    static_cast<std::vector<std::string>*>(owner)->push_back(
        std::string(f->kind) + (*f->clause ? " " : "") + f->clause + ": " + f->what +
        (*f->evidence ? "\n  " : "") + f->evidence);
  });
  return lines;
}

bool Lose(ibv_qp* qp, const char* what) {
  const model::FaultPoint point =
      std::strcmp(what, "request") == 0 ? model::FaultPoint::kLoseRequest
      : std::strcmp(what, "ack") == 0   ? model::FaultPoint::kLoseAck
                                        : model::FaultPoint::kDuplicateRequest;
  return g_control->fault(qp->qp_num, static_cast<int>(point), 1, 0) != 0;
}

}  // namespace
}  // namespace qpexam::conformance

// Of whatever device there is: the preloaded library shows no other.
extern "C" const qpexam::conformance::ProviderHooks* qpexam_provider_hooks(const char*) {
  using namespace qpexam::conformance;
  static ProviderHooks hooks;
  if (g_control != nullptr) return &hooks;
  g_control = qpexam::remote::PreloadedControl();
  if (g_control == nullptr) return nullptr;
  const char* provider = std::getenv("QPEXAM_PACKAGED");
  hooks.provider = std::string("packaged:") + (provider != nullptr ? provider : "");
  hooks.hosted = true;
  hooks.virtual_time = true;
  hooks.advance = Advance;
  hooks.lose = Lose;
  hooks.take_findings = TakeFindings;
  return &hooks;
}
