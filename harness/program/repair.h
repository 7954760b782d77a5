// Makes well-formed Programs (validate.h) of ill-formed ones with the smallest change that serves:
// what mutation, minimisation and decoding from bytes rest on.
#ifndef QPEXAM_HARNESS_PROGRAM_REPAIR_H_
#define QPEXAM_HARNESS_PROGRAM_REPAIR_H_

#include "harness/program/program.h"
#include "harness/program/validate.h"

namespace qpexam {

// Changes a call so that it is well formed behind those that `validator` has taken: numbers come
// into range, memory into the arena, names of objects that are not there become the latest object
// of a kind that may stand there. False: nothing can be made of it.
bool Mend(const Program& program, const Validator& validator, Call* call);

// Mends each call or drops it, then drops the objects that no call makes. Notes are dropped.
void Repair(Program* program);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROGRAM_REPAIR_H_
