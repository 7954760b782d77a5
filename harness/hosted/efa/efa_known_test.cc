// Bugs that released versions of libefa have. Each program is minimal; the oracle knows none of
// them.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/efadv.h>

#include <numeric>

#include "harness/hosted/efa/efa_model.h"
#include "harness/hosted/testing/known_findings.h"
#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

constexpr uint32_t kQkey = 0x1234;  // the rig's

// A device whose kernel module grants 80 bytes of inline data, as newer ones do to any library.
const RegisterHostedKind kWide("efa_wide", [] { return MakeEfaModelOf(80); });

class EfaKnownTest : public ::testing::Test {
 protected:
  explicit EfaKnownTest(const char* provider = "efa", const KernelOptions& options = {})
      : rig_(provider, options) {
    std::iota(rig_.memory.begin(), rig_.memory.begin() + 4096, 1);
    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.hop_limit = 1;
    ibv_query_gid(rig_.context, 1, 0, &attr.grh.dgid);
    ah_ = ibv_create_ah(rig_.pd, &attr);
    EXPECT_NE(ah_, nullptr);
  }
  ~EfaKnownTest() override {
    EXPECT_EQ(Text(rig_.provider.oracle().Take()), "") << "not asked for";
    if (srd_ != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(srd_), 0);
    }
    EXPECT_EQ(ibv_destroy_ah(ah_), 0);
  }
  Rig::Shape UdShape(uint32_t inline_bytes = 32) {
    Rig::Shape shape;
    shape.type = IBV_QPT_UD;
    shape.sges = 2;
    shape.inline_bytes = inline_bytes;
    return shape;
  }
  ibv_qp* MakeUd(uint32_t inline_bytes = 32) {
    ibv_qp* qp = rig_.MakeQp(UdShape(inline_bytes));
    if (qp == nullptr) return nullptr;
    rig_.Connect(qp, qp);
    Use(qp);
    return qp;
  }
  void MakeSrd() {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_DRIVER;
    attr.send_cq = attr.recv_cq = rig_.cq;
    attr.cap = {16, 16, 2, 2, 32};
    attr.pd = rig_.pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE;
    efadv_qp_init_attr efa = {};
    efa.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
    srd_ = efadv_create_qp_ex(rig_.context, &attr, &efa, sizeof efa);
    ASSERT_NE(srd_, nullptr);
    rig_.provider.oracle().Watch(ibv_qp_to_qp_ex(srd_));
    rig_.Connect(srd_, srd_);
    Use(srd_);
  }
  void Use(ibv_qp* qp) {
    qp_ = qp;
    x_ = ibv_qp_to_qp_ex(qp);
  }
  void Start(uint64_t wr_id) {
    ibv_wr_start(x_);
    x_->wr_id = wr_id;
    x_->wr_flags = IBV_SEND_SIGNALED;
  }
  void SendNothing(uint64_t wr_id) {
    Start(wr_id);
    ibv_wr_send(x_);
    ibv_wr_set_ud_addr(x_, ah_, qp_->qp_num, kQkey);
    ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(0), 8);
    ASSERT_EQ(ibv_wr_complete(x_), 0);
    rig_.provider.kernel().RunUntilIdle();
  }
  void Expect(const KnownFinding& known) {
    EXPECT_EQ(CheckKnown(known, rig_.provider.oracle().Take()), "");
  }

  Rig rig_;
  ibv_ah* ah_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_qp* srd_ = nullptr;
  ibv_qp_ex* x_ = nullptr;
};

// A QP that ends leaves its CQE in the CQ, where it fails the polls of others: it names no QP.
TEST_F(EfaKnownTest, WhatADestroyedQpLeavesFailsThePoll) {
  ibv_qp* gone = MakeUd();
  SendNothing(77);
  const uint32_t lane = gone->qp_num % 2;
  rig_.Destroy(gone);
  // Another QP that completes to the same part of the CQ.
  ibv_qp* next = MakeUd();
  if (next->qp_num % 2 != lane) next = MakeUd();
  ibv_wc wc;
  EXPECT_NE(ibv_poll_cq(rig_.cq, 1, &wc), 1);
  Expect({"efa-05", "", "", "cqe", "WR-COMP-013", "ibv_poll_cq() failed with -22"});
}

KernelOptions SameSlot() {
  KernelOptions options;
  options.freedom.qp_number_step = 1024;  // the size of libefa's table
  return options;
}
class EfaSlotTest : public EfaKnownTest {
 protected:
  EfaSlotTest() : EfaKnownTest("efa", SameSlot()) {}
};

