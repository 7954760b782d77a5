// What the tests of the provider share: verbs objects that free themselves, and an opened device.
// Plain libibverbs only: whatever is tested here, any program can do.
#ifndef QPEXAM_REFERENCE_PROVIDER_TESTING_H_
#define QPEXAM_REFERENCE_PROVIDER_TESTING_H_

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace qpexam::provider {

// Frees a verbs object; a call that refuses is a test failure.
template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    EXPECT_EQ(kFree(object), 0) << strerror(errno);
  }
};
using ContextPtr = std::unique_ptr<ibv_context, Freed<ibv_close_device>>;
using PdPtr = std::unique_ptr<ibv_pd, Freed<ibv_dealloc_pd>>;
using TdPtr = std::unique_ptr<ibv_td, Freed<ibv_dealloc_td>>;
using MrPtr = std::unique_ptr<ibv_mr, Freed<ibv_dereg_mr>>;
using MwPtr = std::unique_ptr<ibv_mw, Freed<ibv_dealloc_mw>>;
using AhPtr = std::unique_ptr<ibv_ah, Freed<ibv_destroy_ah>>;
using ChannelPtr = std::unique_ptr<ibv_comp_channel, Freed<ibv_destroy_comp_channel>>;
using CqPtr = std::unique_ptr<ibv_cq, Freed<ibv_destroy_cq>>;
using SrqPtr = std::unique_ptr<ibv_srq, Freed<ibv_destroy_srq>>;
using XrcdPtr = std::unique_ptr<ibv_xrcd, Freed<ibv_close_xrcd>>;
using QpPtr = std::unique_ptr<ibv_qp, Freed<ibv_destroy_qp>>;

inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND;

// The device of that name in a fresh listing, opened; null where it is not listed.
inline ContextPtr OpenDevice(const char* name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return nullptr;
  ContextPtr context;
  for (int i = 0; i < count; ++i) {
    if (strcmp(ibv_get_device_name(list[i]), name) == 0) context.reset(ibv_open_device(list[i]));
  }
  ibv_free_device_list(list);
  return context;
}

// What a test wants of a QP; the rest is plain.
struct QpWish {
  ibv_qp_type type = IBV_QPT_RC;
  uint64_t ops = 0;      // send_ops_flags
  bool extended = true;  // with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
  uint32_t sq = 16, rq = 16, sges = 4, inline_max = 64;
  int sq_sig_all = 0;
  ibv_srq* srq = nullptr;
  ibv_xrcd* xrcd = nullptr;
  ibv_cq* send_cq = nullptr;  // null: the fixture's
  ibv_cq* recv_cq = nullptr;
  ibv_pd* pd = nullptr;
};

class VerbsTest : public ::testing::Test {
 protected:
  static constexpr size_t kMemory = 16384;

