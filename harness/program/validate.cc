#include "harness/program/validate.h"

#include <fmt/format.h>

#include <unordered_set>
#include <utility>

#include "harness/program/attributes.h"

namespace qpexam {
namespace {

std::string KindList(KindMask kinds) {
  std::string out;
  for (int k = 0; k < kObjectKindCount; ++k) {
    if (!(kinds & (1u << k))) continue;
    if (!out.empty()) out += " or ";
    out += KindWord(static_cast<ObjectKind>(k));
  }
  return out;
}

Invalid Wrong(std::string_view word, std::string what, std::string remedy) {
  return Invalid{0, word, std::move(what), std::move(remedy)};
}

}  // namespace

bool IsName(std::string_view text) {
  if (text.empty() || text.size() > 64) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(i > 0 && c >= '0' && c <= '9')) return false;
  }
  return true;
}

Validator::Problem Validator::CheckObject(ObjectId id, KindMask kinds) const {
  if (id == kNoObject) return {};
  if (id >= program_.objects.size()) return {What::kNoObject, nullptr, id};
  if (!made_[id]) return {What::kNotMadeYet, nullptr, id};
  if (!(kinds & KindBit(program_.objects[id].kind))) {
    return {What::kWrongKind, nullptr, id, 0, kinds};
  }
  return {};
}

Validator::Problem Validator::CheckKey(const KeyRef& key, KindMask kinds) const {
  if (key.object == kNoObject && key.inc != 0) return {What::kIncOfNumber};
  return CheckObject(key.object, kinds);
}

Validator::Problem Validator::CheckField(const Field& f, const Call& call) const {
  constexpr KindMask kMr = KindBit(ObjectKind::kMr);
  switch (f.type) {
    case FieldType::kNewName:
      if (call.object >= program_.objects.size()) return {What::kMakesNothing};
      if (made_[call.object]) return {What::kMadeTwice};
      if (call.object != objects_) return {What::kOutOfTurn};
      if (!(f.kinds & KindBit(program_.objects[call.object].kind))) return {What::kMakesOtherKind};
      return {};
    case FieldType::kObject:
    case FieldType::kQueue: {
      const ObjectId id = call.*f.member.object;
      if (id == kNoObject) return {f.required ? What::kMissing : What::kNothing};
      const Problem problem = CheckObject(id, f.kinds);
      if (problem.what != What::kNothing || f.type == FieldType::kObject) return problem;
      const bool is_qp = program_.objects[id].kind == ObjectKind::kQp;
      if (is_qp != (call.side != Side::kNone)) return {What::kNoQueue, nullptr, id};
      return {};
    }
    case FieldType::kNumber:
    case FieldType::kBool:
    case FieldType::kFlags:
    case FieldType::kEnum: {
      const uint64_t value = NumberOf(f, call);
      const uint64_t max = f.type == FieldType::kBool ? 1 : f.max;
      if (value > max && value != f.fallback) return {What::kTooLarge};
      return {};
    }
    case FieldType::kKey:
      return CheckKey(call.*f.member.key, f.kinds);
    case FieldType::kMem:
      return CheckObject(call.addr.mr, kMr);
    case FieldType::kSgeList:
      if (call.sge.size() > kMaxList) return {What::kTooLong, nullptr, kNoObject, call.sge.size()};
      for (const SgeArg& s : call.sge) {
        Problem problem = CheckKey(s.lkey, kMr);
        if (problem.what == What::kNothing) problem = CheckObject(s.addr.mr, kMr);
        if (problem.what != What::kNothing) return problem;
        if (s.len > 0xffffffff) return {What::kLongSge, nullptr, kNoObject, s.len};
      }
      return {};
    case FieldType::kBufList:
      if (call.bufs.size() > kMaxList) {
        return {What::kTooLong, nullptr, kNoObject, call.bufs.size()};
      }
      for (const BufArg& b : call.bufs) {
        const Problem problem = CheckObject(b.addr.mr, kMr);
        if (problem.what != What::kNothing) return problem;
      }
      return {};
    case FieldType::kBytes:
      if (call.kind == CallKind::kBuild || call.kind == CallKind::kPostSend) {
        if (call.op == model::Operation::kAtomicWrite && call.bytes.size() != 8) {
          return {What::kNotEightBytes};
        }
        if (call.bytes.size() > 0xffff) return {What::kTooManyBytes};
      }
      return {};
    case FieldType::kAttrs:
      if (call.attrs.size() > kMaxList) {
        return {What::kTooLong, nullptr, kNoObject, call.attrs.size()};
      }
      for (size_t i = 0; i < call.attrs.size(); ++i) {
        const Attr& a = call.attrs[i];
        if (!qpexam::Takes(call.kind, a.first)) {
          return {What::kTakesNoAttr, nullptr, kNoObject, i};
        }
        if (a.second > InfoOf(a.first).max) return {What::kLargeAttr, nullptr, kNoObject, i};
      }
      return {};
    case FieldType::kQpType:
    case FieldType::kOperation:
    case FieldType::kFault:
      return {};
  }
  return {};
}

