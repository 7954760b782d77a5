#include "reference/model/transitions.h"

#include "reference/model/types.h"

namespace qpexam::model {
namespace {

constexpr int kPKEY = IBV_QP_PKEY_INDEX, kPORT = IBV_QP_PORT, kACC = IBV_QP_ACCESS_FLAGS,
              kQKEY = IBV_QP_QKEY, kAV = IBV_QP_AV, kMTU = IBV_QP_PATH_MTU, kDEST = IBV_QP_DEST_QPN,
              kRPSN = IBV_QP_RQ_PSN, kMDRA = IBV_QP_MAX_DEST_RD_ATOMIC,
              kRNRT = IBV_QP_MIN_RNR_TIMER, kALT = IBV_QP_ALT_PATH, kTO = IBV_QP_TIMEOUT,
              kRETRY = IBV_QP_RETRY_CNT, kRNR = IBV_QP_RNR_RETRY, kSPSN = IBV_QP_SQ_PSN,
              kMRA = IBV_QP_MAX_QP_RD_ATOMIC, kCUR = IBV_QP_CUR_STATE, kMIG = IBV_QP_PATH_MIG_STATE,
              kNOTE = IBV_QP_EN_SQD_ASYNC_NOTIFY, kRATE = IBV_QP_RATE_LIMIT;

// Table B2, one array a type. The edges to RESET and ERR take no attribute on any type and stand
// in B1 below.
constexpr ibv_qp_state R = IBV_QPS_RESET, I = IBV_QPS_INIT, T = IBV_QPS_RTR, S = IBV_QPS_RTS,
                       D = IBV_QPS_SQD, E = IBV_QPS_SQE;

constexpr Transition kRc[] = {
    {R, I, kPKEY | kPORT | kACC, 0},
    {I, I, 0, kPKEY | kPORT | kACC},
    {I, T, kAV | kMTU | kDEST | kRPSN | kMDRA | kRNRT, kALT | kACC | kPKEY},
    {T, S, kTO | kRETRY | kRNR | kSPSN | kMRA, kCUR | kALT | kACC | kRNRT | kMIG},
    {S, S, 0, kCUR | kACC | kALT | kMIG | kRNRT},
    {S, D, 0, kNOTE},
    {D, S, 0, kCUR | kALT | kACC | kRNRT | kMIG},
    {D, D, 0,
     kPORT | kAV | kTO | kRETRY | kRNR | kMRA | kMDRA | kALT | kACC | kPKEY | kRNRT | kMIG},
    {E, S, 0, 0},
};
constexpr Transition kUc[] = {
    {R, I, kPKEY | kPORT | kACC, 0},
    {I, I, 0, kPKEY | kPORT | kACC},
    {I, T, kAV | kMTU | kDEST | kRPSN, kALT | kACC | kPKEY},
    {T, S, kSPSN, kCUR | kALT | kACC | kMIG},
    {S, S, 0, kCUR | kACC | kALT | kMIG},
    {S, D, 0, kNOTE},
    {D, S, 0, kCUR | kALT | kACC | kMIG},
    {D, D, 0, kAV | kALT | kACC | kPKEY | kMIG},
    {E, S, 0, kCUR | kACC},
};
constexpr Transition kUd[] = {
    {R, I, kPKEY | kPORT | kQKEY, 0}, {I, I, 0, kPKEY | kPORT | kQKEY}, {I, T, 0, kPKEY | kQKEY},
    {T, S, kSPSN, kCUR | kQKEY},      {S, S, 0, kCUR | kQKEY},          {S, D, 0, kNOTE},
    {D, S, 0, kCUR | kQKEY},          {D, D, 0, kPKEY | kQKEY},         {E, S, 0, kCUR | kQKEY},
};
constexpr Transition kRaw[] = {
    {R, I, kPORT, 0}, {I, I, 0, 0}, {I, T, 0, 0}, {T, S, 0, kRATE}, {S, S, 0, kRATE},
    {S, D, 0, 0},     {D, S, 0, 0}, {D, D, 0, 0}, {E, S, 0, 0},
};
constexpr Transition kXrcSend[] = {
    {R, I, kPKEY | kPORT | kACC, 0},
    {I, I, 0, kPKEY | kPORT | kACC},
    {I, T, kAV | kMTU | kDEST | kRPSN, kALT | kACC | kPKEY},
    {T, S, kTO | kRETRY | kRNR | kSPSN | kMRA, kCUR | kALT | kACC | kMIG},
    {S, S, 0, kCUR | kACC | kALT | kMIG},
    {S, D, 0, kNOTE},
    {D, S, 0, kCUR | kALT | kACC | kMIG},
    {D, D, 0, kPORT | kAV | kTO | kRETRY | kRNR | kMRA | kALT | kACC | kPKEY | kMIG},
    {E, S, 0, 0},
};
constexpr Transition kXrcRecv[] = {
    {R, I, kPKEY | kPORT | kACC, 0},
    {I, I, 0, kPKEY | kPORT | kACC},
    {I, T, kAV | kMTU | kDEST | kRPSN | kMDRA | kRNRT, kALT | kACC | kPKEY},
    {T, S, kTO | kSPSN, kCUR | kALT | kACC | kRNRT | kMIG},
    {S, S, 0, kCUR | kACC | kALT | kMIG | kRNRT},
    {S, D, 0, kNOTE},
    {D, S, 0, kCUR | kALT | kACC | kRNRT | kMIG},
    {D, D, 0, kPORT | kAV | kTO | kMDRA | kALT | kACC | kPKEY | kRNRT | kMIG},
    {E, S, 0, 0},
};
// efa's own table: the UD column and RNR_RETRY on RTR->RTS.
constexpr Transition kSrd[] = {
    {R, I, kPKEY | kPORT | kQKEY, 0}, {I, I, 0, kPKEY | kPORT | kQKEY},
    {I, T, 0, kPKEY | kQKEY},         {T, S, kSPSN, kCUR | kQKEY | kRNR},
    {S, S, 0, kCUR | kQKEY},          {S, D, 0, kNOTE},
    {D, S, 0, kCUR | kQKEY},          {D, D, 0, kPKEY | kQKEY},
    {E, S, 0, kCUR | kQKEY},
};

// To RESET from any state, to ERR from any but RESET (WR-STATE-012).
constexpr Transition kToReset[] = {
    {R, R, 0, 0}, {I, R, 0, 0}, {T, R, 0, 0},           {S, R, 0, 0},
    {D, R, 0, 0}, {E, R, 0, 0}, {IBV_QPS_ERR, R, 0, 0},
};
constexpr Transition kToErr[] = {
    {I, IBV_QPS_ERR, 0, 0}, {T, IBV_QPS_ERR, 0, 0}, {S, IBV_QPS_ERR, 0, 0},
    {D, IBV_QPS_ERR, 0, 0}, {E, IBV_QPS_ERR, 0, 0}, {IBV_QPS_ERR, IBV_QPS_ERR, 0, 0},
};

Span<const Transition> TableOf(QpType type) {
  switch (type) {
    case QpType::kRc:
      return {kRc, std::size(kRc)};
    case QpType::kUc:
      return {kUc, std::size(kUc)};
    case QpType::kUd:
      return {kUd, std::size(kUd)};
    case QpType::kXrcSend:
      return {kXrcSend, std::size(kXrcSend)};
    case QpType::kXrcRecv:
      return {kXrcRecv, std::size(kXrcRecv)};
    case QpType::kRawPacket:
      return {kRaw, std::size(kRaw)};
    case QpType::kSrd:
      return {kSrd, std::size(kSrd)};
  }
  return {};
}

// Without these edges no QP would be brought up or taken down: no device may refuse them.
bool IsBringUp(ibv_qp_state from, ibv_qp_state to) {
  return to == R || to == IBV_QPS_ERR || (from == R && to == I) || (from == I && to == T) ||
         (from == T && to == S);
}

constexpr std::string_view kAttrNames[] = {
    "STATE",
    "CUR_STATE",
    "EN_SQD_ASYNC_NOTIFY",
    "ACCESS_FLAGS",
    "PKEY_INDEX",
    "PORT",
    "QKEY",
    "AV",
    "PATH_MTU",
    "TIMEOUT",
    "RETRY_CNT",
    "RNR_RETRY",
    "RQ_PSN",
    "MAX_QP_RD_ATOMIC",
    "ALT_PATH",
    "MIN_RNR_TIMER",
    "SQ_PSN",
    "MAX_DEST_RD_ATOMIC",
    "PATH_MIG_STATE",
    "CAP",
    "DEST_QPN",
    "",
    "",
    "",
    "",
    "RATE_LIMIT",
};

}  // namespace

const Transition* FindTransition(QpType type, ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET) {
    for (const Transition& t : kToReset) {
      if (t.from == from) return &t;
    }
    return nullptr;
  }
  if (to == IBV_QPS_ERR) {
    for (const Transition& t : kToErr) {
      if (t.from == from) return &t;
    }
    return nullptr;
  }
  for (const Transition& t : TableOf(type)) {
    if (t.from == from && t.to == to) return &t;
  }
  return nullptr;
}