  void SetUp() override {
    context_ = OpenDevice("qpexam0");
    ASSERT_NE(context_, nullptr);
    pd_.reset(ibv_alloc_pd(context_.get()));
    ASSERT_NE(pd_, nullptr);
    cq_.reset(ibv_create_cq(context_.get(), 256, nullptr, nullptr, 0));
    ASSERT_NE(cq_, nullptr);
    memory_.assign(kMemory, 0);
    mr_.reset(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), kAllAccess));
    ASSERT_NE(mr_, nullptr);
  }

  QpPtr CreateQp(const QpWish& wish) {
    ibv_qp_init_attr_ex attr = InitAttr(wish);
    QpPtr qp(ibv_create_qp_ex(context_.get(), &attr));
    granted_ = attr.cap;
    return qp;
  }
  ibv_qp_init_attr_ex InitAttr(const QpWish& wish) {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = wish.type;
    attr.send_cq = wish.send_cq != nullptr ? wish.send_cq : cq_.get();
    attr.recv_cq = wish.recv_cq != nullptr ? wish.recv_cq : cq_.get();
    attr.cap.max_send_wr = wish.sq;
    attr.cap.max_recv_wr = wish.rq;
    attr.cap.max_send_sge = wish.sges;
    attr.cap.max_recv_sge = wish.sges;
    attr.cap.max_inline_data = wish.inline_max;
    attr.sq_sig_all = wish.sq_sig_all;
    attr.srq = wish.srq;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = wish.pd != nullptr ? wish.pd : pd_.get();
    if (wish.extended) {
      attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.send_ops_flags = wish.ops;
    }
    if (wish.xrcd != nullptr) {
      attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
      attr.xrcd = wish.xrcd;
    }
    if (wish.type == IBV_QPT_XRC_RECV) {
      attr.comp_mask &= ~IBV_QP_INIT_ATTR_PD;
      attr.send_cq = attr.recv_cq = nullptr;
    }
    return attr;
  }

  // The full bring-up of table B, with short timers. dest is ignored on UD.
  static int ToInit(ibv_qp* qp, int access = kAllAccess) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    attr.qp_access_flags = access & ~IBV_ACCESS_MW_BIND;
    int mask = IBV_QP_STATE | IBV_QP_PORT;
    if (qp->qp_type != IBV_QPT_RAW_PACKET) mask |= IBV_QP_PKEY_INDEX;
    if (qp->qp_type == IBV_QPT_UD) mask |= IBV_QP_QKEY;
    if (IsConnected(qp)) mask |= IBV_QP_ACCESS_FLAGS;
    return ibv_modify_qp(qp, &attr, mask);
  }
  int ToRtr(ibv_qp* qp, uint32_t dest, uint8_t min_rnr_timer = 1) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = dest;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = min_rnr_timer;
    attr.ah_attr = Address();
    int mask = IBV_QP_STATE;
    if (IsConnected(qp)) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV)
      mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(qp, &attr, mask);
  }
  static int ToRts(ibv_qp* qp, uint8_t rnr_retry = 7, uint8_t timeout = 8, uint8_t retry_cnt = 2) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = timeout;
    attr.retry_cnt = retry_cnt;
    attr.rnr_retry = rnr_retry;
    attr.max_rd_atomic = 4;
    int mask = IBV_QP_STATE;
    if (qp->qp_type != IBV_QPT_RAW_PACKET) mask |= IBV_QP_SQ_PSN;
    if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND)
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    if (qp->qp_type == IBV_QPT_XRC_RECV) mask |= IBV_QP_TIMEOUT;
    return ibv_modify_qp(qp, &attr, mask);
  }
  void BringUp(ibv_qp* qp, uint32_t dest = 0) {
    ASSERT_EQ(ToInit(qp), 0);
    ASSERT_EQ(ToRtr(qp, dest), 0);
    ASSERT_EQ(ToRts(qp), 0);
  }
  static int Move(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attr = {};
    attr.qp_state = state;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  }
  static ibv_qp_state StateOf(ibv_qp* qp) {
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init = {};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  // Two QPs of a connected type, each the other's peer, in RTS.
  void Connect(ibv_qp* a, ibv_qp* b) {
    BringUp(a, b->qp_num);
    BringUp(b, a->qp_num);
  }
  // The address vector of the device's own port.
  ibv_ah_attr Address() {
    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.sgid_index = 1;
    attr.grh.hop_limit = 64;
    EXPECT_EQ(ibv_query_gid(context_.get(), 1, 1, &attr.grh.dgid), 0);
    return attr;
  }

  ibv_sge SgeAt(size_t offset, uint32_t length) {
    return {reinterpret_cast<uint64_t>(memory_.data() + offset), length, mr_->lkey};
  }
  int PostRecv(ibv_qp* qp, uint64_t wr_id, size_t offset, uint32_t length) {
    ibv_sge sge = SgeAt(offset, length);
    ibv_recv_wr wr = {};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &wr, &bad);
  }
  // Polls until n completions have come, or until nothing came for a very long (virtual) time.
  std::vector<ibv_wc> Poll(int n, ibv_cq* cq = nullptr) {
    std::vector<ibv_wc> all;
    ibv_wc wc;
    for (int empty = 0; static_cast<int>(all.size()) < n && empty < 2'000'000;) {
      int got = ibv_poll_cq(cq != nullptr ? cq : cq_.get(), 1, &wc);
      EXPECT_GE(got, 0);
      if (got == 1)
        all.push_back(wc);
      else
        ++empty;
    }
    return all;
  }
  // The one completion that is due.
  ibv_wc PollOne(ibv_cq* cq = nullptr) {
    std::vector<ibv_wc> all = Poll(1, cq);
    EXPECT_EQ(all.size(), 1u) << "no completion came";
    return all.empty() ? ibv_wc{} : all[0];
  }
  bool Empty(ibv_cq* cq = nullptr) {
    ibv_wc wc;
    return ibv_poll_cq(cq != nullptr ? cq : cq_.get(), 1, &wc) == 0;
  }
  uint8_t* At(size_t offset) { return memory_.data() + offset; }
  uint64_t RemoteAt(size_t offset) { return reinterpret_cast<uint64_t>(memory_.data() + offset); }

  static bool IsConnected(const ibv_qp* qp) {
    return qp->qp_type != IBV_QPT_UD && qp->qp_type != IBV_QPT_RAW_PACKET;
  }

  static constexpr uint32_t kQkey = 0x1234;

  ContextPtr context_;
  PdPtr pd_;
  CqPtr cq_;
  std::vector<uint8_t> memory_;
  MrPtr mr_;
  ibv_qp_cap granted_ = {};
};

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_TESTING_H_
