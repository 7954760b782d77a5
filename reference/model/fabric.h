// The fabric: every device of the process, the wire between their QPs, and the virtual clock.
#ifndef QPEXAM_REFERENCE_MODEL_FABRIC_H_
#define QPEXAM_REFERENCE_MODEL_FABRIC_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "reference/model/choice.h"
#include "reference/model/completion_queue.h"
#include "reference/model/key_table.h"
#include "reference/model/objects.h"
#include "reference/model/queue_pair.h"
#include "reference/model/receive_queue.h"
#include "reference/model/request.h"
#include "reference/model/rules.h"
#include "reference/model/types.h"

namespace qpexam::model {

class Fabric;
class Requester;

struct AsyncEvent {
  ibv_event_type type;
  Qp* qp = nullptr;
  Cq* cq = nullptr;
  Srq* srq = nullptr;
};
class AsyncSink {
 public:
  virtual ~AsyncSink() = default;
  // With the fabric's lock held; may call back into the model from the same thread.
  virtual void OnAsyncEvent(Device& device, const AsyncEvent& event) = 0;
};

// A lint that was found, in the order of finding.
struct FoundLint {
  const char* clause;
  const char* what;
  QpNum qp;  // 0: no QP
};

enum class ClockMode : uint8_t {
  kManual,     // Now() moves by Advance*() alone: executors, fixtures
  kAutomatic,  // every empty poll moves it, so that a program that polls reaches its timeouts
};

struct FabricOptions {
  uint64_t seed = 1;
  bool strict_setters = true;  // an omitted DATA setter is EINVAL (X9), else a zero-length message
  ClockMode clock = ClockMode::kAutomatic;
};

struct DeviceLimits {
  uint32_t max_qp_wr = 16384;
  uint32_t max_sge = 32;
  uint32_t max_sge_rd = 32;
  uint32_t max_inline = 512;
  uint32_t max_cqe = 1 << 20;
  uint32_t max_srq_wr = 16384;
  uint32_t max_srq_sge = 32;
  uint32_t max_rd_atomic = 16;
  uint32_t max_tso = 1 << 18;
  uint16_t max_tso_header = 256;
  uint64_t max_msg_sz = uint64_t{1} << 31;
  uint64_t max_mr_size = ~uint64_t{0};
  uint32_t max_mcast_grp = 64;
  uint32_t max_mcast_qp_attach = 64;
  uint16_t pkey_table_len = 1;
  ibv_mtu port_mtu = IBV_MTU_4096;
  ibv_atomic_cap atomic_cap = IBV_ATOMIC_HCA;
};

// Keys chosen by the caller (a hosted kernel that makes them collide modulo a table size).
struct KeyChoice {
  std::optional<uint32_t> lkey, rkey;  // low 8 bits included
};

// One opened context. All objects it makes belong to it; destroying them is checked (EBUSY).
class Device {
 public:
  Fabric& fabric() const { return *fabric_; }
  const DeviceLimits& limits() const { return limits_; }
  // The port's GID table: sgid_index of an address reads it, GRHs carry it.
  std::vector<ibv_gid> gids;
  void* owner = nullptr;

  Result<Td> AllocTd();
  Status DeallocTd(Td* td);
  Result<Pd> AllocPd();
  Result<Pd> AllocParentDomain(Pd* pd, Td* td);  // td may be nullptr
  Status DeallocPd(Pd* pd);

  // iova: what keys address the memory by; the address itself for ibv_reg_mr, 0 for
  // IBV_ACCESS_ZERO_BASED.
  Result<Mr> RegMr(Pd* pd, MutBytes memory, uint64_t iova, unsigned access, KeyChoice keys = {});
  // flags: IBV_REREG_MR_CHANGE_*; parts not named keep their value. New keys.
  Status ReregMr(Mr* mr, int flags, Pd* pd, MutBytes memory, unsigned access);
  Status DeregMr(Mr* mr);
  Result<Mw> AllocMw(Pd* pd, ibv_mw_type type, std::optional<Rkey> key = {});
  Status DeallocMw(Mw* mw);

  Result<Ah> CreateAh(Pd* pd, const ibv_ah_attr& attr);
  Status DestroyAh(Ah* ah);

  Result<Xrcd> OpenXrcd(uint64_t inode);  // 0: private
  Status CloseXrcd(Xrcd* xrcd);

  Result<Cq> CreateCq(int cqe, CqSink* sink);
  Status DestroyCq(Cq* cq);
  Result<Srq> CreateSrq(const SrqInit& init);
  Status DestroySrq(Srq* srq);

  // Checks operations against table A, caps against the limits, grants exactly what was asked.
  Result<Qp> CreateQp(const QpInit& init);
  // Another handle of an XRC_RECV QP of the domain; nullptr with EINVAL where there is none. Close
  // by DestroyQp: the QP ends with its last handle.
  Result<Qp> OpenQp(Xrcd* xrcd, QpNum number);
  Status DestroyQp(Qp* qp);

  ~Device();

  // Whether any region covers the address.
  bool Covers(const void* address) const;

