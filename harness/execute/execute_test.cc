// The executor on the reference: what a Program does is what its Trace says.
#include <gtest/gtest.h>

#include "harness/devices/provider_family.h"
#include "harness/execute/executor.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/trace/names.h"
#include "harness/trace/trace_text.h"

namespace qpexam {
namespace {

class Execute : public testing::Test {
 protected:
  void SetUp() override { Open("reference"); }

  void Open(const std::string& name) {
    executor_.reset();
    session_.reset();
    ProviderInfo info;
    std::string why;
    ASSERT_TRUE(FindProvider(name, &info, &why)) << why;
    session_ = OpenProvider(info, &why);
    ASSERT_TRUE(session_) << why;
    executor_ = std::make_unique<Executor>(session_.get());
  }

  const Trace& Run(const std::string& text, const RunOptions& options = {}) {
    ParseResult parsed = ParseProgram(text, "test");
    EXPECT_TRUE(parsed.ok) << parsed.error.Message();
    program_ = parsed.program;
    executor_->Run(program_, options, &trace_);
    return trace_;
  }

  // The event of the n-th call of this kind.
  const Event& Of(CallKind kind, int n = 0) {
    for (const Event& e : trace_.events)
      if (e.call != kEndOfRun && program_.calls[e.call].kind == kind && n-- == 0) return e;
    ADD_FAILURE() << "no such event";
    static const Event none;
    return none;
  }
  std::string Text() const { return PrintTrace(program_, trace_); }

  std::unique_ptr<DeviceSession> session_;
  std::unique_ptr<Executor> executor_;
  Program program_;
  Trace trace_;
};

constexpr const char* kWrite = R"(qp a rc ops=RDMA_WRITE|RDMA_WRITE_WITH_IMM|SEND
qp b rc ops=SEND
connect a b
mr src len=64 access=LOCAL_WRITE fill=0x5a
mr dst len=64 access=LOCAL_WRITE|REMOTE_WRITE
recv b wr_id=9
start a
  rdma_write a wr_id=1 rkey=dst addr=dst+0
  set_sge a addr=src+0 len=16
  rdma_write_imm a wr_id=2 flags=SIGNALED rkey=dst addr=dst+16 imm=0x1234
  set_sge a addr=src+16 len=16
complete a
poll a.send
poll b.recv
)";

TEST_F(Execute, WriteWithImmediateMovesBytesAndCompletesOnBothSides) {
  const Trace& trace = Run(kWrite);
  const Event& sent = Of(CallKind::kPoll, 0);
  ASSERT_EQ(sent.completions.count, 1u) << Text();
  EXPECT_EQ(trace.CompletionsOf(sent)[0].wr_id, 2u);
  EXPECT_EQ(trace.CompletionsOf(sent)[0].opcode, IBV_WC_RDMA_WRITE);
  const Event& received = Of(CallKind::kPoll, 1);
  ASSERT_EQ(received.completions.count, 1u) << Text();
  const SeenCompletion& c = trace.CompletionsOf(received)[0];
  EXPECT_EQ(c.wr_id, 9u);
  EXPECT_EQ(c.imm, 0x1234u);
  EXPECT_EQ(c.byte_len, 16u);
  EXPECT_EQ(ObjectWord(program_, c.qp), "b");
  ASSERT_EQ(trace.memory.size(), 1u) << Text();
  EXPECT_EQ(trace.memory[0].size, 32u);
  EXPECT_EQ(trace.BytesOf(trace.memory[0])[31], 0x5a);
}

TEST_F(Execute, TheSameProgramPrintsTheSameTrace) {
  Run(kWrite);
  const std::string fresh = Text();
  for (int i = 0; i < 3; i++) {
    Run(kWrite);
    EXPECT_EQ(Text(), fresh);
  }
  // Kept objects make no difference that a Program could see.
  RunOptions keep;
  keep.keep_objects = true;
  for (int i = 0; i < 3; i++) {
    Run(kWrite, keep);
    EXPECT_EQ(Text(), fresh) << "run " << i << " with kept objects";
  }
}

// A region laid over another (at=) and a store may reach beyond every region's own bytes.
TEST_F(Execute, MemoryBeyondTheRegionsIsCleanForTheNextProgram) {
  RunOptions keep;
  keep.keep_objects = true;
  constexpr const char* kLater = R"(mr small len=8 access=0
mr large len=256 access=0
load large+0 len=256
)";
  Run(kLater, keep);
  const std::string fresh = Text();
  // No text can say so, other makers of Programs can.
  ParseResult parsed = ParseProgram(R"(qp a rc ops=RDMA_WRITE
qp b rc
connect a b
mr src len=64 access=LOCAL_WRITE fill=0x5a
mr over at=src+32 len=32 access=LOCAL_WRITE|REMOTE_WRITE
post_send a rdma_write flags=SIGNALED addr=over+96 sge=src+0:32
poll a.send expect=1
store src+32 bytes=0102030405060708
)",
                                    "test");
  ASSERT_TRUE(parsed.ok) << parsed.error.Message();
  program_ = parsed.program;
  program_.calls[4].len = 128;
  program_.calls[7].addr.offset = 168;
  executor_->Run(program_, keep, &trace_);
  EXPECT_EQ(Of(CallKind::kPoll).count, 1u) << Text();
  Run(kLater, keep);
  EXPECT_EQ(Text(), fresh);
}

