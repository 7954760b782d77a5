#include "reference/model/faults.h"

#include <mutex>

namespace qpexam::model {
namespace {

std::mutex reached_mutex;
std::bitset<static_cast<size_t>(Fault::kCount)> reached;

// mode_: 0 off, 1 recording, 2 + f the fault f.
constexpr uint32_t kRecording = 1, kFirstFault = 2;

}  // namespace

std::atomic<uint32_t> FaultSwitch::mode_{0};

const std::vector<FaultInfo>& AllFaults() {
  static const auto* const all = new std::vector<FaultInfo>{
#define QPEXAM_FAULT(id, name, clause, where, what) \
  {Fault::id, name, clause, where, what, FaultOrigin::kLibrary},
#include "reference/model/faults.inc"
#undef QPEXAM_FAULT
#define QPEXAM_FAULT(id, name, clause, where, what) \
  {Fault::id, name, clause, where, what, FaultOrigin::kFreshReader},
#include "reference/model/faults_fresh.inc"
#undef QPEXAM_FAULT
  };
  return *all;
}

std::optional<Fault> FaultByName(std::string_view name) {
  for (const FaultInfo& info : AllFaults()) {
    if (info.name == name) return info.fault;
  }
  return std::nullopt;
}

void FaultSwitch::Set(Fault fault) {
  mode_.store(fault == Fault::kNone ? 0 : kFirstFault + static_cast<uint32_t>(fault));
}

void FaultSwitch::StartRecording() {
  std::lock_guard<std::mutex> lock(reached_mutex);
  reached.reset();
  mode_.store(kRecording);
}

std::bitset<static_cast<size_t>(Fault::kCount)> FaultSwitch::TakeReached() {
  std::lock_guard<std::mutex> lock(reached_mutex);
  mode_.store(0);
  auto taken = reached;
  reached.reset();
  return taken;
}

Fault FaultSwitch::active() {
  const uint32_t mode = mode_.load();
  return mode < kFirstFault ? Fault::kNone : static_cast<Fault>(mode - kFirstFault);
}

bool FaultSwitch::Ask(Fault fault) {
  const uint32_t mode = mode_.load(std::memory_order_relaxed);
  if (mode == kRecording) {
    std::lock_guard<std::mutex> lock(reached_mutex);
    reached.set(static_cast<size_t>(fault));
    return false;
  }
  return mode == kFirstFault + static_cast<uint32_t>(fault);
}

}  // namespace qpexam::model
