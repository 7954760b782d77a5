// Which rule of the reference carries each clause: data for `qpexam clauses`, one line a clause.
#ifndef QPEXAM_REFERENCE_MODEL_CARRIED_H_
#define QPEXAM_REFERENCE_MODEL_CARRIED_H_

#include <string_view>
#include <vector>

namespace qpexam::model {

struct Carrier {
  std::string_view clause;
  std::string_view place;  // a function, a table or a file of reference/; "none" where nothing does
  std::string_view how;    // one sentence; for "none", why not
};
const std::vector<Carrier>& AllCarriers();
// nullptr for a clause that is in no line.
const Carrier* CarrierOf(std::string_view clause);

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_CARRIED_H_
