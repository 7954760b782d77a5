#include "harness/remote/batch.h"

#include <gtest/gtest.h>

#include "harness/program/parse.h"
#include "harness/program/print.h"

namespace qpexam::remote {
namespace {

Program Parsed(const char* text) {
  ParseResult result = ParseProgram(text, "test");
  EXPECT_TRUE(result.ok) << result.error.Message();
  return result.program;
}

TEST(Batch, KeepsProgramsAndTheirNumbers) {
  const std::vector<Program> programs = {Parsed("cq c n=4\n"), Parsed("mr m len=64\n"),
                                         Parsed("cq d n=8\n")};
  std::vector<BatchProgram> read;
  std::string why;
  ASSERT_TRUE(ParseBatch(PrintBatch(programs, {1, 2}), &read, &why)) << why;
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].index, 1u);
  EXPECT_EQ(read[1].index, 2u);
  EXPECT_EQ(read[1].text, PrintProgram(programs[2], Notes::kDrop));
}

TEST(Batch, SaysWhatIsWrongWhereverItIsCutShort) {
  const std::string whole = PrintBatch({Parsed("cq c n=4\n")}, {0});
  for (size_t size = 0; size < whole.size() - 1; size++) {
    std::vector<BatchProgram> read;
    std::string why;
    EXPECT_FALSE(ParseBatch(whole.substr(0, size), &read, &why)) << size;
    EXPECT_NE(why.find("at byte"), std::string::npos);
  }
}

std::string Stream() {
  return PrintHead("rxe0", "44.0") + PrintBegin(7) +
         PrintFinding(7, {"wqe", "WR-SGE-001", "two\nlines", ""}) +
         PrintItem(7, "a\ntrace 9 1 1\nb", 55) + PrintBegin(8) + PrintEnd();
}

TEST(TraceStream, IsTheSameInAnyPieces) {
  const std::string whole = Stream();
  for (size_t piece = 1; piece <= whole.size(); piece++) {
    TraceStream stream;
    std::vector<Item> items;
    for (size_t at = 0; at < whole.size(); at += piece)
      ASSERT_TRUE(stream.Feed(std::string_view(whole).substr(at, piece), &items));
    ASSERT_EQ(items.size(), 6u);
    EXPECT_EQ(items[0].text, "rxe0 44.0");
    EXPECT_EQ(items[2].kind, Item::kFinding);
    EXPECT_EQ(items[2].index, 7u);
    EXPECT_EQ(items[2].finding.kind, "wqe");
    EXPECT_EQ(items[2].finding.clause, "WR-SGE-001");
    EXPECT_EQ(items[2].finding.what, "two lines");
    EXPECT_EQ(items[2].finding.evidence, "");
    EXPECT_EQ(items[3].kind, Item::kTrace);
    EXPECT_EQ(items[3].index, 7u);
    EXPECT_EQ(items[3].nanoseconds, 55u);
    EXPECT_EQ(items[3].text, "a\ntrace 9 1 1\nb");
    EXPECT_EQ(items[4].kind, Item::kBegin);
    EXPECT_EQ(items[5].kind, Item::kEnd);
  }
}

TEST(TraceStream, GivesWhatCameBeforeItBrokeOff) {
  const std::string whole = Stream();
  for (size_t size = 0; size < whole.size(); size++) {
    TraceStream stream;
    std::vector<Item> items;
    EXPECT_TRUE(stream.Feed(whole.substr(0, size), &items)) << size;
    EXPECT_LT(items.size(), 6u);
  }
}

TEST(TraceStream, RefusesNoiseAndStaysSo) {
  for (const char* noise :
       {"Kernel panic\n", "qpexam-traces 1\ntrace 1\n", "qpexam-traces 1\nbegin x\n",
        "qpexam-traces 1\ntrace 1 -4 0\n", "qpexam-traces 1\ntrace 1 99999999999999 0\n",
        "qpexam-traces 1\ntrace 1 1 0\nabc\n"}) {
    TraceStream stream;
    std::vector<Item> items;
    EXPECT_FALSE(stream.Feed(noise, &items)) << noise;
    EXPECT_FALSE(stream.Feed(PrintEnd(), &items));
    EXPECT_TRUE(items.empty());
  }
}

}  // namespace
}  // namespace qpexam::remote
