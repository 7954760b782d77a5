#include "harness/program/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/program/attributes.h"
#include "harness/program/print.h"
#include "harness/program/schema.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

struct Token {
  std::string_view text;
  uint32_t column;  // from 1
};

bool IsSpace(char c) { return c == ' ' || c == '\t'; }

// Distance for "did you mean": insertions, deletions, substitutions; at most `limit`.
int EditDistance(std::string_view a, std::string_view b, int limit) {
  if (a.size() > 40 || b.size() > 40) return limit;
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return std::min(row[b.size()], limit);
}

// The nearest of some words, or "".
class Nearest {
 public:
  explicit Nearest(std::string_view wanted) : wanted_(wanted) {}
  void Offer(std::string_view word) {
    const int d = EditDistance(wanted_, word, best_distance_);
    if (d < best_distance_) {
      best_distance_ = d;
      best_ = word;
    }
  }
  std::string_view best() const { return best_; }
  std::string Sentence(std::string_view otherwise) const {
    return best_.empty() ? std::string(otherwise) : fmt::format("did you mean '{}'?", best_);
  }

 private:
  std::string_view wanted_;
  std::string_view best_;
  int best_distance_ = 4;
};

std::optional<uint64_t> ParseUnsigned(std::string_view text) {
  uint64_t value = 0;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    if (text.size() > 18) return std::nullopt;
    for (char c : text.substr(2)) {
      int digit;
      if (c >= '0' && c <= '9') {
        digit = c - '0';
      } else if (c >= 'a' && c <= 'f') {
        digit = c - 'a' + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = c - 'A' + 10;
      } else {
        return std::nullopt;
      }
      value = value << 4 | static_cast<uint64_t>(digit);
    }
    return value;
  }
  if (text.empty()) return std::nullopt;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (value > (~uint64_t{0} - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : text_(text) { result_.error.file = file; }

  ParseResult Run() {
    if (Parse()) {
      result_.program = std::move(program_);
      result_.ok = true;
    }
    return std::move(result_);
  }

 private:
  bool Parse();
  bool CheckText();
  bool Line(std::string_view line);
  bool Tokenize(std::string_view line, std::vector<Token>* tokens);
  bool Directive(const std::vector<Token>& tokens, bool* done);
  bool CallLine(const std::vector<Token>& tokens, size_t first);
  bool Positional(const Field& field, const Token& token, Call* call);
  bool Value(const Field& field, Token value, Call* call);
  bool Named(const CallSchema& schema, const Token& token, std::vector<std::string_view>* given,
             Call* call);

  bool Number(Token token, uint64_t max, uint64_t* out);
  bool FlagsValue(Token token, Names names, uint64_t max, uint64_t* out);
  bool EnumValue(Token token, Names names, uint64_t max, uint64_t* out);
  bool ObjectName(Token token, KindMask kinds, ObjectId* out);
  bool MemValue(Token token, MemRef* out);
  bool KeyValue(Token token, KindMask kinds, KeyRef* out);
  bool HexBytes(Token token, std::vector<uint8_t>* out);
  // Calls each(element) for the parts between commas.
  template <typename F>
  bool List(Token token, F each);

  bool Fail(uint32_t column, std::string what, std::string remedy) {
    result_.error.line = line_;
    result_.error.column = column;
    result_.error.what = std::move(what);
    result_.error.remedy = std::move(remedy);
    return false;
  }

  std::string_view text_;
  uint32_t line_ = 0;
  bool seen_anything_ = false;  // a directive or a call
  ParseResult result_;
  Program program_;
  std::unordered_map<std::string, ObjectId> names_;
  std::vector<ObjectId> threads_;
  std::unique_ptr<Validator> validator_;
};

bool Parser::CheckText() {
  if (text_.empty()) {
    return Fail(0, "the file is empty",
                "a Program is text that begins with 'qpx 1'; see docs/program.md");
  }
  uint32_t line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < text_.size(); ++i) {
    const auto c = static_cast<unsigned char>(text_[i]);
    if (c == '\n') {
      ++line;
      line_start = i + 1;
    }
    if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f) {
      line_ = line;
      return Fail(
          static_cast<uint32_t>(i - line_start + 1),
          fmt::format("byte {:#04x}: this is not a text Program", c),
          "give the text form; a fuzzer's bytes are turned into it by 'qpexam fmt --bytes'");
    }
  }
  return true;
}

