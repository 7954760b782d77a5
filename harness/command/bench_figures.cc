// What `qpexam bench` measures on a provider that is open.
#include "harness/command/bench_figures.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "harness/command/commands.h"
#include "harness/command/results.h"
#include "harness/execute/executor.h"
#include "harness/program/attributes.h"
#include "harness/program/parse.h"
#include "harness/program/schema.h"

namespace qpexam::bench {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds that went by for this provider: of the processor, where nothing else is waited for, so
// that what else the machine does meanwhile is not measured.
double Spent(const ProviderInfo& info) {
  if (info.kind == ProviderKind::kReference || info.kind == ProviderKind::kHosted)
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Seconds of one call of f, in the best of the rounds that fit.
template <typename F>
double Best(double seconds, F f) {
  double best = 1e9;
  int rounds = 0;
  const Clock::time_point begin = Clock::now();
  // The first round touches memory for the first time: at least two more.
  do {
    rounds++;
    const Clock::time_point start = Clock::now();
    f();
    best = std::min(best, Since(start));
  } while (rounds < 3 || Since(begin) < seconds);
  return best;
}

// Bytes of memory that this process holds now.
uint64_t Resident() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (!file) return 0;
  unsigned long total = 0, resident = 0;
  if (std::fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
  std::fclose(file);
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Two connected RC QPs on a session, for posting without the executor.
struct Pair {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;  // of the QP that posts
  ibv_cq* peer_cq = nullptr;
  ibv_qp* qp[2] = {};
  ibv_mr* mr = nullptr;
  ibv_port_attr port = {};
  ibv_gid gid = {};
  alignas(64) uint8_t memory[4096] = {};

  ~Pair() {
    Free();
    if (context) ibv_close_device(context);
  }

  bool Open(DeviceSession* session) {
    context = session->Open(0);
    return context && !ibv_query_port(context, 1, &port) && !ibv_query_gid(context, 1, 0, &gid);
  }
  void Free() {
    for (ibv_qp*& q : qp) {
      if (q) ibv_destroy_qp(q);
      q = nullptr;
    }
    if (mr) ibv_dereg_mr(mr);
    for (ibv_cq** c : {&cq, &peer_cq}) {
      if (*c) ibv_destroy_cq(*c);
      *c = nullptr;
    }
    if (pd) ibv_dealloc_pd(pd);
    mr = nullptr;
    pd = nullptr;
  }
  // A send queue of `depth` requests, completion queues of `cqe`.
  bool Make(int cqe, uint32_t depth = 64) {
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, cqe, nullptr, nullptr, 0);
    peer_cq = ibv_create_cq(context, cqe, nullptr, nullptr, 0);
    if (!pd || !cq || !peer_cq) return false;
    mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    for (int i = 0; i < 2; i++) {
      ibv_qp*& q = qp[i];
      ibv_qp_init_attr_ex attr;
      std::memset(&attr, 0, sizeof attr);
      attr.send_cq = attr.recv_cq = i == 0 ? cq : peer_cq;
      attr.cap = {depth, 16, 4, 4, 0};
      attr.qp_type = IBV_QPT_RC;
      attr.pd = pd;
      attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
      q = ibv_create_qp_ex(context, &attr);
      if (!q) return false;
    }
    if (!mr) return false;
    for (int i = 0; i < 2; i++) {
      ModifyFacts facts;
      facts.type = model::QpType::kRc;
      facts.peer_qpn = qp[1 - i]->qp_num;
      facts.path.lid = port.lid;
      facts.path.gid = gid;
      facts.path.needs_grh = port.link_layer == IBV_LINK_LAYER_ETHERNET;
      Call connect = MakeCall(CallKind::kConnect);
      for (ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        ModifyArgs args = ArgsOfConnectStep(connect, facts, to);
        if (ibv_modify_qp(qp[i], &args.attr, args.mask)) return false;
        facts.present = to;
      }
    }
    return true;
  }
};

constexpr int kBatch = 32;

void BuildBatch(const Pair& pair, ibv_qp_ex* qp) {
  ibv_wr_start(qp);
  for (int i = 0; i < kBatch; i++) {
    qp->wr_id = static_cast<uint64_t>(i);
    qp->wr_flags = i + 1 == kBatch ? IBV_SEND_SIGNALED : 0;
    ibv_wr_rdma_write(qp, pair.mr->rkey, reinterpret_cast<uintptr_t>(pair.memory));
    ibv_wr_set_sge(qp, pair.mr->lkey, reinterpret_cast<uintptr_t>(pair.memory + 2048), 64);
  }
}

// Builds a batch, and waits for its completion.
bool ExecuteBatch(DeviceSession* session, const Pair& pair, ibv_qp_ex* qp) {
  BuildBatch(pair, qp);
  if (ibv_wr_complete(qp) != 0) return false;
  ibv_wc wc;
  int n = 0;
  for (int tries = 0; n == 0 && tries < 1000000; tries++) {
    n = ibv_poll_cq(pair.cq, 1, &wc);
    if (n == 0) session->Settle();
  }
  return n == 1 && wc.status == IBV_WC_SUCCESS;
}

// Seconds that a request takes, built alone and built, executed and polled, in batches; the second
// is negative where it did not come to an end.
std::pair<double, double> TimeOfRequest(DeviceSession* session, const Pair& pair, double seconds) {
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.qp[0]);
  constexpr int kRounds = 1000;
  const double build = Best(seconds, [&] {
    for (int i = 0; i < kRounds; i++) {
      BuildBatch(pair, qp);
      ibv_wr_abort(qp);
    }
  });
  bool good = true;
  const double execute = Best(seconds, [&] {
    for (int i = 0; i < kRounds && good; i++) good = ExecuteBatch(session, pair, qp);
  });
  return {build / (kRounds * kBatch), good ? execute / (kRounds * kBatch) : -1};
}

// What is set up and recycled for the twenty calls, and nothing else.
constexpr const char* kEmpty = R"(qp a rc ops=RDMA_WRITE|SEND
qp b rc ops=SEND
connect a b
mr src len=64 access=LOCAL_WRITE fill=0x5a
mr dst len=64 access=LOCAL_WRITE|REMOTE_WRITE
settle
)";

