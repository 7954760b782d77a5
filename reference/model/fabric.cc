#include "reference/model/fabric.h"

#include <algorithm>

#include "reference/model/faults.h"
#include "reference/model/requester.h"

namespace qpexam::model {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

constexpr uint64_t kPollStep = 1000;  // 1 us
constexpr uint64_t kPatience = 1000;  // empty polls before the step doubles
constexpr uint64_t kMaxStep = 1'000'000'000;

}  // namespace

Fabric::Fabric(const FabricOptions& options)
    : options_(options), requester_(std::make_unique<Requester>(this)) {}

Fabric::~Fabric() {
  while (!devices_.empty()) devices_.pop_back();
}

Fabric& Fabric::Process() {
  static Fabric* const fabric = new Fabric;
  return *fabric;
}

Device* Fabric::OpenDevice(const DeviceLimits& limits, AsyncSink* sink) {
  Lock lock(mutex_);
  devices_.emplace_back(new Device(this, limits, sink));
  return devices_.back().get();
}

void Fabric::CloseDevice(Device* device) {
  Lock lock(mutex_);
  auto it = std::find_if(devices_.begin(), devices_.end(),
                         [&](const auto& d) { return d.get() == device; });
  if (it != devices_.end()) devices_.erase(it);
}

std::vector<Device*> Fabric::DeviceList() const {
  std::vector<Device*> all;
  for (const auto& device : devices_) all.push_back(device.get());
  return all;
}

// --- look-ups ------------------------------------------------------------------------------------

Qp* Fabric::FindQp(QpNum number) {
  Lock lock(mutex_);
  return qps_.Find(number.value);
}
Mr* Fabric::FindMr(Lkey lkey) {
  Lock lock(mutex_);
  return lkeys_.Find(lkey.value);
}
Mw* Fabric::FindMwByIndex(Rkey any_tag) {
  Lock lock(mutex_);
  return windows_.FindByIndex(any_tag.value);
}

// Indices go round within 64 K, so that a key that ended is not soon another's.
uint32_t Fabric::ReserveKeyIndex() {
  for (;;) {
    if (next_key_index_ >= 1u << 16) next_key_index_ = 0x20;
    const uint32_t index = next_key_index_++;
    const uint32_t key = index << 8;
    if (lkeys_.FindByIndex(key) == nullptr && rkeys_.FindByIndex(key) == nullptr &&
        windows_.FindByIndex(key) == nullptr) {
      return index;
    }
  }
}

void Fabric::Forget(Qp* qp) {
  qps_.Erase(qp->number().value);
  ++qp_epoch_;
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), qp), waiting_.end());
  raw_packet_.erase(std::remove(raw_packet_.begin(), raw_packet_.end(), qp), raw_packet_.end());
  multicast_.erase(std::remove_if(multicast_.begin(), multicast_.end(),
                                  [&](const McastMember& m) { return m.qp == qp; }),
                   multicast_.end());
  Activity();
}

// --- choices, lints, events ----------------------------------------------------------------------

void Fabric::SetChooser(Chooser* chooser) {
  Lock lock(mutex_);
  chooser_ = chooser;
  chooser_set_.store(chooser != nullptr);
}

unsigned Fabric::Pick(ChoicePoint point, unsigned count) {
  if (!chooser_set_.load(std::memory_order_relaxed)) return 0;
  Lock lock(mutex_);
  if (chooser_ == nullptr) return 0;
  const unsigned answer = chooser_->Pick(point, count);
  return answer < count ? answer : 0;
}

void Fabric::Report(const char* clause, const char* what, QpNum qp) {
  Lock lock(mutex_);
  lints_.push_back({clause, what, qp});
  lint_count_.store(lints_.size(), std::memory_order_release);
}

std::vector<FoundLint> Fabric::TakeLints() {
  Lock lock(mutex_);
  std::vector<FoundLint> taken;
  taken.swap(lints_);
  lint_count_.store(0, std::memory_order_release);
  return taken;
}

