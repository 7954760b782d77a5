// What the preloaded library offers to a program of ours that runs under it: the executor and the
// suites then run in virtual time, and see what was found at the seams. A program that asks for
// this stops the clock: time passes only through advance() and settle().
//
// Plain C across the border: the two sides do not share a C++ library.
#ifndef QPEXAM_HARNESS_PRELOAD_CONTROL_CONTROL_H_
#define QPEXAM_HARNESS_PRELOAD_CONTROL_CONTROL_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct qpexam_packaged_finding {
  const char* kind;      // "wqe", "residue", "cqe", "lock", "kernel"
  const char* clause;    // may be ""
  const char* what;      // one line
  const char* evidence;  // bytes in hex, or ""
};

struct qpexam_packaged_control {
  // Lets work go on until nothing moves.
  void (*settle)(void);
  void (*advance)(uint64_t nanoseconds);
  // A model::FaultPoint for `count` messages of that QP after `skip` others; 0: no such QP.
  int (*fault)(uint32_t qp_number, int point, unsigned count, unsigned skip);
  // A Program begins: its seed picks the freedoms of the device.
  void (*begin)(uint64_t seed);
  // Stands in front of an ibv_qp_ex that a vendor's own call made, behind libibverbs' back.
  void (*watch)(void* qp_ex);
  // What was found since the last call, in order.
  void (*take_findings)(void* owner,
                        void (*one)(void* owner, const struct qpexam_packaged_finding* finding));
};

#define QPEXAM_PACKAGED_CONTROL "qpexam_packaged_control_1"
// By dlsym(RTLD_DEFAULT, QPEXAM_PACKAGED_CONTROL); absent where no device is emulated.
typedef const struct qpexam_packaged_control* (*qpexam_packaged_control_getter)(void);

#ifdef __cplusplus
}
#endif

#endif  // QPEXAM_HARNESS_PRELOAD_CONTROL_CONTROL_H_
