// The library of faults: mistakes that a provider could really make, switched on one at a time
// (faulty:NAME), each breaking one clause and as little else as possible.
//
// The engine and the reference provider ask Faulty(Fault::kX) where the mistake would be made: one
// branch that is never taken while no fault is on and nothing is recorded.
#ifndef QPEXAM_REFERENCE_MODEL_FAULTS_H_
#define QPEXAM_REFERENCE_MODEL_FAULTS_H_

#include <atomic>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace qpexam::model {

// The order is the order of the files; kNone is no fault.
enum class Fault : uint16_t {
  kNone,
#define QPEXAM_FAULT(id, name, clause, where, what) id,
#include "reference/model/faults.inc"
#include "reference/model/faults_fresh.inc"
#undef QPEXAM_FAULT
  kCount
};

// Who thought of it: whoever wrote the suites, or a reader who had not seen them, whose faults are
// counted apart since they show what the suites catch unasked.
enum class FaultOrigin : uint8_t { kLibrary, kFreshReader };

struct FaultInfo {
  Fault fault;
  std::string_view name;    // "complete-keeps-requests-before-the-bad-one"
  std::string_view clause;  // "WR-ATOM-002"
  std::string_view where;   // "complete", "poll", "responder", ...
  std::string_view what;    // one sentence
  FaultOrigin origin;
};
const std::vector<FaultInfo>& AllFaults();
std::optional<Fault> FaultByName(std::string_view name);

// Process-wide: a fault is a property of the provider under test.
class FaultSwitch {
 public:
  static void Set(Fault fault);  // Fault::kNone: off
  static void StartRecording();  // note which faults are asked for
  static std::bitset<static_cast<size_t>(Fault::kCount)> TakeReached();
  static Fault active();
  static bool on() { return mode_.load(std::memory_order_relaxed) != 0; }

 private:
  friend bool Faulty(Fault fault);
  static bool Ask(Fault fault);
  static std::atomic<uint32_t> mode_;  // 0: neither a fault nor recording
};

inline bool Faulty(Fault fault) {
  return __builtin_expect(FaultSwitch::mode_.load(std::memory_order_relaxed) != 0, 0) &&
         FaultSwitch::Ask(fault);
}

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_FAULTS_H_
