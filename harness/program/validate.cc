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

std::optional<Invalid> Validator::CheckObject(ObjectId id, KindMask kinds,
                                              std::string_view word) const {
  if (id == kNoObject) return std::nullopt;
  if (id >= program_.objects.size()) {
    return Wrong(word, fmt::format("object {} does not exist", id), "name an object made before");
  }
  const Object& object = program_.objects[id];
  if (!made_[id]) {
    return Wrong(
        word, fmt::format("'{}' is used before it is made", object.name),
        fmt::format("make it on an earlier line: {} {} ...", KindWord(object.kind), object.name));
  }
  if (!(kinds & KindBit(object.kind))) {
    return Wrong(word, fmt::format("'{}' is a {}", object.name, KindWord(object.kind)),
                 fmt::format("name a {}", KindList(kinds)));
  }
  return std::nullopt;
}

std::optional<Invalid> Validator::CheckKey(const KeyRef& key, KindMask kinds,
                                           std::string_view word) const {
  if (key.object == kNoObject && key.inc != 0) {
    return Wrong(word, "an increment of a plain number", "write the number that is meant");
  }
  return CheckObject(key.object, kinds, word);
}

std::optional<Invalid> Validator::CheckField(const Field& f, const Call& call) const {
  constexpr KindMask kMr = KindBit(ObjectKind::kMr);
  switch (f.type) {
    case FieldType::kNewName:
      if (call.object >= program_.objects.size()) {
        return Wrong(f.word, "the call makes no object", "give the new object a name");
      }
      if (made_[call.object]) {
        return Wrong(f.word, fmt::format("'{}' is made twice", program_.objects[call.object].name),
                     "choose another name; a destroyed object's name is not free again");
      }
      if (call.object != objects_) {
        return Wrong(f.word, "objects are numbered in the order in which they are made", "");
      }
      if (!(f.kinds & KindBit(program_.objects[call.object].kind))) {
        return Wrong(f.word, "the new object is of another kind", "");
      }
      return std::nullopt;
    case FieldType::kObject:
    case FieldType::kQueue: {
      const ObjectId id = call.*f.member.object;
      if (id == kNoObject && f.required) {
        return Wrong(f.word, fmt::format("{} is missing", f.word.empty() ? f.about : f.word),
                     fmt::format("name a {}", KindList(f.kinds)));
      }
      if (auto bad = CheckObject(id, f.kinds, f.word)) return bad;
      if (f.type == FieldType::kQueue) {
        const bool is_qp = program_.objects[id].kind == ObjectKind::kQp;
        if (is_qp != (call.side != Side::kNone)) {
          return Wrong(f.word,
                       fmt::format("'{}' does not name one queue", program_.objects[id].name),
                       "write a cq's name, QP.send or QP.recv");
        }
      }
      return std::nullopt;
    }
    case FieldType::kNumber:
    case FieldType::kBool:
    case FieldType::kFlags:
    case FieldType::kEnum: {
      const uint64_t value = NumberOf(f, call);
      const uint64_t max = f.type == FieldType::kBool ? 1 : f.max;
      if (value > max && value != f.fallback) {
        return Wrong(f.word, fmt::format("{} is larger than {}", value, max),
                     fmt::format("give {} at most {}", f.word, max));
      }
      return std::nullopt;
    }
    case FieldType::kKey:
      return CheckKey(call.*f.member.key, f.kinds, f.word);
    case FieldType::kMem:
      return CheckObject(call.addr.mr, kMr, f.word);
    case FieldType::kSgeList:
      if (call.sge.size() > kMaxList) {
        return Wrong(f.word, fmt::format("{} elements", call.sge.size()),
                     fmt::format("give at most {}", kMaxList));
      }
      for (const SgeArg& s : call.sge) {
        if (auto bad = CheckKey(s.lkey, kMr, f.word)) return bad;
        if (auto bad = CheckObject(s.addr.mr, kMr, f.word)) return bad;
        if (s.len > 0xffffffff) {
          return Wrong(f.word, fmt::format("an SGE of {} bytes", s.len),
                       "ibv_sge::length has 32 bits");
        }
      }
      return std::nullopt;
    case FieldType::kBufList:
      if (call.bufs.size() > kMaxList) {
        return Wrong(f.word, fmt::format("{} elements", call.bufs.size()),
                     fmt::format("give at most {}", kMaxList));
      }
      for (const BufArg& b : call.bufs) {
        if (auto bad = CheckObject(b.addr.mr, kMr, f.word)) return bad;
      }
      return std::nullopt;
    case FieldType::kBytes:
      if (call.kind == CallKind::kBuild || call.kind == CallKind::kPostSend) {
        if (call.op == model::Operation::kAtomicWrite && call.bytes.size() != 8) {
          return Wrong(f.word, fmt::format("{} bytes", call.bytes.size()),
                       "an atomic write takes exactly 8");
        }
        if (call.bytes.size() > 0xffff) {
          return Wrong(f.word, fmt::format("{} bytes", call.bytes.size()), "give at most 65535");
        }
      }
      return std::nullopt;
    case FieldType::kAttrs:
      if (call.attrs.size() > kMaxList) {
        return Wrong(f.word, fmt::format("{} attributes", call.attrs.size()),
                     fmt::format("give at most {}", kMaxList));
      }
      for (const Attr& a : call.attrs) {
        const AttributeInfo& info = InfoOf(a.first);
        if (!Takes(call.kind, a.first)) {
          return Wrong(info.word, fmt::format("{} takes no {}", WordOf(call), info.word), "");
        }
        if (a.second > info.max) {
          return Wrong(info.word, fmt::format("{} is larger than {}", a.second, info.max),
                       fmt::format("give {} at most {}", info.word, info.max));
        }
      }
      return std::nullopt;
    case FieldType::kQpType:
    case FieldType::kOperation:
    case FieldType::kFault:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Invalid> Validator::CheckMemory(const Call& call) {
  constexpr std::string_view kOutside = "the memory lies outside the Program's arena";
  switch (call.kind) {
    case CallKind::kMr:
      if (call.addr.mr == kNoObject && call.addr.offset != 0) {
        return Wrong("at", "a region cannot lie at an absolute address", "write at=MR+OFFSET");
      }
      [[fallthrough]];
    case CallKind::kReregMr:
      switch (layout_.Add(call)) {
        case Layout::Result::kPlaced:
          return std::nullopt;
        case Layout::Result::kArenaFull:
          return Wrong(
              "len",
              fmt::format("{} bytes do not fit: {} of the arena's {} are free (regions "
                          "begin at multiples of {})",
                          call.len, layout_.Free(), layout_.arena(), kMrAlignment),
              fmt::format("write 'arena {}' before the first call",
                          (layout_.arena() - layout_.Free() + call.len + 2 * 4096) / 4096 * 4096));
        case Layout::Result::kOutsideBase:
          return Wrong("at", "the range does not lie within that region's memory",
                       "choose an offset and a length inside it");
        case Layout::Result::kNoBase:
          return Wrong("at", "the new memory is missing", "write at=MR+OFFSET");
      }
      return std::nullopt;
    case CallKind::kStore: {
      const uint64_t len = call.bytes.empty() ? call.len : call.bytes.size();
      if (!call.bytes.empty() && (call.len != 0 || call.fill != kUnset)) {
        return Wrong("len", "bytes and fill are both given", "give bytes, or fill and len");
      }
      if (!Reachable(call.addr, len)) return Wrong("", std::string(kOutside), "stay inside an mr");
      return std::nullopt;
    }
    case CallKind::kLoad:
    case CallKind::kSetInline:
      if (!Reachable(call.addr, call.len)) {
        return Wrong("addr", std::string(kOutside), "stay inside an mr");
      }
      return std::nullopt;
    case CallKind::kSetInlineList:
      for (const BufArg& b : call.bufs) {
        if (!Reachable(b.addr, b.len)) {
          return Wrong("buf", std::string(kOutside), "stay inside an mr");
        }
      }
      return std::nullopt;
    case CallKind::kPostSend:
      if (!model::Info(call.op).has_send_wr) {
        return Wrong(
            "", fmt::format("struct ibv_send_wr cannot express {}", model::Info(call.op).builder),
            "use the builder in a start ... complete region");
      }
      if (!(call.flags & IBV_SEND_INLINE)) return std::nullopt;
      for (const SgeArg& s : call.sge) {
        if (!Reachable(s.addr, s.len)) {
          return Wrong("sge", std::string(kOutside),
                       "inline data is read by the CPU: stay inside an mr");
        }
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<Invalid> Validator::Add(const Call& call) {
  auto located = [&](std::optional<Invalid> bad) {
    if (bad) bad->call = calls_;
    return bad;
  };
  if (call.thread > threads_) {
    return located(Wrong("", fmt::format("thread {} does not exist", call.thread),
                         "make it on an earlier line: thread NAME"));
  }
  for (const Field& f : SchemaOf(call.kind).fields) {
    if (!Applies(f, call)) continue;
    if (auto bad = CheckField(f, call)) return located(bad);
  }
  switch (call.kind) {
    case CallKind::kCq: {
      Call derived = call;
      FillDerived(&derived);
      if (derived.ex != call.ex) {
        return located(Wrong("ex", "wc, flags and pd need ibv_create_cq_ex", "write ex"));
      }
      break;
    }
    case CallKind::kSrq:
      if (call.xrcd != kNoObject && call.cq == kNoObject) {
        return located(Wrong("cq", "an XRC SRQ without a cq", "add cq=..."));
      }
      break;
    case CallKind::kParallel:
      if (in_parallel_) {
        return located(Wrong("", "parallel inside parallel", "write join before it"));
      }
      break;
    case CallKind::kJoin:
      if (!in_parallel_) {
        return located(Wrong("", "join without parallel", "write parallel before it"));
      }
      break;
    case CallKind::kThread:
      if (threads_ >= kMaxThreads) {
        return located(Wrong("", fmt::format("more than {} threads", kMaxThreads), ""));
      }
      [[fallthrough]];
    case CallKind::kSettle:
    case CallKind::kAdvance:
      // These act on the Program as a whole.
      if (in_parallel_ || call.thread != 0) {
        return located(
            Wrong("", fmt::format("{} belongs to the main thread, outside parallel", WordOf(call)),
                  "write it before parallel or after join, without a thread"));
      }
      break;
    default:
      break;
  }
  // The order in which threads reach it would be open, so a name could be used before it is made.
  if (in_parallel_ && Makes(call.kind)) {
    return located(Wrong("", "an object made inside parallel", "make it before parallel"));
  }
  if (auto bad = CheckMemory(call)) return located(bad);
  if (call.kind == CallKind::kParallel) in_parallel_ = true;
  if (call.kind == CallKind::kJoin) in_parallel_ = false;
  if (call.kind == CallKind::kThread) ++threads_;
  if (Makes(call.kind)) {
    made_[call.object] = true;
    ++objects_;
  }
  ++calls_;
  return std::nullopt;
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
