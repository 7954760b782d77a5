// The requester's side: takes posted requests in order, tries them, retries, completes them.
#ifndef QPEXAM_REFERENCE_MODEL_REQUESTER_H_
#define QPEXAM_REFERENCE_MODEL_REQUESTER_H_

#include "reference/model/exchange.h"
#include "reference/model/responder.h"

namespace qpexam::model {

class Fabric;

class Requester {
 public:
  explicit Requester(Fabric* fabric) : fabric_(fabric), responder_(fabric) {}

  // Starts and completes what the QP's state and the clock allow (WR-ORD-001).
  void Advance(Qp& qp);

 private:
  enum class Step : uint8_t { kDone, kWaits };

  Step Execute(Qp& qp, SendRequest& request);
  Step ExecuteConnected(Exchange* x);
  Step ExecuteDatagram(Exchange* x);
  Step ExecuteFrames(Exchange* x);
  Step ExecuteLocal(Exchange* x);

  void ExamineLocal(Exchange* x);
  void FindPeer(Exchange* x);
  void ExamineWindow(Exchange* x);
  void BindWindow(Exchange* x);
  void InvalidateWindow(Exchange* x);
  const Outcome& Choose(const OutcomeSet& set);
  // Another try is due later; or false: the retries are used up.
  bool RetryReceive(Exchange* x);
  bool RetryPath(Exchange* x);
  void WaitUntil(Qp& qp, uint64_t period);
  void Deliver(Exchange* x, Qp* to, const OutcomeSet& set);
  void Finish(Exchange* x, const Outcome& outcome, uint64_t byte_len);
  void CheckDrained(Qp& qp);

  Fabric* const fabric_;
  Responder responder_;
  Exchange exchange_;  // kept for its storage; one request is in execution at a time
  bool exchange_used_ = false;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_REQUESTER_H_
