// One event after the other.
#include "harness/judge/impl.h"

namespace qpexam::judge {

Judge::Judge(JudgeOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Judge::~Judge() = default;
const JudgeOptions& Judge::options() const { return impl_->options(); }
const Verdict& Judge::operator()(const Program& program, const Trace& trace) {
  return impl_->Run(program, trace);
}

Verdict JudgeOnce(const Program& program, const Trace& trace, const JudgeOptions& options) {
  Judge judge(options);
  return judge(program, trace);
}

void Judge::Impl::Clear() {
  verdict_.Clear();
  clock_ = 0;
  step_ = 0;
  epoch_ = 0;
  keys_made_ = 0;
  activity_ = 0;
  settled_ = false;
  parallel_ = false;
  blind_memory_ = false;
  pds_.Clear();
  mrs_.Clear();
  mws_.Clear();
  cqs_.Clear();
  srqs_.Clear();
  ahs_.Clear();
  qps_.Clear();
  implicit_pds_.clear();
  memory_.Clear();
  memory_.AddBlock(program_->arena);
  wild_.clear();
  layout_.Clear(program_->arena);
  requests_.clear();
  dead_.clear();
  sges_.clear();
  payloads_.clear();
  unknowns_.clear();
  for (List& list : lists_) list.of = kNoObject;
  wrong_at_call_ = ~0u;
  index_.assign(program_->objects.size(), kNone);
}

const Verdict& Judge::Impl::Run(const Program& program, const Trace& trace) {
  program_ = &program;
  trace_ = &trace;
  Clear();
  const std::vector<Event>& events = trace.events;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.call == kEndOfRun) {
      call_index_ = kEndOfRun;
      call_ = nullptr;
      AtEnd(event);
      continue;
    }
    if (event.call >= program.calls.size()) continue;
    if (program.calls[event.call].kind != CallKind::kParallel || event.ran != Ran::kDone) {
      Step(event);
      continue;
    }
    // All at once up to `join`: what was posted, first; what was seen, afterwards.
    size_t end = i + 1;
    while (end < events.size() && events[end].call != kEndOfRun &&
           events[end].call < program.calls.size() &&
           program.calls[events[end].call].kind != CallKind::kJoin) {
      ++end;
    }
    parallel_ = true;
    for (const bool seen : {false, true}) {
      for (size_t k = i + 1; k < end; ++k) {
        const CallKind kind = program.calls[events[k].call].kind;
        const bool looks = kind == CallKind::kPoll || kind == CallKind::kPollEx ||
                           kind == CallKind::kLoad || kind == CallKind::kSettle ||
                           kind == CallKind::kStartPoll || kind == CallKind::kNextPoll ||
                           kind == CallKind::kReadWc || kind == CallKind::kEndPoll;
        if (looks == seen) Step(events[k]);
      }
    }
    // Who came first stays unknown.
    for (QpState& qp : qps_) {
      if (qp.outstanding > 0) qp.unordered = true;
    }
    parallel_ = false;
    i = end < events.size() && events[end].call != kEndOfRun ? end : end - 1;
  }
  return verdict_;
}

