#include "harness/program/generate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/program/attributes.h"
#include "harness/program/bytes.h"
#include "harness/program/lint.h"
#include "harness/program/repair.h"
#include "harness/program/schema.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

using model::DataRule;
using model::Operation;
using model::QpType;

constexpr uint64_t kRemote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

class Generator {
 public:
  Generator(Random* random, const GenerateOptions& options) : random_(*random), options_(options) {}

  Program Run() {
    SetUp();
    for (uint32_t i = 0; i < options_.steps; ++i) Step();
    Add(MakeCall(CallKind::kSettle));
    Poll(a_, Side::kSend, 0);
    Rename(&program_);
    Repair(&program_);
    if (options_.undefined_per_mille == 0) Clean();
    return std::move(program_);
  }

 private:
  // A generated Program keeps the rules by construction; what slips through is cut as a run on a
  // provider would cut it.
  void Clean() {
    while (const auto finding = FirstUndefined(program_)) {
      program_.calls.erase(program_.calls.begin() + finding->call);
      Repair(&program_);
    }
  }

  void Add(Call call) { program_.calls.push_back(std::move(call)); }
  Call On(CallKind kind, ObjectId object) {
    Call call = MakeCall(kind);
    call.object = object;
    return call;
  }
  ObjectId Make(Call call) {
    const auto id = static_cast<ObjectId>(program_.objects.size());
    program_.objects.push_back({*Makes(call.kind), std::string()});
    call.object = id;
    Add(std::move(call));
    return id;
  }

  bool Faulty() { return random_.Below(1000) < options_.faulty_per_mille; }
  bool Undefined() { return random_.Below(1000) < options_.undefined_per_mille; }

