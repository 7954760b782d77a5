#include "harness/program/repair.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "harness/program/attributes.h"
#include "harness/program/schema.h"

namespace qpexam {
namespace {

class Mender {
 public:
  Mender(const Program& program, const Validator& validator, Call* call)
      : program_(program), validator_(validator), call_(*call) {}

  bool Run() {
    Thread();
    if (call_.kind == CallKind::kPostSend && !model::Info(call_.op).has_send_wr) {
      call_.op = model::Operation::kRdmaWrite;
    }
    for (const Field* f : FieldsOf(call_)) {
      if (!Mended(*f)) return false;
    }
    // No window is bound to nothing, and the text form has no word for it.
    if (call_.kind == CallKind::kBindMw && call_.mr == kNoObject) call_.mr = call_.addr.mr;
    if (call_.kind == CallKind::kCq) FillDerived(&call_);
    if (call_.kind == CallKind::kSrq && call_.cq == kNoObject) call_.xrcd = kNoObject;
    return Memory();
  }

 private:
  bool Fits(ObjectId id, KindMask kinds) const {
    return validator_.Made(id) && (kinds & KindBit(program_.objects[id].kind));
  }

  // The latest object that may stand there.
  ObjectId Another(KindMask kinds) const {
    for (size_t i = program_.objects.size(); i-- > 0;) {
      const auto id = static_cast<ObjectId>(i);
      if (Fits(id, kinds)) return id;
    }
    return kNoObject;
  }

  void Thread() {
    switch (call_.kind) {
      case CallKind::kThread:
      case CallKind::kSettle:
      case CallKind::kAdvance:
      case CallKind::kParallel:
      case CallKind::kJoin:
        call_.thread = 0;
        break;
      default:
        if (call_.thread > validator_.threads()) {
          call_.thread = validator_.threads()
                             ? static_cast<uint8_t>(1 + (call_.thread - 1) % validator_.threads())
                             : 0;
        }
    }
  }

  bool Object(ObjectId* id, KindMask kinds, bool required) const {
    if (*id == kNoObject && !required) return true;
    if (!Fits(*id, kinds)) *id = Another(kinds);
    return *id != kNoObject || !required;
  }

  void Key(KeyRef* key, KindMask kinds) const {
    if (key->object != kNoObject && !Fits(key->object, kinds)) key->object = Another(kinds);
    if (key->object == kNoObject) key->inc = 0;
  }

  static uint64_t InRange(uint64_t value, uint64_t max) {
    return value <= max ? value : value % (max + 1);
  }

  bool Mended(const Field& f) {
    constexpr KindMask kMr = KindBit(ObjectKind::kMr);
    switch (f.type) {
      case FieldType::kNewName:
        return call_.object < program_.objects.size() && !validator_.Made(call_.object);
      case FieldType::kObject:
        return Object(&(call_.*f.member.object), f.kinds, f.required);
      case FieldType::kQueue: {
        if (!Object(&call_.object, f.kinds, true)) return false;
        const bool is_qp = program_.objects[call_.object].kind == ObjectKind::kQp;
        if (!is_qp) call_.side = Side::kNone;
        if (is_qp && call_.side == Side::kNone) call_.side = Side::kSend;
        return true;
      }
      case FieldType::kNumber:
      case FieldType::kFlags:
      case FieldType::kEnum: {
        const uint64_t value = NumberOf(f, call_);
        if (value > f.max && value != f.fallback) SetNumber(f, &call_, InRange(value, f.max));
        return true;
      }
      case FieldType::kBool:
        SetNumber(f, &call_, NumberOf(f, call_) != 0);
        return true;
      case FieldType::kKey:
        Key(&(call_.*f.member.key), f.kinds);
        return true;
      case FieldType::kMem:
        if (call_.addr.mr != kNoObject && !Fits(call_.addr.mr, kMr)) call_.addr.mr = Another(kMr);
        return true;
      case FieldType::kSgeList:
        if (call_.sge.size() > kMaxList) call_.sge.resize(kMaxList);
        for (SgeArg& s : call_.sge) {
          Key(&s.lkey, kMr);
          if (s.addr.mr != kNoObject && !Fits(s.addr.mr, kMr)) s.addr.mr = Another(kMr);
          s.len = InRange(s.len, 0xffffffff);
        }
        return true;
      case FieldType::kBufList:
        if (call_.bufs.size() > kMaxList) call_.bufs.resize(kMaxList);
        for (BufArg& b : call_.bufs) {
          if (b.addr.mr != kNoObject && !Fits(b.addr.mr, kMr)) b.addr.mr = Another(kMr);
        }
        return true;
      case FieldType::kBytes:
        if (call_.kind == CallKind::kStore) return true;
        call_.bytes.resize(call_.op == model::Operation::kAtomicWrite
                               ? 8
                               : std::min<size_t>(call_.bytes.size(), 0xffff));
        return true;
      case FieldType::kAttrs: {
        auto& attrs = call_.attrs;
        attrs.erase(std::remove_if(attrs.begin(), attrs.end(),
                                   [&](const Attr& a) { return !Takes(call_.kind, a.first); }),
                    attrs.end());
        if (attrs.size() > kMaxList) attrs.resize(kMaxList);
        for (Attr& a : attrs) a.second = InRange(a.second, InfoOf(a.first).max);
        return true;
      }
      case FieldType::kQpType:
      case FieldType::kOperation:
      case FieldType::kFault:
        return true;
    }
    return true;
  }

