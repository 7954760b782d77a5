#include "harness/program/mutate.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "harness/program/attributes.h"
#include "harness/program/bytes.h"
#include "harness/program/generate.h"
#include "harness/program/repair.h"
#include "harness/program/schema.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

using model::DataRule;
using model::Operation;
using model::QpType;

bool IsSetter(CallKind kind) {
  return kind == CallKind::kSetSge || kind == CallKind::kSetSgeList ||
         kind == CallKind::kSetInline || kind == CallKind::kSetInlineList ||
         kind == CallKind::kSetUdAddr || kind == CallKind::kSetXrcSrqn;
}

bool IsDataSetter(CallKind kind) {
  return IsSetter(kind) && kind != CallKind::kSetUdAddr && kind != CallKind::kSetXrcSrqn;
}

// [first, last] of the calls of one region, in a run of calls that only it makes.
struct RegionAt {
  size_t start, end;
};

class Mutator {
 public:
  Mutator(Random* random, Program* program, const MutateOptions& options)
      : random_(*random), p_(*program), options_(options) {}

  bool Run(Mutation mutation) {
    if (!Change(mutation)) return false;
    if (p_.calls.size() > options_.calls) p_.calls.resize(options_.calls);
    Repair(&p_);
    return true;
  }

 private:
  size_t SomeCall() { return random_.Below(p_.calls.size()); }

