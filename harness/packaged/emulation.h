// The emulated kernel of a process that runs under the preloaded library: one device, the seam
// oracle, and a clock.
#ifndef QPEXAM_HARNESS_PACKAGED_EMULATION_H_
#define QPEXAM_HARNESS_PACKAGED_EMULATION_H_

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "harness/hosted/kernel.h"
#include "harness/hosted/seam_oracle.h"

namespace qpexam::packaged {

// Above 0: this thread is in our own code, and its calls go to libc.
extern thread_local int t_inside;
class Inside {
 public:
  Inside() { ++t_inside; }
  ~Inside() { --t_inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

class Emulation {
 public:
  // Made when it is first asked for, of the environment's provider; nullptr where that is none.
  static Emulation* Get();
  // nullptr where it was not asked for.
  static Emulation* IfMade();

  // The fd of a new context of the device; -1 with errno.
  int Open();
  void Attach(ibv_context* context) { oracle_.Attach(context); }
  hosted::Kernel& kernel() { return kernel_; }
  hosted::SeamOracle& oracle() { return oracle_; }

  // Time is the machine's from the start on, until this.
  void TakeOverClock();
  // Appends what was found to the environment's file.
  void TellFindings();

 private:
  explicit Emulation(std::unique_ptr<hosted::DeviceModel> model);
  void StartClock();
  static void* Tick(void* self);

  hosted::Kernel kernel_;
  hosted::SeamOracle oracle_;
  std::string findings_file_;
};

}  // namespace qpexam::packaged

#endif  // QPEXAM_HARNESS_PACKAGED_EMULATION_H_
