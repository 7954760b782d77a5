// The requester's side: takes posted requests in order, tries them, retries, completes them.
#ifndef QPEXAM_REFERENCE_MODEL_REQUESTER_H_
#define QPEXAM_REFERENCE_MODEL_REQUESTER_H_

#include <deque>
#include <unordered_map>

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

  // Requests that took effect before an earlier READ or ATOMIC of their queue did (codes F and #
  // of ORDERING.md, 2.1): they complete in their turn.
  struct Passed {
    uint64_t life = 0;
    std::deque<uint64_t> byte_len;
  };

  Step Execute(Qp& qp, SendRequest& request);
  Step ExecuteIn(Exchange* x, Qp& qp, SendRequest& request);
  static void BeginRetries(Qp& qp);
  void Prepare(Exchange* x, Qp& qp, SendRequest& request);
  bool MayPass(const SendRequest& first, const SendRequest& later);
  void PassLater(Qp& qp);
  bool FinishPassed(Qp& qp);
  Step ExecuteConnected(Exchange* x);
  Step ExecuteDatagram(Exchange* x);
  Step ExecuteFrames(Exchange* x);
  Step ExecuteLocal(Exchange* x);

  void ExamineLocal(Exchange* x);
  void FindPeer(Exchange* x);
  void ExamineWindow(Exchange* x);
  void BindWindow(Exchange* x);
  void BindLate(Qp& qp);
  bool SendFollows(const Exchange* x) const;
  void InvalidateWindow(Exchange* x);
  const Outcome& Choose(const OutcomeSet& set);
  // Another try is due later; or false: the retries are used up.
  bool RetryReceive(Exchange* x);
  bool RetryPath(Exchange* x);
  void WaitUntil(Qp& qp, uint64_t period);
  void Deliver(Exchange* x, Qp* to);
  void Finish(Exchange* x, const Outcome& outcome, uint64_t byte_len);
  void CheckDrained(Qp& qp);

  Fabric* const fabric_;
  Responder responder_;
  Exchange exchange_;  // kept for its storage; one request is in execution at a time
  bool exchange_used_ = false;
  std::unordered_map<const Qp*, Passed> passing_;  // while the passed request is not done
  std::unordered_map<const Qp*, Passed> passed_;
  // A bind that the fault bind-takes-effect-late holds back.
  Qp* late_qp_ = nullptr;
  uint64_t late_life_ = 0;
  SendRequest late_bind_;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_REQUESTER_H_
