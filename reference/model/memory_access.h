// Keys to memory: what an lkey, an rkey or a window lets a queue pair touch.
#ifndef QPEXAM_REFERENCE_MODEL_MEMORY_ACCESS_H_
#define QPEXAM_REFERENCE_MODEL_MEMORY_ACCESS_H_

#include <cstdint>
#include <vector>

#include "reference/model/objects.h"
#include "reference/model/request.h"
#include "reference/model/rules.h"
#include "reference/model/types.h"

namespace qpexam::model {

class Fabric;
class Qp;

struct Segment {
  uint8_t* data;
  uint64_t size;
};
using Segments = std::vector<Segment>;

enum class LocalUse : uint8_t { kRead, kWrite };

// Appends the memory of one SGE of a QP or SRQ in `pd`. An SGE of length 0 needs no key
// (WR-SGE-006).
LocalFault ResolveLocal(Fabric& fabric, const Pd* pd, const Sge& sge, LocalUse use, Segments* out);

// What a request asks of remote memory.
struct RemoteUse {
  Rkey rkey;
  RemoteAddr addr;
  uint64_t length = 0;
  unsigned rights = 0;  // IBV_ACCESS_REMOTE_*, FLUSH_*
  enum class Range : uint8_t { kChecked, kWholeRegion } range = Range::kChecked;
};

// The responder's memory by an rkey: of an MR in its PD, or of a window bound for it. `pd` is the
// PD that keys are held to; nullptr where the service has none (XRC without a live SRQ).
RemoteFault ResolveRemote(Fabric& fabric, const Qp& responder, const Pd* pd, const RemoteUse& use,
                          uint8_t** out);

// Copies whole segments in order; the shorter side ends it.
void CopySegments(Span<const Segment> from, Span<const Segment> to);
inline Span<const Segment> All(const Segments& segments) {
  return {segments.data(), segments.size()};
}
inline Span<const Segment> Only(const Segment& segment) { return {&segment, 1}; }

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_MEMORY_ACCESS_H_
