// The address that librxe puts into each WQE on a kernel without a table of address handles: it
// arrives whole, and one that was bent is found.
#include <gtest/gtest.h>

#include <cstring>

#include "harness/hosted/rxe/rxe_layout.h"
#include "harness/hosted/testing/rig.h"

namespace qpexam::hosted {
namespace {

// How the socket addresses of a GID look differs.
enum class Gid { kIpv6, kIpv4 };

class RxeAddressTest : public ::testing::TestWithParam<Gid> {
 protected:
  RxeAddressTest() : rig_("rxe", OlderKernel()) {
    Rig::Shape shape;
    shape.type = IBV_QPT_UD;
    from_ = rig_.MakeQp(shape);
    to_ = rig_.MakeQp(shape);
    rig_.Connect(from_, to_);
    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.flow_label = 0x12345;
    attr.grh.hop_limit = 64;
    attr.grh.traffic_class = 3;
    if (GetParam() == Gid::kIpv6) {
      ibv_query_gid(rig_.context, 1, 0, &attr.grh.dgid);
    } else {
      const uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7};
      std::memcpy(attr.grh.dgid.raw, gid, sizeof gid);
    }
    ah_ = ibv_create_ah(rig_.pd, &attr);
  }
  ~RxeAddressTest() override { ibv_destroy_ah(ah_); }

  static KernelOptions OlderKernel() {
    KernelOptions options;
    options.freedom.kernel_age = KernelAge::kOlder;
    return options;
  }
  // A byte of the address that the library keeps, behind its struct ibv_ah; `at` is its offset in a
  // WQE.
  uint8_t& Kept(uint32_t at) {
    return reinterpret_cast<uint8_t*>(ah_)[sizeof(ibv_ah) + at - kRxeUdAvPort];
  }
  // What the seams say of one datagram.
  std::string Send() {
    EXPECT_EQ(rig_.Receive(to_, 1, 8192, 140), 0);
    ibv_qp_ex* x = ibv_qp_to_qp_ex(from_);
    ibv_wr_start(x);
    x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(x);
    ibv_wr_set_ud_addr(x, ah_, to_->qp_num, 0x1234);
    ibv_wr_set_sge(x, rig_.mr->lkey, rig_.Address(0), 100);
    EXPECT_EQ(ibv_wr_complete(x), 0);
    completions_ = rig_.Poll().size();
    const std::vector<SeamFinding> findings = rig_.provider.oracle().Take();
    for (const SeamFinding& f : findings) EXPECT_NE(f.raw, "") << f.what;
    return Text(findings);
  }

  Rig rig_;
  ibv_qp *from_ = nullptr, *to_ = nullptr;
  ibv_ah* ah_ = nullptr;
  size_t completions_ = 0;
};

TEST_P(RxeAddressTest, ArrivesWhole) {
  ASSERT_NE(ah_, nullptr);
  EXPECT_EQ(Send(), "");
  // The emulated network delivers by number, whoever has the address.
  EXPECT_EQ(completions_, 2u);
}

TEST_P(RxeAddressTest, BentIsFound) {
  ASSERT_NE(ah_, nullptr);
  struct Bend {
    uint32_t at;
    const char* says;
  };
  const uint32_t target = kRxeUdAvTarget + (GetParam() == Gid::kIpv6 ? 8 : 4);
  for (const Bend& bend :
       {Bend{kRxeUdAvPort, "the address is that of no address handle"},
        Bend{kRxeUdAvNetwork, "av.network_type"}, Bend{kRxeUdAvMac + 5, "av.dmac"},
        Bend{kRxeUdAvGid + 15, "the address is that of no address handle"},
        Bend{kRxeUdAvFlowLabel, "the address is that of no address handle"},
        Bend{kRxeUdAvGidIndex, "the address is that of no address handle"},
        Bend{kRxeUdAvHopLimit, "the address is that of no address handle"},
        Bend{kRxeUdAvTrafficClass, "the address is that of no address handle"},
        Bend{target, "av.dgid_addr"}}) {
    Kept(bend.at) ^= 1;
    EXPECT_NE(Send().find(bend.says), std::string::npos) << bend.at;
    Kept(bend.at) ^= 1;
    // A QP whose request failed is in error.
    rig_.ToState(from_, IBV_QPS_RESET);
    rig_.ToState(to_, IBV_QPS_RESET);
    rig_.Connect(from_, to_);
  }
}

INSTANTIATE_TEST_SUITE_P(Gids, RxeAddressTest, ::testing::Values(Gid::kIpv6, Gid::kIpv4),
                         [](const auto& info) {
                           return info.param == Gid::kIpv6 ? "Ipv6" : "Ipv4";
                         });

}  // namespace
}  // namespace qpexam::hosted
