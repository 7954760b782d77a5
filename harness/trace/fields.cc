#include "harness/trace/fields.h"

#include <charconv>
#include <limits>
#include <mutex>
#include <set>

#include "conformance/catalogue/catalogue.h"
#include "harness/program/attributes.h"
#include "harness/trace/names.h"

namespace qpexam::trace_fields {
namespace {

template <typename Int>
Refusal ReadNumber(std::string_view word, Int* out) {
  uint64_t value = 0;
  bool negative = std::is_signed_v<Int> && !word.empty() && word[0] == '-';
  std::string_view digits = negative ? word.substr(1) : word;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && digits[1] == 'x') {
    base = 16;
    digits.remove_prefix(2);
  }
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  const uint64_t max = static_cast<uint64_t>(std::numeric_limits<Int>::max());
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty() || value > max)
    return "a number up to " + std::to_string(max);
  *out = negative ? static_cast<Int>(-static_cast<int64_t>(value)) : static_cast<Int>(value);
  return std::nullopt;
}

template <typename Out, typename Parsed>
Refusal Take(const std::optional<Parsed>& parsed, const char* wanted, Out* out) {
  if (!parsed) return wanted;
  *out = static_cast<Out>(*parsed);
  return std::nullopt;
}

std::string HexNumber(uint64_t value) {
  char text[20] = "0x";
  auto end = std::to_chars(text + 2, text + sizeof text, value, 16).ptr;
  return std::string(text, end);
}

constexpr const char* kAnObject = "the name of an object of the program, or -";

}  // namespace

void WriteEvent(const Program& program, const Event& event, const Emit& emit) {
  if (event.ran != Ran::kDone) emit("ran", std::string(RanWord(event.ran)), false);
  if (event.rc != 0) emit("rc", ErrnoWord(event.rc), false);
  if (event.count != 0) emit("count", std::to_string(event.count), true);
  int last = 4;
  while (last >= 0 && event.granted[last] == 0) last--;
  if (last >= 0) {
    std::string list;
    for (int i = 0; i <= last; i++) {
      if (i > 0) list += ',';
      list += std::to_string(event.granted[i]);
    }
    emit("granted", list, false);
  }
  if (event.event_of.object != kNoObject) emit("event_of", CqWord(program, event.event_of), false);
  if (event.has_async) emit("async", AsyncEventWord(event.async_type), false);
  if (event.settled) emit("settled", "1", true);
  if (event.timed_out) emit("timed_out", "1", true);
}

Refusal ReadEvent(const Program& program, std::string_view key, std::string_view word,
                  Event* event) {
  if (key == "ran") return Take(RanFromWord(word), "done, not-made, cut or skipped", &event->ran);
  if (key == "rc") return Take(ErrnoFromWord(word), "a number or an errno name", &event->rc);
  if (key == "count") return ReadNumber(word, &event->count);
  if (key == "granted") {
    for (int i = 0; i < 5; i++) {
      size_t comma = word.find(',');
      if (Refusal r = ReadNumber(word.substr(0, comma), &event->granted[i])) return r;
      if (comma == std::string_view::npos) return std::nullopt;
      word.remove_prefix(comma + 1);
    }
    return "at most 5 numbers, separated by commas";
  }
  if (key == "event_of")
    return Take(CqFromWord(program, word), "an object, a.send or a.recv", &event->event_of);
  if (key == "async") {
    event->has_async = true;
    return Take(AsyncEventFromWord(word), "an event, such as SQ_DRAINED", &event->async_type);
  }
  if (key == "settled" || key == "timed_out") {
    if (word != "1") return "1";
    (key == "settled" ? event->settled : event->timed_out) = true;
    return std::nullopt;
  }
  return "one of ran, rc, count, granted, event_of, async, settled, timed_out";
}

void WriteCompletion(const Program& program, const SeenCompletion& c, const Emit& emit) {
  emit("cq", CqWord(program, c.cq), false);
  emit("qp", ObjectWord(program, c.qp), false);
  emit("wr_id", std::to_string(c.wr_id), true);
  emit("status", WcStatusWord(c.status), false);
  if (c.status == IBV_WC_SUCCESS) emit("opcode", WcOpcodeWord(c.opcode), false);
  if (c.byte_len != 0) emit("byte_len", std::to_string(c.byte_len), true);
  if (c.wc_flags != 0) emit("flags", WcFlagsWord(c.wc_flags), false);
  if (c.wc_flags & IBV_WC_WITH_IMM) emit("imm", HexNumber(c.imm), false);
  if (c.invalidated != kNoObject) emit("invalidated", ObjectWord(program, c.invalidated), false);
  if (c.invalidated_inc != 0) emit("invalidated_inc", std::to_string(c.invalidated_inc), true);
  if (c.invalidated_raw != 0) emit("invalidated_raw", HexNumber(c.invalidated_raw), false);
  if (c.src_qp != kNoObject) emit("src_qp", ObjectWord(program, c.src_qp), false);
  if (c.vendor_err != 0) emit("vendor_err", HexNumber(c.vendor_err), false);
  if (c.pkey_index != 0) emit("pkey_index", std::to_string(c.pkey_index), true);
  if (c.slid != 0) emit("slid", std::to_string(c.slid), true);
  if (c.sl != 0) emit("sl", std::to_string(c.sl), true);
  if (c.dlid_path_bits != 0) emit("dlid_path_bits", std::to_string(c.dlid_path_bits), true);
}

