// The send queue: region (start .. complete/abort), builders, setters, and the ring of slots.
//
// Requests are built in place in the ring's free slots and published by Complete() alone, so that
// an aborted or failed region leaves no trace (WR-ATOM-001, -002; WR-CAP-006). All storage of a
// slot (SGEs, inline bytes, TSO header) is allocated with the ring: posting allocates nothing.
//
// The caller's mistakes that the specification leaves undefined are reported as a Lint with their
// clause and make Complete() fail with EINVAL; none of them is undefined here.
#ifndef QPEXAM_REFERENCE_MODEL_SEND_QUEUE_H_
#define QPEXAM_REFERENCE_MODEL_SEND_QUEUE_H_

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "reference/model/faults.h"
#include "reference/model/ops.h"
#include "reference/model/region_lock.h"
#include "reference/model/request.h"
#include "reference/model/types.h"

namespace qpexam::model {

class Fabric;
class Qp;

// Who holds the ring's requests: the model (the reference: slots are freed by polling, WR-CAP-004)
// or a hosted provider's own ring (the model's copy grows as needed, freed by execution).
enum class QueueKeeper : uint8_t { kModel, kProvider };
enum class RegionLocking : uint8_t { kLocked, kThreadDomain };

class SendQueue {
 public:
  struct Shape {
    uint32_t max_wr = 0, max_sge = 0, max_inline = 0;
    uint16_t max_tso_header = 0;
    uint64_t send_ops = 0;  // builders that were asked for
    QpType type{};
    QueueKeeper keeper = QueueKeeper::kModel;
    RegionLocking locking = RegionLocking::kLocked;
  };
  SendQueue(Qp* qp, const Shape& shape);
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  const Shape& shape() const { return shape_; }

  // --- The region -------------------------------------------------------------------------------
  void Start() {
    if (__builtin_expect(shape_.locking == RegionLocking::kThreadDomain || lock_.HeldByMe(), 0)) {
      if (!StartSlow()) return;
    } else {
      lock_.Lock();
    }
    staged_ = 0;
    error_ = 0;
    need_ = 0;
    trap_ = Trapped();
    if (__builtin_expect(split_.load(std::memory_order_relaxed), 0)) StandBehindSplitRegion();
  }
  // Publishes the region's requests and starts them; or returns the first error of the region and
  // forgets all of it (WR-ATOM-002, -005).
  int Complete();
  void Abort();

  // --- Builders: wr_id and flags are the QP's members as they read at the call (WR-SAMPLE-001) ---
  void RdmaWrite(WrId id, uint32_t flags, Rkey rkey, RemoteAddr addr) {
    if (SendRequest* r = Begin(Operation::kRdmaWrite, id, flags)) Remote(r, rkey, addr);
  }
  void RdmaWriteImm(WrId id, uint32_t flags, Rkey rkey, RemoteAddr addr, __be32 imm) {
    if (SendRequest* r = Begin(Operation::kRdmaWriteWithImm, id, flags)) {
      Remote(r, rkey, addr);
      r->imm = imm;
    }
  }
  void RdmaRead(WrId id, uint32_t flags, Rkey rkey, RemoteAddr addr) {
    if (SendRequest* r = Begin(Operation::kRdmaRead, id, flags)) Remote(r, rkey, addr);
  }
  void Send(WrId id, uint32_t flags) { Begin(Operation::kSend, id, flags); }
  void SendImm(WrId id, uint32_t flags, __be32 imm) {
    if (SendRequest* r = Begin(Operation::kSendWithImm, id, flags)) r->imm = imm;
  }
  void SendInv(WrId id, uint32_t flags, Rkey rkey) {
    if (SendRequest* r = Begin(Operation::kSendWithInv, id, flags)) r->rkey = rkey;
  }
  void AtomicCmpSwp(WrId id, uint32_t flags, Rkey rkey, RemoteAddr addr, uint64_t compare,
                    uint64_t swap) {
    if (SendRequest* r = Begin(Operation::kAtomicCmpAndSwp, id, flags)) {
      Remote(r, rkey, addr);
      r->compare_or_add = compare;
      r->swap = swap;
    }
  }
  void AtomicFetchAdd(WrId id, uint32_t flags, Rkey rkey, RemoteAddr addr, uint64_t add) {
    if (SendRequest* r = Begin(Operation::kAtomicFetchAndAdd, id, flags)) {
      Remote(r, rkey, addr);
      r->compare_or_add = add;
    }
  }
  void LocalInv(WrId id, uint32_t flags, Rkey rkey) {
    if (SendRequest* r = Begin(Operation::kLocalInv, id, flags)) r->rkey = rkey;
  }
  struct Bind {
    Mw* mw = nullptr;
    Rkey mw_key;  // mw->rkey as the handle reads at the call (WR-MW-003)
    Rkey new_key;
    Mr* mr = nullptr;  // may be nullptr (WR-MW-016)
    uint64_t addr = 0, length = 0;
    unsigned access = 0;
    BindCall call = BindCall::kWorkRequest;
  };
  void BindMw(WrId id, uint32_t flags, const Bind& bind);
  void Tso(WrId id, uint32_t flags, const void* header, uint16_t header_length, uint16_t mss);
  void Flush(WrId id, uint32_t flags, Rkey rkey, RemoteAddr addr, uint64_t length, uint8_t type,
             uint8_t level);
  void AtomicWrite(WrId id, uint32_t flags, Rkey rkey, RemoteAddr addr, const void* value);

