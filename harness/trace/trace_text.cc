#include "harness/trace/trace_text.h"

#include <vector>

#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/trace/fields.h"
#include "harness/trace/names.h"

namespace qpexam {
namespace {

constexpr std::string_view kMagic = "qpexam-trace 1";
// Where the comment of an event's line begins, so that the calls stand in a column.
constexpr size_t kCommentColumn = 50;

// A field's word stands between spaces: nothing that a word can contain needs quoting except the
// empty one.
void AppendField(std::string* out, std::string_view key, std::string_view word) {
  out->append(" ").append(key).append("=").append(word);
}

template <typename Write>
void AppendLine(std::string* out, std::string_view head, Write write) {
  out->append("  ").append(head);
  write([out](std::string_view key, std::string word, bool) { AppendField(out, key, word); });
  out->append("\n");
}

// What ended a run may be many lines of a sanitizer's report; the form has one line for it.
std::string OneLine(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out;
}

std::string FromOneLine(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      i++;
      out += text[i] == 'n' ? '\n' : text[i];
    } else {
      out += text[i];
    }
  }
  return out;
}

void AppendEvent(std::string* out, const Program& program, const Trace& trace, const Event& event) {
  size_t start = out->size();
  out->append("@").append(event.call == kEndOfRun ? "end" : std::to_string(event.call));
  trace_fields::WriteEvent(program, event, [out](std::string_view key, std::string word, bool) {
    AppendField(out, key, word);
  });
  if (event.call < program.calls.size()) {
    size_t width = out->size() - start;
    out->append(width < kCommentColumn ? kCommentColumn - width : 1, ' ');
    out->append(" # ").append(PrintCall(program, program.calls[event.call]));
  }
  out->append("\n");
  for (const SeenCompletion& c : trace.CompletionsOf(event))
    AppendLine(out, "wc",
               [&](const auto& emit) { trace_fields::WriteCompletion(program, c, emit); });
  for (const SeenMemory& m : trace.MemoryOf(event))
    AppendLine(out, "mem",
               [&](const auto& emit) { trace_fields::WriteMemory(program, trace, m, emit); });
  for (const SeenState& s : trace.StatesOf(event))
    AppendLine(out, "state", [&](const auto& emit) { trace_fields::WriteState(program, s, emit); });
  for (const SeenValue& v : trace.ValuesOf(event))
    AppendLine(out, "value",
               [&](const auto& emit) { trace_fields::WriteValue(program, event, v, emit); });
  for (const char* lint : trace.LintsOf(event)) out->append("  lint ").append(lint).append("\n");
}

