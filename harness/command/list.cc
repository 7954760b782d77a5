// `qpexam providers` and `variations`: what there is.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/command/commands.h"
#include "harness/command/console.h"
#include "harness/devices/provider_family.h"
#include "reference/model/choice.h"

namespace qpexam {
namespace {

std::string ProvidersToJson(const std::vector<ProviderInfo>& all) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ProviderInfo& info : all)
    json.push_back({{"name", info.name},
                    {"version", info.version},
                    {"available", info.why_unavailable.empty()},
                    {"why_unavailable", info.why_unavailable},
                    {"about", info.about},
                    {"in_check", info.in_check}});
  return json.dump(2) + "\n";
}

}  // namespace

ExitStatus ListProviders(const ProvidersArguments& arguments) {
  const std::vector<ProviderInfo> all = AllProviders();
  OutputFile json;
  if (!json.Open(arguments.json)) return kUsage;
  size_t faults = 0, width = 4;
  for (const ProviderInfo& info : all) {
    if (info.name.rfind("faulty:", 0) == 0) faults++;
    if (arguments.all || info.name.rfind("faulty:", 0) != 0)
      width = std::max(width, info.name.size());
  }
  const std::string some = "faulty:NAME";
  width = std::max(width, some.size());
  auto line = [&](std::string_view name, std::string_view version, std::string_view about) {
    Print(fmt::format("{:<{}}  {:<8}  {}\n", name, width, version, Wrapped(about, width + 12)));
  };
  line("name", "version", "");
  bool faults_shown = false;
  for (const ProviderInfo& info : all) {
    if (!arguments.all && info.name.rfind("faulty:", 0) == 0) {
      if (!faults_shown)
        line(some, info.version,
             fmt::format("the reference with one of {} known faults; `qpexam providers --all` "
                         "names them",
                         faults));
      faults_shown = true;
      continue;
    }
    const std::string about =
        info.why_unavailable.empty() ? info.about : "not available: " + info.why_unavailable;
    line(info.name, info.version.empty() ? "-" : info.version, about);
  }
  const bool device = std::any_of(all.begin(), all.end(), [](const ProviderInfo& info) {
    return info.kind == ProviderKind::kDevice;
  });
  if (!device) line("device:NAME", "-", "not available: libibverbs finds no device here");
  if (!json.Write(ProvidersToJson(all))) return kUsage;
  return kFine;
}

ExitStatus ListVariations(const VariationsArguments& arguments) {
  std::set<std::string> unknown(arguments.which.begin(), arguments.which.end());
  auto wanted = [&](const model::ChoiceInfo& choice) {
    if (arguments.which.empty()) return true;
    bool named = false;
    for (const std::string& which : arguments.which) {
      if (which != choice.name && which != choice.clause) continue;
      unknown.erase(which);
      named = true;
    }
    return named;
  };
  if (arguments.which.empty())
    Print(
        Wrapped("Where the specification allows several behaviours. The first outcome is what the "
                "reference does; a provider that takes another conforms as well.",
                0) +
        "\n");
  for (const model::ChoiceInfo& choice : model::AllChoices()) {
    if (!wanted(choice)) continue;
    Print(
        fmt::format("\n{}  ({})\n  {}\n", choice.name, choice.clause, Wrapped(choice.question, 2)));
    for (size_t i = 0; i < choice.outcomes.size(); i++)
      Print(fmt::format("    {}. {}\n", i, Wrapped(choice.outcomes[i], 7)));
  }
  for (const std::string& which : unknown)
    Say(fmt::format("no variation is named \"{}\"; `qpexam variations` lists them", which));
  return unknown.empty() ? kFine : kUsage;
}

}  // namespace qpexam