  // Moves [ref, ref + len) into the arena.
  bool IntoArena(MemRef* ref, uint64_t* len) const {
    const Layout& layout = validator_.layout();
    if (!layout.Has(ref->mr)) {
      ref->mr = Another(KindBit(ObjectKind::kMr));
      ref->offset = 0;
      if (!layout.Has(ref->mr)) return false;
    }
    if (!layout.InArena(*ref, 0)) {
      const auto size = static_cast<int64_t>(layout.Size(ref->mr)) + 1;
      ref->offset = (ref->offset % size + size) % size;
    }
    const uint64_t at = layout.Start(ref->mr) + static_cast<uint64_t>(ref->offset);
    *len = std::min(*len, layout.arena() - at);
    return true;
  }

  bool Region() {
    const Layout& layout = validator_.layout();
    if (call_.addr.mr == kNoObject) {
      call_.addr.offset = 0;
      if (call_.kind == CallKind::kReregMr) {
        call_.flags &= ~uint64_t{IBV_REREG_MR_CHANGE_TRANSLATION};
      } else {
        call_.len = std::min(call_.len, layout.Room());
      }
      return true;
    }
    const uint64_t size = layout.Size(call_.addr.mr);
    if (call_.addr.offset < 0 || static_cast<uint64_t>(call_.addr.offset) > size) {
      call_.addr.offset = 0;
    }
    call_.len = std::min(call_.len, size - static_cast<uint64_t>(call_.addr.offset));
    return true;
  }

  bool Memory() {
    switch (call_.kind) {
      case CallKind::kMr:
      case CallKind::kReregMr:
        return Region();
      case CallKind::kStore: {
        if (!call_.bytes.empty()) {
          call_.fill = kUnset;
          call_.len = 0;
          uint64_t len = call_.bytes.size();
          if (!IntoArena(&call_.addr, &len)) return false;
          call_.bytes.resize(len);
          return true;
        }
        return IntoArena(&call_.addr, &call_.len);
      }
      case CallKind::kLoad:
      case CallKind::kSetInline:
        return IntoArena(&call_.addr, &call_.len);
      case CallKind::kSetInlineList:
        for (BufArg& b : call_.bufs) {
          if (!IntoArena(&b.addr, &b.len)) return false;
        }
        return true;
      case CallKind::kPostSend:
        if (!(call_.flags & IBV_SEND_INLINE)) return true;
        for (SgeArg& s : call_.sge) {
          if (!IntoArena(&s.addr, &s.len)) return false;
        }
        return true;
      default:
        return true;
    }
  }

  const Program& program_;
  const Validator& validator_;
  Call& call_;
};

}  // namespace

bool Mend(const Program& program, const Validator& validator, Call* call) {
  return Mender(program, validator, call).Run();
}

void Repair(Program* program) {
  Program out;
  out.arena = std::min(program->arena, kMaxArena);
  out.seed = program->seed;
  out.calls.reserve(program->calls.size());
  out.objects.reserve(program->objects.size());
  // Ids of objects that no call has made yet; fits no place, so that Mend() finds another.
  constexpr ObjectId kMissing = kNoObject - 1;
  std::vector<ObjectId> renumbered(program->objects.size(), kMissing);
  Validator validator(out);
  for (Call& call : program->calls) {
    const ObjectId old = call.object;
    const std::optional<ObjectKind> makes = Makes(call.kind);
    if (makes && (old >= renumbered.size() || renumbered[old] != kMissing)) continue;
    ForEachObject(&call, [&](ObjectId& id, KindMask) {
      if (id != kNoObject) id = id < renumbered.size() ? renumbered[id] : kMissing;
    });
    if (makes) {
      if (out.objects.size() >= kMissing) continue;
      call.object = static_cast<ObjectId>(out.objects.size());
      out.objects.push_back({*makes, program->objects[old].name});
      validator.NoteObjects();
    }
    if (!Mend(out, validator, &call) || validator.Add(call)) {
      if (makes) out.objects.pop_back();
      continue;
    }
    if (makes) renumbered[old] = call.object;
    out.calls.push_back(std::move(call));
  }
  if (validator.in_parallel()) out.calls.push_back(MakeCall(CallKind::kJoin));
  *program = std::move(out);
}

}  // namespace qpexam
