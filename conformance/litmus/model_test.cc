// The model's own enumeration against the data: every shape is run in every interleaving of its
// threads, with every cut of neighbouring requests into regions and with every answer to the
// model's questions of order. What comes out must be allowed, and be all that is allowed where
// column `model` says so.
//
// The one test of conformance/ that looks at the model.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "conformance/litmus/shapes.h"
#include "reference/model/engine_testing.h"
#include "reference/model/enumerate.h"

namespace qpexam::conformance::litmus {

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.id; }

namespace {

using model::ChoicePoint;
using model::Completion;
using model::WrId;

// Every question of order that the model may ask.
std::vector<ChoicePoint> PointsOfOrder() {
  return {
      ChoicePoint::kLocalReadWhen,  ChoicePoint::kRemoteWriteDrain, ChoicePoint::kReadLate,
      ChoicePoint::kReadRead,       ChoicePoint::kAtomicTable,      ChoicePoint::kAtomicWeak,
      ChoicePoint::kLocalWriteWhen, ChoicePoint::kAckEarly,         ChoicePoint::kFenceWide,
      ChoicePoint::kFenceSeesFlush, ChoicePoint::kFlushAfter,       ChoicePoint::kLocalInvRelaxed};
}

class LitmusModel : public model::EngineTest, public ::testing::WithParamInterface<Shape> {
 protected:
  using Step = litmus::Step;  // not EngineTest::Step()

  static constexpr std::size_t kWord = 8;
  static constexpr std::size_t kBytes = 256;

  struct Queue {
    model::Qp *a = nullptr, *b = nullptr;
    model::Cq *sent = nullptr, *received = nullptr;
  };

  static bool IsRequest(const Step& step) {
    static const std::set<std::string> kRequests = {"w",   "wl", "wi",    "r", "fadd",
                                                    "cas", "aw", "flush", "s"};
    return kRequests.count(step[0]) != 0;
  }

  std::size_t Place(const std::string& name) {
    return places_.try_emplace(name, places_.size() * kWord).first->second;
  }
  int64_t Load(const std::string& name) {
    int64_t value;
    std::memcpy(&value, memory_.bytes.data() + Place(name), kWord);
    return value;
  }
  void Store(const std::string& name, int64_t value) {
    std::memcpy(memory_.bytes.data() + Place(name), &value, kWord);
  }

  Queue MakeQueue() {
    Queue queue;
    queue.sent = cq = device->CreateCq(64, &cq_sink).value;
    queue.received = recv_cq = device->CreateCq(64, &recv_sink).value;
    queue.a = Make(model::QpType::kRc);
    queue.b = Make(model::QpType::kRc);
    Connect(queue.a, queue.b);
    return queue;
  }
  void Destroy(const Queue& queue) {
    for (model::Qp* qp : {queue.a, queue.b}) ASSERT_TRUE(device->DestroyQp(qp).ok());
    for (model::Cq* each : {queue.sent, queue.received}) ASSERT_TRUE(device->DestroyCq(each).ok());
  }

  // Takes one completion, for which time may have to pass; false where there will be none.
  bool Take(model::Cq* from) {
    Completion c;
    if (from->Poll({&c, 1}) != 1) {
      fabric.RunUntilIdle();
      if (from->Poll({&c, 1}) != 1) return false;
    }
    EXPECT_EQ(c.status, IBV_WC_SUCCESS) << GetParam().id;
    return true;
  }

  void Build(model::SendQueue& sq, const Step& step) {
    uint32_t flags = IBV_SEND_SIGNALED;
    if (step.back() == "F") flags |= IBV_SEND_FENCE;
    const auto remote = [&](const std::string& name) { return memory_.remote(Place(name)); };
    const auto local = [&](const std::string& name) {
      sq.SetSge(memory_.mr->lkey, memory_.addr() + Place(name), kWord);
    };
    const model::Rkey rkey = memory_.mr->rkey;
    if (step[0] == "w") {
      sq.RdmaWrite(WrId(1), flags, rkey, remote(step[2]));
      local(step[3]);
    } else if (step[0] == "wi") {
      sq.RdmaWriteImm(WrId(1), flags, rkey, remote(step[2]), 0);
      local(step[3]);
    } else if (step[0] == "wl") {
      const int64_t value = std::stoll(step[3]);
      sq.RdmaWrite(WrId(1), flags, rkey, remote(step[2]));
      sq.SetInline(&value, kWord);
    } else if (step[0] == "r") {
      sq.RdmaRead(WrId(1), flags, rkey, remote(step[3]));
      local(step[2]);
    } else if (step[0] == "fadd") {
      sq.AtomicFetchAdd(WrId(1), flags, rkey, remote(step[3]),
                        static_cast<uint64_t>(std::stoll(step[4])));
      local(step[2]);
    } else if (step[0] == "cas") {
      sq.AtomicCmpSwp(WrId(1), flags, rkey, remote(step[3]),
                      static_cast<uint64_t>(std::stoll(step[4])),
                      static_cast<uint64_t>(std::stoll(step[5])));
      local(step[2]);
    } else if (step[0] == "aw") {
      const int64_t value = std::stoll(step[3]);
      sq.AtomicWrite(WrId(1), flags, rkey, remote(step[2]), &value);
    } else if (step[0] == "flush") {
      constexpr uint8_t kGlobal = 1, kRange = 0;
      sq.Flush(WrId(1), flags, rkey, memory_.remote(), kBytes, kGlobal, kRange);
    } else {
      sq.Send(WrId(1), flags);
      local(step[2]);
    }
  }