TEST_F(Execute, WhatCannotBeMadeIsNotMadeNorIsWhatDependsOnIt) {
  Run(R"(qp a rc ops=0x100000000
start a
  send a wr_id=1
complete a
poll a.send expect=0
)");
  EXPECT_NE(Of(CallKind::kQp).rc, 0);
  EXPECT_EQ(Of(CallKind::kQp).ran, Ran::kDone);
  EXPECT_EQ(Of(CallKind::kStart).ran, Ran::kNotMade) << Text();
  EXPECT_EQ(Of(CallKind::kBuild).ran, Ran::kNotMade);
  EXPECT_EQ(Of(CallKind::kPoll).ran, Ran::kNotMade);
}

// A request without its setter would be an undefined use: the region is aborted instead.
TEST_F(Execute, ARegionThatCannotBeBuiltWholeIsAborted) {
  Run(R"(qp a rc ops=RDMA_WRITE
qp b rc
connect a b
mr src len=64 access=LOCAL_WRITE
mr dst len=64 access=LOCAL_WRITE|REMOTE_WRITE
mr bad len=64 access=REMOTE_WRITE
start a
  rdma_write a wr_id=1 flags=SIGNALED addr=dst+0
  set_sge a addr=bad+0 len=8
  rdma_write a wr_id=2 flags=SIGNALED addr=dst+0
  set_sge a addr=src+0 len=8
complete a
start a
  rdma_write a wr_id=3 flags=SIGNALED addr=dst+8
  set_sge a addr=src+0 len=8
complete a
poll a.send
settle
poll a.send expect=0
)");
  EXPECT_NE(Of(CallKind::kMr, 2).rc, 0) << "remote write without local write is refused";
  EXPECT_EQ(Of(CallKind::kBuild, 0).ran, Ran::kDone);
  EXPECT_EQ(Of(CallKind::kSetSge, 0).ran, Ran::kNotMade);
  EXPECT_EQ(Of(CallKind::kBuild, 1).ran, Ran::kNotMade);
  EXPECT_EQ(Of(CallKind::kSetSge, 1).ran, Ran::kNotMade);
  EXPECT_EQ(Of(CallKind::kComplete, 0).ran, Ran::kNotMade);
  EXPECT_EQ(Of(CallKind::kComplete, 1).ran, Ran::kDone);
  EXPECT_EQ(Of(CallKind::kPoll, 0).count, 1u) << Text();
  EXPECT_EQ(Of(CallKind::kPoll, 1).count, 0u) << Text();
}

TEST_F(Execute, CallsFromTheCutOnAreNotMade) {
  RunOptions options;
  options.cut_at = 6;
  Run(kWrite, options);
  EXPECT_EQ(Of(CallKind::kStart).ran, Ran::kCut);
  EXPECT_EQ(Of(CallKind::kPoll, 1).ran, Ran::kCut);
  EXPECT_EQ(Of(CallKind::kRecv).ran, Ran::kDone);
}

TEST_F(Execute, ARegionLeftOpenIsClosedBeforeObjectsAreFreed) {
  Run(R"(qp a rc ops=SEND
connect a a
start a
  send a wr_id=1
)");
  EXPECT_EQ(trace_.events.back().call, kEndOfRun);
  EXPECT_EQ(trace_.StatesOf(trace_.events.back())[0].state, IBV_QPS_RTS) << Text();
  Run(kWrite);
  EXPECT_EQ(Of(CallKind::kPoll).completions.count, 1u) << "the run after it works";
}

TEST_F(Execute, ThreadsWaitForEachOthersRegionsInAFixedOrder) {
  constexpr const char* kThreads = R"(qp a rc ops=SEND
connect a a
thread t
mr m len=64 access=LOCAL_WRITE
recv a wr_id=10 sge=m+0:8
recv a wr_id=11 sge=m+8:8
start a
  send a wr_id=1 flags=SIGNALED
t: start a
  set_inline a addr=m+16 len=8
t: send a wr_id=2 flags=SIGNALED
t: set_inline a addr=m+16 len=8
complete a
t: complete a
poll a.send expect=2
poll a.recv expect=2
)";
  Run(kThreads);
  const std::string first = Text();
  EXPECT_EQ(trace_.CompletionsOf(Of(CallKind::kPoll))[0].wr_id, 1u) << first;
  EXPECT_EQ(trace_.CompletionsOf(Of(CallKind::kPoll))[1].wr_id, 2u);
  for (int i = 0; i < 20; i++) {
    Run(kThreads);
    ASSERT_EQ(Text(), first);
  }
}

