// Table A, written down a second time by hand from the catalogue.
#include "reference/model/ops.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace qpexam::model {
namespace {

struct Row {
  const char* name;
  const char* reference_types;  // the cells marked REF
  const char* data;
  bool fence_waits, solicited, srqn;
  int wc;
};
constexpr Row kRows[] = {
    {"RDMA_WRITE", "uc rc xrc_send", "any", false, false, true, 1},
    {"RDMA_WRITE_WITH_IMM", "uc rc xrc_send", "any", false, true, true, 1},
    {"SEND", "ud uc rc xrc_send raw_packet", "any", false, true, true, 0},
    {"SEND_WITH_IMM", "ud uc rc xrc_send", "any", false, true, true, 0},
    {"RDMA_READ", "rc xrc_send", "sge", true, false, true, 2},
    {"ATOMIC_CMP_AND_SWP", "rc xrc_send", "eight", true, false, true, 3},
    {"ATOMIC_FETCH_AND_ADD", "rc xrc_send", "eight", true, false, true, 4},
    {"LOCAL_INV", "uc rc xrc_send", "none", false, false, false, 6},
    {"BIND_MW", "uc rc xrc_send", "none", false, false, false, 5},
    {"SEND_WITH_INV", "rc xrc_send", "any", false, true, true, 0},
    {"TSO", "raw_packet", "sge", false, false, true, 7},
    {"FLUSH", "rc xrc_send", "tolerated", false, false, true, 8},
    {"ATOMIC_WRITE", "rc xrc_send", "none", false, false, true, 9},
};

std::set<std::string> Words(const std::string& text) {
  std::set<std::string> words;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    words.insert(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

TEST(OpsTest, EveryCellOfTableA) {
  int i = 0;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const OperationInfo& info = AllOperations()[i];
    EXPECT_EQ(info.name, row.name);
    EXPECT_EQ(static_cast<int>(info.op), i);
    EXPECT_EQ(info.send_ops_flag, 1u << i);  // WR-ABI-004
    std::set<std::string> types;
    for (int t = 0; t < kQpTypeCount; ++t) {
      const auto type = static_cast<QpType>(t);
      if ((info.reference_types & MaskOf(type)) != 0) types.insert(std::string(Name(type)));
    }
    EXPECT_EQ(types, Words(row.reference_types));
    const char* data = info.data == DataRule::kSgeOrInline     ? "any"
                       : info.data == DataRule::kSge           ? "sge"
                       : info.data == DataRule::kOneSgeOf8     ? "eight"
                       : info.data == DataRule::kNoneTolerated ? "tolerated"
                                                               : "none";
    EXPECT_STREQ(data, row.data);
    EXPECT_EQ(info.is_read_or_atomic, row.fence_waits);
    EXPECT_EQ(info.solicited_allowed, row.solicited);
    EXPECT_EQ(info.needs_xrc_srqn, row.srqn);
    EXPECT_EQ(static_cast<int>(info.send_wc_opcode), row.wc);  // WR-COMP-006
    ++i;
  }
  EXPECT_EQ(i, kOperationCount);
}

TEST(OpsTest, NamesFindTheirOperation) {
  EXPECT_EQ(OperationByName("rdma_write_imm"), Operation::kRdmaWriteWithImm);
  EXPECT_EQ(OperationByName("RDMA_WRITE_WITH_IMM"), Operation::kRdmaWriteWithImm);
  EXPECT_EQ(OperationByName("send_tso"), Operation::kTso);
  EXPECT_EQ(OperationByName("write"), std::nullopt);
}

TEST(OpsTest, QpSetters) {  // X8, WR-SET-007
  EXPECT_EQ(RequiredQpSetter(QpType::kUd, Operation::kSend), QpSetter::kUdAddr);
  EXPECT_EQ(RequiredQpSetter(QpType::kXrcSend, Operation::kRdmaRead), QpSetter::kXrcSrqn);
  EXPECT_EQ(RequiredQpSetter(QpType::kXrcSend, Operation::kLocalInv), QpSetter::kNone);
  EXPECT_EQ(RequiredQpSetter(QpType::kRc, Operation::kSend), QpSetter::kNone);
  EXPECT_EQ(RequiredQpSetter(QpType::kRawPacket, Operation::kTso), QpSetter::kNone);
}

TEST(OpsTest, Types) {
  for (int t = 0; t < kQpTypeCount; ++t) {
    const auto type = static_cast<QpType>(t);
    EXPECT_EQ(QpTypeByName(Name(type)), type);
    EXPECT_EQ(FromVerbsType(VerbsType(type)), type);
  }
  EXPECT_EQ(QpTypeByName("rd"), std::nullopt);
  EXPECT_EQ(ReferenceSendOps(QpType::kXrcRecv), 0u);
  EXPECT_EQ(ReferenceSendOps(QpType::kUd), 0xcu);
  EXPECT_EQ(ReferenceSendOps(QpType::kRawPacket), 0x404u);
  EXPECT_EQ(ReferenceSendOps(QpType::kRc), kAllSendOps & ~0x400u);
}

}  // namespace
}  // namespace qpexam::model
