// The judge's working state: one class, its parts in a file each.
#ifndef QPEXAM_HARNESS_JUDGE_IMPL_H_
#define QPEXAM_HARNESS_JUDGE_IMPL_H_

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/judge.h"
#include "harness/judge/memory.h"
#include "harness/judge/state.h"
#include "harness/program/layout.h"

namespace qpexam::judge {

// Storage of one kind of object that is kept from run to run: elements are reset, their own
// vectors keep what they had.
template <typename T>
class Pool {
 public:
  void Clear() { size_ = 0; }
  T& Add() {
    if (size_ == all_.size()) all_.emplace_back();
    return all_[size_++];
  }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return all_[i]; }
  const T& operator[](size_t i) const { return all_[i]; }
  T* begin() { return all_.data(); }
  T* end() { return all_.data() + size_; }
  const T* begin() const { return all_.data(); }
  const T* end() const { return all_.data() + size_; }

 private:
  std::vector<T> all_;
  size_t size_ = 0;
};

// What a request's remote memory turned out to be.
struct RemotePlace {
  model::RemoteFault fault = model::RemoteFault::kNone;
  bool unsure = false;
  bool placed = false;
  uint32_t block = 0;
  uint64_t offset = 0;
  Clock changed = 0;
};

// What may become of one request, over all states of affairs that can have held.
struct Prospects {
  model::OutcomeSet set;  // of the facts as they are now
  bool open = false;      // a race: any outcome
  bool may_succeed = false, may_fail = false, may_stay = false;
  bool whole = false;  // where it succeeds, everything it promises happens
};

class Judge::Impl {
 public:
  explicit Impl(JudgeOptions options) : options_(std::move(options)) {}

  const JudgeOptions& options() const { return options_; }
  const Verdict& Run(const Program& program, const Trace& trace);

 private:
  friend class Judge;

  // --- run.cc: one event after the other -------------------------------------------------------
  void Clear();
  void Step(const Event& event);
  void AtEnd(const Event& event);
  void Started() {  // something may move again
    settled_ = false;
    ++activity_;
  }

  // --- objects.cc ------------------------------------------------------------------------------
  [[gnu::always_inline]] Index Find(ObjectId id) const {
    return id < index_.size() ? index_[id] : kNone;
  }
  [[gnu::always_inline]] ObjectKind KindOf(ObjectId id) const { return program_->objects[id].kind; }
  [[gnu::always_inline]] bool Is(ObjectId id, ObjectKind kind) const {
    return id != kNoObject && id < program_->objects.size() && KindOf(id) == kind;
  }
  QpState* Qp(ObjectId id);
  MrState* Mr(ObjectId id);
  MwState* Mw(ObjectId id);
  CqState* Cq(CqRef ref);
  Index PdOf(ObjectId pd, ObjectId device);
  Index ImplicitPd(ObjectId device);
  void MakePd(const Call& call, const Event& event);
  void MakeMr(const Call& call, const Event& event);
  void MakeMw(const Call& call, const Event& event);
  void MakeCq(const Call& call, const Event& event);
  void MakeSrq(const Call& call, const Event& event);
  void MakeQp(const Call& call, const Event& event);
  void MakeAh(const Call& call, const Event& event);
  void Rereg(const Call& call, const Event& event);
  void ResizeCq(const Call& call, const Event& event);
  void Destroy(const Call& call, const Event& event);
  void DoubtReceives(ObjectId mr);
  void Attach(const Call& call, const Event& event);
  void Detach(const Call& call, const Event& event);

  // --- states.cc -------------------------------------------------------------------------------
  void Connect(const Call& call, const Event& event);
  void Modify(const Call& call, const Event& event);
  void TakeAttributes(QpState& qp, const ibv_qp_attr& attr, int mask, const Call& call,
                      const QpState* peer);
  void EnterState(QpState& qp, ibv_qp_state state);
  void ResetQp(QpState& qp);
  void ShareDoubt(QpState& qp);
  void SawStates(const Event& event, bool asked);
  void SawState(QpState& qp, const SeenState& seen, bool asked);
  void QueryValues(const Call& call, const Event& event);
  void AsyncEvent(const Call& call, const Event& event);
  void Arm(const Call& call, const Event& event);
  void CqEvent(const Call& call, const Event& event);
  bool TookEverything(const QpState& qp) const;
  bool MaySolicit(const CqState& cq);
  bool MayBeError(QpState& qp);

