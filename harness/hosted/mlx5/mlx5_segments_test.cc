// What the device reads out of a WQE is what is compared: a segment that is altered in the ring,
// behind the library's back and before it hands the WQE over, is found.
#include <endian.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "harness/hosted/mlx5/mlx5_layout.h"
#include "harness/hosted/testing/rig.h"
#include "mlx5dv.h"

namespace qpexam::hosted {
namespace {

// Flips bits of one byte of the first WQE that the QP ever sends.
void Alter(ibv_qp* qp, size_t offset, uint8_t bits = 0x01) {
  mlx5dv_qp ring = {};
  mlx5dv_obj object = {};
  object.qp.in = qp;
  object.qp.out = &ring;
  ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), 0);
  static_cast<uint8_t*>(ring.sq.buf)[offset] ^= bits;
}

class XrcSegmentTest : public testing::Test {
 protected:
  XrcSegmentTest() : rig_("mlx5") {
    ibv_xrcd_init_attr domain = {};
    domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    domain.fd = -1;
    domain.oflags = O_CREAT;
    xrcd_ = ibv_open_xrcd(rig_.context, &domain);
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd_;
    target_ = ibv_create_qp_ex(rig_.context, &attr);
    Rig::Shape shape;
    shape.type = IBV_QPT_XRC_SEND;
    sender_ = rig_.MakeQp(shape);
    rig_.Connect(sender_, target_);
  }
  ~XrcSegmentTest() override {
    rig_.Destroy(sender_);
    EXPECT_EQ(ibv_destroy_qp(target_), 0);
    EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
  }
  std::string Write(size_t alter) {
    ibv_qp_ex* x = ibv_qp_to_qp_ex(sender_);
    ibv_wr_start(x);
    ibv_wr_rdma_write(x, rig_.mr->rkey, rig_.Address(8192));
    ibv_wr_set_xrc_srqn(x, 5);
    ibv_wr_set_sge(x, rig_.mr->lkey, rig_.Address(0), 8);
    if (alter != 0) Alter(sender_, alter);
    EXPECT_EQ(ibv_wr_complete(x), 0);
    rig_.Poll();
    return Text(rig_.provider.oracle().Take());
  }

  Rig rig_;
  ibv_xrcd* xrcd_;
  ibv_qp *sender_, *target_;
};

TEST_F(XrcSegmentTest, IsRead) {
  EXPECT_EQ(Write(kMlx5CtrlSize + kMlx5XrcSrqn + 3),
            "wqe WR-XRC-001: RDMA_WRITE wr_id=0x0 (1 SGE, 8 bytes): remote_srqn differs\n");
}

TEST_F(XrcSegmentTest, HasNothingElseInIt) { EXPECT_EQ(Write(kMlx5CtrlSize + 8), ""); }

// A WQE of more blocks than were handed over takes no more than those with it.
TEST_F(XrcSegmentTest, EndsWithTheWqe) {
  EXPECT_NE(Write(kMlx5CtrlQpnDs + 3), "");  // 4 segments: now 5
  EXPECT_EQ(ibv_qp_to_qp_ex(sender_)->qp_base.state, IBV_QPS_RTS);
}

// --- Frames --------------------------------------------------------------------------------------

constexpr size_t kHeader = 54;  // Ethernet, IPv4, TCP

