// LITMUS: the shapes of conformance/litmus/shapes.tsv, each run many times: what is seen must lie
// in the set that the data allows. A shape of verdict MAY, and one of low confidence, accuses
// nobody.
//
// The steps of a shape's threads are interleaved by a seed; what the device does meanwhile is its
// own affair. Every location is one aligned 8-byte word. Preconditions (no relaxed ordering, host
// memory, one device, values looked at after quiescence) are kept by how the memory is registered
// and by a READ on each queue pair at the end.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"
#include "conformance/litmus/shapes.h"

namespace qpexam::conformance {
namespace {

using litmus::kShapes;
using litmus::Shape;
using litmus::Step;
using litmus::Thread;
using litmus::Words;

const std::map<std::string, Op>& Requests() {
  static const std::map<std::string, Op> requests = {
      {"w", Op::kWrite},        {"wl", Op::kWrite},      {"wi", Op::kWriteImm},
      {"r", Op::kRead},         {"fadd", Op::kFetchAdd}, {"cas", Op::kCmpSwp},
      {"aw", Op::kAtomicWrite}, {"flush", Op::kFlush},   {"s", Op::kSend}};
  return requests;
}

class Litmus : public Conformance {
 public:
  explicit Litmus(const Shape& shape) : shape_(shape), threads_(litmus::Threads(shape.program)) {}

 private:
  static constexpr std::size_t kWord = 64;         // a location has a cache line of its own
  static constexpr std::size_t kConstants = 4096;  // behind the locations: values that steps name
  static constexpr std::size_t kReadBack = 8128;

  struct Queue {
    Pair* pair = nullptr;
    std::size_t posted = 0, polled = 0, arriving = 0, received = 0;
    std::size_t sent_ahead = 0, received_ahead = 0;  // came with a poll that asked for fewer
  };

  void Body() override {
    PairOptions options;
    options.ops = Info(Op::kRead).bit;
    options.inline_data = 8;
    for (const Thread& thread : threads_) {
      for (const Step& step : thread) {
        const auto request = Requests().find(step[0]);
        if (request == Requests().end()) continue;
        if (!facts().Has(request->second)) {
          throw NotApplicable{std::string("the device has no ") + Info(request->second).name};
        }
        options.ops |= Info(request->second).bit;
        queues_[step[1]];
      }
    }
    // A device whose inline data does not work (the clauses of INL say so) is asked with SGEs
    // alone.
    bool has_constants = false;
    for (const Thread& thread : threads_)
      for (const Step& step : thread) has_constants = has_constants || step[0] == "wl";
    if (has_constants) {
      PairOptions once = options;
      once.ops = Bits({Op::kWrite});
      inline_works_ = WorksOnce(bed(), once, Op::kWrite, conformance::Shape{Setter::kInline, 8, 1});
    }
    memory_ = &bed().MemAll(8192);
    for (auto& [name, queue] : queues_) queue.pair = &bed().Connect(options);
    const bool accuses = std::string(shape_.verdict) == "MUST" && shape_.confidence[0] != 'L';
    std::map<std::string, int> seen;
    const int rounds = Repetitions(10000);
    for (int round = 0; round < rounds; ++round) ++seen[Once(static_cast<uint64_t>(round))];
    for (const auto& [outcome, count] : seen) {
      const bool inside = litmus::IsAllowed(shape_, outcome);
      if (accuses) {
        EXPECT_CLAUSE(shape_.clause, inside)
            << shape_.id << " (" << shape_.program << "): " << shape_.show << " = " << outcome
            << " was seen " << count << " times; allowed: " << shape_.allowed;
      } else if (!inside) {
        Record::Current().Note(std::string(shape_.id) + ": " + outcome +
                               " is outside the set, which accuses nobody");
      }
    }
  }

  std::size_t Place(const std::string& name) {
    const auto [found, added] = places_.try_emplace(name, places_.size() * kWord);
    return found->second;
  }
  uint64_t Value(const std::string& name) {
    const auto found = registers_.find(name);
    if (found != registers_.end()) return found->second;
    return *Word(name);
  }
  // Threads of a real device's test run beside the device, so no access may be left out or moved.
  volatile uint64_t* Word(const std::string& name) {
    return reinterpret_cast<volatile uint64_t*>(memory_->data() + Place(name));
  }
  static uint64_t Number(const std::string& text) {
    return static_cast<uint64_t>(std::stoll(text));
  }

