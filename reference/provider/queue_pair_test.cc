// Queue pairs: creation against table A, capacities, states, queries, opening, multicast.
#include <fcntl.h>

#include <cstring>

#include "reference/model/ops.h"
#include "reference/provider/testing.h"

namespace qpexam::provider {
namespace {

class QueuePairTest : public VerbsTest {};

// Table A, column REF, spelled out: what the catalogue says, not what the model's table says.
constexpr uint64_t kUdOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr uint64_t kUcOps = kUdOps | IBV_QP_EX_WITH_RDMA_WRITE |
                            IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_BIND_MW;
constexpr uint64_t kRcOps = kUcOps | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
                            IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                            IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
                            IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;
constexpr uint64_t kRawOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO;

struct TypeAndOps {
  ibv_qp_type type;
  uint64_t ops;
};
constexpr TypeAndOps kTable[] = {{IBV_QPT_RC, kRcOps},
                                 {IBV_QPT_UC, kUcOps},
                                 {IBV_QPT_UD, kUdOps},
                                 {IBV_QPT_XRC_SEND, kRcOps},
                                 {IBV_QPT_RAW_PACKET, kRawOps}};

TEST_F(QueuePairTest, OffersExactlyTableA) {  // WR-CREATE-002, -016
  for (const TypeAndOps& row : kTable) {
    for (int bit = 0; bit < 64; ++bit) {
      const uint64_t flag = uint64_t{1} << bit;
      QpWish wish;
      wish.type = row.type;
      wish.ops = flag;
      errno = 0;
      QpPtr qp = CreateQp(wish);
      // LOCAL_INV on UC is in column REF and in contradiction X4: both are allowed
      // (WR-CREATE-011).
      if (row.type == IBV_QPT_UC && flag == IBV_QP_EX_WITH_LOCAL_INV) continue;
      EXPECT_EQ(qp != nullptr, (row.ops & flag) != 0) << "type " << row.type << " bit " << bit;
      if (qp != nullptr) {
        EXPECT_NE(ibv_qp_to_qp_ex(qp.get()), nullptr);
      } else {
        EXPECT_NE(errno, 0);
      }
    }
    QpWish all;
    all.type = row.type;
    all.ops = row.ops;
    EXPECT_NE(CreateQp(all), nullptr) << "type " << row.type;
  }
}

TEST_F(QueuePairTest, WithoutTheFlagThereIsNoExtension) {  // WR-ABI-006, WR-CREATE-005
  QpWish wish;
  wish.extended = false;
  QpPtr qp = CreateQp(wish);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp.get()), nullptr);
  ibv_qp_init_attr plain = {};
  plain.send_cq = plain.recv_cq = cq_.get();
  plain.qp_type = IBV_QPT_RC;
  plain.cap.max_send_wr = plain.cap.max_recv_wr = 1;
  QpPtr basic(ibv_create_qp(pd_.get(), &plain));
  ASSERT_NE(basic, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(basic.get()), nullptr);
  EXPECT_GE(plain.cap.max_send_wr, 1u);
}

TEST_F(QueuePairTest, NoOperationsStillMakeARegion) {  // WR-CREATE-008, WR-CRIT-006
  QpPtr qp = CreateQp({});
  ASSERT_NE(qp, nullptr);
  BringUp(qp.get(), qp->qp_num);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp.get());
  ibv_wr_start(ex);
  EXPECT_EQ(ibv_wr_complete(ex), 0);
  ibv_wr_start(ex);
  ibv_wr_abort(ex);
}

TEST_F(QueuePairTest, ANewQpReadsZero) {  // WR-CREATE-014, WR-ABI-005
  QpWish wish;
  wish.ops = kRcOps;
  QpPtr qp = CreateQp(wish);
  ASSERT_NE(qp, nullptr);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp.get());
  ASSERT_NE(ex, nullptr);
  EXPECT_EQ(&ex->qp_base, qp.get());
  EXPECT_EQ(ex->comp_mask, 0u);
  EXPECT_EQ(ex->wr_id, 0u);
  EXPECT_EQ(ex->wr_flags, 0u);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(qp->qp_type, IBV_QPT_RC);
  EXPECT_EQ(qp->send_cq, cq_.get());
  EXPECT_EQ(qp->pd, pd_.get());
  EXPECT_EQ(qp->context, context_.get());
}

