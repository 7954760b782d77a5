#include "harness/program/minimize.h"

#include <gtest/gtest.h>

#include <string>

#include "harness/program/lint.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

Program Parsed(const std::string& text) {
  ParseResult result = ParseProgram(text, "test.qpx");
  EXPECT_TRUE(result.ok) << result.error.Message();
  return std::move(result.program);
}

Program Loaded(const std::string& path) {
  ParseResult result = LoadProgram(path);
  EXPECT_TRUE(result.ok) << result.error.Message();
  return std::move(result.program);
}

// What shows the lint's finding is the set-up of one QP and two calls.
TEST(Minimize, KeepsTheFindingAndNothingElse) {
  const Program big = Parsed(
      "qp other rc ops=SEND sq=3\nqp peer rc ops=SEND|RDMA_WRITE sq=100\n"
      "connect other peer\nmr src len=640 access=LOCAL_WRITE fill=0x5a\n"
      "start other\n send other wr_id=77 flags=SIGNALED\n set_sge other addr=src+16 len=99\n"
      "complete other\npoll other.send\n"
      "start peer\n rdma_write peer wr_id=12345 flags=SIGNALED|FENCE addr=src+64\n"
      "set_sge_list peer sge=src+0:16,src+32:7\n set_sge peer addr=src+3 len=9\n"
      "complete peer\npoll peer.send\nsettle\n");
  auto second_setter = [](const Program& p) {
    EXPECT_FALSE(Validate(p)) << "keep sees only well-formed Programs";
    const auto finding = FirstUndefined(p);
    return finding && std::string(finding->clause) == "WR-SET-002";
  };
  ASSERT_TRUE(second_setter(big));
  const Program small = Minimize(big, second_setter);
  EXPECT_TRUE(second_setter(small));
  EXPECT_LE(small.calls.size(), 5u) << PrintProgram(small);
  EXPECT_EQ(PrintProgram(Minimize(big, second_setter)), PrintProgram(small));
}

TEST(Minimize, SimplifiesArguments) {
  const Program p = Parsed(
      "qp a rc ops=SEND|RDMA_WRITE|RDMA_READ sq=77 rq=5 sig_all\n"
      "mr m len=2000 access=LOCAL_WRITE|REMOTE_WRITE fill=0x11\n");
  const Program small = Minimize(p, [](const Program& q) {
    for (const Call& c : q.calls) {
      if (c.kind == CallKind::kQp && (c.ops & IBV_QP_EX_WITH_RDMA_READ) && c.ops != kPlainQp) {
        return true;
      }
    }
    return false;
  });
  EXPECT_EQ(PrintProgram(small), "qpx 1\nqp a rc ops=RDMA_READ\n");
}

TEST(Minimize, EverySeedToOneCall) {
  for (const char* name : {"01-manual-example", "mw-local-inv", "conc-one-qp", "mix-same-effect"}) {
    const Program seed = Loaded(std::string("corpus/seeds/") + name + ".qpx");
    const Program small = Minimize(seed, [](const Program& p) { return !p.calls.empty(); });
    EXPECT_EQ(small.calls.size(), 1u) << PrintProgram(small);
  }
}

TEST(Minimize, StopsAtItsLimit) {
  const Program seed = Loaded("corpus/seeds/mix-same-effect.qpx");
  int tries = 0;
  MinimizeLimits limits;
  limits.tries = 25;
  Minimize(
      seed, [&](const Program&) { return ++tries % 2 == 0; }, limits);
  EXPECT_LE(tries, 25);
}

}  // namespace
}  // namespace qpexam
