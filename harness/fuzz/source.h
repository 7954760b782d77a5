// The Programs of a fuzzing run without an engine: the i-th of a seed, made from the corpus by
// mutation, splicing and the generator. A pure function of seeds, seed and index, so that a run can
// be repeated, continued, split among processes and gone on with behind a crash.
#ifndef QPEXAM_HARNESS_FUZZ_SOURCE_H_
#define QPEXAM_HARNESS_FUZZ_SOURCE_H_

#include <cstdint>
#include <vector>

#include "harness/program/program.h"

namespace qpexam {

struct SourceOptions {
  uint64_t seed = 1;
  size_t calls = 200;                // what a Program may grow to
  uint32_t undefined_per_mille = 0;  // for a provider that detects UNDEFINED uses
};

class ProgramSource {
 public:
  // Seeds longer than `calls` are left out.
  ProgramSource(std::vector<Program> seeds, const SourceOptions& options);

  Program At(uint64_t index) const;
  size_t seeds() const { return seeds_.size(); }

 private:
  std::vector<Program> seeds_;
  SourceOptions options_;
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_FUZZ_SOURCE_H_
