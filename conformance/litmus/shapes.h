// The shapes of shapes.tsv, taken apart. enumerate.py says what the steps of a program mean.

#ifndef QPEXAM_CONFORMANCE_LITMUS_SHAPES_H_
#define QPEXAM_CONFORMANCE_LITMUS_SHAPES_H_

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace qpexam::conformance::litmus {

struct Shape {
  const char *id, *init, *program, *show, *allowed, *forbidden, *verdict, *confidence, *clause;
  const char* model;  // "all", or why the reference's model shows fewer of the allowed outcomes
};
constexpr Shape kShapes[] = {
#include "conformance/litmus/shapes.inc"
};

using Step = std::vector<std::string>;
using Thread = std::vector<Step>;

inline std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

inline std::vector<Thread> Threads(const std::string& program) {
  std::vector<Thread> threads(1);
  Step step;
  for (const std::string& word : Words(program)) {
    const bool end = word == "||" || word.back() == ';';
    if (word != "||") step.push_back(word.back() == ';' ? word.substr(0, word.size() - 1) : word);
    if (!end) continue;
    threads.back().push_back(step);
    step.clear();
    if (word == "||") threads.emplace_back();
  }
  threads.back().push_back(step);
  return threads;
}

// "1,*,0" against "1,2,0".
inline bool Matches(const std::string& pattern, const std::string& outcome) {
  std::istringstream a(pattern), b(outcome);
  std::string x, y;
  while (std::getline(a, x, ',') && std::getline(b, y, ','))
    if (x != "*" && x != y) return false;
  return true;
}

inline bool IsAllowed(const Shape& shape, const std::string& outcome) {
  const std::vector<std::string> allowed = Words(shape.allowed);
  const std::vector<std::string> forbidden = Words(shape.forbidden);
  return (allowed[0] == "*" ||
          std::find(allowed.begin(), allowed.end(), outcome) != allowed.end()) &&
         std::none_of(forbidden.begin(), forbidden.end(), [&](const std::string& pattern) {
           return pattern != "-" && Matches(pattern, outcome);
         });
}

}  // namespace qpexam::conformance::litmus

#endif  // QPEXAM_CONFORMANCE_LITMUS_SHAPES_H_