  template <typename Want>
  std::optional<size_t> CallWhere(Want want) {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < p_.calls.size(); ++i) {
      if (want(p_.calls[i])) fitting.push_back(i);
    }
    if (fitting.empty()) return std::nullopt;
    return fitting[random_.Below(fitting.size())];
  }

  // A field of a call that satisfies `want`.
  template <typename Want>
  std::optional<std::pair<size_t, const Field*>> FieldWhere(Want want) {
    std::vector<std::pair<size_t, const Field*>> fitting;
    for (size_t i = 0; i < p_.calls.size(); ++i) {
      for (const Field& f : SchemaOf(p_.calls[i].kind).fields) {
        if (Applies(f, p_.calls[i]) && want(f, p_.calls[i])) fitting.emplace_back(i, &f);
      }
    }
    if (fitting.empty()) return std::nullopt;
    return fitting[random_.Below(fitting.size())];
  }

  ObjectId Some(KindMask kinds) {
    std::vector<ObjectId> fitting;
    for (size_t i = 0; i < p_.objects.size(); ++i) {
      if (kinds & KindBit(p_.objects[i].kind)) fitting.push_back(static_cast<ObjectId>(i));
    }
    return fitting.empty() ? kNoObject : fitting[random_.Below(fitting.size())];
  }

  void Insert(size_t at, std::vector<Call> calls) {
    p_.calls.insert(p_.calls.begin() + static_cast<std::ptrdiff_t>(at),
                    std::make_move_iterator(calls.begin()), std::make_move_iterator(calls.end()));
  }
  void Erase(size_t first, size_t last) {  // [first, last)
    p_.calls.erase(p_.calls.begin() + static_cast<std::ptrdiff_t>(first),
                   p_.calls.begin() + static_cast<std::ptrdiff_t>(last));
  }

  std::optional<RegionAt> SomeRegion() {
    std::vector<RegionAt> regions;
    for (size_t i = 0; i < p_.calls.size(); ++i) {
      if (p_.calls[i].kind != CallKind::kStart) continue;
      for (size_t j = i + 1; j < p_.calls.size(); ++j) {
        const Call& c = p_.calls[j];
        if (c.object != p_.calls[i].object || c.thread != p_.calls[i].thread) break;
        if (c.kind == CallKind::kComplete || c.kind == CallKind::kAbort) {
          regions.push_back({i, j});
          break;
        }
        if (c.kind != CallKind::kBuild && !IsSetter(c.kind)) break;
      }
    }
    if (regions.empty()) return std::nullopt;
    return regions[random_.Below(regions.size())];
  }

  // Where each request of the region begins, and its end.
  std::vector<size_t> Requests(const RegionAt& region) const {
    std::vector<size_t> at;
    for (size_t i = region.start; i <= region.end; ++i) {
      if (p_.calls[i].kind == CallKind::kBuild) at.push_back(i);
    }
    at.push_back(region.end);
    return at;
  }

  std::vector<Call> Copy(size_t first, size_t last) const {
    return std::vector<Call>(p_.calls.begin() + static_cast<std::ptrdiff_t>(first),
                             p_.calls.begin() + static_cast<std::ptrdiff_t>(last));
  }

  const Call* Maker(ObjectId id) const {
    for (const Call& c : p_.calls) {
      if (Makes(c.kind) && c.object == id) return &c;
    }
    return nullptr;
  }

  bool Boundary() {
    const auto found = FieldWhere([](const Field& f, const Call&) {
      return f.type == FieldType::kNumber || f.type == FieldType::kEnum ||
             f.type == FieldType::kSgeList || f.type == FieldType::kBufList ||
             f.type == FieldType::kAttrs;
    });
    if (!found) return false;
    Call& call = p_.calls[found->first];
    const Field& f = *found->second;
    if (f.type == FieldType::kSgeList) {
      if (call.sge.empty()) return false;
      call.sge[random_.Below(call.sge.size())].len = Value(0xffffffff);
    } else if (f.type == FieldType::kBufList) {
      if (call.bufs.empty()) return false;
      call.bufs[random_.Below(call.bufs.size())].len = Value(4096);
    } else if (f.type == FieldType::kAttrs) {
      if (call.attrs.empty()) return false;
      Attr& a = call.attrs[random_.Below(call.attrs.size())];
      a.second = Value(InfoOf(a.first).max);
    } else if (Makes(call.kind)) {
      // Sizes of queues and regions stay such that they can be made.
      SetNumber(f, &call,
                std::min<uint64_t>(f.max, random_.OneIn(16) ? Value(f.max) : random_.Below(130)));
    } else {
      SetNumber(f, &call, Value(f.max));
    }
    return true;
  }

  // A limit of this Program +-1, or a number that matters anywhere.
  uint64_t Value(uint64_t max) {
    if (random_.OneIn(2)) {
      std::vector<uint64_t> limits;
      for (const Call& c : p_.calls) {
        if (c.kind == CallKind::kQp) {
          limits.insert(limits.end(), {c.sq, c.rq, c.sge_max, c.inline_max});
        }
        if (c.kind == CallKind::kMr) limits.push_back(c.len);
      }
      if (!limits.empty()) {
        return std::min(limits[random_.Below(limits.size())] + random_.Below(3) - 1, max);
      }
    }
    return BoundaryValue(&random_, max);
  }

  bool KeyOfOther() {
    const auto found = FieldWhere([](const Field& f, const Call& c) {
      return f.type == FieldType::kKey || (f.type == FieldType::kSgeList && !c.sge.empty());
    });
    if (!found) return false;
    Call& call = p_.calls[found->first];
    const bool list = found->second->type == FieldType::kSgeList;
    KeyRef& key =
        list ? call.sge[random_.Below(call.sge.size())].lkey : call.*found->second->member.key;
    switch (random_.Below(4)) {
      case 0:
        key.flip ^= uint32_t{1} << random_.Below(32);
        break;
      case 1:
        ++key.inc;
        break;
      case 2:
        key = KeyRef{};
        key.flip = static_cast<uint32_t>(BoundaryValue(&random_, 0xffffffff));
        break;
      default:
        key.object = Some(list ? KindBit(ObjectKind::kMr) : found->second->kinds);
        break;
    }
    return true;
  }

  bool MoveAddress() {
    const auto at =
        CallWhere([](const Call& c) { return c.addr.mr != kNoObject || !c.sge.empty(); });
    if (!at) return false;
    Call& call = p_.calls[*at];
    MemRef& ref = call.sge.empty() ? call.addr : call.sge[random_.Below(call.sge.size())].addr;
    const Call* mr = ref.mr == kNoObject ? nullptr : Maker(ref.mr);
    const auto len = static_cast<int64_t>(mr ? mr->len : 64);
    ref.offset = random_.Of<int64_t>({0, 1, 7, 8, -1, len - 1, len, len - 8, len + 1, len / 2});
    if (call.sge.empty() && random_.OneIn(8)) {
      ref.mr = Some(KindBit(ObjectKind::kMr));
    }
    return true;
  }

  bool ResizeList() {
    const auto at = CallWhere(
        [](const Call& c) { return !c.sge.empty() || !c.bufs.empty() || !c.attrs.empty(); });
    if (!at) return false;
    Call& call = p_.calls[*at];
    const bool grow = random_.OneIn(2);
    auto resize = [&](auto& list) {
      if (list.empty()) return;
      const size_t i = random_.Below(list.size());
      if (!grow) {
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
      const auto copy = list[i];
      list.insert(list.end(), random_.OneIn(8) ? random_.Between(1, 33) : 1, copy);
    };
    resize(call.sge);
    resize(call.bufs);
    resize(call.attrs);
    return true;
  }

  // Setters that `op` needs on this QP and has not.
  std::vector<Call> MissingSetters(const Call& build, bool has_data, bool has_address) {
    std::vector<Call> missing;
    const model::OperationInfo& info = model::Info(build.op);
    auto on = [&](CallKind kind) {
      Call c = MakeCall(kind);
      c.object = build.object;
      c.thread = build.thread;
      return c;
    };
    if (!has_data && info.data != DataRule::kNone && info.data != DataRule::kNoneTolerated) {
      Call set = on(CallKind::kSetSge);
      set.addr.mr = Some(KindBit(ObjectKind::kMr));
      set.lkey.object = set.addr.mr;
      set.len = info.data == DataRule::kOneSgeOf8 ? 8 : random_.Below(33);
      missing.push_back(std::move(set));
    }
    const Call* qp = Maker(build.object);
    const auto setter =
        qp ? model::RequiredQpSetter(qp->qp_type, build.op) : model::QpSetter::kNone;
    if (!has_address && setter == model::QpSetter::kUdAddr) {
      Call set = on(CallKind::kSetUdAddr);
      set.ah = Some(KindBit(ObjectKind::kAh));
      set.qpn.object = Some(KindBit(ObjectKind::kQp));
      if (set.ah != kNoObject) missing.push_back(std::move(set));
    }
    if (!has_address && setter == model::QpSetter::kXrcSrqn) {
      Call set = on(CallKind::kSetXrcSrqn);
      set.srqn.object = Some(KindBit(ObjectKind::kSrq));
      missing.push_back(std::move(set));
    }
    return missing;
  }

  // Makes the request at `at` one of `op`: setters it does not take go, those it needs come.
  void MakeOperation(size_t at, Operation op) {
    Call& build = p_.calls[at];
    build.op = op;
    if (op == Operation::kBindMw) build.mw = Some(KindBit(ObjectKind::kMw));
    if (op == Operation::kAtomicWrite) build.bytes.resize(8);
    if (op == Operation::kTso) {
      build.bytes.resize(54);
      if (build.mss == 0) build.mss = 100;
    }
    FillDerived(&build);
    const model::OperationInfo& info = model::Info(op);
    const Call* qp = Maker(build.object);
    const auto setter = qp ? model::RequiredQpSetter(qp->qp_type, op) : model::QpSetter::kNone;
    bool has_data = false, has_address = false;
    size_t i = at + 1;
    while (i < p_.calls.size() && IsSetter(p_.calls[i].kind) &&
           p_.calls[i].object == p_.calls[at].object) {
      const CallKind kind = p_.calls[i].kind;
      bool keep;
      if (IsDataSetter(kind)) {
        const bool inlined = kind == CallKind::kSetInline || kind == CallKind::kSetInlineList;
        keep = !has_data && info.data != DataRule::kNone && info.data != DataRule::kNoneTolerated &&
               (!inlined || info.data == DataRule::kSgeOrInline);
        has_data |= keep;
      } else {
        keep = !has_address && setter == (kind == CallKind::kSetUdAddr ? model::QpSetter::kUdAddr
                                                                       : model::QpSetter::kXrcSrqn);
        has_address |= keep;
      }
      if (keep) {
        ++i;
      } else {
        Erase(i, i + 1);
      }
    }
    Insert(i, MissingSetters(p_.calls[at], has_data, has_address));
  }

  bool ChangeOperation() {
    const auto at = CallWhere([](const Call& c) { return c.kind == CallKind::kBuild; });
    if (!at) return false;
    const Call* qp = Maker(p_.calls[*at].object);
    if (qp == nullptr || qp->ops == kPlainQp) return false;
    std::vector<Operation> ops;
    for (const model::OperationInfo& info : model::AllOperations()) {
      if (qp->ops & info.send_ops_flag) ops.push_back(info.op);
    }
    if (ops.empty()) return false;
    MakeOperation(*at, ops[random_.Below(ops.size())]);
    return true;
  }

  bool ChangeQpType() {
    const auto type = random_.Of({QpType::kRc, QpType::kUc, QpType::kUd, QpType::kRawPacket});
    bool any = false, need_ah = false;
    for (Call& c : p_.calls) {
      if (c.kind != CallKind::kQp || c.qp_type == QpType::kXrcRecv) continue;
      c.qp_type = type;
      c.xrcd = kNoObject;
      if (c.ops != kPlainQp) {
        c.ops &= model::ReferenceSendOps(type);
        if (c.ops == 0) c.ops = model::ReferenceSendOps(type);
      }
      any = true;
    }
    if (!any) return false;
    need_ah = model::NeedsAddress(type) && Some(KindBit(ObjectKind::kAh)) == kNoObject;
    if (need_ah) {
      Call ah = MakeCall(CallKind::kAh);
      ah.object = static_cast<ObjectId>(p_.objects.size());
      p_.objects.push_back({ObjectKind::kAh, "ah0"});
      Insert(0, {std::move(ah)});
      Unname();
    }
    for (size_t i = 0; i < p_.calls.size(); ++i) {
      Call& c = p_.calls[i];
      if (c.kind == CallKind::kConnect && model::NeedsAddress(type)) {
        // One at a time.
        if (c.object2 != kNoObject && c.object2 != c.object) {
          Call other = c;
          other.object = c.object2;
          other.object2 = kNoObject;
          c.object2 = kNoObject;
          Insert(i + 1, {std::move(other)});
        }
        continue;
      }
      if (c.kind == CallKind::kPostSend &&
          !(model::ReferenceSendOps(type) & model::Info(c.op).send_ops_flag)) {
        c.op = Operation::kSend;
      }
      if (c.kind == CallKind::kPostSend && model::NeedsAddress(type)) {
        c.ah = Some(KindBit(ObjectKind::kAh));
        c.qpn.object = Some(KindBit(ObjectKind::kQp));
      }
      if (c.kind != CallKind::kBuild) continue;
      const Call* qp = Maker(c.object);
      if (qp == nullptr || qp->ops == kPlainQp) continue;
      const Operation op = qp->ops & model::Info(c.op).send_ops_flag
                               ? c.op
                               : (qp->ops & IBV_QP_EX_WITH_SEND ? Operation::kSend : c.op);
      MakeOperation(i, op);
    }
    return true;
  }

  // Objects were added: their names must be unique again.
  void Unname() { Rename(&p_); }

  bool RingOffset() {
    const auto region = SomeRegion();
    if (!region) return false;
    const std::vector<size_t> requests = Requests(*region);
    if (requests.size() < 2) return false;
    std::vector<Call> one = {p_.calls[region->start]};
    const std::vector<Call> request = Copy(requests[0], requests[1]);
    one.insert(one.end(), request.begin(), request.end());
    one[1].flags |= IBV_SEND_SIGNALED;
    one.push_back(p_.calls[region->start]);
    one.back().kind = CallKind::kComplete;
    Call poll = MakeCall(CallKind::kPoll);
    const Call* qp = Maker(p_.calls[region->start].object);
    poll.object = qp && qp->cq != kNoObject ? qp->cq : p_.calls[region->start].object;
    poll.side = qp && qp->cq != kNoObject ? Side::kNone : Side::kSend;
    one.push_back(std::move(poll));
    std::vector<Call> all;
    for (uint64_t i = random_.Between(1, 9); i > 0; --i) {
      all.insert(all.end(), one.begin(), one.end());
    }
    Insert(region->start, std::move(all));
    return true;
  }

  bool AbortBefore() {
    const auto region = SomeRegion();
    if (!region) return false;
    std::vector<Call> copy = Copy(region->start, region->end + 1);
    copy.back().kind = CallKind::kAbort;
    Insert(region->start, std::move(copy));
    return true;
  }

  bool FailureBefore() {
    const auto region = SomeRegion();
    if (!region) return false;
    const std::vector<size_t> requests = Requests(*region);
    if (requests.size() < 2) return false;
    const Call* qp = Maker(p_.calls[region->start].object);
    std::vector<Call> copy = {p_.calls[region->start]};
    const std::vector<Call> request = Copy(requests[0], requests[1]);
    const uint64_t n = std::min<uint64_t>(qp ? qp->sq + 1 : 2, 80);
    for (uint64_t i = 0; i < n; ++i) copy.insert(copy.end(), request.begin(), request.end());
    copy.push_back(p_.calls[region->end]);
    Insert(region->start, std::move(copy));
    return true;
  }

  bool ResetBefore() {
    const auto region = SomeRegion();
    if (!region) return false;
    std::vector<Call> recycle;
    for (size_t i = 0; i < region->start; ++i) {
      if (p_.calls[i].kind != CallKind::kConnect) continue;
      for (ObjectId qp : {p_.calls[i].object, p_.calls[i].object2}) {
        if (qp == kNoObject) continue;
        Call reset = MakeCall(CallKind::kModify);
        reset.object = qp;
        reset.attrs.emplace_back(AttrField::kState, IBV_QPS_RESET);
        recycle.push_back(std::move(reset));
      }
    }
    for (size_t i = 0; i < region->start; ++i) {
      if (p_.calls[i].kind == CallKind::kConnect) recycle.push_back(p_.calls[i]);
    }
    if (recycle.empty()) return false;
    Insert(region->start, std::move(recycle));
    return true;
  }

  bool PostInstead() {
    const auto region = SomeRegion();
    if (!region || p_.calls[region->end].kind != CallKind::kComplete) return false;
    std::vector<Call> list;
    for (size_t i = region->start; i < region->end; ++i) {
      const Call& c = p_.calls[i];
      if (c.kind == CallKind::kBuild) {
        if (!model::Info(c.op).has_send_wr) return false;
        list.push_back(c);
        list.back().kind = CallKind::kPostSend;
        list.back().more = 1;
        list.back().flags &= ~uint64_t{IBV_SEND_INLINE};
        continue;
      }
      if (list.empty()) continue;
      Call& wr = list.back();
      switch (c.kind) {
        case CallKind::kSetSge:
          wr.sge.push_back({c.lkey, c.addr, c.len});
          break;
        case CallKind::kSetSgeList:
          wr.sge = c.sge;
          break;
        case CallKind::kSetInline:
          wr.sge.push_back({KeyRef{c.addr.mr, 0, 0}, c.addr, c.len});
          wr.flags |= IBV_SEND_INLINE;
          break;
        case CallKind::kSetInlineList:
          for (const BufArg& b : c.bufs) {
            wr.sge.push_back({KeyRef{b.addr.mr, 0, 0}, b.addr, b.len});
          }
          wr.flags |= IBV_SEND_INLINE;
          break;
        case CallKind::kSetUdAddr:
          wr.ah = c.ah;
          wr.qpn = c.qpn;
          wr.qkey = c.qkey;
          break;
        case CallKind::kSetXrcSrqn:
          wr.srqn = c.srqn;
          break;
        default:
          break;
      }
    }
    if (list.empty()) return false;
    list.back().more = 0;
    Erase(region->start, region->end + 1);
    Insert(region->start, std::move(list));
    return true;
  }

  bool ToThread() {
    const auto region = SomeRegion();
    if (!region) return false;
    int threads = 0;
    for (size_t i = 0; i < region->start; ++i) threads += p_.calls[i].kind == CallKind::kThread;
    size_t shift = 0;
    if (threads == 0) {
      Call thread = MakeCall(CallKind::kThread);
      thread.object = static_cast<ObjectId>(p_.objects.size());
      p_.objects.push_back({ObjectKind::kThread, "t"});
      Insert(0, {std::move(thread)});
      Unname();
      threads = 1;
      shift = 1;
    }
    const auto to = static_cast<uint8_t>(random_.Below(static_cast<uint64_t>(threads) + 1));
    for (size_t i = region->start + shift; i <= region->end + shift; ++i) p_.calls[i].thread = to;
    return true;
  }

  bool Change(Mutation mutation) {
    if (p_.calls.empty() && mutation != Mutation::kInsertCall) return false;
    switch (mutation) {
      case Mutation::kInsertCall: {
        Call call = RandomCall(&random_, p_);
        if (const auto makes = Makes(call.kind)) {
          if (p_.objects.size() >= kNoObject - 2) return false;
          call.object = static_cast<ObjectId>(p_.objects.size());
          p_.objects.push_back({*makes, std::string()});
          Unname();
        }
        Insert(random_.Below(p_.calls.size() + 1), {std::move(call)});
        return true;
      }
      case Mutation::kDeleteCall: {
        const size_t at = SomeCall();
        Erase(at, std::min(p_.calls.size(), at + (random_.OneIn(4) ? random_.Between(1, 4) : 1)));
        return true;
      }
      case Mutation::kDuplicateCall: {
        const size_t at = SomeCall();
        if (Makes(p_.calls[at].kind)) return false;
        Insert(at, {p_.calls[at]});
        return true;
      }
      case Mutation::kMoveCall: {
        const size_t from = SomeCall();
        Call call = p_.calls[from];
        Erase(from, from + 1);
        Insert(random_.Below(p_.calls.size() + 1), {std::move(call)});
        return true;
      }
      case Mutation::kBoundary:
        return Boundary();
      case Mutation::kFlag: {
        const auto found = FieldWhere([](const Field& f, const Call&) {
          return (f.type == FieldType::kFlags && f.names.size) || f.type == FieldType::kBool;
        });
        if (!found) return false;
        Call& call = p_.calls[found->first];
        const Field& f = *found->second;
        if (f.type == FieldType::kBool) {
          SetNumber(f, &call, !NumberOf(f, call));
          return true;
        }
        const uint64_t bit = random_.OneIn(16) ? uint64_t{1} << random_.Below(32)
                                               : f.names.data[random_.Below(f.names.size)].value;
        SetNumber(f, &call, NumberOf(f, call) ^ bit);
        return true;
      }
      case Mutation::kOtherObject: {
        const auto found = FieldWhere([](const Field& f, const Call&) {
          return f.type == FieldType::kObject || f.type == FieldType::kQueue;
        });
        if (!found) return false;
        p_.calls[found->first].*found->second->member.object = Some(found->second->kinds);
        return true;
      }
      case Mutation::kKeyOfOther:
        return KeyOfOther();
      case Mutation::kMoveAddress:
        return MoveAddress();
      case Mutation::kResizeList:
        return ResizeList();
      case Mutation::kOperation:
        return ChangeOperation();
      case Mutation::kQpType:
        return ChangeQpType();
      case Mutation::kGrowRegion: {
        const auto region = SomeRegion();
        if (!region) return false;
        const std::vector<size_t> at = Requests(*region);
        if (at.size() < 2) return false;
        const size_t i = random_.Below(at.size() - 1);
        std::vector<Call> request = Copy(at[i], at[i + 1]);
        request[0].wr_id += 100;
        Insert(at[i + 1], std::move(request));
        return true;
      }
      case Mutation::kShrinkRegion: {
        const auto region = SomeRegion();
        if (!region) return false;
        const std::vector<size_t> at = Requests(*region);
        if (at.size() < 2) return false;
        const size_t i = random_.Below(at.size() - 1);
        Erase(at[i], at[i + 1]);
        return true;
      }
      case Mutation::kSplitRegion: {
        const auto region = SomeRegion();
        if (!region) return false;
        const std::vector<size_t> at = Requests(*region);
        if (at.size() < 3) return false;
        const size_t i = 1 + random_.Below(at.size() - 2);
        Call complete = p_.calls[region->start];
        complete.kind = CallKind::kComplete;
        Insert(at[i], {std::move(complete), p_.calls[region->start]});
        return true;
      }
      case Mutation::kMergeRegions: {
        const auto region = SomeRegion();
        if (!region || region->end + 1 >= p_.calls.size()) return false;
        const Call& next = p_.calls[region->end + 1];
        if (next.kind != CallKind::kStart || next.object != p_.calls[region->start].object ||
            next.thread != p_.calls[region->start].thread) {
          return false;
        }
        Erase(region->end, region->end + 2);
        return true;
      }
      case Mutation::kRingOffset:
        return RingOffset();
      case Mutation::kAbortBefore:
        return AbortBefore();
      case Mutation::kFailureBefore:
        return FailureBefore();
      case Mutation::kResetBefore:
        return ResetBefore();
      case Mutation::kPostInstead:
        return PostInstead();
      case Mutation::kThread:
        return ToThread();
      case Mutation::kSettle: {
        const auto at = CallWhere([](const Call& c) { return c.kind == CallKind::kSettle; });
        if (at && random_.OneIn(2)) {
          Erase(*at, *at + 1);
        } else {
          Insert(random_.Below(p_.calls.size() + 1), {MakeCall(CallKind::kSettle)});
        }
        return true;
      }
    }
    return false;
  }

  Random& random_;
  Program& p_;
  const MutateOptions& options_;
};

}  // namespace

