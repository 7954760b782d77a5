// Which rule of the reference carries each clause: data for `qpexam clauses`, one line a clause.
#ifndef QPEXAM_REFERENCE_MODEL_CARRIED_H_
#define QPEXAM_REFERENCE_MODEL_CARRIED_H_

#include <string_view>
#include <vector>

namespace qpexam::model {

struct Carrier {
  std::string_view clause;
  std::string_view place;  // a function, a table or a file of reference/
  std::string_view how;    // one sentence
};
const std::vector<Carrier>& AllCarriers();
// nullptr for a clause that is in no line: conformance/catalogue/exempt.tsv says why.
const Carrier* CarrierOf(std::string_view clause);

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_CARRIED_H_
