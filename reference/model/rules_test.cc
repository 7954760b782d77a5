// What may become of a request, for each thing that can be wrong with it. Expected values are
// from the catalogue's RESP, MW, UD, XRC, DATA and STATE groups.
#include "reference/model/rules.h"

#include <gtest/gtest.h>

#include <string>

namespace qpexam::model {
namespace {

using Window = RequestFacts::Window;

RequestFacts Facts(Operation op, QpType type) {
  RequestFacts f;
  f.op = op;
  f.type = type;
  f.length = 64;
  f.path_mtu = 1024;
  f.max_msg_sz = 1u << 31;
  if (Info(op).peer != PeerEffect::kNone && op != Operation::kTso) f.receive = ReceiveFact::kReady;
  return f;
}

std::string Status(ibv_wc_status s) {
  switch (s) {
    case IBV_WC_SUCCESS:
      return "OK";
    case IBV_WC_LOC_LEN_ERR:
      return "LOC_LEN";
    case IBV_WC_LOC_QP_OP_ERR:
      return "LOC_QP_OP";
    case IBV_WC_LOC_PROT_ERR:
      return "LOC_PROT";
    case IBV_WC_WR_FLUSH_ERR:
      return "FLUSH";
    case IBV_WC_MW_BIND_ERR:
      return "MW_BIND";
    case IBV_WC_LOC_ACCESS_ERR:
      return "LOC_ACCESS";
    case IBV_WC_REM_INV_REQ_ERR:
      return "REM_INV_REQ";
    case IBV_WC_REM_ACCESS_ERR:
      return "REM_ACCESS";
    case IBV_WC_REM_OP_ERR:
      return "REM_OP";
    case IBV_WC_RETRY_EXC_ERR:
      return "RETRY_EXC";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "RNR_RETRY_EXC";
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return "REM_INV_RD";
    default:
      return "?";
  }
}

// "REM_ACCESS none req=ERR resp=ERR recv=LOC_LEN warn", a member in one line.
std::string Line(const Outcome& o) {
  std::string s = o.completes ? Status(o.status) : "OPEN";
  s += o.effect == Effect::kWhole ? " whole" : o.effect == Effect::kMaybe ? " maybe" : " none";
  const auto next = [&](const char* who, NextState n) {
    if (n == NextState::kErr) s += std::string(" ") + who + "=ERR";
    if (n == NextState::kSqeOrErr) s += std::string(" ") + who + "=SQE|ERR";
  };
  next("req", o.requester_next);
  next("resp", o.responder_next);
  if (o.consumes_receive) s += " recv=" + Status(o.receive_status);
  if (o.level == Level::kShould) s += " warn";
  return s;
}
std::string Lines(const RequestFacts& f) {
  std::string s;
  for (const Outcome& o : RequestOutcomes(f)) s += (s.empty() ? "" : " | ") + Line(o);
  return s;
}

constexpr QpType kRC = QpType::kRc, kUC = QpType::kUc, kUD = QpType::kUd, kXS = QpType::kXrcSend;

TEST(RulesTest, NothingWrongIsOneSuccess) {
  for (const OperationInfo& info : AllOperations()) {
    for (int t = 0; t < kQpTypeCount; ++t) {
      const auto type = static_cast<QpType>(t);
      if ((info.reference_types & MaskOf(type)) == 0) continue;
      const OutcomeSet set = RequestOutcomes(Facts(info.op, type));
      EXPECT_EQ(set.member[0].status, IBV_WC_SUCCESS) << info.name << ' ' << Name(type);
      EXPECT_EQ(set.member[0].effect, Effect::kWhole);
      EXPECT_EQ(set.member[0].consumes_receive, info.peer == PeerEffect::kReceive ||
                                                    info.peer == PeerEffect::kReceiveRdmaWithImm ||
                                                    info.peer == PeerEffect::kPackets)
          << info.name;
      // Windows on XRC_SEND promise statuses only (WR-MW-019).
      const bool open = type == kXS && !LeavesRequester(info.op);
      EXPECT_EQ(set.count, open ? 2 : 1) << info.name << ' ' << Name(type);
    }
  }
}

TEST(RulesTest, SqeAndErrFlush) {  // WR-STATE-004, -005
  for (ibv_qp_state state : {IBV_QPS_SQE, IBV_QPS_ERR}) {
    RequestFacts f = Facts(Operation::kSend, kUC);
    f.state = state;
    f.local = LocalFault::kUnknownKey;
    EXPECT_EQ(Lines(f), "FLUSH none");
    EXPECT_EQ(RequestOutcomes(f).member[0].tolerated, 0u);
  }
}

TEST(RulesTest, UnsupportedCell) {  // WR-RESP-012
  RequestFacts f = Facts(Operation::kRdmaRead, kUC);
  f.cell_supported = false;
  EXPECT_EQ(Lines(f), "LOC_QP_OP none req=SQE|ERR");
  f.type = kRC;
  EXPECT_EQ(Lines(f), "LOC_QP_OP none req=ERR");
}

TEST(RulesTest, LocalKeys) {  // WR-RESP-010, WR-SGE-007
  struct Case {
    Operation op;
    QpType type;
    uint64_t length;
    const char* lines;
  };
  constexpr Case kCases[] = {
      {Operation::kSend, kRC, 64, "LOC_PROT none req=ERR"},
      {Operation::kSend, kRC, 2000, "LOC_PROT maybe req=ERR"},
      {Operation::kRdmaWrite, kRC, 1024, "LOC_PROT none req=ERR"},
      {Operation::kRdmaRead, kRC, 4000, "LOC_PROT none req=ERR"},
      {Operation::kAtomicFetchAndAdd, kRC, 8, "LOC_PROT maybe req=ERR"},
      {Operation::kAtomicCmpAndSwp, kXS, 8, "LOC_PROT maybe req=ERR"},
      {Operation::kSend, kUC, 64, "LOC_PROT none req=SQE|ERR"},
      {Operation::kSend, kUD, 64, "LOC_PROT none req=SQE|ERR"},
      {Operation::kSend, QpType::kRawPacket, 64, "LOC_PROT none req=SQE|ERR"},
  };
  for (const Case& c : kCases) {
    for (LocalFault fault : {LocalFault::kUnknownKey, LocalFault::kWrongPd, LocalFault::kOutOfRange,
                             LocalFault::kNoLocalWrite}) {
      RequestFacts f = Facts(c.op, c.type);
      f.length = c.length;
      f.local = fault;
      EXPECT_EQ(Lines(f), c.lines) << Info(c.op).name << ' ' << Name(c.type);
      EXPECT_EQ(RequestOutcomes(f).member[0].tolerated, kAnyError);
    }
  }
}

TEST(RulesTest, LocalAndRemoteMistakeTogether) {
  RequestFacts f = Facts(Operation::kRdmaWrite, kRC);
  f.local = LocalFault::kUnknownKey;
  f.remote = RemoteFault::kUnknownKey;
  EXPECT_EQ(Lines(f), "LOC_PROT none req=ERR | REM_ACCESS none req=ERR resp=ERR");
}

TEST(RulesTest, NoPath) {  // WR-RESP-003, -004, -017, -018, WR-STATE-015
  for (PathFact path : {PathFact::kNoPeer, PathFact::kPeerNotReady, PathFact::kPeerInError,
                        PathFact::kNotAddressedBack, PathFact::kLost}) {
    RequestFacts f = Facts(Operation::kRdmaWrite, kRC);
    f.path = path;
    EXPECT_EQ(Lines(f), "RETRY_EXC none req=ERR");
    f.timeout_disabled = true;
    EXPECT_EQ(Lines(f), "OPEN none");
    f = Facts(Operation::kSend, kUC);
    f.path = path;
    EXPECT_EQ(Lines(f), "OK none");
    f = Facts(Operation::kSend, kUD);
    f.path = path;
    EXPECT_EQ(Lines(f), "OK none");
    f = Facts(Operation::kSend, QpType::kRawPacket);
    f.path = path;
    EXPECT_EQ(Lines(f), "OK none");
  }
}

TEST(RulesTest, RemoteKeysOnReliableServices) {  // WR-RESP-005, DATA-032, -033, MW-008
  struct Case {
    Operation op;
    RemoteFault fault;
    uint64_t length;
    const char* lines;
    const char* clause;
  };
  constexpr Case kCases[] = {
      {Operation::kRdmaWrite, RemoteFault::kUnknownKey, 64, "REM_ACCESS none req=ERR resp=ERR",
       "WR-RESP-005"},
      {Operation::kRdmaWrite, RemoteFault::kOutOfRange, 4096, "REM_ACCESS maybe req=ERR resp=ERR",
       "WR-LIM-004"},
      {Operation::kRdmaRead, RemoteFault::kWrongPd, 4096, "REM_ACCESS none req=ERR resp=ERR",
       "WR-RESP-005"},
      {Operation::kRdmaRead, RemoteFault::kNoRegionRight, 64, "REM_ACCESS none req=ERR resp=ERR",
       "WR-RESP-005"},
      {Operation::kRdmaWrite, RemoteFault::kWrongWindowQp, 64, "REM_ACCESS none req=ERR resp=ERR",
       "WR-MW-008"},
      {Operation::kAtomicFetchAndAdd, RemoteFault::kUnknownKey, 8,
       "REM_ACCESS none req=ERR resp=ERR", "WR-RESP-005"},
      {Operation::kAtomicFetchAndAdd, RemoteFault::kMisaligned, 8,
       "REM_INV_REQ none req=ERR resp=ERR", "WR-DATA-013"},
      {Operation::kAtomicWrite, RemoteFault::kMisaligned, 8, "REM_INV_REQ none req=ERR resp=ERR",
       "WR-DATA-024"},
      {Operation::kAtomicWrite, RemoteFault::kNoRegionRight, 8, "REM_ACCESS none req=ERR resp=ERR",
       "WR-DATA-033"},
      {Operation::kFlush, RemoteFault::kNoRegionRight, 64, "REM_ACCESS none req=ERR resp=ERR",
       "WR-DATA-018"},
      {Operation::kFlush, RemoteFault::kOutOfRange, 64, "REM_ACCESS none req=ERR resp=ERR",
       "WR-DATA-032"},
      {Operation::kRdmaWrite, RemoteFault::kNoQpRight, 64,
       "REM_INV_REQ none req=ERR resp=ERR | REM_ACCESS none req=ERR resp=ERR", "WR-RESP-007"},
      {Operation::kFlush, RemoteFault::kNoQpRight, 64,
       "REM_INV_REQ none req=ERR resp=ERR | REM_ACCESS none req=ERR resp=ERR", "WR-DATA-018"},
  };
  for (QpType type : {kRC, kXS}) {
    for (const Case& c : kCases) {
      RequestFacts f = Facts(c.op, type);
      f.remote = c.fault;
      f.length = c.length;
      EXPECT_EQ(Lines(f), c.lines) << Info(c.op).name;
      EXPECT_STREQ(RequestOutcomes(f).clause, c.clause) << Info(c.op).name;
    }
  }
}

TEST(RulesTest, WriteWithImmToABadKey) {  // WR-RESP-011
  RequestFacts f = Facts(Operation::kRdmaWriteWithImm, kRC);
  f.remote = RemoteFault::kUnknownKey;
  EXPECT_EQ(Lines(f),
            "REM_ACCESS none req=ERR resp=ERR | "
            "REM_ACCESS none req=ERR resp=ERR recv=LOC_ACCESS");
  f.receive = ReceiveFact::kNone;
  EXPECT_EQ(Lines(f), "RNR_RETRY_EXC none req=ERR | REM_ACCESS none req=ERR resp=ERR");
}

TEST(RulesTest, ZeroLength) {  // WR-DATA-007, -008
  RequestFacts f = Facts(Operation::kRdmaWrite, kRC);
  f.length = 0;
  f.remote = RemoteFault::kUnknownKey;
  EXPECT_EQ(Lines(f), "OK whole | REM_ACCESS none req=ERR resp=ERR warn");
  f.op = Operation::kRdmaRead;
  EXPECT_EQ(Lines(f), "OK whole | REM_ACCESS none req=ERR resp=ERR warn");
  f = Facts(Operation::kRdmaWriteWithImm, kRC);
  f.length = 0;
  f.remote = RemoteFault::kUnknownKey;
  EXPECT_EQ(Lines(f), "OK whole recv=OK");
  f.type = kUC;
  EXPECT_EQ(Lines(f), "OK whole recv=OK | OK none warn");
  f.remote = RemoteFault::kNoQpRight;
  f.type = kRC;
  EXPECT_EQ(RequestOutcomes(f).member[0].status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(RulesTest, ReceivesOnReliableServices) {  // WR-RESP-001, -002, -008, -009
  RequestFacts f = Facts(Operation::kSend, kRC);
  f.receive = ReceiveFact::kNone;
  EXPECT_EQ(Lines(f), "RNR_RETRY_EXC none req=ERR");
  f.rnr_retry_infinite = true;
  EXPECT_EQ(Lines(f), "OPEN none");
  f = Facts(Operation::kSend, kRC);
  f.receive = ReceiveFact::kTooShort;
  EXPECT_EQ(Lines(f), "REM_INV_REQ maybe req=ERR resp=ERR recv=LOC_LEN");
  f.receive = ReceiveFact::kBadBuffer;
  EXPECT_EQ(Lines(f), "REM_OP maybe req=ERR resp=ERR recv=LOC_PROT");
  // WRITE_WITH_IMM does not touch the buffer (WR-DATA-004).
  f = Facts(Operation::kRdmaWriteWithImm, kRC);
  f.receive = ReceiveFact::kBadBuffer;
  EXPECT_EQ(Lines(f), "OK whole recv=OK");
  f = Facts(Operation::kSend, kXS);
  f.receive = ReceiveFact::kNone;
  EXPECT_STREQ(RequestOutcomes(f).clause, "WR-XRC-007");
  f = Facts(Operation::kSend, kXS);
  f.wrong_srq = true;
  EXPECT_EQ(Lines(f), "REM_INV_RD none req=ERR | OK none warn");
}

TEST(RulesTest, SendWithInvalidate) {  // WR-MW-013, -021
  RequestFacts f = Facts(Operation::kSendWithInv, kRC);
  for (Window w : {Window::kUnknownKey, Window::kPlainMr, Window::kType1, Window::kFree}) {
    f.window = w;
    EXPECT_EQ(Lines(f),
              "RETRY_EXC maybe req=ERR resp=ERR recv=MW_BIND | "
              "OK maybe resp=ERR recv=MW_BIND | "
              "REM_OP maybe req=ERR resp=ERR recv=MW_BIND warn");
  }
  f.window = Window::kWrongQp;
  EXPECT_EQ(RequestOutcomes(f).count, 4);
  EXPECT_EQ(Line(RequestOutcomes(f).member[3]), "OK whole recv=OK warn");
  f.receive = ReceiveFact::kNone;
  EXPECT_EQ(Lines(f), "RNR_RETRY_EXC none req=ERR");
}

TEST(RulesTest, UcDropsWhatIsFaulty) {  // WR-RESP-015, -018
  RequestFacts f = Facts(Operation::kRdmaWrite, kUC);
  f.remote = RemoteFault::kUnknownKey;
  EXPECT_EQ(Line(RequestOutcomes(f).member[0]), "OK none");
  EXPECT_EQ(Line(RequestOutcomes(f).member[2]), "OK none resp=ERR warn");
  f = Facts(Operation::kSend, kUC);
  f.receive = ReceiveFact::kNone;
  EXPECT_EQ(Lines(f), "OK none");
  f.receive = ReceiveFact::kTooShort;
  EXPECT_EQ(Lines(f),
            "OK maybe | OK maybe recv=LOC_LEN warn | OK maybe resp=ERR recv=LOC_LEN warn");
  f.receive = ReceiveFact::kBadBuffer;
  EXPECT_EQ(Lines(f), "OK maybe resp=ERR recv=LOC_PROT | OK maybe recv=LOC_PROT | OK maybe");
}

TEST(RulesTest, Datagrams) {  // WR-UD-002, -006, -007, -008
  RequestFacts f = Facts(Operation::kSend, kUD);
  f.qkey_mismatch = true;
  EXPECT_EQ(Lines(f), "OK none");
  f = Facts(Operation::kSend, kUD);
  f.receive = ReceiveFact::kTooShort;
  EXPECT_EQ(Lines(f), "OK maybe | OK maybe recv=LOC_LEN | OK maybe resp=ERR recv=LOC_LEN");
  f = Facts(Operation::kSend, kUD);
  f.length = 1034;
  EXPECT_EQ(Lines(f), "OK none | LOC_LEN none req=SQE|ERR");
  f = Facts(Operation::kSend, kUD);
  f.ah_of_other_pd = true;
  EXPECT_EQ(Lines(f), "LOC_QP_OP none req=SQE|ERR | OK none | OK whole recv=OK");
}

TEST(RulesTest, Binds) {  // WR-MW-002, -005, -006, -007, -016, -017, -019
  struct Case {
    Window window;
    const char* lines;
  };
  constexpr Case kCases[] = {
      {Window::kFine, "OK whole"},
      {Window::kBoundAlready, "MW_BIND none req=ERR"},
      {Window::kWrongPd, "MW_BIND none req=ERR"},
      {Window::kNoBindRight, "MW_BIND none req=ERR"},
      {Window::kNoLocalWrite, "MW_BIND none req=ERR"},
      {Window::kOutOfRange, "MW_BIND none req=ERR | OK whole warn"},
      {Window::kZeroLength, "MW_BIND none req=ERR"},
      {Window::kForeignIndexBits, "OK whole | MW_BIND none req=ERR"},
      {Window::kNoMr, "MW_BIND none req=ERR"},
  };
  for (const Case& c : kCases) {
    RequestFacts f = Facts(Operation::kBindMw, kRC);
    f.window = c.window;
    EXPECT_EQ(Lines(f), c.lines);
  }
  EXPECT_EQ(Lines(Facts(Operation::kBindMw, kXS)), "OK whole | MW_BIND none req=ERR");
}

TEST(RulesTest, Invalidations) {  // WR-MW-009..-012
  struct Case {
    Window window;
    const char* lines;
  };
  constexpr Case kCases[] = {
      {Window::kFine, "OK whole"},
      {Window::kUnknownKey, "MW_BIND none req=ERR"},
      {Window::kPlainMr, "MW_BIND none req=ERR"},
      {Window::kWrongQp, "MW_BIND none req=ERR | OK whole warn"},
      {Window::kFree, "MW_BIND none req=ERR | OK whole"},
  };
  for (const Case& c : kCases) {
    RequestFacts f = Facts(Operation::kLocalInv, kRC);
    f.window = c.window;
    EXPECT_EQ(Lines(f), c.lines);
  }
}

TEST(RulesTest, Resources) {  // WR-BUILD-012, WR-RESP-013, WR-SGE-008
  RequestFacts f = Facts(Operation::kRdmaRead, kRC);
  f.no_read_resources = true;
  EXPECT_EQ(Lines(f), "OK whole | LOC_QP_OP none req=ERR | OPEN none");
  f.remote = RemoteFault::kUnknownKey;
  EXPECT_EQ(Lines(f), "REM_ACCESS none req=ERR resp=ERR | LOC_QP_OP none req=ERR | OPEN none");
  f = Facts(Operation::kRdmaRead, kRC);
  f.exceeds_dest_rd_atomic = true;
  EXPECT_EQ(Lines(f), "OK whole | REM_INV_REQ none req=ERR resp=ERR");
  f = Facts(Operation::kRdmaWrite, kRC);
  f.length = f.max_msg_sz + 1;
  EXPECT_EQ(Lines(f), "LOC_LEN none req=ERR | OK whole");
}

TEST(RulesTest, NoSetOverflows) {  // every combination of two mistakes still fits
  for (const OperationInfo& info : AllOperations()) {
    for (int t = 0; t < kQpTypeCount; ++t) {
      for (int local = 0; local < 5; ++local) {
        for (int remote = 0; remote < 8; ++remote) {
          for (int receive = 0; receive < 5; ++receive) {
            for (int window = 0; window < 14; ++window) {
              RequestFacts f = Facts(info.op, static_cast<QpType>(t));
              f.local = static_cast<LocalFault>(local);
              f.remote = static_cast<RemoteFault>(remote);
              f.receive = static_cast<ReceiveFact>(receive);
              f.window = static_cast<Window>(window);
              f.ah_of_other_pd = t == static_cast<int>(kUD);
              const OutcomeSet set = RequestOutcomes(f);
              ASSERT_GE(set.count, 1);
              ASSERT_LT(set.count, OutcomeSet::kMax);
              for (const Outcome& o : set) ASSERT_STRNE(o.clause, "");
            }
          }
        }
      }
    }
  }
}

TEST(RulesTest, Posting) {
  struct Case {
    PostFault fault;
    bool accept, refuse;
    int err;
    const char* clause;
  };
  constexpr Case kCases[] = {
      {PostFault::kNone, true, false, 0, "WR-ATOM-003"},
      {PostFault::kQueueFull, true, true, ENOMEM, "WR-CAP-002"},
      {PostFault::kTooManySges, true, true, EINVAL, "WR-SGE-003"},
      {PostFault::kTooMuchInline, true, true, EINVAL, "WR-INL-005"},
      {PostFault::kBadState, false, true, EINVAL, "WR-STATE-001"},
      {PostFault::kUnsignaled, true, true, 0, "WR-SAMPLE-006"},
      {PostFault::kUnsupportedFlag, true, true, 0, "WR-SAMPLE-008"},
      {PostFault::kTsoHeaderTooLong, false, true, EINVAL, "WR-DATA-027"},
      {PostFault::kBadFlush, true, true, EINVAL, "WR-DATA-019"},
      {PostFault::kStateErr, true, true, 0, "WR-STATE-005"},
  };
  for (const Case& c : kCases) {
    const PostRule& rule = RuleOf(c.fault);
    EXPECT_EQ(rule.may_accept, c.accept) << c.clause;
    EXPECT_EQ(rule.may_refuse, c.refuse) << c.clause;
    EXPECT_EQ(rule.reference_errno, c.err) << c.clause;
    EXPECT_STREQ(rule.clause, c.clause);
  }
}

}  // namespace
}  // namespace qpexam::model
