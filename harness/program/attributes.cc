#include "harness/program/attributes.h"

#include "reference/model/transitions.h"

namespace qpexam {
namespace {

constexpr uint64_t kU8 = 0xff, kU16 = 0xffff, kU32 = 0xffffffff;

constexpr NamedValue kMtus[] = {{"256", IBV_MTU_256},
                                {"512", IBV_MTU_512},
                                {"1024", IBV_MTU_1024},
                                {"2048", IBV_MTU_2048},
                                {"4096", IBV_MTU_4096}};
constexpr Names kMtuNames = {kMtus, 5};

constexpr NamedValue kMigrations[] = {
    {"MIGRATED", IBV_MIG_MIGRATED}, {"REARM", IBV_MIG_REARM}, {"ARMED", IBV_MIG_ARMED}};
constexpr Names kMigrationNames = {kMigrations, 3};

const AttributeInfo* Table() {
  constexpr auto kDec = NumberStyle::kDecimal, kHex = NumberStyle::kHex;
  static const AttributeInfo table[kAttrFieldCount] = {
      {AttrField::kState, "state", IBV_QP_STATE, kU8, kDec, StateNames(), false},
      {AttrField::kCurState, "cur_state", IBV_QP_CUR_STATE, kU8, kDec, StateNames(), false},
      {AttrField::kEnSqdAsyncNotify,
       "en_sqd_async_notify",
       IBV_QP_EN_SQD_ASYNC_NOTIFY,
       kU8,
       kDec,
       {},
       false},
      {AttrField::kAccessFlags, "access", IBV_QP_ACCESS_FLAGS, kU32, kDec, AccessNames(), false},
      {AttrField::kPkeyIndex, "pkey_index", IBV_QP_PKEY_INDEX, kU16, kDec, {}, false},
      {AttrField::kPort, "port", IBV_QP_PORT, kU8, kDec, {}, false},
      {AttrField::kQkey, "qkey", IBV_QP_QKEY, kU32, kHex, {}, false},
      {AttrField::kAvDlid, "dlid", IBV_QP_AV, kU16, kDec, {}, true},
      {AttrField::kAvSl, "sl", IBV_QP_AV, kU8, kDec, {}, true},
      {AttrField::kAvSrcPathBits, "src_path_bits", IBV_QP_AV, kU8, kDec, {}, true},
      {AttrField::kAvStaticRate, "static_rate", IBV_QP_AV, kU8, kDec, {}, true},
      {AttrField::kAvPort, "ah_port", IBV_QP_AV, kU8, kDec, {}, true},
      {AttrField::kAvIsGlobal, "is_global", IBV_QP_AV, kU8, kDec, {}, true},
      {AttrField::kAvSgidIndex, "sgid_index", IBV_QP_AV, kU8, kDec, {}, true},
      {AttrField::kAvFlowLabel, "flow_label", IBV_QP_AV, kU32, kHex, {}, true},
      {AttrField::kAvTrafficClass, "traffic_class", IBV_QP_AV, kU8, kDec, {}, true},
      {AttrField::kAvHopLimit, "hop_limit", IBV_QP_AV, kU8, kDec, {}, true},
      {AttrField::kPathMtu, "path_mtu", IBV_QP_PATH_MTU, kU8, kDec, kMtuNames, false},
      {AttrField::kTimeout, "timeout", IBV_QP_TIMEOUT, kU8, kDec, {}, false},
      {AttrField::kRetryCnt, "retry_cnt", IBV_QP_RETRY_CNT, kU8, kDec, {}, false},
      {AttrField::kRnrRetry, "rnr_retry", IBV_QP_RNR_RETRY, kU8, kDec, {}, false},
      {AttrField::kRqPsn, "rq_psn", IBV_QP_RQ_PSN, kU32, kHex, {}, false},
      {AttrField::kMaxRdAtomic, "max_rd_atomic", IBV_QP_MAX_QP_RD_ATOMIC, kU8, kDec, {}, false},
      {AttrField::kAltDlid, "alt_dlid", IBV_QP_ALT_PATH, kU16, kDec, {}, false},
      {AttrField::kAltPort, "alt_port", IBV_QP_ALT_PATH, kU8, kDec, {}, false},
      {AttrField::kAltTimeout, "alt_timeout", IBV_QP_ALT_PATH, kU8, kDec, {}, false},
      {AttrField::kMinRnrTimer, "min_rnr_timer", IBV_QP_MIN_RNR_TIMER, kU8, kDec, {}, false},
      {AttrField::kSqPsn, "sq_psn", IBV_QP_SQ_PSN, kU32, kHex, {}, false},
      {AttrField::kMaxDestRdAtomic,
       "max_dest_rd_atomic",
       IBV_QP_MAX_DEST_RD_ATOMIC,
       kU8,
       kDec,
       {},
       false},
      {AttrField::kPathMigState, "path_mig_state", IBV_QP_PATH_MIG_STATE, kU8, kDec,
       kMigrationNames, false},
      {AttrField::kCapMaxSendWr, "max_send_wr", IBV_QP_CAP, kU32, kDec, {}, false},
      {AttrField::kCapMaxRecvWr, "max_recv_wr", IBV_QP_CAP, kU32, kDec, {}, false},
      {AttrField::kCapMaxSendSge, "max_send_sge", IBV_QP_CAP, kU32, kDec, {}, false},
      {AttrField::kCapMaxRecvSge, "max_recv_sge", IBV_QP_CAP, kU32, kDec, {}, false},
      {AttrField::kCapMaxInline, "max_inline_data", IBV_QP_CAP, kU32, kDec, {}, false},
      {AttrField::kDestQpn, "dest_qpn", IBV_QP_DEST_QPN, kU32, kDec, {}, false},
      {AttrField::kRateLimit, "rate_limit", IBV_QP_RATE_LIMIT, kU32, kDec, {}, false},
  };
  return table;
}

void SetAh(AttrField field, uint64_t value, ibv_ah_attr* ah) {
  switch (field) {
    case AttrField::kAvDlid:
      ah->dlid = static_cast<uint16_t>(value);
      break;
    case AttrField::kAvSl:
      ah->sl = static_cast<uint8_t>(value);
      break;
    case AttrField::kAvSrcPathBits:
      ah->src_path_bits = static_cast<uint8_t>(value);
      break;
    case AttrField::kAvStaticRate:
      ah->static_rate = static_cast<uint8_t>(value);
      break;
    case AttrField::kAvPort:
      ah->port_num = static_cast<uint8_t>(value);
      break;
    case AttrField::kAvIsGlobal:
      ah->is_global = static_cast<uint8_t>(value);
      break;
    case AttrField::kAvSgidIndex:
      ah->grh.sgid_index = static_cast<uint8_t>(value);
      break;
    case AttrField::kAvFlowLabel:
      ah->grh.flow_label = static_cast<uint32_t>(value);
      break;
    case AttrField::kAvTrafficClass:
      ah->grh.traffic_class = static_cast<uint8_t>(value);
      break;
    case AttrField::kAvHopLimit:
      ah->grh.hop_limit = static_cast<uint8_t>(value);
      break;
    default:
      break;
  }
}

void Set(AttrField field, uint64_t value, ibv_qp_attr* attr) {
  const auto u8 = static_cast<uint8_t>(value);
  const auto u16 = static_cast<uint16_t>(value);
  const auto u32 = static_cast<uint32_t>(value);
  switch (field) {
    case AttrField::kState:
      attr->qp_state = static_cast<ibv_qp_state>(u8);
      break;
    case AttrField::kCurState:
      attr->cur_qp_state = static_cast<ibv_qp_state>(u8);
      break;
    case AttrField::kEnSqdAsyncNotify:
      attr->en_sqd_async_notify = u8;
      break;
    case AttrField::kAccessFlags:
      attr->qp_access_flags = u32;
      break;
    case AttrField::kPkeyIndex:
      attr->pkey_index = u16;
      break;
    case AttrField::kPort:
      attr->port_num = u8;
      break;
    case AttrField::kQkey:
      attr->qkey = u32;
      break;
    case AttrField::kPathMtu:
      attr->path_mtu = static_cast<ibv_mtu>(u8);
      break;
    case AttrField::kTimeout:
      attr->timeout = u8;
      break;
    case AttrField::kRetryCnt:
      attr->retry_cnt = u8;
      break;
    case AttrField::kRnrRetry:
      attr->rnr_retry = u8;
      break;
    case AttrField::kRqPsn:
      attr->rq_psn = u32;
      break;
    case AttrField::kMaxRdAtomic:
      attr->max_rd_atomic = u8;
      break;
    case AttrField::kAltDlid:
      attr->alt_ah_attr.dlid = u16;
      break;
    case AttrField::kAltPort:
      attr->alt_port_num = u8;
      break;
    case AttrField::kAltTimeout:
      attr->alt_timeout = u8;
      break;
    case AttrField::kMinRnrTimer:
      attr->min_rnr_timer = u8;
      break;
    case AttrField::kSqPsn:
      attr->sq_psn = u32;
      break;
    case AttrField::kMaxDestRdAtomic:
      attr->max_dest_rd_atomic = u8;
      break;
    case AttrField::kPathMigState:
      attr->path_mig_state = static_cast<ibv_mig_state>(u8);
      break;
    case AttrField::kCapMaxSendWr:
      attr->cap.max_send_wr = u32;
      break;
    case AttrField::kCapMaxRecvWr:
      attr->cap.max_recv_wr = u32;
      break;
    case AttrField::kCapMaxSendSge:
      attr->cap.max_send_sge = u32;
      break;
    case AttrField::kCapMaxRecvSge:
      attr->cap.max_recv_sge = u32;
      break;
    case AttrField::kCapMaxInline:
      attr->cap.max_inline_data = u32;
      break;
    case AttrField::kDestQpn:
      attr->dest_qp_num = u32;
      break;
    case AttrField::kRateLimit:
      attr->rate_limit = u32;
      break;
    default:
      SetAh(field, value, &attr->ah_attr);
      break;
  }
}

ibv_ah_attr PlainAh(const PortAddress& path) {
  ibv_ah_attr ah{};
  ah.dlid = path.lid;
  ah.port_num = path.port;
  if (path.needs_grh) {
    ah.is_global = 1;
    ah.grh.dgid = path.gid;
    ah.grh.sgid_index = path.sgid_index;
    ah.grh.hop_limit = 64;
  }
  return ah;
}

}  // namespace

const AttributeInfo& InfoOf(AttrField field) { return Table()[static_cast<int>(field)]; }

std::optional<AttrField> AttributeByWord(std::string_view word) {
  for (int i = 0; i < kAttrFieldCount; ++i) {
    if (Table()[i].word == word) return Table()[i].field;
  }
  return std::nullopt;
}

bool Takes(CallKind kind, AttrField field) { return kind != CallKind::kAh || InfoOf(field).of_ah; }

std::optional<uint64_t> Given(const Call& call, AttrField field) {
  for (auto it = call.attrs.rbegin(); it != call.attrs.rend(); ++it) {
    if (it->first == field) return it->second;
  }
  return std::nullopt;
}

ibv_qp_attr PlainAttributes(const ModifyFacts& facts) {
  ibv_qp_attr attr{};
  attr.cur_qp_state = facts.present;
  attr.port_num = facts.path.port;
  attr.qkey = kDefaultQkey;
  // Rights that a service cannot use are refused by some kernels, so each gets its own.
  if (model::IsReliable(facts.type)) {
    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  } else if (facts.type == model::QpType::kUc) {
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  }
  attr.ah_attr = PlainAh(facts.path);
  attr.alt_ah_attr = attr.ah_attr;
  attr.alt_port_num = facts.path.port;
  attr.path_mtu = IBV_MTU_1024;
  attr.timeout = 14;
  attr.retry_cnt = 3;
  attr.rnr_retry = 3;
  attr.max_rd_atomic = 4;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.path_mig_state = IBV_MIG_MIGRATED;
  attr.dest_qp_num = facts.peer_qpn;
  return attr;
}

ModifyArgs ArgsOfModify(const Call& call, const ModifyFacts& facts) {
  ModifyArgs args{PlainAttributes(facts), 0};
  const std::optional<uint64_t> state = Given(call, AttrField::kState);
  // A number that is no state has no transition, and no place in the enumeration.
  if (state && *state <= IBV_QPS_UNKNOWN) {
    const auto to = static_cast<ibv_qp_state>(*state);
    if (const model::Transition* edge = model::FindTransition(facts.type, facts.present, to)) {
      args.mask |= edge->required;
    }
  }
  for (const Attr& a : call.attrs) {
    Set(a.first, a.second, &args.attr);
    args.mask |= InfoOf(a.first).mask;
  }
  args.mask |= static_cast<int>(call.mask_with);
  args.mask &= ~static_cast<int>(call.mask_without);
  if (call.attr_mask != kUnset) args.mask = static_cast<int>(call.attr_mask);
  return args;
}

ModifyArgs ArgsOfConnectStep(const Call& call, const ModifyFacts& facts, ibv_qp_state to) {
  ModifyArgs args{PlainAttributes(facts), IBV_QP_STATE};
  args.attr.qp_state = to;
  const model::Transition* edge = model::FindTransition(facts.type, facts.present, to);
  if (edge == nullptr) return args;
  args.mask |= edge->required;
  for (const Attr& a : call.attrs) {
    const int bit = InfoOf(a.first).mask;
    // cur_state and state belong to the steps themselves.
    if (bit == IBV_QP_STATE || bit == IBV_QP_CUR_STATE) continue;
    Set(a.first, a.second, &args.attr);
    if (edge->required & bit) continue;
    bool earlier = false;  // a step before this one carries it
    if (to != IBV_QPS_INIT) {
      const model::Transition* init =
          model::FindTransition(facts.type, IBV_QPS_RESET, IBV_QPS_INIT);
      if (init && ((init->required | init->optional) & bit)) earlier = true;
    }
    if (to == IBV_QPS_RTS) {
      const model::Transition* rtr = model::FindTransition(facts.type, IBV_QPS_INIT, IBV_QPS_RTR);
      if (rtr && ((rtr->required | rtr->optional) & bit)) earlier = true;
    }
    if (!earlier && (edge->optional & bit)) args.mask |= bit;
  }
  return args;
}

ibv_ah_attr AttributesOfAh(const Call& call, const PortAddress& path) {
  ibv_ah_attr ah = PlainAh(path);
  for (const Attr& a : call.attrs) SetAh(a.first, a.second, &ah);
  return ah;
}

}  // namespace qpexam
