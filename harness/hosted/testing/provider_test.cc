// A provider's library, unmodified, end to end over the emulated kernel. Built once for each
// provider (QPEXAM_PROVIDER).
#include <endian.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <string_view>

#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

const bool kIsRxe = std::string_view(QPEXAM_PROVIDER) == "rxe";

class ProviderTest : public ::testing::Test {
 protected:
  ProviderTest() : rig_(QPEXAM_PROVIDER) {}
  ~ProviderTest() override {
    EXPECT_EQ(Text(rig_.provider.oracle().Take()), "") << "the seams are silent";
  }

  void MakePair(ibv_qp_type type = IBV_QPT_RC) {
    Rig::Shape shape;
    shape.type = type;
    a_ = rig_.MakeQp(shape);
    b_ = rig_.MakeQp(shape);
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
    x_ = ibv_qp_to_qp_ex(a_);
    rig_.Connect(a_, b_);
    std::iota(rig_.memory.begin(), rig_.memory.begin() + 4096, 1);
  }
  void Region(uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_wr_start(x_);
    x_->wr_id = wr_id;
    x_->wr_flags = flags;
  }
  void SetSge(size_t offset, uint32_t length) {
    ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(offset), length);
  }
  // The one completion that there is.
  ibv_wc Only() {
    std::vector<ibv_wc> all = rig_.Poll();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? ibv_wc{} : all[0];
  }

  Rig rig_;
  ibv_qp* a_ = nullptr;
  ibv_qp* b_ = nullptr;
  ibv_qp_ex* x_ = nullptr;
};

TEST_F(ProviderTest, IsListedAndDescribed) {
  EXPECT_STREQ(ibv_get_device_name(rig_.context->device), kIsRxe ? "rxe0" : "mlx5_0");
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(rig_.context, &device), 0);
  EXPECT_EQ(device.max_sge, kIsRxe ? 32 : 30);
  EXPECT_EQ(device.phys_port_cnt, 1);
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(rig_.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  ibv_gid gid;
  EXPECT_EQ(ibv_query_gid(rig_.context, 1, 0, &gid), 0);
  EXPECT_NE(ibv_query_gid(rig_.context, 1, 7, &gid), 0);
  uint16_t pkey;
  ASSERT_EQ(ibv_query_pkey(rig_.context, 1, 0, reinterpret_cast<__be16*>(&pkey)), 0);
  EXPECT_EQ(pkey, 0xffff);
}