  struct List;

  // --- posting.cc ------------------------------------------------------------------------------
  void Start(const Call& call);
  void Build(const Call& call);
  void Setter(const Call& call);
  void Complete(const Call& call, const Event& event);
  void Abort(const Call& call, const Event& event);
  void PostSend(const Call& call, const Event& event);
  void EndPostSend(List& pending, const Event& event);
  bool GoesOn(const Call& call, const Event& event) const;
  void PostReceive(const Call& call, const Event& event, bool srq);
  void EndPostReceive(List& pending, const Event& event);
  void BindType1(const Call& call, const Event& event);
  Request& NewStaged(QpState& qp, const Call& call);
  void FillRequest(const Call& call, Request* r);
  void AddSges(const std::vector<SgeArg>& sges, Request* r);
  void AddInline(MemRef addr, uint64_t len, Request* r);
  void RereadInline(Request* r);
  bool Misused(const QpState& qp, const Request& r) const;
  // Whether the region may be accepted, may be refused, and on which clause.
  struct PostJudgement {
    bool may_accept = true, may_refuse = false, accept_warns = false, refuse_warns = false;
    const char* accept_clause = "";
    const char* refuse_clause = "";
    const char* why = "";
    model::ChoicePoint choice = model::ChoicePoint::kCount;
    model::PostFault fault = model::PostFault::kNone;
  };
  PostJudgement JudgePosting(QpState& qp, Request* requests, size_t count);
  void Apply(PostJudgement* j, model::PostFault fault, const char* why);
  void JudgeRc(const QpState& qp, const PostJudgement& j, int rc, const char* verb, size_t count);
  void Accept(QpState& qp, Request& staged);
  void Drop(QpState& qp, const Request& staged, Fate fate);
  bool MayChoke(QpState& to, const Request& r);
  void MayComplete(QpState& qp, size_t count);
  void Unfollow(QpState& qp);

  // --- outcomes.cc -----------------------------------------------------------------------------
  bool InArena(MemRef addr, uint64_t len, uint64_t* start) const;
  bool Inside(const MrState& mr, ObjectId key, MemRef addr, uint64_t len, bool placed,
              uint64_t start, bool* unsure) const;
  LocalPlace PlaceLocal(KeyRef key, MemRef addr, uint64_t len, Index pd, bool write) const;
  uint64_t GoodBytes(const Sge& e, Index pd) const;
  void AddSge(KeyRef key, MemRef addr, uint64_t length) {
    Sge& sge = sges_.emplace_back();
    sge.key = key;
    sge.addr = addr;
    sge.length = length;
  }
  // The same of an SGE that is being posted, found out once for each posting.
  const LocalPlace& PlacePosted(Sge* sge, Index pd, bool write);
  RemotePlace PlaceByKey(const Request& r, const QpState* peer, uint64_t right) const;
  RemotePlace PlaceRemote(const Request& r, const QpState& qp, const QpState* peer) const;
  bool ChangedSinceBuilt(KeyRef key, const Request& r) const;
  // Whether the key that a bind gives is one of the window itself.
  bool NamesItsWindow(const Request& r) const {
    return Is(r.rkey.object, ObjectKind::kMw) && Find(r.rkey.object) == r.mw;
  }
  model::RequestFacts FactsOf(const Request& r, bool* open);
  Prospects ProspectsOf(const Request& r);
  bool PathOpen(const QpState& qp, const Request& r) const;
  QpState* PeerOf(const QpState& qp, const Request& r);
  model::ReceiveFact ReceiveFactOf(const Request& r, QpState* peer, model::LocalFault* fault,
                                   bool* wrong_srq, bool* open);
  bool NeedsReceive(const Request& r) const;
  model::RequestFacts::Window WindowFactOf(const Request& r, const QpState& qp, bool* open) const;
  bool Due(QpState& qp, const Request& r);
  RequestId DueUpTo(QpState& qp);
  RequestId SuccessUpTo(QpState& qp);
  ReceiveQueue* ReceivesOf(QpState& qp) { return qp.srq != kNone ? &srqs_[qp.srq].rq : &qp.rq; }

