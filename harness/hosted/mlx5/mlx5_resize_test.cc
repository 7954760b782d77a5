// Resizing a CQ on mlx5: libmlx5 itself carries the completions that wait from the old buffer to
// the new one, up to an entry by which the device says where the old one ends.
#include <gtest/gtest.h>

#include <cstring>

#include "harness/hosted/mlx5/mlx5_layout.h"
#include "harness/hosted/testing/rig.h"
#include "mlx5dv.h"

namespace qpexam::hosted {
namespace {

class Mlx5ResizeTest : public testing::Test {
 protected:
  Mlx5ResizeTest() : rig_("mlx5") {
    a_ = rig_.MakeQp({});
    b_ = rig_.MakeQp({});
    rig_.Connect(a_, b_);
  }
  void Write(uint64_t wr_id) {
    ibv_qp_ex* x = ibv_qp_to_qp_ex(a_);
    ibv_wr_start(x);
    x->wr_id = wr_id;
    x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(x, rig_.mr->rkey, rig_.Address(8192));
    ibv_wr_set_sge(x, rig_.mr->lkey, rig_.Address(0), 8);
    ASSERT_EQ(ibv_wr_complete(x), 0);
  }
  Rig rig_;
  ibv_qp *a_, *b_;
};

TEST_F(Mlx5ResizeTest, KeepsWhatWaitsAtEachPlaceOfTheRing) {
  uint64_t next = 0, polled = 0;
  // To and fro, past the ends of both rings, with 0 to 4 completions waiting.
  for (int round = 0; round < 60; ++round) {
    const int waiting = round % 5;
    for (int i = 0; i < waiting; ++i) Write(next++);
    ASSERT_EQ(ibv_resize_cq(rig_.cq, round % 2 == 0 ? 100 : 40), 0);
    EXPECT_GE(rig_.cq->cqe, round % 2 == 0 ? 100 : 40);
    Write(next++);
    for (const ibv_wc& wc : rig_.Poll()) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, polled++);
    }
    ASSERT_EQ(polled, next);
  }
  EXPECT_EQ(Text(rig_.provider.oracle().Take()), "");
}

TEST_F(Mlx5ResizeTest, IsRefusedWhereTheNewRingHasNoRoom) {
  for (uint64_t i = 0; i < 5; ++i) Write(i);
  EXPECT_NE(ibv_resize_cq(rig_.cq, 3), 0);
  EXPECT_EQ(rig_.Poll().size(), 5u);
}

// A library that carries nothing over: as if it had, what was carried is taken out again.
TEST_F(Mlx5ResizeTest, WhatIsNotCarriedOverIsMissed) {
  for (uint64_t i = 0; i < 3; ++i) Write(i);
  ASSERT_EQ(ibv_resize_cq(rig_.cq, 100), 0);
  mlx5dv_cq cq = {};
  mlx5dv_obj object = {};
  object.cq.in = rig_.cq;
  object.cq.out = &cq;
  ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
  auto* ring = static_cast<uint8_t*>(cq.buf);
  for (uint32_t i = 0; i < cq.cqe_cnt; ++i) {
    ring[i * cq.cqe_size + cq.cqe_size - kMlx5CqeSize + kMlx5CqeOpOwn] = MLX5_CQE_INVALID << 4 | 1;
  }
  EXPECT_EQ(rig_.Poll().size(), 0u);
  EXPECT_EQ(
      Text(rig_.provider.oracle().Take()),
      "cqe WR-CQX-001: ibv_poll_cq() says that the CQ is empty, but it holds 3 completions\n");
}

}  // namespace
}  // namespace qpexam::hosted
