// A provider under judge and seam checks. QPEXAM_FUZZ_PROVIDER names it; any violation by the
// reference is a bug of ours.
#include "fuzzers/program_input.h"
#include "fuzzers/program_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static qpexam::ProgramTarget target(QPEXAM_FUZZ_PROVIDER);
  qpexam::ProgramFromInput(data, size, target.Next());
  target.RunNext();
  target.Judge();
  return 0;
}