bool Parser::Parse() {
  if (!CheckText()) return false;
  size_t start = 0;
  while (start < text_.size()) {
    size_t end = text_.find('\n', start);
    if (end == std::string_view::npos) end = text_.size();
    std::string_view line = text_.substr(start, end - start);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    ++line_;
    if (!Line(line)) return false;
    start = end + 1;
  }
  if (!seen_anything_) {
    line_ = 0;
    return Fail(0, "the file holds no call",
                "write calls, one a line, such as 'qp a rc'; see docs/program.md");
  }
  if (validator_ && validator_->in_parallel()) {
    return Fail(1, "the file ends between parallel and join", "write join at its end");
  }
  // Blank lines at the end are no part of the Program.
  while (!program_.notes.empty() && program_.notes.back().blank &&
         program_.notes.back().call == program_.calls.size()) {
    program_.notes.pop_back();
  }
  return true;
}

bool Parser::Tokenize(std::string_view line, std::vector<Token>* tokens) {
  size_t i = 0;
  while (i < line.size()) {
    if (IsSpace(line[i])) {
      ++i;
      continue;
    }
    if (line[i] == '#') {
      // A comment's text, without trailing blanks so that printing is stable.
      std::string_view comment = line.substr(i + 1);
      while (!comment.empty() && (IsSpace(comment.back()) || comment.back() == '\r')) {
        comment.remove_suffix(1);
      }
      const auto calls = static_cast<uint32_t>(program_.calls.size());
      program_.notes.push_back({calls, !tokens->empty(), std::string(comment), false});
      return true;
    }
    size_t end = i;
    while (end < line.size() && !IsSpace(line[end])) {
      const auto c = static_cast<unsigned char>(line[end]);
      if (c >= 0x80 || c == '\r') {
        return Fail(static_cast<uint32_t>(end + 1),
                    fmt::format("byte {:#04x} outside a comment", c),
                    "names, words and numbers are ASCII");
      }
      ++end;
    }
    tokens->push_back({line.substr(i, end - i), static_cast<uint32_t>(i + 1)});
    i = end;
  }
  return true;
}

bool Parser::Line(std::string_view line) {
  std::vector<Token> tokens;
  const size_t notes_before = program_.notes.size();
  if (!Tokenize(line, &tokens)) return false;
  if (tokens.empty()) {
    // One empty line stays one; more of them, and those at the start, become none.
    if (program_.notes.size() == notes_before && seen_anything_ &&
        !(program_.notes.size() && program_.notes.back().blank &&
          program_.notes.back().call == program_.calls.size())) {
      program_.notes.push_back({static_cast<uint32_t>(program_.calls.size()), false, "", true});
    }
    return true;
  }
  bool directive = false;
  if (!Directive(tokens, &directive)) return false;
  if (directive) {
    // A comment behind a directive has no call to stand behind.
    if (program_.notes.size() > notes_before) program_.notes.back().trailing = false;
    seen_anything_ = true;
    return true;
  }
  if (!validator_) validator_ = std::make_unique<Validator>(program_);
  size_t first = 0;
  uint8_t thread = 0;
  if (tokens[0].text.back() == ':') {
    const std::string name(tokens[0].text.substr(0, tokens[0].text.size() - 1));
    ObjectId id = kNoObject;
    if (!ObjectName({name, tokens[0].column}, KindBit(ObjectKind::kThread), &id)) return false;
    for (size_t t = 0; t < threads_.size(); ++t) {
      if (threads_[t] == id) thread = static_cast<uint8_t>(t + 1);
    }
    first = 1;
    if (tokens.size() == 1) {
      return Fail(tokens[0].column, "a thread without a call", "write the call behind the colon");
    }
  }
  const size_t index = program_.calls.size();
  program_.calls.emplace_back();
  program_.calls[index].thread = thread;
  if (!CallLine(tokens, first)) return false;
  seen_anything_ = true;
  return true;
}

