#include "reference/provider/control.h"

#include "reference/model/faults.h"
#include "reference/provider/objects.h"
#include "reference/provider/ticker.h"

namespace qpexam::provider {

model::Fabric& Fabric() { return model::Fabric::Process(); }

model::Device& ModelOf(ibv_context* context) { return *Of(context)->device; }
model::Qp& ModelOf(ibv_qp* qp) { return *Of(qp)->qp; }
model::Cq& ModelOf(ibv_cq* cq) { return *Of(cq)->cq; }
model::Srq& ModelOf(ibv_srq* srq) { return *Of(srq)->srq; }

void SetManualClock() {
  StopTicking();
  Fabric().SetClockMode(model::ClockMode::kManual);
}
void SetAutomaticClock() {
  Fabric().SetClockMode(model::ClockMode::kAutomatic);
  GoOnTicking();
}
void Advance(model::Nanoseconds by) { Fabric().AdvanceBy(by.value); }
void RunUntilIdle() { Fabric().RunUntilIdle(); }

bool SetFault(std::string_view name) {
  if (name.empty()) {
    model::FaultSwitch::Set(model::Fault::kNone);
    return true;
  }
  const std::optional<model::Fault> fault = model::FaultByName(name);
  if (fault.has_value()) model::FaultSwitch::Set(*fault);
  return fault.has_value();
}

std::vector<model::FoundLint> TakeLints() { return Fabric().TakeLints(); }

void AddFaultPoint(ibv_qp* qp, model::FaultPoint point) { Of(qp)->qp->AddFaultPoint(point); }

}  // namespace qpexam::provider
