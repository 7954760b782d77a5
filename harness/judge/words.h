// Names and phrases of the judge's messages.
#ifndef QPEXAM_HARNESS_JUDGE_WORDS_H_
#define QPEXAM_HARNESS_JUDGE_WORDS_H_

#include <infiniband/verbs.h>

#include <string>

#include "harness/judge/state.h"
#include "reference/model/rules.h"

namespace qpexam::judge {

std::string StatusName(ibv_wc_status status);  // "REM_ACCESS_ERR"
std::string OpcodeName(ibv_wc_opcode opcode);  // "RECV_RDMA_WITH_IMM"
std::string StatesName(States states);         // "RTS or ERR"
std::string Hex(uint64_t value);
std::string HexBytes(uint64_t cell, unsigned from, unsigned to);
// "SUCCESS", "REM_ACCESS_ERR (or another error)", "stays outstanding".
std::string OutcomeWords(const model::Outcome& outcome);
// What is wrong with a request: "unknown rkey", "the receive queue is empty".
std::string Why(const model::OutcomeSet& set, const Request& request);

}  // namespace qpexam::judge

#endif  // QPEXAM_HARNESS_JUDGE_WORDS_H_
