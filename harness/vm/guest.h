// A guest of QEMU that has a soft-RoCE device: one boot, one command, its results as they come.
#ifndef QPEXAM_HARNESS_VM_GUEST_H_
#define QPEXAM_HARNESS_VM_GUEST_H_

#include <string>
#include <vector>

#include "harness/remote/machine.h"
#include "harness/vm/kernel_package.h"

namespace qpexam::vm {

class Guest : public remote::Machine {
 public:
  explicit Guest(std::string series) : series_(std::move(series)) {}
  remote::MachineEnd Run(const remote::MachineJob& job) const override;
  remote::Pace PaceOf(size_t programs) const override;

 private:
  std::string series_;
};

// Why no guest can run here, and the line to type; empty where it can. Starts nothing.
std::string WhyNoGuest();

// The version of the machine's libibverbs, which the guest uses: "44.0"; empty where unknown.
std::string InstalledVerbsVersion();

}  // namespace qpexam::vm

#endif  // QPEXAM_HARNESS_VM_GUEST_H_
