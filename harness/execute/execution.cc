// The order of calls, threads, and the end of a run.
#include "harness/execute/execution.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

#include "harness/program/schema.h"

namespace qpexam {
namespace {

// From this many QPs on, numbers are looked up in an index instead of from the back of the list.
constexpr size_t kFewQps = 16;

uint64_t IndexKey(ibv_context* context, uint32_t number) {
  return (reinterpret_cast<uintptr_t>(context) << 24) ^ number;
}

}  // namespace

// One real thread a thread of the Program, made when its first call comes: a region belongs to the
// thread that started it (WR-CONC-001), so calls cannot be made on its behalf by another.
class Executor::Impl::Threads {
 public:
  ~Threads() {
    for (auto& worker : workers_) {
      if (!worker) continue;
      Give(worker.get(), nullptr, /*last=*/true);
      worker->thread.join();
    }
  }

  // Runs `task` on the thread and returns when it is done.
  void Run(uint8_t thread, const std::function<void()>& task) {
    Worker* worker = Of(thread);
    Give(worker, &task, false);
    Wait(worker);
  }
  void Begin(uint8_t thread, const std::function<void()>* task) { Give(Of(thread), task, false); }
  void Finish(uint8_t thread) { Wait(Of(thread)); }

 private:
  struct Worker {
    std::thread thread;
    std::mutex mutex;
    std::condition_variable changed;
    const std::function<void()>* task = nullptr;
    bool busy = false, last = false;
  };

  Worker* Of(uint8_t thread) {
    if (workers_.size() <= thread) workers_.resize(size_t{thread} + 1);
    std::unique_ptr<Worker>& worker = workers_[thread];
    if (!worker) {
      worker = std::make_unique<Worker>();
      worker->thread = std::thread([w = worker.get()] { Loop(w); });
    }
    return worker.get();
  }

  static void Loop(Worker* worker) {
    std::unique_lock<std::mutex> lock(worker->mutex);
    while (true) {
      worker->changed.wait(lock, [worker] { return worker->busy || worker->last; });
      if (!worker->busy) return;
      const std::function<void()>* task = worker->task;
      lock.unlock();
      (*task)();
      lock.lock();
      worker->busy = false;
      worker->changed.notify_all();
    }
  }

  static void Give(Worker* worker, const std::function<void()>* task, bool last) {
    std::lock_guard<std::mutex> lock(worker->mutex);
    worker->task = task;
    worker->busy = task != nullptr;
    worker->last = last;
    worker->changed.notify_all();
  }

  static void Wait(Worker* worker) {
    std::unique_lock<std::mutex> lock(worker->mutex);
    worker->changed.wait(lock, [worker] { return !worker->busy; });
  }

