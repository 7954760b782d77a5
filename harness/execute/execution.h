// Inside the executor: one Program while it runs. Which file has what:
//   execution.cc  the order of calls, threads, the end of a run
//   create.cc     making objects;    release.cc  freeing them, and keeping some
//   state.cc      modify, connect, queries
//   post.cc       regions, builders, setters, post_send, post_recv, bind_mw
//   poll.cc       completions and events;       memory and time
#ifndef QPEXAM_HARNESS_EXECUTE_EXECUTION_H_
#define QPEXAM_HARNESS_EXECUTE_EXECUTION_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/execute/arena.h"
#include "harness/execute/executor.h"
#include "harness/execute/objects.h"
#include "harness/program/attributes.h"

namespace qpexam {

// Where one call of one thread writes what it saw.
struct Out {
  Event* event;
  Trace* trace;
};

// Storage for the arguments of one call, reused.
struct Scratch {
  std::vector<ibv_sge> sges;
  std::vector<ibv_data_buf> bufs;
  std::vector<ibv_send_wr> send_wrs;
  std::vector<ibv_recv_wr> recv_wrs;
  std::vector<size_t> first_sge;  // of each request of a list
  std::vector<ibv_wc> wcs;
  bool list_whole = true;  // every request of the list so far could be spelled
};

class Executor::Impl {
 public:
  explicit Impl(DeviceSession* session);
  ~Impl();

  void Run(const Program& program, const RunOptions& options, Trace* trace);
  void DropObjects();

 private:
  // --- execution.cc
  void RunOne(uint32_t index, Trace* trace, Scratch* scratch);
  void RunInOrder(uint32_t index);
  void RunDeferred();
  void RunOn(uint8_t thread, uint32_t index);
  uint32_t RunParallel(uint32_t first);
  void RecordBare(uint32_t index, Ran ran);
  bool MustWait(const Call& call) const;
  void Dispatch(const Call& call, uint32_t index, Scratch* scratch, Out out);
  void EndOfRun();
  void CloseRegions();
  void ClosePolls();

  // --- create.cc: false where a named object is missing (kNotMade). They set out.event->rc.
  bool Create(const Call& call, Out out);
  bool MakeDevice(const Call& call, ObjectSlot* slot, Out out);
  bool MakePd(const Call& call, ObjectSlot* slot, Out out);
  bool MakeMr(const Call& call, ObjectSlot* slot, Out out);
  bool MakeMw(const Call& call, ObjectSlot* slot, Out out);
  bool MakeCq(const Call& call, ObjectSlot* slot, Out out);
  bool MakeSrq(const Call& call, ObjectSlot* slot, Out out);
  bool MakeQp(const Call& call, ObjectSlot* slot, Out out);
  bool OpenQp(const Call& call, ObjectSlot* slot, Out out);
  bool MakeAh(const Call& call, ObjectSlot* slot, Out out);
  bool MakeOwnCqs(const Call& call, ContextSlot* context, QpState* qp);
  bool ReregMr(const Call& call, Out out);
  bool ResizeCq(const Call& call, Out out);
  void NameQp(ObjectSlot* slot, ObjectId id);
  // The context by device object (kNoObject: the implicit one); nullptr where it is not open.
  ContextSlot* ContextOf(ObjectId device, uint16_t* index);
  // The pd by object (kNoObject: the implicit one of the implicit device).
  ibv_pd* PdOf(ObjectId pd, uint16_t* context);
  const PortAddress PathFrom(ContextSlot* from, ContextSlot* to);
  void LearnPort(ContextSlot* context);

