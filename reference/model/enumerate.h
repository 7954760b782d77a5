// The Chooser that walks through every way the model allows: run the same calls again and again,
// each time with another sequence of answers, until all have been given (litmus tests).
//
//   Enumerator all({ChoicePoint::kReadLate, ChoicePoint::kAtomicTable});
//   do {
//     ... a fresh fabric with SetChooser(&all), the calls, note the outcome ...
//   } while (all.Next());
#ifndef QPEXAM_REFERENCE_MODEL_ENUMERATE_H_
#define QPEXAM_REFERENCE_MODEL_ENUMERATE_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "reference/model/choice.h"

namespace qpexam::model {

class Enumerator : public Chooser {
 public:
  // Only these points vary; every other answers 0, the reference's way.
  explicit Enumerator(std::vector<ChoicePoint> points) : points_(std::move(points)) {}

  unsigned Pick(ChoicePoint point, unsigned count) override {
    if (std::find(points_.begin(), points_.end(), point) == points_.end()) return 0;
    if (at_ == path_.size()) path_.push_back({0, count});
    return path_[at_++].answer;
  }

  // The next sequence of answers, in the order of an odometer; false when there is none.
  bool Next() {
    path_.resize(at_);  // answers that this run did not ask for are forgotten
    at_ = 0;
    ++runs_;
    while (!path_.empty()) {
      if (++path_.back().answer < path_.back().count) return true;
      path_.pop_back();
    }
    return false;
  }
  unsigned runs() const { return runs_; }

 private:
  struct Answer {
    unsigned answer, count;
  };
  std::vector<ChoicePoint> points_;
  std::vector<Answer> path_;
  size_t at_ = 0;
  unsigned runs_ = 0;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_ENUMERATE_H_
