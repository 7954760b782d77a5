// The corpus holds what it promises: every seed parses, is in canonical form, says why it is there
// and makes no undefined use; every misuse is found by the lint with the clause it names.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "harness/program/lint.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".qpx") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(Corpus, SeedsParseAndAreCanonical) {
  const std::vector<std::string> paths = FilesOf("corpus/seeds");
  EXPECT_GE(paths.size(), 200u);
  for (const std::string& path : paths) {
    const ParseResult result = LoadProgram(path);
    ASSERT_TRUE(result.ok) << result.error.Message();
    EXPECT_EQ(PrintProgram(result.program), Contents(path)) << path << ": run 'qpexam fmt'";
    ASSERT_FALSE(result.program.notes.empty()) << path << ": a comment says why it is there";
    EXPECT_EQ(result.program.notes[0].call, 0u) << path;
  }
}

TEST(Corpus, SeedsMakeNoUndefinedUse) {
  for (const std::string& path : FilesOf("corpus/seeds")) {
    const ParseResult result = LoadProgram(path);
    ASSERT_TRUE(result.ok) << result.error.Message();
    const auto finding = FirstUndefined(result.program);
    EXPECT_FALSE(finding) << path << ": " << Message(result.program, *finding);
  }
}

// The first comment of a misuse is "lint: CLAUSE"; the finding is at its last call or, where the
// mistake shows only later, at a call before it.
TEST(Corpus, MisusesAreFoundWithTheirClause) {
  const std::vector<std::string> paths = FilesOf("corpus/misuse");
  EXPECT_GE(paths.size(), 50u);
  for (const std::string& path : paths) {
    const ParseResult result = LoadProgram(path);
    ASSERT_TRUE(result.ok) << result.error.Message();
    ASSERT_FALSE(result.program.notes.empty()) << path;
    const auto finding = FirstUndefined(result.program);
    ASSERT_TRUE(finding) << path << ": the lint finds nothing";
    EXPECT_EQ(" lint: " + std::string(finding->clause), result.program.notes[0].text)
        << path << ": " << Message(result.program, *finding);
  }
}

// Prefixes of a clean Program are clean, too: the cut of a longer Program never makes a new one.
TEST(Corpus, PrefixesOfMisusesAreClean) {
  for (const std::string& path : FilesOf("corpus/misuse")) {
    ParseResult result = LoadProgram(path);
    ASSERT_TRUE(result.ok) << result.error.Message();
    const auto finding = FirstUndefined(result.program);
    ASSERT_TRUE(finding) << path;
    result.program.calls.resize(finding->call);
    EXPECT_FALSE(FirstUndefined(result.program)) << path;
  }
}

}  // namespace
}  // namespace qpexam
