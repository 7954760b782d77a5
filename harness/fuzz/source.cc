#include "harness/fuzz/source.h"

#include <algorithm>

#include "harness/program/generate.h"
#include "harness/program/mutate.h"
#include "harness/program/random.h"

namespace qpexam {

ProgramSource::ProgramSource(std::vector<Program> seeds, const SourceOptions& options)
    : seeds_(std::move(seeds)), options_(options) {
  seeds_.erase(std::remove_if(seeds_.begin(), seeds_.end(),
                              [&](const Program& p) { return p.calls.size() > options_.calls; }),
               seeds_.end());
  // Lines and comments of the seeds mean nothing in what becomes of them.
  for (Program& p : seeds_) {
    p.notes.clear();
    for (Call& call : p.calls) call.line = 0;
  }
}

Program ProgramSource::At(uint64_t index) const {
  // Two rounds, so that neighbouring indices and seeds have nothing in common.
  Random random(Random(options_.seed * 0x9e3779b97f4a7c15 ^ index).Next());
  MutateOptions limits;
  limits.calls = options_.calls;
  Program program;
  if (seeds_.empty() || random.OneIn(4)) {
    GenerateOptions generate;
    generate.steps = static_cast<uint32_t>(random.Between(1, 12));
    generate.undefined_per_mille = options_.undefined_per_mille;
    program = Generate(&random, generate);
  } else {
    program = seeds_[random.Below(seeds_.size())];
  }
  if (!seeds_.empty() && random.OneIn(6))
    program = Splice(&random, program, seeds_[random.Below(seeds_.size())], limits);
  // Mostly a few changes; sometimes many, away from what the corpus knows.
  for (uint64_t n = random.OneIn(8) ? random.Between(3, 12) : random.Below(3); n > 0; n--)
    Mutate(&random, &program, limits);
  program.seed = 1 + random.Below(1u << 20);
  return program;
}

}  // namespace qpexam
