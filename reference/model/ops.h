// Table A of the catalogue as data: operation x QP type x setters x flags, once, for the model,
// the judge, the generator and the reports. (ibv_wr_post(3), with the corrections X1..X9.)
#ifndef QPEXAM_REFERENCE_MODEL_OPS_H_
#define QPEXAM_REFERENCE_MODEL_OPS_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace qpexam::model {

// The value is the bit number in enum ibv_qp_create_send_ops_flags (WR-ABI-004).
enum class Operation : uint8_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kAtomicCmpAndSwp = 5,
  kAtomicFetchAndAdd = 6,
  kLocalInv = 7,
  kBindMw = 8,
  kSendWithInv = 9,
  kTso = 10,
  kFlush = 11,
  kAtomicWrite = 12,
};
inline constexpr int kOperationCount = 13;

enum class QpType : uint8_t { kRc, kUc, kUd, kXrcSend, kXrcRecv, kRawPacket, kSrd };
inline constexpr int kQpTypeCount = 7;

using QpTypeMask = uint8_t;
constexpr QpTypeMask MaskOf(QpType t) { return static_cast<QpTypeMask>(1u << static_cast<int>(t)); }

// Which DATA setter an operation takes.
enum class DataRule : uint8_t {
  kNone,           // BIND_MW, LOCAL_INV, ATOMIC_WRITE: a setter is the caller's error
  kNoneTolerated,  // FLUSH: none needed; one that is called is tolerated with a lint note (X2)
  kSgeOrInline,    // SEND*, RDMA_WRITE*
  kSge,            // RDMA_READ, TSO: inline is the caller's error
  kOneSgeOf8,      // the two atomics: one SGE of 8 bytes
};

// What the responder sees.
enum class PeerEffect : uint8_t { kNone, kReceive, kReceiveRdmaWithImm, kPackets };

struct OperationInfo {
  Operation op;
  std::string_view name;         // "RDMA_WRITE", as in the enum of the header
  std::string_view builder;      // "rdma_write": the Program's word and ibv_wr_* without prefix
  uint64_t send_ops_flag;        // IBV_QP_EX_WITH_*
  ibv_wr_opcode wr_opcode;       // for ibv_post_send; see has_send_wr
  ibv_wc_opcode send_wc_opcode;  // WR-COMP-006
  DataRule data;
  PeerEffect peer;
  QpTypeMask reference_types;  // Table A, column REF
  QpTypeMask optional_types;   // legal to offer, legal to refuse (X4)
  bool has_send_wr;            // struct ibv_send_wr can express it (WR-MIX-005)
  bool takes_rkey;             // names remote memory
  bool is_read_or_atomic;      // FENCE waits for it (WR-ORD-005)
  bool solicited_allowed;      // IBV_SEND_SOLICITED has a meaning (WR-EVT-003)
  bool needs_xrc_srqn;         // on XRC_SEND the setter set_xrc_srqn is mandatory
};

const OperationInfo& Info(Operation op);
const std::array<OperationInfo, kOperationCount>& AllOperations();
// By the Program's word ("rdma_write") or the header's name ("RDMA_WRITE").
std::optional<Operation> OperationByName(std::string_view name);

std::string_view Name(
    QpType type);  // "rc", "uc", "ud", "xrc_send", "xrc_recv", "raw_packet", "srd"
std::optional<QpType> QpTypeByName(std::string_view name);
ibv_qp_type VerbsType(QpType type);
std::optional<QpType> FromVerbsType(ibv_qp_type type);

constexpr bool IsReliable(QpType t) {
  return t == QpType::kRc || t == QpType::kXrcSend || t == QpType::kXrcRecv || t == QpType::kSrd;
}
constexpr bool IsConnected(QpType t) {
  return t == QpType::kRc || t == QpType::kUc || t == QpType::kXrcSend || t == QpType::kXrcRecv;
}
constexpr bool NeedsAddress(QpType t) { return t == QpType::kUd || t == QpType::kSrd; }

// The mandatory QP setter of a type (X8): only UD-like and XRC_SEND have one.
enum class QpSetter : uint8_t { kNone, kUdAddr, kXrcSrqn };
QpSetter RequiredQpSetter(QpType type, Operation op);

// Every send_ops bit that this header defines.
inline constexpr uint64_t kAllSendOps = (1u << kOperationCount) - 1;
// The bits the reference grants to a type.
uint64_t ReferenceSendOps(QpType type);

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_OPS_H_
