#include "harness/fuzz/finding_key.h"

#include <algorithm>
#include <cctype>

#include "harness/program/schema.h"
#include "reference/model/ops.h"

namespace qpexam {
namespace {

std::string WordAt(const Program& program, uint32_t call) {
  return call < program.calls.size() ? std::string(WordOf(program.calls[call])) : "end";
}

// "rc" where the call, or the queue it polls, is of a queue pair.
std::string TypeAt(const Program& program, uint32_t index) {
  if (index >= program.calls.size()) return "";
  const ObjectId object = program.calls[index].object;
  if (object >= program.objects.size() || program.objects[object].kind != ObjectKind::kQp)
    return "";
  for (const Call& call : program.calls)
    if (call.kind == CallKind::kQp && call.object == object)
      return std::string(model::Name(call.qp_type));
  return "";
}

// The first function of the report's stack that is the provider's or ours, "mlx5_send_wr_start";
// the kind of error where there is no stack.
std::string PlaceOf(const std::string& report) {
  for (size_t at = report.find("\n    #"); at != std::string::npos;
       at = report.find("\n    #", at + 1)) {
    const size_t in = report.find(" in ", at);
    if (in == std::string::npos || in > at + 40) continue;
    const std::string function =
        report.substr(in + 4, report.find_first_of(" (\n", in + 4) - in - 4);
    const std::string line = report.substr(at, report.find('\n', at + 1) - at);
    if (line.find("sanitizer") != std::string::npos || line.find("libc") != std::string::npos ||
        function.find("asan") != std::string::npos || function.rfind("__", 0) == 0 ||
        function == "memcpy" || function == "memset")
      continue;
    return function;
  }
  // "file.c:12:3: runtime error: ..." names its place itself.
  const size_t runtime = report.find(": runtime error:");
  if (runtime != std::string::npos) {
    const size_t start = report.find_last_of("/\n ", runtime - 1);
    return report.substr(start + 1, runtime - start - 1);
  }
  return "";
}

// The first words of a message: numbers, 0x3eb among them, differ from one Program to the next, and
// how many digits they have must not move what is cut off.
std::string WordsOf(const std::string& text) {
  constexpr size_t kMost = 48;
  std::string words;
  for (size_t i = 0; i < text.size() && words.size() < kMost; i++) {
    const bool hex = text.compare(i, 2, "0x") == 0;
    if (hex) i += 2;
    const auto in_number = [&](char c) {
      return hex ? std::isxdigit(static_cast<unsigned char>(c)) != 0
                 : std::isdigit(static_cast<unsigned char>(c)) != 0;
    };
    if (!hex && !in_number(text[i])) {
      words += text[i];
      continue;
    }
    while (i < text.size() && in_number(text[i])) i++;
    i--;
  }
  return words;
}

}  // namespace

std::string FindingKey::Text() const {
  std::string text = kind;
  for (const std::string* part : {&clause, &call, &place})
    if (!part->empty()) text += " " + *part;
  return text;
}

std::string FindingKey::Id() const {
  std::string id = Text();
  for (char& c : id)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = '-';
  return id.substr(0, 120);
}

std::vector<FindingKey> KeysOf(const Program& program, const RunResult& result) {
  std::vector<FindingKey> keys;
  auto add = [&](FindingKey key) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
  };
  const std::string call = WordAt(program, result.fatal_call);
  switch (result.ended) {
    case Ended::kWell:
      break;
    case Ended::kCrash:
      add({"crash", "", call, TypeAt(program, result.fatal_call)});
      return keys;
    case Ended::kHang:
      add({"hang", "", call, TypeAt(program, result.fatal_call)});
      return keys;
    case Ended::kSanitizer:
      add({"sanitizer", "", call, PlaceOf(result.fatal)});
      return keys;
    case Ended::kOurs:
      add({"internal", "", call, PlaceOf(result.fatal)});
      return keys;
  }
  for (const SessionFinding& f : result.below) add({f.kind, f.clause, "", WordsOf(f.what)});
  for (const judge::Finding& f : result.verdict.findings)
    if (f.kind == judge::FindingKind::kViolation && !f.emulated)
      add({"violation", f.clause, WordAt(program, f.call), TypeAt(program, f.call)});
  return keys;
}

}  // namespace qpexam