// About 20 calls: two QPs, two regions of two requests, their completions.
constexpr const char* kTwentyCalls = R"(qp a rc ops=RDMA_WRITE|SEND
qp b rc ops=SEND
connect a b
mr src len=64 access=LOCAL_WRITE fill=0x5a
mr dst len=64 access=LOCAL_WRITE|REMOTE_WRITE
recv b wr_id=9 sge=dst+32:16
start a
  rdma_write a wr_id=1 rkey=dst addr=dst+0
  set_sge a addr=src+0 len=16
  rdma_write a wr_id=2 flags=SIGNALED rkey=dst addr=dst+16
  set_sge a addr=src+16 len=16
complete a
poll a.send
start a
  send a wr_id=3 flags=SIGNALED
  set_sge a addr=src+32 len=16
complete a
poll a.send
poll b.recv
settle
)";

// A Program of about `calls` calls: set-up, then regions of one write and its completion.
Program Long(size_t calls) {
  std::string text = R"(qp a rc ops=RDMA_WRITE
qp b rc
connect a b
mr m len=64 access=LOCAL_WRITE|REMOTE_WRITE
)";
  for (size_t n = 4; n < calls; n += 5)
    text +=
        "start a\nrdma_write a wr_id=1 flags=SIGNALED rkey=m addr=m\nset_sge a addr=m+32 "
        "len=8\ncomplete a\npoll a.send\n";
  return ParseProgram(text, "bench").program;
}

// kTwentyCalls with `count` more queue pairs open, which it does not use.
Program Crowded(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; i++) text += fmt::format("qp other{} rc ops=RDMA_WRITE\n", i);
  return ParseProgram(text + kTwentyCalls, "bench").program;
}

// A Program run and judged over and over, its objects kept.
class Judged {
 public:
  Judged(DeviceSession* session, const ProviderInfo& info)
      : info_(info), executor_(session), judge_(JudgingOf(info)) {
    options_.keep_objects = true;
  }
  void Run(const Program& program) { executor_.Run(program, options_, &trace_); }
  void RunAndJudge(const Program& program) {
    Run(program);
    violations_ += judge_(program, trace_).violations;
  }
  // Seconds of one f() in `rounds` of them.
  template <typename F>
  double Each(int rounds, F f) {
    const double start = Spent(info_);
    for (int i = 0; i < rounds; i++) f();
    return (Spent(info_) - start) / rounds;
  }
  uint64_t violations() const { return violations_; }

 private:
  const ProviderInfo& info_;
  Executor executor_;
  judge::Judge judge_;
  Trace trace_;
  RunOptions options_;
  uint64_t violations_ = 0;
};

