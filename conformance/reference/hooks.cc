// The reference provider under the suites: virtual time, and misuse that it detects.

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/fixture/provider_hooks.h"
#include "reference/provider/control.h"

namespace qpexam::conformance {
namespace {

std::vector<std::string> TakeLints() {
  std::vector<std::string> clauses;
  for (const auto& lint : provider::TakeLints()) clauses.emplace_back(lint.clause);
  return clauses;
}

void Advance(uint64_t ns) { provider::Advance(model::Nanoseconds(ns)); }

}  // namespace
}  // namespace qpexam::conformance

extern "C" const qpexam::conformance::ProviderHooks* qpexam_provider_hooks(
    const char* device_name) {
  static const qpexam::conformance::ProviderHooks hooks = [] {
    qpexam::conformance::ProviderHooks made;
    made.provider = "reference";
    // faulty:NAME in the environment: the suites must catch it.
    if (const char* fault = std::getenv("QPEXAM_FAULT"); fault != nullptr && *fault != '\0') {
      made.provider = std::string("faulty:") + fault;
      qpexam::provider::SetFault(fault);
    }
    made.is_reference = true;
    made.virtual_time = true;
    made.advance = qpexam::conformance::Advance;
    made.take_lints = qpexam::conformance::TakeLints;
    qpexam::provider::SetManualClock();
    return made;
  }();
  return std::strncmp(device_name, "qpexam", 6) == 0 ? &hooks : nullptr;
}
