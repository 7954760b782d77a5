// How a provider comes into the harness: a family registers itself under a word ("hosted") and
// opens sessions by member ("rxe"). The harness knows no provider otherwise.
//
//   class HostedFamily : public ProviderFamily { ... };
//   const RegisterFamily<HostedFamily> kRegistered;     // in a library with alwayslink = 1
#ifndef QPEXAM_HARNESS_DEVICES_PROVIDER_FAMILY_H_
#define QPEXAM_HARNESS_DEVICES_PROVIDER_FAMILY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/execute/session.h"
#include "harness/remote/machine.h"

namespace qpexam {

// What kind of thing runs: how far the judge may press its rules (judge::Provider).
enum class ProviderKind : uint8_t { kReference, kHosted, kDevice };

// One provider that a user can name.
struct ProviderInfo {
  std::string name;             // as named on the command line: "reference", "hosted:rxe"
  std::string version;          // of what runs; empty where that is not known before it is opened
  std::string about;            // one line
  std::string why_unavailable;  // empty: it can be opened here; else why not, and the remedy
  bool why_is_setup = false;    // why_unavailable: something of this machine is missing
  ProviderKind kind = ProviderKind::kReference;
  bool efa = false;  // neither InfiniBand nor RoCE (judge::JudgeOptions::efa)
  // Whether `check` runs it without being asked: never a real device, never a fault.
  bool in_check = false;
};

class ProviderFamily {
 public:
  virtual ~ProviderFamily() = default;

  // "reference", "hosted": what stands before the colon of a name.
  virtual std::string_view family() const = 0;
  // What there is, or could be. Opens no QP.
  virtual std::vector<ProviderInfo> List() const = 0;
  // Opens one of them. nullptr: it cannot be opened now, and *why says why and what to do.
  virtual std::unique_ptr<DeviceSession> Open(const ProviderInfo& info, std::string* why) const = 0;
  // Where the provider lives on another machine, which is started for each batch; else nullptr.
  virtual std::unique_ptr<remote::Machine> MachineOf(const ProviderInfo& info) const {
    (void)info;
    return nullptr;
  }
};

// Families in the order of their words. Registration happens before main(); none is ever removed.
void AddFamily(std::unique_ptr<ProviderFamily> family);
const std::vector<std::unique_ptr<ProviderFamily>>& Families();

template <typename Family>
struct RegisterFamily {
  RegisterFamily() { AddFamily(std::make_unique<Family>()); }
};

// Everything that can be named on this machine.
std::vector<ProviderInfo> AllProviders();
// By name; false with *why (what is wrong, and what to write instead) for an unknown one. A name of
// a family whose members are this machine's (device:mlx5_0) is never unknown: where there is no
// such member, its why_unavailable says so.
bool FindProvider(std::string_view name, ProviderInfo* info, std::string* why);
std::unique_ptr<DeviceSession> OpenProvider(const ProviderInfo& info, std::string* why);
// The machine that it lives on; nullptr: this one.
std::unique_ptr<remote::Machine> MachineOf(const ProviderInfo& info);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_DEVICES_PROVIDER_FAMILY_H_
