// An engine that coverage guides (libFuzzer, AFL++), run to its end as processes of its own over
// the fuzz target that ./qpexam built beside this program.
#ifndef QPEXAM_HARNESS_COMMAND_ENGINE_H_
#define QPEXAM_HARNESS_COMMAND_ENGINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/fuzz/engine_folder.h"

namespace qpexam {

struct EngineOptions {
  std::string engine;  // "libfuzzer", "afl"
  std::string provider;
  double seconds = 0;  // 0: until stopped
  uint64_t runs = 0;   // inputs at most, 0: no bound
  unsigned jobs = 1;
  uint64_t seed = 1;
};

struct EngineState {
  uint64_t executed = 0;
  uint64_t edges = 0;  // libFuzzer: points of all code reached; AFL++: entries of its map
  uint64_t inputs = 0;
  uint64_t provider_points = 0, provider_reached = 0;
  uint64_t crashes = 0;  // inputs that ended a process: crash, hang, out of memory
};

// Why the engine cannot run here, with the remedy; "" when it can.
std::string EngineMissing(const std::string& engine);

// Runs it in `folder`, which has seeds/ and found/, until its time is over or `stop` says so, with
// the state every second. Returns "" or what went wrong, the engine's last words included.
std::string RunEngine(const EngineOptions& options, const EngineFolder& folder,
                      const std::function<bool(const EngineState&)>& stop, EngineState* end);

// The inputs that ended a process, by the engines' own conventions for names.
std::vector<std::string> EngineArtifacts(const EngineOptions& options, const EngineFolder& folder);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_COMMAND_ENGINE_H_
