// Table B of the specification, written down a second time for the suites: which ibv_modify_qp()
// edges are legal for a QP type, what each requires and what else it may carry (docs/spec). The
// reference has its own table; that the two agree is what the STATE suite checks.

#ifndef QPEXAM_CONFORMANCE_SUITES_TABLE_B_H_
#define QPEXAM_CONFORMANCE_SUITES_TABLE_B_H_

#include <infiniband/verbs.h>

#include <string>
#include <vector>

namespace qpexam::conformance {

// The six columns of table B2.
enum class Column { kRc, kUc, kUd, kRaw, kXrcSend, kXrcRecv };
const char* Name(Column column);

struct Edge {
  ibv_qp_state from, to;
  int required, optional;  // IBV_QP_* bits without IBV_QP_STATE
};

// Every edge of table B1 with its masks.
const std::vector<Edge>& EdgesOf(Column column);
// nullptr where B1 has none.
const Edge* FindEdge(Column column, ibv_qp_state from, ibv_qp_state to);

// Every attribute bit that a test may add to a mask: all but STATE, CAP and RATE_LIMIT.
const std::vector<int>& TestedBits();
std::string MaskName(int mask);

}  // namespace qpexam::conformance

#endif  // QPEXAM_CONFORMANCE_SUITES_TABLE_B_H_