void Fabric::Raise(Device& device, const AsyncEvent& event) {
  if (device.sink_ != nullptr) device.sink_->OnAsyncEvent(device, event);
}

void Fabric::Advance(Qp& qp) { requester_->Advance(qp); }

// --- the clock -----------------------------------------------------------------------------------

// Fires what is due up to `until`, in the order of deadlines (then of QP numbers), and sets the
// clock there.
void Fabric::FireTimers(uint64_t until) {
  for (;;) {
    Qp* next = nullptr;
    for (Qp* qp : waiting_) {
      const Qp::Attempt& a = qp->attempt_;
      if (!a.waiting || a.stuck || a.deadline > until) continue;
      if (next == nullptr || a.deadline < next->attempt_.deadline ||
          (a.deadline == next->attempt_.deadline && qp->number_ < next->number_)) {
        next = qp;
      }
    }
    if (next == nullptr) break;
    Qp::Attempt& a = next->attempt_;
    if (a.deadline > Now()) now_.store(a.deadline, std::memory_order_relaxed);
    const bool futile = a.for_ever && a.seen_activity == activity_ && !a.fresh;
    if (futile) {
      // Nothing has changed since the last try: skip the tries up to `until`.
      a.deadline += ((until - a.deadline) / a.period + 1) * a.period;
      continue;
    }
    a.due = true;
    Advance(*next);
  }
  if (until > Now()) now_.store(until, std::memory_order_relaxed);
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                [](Qp* qp) {
                                  if (qp->attempt_.waiting) return false;
                                  qp->listed_ = false;
                                  return true;
                                }),
                 waiting_.end());
}

void Fabric::AdvanceTo(uint64_t nanoseconds) {
  Lock lock(mutex_);
  if (nanoseconds < Now()) return;
  for (Qp* qp : waiting_) qp->attempt_.fresh = true;  // each is tried once at least
  FireTimers(nanoseconds);
}

void Fabric::AdvanceBy(uint64_t nanoseconds) {
  Lock lock(mutex_);
  AdvanceTo(Now() + nanoseconds);
}

std::optional<uint64_t> Fabric::NextDeadline() {
  Lock lock(mutex_);
  std::optional<uint64_t> next;
  for (Qp* qp : waiting_) {
    const Qp::Attempt& a = qp->attempt_;
    if (!a.waiting || a.stuck) continue;
    if (!next.has_value() || a.deadline < *next) next = a.deadline;
  }
  return next;
}

void Fabric::RunUntilIdle() {
  Lock lock(mutex_);
  for (Qp* qp : waiting_) qp->attempt_.fresh = true;
  for (;;) {
    std::optional<uint64_t> next;
    for (Qp* qp : waiting_) {
      const Qp::Attempt& a = qp->attempt_;
      if (!a.waiting || a.stuck) continue;
      if (a.for_ever && a.seen_activity == activity_ && !a.fresh) continue;
      if (!next.has_value() || a.deadline < *next) next = a.deadline;
    }
    if (!next.has_value()) return;
    FireTimers(*next);
  }
}

void Fabric::SetClockMode(ClockMode mode) {
  Lock lock(mutex_);
  options_.clock = mode;
}

void Fabric::OnEmptyPoll() {
  if (options_.clock != ClockMode::kAutomatic) return;
  Lock lock(mutex_);
  if (poll_activity_ != activity_) {
    poll_activity_ = activity_;
    polls_in_vain_ = 0;
    poll_step_ = kPollStep;
  }
  uint64_t step = kPollStep;
  if (++polls_in_vain_ > kPatience) {
    poll_step_ = std::min(poll_step_ * 2, kMaxStep);
    step = poll_step_;
    const std::optional<uint64_t> next = NextDeadline();
    if (!next.has_value()) {
      step = kPollStep;
    } else if (*next > Now()) {
      step = std::min(step, *next - Now());
    }
  }
  const uint64_t before = activity_;
  FireTimers(Now() + step);
  // A retry that changed nothing is no activity: the step goes on doubling.
  if (activity_ == before) return;
}

}  // namespace qpexam::model
