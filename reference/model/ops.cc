#include "reference/model/ops.h"

namespace qpexam::model {
namespace {

constexpr QpTypeMask kRC = MaskOf(QpType::kRc), kUC = MaskOf(QpType::kUc),
                     kUD = MaskOf(QpType::kUd), kXS = MaskOf(QpType::kXrcSend),
                     kRAW = MaskOf(QpType::kRawPacket), kSRD = MaskOf(QpType::kSrd);

// What a row says of its operation beside the types.
enum Trait : unsigned {
  kNoSendWr = 1,    // struct ibv_send_wr cannot express it
  kRkey = 2,        // names remote memory
  kReadAtomic = 4,  // FENCE waits for it
  kSolicited = 8,
  kNoSrqn = 16,  // no QP setter on XRC_SEND either
};

constexpr OperationInfo Row(Operation op, std::string_view name, std::string_view builder,
                            ibv_wr_opcode wr, ibv_wc_opcode wc, DataRule data, PeerEffect peer,
                            unsigned reference, unsigned optional, unsigned traits) {
  return OperationInfo{op,
                       name,
                       builder,
                       uint64_t{1} << static_cast<int>(op),
                       wr,
                       wc,
                       data,
                       peer,
                       static_cast<QpTypeMask>(reference),
                       static_cast<QpTypeMask>(optional),
                       (traits & kNoSendWr) == 0,
                       (traits & kRkey) != 0,
                       (traits & kReadAtomic) != 0,
                       (traits & kSolicited) != 0,
                       (traits & kNoSrqn) == 0};
}

// Table A, in the order of enum ibv_qp_create_send_ops_flags. SRD (an IBV_QPT_DRIVER type) is
// never the reference's own, so it stands among the optional types.
constexpr std::array<OperationInfo, kOperationCount> kTable = {
    Row(Operation::kRdmaWrite, "RDMA_WRITE", "rdma_write", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE,
        DataRule::kSgeOrInline, PeerEffect::kNone, kRC | kUC | kXS, kSRD, kRkey),
    Row(Operation::kRdmaWriteWithImm, "RDMA_WRITE_WITH_IMM", "rdma_write_imm",
        IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, DataRule::kSgeOrInline,
        PeerEffect::kReceiveRdmaWithImm, kRC | kUC | kXS, kSRD, kRkey | kSolicited),
    Row(Operation::kSend, "SEND", "send", IBV_WR_SEND, IBV_WC_SEND, DataRule::kSgeOrInline,
        PeerEffect::kReceive, kRC | kUC | kUD | kXS | kRAW, kSRD, kSolicited),
    Row(Operation::kSendWithImm, "SEND_WITH_IMM", "send_imm", IBV_WR_SEND_WITH_IMM, IBV_WC_SEND,
        DataRule::kSgeOrInline, PeerEffect::kReceive, kRC | kUC | kUD | kXS, kSRD, kSolicited),
    Row(Operation::kRdmaRead, "RDMA_READ", "rdma_read", IBV_WR_RDMA_READ, IBV_WC_RDMA_READ,
        DataRule::kSge, PeerEffect::kNone, kRC | kXS, kSRD, kRkey | kReadAtomic),
    Row(Operation::kAtomicCmpAndSwp, "ATOMIC_CMP_AND_SWP", "atomic_cmp_swp",
        IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, DataRule::kOneSgeOf8, PeerEffect::kNone,
        kRC | kXS, 0, kRkey | kReadAtomic),
    Row(Operation::kAtomicFetchAndAdd, "ATOMIC_FETCH_AND_ADD", "atomic_fetch_add",
        IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, DataRule::kOneSgeOf8, PeerEffect::kNone,
        kRC | kXS, 0, kRkey | kReadAtomic),
    // Offered on UC by the reference as table A has it; a provider may refuse it there (X4).
    Row(Operation::kLocalInv, "LOCAL_INV", "local_inv", IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV,
        DataRule::kNone, PeerEffect::kNone, kRC | kUC | kXS, kUC, kNoSrqn),
    Row(Operation::kBindMw, "BIND_MW", "bind_mw", IBV_WR_BIND_MW, IBV_WC_BIND_MW, DataRule::kNone,
        PeerEffect::kNone, kRC | kUC | kXS, 0, kNoSrqn),
    Row(Operation::kSendWithInv, "SEND_WITH_INV", "send_inv", IBV_WR_SEND_WITH_INV, IBV_WC_SEND,
        DataRule::kSgeOrInline, PeerEffect::kReceive, kRC | kXS, kUC, kSolicited),
    Row(Operation::kTso, "TSO", "send_tso", IBV_WR_TSO, IBV_WC_TSO, DataRule::kSge,
        PeerEffect::kPackets, kRAW, kUD, 0),
    // Values by number: the headers of rdma-core 44.0 do not name them (WR-ABI-004).
    Row(Operation::kFlush, "FLUSH", "flush", static_cast<ibv_wr_opcode>(14),
        static_cast<ibv_wc_opcode>(8), DataRule::kNoneTolerated, PeerEffect::kNone, kRC | kXS, 0,
        kRkey | kNoSendWr),
    Row(Operation::kAtomicWrite, "ATOMIC_WRITE", "atomic_write", static_cast<ibv_wr_opcode>(15),
        static_cast<ibv_wc_opcode>(9), DataRule::kNone, PeerEffect::kNone, kRC | kXS, 0,
        kRkey | kNoSendWr),
};

struct TypeRow {
  QpType type;
  std::string_view name;
  ibv_qp_type verbs;
};
constexpr TypeRow kTypes[kQpTypeCount] = {
    {QpType::kRc, "rc", IBV_QPT_RC},
    {QpType::kUc, "uc", IBV_QPT_UC},
    {QpType::kUd, "ud", IBV_QPT_UD},
    {QpType::kXrcSend, "xrc_send", IBV_QPT_XRC_SEND},
    {QpType::kXrcRecv, "xrc_recv", IBV_QPT_XRC_RECV},
    {QpType::kRawPacket, "raw_packet", IBV_QPT_RAW_PACKET},
    {QpType::kSrd, "srd", IBV_QPT_DRIVER},
};

}  // namespace

const std::array<OperationInfo, kOperationCount>& AllOperations() { return kTable; }
const OperationInfo& Info(Operation op) { return kTable[static_cast<size_t>(op)]; }

std::optional<Operation> OperationByName(std::string_view name) {
  for (const OperationInfo& info : kTable) {
    if (name == info.builder || name == info.name) return info.op;
  }
  return std::nullopt;
}

std::string_view Name(QpType type) { return kTypes[static_cast<size_t>(type)].name; }

std::optional<QpType> QpTypeByName(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (name == row.name) return row.type;
  }
  return std::nullopt;
}

ibv_qp_type VerbsType(QpType type) { return kTypes[static_cast<size_t>(type)].verbs; }

std::optional<QpType> FromVerbsType(ibv_qp_type type) {
  for (const TypeRow& row : kTypes) {
    if (type == row.verbs) return row.type;
  }
  return std::nullopt;
}

// The mandatory setter of table A's column "QP setter", as X8 reads it.
QpSetter RequiredQpSetter(QpType type, Operation op) {
  if (NeedsAddress(type)) return QpSetter::kUdAddr;
  if (type == QpType::kXrcSend && Info(op).needs_xrc_srqn) return QpSetter::kXrcSrqn;
  return QpSetter::kNone;
}

uint64_t ReferenceSendOps(QpType type) {
  uint64_t ops = 0;
  for (const OperationInfo& info : kTable) {
    if ((info.reference_types & MaskOf(type)) != 0) ops |= info.send_ops_flag;
  }
  return ops;
}

}  // namespace qpexam::model