  void PostReceives(const std::vector<Thread>& threads) {
    for (const Thread& thread : threads) {
      for (const Step& step : thread) {
        if (step[0] == "s") {
          ASSERT_TRUE(Recv(queues_.at(step[1]).b, 1, memory_, Place(step[3]), kWord).ok());
        } else if (step[0] == "wi") {
          ASSERT_TRUE(Recv(queues_.at(step[1]).b, 1, memory_, 0, 0).ok());
        }
      }
    }
  }

  // One run, as `all` answers; what it shows.
  std::string Once(const std::vector<Thread>& threads, model::Enumerator* all) {
    const auto choose = [&](std::size_t count) {
      return count < 2 ? 0u : all->Pick(ChoicePoint::kReadLate, static_cast<unsigned>(count));
    };
    std::map<std::string, int64_t> registers;
    std::set<std::string> told;
    for (const std::string& item : Words(GetParam().init)) {
      const std::size_t equals = item.find('=');
      Store(item.substr(0, equals), std::stoll(item.substr(equals + 1)));
    }
    for (auto& [name, queue] : queues_) queue = MakeQueue();
    PostReceives(threads);
    fabric.SetChooser(all);

    std::vector<std::size_t> at(threads.size(), 0);
    std::set<std::size_t> waiting;  // found nothing to poll since the last step of another thread
    for (;;) {
      std::vector<std::size_t> ready;
      bool over = true;
      for (std::size_t t = 0; t < threads.size(); ++t) {
        if (at[t] == threads[t].size()) continue;
        over = false;
        const Step& step = threads[t][at[t]];
        if (waiting.count(t) == 0 && (step[0] != "await" || told.count(step[1]) != 0))
          ready.push_back(t);
      }
      if (over) break;
      if (ready.empty()) {
        ADD_FAILURE() << GetParam().id << ": every thread waits";
        break;
      }
      const std::size_t t = ready[choose(ready.size())];
      const Step& step = threads[t][at[t]];
      if (IsRequest(step)) {
        // With the requests behind it in its region, or without.
        model::SendQueue& sq = queues_.at(step[1]).a->send_queue();
        sq.Start();
        do {
          Build(sq, threads[t][at[t]++]);
        } while (at[t] < threads[t].size() && IsRequest(threads[t][at[t]]) &&
                 threads[t][at[t]][1] == step[1] && choose(2) == 0);
        EXPECT_EQ(sq.Complete(), 0) << GetParam().id;
      } else if (step[0] == "poll" || step[0] == "recv") {
        const Queue& queue = queues_.at(step[1]);
        if (!Take(step[0] == "poll" ? queue.sent : queue.received)) {
          waiting.insert(t);
          continue;
        }
        ++at[t];
      } else {
        if (step[0] == "st") {
          Store(step[1], std::stoll(step[2]));
        } else if (step[0] == "ld") {
          registers[step[1]] = Load(step[2]);
        } else if (step[0] == "rmw") {
          registers[step[1]] = Load(step[2]);
          Store(step[2], Load(step[2]) + std::stoll(step[3]));
        } else if (step[0] == "oob") {
          told.insert(step[1]);
        } else if (step[0] != "await") {
          ADD_FAILURE() << "unknown step " << step[0];
        }
        ++at[t];
      }
      waiting.clear();
    }
    fabric.RunUntilIdle();
    fabric.SetChooser(nullptr);
    std::string outcome;
    for (const std::string& name : Words(GetParam().show)) {
      const auto found = registers.find(name);
      outcome += (outcome.empty() ? "" : ",") +
                 std::to_string(found != registers.end() ? found->second : Load(name));
    }
    for (auto& [name, queue] : queues_) Destroy(queue);
    return outcome;
  }

  model::Region memory_;
  std::map<std::string, Queue> queues_;
  std::map<std::string, std::size_t> places_;
};

TEST_P(LitmusModel, ShowsWhatIsAllowed) {
  const Shape& shape = GetParam();
  const std::vector<Thread> threads = Threads(shape.program);
  memory_ = Register(kBytes);
  for (const Thread& thread : threads)
    for (const Step& step : thread)
      if (IsRequest(step)) queues_[step[1]];
  model::Enumerator all(PointsOfOrder());
  std::set<std::string> seen;
  do {
    seen.insert(Once(threads, &all));
    ASSERT_FALSE(HasFailure());
    ASSERT_LT(all.runs(), 1000000u) << shape.id << " has too many ways";
  } while (all.Next());
  std::string text;
  for (const std::string& outcome : seen) {
    text += (text.empty() ? "" : " ") + outcome;
    EXPECT_TRUE(IsAllowed(shape, outcome))
        << shape.id << " (" << shape.program << "): the model shows " << outcome
        << "; allowed: " << shape.allowed << "; forbidden: " << shape.forbidden;
  }
  const std::vector<std::string> allowed = Words(shape.allowed);
  const bool everything = seen == std::set<std::string>(allowed.begin(), allowed.end());
  if (std::string(shape.model) == "all") {
    EXPECT_TRUE(everything) << shape.id << " (" << shape.program << "): the model shows only "
                            << text << " of " << shape.allowed;
  } else if (everything) {
    std::printf("%s: the model shows all that is allowed; the data says: %s\n", shape.id,
                shape.model);
  } else {
    std::printf("%s: %s of %s: %s\n", shape.id, text.c_str(), shape.allowed, shape.model);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LitmusModel, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.id); });

}  // namespace
}  // namespace qpexam::conformance::litmus