  // --- completions.cc: to whom it belongs, and what holds for both sides ------------------------
  void Completions(const Event& event);
  void SawCompletion(const SeenCompletion& wc);
  QpState* OnlyQpOn(Index cq);
  void Doubt(CqState& cq);
  void UpdateUnsure(QpState& qp);
  void Retire(QpState& qp, Request& r, Fate fate);

  // --- send_completions.cc ---------------------------------------------------------------------
  void SendCompletion(QpState& qp, const SeenCompletion& wc);
  void UnorderedSendCompletion(QpState& qp, const SeenCompletion& wc);
  bool TakeStale(QpState& qp, const SeenCompletion& wc, const Request* match);
  void UnknownSend(QpState& qp, const SeenCompletion& wc);
  void JudgeSuccess(QpState& qp, Request& r, const SeenCompletion& wc);
  void JudgeError(QpState& qp, Request& r, const SeenCompletion& wc, bool alike = false);

  // --- receive_completions.cc ------------------------------------------------------------------
  void ReceiveCompletion(QpState& qp, const SeenCompletion& wc);
  bool UnknownReceive(QpState& qp, const SeenCompletion& wc);
  bool TakeReceive(QpState& qp, const SeenCompletion& wc, Receive** taken, bool* vanished);
  void DoubtAlike(const QpState& qp, ReceiveQueue& rq, uint32_t found);
  bool SamePlaces(const Receive& a, const Receive& b) const;
  bool MustArrive(const Request& r, const QpState& sender, const QpState& to) const;
  Request* TakeMessage(QpState& qp, const SeenCompletion& wc, bool* ambiguous);
  bool GoesElsewhere(const Request& r, const QpState& to, const SeenCompletion& wc);
  bool Fits(const Request& r, const QpState& to, const SeenCompletion& wc) const;
  void Deliver(QpState& qp, Receive& receive, const SeenCompletion& wc, Request* message);
  void CheckReceived(QpState& qp, const SeenCompletion& wc, const Request& message);
  void MarkVisible(QpState& qp, const Request& upto);

  // --- absent.cc: what was promised and did not come --------------------------------------------
  void CheckOverrun(CqState& cq);
  void Drained(Index cq, const Event& event);
  void CheckAbsent(Index cq, bool all);
  void CheckAbsentSends(QpState& qp);
  void CheckAbsentReceives(QpState& qp);

  // --- observe.cc ------------------------------------------------------------------------------
  void Store(const Call& call);
  bool Gather(const Request& r);  // into gathered_
  void GatherRange(uint32_t block, uint64_t offset, uint64_t len, const Request& r);
  void TaintPayload(Request& r);
  template <typename F>
  void ForBindings(const Request& r, F f);
  bool OfAnotherSpace(const MrState& mr, MemRef addr) const;
  void Wild(uint32_t block, uint64_t offset, uint64_t len);
  void WildSge(const Sge& s);
  void AddEffects(QpState& qp, Request& r);
  void TaintTarget(const Request& r, RequestId writer_only);
  void FinishEffects(QpState& qp, Request& r, bool success, bool cannot_have_started);
  void WriteOnWay(uint32_t block, uint64_t offset, const uint8_t* bytes, const uint8_t* unknown,
                  uint64_t len, Request& r, bool local, bool adding = false);
  void PutBytes(uint32_t block, uint64_t offset, const uint8_t* bytes, const uint8_t* unknown,
                uint64_t len, Clock since);
  void MarkAny(uint32_t block, uint64_t offset, uint64_t len, RequestId writer_only);
  void Resolve(Cell& cell);
  void SawMemory(const Event& event);
  void SawBytes(const SeenMemory& m, uint64_t base);
  void WholeLook(bool settled);
  bool ExplainedOtherwise(uint32_t block, uint64_t cell, uint8_t bytes);
  void WrongMemory(uint32_t block, uint64_t cell, const Cell& c, uint64_t seen, uint8_t bytes,
                   bool promised);
  void ReceiveRefs(const Receive& receive, int change);
  template <typename F>
  void ForCells(uint32_t block, uint64_t offset, uint64_t len, F f);
  // The mr that shows this byte best, for messages.
  std::string Place(uint32_t block, uint64_t offset) const;

