// Runs Programs on another machine and judges here what comes back.
//
// One start of the machine takes the whole batch. When it dies, the Program that ran is a finding
// with the machine's log, and the run goes on without it on a fresh one. Where several ran beside
// each other, those run again one by one, which tells the one that it died of.
#ifndef QPEXAM_HARNESS_WATCH_REMOTE_RUN_H_
#define QPEXAM_HARNESS_WATCH_REMOTE_RUN_H_

#include "harness/remote/machine.h"
#include "harness/watch/watched_run.h"

namespace qpexam {

// As RunWatched().
std::string RunOnMachine(const remote::Machine& machine, const ProviderInfo& provider,
                         const std::vector<Program>& programs, const WatchOptions& options,
                         const std::function<void(RunResult&&)>& on_result);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_WATCH_REMOTE_RUN_H_
