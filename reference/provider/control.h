// The reference from outside of verbs: for the harness' device layer, fixtures and tests.
//
// A program that only speaks verbs needs none of this: linking //reference/provider registers
// "qpexam0". The environment variable QPEXAM_DEVICES=N (1 to 4) registers as many.
#ifndef QPEXAM_REFERENCE_PROVIDER_CONTROL_H_
#define QPEXAM_REFERENCE_PROVIDER_CONTROL_H_

#include <infiniband/verbs.h>

#include <string>
#include <string_view>
#include <vector>

#include "reference/model/engine.h"

namespace qpexam::provider {

inline constexpr int kMaxDevices = 4;

// "qpexam0" and so on.
std::string DeviceName(int number);

// Makes exactly the devices 0 .. count-1 visible to lists made from now on. Returns 0 or an errno
// value. Contexts that are open stay open; their device is then not listed any more.
int SetDeviceCount(int count);
int DeviceCount();

// Whether this context was opened on a device of ours; everything below wants such a context.
bool IsReference(ibv_context* context);

// Where every context of the process meets: virtual clock, choices, lints.
model::Fabric& Fabric();

// The model's objects behind verbs objects.
model::Device& ModelOf(ibv_context* context);
model::Qp& ModelOf(ibv_qp* qp);
model::Cq& ModelOf(ibv_cq* cq);
model::Srq& ModelOf(ibv_srq* srq);

// --- The clock -----------------------------------------------------------------------------------
// Automatic (the default): an empty poll moves the virtual clock, and while a completion channel
// exists a background thread moves it with real time, so that a program which blocks in
// ibv_get_cq_event() reaches its timeouts. Manual: only the calls below move it.
void SetManualClock();
void SetAutomaticClock();
void Advance(model::Nanoseconds by);
void RunUntilIdle();  // to where nothing moves any more without a further call

// --- Faults, lints -------------------------------------------------------------------------------
// faulty:NAME; an empty name switches the fault off. False for an unknown name.
bool SetFault(std::string_view name);
// Everything the caller did that the specification leaves undefined, since the last call.
std::vector<model::FoundLint> TakeLints();
// The next messages of this QP meet these, in order.
void AddFaultPoint(ibv_qp* qp, model::FaultPoint point);

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_CONTROL_H_
