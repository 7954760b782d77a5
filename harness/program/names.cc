// The names of flags and enumerators that the text form knows: the header's, without their prefix.
#include "harness/program/schema.h"

namespace qpexam {
namespace {

template <size_t N>
constexpr Names NamesOf(const NamedValue (&table)[N]) {
  return {table, static_cast<int>(N)};
}

constexpr uint64_t kSendOpFlush = 1 << 11, kSendOpAtomicWrite = 1 << 12;

constexpr NamedValue kSendFlags[] = {
    {"FENCE", IBV_SEND_FENCE},   {"SIGNALED", IBV_SEND_SIGNALED}, {"SOLICITED", IBV_SEND_SOLICITED},
    {"INLINE", IBV_SEND_INLINE}, {"IP_CSUM", IBV_SEND_IP_CSUM},
};

constexpr NamedValue kAccess[] = {
    {"LOCAL_WRITE", IBV_ACCESS_LOCAL_WRITE},
    {"REMOTE_WRITE", IBV_ACCESS_REMOTE_WRITE},
    {"REMOTE_READ", IBV_ACCESS_REMOTE_READ},
    {"REMOTE_ATOMIC", IBV_ACCESS_REMOTE_ATOMIC},
    {"MW_BIND", IBV_ACCESS_MW_BIND},
    {"ZERO_BASED", IBV_ACCESS_ZERO_BASED},
    {"ON_DEMAND", IBV_ACCESS_ON_DEMAND},
    {"HUGETLB", IBV_ACCESS_HUGETLB},
    {"FLUSH_GLOBAL", kAccessFlushGlobal},
    {"FLUSH_PERSISTENT", kAccessFlushPersistent},
    {"RELAXED_ORDERING", IBV_ACCESS_RELAXED_ORDERING},
};

constexpr NamedValue kSendOps[] = {
    {"RDMA_WRITE", IBV_QP_EX_WITH_RDMA_WRITE},
    {"RDMA_WRITE_WITH_IMM", IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM},
    {"SEND", IBV_QP_EX_WITH_SEND},
    {"SEND_WITH_IMM", IBV_QP_EX_WITH_SEND_WITH_IMM},
    {"RDMA_READ", IBV_QP_EX_WITH_RDMA_READ},
    {"ATOMIC_CMP_AND_SWP", IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP},
    {"ATOMIC_FETCH_AND_ADD", IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
    {"LOCAL_INV", IBV_QP_EX_WITH_LOCAL_INV},
    {"BIND_MW", IBV_QP_EX_WITH_BIND_MW},
    {"SEND_WITH_INV", IBV_QP_EX_WITH_SEND_WITH_INV},
    {"TSO", IBV_QP_EX_WITH_TSO},
    {"FLUSH", kSendOpFlush},
    {"ATOMIC_WRITE", kSendOpAtomicWrite},
    {"PLAIN", kPlainQp},
};

constexpr NamedValue kWcFlags[] = {
    {"BYTE_LEN", IBV_WC_EX_WITH_BYTE_LEN},
    {"IMM", IBV_WC_EX_WITH_IMM},
    {"QP_NUM", IBV_WC_EX_WITH_QP_NUM},
    {"SRC_QP", IBV_WC_EX_WITH_SRC_QP},
    {"SLID", IBV_WC_EX_WITH_SLID},
    {"SL", IBV_WC_EX_WITH_SL},
    {"DLID_PATH_BITS", IBV_WC_EX_WITH_DLID_PATH_BITS},
    {"COMPLETION_TIMESTAMP", IBV_WC_EX_WITH_COMPLETION_TIMESTAMP},
    {"CVLAN", IBV_WC_EX_WITH_CVLAN},
    {"FLOW_TAG", IBV_WC_EX_WITH_FLOW_TAG},
    {"TM_INFO", IBV_WC_EX_WITH_TM_INFO},
    {"WALLCLOCK", IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK},
};

constexpr NamedValue kCqFlags[] = {
    {"SINGLE_THREADED", IBV_CREATE_CQ_ATTR_SINGLE_THREADED},
    {"IGNORE_OVERRUN", IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN},
};

constexpr NamedValue kQpFlags[] = {
    {"BLOCK_SELF_MCAST_LB", IBV_QP_CREATE_BLOCK_SELF_MCAST_LB},
    {"SCATTER_FCS", IBV_QP_CREATE_SCATTER_FCS},
    {"CVLAN_STRIPPING", IBV_QP_CREATE_CVLAN_STRIPPING},
    {"SOURCE_QPN", IBV_QP_CREATE_SOURCE_QPN},
    {"PCI_WRITE_END_PADDING", IBV_QP_CREATE_PCI_WRITE_END_PADDING},
};

constexpr NamedValue kReregFlags[] = {
    {"TRANSLATION", IBV_REREG_MR_CHANGE_TRANSLATION},
    {"PD", IBV_REREG_MR_CHANGE_PD},
    {"ACCESS", IBV_REREG_MR_CHANGE_ACCESS},
};

constexpr NamedValue kFlushTypes[] = {
    {"GLOBAL", kFlushGlobal},
    {"PERSISTENT", kFlushPersistent},
};
constexpr NamedValue kFlushLevels[] = {{"RANGE", kFlushRange}, {"MR", kFlushMr}};

constexpr NamedValue kAttrMask[] = {
    {"STATE", IBV_QP_STATE},
    {"CUR_STATE", IBV_QP_CUR_STATE},
    {"EN_SQD_ASYNC_NOTIFY", IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {"ACCESS_FLAGS", IBV_QP_ACCESS_FLAGS},
    {"PKEY_INDEX", IBV_QP_PKEY_INDEX},
    {"PORT", IBV_QP_PORT},
    {"QKEY", IBV_QP_QKEY},
    {"AV", IBV_QP_AV},
    {"PATH_MTU", IBV_QP_PATH_MTU},
    {"TIMEOUT", IBV_QP_TIMEOUT},
    {"RETRY_CNT", IBV_QP_RETRY_CNT},
    {"RNR_RETRY", IBV_QP_RNR_RETRY},
    {"RQ_PSN", IBV_QP_RQ_PSN},
    {"MAX_QP_RD_ATOMIC", IBV_QP_MAX_QP_RD_ATOMIC},
    {"ALT_PATH", IBV_QP_ALT_PATH},
    {"MIN_RNR_TIMER", IBV_QP_MIN_RNR_TIMER},
    {"SQ_PSN", IBV_QP_SQ_PSN},
    {"MAX_DEST_RD_ATOMIC", IBV_QP_MAX_DEST_RD_ATOMIC},
    {"PATH_MIG_STATE", IBV_QP_PATH_MIG_STATE},
    {"CAP", IBV_QP_CAP},
    {"DEST_QPN", IBV_QP_DEST_QPN},
    {"RATE_LIMIT", IBV_QP_RATE_LIMIT},
};

constexpr NamedValue kStates[] = {
    {"RESET", IBV_QPS_RESET}, {"INIT", IBV_QPS_INIT}, {"RTR", IBV_QPS_RTR}, {"RTS", IBV_QPS_RTS},
    {"SQD", IBV_QPS_SQD},     {"SQE", IBV_QPS_SQE},   {"ERR", IBV_QPS_ERR},
};

}  // namespace

Names SendFlagNames() { return NamesOf(kSendFlags); }
Names AccessNames() { return NamesOf(kAccess); }
Names SendOpNames() { return NamesOf(kSendOps); }
Names WcFlagNames() { return NamesOf(kWcFlags); }
Names AttrMaskNames() { return NamesOf(kAttrMask); }
Names StateNames() { return NamesOf(kStates); }
Names FaultNames() {
  static constexpr NamedValue kFaults[] = {
      {"lose_request", static_cast<uint64_t>(Fault::kLoseRequest)},
      {"lose_ack", static_cast<uint64_t>(Fault::kLoseAck)},
      {"duplicate_request", static_cast<uint64_t>(Fault::kDuplicateRequest)},
      {"rnr", static_cast<uint64_t>(Fault::kRnr)},
  };
  return NamesOf(kFaults);
}

Names CqFlagNames() { return NamesOf(kCqFlags); }
Names QpFlagNames() { return NamesOf(kQpFlags); }
Names ReregFlagNames() { return NamesOf(kReregFlags); }
Names FlushTypeNames() { return NamesOf(kFlushTypes); }
Names FlushLevelNames() { return NamesOf(kFlushLevels); }

}  // namespace qpexam
