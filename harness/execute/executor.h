// The executor: runs a Program on a provider through plain libibverbs and records a Trace.
//
// Everything a Program can do is a libibverbs call that any application could make; the session
// adds only contexts and time. Calls run one after the other in Program order, each on its thread;
// a call that would wait for a region of another thread is held back until that region ends, so
// that a Program with threads prints the same Trace each time. Between `parallel` and `join` the
// threads run at once and the order of events is that in which the calls returned.
//
// Objects are freed in an order that verbs allows, whatever the Program left open.
#ifndef QPEXAM_HARNESS_EXECUTE_EXECUTOR_H_
#define QPEXAM_HARNESS_EXECUTE_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/execute/session.h"
#include "harness/program/program.h"
#include "harness/trace/trace.h"

namespace qpexam {

struct RunOptions {
  // The first call that is not made (the lint's cut), and all after it.
  uint32_t cut_at = ~uint32_t{0};
  // Keep contexts, protection domains, CQs, mrs and QPs (through RESET) for the next Program that
  // makes equal ones: a run then costs microseconds. Off: a run starts from nothing.
  bool keep_objects = false;
  // Where a watchdog looks: the call begun last, and a count that grows with every call.
  std::atomic<uint32_t>* current_call = nullptr;
  std::atomic<uint64_t>* heartbeat = nullptr;
};

class Executor {
 public:
  // The session must outlive the executor.
  explicit Executor(DeviceSession* session);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs `program` and fills `trace`, whose storage is reused. A Program that names objects of the
  // wrong kind, or none, is run as far as it makes sense: such a call is kNotMade.
  void Run(const Program& program, const RunOptions& options, Trace* trace);

  // Frees everything kept for later Programs.
  void DropObjects();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_EXECUTE_EXECUTOR_H_
