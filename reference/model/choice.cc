#include "reference/model/choice.h"

namespace qpexam::model {

const std::vector<ChoiceInfo>& AllChoices() {
  static const auto* const all = new std::vector<ChoiceInfo>{
#define QPEXAM_CHOICE(id, name, clause, question, ...) \
  {ChoicePoint::id, name, clause, question, {__VA_ARGS__}},
#include "reference/model/choices.inc"
#undef QPEXAM_CHOICE
  };
  return *all;
}

const ChoiceInfo& Info(ChoicePoint point) { return AllChoices()[static_cast<size_t>(point)]; }

}  // namespace qpexam::model
