// The forms of a Trace: what is printed reads back as the same Trace, and what cannot be read says
// where and what would be right.
#include <gtest/gtest.h>

#include "harness/program/parse.h"
#include "harness/trace/names.h"
#include "harness/trace/trace_text.h"

namespace qpexam {
namespace {

constexpr const char* kProgram = R"(qp a rc ops=RDMA_WRITE
qp b rc
connect a b
mr dst len=64 access=LOCAL_WRITE|REMOTE_WRITE
mw win
query a
query_device
poll a.send
settle
)";

// A trace with every kind of field in it.
TraceFile Example() {
  TraceFile file;
  ParseResult parsed = ParseProgram(kProgram, "example");
  EXPECT_TRUE(parsed.ok) << parsed.error.Message();
  file.program = parsed.program;
  Trace& t = file.trace;
  t.provider = "reference";
  t.version = "56.1";
  auto event = [&](uint32_t call) -> Event& {
    t.events.emplace_back();
    t.events.back().call = call;
    return t.events.back();
  };
  Event& made = event(0);
  made.granted[0] = 16;
  made.granted[3] = 1;
  Event& refused = event(1);
  refused.rc = EINVAL;
  event(2).ran = Ran::kNotMade;
  event(3);
  event(4);
  Event& query = event(5);
  query.values = {0, 2};
  t.values.push_back({static_cast<uint16_t>(AttrField::kState), 3});
  t.values.push_back({static_cast<uint16_t>(AttrField::kSqPsn), 0xffffff});
  Event& device = event(6);
  device.values = {2, 1};
  t.values.push_back({static_cast<uint16_t>(Queried::kMaxQpWr), 16384});
  Event& poll = event(7);
  poll.count = 2;
  poll.completions = {0, 2};
  poll.memory = {0, 1};
  SeenCompletion c;
  c.wr_id = ~uint64_t{0};
  c.cq = {0, Side::kSend};
  c.qp = 0;
  c.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  c.byte_len = 16;
  c.imm = 0x1234;
  c.wc_flags = IBV_WC_WITH_IMM | IBV_WC_WITH_INV | IBV_WC_GRH;
  c.invalidated = 3;
  c.invalidated_inc = 1;
  c.src_qp = 1;
  c.pkey_index = 1;
  c.slid = 2;
  c.sl = 3;
  c.dlid_path_bits = 4;
  t.completions.push_back(c);
  SeenCompletion bad;
  bad.cq = {0, Side::kSend};
  bad.status = IBV_WC_WR_FLUSH_ERR;
  bad.vendor_err = 0xf5;
  bad.invalidated_raw = 0;
  t.completions.push_back(bad);
  t.memory.push_back({3, 8, 0, 3});
  t.bytes = {0x5a, 0x00, 0xff};
  Event& settle = event(8);
  settle.settled = true;
  settle.timed_out = true;
  settle.states = {0, 1};
  t.states.push_back({0, IBV_QPS_ERR, IBV_QPS_RTS});
  settle.lints = {0, 1};
  t.lints.push_back("WR-SET-002");
  settle.has_async = true;
  settle.async_type = IBV_EVENT_SQ_DRAINED;
  settle.event_of = {0, Side::kRecv};
  Event& end = event(kEndOfRun);
  end.settled = true;
  t.fatal = "crash: SIGSEGV\nin \\ two lines";
  return file;
}

TEST(TraceText, ReadsBackAsTheSameTrace) {
  TraceFile file = Example();
  std::string text = PrintTrace(file.program, file.trace);
  TraceFile again;
  auto error = ReadTrace(text, &again);
  ASSERT_FALSE(error) << error->ToString("text") << "\n" << text;
  EXPECT_EQ(PrintTrace(again.program, again.trace), text);
  EXPECT_EQ(again.trace.fatal, file.trace.fatal);
  ASSERT_EQ(again.trace.events.size(), file.trace.events.size());
  EXPECT_EQ(again.trace.events[7].completions.count, 2u);
  EXPECT_EQ(again.trace.completions[0].wr_id, ~uint64_t{0});
  EXPECT_EQ(again.trace.completions[0].dlid_path_bits, 4);
  EXPECT_STREQ(again.trace.lints[0], "WR-SET-002");
}

TEST(TraceJson, ReadsBackAsTheSameTrace) {
  TraceFile file = Example();
  std::string json = TraceToJson(file.program, file.trace);
  TraceFile again;
  auto error = ReadTrace(json, &again);
  ASSERT_FALSE(error) << error->ToString("json") << "\n" << json;
  // The two forms hold the same.
  EXPECT_EQ(PrintTrace(again.program, again.trace), PrintTrace(file.program, file.trace));
  EXPECT_EQ(TraceToJson(again.program, again.trace), json);
}

TEST(TraceText, AppendingKeepsWhatEventsRefersTo) {
  TraceFile file = Example();
  Trace twice = file.trace;
  twice.Append(file.trace);
  const Event& poll = twice.events[file.trace.events.size() + 7];
  EXPECT_EQ(twice.CompletionsOf(poll)[1].vendor_err, 0xf5u);
  EXPECT_EQ(twice.BytesOf(twice.MemoryOf(poll)[0])[2], 0xff);
  EXPECT_EQ(PrintEvent(file.program, twice, poll),
            PrintEvent(file.program, file.trace, file.trace.events[7]));
}

TEST(TraceText, EveryPrefixAndEveryDamagedByteIsReadOrRefused) {
  TraceFile file = Example();
  for (const std::string& whole :
       {PrintTrace(file.program, file.trace), TraceToJson(file.program, file.trace)}) {
    TraceFile out;
    for (size_t n = 0; n < whole.size(); n++) (void)ReadTrace(whole.substr(0, n), &out);
    for (size_t i = 0; i < whole.size(); i++) {
      for (char damage : {'\0', '\xff', '=', '9', '\n'}) {
        std::string text = whole;
        text[i] = damage;
        (void)ReadTrace(text, &out);
      }
    }
  }
}

struct BadTrace {
  const char* name;
  const char* text;
  uint32_t line;
  const char* what;
};
class Refuses : public testing::TestWithParam<BadTrace> {};

TEST_P(Refuses, WithLineAndRemedy) {
  TraceFile out;
  auto error = ReadTrace(GetParam().text, &out);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->line, GetParam().line);
  EXPECT_NE(error->what.find(GetParam().what), std::string::npos) << error->what;
  EXPECT_FALSE(error->remedy.empty());
}

