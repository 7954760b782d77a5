// Executor and suites as processes of this machine, over the libibverbs that is installed here.
#ifndef QPEXAM_HARNESS_REMOTE_PROCESS_MACHINE_H_
#define QPEXAM_HARNESS_REMOTE_PROCESS_MACHINE_H_

#include <string>
#include <vector>

#include "harness/remote/machine.h"

namespace qpexam::remote {

struct ProcessJob {
  std::string folder;                    // for its input, its results and what it says
  std::string device;                    // as libibverbs names it
  std::vector<std::string> environment;  // NAME=VALUE, besides ours
};

// Runs the job's tool to its end, or until it is stopped or hangs.
MachineEnd RunAsProcess(const MachineJob& job, const ProcessJob& place);

// The tools are not there; with the remedy.
inline constexpr char kToolsNotBuilt[] =
    "the programs that run over the installed libibverbs were not built; ./qpexam builds them";

}  // namespace qpexam::remote

#endif  // QPEXAM_HARNESS_REMOTE_PROCESS_MACHINE_H_
