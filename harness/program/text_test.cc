// The text form: what is written parses, what parses prints the same again, what is wrong is said
// with its place and a remedy, and no input does harm.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "harness/program/guide.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/program/schema.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Program Parsed(const std::string& text) {
  ParseResult result = ParseProgram(text, "test.qpx");
  EXPECT_TRUE(result.ok) << result.error.Message();
  return std::move(result.program);
}

std::string ErrorOf(const std::string& text) {
  const ParseResult result = ParseProgram(text, "f.qpx");
  EXPECT_FALSE(result.ok) << text;
  return result.error.Message();
}

TEST(Schema, TablesAreInTheOrderOfTheEnum) {
  ASSERT_EQ(AllSchemas().size(), static_cast<size_t>(kCallKindCount));
  for (int i = 0; i < kCallKindCount; ++i) {
    EXPECT_EQ(static_cast<int>(AllSchemas()[i].kind), i) << AllSchemas()[i].word;
  }
}

TEST(Schema, WordsAreUniqueWithinACall) {
  for (const CallSchema& schema : AllSchemas()) {
    for (int op = 0; op < model::kOperationCount; ++op) {
      std::vector<std::string_view> words;
      for (const Field& f : schema.fields) {
        if (!f.word.empty() && ((f.ops >> op) & 1)) words.push_back(f.word);
      }
      std::sort(words.begin(), words.end());
      EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end()) << schema.word;
    }
  }
}

TEST(Text, ArgumentsAndDefaults) {
  const Program p = Parsed(
      "qp a rc ops=SEND|0x2000 sq=3 sig_all\n"
      "mr m len=64 access=LOCAL_WRITE|REMOTE_READ fill=0x5a\n"
      "start a\n"
      "  rdma_read a addr=m-1\n"
      "  set_sge a addr=m+0x10 len=8\n"
      "poll a.recv\n");
  ASSERT_EQ(p.calls.size(), 6u);
  EXPECT_EQ(p.calls[0].ops, uint64_t{IBV_QP_EX_WITH_SEND} | 0x2000);
  EXPECT_EQ(p.calls[0].sq, 3u);
  EXPECT_EQ(p.calls[0].rq, 16u);
  EXPECT_EQ(p.calls[0].sig_all, 1);
  EXPECT_EQ(p.calls[1].fill, 0x5au);
  EXPECT_EQ(p.calls[1].iova, kUnset);
  EXPECT_EQ(p.calls[3].addr.offset, -1);
  EXPECT_EQ(p.calls[3].rkey.object, p.calls[1].object);
  EXPECT_EQ(p.calls[4].lkey.object, p.calls[1].object);
  EXPECT_EQ(p.calls[4].addr.offset, 16);
  EXPECT_EQ(p.calls[5].side, Side::kRecv);
  EXPECT_EQ(p.calls[5].n, 16u);
  EXPECT_EQ(p.calls[5].line, 6u);
}

TEST(Text, CanonicalForm) {
  EXPECT_EQ(PrintProgram(Parsed("# why\n\n\nqp a rc rq=16 sq=2   # small\n\n\nthread  t\n"
                                "mr m len=0x40 access=0\nt: start a\n\n")),
            "qpx 1\n"
            "# why\n"
            "qp a rc sq=2  # small\n"
            "\n"
            "thread t\n"
            "mr m len=64 access=0\n"
            "t: start a\n");
}

TEST(Text, KeysOfWindows) {
  const std::string text =
      "qpx 1\n"
      "qp a rc ops=BIND_MW\n"
      "mr m len=64 access=MW_BIND\n"
      "mw w\n"
      "start a\n"
      "  bind_mw a mw=w addr=m+0 len=8 access=REMOTE_READ\n"
      "  bind_mw a mw=w addr=m+0 rkey=w+2^0x100 len=8 access=REMOTE_READ\n"
      "complete a\n";
  const Program p = Parsed(text);
  EXPECT_EQ(p.calls[4].rkey.inc, 1);
  EXPECT_EQ(p.calls[5].rkey.inc, 2);
  EXPECT_EQ(p.calls[5].rkey.flip, 0x100u);
  EXPECT_EQ(PrintProgram(p), text);
}

TEST(Text, ErrorsNamePlaceAndRemedy) {
  EXPECT_EQ(ErrorOf("qp a rc\nstart b\n"),
            "f.qpx:2:7: 'b' is used before it is made\n  did you mean 'a'?");
  EXPECT_EQ(ErrorOf("start somebody\n"),
            "f.qpx:1:7: 'somebody' is used before it is made\n"
            "  make it on an earlier line: qp somebody ...");
  EXPECT_EQ(ErrorOf("qp a rc ops=SENDD"),
            "f.qpx:1:13: 'SENDD' is no flag here\n"
            "  did you mean 'SEND'?");
  EXPECT_EQ(ErrorOf("mr m len=8192 access=0"),
            "f.qpx:1:6: 8192 bytes do not fit: 4096 of the arena's 4096 are free (regions begin at "
            "multiples of 64)\n  write 'arena 16384' before the first call");
  EXPECT_EQ(ErrorOf("qpx 2\n"),
            "f.qpx:1:5: version 2 of the text form\n  this qpexam reads versions 1 to 1");
  EXPECT_EQ(ErrorOf("mr m len=8 access=0\nmr m len=8 access=0\n"),
            "f.qpx:2:4: 'm' is made twice\n"
            "  choose another name; a destroyed object's name is not free again");
  EXPECT_EQ(ErrorOf("mr m len=8 access=0\nstore m+4090 bytes=00112233445566\n"),
            "f.qpx:2:1: the memory lies outside the Program's arena\n  stay inside an mr");
  EXPECT_EQ(ErrorOf("cq c\nstart c\n"), "f.qpx:2:7: 'c' is a cq\n  name a qp");
  EXPECT_EQ(ErrorOf("qp a rc\npoll a\n"), "f.qpx:2:6: 'a' is a qp\n  name a cq");
  EXPECT_EQ(ErrorOf("qp a rc\npost_send a flush addr=0x0\n"),
            "f.qpx:2:1: struct ibv_send_wr cannot express flush\n"
            "  use the builder in a start ... complete region");
}

