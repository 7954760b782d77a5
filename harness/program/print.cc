#include "harness/program/print.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <vector>

#include "harness/program/attributes.h"
#include "harness/program/schema.h"

namespace qpexam {
namespace {

using Out = std::back_insert_iterator<std::string>;

std::string_view NameOf(const Program& p, ObjectId id) {
  return id < p.objects.size() ? std::string_view(p.objects[id].name) : std::string_view("?");
}

void AppendMem(const Program& p, const MemRef& ref, std::string* out) {
  if (ref.mr == kNoObject) {
    fmt::format_to(Out(*out), "{:#x}", static_cast<uint64_t>(ref.offset));
  } else {
    fmt::format_to(Out(*out), "{}{:+}", NameOf(p, ref.mr), ref.offset);
  }
}

void AppendKey(const Program& p, const KeyRef& key, std::string* out) {
  if (key.object == kNoObject) {
    fmt::format_to(Out(*out), "{:#x}", key.flip);
    return;
  }
  out->append(NameOf(p, key.object));
  if (key.inc) fmt::format_to(Out(*out), "+{}", key.inc);
  if (key.flip) fmt::format_to(Out(*out), "^{:#x}", key.flip);
}

void AppendNumber(uint64_t value, NumberStyle style, std::string* out) {
  if (style == NumberStyle::kHex) {
    fmt::format_to(Out(*out), "{:#x}", value);
  } else {
    fmt::format_to(Out(*out), "{}", value);
  }
}

void AppendFlags(uint64_t value, Names names, std::string* out) {
  for (const NamedValue& n : names) {
    if (n.value == value) {
      out->append(n.name);
      return;
    }
  }
  const char* separator = "";
  for (const NamedValue& n : names) {
    if (n.value == kUnset || n.value == 0 || (value & n.value) != n.value) continue;
    fmt::format_to(Out(*out), "{}{}", separator, n.name);
    value &= ~n.value;
    separator = "|";
  }
  if (value) fmt::format_to(Out(*out), "{}{:#x}", separator, value);
  if (!value && !*separator) out->push_back('0');
}

void AppendEnum(uint64_t value, Names names, std::string* out) {
  for (const NamedValue& n : names) {
    if (n.value == value) {
      out->append(n.name);
      return;
    }
  }
  // A number that reads as another value's name (path_mtu=256) is written so that it does not.
  fmt::format_to(Out(*out), "{:#x}", value);
}

// Access flags are combined; the other named attributes are enumerators.
void AppendAttribute(const Attr& attr, std::string* out) {
  const AttributeInfo& info = InfoOf(attr.first);
  fmt::format_to(Out(*out), "{}=", info.word);
  if (attr.first == AttrField::kAccessFlags) {
    AppendFlags(attr.second, info.names, out);
  } else if (info.names.size) {
    AppendEnum(attr.second, info.names, out);
  } else {
    AppendNumber(attr.second, info.style, out);
  }
}

void AppendValue(const Program& p, const Field& f, const Call& call, std::string* out) {
  switch (f.type) {
    case FieldType::kNewName:
    case FieldType::kObject:
      out->append(NameOf(p, call.*f.member.object));
      break;
    case FieldType::kQueue:
      out->append(NameOf(p, call.object));
      if (call.side == Side::kSend) out->append(".send");
      if (call.side == Side::kRecv) out->append(".recv");
      break;
    case FieldType::kNumber:
      AppendNumber(NumberOf(f, call), f.style, out);
      break;
    case FieldType::kBool:
      break;
    case FieldType::kFlags:
      AppendFlags(NumberOf(f, call), f.names, out);
      break;
    case FieldType::kEnum:
      AppendEnum(NumberOf(f, call), f.names, out);
      break;
    case FieldType::kQpType:
      out->append(model::Name(call.qp_type));
      break;
    case FieldType::kOperation:
      out->append(model::Info(call.op).builder);
      break;
    case FieldType::kFault:
      AppendEnum(static_cast<uint64_t>(call.fault), FaultNames(), out);
      break;
    case FieldType::kKey:
      AppendKey(p, call.*f.member.key, out);
      break;
    case FieldType::kMem:
      AppendMem(p, call.addr, out);
      break;
    case FieldType::kSgeList:
      for (size_t i = 0; i < call.sge.size(); ++i) {
        const SgeArg& s = call.sge[i];
        if (i) out->push_back(',');
        AppendMem(p, s.addr, out);
        fmt::format_to(Out(*out), ":{}", s.len);
        if (s.lkey.object != s.addr.mr || s.lkey.flip || s.lkey.inc) {
          out->push_back('@');
          AppendKey(p, s.lkey, out);
        }
      }
      break;
    case FieldType::kBufList:
      for (size_t i = 0; i < call.bufs.size(); ++i) {
        if (i) out->push_back(',');
        AppendMem(p, call.bufs[i].addr, out);
        fmt::format_to(Out(*out), ":{}", call.bufs[i].len);
      }
      break;
    case FieldType::kBytes:
      for (uint8_t b : call.bytes) fmt::format_to(Out(*out), "{:02x}", b);
      break;
    case FieldType::kAttrs:
      for (size_t i = 0; i < call.attrs.size(); ++i) {
        if (i) out->push_back(' ');
        AppendAttribute(call.attrs[i], out);
      }
      break;
  }
}

void AppendCall(const Program& p, const Call& call, std::string* out) {
  out->append(WordOf(call));
  for (const Field& f : SchemaOf(call.kind).fields) {
    if (!Applies(f, call)) continue;
    if (IsDefault(f, call) && !f.always_printed && !f.required) continue;
    out->push_back(' ');
    if (f.type == FieldType::kBool) {
      out->append(f.word);
      continue;
    }
    if (!f.word.empty()) fmt::format_to(Out(*out), "{}=", f.word);
    AppendValue(p, f, call, out);
  }
}

bool InsideRegion(CallKind kind) {
  switch (kind) {
    case CallKind::kBuild:
    case CallKind::kSetSge:
    case CallKind::kSetSgeList:
    case CallKind::kSetInline:
    case CallKind::kSetInlineList:
    case CallKind::kSetUdAddr:
    case CallKind::kSetXrcSrqn:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string PrintMem(const Program& program, const MemRef& ref) {
  std::string out;
  AppendMem(program, ref, &out);
  return out;
}

std::string PrintKey(const Program& program, const KeyRef& key) {
  std::string out;
  AppendKey(program, key, &out);
  return out;
}

std::string PrintCall(const Program& program, const Call& call) {
  std::string out;
  AppendCall(program, call, &out);
  return out;
}

std::string PrintProgram(const Program& p, Notes notes) {
  std::string out = fmt::format("qpx {}\n", kTextVersion);
  if (p.arena != Program{}.arena) fmt::format_to(Out(out), "arena {}\n", p.arena);
  if (p.seed != Program{}.seed) fmt::format_to(Out(out), "seed {}\n", p.seed);

  std::vector<std::string_view> threads = {""};
  size_t note = 0;
  auto print_notes = [&](uint32_t before) {
    while (notes == Notes::kKeep && note < p.notes.size() && !p.notes[note].trailing &&
           p.notes[note].call <= before) {
      if (p.notes[note].blank) {
        out.push_back('\n');
      } else {
        fmt::format_to(Out(out), "#{}\n", p.notes[note].text);
      }
      ++note;
    }
  };
  for (uint32_t i = 0; i < p.calls.size(); ++i) {
    const Call& call = p.calls[i];
    print_notes(i);
    if (InsideRegion(call.kind)) out.append("  ");
    if (call.thread && call.thread < threads.size()) {
      fmt::format_to(Out(out), "{}: ", threads[call.thread]);
    }
    AppendCall(p, call, &out);
    if (call.kind == CallKind::kThread) threads.push_back(NameOf(p, call.object));
    if (notes == Notes::kKeep && note < p.notes.size() && p.notes[note].trailing &&
        p.notes[note].call == i) {
      fmt::format_to(Out(out), "  #{}", p.notes[note].text);
      ++note;
    }
    out.push_back('\n');
  }
  print_notes(~uint32_t{0});
  return out;
}

}  // namespace qpexam