bool Parser::Directive(const std::vector<Token>& tokens, bool* done) {
  const std::string_view word = tokens[0].text;
  if (word != "qpx" && word != "arena" && word != "seed") return true;
  *done = true;
  if (tokens.size() != 2) {
    return Fail(tokens[0].column, fmt::format("'{}' takes one number", word),
                fmt::format("write '{} NUMBER'", word));
  }
  uint64_t value = 0;
  if (!Number(tokens[1], ~uint64_t{0}, &value)) return false;
  if (!program_.calls.empty()) {
    return Fail(tokens[0].column, fmt::format("'{}' stands behind a call", word),
                "move it before the first call");
  }
  if (word == "qpx") {
    if (value < 1 || value > static_cast<uint64_t>(kTextVersion)) {
      return Fail(tokens[1].column, fmt::format("version {} of the text form", value),
                  fmt::format("this qpexam reads versions 1 to {}", kTextVersion));
    }
  } else if (word == "arena") {
    if (value > kMaxArena) {
      return Fail(tokens[1].column, fmt::format("an arena of {} bytes", value),
                  fmt::format("ask for at most {}", kMaxArena));
    }
    program_.arena = value;
  } else {
    program_.seed = value;
  }
  return true;
}

bool Parser::CallLine(const std::vector<Token>& tokens, size_t first) {
  const Token& word = tokens[first];
  std::optional<model::Operation> op;
  const CallSchema* schema = SchemaByWord(word.text, &op);
  if (schema == nullptr) {
    Nearest nearest(word.text);
    for (const CallSchema& s : AllSchemas()) nearest.Offer(s.word);
    for (const model::OperationInfo& i : model::AllOperations()) nearest.Offer(i.builder);
    return Fail(word.column, fmt::format("'{}' is no call", word.text),
                nearest.Sentence("a line begins with the name of a call; see docs/program.md"));
  }
  Call& call = program_.calls.back();
  const uint8_t thread = call.thread;
  call = MakeCall(schema->kind);
  call.thread = thread;
  call.line = line_;
  if (op) call.op = *op;

  std::vector<const Field*> positional;
  for (const Field& f : schema->fields) {
    if (f.word.empty() && f.type != FieldType::kAttrs) positional.push_back(&f);
  }
  size_t next = 0;
  std::vector<std::string_view> given;  // words, also of derived fields
  for (size_t t = first + 1; t < tokens.size(); ++t) {
    const Token& token = tokens[t];
    const bool must_fill = next < positional.size() && positional[next]->required;
    bool bare = token.text.find('=') == std::string_view::npos;
    if (bare && !must_fill) {
      for (const Field& f : schema->fields) {
        if (f.type == FieldType::kBool && f.word == token.text) bare = false;
      }
    }
    if (!bare) {
      if (must_fill) {
        return Fail(token.column,
                    fmt::format("'{}' stands before {}", token.text, positional[next]->about),
                    fmt::format("write {} {} first", word.text, positional[next]->about));
      }
      if (!Named(*schema, token, &given, &call)) return false;
      continue;
    }
    if (next == positional.size()) {
      return Fail(token.column, fmt::format("'{}' is not expected here", token.text),
                  "arguments behind the names are written WORD=VALUE; was the line cut off?");
    }
    if (!Positional(*positional[next], token, &call)) return false;
    ++next;
  }
  for (; next < positional.size(); ++next) {
    if (positional[next]->required) {
      const Token& last = tokens.back();
      return Fail(last.column + static_cast<uint32_t>(last.text.size()),
                  fmt::format("{} is missing", positional[next]->about),
                  fmt::format("{}: {}", word.text, schema->about));
    }
  }
  auto was_given = [&](std::string_view w) {
    for (std::string_view g : given) {
      if (g == w) return true;
    }
    return false;
  };
  for (const Field& f : schema->fields) {
    if (f.required && !f.word.empty() && Applies(f, call) && !was_given(f.word)) {
      const Token& last = tokens.back();
      return Fail(last.column + static_cast<uint32_t>(last.text.size()),
                  fmt::format("{}= is missing ({})", f.word, f.about),
                  fmt::format("add {}=... to the line", f.word));
    }
  }
  // Fields that follow from others where they were not given.
  Call derived = call;
  FillDerived(&derived);
  call.ex = derived.ex;
  for (const Field& f : schema->fields) {
    if (f.rule == DefaultRule::kConstant || !Applies(f, call) || was_given(f.word)) continue;
    if (f.type == FieldType::kObject) {
      call.*f.member.object = derived.*f.member.object;
    } else {
      call.*f.member.key = derived.*f.member.key;
    }
  }
  if (std::optional<Invalid> bad = validator_->Add(call)) {
    uint32_t column = word.column;
    for (const Token& t : tokens) {
      if (!bad->word.empty() &&
          t.text.substr(0, bad->word.size() + 1) == std::string(bad->word) + "=") {
        column = t.column;
      }
    }
    return Fail(column, std::move(bad->what), std::move(bad->remedy));
  }
  if (call.kind == CallKind::kThread) threads_.push_back(call.object);
  return true;
}