  // --- release.cc
  bool Destroy(const Call& call, Out out);
  int Free(ObjectSlot* slot);
  int FreeQp(QpState* qp);
  void FreeCq(CqState* cq);
  void DetachAll(ObjectSlot* slot);
  void Release();
  bool Keep(ObjectSlot* slot);
  void Unkeep(ObjectSlot* slot);  // the Program frees it: whatever kept object uses it goes first
  void DropKeptMrs();
  void DropKeptUsing(ibv_pd* pd, ibv_cq* cq, ibv_context* context);
  void AddKeptQp(const Call& call, ibv_context* context, const uint32_t (&granted)[5],
                 ObjectSlot* slot);
  bool TakeQp(const Call& call, ibv_context* context, ObjectSlot* slot);
  bool TakeMr(ibv_pd* pd, const void* addr, const Call& call, ObjectSlot* slot);
  bool TakeCq(ibv_context* context, const Call& call, ObjectSlot* slot);
  bool TakePd(ibv_context* context, ObjectSlot* slot);

  // --- state.cc
  bool Connect(const Call& call, Out out);
  bool Modify(const Call& call, Out out);
  bool Query(const Call& call, Out out);
  bool QueryDevice(const Call& call, Out out);
  bool QueryPort(const Call& call, Out out);
  bool QueryGid(const Call& call, Out out);
  bool QueryPkey(const Call& call, Out out);
  bool ModifySrq(const Call& call, Out out);
  bool QuerySrq(const Call& call, Out out);
  bool Mcast(const Call& call, Out out);
  int ConnectOne(const Call& call, ObjectSlot* slot, ObjectSlot* peer);
  ModifyFacts FactsOf(ObjectSlot* slot, ObjectSlot* peer);
  void RecordState(ObjectId qp, bool query, Trace* trace);
  void RecordStates(Trace* trace);

  // --- post.cc
  bool Start(const Call& call, Out out);
  void KeepKey(MwState* mw, const Call& call, uint32_t rkey);
  void EndBinds(ObjectId qp, bool posted);
  void ForgetBind(ObjectId qp, uint64_t wr_id);
  bool Build(const Call& call);
  bool Setter(const Call& call, Scratch* scratch);
  bool EndRegion(const Call& call, Out out);
  void SpoilRegion(const Call& call);
  bool PostSend(const Call& call, uint32_t index, Scratch* scratch, Out out);
  bool PostRecv(const Call& call, uint32_t index, Scratch* scratch, Out out);
  bool BindMw(const Call& call, Out out);
  bool ContinuesList(const Call& call, uint32_t index) const;
  bool FillSendWr(const Call& call, Scratch* scratch, ibv_send_wr* wr);
  bool Sges(const std::vector<SgeArg>& args, Scratch* scratch);

  // --- poll.cc
  bool Poll(const Call& call, Scratch* scratch, Out out);
  bool PollEx(const Call& call, Out out);
  bool PollStep(const Call& call, Out out);
  bool Arm(const Call& call, Out out);
  bool GetCqEvent(const Call& call, Out out);
  bool AckCqEvents(const Call& call, Out out);
  bool GetAsyncEvent(const Call& call, Out out);
  void DrainCq(CqRef ref, CqState* cq, Scratch* scratch, Out out);
  void DrainAll(Scratch* scratch, Out out);
  void AddCompletion(CqRef ref, ibv_context* context, const ibv_wc& wc, Trace* trace);
  void ReadEx(CqRef ref, ibv_cq_ex* cq, uint64_t wc_flags, Trace* trace);
  bool Load(const Call& call, Out out);
  bool Store(const Call& call);
  bool Settle(Out out);
  bool Advance(const Call& call, Out out);
  bool FaultPoint(const Call& call, Out out);
  // Calls `ready` until it says true or the wait is over; sets timed_out or settled.
  template <typename Ready>
  void WaitFor(Ready ready, Event* event);

