// Where Programs come from, and when two findings are one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/fuzz/engine_folder.h"
#include "harness/fuzz/finding_key.h"
#include "harness/fuzz/source.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

Program Parse(const char* text) {
  ParseResult parsed = ParseProgram(text, "test");
  EXPECT_TRUE(parsed.ok) << parsed.error.Message();
  return parsed.program;
}

std::vector<Program> Seeds() {
  std::vector<Program> seeds;
  for (const char* name : {"01-manual-example", "atom-good-after-failed", "comp-cq-overrun"}) {
    ParseResult parsed = LoadProgram(std::string("corpus/seeds/") + name + ".qpx");
    EXPECT_TRUE(parsed.ok) << parsed.error.Message();
    seeds.push_back(std::move(parsed.program));
  }
  return seeds;
}

TEST(ProgramSource, IsAFunctionOfSeedAndIndex) {
  SourceOptions options;
  options.seed = 7;
  const ProgramSource a(Seeds(), options), b(Seeds(), options);
  options.seed = 8;
  const ProgramSource other(Seeds(), options);
  int differ = 0;
  for (uint64_t i = 0; i < 200; i++) {
    // b is asked backwards: what came before does not count.
    EXPECT_TRUE(SameProgram(a.At(i), a.At(i)));
    EXPECT_TRUE(SameProgram(a.At(199 - i), b.At(199 - i)));
    differ += !SameProgram(a.At(i), other.At(i));
  }
  EXPECT_GT(differ, 190);
}

TEST(ProgramSource, MakesWellFormedProgramsWithinTheirSize) {
  SourceOptions options;
  options.calls = 100;
  const ProgramSource source(Seeds(), options);
  EXPECT_EQ(source.seeds(), 1u);  // the other two are longer
  for (uint64_t i = 0; i < 500; i++) {
    const Program program = source.At(i);
    ASSERT_FALSE(Validate(program)) << i << "\n" << PrintProgram(program);
    EXPECT_LE(program.calls.size(), 200u) << i;
  }
}

TEST(FindingKey, NamesKindClauseCallAndType) {
  const Program program = Parse("qpx 1\nqp a rc\nconnect a a\npoll a.send\npoll a.send\n");
  RunResult result;
  judge::Finding finding;
  finding.kind = judge::FindingKind::kViolation;
  finding.clause = "WR-COMP-001";
  finding.call = 2;
  result.verdict.findings.push_back(finding);
  finding.call = 3;  // the same at another call of the kind
  result.verdict.findings.push_back(finding);
  finding.kind = judge::FindingKind::kWarning;
  finding.clause = "WR-COMP-002";
  result.verdict.findings.push_back(finding);
  const std::vector<FindingKey> keys = KeysOf(program, result);
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].Text(), "violation WR-COMP-001 poll rc");
  EXPECT_EQ(keys[0].Id(), "violation-WR-COMP-001-poll-rc");
}

TEST(FindingKey, KnowsNumbersFromWords) {
  const Program program = Parse("qpx 1\nqp a rc\npoll a.send\n");
  RunResult result;
  SessionFinding below;
  below.kind = "cqe";
  below.clause = "WR-COMP-015";
  below.what = "a completion (wr_id 0x3eb, added 3 times) that no request in the queue was for";
  result.below.push_back(below);
  below.what =
      "a completion (wr_id 0xfab3e, added 12345 times) that no request in the queue was for";
  result.below.push_back(below);
  const std::vector<FindingKey> keys = KeysOf(program, result);
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].Text(), "cqe WR-COMP-015 a completion (wr_id , added  times) that no requ");
}

TEST(FindingKey, LeavesOutWhatTheEmulationDecided) {
  const Program program = Parse("qpx 1\nqp a rc\npoll a.send\n");
  RunResult result;
  judge::Finding finding;
  finding.kind = judge::FindingKind::kViolation;
  finding.clause = "WR-COMP-001";
  finding.emulated = true;
  result.verdict.findings.push_back(finding);
  EXPECT_TRUE(KeysOf(program, result).empty());
}

TEST(FindingKey, TakesTheFunctionOfASanitizersReport) {
  const Program program = Parse("qpx 1\nqp a rc\npoll a.send\n");
  RunResult result;
  result.ended = Ended::kSanitizer;
  result.fatal_call = 1;
  result.fatal =
      "sanitizer: ERROR: AddressSanitizer: heap-buffer-overflow\n"
      "    #0 0x55 in __asan_memcpy (/x+0x1)\n    #1 0x56 in mlx5_poll_one /src/cq.c:12:3\n";
  ASSERT_EQ(KeysOf(program, result).size(), 1u);
  EXPECT_EQ(KeysOf(program, result)[0].Text(), "sanitizer poll mlx5_poll_one");
  result.fatal = "sanitizer: cq.c:12:3: runtime error: index 3 out of bounds\n";
  EXPECT_EQ(KeysOf(program, result)[0].Text(), "sanitizer poll cq.c:12:3");
}

TEST(EngineFolder, KeepsAFindingOnceAndSaysWhichItIs) {
  const std::string path = testing::TempDir() + "engine";
  std::filesystem::remove_all(path);
  const EngineFolder folder(path);
  std::filesystem::create_directories(folder.FoundFolder());
  // A crash has no clause: an empty part must not move the others.
  const FindingKey key = {"crash", "", "poll", "rc"};
  folder.KeepFound(key, Parse("qpx 1\nqp a rc\npoll a.send\n"));
  folder.KeepFound(key, Parse("qpx 1\nqp b uc\n"));
  std::ifstream in(folder.FoundFolder() + "/" + key.Id() + ".qpx");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(text.find("qp a rc"), std::string::npos) << text;
  ParseResult parsed = ParseProgram(text, "kept");
  EXPECT_TRUE(parsed.ok) << parsed.error.Message();
  ASSERT_TRUE(KeyInNote(text));
  EXPECT_EQ(*KeyInNote(text), key);
  EXPECT_FALSE(KeyInNote("qpx 1\nqp a rc\n"));
}

TEST(EngineFolder, AddsUpWhatProcessesSteppedOver) {
  const std::string path = testing::TempDir() + "counts";
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  const EngineFolder folder(path);
  folder.AddCounts({});
  folder.AddCounts({{"violation WR-SGE-001", 3}, {"hang", 1}});
  folder.AddCounts({{"violation WR-SGE-001", 4}});
  const std::map<std::string, uint64_t> sum = {{"hang", 1}, {"violation WR-SGE-001", 7}};
  EXPECT_EQ(folder.ReadCounts(), sum);
  std::ofstream(folder.KnownFile()) << "hang\nviolation WR-SGE-001\n";
  EXPECT_EQ(folder.ReadKnown().count(EngineFolder::KnownName({"hang", "", "x", ""})), 1u);
}

}  // namespace
}  // namespace qpexam