Validator::What Validator::CheckMemory(const Call& call) {
  const auto reachable = [this](const MemRef& ref, uint64_t len) {
    return Reachable(ref, len) ? What::kNothing : What::kOutsideArena;
  };
  switch (call.kind) {
    case CallKind::kMr:
      if (call.addr.mr == kNoObject && call.addr.offset != 0) return What::kAbsoluteRegion;
      [[fallthrough]];
    case CallKind::kReregMr:
      switch (layout_.Add(call)) {
        case Layout::Result::kPlaced:
          return What::kNothing;
        case Layout::Result::kArenaFull:
          return What::kArenaFull;
        case Layout::Result::kOutsideBase:
          return What::kOutsideBase;
        case Layout::Result::kNoBase:
          return What::kNoBase;
      }
      return What::kNothing;
    case CallKind::kStore:
      if (call.bytes.empty()) return reachable(call.addr, call.len);
      if (call.len != 0 || call.fill != kUnset) return What::kBytesAndFill;
      return reachable(call.addr, call.bytes.size());
    case CallKind::kLoad:
    case CallKind::kSetInline:
      return reachable(call.addr, call.len);
    case CallKind::kSetInlineList:
      for (const BufArg& b : call.bufs) {
        if (!Reachable(b.addr, b.len)) return What::kOutsideArena;
      }
      return What::kNothing;
    case CallKind::kPostSend:
      if (!model::Info(call.op).has_send_wr) return What::kNoSendWr;
      if (!(call.flags & IBV_SEND_INLINE)) return What::kNothing;
      for (const SgeArg& s : call.sge) {
        if (!Reachable(s.addr, s.len)) return What::kOutsideArena;
      }
      return What::kNothing;
    default:
      return What::kNothing;
  }
}

Validator::Problem Validator::Check(const Call& call) {
  if (call.thread > threads_) return {What::kNoThread};
  for (const Field* f : FieldsOf(call)) {
    Problem problem = CheckField(*f, call);
    if (problem.what == What::kNothing) continue;
    problem.field = f;
    return problem;
  }
  switch (call.kind) {
    case CallKind::kCq:
      if (NeedsEx(call) && call.ex != 1) return {What::kNeedsEx};
      break;
    case CallKind::kSrq:
      if (call.xrcd != kNoObject && call.cq == kNoObject) return {What::kXrcSrqWithoutCq};
      break;
    case CallKind::kParallel:
      if (in_parallel_) return {What::kParallelTwice};
      break;
    case CallKind::kJoin:
      if (!in_parallel_) return {What::kJoinAlone};
      break;
    case CallKind::kThread:
      if (threads_ >= kMaxThreads) return {What::kTooManyThreads};
      [[fallthrough]];
    case CallKind::kSettle:
    case CallKind::kAdvance:
      // These act on the Program as a whole.
      if (in_parallel_ || call.thread != 0) return {What::kOfMainThread};
      break;
    default:
      break;
  }
  const bool makes = Makes(call.kind).has_value();
  // The order in which threads reach it would be open, so a name could be used before it is made.
  if (in_parallel_ && makes) return {What::kMadeInParallel};
  if (const What what = CheckMemory(call); what != What::kNothing) return {what};
  if (call.kind == CallKind::kParallel) in_parallel_ = true;
  if (call.kind == CallKind::kJoin) in_parallel_ = false;
  if (call.kind == CallKind::kThread) ++threads_;
  if (makes) {
    made_[call.object] = true;
    ++objects_;
  }
  ++calls_;
  return {};
}