TEST_F(QueuePairTest, GrantsAtLeastWhatWasAsked) {  // WR-CREATE-003, -004
  QpWish wish;
  wish.sq = 37;
  wish.rq = 11;
  wish.sges = 3;
  wish.inline_max = 100;
  QpPtr qp = CreateQp(wish);
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(granted_.max_send_wr, 37u);
  EXPECT_GE(granted_.max_recv_wr, 11u);
  EXPECT_GE(granted_.max_send_sge, 3u);
  EXPECT_GE(granted_.max_recv_sge, 3u);
  EXPECT_GE(granted_.max_inline_data, 100u);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(memcmp(&attr.cap, &granted_, sizeof(granted_)), 0);
  EXPECT_EQ(init.send_cq, cq_.get());
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);

  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(context_.get(), &device), 0);
  QpWish deep;
  deep.sq = static_cast<uint32_t>(device.max_qp_wr) + 1;
  EXPECT_EQ(CreateQp(deep), nullptr);
  QpWish wide;
  wide.sges = static_cast<uint32_t>(device.max_sge) + 1;
  EXPECT_EQ(CreateQp(wide), nullptr);
  QpWish fat;
  fat.inline_max = 1u << 31;
  EXPECT_EQ(CreateQp(fat), nullptr);
}

TEST_F(QueuePairTest, CreationWantsItsMembersAndNoOthers) {  // WR-CREATE-006, -007
  ibv_qp_init_attr_ex attr = InitAttr({});
  attr.comp_mask |= 1u << 30;
  EXPECT_EQ(ibv_create_qp_ex(context_.get(), &attr), nullptr);
  attr = InitAttr({});
  attr.comp_mask &= ~IBV_QP_INIT_ATTR_PD;
  EXPECT_EQ(ibv_create_qp_ex(context_.get(), &attr), nullptr);
  attr = InitAttr({});
  attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
  EXPECT_EQ(ibv_create_qp_ex(context_.get(), &attr), nullptr);
  attr = InitAttr({});
  attr.send_cq = nullptr;
  EXPECT_EQ(ibv_create_qp_ex(context_.get(), &attr), nullptr);
  attr = InitAttr({});
  attr.qp_type = IBV_QPT_DRIVER;
  EXPECT_EQ(ibv_create_qp_ex(context_.get(), &attr), nullptr);
}

// A C program may hand in any number where the header has an enumeration. It is refused, and never
// read as an enumeration (which UndefinedBehaviorSanitizer would report).
TEST_F(QueuePairTest, RefusesNumbersThatAreNoEnumerators) {
  const auto put = [](auto* field, uint32_t number) { memcpy(field, &number, sizeof(number)); };
  for (const uint32_t wild : {0x100u, 0x7fffffffu, 0xffffffffu}) {
    SCOPED_TRACE(wild);
    ibv_qp_init_attr plain = {};
    plain.send_cq = plain.recv_cq = cq_.get();
    put(&plain.qp_type, wild);
    EXPECT_EQ(ibv_create_qp(pd_.get(), &plain), nullptr);
    ibv_qp_init_attr_ex extended = InitAttr({});
    put(&extended.qp_type, wild);
    EXPECT_EQ(ibv_create_qp_ex(context_.get(), &extended), nullptr);

    QpPtr qp = CreateQp({});
    ASSERT_NE(qp, nullptr);
    ibv_qp_attr attr = {};
    put(&attr.qp_state, wild);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), EINVAL);
    attr = {};
    attr.qp_state = IBV_QPS_INIT;
    put(&attr.cur_qp_state, wild);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
    attr = {};
    put(&attr.path_mig_state, wild);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_PATH_MIG_STATE), EINVAL);
    attr = {};
    put(&attr.path_mtu, wild);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_PATH_MTU), EINVAL);
    EXPECT_EQ(StateOf(qp.get()), IBV_QPS_RESET);
  }
  // As far as C++ can spell it: the inline function of the header reads the type itself.
  EXPECT_EQ(ibv_alloc_mw(pd_.get(), static_cast<ibv_mw_type>(3)), nullptr);
}