  // --- report.cc -------------------------------------------------------------------------------
  Finding* Report(const char* clause, std::string what, std::initializer_list<std::string> allowed,
                  std::string observed);
  Finding* Add(FindingKind kind, const char* clause, std::string what,
               std::initializer_list<std::string> allowed, std::string observed);
  void Vary(model::ChoicePoint choice, unsigned outcome);
  std::string NameOf(ObjectId id) const;
  std::string NameOf(const Request& r) const;

  JudgeOptions options_;
  Verdict verdict_;

  const Program* program_ = nullptr;
  const Trace* trace_ = nullptr;
  const Call* call_ = nullptr;
  uint32_t call_index_ = 0;

  Clock clock_ = 0;
  uint32_t epoch_ = 0;     // of facts: keys, rights, states, peers
  uint32_t activity_ = 0;  // counts what may make something move
  Clock keys_made_ = 0;    // when a region or window last got a key
  bool settled_ = false;   // nothing moves unless a further call is made
  bool parallel_ = false;
  bool blind_memory_ = false;  // an unfollowed queue may have written anywhere

  std::vector<Index> index_;  // by ObjectId
  Pool<PdState> pds_;
  Pool<MrState> mrs_;
  Pool<MwState> mws_;
  Pool<CqState> cqs_;
  Pool<SrqState> srqs_;
  Pool<AhState> ahs_;
  Pool<QpState> qps_;
  std::vector<std::pair<ObjectId, Index>> implicit_pds_;

  Memory memory_;
  Layout layout_{0};
  std::vector<Request> requests_;  // request with id i is requests_[i - 1]
  std::vector<Request> dead_;      // aborted, refused: to explain what should not have happened
  std::vector<Sge> sges_;
  uint32_t step_ = 0;  // counts events: no region changes during one that posts
  std::vector<uint8_t> payloads_;
  std::vector<uint8_t> unknowns_;
  Payload gathered_;

  // Memory that something may write of which no place is known.
  struct Stretch {
    uint32_t block;
    uint64_t offset, length;
  };
  std::vector<Stretch> wild_;

  // The last wrong stretch of memory, so that it is one finding.
  uint32_t wrong_at_call_ = ~0u, wrong_block_ = 0;
  uint64_t wrong_cell_ = 0;

  uint64_t fields_ = 0;  // what the present poll read of a completion

  // An ibv_post_send or ibv_post_recv list whose calls have not all been seen, of each thread:
  // theirs are seen in between each other.
  struct List {
    ObjectId of = kNoObject;
    std::vector<Request> sends;
    std::vector<Receive> receives;
  };
  std::vector<List> lists_;  // by thread
  List& ListOf(const Call& call) {
    if (call.thread >= lists_.size()) lists_.resize(call.thread + size_t{1});
    return lists_[call.thread];
  }

  Request& Of(RequestId id) { return requests_[id - 1]; }
  const Request& Of(RequestId id) const { return requests_[id - 1]; }
};

// f(cell, index of the cell, first byte in it, end byte in it, bytes from the start of the range)
template <typename F>
void Judge::Impl::ForCells(uint32_t block, uint64_t offset, uint64_t len, F f) {
  uint64_t done = 0;
  while (done < len) {
    const uint64_t at = offset + done;
    const auto from = static_cast<unsigned>(at & 7);
    const auto n = static_cast<unsigned>(std::min<uint64_t>(8 - from, len - done));
    f(memory_.At(block, at >> 3), at >> 3, from, from + n, done);
    done += n;
  }
}

}  // namespace qpexam::judge

#endif  // QPEXAM_HARNESS_JUDGE_IMPL_H_
