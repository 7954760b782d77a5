// What the executor needs of a provider besides libibverbs: contexts to run on, and time.
//
// One session is one provider, opened. The executor does everything else through plain libibverbs,
// so that what it runs on is what any verbs application runs on.
#ifndef QPEXAM_HARNESS_EXECUTE_SESSION_H_
#define QPEXAM_HARNESS_EXECUTE_SESSION_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "reference/model/engine.h"

namespace qpexam {

struct Program;

// How a wait or a settle ended.
enum class Rest : uint8_t {
  kIdle,      // nothing can happen any more unless a further call is made (virtual time)
  kTimedOut,  // a real time has passed, as long as calibrated; nothing is known, "none within T"
};

// Something wrong that was seen below libibverbs, besides what the judge finds in the Trace: a WQE
// that is not the request, a lock left held.
struct SessionFinding {
  std::string kind;      // of a report's finding: "wqe", "cqe", "lock", "residue"
  std::string clause;    // may be empty
  std::string what;      // one line; the same in every run of the same Program
  std::string evidence;  // raw bytes in hex, for people; may differ from run to run
};

class DeviceSession {
 public:
  virtual ~DeviceSession() = default;

  virtual const std::string& provider() const = 0;  // "reference", "device:rxe0"
  virtual const std::string& version() const = 0;

  // A context for the index-th device of a Program; nullptr with errno where there is none. The
  // executor closes it with ibv_close_device().
  virtual ibv_context* Open(unsigned index) = 0;

  // ibv_create_qp_ex(), except where a type needs a provider's own call (SRD).
  virtual ibv_qp* CreateQp(ibv_context* context, ibv_qp_init_attr_ex* attr, model::QpType type) {
    (void)type;
    return ibv_create_qp_ex(context, attr);
  }

  // Lowers the capacities that a Program left at the language's defaults (sge, inline) to what this
  // provider has. Who runs a Program judges it as it then is.
  virtual void FitDefaults(Program* program) const { (void)program; }

  // Waiting. BeginWait() starts the bound of one wait; Step() lets work go on for a moment and
  // returns false once the wait is over, for the reason that `rest` then says.
  virtual void BeginWait() = 0;
  virtual bool Step(Rest* rest) = 0;
  // Lets work go on until everything is at rest, or as long as calibrated.
  virtual Rest Settle() = 0;

  // Told what ibv_modify_qp() has given a QP, and that a QP was given requests: how long a request
  // may be tried before it fails is how long nothing can be said of it in real time.
  virtual void Modified(const ibv_qp_attr& attr, int mask) { (void)attr, (void)mask; }
  virtual void Posted() {}

  // Moves a virtual clock on; false where there is none.
  virtual bool Advance(uint64_t nanoseconds) {
    (void)nanoseconds;
    return false;
  }
  // Asks for a loss, duplicate or RNR of `count` messages of a QP after `skip` others; false where
  // the provider cannot be asked.
  virtual bool Fault(ibv_qp* qp, model::FaultPoint point, unsigned count, unsigned skip) {
    (void)qp, (void)point, (void)count, (void)skip;
    return false;
  }
  // Appends the clauses of the UNDEFINED uses seen since the last call (static strings): the
  // reference alone has any.
  virtual void TakeLints(std::vector<const char*>* lints) { (void)lints; }
  // True where the provider detects UNDEFINED uses itself, so that no Program need be cut.
  virtual bool detects_undefined() const { return false; }

  // Appends what was found since the last call, in order: after each Program.
  virtual void TakeFindings(std::vector<SessionFinding>* findings) { (void)findings; }

  // Told before each Program: its seed picks the freedoms of an emulated device.
  virtual void BeginProgram(uint64_t seed) { (void)seed; }
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_EXECUTE_SESSION_H_