class FrameTest : public testing::Test {
 protected:
  explicit FrameTest(KernelAge age = KernelAge::kToday) : rig_("mlx5", OptionsOf(age)) {
    sender_ = Make();
    capture_ = Make();
    for (size_t i = 0; i < 4096; ++i) rig_.memory[i] = static_cast<uint8_t>(i * 7);
    uint8_t* h = rig_.memory.data();
    std::memset(h, 0x22, 12);
    h[12] = 0x08;  // IPv4
    h[13] = 0x00;
    std::memset(h + 14, 0, 40);
    h[14] = 0x45;
    h[23] = 6;     // TCP
    h[46] = 0x50;  // 20 bytes of it
  }
  static KernelOptions OptionsOf(KernelAge age) {
    KernelOptions options;
    options.freedom.kernel_age = age;
    return options;
  }
  ~FrameTest() override {
    EXPECT_EQ(ibv_destroy_qp(sender_), 0);
    EXPECT_EQ(ibv_destroy_qp(capture_), 0);
  }
  ibv_qp* Make() {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.send_cq = attr.recv_cq = rig_.cq;
    attr.cap = {16, 16, 4, 2, 64};
    attr.pd = rig_.pd;
    attr.comp_mask =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO;
    attr.max_tso_header = 64;
    ibv_qp* qp = ibv_create_qp_ex(rig_.context, &attr);
    if (qp == nullptr) ADD_FAILURE() << "ibv_create_qp_ex: errno " << errno;
    ibv_qp_attr to = {};
    to.port_num = 1;
    int mask = IBV_QP_STATE | IBV_QP_PORT;
    for (ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      to.qp_state = state;
      EXPECT_EQ(ibv_modify_qp(qp, &to, mask), 0);
      mask = IBV_QP_STATE;
    }
    return qp;
  }
  // What was captured, one frame behind the other, each of at most 256 bytes.
  std::vector<std::vector<uint8_t>> Captured(uint64_t* errors = nullptr) {
    std::vector<std::vector<uint8_t>> frames;
    for (const ibv_wc& wc : rig_.Poll()) {
      if (wc.status != IBV_WC_SUCCESS && errors != nullptr) ++*errors;
      if (wc.status != IBV_WC_SUCCESS || !(wc.opcode & IBV_WC_RECV)) continue;
      const uint8_t* at = &rig_.memory[wc.wr_id];
      frames.emplace_back(at, at + wc.byte_len);
      flags_ = wc.wc_flags;
    }
    return frames;
  }
  void Receives(int n) {
    for (int i = 0; i < n; ++i) {
      ASSERT_EQ(rig_.Receive(capture_, 16384 + 256 * i, 16384 + 256 * i, 256), 0);
    }
  }
  std::string Findings() { return Text(rig_.provider.oracle().Take()); }
  // A TSO request of 250 bytes cut into 100, 100, 50.
  int Tso(size_t alter = 0, uint8_t bits = 1) {
    ibv_qp_ex* x = ibv_qp_to_qp_ex(sender_);
    ibv_wr_start(x);
    x->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
    ibv_wr_send_tso(x, rig_.memory.data(), kHeader, 100);
    ibv_wr_set_sge(x, rig_.mr->lkey, rig_.Address(1000), 250);
    if (alter != 0) Alter(sender_, alter, bits);
    return ibv_wr_complete(x);
  }
  int Send(uint32_t length, size_t alter = 0, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_qp_ex* x = ibv_qp_to_qp_ex(sender_);
    ibv_wr_start(x);
    x->wr_flags = flags;
    ibv_wr_send(x);
    // Split within what a WQE has to hold itself.
    const ibv_sge list[2] = {rig_.Sge(0, 10), rig_.Sge(10, length - 10)};
    ibv_wr_set_sge_list(x, 2, list);
    if (alter != 0) Alter(sender_, alter);
    return ibv_wr_complete(x);
  }

  Rig rig_;
  ibv_qp *sender_, *capture_;
  unsigned flags_ = 0;
};

TEST_F(FrameTest, SegmentsAreCutAsAsked) {
  Receives(3);
  ASSERT_EQ(Tso(), 0);
  const auto frames = Captured();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(Findings(), "");
  for (size_t i = 0; i < 3; ++i) {
    const size_t length = i == 2 ? 50 : 100;
    ASSERT_EQ(frames[i].size(), kHeader + length);
    EXPECT_EQ(std::memcmp(frames[i].data(), rig_.memory.data(), 12), 0) << "Ethernet addresses";
    EXPECT_EQ(std::memcmp(&frames[i][kHeader], &rig_.memory[1000 + 100 * i], length), 0);
    EXPECT_EQ(frames[i][16] << 8 | frames[i][17], 40 + length) << "IPv4's total length";
    EXPECT_EQ(frames[i][41], 100 * i & 0xff) << "TCP's sequence number";
  }
  EXPECT_TRUE(flags_ & IBV_WC_IP_CSUM_OK) << "checksums were asked for";
}

TEST_F(FrameTest, TheSegmentIsRead) {
  ASSERT_EQ(Tso(kMlx5CtrlSize + kMlx5EthMss + 1), 0);
  EXPECT_EQ(Findings(), "wqe WR-DATA-026: TSO wr_id=0x0 (1 SGE, 250 bytes): mss differs\n");
}
TEST_F(FrameTest, TheHeaderIsRead) {
  ASSERT_EQ(Tso(kMlx5CtrlSize + kMlx5EthHeader + 40), 0);
  EXPECT_EQ(Findings(), "wqe WR-DATA-026: TSO wr_id=0x0 (1 SGE, 250 bytes): the header differs\n");
}
TEST_F(FrameTest, TheChecksumsAreRead) {
  ASSERT_EQ(Tso(kMlx5CtrlSize + kMlx5EthChecksums, kMlx5EthL3Checksum | kMlx5EthL4Checksum), 0);
  EXPECT_EQ(Findings(),
            "wqe WR-SAMPLE-002: TSO wr_id=0x0 (1 SGE, 250 bytes): flags 0x12 posted, the WQE has "
            "0x2\n");
}
TEST_F(FrameTest, AHeaderBehindTheWqeIsMalformed) {
  ASSERT_EQ(Tso(kMlx5CtrlSize + kMlx5EthHeaderLength), 0);
  uint64_t errors = 0;
  EXPECT_EQ(Captured(&errors).size(), 0u);
  EXPECT_EQ(errors, 1u);
  EXPECT_NE(Findings().find("an Ethernet segment that ends early"), std::string::npos);
}

