// The order of effects of two requests (spec/ORDERING.md): the sets that the model allows, and
// what a fence takes away. Values are from the litmus shapes S15, S18, S19 and S20.
#include <set>
#include <string>

#include "reference/model/engine_testing.h"
#include "reference/model/enumerate.h"

namespace qpexam::model {
namespace {

class OrderingTest : public EngineTest {
 protected:
  void SetUp() override {
    local = Register(64);
    remote = Register(64);
  }
  uint64_t Word(const Region& r, int i) {
    uint64_t v;
    std::memcpy(&v, r.bytes.data() + 8 * i, 8);
    return v;
  }
  void Put(Region& r, int i, uint64_t v) { std::memcpy(r.bytes.data() + 8 * i, &v, 8); }
  SendQueue& sq() { return a->send_queue(); }
  void ReadWord(int into, int from, uint32_t flags = kSignaled) {
    sq().RdmaRead(WrId(1), flags, remote.mr->rkey, remote.remote(8 * from));
    sq().SetSge(local.mr->lkey, local.addr() + 8 * into, 8);
  }
  void WriteWord(int to, uint64_t value, uint32_t flags = kSignaled) {
    sq().RdmaWrite(WrId(2), flags, remote.mr->rkey, remote.remote(8 * to));
    sq().SetInline(&value, 8);
  }
  void WriteFrom(int to, int from, uint32_t flags = kSignaled) {
    sq().RdmaWrite(WrId(2), flags, remote.mr->rkey, remote.remote(8 * to));
    sq().SetSge(local.mr->lkey, local.addr() + 8 * from, 8);
  }
  void Add(int into, int to, uint32_t flags = kSignaled) {
    sq().AtomicFetchAdd(WrId(3), flags, remote.mr->rkey, remote.remote(8 * to), 1);
    sq().SetSge(local.mr->lkey, local.addr() + 8 * into, 8);
  }
  // Every outcome of one region, as "local0 local1 | remote0 remote1".
  template <typename Build>
  std::set<std::string> Outcomes(uint64_t remote0, Build build) {
    Enumerator all({ChoicePoint::kReadLate, ChoicePoint::kReadRead, ChoicePoint::kAtomicTable});
    std::set<std::string> seen;
    do {
      for (int i = 0; i < 4; ++i) {
        Put(local, i, 0);
        Put(remote, i, 0);
      }
      Put(remote, 0, remote0);
      a = Make(QpType::kRc);
      b = Make(QpType::kRc);
      Connect(a, b);
      fabric.SetChooser(&all);
      sq().Start();
      build();
      EXPECT_EQ(sq().Complete(), 0);
      fabric.SetChooser(nullptr);
      const auto done = Poll(cq);
      for (const Completion& c : done) EXPECT_EQ(c.status, IBV_WC_SUCCESS);
      std::string ids;
      for (const Completion& c : done) ids += std::to_string(c.wr_id.value);
      seen.insert(ids + ": " + std::to_string(Word(local, 0)) + " " +
                  std::to_string(Word(local, 1)) + " | " + std::to_string(Word(remote, 0)) + " " +
                  std::to_string(Word(remote, 1)));
      device->DestroyQp(a);
      device->DestroyQp(b);
    } while (all.Next());
    return seen;
  }
  using Set = std::set<std::string>;
  Qp *a = nullptr, *b = nullptr;
  Region local, remote;
};

TEST_F(OrderingTest, S15WriteAfterRead) {
  EXPECT_EQ(Outcomes(0, [&] { ReadWord(0, 0), WriteWord(0, 1); }),
            (Set{"12: 0 0 | 1 0", "12: 1 0 | 1 0"}));
  EXPECT_EQ(Outcomes(0, [&] { ReadWord(0, 0), WriteWord(0, 1, kSignaled | IBV_SEND_FENCE); }),
            (Set{"12: 0 0 | 1 0"}));
}

TEST_F(OrderingTest, S18ReadIntoABufferThatIsSentNext) {  // WR-ORD-004, -005
  EXPECT_EQ(Outcomes(7, [&] { ReadWord(0, 0), WriteFrom(1, 0); }),
            (Set{"12: 7 0 | 7 0", "12: 7 0 | 7 7"}));
  EXPECT_EQ(Outcomes(7, [&] { ReadWord(0, 0), WriteFrom(1, 0, kSignaled | IBV_SEND_FENCE); }),
            (Set{"12: 7 0 | 7 7"}));
}

TEST_F(OrderingTest, S19TwoAtomics) {
  EXPECT_EQ(Outcomes(0, [&] { Add(0, 0), Add(1, 0); }), (Set{"33: 0 1 | 2 0", "33: 1 0 | 2 0"}));
  EXPECT_EQ(Outcomes(0, [&] { Add(0, 0), Add(1, 0, kSignaled | IBV_SEND_FENCE); }),
            (Set{"33: 0 1 | 2 0"}));
}

TEST_F(OrderingTest, S20WriteAfterAtomic) {
  EXPECT_EQ(Outcomes(0, [&] { Add(0, 0), WriteWord(0, 10); }),
            (Set{"32: 0 0 | 10 0", "32: 10 0 | 11 0"}));
  EXPECT_EQ(Outcomes(0, [&] { Add(0, 0), WriteWord(0, 10, kSignaled | IBV_SEND_FENCE); }),
            (Set{"32: 0 0 | 10 0"}));
}

TEST_F(OrderingTest, NothingPassesAWrite) {  // S08, S14, S21
  EXPECT_EQ(Outcomes(0, [&] { WriteWord(0, 1), WriteWord(0, 2); }), (Set{"22: 0 0 | 2 0"}));
  EXPECT_EQ(Outcomes(0, [&] { WriteWord(0, 1), ReadWord(0, 0); }), (Set{"21: 1 0 | 1 0"}));
  EXPECT_EQ(Outcomes(0, [&] { WriteWord(0, 10), Add(0, 0); }), (Set{"23: 10 0 | 11 0"}));
}

TEST_F(OrderingTest, ThreeRequestsKeepTheirCompletionOrder) {
  const Set seen = Outcomes(0, [&] { ReadWord(0, 0), WriteWord(0, 1), WriteWord(0, 2); });
  EXPECT_EQ(seen, (Set{"122: 0 0 | 2 0", "122: 1 0 | 2 0", "122: 2 0 | 2 0"}));
}

TEST_F(OrderingTest, ThePeersErrorsDoNotPass) {
  // What passes must be good: a WRITE with a bad key stays behind the READ.
  Enumerator all({ChoicePoint::kReadLate});
  do {
    a = Make(QpType::kRc);
    b = Make(QpType::kRc);
    Connect(a, b);
    fabric.SetChooser(&all);
    sq().Start();
    ReadWord(0, 0);
    sq().RdmaWrite(WrId(2), 0, Rkey(1), remote.remote());
    sq().SetInline("x", 1);
    EXPECT_EQ(sq().Complete(), 0);
    fabric.SetChooser(nullptr);
    EXPECT_EQ(Ids(cq), "1:OK 2:REM_ACCESS");
  } while (all.Next());
}

TEST_F(OrderingTest, FaultsOfOrder) {
  const auto once = [&](Fault fault, auto&& build) {
    FaultSwitch::Set(fault);
    const Set seen = Outcomes(0, build);
    FaultSwitch::Set(Fault::kNone);
    return *seen.begin();
  };
  EXPECT_EQ(once(Fault::kWritesSwapped, [&] { WriteWord(0, 1), WriteWord(0, 2); }),
            "22: 0 0 | 1 0");
  EXPECT_EQ(once(Fault::kReadPassesWrite, [&] { WriteWord(0, 1), ReadWord(0, 0); }),
            "21: 0 0 | 1 0");
  EXPECT_EQ(once(Fault::kAtomicPassesWrite, [&] { WriteWord(0, 10), Add(0, 0); }),
            "23: 0 0 | 10 0");
  EXPECT_EQ(once(Fault::kFenceFlagLost,
                 [&] { ReadWord(0, 0), WriteWord(0, 1, kSignaled | IBV_SEND_FENCE); }),
            "12: 1 0 | 1 0");
}

}  // namespace
}  // namespace qpexam::model