  std::vector<std::unique_ptr<Worker>> workers_;
};

Executor::Impl::Impl(DeviceSession* session) : session_(session) {}
Executor::Impl::~Impl() { DropObjects(); }

// -------------------------------------------------------------------------------------------------
// What names mean.

ObjectSlot* Executor::Impl::Slot(ObjectId id, ObjectKind kind) {
  const ObjectsLock lock = LockObjects();
  if (id >= slots_.size()) return nullptr;
  ObjectSlot* slot = &slots_[id];
  return slot->kind == kind ? slot : nullptr;
}

ObjectSlot* Executor::Impl::Alive(ObjectId id, ObjectKind kind) {
  const ObjectsLock lock = LockObjects();
  if (id >= slots_.size()) return nullptr;
  ObjectSlot* slot = &slots_[id];
  return slot->kind == kind && slot->alive ? slot : nullptr;
}

CqState* Executor::Impl::CqOf(CqRef ref, uint16_t* context) {
  const auto lock = LockObjects();
  if (ref.object >= slots_.size() || !slots_[ref.object].alive) return nullptr;
  ObjectSlot& slot = slots_[ref.object];
  *context = slot.context;
  if (slot.kind == ObjectKind::kCq) return slot.cq.cq ? &slot.cq : nullptr;
  if (slot.kind != ObjectKind::kQp || ref.side == Side::kNone) return nullptr;
  CqState& own = ref.side == Side::kSend ? slot.qp.own_send : slot.qp.own_recv;
  if (own.cq) return &own;
  // The side's queue is a cq object.
  const Call* made_by = slot.qp.made_by;
  const ObjectId shared = ref.side == Side::kSend ? made_by->cq : made_by->recv_cq;
  ObjectSlot* cq = Alive(shared, ObjectKind::kCq);
  return cq ? &cq->cq : nullptr;
}

// A bent key or number is to be nobody's. Where it happens to be that of another object, kept ones
// included, it is bent further.
template <typename IsUsed>
uint32_t Bent(uint32_t value, uint32_t flip, IsUsed is_used) {
  value ^= flip;
  if (flip == 0) return value;
  for (uint32_t further = 0x00800000; further > 0x80 && is_used(value); further >>= 1)
    value ^= further;
  return value;
}

bool Executor::Impl::IsKey(uint32_t key) const {
  for (const KeptMr& kept : kept_mrs_)
    if (kept.mr && (kept.mr->lkey == key || kept.mr->rkey == key)) return true;
  for (const ObjectSlot& slot : slots_) {
    if (!slot.alive) continue;
    if (slot.kind == ObjectKind::kMr && (slot.mr.mr->lkey == key || slot.mr.mr->rkey == key))
      return true;
    if (slot.kind == ObjectKind::kMw && slot.mw.mw->rkey == key) return true;
  }
  return false;
}

bool Executor::Impl::IsNumber(uint32_t number) const {
  for (const KeptQp& kept : kept_qps_)
    if (kept.qp.qp && kept.qp.qp->qp_num == number) return true;
  for (const ObjectSlot& slot : slots_) {
    if (!slot.alive) continue;
    if (slot.kind == ObjectKind::kQp && slot.qp.number == number) return true;
    uint32_t of_srq = 0;
    if (slot.kind == ObjectKind::kSrq && ibv_get_srq_num(slot.srq, &of_srq) == 0 &&
        of_srq == number)
      return true;
  }
  return false;
}

bool Executor::Impl::LocalKey(const KeyRef& ref, uint32_t* key) {
  if (ref.object == kNoObject) {
    *key = ref.flip;
    return true;
  }
  ObjectSlot* slot = Slot(ref.object, ObjectKind::kMr);
  if (!slot || !slot->existed) return false;
  *key = slot->mr.first_lkey;
  *key = Bent((*key & ~0xffu) | ((*key + ref.inc) & 0xffu), ref.flip,
              [this](uint32_t k) { return IsKey(k); });
  return true;
}

bool Executor::Impl::RemoteKey(const KeyRef& ref, uint32_t* key) {
  if (ref.object == kNoObject) {
    *key = ref.flip;
    return true;
  }
  if (ref.object >= slots_.size() || !slots_[ref.object].existed) return false;
  const ObjectSlot& slot = slots_[ref.object];
  if (slot.kind == ObjectKind::kMr) {
    *key = slot.mr.first_rkey;
  } else if (slot.kind == ObjectKind::kMw) {
    // The keys of a type 2 window count from the first; those of a type 1 from the present one,
    // which ibv_bind_mw() writes into the window (X22).
    *key = slot.mw.type != 1 ? slot.mw.first_rkey
           : slot.alive      ? slot.mw.mw->rkey
                             : slot.mw.last_rkey;
  } else {
    return false;
  }
  *key = Bent((*key & ~0xffu) | ((*key + ref.inc) & 0xffu), ref.flip,
              [this](uint32_t k) { return IsKey(k); });
  return true;
}

bool Executor::Impl::Number(const KeyRef& ref, uint32_t* number) {
  if (ref.object == kNoObject) {
    *number = ref.flip;
    return true;
  }
  if (ref.object >= slots_.size() || !slots_[ref.object].existed) return false;
  const ObjectSlot& slot = slots_[ref.object];
  if (slot.kind == ObjectKind::kQp) {
    *number = slot.qp.number;
  } else if (slot.kind == ObjectKind::kSrq && slot.alive) {
    if (ibv_get_srq_num(slot.srq, number)) return false;
  } else {
    return false;
  }
  *number = Bent(*number, ref.flip, [this](uint32_t n) { return IsNumber(n); });
  return true;
}

bool Executor::Impl::WireAddress(const MemRef& ref, uint64_t* address) {
  if (ref.mr == kNoObject) {
    *address = static_cast<uint64_t>(ref.offset);
    return true;
  }
  ObjectSlot* slot = Slot(ref.mr, ObjectKind::kMr);
  if (!slot || !slot->mr.host) return false;
  *address = slot->mr.base + static_cast<uint64_t>(ref.offset);
  return true;
}

bool Executor::Impl::HostAddress(const MemRef& ref, uint64_t len, uint8_t** address) {
  ObjectSlot* slot = Slot(ref.mr, ObjectKind::kMr);
  if (!slot || !slot->mr.host) return false;
  // Calculated as a number: the offset may lead anywhere, and is then refused.
  *address = reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(slot->mr.host) +
                                        static_cast<uintptr_t>(ref.offset));
  return arena_.Lend(*address, len);
}

