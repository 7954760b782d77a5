// What every user of the schema's tables would write again.
#include "harness/program/schema.h"

namespace qpexam {
namespace {

using model::Operation;

bool SameKey(const KeyRef& a, const KeyRef& b) {
  return a.object == b.object && a.flip == b.flip && a.inc == b.inc;
}
bool SameMem(const MemRef& a, const MemRef& b) { return a.mr == b.mr && a.offset == b.offset; }

// What follows from the schema, once for all calls: fuzzers decode and check many Programs.
struct Tables {
  // Of each kind of call with each operation; where the kind has none, all are the same.
  std::vector<const Field*> fields[kCallKindCount][model::kOperationCount];
  Call plain[kCallKindCount];
  std::optional<ObjectKind> makes[kCallKindCount];

  Tables() {
    for (const CallSchema& schema : AllSchemas()) {
      const auto kind = static_cast<size_t>(schema.kind);
      Call call;
      call.kind = schema.kind;
      for (int op = 0; op < model::kOperationCount; ++op) {
        call.op = static_cast<Operation>(op);
        for (const Field& f : schema.fields) {
          if (Applies(f, call)) fields[kind][op].push_back(&f);
        }
      }
      if (!schema.fields.empty() && schema.fields[0].type == FieldType::kNewName) {
        for (int k = kObjectKindCount; k-- > 0;) {
          if (schema.fields[0].kinds & (1u << k)) makes[kind] = static_cast<ObjectKind>(k);
        }
      }
      plain[kind].kind = schema.kind;
      for (const Field& f : schema.fields) {
        if (f.member.number || f.member.small) SetNumber(f, &plain[kind], f.fallback);
      }
    }
  }
  static const Tables& Get() {
    static const Tables* tables = new Tables();
    return *tables;
  }
};

bool SameField(const Field& f, const Call& a, const Call& b) {
  switch (f.type) {
    case FieldType::kNewName:
    case FieldType::kObject:
      return a.*f.member.object == b.*f.member.object;
    case FieldType::kQueue:
      return a.object == b.object && a.side == b.side;
    case FieldType::kNumber:
    case FieldType::kBool:
    case FieldType::kFlags:
    case FieldType::kEnum:
      return NumberOf(f, a) == NumberOf(f, b);
    case FieldType::kQpType:
      return a.qp_type == b.qp_type;
    case FieldType::kOperation:
      return a.op == b.op;
    case FieldType::kFault:
      return a.fault == b.fault;
    case FieldType::kKey:
      return SameKey(a.*f.member.key, b.*f.member.key);
    case FieldType::kMem:
      return SameMem(a.addr, b.addr);
    case FieldType::kSgeList:
      if (a.sge.size() != b.sge.size()) return false;
      for (size_t i = 0; i < a.sge.size(); ++i) {
        if (!SameKey(a.sge[i].lkey, b.sge[i].lkey) || !SameMem(a.sge[i].addr, b.sge[i].addr) ||
            a.sge[i].len != b.sge[i].len) {
          return false;
        }
      }
      return true;
    case FieldType::kBufList:
      if (a.bufs.size() != b.bufs.size()) return false;
      for (size_t i = 0; i < a.bufs.size(); ++i) {
        if (!SameMem(a.bufs[i].addr, b.bufs[i].addr) || a.bufs[i].len != b.bufs[i].len) {
          return false;
        }
      }
      return true;
    case FieldType::kBytes:
      return a.bytes == b.bytes;
    case FieldType::kAttrs:
      return a.attrs == b.attrs;
  }
  return false;
}

}  // namespace

const CallSchema& SchemaOf(CallKind kind) {
  // The tables are written in the order of the enum; schema_test.cc holds them to it.
  return AllSchemas()[static_cast<size_t>(kind)];
}

const CallSchema* SchemaByWord(std::string_view word, std::optional<Operation>* op) {
  op->reset();
  for (const CallSchema& s : AllSchemas()) {
    if (!s.word.empty() && s.word == word) return &s;
  }
  for (const model::OperationInfo& info : model::AllOperations()) {
    if (info.builder == word) {
      *op = info.op;
      return &SchemaOf(CallKind::kBuild);
    }
  }
  return nullptr;
}

std::string_view WordOf(const Call& call) {
  if (call.kind == CallKind::kBuild) return model::Info(call.op).builder;
  return SchemaOf(call.kind).word;
}

bool Applies(const Field& field, const Call& call) {
  if (call.kind != CallKind::kBuild && call.kind != CallKind::kPostSend) return true;
  return (field.ops >> static_cast<int>(call.op)) & 1;
}

uint64_t NumberOf(const Field& field, const Call& call) {
  return field.member.small ? call.*field.member.small : call.*field.member.number;
}

void SetNumber(const Field& field, Call* call, uint64_t value) {
  if (field.member.small) {
    call->*field.member.small = static_cast<uint8_t>(value);
  } else {
    call->*field.member.number = value;
  }
}

const std::vector<const Field*>& FieldsOf(const Call& call) {
  return Tables::Get().fields[static_cast<size_t>(call.kind)][static_cast<size_t>(call.op)];
}

const Call& PlainCall(CallKind kind) { return Tables::Get().plain[static_cast<size_t>(kind)]; }

Call MakeCall(CallKind kind) { return PlainCall(kind); }

Call MakeBuild(Operation op) {
  Call call = MakeCall(CallKind::kBuild);
  call.op = op;
  return call;
}

bool NeedsEx(const Call& call) {
  return call.wc_flags != 0 || call.flags != 0 || call.pd != kNoObject;
}

void FillDerived(Call* call) {
  if (call->kind == CallKind::kCq && NeedsEx(*call)) call->ex = 1;
  for (const Field* field : FieldsOf(*call)) {
    const Field& f = *field;
    if (f.rule == DefaultRule::kConstant) continue;
    if (f.type == FieldType::kObject) {
      call->*f.member.object = call->addr.mr;
    } else {
      call->*f.member.key = DerivedKey(f, *call);
    }
  }
}

KeyRef DerivedKey(const Field& field, const Call& call) {
  KeyRef key;
  if (field.rule == DefaultRule::kAddrMr) key.object = call.addr.mr;
  if (field.rule == DefaultRule::kNextOfMw) {
    key.object = call.mw;
    key.inc = 1;
  }
  return key;
}

bool IsDefault(const Field& f, const Call& call) {
  switch (f.type) {
    case FieldType::kNewName:
    case FieldType::kQpType:
    case FieldType::kOperation:
    case FieldType::kFault:
    case FieldType::kQueue:
      return false;
    case FieldType::kObject:
      return call.*f.member.object == (f.rule == DefaultRule::kAddrMr ? call.addr.mr : kNoObject);
    case FieldType::kBool:
      if (call.kind == CallKind::kCq && f.member.small == &Call::ex) {
        return NeedsEx(call) ? call.ex == 1 : call.ex == f.fallback;
      }
      return NumberOf(f, call) == f.fallback;
    case FieldType::kNumber:
    case FieldType::kFlags:
    case FieldType::kEnum:
      return NumberOf(f, call) == f.fallback;
    case FieldType::kKey:
      return SameKey(call.*f.member.key, DerivedKey(f, call));
    case FieldType::kMem:
      return call.addr.mr == kNoObject && call.addr.offset == 0;
    case FieldType::kSgeList:
      return call.sge.empty();
    case FieldType::kBufList:
      return call.bufs.empty();
    case FieldType::kBytes:
      return call.bytes.empty();
    case FieldType::kAttrs:
      return call.attrs.empty();
  }
  return false;
}

bool SameCall(const Call& a, const Call& b) {
  if (a.kind != b.kind || a.thread != b.thread) return false;
  if (a.kind == CallKind::kBuild && a.op != b.op) return false;
  if (a.kind == CallKind::kPostSend && a.op != b.op) return false;
  for (const Field* f : FieldsOf(a)) {
    if (!SameField(*f, a, b)) return false;
  }
  return true;
}

bool SameProgram(const Program& a, const Program& b) {
  if (a.arena != b.arena || a.seed != b.seed || a.objects.size() != b.objects.size() ||
      a.calls.size() != b.calls.size()) {
    return false;
  }
  for (size_t i = 0; i < a.objects.size(); ++i) {
    if (a.objects[i].kind != b.objects[i].kind || a.objects[i].name != b.objects[i].name) {
      return false;
    }
  }
  for (size_t i = 0; i < a.calls.size(); ++i) {
    if (!SameCall(a.calls[i], b.calls[i])) return false;
  }
  return true;
}

std::optional<ObjectKind> Makes(CallKind kind) {
  return Tables::Get().makes[static_cast<size_t>(kind)];
}

std::string_view KindWord(ObjectKind kind) {
  static constexpr std::string_view kWords[kObjectKindCount] = {
      "device", "pd", "td", "mr", "mw", "channel", "cq", "srq", "xrcd", "qp", "ah", "thread"};
  return kWords[static_cast<int>(kind)];
}

}  // namespace qpexam
