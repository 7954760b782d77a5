// Regions, builders, setters and the ring: capacity, wrap-around, misuse.
#include "reference/model/send_queue.h"

#include <thread>

#include "reference/model/engine_testing.h"

namespace qpexam::model {
namespace {

class SendQueueTest : public EngineTest {
 protected:
  void SetUp() override {
    a = Make(QpType::kRc);
    b = Make(QpType::kRc);
    Connect(a, b);
    src = Register(8192, kAllRights, 0x5a);
    dst = Register(8192);
  }
  SendQueue& sq() { return a->send_queue(); }
  void BuildWrite(uint64_t id) {
    sq().RdmaWrite(WrId(id), kSignaled, dst.mr->rkey, dst.remote());
    sq().SetSge(src.mr->lkey, src.addr(), 4);
  }
  Qp *a, *b;
  Region src, dst;
};

TEST_F(SendQueueTest, ExactlyTheGrantedDepth) {  // WR-CAP-001, -002
  rnr_retry = 7;
  a = Make(QpType::kRc);
  b = Make(QpType::kRc);
  Connect(a, b);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(Send(a, i, src, 4), 0);
  EXPECT_EQ(Send(a, 99, src, 4), ENOMEM);
  EXPECT_EQ(Send(a, 99, src, 4), ENOMEM);
  for (int i = 0; i < 16; ++i) Recv(b, i, dst, 0, 8);
  fabric.RunUntilIdle();
  // Done, but not polled: still full (WR-CAP-004).
  EXPECT_EQ(Send(a, 99, src, 4), ENOMEM);
  EXPECT_EQ(Poll(cq).size(), 16u);
  Recv(b, 16, dst, 0, 8);
  EXPECT_EQ(Send(a, 16, src, 4), 0);
}

TEST_F(SendQueueTest, ASignaledCompletionFreesTheUnsignaledBeforeIt) {  // WR-CAP-004
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 15; ++i) {
      ASSERT_EQ(Write(a, i, src, 4, dst.mr->rkey, dst.remote(), 0), 0) << round;
    }
    ASSERT_EQ(Write(a, 15, src, 4, dst.mr->rkey, dst.remote()), 0);
    ASSERT_EQ(Write(a, 99, src, 4, dst.mr->rkey, dst.remote()), ENOMEM);
    ASSERT_EQ(Ids(cq), "15:OK");
  }
}

TEST_F(SendQueueTest, SmallRingsWrap) {  // WR-CAP-007, -008
  for (uint32_t depth : {1u, 2u, 3u, 5u}) {
    QpInit init = Init(QpType::kRc);
    init.cap.max_send_wr = depth;
    a = device->CreateQp(init).value;
    b = Make(QpType::kRc);
    Connect(a, b);
    uint64_t id = 0;
    for (int round = 0; round < 20; ++round) {
      sq().Start();
      for (uint32_t i = 0; i < depth; ++i) {
        src.bytes[i] = static_cast<uint8_t>(id + i);
        sq().RdmaWrite(WrId(id + i), kSignaled, dst.mr->rkey, dst.remote(i));
        if (i % 2 == 0) {
          sq().SetInline(&src.bytes[i], 1);
        } else {
          sq().SetSge(src.mr->lkey, src.addr() + i, 1);
        }
      }
      ASSERT_EQ(sq().Complete(), 0);
      const auto done = Poll(cq);
      ASSERT_EQ(done.size(), depth);
      for (uint32_t i = 0; i < depth; ++i) {
        EXPECT_EQ(done[i].wr_id.value, id + i);
        EXPECT_EQ(dst.bytes[i], static_cast<uint8_t>(id + i));
      }
      id += depth;
    }
  }
}

TEST_F(SendQueueTest, ARegionLongerThanTheRingFailsWhole) {
  sq().Start();
  for (int i = 0; i < 17; ++i) BuildWrite(i);
  EXPECT_EQ(sq().Complete(), ENOMEM);
  EXPECT_EQ(Ids(cq), "");
  EXPECT_EQ(dst.bytes[0], 0);
}

