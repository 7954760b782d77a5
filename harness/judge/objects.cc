// Objects and their lives: what is made, with what, and what its end does.
#include <algorithm>
#include <cerrno>

#include "harness/judge/impl.h"
#include "reference/model/transitions.h"

namespace qpexam::judge {
namespace {

using model::ChoicePoint;
using model::Operation;
using model::QpType;

}  // namespace

void QpState::Clear() {
  static_cast<QpValues&>(*this) = QpValues{};
  attached.clear();
  region.Clear();
  sent.clear();
  ghosts.clear();
  vanished_receives.clear();
  messages.clear();
  rq.Clear();
}

QpState* Judge::Impl::Qp(ObjectId id) {
  if (!Is(id, ObjectKind::kQp)) return nullptr;
  const Index i = Find(id);
  return i == kNone ? nullptr : &qps_[i];
}

CqState* Judge::Impl::Cq(CqRef ref) {
  if (ref.object == kNoObject) return nullptr;
  if (Is(ref.object, ObjectKind::kCq)) {
    const Index i = Find(ref.object);
    return i == kNone ? nullptr : &cqs_[i];
  }
  QpState* qp = Qp(ref.object);
  if (qp == nullptr) return nullptr;
  const Index i = ref.side == Side::kRecv ? qp->recv_cq : qp->send_cq;
  return i == kNone ? nullptr : &cqs_[i];
}

Index Judge::Impl::ImplicitPd(ObjectId device) {
  for (const auto& [of, pd] : implicit_pds_) {
    if (of == device) return pd;
  }
  PdState& pd = pds_.Add();
  pd = PdState{};
  pd.alive = true;
  pd.root = static_cast<Index>(pds_.size() - 1);
  implicit_pds_.emplace_back(device, pd.root);
  return pd.root;
}

// The pd that keys and rights are compared by: below a parent domain its pd (WR-CONC-008).
Index Judge::Impl::PdOf(ObjectId pd, ObjectId device) {
  if (pd == kNoObject) return ImplicitPd(device);
  const Index i = Find(pd);
  return i == kNone ? kNone : pds_[i].root;
}

void Judge::Impl::MakePd(const Call& call, const Event& event) {
  if (event.rc != 0) return;
  PdState& pd = pds_.Add();
  pd = PdState{};
  pd.id = call.object;
  pd.alive = true;
  const auto self = static_cast<Index>(pds_.size() - 1);
  pd.root = self;
  index_[call.object] = self;
  if (call.pd != kNoObject || call.td != kNoObject) {
    const Index root = PdOf(call.pd, call.device);
    if (root != kNone) pds_[self].root = root;
    pds_[self].has_td = call.td != kNoObject;
  }
}

void Judge::Impl::MakeMr(const Call& call, const Event& event) {
  const Layout::Result placed = layout_.Add(call);
  if (placed != Layout::Result::kPlaced) return;
  const uint64_t start = layout_.Start(call.object);
  if (call.fill != kUnset && call.addr.mr == kNoObject && call.len > 0) {
    memory_.AddFill(start, call.len, static_cast<uint8_t>(call.fill));
  }
  MrState& mr = mrs_.Add();
  mr = MrState{};
  mr.id = call.object;
  mr.pd = PdOf(call.pd, kNoObject);
  mr.base = mr.home = start;
  mr.size = call.len;
  mr.access = call.access;
  mr.alive = event.rc == 0;
  mr.zero_based = (call.access & IBV_ACCESS_ZERO_BASED) != 0 && call.iova == kUnset;
  mr.own_space = mr.zero_based || call.iova != kUnset;
  mr.vague = mr.unsure = (call.access & IBV_ACCESS_ZERO_BASED) && call.iova != kUnset;
  if (mr.vague) {
    // What is read from there, and when something is written there, nobody can tell.
    ForCells(mr.block, mr.base, mr.size,
             [](Cell& c, uint64_t, unsigned, unsigned, uint64_t) { ++c.receives; });
  }
  if (mr.alive) {
    keys_made_ = ++clock_;
    DoubtReceives(call.object);
  }
  // Its memory is there even where the registration failed.
  index_[call.object] = static_cast<Index>(mrs_.size() - 1);
}

void Judge::Impl::Rereg(const Call& call, const Event& event) {
  const Index i = Find(call.object);
  if (i == kNone) return;
  MrState& mr = mrs_[i];
  mr.changed = mr.rekeyed = keys_made_ = ++clock_;
  ++epoch_;
  DoubtReceives(call.object);
  if (event.rc != 0) {
    mr.unsure = true;  // a failed rereg may leave it unusable
    return;
  }
  if (call.flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
    // Before and after: what is on its way may meet either.
    if (mr.vague) Wild(mr.block, mr.base, mr.size);
    if (layout_.Add(call) == Layout::Result::kPlaced) {
      mr.base = layout_.Start(call.object);
      mr.size = call.len;
    } else {
      mr.unsure = true;
    }
    mr.own_space = mr.zero_based;
    if (mr.vague) Wild(mr.block, mr.base, mr.size);
  }
  if (call.flags & IBV_REREG_MR_CHANGE_PD) mr.pd = PdOf(call.pd, kNoObject);
  if (call.flags & IBV_REREG_MR_CHANGE_ACCESS) {
    if ((mr.access ^ call.access) & IBV_ACCESS_ZERO_BASED) mr.unsure = true;
    mr.access = call.access;
  }
}

void Judge::Impl::MakeMw(const Call& call, const Event& event) {
  if (event.rc != 0) return;
  MwState& mw = mws_.Add();
  mw = MwState{};
  mw.id = call.object;
  mw.pd = PdOf(call.pd, kNoObject);
  mw.type = call.mw_type;
  mw.alive = true;
  keys_made_ = ++clock_;
  index_[call.object] = static_cast<Index>(mws_.size() - 1);
}

void Judge::Impl::MakeCq(const Call& call, const Event& event) {
  if (event.rc != 0) return;
  CqState& cq = cqs_.Add();
  cq = CqState{};
  cq.id = call.object;
  cq.channel = call.channel;
  cq.alive = true;
  cq.extended = call.ex != 0;
  cq.fields = call.ex ? call.wc_flags : ~uint64_t{0};
  cq.depth = event.granted[0] ? event.granted[0] : static_cast<uint32_t>(call.n);
  index_[call.object] = static_cast<Index>(cqs_.size() - 1);
}

void Judge::Impl::ResizeCq(const Call& call, const Event& event) {
  const Index i = Find(call.object);
  if (i == kNone || event.rc != 0) return;
  cqs_[i].depth = event.granted[0] ? event.granted[0] : static_cast<uint32_t>(call.n);
  CheckOverrun(cqs_[i]);  // of what is on its way already
}

void Judge::Impl::MakeSrq(const Call& call, const Event& event) {
  if (event.rc != 0) return;
  SrqState& srq = srqs_.Add();
  srq.id = call.object;
  srq.pd = PdOf(call.pd, kNoObject);
  srq.xrcd = call.xrcd;
  srq.cq = call.xrcd != kNoObject && Is(call.cq, ObjectKind::kCq) ? Find(call.cq) : kNone;
  srq.alive = true;
  srq.leaky = false;
  srq.rq.Clear();
  srq.rq.limit = event.granted[0] ? event.granted[0] : static_cast<uint32_t>(call.n);
  srq.rq.max_sge = event.granted[1] ? event.granted[1] : static_cast<uint32_t>(call.sge_max);
  index_[call.object] = static_cast<Index>(srqs_.size() - 1);
}

void Judge::Impl::MakeAh(const Call& call, const Event& event) {
  if (event.rc != 0) return;
  AhState& ah = ahs_.Add();
  ah = AhState{};
  ah.id = call.object;
  ah.pd = PdOf(call.pd, kNoObject);
  ah.alive = true;
  // Towards another device's port, or with attributes of its own: who it reaches is not followed.
  ah.plain = call.attrs.empty() && call.device == kNoObject;
  index_[call.object] = static_cast<Index>(ahs_.size() - 1);
}

void Judge::Impl::MakeQp(const Call& call, const Event& event) {
  if (call.kind == CallKind::kOpenQp) {
    // A second handle of the same QP (XRC_RECV).
    if (event.rc == 0 && Is(call.object2, ObjectKind::kQp)) {
      index_[call.object] = Find(call.object2);
      if (QpState* qp = Qp(call.object)) {
        ++qp->handles;
        qp->reopened = true;
      }
    }
    return;
  }
  const bool plain = call.ops == kPlainQp;
  const std::string& name = program_->objects[call.object].name;
  const uint64_t ops = plain ? 0 : call.ops;
  if (event.rc != 0) {
    // NULL means not applicable, but for the reference, which knows what it should accept.
    const bool modest = call.sq <= 1024 && call.rq <= 1024 && call.sge_max <= 16 &&
                        call.recv_sge_max <= 16 && call.inline_max <= 256 && call.flags == 0 &&
                        call.tso_max == 0;
    const bool supported = (ops & ~model::ReferenceSendOps(call.qp_type)) == 0;
    const bool typed =
        call.qp_type == QpType::kRc || call.qp_type == QpType::kUc || call.qp_type == QpType::kUd;
    if (!plain && ops == 0 && modest && typed) {
      Vary(ChoicePoint::kNoOperations, 1);
      return;
    }
    // An SRQ of the XRC kind is no receive queue for these.
    const Index srq = Is(call.srq, ObjectKind::kSrq) ? Find(call.srq) : kNone;
    const bool fits = srq == kNone || srqs_[srq].xrcd == kNone;
    if (options_.provider == Provider::kReference && modest && supported && typed && fits &&
        event.rc != ENOMEM) {
      Report("WR-CREATE-001", name + ": creation of a QP that Table A offers failed", {"a QP"},
             "errno " + std::to_string(event.rc));
    }
    return;
  }
  if (!plain) {
    if (call.qp_type == QpType::kXrcRecv) {
      Report("WR-XRC-005", name + ": an XRC_RECV QP was created with send operations", {"NULL"},
             "a QP");
    } else if (ops & ~model::kAllSendOps) {
      Report("WR-CREATE-002", name + ": bits that the header does not define were accepted",
             {"NULL"}, "a QP");
    }
    for (const model::OperationInfo& info : model::AllOperations()) {
      if (!(ops & info.send_ops_flag) || call.qp_type == QpType::kXrcRecv) continue;
      const model::QpTypeMask bit = model::MaskOf(call.qp_type);
      if (!((info.reference_types | info.optional_types) & bit)) {
        if (options_.provider == Provider::kReference) {
          Report("WR-CREATE-002",
                 name + ": " + std::string(info.name) + " was accepted for type " +
                     std::string(model::Name(call.qp_type)),
                 {"NULL"}, "a QP");
        } else {
          Add(FindingKind::kWarning, "WR-CREATE-002",
              name + ": " + std::string(info.name) + " was accepted for type " +
                  std::string(model::Name(call.qp_type)),
              {"NULL"}, "a QP");
        }
      } else if (!(info.reference_types & bit)) {
        if (info.op == Operation::kSendWithInv) Vary(ChoicePoint::kCreateOptionalOp, 1);
        if (info.op == Operation::kTso) Vary(ChoicePoint::kUdTso, 1);
      }
    }
  }
  const bool own_receives =
      call.srq == kNoObject && call.qp_type != QpType::kXrcSend && call.qp_type != QpType::kXrcRecv;
  if (call.qp_type != QpType::kXrcRecv) {
    struct Cap {
      const char* name;
      uint64_t asked;
      uint32_t granted;
      bool counts;
    };
    const Cap caps[] = {{"max_send_wr", call.sq, event.granted[0], true},
                        {"max_recv_wr", call.rq, event.granted[1], own_receives},
                        {"max_send_sge", call.sge_max, event.granted[2], true},
                        {"max_recv_sge", call.recv_sge_max, event.granted[3], own_receives},
                        {"max_inline_data", call.inline_max, event.granted[4], true}};
    for (const Cap& cap : caps) {
      if (!cap.counts) continue;
      if (cap.granted < cap.asked) {
        Report("WR-CREATE-003", name + ": granted less than was asked: " + cap.name,
               {"at least " + std::to_string(cap.asked)}, std::to_string(cap.granted));
      } else if (cap.granted > cap.asked) {
        Vary(ChoicePoint::kGrantMore, 1);
      }
    }
  }
  QpState& qp = qps_.Add();
  const auto self = static_cast<Index>(qps_.size() - 1);
  qp.Clear();
  qp.id = call.object;
  qp.type = call.qp_type;
  qp.alive = true;
  qp.plain = plain;
  qp.ops = ops;
  qp.sig_all = call.sig_all != 0;
  qp.unordered = call.qp_type == QpType::kSrd;
  qp.xrcd = call.xrcd;
  qp.srq = Is(call.srq, ObjectKind::kSrq) ? Find(call.srq) : kNone;
  qp.pd = call.qp_type == QpType::kXrcRecv ? kNone : PdOf(call.pd, call.device);
  std::copy(event.granted, event.granted + 5, qp.granted);
  qp.rq.limit = event.granted[1];
  qp.rq.max_sge = event.granted[3];
  qp.qkey = 0;
  if (call.qp_type == QpType::kUd) qp.path_mtu = 4096;
  if (call.qp_type == QpType::kSrd) qp.path_mtu = 1u << 31;
  index_[call.object] = self;
  auto queue = [&](ObjectId cq, Side side) -> Index {
    if (Is(cq, ObjectKind::kCq)) return Find(cq);
    if (call.qp_type == QpType::kXrcRecv) return kNone;
    CqState& own = cqs_.Add();
    own = CqState{};
    own.qp = call.object;
    own.side = side;
    own.alive = true;
    own.fields = ~uint64_t{0};
    own.depth = static_cast<uint32_t>(OwnCqDepth(side == Side::kSend ? call.sq : call.rq));
    return static_cast<Index>(cqs_.size() - 1);
  };
  qp.send_cq = queue(call.cq, Side::kSend);
  qp.recv_cq = queue(call.recv_cq, Side::kRecv);
}

void Judge::Impl::Attach(const Call& call, const Event& event) {
  QpState* qp = Qp(call.object);
  if (qp == nullptr || event.rc != 0) return;
  // Attaching twice is attaching once.
  auto& groups = qp->attached;
  if (std::find(groups.begin(), groups.end(), call.value) == groups.end())
    groups.push_back(call.value);
}
void Judge::Impl::Detach(const Call& call, const Event& event) {
  QpState* qp = Qp(call.object);
  if (qp == nullptr || event.rc != 0) return;
  auto& groups = qp->attached;
  groups.erase(std::remove(groups.begin(), groups.end(), call.value), groups.end());
}

// Receives that were posted with the region's key may be good ones no more.
void Judge::Impl::DoubtReceives(ObjectId mr) {
  auto doubt = [&](ReceiveQueue& rq) {
    for (uint32_t i = rq.head; i < rq.posted.size(); ++i) {
      Receive& receive = rq.posted[i];
      if (receive.done) continue;
      bool now_good = false;
      for (uint32_t s = 0; s < receive.sge_count; ++s) {
        Sge& e = sges_[receive.first_sge + s];
        // Or of a bent key, which may be the one it has now.
        if (e.key.object != mr && !e.key.flip) continue;
        receive.unsure = true;
        now_good |= !e.placed && e.within;
      }
      if (!now_good) continue;
      ReceiveRefs(receive, -1);
      for (uint32_t s = 0; s < receive.sge_count; ++s) {
        Sge& e = sges_[receive.first_sge + s];
        e.placed |= (e.key.object == mr || e.key.flip) && e.within;
      }
      ReceiveRefs(receive, +1);
    }
  };
  for (QpState& qp : qps_) doubt(qp.rq);
  for (SrqState& srq : srqs_) doubt(srq.rq);
}

void Judge::Impl::Destroy(const Call& call, const Event& event) {
  if (call.object == kNoObject || call.object >= program_->objects.size()) return;
  const Index i = Find(call.object);
  const std::string name = NameOf(call.object);
  switch (KindOf(call.object)) {
    case ObjectKind::kQp: {
      QpState* qp = Qp(call.object);
      if (qp == nullptr) return;
      if (!qp->attached.empty()) {
        if (event.rc == 0) {
          Report("WR-CREATE-017", name + ": destroyed while attached to a multicast group",
                 {"non-zero"}, "0");
        } else {
          return;
        }
      }
      if (event.rc != 0) return;
      if (--qp->handles > 0) {  // another handle of it lives
        index_[call.object] = kNone;
        return;
      }
      ResetQp(*qp);
      qp->alive = false;
      qp->states = 0;
      qp->changed = ++clock_;
      ++epoch_;
      for (MwState& mw : mws_) {
        if (mw.now.bound && mw.now.qp == i) {
          mw.now.bound = false;  // WR-MW-018: no access through it any more
          mw.freed_by_end = true;
          mw.changed = clock_;
        }
      }
      break;
    }
    case ObjectKind::kMr: {
      if (i == kNone) return;
      MrState& mr = mrs_[i];
      bool bound = false, doubtful = false;
      for (MwState& mw : mws_) {
        if (!mw.alive || mw.now.mr != i) continue;
        bound |= mw.now.bound && mw.pending == 0 && !mw.unsure;
        doubtful |= mw.pending > 0 || mw.unsure || mw.now.bound;
      }
      if (event.rc == 0) {
        if (bound) {
          Report("WR-MW-014", name + ": deregistered while a window is bound to it", {"non-zero"},
                 "0");
        }
        mr.alive = false;
      } else if (!doubtful && mr.alive) {
        mr.unsure = true;
      }
      mr.changed = ++clock_;
      ++epoch_;
      DoubtReceives(call.object);
      break;
    }
    case ObjectKind::kMw: {
      if (i == kNone) return;
      MwState& mw = mws_[i];
      if (event.rc != 0) {
        if (mw.alive && mw.pending == 0) {
          Report("WR-MW-014", name + ": ibv_dealloc_mw failed", {"0"}, std::to_string(event.rc));
        }
        mw.unsure = true;
      } else {
        mw.alive = false;
      }
      mw.changed = ++clock_;
      ++epoch_;
      break;
    }
    case ObjectKind::kPd:
      if (i != kNone && event.rc == 0) pds_[i].alive = false;
      break;
    case ObjectKind::kCq:
      if (i != kNone && event.rc == 0) cqs_[i].alive = false;
      break;
    case ObjectKind::kSrq:
      if (i != kNone && event.rc == 0) {
        srqs_[i].alive = false;
        ++epoch_;
        std::vector<uint64_t> gone;
        for (uint32_t k = srqs_[i].rq.head; k < srqs_[i].rq.posted.size(); ++k) {
          Receive& r = srqs_[i].rq.posted[k];
          if (!r.done) ReceiveRefs(r, -1);
          if (!r.done) gone.push_back(r.wr_id);
          // A message may have filled it whose completion nobody has polled.
          for (uint32_t s = 0; !r.done && s < r.sge_count && srqs_[i].xrcd != kNone; ++s) {
            const Sge& e = sges_[r.first_sge + s];
            if (e.placed) MarkAny(e.block, e.offset, e.length, 0);
          }
          r.done = true;
        }
        for (QpState& qp : qps_) {
          if (qp.type != model::QpType::kXrcRecv || srqs_[i].xrcd == kNone ||
              qp.xrcd != srqs_[i].xrcd) {
            continue;
          }
          qp.recv_doubt = true;
          // Also after a RESET.
          qp.vanished_receives.insert(qp.vanished_receives.end(), gone.begin(), gone.end());
        }
      }
      break;
    case ObjectKind::kAh:
      if (i != kNone && event.rc == 0) {
        ahs_[i].alive = false;
        ++epoch_;
      }
      break;
    default:
      break;
  }
  Started();
}

}  // namespace qpexam::judge