bool Parser::Positional(const Field& field, const Token& token, Call* call) {
  if (field.type != FieldType::kNewName) return Value(field, token, call);
  if (!IsName(token.text)) {
    return Fail(token.column, fmt::format("'{}' is not a name", token.text), kNameRule);
  }
  if (program_.objects.size() >= kNoObject) {
    return Fail(token.column, fmt::format("more than {} objects", kNoObject - 1), "");
  }
  const auto id = static_cast<ObjectId>(program_.objects.size());
  if (!names_.emplace(std::string(token.text), id).second) {
    return Fail(token.column, fmt::format("'{}' is made twice", token.text),
                "choose another name; a destroyed object's name is not free again");
  }
  program_.objects.push_back({*Makes(call->kind), std::string(token.text)});
  validator_->NoteObjects();
  call->object = id;
  return true;
}

bool Parser::Named(const CallSchema& schema, const Token& token,
                   std::vector<std::string_view>* given, Call* call) {
  const size_t equals = token.text.find('=');
  const std::string_view word = token.text.substr(0, equals);
  const Field* found = nullptr;
  bool other_operation = false;
  bool has_attributes = false;
  for (const Field& f : schema.fields) {
    if (f.type == FieldType::kAttrs) has_attributes = true;
    if (f.word.empty() || f.word != word) continue;
    if (Applies(f, *call)) {
      found = &f;
    } else {
      other_operation = true;
    }
  }
  Token value{equals == std::string_view::npos ? std::string_view() : token.text.substr(equals + 1),
              token.column + static_cast<uint32_t>(word.size()) + 1};
  if (found == nullptr && has_attributes) {
    const std::optional<AttrField> attribute = AttributeByWord(word);
    if (attribute && Takes(call->kind, *attribute)) {
      const AttributeInfo& info = InfoOf(*attribute);
      uint64_t number = 0;
      const bool read = *attribute == AttrField::kAccessFlags
                            ? FlagsValue(value, info.names, info.max, &number)
                        : info.names.size ? EnumValue(value, info.names, info.max, &number)
                                          : Number(value, info.max, &number);
      if (!read) return false;
      call->attrs.emplace_back(*attribute, number);
      return true;
    }
  }
  if (found == nullptr) {
    if (other_operation) {
      return Fail(token.column, fmt::format("{} takes no {}", model::Info(call->op).builder, word),
                  "remove it");
    }
    Nearest nearest(word);
    for (const Field& f : schema.fields) {
      if (!f.word.empty() && Applies(f, *call)) nearest.Offer(f.word);
    }
    if (has_attributes) {
      for (int a = 0; a < kAttrFieldCount; ++a) {
        const auto attribute = static_cast<AttrField>(a);
        if (Takes(call->kind, attribute)) nearest.Offer(InfoOf(attribute).word);
      }
    }
    std::string all;
    for (const Field& f : schema.fields) {
      if (f.word.empty() || !Applies(f, *call)) continue;
      if (!all.empty()) all += ' ';
      all += f.word;
    }
    return Fail(token.column, fmt::format("{} has no argument '{}'", WordOf(*call), word),
                nearest.Sentence(all.empty() ? std::string("it takes none") : "it takes: " + all));
  }
  for (std::string_view g : *given) {
    if (g == found->word) {
      return Fail(token.column, fmt::format("{} is given twice", word), "remove one");
    }
  }
  given->push_back(found->word);
  if (found->type == FieldType::kBool) {
    if (equals != std::string_view::npos) {
      return Fail(token.column, fmt::format("{} takes no value", word),
                  fmt::format("write '{}' alone", word));
    }
    SetNumber(*found, call, 1);
    return true;
  }
  return Value(*found, value, call);
}