TEST_F(Execute, ThreadsRunAtOnceBetweenParallelAndJoin) {
  for (int i = 0; i < 50; i++) {
    Run(R"(qp a rc ops=RDMA_WRITE sq=64
qp b rc
connect a b
thread t
thread u
mr m len=64 access=LOCAL_WRITE|REMOTE_WRITE
parallel
t: start a
t: rdma_write a wr_id=1 flags=SIGNALED rkey=m addr=m+0
t: set_sge a addr=m+32 len=8
t: complete a
u: start a
u: rdma_write a wr_id=2 flags=SIGNALED rkey=m addr=m+8
u: set_sge a addr=m+32 len=8
u: complete a
poll a.send expect=2
join
)");
    uint32_t completed = 0;
    for (const SeenCompletion& c : trace_.completions) completed += c.status == IBV_WC_SUCCESS;
    ASSERT_EQ(completed, 2u) << Text();
    ASSERT_EQ(trace_.events.size(), program_.calls.size() + 1);
  }
}

// A region belongs to the thread that began it (WR-CONC-001), also if the section ends within it.
TEST_F(Execute, TheMainThreadIsTheSameInASection) {
  Run(R"(qp a rc ops=RDMA_WRITE
qp b rc
connect a b
mr m len=64 access=LOCAL_WRITE|REMOTE_WRITE
thread t
parallel
start a
t: load m+8 len=8
join
rdma_write a wr_id=1 flags=SIGNALED addr=m+0
set_sge a addr=m+32 len=8
complete a
poll a.send
)");
  EXPECT_EQ(Of(CallKind::kComplete).rc, 0);
  EXPECT_TRUE(trace_.lints.empty()) << Text();
}

TEST_F(Execute, AWaitThatNothingCanEndEndsAtOnceOnTheVirtualClock) {
  Run(R"(qp a rc ops=SEND
connect a a
poll a.send expect=5
)");
  EXPECT_TRUE(Of(CallKind::kPoll).settled);
  EXPECT_EQ(Of(CallKind::kPoll).count, 0u);
}

TEST_F(Execute, ALoadRecordsItsBytesWhetherTheyChangedOrNot) {
  Run("mr m len=16 fill=0x11\nstore m+4 bytes=aabb\nload m+3 len=4\n");
  ASSERT_EQ(trace_.memory.size(), 1u) << Text();
  const model::Bytes seen = trace_.BytesOf(trace_.memory[0]);
  EXPECT_EQ(std::vector<uint8_t>(seen.begin(), seen.end()),
            (std::vector<uint8_t>{0x11, 0xaa, 0xbb, 0x11}));
}

TEST_F(Execute, CompletionEventsComeWithTheirQueue) {
  Run(R"(channel ch
cq c channel=ch
qp a rc ops=SEND send_cq=c
connect a a
mr m len=16 access=LOCAL_WRITE
recv a wr_id=1 sge=m+0:8
arm c
start a
  send a wr_id=2 flags=SIGNALED
  set_sge a addr=m+8 len=8
complete a
get_cq_event ch
get_cq_event ch
)");
  const Event& event = Of(CallKind::kGetCqEvent);
  EXPECT_EQ(event.count, 1u) << Text();
  EXPECT_EQ(CqWord(program_, event.event_of), "c");
  EXPECT_EQ(Of(CallKind::kGetCqEvent, 1).count, 0u) << "one arming, one event";
}

TEST_F(Execute, UndefinedUsesAreReportedByTheReference) {
  Run(R"(qp a rc ops=SEND
connect a a
mr m len=16
start a
  send a wr_id=1
  set_sge a addr=m len=8
  set_sge a addr=m len=8
abort a
)");
  ASSERT_FALSE(trace_.lints.empty()) << Text();
  EXPECT_STREQ(trace_.lints[0], "WR-SET-002");
}

TEST_F(Execute, EveryKindOfObjectIsFreedWhateverWasLeftOpen) {
  const std::string text = R"(arena 8192
device d
pd p device=d
td t
pd pp td=t
mr m len=64 access=LOCAL_WRITE|REMOTE_WRITE|MW_BIND
mw w type=2
channel ch
cq c channel=ch n=8
cq cx ex wc=BYTE_LEN|IMM|QP_NUM
srq s
xrcd x
srq xs xrcd=x cq=c
qp a rc ops=SEND send_cq=c recv_cq=cx srq=s
qp u ud ops=SEND
qp xr xrc_recv xrcd=x
qp xi xrc_send ops=SEND pd=pp
ah h
connect a a
connect u
attach_mcast u
)";
  for (int i = 0; i < 3; i++) {
    Run(text);
    for (const Event& e : trace_.events) {
      EXPECT_EQ(e.rc, 0) << PrintEvent(program_, trace_, e);
      EXPECT_EQ(e.ran, Ran::kDone) << PrintEvent(program_, trace_, e);
    }
  }
}

}  // namespace
}  // namespace qpexam