Invalid Validator::Describe(const Problem& problem, const Call& call) const {
  const std::string_view word = problem.field ? problem.field->word : std::string_view();
  const auto name = [this](ObjectId id) { return program_.objects[id].name; };
  switch (problem.what) {
    case What::kNothing:
      break;
    case What::kNoThread:
      return Wrong("", fmt::format("thread {} does not exist", call.thread),
                   "make it on an earlier line: thread NAME");
    case What::kNoObject:
      return Wrong(word, fmt::format("object {} does not exist", problem.id),
                   "name an object made before");
    case What::kNotMadeYet:
      return Wrong(word, fmt::format("'{}' is used before it is made", name(problem.id)),
                   fmt::format("make it on an earlier line: {} {} ...",
                               KindWord(program_.objects[problem.id].kind), name(problem.id)));
    case What::kWrongKind:
      return Wrong(word,
                   fmt::format("'{}' is a {}", name(problem.id),
                               KindWord(program_.objects[problem.id].kind)),
                   fmt::format("name a {}", KindList(problem.kinds)));
    case What::kMakesNothing:
      return Wrong(word, "the call makes no object", "give the new object a name");
    case What::kMadeTwice:
      return Wrong(word, fmt::format("'{}' is made twice", name(call.object)),
                   "choose another name; a destroyed object's name is not free again");
    case What::kOutOfTurn:
      return Wrong(word, "objects are numbered in the order in which they are made", "");
    case What::kMakesOtherKind:
      return Wrong(word, "the new object is of another kind", "");
    case What::kMissing:
      return Wrong(word, fmt::format("{} is missing", word.empty() ? problem.field->about : word),
                   fmt::format("name a {}", KindList(problem.field->kinds)));
    case What::kNoQueue:
      return Wrong(word, fmt::format("'{}' does not name one queue", name(problem.id)),
                   "write a cq's name, QP.send or QP.recv");
    case What::kTooLarge: {
      const uint64_t max = problem.field->type == FieldType::kBool ? 1 : problem.field->max;
      return Wrong(word, fmt::format("{} is larger than {}", NumberOf(*problem.field, call), max),
                   fmt::format("give {} at most {}", word, max));
    }
    case What::kIncOfNumber:
      return Wrong(word, "an increment of a plain number", "write the number that is meant");
    case What::kTooLong:
      return Wrong(
          word,
          fmt::format("{} {}", problem.value,
                      problem.field->type == FieldType::kAttrs ? "attributes" : "elements"),
          fmt::format("give at most {}", kMaxList));
    case What::kLongSge:
      return Wrong(word, fmt::format("an SGE of {} bytes", problem.value),
                   "ibv_sge::length has 32 bits");
    case What::kNotEightBytes:
      return Wrong(word, fmt::format("{} bytes", call.bytes.size()),
                   "an atomic write takes exactly 8");
    case What::kTooManyBytes:
      return Wrong(word, fmt::format("{} bytes", call.bytes.size()), "give at most 65535");
    case What::kTakesNoAttr: {
      const AttributeInfo& info = InfoOf(call.attrs[problem.value].first);
      return Wrong(info.word, fmt::format("{} takes no {}", WordOf(call), info.word), "");
    }
    case What::kLargeAttr: {
      const Attr& a = call.attrs[problem.value];
      const AttributeInfo& info = InfoOf(a.first);
      return Wrong(info.word, fmt::format("{} is larger than {}", a.second, info.max),
                   fmt::format("give {} at most {}", info.word, info.max));
    }
    case What::kNeedsEx:
      return Wrong("ex", "wc, flags and pd need ibv_create_cq_ex", "write ex");
    case What::kXrcSrqWithoutCq:
      return Wrong("cq", "an XRC SRQ without a cq", "add cq=...");
    case What::kParallelTwice:
      return Wrong("", "parallel inside parallel", "write join before it");
    case What::kJoinAlone:
      return Wrong("", "join without parallel", "write parallel before it");
    case What::kTooManyThreads:
      return Wrong("", fmt::format("more than {} threads", kMaxThreads), "");
    case What::kOfMainThread:
      return Wrong("", fmt::format("{} belongs to the main thread, outside parallel", WordOf(call)),
                   "write it before parallel or after join, without a thread");
    case What::kMadeInParallel:
      return Wrong("", "an object made inside parallel", "make it before parallel");
    case What::kAbsoluteRegion:
      return Wrong("at", "a region cannot lie at an absolute address", "write at=MR+OFFSET");
    case What::kArenaFull:
      return Wrong(
          "len",
          fmt::format("{} bytes do not fit: {} of the arena's {} are free (regions "
                      "begin at multiples of {})",
                      call.len, layout_.Free(), layout_.arena(), kMrAlignment),
          fmt::format("write 'arena {}' before the first call",
                      (layout_.arena() - layout_.Free() + call.len + 2 * 4096) / 4096 * 4096));
    case What::kOutsideBase:
      return Wrong("at", "the range does not lie within that region's memory",
                   "choose an offset and a length inside it");
    case What::kNoBase:
      return Wrong("at", "the new memory is missing", "write at=MR+OFFSET");
    case What::kBytesAndFill:
      return Wrong("len", "bytes and fill are both given", "give bytes, or fill and len");
    case What::kOutsideArena: {
      const char* field = call.kind == CallKind::kStore           ? ""
                          : call.kind == CallKind::kSetInlineList ? "buf"
                          : call.kind == CallKind::kPostSend      ? "sge"
                                                                  : "addr";
      return Wrong(field, "the memory lies outside the Program's arena",
                   call.kind == CallKind::kPostSend
                       ? "inline data is read by the CPU: stay inside an mr"
                       : "stay inside an mr");
    }
    case What::kNoSendWr:
      return Wrong(
          "", fmt::format("struct ibv_send_wr cannot express {}", model::Info(call.op).builder),
          "use the builder in a start ... complete region");
  }
  return Wrong("", "", "");
}

std::optional<Invalid> Validator::Add(const Call& call) {
  const Problem problem = Check(call);
  if (problem.what == What::kNothing) return std::nullopt;
  Invalid bad = Describe(problem, call);
  bad.call = calls_;
  return bad;
}

std::optional<Invalid> Validate(const Program& program) {
  if (program.arena > kMaxArena) {
    return Wrong("arena", fmt::format("an arena of {} bytes", program.arena),
                 fmt::format("ask for at most {}", kMaxArena));
  }
  std::unordered_set<std::string_view> names;
  for (const Object& object : program.objects) {
    if (!IsName(object.name)) {
      return Wrong("", fmt::format("'{}' is not a name", object.name), kNameRule);
    }
    if (!names.insert(object.name).second) {
      return Wrong("", fmt::format("two objects are named '{}'", object.name), "rename one");
    }
  }
  Validator validator(program);
  for (const Call& call : program.calls) {
    if (auto bad = validator.Add(call)) return bad;
  }
  if (validator.objects() != program.objects.size()) {
    return Wrong("", "an object that no call makes", "");
  }
  return std::nullopt;
}

}  // namespace qpexam
