// The attributes of ibv_modify_qp() and of address handles: their words, mask bits and sizes as
// data, and the ibv_qp_attr that a Program's `connect` and `modify` calls mean.
#ifndef QPEXAM_HARNESS_PROGRAM_ATTRIBUTES_H_
#define QPEXAM_HARNESS_PROGRAM_ATTRIBUTES_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "harness/program/program.h"
#include "harness/program/schema.h"

namespace qpexam {

inline constexpr uint32_t kDefaultQkey = 0x11111111;

struct AttributeInfo {
  AttrField field;
  std::string_view word;  // "retry_cnt"
  int mask;               // the IBV_QP_* bit that carries it
  uint64_t max;           // of the member's C type
  NumberStyle style;
  Names names;  // where values have names
  bool of_ah;   // also a field of ibv_ah_attr
};

const AttributeInfo& InfoOf(AttrField field);
std::optional<AttrField> AttributeByWord(std::string_view word);
// Whether this kind of call takes the attribute (an ah takes only those of ibv_ah_attr).
bool Takes(CallKind kind, AttrField field);

// The last value given for a field.
std::optional<uint64_t> Given(const Call& call, AttrField field);

// What one side knows of the port it should reach.
struct PortAddress {
  uint16_t lid = 0;
  ibv_gid gid{};
  uint8_t sgid_index = 0;  // of the sending side's port
  uint8_t port = 1;        // of the sending side
  bool needs_grh = false;  // RoCE
};

// What `modify` and `connect` must know besides the Call.
struct ModifyFacts {
  model::QpType type{};
  ibv_qp_state present = IBV_QPS_RESET;  // before the call
  uint32_t peer_qpn = 0;                 // of Call::object2, 0 where there is none
  PortAddress path;
};

struct ModifyArgs {
  ibv_qp_attr attr;
  int mask;
};

// The arguments of ibv_modify_qp() for a `modify` call:
//   - with `state=`: IBV_QP_STATE and the attributes that Table B requires for present -> state,
//     with plain values (PlainAttributes);
//   - each attribute given: its value and its mask bit;
//   - `with=` adds bits (with plain values), `without=` takes bits away, `mask=` replaces all.
ModifyArgs ArgsOfModify(const Call& call, const ModifyFacts& facts);

// The arguments of one step of `connect`: to INIT, RTR or RTS, with the attributes that the edge
// requires; a value given on the call replaces the plain one on the step that carries it, and
// an attribute that no step requires is added on the first that permits it.
ModifyArgs ArgsOfConnectStep(const Call& call, const ModifyFacts& facts, ibv_qp_state to);

// Plain values for everything: P_Key index 0, Q_Key 0x11111111, all remote rights the type has,
// path MTU 1024, PSNs 0, 4 outstanding reads, timeout 14, retry counts 3, RNR timer 12.
ibv_qp_attr PlainAttributes(const ModifyFacts& facts);

// The attributes of an `ah` call towards `path`.
ibv_ah_attr AttributesOfAh(const Call& call, const PortAddress& path);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_ATTRIBUTES_H_
