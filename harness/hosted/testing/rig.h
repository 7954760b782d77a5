// What tests of hosted providers share: a context with a PD, a registered buffer, a CQ, and pairs
// of QPs in RTS. All of it through plain libibverbs.
#ifndef QPEXAM_HARNESS_HOSTED_TESTING_RIG_H_
#define QPEXAM_HARNESS_HOSTED_TESTING_RIG_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/hosted/hosted_provider.h"

namespace qpexam::hosted {

MakeModel ModelByName(std::string_view name);

class Rig {
 public:
  explicit Rig(std::string_view provider, const KernelOptions& options = {});
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  struct Shape {
    ibv_qp_type type = IBV_QPT_RC;
    uint64_t ops = 0;  // 0: everything that the type offers on any provider
    uint32_t depth = 16, sges = 4, inline_bytes = 64;
    bool signal_all = false;
    ibv_srq* srq = nullptr;
  };
  // nullptr with errno.
  ibv_qp* MakeQp(const Shape& shape);
  // Both to RTS, connected to each other; UD: ready alone.
  void Connect(ibv_qp* a, ibv_qp* b);
  int ToState(ibv_qp* qp, ibv_qp_state state, uint32_t peer = 0);
  void Destroy(ibv_qp* qp);

  uint64_t Address(size_t offset) const {
    return reinterpret_cast<uint64_t>(memory.data()) + offset;
  }
  ibv_sge Sge(size_t offset, uint32_t length) const { return {Address(offset), length, mr->lkey}; }
  int Receive(ibv_qp* qp, uint64_t wr_id, size_t offset, uint32_t length);
  // Everything that the CQ has.
  std::vector<ibv_wc> Poll();
  std::vector<ibv_wc> Poll(ibv_cq* of);

  HostedProvider provider;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<uint8_t> memory;

 private:
  std::vector<ibv_qp*> qps_;
};

// The findings as text, a line each: "wqe WR-SGE-001: what".
std::string Text(const std::vector<SeamFinding>& findings);

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_TESTING_RIG_H_
