// Pairs for the judge's tests: a trace that conforms, and traces that differ from it in one place
// and must be found, under the right clause.
#ifndef QPEXAM_HARNESS_JUDGE_CASES_H_
#define QPEXAM_HARNESS_JUDGE_CASES_H_

#include <string>
#include <vector>

#include "harness/judge/judge.h"

namespace qpexam::judge {

struct Break {
  std::string from;    // occurs in the script
  std::string to;      // what stands there instead
  std::string clause;  // found then; empty: still nothing to find (a permitted variation)
};

struct Case {
  std::string name;
  std::string script;  // "@rc" and the like at the start of a line stand for a set-up, see cases.cc
  std::vector<Break> breaks;
  Provider provider = Provider::kReference;
};

// The script with its set-up spelled out.
std::string Expand(const std::string& script);

// Runs the case and each of its breaks; reports by GoogleTest.
void Check(const Case& c);
void CheckAll(const std::vector<Case>& cases);

}  // namespace qpexam::judge

#endif  // QPEXAM_HARNESS_JUDGE_CASES_H_