ObjectId Executor::Impl::QpByNumber(ibv_context* context, uint32_t number) {
  const auto lock = LockObjects();
  if (numbers_.size() > kFewQps && context) {
    auto it = number_index_.find(IndexKey(context, number));
    if (it != number_index_.end()) return it->second;
  }
  // Without a context (the sender of a datagram) a living QP is preferred to a dead one.
  ObjectId dead = kNoObject;
  for (size_t i = numbers_.size(); i-- > 0;) {
    const NamedQp& named = numbers_[i];
    if (named.number != number || (context && named.context != context)) continue;
    if (context || slots_[named.object].alive) return named.object;
    if (dead == kNoObject) dead = named.object;
  }
  // A queue of another context than its queue pair's.
  if (context) return QpByNumber(nullptr, number);
  return dead;
}

void Executor::Impl::NameQp(ObjectSlot* slot, ObjectId id) {
  slot->qp.number = slot->qp.qp->qp_num;
  numbers_.push_back({contexts_[slot->context].context, slot->qp.number, id});
  if (numbers_.size() <= kFewQps) return;
  // The first time, those before are entered as well.
  for (size_t i = number_index_.empty() ? 0 : numbers_.size() - 1; i < numbers_.size(); i++)
    number_index_[IndexKey(numbers_[i].context, numbers_[i].number)] = numbers_[i].object;
}

ObjectId Executor::Impl::KeyOwner(uint32_t rkey, uint8_t* inc) {
  const auto lock = LockObjects();
  for (size_t i = slots_.size(); i-- > 0;) {
    const ObjectSlot& slot = slots_[i];
    if (!slot.existed) continue;
    uint32_t first = 0;
    if (slot.kind == ObjectKind::kMw) {
      first = slot.mw.first_rkey;
    } else if (slot.kind == ObjectKind::kMr) {
      first = slot.mr.first_rkey;
    } else {
      continue;
    }
    if ((first & ~0xffu) != (rkey & ~0xffu)) continue;
    *inc = static_cast<uint8_t>(rkey - first);
    return static_cast<ObjectId>(i);
  }
  return kNoObject;
}

// -------------------------------------------------------------------------------------------------
// Running.