TEST(Text, FilesThatAreNoPrograms) {
  EXPECT_NE(ErrorOf("").find("the file is empty"), std::string::npos);
  EXPECT_NE(ErrorOf("# only a comment\n").find("no call"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string("qp a rc\0", 8)).find("f.qpx:1:8: byte 0x00"), std::string::npos);
  EXPECT_NE(ErrorOf("\x7f"
                    "ELF\x02\x01")
                .find("not a text Program"),
            std::string::npos);
  EXPECT_NE(LoadProgram("/nonexistent/file.qpx").error.Message().find("cannot be opened"),
            std::string::npos);
  EXPECT_NE(LoadProgram("/").error.Message().find("cannot be read"), std::string::npos);
}

TEST(Text, ParallelMustEnd) {
  EXPECT_NE(ErrorOf("parallel\n").find("write join"), std::string::npos);
  EXPECT_NE(ErrorOf("join\n").find("join without parallel"), std::string::npos);
}

// The examples of the guide parse, and its list of calls is the schema's.
TEST(Guide, ExamplesParse) {
  const std::string guide = Contents("docs/program.md");
  int examples = 0;
  for (size_t at = 0; (at = guide.find("```qpx\n", at)) != std::string::npos; ++examples) {
    at += 7;
    const size_t end = guide.find("```", at);
    const ParseResult result = ParseProgram(guide.substr(at, end - at), "docs/program.md example");
    EXPECT_TRUE(result.ok) << result.error.Message();
    at = end;
  }
  EXPECT_GE(examples, 6);
}

TEST(Guide, ListsTheSchema) {
  const std::string guide = Contents("docs/program.md");
  const std::string marker = "<!-- from the schema; a test compares -->\n";
  const size_t at = guide.find(marker);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(guide.substr(at + marker.size()), CallReference());
}

TEST(Dictionary, HoldsEveryWord) {
  const std::string dictionary = Contents("corpus/dictionaries/program.dict");
  auto has = [&](std::string_view word) {
    EXPECT_NE(dictionary.find('"' + std::string(word)), std::string::npos) << word;
  };
  for (const CallSchema& schema : AllSchemas()) {
    has(schema.word);
    for (const Field& f : schema.fields) {
      has(f.word);
      for (const NamedValue& n : f.names) has(n.name);
    }
  }
  for (const model::OperationInfo& info : model::AllOperations()) has(info.builder);
}

// Whatever a text is: an error with a place, or a well-formed Program whose text is stable.
void ExpectTotal(const std::string& text) {
  const ParseResult result = ParseProgram(text, "mutated");
  if (!result.ok) {
    EXPECT_FALSE(result.error.what.empty()) << text;
    return;
  }
  const auto invalid = Validate(result.program);
  ASSERT_FALSE(invalid) << invalid->what << "\n" << text;
  const std::string printed = PrintProgram(result.program);
  const ParseResult again = ParseProgram(printed, "printed");
  ASSERT_TRUE(again.ok) << again.error.Message() << "\n" << text << "\n-- printed:\n" << printed;
  ASSERT_TRUE(SameProgram(result.program, again.program)) << text << "\n-- printed:\n" << printed;
  ASSERT_EQ(PrintProgram(again.program), printed) << text;
}

// 10,000 seeds with a few bytes, tokens or lines changed.
TEST(Text, MutatedSeeds) {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator("corpus/seeds")) {
    if (entry.path().extension() == ".qpx") seeds.push_back(Contents(entry.path().string()));
  }
  std::sort(seeds.begin(), seeds.end());
  ASSERT_GE(seeds.size(), 200u);
  const std::string dictionary = Contents("corpus/dictionaries/program.dict");
  std::vector<std::string> words;
  for (size_t at = 0; (at = dictionary.find('"', at)) != std::string::npos;) {
    const size_t end = dictionary.find('"', at + 1);
    words.push_back(dictionary.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  std::mt19937 random(1);
  auto below = [&](size_t n) { return n ? random() % n : 0; };
  for (int round = 0; round < 10000; ++round) {
    std::string text = seeds[static_cast<size_t>(round) % seeds.size()];
    for (size_t change = 0, n = 1 + below(3); change < n && !text.empty(); ++change) {
      const size_t at = below(text.size());
      switch (below(6)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + below(8));
          break;
        case 2:
          text.insert(at, words[below(words.size())]);
          break;
        case 3: {  // a line moves
          const size_t from = text.rfind('\n', at) + 1;
          const size_t to = text.find('\n', at);
          const std::string line = text.substr(from, to - from) + "\n";
          text.insert(text.rfind('\n', below(text.size())) + 1, line);
          break;
        }
        case 4: {  // a number becomes another
          const size_t digit = text.find_first_of("0123456789", at);
          if (digit != std::string::npos) {
            constexpr const char* kNumbers[] = {
                "0", "1", "4294967295", "4294967296", "18446744073709551615", "0x80000000", "-1"};
            text.replace(digit, 1, kNumbers[below(7)]);
          }
          break;
        }
        default: {  // a token of another seed
          const std::string& other = seeds[below(seeds.size())];
          text.insert(at, other.substr(below(other.size()), below(20)));
          break;
        }
      }
    }
    ExpectTotal(text);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace qpexam