TEST_F(SendQueueTest, FirstErrorIsReported) {  // WR-ATOM-005
  sq().Start();
  for (int i = 0; i < 17; ++i) BuildWrite(i);  // ENOMEM
  const std::vector<uint8_t> big(65);
  sq().Send(WrId(1), 0);
  sq().SetInline(big.data(), big.size());  // EINVAL, later
  EXPECT_EQ(sq().Complete(), ENOMEM);
}

TEST_F(SendQueueTest, LegalCallsAfterAnErrorDoNothing) {  // WR-SET-012
  Mw* mw = device->AllocMw(pd, IBV_MW_TYPE_2).value;
  const std::vector<uint8_t> big(65);
  sq().Start();
  sq().Send(WrId(1), kSignaled);
  sq().SetInline(big.data(), big.size());
  BuildWrite(2);
  sq().RdmaRead(WrId(3), kSignaled, dst.mr->rkey, dst.remote());
  const ibv_sge list[2] = {{src.addr(), 4, src.mr->lkey.value},
                           {src.addr(), 4, src.mr->lkey.value}};
  sq().SetSgeList(2, list);
  SendQueue::Bind bind;
  bind.mw = mw;
  bind.mr = dst.mr;
  sq().BindMw(WrId(4), kSignaled, bind);
  sq().Flush(WrId(5), kSignaled, dst.mr->rkey, dst.remote(), 4, 1, 0);
  sq().Send(WrId(6), kSignaled);
  sq().SetInline("x", 1);
  EXPECT_EQ(sq().Complete(), EINVAL);
  EXPECT_EQ(Ids(cq), "");
  EXPECT_EQ(LintClauses(), "");
  EXPECT_EQ(Write(a, 7, src, 4, dst.mr->rkey, dst.remote()), 0);
  EXPECT_EQ(Ids(cq), "7:OK");
}

TEST_F(SendQueueTest, EmptyRegions) {  // WR-CRIT-006, -007
  for (int i = 0; i < 100; ++i) {
    sq().Start();
    EXPECT_EQ(sq().Complete(), 0);
    sq().Start();
    sq().Abort();
  }
  Qp* fresh = Make(QpType::kRc);
  fresh->send_queue().Start();
  fresh->send_queue().Abort();
  EXPECT_EQ(LintClauses(), "");
}

TEST_F(SendQueueTest, InlineIsCopiedInTheSetter) {  // WR-INL-001, -004, -007
  char buffer[64];
  std::memset(buffer, 'a', sizeof buffer);
  sq().Start();
  sq().RdmaWrite(WrId(1), kSignaled, dst.mr->rkey, dst.remote());
  sq().SetInline(buffer, sizeof buffer);
  std::memset(buffer, 'b', sizeof buffer);
  const ibv_data_buf list[3] = {{buffer, 2}, {nullptr, 0}, {const_cast<char*>("xyz"), 3}};
  sq().RdmaWrite(WrId(2), kSignaled, dst.mr->rkey, dst.remote(100));
  sq().SetInlineList(3, list);
  sq().RdmaWrite(WrId(3), kSignaled, dst.mr->rkey, dst.remote(200));
  sq().SetInlineList(0, nullptr);
  EXPECT_EQ(sq().Complete(), 0);
  EXPECT_EQ(Ids(cq), "1:OK 2:OK 3:OK");
  EXPECT_EQ(dst.bytes[63], 'a');
  EXPECT_EQ(std::memcmp(&dst.bytes[100], "bbxyz", 5), 0);
  EXPECT_EQ(dst.bytes[200], 0);
}

TEST_F(SendQueueTest, InlineSumsThatWrapAreRefused) {  // WR-INL-006
  char buffer[64] = {};
  const ibv_data_buf list[3] = {{buffer, 64}, {buffer, ~size_t{0}}, {buffer, 1}};
  sq().Start();
  sq().Send(WrId(1), kSignaled);
  sq().SetInlineList(3, list);
  EXPECT_EQ(sq().Complete(), EINVAL);
}