void Executor::Impl::Dispatch(const Call& call, uint32_t index, Scratch* scratch, Out out) {
  bool named = true;
  const bool makes = call.kind <= CallKind::kResizeCq && call.kind != CallKind::kDestroy;
  const ObjectsLock lock(makes && parallel_ ? &objects_mutex_ : nullptr);
  switch (call.kind) {
    case CallKind::kDevice:
    case CallKind::kPd:
    case CallKind::kTd:
    case CallKind::kMr:
    case CallKind::kMw:
    case CallKind::kChannel:
    case CallKind::kCq:
    case CallKind::kSrq:
    case CallKind::kXrcd:
    case CallKind::kQp:
    case CallKind::kAh:
    case CallKind::kThread:
    case CallKind::kOpenQp:
      named = Create(call, out);
      break;
    case CallKind::kDestroy:
      named = Destroy(call, out);
      break;
    case CallKind::kReregMr:
      named = ReregMr(call, out);
      break;
    case CallKind::kResizeCq:
      named = ResizeCq(call, out);
      break;
    case CallKind::kConnect:
      named = Connect(call, out);
      break;
    case CallKind::kModify:
      named = Modify(call, out);
      break;
    case CallKind::kQuery:
      named = Query(call, out);
      break;
    case CallKind::kQueryDevice:
      named = QueryDevice(call, out);
      break;
    case CallKind::kQueryPort:
      named = QueryPort(call, out);
      break;
    case CallKind::kQueryGid:
      named = QueryGid(call, out);
      break;
    case CallKind::kQueryPkey:
      named = QueryPkey(call, out);
      break;
    case CallKind::kModifySrq:
      named = ModifySrq(call, out);
      break;
    case CallKind::kQuerySrq:
      named = QuerySrq(call, out);
      break;
    case CallKind::kAttachMcast:
    case CallKind::kDetachMcast:
      named = Mcast(call, out);
      break;
    case CallKind::kStart:
      named = Start(call, out);
      break;
    case CallKind::kBuild:
      named = Build(call);
      if (!named) SpoilRegion(call);
      break;
    case CallKind::kSetSge:
    case CallKind::kSetSgeList:
    case CallKind::kSetInline:
    case CallKind::kSetInlineList:
    case CallKind::kSetUdAddr:
    case CallKind::kSetXrcSrqn:
      named = Setter(call, scratch);
      if (!named) SpoilRegion(call);
      break;
    case CallKind::kComplete:
    case CallKind::kAbort:
      named = EndRegion(call, out);
      break;
    case CallKind::kPostSend:
      named = PostSend(call, index, scratch, out);
      break;
    case CallKind::kRecv:
    case CallKind::kSrqRecv:
      named = PostRecv(call, index, scratch, out);
      break;
    case CallKind::kBindMw:
      named = BindMw(call, out);
      break;
    case CallKind::kPoll:
      named = Poll(call, scratch, out);
      break;
    case CallKind::kPollEx:
      named = PollEx(call, out);
      break;
    case CallKind::kStartPoll:
    case CallKind::kNextPoll:
    case CallKind::kReadWc:
    case CallKind::kEndPoll:
      named = PollStep(call, out);
      break;
    case CallKind::kArm:
      named = Arm(call, out);
      break;
    case CallKind::kGetCqEvent:
      named = GetCqEvent(call, out);
      break;
    case CallKind::kAckCqEvents:
      named = AckCqEvents(call, out);
      break;
    case CallKind::kGetAsyncEvent:
      named = GetAsyncEvent(call, out);
      break;
    case CallKind::kStore:
      named = Store(call);
      break;
    case CallKind::kLoad:
      named = Load(call, out);
      break;
    case CallKind::kSettle:
      named = Settle(out);
      break;
    case CallKind::kAdvance:
      named = Advance(call, out);
      break;
    case CallKind::kFault:
      named = FaultPoint(call, out);
      break;
    case CallKind::kParallel:
    case CallKind::kJoin:
      break;
  }
  if (!named) {
    out.event->ran = Ran::kNotMade;
    out.event->rc = 0;
  }
}

void Executor::Impl::RunOne(uint32_t index, Trace* trace, Scratch* scratch) {
  const Call& call = program_->calls[index];
  if (options_.current_call) {
    options_.current_call->store(index, std::memory_order_relaxed);
    options_.heartbeat->fetch_add(1, std::memory_order_relaxed);
  }
  // In place: no call adds events.
  Event& event = trace->events.emplace_back();
  event.call = index;
  const size_t completions = trace->completions.size(), memory = trace->memory.size(),
               states = trace->states.size(), values = trace->values.size(),
               lints = trace->lints.size();
  Dispatch(call, index, scratch, {&event, trace});
  if (lints_) session_->TakeLints(&trace->lints);
  auto range = [](size_t first, size_t end) {
    return Range{static_cast<uint32_t>(first), static_cast<uint32_t>(end - first)};
  };
  event.completions = range(completions, trace->completions.size());
  event.memory = range(memory, trace->memory.size());
  event.states = range(states, trace->states.size());
  event.values = range(values, trace->values.size());
  event.lints = range(lints, trace->lints.size());
}