bool Parser::Value(const Field& f, Token token, Call* call) {
  uint64_t number = 0;
  switch (f.type) {
    case FieldType::kNewName:
      return false;
    case FieldType::kObject:
      return ObjectName(token, f.kinds, &(call->*f.member.object));
    case FieldType::kQueue: {
      Token name = token;
      const size_t dot = token.text.find('.');
      if (dot != std::string_view::npos) {
        const std::string_view side = token.text.substr(dot + 1);
        name.text = token.text.substr(0, dot);
        if (side == "send") {
          call->side = Side::kSend;
        } else if (side == "recv") {
          call->side = Side::kRecv;
        } else {
          return Fail(token.column + static_cast<uint32_t>(dot) + 1,
                      fmt::format("'{}' is no side of a QP", side), "write .send or .recv");
        }
      }
      return ObjectName(
          name, dot == std::string_view::npos ? KindBit(ObjectKind::kCq) : KindBit(ObjectKind::kQp),
          &call->object);
    }
    case FieldType::kNumber:
      if (!Number(token, f.max, &number)) return false;
      SetNumber(f, call, number);
      return true;
    case FieldType::kFlags:
      if (!FlagsValue(token, f.names, f.max, &number)) return false;
      SetNumber(f, call, number);
      return true;
    case FieldType::kEnum:
      if (!EnumValue(token, f.names, f.max, &number)) return false;
      SetNumber(f, call, number);
      return true;
    case FieldType::kBool:
      return false;
    case FieldType::kQpType: {
      const std::optional<model::QpType> type = model::QpTypeByName(token.text);
      if (!type) {
        return Fail(token.column, fmt::format("'{}' is no QP type", token.text),
                    "write rc, uc, ud, xrc_send, xrc_recv, raw_packet or srd");
      }
      call->qp_type = *type;
      return true;
    }
    case FieldType::kOperation:
      for (const model::OperationInfo& info : model::AllOperations()) {
        if (info.builder == token.text) {
          call->op = info.op;
          return true;
        }
      }
      {
        Nearest nearest(token.text);
        for (const model::OperationInfo& info : model::AllOperations()) nearest.Offer(info.builder);
        return Fail(token.column, fmt::format("'{}' is no operation", token.text),
                    nearest.Sentence("write send, rdma_write, ..."));
      }
    case FieldType::kFault:
      for (const NamedValue& n : FaultNames()) {
        if (n.name == token.text) {
          call->fault = static_cast<Fault>(n.value);
          return true;
        }
      }
      return Fail(token.column, fmt::format("'{}' is no fault", token.text),
                  "write lose_request, lose_ack, duplicate_request or rnr");
    case FieldType::kKey:
      return KeyValue(token, f.kinds, &(call->*f.member.key));
    case FieldType::kMem:
      return MemValue(token, &call->addr);
    case FieldType::kSgeList:
      return List(token, [&](Token element) {
        SgeArg sge;
        const size_t at = element.text.find('@');
        const size_t colon = element.text.find(':');
        if (colon == std::string_view::npos || colon > at) {
          return Fail(element.column, fmt::format("'{}' has no length", element.text),
                      "write ADDR:LEN or ADDR:LEN@LKEY");
        }
        if (!MemValue({element.text.substr(0, colon), element.column}, &sge.addr)) return false;
        const Token length{
            element.text.substr(colon + 1, at == std::string_view::npos ? at : at - colon - 1),
            element.column + static_cast<uint32_t>(colon) + 1};
        if (!Number(length, 0xffffffff, &sge.len)) return false;
        sge.lkey.object = sge.addr.mr;
        if (at != std::string_view::npos &&
            !KeyValue({element.text.substr(at + 1), element.column + static_cast<uint32_t>(at) + 1},
                      KindBit(ObjectKind::kMr), &sge.lkey)) {
          return false;
        }
        call->sge.push_back(sge);
        return true;
      });
    case FieldType::kBufList:
      return List(token, [&](Token element) {
        BufArg buf;
        const size_t colon = element.text.find(':');
        if (colon == std::string_view::npos) {
          return Fail(element.column, fmt::format("'{}' has no length", element.text),
                      "write ADDR:LEN");
        }
        if (!MemValue({element.text.substr(0, colon), element.column}, &buf.addr)) return false;
        if (!Number(
                {element.text.substr(colon + 1), element.column + static_cast<uint32_t>(colon) + 1},
                ~uint64_t{0}, &buf.len)) {
          return false;
        }
        call->bufs.push_back(buf);
        return true;
      });
    case FieldType::kBytes:
      return HexBytes(token, &call->bytes);
    case FieldType::kAttrs:
      return false;
  }
  return false;
}