  // --- Setters ----------------------------------------------------------------------------------
  void SetSge(Lkey lkey, uint64_t addr, uint32_t length) {
    if (__builtin_expect((need_ & kTakesSge) == 0 || trap_ || !InRegion() || shape_.max_sge == 0,
                         0)) {
      const ibv_sge one{addr, length, lkey.value};
      SetSgeListSlow(1, &one);
      return;
    }
    SendRequest* r = current_;
    r->data = DataKind::kSge;
    r->num_sge = 1;
    r->sge[0] = Sge{addr, length, lkey};
    if (__builtin_expect((need_ & kExactlyEight) != 0, 0)) CheckEight();
    need_ &= ~kData;
  }
  void SetSgeList(size_t num_sge, const ibv_sge* list);
  void SetInline(const void* addr, size_t length) {
    const ibv_data_buf one{const_cast<void*>(addr), length};
    SetInlineBuffers(1, &one, InlineSetter::kOne);
  }
  void SetInlineList(size_t num_buf, const ibv_data_buf* list) {
    SetInlineBuffers(num_buf, list, InlineSetter::kList);
  }
  void SetUdAddr(Ah* ah, QpNum remote_qpn, Qkey remote_qkey);
  void SetXrcSrqn(SrqNum srqn);

  // For library faults: what wr_id and wr_flags read when complete is called.
  void ReadMembersAgain(WrId id, uint32_t flags);

  // --- The same requests by another way ----------------------------------------------------------
  // ibv_post_send: a list is posted between BeginPost and EndPost; each PostOne posts one request
  // or fails without effect (WR-MIX-007). Data comes as the caller's list; IBV_SEND_INLINE counts.
  int BeginPost();
  Status PostOne(const SendRequest& request, Span<const ibv_sge> list);
  void EndPost();
  // A hosted provider's decoded request: copied, then executed as the QP's state allows. Nothing
  // is validated that hardware would not.
  void PostDecoded(const SendRequest& request);

  // --- For the engine (fabric's lock held)
  // --------------------------------------------------------
  uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }
  uint64_t done() const { return done_; }  // completed; [done, posted) are outstanding
  SendRequest& At(uint64_t position) { return slots_[position & mask_]; }
  void set_done(uint64_t position);
  // Polling a completion that covers every request before `position` (WR-CAP-004).
  void Free(uint64_t position);
  void Reset();  // RESET: forgets everything
  bool RegionOpen() const {
    return (lock_.Held() && !lock_leaked_.load(std::memory_order_relaxed)) ||
           in_region_.load(std::memory_order_relaxed) != nullptr;
  }
  bool RegionOpenByMe() const {
    return (lock_.HeldByMe() && !lock_leaked_.load(std::memory_order_relaxed)) ||
           in_region_.load(std::memory_order_relaxed) == ThisThread();
  }

 private:
  // What the request being built still needs or takes.
  using Need = uint8_t;
  static constexpr Need kTakesSge = 1, kTakesInline = 2, kData = 3, kUdAddr = 4, kXrcSrqn = 8,
                        kExactlyEight = 16, kNotAsked = 128;

