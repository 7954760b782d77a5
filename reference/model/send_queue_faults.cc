// Library faults of the region that take more than a line: mistakes that a provider's builders,
// setters, start and complete could make (faults.inc). Every one of them is defined here, also
// where it would not be in a provider.
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "reference/model/fabric.h"
#include "reference/model/queue_pair.h"
#include "reference/model/send_queue.h"

namespace qpexam::model {
namespace {

// Threads that are to get into each other's way wait here for each other, so that they do so on any
// machine: some 20 ms at a time, altogether some seconds of a process. Counted in turns, since a
// machine that gives this thread few gives few to the other.
constexpr int kTurnsAtATime = 200;
std::atomic<int> patience{30000};

bool Patient() { return patience.load() > 0; }

template <typename Done>
void GiveWay(Done done) {
  int turns = 0;
  for (; !done() && Patient() && turns < kTurnsAtATime; ++turns) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  patience.fetch_sub(turns);
}

// complete-waits-for-others: which threads are inside a region of a QP of which CQ.
std::mutex open_mutex;
std::vector<std::pair<const Cq*, const void*>> open_regions;

bool OpenElsewhere(const Cq* cq) {
  std::lock_guard<std::mutex> lock(open_mutex);
  return std::any_of(open_regions.begin(), open_regions.end(), [cq](const auto& open) {
    return open.first == cq && open.second != ThisThread();
  });
}

// Copies memory that may be gone: the kernel reads it and says no where there is nothing.
void CopyWhatIsThere(uint8_t* to, const void* from, size_t length) {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK) != 0) return;
  while (length != 0) {
    const long written = syscall(SYS_write, ends[1], from, length);
    if (written <= 0 || read(ends[0], to, static_cast<size_t>(written)) != written) break;
    to += written;
    from = static_cast<const uint8_t*>(from) + written;
    length -= static_cast<size_t>(written);
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace

// What other faults than MisbuildStaged()'s make of a region before it is posted.
void SendQueue::MisbuildRegion() {
  if (Faulty(Fault::kCompleteWaitsForOthers)) WaitForOthers();
  if (Faulty(Fault::kImmediateOfNextRequest)) {
    for (uint64_t at = posted(); at + 1 < posted() + staged_; ++at) {
      if (At(at).op == Operation::kRdmaWriteWithImm && At(at + 1).op == Operation::kSendWithImm) {
        At(at).imm = At(at + 1).imm;
      }
    }
  }
  CopyLateInline();
}

// complete-drops-last
bool SendQueue::LoseLast() const {
  if (staged_ < 4) return false;
  for (uint64_t at = posted(); at != posted() + staged_; ++at) {
    if (slots_[at & mask_].op != Operation::kRdmaRead) return false;
  }
  return Faulty(Fault::kCompleteDropsLast);
}

// As a recursive lock that is taken once too often: the thread itself gets in again.
void SendQueue::LeakLock() {
  LeaveRegionFaults();
  staged_ = 0;
  need_ = 0;
  error_ = 0;
  current_ = nullptr;
  if (shape_.locking == RegionLocking::kThreadDomain) {
    in_region_.store(nullptr, std::memory_order_relaxed);
  } else {
    lock_leaked_.store(true, std::memory_order_relaxed);
  }
}

// Publishes all but the last of a region's requests, lets ibv_post_send in, and then the last.
int SendQueue::PublishSplit() {
  if (!Patient()) return Publish();
  const uint64_t end = posted() + staged_ - 1;
  const SendRequest last = At(end);
  const auto* storage = reinterpret_cast<const uint8_t*>(last.sge);
  const std::vector<uint8_t> bytes(storage, storage + stride_);
  --staged_;
  if (int err = Publish(); err != 0) return err;
  split_.store(true);
  const uint64_t before = posted();
  lock_.Unlock();
  GiveWay([this, before] { return lock_.Held() || posted() != before; });
  lock_.Lock();
  split_.store(false);
  SendRequest& slot = At(posted());
  uint8_t* const to = reinterpret_cast<uint8_t*>(slot.sge);
  slot = last;
  slot.sge = reinterpret_cast<Sge*>(to);
  slot.inline_data = to + (last.inline_data - storage);
  slot.tso_header = to + (last.tso_header - storage);
  std::memcpy(to, bytes.data(), stride_);
  staged_ = 1;
  return Publish();
}

// Only ibv_post_send gets into a region that is split; another region waits as it should.
void SendQueue::StandBehindSplitRegion() {
  while (split_.load()) {
    lock_.Unlock();
    sched_yield();
    lock_.Lock();
  }
  staged_ = 0;
}

void SendQueue::LookForSplitRegion() {
  GiveWay([this] { return split_.load(); });
}

void SendQueue::CopyLateInline() {
  for (const LateInline& late : late_inline_) CopyWhatIsThere(late.to, late.from, late.length);
  late_inline_.clear();
}

int SendQueue::EndRegionThenRead(int err) {
  shared_result_.store(err);
  EndRegion();
  GiveWay([this, err] { return shared_result_.load() != err; });
  return shared_result_.load();
}

void SendQueue::OpenBesideOthers() {
  std::lock_guard<std::mutex> lock(open_mutex);
  open_regions.emplace_back(qp_->init().send_cq, ThisThread());
}

// As whoever turns a shared lock into an exclusive one: two that do so wait for each other.
void SendQueue::WaitForOthers() {
  const Cq* cq = qp_->init().send_cq;
  GiveWay([cq] { return OpenElsewhere(cq); });
  while (OpenElsewhere(cq)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// polled-slot-seen-late: the poster looks at what others have polled.
void SendQueue::SeeFreed() {
  freed_.store(std::max(freed_.load(), unseen_freed_.load()), std::memory_order_release);
}

void SendQueue::LeaveRegionFaults() {
  late_inline_.clear();
  if (!Faulty(Fault::kCompleteWaitsForOthers)) return;
  std::lock_guard<std::mutex> lock(open_mutex);
  const auto mine = std::make_pair(qp_->init().send_cq, ThisThread());
  const auto it = std::find_if(open_regions.begin(), open_regions.end(), [&](const auto& open) {
    return open.first == mine.first && open.second == mine.second;
  });
  if (it != open_regions.end()) open_regions.erase(it);
}

}  // namespace qpexam::model