template <typename F>
bool Parser::List(Token token, F each) {
  size_t start = 0;
  size_t count = 0;
  while (true) {
    const size_t comma = token.text.find(',', start);
    const std::string_view element =
        token.text.substr(start, comma == std::string_view::npos ? comma : comma - start);
    if (++count > kMaxList) {
      return Fail(token.column, fmt::format("more than {} elements", kMaxList), "give fewer");
    }
    if (!each(Token{element, token.column + static_cast<uint32_t>(start)})) return false;
    if (comma == std::string_view::npos) return true;
    start = comma + 1;
  }
}

bool Parser::Number(Token token, uint64_t max, uint64_t* out) {
  const std::optional<uint64_t> value = ParseUnsigned(token.text);
  if (!value) {
    return Fail(token.column, fmt::format("'{}' is not a number", token.text),
                "write a decimal number or 0x and hexadecimal digits, below 2^64");
  }
  if (*value > max) {
    return Fail(token.column, fmt::format("{} is too large", token.text),
                fmt::format("the largest number here is {}", max));
  }
  *out = *value;
  return true;
}

bool Parser::FlagsValue(Token token, Names names, uint64_t max, uint64_t* out) {
  *out = 0;
  size_t start = 0;
  while (true) {
    const size_t bar = token.text.find('|', start);
    const std::string_view part =
        token.text.substr(start, bar == std::string_view::npos ? bar : bar - start);
    const auto column = token.column + static_cast<uint32_t>(start);
    bool named = false;
    for (const NamedValue& n : names) {
      if (n.name == part) {
        *out |= n.value;
        named = true;
      }
    }
    if (!named) {
      uint64_t bits = 0;
      if (part.empty() || part[0] < '0' || part[0] > '9') {
        Nearest nearest(part);
        for (const NamedValue& n : names) nearest.Offer(n.name);
        std::string all;
        for (const NamedValue& n : names) fmt::format_to(std::back_inserter(all), " {}", n.name);
        return Fail(column, fmt::format("'{}' is no flag here", part),
                    nearest.Sentence("write names joined by '|', or a number; names:" + all));
      }
      if (!Number({part, column}, max, &bits)) return false;
      *out |= bits;
    }
    if (bar == std::string_view::npos) return true;
    start = bar + 1;
  }
}