void GrowthWithLength(const Subject& subject) {
  Print("\nGrowth with the length of a program (reference, run and judged)\n");
  Judged judged(subject.session, *subject.info);
  for (size_t calls : {size_t{100}, size_t{1000}, size_t{10000}, size_t{100000}}) {
    const Program program = Long(calls);
    const double seconds = Best(subject.seconds, [&] { judged.RunAndJudge(program); });
    const double per_call = seconds / static_cast<double>(program.calls.size()) * 1e9;
    Print(fmt::format("{:>8} calls {:>10.3f} ms {:>8.0f} ns a call\n", program.calls.size(),
                      seconds * 1e3, per_call));
    (*subject.found)[fmt::format("reference.ns_per_call.{}", calls)] = per_call;
  }
}

void GrowthWithObjects(const Subject& subject) {
  Print(
      "\nGrowth with open objects (reference; 20 calls, and other queue pairs, of which\n"
      "64 are kept from one program to the next)\n");
  double alone = 0;
  for (size_t count : {size_t{0}, size_t{10}, size_t{100}, size_t{1000}}) {
    Judged judged(subject.session, *subject.info);
    const Program program = Crowded(count);
    const double seconds = Best(subject.seconds, [&] { judged.RunAndJudge(program); });
    if (count == 0) alone = seconds;
    Print(fmt::format("{:>8} others {:>9.1f} us", count, seconds * 1e6));
    if (count != 0)
      Print(fmt::format(" {:>8.0f} ns each, with what recycles it",
                        (seconds - alone) / static_cast<double>(count) * 1e9));
    Print("\n");
    (*subject.found)[fmt::format("reference.us_with_others.{}", count)] = seconds * 1e6;
  }
}

void GrowthWithDepth(const Subject& subject) {
  Print("\nGrowth with the depth of the send queue (reference, time a request)\n");
  Pair pair;
  if (!pair.Open(subject.session)) return;
  for (uint32_t depth : {uint32_t{64}, uint32_t{1024}, uint32_t{16384}}) {
    if (pair.Make(1024, depth)) {
      const auto [build, execute] = TimeOfRequest(subject.session, pair, subject.seconds);
      Print(fmt::format("{:>8} requests {:>7.1f} ns to build {:>8.1f} ns built, executed, polled\n",
                        depth, build * 1e9, execute * 1e9));
      (*subject.found)[fmt::format("reference.build_ns.depth_{}", depth)] = build * 1e9;
      (*subject.found)[fmt::format("reference.execute_ns.depth_{}", depth)] = execute * 1e9;
    } else {
      Print(fmt::format("{:>8} requests: no such queue pair could be made\n", depth));
    }
    pair.Free();
  }
}

// Each thread has queue pairs, queues and a region of its own, on one context.
void GrowthWithThreads(const Subject& subject) {
  Print("\nGrowth with threads (reference; built, executed and polled, each its own queue pair)\n");
  double alone = 0;
  for (unsigned count : {1u, 2u, 4u}) {
    std::deque<Pair> pairs(count);
    bool made = true;
    for (Pair& pair : pairs) made = made && pair.Open(subject.session) && pair.Make(1024);
    if (!made) return;
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> requests{0};
    const Clock::time_point start = Clock::now();
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (const Pair& pair : pairs)
      threads.emplace_back([&] {
        ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.qp[0]);
        uint64_t done = 0;
        while (!stop && ExecuteBatch(subject.session, pair, qp)) done += kBatch;
        requests += done;
      });
    std::this_thread::sleep_for(std::chrono::duration<double>(subject.seconds));
    stop = true;
    for (std::thread& thread : threads) thread.join();
    const double rate = static_cast<double>(requests.load()) / Since(start);
    if (count == 1) alone = rate;
    Print(fmt::format("{:>8} threads {:>8.2f} million requests a second, {:.2f} of one thread's\n",
                      count, rate / 1e6, alone > 0 ? rate / alone : 0));
    (*subject.found)[fmt::format("reference.requests_per_second.threads_{}", count)] = rate;
  }
}

void MemoryOfManyPrograms(const Subject& subject) {
  Print("\nMemory of a run over many programs (reference)\n");
  Judged judged(subject.session, *subject.info);
  const Program twenty = ParseProgram(kTwentyCalls, "bench").program;
  uint64_t done = 0;
  for (uint64_t until : {uint64_t{1000}, uint64_t{10000}, uint64_t{100000}}) {
    for (; done < until; done++) judged.RunAndJudge(twenty);
    Print(fmt::format("{:>8} programs {:>10.1f} MiB\n", done,
                      static_cast<double>(Resident()) / (1 << 20)));
    (*subject.found)[fmt::format("reference.resident_bytes.{}", until)] =
        static_cast<double>(Resident());
  }
}

}  // namespace

const char* TwentyCalls() { return kTwentyCalls; }

