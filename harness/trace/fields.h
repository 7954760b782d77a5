// The parts of a Trace as lists of (key, word): what the text form and the JSON form share, so that
// a field is spelled out once for writing and once for reading.
#ifndef QPEXAM_HARNESS_TRACE_FIELDS_H_
#define QPEXAM_HARNESS_TRACE_FIELDS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "harness/trace/trace.h"

namespace qpexam::trace_fields {

// Receives one field; `number` says that the word is a decimal number.
using Emit = std::function<void(std::string_view key, std::string word, bool number)>;

// What a value should have looked like ("a number below 2^32"); nullopt: it was taken.
using Refusal = std::optional<std::string>;

void WriteEvent(const Program& program, const Event& event, const Emit& emit);
void WriteCompletion(const Program& program, const SeenCompletion& completion, const Emit& emit);
void WriteMemory(const Program& program, const Trace& trace, const SeenMemory& memory,
                 const Emit& emit);
void WriteState(const Program& program, const SeenState& state, const Emit& emit);
void WriteValue(const Program& program, const Event& event, const SeenValue& value,
                const Emit& emit);

// The inverses take one field each. An unknown key is refused with the list of known ones.
Refusal ReadEvent(const Program& program, std::string_view key, std::string_view word,
                  Event* event);
Refusal ReadCompletion(const Program& program, std::string_view key, std::string_view word,
                       SeenCompletion* completion);
Refusal ReadMemory(const Program& program, std::string_view key, std::string_view word,
                   Trace* trace, SeenMemory* memory);
Refusal ReadState(const Program& program, std::string_view key, std::string_view word,
                  SeenState* state);
Refusal ReadValue(const Program& program, const Event& event, std::string_view key,
                  std::string_view word, SeenValue* value);

// A clause as static storage: the catalogue's own text. Refuses one that it does not have.
Refusal ReadLint(std::string_view word, const char** lint);

}  // namespace qpexam::trace_fields

#endif  // QPEXAM_HARNESS_TRACE_FIELDS_H_
