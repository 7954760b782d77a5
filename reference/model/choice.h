// Choice points: where the specification allows several outcomes, the model asks.
//
// A rule is straight-line code; where it may go several ways it calls Pick(point, allowed). Who
// answers is a Chooser: the Default (the reference's way: outcome 0), Enumerate (litmus), or a
// Fault (faulty:NAME adds one outcome that the specification forbids). The judge does not pick: it
// asks rules.h for the whole set and looks which member was observed.
#ifndef QPEXAM_REFERENCE_MODEL_CHOICE_H_
#define QPEXAM_REFERENCE_MODEL_CHOICE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "reference/model/types.h"

namespace qpexam::model {

// One enumerator a choice point; the table in choice.cc gives name, clause, question and the words
// for the outcomes. `qpexam variations` prints that table.
enum class ChoicePoint : uint16_t {
#define QPEXAM_CHOICE(id, name, clause, question, ...) id,
#include "reference/model/choices.inc"
#undef QPEXAM_CHOICE
  kCount
};

struct ChoiceInfo {
  ChoicePoint point;
  std::string_view name;                   // "unsignaled-refused"
  std::string_view clause;                 // "WR-SAMPLE-006"
  std::string_view question;               // one sentence
  std::vector<std::string_view> outcomes;  // outcome 0 is the reference's
};
const ChoiceInfo& Info(ChoicePoint point);
const std::vector<ChoiceInfo>& AllChoices();

// Answers choices. `count` outcomes are allowed; the answer is below it.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual unsigned Pick(ChoicePoint point, unsigned count) = 0;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_CHOICE_H_