namespace {

ModifyCheck CheckFrom(QpType type, ibv_qp_state present, int attr_mask, const ibv_qp_attr& attr) {
  const bool names_state = (attr_mask & IBV_QP_STATE) != 0;
  const ibv_qp_state to = names_state ? attr.qp_state : present;
  const Transition* edge = FindTransition(type, present, to);
  if (edge == nullptr) {
    if (present == IBV_QPS_RESET && to == IBV_QPS_ERR && attr_mask == IBV_QP_STATE) {
      return {ModifyVerdict::kCapabilityDependent, "WR-STATE-012",
              "whether RESET to ERR is a transition is open", true};
    }
    return {
        ModifyVerdict::kRefused, names_state ? "WR-STATE-008" : "WR-STATE-017",
        names_state ? "no transition of table B1 leads there" : "this state has no edge to itself",
        false};
  }
  const int named = attr_mask & ~IBV_QP_STATE;
  const int missing = edge->required & ~named;
  if (missing != 0) {
    return {ModifyVerdict::kRefused, "WR-STATE-009", "a required attribute is missing", false};
  }
  const int exempt = IBV_QP_CAP | IBV_QP_RATE_LIMIT;
  const int foreign = named & ~(edge->required | edge->optional);
  if ((foreign & ~exempt) != 0) {
    const bool cur = (foreign & ~exempt) == IBV_QP_CUR_STATE;
    return {ModifyVerdict::kRefused, cur ? "WR-STATE-011" : "WR-STATE-010",
            "an attribute is neither required nor optional on this transition", false};
  }
  if ((named & IBV_QP_CUR_STATE) != 0) {
    switch (attr.cur_qp_state) {
      case IBV_QPS_RTR:
      case IBV_QPS_RTS:
      case IBV_QPS_SQD:
      case IBV_QPS_SQE:
        break;
      default:
        return {ModifyVerdict::kRefused, "WR-STATE-011",
                "cur_qp_state is none of RTR, RTS, SQD, SQE", false};
    }
    if (attr.cur_qp_state != present) {
      return {ModifyVerdict::kCapabilityDependent, "WR-STATE-011",
              "cur_qp_state is not the state the QP is in (the caller's error)", true};
    }
  }
  if ((named & exempt) != 0) {
    return {ModifyVerdict::kCapabilityDependent, "WR-STATE-010",
            "IBV_QP_CAP and IBV_QP_RATE_LIMIT depend on the device", true};
  }
  // An edge to itself that names no state is the caller's way to change attributes; a device may
  // refuse it like every edge that no bring-up needs.
  return {ModifyVerdict::kAllowed, names_state ? "WR-STATE-008" : "WR-STATE-017", "",
          !IsBringUp(present, to)};
}

}  // namespace