void Executor::Impl::RecordBare(uint32_t index, Ran ran) {
  Event event;
  event.call = index;
  event.ran = ran;
  trace_->events.push_back(event);
}

// Whether the call would wait for a region of another thread, or its thread already waits.
bool Executor::Impl::MustWait(const Call& call) const {
  for (uint32_t index : deferred_)
    if (program_->calls[index].thread == call.thread) return true;
  if (call.kind != CallKind::kStart && call.kind != CallKind::kPostSend) return false;
  if (call.object >= slots_.size()) return false;
  const ObjectSlot& slot = slots_[call.object];
  return slot.alive && slot.kind == ObjectKind::kQp && slot.qp.in_region &&
         slot.qp.region_thread != call.thread;
}

void Executor::Impl::RunOn(uint8_t thread, uint32_t index) {
  if (thread == 0) {
    RunOne(index, trace_, &scratch_);
    return;
  }
  if (!threads_) threads_ = std::make_unique<Threads>();
  threads_->Run(thread, [&] { RunOne(index, trace_, &scratch_); });
}

void Executor::Impl::RunInOrder(uint32_t index) {
  const Call& call = program_->calls[index];
  if (MustWait(call)) {
    deferred_.push_back(index);
    return;
  }
  RunOn(call.thread, index);
  if (call.kind == CallKind::kComplete || call.kind == CallKind::kAbort ||
      call.kind == CallKind::kDestroy)
    RunDeferred();
}

// A region has ended: what waited for it goes on, in the order in which it came.
void Executor::Impl::RunDeferred() {
  bool progress = !deferred_.empty();
  while (progress) {
    progress = false;
    std::vector<uint32_t> held;
    held.swap(deferred_);
    for (uint32_t index : held) {
      // MustWait() sees those that have been put back before this one.
      if (MustWait(program_->calls[index])) {
        deferred_.push_back(index);
      } else {
        RunOn(program_->calls[index].thread, index);
        progress = true;
      }
    }
    if (deferred_.empty()) return;
  }
}

// Runs the calls from after `parallel` up to `join` at once; returns the index of the join.
uint32_t Executor::Impl::RunParallel(uint32_t first) {
  const uint32_t end =
      static_cast<uint32_t>(std::min<size_t>(program_->calls.size(), options_.cut_at));
  std::vector<std::vector<uint32_t>> of_thread(256);
  uint32_t join = first;
  for (; join < end && program_->calls[join].kind != CallKind::kJoin; join++)
    of_thread[program_->calls[join].thread].push_back(join);
  if (!threads_) threads_ = std::make_unique<Threads>();
  spoilt_ = true;
  parallel_ = true;
  waiting_ = 0;
  running_ = 0;
  for (const auto& calls : of_thread)
    if (!calls.empty()) running_++;
  std::vector<std::function<void()>> tasks(of_thread.size());
  for (size_t t = 0; t < of_thread.size(); t++) {
    if (of_thread[t].empty()) continue;
    tasks[t] = [this, &calls = of_thread[t]] {
      Trace seen;
      Scratch scratch;
      for (uint32_t index : calls) {
        seen.Clear();
        RunOne(index, &seen, &scratch);
        std::lock_guard<std::mutex> lock(record_mutex_);
        trace_->Append(seen);
      }
      running_--;
    };
  }
  for (size_t t = 1; t < tasks.size(); t++)
    if (tasks[t]) threads_->Begin(static_cast<uint8_t>(t), &tasks[t]);
  // The main thread stays the thread that it is before and after: a region may span the section.
  if (tasks[0]) tasks[0]();
  for (size_t t = 1; t < tasks.size(); t++)
    if (tasks[t]) threads_->Finish(static_cast<uint8_t>(t));
  parallel_ = false;
  return join;
}