bool Apply(Mutation mutation, Random* random, Program* program, const MutateOptions& options) {
  return Mutator(random, program, options).Run(mutation);
}

void Mutate(Random* random, Program* program, const MutateOptions& options) {
  // Those that keep what is legal legal weigh most.
  struct Weight {
    Mutation mutation;
    int weight;
  };
  constexpr Weight kWeights[] = {
      {Mutation::kInsertCall, 4},    {Mutation::kDeleteCall, 2},   {Mutation::kDuplicateCall, 2},
      {Mutation::kMoveCall, 1},      {Mutation::kBoundary, 10},    {Mutation::kFlag, 8},
      {Mutation::kOtherObject, 2},   {Mutation::kKeyOfOther, 4},   {Mutation::kMoveAddress, 6},
      {Mutation::kResizeList, 6},    {Mutation::kOperation, 10},   {Mutation::kQpType, 2},
      {Mutation::kGrowRegion, 8},    {Mutation::kShrinkRegion, 6}, {Mutation::kSplitRegion, 4},
      {Mutation::kMergeRegions, 4},  {Mutation::kRingOffset, 4},   {Mutation::kAbortBefore, 4},
      {Mutation::kFailureBefore, 2}, {Mutation::kResetBefore, 3},  {Mutation::kPostInstead, 4},
      {Mutation::kThread, 1},        {Mutation::kSettle, 3},
  };
  int total = 0;
  for (const Weight& w : kWeights) total += w.weight;
  const uint64_t wanted = random->OneIn(3) ? random->Between(2, 5) : 1;
  uint64_t done = 0;
  for (int tries = 0; done < wanted && tries < 50; ++tries) {
    auto at = static_cast<int>(random->Below(static_cast<uint64_t>(total)));
    for (const Weight& w : kWeights) {
      if ((at -= w.weight) >= 0) continue;
      done += Apply(w.mutation, random, program, options);
      break;
    }
  }
}