TEST_F(ProviderTest, WritesAndReads) {
  MakePair();
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  SetSge(0, 2000);
  x_->wr_id = 2;
  ibv_wr_rdma_read(x_, rig_.mr->rkey, rig_.Address(100));
  SetSge(16384, 50);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 2u);
  EXPECT_EQ(wcs[0].wr_id, 1u);
  EXPECT_EQ(wcs[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(wcs[0].opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(wcs[0].qp_num, a_->qp_num);
  EXPECT_EQ(wcs[1].wr_id, 2u);
  EXPECT_EQ(wcs[1].opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(wcs[1].byte_len, 50u);
  EXPECT_EQ(std::memcmp(&rig_.memory[8192], &rig_.memory[0], 2000), 0);
  EXPECT_EQ(std::memcmp(&rig_.memory[16384], &rig_.memory[100], 50), 0);
  EXPECT_EQ(rig_.provider.oracle().compared_requests(), 2u);
  EXPECT_EQ(rig_.provider.oracle().compared_completions(), 2u);
}

TEST_F(ProviderTest, SendsWithImmediateAndInvalidate) {
  MakePair();
  ASSERT_EQ(rig_.Receive(b_, 10, 8192, 64), 0);
  ASSERT_EQ(rig_.Receive(b_, 11, 8256, 64), 0);
  ASSERT_EQ(rig_.Receive(b_, 12, 8320, 64), 0);
  Region(1, 0);
  ibv_wr_send(x_);
  SetSge(0, 64);
  ibv_wr_send_imm(x_, htobe32(0xabcd));
  SetSge(64, 32);
  x_->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write_imm(x_, rig_.mr->rkey, rig_.Address(9000), htobe32(77));
  SetSge(0, 16);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 4u);
  int receives = 0;
  for (const ibv_wc& wc : wcs) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (!(wc.opcode & IBV_WC_RECV)) continue;
    ++receives;
    EXPECT_EQ(wc.qp_num, b_->qp_num);
    if (wc.wr_id == 10) {
      EXPECT_EQ(wc.byte_len, 64u);
    }
    if (wc.wr_id == 11) {
      EXPECT_EQ(wc.byte_len, 32u);
      EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
      EXPECT_EQ(be32toh(wc.imm_data), 0xabcdu);
    }
    if (wc.wr_id == 12) {
      EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    }
  }
  EXPECT_EQ(receives, 3);
  EXPECT_EQ(std::memcmp(&rig_.memory[8192], &rig_.memory[0], 64), 0);
}

TEST_F(ProviderTest, DoesAtomics) {
  MakePair();
  uint64_t value = 40;
  std::memcpy(&rig_.memory[8192], &value, 8);
  Region(1);
  ibv_wr_atomic_fetch_add(x_, rig_.mr->rkey, rig_.Address(8192), 2);
  SetSge(0, 8);
  ibv_wr_atomic_cmp_swp(x_, rig_.mr->rkey, rig_.Address(8192), 42, 7);
  SetSge(8, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 2u);
  EXPECT_EQ(wcs[0].opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(wcs[1].opcode, IBV_WC_COMP_SWAP);
  uint64_t got[2];
  std::memcpy(got, &rig_.memory[0], 16);
  EXPECT_EQ(got[0], 40u);
  EXPECT_EQ(got[1], 42u);
  std::memcpy(&value, &rig_.memory[8192], 8);
  EXPECT_EQ(value, 7u);
}

TEST_F(ProviderTest, BindsAndInvalidatesWindows) {
  MakePair();
  ibv_mw* mw = ibv_alloc_mw(rig_.pd, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind_info info = {};
  info.mr = rig_.mr;
  info.addr = rig_.Address(8192);
  info.length = 64;
  info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
  uint32_t key = ibv_inc_rkey(mw->rkey);
  Region(1);
  ibv_wr_bind_mw(x_, mw, key, &info);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  ibv_wc wc = Only();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  // The peer writes through the window.
  ibv_qp_ex* y = ibv_qp_to_qp_ex(b_);
  ibv_wr_start(y);
  y->wr_id = 2;
  y->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(y, key, rig_.Address(8200));
  ibv_wr_set_sge(y, rig_.mr->lkey, rig_.Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(y), 0);
  EXPECT_EQ(Only().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(&rig_.memory[8200], &rig_.memory[0], 8), 0);
  // The peer sends and invalidates it.
  ASSERT_EQ(rig_.Receive(a_, 10, 12000, 64), 0);
  ibv_wr_start(y);
  ibv_wr_send_inv(y, key);
  ibv_wr_set_sge(y, rig_.mr->lkey, rig_.Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(y), 0);
  std::vector<ibv_wc> wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 2u);
  for (const ibv_wc& w : wcs) {
    if (!(w.opcode & IBV_WC_RECV)) continue;
    EXPECT_TRUE(w.wc_flags & IBV_WC_WITH_INV);
    EXPECT_EQ(w.invalidated_rkey, key);
  }
  // Bound again, then invalidated by its owner.
  mw->rkey = key;
  uint32_t next = ibv_inc_rkey(key);
  Region(3);
  ibv_wr_bind_mw(x_, mw, next, &info);
  ibv_wr_local_inv(x_, next);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 2u);
  EXPECT_EQ(wcs[1].opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(wcs[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(ProviderTest, PostSendSpeaksTheSameRequests) {
  MakePair();
  ibv_sge sge[2] = {rig_.Sge(0, 10), rig_.Sge(100, 20)};
  ibv_send_wr wr[2] = {};
  wr[0].wr_id = 5;
  wr[0].opcode = IBV_WR_RDMA_WRITE;
  wr[0].sg_list = sge;
  wr[0].num_sge = 2;
  wr[0].wr.rdma.rkey = rig_.mr->rkey;
  wr[0].wr.rdma.remote_addr = rig_.Address(8192);
  wr[0].next = &wr[1];
  wr[1] = wr[0];
  wr[1].wr_id = 6;
  wr[1].num_sge = 1;
  wr[1].send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  wr[1].wr.rdma.remote_addr = rig_.Address(9000);
  wr[1].next = nullptr;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_, wr, &bad), 0);
  ibv_wc wc = Only();
  EXPECT_EQ(wc.wr_id, 6u);
  EXPECT_EQ(std::memcmp(&rig_.memory[8192], &rig_.memory[0], 10), 0);
  EXPECT_EQ(std::memcmp(&rig_.memory[8202], &rig_.memory[100], 20), 0);
  EXPECT_EQ(std::memcmp(&rig_.memory[9000], &rig_.memory[0], 10), 0);
}

TEST_F(ProviderTest, AbortedRegionsHandNothingOver) {
  MakePair();
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  SetSge(0, 100);
  ibv_wr_abort(x_);
  EXPECT_TRUE(rig_.Poll().empty());
  Region(2);
  ibv_wr_send(x_);
  SetSge(0, 8);
  ASSERT_EQ(rig_.Receive(b_, 3, 4096, 8), 0);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(rig_.Poll().size(), 2u);
  EXPECT_EQ(rig_.memory[8192], 0);
}

TEST_F(ProviderTest, WrapsItsRingsManyTimes) {
  MakePair();
  for (uint32_t i = 0; i < 500; ++i) {
    ASSERT_EQ(rig_.Receive(b_, i, 4096, 64), 0);
    Region(i, i % 3 == 0 ? 0 : IBV_SEND_SIGNALED);
    ibv_wr_send_imm(x_, i);
    SetSge(i, 1 + i % 60);
    ASSERT_EQ(ibv_wr_complete(x_), 0) << i;
    size_t want = i % 3 == 0 ? 1 : 2;
    ASSERT_EQ(rig_.Poll().size(), want) << i;
  }
}

TEST_F(ProviderTest, AFullQueueFailsTheRegionWhole) {
  MakePair();
  // No receive is posted, so that nothing completes.
  int rc = 0;
  int accepted = 0;
  for (; accepted < 100; ++accepted) {
    Region(accepted);
    ibv_wr_send(x_);
    SetSge(0, 8);
    rc = ibv_wr_complete(x_);
    if (rc != 0) break;
  }
  EXPECT_NE(rc, 0);
  EXPECT_GE(accepted, 16);
  Region(99);
  ibv_wr_send(x_);
  SetSge(0, 8);
  ibv_wr_abort(x_);
}

TEST_F(ProviderTest, ABadKeyEndsInErrorAndFlush) {
  MakePair();
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey ^ 0x1f00, rig_.Address(8192));
  SetSge(0, 8);
  x_->wr_id = 2;
  x_->wr_flags = 0;
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 2u);
  EXPECT_EQ(wcs[0].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(wcs[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wcs[1].wr_id, 2u);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(a_, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
  // What is posted in ERR is flushed.
  Region(3);
  ibv_wr_send(x_);
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(Only().status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(rig_.Receive(a_, 4, 4096, 8), 0);
  EXPECT_EQ(Only().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(ProviderTest, SendsDatagrams) {
  MakePair(IBV_QPT_UD);
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  ibv_query_gid(rig_.context, 1, 0, &attr.grh.dgid);
  ibv_ah* ah = ibv_create_ah(rig_.pd, &attr);
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(rig_.Receive(b_, 9, 8192, 140), 0);
  Region(1);
  ibv_wr_send_imm(x_, htobe32(5));
  ibv_wr_set_ud_addr(x_, ah, b_->qp_num, 0x1234);
  SetSge(0, 100);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 2u);
  for (const ibv_wc& wc : wcs) {
    if (!(wc.opcode & IBV_WC_RECV)) continue;
    EXPECT_EQ(wc.byte_len, 140u);
    EXPECT_EQ(wc.src_qp, a_->qp_num);
  }
  EXPECT_EQ(std::memcmp(&rig_.memory[8232], &rig_.memory[0], 100), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(ProviderTest, UnreliableConnectionsWrite) {
  MakePair(IBV_QPT_UC);
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  SetSge(0, 100);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  EXPECT_EQ(Only().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(&rig_.memory[8192], &rig_.memory[0], 100), 0);
}

TEST_F(ProviderTest, RaisesCompletionEventsOnce) {
  MakePair();
  ibv_comp_channel* channel = ibv_create_comp_channel(rig_.context);
  ASSERT_NE(channel, nullptr);
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  ibv_cq* cq = ibv_create_cq(rig_.context, 16, this, channel, 0);
  ASSERT_NE(cq, nullptr);
  std::swap(cq, rig_.cq);
  MakePair();
  ASSERT_EQ(ibv_req_notify_cq(rig_.cq, 0), 0);
  for (int i = 0; i < 2; ++i) {
    Region(1);
    ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
    SetSge(0, 8);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
  }
  ibv_cq* from = nullptr;
  void* of = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &from, &of), 0);
  EXPECT_EQ(from, rig_.cq);
  EXPECT_EQ(of, this);
  EXPECT_NE(ibv_get_cq_event(channel, &from, &of), 0) << "one event for one arming";
  ibv_ack_cq_events(rig_.cq, 1);
  // An event that nobody read must not keep the CQ from being destroyed.
  ASSERT_EQ(ibv_req_notify_cq(rig_.cq, 0), 0);
  Region(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  std::swap(cq, rig_.cq);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(ProviderTest, SharesReceivesAndReportsTheLimit) {
  ibv_srq_init_attr attr = {};
  attr.attr.max_wr = 8;
  attr.attr.max_sge = 2;
  ibv_srq* srq = ibv_create_srq(rig_.pd, &attr);
  ASSERT_NE(srq, nullptr);
  Rig::Shape shape;
  shape.srq = srq;
  a_ = rig_.MakeQp(shape);
  b_ = rig_.MakeQp(shape);
  ASSERT_NE(a_, nullptr);
  ASSERT_NE(b_, nullptr);
  x_ = ibv_qp_to_qp_ex(a_);
  rig_.Connect(a_, b_);
  for (uint64_t i = 0; i < 4; ++i) {
    ibv_sge sge = rig_.Sge(8192 + i * 64, 64);
    ibv_recv_wr wr = {};
    wr.wr_id = 100 + i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  }
  ibv_srq_attr limit = {};
  limit.srq_limit = 3;
  ASSERT_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
  Region(1, 0);
  ibv_wr_send(x_);
  SetSge(0, 10);
  ibv_wr_send(x_);
  SetSge(0, 10);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 2u);
  EXPECT_EQ(wcs[0].wr_id, 100u);
  EXPECT_EQ(wcs[1].wr_id, 101u);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(rig_.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq);
  ibv_ack_async_event(&event);
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(ProviderTest, ResetEmptiesTheQueues) {
  MakePair();
  ASSERT_EQ(rig_.Receive(a_, 7, 4096, 8), 0);
  Region(1);
  ibv_wr_send(x_);
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);  // waits for a receive
  ASSERT_EQ(rig_.ToState(a_, IBV_QPS_RESET), 0);
  ASSERT_EQ(rig_.ToState(b_, IBV_QPS_RESET), 0);
  rig_.Connect(a_, b_);
  EXPECT_TRUE(rig_.Poll().empty());
  ASSERT_EQ(rig_.Receive(b_, 8, 4096, 8), 0);
  for (int i = 0; i < 16; ++i) {
    Region(2);
    ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
    SetSge(0, 8);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
  }
  EXPECT_EQ(rig_.Poll().size(), 16u);
}

TEST_F(ProviderTest, ResizesACqWithCompletionsInIt) {
  MakePair();
  for (int i = 0; i < 5; ++i) {
    Region(i);
    ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
    SetSge(0, 8);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
  }
  ASSERT_EQ(ibv_resize_cq(rig_.cq, 1000), 0);
  EXPECT_GE(rig_.cq->cqe, 1000);
  EXPECT_NE(ibv_resize_cq(rig_.cq, 1), 0) << "five completions wait";
  Region(5);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  SetSge(0, 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  std::vector<ibv_wc> wcs = rig_.Poll();
  ASSERT_EQ(wcs.size(), 6u);
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(wcs[i].wr_id, i);
}

TEST_F(ProviderTest, PollsExtendedCqs) {
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 32;
  attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
  ibv_cq_ex* ex = ibv_create_cq_ex(rig_.context, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_cq* plain = rig_.cq;
  rig_.cq = ibv_cq_ex_to_cq(ex);
  MakePair();
  ibv_poll_cq_attr poll = {};
  EXPECT_EQ(ibv_start_poll(ex, &poll), ENOENT);
  for (int i = 0; i < 2; ++i) {
    Region(i);
    ibv_wr_rdma_read(x_, rig_.mr->rkey, rig_.Address(8192));
    SetSge(0, 8);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
  }
  ASSERT_EQ(ibv_start_poll(ex, &poll), 0);
  EXPECT_EQ(ex->wr_id, 0u);
  EXPECT_EQ(ibv_wc_read_byte_len(ex), 8u);
  ASSERT_EQ(ibv_next_poll(ex), 0);
  EXPECT_EQ(ex->wr_id, 1u);
  ibv_end_poll(ex);
  EXPECT_EQ(ibv_start_poll(ex, &poll), ENOENT);
  rig_.Destroy(a_);
  rig_.Destroy(b_);
  EXPECT_EQ(ibv_destroy_cq(rig_.cq), 0);
  rig_.cq = plain;
}

TEST_F(ProviderTest, TwoContextsAndTwoDevicesShareTheWire) {
  ibv_context* second = rig_.provider.Open(0);
  ibv_context* other = rig_.provider.Open(1);
  ASSERT_NE(second, nullptr);
  ASSERT_NE(other, nullptr);
  EXPECT_STREQ(ibv_get_device_name(other->device), kIsRxe ? "rxe1" : "mlx5_1");
  ibv_pd* pd = ibv_alloc_pd(other);
  ibv_mr* mr =
      ibv_reg_mr(pd, &rig_.memory[32768], 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_NE(mr->rkey, rig_.mr->rkey);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(second), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST(KernelTest, SpeaksToAKernelWithoutIoctl) {
  KernelOptions options;
  options.freedom.write_only = true;
  Rig rig(QPEXAM_PROVIDER, options);
  ibv_qp* a = rig.MakeQp({});
  ibv_qp* b = rig.MakeQp({});
  ASSERT_NE(a, nullptr);
  rig.Connect(a, b);
  ibv_qp_ex* x = ibv_qp_to_qp_ex(a);
  ibv_wr_start(x);
  x->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(x, rig.mr->rkey, rig.Address(8192));
  ibv_wr_set_sge(x, rig.mr->lkey, rig.Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(x), 0);
  EXPECT_EQ(rig.Poll().size(), 1u);
  EXPECT_EQ(Text(rig.provider.oracle().Take()), "");
}

TEST(KernelTest, CreationSurvivesAnyFailingCommand) {
  for (uint32_t n = 1; n < 12; ++n) {
    HostedProvider provider(ModelByName(QPEXAM_PROVIDER));
    Freedom freedom;
    freedom.fail_command = n;
    provider.kernel().SetFreedom(freedom);
    ibv_context* context = provider.Open(0);
    if (context == nullptr) continue;
    ibv_pd* pd = ibv_alloc_pd(context);
    ibv_cq* cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    if (pd != nullptr && cq != nullptr) {
      ibv_qp_init_attr attr = {};
      attr.qp_type = IBV_QPT_RC;
      attr.send_cq = attr.recv_cq = cq;
      attr.cap = {4, 4, 1, 1, 0};
      if (ibv_qp* qp = ibv_create_qp(pd, &attr)) {
        ibv_qp_attr to = {};
        to.qp_state = IBV_QPS_INIT;
        to.port_num = 1;
        ibv_modify_qp(qp, &to,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        EXPECT_EQ(ibv_destroy_qp(qp), 0) << n;
      }
    }
    if (cq != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(cq), 0) << n;
    }
    if (pd != nullptr) {
      EXPECT_EQ(ibv_dealloc_pd(pd), 0) << n;
    }
    EXPECT_EQ(ibv_close_device(context), 0) << n;
  }
}

TEST(KernelTest, LateCompletionsComeInOrderOfEachQueue) {
  KernelOptions options;
  options.freedom.late_completions = true;
  options.freedom.reorder_across_qps = true;
  options.freedom.seed = 5;
  Rig rig(QPEXAM_PROVIDER, options);
  ibv_qp* a = rig.MakeQp({});
  ibv_qp* b = rig.MakeQp({});
  rig.Connect(a, b);
  for (ibv_qp* qp : {a, b}) {
    ibv_qp_ex* x = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(x);
    x->wr_flags = IBV_SEND_SIGNALED;
    for (int i = 0; i < 8; ++i) {
      x->wr_id = i;
      ibv_wr_rdma_write(x, rig.mr->rkey, rig.Address(8192));
      ibv_wr_set_sge(x, rig.mr->lkey, rig.Address(0), 8);
    }
    ASSERT_EQ(ibv_wr_complete(x), 0);
  }
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(rig.cq, 1, &wc), 0) << "not yet";
  std::vector<ibv_wc> wcs = rig.Poll();
  ASSERT_EQ(wcs.size(), 16u);
  uint64_t next[2] = {0, 0};
  bool mixed = false;
  for (size_t i = 0; i < wcs.size(); ++i) {
    bool of_a = wcs[i].qp_num == a->qp_num;
    EXPECT_EQ(wcs[i].wr_id, next[of_a]++);
    if (i < 8 && !of_a) mixed = true;
  }
  EXPECT_TRUE(mixed);
  EXPECT_EQ(Text(rig.provider.oracle().Take()), "");
}

// A write from a to b, and a datagram from c to d by an address handle.
void Traffic(Rig* rig) {
  ibv_qp* a = rig->MakeQp({});
  ibv_qp* b = rig->MakeQp({});
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  rig->Connect(a, b);
  ibv_qp_ex* x = ibv_qp_to_qp_ex(a);
  ibv_wr_start(x);
  x->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(x, rig->mr->rkey, rig->Address(8192));
  ibv_wr_set_sge(x, rig->mr->lkey, rig->Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(x), 0);
  EXPECT_EQ(rig->Poll().size(), 1u);

  Rig::Shape datagram;
  datagram.type = IBV_QPT_UD;
  ibv_qp* c = rig->MakeQp(datagram);
  ibv_qp* d = rig->MakeQp(datagram);
  ASSERT_NE(c, nullptr);
  ASSERT_NE(d, nullptr);
  rig->Connect(c, d);
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.hop_limit = 64;
  attr.grh.traffic_class = 3;
  ASSERT_EQ(ibv_query_gid(rig->context, 1, 0, &attr.grh.dgid), 0);
  ibv_ah* ah = ibv_create_ah(rig->pd, &attr);
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(rig->Receive(d, 9, 8192, 140), 0);
  ASSERT_EQ(rig->Receive(d, 10, 8192, 140), 0);
  x = ibv_qp_to_qp_ex(c);
  ibv_wr_start(x);
  x->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(x);
  ibv_wr_set_ud_addr(x, ah, d->qp_num, 0x1234);
  ibv_wr_set_sge(x, rig->mr->lkey, rig->Address(0), 100);
  ASSERT_EQ(ibv_wr_complete(x), 0);
  ibv_sge sge = rig->Sge(0, 100);
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud.ah = ah;
  wr.wr.ud.remote_qpn = d->qp_num;
  wr.wr.ud.remote_qkey = 0x1234;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(c, &wr, &bad), 0);
  EXPECT_EQ(rig->Poll().size(), 4u) << "sent and received, twice";
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST(KernelTest, AnOlderAndANewerKernelServeAsWell) {
  for (KernelAge age : {KernelAge::kOlder, KernelAge::kNewer}) {
    KernelOptions options;
    options.freedom.kernel_age = age;
    Rig rig(QPEXAM_PROVIDER, options);
    Traffic(&rig);
    EXPECT_EQ(Text(rig.provider.oracle().Take()), "") << static_cast<int>(age);
  }
}

TEST(KernelTest, ANumberComesBackWhileItsCompletionsWait) {
  KernelOptions options;
  options.freedom.reuse_qp_numbers = true;
  Rig rig(QPEXAM_PROVIDER, options);
  ibv_qp* peer = rig.MakeQp({});
  uint32_t number = 0;
  for (uint64_t round = 0; round < 3; ++round) {
    ibv_qp* qp = rig.MakeQp({});
    ASSERT_NE(qp, nullptr);
    EXPECT_TRUE(number == 0 || number == qp->qp_num);
    number = qp->qp_num;
    rig.ToState(peer, IBV_QPS_RESET);
    rig.Connect(qp, peer);
    ibv_qp_ex* x = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(x);
    x->wr_id = round;
    x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(x, rig.mr->rkey, rig.Address(8192));
    ibv_wr_set_sge(x, rig.mr->lkey, rig.Address(0), 8);
    ASSERT_EQ(ibv_wr_complete(x), 0);
    if (round == 2) {
      // Those before may have been dropped with their QPs; the last is its own.
      std::vector<ibv_wc> wcs = rig.Poll();
      ASSERT_FALSE(wcs.empty());
      EXPECT_EQ(wcs.back().wr_id, 2u);
    }
    rig.Destroy(qp);
  }
  EXPECT_EQ(Text(rig.provider.oracle().Take()), "");
}

TEST(KernelTest, CompletionsAreWrittenWhileTheirQueuePairEnds) {
  KernelOptions options;
  options.freedom.late_completions = true;
  Rig rig(QPEXAM_PROVIDER, options);
  ibv_qp* a = rig.MakeQp({});
  ibv_qp* b = rig.MakeQp({});
  rig.Connect(a, b);
  const auto write = [&](uint64_t wr_id) {
    ibv_qp_ex* x = ibv_qp_to_qp_ex(a);
    ibv_wr_start(x);
    x->wr_id = wr_id;
    x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(x, rig.mr->rkey, rig.Address(8192));
    ibv_wr_set_sge(x, rig.mr->lkey, rig.Address(0), 8);
    EXPECT_EQ(ibv_wr_complete(x), 0);
  };
  write(1);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(rig.cq, 1, &wc), 0) << "on its way";
  ASSERT_EQ(rig.ToState(a, IBV_QPS_RESET), 0);
  ASSERT_EQ(rig.ToState(b, IBV_QPS_RESET), 0);
  rig.Connect(a, b);
  write(2);
  std::vector<ibv_wc> wcs = rig.Poll();
  ASSERT_FALSE(wcs.empty());
  EXPECT_EQ(wcs.back().wr_id, 2u);
  write(3);
  rig.Destroy(a);
  rig.Poll();
  EXPECT_EQ(Text(rig.provider.oracle().Take()), "");
}

TEST(KernelTest, SeedsTakeEveryFreedom) {
  const Freedom friendly = FreedomOf(1);
  EXPECT_EQ(friendly.qp_number_step, 1u);
  EXPECT_EQ(friendly.fail_command, 0u);
  EXPECT_EQ(friendly.kernel_age, KernelAge::kToday);
  std::set<std::string> seen;
  for (uint64_t seed = 2; seed < 300; ++seed) {
    const Freedom f = FreedomOf(seed);
    if (f.qp_number_step > 1) seen.insert("colliding numbers");
    if (f.key_high_bits != 0) seen.insert("high bits");
    if (f.late_completions) seen.insert("late");
    if (f.reorder_across_qps) seen.insert("reordered");
    if (f.write_only) seen.insert("write only");
    if (f.reuse_qp_numbers) seen.insert("numbers again");
    if (f.kernel_age == KernelAge::kOlder) seen.insert("older");
    if (f.kernel_age == KernelAge::kNewer) seen.insert("newer");
    if (f.fail_command != 0) seen.insert("failing");
  }
  EXPECT_EQ(seen.size(), 9u);
}

}  // namespace
}  // namespace qpexam::hosted
