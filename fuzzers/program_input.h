// What the Program targets share: an input is the byte form or, where it begins as one, the text
// form of a Program, so that corpora may hold both; and the mutations by meaning.
#ifndef QPEXAM_FUZZERS_PROGRAM_INPUT_H_
#define QPEXAM_FUZZERS_PROGRAM_INPUT_H_

#include <cstddef>
#include <cstdint>

#include "harness/program/program.h"
#include "harness/program/random.h"

namespace qpexam {

// Always well formed, and small enough to run.
Program ProgramFromInput(const uint8_t* data, size_t size);
// The same into a Program whose memory is used again.
void ProgramFromInput(const uint8_t* data, size_t size, Program* program);

// Writes a changed input over data and returns its size, at most max_size.
size_t MutateInput(uint8_t* data, size_t size, size_t max_size, uint64_t seed);
size_t CrossOverInputs(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size,
                       uint8_t* out, size_t max_size, uint64_t seed);

}  // namespace qpexam

#endif  // QPEXAM_FUZZERS_PROGRAM_INPUT_H_
