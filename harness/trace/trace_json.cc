// The JSON form of a Trace: the fields of the text form as members, lists as arrays.
#include <nlohmann/json.hpp>

#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/trace/fields.h"
#include "harness/trace/trace_text.h"

namespace qpexam {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "qpexam-trace/1";

// Numbers of 64 bits do not survive every JSON reader, but every one of ours and Python's; words
// stay strings.
template <typename Write>
Json ObjectOf(Write write) {
  Json object = Json::object();
  write([&object](std::string_view key, std::string word, bool number) {
    if (number) {
      object[std::string(key)] = std::stoull(word);
    } else {
      object[std::string(key)] = std::move(word);
    }
  });
  return object;
}

template <typename List, typename Write>
void AddList(Json* event, const char* key, const List& list, Write write) {
  if (list.empty()) return;
  Json array = Json::array();
  for (const auto& item : list)
    array.push_back(ObjectOf([&](const auto& emit) { write(item, emit); }));
  (*event)[key] = std::move(array);
}

class JsonReader {
 public:
  explicit JsonReader(TraceFile* file) : file_(file) {}

  std::optional<TraceError> Read(std::string_view text) {
    *file_ = TraceFile();
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) return TraceError{0, "this is not JSON", "see qpexam-trace/1"};
    if (!json.is_object() || json.value("schema", Json()) != kSchema)
      return TraceError{0, "this is not a trace",
                        std::string("a trace has \"schema\": \"") + kSchema + "\""};
    for (const char* key : {"provider", "version", "program", "fatal"}) {
      if (json.contains(key) && !json[key].is_string())
        return TraceError{0, std::string("\"") + key + "\" is no string", "write it as a string"};
    }
    Trace& trace = file_->trace;
    trace.provider = json.value("provider", "");
    trace.version = json.value("version", "");
    trace.fatal = json.value("fatal", "");
    ParseResult parsed = ParseProgram(json.value("program", ""), "");
    if (!parsed.ok)
      return TraceError{
          0, "in the program, line " + std::to_string(parsed.error.line) + ": " + parsed.error.what,
          parsed.error.remedy};
    file_->program = std::move(parsed.program);
    if (!json.contains("events") || !json["events"].is_array())
      return TraceError{0, "no events", "\"events\" is an array of objects"};
    for (const Json& event : json["events"]) {
      if (auto error = ReadEvent(event)) return error;
      where_++;
    }
    if (!IsWhole(trace))
      return TraceError{0, "the trace ends early",
                        "a whole one ends with the event \"end\", or has \"fatal\""};
    return std::nullopt;
  }

 private:
  TraceError Error(std::string what, std::string remedy) const {
    return {0, "event " + std::to_string(where_) + ": " + std::move(what), std::move(remedy)};
  }

  template <typename Take>
  std::optional<TraceError> Fields(const Json& object, Take take) {
    if (!object.is_object()) return Error("not an object", "write {\"key\": value, ...}");
    for (const auto& [key, value] : object.items()) {
      if (value.is_array()) continue;
      std::string word = value.is_string() ? value.template get<std::string>() : value.dump();
      if (trace_fields::Refusal wanted = take(key, word))
        return Error("cannot read \"" + key + "\": " + word, "expected " + *wanted);
    }
    return std::nullopt;
  }

  template <typename T, typename Take>
  std::optional<TraceError> List(const Json& json, const char* key, std::vector<T>* all,
                                 Range* range, Take take) {
    if (!json.contains(key)) return std::nullopt;
    if (!json[key].is_array())
      return Error(std::string("\"") + key + "\" is no array", "write [{...}, ...]");
    range->first = static_cast<uint32_t>(all->size());
    for (const Json& object : json[key]) {
      T item;
      if (auto error =
              Fields(object, [&](const auto& k, const auto& word) { return take(k, word, &item); }))
        return error;
      all->push_back(item);
      range->count++;
    }
    return std::nullopt;
  }

