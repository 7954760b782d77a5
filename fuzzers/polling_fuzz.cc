// Polling: every completion queue is an extended one with all fields, every poll the steps of
// ibv_start_poll(), and the Program's seed makes the emulated device's completions late, batched
// and out of order across queue pairs.
#include <algorithm>

#include "fuzzers/program_input.h"
#include "fuzzers/program_target.h"
#include "harness/program/lint.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

constexpr uint64_t kAllFields = IBV_CREATE_CQ_SUP_WC_FLAGS;

// Its queue pairs get extended queues in place of their own.
Program Extended(const Program& program) {
  Program out;
  out.arena = program.arena;
  out.seed = program.seed;
  std::vector<ObjectId> to(program.objects.size(), kNoObject);  // old object to new
  std::vector<ObjectId> send(program.objects.size(), kNoObject), recv = send;
  auto add = [&](ObjectKind kind, std::string name) {
    out.objects.push_back({kind, std::move(name)});
    return static_cast<ObjectId>(out.objects.size() - 1);
  };
  auto queue = [&](const Call& qp, const char* side) {
    Call cq = MakeCall(CallKind::kCq);
    cq.object = add(ObjectKind::kCq, "own" + std::to_string(out.objects.size()) + side);
    cq.device = qp.pd == kNoObject && qp.device != kNoObject ? to[qp.device] : kNoObject;
    cq.n = 256;
    cq.ex = 1;
    cq.wc_flags = kAllFields;
    out.calls.push_back(cq);
    return cq.object;
  };
  for (Call call : program.calls) {
    const ObjectId old = call.object;
    if (call.kind == CallKind::kQp && call.qp_type != model::QpType::kXrcRecv &&
        call.pd == kNoObject) {
      if (call.cq == kNoObject) send[old] = queue(call, "s");
      if (call.recv_cq == kNoObject) recv[old] = queue(call, "r");
    }
    if (Makes(call.kind)) to[old] = add(program.objects[old].kind, program.objects[old].name);
    if (call.kind == CallKind::kPoll && call.side != Side::kNone) {
      const ObjectId own = (call.side == Side::kSend ? send : recv)[old];
      if (own != kNoObject) {
        Call poll = MakeCall(CallKind::kPollEx);
        poll.object = own;
        poll.n = call.n;
        poll.expect = call.expect;
        poll.thread = call.thread;
        out.calls.push_back(poll);
        continue;
      }
    }
    const bool is_qp = call.kind == CallKind::kQp;
    ForEachObject(&call, [&](ObjectId& id, KindMask) {
      if (id != kNoObject) id = to[id];
    });
    if (is_qp && send[old] != kNoObject) call.cq = send[old];
    if (is_qp && recv[old] != kNoObject) call.recv_cq = recv[old];
    if (call.kind == CallKind::kCq && !call.ex) {
      call.ex = 1;
      call.wc_flags = kAllFields;
    }
    if (call.kind == CallKind::kPoll && call.side == Side::kNone) {
      Call poll = MakeCall(CallKind::kPollEx);
      poll.object = call.object;
      poll.n = call.n;
      poll.expect = call.expect;
      poll.thread = call.thread;
      call = poll;
    }
    out.calls.push_back(std::move(call));
  }
  return out;
}

}  // namespace
}  // namespace qpexam

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static qpexam::ProgramTarget target(QPEXAM_FUZZ_PROVIDER);
  const qpexam::Program program = qpexam::Extended(qpexam::ProgramFromInput(data, size));
  // A Program that no longer holds together (an arm of a queue that is gone) is not run.
  if (qpexam::Validate(program)) return 0;
  target.Run(program);
  target.Judge();
  return 0;
}
