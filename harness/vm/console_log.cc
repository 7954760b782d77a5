#include "harness/vm/console_log.h"

#include <cctype>

namespace qpexam::vm {
namespace {

// What a kernel dies of, and what it goes on behind: of that it did not die while there is any of
// the former.
constexpr std::string_view kDeaths[] = {
    "BUG: ", "Oops: ", "general protection fault", "Kernel panic", "kernel BUG at",
};
constexpr std::string_view kComplaints[] = {
    "watchdog: BUG", "INFO: task ",  "rcu: INFO: rcu_",
    "refcount_t: ",  "WARNING: CPU", "Out of memory: Killed",
};
constexpr std::string_view kInit = "qpexam-guest: ";
constexpr std::string_view kRunning = "qpexam-guest: running";

std::string_view LineAt(std::string_view text, size_t at) {
  const size_t before = text.rfind('\n', at);
  const size_t start = before == std::string_view::npos ? 0 : before + 1;
  std::string_view line = text.substr(start, text.find('\n', at) - start);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  return line;
}

// "[    3.1234] text" -> "text"
std::string_view WithoutTime(std::string_view line) {
  if (line.empty() || line.front() != '[') return line;
  const size_t end = line.find("] ");
  if (end == std::string_view::npos) return line;
  for (char c : line.substr(1, end - 1))
    if (!std::isdigit(static_cast<unsigned char>(c)) && c != '.' && c != ' ' && c != 'T' &&
        c != 'C')
      return line;
  return line.substr(end + 2);
}

size_t FirstMark(std::string_view console) {
  size_t first = std::string_view::npos;
  for (std::string_view mark : kDeaths) first = std::min(first, console.find(mark));
  if (first != std::string_view::npos) return first;
  for (std::string_view mark : kComplaints) first = std::min(first, console.find(mark));
  return first;
}

}  // namespace

std::string KernelFailure(std::string_view console) {
  const size_t at = FirstMark(console);
  if (at == std::string_view::npos) return "";
  return std::string(WithoutTime(LineAt(console, at)));
}

std::string KernelReport(std::string_view console, size_t most) {
  const size_t at = FirstMark(console);
  std::string_view report;
  if (at == std::string_view::npos) {
    report = console.substr(console.size() - std::min(console.size(), most));
  } else {
    const size_t before = console.rfind('\n', at);
    report = console.substr(before == std::string_view::npos ? 0 : before + 1, most);
  }
  std::string out;
  for (char c : report)
    if (c != '\r') out += c;
  return out;
}

std::string InitComplaint(std::string_view console) {
  std::string last;
  for (size_t at = console.find(kInit); at != std::string_view::npos;
       at = console.find(kInit, at + 1)) {
    const std::string_view line = LineAt(console, at);
    if (line.find(kRunning) != std::string_view::npos) return "";
    const std::string_view word = line.substr(line.find(kInit) + kInit.size());
    if (word != "up") last = word;
  }
  return last;
}

}  // namespace qpexam::vm