  void SetUp() {
    type_ = random_.Of(
        {QpType::kRc, QpType::kRc, QpType::kRc, QpType::kUc, QpType::kUd, QpType::kXrcSend});
    ops_ = model::ReferenceSendOps(type_) & options_.ops;
    // Sometimes not all of them, so that a provider's choice of slot layout varies.
    if (random_.OneIn(3)) ops_ &= random_.Next() | IBV_QP_EX_WITH_SEND;
    if (ops_ == 0) ops_ = model::ReferenceSendOps(type_) & options_.ops;
    if (random_.OneIn(3)) {
      Call cq = MakeCall(CallKind::kCq);
      cq.ex = random_.OneIn(2);
      if (cq.ex) {
        wc_ = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
        cq.wc_flags = wc_;
      }
      cq.n = 256;
      cq_ = Make(std::move(cq));
      cq_ex_ = program_.calls.back().ex;
    }
    Call a = MakeCall(CallKind::kQp);
    a.qp_type = type_;
    a.ops = ops_;
    a.sq = random_.Of<uint64_t>({1, 2, 3, 4, 8, 16, 16, 32});
    a.sge_max = random_.Of<uint64_t>({1, 2, 4, 4, 8});
    a.inline_max = random_.Of<uint64_t>({0, 16, 32, 64, 64, 128});
    a.sig_all = random_.OneIn(5);
    a.cq = cq_;
    sq_ = a.sq;
    sges_ = a.sge_max;
    inline_ = a.inline_max;
    if (type_ == QpType::kXrcSend) {
      xrcd_ = Make(MakeCall(CallKind::kXrcd));
      if (cq_ == kNoObject) {
        Call cq = MakeCall(CallKind::kCq);
        srq_cq_ = Make(std::move(cq));
      } else {
        srq_cq_ = cq_;
      }
      Call srq = MakeCall(CallKind::kSrq);
      srq.xrcd = xrcd_;
      srq.cq = srq_cq_;
      srq_ = Make(std::move(srq));
    }
    a_ = Make(std::move(a));
    Call b = MakeCall(CallKind::kQp);
    b.qp_type = type_ == QpType::kXrcSend ? QpType::kXrcRecv : type_;
    b.xrcd = xrcd_;
    if (ops_ & IBV_QP_EX_WITH_BIND_MW && type_ != QpType::kXrcSend) {
      b.ops = ops_;
    }
    b_ = Make(std::move(b));
    if (model::NeedsAddress(type_)) {
      Add(On(CallKind::kConnect, a_));
      Add(On(CallKind::kConnect, b_));
      ah_ = Make(MakeCall(CallKind::kAh));
    } else {
      Call connect = On(CallKind::kConnect, a_);
      connect.object2 = b_;
      uint64_t access = kRemote;
      if (ops_ & model::Info(Operation::kFlush).send_ops_flag) {
        access |= kAccessFlushGlobal;
        connect.attrs.emplace_back(AttrField::kAccessFlags, access);
      }
      if (random_.OneIn(3)) {
        connect.attrs.emplace_back(AttrField::kPathMtu, random_.Between(IBV_MTU_256, IBV_MTU_4096));
      }
      if (random_.OneIn(8)) connect.attrs.emplace_back(AttrField::kSqPsn, 0xfffffe);
      // Only where both sides agree.
      if (!connect.attrs.empty() && connect.attrs.back().first == AttrField::kSqPsn) {
        connect.attrs.emplace_back(AttrField::kRqPsn, 0xfffffe);
      }
      Add(std::move(connect));
    }
    Call src = MakeCall(CallKind::kMr);
    src.len = random_.Of<uint64_t>({64, 64, 256, 1024});
    src.access = IBV_ACCESS_LOCAL_WRITE;
    src.fill = 0x5a;
    src_len_ = src.len;
    src_ = Make(std::move(src));
    Call dst = MakeCall(CallKind::kMr);
    dst.len = random_.Of<uint64_t>({64, 256, 256, 1024});
    dst.access = IBV_ACCESS_LOCAL_WRITE | kRemote | IBV_ACCESS_MW_BIND;
    if (ops_ & model::Info(Operation::kFlush).send_ops_flag) dst.access |= kAccessFlushGlobal;
    if (random_.OneIn(6)) dst.iova = random_.Below(1 << 20) << 12;
    if (random_.OneIn(12)) dst.access |= IBV_ACCESS_RELAXED_ORDERING;
    dst_len_ = dst.len;
    dst_ = Make(std::move(dst));
    if (ops_ & (IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)) {
      mw_ = Make(MakeCall(CallKind::kMw));
    }
    // Move the ring to another offset first.
    if (random_.OneIn(3)) {
      const uint64_t offset = random_.Below(sq_ + 1);
      for (uint64_t i = 0; i < offset; ++i) {
        Region(1);
        Poll(a_, Side::kSend, 0);
      }
    }
  }

  uint64_t RandomLength(uint64_t most) {
    switch (random_.Below(6)) {
      case 0:
        return 0;
      case 1:
        return std::min<uint64_t>(most, 1);
      case 2:
        return most;
      default:
        return random_.Below(most + 1);
    }
  }

  Operation SomeOperation() {
    for (int tries = 0; tries < 64; ++tries) {
      const auto op = static_cast<Operation>(random_.Below(model::kOperationCount));
      if (!(ops_ & model::Info(op).send_ops_flag)) continue;
      if ((op == Operation::kBindMw || op == Operation::kLocalInv) && random_.OneIn(2)) continue;
      return op;
    }
    for (const model::OperationInfo& info : model::AllOperations()) {
      if (ops_ & info.send_ops_flag) return info.op;
    }
    return Operation::kSend;
  }

  void Receive() {
    Call recv = type_ == QpType::kXrcSend ? On(CallKind::kSrqRecv, srq_) : On(CallKind::kRecv, b_);
    recv.wr_id = 1000 + next_id_++;
    const uint64_t pieces = random_.Between(1, 2);
    for (uint64_t i = 0; i < pieces; ++i) {
      SgeArg s;
      s.addr = {dst_, static_cast<int64_t>(i * dst_len_ / 2)};
      s.lkey.object = dst_;
      s.len = dst_len_ / 2;
      recv.sge.push_back(s);
    }
    if (Faulty() && random_.OneIn(3)) recv.sge[0].lkey.flip = 0xffff00;
    if (Faulty() && random_.OneIn(3)) {
      recv.sge.resize(1);
      recv.sge[0].len = random_.Below(8);
    }
    Add(std::move(recv));
  }

