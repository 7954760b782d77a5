// Generated and mutated Programs are well formed, deterministic, mostly legal, and varied.
#include "harness/program/mutate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness/program/generate.h"
#include "harness/program/lint.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/program/schema.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

void ExpectWellFormed(const Program& p, const char* what) {
  const auto invalid = Validate(p);
  ASSERT_FALSE(invalid) << what << ": call " << invalid->call << " " << invalid->what << "\n"
                        << PrintProgram(p);
  const std::string text = PrintProgram(p);
  const ParseResult parsed = ParseProgram(text, what);
  ASSERT_TRUE(parsed.ok) << parsed.error.Message() << "\n" << text;
  ASSERT_TRUE(SameProgram(p, parsed.program)) << text;
}

std::vector<Program> Seeds() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("corpus/seeds")) {
    if (entry.path().extension() == ".qpx") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Program> seeds;
  for (const std::string& path : paths) seeds.push_back(LoadProgram(path).program);
  return seeds;
}

TEST(Generate, WellFormedAndLegal) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const Program p = Generate(&random);
    ExpectWellFormed(p, "generated");
    if (HasFatalFailure()) return;
    const auto finding = FirstUndefined(p);
    ASSERT_FALSE(finding) << Message(p, *finding) << "\n" << PrintProgram(p);
    EXPECT_GE(p.calls.size(), 5u) << PrintProgram(p);
  }
}

TEST(Generate, SameSeedSameProgram) {
  Random a(99), b(99), c(100);
  const std::string first = PrintProgram(Generate(&a));
  EXPECT_EQ(first, PrintProgram(Generate(&b)));
  EXPECT_NE(first, PrintProgram(Generate(&c)));
}

TEST(Generate, ReachesEveryOperationAndSetter) {
  std::set<std::string> words;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    for (const Call& c : Generate(&random).calls) words.insert(std::string(WordOf(c)));
  }
  for (const model::OperationInfo& info : model::AllOperations()) {
    if (info.op == model::Operation::kTso) continue;  // RAW_PACKET comes by mutation
    EXPECT_TRUE(words.count(std::string(info.builder))) << info.builder;
  }
  for (const char* word :
       {"set_sge", "set_sge_list", "set_inline", "set_inline_list", "set_ud_addr", "set_xrc_srqn",
        "abort", "post_send", "poll_ex", "fault", "modify", "srq_recv"}) {
    EXPECT_TRUE(words.count(word)) << word;
  }
}

TEST(Generate, UndefinedUsesWhereAsked) {
  GenerateOptions options;
  options.undefined_per_mille = 200;
  int undefined = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const Program p = Generate(&random, options);
    ExpectWellFormed(p, "generated");
    undefined += FirstUndefined(p).has_value();
  }
  EXPECT_GE(undefined, 50);
}

TEST(Mutate, EveryMutationChangesSomething) {
  const std::vector<Program> seeds = Seeds();
  for (int m = 0; m < kMutationCount; ++m) {
    Random random(static_cast<uint64_t>(m));
    int changed = 0;
    for (size_t i = 0; i < seeds.size(); i += 2) {
      Program p = seeds[i];
      if (!Apply(static_cast<Mutation>(m), &random, &p)) continue;
      ExpectWellFormed(p, "mutated");
      if (HasFatalFailure()) return;
      changed += !SameProgram(p, seeds[i]);
    }
    EXPECT_GE(changed, 3) << "mutation " << m;
  }
}

// Chains of mutations stay well formed; most of a first step stays legal.
TEST(Mutate, ChainsStayWellFormed) {
  const std::vector<Program> seeds = Seeds();
  Random random(5);
  int legal = 0, all = 0;
  for (size_t i = 0; i < seeds.size(); ++i) {
    Program p = seeds[i];
    for (int step = 0; step < 6; ++step) {
      Mutate(&random, &p);
      ExpectWellFormed(p, "mutated");
      if (HasFatalFailure()) return;
      if (step == 0) {
        ++all;
        legal += !FirstUndefined(p);
      }
    }
  }
  EXPECT_GE(legal * 100, all * 75) << legal << " of " << all;
  RecordProperty("legal_percent", legal * 100 / all);
}

TEST(Mutate, SpliceStaysWellFormed) {
  const std::vector<Program> seeds = Seeds();
  Random random(6);
  for (int round = 0; round < 500; ++round) {
    const Program p =
        Splice(&random, seeds[random.Below(seeds.size())], seeds[random.Below(seeds.size())]);
    ExpectWellFormed(p, "spliced");
    if (HasFatalFailure()) return;
  }
}

TEST(Mutate, SizeIsBounded) {
  Random random(8);
  Program p = Seeds()[0];
  MutateOptions options;
  options.calls = 40;
  for (int i = 0; i < 500; ++i) Mutate(&random, &p, options);
  EXPECT_LE(p.calls.size(), 41u);  // a join may close an open parallel
}

}  // namespace
}  // namespace qpexam
