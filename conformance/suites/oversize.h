// What may become of a request that is too large in some way: INL-005, INL-006, SGE-003.

#ifndef QPEXAM_CONFORMANCE_SUITES_OVERSIZE_H_
#define QPEXAM_CONFORMANCE_SUITES_OVERSIZE_H_

#include <functional>
#include <string>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {

// A WRITE whose data the caller gives, and what it should leave at the peer.
struct Oversized {
  Wr wr;  // op, setter, sge or bufs; key and address are filled in
  std::vector<uint8_t> expected;
};

// Posts the request between two canaries and judges `clause`: complete fails and none of the three
// is executed, or the message arrives whole, or the request ends in an error (a warning, as is a
// message sent whole where refusal is SHOULD). `what` goes into messages.
void JudgeOversized(Bed& bed, const PairOptions& options, const char* clause,
                    const std::string& what, const std::function<Oversized(Pair&)>& make);

}  // namespace qpexam::conformance

#endif  // QPEXAM_CONFORMANCE_SUITES_OVERSIZE_H_