  std::optional<TraceError> ReadEvent(const Json& json) {
    const Program& program = file_->program;
    Trace& trace = file_->trace;
    if (!json.is_object() || !json.contains("call"))
      return Error("no \"call\"", "\"call\" is the number of the call, or \"end\"");
    Event event;
    const Json& call = json["call"];
    if (call == "end") {
      event.call = kEndOfRun;
    } else if (call.is_number_unsigned() && call.get<uint64_t>() < program.calls.size()) {
      event.call = call.get<uint32_t>();
    } else {
      return Error("\"call\" names no call",
                   "a number below " + std::to_string(program.calls.size()) + ", or \"end\"");
    }
    if (auto error = Fields(json, [&](const auto& key, const auto& word) {
          return key == "call" ? trace_fields::Refusal()
                               : trace_fields::ReadEvent(program, key, word, &event);
        }))
      return error;
    if (auto error = List(json, "completions", &trace.completions, &event.completions,
                          [&](const auto& k, const auto& w, SeenCompletion* c) {
                            return trace_fields::ReadCompletion(program, k, w, c);
                          }))
      return error;
    if (auto error = List(json, "memory", &trace.memory, &event.memory,
                          [&](const auto& k, const auto& w, SeenMemory* m) {
                            return trace_fields::ReadMemory(program, k, w, &trace, m);
                          }))
      return error;
    if (auto error = List(json, "states", &trace.states, &event.states,
                          [&](const auto& k, const auto& w, SeenState* s) {
                            return trace_fields::ReadState(program, k, w, s);
                          }))
      return error;
    if (auto error = List(json, "values", &trace.values, &event.values,
                          [&](const auto& k, const auto& w, SeenValue* v) {
                            return trace_fields::ReadValue(program, event, k, w, v);
                          }))
      return error;
    if (json.contains("lints")) {
      event.lints.first = static_cast<uint32_t>(trace.lints.size());
      for (const Json& word : json["lints"]) {
        const char* lint = nullptr;
        trace_fields::Refusal wanted = word.is_string()
                                           ? trace_fields::ReadLint(word.get<std::string>(), &lint)
                                           : trace_fields::Refusal("a string");
        if (wanted) return Error("unknown lint " + word.dump(), "expected " + *wanted);
        trace.lints.push_back(lint);
        event.lints.count++;
      }
    }
    trace.events.push_back(event);
    return std::nullopt;
  }

  TraceFile* file_;
  size_t where_ = 0;
};

}  // namespace

std::string TraceToJson(const Program& program, const Trace& trace) {
  Json json;
  json["schema"] = kSchema;
  json["provider"] = trace.provider;
  json["version"] = trace.version;
  json["program"] = PrintProgram(program);
  Json events = Json::array();
  for (const Event& event : trace.events) {
    Json one = Json::object();
    if (event.call == kEndOfRun) {
      one["call"] = "end";
    } else {
      one["call"] = event.call;
    }
    one.update(ObjectOf([&](const auto& emit) { trace_fields::WriteEvent(program, event, emit); }));
    AddList(&one, "completions", trace.CompletionsOf(event),
            [&](const SeenCompletion& c, const auto& emit) {
              trace_fields::WriteCompletion(program, c, emit);
            });
    AddList(&one, "memory", trace.MemoryOf(event), [&](const SeenMemory& m, const auto& emit) {
      trace_fields::WriteMemory(program, trace, m, emit);
    });
    AddList(&one, "states", trace.StatesOf(event), [&](const SeenState& s, const auto& emit) {
      trace_fields::WriteState(program, s, emit);
    });
    AddList(&one, "values", trace.ValuesOf(event), [&](const SeenValue& v, const auto& emit) {
      trace_fields::WriteValue(program, event, v, emit);
    });
    if (event.lints.count != 0) {
      Json lints = Json::array();
      for (const char* lint : trace.LintsOf(event)) lints.push_back(lint);
      one["lints"] = std::move(lints);
    }
    events.push_back(std::move(one));
  }
  json["events"] = std::move(events);
  if (!trace.fatal.empty()) json["fatal"] = trace.fatal;
  // A crash report may hold any byte; what is not UTF-8 is replaced rather than refused.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<TraceError> ParseTraceJson(std::string_view text, TraceFile* file) {
  return JsonReader(file).Read(text);
}

}  // namespace qpexam
