// ABI: ibv_qp_to_qp_ex, struct layout, extension rules.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/record.h"

namespace qpexam::conformance {
namespace {

class Abi : public Conformance {};

// The position of a function pointer, counted from the first one. No absolute offsets:
// sizeof(pthread_mutex_t) inside ibv_qp differs by C library and machine.
#define QPX_POSITION(member)                                                                \
  static_cast<int>((offsetof(ibv_qp_ex, member) - offsetof(ibv_qp_ex, wr_atomic_cmp_swp)) / \
                   sizeof(void*))

struct Position {
  const char* name;
  int found, expected;
};

QPX_TEST(Abi, MembersKeepTheirOrder, "WR-ABI-003") {
  const Position positions[] = {
      {"wr_atomic_cmp_swp", QPX_POSITION(wr_atomic_cmp_swp), 0},
      {"wr_atomic_fetch_add", QPX_POSITION(wr_atomic_fetch_add), 1},
      {"wr_bind_mw", QPX_POSITION(wr_bind_mw), 2},
      {"wr_local_inv", QPX_POSITION(wr_local_inv), 3},
      {"wr_rdma_read", QPX_POSITION(wr_rdma_read), 4},
      {"wr_rdma_write", QPX_POSITION(wr_rdma_write), 5},
      {"wr_rdma_write_imm", QPX_POSITION(wr_rdma_write_imm), 6},
      {"wr_send", QPX_POSITION(wr_send), 7},
      {"wr_send_imm", QPX_POSITION(wr_send_imm), 8},
      {"wr_send_inv", QPX_POSITION(wr_send_inv), 9},
      {"wr_send_tso", QPX_POSITION(wr_send_tso), 10},
      {"wr_set_ud_addr", QPX_POSITION(wr_set_ud_addr), 11},
      {"wr_set_xrc_srqn", QPX_POSITION(wr_set_xrc_srqn), 12},
      {"wr_set_inline_data", QPX_POSITION(wr_set_inline_data), 13},
      {"wr_set_inline_data_list", QPX_POSITION(wr_set_inline_data_list), 14},
      {"wr_set_sge", QPX_POSITION(wr_set_sge), 15},
      {"wr_set_sge_list", QPX_POSITION(wr_set_sge_list), 16},
      {"wr_start", QPX_POSITION(wr_start), 17},
      {"wr_complete", QPX_POSITION(wr_complete), 18},
      {"wr_abort", QPX_POSITION(wr_abort), 19},
#ifndef QPEXAM_HEADER_44
      {"wr_atomic_write", QPX_POSITION(wr_atomic_write), 20},
      {"wr_flush", QPX_POSITION(wr_flush), 21},
#endif
  };
  for (const Position& position : positions) {
    EXPECT_CLAUSE("WR-ABI-003", position.found == position.expected)
        << position.name << " is pointer " << position.found << ", not " << position.expected;
  }
  EXPECT_CLAUSE("WR-ABI-003", offsetof(ibv_qp_ex, qp_base) == 0);
  EXPECT_CLAUSE("WR-ABI-003", offsetof(ibv_qp_ex, comp_mask) < offsetof(ibv_qp_ex, wr_id));
  EXPECT_CLAUSE("WR-ABI-003", offsetof(ibv_qp_ex, wr_id) < offsetof(ibv_qp_ex, wr_flags));
  EXPECT_CLAUSE("WR-ABI-003",
                offsetof(ibv_qp_ex, wr_flags) < offsetof(ibv_qp_ex, wr_atomic_cmp_swp));
}

struct Value {
  const char* name;
  long long found, expected;
};

QPX_TEST(Abi, EnumeratorsKeepTheirValues, "WR-ABI-004") {
  const Value values[] = {
      {"IBV_QP_EX_WITH_RDMA_WRITE", IBV_QP_EX_WITH_RDMA_WRITE, 1 << 0},
      {"IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM", IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, 1 << 1},
      {"IBV_QP_EX_WITH_SEND", IBV_QP_EX_WITH_SEND, 1 << 2},
      {"IBV_QP_EX_WITH_SEND_WITH_IMM", IBV_QP_EX_WITH_SEND_WITH_IMM, 1 << 3},
      {"IBV_QP_EX_WITH_RDMA_READ", IBV_QP_EX_WITH_RDMA_READ, 1 << 4},
      {"IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP", IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, 1 << 5},
      {"IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD", IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, 1 << 6},
      {"IBV_QP_EX_WITH_LOCAL_INV", IBV_QP_EX_WITH_LOCAL_INV, 1 << 7},
      {"IBV_QP_EX_WITH_BIND_MW", IBV_QP_EX_WITH_BIND_MW, 1 << 8},
      {"IBV_QP_EX_WITH_SEND_WITH_INV", IBV_QP_EX_WITH_SEND_WITH_INV, 1 << 9},
      {"IBV_QP_EX_WITH_TSO", IBV_QP_EX_WITH_TSO, 1 << 10},
      {"IBV_WC_SEND", IBV_WC_SEND, 0},
      {"IBV_WC_RDMA_WRITE", IBV_WC_RDMA_WRITE, 1},
      {"IBV_WC_RDMA_READ", IBV_WC_RDMA_READ, 2},
      {"IBV_WC_COMP_SWAP", IBV_WC_COMP_SWAP, 3},
      {"IBV_WC_FETCH_ADD", IBV_WC_FETCH_ADD, 4},
      {"IBV_WC_BIND_MW", IBV_WC_BIND_MW, 5},
      {"IBV_WC_LOCAL_INV", IBV_WC_LOCAL_INV, 6},
      {"IBV_WC_TSO", IBV_WC_TSO, 7},
      {"IBV_WC_RECV", IBV_WC_RECV, 128},
      {"IBV_WC_RECV_RDMA_WITH_IMM", IBV_WC_RECV_RDMA_WITH_IMM, 129},
      {"IBV_WR_DRIVER1", IBV_WR_DRIVER1, 11},
#ifndef QPEXAM_HEADER_44
      {"IBV_QP_EX_WITH_FLUSH", IBV_QP_EX_WITH_FLUSH, 1 << 11},
      {"IBV_QP_EX_WITH_ATOMIC_WRITE", IBV_QP_EX_WITH_ATOMIC_WRITE, 1 << 12},
      {"IBV_WR_FLUSH", IBV_WR_FLUSH, 14},
      {"IBV_WR_ATOMIC_WRITE", IBV_WR_ATOMIC_WRITE, 15},
      {"IBV_WC_FLUSH", IBV_WC_FLUSH, 8},
      {"IBV_WC_ATOMIC_WRITE", IBV_WC_ATOMIC_WRITE, 9},
      {"IBV_FLUSH_RANGE", IBV_FLUSH_RANGE, 0},
      {"IBV_FLUSH_MR", IBV_FLUSH_MR, 1},
      {"IBV_FLUSH_GLOBAL", IBV_FLUSH_GLOBAL, 1},
      {"IBV_FLUSH_PERSISTENT", IBV_FLUSH_PERSISTENT, 2},
#endif
  };
  for (const Value& value : values) {
    EXPECT_CLAUSE("WR-ABI-004", value.found == value.expected)
        << value.name << " is " << value.found << ", not " << value.expected;
  }
}

std::vector<Transport> Transports() {
  return {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrc};
}

QPX_TEST_P(Abi, BaseIsTheQp, Transports(), "WR-ABI-001", "WR-ABI-005") {
  PairOptions options;
  options.transport = param;
  Pair& pair = bed().Connect(options);
  ibv_qp* qp = pair.a.qp;
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ASSERT_CLAUSE("WR-ABI-001", ex != nullptr);
  ibv_qp* base = &ex->qp_base;
  EXPECT_CLAUSE("WR-ABI-005", base->qp_num == qp->qp_num && base->handle == qp->handle &&
                                  base->qp_type == qp->qp_type && base->context == qp->context &&
                                  base->send_cq == qp->send_cq)
      << "qp_base has other fields than the QP";
  EXPECT_CLAUSE("WR-ABI-005", base->state == IBV_QPS_RTS && qp->state == IBV_QPS_RTS);
  if (ModifyState(qp, IBV_QPS_ERR) == 0) {
    EXPECT_CLAUSE("WR-ABI-005", base->state == IBV_QPS_ERR && qp->state == IBV_QPS_ERR)
        << "after a modify qp_base has state " << Name(base->state) << ", the QP "
        << Name(qp->state);
  }
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_CLAUSE("WR-ABI-005",
                ibv_query_qp(base, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR)
      << "ibv_query_qp through qp_base gives " << Name(attr.qp_state);
  EXPECT_CLAUSE("WR-ABI-005", ibv_qp_to_qp_ex(base) == ex);
}

// What the caller gave is what qp_base shows, as ibv_create_qp() would have it.
QPX_TEST_P(Abi, BaseShowsWhatItWasMadeWith, Transports(), "WR-ABI-005") {
  PairOptions options;
  options.transport = param;
  ibv_cq* send_cq = bed().Cq(64);
  ibv_cq* recv_cq = bed().Cq(64);
  int context = 0;
  ibv_qp_init_attr_ex attr = RequesterAttr(bed(), options, send_cq, recv_cq);
  attr.qp_context = &context;
  ibv_qp* qp = bed().TryQp(&attr);
  if (qp == nullptr) throw NotApplicable{"no such QP"};
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  if (ex == nullptr) throw SetUpFailed{"no extended QP"};
  const ibv_qp& base = ex->qp_base;
  EXPECT_CLAUSE("WR-ABI-005", base.qp_context == &context) << "another qp_context";
  EXPECT_CLAUSE("WR-ABI-005", base.context == bed().context() && base.pd == bed().pd())
      << "another context or PD";
  EXPECT_CLAUSE("WR-ABI-005", base.send_cq == send_cq) << "another send CQ";
  EXPECT_CLAUSE("WR-ABI-005", base.qp_type == attr.qp_type && base.state == IBV_QPS_RESET)
      << "another type, or not in RESET";
  if (param != Transport::kXrc) {
    EXPECT_CLAUSE("WR-ABI-005", base.recv_cq == recv_cq) << "another receive CQ";
  }
}

QPX_TEST(Abi, NoExtendedQpWithoutTheFlag, "WR-ABI-006") {
  ibv_cq* cq = bed().Cq(64);
  ibv_qp_init_attr basic{};
  basic.qp_type = IBV_QPT_RC;
  basic.send_cq = basic.recv_cq = cq;
  basic.cap.max_send_wr = basic.cap.max_recv_wr = 4;
  basic.cap.max_send_sge = basic.cap.max_recv_sge = 1;
  ibv_qp* plain = ibv_create_qp(bed().pd(), &basic);
  if (plain == nullptr) throw NotApplicable{"no plain RC QP"};
  bed().Own(plain, [plain] { return ibv_destroy_qp(plain); });
  // Only a provider whose object embeds verbs_qp may be asked (WR-ABI-002): one that makes extended
  // QPs of the same type does.
  PairOptions options;
  bed().Connect(options);
  EXPECT_CLAUSE("WR-ABI-006", ibv_qp_to_qp_ex(plain) == nullptr) << "after ibv_create_qp";

  ibv_qp_init_attr_ex attr = RequesterAttr(bed(), options, cq, cq);
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  attr.send_ops_flags = 0;
  if (ibv_qp* qp = bed().TryQp(&attr); qp != nullptr) {
    EXPECT_CLAUSE("WR-ABI-006", ibv_qp_to_qp_ex(qp) == nullptr)
        << "after ibv_create_qp_ex without SEND_OPS_FLAGS";
  }
}

// What libibverbs answers for an object that is no verbs_qp is decided by whatever lies behind its
// ibv_qp, so nobody may ask. Here the bytes behind are ours: the cast is blind if they decide.
QPX_TEST(Abi, TheCastIsBlind, "WR-ABI-002") {
  // Larger than any verbs_qp: nothing outside is read.
  struct Object {
    ibv_qp qp;
    unsigned char behind[4096];
  };
  auto object = std::make_unique<Object>();
  object->qp.qp_type = IBV_QPT_RC;
  std::fill(std::begin(object->behind), std::end(object->behind), static_cast<unsigned char>(0));
  const ibv_qp_ex* with_zeros = ibv_qp_to_qp_ex(&object->qp);
  std::fill(std::begin(object->behind), std::end(object->behind), static_cast<unsigned char>(0xff));
  const ibv_qp_ex* with_ones = ibv_qp_to_qp_ex(&object->qp);
  Record::Current().Variation("WR-ABI-002", (with_zeros == nullptr) == (with_ones == nullptr)
                                                ? "answered without a look behind the object"
                                                : "the bytes behind the object decide");
  // So every QP of the reference has to be one that may be asked, however it was made.
  for (const Transport transport : AllTransports()) {
    PairOptions options;
    options.transport = transport;
    if (transport == Transport::kRaw) options.ops = Bits({Op::kSend});
    ibv_cq* cq = bed().Cq(64);
    ibv_qp_init_attr_ex attr = RequesterAttr(bed(), options, cq, cq);
    attr.comp_mask &= ~uint32_t{IBV_QP_INIT_ATTR_SEND_OPS_FLAGS};
    attr.send_ops_flags = ~uint64_t{0};  // not valid, so not looked at
    ibv_qp* plain = bed().TryQp(&attr);
    if (plain == nullptr) throw SetUpFailed{std::string("no plain QP: ") + Name(transport)};
    EXPECT_CLAUSE("WR-ABI-002", ibv_qp_to_qp_ex(plain) == nullptr)
        << Name(transport) << ": a QP without operations is said to be extended";
  }
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attr.xrcd = bed().xrcd();
  ibv_qp* target = bed().TryQp(&attr);
  if (target == nullptr) throw SetUpFailed{"no XRC_RECV QP"};
  EXPECT_CLAUSE("WR-ABI-002", ibv_qp_to_qp_ex(target) == nullptr)
      << "an XRC_RECV QP is said to be extended";
}

}  // namespace
}  // namespace qpexam::conformance