std::string OfReference(const Subject& subject, const std::string& figure, double value) {
  if (subject.info->name == kYardstick) return "";
  const auto found = subject.before->find(std::string(kYardstick) + "." + figure);
  if (found == subject.before->end() || found->second <= 0) return "";
  return fmt::format(" ({:.1f}x)", value / found->second);
}

void Posting(const Subject& subject) {
  const std::string& name = subject.info->name;
  Pair pair;
  if (!pair.Open(subject.session) || !pair.Make(1024)) {
    Print(fmt::format("{:<24} no RC queue pair with RDMA_WRITE could be made\n", name));
    return;
  }
  const auto [build, execute] = TimeOfRequest(subject.session, pair, subject.seconds);
  const std::string all = execute < 0 ? "-"
                                      : fmt::format("{:.1f}", execute * 1e9) + " ns" +
                                            OfReference(subject, "execute_ns", execute * 1e9);
  Print(fmt::format("{:<24} {:>8.1f} ns{} to build, {} built, executed and polled\n", name,
                    build * 1e9, OfReference(subject, "build_ns", build * 1e9), all));
  (*subject.found)[name + ".build_ns"] = build * 1e9;
  if (execute >= 0) (*subject.found)[name + ".execute_ns"] = execute * 1e9;
}

void LifeCycle(const Subject& subject) {
  DeviceSession* session = subject.session;
  const std::string& name = subject.info->name;
  Pair pair;
  bool good = pair.Open(session);
  const double life = Best(subject.seconds, [&] {
    if (!good) return;
    good = pair.Make(64);
    if (!good) return;
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.qp[0]);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    constexpr int kRequests = 47;
    for (int i = 0; i < kRequests; i++) {
      qp->wr_id = static_cast<uint64_t>(i);
      ibv_wr_rdma_write(qp, pair.mr->rkey, reinterpret_cast<uintptr_t>(pair.memory));
      ibv_wr_set_sge(qp, pair.mr->lkey, reinterpret_cast<uintptr_t>(pair.memory + 2048), 64);
    }
    good = ibv_wr_complete(qp) == 0;
    ibv_wc wc[64];
    int n = 0;
    for (int tries = 0; good && n < kRequests && tries < 1000000; tries++) {
      const int got = ibv_poll_cq(pair.cq, 64, wc);
      if (got == 0) session->Settle();
      n += got;
    }
    good = good && n == kRequests;
    pair.Free();
  });
  if (!good) {
    Print(
        fmt::format("{:<24} no life of an RC queue pair with RDMA_WRITE came to its end\n", name));
    return;
  }
  Print(fmt::format("{:<24} {:>8.1f} us{}\n", name, life * 1e6,
                    OfReference(subject, "life_cycle_us", life * 1e6)));
  (*subject.found)[name + ".life_cycle_us"] = life * 1e6;
}

void Programs(const Subject& subject) {
  const ProviderInfo& info = *subject.info;
  const Program twenty = ParseProgram(kTwentyCalls, "bench").program;
  const Program nothing = ParseProgram(kEmpty, "bench").program;
  Judged judged(subject.session, info);
  constexpr int kRounds = 500;
  double run = 1e9, both = 1e9, empty = 1e9;
  Best(subject.seconds,
       [&] { run = std::min(run, judged.Each(kRounds, [&] { judged.Run(twenty); })); });
  // In turns: what slows the machine down slows both down.
  Best(2 * subject.seconds, [&] {
    both = std::min(both, judged.Each(kRounds, [&] { judged.RunAndJudge(twenty); }));
    empty = std::min(empty, judged.Each(kRounds, [&] { judged.RunAndJudge(nothing); }));
  });
  const auto reference = subject.before->find(std::string(kYardstick) + ".programs_per_second");
  std::string ratio;
  if (info.name != kYardstick && reference != subject.before->end())
    ratio = fmt::format(", {:.2f} of the reference's rate", 1 / both / reference->second);
  Print(
      fmt::format("{:<24} {:>8.0f} a second ({:.2f} us to run, {:.2f} us to judge), {:.0f} % of "
                  "the rate of an empty program{}{}\n",
                  info.name, 1 / both, run * 1e6, (both - run) * 1e6, empty / both * 100, ratio,
                  judged.violations() ? ", with violations" : ""));
  (*subject.found)[info.name + ".programs_per_second"] = 1 / both;
  (*subject.found)[info.name + ".empty_programs_per_second"] = 1 / empty;
}

void Growth(const Subject& subject) {
  GrowthWithLength(subject);
  GrowthWithObjects(subject);
  GrowthWithDepth(subject);
  GrowthWithThreads(subject);
  MemoryOfManyPrograms(subject);
}

}  // namespace qpexam::bench
