// Table B of the catalogue as data: which ibv_modify_qp() edges are legal for a QP type, and which
// attributes each edge requires and permits. Used by the engine, the judge and the generator.
#ifndef QPEXAM_REFERENCE_MODEL_TRANSITIONS_H_
#define QPEXAM_REFERENCE_MODEL_TRANSITIONS_H_

#include <infiniband/verbs.h>

#include <iterator>
#include <string_view>

#include "reference/model/ops.h"

namespace qpexam::model {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;  // IBV_QP_* bits without IBV_QP_STATE
  int optional;
};

// The edge, or nullptr where Table B1 has none for this type.
const Transition* FindTransition(QpType type, ibv_qp_state from, ibv_qp_state to);

enum class ModifyVerdict : uint8_t {
  kAllowed,             // a device may still refuse SQD edges and SQE->RTS
  kRefused,             // clause says which
  kCapabilityDependent  // IBV_QP_CAP, IBV_QP_RATE_LIMIT: both outcomes allowed (WR-STATE-010)
};
struct ModifyCheck {
  ModifyVerdict verdict;
  const char* clause;  // WR-STATE-...
  const char* why;     // for messages
  bool may_refuse;     // a legal edge that a device may refuse all the same
  // The caller claims by cur_qp_state that the QP is in another state than it is, from where this
  // would be allowed: a device may go by that ("assume this is the current QP state", M-MOD).
  bool by_claim = false;
};
// Judges state, mask and cur_qp_state; `target` is the present state where IBV_QP_STATE is absent
// (WR-STATE-017).
ModifyCheck CheckModify(QpType type, ibv_qp_state present, int attr_mask, const ibv_qp_attr& attr);

std::string_view StateName(ibv_qp_state state);  // "RESET" ...
// "STATE|PKEY_INDEX|..." for messages and the Program text; ParseAttrMask is its inverse.
std::string_view AttrName(int single_bit);

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_TRANSITIONS_H_
