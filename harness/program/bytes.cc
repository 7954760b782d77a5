#include "harness/program/bytes.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "harness/program/attributes.h"
#include "harness/program/repair.h"
#include "harness/program/schema.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

constexpr uint8_t kNothing = 0, kContinued = 255;
constexpr size_t kPayload = kRecordBytes - 1;
constexpr uint8_t kFirstWide = 240, kFirstMeaning = 249;

// The values behind the bytes 249..255.
uint64_t Meaning(uint8_t byte, uint64_t max) {
  switch (byte) {
    case 249:
      return max;
    case 250:
      return max / 2 + 1;
    case 251:
      return uint64_t{1} << 31;
    case 252:
      return 0xffffffff;
    case 253:
      return uint64_t{1} << 32;
    case 254:
      return max - 1;
    default:
      return ~uint64_t{0};
  }
}

void NameFor(ObjectKind kind, size_t number, std::string* name) {
  if (kind == ObjectKind::kQp && number < 26) {
    name->assign(1, static_cast<char>('a' + number));
    return;
  }
  const std::string_view word = KindWord(kind);
  name->assign(word.data(), word.size());
  char digits[20];
  size_t n = 0;
  do {
    digits[n++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number > 0);
  while (n > 0) name->push_back(digits[--n]);
}

// The objects made so far, by kind.
class Made {
 public:
  // As new, but for its memory.
  void Clear() {
    for (std::vector<ObjectId>& list : by_kind_) list.clear();
    rank_.clear();
  }
  void Add(ObjectKind kind, ObjectId id) {
    std::vector<ObjectId>& list = by_kind_[static_cast<size_t>(kind)];
    if (rank_.size() <= id) rank_.resize(id + size_t{1});
    rank_[id] = static_cast<uint32_t>(list.size());
    list.push_back(id);
  }
  size_t Count(ObjectKind kind) const { return by_kind_[static_cast<size_t>(kind)].size(); }
  size_t Count(KindMask kinds) const {
    size_t n = 0;
    for (int k = 0; k < kObjectKindCount; ++k) {
      if (kinds & (1u << k)) n += by_kind_[static_cast<size_t>(k)].size();
    }
    return n;
  }
  ObjectId At(KindMask kinds, size_t index) const {
    for (int k = 0; k < kObjectKindCount; ++k) {
      if (!(kinds & (1u << k))) continue;
      const std::vector<ObjectId>& list = by_kind_[static_cast<size_t>(k)];
      if (index < list.size()) return list[index];
      index -= list.size();
    }
    return kNoObject;
  }
  size_t IndexOf(KindMask kinds, ObjectKind kind, ObjectId id) const {
    size_t before = 0;
    for (int k = 0; k < static_cast<int>(kind); ++k) {
      if (kinds & (1u << k)) before += by_kind_[static_cast<size_t>(k)].size();
    }
    return before + rank_[id];
  }

 private:
  std::array<std::vector<ObjectId>, kObjectKindCount> by_kind_;
  std::vector<uint32_t> rank_;  // by ObjectId
};

constexpr KindMask kMrKind = KindBit(ObjectKind::kMr);

// The new name, if there is one, comes first and is not in the byte form.
bool HasNewName(const std::vector<const Field*>& fields) {
  return !fields.empty() && fields[0]->type == FieldType::kNewName;
}

// --- Decoding ---------------------------------------------------------------------------------

// The payload of one call: the bytes behind the first of each of its records.
class Reader {
 public:
  Reader(const uint8_t* record, size_t records, size_t bytes)
      : record_(record), size_(records * kPayload) {
    // The last record may be cut short by the end of the input.
    const size_t missing = records * kRecordBytes - bytes;
    size_ = size_ > missing ? size_ - missing : 0;
  }
  uint8_t Byte() {
    if (at_ >= size_) return 0;
    const uint8_t b = record_[at_ / kPayload * kRecordBytes + 1 + at_ % kPayload];
    ++at_;
    return b;
  }
  bool Exhausted() const { return at_ >= size_; }
  uint64_t Number(uint64_t max) {
    const uint8_t b = Byte();
    if (b < kFirstWide) return b;
    if (b >= kFirstMeaning) return Meaning(b, max);
    uint64_t value = 0;
    for (int i = 0; i < b - kFirstWide; ++i) value |= uint64_t{Byte()} << (8 * i);
    return value;
  }

 private:
  const uint8_t* record_;
  size_t size_;
  size_t at_ = 0;
};

// Decodes one Program after the other: a fuzzer's every run begins with it, and under a sanitizer
// each allocation is dear.
class Decoder {
 public:
  // What `program` holds is overwritten; its memory is used again.
  void Run(const uint8_t* data, size_t size, const ByteLimits& limits, Program* program) {
    limits_ = &limits;
    program_ = program;
    made_.Clear();
    used_ = 0;
    const Program fresh;
    program->arena = fresh.arena;
    program->seed = fresh.seed;
    program->objects.clear();
    program->notes.clear();
    size_t at = 0;
    if (size > 0) {
      Reader header(data, 1, std::min(size, kRecordBytes));
      if (data[0] != kNothing) {
        program->arena = std::min(header.Number(limits.arena), limits.arena);
        program->seed = header.Number(~uint64_t{0});
      }
      at = std::min(size, kRecordBytes);
    }
    program->calls.reserve(std::min(size / kRecordBytes + 1, limits.calls));
    Validator validator(*program);
    while (at < size && used_ < limits.calls) {
      size_t end = std::min(size, at + kRecordBytes);
      const uint8_t kind = data[at];
      if (kind == kNothing || kind == kContinued) {
        at = end;
        continue;
      }
      while (end < size && data[end] == kContinued) end = std::min(size, end + kRecordBytes);
      const size_t bytes = end - at;
      Reader reader(data + at, (bytes + kRecordBytes - 1) / kRecordBytes, bytes);
      Take(static_cast<CallKind>((kind - 1) % kCallKindCount), &reader, &validator);
      at = end;
    }
    if (validator.in_parallel()) Next(CallKind::kJoin);
    program->calls.resize(used_);
  }

 private:
  Call& Next(CallKind kind) {
    if (used_ == program_->calls.size()) program_->calls.emplace_back();
    Call& call = program_->calls[used_++];
    call = PlainCall(kind);
    return call;
  }

  void Take(CallKind kind, Reader* reader, Validator* validator) {
    const std::optional<ObjectKind> makes = Makes(kind);
    Call& call = Next(kind);
    if (makes) {
      call.object = static_cast<ObjectId>(program_->objects.size());
      if (call.object >= kNoObject - 1) {
        --used_;
        return;
      }
      program_->objects.push_back({*makes, std::string()});
      validator->NoteObjects();
    }
    if (!Fields(reader, &call) || !Mend(*program_, *validator, &call) || !validator->Takes(call)) {
      --used_;
      if (makes) program_->objects.pop_back();
      return;
    }
    if (makes) {
      NameFor(*makes, made_.Count(*makes), &program_->objects.back().name);
      made_.Add(*makes, call.object);
    }
  }

  bool Fields(Reader* reader, Call* call) {
    call->thread = reader->Byte();
    // Which fields a request has follows from its operation.
    if (call->kind == CallKind::kBuild || call->kind == CallKind::kPostSend) {
      call->op = static_cast<model::Operation>(reader->Byte() % model::kOperationCount);
      if (call->kind == CallKind::kPostSend && !model::Info(call->op).has_send_wr) {
        call->op = model::Operation::kRdmaWrite;
      }
    }
    const std::vector<const Field*>& fields = FieldsOf(*call);
    const size_t bits = fields.size() - HasNewName(fields);
    uint64_t present = 0;
    for (size_t i = 0; i < bits; i += 8) present |= uint64_t{reader->Byte()} << i;
    // A derived field is filled when those it follows from are known.
    const Field* derived[4];  // no call has more than two
    size_t derived_count = 0;
    for (const Field* f : fields) {
      if (f->type == FieldType::kNewName) continue;
      const bool given = (present & 1) || f->required;
      present >>= 1;
      if (given) {
        if (!Value(*f, reader, call)) return false;
      } else if (f->rule != DefaultRule::kConstant) {
        derived[derived_count++] = f;
      }
    }
    for (size_t i = 0; i < derived_count; ++i) {
      const Field& f = *derived[i];
      if (f.type == FieldType::kObject) {
        call->*f.member.object = call->addr.mr;
      } else {
        call->*f.member.key = DerivedKey(f, *call);
      }
    }
    return true;
  }

  bool Object(KindMask kinds, bool required, Reader* reader, ObjectId* id) const {
    const size_t count = made_.Count(kinds);
    const uint64_t index = reader->Number(count);
    if (required) {
      if (count == 0) return false;
      *id = made_.At(kinds, index % count);
      return true;
    }
    const uint64_t one_based = index % (count + 1);
    *id = one_based ? made_.At(kinds, one_based - 1) : kNoObject;
    return true;
  }

  void Mem(Reader* reader, MemRef* ref) const {
    Object(kMrKind, false, reader, &ref->mr);
    if (ref->mr == kNoObject) {
      ref->offset = static_cast<int64_t>(reader->Number(~uint64_t{0}));
      return;
    }
    // Zigzag: small negative offsets are short, too.
    const uint64_t z = reader->Number(~uint64_t{0});
    ref->offset = static_cast<int64_t>((z >> 1) ^ (~(z & 1) + 1));
  }

  void Key(KindMask kinds, Reader* reader, KeyRef* key) const {
    const uint8_t parts = reader->Byte();
    *key = KeyRef{};
    if (parts & 1) Object(kinds, true, reader, &key->object);
    if (parts & 2) key->flip = static_cast<uint32_t>(reader->Number(0xffffffff));
    if (parts & 4) key->inc = static_cast<uint8_t>(reader->Number(0xff));
  }

  size_t Count(Reader* reader) const {
    return static_cast<size_t>(std::min<uint64_t>(reader->Number(kMaxList), kMaxList));
  }

  bool Value(const Field& f, Reader* reader, Call* call) const {
    switch (f.type) {
      case FieldType::kNewName:
        return true;
      case FieldType::kObject:
        return Object(f.kinds, f.required, reader, &(call->*f.member.object));
      case FieldType::kQueue: {
        const uint8_t side = reader->Byte() % 3;
        call->side = static_cast<Side>(side);
        const KindMask kind = KindBit(side ? ObjectKind::kQp : ObjectKind::kCq);
        return Object(made_.Count(kind) ? kind : f.kinds, true, reader, &call->object);
      }
      case FieldType::kNumber:
      case FieldType::kFlags:
      case FieldType::kEnum: {
        const uint64_t value = reader->Number(f.max);
        SetNumber(f, call, value <= f.max || value == f.fallback ? value : value % (f.max + 1));
        return true;
      }
      case FieldType::kBool:
        SetNumber(f, call, 1);
        return true;
      case FieldType::kQpType:
        call->qp_type = static_cast<model::QpType>(reader->Byte() % model::kQpTypeCount);
        return true;
      case FieldType::kOperation:
        return true;  // read before
      case FieldType::kFault:
        call->fault = static_cast<Fault>(reader->Byte() % FaultNames().size);
        return true;
      case FieldType::kKey:
        Key(f.kinds, reader, &(call->*f.member.key));
        return true;
      case FieldType::kMem:
        Mem(reader, &call->addr);
        return true;
      case FieldType::kSgeList:
        for (size_t i = 0, n = Count(reader); i < n && Room(*reader, i); ++i) {
          SgeArg s;
          const uint8_t own_key = reader->Byte() & 1;
          Mem(reader, &s.addr);
          s.len = reader->Number(0xffffffff) & 0xffffffff;
          s.lkey.object = s.addr.mr;
          if (own_key) Key(kMrKind, reader, &s.lkey);
          call->sge.push_back(s);
        }
        return true;
      case FieldType::kBufList:
        for (size_t i = 0, n = Count(reader); i < n && Room(*reader, i); ++i) {
          BufArg b;
          Mem(reader, &b.addr);
          b.len = reader->Number(~uint64_t{0});
          call->bufs.push_back(b);
        }
        return true;
      case FieldType::kBytes: {
        const uint64_t n = reader->Number(0xffff);
        for (uint64_t i = 0; i < n && !reader->Exhausted(); ++i)
          call->bytes.push_back(reader->Byte());
        return true;
      }
      case FieldType::kAttrs:
        for (size_t i = 0, n = Count(reader); i < n && Room(*reader, i); ++i) {
          const auto field = static_cast<AttrField>(reader->Byte() % kAttrFieldCount);
          const uint64_t max = InfoOf(field).max;
          const uint64_t value = reader->Number(max);
          call->attrs.emplace_back(field, value <= max ? value : value % (max + 1));
        }
        return true;
    }
    return true;
  }

  // Elements beyond the payload's end would all be the same.
  bool Room(const Reader& reader, size_t i) const {
    return !reader.Exhausted() && i < limits_->list;
  }

  const ByteLimits* limits_ = nullptr;
  Program* program_ = nullptr;
  size_t used_ = 0;  // calls; those behind are left from another Program
  Made made_;
};

// --- Encoding ---------------------------------------------------------------------------------

class Encoder {
 public:
  explicit Encoder(const Program& program) : program_(program) {}

  std::vector<uint8_t> Run() {
    Number(program_.arena);
    Number(program_.seed);
    Flush(program_.arena == Program{}.arena && program_.seed == Program{}.seed ? kNothing : 1);
    for (const Call& call : program_.calls) {
      Fields(call);
      Flush(static_cast<uint8_t>(static_cast<int>(call.kind) + 1));
      if (const auto makes = Makes(call.kind)) made_.Add(*makes, call.object);
    }
    return std::move(out_);
  }

 private:
  // Writes the payload as records.
  void Flush(uint8_t kind) {
    if (kind == kNothing) payload_.clear();
    size_t at = 0;
    do {
      out_.push_back(at == 0 ? kind : kContinued);
      for (size_t i = 0; i < kPayload; ++i, ++at) {
        out_.push_back(at < payload_.size() ? payload_[at] : 0);
      }
    } while (at < payload_.size());
    payload_.clear();
  }

  void Byte(uint8_t b) { payload_.push_back(b); }

  void Number(uint64_t value) {
    if (value < kFirstWide) {
      Byte(static_cast<uint8_t>(value));
      return;
    }
    int bytes = 1;
    while (bytes < 8 && (value >> (8 * bytes))) ++bytes;
    Byte(static_cast<uint8_t>(kFirstWide + bytes));
    for (int i = 0; i < bytes; ++i) Byte(static_cast<uint8_t>(value >> (8 * i)));
  }

  void Object(KindMask kinds, bool required, ObjectId id) {
    if (id == kNoObject) {
      Number(0);
      return;
    }
    Number(made_.IndexOf(kinds, program_.objects[id].kind, id) + (required ? 0 : 1));
  }

  void Mem(const MemRef& ref) {
    Object(kMrKind, false, ref.mr);
    const auto u = static_cast<uint64_t>(ref.offset);
    Number(ref.mr == kNoObject ? u : (u << 1) ^ (ref.offset < 0 ? ~uint64_t{0} : 0));
  }

  void Key(KindMask kinds, const KeyRef& key) {
    Byte(static_cast<uint8_t>((key.object != kNoObject ? 1 : 0) | (key.flip ? 2 : 0) |
                              (key.inc ? 4 : 0)));
    if (key.object != kNoObject) Object(kinds, true, key.object);
    if (key.flip) Number(key.flip);
    if (key.inc) Number(key.inc);
  }

  void Fields(const Call& call) {
    const std::vector<const Field*>& fields = FieldsOf(call);
    Byte(call.thread);
    if (call.kind == CallKind::kBuild || call.kind == CallKind::kPostSend) {
      Byte(static_cast<uint8_t>(call.op));
    }
    uint64_t present = 0;
    int bits = 0;
    for (const Field* f : fields) {
      if (f->type == FieldType::kNewName) continue;
      if (!IsDefault(*f, call)) present |= uint64_t{1} << bits;
      ++bits;
    }
    for (int i = 0; i < bits; i += 8) Byte(static_cast<uint8_t>(present >> i));
    for (const Field* f : fields) {
      if (f->type == FieldType::kNewName) continue;
      if ((present & 1) || f->required) Value(*f, call);
      present >>= 1;
    }
  }

  void Value(const Field& f, const Call& call) {
    switch (f.type) {
      case FieldType::kNewName:
      case FieldType::kBool:
      case FieldType::kOperation:
        break;
      case FieldType::kObject:
        Object(f.kinds, f.required, call.*f.member.object);
        break;
      case FieldType::kQueue:
        Byte(static_cast<uint8_t>(call.side));
        Object(KindBit(call.side == Side::kNone ? ObjectKind::kCq : ObjectKind::kQp), true,
               call.object);
        break;
      case FieldType::kNumber:
      case FieldType::kFlags:
      case FieldType::kEnum:
        Number(NumberOf(f, call));
        break;
      case FieldType::kQpType:
        Byte(static_cast<uint8_t>(call.qp_type));
        break;
      case FieldType::kFault:
        Byte(static_cast<uint8_t>(call.fault));
        break;
      case FieldType::kKey:
        Key(f.kinds, call.*f.member.key);
        break;
      case FieldType::kMem:
        Mem(call.addr);
        break;
      case FieldType::kSgeList:
        Number(call.sge.size());
        for (const SgeArg& s : call.sge) {
          const bool own_key = s.lkey.object != s.addr.mr || s.lkey.flip || s.lkey.inc;
          Byte(own_key);
          Mem(s.addr);
          Number(s.len);
          if (own_key) Key(kMrKind, s.lkey);
        }
        break;
      case FieldType::kBufList:
        Number(call.bufs.size());
        for (const BufArg& b : call.bufs) {
          Mem(b.addr);
          Number(b.len);
        }
        break;
      case FieldType::kBytes:
        Number(call.bytes.size());
        for (uint8_t b : call.bytes) Byte(b);
        break;
      case FieldType::kAttrs:
        Number(call.attrs.size());
        for (const Attr& a : call.attrs) {
          Byte(static_cast<uint8_t>(a.first));
          Number(a.second);
        }
        break;
    }
  }

  const Program& program_;
  Made made_;
  std::vector<uint8_t> payload_;
  std::vector<uint8_t> out_;
};

}  // namespace

void ProgramFromBytes(const uint8_t* data, size_t size, Program* program,
                      const ByteLimits& limits) {
  thread_local Decoder decoder;
  decoder.Run(data, size, limits, program);
}

Program ProgramFromBytes(const uint8_t* data, size_t size, const ByteLimits& limits) {
  Program program;
  ProgramFromBytes(data, size, &program, limits);
  return program;
}

std::vector<uint8_t> BytesFromProgram(const Program& program) { return Encoder(program).Run(); }

void Rename(Program* program) {
  size_t count[kObjectKindCount] = {};
  for (Object& object : program->objects) {
    NameFor(object.kind, count[static_cast<size_t>(object.kind)]++, &object.name);
  }
}

}  // namespace qpexam
