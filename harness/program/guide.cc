#include "harness/program/guide.h"

#include <fmt/format.h>

#include <iterator>

#include "harness/program/attributes.h"
#include "harness/program/schema.h"

namespace qpexam {
namespace {

std::string Shape(const Field& f) {
  switch (f.type) {
    case FieldType::kNewName:
      return "NAME";
    case FieldType::kObject: {
      std::string kinds;
      if (f.kinds == kAnyKind) return "OBJECT";
      for (int k = 0; k < kObjectKindCount; ++k) {
        if (!(f.kinds & (1u << k))) continue;
        for (char c : KindWord(static_cast<ObjectKind>(k))) {
          kinds += static_cast<char>(c - 'a' + 'A');
        }
      }
      return kinds;
    }
    case FieldType::kQueue:
      return "QUEUE";
    case FieldType::kNumber:
      return "N";
    case FieldType::kBool:
      return "";
    case FieldType::kFlags:
      return "FLAGS";
    case FieldType::kEnum: {
      std::string all;
      for (const NamedValue& n : f.names) {
        if (!all.empty()) all += '/';
        all += n.name;
      }
      return all;
    }
    case FieldType::kQpType:
      return "TYPE";
    case FieldType::kOperation:
      return "OPERATION";
    case FieldType::kFault:
      return "FAULT";
    case FieldType::kKey:
      return "KEY";
    case FieldType::kMem:
      return "ADDR";
    case FieldType::kSgeList:
      return "ADDR:N[@KEY],...";
    case FieldType::kBufList:
      return "ADDR:N,...";
    case FieldType::kBytes:
      return "HEX";
    case FieldType::kAttrs:
      return "ATTRIBUTE=VALUE ...";
  }
  return "";
}

std::string Default(const Field& f) {
  if (f.required) return "";
  switch (f.type) {
    case FieldType::kNumber:
    case FieldType::kFlags:
      for (const NamedValue& n : f.names) {
        if (n.value == f.fallback) return fmt::format(" ({})", n.name);
      }
      if (f.fallback == kUnset) return "";
      return f.style == NumberStyle::kHex ? fmt::format(" ({:#x})", f.fallback)
                                          : fmt::format(" ({})", f.fallback);
    default:
      return "";
  }
}

std::string Argument(const Field& f) {
  std::string text = f.type == FieldType::kBool ? std::string(f.word)
                     : f.word.empty()           ? Shape(f)
                                                : fmt::format("{}={}", f.word, Shape(f));
  if (!f.required) text = "[" + text + "]";
  return text;
}

void AppendCall(std::string_view word, const CallSchema& schema, uint16_t op_bit,
                std::string* out) {
  fmt::format_to(std::back_inserter(*out), "- `{}", word);
  for (const Field& f : schema.fields) {
    if (f.ops & op_bit) fmt::format_to(std::back_inserter(*out), " {}", Argument(f));
  }
  *out += "`";
  if (schema.kind != CallKind::kBuild) {
    fmt::format_to(std::back_inserter(*out), ": {}", schema.about);
  }
  *out += "\n";
  for (const Field& f : schema.fields) {
    // What builders share is said once, above their list.
    if (schema.kind == CallKind::kBuild && f.ops == 0xffff) continue;
    if (f.word.empty() || !(f.ops & op_bit)) continue;
    fmt::format_to(std::back_inserter(*out), "  - `{}`{}: {}\n", f.word, Default(f), f.about);
  }
}

}  // namespace

std::string CallReference() {
  std::string out;
  for (const CallSchema& schema : AllSchemas()) {
    if (schema.kind != CallKind::kBuild) {
      AppendCall(schema.word, schema, 0xffff, &out);
      continue;
    }
    for (const model::OperationInfo& info : model::AllOperations()) {
      AppendCall(info.builder, schema, static_cast<uint16_t>(1u << static_cast<int>(info.op)),
                 &out);
    }
  }
  out += "\nAttributes of `modify` and `connect` (those marked * also of `ah`):\n\n";
  for (int i = 0; i < kAttrFieldCount; ++i) {
    const AttributeInfo& info = InfoOf(static_cast<AttrField>(i));
    std::string_view bit = "?";
    for (const NamedValue& n : AttrMaskNames()) {
      if (n.value == static_cast<uint64_t>(info.mask)) bit = n.name;
    }
    fmt::format_to(std::back_inserter(out), "- `{}`{}: mask bit {}", info.word,
                   info.of_ah ? " *" : "", bit);
    if (info.names.size) {
      out += ";";
      for (const NamedValue& n : info.names) {
        fmt::format_to(std::back_inserter(out), " {}", n.name);
      }
    }
    out += "\n";
  }
  return out;
}

}  // namespace qpexam