TEST_F(QueuePairTest, WalksTheStateMachine) {  // table B1
  QpPtr qp = CreateQp({});
  ASSERT_NE(qp, nullptr);
  EXPECT_NE(Move(qp.get(), IBV_QPS_RTS), 0);
  EXPECT_EQ(StateOf(qp.get()), IBV_QPS_RESET);
  BringUp(qp.get(), qp->qp_num);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);  // WR-STATE-013
  EXPECT_EQ(Move(qp.get(), IBV_QPS_SQD), 0);
  EXPECT_EQ(Move(qp.get(), IBV_QPS_RTS), 0);
  EXPECT_EQ(Move(qp.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(StateOf(qp.get()), IBV_QPS_ERR);
  EXPECT_NE(Move(qp.get(), IBV_QPS_RTS), 0);
  EXPECT_EQ(Move(qp.get(), IBV_QPS_RESET), 0);
  BringUp(qp.get(), qp->qp_num);
}

TEST_F(QueuePairTest, QueryReadsWhatModifyWrote) {
  QpPtr qp = CreateQp({});
  ASSERT_NE(qp, nullptr);
  BringUp(qp.get(), qp->qp_num);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_AV, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.dest_qp_num, qp->qp_num);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attr.rnr_retry, 7);
  EXPECT_EQ(attr.retry_cnt, 2);
  EXPECT_EQ(attr.timeout, 8);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.ah_attr.is_global, 1);
}

TEST_F(QueuePairTest, XrcReceiversAreOpenedAgain) {
  ibv_xrcd_init_attr xrcd_attr = {};
  xrcd_attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd_attr.fd = -1;
  xrcd_attr.oflags = O_CREAT;
  XrcdPtr xrcd(ibv_open_xrcd(context_.get(), &xrcd_attr));
  ASSERT_NE(xrcd, nullptr);
  QpWish wish;
  wish.type = IBV_QPT_XRC_RECV;
  wish.xrcd = xrcd.get();
  EXPECT_EQ(CreateQp(wish), nullptr) << "XRC_RECV takes no send operations (WR-XRC-005)";
  wish.extended = false;
  QpPtr qp = CreateQp(wish);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp.get()), nullptr);

  ibv_qp_open_attr open = {};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = qp->qp_num;
  open.xrcd = xrcd.get();
  open.qp_type = IBV_QPT_XRC_RECV;
  QpPtr again(ibv_open_qp(context_.get(), &open));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->qp_num, qp->qp_num);
  open.qp_num = 0xfffff0;
  EXPECT_EQ(ibv_open_qp(context_.get(), &open), nullptr);
  open.comp_mask &= ~IBV_QP_OPEN_ATTR_TYPE;
  EXPECT_EQ(ibv_open_qp(context_.get(), &open), nullptr);
  // The second handle keeps the QP when the first goes.
  const uint32_t number = qp->qp_num;
  qp.reset();
  EXPECT_EQ(ToInit(again.get()), 0);
  EXPECT_EQ(again->qp_num, number);
}

TEST_F(QueuePairTest, MulticastMembersCannotBeDestroyed) {  // WR-CREATE-017
  QpWish wish;
  wish.type = IBV_QPT_UD;
  wish.ops = kUdOps;
  QpPtr qp = CreateQp(wish);
  ASSERT_NE(qp, nullptr);
  BringUp(qp.get());
  ibv_gid group = {};
  group.raw[0] = 0xff;
  group.raw[15] = 1;
  ASSERT_EQ(ibv_attach_mcast(qp.get(), &group, 0), 0);
  EXPECT_NE(ibv_destroy_qp(qp.get()), 0);
  EXPECT_EQ(ibv_detach_mcast(qp.get(), &group, 0), 0);
  EXPECT_NE(ibv_detach_mcast(qp.get(), &group, 0), 0);
}

TEST_F(QueuePairTest, SrqIgnoresReceiveCapacities) {  // WR-CREATE-015
  ibv_srq_init_attr srq_attr = {};
  srq_attr.attr.max_wr = 16;
  srq_attr.attr.max_sge = 1;
  SrqPtr srq(ibv_create_srq(pd_.get(), &srq_attr));
  ASSERT_NE(srq, nullptr);
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(context_.get(), &device), 0);
  for (uint32_t rq : {0u, static_cast<uint32_t>(device.max_qp_wr) + 1}) {
    QpWish wish;
    wish.srq = srq.get();
    wish.rq = rq;
    QpPtr qp = CreateQp(wish);
    ASSERT_NE(qp, nullptr) << rq;
    EXPECT_EQ(qp->srq, srq.get());
  }
}

}  // namespace
}  // namespace qpexam::provider
