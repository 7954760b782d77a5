#include "fuzzers/program_input.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "harness/program/bytes.h"
#include "harness/program/generate.h"
#include "harness/program/mutate.h"
#include "harness/program/parse.h"

namespace qpexam {
namespace {

constexpr size_t kMostCalls = 200;

size_t Put(const Program& program, uint8_t* out, size_t max_size) {
  const std::vector<uint8_t> bytes = BytesFromProgram(program);
  // Whole records: a Program that does not fit loses its end.
  const size_t n = std::min(bytes.size(), max_size / kRecordBytes * kRecordBytes);
  if (n > 0) std::memcpy(out, bytes.data(), n);
  return n;
}

}  // namespace

void ProgramFromInput(const uint8_t* data, size_t size, Program* program) {
  constexpr std::string_view kText = "qpx ";
  if (size > kText.size() && std::memcmp(data, kText.data(), kText.size()) == 0) {
    ParseResult parsed =
        ParseProgram(std::string_view(reinterpret_cast<const char*>(data), size), "input");
    ByteLimits limits;
    if (parsed.ok && parsed.program.arena <= limits.arena &&
        parsed.program.calls.size() <= limits.calls) {
      *program = std::move(parsed.program);
      return;
    }
  }
  ProgramFromBytes(data, size, program);
}

Program ProgramFromInput(const uint8_t* data, size_t size) {
  Program program;
  ProgramFromInput(data, size, &program);
  return program;
}

size_t MutateInput(uint8_t* data, size_t size, size_t max_size, uint64_t seed) {
  Random random(seed);
  MutateOptions options;
  options.calls = kMostCalls;
  Program program = ProgramFromInput(data, size);
  if (program.calls.empty() || random.OneIn(50)) program = Generate(&random);
  Mutate(&random, &program, options);
  return Put(program, data, max_size);
}

size_t CrossOverInputs(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size,
                       uint8_t* out, size_t max_size, uint64_t seed) {
  Random random(seed);
  MutateOptions options;
  options.calls = kMostCalls;
  return Put(Splice(&random, ProgramFromInput(a, a_size), ProgramFromInput(b, b_size), options),
             out, max_size);
}

}  // namespace qpexam
