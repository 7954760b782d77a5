#include "harness/conform/expectations.h"

#include "gtest/gtest.h"
#include "harness/conform/fault_run.h"

namespace qpexam::conform {
namespace {

Expectations Parsed(const std::string& text) {
  Expectations expectations;
  std::string why;
  EXPECT_TRUE(ParseExpectations(text, "x.tsv", &expectations, &why)) << why;
  return expectations;
}
TestResult Result(const std::string& name, const std::string& clause, const std::string& verdict) {
  TestResult test;
  test.name = name;
  test.outcome = verdict == "violation"                    ? "fail"
                 : verdict == "crash" || verdict == "hang" ? verdict
                 : verdict == "skipped"                    ? "skip"
                                                           : "pass";
  test.clauses[clause] = {verdict == "crash" ? "violation" : verdict, {"a note"}};
  return test;
}

constexpr char kEntry[] =
    "hosted:rxe\t..56.1\tWR-SGE-001\tSge.Gather\tviolation\tdma.length\thttps://example.org/1\n";

TEST(Versions, AreComparedByNumber) {
  EXPECT_LT(CompareVersions("9.0", "44.0"), 0);
  EXPECT_EQ(CompareVersions("56", "56.0"), 0);
  EXPECT_GT(CompareVersions("56.10", "56.9"), 0);
}

TEST(ParseExpectations, SaysFileLineAndRemedy) {
  Expectations out;
  std::string why;
  EXPECT_FALSE(ParseExpectations("# c\nhosted:rxe\t*\n", "x.tsv", &out, &why));
  EXPECT_EQ(why.rfind("x.tsv:2: 2 fields; an entry has 7", 0), 0u) << why;
  EXPECT_FALSE(ParseExpectations("a\tnew\tWR-A\tT\tviolation\tr\tl\n", "x.tsv", &out, &why));
  EXPECT_NE(why.find("versions \"new\""), std::string::npos) << why;
  EXPECT_FALSE(ParseExpectations("a\t*\tWR-A\tT\tbroken\tr\tl\n", "x.tsv", &out, &why));
  EXPECT_NE(why.find("verdict \"broken\""), std::string::npos) << why;
  EXPECT_FALSE(ParseExpectations("a\t*\tWR-A\tT\tcrash\t\tl\n", "x.tsv", &out, &why));
  EXPECT_NE(why.find("needs a reason"), std::string::npos) << why;
  EXPECT_FALSE(ParseExpectations("skips\tx\tmany\n", "x.tsv", &out, &why));
}

TEST(Compare, AnExpectedFailureIsNoSurprise) {
  SuiteRun run;
  run.tests = {Result("Sge.Gather", "WR-SGE-001", "violation")};
  KnownDeviations expected;
  EXPECT_TRUE(Compare(Parsed(kEntry), run, "hosted:rxe", "56.1", true, &expected).empty());
  EXPECT_EQ(expected.size(), 1u);
}

TEST(Compare, AGuestIsKnownByItsKernelsSeriesAndItsLibrary) {
  SuiteRun run;
  run.tests = {Result("Sge.Gather", "WR-SGE-001", "violation")};
  KnownDeviations expected;
  const Expectations kernel =
      Parsed("vm:rxe\t6.1\tWR-SGE-001\tSge.Gather\tviolation\ta slip\thttps://example.org/1\n");
  EXPECT_TRUE(Compare(kernel, run, "vm:rxe", "6.1.192/44.0", true, &expected).empty());
  EXPECT_TRUE(Compare(kernel, run, "vm:rxe@6.1", "6.1/44.0", true, &expected).empty());
  EXPECT_EQ(Compare(kernel, run, "vm:rxe@6.12", "6.12.38/44.0", true, &expected).size(), 1u);
  EXPECT_EQ(Compare(kernel, run, "vm:rxe", "6.10.1/44.0", true, &expected).size(), 1u);
  EXPECT_EQ(Compare(kernel, run, "hosted:rxe", "6.1", true, &expected).size(), 1u);
  // Of the library what hosted:rxe shows, in the library's versions.
  EXPECT_TRUE(Compare(Parsed(kEntry), run, "vm:rxe@6.12", "6.12.38/44.0", true, &expected).empty());
  EXPECT_EQ(Compare(Parsed(kEntry), run, "vm:rxe", "6.1.192/65.0", true, &expected).size(), 1u);
  EXPECT_EQ(Compare(Parsed(kEntry), run, "vm:rxe", "6.1.192", true, &expected).size(), 1u);
  EXPECT_EQ(Compare(Parsed(kEntry), run, "vm:siw", "6.1.192/44.0", true, &expected).size(), 1u);
  // The kernel's entries are missed where they do not show.
  run.tests = {Result("Sge.Gather", "WR-SGE-001", "conforms")};
  EXPECT_FALSE(Compare(kernel, run, "vm:rxe", "6.1.192/44.0", true, &expected).empty());
  EXPECT_TRUE(Compare(Parsed(kEntry), run, "vm:rxe", "6.1.192/44.0", true, &expected).empty());
}

TEST(Compare, WhatIsKnownOfALibraryExcusesTheInstalledOne) {
  SuiteRun run;
  run.tests = {Result("Sge.Gather", "WR-SGE-001", "violation")};
  KnownDeviations expected;
  EXPECT_TRUE(Compare(Parsed(kEntry), run, "packaged:rxe", "44.0", true, &expected).empty());
  EXPECT_EQ(expected.size(), 1u);
  EXPECT_EQ(Compare(Parsed(kEntry), run, "packaged:mlx5", "44.0", true, &expected).size(), 1u);
  EXPECT_EQ(Compare(Parsed(kEntry), run, "packaged:rxe", "65.0", true, &expected).size(), 1u);
  // It need not show there.
  run.tests = {Result("Sge.Gather", "WR-SGE-001", "conforms")};
  EXPECT_TRUE(Compare(Parsed(kEntry), run, "packaged:rxe", "44.0", true, &expected).empty());
  EXPECT_FALSE(Compare(Parsed(kEntry), run, "hosted:rxe", "44.0", true, &expected).empty());
}

TEST(Compare, WhatTheOrderOfThreadsDecidesNeedNotHappen) {
  const auto sometimes =
      Parsed("hosted:rxe\t*\tWR-CONC-001\tConc.Two\tviolation?\ta race\thttps://example.org/1\n");
  KnownDeviations expected;
  for (const char* happened : {"violation", "conforms"}) {
    SuiteRun run;
    run.tests = {Result("Conc.Two", "WR-CONC-001", happened)};
    EXPECT_TRUE(Compare(sometimes, run, "hosted:rxe", "56.1", true, &expected).empty()) << happened;
    std::vector<ProgramResult> programs(1);
    programs[0].name = "Conc.Two";
    if (happened == std::string("violation"))
      programs[0].findings.push_back({"WR-CONC-001", happened, "a note"});
    EXPECT_TRUE(ComparePrograms(sometimes, "hosted:rxe", "56.1", true, &programs).empty());
    // Another clause is still a surprise.
    programs[0].findings.push_back({"WR-CONC-002", "violation", "a note"});
    EXPECT_EQ(ComparePrograms(sometimes, "hosted:rxe", "56.1", true, &programs).size(), 1u);
  }
  Expectations out;
  std::string why;
  EXPECT_FALSE(ParseExpectations("a\t*\tWR-A\tT.*\tviolation?\tr\tl\n", "x.tsv", &out, &why));
}

TEST(Compare, AnUnexpectedFailureIs) {
  SuiteRun run;
  run.tests = {Result("Sge.Gather", "WR-SGE-001", "violation")};
  KnownDeviations expected;
  // Another provider, and a version that is said to be mended.
  for (const auto& [provider, version] :
       {std::pair{"hosted:mlx5", "56.1"}, std::pair{"hosted:rxe", "65.0"}}) {
    const auto surprises = Compare(Parsed(kEntry), run, provider, version, true, &expected);
    ASSERT_EQ(surprises.size(), 1u) << provider;
    EXPECT_EQ(surprises[0].kind, Surprise::kUnexpectedFailure);
    EXPECT_EQ(surprises[0].clause, "WR-SGE-001");
  }
}

TEST(Compare, ACrashIsAFailureOfItsOwnKind) {
  SuiteRun run;
  run.tests = {Result("Sge.Gather", "WR-SGE-001", "crash")};
  KnownDeviations expected;
  EXPECT_EQ(Compare(Parsed(kEntry), run, "hosted:rxe", "56.1", false, &expected).size(), 1u);
}

TEST(Compare, AWarningIsASurpriseWhereTheRunIsStrict) {
  SuiteRun run;
  run.tests = {Result("Sge.Gather", "WR-SGE-001", "warning")};
  KnownDeviations expected;
  EXPECT_TRUE(Compare({}, run, "hosted:rxe", "56.1", true, &expected).empty());
  const auto surprises = Compare({}, run, "hosted:rxe", "56.1", true, &expected, Warnings::kFail);
  ASSERT_EQ(surprises.size(), 1u);
  EXPECT_EQ(surprises[0].kind, Surprise::kUnexpectedWarning);
  const Expectations known = Parsed("hosted:rxe\t*\tWR-SGE-001\tSge.Gather\twarning\tso\t-\n");
  EXPECT_TRUE(Compare(known, run, "hosted:rxe", "56.1", true, &expected, Warnings::kFail).empty());
}

TEST(Compare, AnUnexpectedPassIsASurprise) {
  SuiteRun run;
  run.tests = {Result("Sge.Gather", "WR-SGE-001", "conforms")};
  KnownDeviations expected;
  const auto surprises = Compare(Parsed(kEntry), run, "hosted:rxe", "56.1", true, &expected);
  ASSERT_EQ(surprises.size(), 1u);
  EXPECT_EQ(surprises[0].kind, Surprise::kUnexpectedPass);
}

TEST(Compare, AnUnusedEntryIsASurpriseOfAWholeRun) {
  SuiteRun run;
  KnownDeviations expected;
  EXPECT_TRUE(Compare(Parsed(kEntry), run, "hosted:rxe", "56.1", false, &expected).empty());
  const auto surprises = Compare(Parsed(kEntry), run, "hosted:rxe", "56.1", true, &expected);
  ASSERT_EQ(surprises.size(), 1u);
  EXPECT_EQ(surprises[0].kind, Surprise::kUnused);
}

TEST(Compare, SkipsAreBounded) {
  SuiteRun run;
  run.tests = {Result("A.B", "WR-A", "skipped"), Result("A.C", "WR-A", "skipped")};
  KnownDeviations expected;
  const Expectations one = Parsed("skips\treference\t1\n"), two = Parsed("skips\treference\t2\n");
  EXPECT_EQ(Compare(one, run, "reference", "56.1", true, &expected).size(), 1u);
  EXPECT_TRUE(Compare(two, run, "reference", "56.1", true, &expected).empty());
}

std::vector<ProgramResult> Programs(const std::string& name, const std::string& verdict) {
  ProgramResult program;
  program.name = name;
  if (!verdict.empty()) program.findings.push_back({"WR-SGE-001", verdict, "dma.length is 20"});
  return {program};
}
constexpr char kOfPrograms[] =
    "hosted:rxe\t..56.1\tWR-SGE-001\tsge-list\twqe\ta sum\thttps://example.org/1\n";

TEST(ComparePrograms, AnExpectedFindingIsKnownWithItsReason) {
  const Expectations entries = Parsed(kOfPrograms);
  std::vector<ProgramResult> programs = Programs("sge-list", "wqe");
  EXPECT_TRUE(ComparePrograms(entries, "hosted:rxe", "56.1", true, &programs).empty());
  EXPECT_TRUE(programs[0].AllKnown());
  ASSERT_NE(programs[0].Known("WR-SGE-001", "wqe"), nullptr);
  EXPECT_EQ(programs[0].Known("WR-SGE-001", "wqe")->reason, "a sum");
  EXPECT_EQ(programs[0].Known("WR-SGE-001", "violation"), nullptr);
}

TEST(ComparePrograms, AStarStandsForAnything) {
  const Expectations entries =
      Parsed("hosted:rxe\t*\tWR-SGE-001\tbuild-*-sge-*list\twqe\ta sum\tlink\n");
  for (const auto& [name, fits] :
       {std::pair{"build-rc-send-sge-list", true}, std::pair{"build--sge-list", true},
        std::pair{"build-rc-send-sge", false}, std::pair{"build-rc-sge-list-2", false}}) {
    std::vector<ProgramResult> programs = Programs(name, "wqe");
    ComparePrograms(entries, "hosted:rxe", "56.1", false, &programs);
    EXPECT_EQ(programs[0].AllKnown(), fits) << name;
  }
}

// A build with sanitizers reports what otherwise ends the process.
TEST(ComparePrograms, AnExpectedCrashMayBeASanitizersReport) {
  const Expectations entries =
      Parsed("hosted:rxe\t*\tWR-SGE-001\tsge-list\tcrash\tit dies\tlink\n");
  std::vector<ProgramResult> programs = Programs("sge-list", "sanitizer");
  EXPECT_TRUE(ComparePrograms(entries, "hosted:rxe", "56.1", true, &programs).empty());
  EXPECT_TRUE(programs[0].AllKnown());
  programs = Programs("sge-list", "hang");
  EXPECT_FALSE(ComparePrograms(entries, "hosted:rxe", "56.1", true, &programs).empty());
}

TEST(ComparePrograms, AnotherKindProgramOrVersionIsUnexpected) {
  const Expectations entries = Parsed(kOfPrograms);
  std::vector<ProgramResult> programs = Programs("sge-list", "violation");
  auto surprises = ComparePrograms(entries, "hosted:rxe", "56.1", false, &programs);
  ASSERT_EQ(surprises.size(), 2u);  // and the wqe finding is missing
  EXPECT_EQ(surprises[0].kind, Surprise::kUnexpectedFailure);
  EXPECT_FALSE(programs[0].AllKnown());
  programs = Programs("sge-other", "wqe");
  EXPECT_EQ(ComparePrograms(entries, "hosted:rxe", "56.1", false, &programs).size(), 1u);
  programs = Programs("sge-list", "wqe");
  EXPECT_EQ(ComparePrograms(entries, "hosted:rxe", "65.0", false, &programs).size(), 1u);
}

TEST(ComparePrograms, ACleanProgramAndAnUnusedEntryAreSurprises) {
  const Expectations entries = Parsed(kOfPrograms);
  std::vector<ProgramResult> programs = Programs("sge-list", "");
  auto surprises = ComparePrograms(entries, "hosted:rxe", "56.1", true, &programs);
  ASSERT_EQ(surprises.size(), 1u);
  EXPECT_EQ(surprises[0].kind, Surprise::kUnexpectedPass);
  EXPECT_FALSE(programs[0].AllKnown());
  programs = Programs("another", "");
  EXPECT_TRUE(ComparePrograms(entries, "hosted:rxe", "56.1", false, &programs).empty());
  surprises = ComparePrograms(entries, "hosted:rxe", "56.1", true, &programs);
  ASSERT_EQ(surprises.size(), 1u);
  EXPECT_EQ(surprises[0].kind, Surprise::kUnused);
}

TEST(ParseResults, ReadsLinesAndLeavesATruncatedOne) {
  SuiteRun run;
  ParseResults(
      "{\"provider\": \"reference\", \"device\": \"\", \"effort\": \"normal\"}\n"
      "{\"test\": \"A.B\", \"outcome\": \"pass\", \"clauses\": {\"WR-A\": {\"verdict\": "
      "\"conforms\"}}, \"reaches\": [\"f\"]}\n{\"test\": \"A.C\", \"outc",
      &run);
  EXPECT_EQ(run.provider, "reference");
  ASSERT_EQ(run.tests.size(), 1u);
  EXPECT_EQ(run.tests[0].clauses["WR-A"].verdict, "conforms");
  EXPECT_EQ(run.tests[0].reaches, std::vector<std::string>{"f"});
}

TEST(FilterWithout, LeavesOutWhatHasRun) {
  EXPECT_EQ(FilterWithout("", {}), "");
  std::vector<TestResult> done(2);
  done[0].name = "A.B/c";
  done[1].name = "D.E";
  EXPECT_EQ(FilterWithout("", done), "*-A.B/c:D.E");
  EXPECT_EQ(FilterWithout("A.*:D.*", done), "A.*:D.*-A.B/c:D.E");
  EXPECT_EQ(FilterWithout("A.*-A.X", done), "A.*-A.X:A.B/c:D.E");
}

TEST(Related, IsFaultClausesAndReason) {
  std::vector<Related> related;
  std::string why;
  ASSERT_TRUE(ParseRelated("# what follows\ndepth-one-less\tWR-A-001 WR-B-002\tthey fill it\n", "f",
                           &related, &why))
      << why;
  ASSERT_EQ(related.size(), 1u);
  EXPECT_EQ(related[0].fault, "depth-one-less");
  EXPECT_EQ(related[0].clauses, (std::vector<std::string>{"WR-A-001", "WR-B-002"}));
  EXPECT_EQ(related[0].reason, "they fill it");
  EXPECT_FALSE(ParseRelated("\ndepth-one-less\tWR-A-001\n", "f", &related, &why));
  EXPECT_EQ(why, "f:2: not three columns: fault, clauses, reason");
  EXPECT_FALSE(ParseRelated("depth-one-less\t*\twhatever breaks\n", "f", &related, &why));
  EXPECT_NE(why.find("f:1: * is no clause"), std::string::npos) << why;
  EXPECT_FALSE(ParseRelated("no-such\tWR-A-001\twhy\n", "f", &related, &why));
  EXPECT_EQ(why, "f:1: there is no fault no-such; faults.inc names them");
}

}  // namespace
}  // namespace qpexam::conform