Refusal ReadCompletion(const Program& program, std::string_view key, std::string_view word,
                       SeenCompletion* c) {
  if (key == "cq") return Take(CqFromWord(program, word), "a cq, a.send or a.recv", &c->cq);
  if (key == "qp") return Take(ObjectFromWord(program, word), kAnObject, &c->qp);
  if (key == "wr_id") return ReadNumber(word, &c->wr_id);
  if (key == "status")
    return Take(WcStatusFromWord(word), "a status, such as SUCCESS or WR_FLUSH_ERR", &c->status);
  if (key == "opcode")
    return Take(WcOpcodeFromWord(word), "an opcode, such as SEND or RECV", &c->opcode);
  if (key == "byte_len") return ReadNumber(word, &c->byte_len);
  if (key == "flags")
    return Take(WcFlagsFromWord(word), "flags, such as GRH|WITH_IMM", &c->wc_flags);
  if (key == "imm") return ReadNumber(word, &c->imm);
  if (key == "invalidated") return Take(ObjectFromWord(program, word), kAnObject, &c->invalidated);
  if (key == "invalidated_inc") return ReadNumber(word, &c->invalidated_inc);
  if (key == "invalidated_raw") return ReadNumber(word, &c->invalidated_raw);
  if (key == "src_qp") return Take(ObjectFromWord(program, word), kAnObject, &c->src_qp);
  if (key == "vendor_err") return ReadNumber(word, &c->vendor_err);
  if (key == "pkey_index") return ReadNumber(word, &c->pkey_index);
  if (key == "slid") return ReadNumber(word, &c->slid);
  if (key == "sl") return ReadNumber(word, &c->sl);
  if (key == "dlid_path_bits") return ReadNumber(word, &c->dlid_path_bits);
  return "one of cq, qp, wr_id, status, opcode, byte_len, flags, imm, invalidated, "
         "invalidated_inc, invalidated_raw, src_qp, vendor_err, pkey_index, slid, sl, "
         "dlid_path_bits";
}

void WriteMemory(const Program& program, const Trace& trace, const SeenMemory& memory,
                 const Emit& emit) {
  emit("mr", ObjectWord(program, memory.mr), false);
  emit("offset", std::to_string(memory.offset), true);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (uint8_t byte : trace.BytesOf(memory)) {
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  emit("bytes", hex, false);
}

Refusal ReadMemory(const Program& program, std::string_view key, std::string_view word,
                   Trace* trace, SeenMemory* memory) {
  if (key == "mr") return Take(ObjectFromWord(program, word), kAnObject, &memory->mr);
  if (key == "offset") return ReadNumber(word, &memory->offset);
  if (key == "bytes") {
    memory->first = static_cast<uint32_t>(trace->bytes.size());
    for (size_t i = 0; i < word.size(); i += 2) {
      uint8_t byte = 0;
      std::string_view pair = word.substr(i, 2);
      auto [end, error] = std::from_chars(pair.data(), pair.data() + pair.size(), byte, 16);
      if (pair.size() != 2 || error != std::errc() || end != pair.data() + 2)
        return "two hexadecimal digits a byte";
      trace->bytes.push_back(byte);
    }
    memory->size = static_cast<uint32_t>(trace->bytes.size()) - memory->first;
    return std::nullopt;
  }
  return "one of mr, offset, bytes";
}

void WriteState(const Program& program, const SeenState& state, const Emit& emit) {
  emit("qp", ObjectWord(program, state.qp), false);
  emit("state", QpStateWord(state.state), false);
  emit("cached", QpStateWord(state.cached), false);
}

Refusal ReadState(const Program& program, std::string_view key, std::string_view word,
                  SeenState* state) {
  if (key == "qp") return Take(ObjectFromWord(program, word), kAnObject, &state->qp);
  if (key == "state") return Take(QpStateFromWord(word), "RESET ... ERR, or -", &state->state);
  if (key == "cached") return Take(QpStateFromWord(word), "RESET ... ERR, or -", &state->cached);
  return "one of qp, state, cached";
}

namespace {
// query_qp records attributes, the other queries what names.h lists.
bool HoldsAttributes(const Program& program, const Event& event) {
  return event.call < program.calls.size() && program.calls[event.call].kind == CallKind::kQuery;
}
}  // namespace

void WriteValue(const Program& program, const Event& event, const SeenValue& value,
                const Emit& emit) {
  std::string key(HoldsAttributes(program, event) ? InfoOf(static_cast<AttrField>(value.field)).word
                                                  : QueriedWord(static_cast<Queried>(value.field)));
  emit(key, std::to_string(value.value), true);
}

Refusal ReadValue(const Program& program, const Event& event, std::string_view key,
                  std::string_view word, SeenValue* value) {
  if (HoldsAttributes(program, event)) {
    auto field = AttributeByWord(key);
    if (!field) return "the word of an attribute of a QP, as modify takes it";
    value->field = static_cast<uint16_t>(*field);
  } else {
    auto field = QueriedFromWord(key);
    if (!field) return "a queried value, such as max_qp_wr";
    value->field = static_cast<uint16_t>(*field);
  }
  return ReadNumber(word, &value->value);
}

Refusal ReadLint(std::string_view word, const char** lint) {
  // A Trace holds lints as static strings; the catalogue's views are not terminated ones, so each
  // clause that occurs is kept once for the life of the process.
  static std::mutex mutex;
  static std::set<std::string, std::less<>> kept;
  if (catalogue::Find(word) == nullptr)
    return "the id of a clause (see `qpexam clauses`), such as WR-SET-002";
  std::lock_guard<std::mutex> lock(mutex);
  *lint = kept.emplace(word).first->c_str();
  return std::nullopt;
}

}  // namespace qpexam::trace_fields
