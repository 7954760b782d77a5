// XRC over a provider's library, end to end: domains, their SRQs, senders and targets. Built once
// for each provider that has it (QPEXAM_PROVIDER).
#include <endian.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

constexpr uint64_t kOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                          IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;

class XrcTest : public ::testing::Test {
 protected:
  XrcTest() : rig_(QPEXAM_PROVIDER) {
    xrcd_ = OpenDomain(-1, O_CREAT);
    for (int i = 0; i < 2; ++i) {
      cqs_[i] = ibv_create_cq(rig_.context, 16, nullptr, nullptr, 0);
      srqs_[i] = MakeSrq(cqs_[i]);
      EXPECT_EQ(ibv_get_srq_num(srqs_[i], &numbers_[i]), 0);
    }
    target_ = MakeTarget();
    sender_ = MakeSender();
    Connect(sender_, target_->qp_num);
    Connect(target_, sender_->qp_num);
    x_ = ibv_qp_to_qp_ex(sender_);
    std::iota(rig_.memory.begin(), rig_.memory.begin() + 4096, 1);
  }
  ~XrcTest() override {
    EXPECT_EQ(Text(rig_.provider.oracle().Take()), "") << "the seams are silent";
    EXPECT_EQ(ibv_destroy_qp(sender_), 0);
    EXPECT_EQ(ibv_destroy_qp(target_), 0);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(ibv_destroy_srq(srqs_[i]), 0);
      EXPECT_EQ(ibv_destroy_cq(cqs_[i]), 0);
    }
    EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
  }

  ibv_xrcd* OpenDomain(int fd, int flags) {
    ibv_xrcd_init_attr attr = {};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = fd;
    attr.oflags = flags;
    return ibv_open_xrcd(rig_.context, &attr);
  }
  ibv_srq* MakeSrq(ibv_cq* cq) {
    ibv_srq_init_attr_ex attr = {};
    attr.attr.max_wr = 8;
    attr.attr.max_sge = 2;
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = rig_.pd;
    attr.xrcd = xrcd_;
    attr.cq = cq;
    return ibv_create_srq_ex(rig_.context, &attr);
  }
  ibv_qp* MakeTarget() {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd_;
    return ibv_create_qp_ex(rig_.context, &attr);
  }
  ibv_qp* MakeSender() {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_XRC_SEND;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = kOps;
    attr.pd = rig_.pd;
    attr.send_cq = rig_.cq;
    attr.cap.max_send_wr = 16;
    attr.cap.max_send_sge = 4;
    attr.cap.max_inline_data = 32;
    return ibv_create_qp_ex(rig_.context, &attr);
  }
  void Connect(ibv_qp* qp, uint32_t peer) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    const bool target = qp->qp_type == IBV_QPT_XRC_RECV;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    ibv_query_gid(rig_.context, 1, 0, &attr.ah_attr.grh.dgid);
    attr.ah_attr.grh.hop_limit = 1;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    ASSERT_EQ(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          (target ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
        0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 3;
    attr.rnr_retry = 1;
    attr.max_rd_atomic = 4;
    ASSERT_EQ(ibv_modify_qp(
                  qp, &attr,
                  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                      (target ? 0 : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)),
              0);
  }
  void Receive(int srq, uint64_t wr_id, size_t offset, uint32_t length) {
    ibv_sge sge = rig_.Sge(offset, length);
    ibv_recv_wr wr = {};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srqs_[srq], &wr, &bad), 0);
  }
  void Region(uint64_t wr_id) {
    ibv_wr_start(x_);
    x_->wr_id = wr_id;
    x_->wr_flags = IBV_SEND_SIGNALED;
  }
  void SetSge(size_t offset, uint32_t length) {
    ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(offset), length);
  }

  Rig rig_;
  ibv_xrcd* xrcd_;
  ibv_cq* cqs_[2];
  ibv_srq* srqs_[2];
  uint32_t numbers_[2];
  ibv_qp *sender_, *target_;
  ibv_qp_ex* x_;
};

// WR-XRC-001, -002, -003, -008: each request names its SRQ, and completes on that one's CQ.
TEST_F(XrcTest, EachRequestGoesToTheSrqThatItNames) {
  EXPECT_NE(numbers_[0], numbers_[1]);
  Receive(0, 10, 8192, 64);
  Receive(1, 20, 8256, 64);
  Receive(1, 21, 8320, 64);
  Region(1);
  ibv_wr_send(x_);
  ibv_wr_set_xrc_srqn(x_, numbers_[1]);
  SetSge(0, 64);
  x_->wr_id = 2;
  ibv_wr_send_imm(x_, htobe32(0xabcd));  // the setters in the other order
  SetSge(64, 32);
  ibv_wr_set_xrc_srqn(x_, numbers_[0]);
  x_->wr_id = 3;
  ibv_wr_rdma_write_imm(x_, rig_.mr->rkey, rig_.Address(9000), htobe32(7));
  ibv_wr_set_inline_data(x_, &rig_.memory[0], 16);
  ibv_wr_set_xrc_srqn(x_, numbers_[1]);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> sends = rig_.Poll();
  ASSERT_EQ(sends.size(), 3u);
  for (const ibv_wc& wc : sends) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  std::vector<ibv_wc> first = rig_.Poll(cqs_[0]), second = rig_.Poll(cqs_[1]);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].wr_id, 10u);
  EXPECT_EQ(be32toh(first[0].imm_data), 0xabcdu);
  EXPECT_EQ(first[0].byte_len, 32u);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].wr_id, 20u);
  EXPECT_EQ(second[0].qp_num, target_->qp_num);
  EXPECT_EQ(second[1].wr_id, 21u);
  EXPECT_EQ(second[1].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(std::memcmp(&rig_.memory[8256], &rig_.memory[0], 64), 0);
  EXPECT_EQ(std::memcmp(&rig_.memory[9000], &rig_.memory[0], 16), 0);
}