void Judge::Impl::Step(const Event& event) {
  ++step_;
  call_index_ = event.call;
  call_ = &program_->calls[event.call];
  if (event.ran == Ran::kNotMade && call_->kind == CallKind::kComplete) {
    // The executor ends a region that it could not build whole by abort.
    if (const QpState* qp = Qp(call_->object); qp != nullptr && qp->region.open) {
      Abort(*call_, event);
    }
  }
  if (event.ran != Ran::kDone) {
    // A list of which one request could not be spelled is not posted at all.
    if (call_->kind == CallKind::kPostSend || call_->kind == CallKind::kRecv ||
        call_->kind == CallKind::kSrqRecv) {
      ListOf(*call_).of = kNoObject;
    }
    return;
  }
  const Call& call = *call_;
  if (event.lints.count && !options_.lints_expected) {
    for (const char* clause : trace_->LintsOf(event)) {
      Add(FindingKind::kUndefined, clause,
          "the Program does what the specification leaves undefined", {}, "");
    }
  }
  bool looked = false;      // all memory was recorded
  bool drained = false;     // the queue of this poll is empty
  bool own_states = false;  // states are of the QP that the call is about
  switch (call.kind) {
    case CallKind::kPd:
      MakePd(call, event);
      break;
    case CallKind::kMr:
      MakeMr(call, event);
      break;
    case CallKind::kMw:
      MakeMw(call, event);
      break;
    case CallKind::kCq:
      MakeCq(call, event);
      break;
    case CallKind::kSrq:
      MakeSrq(call, event);
      break;
    case CallKind::kQp:
    case CallKind::kOpenQp:
      MakeQp(call, event);
      break;
    case CallKind::kAh:
      MakeAh(call, event);
      break;
    case CallKind::kDestroy:
      Destroy(call, event);
      break;
    case CallKind::kReregMr:
      Rereg(call, event);
      break;
    case CallKind::kResizeCq:
      ResizeCq(call, event);
      break;
    case CallKind::kConnect:
      Connect(call, event);
      own_states = true;
      break;
    case CallKind::kModify:
      Modify(call, event);
      own_states = true;
      if (QpState* qp = Qp(call.object)) qp->modify_refused = event.rc != 0;
      break;
    case CallKind::kModifySrq:
      if (const Index s = Find(call.object); s != kNone && event.rc == 0 && call.n != kUnset) {
        srqs_[s].rq.limit = static_cast<uint32_t>(call.n);
      }
      break;
    case CallKind::kQuery:
      QueryValues(call, event);
      break;
    case CallKind::kAttachMcast:
      Attach(call, event);
      break;
    case CallKind::kDetachMcast:
      Detach(call, event);
      break;
    case CallKind::kStart:
      Start(call);
      break;
    case CallKind::kBuild:
      Build(call);
      break;
    case CallKind::kSetSge:
    case CallKind::kSetSgeList:
    case CallKind::kSetInline:
    case CallKind::kSetInlineList:
    case CallKind::kSetUdAddr:
    case CallKind::kSetXrcSrqn:
      Setter(call);
      break;
    case CallKind::kComplete:
      Complete(call, event);
      break;
    case CallKind::kAbort:
      Abort(call, event);
      break;
    case CallKind::kPostSend:
      PostSend(call, event);
      break;
    case CallKind::kRecv:
      PostReceive(call, event, false);
      break;
    case CallKind::kSrqRecv:
      PostReceive(call, event, true);
      break;
    case CallKind::kBindMw:
      BindType1(call, event);
      break;
    case CallKind::kPoll:
    case CallKind::kPollEx: {
      looked = true;
      // Inside an open poll of the same queue (WR-CQX-008) nothing found says nothing.
      drained = event.rc == 0 && event.count < call.n && event.lints.count == 0;
      if (CqState* cq = Cq({call.object, call.side})) {
        cq->seen_fields = call.kind == CallKind::kPollEx && call.wc_flags
                              ? cq->fields & call.wc_flags
                          : call.kind == CallKind::kPollEx ? cq->fields
                                                           : ~uint64_t{0};
      }
      if (event.rc < 0 && !parallel_) {
        if (const CqState* cq = Cq({call.object, call.side}); cq && !cq->may_overrun) {
          Report("WR-COMP-012", "ibv_poll_cq failed on a queue that cannot have overrun",
                 {"a number of completions"}, std::to_string(event.rc));
        }
      }
      if (event.count > call.n) {
        Report("WR-COMP-015", "more completions than were asked for",
               {"at most " + std::to_string(call.n)}, std::to_string(event.count));
      }
      break;
    }
    case CallKind::kReadWc:
      if (CqState* cq = Cq({call.object, Side::kNone})) {
        cq->seen_fields = call.wc_flags ? cq->fields & call.wc_flags : cq->fields;
        if (!cq->current_unread) return;  // the same one, read again
        cq->current_unread = false;
      }
      break;
    case CallKind::kStartPoll:
    case CallKind::kNextPoll:
    case CallKind::kEndPoll:
      if (CqState* cq = Cq({call.object, Side::kNone})) {
        // One that is passed over without being read is gone all the same.
        if (cq->current_unread) Doubt(*cq);
        cq->current_unread = call.kind != CallKind::kEndPoll && event.rc == 0;
        cq->current_since = step_;
      }
      looked = call.kind == CallKind::kEndPoll;
      break;
    case CallKind::kArm:
      Arm(call, event);
      break;
    case CallKind::kGetCqEvent:
      CqEvent(call, event);
      break;
    case CallKind::kGetAsyncEvent:
      AsyncEvent(call, event);
      break;
    case CallKind::kStore:
      Store(call);
      break;
    case CallKind::kLoad:
    case CallKind::kAdvance:
      looked = true;
      break;
    case CallKind::kSettle:
      looked = true;
      break;
    case CallKind::kFault:
      if (QpState* qp = Qp(call.object)) {
        qp->loses = true;
        if (QpState* peer = qp->peer == kNone ? nullptr : &qps_[qp->peer]) {
          peer->incoming_trouble = true;
        }
        ++epoch_;
      }
      break;
    default:
      break;
  }
  if (event.settled) settled_ = true;
  if (event.completions.count) Completions(event);
  if (drained && !parallel_) {
    if (const CqState* cq = Cq({call.object, call.side})) {
      Drained(static_cast<Index>(cq - cqs_.begin()), event);
    }
  }
  if (event.memory.count) SawMemory(event);
  if (looked && !memory_.touched().empty()) WholeLook(settled_ && !parallel_);
  if (event.states.count) SawStates(event, own_states);
}

void Judge::Impl::AtEnd(const Event& event) {
  for (CqState& cq : cqs_) {
    cq.seen_fields = ~uint64_t{0};
    // A poll that the Program, or the lint that cut it, left open is ended: as by end_poll.
    if (cq.current_unread) Doubt(cq);
  }
  settled_ = event.settled;
  Completions(event);
  if (settled_) CheckAbsent(kNone, true);
  SawMemory(event);
  WholeLook(settled_);
  SawStates(event, false);
}

}  // namespace qpexam::judge
