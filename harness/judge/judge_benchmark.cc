// How long judging takes: a program of 20 calls, and growth with length (issue 2's measures).
#include <benchmark/benchmark.h>

#include <string>

#include "harness/judge/judge.h"
#include "harness/judge/script.h"

namespace qpexam::judge {
namespace {

constexpr char kSetup[] =
    "qp a rc ops=0x1bff\nqp b rc ops=0x1bff\nconnect a b\n"
    "mr src len=64 fill=0x5a access=LOCAL_WRITE\n"
    "mr dst len=64 access=LOCAL_WRITE|REMOTE_WRITE|REMOTE_READ\n";

void TwentyCalls(benchmark::State& state) {
  const Script script = ReadScript(std::string(kSetup) + R"(recv b wr_id=9 sge=dst+32:16
start a
rdma_write a wr_id=1 addr=dst+0
set_sge a addr=src+0 len=16
rdma_write a wr_id=2 flags=SIGNALED addr=dst+16
set_inline a addr=src+16 len=16
send a wr_id=3 flags=SIGNALED
set_sge_list a sge=src+0:8,src+8:8
complete a
poll a.send expect=2
=> wc a 2 SUCCESS RDMA_WRITE
=> wc a 3 SUCCESS SEND
=> mem dst 0 5a*48
poll b.recv
=> wc b 9 SUCCESS RECV len=16
start a
rdma_read a wr_id=4 flags=SIGNALED addr=dst+0
set_sge a addr=src+48 len=16
complete a
poll a.send
=> wc a 4 SUCCESS RDMA_READ len=16
settle
end
)");
  Judge judge;
  for (auto _ : state) {
    const Verdict& verdict = judge(script.program, script.trace);
    if (!verdict.findings.empty()) state.SkipWithError(verdict.findings[0].what.c_str());
    benchmark::DoNotOptimize(&verdict);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(TwentyCalls);

// Regions of one write, each polled: `range` calls in all.
void Length(benchmark::State& state) {
  std::string text = kSetup;
  for (int64_t i = 0; i * 5 < state.range(0); ++i) {
    text +=
        "start a\nrdma_write a wr_id=1 flags=SIGNALED addr=dst+0\nset_sge a addr=src+0 len=16\n"
        "complete a\npoll a.send\n=> wc a 1 SUCCESS RDMA_WRITE\n";
    if (i == 0) text += "=> mem dst 0 5a*16\n";
  }
  text += "end\n";
  const Script script = ReadScript(text);
  Judge judge;
  for (auto _ : state) {
    const Verdict& verdict = judge(script.program, script.trace);
    if (!verdict.findings.empty()) state.SkipWithError(verdict.findings[0].what.c_str());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Length)->Arg(1000)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

// Everything outstanding at once, then completed: no step may look at all of them.
void Depth(benchmark::State& state) {
  const std::string n = std::to_string(state.range(0));
  std::string text = "qp a rc ops=0x1bff sq=" + n + "\nqp b rc\nconnect a b\n" +
                     std::string(kSetup).substr(std::string(kSetup).find("mr src"));
  text += "start a\n";
  for (int64_t i = 0; i < state.range(0); ++i) {
    text += "rdma_write a wr_id=" + std::to_string(i) +
            " flags=SIGNALED addr=dst+0\nset_sge a addr=src+0 len=8\n";
  }
  text += "complete a\n";
  for (int64_t i = 0; i < state.range(0); ++i) {
    text += "poll a.send n=1\n=> wc a " + std::to_string(i) + " SUCCESS RDMA_WRITE\n";
    if (i == 0) text += "=> mem dst 0 5a*8\n";
  }
  text += "end\n";
  const Script script = ReadScript(text);
  Judge judge;
  for (auto _ : state) {
    const Verdict& verdict = judge(script.program, script.trace);
    if (!verdict.findings.empty()) state.SkipWithError(verdict.findings[0].what.c_str());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Depth)->Arg(100)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qpexam::judge