  // A request's arguments, and whether the peer needs a receive for it.
  Call Request(CallKind kind, Operation op) {
    const model::OperationInfo& info = model::Info(op);
    Call call = MakeCall(kind);
    call.object = a_;
    call.op = op;
    call.wr_id = next_id_++;
    call.flags = random_.OneIn(4) ? 0 : IBV_SEND_SIGNALED;
    if (random_.OneIn(6)) call.flags |= IBV_SEND_FENCE;
    if (info.solicited_allowed && random_.OneIn(6)) call.flags |= IBV_SEND_SOLICITED;
    const uint64_t aligned = random_.Below(dst_len_ / 8) * 8;
    call.addr = {dst_, static_cast<int64_t>(info.is_read_or_atomic || op == Operation::kAtomicWrite
                                                ? aligned
                                                : random_.Below(dst_len_ / 2))};
    call.imm = random_.Next() & 0xffffffff;
    call.compare = random_.OneIn(2) ? 0 : random_.Next();
    call.swap = random_.Next();
    call.add = random_.Of<uint64_t>({0, 1, 0xffffffff, ~uint64_t{0}});
    call.len = random_.Below(dst_len_ / 2);
    call.mw = mw_;
    call.access = random_.Of<uint64_t>({IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
                                        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ});
    if (op == Operation::kAtomicWrite) {
      for (int i = 0; i < 8; ++i) call.bytes.push_back(static_cast<uint8_t>(random_.Next()));
    }
    FillDerived(&call);
    if (op == Operation::kBindMw) call.rkey.inc = ++binds_;
    if (op == Operation::kLocalInv || op == Operation::kSendWithInv) {
      call.rkey = KeyRef{};
      call.rkey.object = mw_;
      call.rkey.inc = binds_;
      if (mw_ == kNoObject) call.rkey.flip = 0x1234;
    }
    if (Faulty()) {
      switch (random_.Below(4)) {
        case 0:
          call.rkey.flip ^= random_.Of<uint32_t>({1, 0x100, 0xffffff00});
          break;
        case 1:
          call.addr.offset = random_.Of<int64_t>(
              {-1, static_cast<int64_t>(dst_len_), static_cast<int64_t>(dst_len_) - 1, 1});
          break;
        case 2:
          call.flags |= random_.Of<uint64_t>({IBV_SEND_IP_CSUM, 0x80000000, IBV_SEND_INLINE});
          if (kind == CallKind::kPostSend) call.flags &= ~uint64_t{IBV_SEND_INLINE};
          break;
        default:
          call.len = BoundaryValue(&random_, ~uint64_t{0});
          break;
      }
    }
    return call;
  }

  std::vector<SgeArg> Sges(const model::OperationInfo& info) {
    std::vector<SgeArg> sges;
    uint64_t count = random_.Between(1, std::max<uint64_t>(sges_, 1));
    if (Faulty() && random_.OneIn(3)) count = sges_ + random_.Between(1, 33);
    if (info.data == DataRule::kOneSgeOf8) count = 1;
    const uint64_t most = std::min(src_len_, dst_len_ / 2) / std::max<uint64_t>(count, 1);
    for (uint64_t i = 0; i < count; ++i) {
      SgeArg s;
      s.len = info.data == DataRule::kOneSgeOf8 ? 8 : RandomLength(most);
      s.addr = {src_, static_cast<int64_t>(random_.Below(src_len_ - s.len + 1))};
      s.lkey.object = src_;
      if (Faulty() && random_.OneIn(4)) s.lkey.flip = 0xff00;
      if (Faulty() && random_.OneIn(4)) s.addr.offset = static_cast<int64_t>(src_len_);
      sges.push_back(s);
    }
    return sges;
  }

