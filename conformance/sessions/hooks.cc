// The harness' providers under the suites: --device=reference, faulty:NAME, hosted:rxe, ...

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "conformance/fixture/provider_hooks.h"
#include "harness/devices/provider_family.h"
#include "reference/model/faults.h"

namespace qpexam::conformance {
namespace {

// The provider under test, opened once a process.
std::unique_ptr<DeviceSession> g_session;

ibv_context* Open() { return g_session->Open(0); }

void Advance(uint64_t ns) { g_session->Advance(ns); }

std::vector<std::string> TakeLints() {
  std::vector<const char*> lints;
  g_session->TakeLints(&lints);
  return {lints.begin(), lints.end()};
}

std::vector<std::string> TakeFindings() {
  std::vector<SessionFinding> findings;
  g_session->TakeFindings(&findings);
  std::vector<std::string> lines;
  for (const SessionFinding& f : findings) {
    lines.push_back(f.kind + (f.clause.empty() ? "" : " " + f.clause) + ": " + f.what +
                    (f.evidence.empty() ? "" : "\n  " + f.evidence));
  }
  return lines;
}

std::vector<std::string> TakeReached() {
  std::vector<std::string> names;
  const auto reached = model::FaultSwitch::TakeReached();
  model::FaultSwitch::StartRecording();  // for the next test
  for (const model::FaultInfo& fault : model::AllFaults()) {
    if (reached[static_cast<size_t>(fault.fault)]) names.emplace_back(fault.name);
  }
  return names;
}

bool Lose(ibv_qp* qp, const char* what) {
  const model::FaultPoint point =
      std::strcmp(what, "request") == 0 ? model::FaultPoint::kLoseRequest
      : std::strcmp(what, "ack") == 0   ? model::FaultPoint::kLoseAck
                                        : model::FaultPoint::kDuplicateRequest;
  return g_session->Fault(qp, point, 1, 0);
}

ProviderHooks Make(const ProviderInfo& info) {
  ProviderHooks hooks;
  hooks.provider = info.name;
  hooks.is_reference = info.kind == ProviderKind::kReference;
  hooks.hosted = info.kind == ProviderKind::kHosted;
  hooks.virtual_time = true;
  hooks.open = Open;
  hooks.advance = Advance;
  hooks.lose = Lose;
  hooks.take_findings = TakeFindings;
  if (hooks.is_reference) {
    hooks.take_lints = TakeLints;
    hooks.record_reached = model::FaultSwitch::StartRecording;
    hooks.take_reached = TakeReached;
  }
  return hooks;
}

}  // namespace
}  // namespace qpexam::conformance

// `device_name` is a provider's name; nullptr for what no family of this binary has, which is then
// a device of this machine (device:NAME goes through libibverbs like any other).
extern "C" const qpexam::conformance::ProviderHooks* qpexam_provider_hooks(
    const char* device_name) {
  using namespace qpexam;
  static std::string opened;
  static conformance::ProviderHooks hooks;
  if (opened == device_name && !opened.empty()) return &hooks;
  ProviderInfo info;
  std::string why;
  if (*device_name == '\0' || !FindProvider(device_name, &info, &why) ||
      info.kind == ProviderKind::kDevice) {
    return nullptr;
  }
  conformance::g_session = OpenProvider(info, &why);
  if (conformance::g_session == nullptr) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return nullptr;
  }
  opened = device_name;
  hooks = conformance::Make(info);
  return &hooks;
}