  // --- what names mean (execution.cc)
  ObjectSlot* Alive(ObjectId id, ObjectKind kind);
  ObjectSlot* Slot(ObjectId id, ObjectKind kind);
  CqState* CqOf(CqRef ref, uint16_t* context);
  CqRef RefOfCq(const ibv_cq* cq);
  bool LocalKey(const KeyRef& ref, uint32_t* key);
  bool RemoteKey(const KeyRef& ref, uint32_t* key);
  bool Number(const KeyRef& ref, uint32_t* number);
  bool IsKey(uint32_t key) const;        // of an mr or mw that is there
  bool IsNumber(uint32_t number) const;  // of a QP or SRQ that is there
  bool WireAddress(const MemRef& ref, uint64_t* address);
  bool HostAddress(const MemRef& ref, uint64_t len, uint8_t** address);
  ObjectId QpByNumber(ibv_context* context, uint32_t number);
  ObjectId KeyOwner(uint32_t rkey, uint8_t* inc);

  DeviceSession* const session_;
  Arena arena_;
  const Program* program_ = nullptr;
  RunOptions options_;
  Trace* trace_ = nullptr;  // of the run; in a parallel part each thread has its own, merged
  std::vector<ObjectSlot> slots_;
  std::vector<ContextSlot> contexts_;
  std::vector<ObjectId> made_;  // objects in the order of their making
  Scratch scratch_;

  // A QP number may come back for a later QP: the latest comes last.
  struct NamedQp {
    ibv_context* context;
    uint32_t number;
    ObjectId object;
  };
  std::vector<NamedQp> numbers_;
  std::unordered_map<uint64_t, ObjectId> number_index_;  // once `numbers_` has grown long

  // Calls held back because their thread waits for another one's region, in order.
  std::vector<uint32_t> deferred_;
  class Threads;
  std::unique_ptr<Threads> threads_;
  bool parallel_ = false;
  std::atomic<bool> binds_{false};  // some window was bound in this run
  bool lints_ = false;              // the session detects UNDEFINED uses
  std::mutex record_mutex_;
  // Of the tables of objects, while threads run at once: the Program may make and free objects
  // then.
  mutable std::recursive_mutex objects_mutex_;
  // Of those tables; nothing while one thread runs at a time, which is nearly always.
  class ObjectsLock {
   public:
    explicit ObjectsLock(std::recursive_mutex* mutex) : mutex_(mutex) {
      if (mutex_) mutex_->lock();
    }
    ~ObjectsLock() {
      if (mutex_) mutex_->unlock();
    }
    ObjectsLock(const ObjectsLock&) = delete;
    ObjectsLock& operator=(const ObjectsLock&) = delete;

   private:
    std::recursive_mutex* const mutex_;
  };
  ObjectsLock LockObjects() const { return ObjectsLock(parallel_ ? &objects_mutex_ : nullptr); }
  std::atomic<int> waiting_{0}, running_{0};
  // Of each thread of the Program; only it touches its own.
  std::array<uint32_t, 256> regions_held_{};
  // The Program did what recycling cannot undo: its objects are freed, not kept.
  std::atomic<bool> spoilt_{false};

  // What is kept from Program to Program, free or in use by the present one. An entry without a
  // handle is free for reuse; slots remember the index of their entry.
  struct KeptQp {
    QpState qp;
    Call made_by;
    ibv_context* context = nullptr;
    uint32_t granted[5] = {};
    bool in_use = false;
  };
  struct KeptMr {
    ibv_mr* mr = nullptr;
    ibv_pd* pd = nullptr;
    const void* addr = nullptr;
    size_t len = 0;
    uint64_t iova = 0, access = 0;
    bool in_use = false;
  };
  struct KeptCq {
    CqState cq;
    ibv_context* context = nullptr;
    uint64_t n = 0;
    bool in_use = false;
  };
  struct KeptPd {
    ibv_pd* pd = nullptr;
    bool in_use = false;
  };
  std::vector<KeptQp> kept_qps_;
  std::vector<KeptMr> kept_mrs_;
  std::vector<KeptCq> kept_cqs_;
  std::vector<KeptPd> kept_pds_;
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_EXECUTE_EXECUTION_H_