  void Setters(Operation op) {
    const model::OperationInfo& info = model::Info(op);
    std::vector<Call> setters;
    if (info.data != DataRule::kNone && info.data != DataRule::kNoneTolerated) {
      const bool inlined = info.data == DataRule::kSgeOrInline && random_.OneIn(3);
      if (inlined) {
        uint64_t most = std::min({inline_, src_len_, dst_len_ / 2});
        if (Faulty()) most = std::min(src_len_, inline_ + 1);
        const uint64_t total = RandomLength(most);
        if (random_.OneIn(2)) {
          Call set = On(CallKind::kSetInline, a_);
          set.addr = {src_, 0};
          set.len = total;
          setters.push_back(std::move(set));
        } else {
          Call set = On(CallKind::kSetInlineList, a_);
          const uint64_t first = random_.Below(total + 1);
          set.bufs = {{{src_, 0}, first}, {{src_, static_cast<int64_t>(first)}, total - first}};
          setters.push_back(std::move(set));
        }
      } else {
        std::vector<SgeArg> sges = Sges(info);
        if (sges.size() == 1 && random_.OneIn(2)) {
          Call set = On(CallKind::kSetSge, a_);
          set.addr = sges[0].addr;
          set.lkey = sges[0].lkey;
          set.len = sges[0].len;
          setters.push_back(std::move(set));
        } else {
          Call set = On(CallKind::kSetSgeList, a_);
          set.sge = std::move(sges);
          setters.push_back(std::move(set));
        }
      }
    }
    switch (model::RequiredQpSetter(type_, op)) {
      case model::QpSetter::kUdAddr: {
        Call set = On(CallKind::kSetUdAddr, a_);
        set.ah = ah_;
        set.qpn.object = b_;
        if (Faulty()) set.qkey = 0x2222;
        setters.push_back(std::move(set));
        break;
      }
      case model::QpSetter::kXrcSrqn: {
        Call set = On(CallKind::kSetXrcSrqn, a_);
        set.srqn.object = srq_;
        if (Faulty()) set.srqn.flip = 0xff0000;
        setters.push_back(std::move(set));
        break;
      }
      case model::QpSetter::kNone:
        break;
    }
    if (setters.size() == 2 && random_.OneIn(2)) std::swap(setters[0], setters[1]);
    if (Undefined() && !setters.empty()) setters.pop_back();
    if (Undefined() && !setters.empty()) setters.push_back(setters.back());
    for (Call& s : setters) Add(std::move(s));
  }

  void Region(uint64_t requests) {
    std::vector<Operation> ops;
    for (uint64_t i = 0; i < requests; ++i) ops.push_back(SomeOperation());
    for (Operation op : ops) {
      if (model::Info(op).peer != model::PeerEffect::kNone && !random_.OneIn(12)) Receive();
    }
    if (!Undefined()) Add(On(CallKind::kStart, a_));
    for (Operation op : ops) {
      Add(Request(CallKind::kBuild, op));
      Setters(op);
    }
    Add(On(random_.OneIn(8) ? CallKind::kAbort : CallKind::kComplete, a_));
  }

  void PostList() {
    const uint64_t n = random_.Between(1, 3);
    std::vector<Call> list;
    for (uint64_t i = 0; i < n; ++i) {
      const Operation op = SomeOperation();
      const model::OperationInfo& info = model::Info(op);
      if (!info.has_send_wr) continue;
      if (info.peer != model::PeerEffect::kNone) Receive();
      Call call = Request(CallKind::kPostSend, op);
      if (info.data != DataRule::kNone) call.sge = Sges(info);
      call.ah = ah_;
      if (ah_ != kNoObject) call.qpn.object = b_;
      if (srq_ != kNoObject) call.srqn.object = srq_;
      if (info.data == DataRule::kSgeOrInline && random_.OneIn(3)) call.flags |= IBV_SEND_INLINE;
      list.push_back(std::move(call));
    }
    for (size_t i = 0; i < list.size(); ++i) {
      list[i].more = i + 1 < list.size();
      Add(std::move(list[i]));
    }
  }

  void Poll(ObjectId qp, Side side, uint64_t expect) {
    if (cq_ != kNoObject && side == Side::kSend) {
      Call poll = On(cq_ex_ ? CallKind::kPollEx : CallKind::kPoll, cq_);
      poll.expect = expect;
      if (cq_ex_) poll.wc_flags = wc_;
      Add(std::move(poll));
      return;
    }
    Call poll = On(CallKind::kPoll, qp);
    poll.side = side;
    poll.expect = expect;
    Add(std::move(poll));
  }

