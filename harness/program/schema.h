// The schema: for each kind of call its word in the text form and its fields, as data.
//
// Parser, printer, byte form, generator, mutator, minimiser and C emitter walk these tables; a new
// argument of a call is one line in schema.cc.
#ifndef QPEXAM_HARNESS_PROGRAM_SCHEMA_H_
#define QPEXAM_HARNESS_PROGRAM_SCHEMA_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/program/program.h"

namespace qpexam {

// A named value of an enum or a named bit of a flags word. Text accepts numbers besides names.
struct NamedValue {
  std::string_view name;
  uint64_t value;
};
struct Names {
  const NamedValue* data = nullptr;
  int size = 0;
  const NamedValue* begin() const { return data; }
  const NamedValue* end() const { return data + size; }
};

enum class FieldType : uint8_t {
  kNewName,  // the name of the object that the call makes (Call::object)
  kObject,   // the name of an object that was made before
  kQueue,    // a cq, or "a.send", "a.recv" (Call::object and Call::side)
  kNumber,
  kBool,  // given by the bare word
  kFlags,
  kEnum,
  kQpType,
  kOperation,
  kFault,
  kKey,
  kMem,
  kSgeList,
  kBufList,
  kBytes,
  kAttrs,  // any of the attribute words that `attrs` allows (attributes.h)
};

// What a field is where the text does not give it.
enum class DefaultRule : uint8_t {
  kConstant,  // `fallback`
  kAddrMr,    // the mr of Call::addr (a key or an mr)
  kNextOfMw,  // the key of Call::mw with inc 1
};

// How a number reads best.
enum class NumberStyle : uint8_t { kDecimal, kHex };

// The place in a Call; which member is set depends on the field's type.
struct Member {
  ObjectId Call::*object = nullptr;
  uint64_t Call::*number = nullptr;
  uint8_t Call::*small = nullptr;
  KeyRef Call::*key = nullptr;
};

using KindMask = uint16_t;  // of ObjectKind
constexpr KindMask KindBit(ObjectKind kind) {
  return static_cast<KindMask>(1u << static_cast<int>(kind));
}

struct Field {
  FieldType type{};
  std::string_view word;  // "" for positional fields
  Member member;
  uint64_t fallback = 0;
  DefaultRule rule = DefaultRule::kConstant;
  NumberStyle style = NumberStyle::kDecimal;
  bool required = false;
  bool always_printed = false;
  KindMask kinds = 0;           // of kObject, kQueue, kKey: what may be named
  uint64_t max = ~uint64_t{0};  // the largest number that the C type behind it holds
  Names names;                  // of kFlags and kEnum
  uint16_t ops = 0xffff;        // of kBuild and kPostSend: the operations that have this field
  std::string_view about;       // one line for the guide and for messages
};

struct CallSchema {
  CallKind kind{};
  std::string_view word;  // "" for kBuild, whose word is the builder's
  std::string_view about;
  std::vector<Field> fields;  // positional ones first
};

const CallSchema& SchemaOf(CallKind kind);
const std::vector<CallSchema>& AllSchemas();
// The schema of a line that begins with `word`; builders' words give kBuild and set *op.
const CallSchema* SchemaByWord(std::string_view word, std::optional<model::Operation>* op);
// "rdma_write", "poll", ...
std::string_view WordOf(const Call& call);

// Whether the field exists for this call (its operation has it).
bool Applies(const Field& field, const Call& call);
// The fields that exist for this call, in the schema's order.
const std::vector<const Field*>& FieldsOf(const Call& call);

// A Call with the defaults of its kind. Fields whose default comes from other fields are filled by
// FillDerived().
const Call& PlainCall(CallKind kind);
Call MakeCall(CallKind kind);
Call MakeBuild(model::Operation op);
// Sets the key or mr fields that follow from addr and mw, as the text form does where it leaves
// them out.
void FillDerived(Call* call);
// Whether a cq asks for what ibv_create_cq_ex() alone can make.
bool NeedsEx(const Call& call);
// Whether the field has the value that the text form may leave out.
bool IsDefault(const Field& field, const Call& call);

// The value of a field that is a number (kNumber, kBool, kFlags, kEnum), and its setting.
uint64_t NumberOf(const Field& field, const Call& call);
void SetNumber(const Field& field, Call* call, uint64_t value);
// The key that the text form means where it leaves this field out.
KeyRef DerivedKey(const Field& field, const Call& call);

// Same kind and same value of each field of the schema; `line` does not count.
bool SameCall(const Call& a, const Call& b);
// Same objects (kind and name), calls, arena and seed; notes and lines do not count.
bool SameProgram(const Program& a, const Program& b);

// Calls f for each ObjectId (as ObjectId&) that a call names in any field, with the kinds allowed
// there. Object ids inside keys, addresses and lists included; kNoObject ones too.
template <typename F>
void ForEachObject(Call* call, F f);

// The kind of object that this call makes, if it makes one.
std::optional<ObjectKind> Makes(CallKind kind);

std::string_view KindWord(ObjectKind kind);  // "qp", "mr", ...
inline constexpr KindMask kAnyKind = 0xffff;

// The tables of names.
Names SendFlagNames();
Names AccessNames();
Names SendOpNames();
Names WcFlagNames();
Names AttrMaskNames();
Names StateNames();
Names FaultNames();
Names CqFlagNames();
Names QpFlagNames();
Names ReregFlagNames();
Names FlushTypeNames();
Names FlushLevelNames();

// ---------------------------------------------------------------------------------------------

template <typename F>
void ForEachObject(Call* call, F f) {
  for (const Field* known : FieldsOf(*call)) {
    const Field& field = *known;
    switch (field.type) {
      case FieldType::kNewName:
      case FieldType::kObject:
      case FieldType::kQueue:
        f(call->*field.member.object, field.kinds);
        break;
      case FieldType::kKey:
        f((call->*field.member.key).object, field.kinds);
        break;
      case FieldType::kMem:
        f(call->addr.mr, KindBit(ObjectKind::kMr));
        break;
      case FieldType::kSgeList:
        for (SgeArg& s : call->sge) {
          f(s.lkey.object, KindBit(ObjectKind::kMr));
          f(s.addr.mr, KindBit(ObjectKind::kMr));
        }
        break;
      case FieldType::kBufList:
        for (BufArg& b : call->bufs) f(b.addr.mr, KindBit(ObjectKind::kMr));
        break;
      default:
        break;
    }
  }
}

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_SCHEMA_H_