// Regions that the Program left open are aborted, each by its thread: what follows (queries,
// freeing) must not happen inside one.
void Executor::Impl::CloseRegions() {
  for (ObjectSlot& slot : slots_) {
    if (!slot.alive || slot.kind != ObjectKind::kQp || !slot.qp.in_region) continue;
    slot.qp.in_region = false;
    ibv_qp_ex* qp = slot.qp.ex;
    if (slot.qp.region_thread == 0 || !threads_) {
      ibv_wr_abort(qp);
    } else {
      threads_->Run(slot.qp.region_thread, [qp] { ibv_wr_abort(qp); });
    }
  }
}

// Polls likewise: behind an open one nothing else could be taken from the queue.
void Executor::Impl::ClosePolls() {
  for (ObjectSlot& slot : slots_) {
    if (!slot.alive || slot.kind != ObjectKind::kCq || !slot.cq.polling) continue;
    slot.cq.polling = false;
    ibv_cq_ex* cq = slot.cq.ex;
    if (slot.cq.poll_thread == 0 || !threads_) {
      ibv_end_poll(cq);
    } else {
      threads_->Run(slot.cq.poll_thread, [cq] { ibv_end_poll(cq); });
    }
  }
}

void Executor::Impl::EndOfRun() {
  if (options_.current_call) options_.current_call->store(kEndOfRun, std::memory_order_relaxed);
  CloseRegions();
  ClosePolls();
  Event event;
  event.call = kEndOfRun;
  event.settled = true;
  event.timed_out = session_->Settle() == Rest::kTimedOut;
  const auto first = [](size_t n) { return static_cast<uint32_t>(n); };
  event.completions.first = first(trace_->completions.size());
  event.memory.first = first(trace_->memory.size());
  event.states.first = first(trace_->states.size());
  DrainAll(&scratch_, {&event, trace_});
  arena_.RecordChanges(trace_);
  RecordStates(trace_);
  event.completions.count = first(trace_->completions.size()) - event.completions.first;
  event.memory.count = first(trace_->memory.size()) - event.memory.first;
  event.states.count = first(trace_->states.size()) - event.states.first;
  trace_->events.push_back(event);
  // What closing and draining did is no use that the Program made.
  std::vector<const char*> ignored;
  session_->TakeLints(&ignored);
}

void Executor::Impl::Run(const Program& program, const RunOptions& options, Trace* trace) {
  program_ = &program;
  options_ = options;
  trace_ = trace;
  trace->Clear();
  trace->provider = session_->provider();
  trace->version = session_->version();
  if (!arena_.Stays(program.arena)) DropKeptMrs();
  arena_.Begin(program.arena);
  if (slots_.size() < program.objects.size()) {
    slots_.resize(program.objects.size());
  } else if (slots_.size() > program.objects.size()) {
    slots_.erase(slots_.begin() + static_cast<long>(program.objects.size()), slots_.end());
  }
  for (size_t i = 0; i < slots_.size(); i++) slots_[i].Reset(program.objects[i].kind);
  made_.clear();
  numbers_.clear();
  number_index_.clear();
  deferred_.clear();
  regions_held_.fill(0);
  spoilt_ = false;
  lints_ = session_->detects_undefined();
  session_->BeginProgram(program.seed);
  binds_.store(false, std::memory_order_relaxed);
  const uint32_t end =
      static_cast<uint32_t>(std::min<size_t>(program.calls.size(), options.cut_at));
  for (uint32_t index = 0; index < end; index++) {
    if (program.calls[index].kind == CallKind::kParallel) {
      RunOne(index, trace_, &scratch_);
      index = RunParallel(index + 1);
      if (index >= end) break;
    }
    RunInOrder(index);
  }
  // Nobody ends the region that these wait for.
  for (uint32_t index : deferred_) RecordBare(index, Ran::kNotMade);
  for (uint32_t index = end; index < program.calls.size(); index++) RecordBare(index, Ran::kCut);
  EndOfRun();
  Release();
  if (threads_) threads_.reset();
}

Executor::Executor(DeviceSession* session) : impl_(std::make_unique<Impl>(session)) {}
Executor::~Executor() = default;

void Executor::Run(const Program& program, const RunOptions& options, Trace* trace) {
  impl_->Run(program, options, trace);
}

void Executor::DropObjects() { impl_->DropObjects(); }

}  // namespace qpexam