  void ChangeState() {
    Call modify = On(CallKind::kModify, random_.OneIn(4) ? b_ : a_);
    modify.object2 = modify.object == a_ ? b_ : a_;
    modify.attrs.emplace_back(AttrField::kState,
                              random_.Of<uint64_t>({IBV_QPS_RESET, IBV_QPS_ERR, IBV_QPS_ERR,
                                                    IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPS_INIT}));
    if (Faulty()) modify.mask_with = uint64_t{1} << random_.Below(26);
    if (Faulty()) modify.mask_without = uint64_t{1} << random_.Below(26);
    Add(std::move(modify));
    if (!random_.OneIn(2)) return;
    // And back: RESET to RTS, so that a history goes on.
    for (ObjectId qp : {a_, b_}) {
      Call reset = On(CallKind::kModify, qp);
      reset.attrs.emplace_back(AttrField::kState, IBV_QPS_RESET);
      Add(std::move(reset));
    }
    for (const Call& call : std::vector<Call>(program_.calls)) {
      if (call.kind == CallKind::kConnect) Add(call);
    }
    binds_ = 0;
  }

  void Step() {
    switch (random_.Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6:
        Region(random_.Between(1, std::min<uint64_t>(sq_ + random_.OneIn(10), 6)));
        break;
      case 7:
      case 8:
        PostList();
        break;
      case 9:
      case 10:
        Add(MakeCall(CallKind::kSettle));
        Poll(a_, Side::kSend, 0);
        break;
      case 11:
        Poll(a_, Side::kSend, random_.Below(2));
        if (type_ != QpType::kXrcSend) Poll(b_, Side::kRecv, 0);
        break;
      case 12: {
        Add(MakeCall(CallKind::kSettle));
        Call load = MakeCall(CallKind::kLoad);
        load.addr = {dst_, 0};
        load.len = dst_len_;
        Add(std::move(load));
        break;
      }
      case 13: {
        Call store = MakeCall(CallKind::kStore);
        store.addr = {src_, static_cast<int64_t>(random_.Below(src_len_))};
        store.fill = random_.Below(256);
        store.len = random_.Below(16);
        Add(std::move(store));
        break;
      }
      case 14:
        if (random_.OneIn(2)) {
          Call fault = On(CallKind::kFault, a_);
          fault.fault = static_cast<Fault>(random_.Below(4));
          Add(std::move(fault));
        } else {
          Add(On(CallKind::kQuery, a_));
        }
        break;
      default:
        if (random_.OneIn(2)) ChangeState();
        break;
    }
  }

  Random& random_;
  const GenerateOptions& options_;
  Program program_;
  QpType type_{};
  uint64_t ops_ = 0, wc_ = 0;
  uint64_t sq_ = 16, sges_ = 4, inline_ = 64, src_len_ = 64, dst_len_ = 64;
  bool cq_ex_ = false;
  uint64_t next_id_ = 1;
  uint8_t binds_ = 0;
  ObjectId a_ = kNoObject, b_ = kNoObject, cq_ = kNoObject, src_ = kNoObject, dst_ = kNoObject,
           mw_ = kNoObject, ah_ = kNoObject, xrcd_ = kNoObject, srq_ = kNoObject,
           srq_cq_ = kNoObject;
};

}  // namespace

Program Generate(Random* random, const GenerateOptions& options) {
  return Generator(random, options).Run();
}

uint64_t BoundaryValue(Random* random, uint64_t max) {
  constexpr uint64_t kValues[] = {0,
                                  1,
                                  2,
                                  3,
                                  7,
                                  8,
                                  15,
                                  16,
                                  17,
                                  31,
                                  32,
                                  33,
                                  63,
                                  64,
                                  65,
                                  127,
                                  128,
                                  255,
                                  256,
                                  4095,
                                  4096,
                                  4097,
                                  0xffff,
                                  0x10000,
                                  0xffffff,
                                  0x7fffffff,
                                  0x80000000,
                                  0x80000001,
                                  0xffffffff,
                                  0x100000000,
                                  0x7fffffffffffffff,
                                  0x8000000000000000,
                                  0xffffffffffffffff};
  constexpr uint64_t kCount = sizeof(kValues) / sizeof(kValues[0]);
  switch (random->Below(6)) {
    case 0:
      return max;
    case 1:
      return max - 1;
    default: {
      const uint64_t value = kValues[random->Below(kCount)];
      return value <= max ? value : value % (max + 1);
    }
  }
}