bool Parser::EnumValue(Token token, Names names, uint64_t max, uint64_t* out) {
  for (const NamedValue& n : names) {
    if (n.name == token.text) {
      *out = n.value;
      return true;
    }
  }
  if (!token.text.empty() && token.text[0] >= '0' && token.text[0] <= '9') {
    return Number(token, max, out);
  }
  std::string all;
  for (const NamedValue& n : names) fmt::format_to(std::back_inserter(all), " {}", n.name);
  return Fail(token.column, fmt::format("'{}' is no value here", token.text),
              "write a number or one of:" + all);
}

bool Parser::ObjectName(Token token, KindMask kinds, ObjectId* out) {
  const auto found = names_.find(std::string(token.text));
  if (found == names_.end()) {
    if (!IsName(token.text)) {
      return Fail(token.column, fmt::format("'{}' is not a name", token.text), kNameRule);
    }
    Nearest nearest(token.text);
    for (const Object& o : program_.objects) {
      if (kinds & KindBit(o.kind)) nearest.Offer(o.name);
    }
    std::string_view kind = "an object";
    for (int k = 0; k < kObjectKindCount; ++k) {
      if (kinds == (1u << k)) kind = KindWord(static_cast<ObjectKind>(k));
    }
    return Fail(
        token.column, fmt::format("'{}' is used before it is made", token.text),
        nearest.Sentence(fmt::format("make it on an earlier line: {} {} ...", kind, token.text)));
  }
  const ObjectKind kind = program_.objects[found->second].kind;
  if (!(kinds & KindBit(kind))) {
    std::string wanted;
    for (int k = 0; k < kObjectKindCount; ++k) {
      if (kinds & (1u << k)) {
        if (!wanted.empty()) wanted += " or ";
        wanted += KindWord(static_cast<ObjectKind>(k));
      }
    }
    return Fail(token.column, fmt::format("'{}' is a {}", token.text, KindWord(kind)),
                fmt::format("name a {}", wanted));
  }
  *out = found->second;
  return true;
}

bool Parser::MemValue(Token token, MemRef* out) {
  if (token.text.empty()) {
    return Fail(token.column, "an address is missing", "write MR+OFFSET or 0x...");
  }
  if (token.text[0] >= '0' && token.text[0] <= '9') {
    uint64_t address = 0;
    if (!Number(token, ~uint64_t{0}, &address)) return false;
    out->mr = kNoObject;
    out->offset = static_cast<int64_t>(address);
    return true;
  }
  const size_t sign = token.text.find_first_of("+-");
  if (!ObjectName({token.text.substr(0, sign), token.column}, KindBit(ObjectKind::kMr), &out->mr)) {
    return false;
  }
  out->offset = 0;
  if (sign == std::string_view::npos) return true;
  uint64_t offset = 0;
  const Token digits{token.text.substr(sign + 1), token.column + static_cast<uint32_t>(sign) + 1};
  if (!Number(digits, uint64_t{1} << 63, &offset)) return false;
  if (token.text[sign] == '-') {
    out->offset = static_cast<int64_t>(~offset + 1);
  } else if (offset >> 63) {
    return Fail(digits.column, "the offset is too large", "offsets are below 2^63");
  } else {
    out->offset = static_cast<int64_t>(offset);
  }
  return true;
}

