// Changes Programs as fuzzers want: by the meaning of calls, not by bytes. What comes out is well
// formed; most of it stays legal where what went in was.
#ifndef QPEXAM_HARNESS_PROGRAM_MUTATE_H_
#define QPEXAM_HARNESS_PROGRAM_MUTATE_H_

#include <cstddef>
#include <cstdint>

#include "harness/program/program.h"
#include "harness/program/random.h"

namespace qpexam {

enum class Mutation : uint8_t {
  kInsertCall,
  kDeleteCall,
  kDuplicateCall,
  kMoveCall,
  kBoundary,       // a number becomes one that means something there
  kFlag,           // a flag more or less
  kOtherObject,    // a call names another object of that kind
  kKeyOfOther,     // a key becomes that of another object, or is flipped
  kMoveAddress,    // an address moves to an edge of its region
  kResizeList,     // an SGE, buffer or attribute more or less
  kOperation,      // a builder of another operation, with the setters it needs
  kQpType,         // the QPs become another type, requests that it lacks go
  kGrowRegion,     // a builder and its setters more
  kShrinkRegion,   // ... less
  kSplitRegion,    // complete and start between two requests
  kMergeRegions,   // complete and the next start go
  kRingOffset,     // requests, polled one by one, before the first region
  kAbortBefore,    // the region is first built and aborted
  kFailureBefore,  // a region too long for the ring goes before
  kResetBefore,    // the QPs are recycled first
  kPostInstead,    // a region's requests by ibv_post_send
  kThread,         // a region moves to another thread
  kSettle,         // a settle more or less
};
inline constexpr int kMutationCount = static_cast<int>(Mutation::kSettle) + 1;

struct MutateOptions {
  size_t calls = 512;  // what a Program may grow to
};

// One mutation; false: it found nothing to change. `program` is well formed before and after.
bool Apply(Mutation mutation, Random* random, Program* program, const MutateOptions& options = {});

// A few mutations, chosen by weight.
void Mutate(Random* random, Program* program, const MutateOptions& options = {});

// The calls of `a` up to some call, then those of `b` from some call on with the objects they need:
// `b`'s objects become `a`'s of the same kind where there are such.
Program Splice(Random* random, const Program& a, const Program& b,
               const MutateOptions& options = {});

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_MUTATE_H_
