// The responder's side of a request: what it finds (facts), and what it does.
#ifndef QPEXAM_REFERENCE_MODEL_RESPONDER_H_
#define QPEXAM_REFERENCE_MODEL_RESPONDER_H_

#include "reference/model/exchange.h"

namespace qpexam::model {

class Fabric;

class Responder {
 public:
  explicit Responder(Fabric* fabric) : fabric_(fabric) {}

  // Fills in the facts that the responder decides: receive, remote memory, window.
  void Examine(Exchange* x);
  // Carries out the chosen outcome on the responder's side: memory, receive completion, state,
  // events.
  void Apply(Exchange* x, const Outcome& outcome);
  // A frame arrives at a RAW_PACKET QP, or is dropped.
  void Capture(Qp& qp, const Frame& frame);

 private:
  void ExamineReceive(Exchange* x);
  void ExamineRemote(Exchange* x);
  void ExamineInvalidate(Exchange* x);
  void Perform(Exchange* x);
  void CompleteReceive(Exchange* x, const Outcome& outcome);
  void AfterConsuming(Srq* srq);

  Fabric* const fabric_;
  // What the fault atomic-stale-across-qps remembers.
  const uint8_t* stale_address_ = nullptr;
  const Qp* stale_qp_ = nullptr;
  uint64_t stale_value_ = 0;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_RESPONDER_H_
