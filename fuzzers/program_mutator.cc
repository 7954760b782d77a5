// libFuzzer's custom mutator and crossover, for every target whose input is a Program.
#include "fuzzers/program_input.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// One input in so many is changed byte by byte: the byte form's own decoding is worth trying too.
constexpr unsigned kBytesOneIn = 16;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  if (seed % kBytesOneIn == 0) return LLVMFuzzerMutate(data, size, max_size);
  return qpexam::MutateInput(data, size, max_size, seed);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b,
                                            size_t b_size, uint8_t* out, size_t max_size,
                                            unsigned int seed) {
  return qpexam::CrossOverInputs(a, a_size, b, b_size, out, max_size, seed);
}
