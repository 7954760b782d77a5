// Table B, spot by spot, from the catalogue's text.
#include "reference/model/transitions.h"

#include <gtest/gtest.h>

#include <string>

namespace qpexam::model {
namespace {

constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                    IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

// B1: rows from, columns to, in the order of kStates.
constexpr const char* kPairs[] = {
    "xx.....",  // RESET -> RESET, INIT
    "xxx...x",  // INIT  -> RESET, INIT, RTR, ERR
    "x..x..x",  // RTR   -> RESET, RTS, ERR
    "x..xx.x",  // RTS   -> RESET, RTS, SQD, ERR
    "x..xx.x",  // SQD
    "x..x..x",  // SQE
    "x.....x",  // ERR   -> RESET, ERR
};

TEST(TransitionsTest, TableB1) {  // WR-STATE-008, -012
  for (int t = 0; t < kQpTypeCount; ++t) {
    for (int from = 0; from < 7; ++from) {
      for (int to = 0; to < 7; ++to) {
        const bool listed =
            FindTransition(static_cast<QpType>(t), kStates[from], kStates[to]) != nullptr;
        EXPECT_EQ(listed, kPairs[from][to] == 'x')
            << Name(static_cast<QpType>(t)) << ' ' << StateName(kStates[from]) << "->"
            << StateName(kStates[to]);
      }
    }
  }
}

std::string Words(int mask) {
  std::string s;
  for (int bit = 0; bit < 26; ++bit) {
    if ((mask & 1 << bit) != 0) s += (s.empty() ? "" : " ") + std::string(AttrName(1 << bit));
  }
  return s;
}

TEST(TransitionsTest, TableB2) {
  const auto required = [](QpType t, ibv_qp_state a, ibv_qp_state b) {
    return Words(FindTransition(t, a, b)->required);
  };
  const auto optional = [](QpType t, ibv_qp_state a, ibv_qp_state b) {
    return Words(FindTransition(t, a, b)->optional);
  };
  EXPECT_EQ(required(QpType::kRc, IBV_QPS_RESET, IBV_QPS_INIT), "ACCESS_FLAGS PKEY_INDEX PORT");
  EXPECT_EQ(required(QpType::kUd, IBV_QPS_RESET, IBV_QPS_INIT), "PKEY_INDEX PORT QKEY");
  EXPECT_EQ(required(QpType::kRawPacket, IBV_QPS_RESET, IBV_QPS_INIT), "PORT");
  EXPECT_EQ(required(QpType::kRc, IBV_QPS_INIT, IBV_QPS_RTR),
            "AV PATH_MTU RQ_PSN MIN_RNR_TIMER MAX_DEST_RD_ATOMIC DEST_QPN");
  EXPECT_EQ(required(QpType::kUc, IBV_QPS_INIT, IBV_QPS_RTR), "AV PATH_MTU RQ_PSN DEST_QPN");
  EXPECT_EQ(required(QpType::kXrcSend, IBV_QPS_INIT, IBV_QPS_RTR), "AV PATH_MTU RQ_PSN DEST_QPN");
  EXPECT_EQ(required(QpType::kXrcRecv, IBV_QPS_INIT, IBV_QPS_RTR),
            "AV PATH_MTU RQ_PSN MIN_RNR_TIMER MAX_DEST_RD_ATOMIC DEST_QPN");
  EXPECT_EQ(optional(QpType::kUd, IBV_QPS_INIT, IBV_QPS_RTR), "PKEY_INDEX QKEY");
  EXPECT_EQ(required(QpType::kRc, IBV_QPS_RTR, IBV_QPS_RTS),
            "TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC SQ_PSN");
  EXPECT_EQ(required(QpType::kXrcRecv, IBV_QPS_RTR, IBV_QPS_RTS), "TIMEOUT SQ_PSN");
  EXPECT_EQ(optional(QpType::kRc, IBV_QPS_RTR, IBV_QPS_RTS),
            "CUR_STATE ACCESS_FLAGS ALT_PATH MIN_RNR_TIMER PATH_MIG_STATE");
  EXPECT_EQ(optional(QpType::kXrcSend, IBV_QPS_RTS, IBV_QPS_RTS),
            "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE");
  EXPECT_EQ(optional(QpType::kUd, IBV_QPS_RTS, IBV_QPS_SQD), "EN_SQD_ASYNC_NOTIFY");
  EXPECT_EQ(optional(QpType::kRawPacket, IBV_QPS_RTS, IBV_QPS_RTS), "RATE_LIMIT");
  EXPECT_EQ(optional(QpType::kUc, IBV_QPS_SQD, IBV_QPS_SQD),
            "ACCESS_FLAGS PKEY_INDEX AV ALT_PATH PATH_MIG_STATE");
  EXPECT_EQ(optional(QpType::kUc, IBV_QPS_SQE, IBV_QPS_RTS), "CUR_STATE ACCESS_FLAGS");
  EXPECT_EQ(optional(QpType::kRc, IBV_QPS_SQE, IBV_QPS_RTS), "");
  EXPECT_EQ(optional(QpType::kSrd, IBV_QPS_RTR, IBV_QPS_RTS), "CUR_STATE QKEY RNR_RETRY");
}

ModifyCheck Check(QpType type, ibv_qp_state present, int mask, ibv_qp_state to,
                  ibv_qp_state cur = IBV_QPS_RTS) {
  ibv_qp_attr attr{};
  attr.qp_state = to;
  attr.cur_qp_state = cur;
  return CheckModify(type, present, mask, attr);
}

TEST(TransitionsTest, CheckModify) {
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(Check(QpType::kRc, IBV_QPS_RESET, kInit, IBV_QPS_INIT).verdict,
            ModifyVerdict::kAllowed);
  EXPECT_FALSE(Check(QpType::kRc, IBV_QPS_RESET, kInit, IBV_QPS_INIT).may_refuse);
  // A required one missing, a foreign one added.
  auto c = Check(QpType::kRc, IBV_QPS_RESET, kInit & ~IBV_QP_PORT, IBV_QPS_INIT);
  EXPECT_EQ(c.verdict, ModifyVerdict::kRefused);
  EXPECT_STREQ(c.clause, "WR-STATE-009");
  c = Check(QpType::kRc, IBV_QPS_RESET, kInit | IBV_QP_QKEY, IBV_QPS_INIT);
  EXPECT_EQ(c.verdict, ModifyVerdict::kRefused);
  EXPECT_STREQ(c.clause, "WR-STATE-010");
  // No attribute goes with ERR.
  c = Check(QpType::kRc, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, IBV_QPS_ERR);
  EXPECT_STREQ(c.clause, "WR-STATE-010");
  EXPECT_EQ(Check(QpType::kRc, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CAP, IBV_QPS_RTS).verdict,
            ModifyVerdict::kCapabilityDependent);
  EXPECT_EQ(Check(QpType::kRc, IBV_QPS_RESET, IBV_QP_STATE, IBV_QPS_ERR).verdict,
            ModifyVerdict::kCapabilityDependent);
  c = Check(QpType::kRc, IBV_QPS_RTR, IBV_QP_MIN_RNR_TIMER, IBV_QPS_RTR);
  EXPECT_STREQ(c.clause, "WR-STATE-017");
  EXPECT_EQ(c.verdict, ModifyVerdict::kRefused);
  EXPECT_EQ(Check(QpType::kRc, IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER, IBV_QPS_RTS).verdict,
            ModifyVerdict::kAllowed);
  EXPECT_TRUE(Check(QpType::kRc, IBV_QPS_RTS, IBV_QP_STATE, IBV_QPS_SQD).may_refuse);
}

TEST(TransitionsTest, CurState) {  // WR-STATE-011
  constexpr int kMask = IBV_QP_STATE | IBV_QP_CUR_STATE;
  EXPECT_EQ(Check(QpType::kRc, IBV_QPS_RTS, kMask, IBV_QPS_RTS, IBV_QPS_RTS).verdict,
            ModifyVerdict::kAllowed);
  for (ibv_qp_state bad : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR}) {
    const auto c = Check(QpType::kRc, IBV_QPS_RTS, kMask, IBV_QPS_RTS, bad);
    EXPECT_EQ(c.verdict, ModifyVerdict::kRefused);
    EXPECT_STREQ(c.clause, "WR-STATE-011");
  }
  // The caller's error, which a device need not notice.
  const auto other = Check(QpType::kRc, IBV_QPS_RTS, kMask, IBV_QPS_RTS, IBV_QPS_SQD);
  EXPECT_EQ(other.verdict, ModifyVerdict::kCapabilityDependent);
  EXPECT_TRUE(other.may_refuse);
  // No edge leads from INIT to RTS, but from the claimed RTS.
  const auto claimed = Check(QpType::kRc, IBV_QPS_INIT, kMask, IBV_QPS_RTS, IBV_QPS_RTS);
  EXPECT_EQ(claimed.verdict, ModifyVerdict::kCapabilityDependent);
  EXPECT_TRUE(claimed.by_claim);
  EXPECT_STREQ(claimed.clause, "WR-STATE-011");
  EXPECT_EQ(Check(QpType::kRc, IBV_QPS_INIT, kMask, IBV_QPS_RTS, IBV_QPS_INIT).verdict,
            ModifyVerdict::kRefused);
  // SQE->RTS of RC lists no attribute.
  EXPECT_STREQ(Check(QpType::kRc, IBV_QPS_SQE, kMask, IBV_QPS_RTS, IBV_QPS_SQE).clause,
               "WR-STATE-011");
}

TEST(TransitionsTest, Names) {
  std::string names;
  for (int state = IBV_QPS_RESET; state <= IBV_QPS_UNKNOWN; ++state) {
    names += std::string(StateName(static_cast<ibv_qp_state>(state))) + " ";
  }
  EXPECT_EQ(names, "RESET INIT RTR RTS SQD SQE ERR UNKNOWN ");
  EXPECT_EQ(AttrName(IBV_QP_PATH_MTU), "PATH_MTU");
  EXPECT_EQ(AttrName(0), "");
  EXPECT_EQ(AttrName(IBV_QP_STATE | IBV_QP_PORT), "");
}

}  // namespace
}  // namespace qpexam::model
