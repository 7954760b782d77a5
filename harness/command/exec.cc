// `qpexam exec`: any verbs program over a packaged provider and the emulated kernel.
#include <fmt/format.h>

#include "harness/command/commands.h"
#include "harness/command/console.h"
#include "harness/devices/provider_family.h"
#include "harness/packaged/launch.h"

namespace qpexam {

int Exec(const ExecArguments& arguments) {
  ProviderInfo provider;
  std::string why;
  if (!FindProvider(arguments.provider, &provider, &why)) {
    Say(why);
    return kUsage;
  }
  const hosted::HostedKind* kind = packaged::KindOf(provider.name);
  if (kind == nullptr) {
    Say(
        fmt::format("exec runs programs over packaged providers, and {} is none; `qpexam "
                    "providers` lists them",
                    provider.name));
    return kUsage;
  }
  if (!provider.why_unavailable.empty()) {
    Say(fmt::format("{}: {}", provider.name, provider.why_unavailable));
    return provider.why_is_setup ? kSetupIncomplete : kNoProvider;
  }
  const packaged::CommandEnd end = packaged::RunCommand(*kind, arguments.command);
  if (!end.started) {
    Say(end.why);
    return kSetupIncomplete;
  }
  constexpr size_t kMostLines = 50;
  for (size_t i = 0; i < end.findings.size() && i < kMostLines; i++) Say(end.findings[i]);
  if (end.findings.size() > kMostLines)
    Say(fmt::format("... and {} more", end.findings.size() - kMostLines));
  return end.status == 0 && !end.findings.empty() ? kFindings : end.status;
}

}  // namespace qpexam
