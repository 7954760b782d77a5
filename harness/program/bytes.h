// The byte form of a Program, for fuzzers.
//
// Every byte string decodes to a well-formed Program, and a small change of bytes is a small change
// of the Program: bytes come in records of 32. The first is the header (arena, seed); each further
// one begins a call, continues the one before, or says nothing, by its first byte. So a changed
// byte changes one call, and records can be inserted, removed and moved.
//
//   record    KIND PAYLOAD[31]     KIND 0: nothing; 255: more payload of the call before;
//                                  else call kind (KIND - 1) modulo their count
//   payload   THREAD PRESENT... VALUE...
//             PRESENT: a bit for each field of the schema that the call has, in its order; a field
//             whose bit is 0 has its default. VALUEs of those whose bit is 1, by type. Payload that
//             is missing reads as zeros.
//   number    0..239: itself; 240+k: k (at most 8) bytes follow, little-endian; 249..255: a value
//             that means something for the field (its limit, one more than half, ...)
//   object    the how-manieth of the objects made so far that may stand there, modulo their count;
//             optional ones: 0 for none, counted from 1
//
// Names and notes are not in it: decoding names objects by kind and number.
#ifndef QPEXAM_HARNESS_PROGRAM_BYTES_H_
#define QPEXAM_HARNESS_PROGRAM_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/program/program.h"

namespace qpexam {

inline constexpr size_t kRecordBytes = 32;

// What decoding keeps within, so that a run stays small.
struct ByteLimits {
  uint64_t arena = 64 << 10;
  size_t calls = 512;
  size_t list = 64;  // elements of a list that is not backed by bytes
};
inline constexpr ByteLimits kNoByteLimits = {kMaxArena, ~size_t{0}, ~size_t{0}};

Program ProgramFromBytes(const uint8_t* data, size_t size, const ByteLimits& limits = {});
// The same into a Program whose memory is used again.
void ProgramFromBytes(const uint8_t* data, size_t size, Program* program,
                      const ByteLimits& limits = {});

// Decodes to the same Program, but for names and notes (with limits that allow it).
std::vector<uint8_t> BytesFromProgram(const Program& program);

// Names the objects as decoding does: QPs a, b, ..., others by kind and number.
void Rename(Program* program);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_BYTES_H_