// ---------------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(std::string_view text, TraceFile* file) : rest_(text), file_(file) {}

  std::optional<TraceError> Read() {
    *file_ = TraceFile();
    if (!Next() || line_ != kMagic)
      return Error("this is not a trace", "a trace begins with the line: " + std::string(kMagic));
    if (!Next() || line_.substr(0, 9) != "provider ")
      return Error("no provider", "the second line is: provider NAME VERSION");
    std::string_view provider = line_.substr(9);
    size_t space = provider.find(' ');
    trace().provider = std::string(provider.substr(0, space));
    if (space != std::string_view::npos) trace().version = std::string(provider.substr(space + 1));
    if (!Next() || line_ != "program")
      return Error("no program", "the third line is: program; then each of its lines after \"| \"");
    if (auto error = ReadProgram()) return error;
    if (line_ != "events") return Error("no events", "after the program comes the line: events");
    while (Next()) {
      if (line_.empty()) continue;
      if (auto error = ReadLine()) return error;
    }
    if (!IsWhole(trace()))
      return Error("the trace ends early",
                   "a whole one ends with @end, or with fatal where the run did not");
    return std::nullopt;
  }

 private:
  Trace& trace() { return file_->trace; }

  bool Next() {
    if (rest_.empty()) {
      line_ = {};
      return false;
    }
    size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
    number_++;
    return true;
  }

  TraceError Error(std::string what, std::string remedy) const {
    return {number_, std::move(what), std::move(remedy)};
  }

  std::optional<TraceError> ReadProgram() {
    std::string text;
    uint32_t first = number_ + 1;
    while (Next() && !line_.empty() && line_[0] == '|') {
      std::string_view line = line_.substr(1);
      if (!line.empty() && line[0] == ' ') line.remove_prefix(1);
      text.append(line).append("\n");
    }
    ParseResult parsed = ParseProgram(text, "");
    if (!parsed.ok)
      return TraceError{first - 1 + parsed.error.line, "in the program: " + parsed.error.what,
                        parsed.error.remedy};
    file_->program = std::move(parsed.program);
    return std::nullopt;
  }

  // Splits "head key=word key=word # comment" and gives each field to `take`.
  template <typename Take>
  std::optional<TraceError> Fields(std::string_view fields, Take take) {
    while (true) {
      size_t start = fields.find_first_not_of(' ');
      if (start == std::string_view::npos || fields[start] == '#') return std::nullopt;
      fields.remove_prefix(start);
      std::string_view field = fields.substr(0, fields.find(' '));
      fields.remove_prefix(field.size());
      size_t equals = field.find('=');
      if (equals == std::string_view::npos)
        return Error("\"" + std::string(field) + "\" has no value", "write it as key=value");
      std::string_view key = field.substr(0, equals), word = field.substr(equals + 1);
      if (trace_fields::Refusal wanted = take(key, word))
        return Error("cannot read " + std::string(field), "expected " + *wanted);
    }
  }

  std::optional<TraceError> ReadLine() {
    if (line_[0] == '@') return ReadEvent();
    if (line_.substr(0, 6) == "fatal ") {
      trace().fatal = FromOneLine(line_.substr(6));
      return std::nullopt;
    }
    if (trace().events.empty())
      return Error("a line before the first event", "an event begins with @ and the call's number");
    size_t start = line_.find_first_not_of(' ');
    if (start == std::string_view::npos) return std::nullopt;
    std::string_view body = line_.substr(start);
    std::string_view head = body.substr(0, body.find(' '));
    std::string_view fields = body.substr(head.size());
    Event& event = trace().events.back();
    const Program& program = file_->program;
    if (head == "wc") {
      return Append(&trace().completions, &event.completions, fields,
                    [&](auto key, auto word, SeenCompletion* c) {
                      return trace_fields::ReadCompletion(program, key, word, c);
                    });
    }
    if (head == "mem") {
      return Append(&trace().memory, &event.memory, fields,
                    [&](auto key, auto word, SeenMemory* m) {
                      return trace_fields::ReadMemory(program, key, word, &trace(), m);
                    });
    }
    if (head == "state") {
      return Append(&trace().states, &event.states, fields, [&](auto key, auto word, SeenState* s) {
        return trace_fields::ReadState(program, key, word, s);
      });
    }
    if (head == "value") {
      return Append(&trace().values, &event.values, fields, [&](auto key, auto word, SeenValue* v) {
        return trace_fields::ReadValue(program, event, key, word, v);
      });
    }
    if (head == "lint") {
      std::string_view word = body.size() > 5 ? body.substr(5) : std::string_view();
      const char* lint = nullptr;
      if (trace_fields::Refusal wanted = trace_fields::ReadLint(word, &lint))
        return Error("unknown clause \"" + std::string(word) + "\"", "expected " + *wanted);
      if (event.lints.count++ == 0) event.lints.first = uint32_t(trace().lints.size());
      trace().lints.push_back(lint);
      return std::nullopt;
    }
    return Error("unknown line \"" + std::string(head) + "\"",
                 "expected @CALL, wc, mem, state, value, lint or fatal");
  }

  template <typename T, typename Take>
  std::optional<TraceError> Append(std::vector<T>* all, Range* range, std::string_view fields,
                                   Take take) {
    T item;
    if (auto error = Fields(fields, [&](auto key, auto word) { return take(key, word, &item); }))
      return error;
    if (range->count++ == 0) range->first = static_cast<uint32_t>(all->size());
    all->push_back(item);
    return std::nullopt;
  }

  std::optional<TraceError> ReadEvent() {
    Event event;
    std::string_view number = line_.substr(1, line_.find(' ') - 1);
    if (number == "end") {
      event.call = kEndOfRun;
    } else {
      uint64_t call = 0;
      for (char c : number) {
        if (c < '0' || c > '9' || call > 0xffffffff)
          return Error("\"@" + std::string(number) + "\" names no call",
                       "write @ and the number of the call, from 0, or @end");
        call = call * 10 + static_cast<uint64_t>(c - '0');
      }
      if (number.empty() || call >= file_->program.calls.size())
        return Error("\"@" + std::string(number) + "\" names no call",
                     "the program in this file has calls 0 to " +
                         std::to_string(int64_t(file_->program.calls.size()) - 1));
      event.call = static_cast<uint32_t>(call);
    }
    auto error = Fields(line_.substr(1 + number.size()), [&](auto key, auto word) {
      return trace_fields::ReadEvent(file_->program, key, word, &event);
    });
    trace().events.push_back(event);
    return error;
  }

  std::string_view rest_;
  TraceFile* file_;
  std::string_view line_;
  uint32_t number_ = 0;
};

}  // namespace

std::string TraceError::ToString(std::string_view file) const {
  std::string text(file);
  if (line != 0) text += ":" + std::to_string(line);
  return text + ": " + what + "; " + remedy;
}

std::string PrintEvent(const Program& program, const Trace& trace, const Event& event) {
  std::string out;
  AppendEvent(&out, program, trace, event);
  return out;
}

std::string PrintCompletion(const Program& program, const SeenCompletion& completion) {
  std::string out;
  trace_fields::WriteCompletion(
      program, completion,
      [&out](std::string_view key, std::string word, bool) { AppendField(&out, key, word); });
  return out.substr(1);
}

std::string PrintTrace(const Program& program, const Trace& trace) {
  std::string out(kMagic);
  out += "\nprovider " + trace.provider + " " + trace.version + "\nprogram\n";
  std::string text = PrintProgram(program);
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    out += end == at ? "|" : "| ";
    out.append(text, at, end - at).append("\n");
    at = end + 1;
  }
  out += "events\n";
  for (const Event& event : trace.events) AppendEvent(&out, program, trace, event);
  if (!trace.fatal.empty()) out += "fatal " + OneLine(trace.fatal) + "\n";
  return out;
}

bool IsWhole(const Trace& trace) {
  return !trace.fatal.empty() || (!trace.events.empty() && trace.events.back().call == kEndOfRun);
}

std::optional<TraceError> ParseTrace(std::string_view text, TraceFile* file) {
  return Reader(text, file).Read();
}

std::optional<TraceError> ReadTrace(std::string_view text, TraceFile* file) {
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos)
    return TraceError{0, "the file is empty", "write one with: qpexam run PROGRAM --trace=FILE"};
  return text[first] == '{' ? ParseTraceJson(text, file) : ParseTrace(text, file);
}

}  // namespace qpexam
