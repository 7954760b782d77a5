// Runs programs with a packaged provider's device in their sight.
#ifndef QPEXAM_HARNESS_PACKAGED_LAUNCH_H_
#define QPEXAM_HARNESS_PACKAGED_LAUNCH_H_

#include <string>
#include <vector>

#include "harness/hosted/hosted_provider.h"
#include "harness/remote/machine.h"

namespace qpexam::packaged {

// The device model behind "packaged:NAME"; nullptr for any other name.
const hosted::HostedKind* KindOf(const std::string& name);

struct CommandEnd {
  bool started = false;
  int status = 0;   // as a shell tells it: 128 and the signal's number for one that was killed
  std::string why;  // it was not started
  std::vector<std::string> findings;  // what was seen at the seams, a line each
};
// With our own stdin, stdout and stderr, until it ends.
CommandEnd RunCommand(const hosted::HostedKind& kind, const std::vector<std::string>& command);

// Executor and suites as processes over the installed libibverbs.
class PackagedMachine : public remote::Machine {
 public:
  explicit PackagedMachine(const hosted::HostedKind& kind) : kind_(kind) {}
  remote::MachineEnd Run(const remote::MachineJob& job) const override;
  void FitDefaults(Program* program) const override;

 private:
  const hosted::HostedKind kind_;
};

}  // namespace qpexam::packaged

#endif  // QPEXAM_HARNESS_PACKAGED_LAUNCH_H_
