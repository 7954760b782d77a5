#include "reference/model/carried.h"

namespace qpexam::model {

const std::vector<Carrier>& AllCarriers() {
  static const auto* const all = new std::vector<Carrier>{
#define QPEXAM_CARRIES(clause, place, how) {clause, place, how},
#include "reference/model/carried.inc"
#undef QPEXAM_CARRIES
  };
  return *all;
}

const Carrier* CarrierOf(std::string_view clause) {
  for (const Carrier& carrier : AllCarriers()) {
    if (carrier.clause == clause) return &carrier;
  }
  return nullptr;
}

}  // namespace qpexam::model
