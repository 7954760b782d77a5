#include "reference/model/rules.h"

#include <initializer_list>

namespace qpexam::model {
namespace {

using Window = RequestFacts::Window;

// A member that fails the requester alone. Any other error status than the one the clause names is
// at most a warning (catalogue rule 12).
Outcome LocalError(ibv_wc_status status, NextState next, const char* clause) {
  Outcome o;
  o.status = status;
  o.tolerated = kAnyError;
  o.effect = Effect::kNone;
  o.requester_next = next;
  o.clause = clause;
  return o;
}

Outcome Success(const char* clause) {
  Outcome o;
  o.clause = clause;
  return o;
}

// The message vanishes: the requester of an unreliable service sees SUCCESS.
Outcome Dropped(const char* clause) {
  Outcome o;
  o.effect = Effect::kNone;
  o.clause = clause;
  return o;
}

// Stays outstanding until a state change.
Outcome NoProgress(const char* clause) {
  Outcome o;
  o.completes = false;
  o.effect = Effect::kNone;
  o.clause = clause;
  return o;
}

Outcome AtLevel(Outcome o, Level level) {
  o.level = level;
  return o;
}

void Add(OutcomeSet* set, const Outcome& o) {
  if (set->count < OutcomeSet::kMax) set->member[set->count++] = o;
}

OutcomeSet Set(const char* clause, ChoicePoint choice, std::initializer_list<Outcome> members) {
  OutcomeSet set;
  set.clause = clause;
  set.choice = choice;
  for (const Outcome& o : members) Add(&set, o);
  return set;
}
OutcomeSet One(const Outcome& o) {
  OutcomeSet set;
  set.clause = o.clause;
  set.member[0] = o;
  set.count = 1;
  return set;
}

bool IsAtomic(Operation op) {
  return op == Operation::kAtomicCmpAndSwp || op == Operation::kAtomicFetchAndAdd;
}
bool TakesReceive(Operation op) { return Info(op).peer != PeerEffect::kNone; }

// Where a requester goes after its own error: RC and XRC to ERR (WR-RESP-016), the unreliable
// types to SQE or ERR (WR-RESP-010, WR-STATE-004). SRD is not IBA's: nothing is said.
NextState AfterSendError(QpType type) {
  if (type == QpType::kSrd) return NextState::kKeep;
  return IsReliable(type) ? NextState::kErr : NextState::kSqeOrErr;
}
NextState ErrUnlessSrd(QpType type) {
  return type == QpType::kSrd ? NextState::kKeep : NextState::kErr;
}

// Bytes of a message of one packet change whole or not at all; of a longer one a prefix may have
// landed before the mistake was met (catalogue rule 3, WR-RESP-005).
Effect PrefixOf(const RequestFacts& f) {
  return f.path_mtu != 0 && f.length > f.path_mtu ? Effect::kMaybe : Effect::kNone;
}

// --- BIND_MW, LOCAL_INV --------------------------------------------------------------------------

OutcomeSet BindOutcomes(const RequestFacts& f) {
  const NextState next = AfterSendError(f.type);
  const auto error = [&](const char* clause) {
    return LocalError(IBV_WC_MW_BIND_ERR, next, clause);
  };
  switch (f.window) {
    case Window::kFine:
      if (f.type == QpType::kXrcSend) {
        return Set("WR-MW-019", ChoicePoint::kXrcWindow,
                   {Success("WR-MW-019"), error("WR-MW-019")});
      }
      return One(Success("WR-MW-004"));
    case Window::kType1:  // UNDEFINED: never judged
      return One(error("WR-MW-001"));
    case Window::kBoundAlready:
      return One(error("WR-MW-007"));
    case Window::kWrongPd:
    case Window::kNoBindRight:
    case Window::kNoLocalWrite:
      return One(error("WR-MW-005"));
    case Window::kOutOfRange:
      return Set("WR-MW-017", ChoicePoint::kBindOutside,
                 {error("WR-MW-017"), AtLevel(Success("WR-MW-017"), Level::kShould)});
    case Window::kZeroLength:
      return One(error("WR-MW-006"));
    case Window::kForeignIndexBits:
      return Set("WR-MW-002", ChoicePoint::kForeignIndexBits,
                 {Success("WR-MW-002"), error("WR-MW-002")});
    case Window::kNoMr:
      return One(error("WR-MW-016"));
    case Window::kFree:
    case Window::kUnknownKey:
    case Window::kPlainMr:
    case Window::kWrongQp:
      return One(error("WR-MW-001"));
  }
  return One(error("WR-MW-001"));
}

OutcomeSet LocalInvOutcomes(const RequestFacts& f) {
  const NextState next = AfterSendError(f.type);
  const auto error = [&](const char* clause) {
    return LocalError(IBV_WC_MW_BIND_ERR, next, clause);
  };
  switch (f.window) {
    case Window::kFine:
      if (f.type == QpType::kXrcSend) {
        return Set("WR-MW-019", ChoicePoint::kXrcWindow,
                   {Success("WR-MW-019"), error("WR-MW-019")});
      }
      return One(Success("WR-MW-009"));
    case Window::kWrongQp:
      return Set("WR-MW-010", ChoicePoint::kForeignInvalidate,
                 {error("WR-MW-010"), AtLevel(Success("WR-MW-010"), Level::kShould)});
    case Window::kFree:
      return Set("WR-MW-012", ChoicePoint::kFreeInvalidate,
                 {error("WR-MW-012"), Success("WR-MW-012")});
    default:  // never allocated, stale tag, a plain MR's key, type 1, another PD
      return One(error("WR-MW-011"));
  }
}

// --- the requester's own side --------------------------------------------------------------------

OutcomeSet LocalFaultOutcomes(const RequestFacts& f) {
  Outcome o = LocalError(IBV_WC_LOC_PROT_ERR, AfterSendError(f.type), "WR-RESP-010");
  // The atomic may have been executed before its answer had nowhere to go (WR-SGE-007); packets
  // before the bad SGE may have left.
  o.effect = IsAtomic(f.op)                 ? Effect::kMaybe
             : f.op == Operation::kRdmaRead ? Effect::kNone
                                            : PrefixOf(f);
  return One(o);
}

OutcomeSet PathOutcomes(const RequestFacts& f) {
  if (!IsReliable(f.type)) {
    return One(Dropped(f.path == PathFact::kPeerNotReady ? "WR-STATE-015" : "WR-RESP-018"));
  }
  if (f.timeout_disabled) return One(NoProgress("WR-RESP-017"));
  const char* clause = f.path == PathFact::kLost ? "WR-RESP-003" : "WR-RESP-004";
  return One(LocalError(IBV_WC_RETRY_EXC_ERR, ErrUnlessSrd(f.type), clause));
}

// --- the responder, reliable services ------------------------------------------------------------

// A NAK: both ends go to ERR (WR-RESP-016).
Outcome Refused(const RequestFacts& f, ibv_wc_status status, const char* clause) {
  Outcome o = LocalError(status, ErrUnlessSrd(f.type), clause);
  o.responder_next = ErrUnlessSrd(f.type);
  return o;
}

const char* AccessClause(const RequestFacts& f) {
  if (f.op == Operation::kFlush) {
    return f.remote == RemoteFault::kNoRegionRight ? "WR-DATA-018" : "WR-DATA-032";
  }
  if (f.op == Operation::kAtomicWrite) return "WR-DATA-033";
  if (f.remote == RemoteFault::kWrongWindowQp) return "WR-MW-008";
  return f.remote == RemoteFault::kOutOfRange ? "WR-LIM-004" : "WR-RESP-005";
}

OutcomeSet RemoteFaultOutcomes(const RequestFacts& f) {
  OutcomeSet set;
  switch (f.remote) {
    case RemoteFault::kMisaligned: {
      const char* clause = f.op == Operation::kAtomicWrite ? "WR-DATA-024" : "WR-DATA-013";
      set = One(Refused(f, IBV_WC_REM_INV_REQ_ERR, clause));
      break;
    }
    case RemoteFault::kNoQpRight: {
      const char* clause = f.op == Operation::kFlush         ? "WR-DATA-018"
                           : f.op == Operation::kAtomicWrite ? "WR-DATA-033"
                                                             : "WR-RESP-007";
      set = Set(
          clause, ChoicePoint::kRightDenied,
          {Refused(f, IBV_WC_REM_INV_REQ_ERR, clause), Refused(f, IBV_WC_REM_ACCESS_ERR, clause)});
      break;
    }
    default: {
      Outcome o = Refused(f, IBV_WC_REM_ACCESS_ERR, AccessClause(f));
      if (f.op == Operation::kRdmaWrite || f.op == Operation::kRdmaWriteWithImm) {
        o.effect = PrefixOf(f);
      }
      set = One(o);
    }
  }
  // The receive of a failed WRITE_WITH_IMM is flushed with its queue, or completes in error.
  if (f.op == Operation::kRdmaWriteWithImm && f.receive == ReceiveFact::kReady) {
    const int n = set.count;
    for (int i = 0; i < n; ++i) {
      Outcome o = set.member[i];
      o.consumes_receive = true;
      o.receive_status = IBV_WC_LOC_ACCESS_ERR;
      o.receive_tolerated = kAnyError;
      o.clause = "WR-RESP-011";
      Add(&set, o);
    }
    if (set.choice == ChoicePoint::kCount) set.choice = ChoicePoint::kWriteImmBadKey;
  }
  return set;
}

OutcomeSet ReceiveFaultOutcomes(const RequestFacts& f) {
  switch (f.receive) {
    case ReceiveFact::kNone: {
      const char* clause = f.type == QpType::kXrcSend        ? "WR-XRC-007"
                           : f.op == Operation::kSendWithInv ? "WR-MW-021"
                                                             : "WR-RESP-001";
      if (f.rnr_retry_infinite) return One(NoProgress("WR-RESP-002"));
      // The responder stays as it is.
      return One(LocalError(IBV_WC_RNR_RETRY_EXC_ERR, ErrUnlessSrd(f.type), clause));
    }
    case ReceiveFact::kTooShort: {
      Outcome o = Refused(f, IBV_WC_REM_INV_REQ_ERR, "WR-RESP-008");
      o.effect = Effect::kMaybe;  // the start of the receive's buffers
      o.consumes_receive = true;
      o.receive_status = IBV_WC_LOC_LEN_ERR;
      o.receive_tolerated = kAnyError;
      return One(o);
    }
    default: {  // kBadBuffer
      Outcome o = Refused(f, IBV_WC_REM_OP_ERR, "WR-RESP-009");
      o.effect = Effect::kMaybe;
      o.consumes_receive = true;
      o.receive_status = IBV_WC_LOC_PROT_ERR;
      o.receive_tolerated = kAnyError;
      return One(o);
    }
  }
}

// SEND_WITH_INV whose key names nothing that the responder may invalidate: class J, no NAK.
OutcomeSet BadInvalidateOutcomes(const RequestFacts& f) {
  const auto with_receive = [&](Outcome o) {
    o.effect = Effect::kMaybe;  // the data may have been placed
    o.consumes_receive = true;
    o.receive_status = IBV_WC_MW_BIND_ERR;
    o.receive_tolerated = kAnyError;
    o.responder_next = ErrUnlessSrd(f.type);
    return o;
  };
  const NextState next = ErrUnlessSrd(f.type);
  OutcomeSet set =
      Set("WR-MW-013", ChoicePoint::kBadInvalidate,
          {with_receive(f.timeout_disabled ? NoProgress("WR-MW-013")
                                           : LocalError(IBV_WC_RETRY_EXC_ERR, next, "WR-MW-013")),
           with_receive(Success("WR-MW-013"))});
  Outcome nak = LocalError(IBV_WC_REM_OP_ERR, next, "WR-MW-013");
  Add(&set, AtLevel(with_receive(nak), Level::kShould));
  if (f.window == Window::kWrongQp) {  // bound on another QP: tolerated with a warning
    Outcome all = Success("WR-MW-013");
    all.consumes_receive = true;
    Add(&set, AtLevel(all, Level::kShould));
  }
  return set;
}

OutcomeSet ReliableOutcomes(const RequestFacts& f) {
  if (f.wrong_srq) {
    Outcome o = Refused(f, IBV_WC_REM_INV_RD_REQ_ERR, "WR-XRC-004");
    o.responder_next = NextState::kKeep;
    // Only an unexpected SUCCESS is wrong, and that only by a SHOULD.
    return Set("WR-XRC-004", ChoicePoint::kXrcWrongSrq,
               {o, AtLevel(Dropped("WR-XRC-004"), Level::kShould)});
  }
  const bool receive = TakesReceive(f.op);
  const bool rdma = Info(f.op).takes_rkey;
  const bool remote_bad = rdma && f.remote != RemoteFault::kNone;
  // Rights of the QP concern the operation, not the key: a length of 0 does not lift them.
  const bool unchecked = f.length == 0 && f.remote != RemoteFault::kNoQpRight &&
                         (f.op == Operation::kRdmaWrite || f.op == Operation::kRdmaRead ||
                          f.op == Operation::kRdmaWriteWithImm);

  if (receive && f.receive == ReceiveFact::kNone) {
    OutcomeSet set = ReceiveFaultOutcomes(f);
    if (remote_bad && !unchecked) {  // which is met first is not said
      const OutcomeSet keys = RemoteFaultOutcomes(f);
      for (const Outcome& o : keys) Add(&set, o);
      set.choice = ChoicePoint::kRnrOrAccess;
    }
    return set;
  }
  if (receive && f.op != Operation::kRdmaWriteWithImm && f.receive != ReceiveFact::kReady &&
      f.receive != ReceiveFact::kNotNeeded) {
    return ReceiveFaultOutcomes(f);
  }
  if (f.op == Operation::kSendWithInv && f.window != Window::kFine) {
    return BadInvalidateOutcomes(f);
  }
  if (remote_bad) {
    if (!unchecked) return RemoteFaultOutcomes(f);
    Outcome good = Success(f.op == Operation::kRdmaWriteWithImm ? "WR-DATA-007" : "WR-DATA-008");
    good.consumes_receive = receive;
    if (f.op == Operation::kRdmaWriteWithImm) return One(good);
    return Set("WR-DATA-008", ChoicePoint::kZeroLengthRemote,
               {good, AtLevel(Refused(f, IBV_WC_REM_ACCESS_ERR, "WR-DATA-008"), Level::kShould)});
  }
  if (f.exceeds_dest_rd_atomic && Info(f.op).is_read_or_atomic) {
    return Set("WR-RESP-013", ChoicePoint::kExceedsDest,
               {Success("WR-RESP-013"), Refused(f, IBV_WC_REM_INV_REQ_ERR, "WR-RESP-013")});
  }
  Outcome good = Success("WR-BUILD-001");
  good.consumes_receive = receive;
  return One(good);
}

// --- the responder, unreliable services ----------------------------------------------------------

// The requester's side is SUCCESS whatever the responder does (WR-RESP-015, -018, WR-UD-002).
OutcomeSet UnreliableOutcomes(const RequestFacts& f) {
  const bool ud = f.type == QpType::kUd;
  const bool receive = TakesReceive(f.op);
  if (ud && f.qkey_mismatch) return One(Dropped("WR-UD-002"));
  if (receive && f.receive == ReceiveFact::kNone) return One(Dropped("WR-RESP-018"));

  const auto receive_error = [&](ibv_wc_status status, NextState next, const char* clause) {
    Outcome o = Dropped(clause);
    o.effect = Effect::kMaybe;
    o.consumes_receive = true;
    o.receive_status = status;
    o.receive_tolerated = kAnyError;
    o.responder_next = next;
    return o;
  };
  const bool buffer_used = receive && f.op != Operation::kRdmaWriteWithImm;
  if (buffer_used && f.receive == ReceiveFact::kTooShort) {
    if (!ud) {
      Outcome dropped = Dropped("WR-RESP-015");
      dropped.effect = Effect::kMaybe;
      return Set("WR-RESP-015", ChoicePoint::kUcFaulty,
                 {dropped,
                  AtLevel(receive_error(IBV_WC_LOC_LEN_ERR, NextState::kKeep, "WR-RESP-015"),
                          Level::kShould),
                  AtLevel(receive_error(IBV_WC_LOC_LEN_ERR, NextState::kErr, "WR-RESP-015"),
                          Level::kShould)});
    }
    Outcome dropped = Dropped("WR-UD-006");
    dropped.effect = Effect::kMaybe;
    return Set("WR-UD-006", ChoicePoint::kUdShortReceive,
               {dropped, receive_error(IBV_WC_LOC_LEN_ERR, NextState::kKeep, "WR-UD-006"),
                receive_error(IBV_WC_LOC_LEN_ERR, NextState::kErr, "WR-UD-006")});
  }
  if (buffer_used && f.receive == ReceiveFact::kBadBuffer) {
    Outcome dropped = Dropped("WR-RESP-015");
    dropped.effect = Effect::kMaybe;
    return Set("WR-RESP-015", ChoicePoint::kUnreliableBadReceive,
               {receive_error(IBV_WC_LOC_PROT_ERR, NextState::kErr, "WR-RESP-015"),
                receive_error(IBV_WC_LOC_PROT_ERR, NextState::kKeep, "WR-RESP-015"), dropped});
  }
  if (f.op == Operation::kSendWithInv && f.window != Window::kFine) {
    return Set("WR-CREATE-010", ChoicePoint::kUcFaulty,
               {Dropped("WR-CREATE-010"),
                receive_error(IBV_WC_MW_BIND_ERR, NextState::kKeep, "WR-CREATE-010"),
                receive_error(IBV_WC_MW_BIND_ERR, NextState::kErr, "WR-CREATE-010")});
  }
  if (Info(f.op).takes_rkey && f.remote != RemoteFault::kNone) {
    const bool unchecked = f.length == 0 && f.remote != RemoteFault::kNoQpRight;
    Outcome dropped = Dropped("WR-RESP-015");
    dropped.effect = PrefixOf(f);
    if (unchecked) {
      // WRITE_WITH_IMM is delivered on RC; on UC that is a SHOULD (WR-DATA-007), and for a plain
      // WRITE there is nothing to see (WR-DATA-008).
      const char* clause = f.op == Operation::kRdmaWriteWithImm ? "WR-DATA-007" : "WR-DATA-008";
      Outcome good = Success(clause);
      good.consumes_receive = receive;
      dropped.clause = clause;
      return Set(clause, ChoicePoint::kUcZeroLength,
                 {good, AtLevel(dropped, receive ? Level::kShould : Level::kMay)});
    }
    return Set(
        "WR-RESP-015", ChoicePoint::kUcFaulty,
        {dropped,
         AtLevel(receive ? receive_error(IBV_WC_LOC_ACCESS_ERR, NextState::kKeep, "WR-RESP-015")
                         : dropped,
                 receive ? Level::kShould : Level::kMust),
         [&] {
           Outcome o = dropped;
           o.responder_next = NextState::kErr;
           return AtLevel(o, Level::kShould);
         }()});
  }
  Outcome good = Success("WR-BUILD-001");
  good.consumes_receive = receive;
  return One(good);
}

// Two mistakes in one request: the errors of both are allowed, the first one's come first.
OutcomeSet Join(OutcomeSet first, const OutcomeSet& second) {
  for (const Outcome& o : second) {
    if (o.status != IBV_WC_SUCCESS || !o.completes) Add(&first, o);
  }
  first.choice = ChoicePoint::kLocalOrRemote;
  return first;
}

}  // namespace

bool LeavesRequester(Operation op) {
  return op != Operation::kBindMw && op != Operation::kLocalInv;
}

Outcome FlushOutcome(ibv_qp_state state) {
  Outcome o;
  o.status = IBV_WC_WR_FLUSH_ERR;
  o.effect = Effect::kNone;
  o.clause = state == IBV_QPS_SQE ? "WR-STATE-004" : "WR-STATE-005";
  return o;
}

OutcomeSet RequestOutcomes(const RequestFacts& f) {
  if (f.state == IBV_QPS_ERR || f.state == IBV_QPS_SQE) return One(FlushOutcome(f.state));
  if (!f.cell_supported) {
    return One(LocalError(IBV_WC_LOC_QP_OP_ERR, AfterSendError(f.type), "WR-RESP-012"));
  }
  if (f.op == Operation::kBindMw) return BindOutcomes(f);
  if (f.op == Operation::kLocalInv) return LocalInvOutcomes(f);

  if (f.type == QpType::kUd && f.path_mtu != 0 && f.length > f.path_mtu) {
    return Set(
        "WR-UD-007", ChoicePoint::kUdTooLong,
        {Dropped("WR-UD-007"), LocalError(IBV_WC_LOC_LEN_ERR, NextState::kSqeOrErr, "WR-UD-007")});
  }
  if (f.max_msg_sz != 0 && f.length > f.max_msg_sz && f.op != Operation::kFlush) {
    Outcome whole = Success("WR-SGE-008");
    whole.consumes_receive = TakesReceive(f.op);
    return Set("WR-SGE-008", ChoicePoint::kMessageTooLong,
               {LocalError(IBV_WC_LOC_LEN_ERR, AfterSendError(f.type), "WR-SGE-008"), whole});
  }
  if (f.no_read_resources && Info(f.op).is_read_or_atomic) {
    const OutcomeSet own =
        Set("WR-BUILD-012", ChoicePoint::kNoReadResources,
            {Success("WR-BUILD-012"),
             LocalError(IBV_WC_LOC_QP_OP_ERR, AfterSendError(f.type), "WR-BUILD-012"),
             NoProgress("WR-BUILD-012")});
    // Executed in spite of that, it may meet what else is wrong with it.
    RequestFacts rest = f;
    rest.no_read_resources = false;
    const OutcomeSet executed = RequestOutcomes(rest);
    if (executed.count == 1 && executed.member[0].completes &&
        executed.member[0].status == IBV_WC_SUCCESS) {
      return own;
    }
    return Join(executed, own);
  }

  const OutcomeSet wire = f.path != PathFact::kReachable ? PathOutcomes(f)
                          : IsReliable(f.type)           ? ReliableOutcomes(f)
                                                         : UnreliableOutcomes(f);
  if (f.ah_of_other_pd) {
    OutcomeSet set = Set("WR-UD-008", ChoicePoint::kForeignAh,
                         {LocalError(IBV_WC_LOC_QP_OP_ERR, AfterSendError(f.type), "WR-UD-008"),
                          Dropped("WR-UD-008")});
    for (const Outcome& o : wire) Add(&set, o);
    return set;
  }
  if (f.local != LocalFault::kNone) return Join(LocalFaultOutcomes(f), wire);
  return wire;
}

// --- Posting -------------------------------------------------------------------------------------

const PostRule& RuleOf(PostFault fault) {
  using C = ChoicePoint;
  // {may accept, may refuse, refusal warns, acceptance warns, reference's errno, choice, clause}
  static constexpr PostRule kNone{true, false, false, false, 0, C::kCount, "WR-ATOM-003"};
  // More depth than granted is a freedom (WR-CAP-003); a refusal leaves no trace (WR-CAP-002).
  static constexpr PostRule kQueueFull{true, true, false, false, 12, C::kExtraDepth, "WR-CAP-002"};
  static constexpr PostRule kTooManySges{true,        true, false, false, 22, C::kTooManySges,
                                         "WR-SGE-003"};
  static constexpr PostRule kTooMuchInline{true,        true, false, false, 22, C::kTooMuchInline,
                                           "WR-INL-005"};
  static constexpr PostRule kBadState{false,         true, false, false, 22, C::kPostBeforeRts,
                                      "WR-STATE-001"};
  static constexpr PostRule kUnsignaled{
      true, true, false, false, 0, C::kUnsignaledRefused, "WR-SAMPLE-006"};
  static constexpr PostRule kUnsupportedFlag{true,           true, false, false, 0, C::kUnknownFlag,
                                             "WR-SAMPLE-008"};
  static constexpr PostRule kTooManyReadSges{true, true,         false,       false,
                                             22,   C::kReadSges, "WR-SGE-005"};
  static constexpr PostRule kTsoHeader{false, true, false, false, 22, C::kCount, "WR-DATA-027"};
  static constexpr PostRule kTsoTooLong{true, true, false, false, 22, C::kCount, "WR-DATA-028"};
  static constexpr PostRule kMessage{true, true, false, false, 0, C::kMessageTooLong, "WR-SGE-008"};
  static constexpr PostRule kAtomic{true, true, false, false, 22, C::kAtomicLength, "WR-DATA-014"};
  static constexpr PostRule kFlush{true, true, false, false, 22, C::kBadFlush, "WR-DATA-019"};
  static constexpr PostRule kBind{true, true, false, false, 0, C::kLongBind, "WR-MW-020"};
  static constexpr PostRule kWindow{true, true, false, false, 0, C::kWhereFound, "WR-ATOM-008"};
  static constexpr PostRule kLocalKey{true, true, false, false, 0, C::kWhereFound, "WR-SGE-007"};
  static constexpr PostRule kMisaligned{true, true, false, false, 0, C::kWhereFound, "WR-DATA-013"};
  static constexpr PostRule kUdLong{true, true, false, false, 0, C::kUdTooLong, "WR-UD-007"};
  static constexpr PostRule kAh{true, true, false, false, 22, C::kNullAh, "WR-UD-009"};
  static constexpr PostRule kErr{true, true, false, false, 0, C::kPostInErr, "WR-STATE-005"};
  switch (fault) {
    case PostFault::kNone:
      return kNone;
    case PostFault::kQueueFull:
      return kQueueFull;
    case PostFault::kTooManySges:
      return kTooManySges;
    case PostFault::kTooMuchInline:
      return kTooMuchInline;
    case PostFault::kBadState:
      return kBadState;
    case PostFault::kUnsignaled:
      return kUnsignaled;
    case PostFault::kUnsupportedFlag:
      return kUnsupportedFlag;
    case PostFault::kTooManyReadSges:
      return kTooManyReadSges;
    case PostFault::kTsoHeaderTooLong:
      return kTsoHeader;
    case PostFault::kTsoTooLong:
      return kTsoTooLong;
    case PostFault::kMessageTooLong:
      return kMessage;
    case PostFault::kBadAtomicLength:
      return kAtomic;
    case PostFault::kBadFlush:
      return kFlush;
    case PostFault::kBindTooLong:
      return kBind;
    case PostFault::kWindow:
      return kWindow;
    case PostFault::kLocalKey:
      return kLocalKey;
    case PostFault::kMisaligned:
      return kMisaligned;
    case PostFault::kUdTooLong:
      return kUdLong;
    case PostFault::kAddressHandle:
      return kAh;
    case PostFault::kStateErr:
      return kErr;
  }
  return kNone;
}

}  // namespace qpexam::model