TEST_F(FrameTest, FramesAreSentWhole) {
  Receives(2);
  ASSERT_EQ(Send(100), 0);
  auto frames = Captured();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(std::memcmp(frames[0].data(), rig_.memory.data(), 100), 0);
  EXPECT_FALSE(flags_ & IBV_WC_IP_CSUM_OK);
  EXPECT_EQ(Findings(), "");
}

// mlx5-tso-error: a builder that refuses its header leaves the setter the place of none.
TEST_F(FrameTest, ARefusedHeaderIsFollowedByAWildStore) {
  EXPECT_DEATH(
      {
        ibv_qp_ex* x = ibv_qp_to_qp_ex(sender_);
        ibv_wr_start(x);
        ibv_wr_send_tso(x, rig_.memory.data(), 65, 100);
        ibv_wr_set_sge(x, rig_.mr->lkey, rig_.Address(1000), 250);
      },
      "");
}

// DC is none of the API's and not modelled.
TEST_F(FrameTest, DynamicallyConnectedQpsAreRefused) {
  for (mlx5dv_dc_type type : {MLX5DV_DCTYPE_DCI, MLX5DV_DCTYPE_DCT}) {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_DRIVER;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = rig_.pd;
    attr.send_cq = attr.recv_cq = rig_.cq;
    attr.cap = {4, 0, 1, 0, 0};
    mlx5dv_qp_init_attr dc = {};
    dc.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    dc.dc_init_attr.dc_type = type;
    errno = 0;
    EXPECT_EQ(mlx5dv_create_qp(rig_.context, &attr, &dc), nullptr);
    EXPECT_NE(errno, 0);
  }
  EXPECT_EQ(Findings(), "");
}

// mlx5-tso-wrap: behind a header that crosses the end of the ring the library leaves out 32 bytes,
// which the device takes for the next segments.
TEST_F(FrameTest, AHeaderThatCrossesTheEndOfTheRing) {
  mlx5dv_qp ring = {};
  mlx5dv_obj object = {};
  object.qp.in = sender_;
  object.qp.out = &ring;
  ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), 0);
  for (uint32_t i = 1; i < ring.sq.wqe_cnt; ++i) {
    ASSERT_EQ(Send(60), 0);
    ASSERT_EQ(rig_.Poll().size(), 1u);
  }
  EXPECT_EQ(Findings(), "");
  Receives(3);
  ASSERT_EQ(Tso(), 0);
  rig_.Poll();
  const std::string found = Findings();
  EXPECT_EQ(found.rfind("wqe WR-", 0), 0u) << found;
}

// An older kernel does not say how much of a frame's front the device wants in the WQE: the library
// takes 18 bytes.
class InlineHeaderTest : public FrameTest {
 protected:
  InlineHeaderTest() : FrameTest(KernelAge::kOlder) {}
};

TEST_F(InlineHeaderTest, GoesInFront) {
  Receives(3);
  for (uint32_t length : {100, 19, 18}) {
    ASSERT_EQ(Send(length), 0);
    auto frames = Captured();
    ASSERT_EQ(frames.size(), 1u);
    ASSERT_EQ(frames[0].size(), length);
    EXPECT_EQ(std::memcmp(frames[0].data(), rig_.memory.data(), length), 0);
  }
  EXPECT_EQ(Findings(), "");
}
TEST_F(InlineHeaderTest, GoesInFrontOfInlineData) {
  Receives(2);
  for (uint32_t length : {60, 19}) {
    ibv_qp_ex* x = ibv_qp_to_qp_ex(sender_);
    ibv_wr_start(x);
    x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(x);
    ibv_wr_set_inline_data(x, rig_.memory.data(), length);
    ASSERT_EQ(ibv_wr_complete(x), 0);
    auto frames = Captured();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(std::memcmp(frames[0].data(), rig_.memory.data(), length), 0);
  }
  EXPECT_EQ(Findings(), "");
}
// mlx5-inline-header-twice: the setters of one buffer do not see that nothing of it is left.
TEST_F(InlineHeaderTest, IsSentTwiceWhereItIsAll) {
  ibv_qp_ex* x = ibv_qp_to_qp_ex(sender_);
  ibv_wr_start(x);
  ibv_wr_send(x);
  ibv_wr_set_inline_data(x, rig_.memory.data(), 18);
  ASSERT_EQ(ibv_wr_complete(x), 0);
  EXPECT_EQ(Findings(),
            "wqe WR-INL-004: SEND wr_id=0x0 (18 bytes inline): 18 bytes posted, the WQE has 36\n");
}
TEST_F(InlineHeaderTest, IsRead) {
  ASSERT_EQ(Send(100, kMlx5CtrlSize + kMlx5EthHeader + 12), 0);
  EXPECT_EQ(Findings(),
            "wqe WR-DATA-031: SEND wr_id=0x0 (2 SGEs, 100 bytes): the frame's header in the WQE is "
            "not the data's front\n");
}

}  // namespace
}  // namespace qpexam::hosted
