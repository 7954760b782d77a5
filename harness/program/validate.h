// What makes a Program well formed: every Program that runs keeps these rules, whether it was
// written, decoded from bytes, generated or mutated.
//
//   - each object is made by one call, before any call names it, and is of the kind named;
//     objects are numbered in the order in which they are made;
//   - required fields are there, numbers fit the C types behind them;
//   - memory lies in the arena; what the CPU itself touches (store, load, inline data) too;
//   - a thread is made before it makes calls; parallel and join alternate.
// Being well formed says nothing of being legal: that is the lint (lint.h).
#ifndef QPEXAM_HARNESS_PROGRAM_VALIDATE_H_
#define QPEXAM_HARNESS_PROGRAM_VALIDATE_H_

#include <optional>
#include <string>
#include <vector>

#include "harness/program/layout.h"
#include "harness/program/program.h"
#include "harness/program/schema.h"

namespace qpexam {

// What is wrong with a call, and what would be right.
struct Invalid {
  uint32_t call = 0;
  std::string_view word;  // the field, "" where it is the call as a whole or a positional field
  std::string what;
  std::string remedy;
};

// A letter or '_', then letters, digits and '_'.
bool IsName(std::string_view text);
inline constexpr const char* kNameRule =
    "a name is a letter or '_', then letters, digits and '_', 64 at most";

// Takes the calls of a Program in order.
class Validator {
 public:
  explicit Validator(const Program& program)
      : program_(program), layout_(program.arena), made_(program.objects.size(), 0) {}

  // Nothing: the call is well formed after those before it and counts as made.
  std::optional<Invalid> Add(const Call& call);
  // The same for who need not know what is wrong: fuzzers ask it for every call of every Program.
  bool Takes(const Call& call) { return Check(call).what == What::kNothing; }

  // Objects were added to the Program since.
  void NoteObjects() { made_.resize(program_.objects.size(), 0); }

  const Layout& layout() const { return layout_; }
  bool Made(ObjectId id) const { return id < made_.size() && made_[id] != 0; }
  size_t objects() const { return objects_; }  // made so far
  int threads() const { return threads_; }
  bool in_parallel() const { return in_parallel_; }

 private:
  // What is wrong: found first, and put into words only where somebody reads them.
  enum class What : uint8_t {
    kNothing,
    kNoThread,
    kNoObject,
    kNotMadeYet,
    kWrongKind,
    kMakesNothing,
    kMadeTwice,
    kOutOfTurn,
    kMakesOtherKind,
    kMissing,
    kNoQueue,
    kTooLarge,
    kIncOfNumber,
    kTooLong,
    kLongSge,
    kNotEightBytes,
    kTooManyBytes,
    kTakesNoAttr,
    kLargeAttr,
    kNeedsEx,
    kXrcSrqWithoutCq,
    kParallelTwice,
    kJoinAlone,
    kTooManyThreads,
    kOfMainThread,
    kMadeInParallel,
    kAbsoluteRegion,
    kArenaFull,
    kOutsideBase,
    kNoBase,
    kBytesAndFill,
    kOutsideArena,
    kNoSendWr,
  };
  struct Problem {
    What what = What::kNothing;
    const Field* field = nullptr;
    ObjectId id = kNoObject;
    uint64_t value = 0;
    KindMask kinds = 0;
  };
  Problem Check(const Call& call);
  Problem CheckObject(ObjectId id, KindMask kinds) const;
  Problem CheckKey(const KeyRef& key, KindMask kinds) const;
  Problem CheckField(const Field& field, const Call& call) const;
  What CheckMemory(const Call& call);
  Invalid Describe(const Problem& problem, const Call& call) const;
  bool Reachable(const MemRef& ref, uint64_t len) const { return layout_.InArena(ref, len); }

  const Program& program_;
  Layout layout_;
  std::vector<uint8_t> made_;  // by ObjectId
  uint32_t calls_ = 0;
  size_t objects_ = 0;
  int threads_ = 0;
  bool in_parallel_ = false;
};

// The first call that is not well formed.
std::optional<Invalid> Validate(const Program& program);

inline constexpr int kMaxThreads = 16;
inline constexpr size_t kMaxList = 4096;  // SGEs, buffers, attributes of one call

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_VALIDATE_H_
