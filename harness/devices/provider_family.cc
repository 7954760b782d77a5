#include "harness/devices/provider_family.h"

#include <algorithm>

namespace qpexam {
namespace {

std::vector<std::unique_ptr<ProviderFamily>>& Registered() {
  static auto* families = new std::vector<std::unique_ptr<ProviderFamily>>();
  return *families;
}

std::string_view FamilyOf(std::string_view name) { return name.substr(0, name.find(':')); }

// Families that exist in the design and not in this build: a name of theirs is no typing error.
struct Later {
  std::string_view family, what;
};
constexpr Later kLater[] = {
    {"hosted", "hosted providers are not part of this build"},
    {"vm", "guest kernels are not part of this build"},
};

// The number of edits from one word to the other: for "did you mean".
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (size_t i = 1; i <= a.size(); i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

void AddFamily(std::unique_ptr<ProviderFamily> family) {
  auto& all = Registered();
  auto at =
      std::upper_bound(all.begin(), all.end(), family->family(),
                       [](std::string_view word, const auto& f) { return word < f->family(); });
  all.insert(at, std::move(family));
}

const std::vector<std::unique_ptr<ProviderFamily>>& Families() { return Registered(); }

std::vector<ProviderInfo> AllProviders() {
  std::vector<ProviderInfo> all;
  for (const auto& family : Registered()) {
    std::vector<ProviderInfo> some = family->List();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

namespace {

// Whether `name` is `one`'s with a series that its version belongs to: "vm:rxe@6.1".
bool NamesItsSeries(const ProviderInfo& one, std::string_view name) {
  const size_t at = name.find('@');
  if (at == name.npos || name.substr(0, at) != one.name) return false;
  const std::string_view series = name.substr(at + 1), version = one.version;
  if (series.find('.') == series.npos || version.substr(0, series.size()) != series) return false;
  const std::string_view rest = version.substr(series.size());
  return rest.empty() || rest[0] == '.' || rest[0] == '/';
}

}  // namespace

bool FindProvider(std::string_view name, ProviderInfo* info, std::string* why) {
  const std::string_view word = FamilyOf(name);
  bool known_family = false;
  std::string closest;
  std::vector<std::string> without_family;  // "mlx5" is said where hosted:mlx5 is meant
  size_t best = 4;
  for (const auto& family : Registered()) {
    if (family->family() == word) known_family = true;
    for (ProviderInfo& one : family->List()) {
      if (one.name == name || NamesItsSeries(one, name)) {
        *info = std::move(one);
        info->name = name;
        return true;
      }
      if (!family->family().empty() && word == name &&
          one.name == std::string(family->family()) + ":" + std::string(name))
        without_family.push_back(one.name);
      const size_t distance = Distance(one.name, name);
      if (distance < best) {
        best = distance;
        closest = one.name;
      }
    }
  }
  if (known_family && word == "device" && name.size() > word.size() + 1) {
    *info = ProviderInfo();
    info->name = name;
    info->kind = ProviderKind::kDevice;
    info->why_unavailable = "libibverbs finds no such device here" +
                            (closest.empty() ? "; `qpexam providers` lists those it finds"
                                             : "; did you mean " + closest + "?");
    return true;
  }
  *why = "unknown provider \"" + std::string(name) + "\"";
  if (!known_family) {
    for (const Later& later : kLater)
      if (later.family == word) *why += ": " + std::string(later.what);
  }
  if (!without_family.empty()) {
    *why += "; did you mean ";
    for (size_t i = 0; i < without_family.size(); i++)
      *why += (i == 0 ? "" : i + 1 == without_family.size() ? " or " : ", ") + without_family[i];
    *why += "?";
    return false;
  }
  *why += !closest.empty()   ? "; did you mean " + closest + "?"
          : word == "faulty" ? "; `qpexam providers --all` lists the faults"
                             : "; `qpexam providers` lists what there is";
  return false;
}

std::unique_ptr<DeviceSession> OpenProvider(const ProviderInfo& info, std::string* why) {
  for (const auto& family : Registered())
    if (family->family() == FamilyOf(info.name)) return family->Open(info, why);
  *why = "no such family of providers";
  return nullptr;
}

std::unique_ptr<remote::Machine> MachineOf(const ProviderInfo& info) {
  for (const auto& family : Registered())
    if (family->family() == FamilyOf(info.name)) return family->MachineOf(info);
  return nullptr;
}

}  // namespace qpexam