// The CQE of a QP that ended is taken for one of the QP that has its slot in the table.
TEST_F(EfaSlotTest, ACompletionOfAnotherQp) {
  ibv_qp* gone = MakeUd();
  SendNothing(77);
  rig_.Destroy(gone);
  MakeUd();
  SendNothing(78);
  ibv_wc wc;
  EXPECT_NE(ibv_poll_cq(rig_.cq, 1, &wc), 0);
  // From 62 on the poll fails instead.
  std::vector<SeamFinding> findings = rig_.provider.oracle().Take();
  const KnownFinding known = {
      "efa-07", "", "62.0", "cqe", "WR-COMP-005", "completion wr_id 0x4e: qp_num is another QP's"};
  if (HasBug(known)) {
    EXPECT_EQ(CheckKnown(known, findings), "");
  } else {
    EXPECT_EQ(CheckKnown({"efa-05", "", "", "cqe", "WR-COMP-013", "failed with -22"}, findings),
              "");
  }
  // The rest stays unpolled: the library would give back one request id more than it took.
}

class EfaWideTest : public EfaKnownTest {
 protected:
  EfaWideTest() : EfaKnownTest("efa_wide") {}
};

// The library trusts the kernel module to know how much inline data fits into its WQEs.
TEST_F(EfaWideTest, InlineDataBeyondTheWqe) {
  ASSERT_NE(MakeUd(80), nullptr);
  Start(1);
  ibv_wr_send(x_);
  ibv_wr_set_ud_addr(x_, ah_, qp_->qp_num, kQkey);
  ibv_wr_set_inline_data(x_, rig_.memory.data(), 64);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  Expect({"efa-14", "", "62.0", "wqe", "WR-INL-004",
          "64 bytes of inline data; the WQE has room for 32"});
}

// A QP number of the API has 24 bits, one of the WQE 16: where a datagram goes to whose number no
// QP of the device has is promised nowhere, and no finding.
TEST_F(EfaKnownTest, AQpNumberThatNoQpHas) {
  MakeUd();
  Start(1);
  ibv_wr_send(x_);
  ibv_wr_set_ud_addr(x_, ah_, 0x120000 | qp_->qp_num, kQkey);
  ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(0), 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  EXPECT_TRUE(rig_.provider.oracle().Take().empty());
}

// A READ completes as a SEND.
TEST_F(EfaKnownTest, TheOpcodeOfARead) {
  MakeSrd();
  Start(1);
  ibv_wr_rdma_read(x_, rig_.mr->rkey, rig_.Address(8192));
  ibv_wr_set_ud_addr(x_, ah_, qp_->qp_num, kQkey);
  ibv_wr_set_sge(x_, rig_.mr->lkey, rig_.Address(16384), 8);
  ASSERT_EQ(ibv_wr_complete(x_), 0);
  rig_.Poll();
  Expect({"efa-read-opcode", "", "", "cqe", "WR-COMP-006", "opcode is 0x0, the CQE has 0x2"});
}

// Inline data of a WRITE is laid over its remote address.
TEST_F(EfaKnownTest, InlineDataOfAWrite) {
  MakeSrd();
  Start(1);
  ibv_wr_rdma_write(x_, rig_.mr->rkey, rig_.Address(8192));
  ibv_wr_set_ud_addr(x_, ah_, qp_->qp_num, kQkey);
  ibv_wr_set_inline_data(x_, rig_.memory.data(), 24);
  const KnownFinding known = {"efa-inline-write",      "", "65.0", "wqe", "WR-BUILD-003",
                              "beside an RDMA address"};
  // Refused from 65.0 on, which WR-INL-004 allows.
  ASSERT_EQ(ibv_wr_complete(x_) == 0, HasBug(known));
  rig_.Poll();
  Expect(known);
}

// A receive without SGEs has no descriptor: the device never gets it.
TEST_F(EfaKnownTest, AReceiveWithoutSges) {
  MakeUd();
  ibv_sge sge = rig_.Sge(8192, 64);
  ibv_recv_wr second = {}, first = {};
  first.wr_id = 1;
  first.next = &second;
  second.wr_id = 2;
  second.sg_list = &sge;
  second.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp_, &first, &bad), 0);
  SendNothing(7);
  rig_.Poll();
  std::vector<SeamFinding> findings = rig_.provider.oracle().Take();
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, "wqe");
  EXPECT_NE(findings[0].what.find("receive wr_id=0x1: the SGEs differ"), std::string::npos);
}

// A QP that only sends, with max_recv_wr and max_recv_sge 0: an integer division by 0.
TEST(EfaKnownDeathTest, AQpWithoutReceives) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Rig rig("efa");
        ibv_qp_init_attr attr = {};
        attr.qp_type = IBV_QPT_UD;
        attr.send_cq = attr.recv_cq = rig.cq;
        attr.cap.max_send_wr = 4;
        attr.cap.max_send_sge = 1;
        ibv_create_qp(rig.pd, &attr);
      },
      "");
}

}  // namespace
}  // namespace qpexam::hosted
