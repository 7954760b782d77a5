#include "conformance/suites/table_b.h"

namespace qpexam::conformance {
namespace {

constexpr int kCur = IBV_QP_CUR_STATE, kNotify = IBV_QP_EN_SQD_ASYNC_NOTIFY,
              kAccess = IBV_QP_ACCESS_FLAGS, kPkey = IBV_QP_PKEY_INDEX, kPort = IBV_QP_PORT,
              kQkey = IBV_QP_QKEY, kAv = IBV_QP_AV, kMtu = IBV_QP_PATH_MTU,
              kTimeout = IBV_QP_TIMEOUT, kRetry = IBV_QP_RETRY_CNT, kRnr = IBV_QP_RNR_RETRY,
              kRqPsn = IBV_QP_RQ_PSN, kRdAtomic = IBV_QP_MAX_QP_RD_ATOMIC, kAlt = IBV_QP_ALT_PATH,
              kMinRnr = IBV_QP_MIN_RNR_TIMER, kSqPsn = IBV_QP_SQ_PSN,
              kDestRdAtomic = IBV_QP_MAX_DEST_RD_ATOMIC, kMig = IBV_QP_PATH_MIG_STATE,
              kDest = IBV_QP_DEST_QPN;

constexpr ibv_qp_state kReset = IBV_QPS_RESET, kInit = IBV_QPS_INIT, kRtr = IBV_QPS_RTR,
                       kRts = IBV_QPS_RTS, kSqd = IBV_QPS_SQD, kSqe = IBV_QPS_SQE,
                       kErr = IBV_QPS_ERR;

// To RESET and to ERR no attribute is allowed; ERR is reached from any state but RESET.
std::vector<Edge> WithEnds(std::vector<Edge> edges) {
  for (const ibv_qp_state from : {kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr}) {
    edges.push_back({from, kReset, 0, 0});
    if (from != kReset) edges.push_back({from, kErr, 0, 0});
  }
  return edges;
}

const std::vector<Edge>& Rc() {
  static const auto* edges = new std::vector<Edge>(WithEnds({
      {kReset, kInit, kPkey | kPort | kAccess, 0},
      {kInit, kInit, 0, kPkey | kPort | kAccess},
      {kInit, kRtr, kAv | kMtu | kDest | kRqPsn | kDestRdAtomic | kMinRnr, kAlt | kAccess | kPkey},
      {kRtr, kRts, kTimeout | kRetry | kRnr | kSqPsn | kRdAtomic,
       kCur | kAlt | kAccess | kMinRnr | kMig},
      {kRts, kRts, 0, kCur | kAccess | kAlt | kMig | kMinRnr},
      {kRts, kSqd, 0, kNotify},
      {kSqd, kRts, 0, kCur | kAlt | kAccess | kMinRnr | kMig},
      {kSqd, kSqd, 0,
       kPort | kAv | kTimeout | kRetry | kRnr | kRdAtomic | kDestRdAtomic | kAlt | kAccess | kPkey |
           kMinRnr | kMig},
      {kSqe, kRts, 0, 0},
  }));
  return *edges;
}

const std::vector<Edge>& Uc() {
  static const auto* edges = new std::vector<Edge>(WithEnds({
      {kReset, kInit, kPkey | kPort | kAccess, 0},
      {kInit, kInit, 0, kPkey | kPort | kAccess},
      {kInit, kRtr, kAv | kMtu | kDest | kRqPsn, kAlt | kAccess | kPkey},
      {kRtr, kRts, kSqPsn, kCur | kAlt | kAccess | kMig},
      {kRts, kRts, 0, kCur | kAccess | kAlt | kMig},
      {kRts, kSqd, 0, kNotify},
      {kSqd, kRts, 0, kCur | kAlt | kAccess | kMig},
      {kSqd, kSqd, 0, kAv | kAlt | kAccess | kPkey | kMig},
      {kSqe, kRts, 0, kCur | kAccess},
  }));
  return *edges;
}

const std::vector<Edge>& Ud() {
  static const auto* edges = new std::vector<Edge>(WithEnds({
      {kReset, kInit, kPkey | kPort | kQkey, 0},
      {kInit, kInit, 0, kPkey | kPort | kQkey},
      {kInit, kRtr, 0, kPkey | kQkey},
      {kRtr, kRts, kSqPsn, kCur | kQkey},
      {kRts, kRts, 0, kCur | kQkey},
      {kRts, kSqd, 0, kNotify},
      {kSqd, kRts, 0, kCur | kQkey},
      {kSqd, kSqd, 0, kPkey | kQkey},
      {kSqe, kRts, 0, kCur | kQkey},
  }));
  return *edges;
}

const std::vector<Edge>& Raw() {
  static const auto* edges = new std::vector<Edge>(WithEnds({
      {kReset, kInit, kPort, 0},
      {kInit, kInit, 0, 0},
      {kInit, kRtr, 0, 0},
      {kRtr, kRts, 0, 0},
      {kRts, kRts, 0, 0},
      {kRts, kSqd, 0, 0},
      {kSqd, kRts, 0, 0},
      {kSqd, kSqd, 0, 0},
      {kSqe, kRts, 0, 0},
  }));
  return *edges;
}

const std::vector<Edge>& XrcSend() {
  static const auto* edges = new std::vector<Edge>(WithEnds({
      {kReset, kInit, kPkey | kPort | kAccess, 0},
      {kInit, kInit, 0, kPkey | kPort | kAccess},
      {kInit, kRtr, kAv | kMtu | kDest | kRqPsn, kAlt | kAccess | kPkey},
      {kRtr, kRts, kTimeout | kRetry | kRnr | kSqPsn | kRdAtomic, kCur | kAlt | kAccess | kMig},
      {kRts, kRts, 0, kCur | kAccess | kAlt | kMig},
      {kRts, kSqd, 0, kNotify},
      {kSqd, kRts, 0, kCur | kAlt | kAccess | kMig},
      {kSqd, kSqd, 0,
       kPort | kAv | kTimeout | kRetry | kRnr | kRdAtomic | kAlt | kAccess | kPkey | kMig},
      {kSqe, kRts, 0, 0},
  }));
  return *edges;
}

const std::vector<Edge>& XrcRecv() {
  static const auto* edges = new std::vector<Edge>(WithEnds({
      {kReset, kInit, kPkey | kPort | kAccess, 0},
      {kInit, kInit, 0, kPkey | kPort | kAccess},
      {kInit, kRtr, kAv | kMtu | kDest | kRqPsn | kDestRdAtomic | kMinRnr, kAlt | kAccess | kPkey},
      {kRtr, kRts, kTimeout | kSqPsn, kCur | kAlt | kAccess | kMinRnr | kMig},
      {kRts, kRts, 0, kCur | kAccess | kAlt | kMig | kMinRnr},
      {kRts, kSqd, 0, kNotify},
      {kSqd, kRts, 0, kCur | kAlt | kAccess | kMinRnr | kMig},
      {kSqd, kSqd, 0,
       kPort | kAv | kTimeout | kDestRdAtomic | kAlt | kAccess | kPkey | kMinRnr | kMig},
      {kSqe, kRts, 0, 0},
  }));
  return *edges;
}

struct BitName {
  int bit;
  const char* name;
};
constexpr BitName kBitNames[] = {
    {IBV_QP_STATE, "STATE"},
    {kCur, "CUR_STATE"},
    {kNotify, "EN_SQD_ASYNC_NOTIFY"},
    {kAccess, "ACCESS_FLAGS"},
    {kPkey, "PKEY_INDEX"},
    {kPort, "PORT"},
    {kQkey, "QKEY"},
    {kAv, "AV"},
    {kMtu, "PATH_MTU"},
    {kTimeout, "TIMEOUT"},
    {kRetry, "RETRY_CNT"},
    {kRnr, "RNR_RETRY"},
    {kRqPsn, "RQ_PSN"},
    {kRdAtomic, "MAX_QP_RD_ATOMIC"},
    {kAlt, "ALT_PATH"},
    {kMinRnr, "MIN_RNR_TIMER"},
    {kSqPsn, "SQ_PSN"},
    {kDestRdAtomic, "MAX_DEST_RD_ATOMIC"},
    {kMig, "PATH_MIG_STATE"},
    {kDest, "DEST_QPN"},
};

}  // namespace

const char* Name(Column column) {
  switch (column) {
    case Column::kRc:
      return "RC";
    case Column::kUc:
      return "UC";
    case Column::kUd:
      return "UD";
    case Column::kRaw:
      return "RAW_PACKET";
    case Column::kXrcSend:
      return "XRC_SEND";
    case Column::kXrcRecv:
      return "XRC_RECV";
  }
  return "?";
}

const std::vector<Edge>& EdgesOf(Column column) {
  switch (column) {
    case Column::kRc:
      return Rc();
    case Column::kUc:
      return Uc();
    case Column::kUd:
      return Ud();
    case Column::kRaw:
      return Raw();
    case Column::kXrcSend:
      return XrcSend();
    case Column::kXrcRecv:
      break;
  }
  return XrcRecv();
}

const Edge* FindEdge(Column column, ibv_qp_state from, ibv_qp_state to) {
  for (const Edge& edge : EdgesOf(column)) {
    if (edge.from == from && edge.to == to) return &edge;
  }
  return nullptr;
}

const std::vector<int>& TestedBits() {
  static const auto* bits = [] {
    auto* list = new std::vector<int>;
    for (const BitName& entry : kBitNames) {
      if (entry.bit != IBV_QP_STATE) list->push_back(entry.bit);
    }
    return list;
  }();
  return *bits;
}

std::string MaskName(int mask) {
  std::string text;
  for (const BitName& entry : kBitNames) {
    if ((mask & entry.bit) != 0) text += (text.empty() ? "" : "|") + std::string(entry.name);
  }
  return text.empty() ? "0" : text;
}

}  // namespace qpexam::conformance
