#include "harness/emit/emit_c.h"

#include <algorithm>

#include "harness/emit/emitter.h"

namespace qpexam {

std::string WhyNoC(const Program& program) {
  for (const Call& call : program.calls) {
    if (call.kind == CallKind::kThread)
      return "it has threads, and one C file tells calls in one order; send the program itself "
             "(qpexam fmt)";
    if (call.kind == CallKind::kQp && call.qp_type == model::QpType::kSrd)
      return "an SRD queue pair is made by libefa, not by libibverbs; send the program itself "
             "(qpexam fmt)";
  }
  return "";
}

Program ForC(const Program& program) {
  Program out = program;
  out.notes.clear();
  out.calls.erase(std::remove_if(out.calls.begin(), out.calls.end(),
                                 [](const Call& call) {
                                   return call.kind == CallKind::kFault ||
                                          call.kind == CallKind::kAdvance;
                                 }),
                  out.calls.end());
  return out;
}

std::string EmitC(const Program& program, const Trace& expected, const std::string& about) {
  return emit::Emitter(program, expected).Emit(about);
}

}  // namespace qpexam