  // One run; what it shows, as "1,0".
  std::string Once(uint64_t seed) {
    registers_.clear();
    told_.clear();
    constants_ = 0;
    for (auto& [name, queue] : queues_) queue = {queue.pair, 0, 0, 0, 0, 0, 0};
    for (const std::string& item : Words(shape_.init)) {
      const std::size_t equals = item.find('=');
      *Word(item.substr(0, equals)) = Number(item.substr(equals + 1));
    }
    PostReceives();
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 1;
    std::vector<std::size_t> at(threads_.size(), 0);
    for (;;) {
      std::vector<std::size_t> ready;
      bool over = true;
      for (std::size_t t = 0; t < threads_.size(); ++t) {
        if (at[t] == threads_[t].size()) continue;
        over = false;
        if (CanRun(threads_[t][at[t]])) ready.push_back(t);
      }
      if (over) break;
      if (ready.empty()) throw SetUpFailed{std::string(shape_.id) + ": every thread waits"};
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      const std::size_t t = ready[random % ready.size()];
      // Requests that follow each other are one region in every second run.
      std::vector<Wr> region;
      const std::string queue = threads_[t][at[t]].size() > 1 ? threads_[t][at[t]][1] : "";
      while (at[t] < threads_[t].size() && Requests().count(threads_[t][at[t]][0]) != 0 &&
             threads_[t][at[t]][1] == queue && (region.empty() || seed % 2 == 0)) {
        region.push_back(Request(threads_[t][at[t]++], seed));
      }
      if (!region.empty()) {
        PostAll(queues_[queue], region);
      } else {
        Run(threads_[t][at[t]++]);
      }
    }
    Quiesce();
    std::string outcome;
    for (const std::string& name : Words(shape_.show)) {
      outcome += (outcome.empty() ? "" : ",") + std::to_string(static_cast<int64_t>(Value(name)));
    }
    return outcome;
  }

  void PostReceives() {
    for (const Thread& thread : threads_) {
      for (const Step& step : thread) {
        int rc = 0;
        if (step[0] == "s") {
          rc = PostRecv(queues_[step[1]].pair->b, 1, {memory_->sge(Place(step[3]), 8)});
        } else if (step[0] == "wi") {
          rc = PostRecv(queues_[step[1]].pair->b, 1, {});
        }
        if (rc != 0) throw SetUpFailed{"ibv_post_recv: " + std::to_string(rc)};
      }
    }
  }

  bool CanRun(const Step& step) {
    if (step[0] == "await") return told_.count(step[1]) != 0;
    if (step[0] == "recv") return queues_[step[1]].received < queues_[step[1]].arriving;
    return true;
  }

  void Run(const Step& step) {
    if (step[0] == "st") {
      *Word(step[1]) = Number(step[2]);
    } else if (step[0] == "ld") {
      registers_[step[1]] = *Word(step[2]);
    } else if (step[0] == "rmw") {
      registers_[step[1]] = __atomic_fetch_add(Word(step[2]), Number(step[3]), __ATOMIC_SEQ_CST);
    } else if (step[0] == "oob") {
      told_.insert(step[1]);
    } else if (step[0] == "poll") {
      PollSent(queues_[step[1]], 1);
      ++queues_[step[1]].polled;
    } else if (step[0] == "recv") {
      PollReceived(queues_[step[1]], 1);
      ++queues_[step[1]].received;
    } else if (step[0] != "await") {
      throw SetUpFailed{"unknown step " + step[0]};
    }
  }