ModifyCheck CheckModify(QpType type, ibv_qp_state present, int attr_mask, const ibv_qp_attr& attr) {
  const ModifyCheck check = CheckFrom(type, present, attr_mask, attr);
  const ibv_qp_state claimed = attr.cur_qp_state;
  if (check.verdict != ModifyVerdict::kRefused || !(attr_mask & IBV_QP_CUR_STATE) ||
      claimed == present ||
      CheckFrom(type, claimed, attr_mask, attr).verdict == ModifyVerdict::kRefused)
    return check;
  return {ModifyVerdict::kCapabilityDependent, "WR-STATE-011",
          "cur_qp_state is not the state the QP is in (the caller's error)", true, true};
}

std::string_view StateName(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_RESET:
      return "RESET";
    case IBV_QPS_INIT:
      return "INIT";
    case IBV_QPS_RTR:
      return "RTR";
    case IBV_QPS_RTS:
      return "RTS";
    case IBV_QPS_SQD:
      return "SQD";
    case IBV_QPS_SQE:
      return "SQE";
    case IBV_QPS_ERR:
      return "ERR";
    default:
      return "UNKNOWN";
  }
}

std::string_view AttrName(int single_bit) {
  for (size_t i = 0; i < std::size(kAttrNames); ++i) {
    if (single_bit == 1 << i) return kAttrNames[i];
  }
  return "";
}

}  // namespace qpexam::model
