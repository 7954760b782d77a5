// How much of a provider's own code the Programs of this process, and of those before it, have
// reached: its points (the compiler's coverage counters), counted in a file that processes share.
#ifndef QPEXAM_FUZZERS_PROVIDER_COVERAGE_H_
#define QPEXAM_FUZZERS_PROVIDER_COVERAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace qpexam {

class ProviderCoverage {
 public:
  // `provider` as on the command line; `file`: one byte a point, made when missing. Notes nothing
  // where the build has no counters or the provider's code is not rdma-core's.
  ProviderCoverage(const std::string& provider, const std::string& file);

  // Adds what the counters show since the engine last cleared them.
  void Note();

 private:
  const uint8_t* counters_ = nullptr;
  size_t points_ = 0;
  uint8_t* seen_ = nullptr;
};

}  // namespace qpexam

#endif  // QPEXAM_FUZZERS_PROVIDER_COVERAGE_H_
