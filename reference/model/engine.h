// The engine: objects, queues and execution of the model, in one process-wide fabric.
//
// One Fabric holds all devices (contexts) of a process: QPs find their peers by QP number across
// them. It is driven from three sides: the reference provider (reference/provider), hosted
// providers (harness/hosted: decoded WQEs in, completions out through a CqSink), and tests.
//
//   request.h           work requests and completions as values
//   objects.h           pd, mr, mw, ah, xrcd
//   completion_queue.h  cq
//   receive_queue.h     receive queues, srq
//   send_queue.h        the SQ: regions, builders, setters, ring
//   queue_pair.h        qp
//   fabric.h            devices, look-ups, choices, lints, clock
//   faults.h            the library of faults
//
// Threads: every public function may be called from any thread. A QP's SendQueue is guarded by the
// QP's own region lock (start .. complete/abort, WR-CONC-001; none where the QP sits on a parent
// domain with a td); everything else by the fabric's one recursive lock, taken inside. Sinks and
// pumps are called with it held.
//
// Time is virtual: the same calls give the same run.
#ifndef QPEXAM_REFERENCE_MODEL_ENGINE_H_
#define QPEXAM_REFERENCE_MODEL_ENGINE_H_

#include "reference/model/completion_queue.h"
#include "reference/model/fabric.h"
#include "reference/model/faults.h"
#include "reference/model/objects.h"
#include "reference/model/queue_pair.h"
#include "reference/model/receive_queue.h"
#include "reference/model/request.h"
#include "reference/model/send_queue.h"

#endif  // QPEXAM_REFERENCE_MODEL_ENGINE_H_