Call RandomCall(Random* random, const Program& program) {
  // Posting and polling most; objects seldom, since each costs a creation.
  const auto kind = static_cast<CallKind>(
      random->OneIn(8) ? random->Below(kCallKindCount)
                       : random->Between(static_cast<uint64_t>(CallKind::kConnect),
                                         static_cast<uint64_t>(CallKind::kFault)));
  Call call = MakeCall(kind);
  call.op = static_cast<Operation>(random->Below(model::kOperationCount));
  call.qp_type = static_cast<QpType>(random->Below(model::kQpTypeCount));
  call.fault = static_cast<Fault>(random->Below(4));
  auto object = [&](KindMask kinds) {
    std::vector<ObjectId> fitting;
    for (size_t i = 0; i < program.objects.size(); ++i) {
      if (kinds & KindBit(program.objects[i].kind)) fitting.push_back(static_cast<ObjectId>(i));
    }
    return fitting.empty() ? kNoObject : fitting[random->Below(fitting.size())];
  };
  auto mem = [&] {
    MemRef ref;
    ref.mr = object(KindBit(ObjectKind::kMr));
    ref.offset = static_cast<int64_t>(random->Below(64));
    return ref;
  };
  for (const Field& f : SchemaOf(kind).fields) {
    if (!Applies(f, call) || f.type == FieldType::kNewName) continue;
    const bool needed = f.required || random->OneIn(4);
    switch (f.type) {
      case FieldType::kObject:
      case FieldType::kQueue:
        if (needed) call.*f.member.object = object(f.kinds);
        if (f.type == FieldType::kQueue) call.side = random->OneIn(2) ? Side::kSend : Side::kRecv;
        break;
      case FieldType::kNumber:
        if (needed) SetNumber(f, &call, BoundaryValue(random, f.max));
        break;
      case FieldType::kFlags:
      case FieldType::kEnum:
        if (needed && f.names.size) {
          SetNumber(f, &call, f.names.data[random->Below(f.names.size)].value);
        }
        break;
      case FieldType::kBool:
        SetNumber(f, &call, random->OneIn(6));
        break;
      case FieldType::kKey:
        (call.*f.member.key).object = object(f.kinds);
        if (random->OneIn(8)) (call.*f.member.key).flip = static_cast<uint32_t>(random->Next());
        break;
      case FieldType::kMem:
        if (needed || kind != CallKind::kMr) call.addr = mem();
        break;
      case FieldType::kSgeList:
        for (uint64_t i = random->Below(4); i > 0; --i) {
          SgeArg s;
          s.addr = mem();
          s.lkey.object = s.addr.mr;
          s.len = random->Below(64);
          call.sge.push_back(s);
        }
        break;
      case FieldType::kBufList:
        for (uint64_t i = random->Below(4); i > 0; --i)
          call.bufs.push_back({mem(), random->Below(64)});
        break;
      case FieldType::kBytes:
        for (uint64_t i = random->Below(17); i > 0; --i) {
          call.bytes.push_back(static_cast<uint8_t>(random->Next()));
        }
        break;
      case FieldType::kAttrs:
        for (uint64_t i = random->Below(3); i > 0; --i) {
          const auto field = static_cast<AttrField>(random->Below(kAttrFieldCount));
          call.attrs.emplace_back(field, BoundaryValue(random, InfoOf(field).max));
        }
        if (kind == CallKind::kModify) {
          call.attrs.emplace_back(AttrField::kState, random->Below(7));
        }
        break;
      default:
        break;
    }
  }
  if (kind == CallKind::kSetSge || kind == CallKind::kSetInline) call.len = random->Below(64);
  return call;
}

}  // namespace qpexam
