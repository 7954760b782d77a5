// The judge: does a Trace lie inside what the model allows for its Program?
//
// It follows the trace event by event and never forks over what is latent: what a provider may
// have done but nobody has seen yet is kept as a set (of values of a memory cell, of outcomes of a
// request, of states of a QP), which the next observation narrows. What correlation is lost this
// way may miss a bug and never accuses. See judge/README.md for the rules by which it leans.
//
// Levels: MUST broken = violation, SHOULD broken = warning, MAY = variation. UNDEFINED uses end the
// judging of the queue pair they concern.
#ifndef QPEXAM_HARNESS_JUDGE_JUDGE_H_
#define QPEXAM_HARNESS_JUDGE_JUDGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/program/program.h"
#include "harness/trace/trace.h"
#include "reference/model/choice.h"

namespace qpexam::judge {

// What kind of provider made the trace: how far rules that rest on virtual time or on an ideal
// device may be pressed.
enum class Provider : uint8_t {
  kReference,  // ideal: virtual time, states change at once, outcome 0 of every status rule
  kHosted,     // provider code over the emulated kernel: as the reference, but for its own library
  kDevice,     // a kernel and a card: waits are bounded by real time
};

struct JudgeOptions {
  Provider provider = Provider::kReference;
  // Not InfiniBand and not RoCE: clauses that rest on the IBA alone are at most SHOULD
  // (catalogue rule 5), deep queues of SRD are sets.
  bool efa = false;
  // Clauses of confidence L are warnings on anything but the reference (catalogue rule 13).
  bool low_confidence_warns = true;
  // UNDEFINED uses are part of what is tried (the reference): a lint is no finding.
  bool lints_expected = false;
};

enum class FindingKind : uint8_t {
  kViolation,
  kWarning,
  kUndecided,  // neither conforms nor breaks: the judge could not follow
  kUndefined,  // the Program did what the specification leaves undefined
};
std::string_view Name(FindingKind kind);

struct Finding {
  FindingKind kind{};
  bool emulated = false;  // hosted: the clause is not decided by the provider's library
  const char* clause = "";
  uint32_t call = 0;  // index into Program::calls; kEndOfRun for the end of the run
  uint32_t line = 0;  // of the Program's text, 0 where generated
  std::string what;   // one line
  std::vector<std::string> allowed;
  std::string observed;
};

// One of several allowed ways that the provider took, other than the reference's. Each once.
struct Variation {
  model::ChoicePoint choice{};
  unsigned outcome = 0;
  uint32_t call = 0;  // where it was first seen
  uint32_t count = 0;
};

// What the judge let pass without being able to say: a measure of its blindness, never a verdict.
struct Leniency {
  uint64_t cells_any = 0;        // memory cells whose value nobody can know
  uint64_t requests_open = 0;    // outcomes that a race left open
  uint64_t completions_any = 0;  // completions of queues that were no longer followed
};

enum class Result : uint8_t { kConforms, kVariation, kWarning, kViolation, kUndecided };
std::string_view Name(Result result);

struct Verdict {
  std::vector<Finding> findings;
  std::vector<Variation> variations;
  Leniency leniency;
  uint32_t violations = 0, warnings = 0, undecided = 0, undefined = 0;

  // The worst of what was found.
  Result result() const {
    return violations           ? Result::kViolation
           : undecided          ? Result::kUndecided
           : warnings           ? Result::kWarning
           : variations.empty() ? Result::kConforms
                                : Result::kVariation;
  }
  void Clear();
};

// Keeps its storage from one trace to the next: the common path allocates nothing.
class Judge {
 public:
  explicit Judge(JudgeOptions options = {});
  ~Judge();
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  const JudgeOptions& options() const;
  // Valid until the next call.
  const Verdict& operator()(const Program& program, const Trace& trace);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

Verdict JudgeOnce(const Program& program, const Trace& trace, const JudgeOptions& options = {});

// For people: clause and statement, the line of the Program, what was allowed, what was seen.
// `program_lines` are the lines of the Program's text form where the caller has them.
std::string Explain(const Finding& finding, const Program& program,
                    const std::vector<std::string>& program_lines = {});
std::string Explain(const Verdict& verdict, const Program& program,
                    const std::vector<std::string>& program_lines = {});

}  // namespace qpexam::judge

#endif  // QPEXAM_HARNESS_JUDGE_JUDGE_H_
