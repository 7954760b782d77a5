// libionic, unmodified, over the emulated kernel: RC, and each check of what it writes.
#include <endian.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "harness/hosted/ionic/ionic_model.h"
#include "harness/hosted/testing/rig.h"
#include "ionic_fw_types.h"

namespace qpexam::hosted {
namespace {

constexpr uint64_t kRcOps =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND_WITH_IMM |
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
    IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;

class IonicTest : public ::testing::Test {
 protected:
  IonicTest() : rig_("ionic") {
    std::iota(rig_.memory.begin(), rig_.memory.begin() + 4096, 1);
    Rig::Shape shape;
    shape.ops = kRcOps;
    a_ = rig_.MakeQp(shape);
    b_ = rig_.MakeQp(shape);
    if (a_ == nullptr || b_ == nullptr) return;
    rig_.Connect(a_, b_);
    x_ = ibv_qp_to_qp_ex(a_);
  }
  ~IonicTest() override {
    EXPECT_EQ(Text(rig_.provider.oracle().Take()), "") << "the seams are silent";
  }
  void Region(uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_wr_start(x_);
    x_->wr_id = wr_id;
    x_->wr_flags = flags;
  }
  void SetSge(size_t offset, uint32_t length) {
    ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(offset), length);
  }

  Rig rig_;
  ibv_qp* a_ = nullptr;
  ibv_qp* b_ = nullptr;
  ibv_qp_ex* x_ = nullptr;
};

TEST_F(IonicTest, DoesEveryOperationOfData) {
  ASSERT_NE(x_, nullptr);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(rig_.Receive(b_, 10 + i, 8192 + 64 * i, 64), 0);
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(16384));
  SetSge(0, 2000);
  ibv_wr_rdma_read(x_, rig_.mr->rkey, rig_.Address(100));
  SetSge(20000, 50);
  ibv_wr_send(x_);
  SetSge(0, 64);
  ibv_wr_send_imm(x_, htobe32(0xabcd));
  SetSge(64, 32);
  ibv_wr_rdma_write_imm(x_, rig_.mr->rkey, rig_.Address(9000), htobe32(77));
  SetSge(0, 16);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(rig_.Poll().size(), 8u);
  EXPECT_EQ(std::memcmp(&rig_.memory[16384], &rig_.memory[0], 2000), 0);
  EXPECT_EQ(std::memcmp(&rig_.memory[20000], &rig_.memory[100], 50), 0);
}

// In 65.0 ionic_v1_prep_atomic() leaves the length of a request's place in the ring as its last
// tenant had it, and the completion reports that: 0 in the first lap.
TEST_F(IonicTest, DoesAtomicsAndFindsTheirByteLen) {
  ASSERT_NE(x_, nullptr);
  Region(1);
  ibv_wr_atomic_fetch_add(x_, rig_.mr->rkey, rig_.Address(24000), 5);
  SetSge(24064, 8);
  ibv_wr_atomic_cmp_swp(x_, rig_.mr->rkey, rig_.Address(24000), 5, 9);
  SetSge(24072, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(rig_.Poll().size(), 2u);
  uint64_t now;
  std::memcpy(&now, &rig_.memory[24000], 8);
  EXPECT_EQ(now, 9u);
  EXPECT_EQ(Text(rig_.provider.oracle().Take()),
            "cqe WR-COMP-008: send completion wr_id 0x1: byte_len is 0x0, the CQE has 0x8\n");
}

// The library waits for the READ before it completes the LOCAL_INV behind it.
TEST_F(IonicTest, CompletesALocalOperationBehindASilentMessage) {
  ASSERT_NE(x_, nullptr);
  ibv_mw* mw = ibv_alloc_mw(rig_.pd, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind_info info = {};
  info.mr = rig_.mr;
  info.addr = rig_.Address(0);
  info.length = 64;
  info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
  Region(1);
  ibv_wr_bind_mw(x_, mw, mw->rkey + 1, &info);
  x_->wr_id = 2;
  x_->wr_flags = 0;
  ibv_wr_rdma_read(x_, rig_.mr->rkey, rig_.Address(0));
  SetSge(20000, 50);
  x_->wr_id = 3;
  x_->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  ibv_wr_local_inv(x_, mw->rkey + 1);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  const std::vector<ibv_wc> done = rig_.Poll();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[1].wr_id, 3u);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// The library flushes a receive in ERR without a word of the device, which has therefore to be
// quick.
TEST_F(IonicTest, FlushesAReceiveThatIsPostedInError) {
  ASSERT_NE(b_, nullptr);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(b_, &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(rig_.Receive(b_, 7, 8192, 64), 0);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(b_->recv_cq, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

// In 65.0 an abort sets the producer back and not the color.
TEST_F(IonicTest, FindsTheColorOfAnAbortOverTheRingsEnd) {
  ASSERT_NE(x_, nullptr);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(a_, &attr, IBV_QP_CAP, &init), 0);
  const auto write = [&] {
    ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(16384));
    SetSge(0, 8);
  };
  for (uint32_t i = 0; i + 4 < init.cap.max_send_wr; ++i) {
    Region(i);
    write();
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    ASSERT_EQ(rig_.Poll().size(), 1u);
  }
  Region(100);
  for (int i = 0; i < 8; ++i) write();
  ibv_wr_abort(x_);
  Region(101);
  write();
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_NE(Text(rig_.provider.oracle().Take()).find("color 0 in lap 0 of the ring"),
            std::string::npos);
}

// libionic takes the flags that a setter meets. That those at the builder count is a SHOULD, of
// which the seam says nothing.
TEST_F(IonicTest, ReadsTheFlagsInTheSetter) {
  ASSERT_NE(x_, nullptr);
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(16384));
  x_->wr_flags = 0;
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(rig_.Poll().size(), 0u);
}

// Lists of more than two SGEs have their lengths in front; inline data lies in their place.
TEST_F(IonicTest, GoesRoundAndRoundItsRings) {
  ASSERT_NE(x_, nullptr);
  for (int lap = 0; lap < 300; ++lap) {
    Region(lap);
    ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(16384));
    ibv_sge list[4];
    for (uint32_t i = 0; i < 4; ++i) list[i] = rig_.Sge(100 * i + lap, 3 + i);
    ibv_wr_set_sge_list(x_, 4, list);
    ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(20000));
    ibv_wr_set_inline_data(x_, &rig_.memory[lap], 1 + lap % 64);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    ASSERT_EQ(rig_.Poll().size(), 2u) << lap;
    ASSERT_EQ(std::memcmp(&rig_.memory[20000], &rig_.memory[lap], 1 + lap % 64), 0) << lap;
  }
}