TEST_F(SendQueueTest, SgeListsGatherInOrder) {  // WR-SGE-001, -002, -006
  src.bytes[0] = 1;
  src.bytes[10] = 2;
  src.bytes[20] = 3;
  const uint32_t key = src.mr->lkey.value;
  const ibv_sge list[4] = {
      {src.addr() + 20, 1, key}, {0, 0, 0xdead}, {src.addr(), 1, key}, {src.addr() + 10, 1, key}};
  sq().Start();
  sq().RdmaWrite(WrId(1), kSignaled, dst.mr->rkey, dst.remote());
  sq().SetSgeList(4, list);
  EXPECT_EQ(sq().Complete(), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_EQ(dst.bytes[0], 3);
  EXPECT_EQ(dst.bytes[1], 1);
  EXPECT_EQ(dst.bytes[2], 2);
}

TEST_F(SendQueueTest, RefusedArguments) {  // WR-SGE-003, WR-DATA-014, -019, -020
  const uint32_t key = src.mr->lkey.value;
  const ibv_sge list[5] = {{src.addr(), 4, key},
                           {src.addr(), 4, key},
                           {src.addr(), 4, key},
                           {src.addr(), 4, key},
                           {src.addr(), 4, key}};
  sq().Start();
  sq().Send(WrId(1), kSignaled);
  sq().SetSgeList(5, list);
  EXPECT_EQ(sq().Complete(), EINVAL);
  sq().Start();
  sq().Send(WrId(1), kSignaled);
  sq().SetSgeList(size_t{1} << 32, list);  // WR-LIM-005
  EXPECT_EQ(sq().Complete(), EINVAL);
  for (size_t n : {size_t{1}, size_t{2}}) {
    sq().Start();
    sq().AtomicFetchAdd(WrId(1), kSignaled, dst.mr->rkey, dst.remote(), 1);
    sq().SetSgeList(n, list);  // 4 bytes, and 4 + 4
    EXPECT_EQ(sq().Complete(), EINVAL);
  }
  struct {
    uint64_t length;
    uint8_t type, level;
  } flushes[] = {{8, 0, 0}, {8, 4, 0}, {8, 1, 2}, {(uint64_t{1} << 32) + 8, 1, 0}};
  for (const auto& f : flushes) {
    sq().Start();
    sq().Flush(WrId(1), kSignaled, dst.mr->rkey, dst.remote(), f.length, f.type, f.level);
    EXPECT_EQ(sq().Complete(), EINVAL);
  }
  EXPECT_EQ(Ids(cq), "");
  EXPECT_EQ(LintClauses(), "");
}

TEST_F(SendQueueTest, States) {  // WR-STATE-001, -005, WR-ATOM-006
  Qp* c = Make(QpType::kRc);
  Qp* d = Make(QpType::kRc);
  EXPECT_EQ(Send(c, 1, src, 4), EINVAL);
  Step(c, IBV_QPS_INIT, d->number().value);
  EXPECT_EQ(Send(c, 1, src, 4), EINVAL);
  Step(c, IBV_QPS_RTR, d->number().value);
  EXPECT_EQ(Send(c, 1, src, 4), EINVAL);
  Step(c, IBV_QPS_RTS, d->number().value);
  ToRts(d, c->number().value);
  EXPECT_EQ(Write(c, 2, src, 4, dst.mr->rkey, dst.remote()), 0);
  EXPECT_EQ(Ids(cq), "2:OK");
  Step(c, IBV_QPS_ERR, 0);
  EXPECT_EQ(Write(c, 3, src, 4, dst.mr->rkey, dst.remote(), 0), 0);
  EXPECT_EQ(Ids(cq), "3:FLUSH");
}

TEST_F(SendQueueTest, MisuseIsReportedWithItsClause) {
  const auto expect = [&](const char* clause, auto&& calls) {
    calls();
    EXPECT_EQ(LintClauses(), clause);
    EXPECT_EQ(Write(a, 7, src, 4, dst.mr->rkey, dst.remote()), 0) << clause;
    EXPECT_EQ(Ids(cq), "7:OK") << clause;
  };
  expect("WR-CRIT-001", [&] { sq().Send(WrId(1), 0); });
  expect("WR-CRIT-001", [&] { sq().SetSge(src.mr->lkey, src.addr(), 4); });
  expect("WR-CRIT-009", [&] { EXPECT_EQ(sq().Complete(), EINVAL); });
  expect("WR-CRIT-009", [&] { sq().Abort(); });
  expect("WR-CRIT-008", [&] {
    sq().Start();
    sq().Start();
    EXPECT_EQ(sq().Complete(), EINVAL);
  });
  expect("WR-BUILD-009", [&] {
    sq().Start();
    sq().Send(WrId(1), 0);
    sq().Send(WrId(2), 0);
    EXPECT_EQ(sq().Complete(), EINVAL);
  });
  expect("WR-SET-003", [&] {
    sq().Start();
    sq().Send(WrId(1), 0);
    EXPECT_EQ(sq().Complete(), EINVAL);
  });
  expect("WR-SET-002", [&] {
    sq().Start();
    BuildWrite(1);
    sq().SetSge(src.mr->lkey, src.addr(), 4);
    EXPECT_EQ(sq().Complete(), EINVAL);
  });
  expect("WR-SET-010", [&] {
    sq().Start();
    BuildWrite(1);
    sq().SetUdAddr(nullptr, QpNum(1), Qkey(1));
    EXPECT_EQ(sq().Complete(), EINVAL);
  });
  expect("WR-SET-010", [&] {
    sq().Start();
    BuildWrite(1);
    sq().SetXrcSrqn(SrqNum(1));
    EXPECT_EQ(sq().Complete(), EINVAL);
  });
  expect("WR-SET-011", [&] {
    sq().Start();
    sq().SetSge(src.mr->lkey, src.addr(), 4);
    EXPECT_EQ(sq().Complete(), EINVAL);
  });
  expect("WR-INL-003", [&] {
    sq().Start();
    sq().RdmaRead(WrId(1), 0, dst.mr->rkey, dst.remote());
    sq().SetInline("x", 1);
    EXPECT_EQ(sq().Complete(), EINVAL);
  });
  expect("WR-BUILD-011", [&] {
    sq().Start();
    sq().LocalInv(WrId(1), 0, Rkey(1));
    sq().SetSge(src.mr->lkey, src.addr(), 4);
    EXPECT_EQ(sq().Complete(), EINVAL);
  });
  expect("WR-SET-014", [&] {  // tolerated: a note, no error (X2)
    sq().Start();
    sq().Flush(WrId(1), 0, dst.mr->rkey, dst.remote(), 4, 1, 0);
    sq().SetSge(src.mr->lkey, src.addr(), 4);
    EXPECT_EQ(sq().Complete(), 0);
  });
  expect("WR-CRIT-011", [&] {
    sq().Start();
    ibv_qp_attr attr;
    a->Query(&attr, nullptr);
    sq().Abort();
  });
  expect("WR-MIX-002", [&] {
    sq().Start();
    EXPECT_EQ(sq().BeginPost(), EINVAL);
    sq().Abort();
  });
  expect("WR-CRIT-012", [&] {
    sq().Start();
    EXPECT_EQ(device->DestroyQp(a).err, EBUSY);
    sq().Abort();
  });
}

TEST_F(SendQueueTest, NotRequestedOperation) {  // WR-CREATE-009
  QpInit init = Init(QpType::kRc);
  init.send_ops = Info(Operation::kSend).send_ops_flag;
  a = device->CreateQp(init).value;
  b = Make(QpType::kRc);
  Connect(a, b);
  sq().Start();
  BuildWrite(1);
  EXPECT_EQ(sq().Complete(), EINVAL);
  EXPECT_EQ(LintClauses(), "WR-CREATE-009");
}

TEST_F(SendQueueTest, LenientSettersMakeAnEmptyMessage) {  // X9, WR-SET-003
  Fabric lenient({1, false, ClockMode::kManual});
  Device* d = lenient.OpenDevice({}, nullptr);
  Pd* p = d->AllocPd().value;
  Cq* q = d->CreateCq(16, nullptr).value;
  QpInit init = Init(QpType::kRc);
  init.pd = p;
  init.send_cq = init.recv_cq = q;
  Qp* self = d->CreateQp(init).value;
  ToRts(self, self->number().value);
  const RecvRequest r{WrId(9), nullptr, 0};
  self->PostRecv({&r, 1}, nullptr);
  self->send_queue().Start();
  self->send_queue().Send(WrId(1), kSignaled);
  EXPECT_EQ(self->send_queue().Complete(), 0);
  EXPECT_EQ(Ids(q), "9:OK 1:OK");
}

TEST_F(SendQueueTest, PostSendStopsAtTheFirstBadRequest) {  // WR-MIX-001, -007
  const uint32_t key = src.mr->lkey.value;
  std::vector<ibv_sge> five(5, {src.addr(), 4, key});
  SendRequest r;
  r.op = Operation::kRdmaWrite;
  r.flags = kSignaled;
  r.rkey = dst.mr->rkey;
  r.remote_addr = dst.remote();
  EXPECT_EQ(sq().BeginPost(), 0);
  r.wr_id = WrId(1);
  EXPECT_TRUE(sq().PostOne(r, {five.data(), 1}).ok());
  r.wr_id = WrId(2);
  EXPECT_EQ(sq().PostOne(r, {five.data(), 5}).err, EINVAL);
  sq().EndPost();
  EXPECT_EQ(Write(a, 3, src, 4, dst.mr->rkey, dst.remote()), 0);
  EXPECT_EQ(Ids(cq), "1:OK 3:OK");
  r.op = Operation::kFlush;  // WR-MIX-005
  sq().BeginPost();
  EXPECT_NE(sq().PostOne(r, {}).err, 0);
  sq().EndPost();
}

TEST_F(SendQueueTest, RegionsOfTwoThreadsExcludeEachOther) {  // WR-CONC-001, WR-ATOM-010
  Cq* big = device->CreateCq(1 << 16, nullptr).value;
  QpInit init = Init(QpType::kRc);
  init.cap.max_send_wr = 4096;
  init.send_cq = big;
  a = device->CreateQp(init).value;
  b = Make(QpType::kRc);
  Connect(a, b);
  std::atomic<int> wrong{0};
  const auto run = [&](uint64_t tag, bool bad) {
    for (uint64_t i = 0; i < 300; ++i) {
      sq().Start();
      for (uint64_t k = 0; k < 3; ++k) BuildWrite(tag + i * 3 + k);
      if (bad) {
        sq().Send(WrId(0), 0);
        const std::vector<uint8_t> big_data(65);
        sq().SetInline(big_data.data(), big_data.size());
      }
      const int rc = sq().Complete();
      if (rc != (bad ? EINVAL : 0)) ++wrong;
    }
  };
  std::thread t1([&] { run(1'000'000, false); }), t2([&] { run(2'000'000, false); }),
      t3([&] { run(3'000'000, true); });
  t1.join();
  t2.join();
  t3.join();
  EXPECT_EQ(wrong, 0);
  std::vector<Completion> done(4096);
  ASSERT_EQ(big->Poll({done.data(), done.size()}), 1800);
  for (size_t i = 0; i < 1800; i += 3) {
    ASSERT_EQ(done[i + 1].wr_id.value, done[i].wr_id.value + 1);
    ASSERT_EQ(done[i + 2].wr_id.value, done[i].wr_id.value + 2);
  }
  EXPECT_EQ(LintClauses(), "");
}

TEST_F(SendQueueTest, ThreadDomainTakesNoLock) {  // WR-CONC-003, -004, -008
  Td* td = device->AllocTd().value;
  Pd* parent = device->AllocParentDomain(pd, td).value;
  QpInit init = Init(QpType::kRc);
  init.pd = parent;
  a = device->CreateQp(init).value;
  b = Make(QpType::kRc);
  Connect(a, b);
  EXPECT_EQ(Write(a, 1, src, 4, dst.mr->rkey, dst.remote()), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  sq().Start();
  std::thread([&] { sq().Start(); }).join();  // would wait for ever on a locked QP
  EXPECT_EQ(LintClauses(), "WR-CONC-004");
  EXPECT_EQ(device->DeallocTd(td).err, EBUSY);
}

}  // namespace
}  // namespace qpexam::model
