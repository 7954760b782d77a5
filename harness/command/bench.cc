// `qpexam bench`: the figures of the first verdict, in one run. Nothing here is asserted; a loaded
// machine gives worse figures, so each is the best of several rounds.
#include <fcntl.h>
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <sstream>

#include "harness/command/commands.h"
#include "harness/command/results.h"
#include "harness/execute/executor.h"
#include "harness/program/attributes.h"
#include "harness/program/parse.h"
#include "harness/program/schema.h"

namespace qpexam {
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
  bool Make(int cqe) {
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
      attr.cap = {64, 16, 4, 4, 0};
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

void Posting(DeviceSession* session, const std::string& name, double seconds, Report* report) {
  Pair pair;
  if (!pair.Open(session) || !pair.Make(1024)) {
    Print(fmt::format("{:<24} no RC queue pair with RDMA_WRITE could be made\n", name));
    return;
  }
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.qp[0]);
  constexpr int kRounds = 1000;
  const double build = Best(seconds,
                            [&] {
                              for (int i = 0; i < kRounds; i++) {
                                BuildBatch(pair, qp);
                                ibv_wr_abort(qp);
                              }
                            }) /
                       (kRounds * kBatch) * 1e9;
  bool good = true;
  const double execute = Best(seconds,
                              [&] {
                                for (int i = 0; i < kRounds && good; i++) {
                                  BuildBatch(pair, qp);
                                  good = ibv_wr_complete(qp) == 0;
                                  ibv_wc wc;
                                  int n = 0;
                                  for (int tries = 0; good && n == 0 && tries < 1000000; tries++) {
                                    n = ibv_poll_cq(pair.cq, 1, &wc);
                                    if (n == 0) session->Settle();
                                  }
                                  good = good && n == 1 && wc.status == IBV_WC_SUCCESS;
                                }
                              }) /
                         (kRounds * kBatch) * 1e9;
  Print(fmt::format("{:<24} {:>8.1f} ns to build, {:>8} ns built, executed and polled\n", name,
                    build, good ? fmt::format("{:.1f}", execute) : std::string("-")));
  report->timing[name + ".build_ns"] = build;
  if (good) report->timing[name + ".execute_ns"] = execute;
}

// A whole life: pd, mr, 2 cq, 2 qp to RTS, 47 requests and their completions, the end of all.
void LifeCycle(DeviceSession* session, const std::string& name, double seconds, Report* report) {
  Pair pair;
  bool good = pair.Open(session);
  const double life = Best(seconds, [&] {
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
  Print(fmt::format("{:<24} {:>8.1f} us\n", name, life * 1e6));
  report->timing[name + ".life_cycle_us"] = life * 1e6;
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

// Programs of 20 calls and, on the reference, longer ones and many.
void Programs(DeviceSession* session, const ProviderInfo& info, const Program& twenty,
              const Program& nothing, double seconds_each, Report* report) {
  Executor executor(session);
  judge::Judge judge(JudgingOf(info));
  Trace trace;
  RunOptions options;
  options.keep_objects = true;
  constexpr int kRounds = 500;
  uint64_t violations = 0;
  double run = 1e9;
  Best(seconds_each, [&] {
    const double start = Spent(info);
    for (int i = 0; i < kRounds; i++) executor.Run(twenty, options, &trace);
    run = std::min(run, (Spent(info) - start) / kRounds);
  });
  const auto judged = [&](const Program& program) {
    const double start = Spent(info);
    for (int i = 0; i < kRounds; i++) {
      executor.Run(program, options, &trace);
      violations += judge(program, trace).violations;
    }
    return (Spent(info) - start) / kRounds;
  };
  // In turns: what slows the machine down slows both down.
  double both = 1e9, empty = 1e9;
  Best(2 * seconds_each, [&] {
    both = std::min(both, judged(twenty));
    empty = std::min(empty, judged(nothing));
  });
  Print(
      fmt::format("{:<24} {:>8.0f} a second ({:.2f} us to run, {:.2f} us to judge), {:.0f} % of "
                  "the rate of an empty program{}\n",
                  info.name, 1 / both, run * 1e6, (both - run) * 1e6, empty / both * 100,
                  violations ? ", with violations" : ""));
  report->timing[info.name + ".programs_per_second"] = 1 / both;
  report->timing[info.name + ".empty_programs_per_second"] = 1 / empty;

  if (info.kind != ProviderKind::kReference) return;
  Print("\nGrowth with the length of a program (reference, run and judged)\n");
  for (size_t calls : {size_t{100}, size_t{1000}, size_t{10000}, size_t{100000}}) {
    const Program program = Long(calls);
    const double seconds = Best(seconds_each, [&] {
      executor.Run(program, options, &trace);
      violations += judge(program, trace).violations;
    });
    const double per_call = seconds / static_cast<double>(program.calls.size()) * 1e9;
    Print(fmt::format("{:>8} calls {:>10.3f} ms {:>8.0f} ns a call\n", program.calls.size(),
                      seconds * 1e3, per_call));
    report->timing[fmt::format("reference.ns_per_call.{}", calls)] = per_call;
  }
  Print("\nMemory of a run over many programs (reference)\n");
  uint64_t done = 0;
  for (uint64_t until : {uint64_t{1000}, uint64_t{10000}, uint64_t{100000}}) {
    for (; done < until; done++) {
      executor.Run(twenty, options, &trace);
      judge(twenty, trace);
    }
    Print(fmt::format("{:>8} programs {:>10.1f} MiB\n", done,
                      static_cast<double>(Resident()) / (1 << 20)));
    report->timing[fmt::format("reference.resident_bytes.{}", until)] =
        static_cast<double>(Resident());
  }
  Print("\n");
}

// What a measurement did to its process.
enum class Measured { kDone, kCrashed, kFailed };

// Measures one provider in a process of its own: what it does to that one is told, and the others
// are measured all the same. `measure` opens it, prints, and leaves its figures in the report.
Measured InProcess(const std::string& name, double seconds, Report* report,
                   const std::function<void(Report*)>& measure) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) return Measured::kFailed;
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    Report own;
    measure(&own);
    std::fflush(nullptr);
    std::string figures;
    for (const auto& [key, value] : own.timing) figures += fmt::format("{} {}\n", key, value);
    size_t written = 0;
    while (written < figures.size()) {
      const ssize_t n = write(fds[1], figures.data() + written, figures.size() - written);
      if (n <= 0) _exit(1);
      written += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(fds[1]);
  std::string figures;
  const Clock::time_point end =
      Clock::now() + std::chrono::milliseconds(60000 + static_cast<int64_t>(20000 * seconds));
  bool hung = false;
  while (child > 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waits = {fds[0], POLLIN, 0};
    char bytes[4096];
    const ssize_t n = left > 0 && poll(&waits, 1, static_cast<int>(left)) > 0
                          ? read(fds[0], bytes, sizeof bytes)
                          : -1;
    if (n <= 0) {
      hung = n < 0 && Clock::now() >= end;
      if (n < 0 && !hung) continue;  // a signal came
      break;
    }
    figures.append(bytes, static_cast<size_t>(n));
  }
  close(fds[0]);
  if (child < 0) return Measured::kFailed;
  if (hung) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::istringstream words(figures);
  double value;
  for (std::string key; words >> key >> value;) report->timing[key] = value;
  if (!hung && WIFEXITED(status) && WEXITSTATUS(status) == 0) return Measured::kDone;
  std::string how = "does not come to an end";
  if (!hung && WIFSIGNALED(status)) how = fmt::format("crashes (signal {})", WTERMSIG(status));
  if (!hung && WIFEXITED(status))
    how = fmt::format("ends the process (status {})", WEXITSTATUS(status));
  Print(fmt::format("{:<24} {} here: no figure\n", name, how));
  return Measured::kCrashed;
}

}  // namespace

ExitStatus Bench(const BenchArguments& arguments) {
  OutputFile json;
  if (!json.Open(arguments.json)) return kUsage;
  Report report = NewReport("bench");
#ifndef NDEBUG
  Print("This build is not optimised: the figures say little. ./qpexam bench builds with -O2.\n");
#endif
  std::vector<ProviderInfo> providers;
  if (arguments.providers.empty()) {
    for (const ProviderInfo& info : AllProviders()) {
      if (info.in_check && info.why_unavailable.empty()) providers.push_back(info);
    }
  }
  for (const std::string& name : arguments.providers) {
    ProviderInfo info;
    std::string why;
    if (!FindProvider(name, &info, &why)) {
      Say(why);
      return kUsage;
    }
    if (!info.why_unavailable.empty()) {
      Say(info.name + ": " + info.why_unavailable);
      return info.why_is_setup ? kSetupIncomplete : kNoProvider;
    }
    providers.push_back(info);
  }
  const ParseResult twenty = ParseProgram(kTwentyCalls, "bench");
  const ParseResult nothing = ParseProgram(kEmpty, "bench");
  for (const ParseResult* parsed : {&twenty, &nothing}) {
    if (parsed->ok) continue;
    Say(parsed->error.Message());
    return kOurFailure;
  }
  bool crashed = false;
  const auto each =
      [&](const std::function<void(DeviceSession*, const ProviderInfo&, Report*)>& f) {
        for (const ProviderInfo& info : providers) {
          const Measured end = InProcess(info.name, arguments.seconds, &report, [&](Report* own) {
            std::string why;
            std::unique_ptr<DeviceSession> session = OpenProvider(info, &why);
            if (session)
              f(session.get(), info, own);
            else
              Print(fmt::format("{:<24} cannot be opened: {}\n", info.name, why));
          });
          if (end == Measured::kFailed) {
            Say(fmt::format("no process to measure {} in: {}", info.name, std::strerror(errno)));
            return false;
          }
          crashed |= end == Measured::kCrashed;
        }
        return true;
      };
  Print(fmt::format("Posting: batches of {} RDMA writes of one SGE of 64 bytes, time a request\n",
                    kBatch));
  if (!each([&](DeviceSession* session, const ProviderInfo& info, Report* own) {
        Posting(session, info.name, arguments.seconds, own);
      }))
    return kOurFailure;
  Print("\nA life: pd, mr, 2 cq, 2 qp to RTS, 47 requests, and the end of all of it\n");
  if (!each([&](DeviceSession* session, const ProviderInfo& info, Report* own) {
        LifeCycle(session, info.name, arguments.seconds, own);
      }))
    return kOurFailure;
  Print("\nPrograms of 20 calls, run and judged, objects kept, on one core\n");
  if (!each([&](DeviceSession* session, const ProviderInfo& info, Report* own) {
        Programs(session, info, twenty.program, nothing.program, arguments.seconds, own);
      }))
    return kOurFailure;
  if (!json.Write(ReportToJson(report))) return kUsage;
  return crashed ? kFindings : kFine;
}

}  // namespace qpexam