TEST_F(IonicTest, ReportsAnErrorAndFlushesWhatIsBehindIt) {
  ASSERT_NE(x_, nullptr);
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(16384));
  SetSge(0, 8);
  x_->wr_id = 2;
  ibv_wr_rdma_write(x_, rig_.mr->rkey + 0x1000, rig_.Address(16384));
  SetSge(0, 8);
  x_->wr_id = 3;
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(16384));
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  const std::vector<ibv_wc> done = rig_.Poll();
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[1].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(done[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(done[2].wr_id, 3u);
}

// --- What the decoder says of rings that libionic would not write --------------------------------

class Ring {
 public:
  explicit Ring(std::unique_ptr<DeviceModel> model) : model_(std::move(model)) {
    std::memset(wqes_, 0, sizeof wqes_);
    queue_.type = model::QpType::kRc;
    queue_.base = reinterpret_cast<uint8_t*>(wqes_);
    queue_.entries = 4;
    queue_.stride = sizeof(ionic_v1_wqe);
    queue_.size = sizeof wqes_;
    queue_.max_sge = 2;
    queue_.max_inline = 32;
    queue_.doorbell = 1;
    ionic_v1_wqe& w = wqes_[0];
    w.base.op = IONIC_V1_OP_RDMA_WRITE;
    w.base.num_sge_key = 1;
    w.base.flags = htobe16(IONIC_V1_FLAG_COLOR | IONIC_V1_FLAG_SIG);
    w.common.length = htobe32(8);
    w.common.pld.sgl[0].len = htobe32(8);
  }
  ionic_v1_wqe& wqe() { return wqes_[0]; }
  Queue& queue() { return queue_; }
  // The first complaint, "" if there is none.
  std::string Read() {
    DecodedSend out;
    const Visibility seen = model_->DecodeSend(queue_, &out);
    if (seen == Visibility::kNotYet) return "nothing";
    return out.complaints.empty() ? "" : out.complaints.front();
  }

 private:
  std::unique_ptr<DeviceModel> model_;
  ionic_v1_wqe wqes_[4];
  Queue queue_;
};

TEST(IonicDecoder, SaysNothingOfAGoodWqe) { EXPECT_EQ(Ring(MakeIonicModel()).Read(), ""); }

TEST(IonicDecoder, NoticesEachPlantedFault) {
  {
    Ring ring(MakeIonicModel());
    ring.queue().doorbell = 9;
    EXPECT_EQ(ring.Read(), "a doorbell for index 9; the ring has 4");
  }
  {
    Ring ring(MakeIonicModel());
    ring.wqe().base.wqe_idx = htole64(3);
    EXPECT_EQ(ring.Read(), "WQE 0 calls itself 3");
  }
  {
    Ring ring(MakeIonicModel());
    ring.wqe().base.flags |= htobe16(1u << 7);
    EXPECT_EQ(ring.Read(), "reserved flags in 0x98");
  }
  {
    Ring ring(MakeIonicModel());
    EXPECT_EQ(ring.Read(), "");
    ring.queue().next = 4;
    ring.queue().doorbell = 1;
    EXPECT_EQ(ring.Read(), "color 1 in lap 1 of the ring");
  }
  {
    Ring ring(MakeIonicModel());
    ring.wqe().base.op = 0x7f;
    EXPECT_EQ(ring.Read(), "opcode 0x7f");
  }
  {
    Ring ring(MakeIonicModel());
    ring.wqe().common.length = htobe32(9);
    EXPECT_EQ(ring.Read(), "length is 9, the SGEs have 8");
  }
  {
    Ring ring(MakeIonicModel());
    ring.wqe().base.num_sge_key = 3;
    EXPECT_EQ(ring.Read(), "3 SGEs; a WQE has room for 2");
  }
}

// The second firmware calls the same operation by another number.
TEST(IonicDecoder, KnowsBothSetsOfOpcodes) {
  Ring ring(MakeIonicV2Model());
  ring.wqe().base.op = IONIC_V1_OP_RDMA_READ;
  EXPECT_EQ(ring.Read(), "opcode 0x3");
  ring.wqe().base.op = IONIC_V2_OP_RDMA_WRITE;
  EXPECT_EQ(ring.Read(), "");
}

}  // namespace
}  // namespace qpexam::hosted