bool Parser::KeyValue(Token token, KindMask kinds, KeyRef* out) {
  *out = KeyRef{};
  if (token.text.empty()) {
    return Fail(token.column, "a key is missing", "write a name, a name^BITS or a number");
  }
  uint64_t number = 0;
  if (token.text[0] >= '0' && token.text[0] <= '9') {
    if (!Number(token, 0xffffffff, &number)) return false;
    out->flip = static_cast<uint32_t>(number);
    return true;
  }
  std::string_view rest = token.text;
  const size_t flip = rest.find('^');
  if (flip != std::string_view::npos) {
    if (!Number({rest.substr(flip + 1), token.column + static_cast<uint32_t>(flip) + 1}, 0xffffffff,
                &number)) {
      return false;
    }
    out->flip = static_cast<uint32_t>(number);
    rest = rest.substr(0, flip);
  }
  const size_t plus = rest.find('+');
  if (plus != std::string_view::npos) {
    if (!Number({rest.substr(plus + 1), token.column + static_cast<uint32_t>(plus) + 1}, 0xff,
                &number)) {
      return false;
    }
    out->inc = static_cast<uint8_t>(number);
    rest = rest.substr(0, plus);
  }
  return ObjectName({rest, token.column}, kinds, &out->object);
}

bool Parser::HexBytes(Token token, std::vector<uint8_t>* out) {
  constexpr std::string_view kRemedy = "write two hexadecimal digits a byte";
  if (token.text.size() % 2) {
    return Fail(token.column, "an odd number of hexadecimal digits", std::string(kRemedy));
  }
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < token.text.size(); i += 2) {
    const int high = digit(token.text[i]), low = digit(token.text[i + 1]);
    if (high < 0 || low < 0) {
      return Fail(token.column + static_cast<uint32_t>(i),
                  fmt::format("'{}' are not hexadecimal digits", token.text.substr(i, 2)),
                  std::string(kRemedy));
    }
    out->push_back(static_cast<uint8_t>(high << 4 | low));
  }
  return true;
}

}  // namespace

std::string ParseError::Message() const {
  std::string out = file.empty() ? std::string("program") : file;
  if (line) out += fmt::format(":{}", line);
  if (line && column) out += fmt::format(":{}", column);
  out += ": " + what;
  if (!remedy.empty()) out += "\n  " + remedy;
  return out;
}

ParseResult ParseProgram(std::string_view text, std::string_view file) {
  return Parser(text, file).Run();
}

ParseResult LoadProgram(const std::string& path) {
  ParseResult result;
  result.error.file = path;
  auto fail = [&](std::string what, std::string remedy) {
    result.error.what = std::move(what);
    result.error.remedy = std::move(remedy);
    return std::move(result);
  };
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return fail(fmt::format("cannot be opened: {}", std::strerror(errno)),
                "give the path of a .qpx file");
  }
  std::string text;
  char block[65536];
  size_t got;
  bool too_long = false;
  while ((got = std::fread(block, 1, sizeof(block), file)) > 0) {
    text.append(block, got);
    if (text.size() > kMaxTextBytes) {
      too_long = true;
      break;
    }
  }
  const int error = std::ferror(file) ? errno : 0;
  if (file != stdin) std::fclose(file);
  if (error) {
    return fail(fmt::format("cannot be read: {}", std::strerror(error)),
                "give the path of a .qpx file, not of a folder");
  }
  if (too_long) {
    return fail(fmt::format("is longer than {} bytes", kMaxTextBytes), "split the Program");
  }
  return ParseProgram(text, path == "-" ? "standard input" : path);
}

}  // namespace qpexam