// WR-XRC-006, at every place of the ring, which segments cross at its end.
TEST_F(XrcTest, OneSidedRequestsGoRoundTheRing) {
  uint64_t value = 40;
  std::memcpy(&rig_.memory[8192], &value, 8);
  for (int round = 0; round < 70; ++round) {
    Region(1);
    ibv_wr_atomic_fetch_add(x_, rig_.mr->rkey, rig_.Address(8192), 2);
    ibv_wr_set_xrc_srqn(x_, numbers_[0]);
    SetSge(12000, 8);
    if (round % 3 == 0) {
      ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8200));
      const ibv_sge list[3] = {rig_.Sge(0, 10), rig_.Sge(20, 1), rig_.Sge(30, 100)};
      ibv_wr_set_xrc_srqn(x_, numbers_[1]);
      ibv_wr_set_sge_list(x_, 3, list);
    }
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    for (const ibv_wc& wc : rig_.Poll()) ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  }
  std::memcpy(&value, &rig_.memory[8192], 8);
  EXPECT_EQ(value, 180u);
}

TEST_F(XrcTest, PostSendNamesTheSrqToo) {
  Receive(1, 20, 8192, 64);
  ibv_sge sge = rig_.Sge(0, 40);
  ibv_send_wr wr = {}, *bad = nullptr;
  wr.wr_id = 5;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.qp_type.xrc.remote_srqn = numbers_[1];
  ASSERT_EQ(ibv_post_send(sender_, &wr, &bad), 0);
  EXPECT_EQ(rig_.Poll().size(), 1u);
  std::vector<ibv_wc> got = rig_.Poll(cqs_[1]);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].wr_id, 20u);
}

// WR-XRC-007: the other SRQ's receives are not taken.
TEST_F(XrcTest, AnEmptySrqIsNotReady) {
  Receive(0, 10, 8192, 64);
  Region(1);
  ibv_wr_send(x_);
  ibv_wr_set_xrc_srqn(x_, numbers_[1]);
  SetSge(0, 64);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> got = rig_.Poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(rig_.Poll(cqs_[0]).size(), 0u);
}

TEST_F(XrcTest, ATargetLivesAsLongAsAHandleOfIt) {
  ibv_qp_open_attr attr = {};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = target_->qp_num;
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.xrcd = xrcd_;
  if (std::string_view(QPEXAM_PROVIDER) == "mlx5") {
    // mlx5-open-qp: mlx5_destroy_qp() frees a doorbell record and a buffer that the handle has not.
    EXPECT_DEATH(ibv_destroy_qp(ibv_open_qp(rig_.context, &attr)), "");
    return;
  }
  ibv_qp* other = ibv_open_qp(rig_.context, &attr);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->qp_num, target_->qp_num);
  ASSERT_EQ(ibv_destroy_qp(target_), 0);
  target_ = other;
  EXPECT_EQ(ibv_close_xrcd(xrcd_), EBUSY);
  Receive(0, 10, 8192, 64);
  Region(1);
  ibv_wr_send(x_);
  ibv_wr_set_xrc_srqn(x_, numbers_[0]);
  SetSge(0, 64);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> got = rig_.Poll(cqs_[0]);
  if (std::string_view(QPEXAM_PROVIDER) == "hns") {
    // hns-second-handle: the first that is destroyed takes the QP out of the library's table.
    EXPECT_EQ(Text(rig_.provider.oracle().Take()),
              "cqe WR-COMP-013: ibv_poll_cq() failed with -2\n");
    return;
  }
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].status, IBV_WC_SUCCESS);
  attr.qp_num = sender_->qp_num;
  EXPECT_EQ(ibv_open_qp(rig_.context, &attr), nullptr) << "no target";
}

TEST_F(XrcTest, AFileStandsForADomain) {
  char name[] = "/tmp/qpexam_xrcdXXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(OpenDomain(fd, 0), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  ibv_xrcd* first = OpenDomain(fd, O_CREAT);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(OpenDomain(fd, O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_xrcd* second = OpenDomain(fd, 0);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(ibv_close_xrcd(first), 0);
  EXPECT_EQ(ibv_close_xrcd(second), 0);
  EXPECT_EQ(OpenDomain(fd, 0), nullptr) << "its last handle is closed";
  close(fd);
  unlink(name);
}

}  // namespace
}  // namespace qpexam::hosted