 private:
  friend class Fabric;
  friend class Requester;
  friend class Responder;
  Device(Fabric* fabric, const DeviceLimits& limits, AsyncSink* sink);
  Status CheckQpInit(const QpInit& init) const;
  void SweepAhs();

  Fabric* fabric_;
  DeviceLimits limits_;
  AsyncSink* sink_;
  // What it made and has not ended.
  std::unordered_set<Td*> tds_;
  std::unordered_set<Pd*> pds_;
  std::unordered_set<Mr*> mrs_;
  std::unordered_set<Mw*> mws_;
  std::unordered_set<Ah*> ahs_;
  std::vector<Ah*> ended_ahs_;  // still named by a request, or perhaps by a region that is open
  std::unordered_set<Xrcd*> xrcds_;
  std::unordered_set<Cq*> cqs_;
  std::unordered_set<Srq*> srqs_;
  std::unordered_set<Qp*> qps_;
};

class Fabric {
 public:
  explicit Fabric(const FabricOptions& options = {});
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // The one that a process's reference provider uses.
  static Fabric& Process();

  Device* OpenDevice(const DeviceLimits& limits, AsyncSink* sink);  // sink may be nullptr
  // Ends everything the device still has; EBUSY is the provider's business.
  void CloseDevice(Device* device);

  // --- Look-ups (nullptr: none) ---------------------------------------------------------------
  Qp* FindQp(QpNum number);
  Mr* FindMr(Lkey lkey);
  Mw* FindMwByIndex(Rkey any_tag);  // by the index bits of a key

  // The same with the fabric's lock held already.
  Mr* LkeyUnlocked(Lkey lkey) { return lkeys_.Find(lkey.value); }
  Mr* RkeyUnlocked(Rkey rkey) { return rkeys_.Find(rkey.value); }
  Mw* WindowUnlocked(Rkey rkey) { return windows_.Find(rkey.value); }
  Mw* WindowByIndexUnlocked(Rkey rkey) { return windows_.FindByIndex(rkey.value); }

  // --- Choices, lints ---------------------------------------------------------------------------
  void SetChooser(Chooser* chooser);  // nullptr: outcome 0 of every choice
  unsigned Pick(ChoicePoint point, unsigned count);
  void Report(const char* clause, const char* what, QpNum qp = QpNum(0));
  std::vector<FoundLint> TakeLints();
  bool HasLints() const { return lint_count_.load(std::memory_order_acquire) != 0; }

  // --- The clock (nanoseconds) ------------------------------------------------------------------
  uint64_t Now() const { return now_.load(std::memory_order_relaxed); }
  void AdvanceTo(uint64_t nanoseconds);
  void AdvanceBy(uint64_t nanoseconds);
  std::optional<uint64_t> NextDeadline();
  // To where nothing moves any more unless a further call is made. A retry that can go on for ever
  // without anything changing, and timeout 0, do not keep it.
  void RunUntilIdle();
  void SetClockMode(ClockMode mode);
  // An empty poll, in automatic mode: 1 us; after 1000 in a row without activity the step doubles,
  // bounded by the next deadline.
  void OnEmptyPoll();

  const FabricOptions& options() const { return options_; }
  std::recursive_mutex& mutex() { return mutex_; }

 private:
  friend class Device;
  friend class Qp;
  friend class Cq;
  friend class Srq;
  friend class SendQueue;
  friend class Requester;
  friend class Responder;

  struct McastMember {
    ibv_gid gid;
    uint16_t lid;
    Qp* qp;
  };
  void Raise(Device& device, const AsyncEvent& event);
  void Advance(Qp& qp);  // starts and completes what can be
  void Activity() { ++activity_; }
  void WakeSenders() { ++activity_; }  // a receive was posted, a state changed
  void FireTimers(uint64_t until);
  uint32_t ReserveKeyIndex();
  void Forget(Qp* qp);  // in every list of QPs
  std::vector<Device*> DeviceList() const;

  FabricOptions options_;
  std::recursive_mutex mutex_;
  std::atomic<uint64_t> now_{0};
  std::atomic<uint64_t> lint_count_{0};
  uint64_t activity_ = 0;
  uint64_t polls_in_vain_ = 0, poll_activity_ = 0, poll_step_ = 1000;
  Chooser* chooser_ = nullptr;
  std::atomic<bool> chooser_set_{false};
  std::vector<FoundLint> lints_;
  std::vector<std::unique_ptr<Device>> devices_;

  std::unique_ptr<Requester> requester_;
  uint32_t next_key_index_ = 0x20;
  uint8_t next_key_tag_ = 0x10;
  KeyTable<Mr> lkeys_, rkeys_;
  KeyTable<Mw> windows_;
  NumberTable<Qp> qps_;
  NumberTable<Srq> srqs_;
  uint64_t qp_epoch_ = 1;
  uint64_t next_life_ = 1;
  uint32_t next_domain_ = 1;
  std::vector<Qp*> waiting_;  // QPs with an attempt that waits for the clock
  std::vector<McastMember> multicast_;
  std::vector<Qp*> raw_packet_;              // who may capture frames
  std::vector<std::unique_ptr<Mr>> ghosts_;  // regions that a library fault keeps alive
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_FABRIC_H_
