#include "harness/trace/trace.h"

namespace qpexam {
namespace {

template <typename T>
uint32_t AppendAll(std::vector<T>* all, const std::vector<T>& more) {
  const auto first = static_cast<uint32_t>(all->size());
  all->insert(all->end(), more.begin(), more.end());
  return first;
}

}  // namespace

void Trace::Append(const Trace& other) {
  const uint32_t first_bytes = AppendAll(&bytes, other.bytes);
  const uint32_t first_memory = AppendAll(&memory, other.memory);
  for (size_t i = first_memory; i < memory.size(); i++) memory[i].first += first_bytes;
  const uint32_t first_completion = AppendAll(&completions, other.completions);
  const uint32_t first_state = AppendAll(&states, other.states);
  const uint32_t first_value = AppendAll(&values, other.values);
  const uint32_t first_lint = AppendAll(&lints, other.lints);
  for (Event event : other.events) {
    event.completions.first += first_completion;
    event.memory.first += first_memory;
    event.states.first += first_state;
    event.values.first += first_value;
    event.lints.first += first_lint;
    events.push_back(event);
  }
}

}  // namespace qpexam