Program Splice(Random* random, const Program& a, const Program& b, const MutateOptions& options) {
  Program out = a;
  out.notes.clear();
  const size_t cut = random->Below(a.calls.size() + 1);
  out.calls.resize(cut);
  const size_t from = random->Below(b.calls.size() + 1);
  // b's objects that are made before `from` become a's of the same kind, or are made.
  std::vector<ObjectId> mapped(b.objects.size(), kNoObject);
  std::vector<ObjectId> of_kind[kObjectKindCount];
  for (const Call& call : out.calls) {
    if (const auto kind = Makes(call.kind)) {
      of_kind[static_cast<size_t>(*kind)].push_back(call.object);
    }
  }
  size_t used[kObjectKindCount] = {};
  for (size_t i = 0; i < b.calls.size(); ++i) {
    Call call = b.calls[i];
    const auto makes = Makes(call.kind);
    if (i < from && !makes) continue;
    if (makes) {
      const auto kind = static_cast<size_t>(*makes);
      if (used[kind] < of_kind[kind].size()) {
        mapped[call.object] = of_kind[kind][used[kind]++];
        continue;
      }
      if (out.objects.size() >= kNoObject - 2) break;
      mapped[call.object] = static_cast<ObjectId>(out.objects.size());
      out.objects.push_back(b.objects[call.object]);
    }
    ForEachObject(&call, [&](ObjectId& id, KindMask) {
      if (id != kNoObject) id = mapped[id];
    });
    out.calls.push_back(std::move(call));
  }
  if (out.calls.size() > options.calls) out.calls.resize(options.calls);
  Rename(&out);
  Repair(&out);
  return out;
}

}  // namespace qpexam
