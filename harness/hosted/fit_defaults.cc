#include "harness/hosted/fit_defaults.h"

#include <algorithm>

#include "harness/program/schema.h"

namespace qpexam::hosted {

void FitDefaults(const DeviceTraits& traits, Program* program) {
  const auto fit = [](uint64_t* value, uint64_t fallback, uint64_t most) {
    if (*value == fallback) *value = std::min(*value, most);
  };
  const Call defaults = MakeCall(CallKind::kQp);
  for (Call& call : program->calls) {
    if (call.kind != CallKind::kQp) continue;
    fit(&call.sge_max, defaults.sge_max, traits.attr.max_sge);
    fit(&call.recv_sge_max, defaults.recv_sge_max, traits.attr.max_sge);
    fit(&call.inline_max, defaults.inline_max, traits.max_inline);
  }
}

}  // namespace qpexam::hosted
