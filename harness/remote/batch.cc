#include "harness/remote/batch.h"

#include <algorithm>
#include <charconv>

#include "harness/program/print.h"

namespace qpexam::remote {
namespace {

constexpr std::string_view kBatchHead = "qpexam-batch 1\n";
constexpr std::string_view kTracesHead = "qpexam-traces 1\n";
// No trace of a Program that can be written is as long; what claims to be is noise.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr size_t kMostLine = 4096;

// Takes " 12" from the front of a line.
bool TakeNumber(std::string_view* line, uint64_t* number) {
  if (line->empty() || line->front() != ' ') return false;
  const char* end = line->data() + line->size();
  const auto [at, error] = std::from_chars(line->data() + 1, end, *number);
  if (error != std::errc()) return false;
  line->remove_prefix(static_cast<size_t>(at - line->data()));
  return true;
}

bool TakeWord(std::string_view* line, std::string_view word) {
  if (line->substr(0, word.size()) != word) return false;
  line->remove_prefix(word.size());
  return true;
}

std::string OneLine(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

// Takes a line from the front.
std::string TakeLine(std::string_view* text) {
  const size_t eol = std::min(text->find('\n'), text->size());
  std::string line(text->substr(0, eol));
  text->remove_prefix(std::min(eol + 1, text->size()));
  return line;
}

}  // namespace

std::string PrintBatch(const std::vector<Program>& programs, const std::vector<size_t>& which) {
  std::string out(kBatchHead);
  for (const size_t i : which) {
    const std::string text = PrintProgram(programs[i], Notes::kDrop);
    out += "program " + std::to_string(i) + " " + std::to_string(text.size()) + "\n" + text + "\n";
  }
  return out + "end\n";
}

bool ParseBatch(std::string_view bytes, std::vector<BatchProgram>* programs, std::string* why) {
  const size_t whole = bytes.size();
  auto wrong = [&](const char* what) {
    *why = std::string(what) + " at byte " + std::to_string(whole - bytes.size());
    return false;
  };
  if (!TakeWord(&bytes, kBatchHead)) return wrong("not a qpexam-batch 1");
  while (true) {
    const size_t eol = bytes.find('\n');
    if (eol == std::string_view::npos) return wrong("the batch ends without \"end\"");
    std::string_view line = bytes.substr(0, eol);
    if (line == "end") return true;
    BatchProgram program;
    uint64_t size = 0;
    if (!TakeWord(&line, "program") || !TakeNumber(&line, &program.index) ||
        !TakeNumber(&line, &size) || !line.empty())
      return wrong("expected \"program INDEX BYTES\" or \"end\"");
    if (size > kMostBytes || bytes.size() - eol - 1 < size + 1)
      return wrong("a program is cut short");
    program.text = bytes.substr(eol + 1, size);
    bytes.remove_prefix(eol + 1 + size);
    if (bytes.front() != '\n') return wrong("expected a newline behind a program");
    bytes.remove_prefix(1);
    programs->push_back(std::move(program));
  }
}

std::string PrintHead(std::string_view device, std::string_view version) {
  return std::string(kTracesHead) + "device " + std::string(device) + " " + std::string(version) +
         "\n";
}
std::string PrintBegin(uint64_t index) { return "begin " + std::to_string(index) + "\n"; }
std::string PrintFinding(uint64_t index, const SessionFinding& finding) {
  const std::string text = OneLine(finding.kind) + "\n" + OneLine(finding.clause) + "\n" +
                           OneLine(finding.what) + "\n" + OneLine(finding.evidence);
  return "finding " + std::to_string(index) + " " + std::to_string(text.size()) + "\n" + text +
         "\n";
}
std::string PrintItem(uint64_t index, std::string_view trace, uint64_t nanoseconds) {
  return "trace " + std::to_string(index) + " " + std::to_string(trace.size()) + " " +
         std::to_string(nanoseconds) + "\n" + std::string(trace) + "\n";
}
std::string PrintEnd() { return "end\n"; }

TraceStream::Parsed TraceStream::Next(Item* item) {
  const size_t eol = rest_.find('\n');
  if (eol == std::string::npos) return rest_.size() > kMostLine ? Parsed::kBad : Parsed::kNotYet;
  std::string_view line = std::string_view(rest_).substr(0, eol);
  if (!headed_) {
    if (rest_.compare(0, kTracesHead.size(), kTracesHead) != 0) return Parsed::kBad;
    headed_ = true;
    rest_.erase(0, kTracesHead.size());
    return Next(item);
  }
  size_t used = eol + 1;
  *item = Item{};
  if (TakeWord(&line, "device ")) {
    item->kind = Item::kDevice;
    item->text = line;
  } else if (TakeWord(&line, "begin")) {
    item->kind = Item::kBegin;
    if (!TakeNumber(&line, &item->index) || !line.empty()) return Parsed::kBad;
  } else if (TakeWord(&line, "trace")) {
    item->kind = Item::kTrace;
    uint64_t size = 0;
    if (!TakeNumber(&line, &item->index) || !TakeNumber(&line, &size) ||
        !TakeNumber(&line, &item->nanoseconds) || !line.empty() || size > kMostBytes)
      return Parsed::kBad;
    if (rest_.size() < used + size + 1) return Parsed::kNotYet;
    item->text = rest_.substr(used, size);
    used += size + 1;
    if (rest_[used - 1] != '\n') return Parsed::kBad;
  } else if (TakeWord(&line, "finding")) {
    item->kind = Item::kFinding;
    uint64_t size = 0;
    if (!TakeNumber(&line, &item->index) || !TakeNumber(&line, &size) || !line.empty() ||
        size > kMostBytes)
      return Parsed::kBad;
    if (rest_.size() < used + size + 1) return Parsed::kNotYet;
    std::string_view text = std::string_view(rest_).substr(used, size);
    item->finding.kind = TakeLine(&text);
    item->finding.clause = TakeLine(&text);
    item->finding.what = TakeLine(&text);
    item->finding.evidence = TakeLine(&text);
    used += size + 1;
    if (rest_[used - 1] != '\n') return Parsed::kBad;
  } else if (line == "end") {
    item->kind = Item::kEnd;
  } else {
    return Parsed::kBad;
  }
  rest_.erase(0, used);
  return Parsed::kItem;
}

bool TraceStream::Feed(std::string_view bytes, std::vector<Item>* items) {
  if (bad_) return false;
  rest_.append(bytes);
  while (true) {
    Item item;
    const Parsed parsed = Next(&item);
    if (parsed == Parsed::kNotYet) return true;
    if (parsed == Parsed::kBad) {
      bad_ = true;
      return false;
    }
    items->push_back(std::move(item));
  }
}

}  // namespace qpexam::remote