  Wr Request(const Step& step, uint64_t seed) {
    Wr wr;
    wr.op = Requests().at(step[0]);
    wr.id = 1;
    if (step.back() == "F") wr.flags |= IBV_SEND_FENCE;
    wr.rkey = memory_->rkey();
    const auto local = [&](const std::string& name) { wr.sge = {memory_->sge(Place(name), 8)}; };
    const auto remote = [&](const std::string& name) { wr.remote = memory_->address(Place(name)); };
    if (step[0] == "w" || step[0] == "wi") {
      remote(step[2]), local(step[3]);
    } else if (step[0] == "wl") {
      remote(step[2]);
      const std::size_t constant = kConstants + kWord * constants_++;
      memory_->SetU64(constant, Number(step[3]));
      wr.sge = {memory_->sge(constant, 8)};
      if (inline_works_ && seed % 3 != 0) {
        wr.setter = Setter::kInline;
        wr.bufs = {{memory_->data() + constant, 8}};
      }
    } else if (step[0] == "r") {
      local(step[2]), remote(step[3]);
    } else if (step[0] == "fadd" || step[0] == "cas") {
      local(step[2]), remote(step[3]);
      wr.compare_add = Number(step[4]);
      if (step[0] == "cas") wr.swap = Number(step[5]);
    } else if (step[0] == "aw") {
      remote(step[2]);
      wr.value = Number(step[3]);
      wr.setter = Setter::kNone;
    } else if (step[0] == "flush") {
      wr.remote = memory_->address();
      wr.flush_length = kConstants;
      wr.setter = Setter::kNone;
    } else {
      local(step[2]);
    }
    return wr;
  }

  void PostAll(Queue& queue, const std::vector<Wr>& region) {
    bool fenced = false;
    for (const Wr& wr : region) {
      fenced = fenced || (wr.flags & IBV_SEND_FENCE) != 0;
      queue.arriving += wr.op == Op::kSend || wr.op == Op::kWriteImm;
    }
    const int rc = Post(queue.pair->a, region);
    if (rc != 0 && fenced) throw NotApplicable{"FENCE is refused at complete (WR-SAMPLE-006)"};
    if (rc != 0) throw SetUpFailed{"ibv_wr_complete: " + std::to_string(rc)};
    queue.posted += region.size();
  }

  void PollSent(Queue& queue, std::size_t count) {
    Poll(queue.pair->a.send_cq, count, &queue.sent_ahead);
  }
  void PollReceived(Queue& queue, std::size_t count) {
    Poll(queue.pair->b.recv_cq, count, &queue.received_ahead);
  }
  void Poll(ibv_cq* cq, std::size_t count, std::size_t* ahead) {
    if (*ahead < count) {
      const std::vector<ibv_wc> wcs = Await(cq, count - *ahead);
      bool fine = wcs.size() >= count - *ahead;
      for (const ibv_wc& wc : wcs) fine = fine && wc.status == IBV_WC_SUCCESS;
      if (!fine) {
        throw SetUpFailed{std::string(shape_.id) + ": " + std::to_string(count - *ahead) +
                          " completions wanted, seen: " + Describe(wcs)};
      }
      *ahead += wcs.size();
    }
    *ahead -= count;
  }

  // Everything is complete, and a READ on each queue pair has pushed its WRITEs into memory.
  void Quiesce() {
    for (auto& [name, queue] : queues_) {
      if (queue.posted > queue.polled) PollSent(queue, queue.posted - queue.polled);
      if (queue.arriving > queue.received) PollReceived(queue, queue.arriving - queue.received);
      Wr read;
      read.op = Op::kRead;
      read.sge = {memory_->sge(kReadBack, 8)};
      read.rkey = memory_->rkey();
      read.remote = memory_->address();
      if (const int rc = Post(queue.pair->a, read); rc != 0) {
        throw SetUpFailed{"ibv_wr_complete of the READ-back: " + std::to_string(rc)};
      }
      PollSent(queue, 1);
    }
  }

  const Shape& shape_;
  const std::vector<Thread> threads_;
  Memory* memory_ = nullptr;
  std::map<std::string, Queue> queues_;
  std::map<std::string, std::size_t> places_;
  std::map<std::string, uint64_t> registers_;
  std::set<std::string> told_;
  bool inline_works_ = false;
  std::size_t constants_ = 0;
};

[[maybe_unused]] const bool kRegistered = [] {
  for (const Shape& shape : kShapes) {
    RegisterTests("Litmus", shape.id, __FILE__, __LINE__, {shape.clause},
                  [&shape]() -> Conformance* { return new Litmus(shape); });
  }
  return true;
}();

}  // namespace
}  // namespace qpexam::conformance
