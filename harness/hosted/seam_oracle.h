// The oracle at the two seams of a hosted provider, and of its locks.
//
//   posting   every WQE that the provider hands over is the request that the caller posted; a
//             region that failed or was aborted hands over none, and leaves in the queue what was
//             posted before it; one that succeeded, all of it
//   polling   every completion that the library returns is a CQE that the device wrote
//   locks     no lock is held when no region and no poll is open; none is released that is free
//
// It stands in front of the library's function pointers (the contexts' and the objects' own), so
// that it sees the calls of any program: the executor's, a suite's, an application's. It judges
// without search: the provider's library is between the two ends that it compares.
#ifndef QPEXAM_HARNESS_HOSTED_SEAM_ORACLE_H_
#define QPEXAM_HARNESS_HOSTED_SEAM_ORACLE_H_

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/hosted/kernel.h"

namespace qpexam::hosted {

struct SeamFinding {
  std::string kind;    // "wqe", "cqe", "lock", "residue", "kernel"
  std::string clause;  // may be empty
  std::string what;    // one line; no addresses, no keys
  std::string raw;     // the bytes of the WQE in hex, where there is one
};

class SeamOracle : public SeamObserver {
 public:
  // Observes the kernel until it ends. One oracle at a time.
  explicit SeamOracle(Kernel* kernel);
  ~SeamOracle() override;

  // Stands in front of a context that was opened on a device of the kernel. Needed once for each
  // context, before its first CQ and QP.
  void Attach(ibv_context* context);
  // And in front of a QP that a vendor's own call made, behind libibverbs' back.
  void Watch(ibv_qp_ex* qp);

  // What was found since the last call, in order; the same finding once.
  std::vector<SeamFinding> Take();
  // Requests and completions compared so far, so that a test can tell that something was.
  uint64_t compared_requests() const;
  uint64_t compared_completions() const;

  void OnSend(const QpFacts& qp, Visibility visibility, const DecodedSend& decoded) override;
  void OnRetired(const QpFacts& qp, uint32_t entry) override;
  void OnReceive(const Queue& queue, const DecodedReceive& decoded) override;
  void OnCompletion(const CqFacts& cq, const NativeCompletion& completion) override;
  void OnCompletionWritten(const CqFacts& cq, CqeFate fate) override;
  void OnQpReset(const QpFacts& qp) override;
  void OnQpEnds(const QpFacts& qp) override;
  void OnSrqEnds(const SrqFacts& srq) override;
  void OnCqEnds(const CqFacts& cq) override;
  void OnMisuse(std::string_view kind, const std::string& what) override;

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_SEAM_ORACLE_H_