  bool InRegion() const {
    return shape_.locking == RegionLocking::kLocked
               ? lock_.HeldByMe()
               : in_region_.load(std::memory_order_relaxed) == ThisThread();
  }
  SendRequest* Begin(Operation op, WrId id, uint32_t flags) {
    const uint64_t position = posted_.load(std::memory_order_relaxed) + staged_;
    const Need need = need_of_[static_cast<size_t>(op)];
    if (__builtin_expect((need_ & ~kExactlyEight) != 0 || trap_ || !InRegion() ||
                             (need & kNotAsked) != 0 ||
                             position - freed_.load(std::memory_order_acquire) >= shape_.max_wr ||
                             (flags & ~flags_taken_[static_cast<size_t>(op)]) != 0,
                         0)) {
      return BeginSlow(op, id, flags);
    }
    return Stage(position, op, id, flags, need);
  }
  SendRequest* Stage(uint64_t position, Operation op, WrId id, uint32_t flags, Need need) {
    SendRequest* r = &slots_[position & mask_];
    ++staged_;
    need_ = need;
    current_ = r;
    r->wr_id = id;
    r->op = op;
    r->flags = flags;
    r->data = DataKind::kUnset;
    r->num_sge = 0;
    r->inline_length = 0;
    return r;
  }
  static void Remote(SendRequest* r, Rkey rkey, RemoteAddr addr) {
    r->rkey = rkey;
    r->remote_addr = addr;
  }

  // Whether calls must take the slow way: an error was recorded, a chooser wants to be asked, a
  // fault is on.
  bool Trapped() const {
    return __builtin_expect(chooser_set_->load(std::memory_order_relaxed), 0) || FaultSwitch::on();
  }
  bool StartSlow();
  SendRequest* BeginSlow(Operation op, WrId id, uint32_t flags);
  void SetSgeListSlow(size_t num_sge, const ibv_sge* list);
  enum class InlineSetter : uint8_t { kOne, kList };
  void SetInlineBuffers(size_t num_buf, const ibv_data_buf* list, InlineSetter setter);
  void CheckEight();
  bool SetterMisused(Need takes);
  void CheckLastIsWhole(const char* clause);
  int Publish();
  bool TakesFlags(Operation op, uint32_t flags);
  Status CheckShape(Operation op, size_t num_sge, Span<const ibv_sge> list);
  void Refer(uint64_t from, uint64_t to);
  void MisbuildStaged();  // library faults of complete
  // Those that take more than a line, in send_queue_faults.cc.
  void MisbuildRegion();
  bool LoseLast() const;
  void LeakLock();
  int PublishSplit();
  void StandBehindSplitRegion();
  void LookForSplitRegion();
  void CopyLateInline();
  int EndRegionThenRead(int err);
  void SeeFreed();
  void LeaveRegionFaults();
  void OpenBesideOthers();
  void WaitForOthers();
  void LeakEffect(const SendRequest& request);
  uint64_t SlotsInUse(uint64_t until) const;
  void Fail(int err);
  void Lint(const char* clause, const char* what);
  void LintOutside(const char* what);
  void EndRegion();
  void Grow();
  void AllocateSlots(uint64_t count);

  Qp* const qp_;
  const std::atomic<bool>* const chooser_set_;  // of the fabric
  Shape shape_;
  uint64_t mask_ = 0;
  std::unique_ptr<SendRequest[]> slots_;
  std::unique_ptr<uint8_t[]> storage_;
  size_t stride_ = 0;  // bytes of storage of one slot

  RegionLock lock_;
  std::atomic<const void*> in_region_{nullptr};  // thread domain: who is inside
  // The open region's state; only its holder touches it.
  uint32_t staged_ = 0;
  int error_ = 0;
  bool trap_ = false;
  Need need_ = 0;
  SendRequest* current_ = nullptr;
  // What a library fault lets survive the region.
  int sticky_error_ = 0;
  bool drop_next_post_ = false;
  std::atomic<bool> lock_leaked_{false};  // closed, and locked for all threads but this one
  bool in_list_setter_ = false;
  bool half_set_ = false;
  WrId last_region_id_;
  std::atomic<int> shared_result_{0};         // result-read-after-unlock
  std::atomic<bool> split_{false};            // post-send-splits-region: the rest is still to come
  std::atomic<const void*> poster_{nullptr};  // polled-slot-seen-late: who posted last,
  std::atomic<uint64_t> unseen_freed_{0};     // and what others freed since
  struct LateInline {
    uint8_t* to;
    const void* from;
    size_t length;
  };
  std::vector<LateInline> late_inline_;  // inline-copied-by-complete
  std::array<Need, kOperationCount> need_of_{};
  std::array<uint32_t, kOperationCount> flags_taken_{};

  // Positions count requests since creation or RESET.
  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> freed_{0};
  uint64_t done_ = 0;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_SEND_QUEUE_H_