#define HEAD "qpexam-trace 1\nprovider reference 56.1\nprogram\n| settle\nevents\n"
INSTANTIATE_TEST_SUITE_P(
    Traces, Refuses,
    testing::Values(
        BadTrace{"Empty", "", 0, "empty"}, BadTrace{"NoTrace", "hello\n", 1, "not a trace"},
        BadTrace{"BadProgram", "qpexam-trace 1\nprovider r 1\nprogram\n| settle\n| sette\nevents\n",
                 5, "in the program"},
        BadTrace{"NoSuchCall", HEAD "@1\n", 6, "names no call"},
        BadTrace{"UnknownStatus", HEAD "@0\n  wc status=FINE\n", 7, "status=FINE"},
        BadTrace{"UnknownField", HEAD "@0\n  wc colour=1\n", 7, "colour=1"},
        BadTrace{"UnknownClause", HEAD "@0\n  lint WR-NONE-001\n", 7, "WR-NONE-001"},
        BadTrace{"OddBytes", HEAD "@0\n  mem mr=- offset=0 bytes=5\n", 7, "bytes=5"},
        BadTrace{"UnknownObject", HEAD "@0\n  state qp=zz\n", 7, "qp=zz"},
        BadTrace{"CutShort", HEAD "@0\n", 6, "ends early"}, BadTrace{"NotJson", "{", 0, "not JSON"},
        BadTrace{"OtherJson", "{\"schema\": \"x\"}", 0, "not a trace"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace qpexam
