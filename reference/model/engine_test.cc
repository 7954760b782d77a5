// One request of every operation, and what a reader of the manual pages expects of it.
#include "reference/model/engine_testing.h"

namespace qpexam::model {
namespace {

class RcTest : public EngineTest {
 protected:
  void SetUp() override {
    a = Make(QpType::kRc);
    b = Make(QpType::kRc);
    Connect(a, b);
    src = Register(4096, kAllRights, 0x5a);
    dst = Register(4096);
  }
  Qp *a, *b;
  Region src, dst;
};

TEST_F(RcTest, WritePlacesItsBytesAndNoMore) {  // WR-DATA-005
  EXPECT_EQ(Write(a, 1, src, 16, dst.mr->rkey, dst.remote(8)), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_EQ(dst.bytes[7], 0);
  EXPECT_EQ(dst.bytes[8], 0x5a);
  EXPECT_EQ(dst.bytes[23], 0x5a);
  EXPECT_EQ(dst.bytes[24], 0);
}

TEST_F(RcTest, ReadFetches) {  // WR-DATA-009
  dst.bytes[5] = 0x77;
  EXPECT_EQ(Read(a, 1, src, 8, dst.mr->rkey, dst.remote()), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_EQ(src.bytes[5], 0x77);
  EXPECT_EQ(src.bytes[8], 0x5a);
}

TEST_F(RcTest, SendTakesOneReceive) {  // WR-DATA-001, -004
  Recv(b, 9, dst, 0, 64);
  Recv(b, 10, dst, 64, 64);
  EXPECT_EQ(Send(a, 1, src, 20), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  const auto got = Poll(recv_cq);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].wr_id.value, 9u);
  EXPECT_EQ(got[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(got[0].byte_len, 20u);
  EXPECT_EQ(got[0].qp_num, b->number());
  EXPECT_EQ(dst.bytes[19], 0x5a);
  EXPECT_EQ(dst.bytes[20], 0);
}

TEST_F(RcTest, ManualPagesExample) {  // a write, then a write with immediate
  Recv(b, 9, dst, 0, 0);
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.RdmaWrite(WrId(1), 0, dst.mr->rkey, dst.remote());
  sq.SetSge(src.mr->lkey, src.addr(), 16);
  sq.RdmaWriteImm(WrId(2), kSignaled, dst.mr->rkey, dst.remote(16), 0x1234);
  sq.SetSge(src.mr->lkey, src.addr(), 16);
  EXPECT_EQ(dst.bytes[0], 0);  // WR-CRIT-004
  EXPECT_EQ(sq.Complete(), 0);
  EXPECT_EQ(Ids(cq), "2:OK");
  const auto got = Poll(recv_cq);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got[0].imm, 0x1234u);
  EXPECT_EQ(got[0].wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(got[0].byte_len, 16u);
  EXPECT_EQ(dst.bytes[31], 0x5a);
}

TEST_F(RcTest, SendImmIsAPlainReceiveWithImmediate) {  // X1, WR-COMP-007
  Recv(b, 9, dst, 0, 64);
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.SendImm(WrId(1), kSignaled, 7);
  sq.SetInline("abc", 3);
  EXPECT_EQ(sq.Complete(), 0);
  const auto got = Poll(recv_cq);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(got[0].imm, 7u);
  EXPECT_EQ(std::memcmp(dst.bytes.data(), "abc", 3), 0);
}

TEST_F(RcTest, Atomics) {  // WR-DATA-010, -011
  uint64_t value = 5;
  std::memcpy(dst.bytes.data() + 8, &value, 8);
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.AtomicFetchAdd(WrId(1), kSignaled, dst.mr->rkey, dst.remote(8), ~uint64_t{0});
  sq.SetSge(src.mr->lkey, src.addr(), 8);
  sq.AtomicCmpSwp(WrId(2), kSignaled, dst.mr->rkey, dst.remote(8), 4, 100);
  sq.SetSge(src.mr->lkey, src.addr() + 8, 8);
  sq.AtomicCmpSwp(WrId(3), kSignaled, dst.mr->rkey, dst.remote(8), 4, 200);
  sq.SetSge(src.mr->lkey, src.addr() + 16, 8);
  EXPECT_EQ(sq.Complete(), 0);
  EXPECT_EQ(Ids(cq), "1:OK 2:OK 3:OK");
  uint64_t got[3];
  std::memcpy(got, src.bytes.data(), sizeof got);
  EXPECT_EQ(got[0], 5u);
  EXPECT_EQ(got[1], 4u);
  EXPECT_EQ(got[2], 100u);
  std::memcpy(&value, dst.bytes.data() + 8, 8);
  EXPECT_EQ(value, 100u);
}

TEST_F(RcTest, AtomicWriteAndFlush) {  // WR-DATA-016, -021, -023
  const uint8_t value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.AtomicWrite(WrId(1), kSignaled, dst.mr->rkey, dst.remote(16), value);
  sq.Flush(WrId(2), kSignaled, dst.mr->rkey, dst.remote(), 64, 1, 0);
  sq.Flush(WrId(3), kSignaled, dst.mr->rkey, RemoteAddr(99), 0, 3, 1);
  EXPECT_EQ(sq.Complete(), 0);
  EXPECT_EQ(Ids(cq), "1:OK 2:OK 3:OK");
  EXPECT_EQ(std::memcmp(dst.bytes.data() + 16, value, 8), 0);
}

TEST_F(RcTest, WindowLife) {  // WR-MW-004, -007, -008, -009
  Mw* mw = device->AllocMw(pd, IBV_MW_TYPE_2).value;
  const Rkey k1 = NextKey(mw->rkey);
  EXPECT_EQ(Bind(b, 1, mw, k1, dst, 64, 64, IBV_ACCESS_REMOTE_WRITE), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_EQ(Write(a, 2, src, 64, k1, dst.remote(64)), 0);
  EXPECT_EQ(Ids(cq), "2:OK");
  EXPECT_EQ(dst.bytes[127], 0x5a);
  EXPECT_EQ(device->DeregMr(dst.mr).err, EBUSY);  // WR-MW-014
  EXPECT_EQ(Invalidate(b, 3, k1), 0);
  EXPECT_EQ(Ids(cq), "3:OK");
  const Rkey k2 = NextKey(k1);
  EXPECT_EQ(Bind(b, 4, mw, k2, dst, 0, 64, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(Ids(cq), "4:OK");
  EXPECT_EQ(Read(a, 5, src, 64, k2, dst.remote()), 0);
  EXPECT_EQ(Ids(cq), "5:OK");
  EXPECT_EQ(Write(a, 6, src, 1, k1, dst.remote(64)), 0);
  EXPECT_EQ(Ids(cq), "6:REM_ACCESS");
  EXPECT_EQ(a->state(), IBV_QPS_ERR);
  EXPECT_EQ(b->state(), IBV_QPS_ERR);
  EXPECT_TRUE(device->DeallocMw(mw).ok());
}

TEST_F(RcTest, SendWithInvalidate) {  // WR-DATA-003
  Mw* mw = device->AllocMw(pd, IBV_MW_TYPE_2).value;
  const Rkey key = NextKey(mw->rkey);
  Bind(b, 1, mw, key, dst, 0, 64, IBV_ACCESS_REMOTE_WRITE);
  Recv(b, 9, dst, 128, 64);
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.SendInv(WrId(2), kSignaled, key);
  sq.SetInline("x", 1);
  EXPECT_EQ(sq.Complete(), 0);
  EXPECT_EQ(Ids(cq), "1:OK 2:OK");
  const auto got = Poll(recv_cq);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].wc_flags, static_cast<unsigned>(IBV_WC_WITH_INV));
  EXPECT_EQ(got[0].invalidated, key);
  EXPECT_EQ(mw->mr, nullptr);
}

TEST_F(RcTest, BadRkeyKillsBothEnds) {  // WR-RESP-005, -006, WR-COMP-002, -003
  Recv(b, 9, dst, 0, 64);
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.RdmaWrite(WrId(1), kSignaled, dst.mr->rkey, dst.remote());
  sq.SetSge(src.mr->lkey, src.addr(), 4);
  sq.RdmaWrite(WrId(2), 0, Rkey(dst.mr->rkey.value ^ 1), dst.remote());
  sq.SetSge(src.mr->lkey, src.addr(), 4);
  sq.RdmaWrite(WrId(3), 0, dst.mr->rkey, dst.remote());
  sq.SetSge(src.mr->lkey, src.addr(), 4);
  EXPECT_EQ(sq.Complete(), 0);
  EXPECT_EQ(Ids(cq), "1:OK 2:REM_ACCESS 3:FLUSH");
  EXPECT_EQ(Ids(recv_cq), "9:FLUSH");
  EXPECT_EQ(a->state(), IBV_QPS_ERR);
  EXPECT_EQ(b->state(), IBV_QPS_ERR);
  EXPECT_EQ(async.Count(IBV_EVENT_QP_ACCESS_ERR), 1);
}

TEST_F(RcTest, RnrIsRetriedThenGivenUp) {  // WR-RESP-001
  EXPECT_EQ(Send(a, 1, src, 4), 0);
  EXPECT_EQ(Ids(cq), "");
  fabric.AdvanceBy(3 * 640'000 - 1);
  EXPECT_EQ(Ids(cq), "");
  fabric.AdvanceBy(1);
  EXPECT_EQ(Ids(cq), "1:RNR_RETRY_EXC");
  EXPECT_EQ(b->state(), IBV_QPS_RTS);
  EXPECT_EQ(a->state(), IBV_QPS_ERR);
}

TEST_F(RcTest, ReceivePostedInTimeEndsRnr) {
  EXPECT_EQ(Send(a, 1, src, 4), 0);
  Recv(b, 9, dst, 0, 64);
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_EQ(Ids(recv_cq), "9:OK");
}

TEST_F(RcTest, AbortAndFailedRegionLeaveNoTrace) {  // WR-ATOM-001, -002, -012
  SendQueue& sq = a->send_queue();
  for (int i = 0; i < 100; ++i) {
    sq.Start();
    sq.RdmaWrite(WrId(1), kSignaled, dst.mr->rkey, dst.remote());
    sq.SetSge(src.mr->lkey, src.addr(), 4);
    const std::vector<uint8_t> big(65);
    sq.RdmaWrite(WrId(2), kSignaled, dst.mr->rkey, dst.remote());
    sq.SetInline(big.data(), big.size());
    if (i % 2 == 0) {
      EXPECT_EQ(sq.Complete(), EINVAL);
    } else {
      sq.Abort();
    }
  }
  EXPECT_EQ(dst.bytes[0], 0);
  EXPECT_EQ(Write(a, 3, src, 4, dst.mr->rkey, dst.remote()), 0);
  EXPECT_EQ(Ids(cq), "3:OK");
  EXPECT_EQ(LintClauses(), "");
}

}  // namespace
}  // namespace qpexam::model
