// Tests write a Program and what a provider did in one text:
//
//   rdma_write a wr_id=1 flags=SIGNALED rkey=dst addr=dst+0
//   complete a
//   poll a.send
//   => wc a 1 SUCCESS RDMA_WRITE
//   => mem dst 0 5a5a5a5a
//
// A line `=> ...` belongs to the event of the call above it:
//   rc=N  count=N  settled  timed_out  ran=skipped  granted=A,B,C,D,E
//   wc QP WR_ID STATUS [OPCODE] [len=N] [imm=N] [flags=N] [inv=OBJ[+N]] [src=QP] [cq=CQ]
//   mem MR OFFSET HEXBYTES      state QP STATE [cached=STATE]     value FIELD N
//   event CQ      async TYPE OBJ
// `end` at the start of a line is the end of the run. What is not said is what goes without saying:
// rc 0, as much granted as was asked, a poll's count.
#ifndef QPEXAM_HARNESS_JUDGE_SCRIPT_H_
#define QPEXAM_HARNESS_JUDGE_SCRIPT_H_

#include <string>

#include "harness/program/program.h"
#include "harness/trace/trace.h"

namespace qpexam::judge {

struct Script {
  Program program;
  Trace trace;
  std::string error;  // empty where it was read
};

Script ReadScript(const std::string& text);

}  // namespace qpexam::judge

#endif  // QPEXAM_HARNESS_JUDGE_SCRIPT_H_
