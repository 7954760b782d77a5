// The byte form: every byte string is a Program, Programs survive the way there and back, and a
// changed byte changes one call.
#include "harness/program/bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/program/schema.h"
#include "harness/program/validate.h"

namespace qpexam {
namespace {

std::vector<Program> Seeds() {
  std::vector<std::string> paths;
  for (const char* folder : {"corpus/seeds", "corpus/misuse"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".qpx") paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Program> seeds;
  for (const std::string& path : paths) {
    ParseResult result = LoadProgram(path);
    EXPECT_TRUE(result.ok) << result.error.Message();
    seeds.push_back(std::move(result.program));
  }
  return seeds;
}

TEST(Bytes, SeedsSurvive) {
  for (Program& seed : Seeds()) {
    Rename(&seed);
    const std::vector<uint8_t> bytes = BytesFromProgram(seed);
    const Program back = ProgramFromBytes(bytes.data(), bytes.size());
    ASSERT_TRUE(SameProgram(seed, back)) << PrintProgram(seed) << "\n-- decoded:\n"
                                         << PrintProgram(back);
    EXPECT_EQ(BytesFromProgram(back), bytes);
  }
}

TEST(Bytes, EmptyAndZerosAreTheEmptyProgram) {
  EXPECT_TRUE(ProgramFromBytes(nullptr, 0).calls.empty());
  const std::vector<uint8_t> zeros(1000);
  const Program p = ProgramFromBytes(zeros.data(), zeros.size());
  EXPECT_TRUE(p.calls.empty());
  EXPECT_EQ(p.arena, Program{}.arena);
}

// Any bytes give a well-formed Program, and its text gives it back.
TEST(Bytes, RandomBytesAreTotal) {
  std::mt19937 random(7);
  size_t calls = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> bytes(random() % 1500);
    for (uint8_t& b : bytes) {
      // Small values are common, as they are in corpora.
      b = static_cast<uint8_t>(random() % 3 ? random() % 32 : random());
    }
    const Program p = ProgramFromBytes(bytes.data(), bytes.size());
    const auto invalid = Validate(p);
    ASSERT_FALSE(invalid) << invalid->what << "\n" << PrintProgram(p);
    calls += p.calls.size();
    const std::string text = PrintProgram(p);
    const ParseResult parsed = ParseProgram(text, "decoded");
    ASSERT_TRUE(parsed.ok) << parsed.error.Message() << "\n" << text;
    ASSERT_TRUE(SameProgram(p, parsed.program)) << text;
    const std::vector<uint8_t> again = BytesFromProgram(parsed.program);
    ASSERT_TRUE(SameProgram(p, ProgramFromBytes(again.data(), again.size(), kNoByteLimits)))
        << text;
  }
  EXPECT_GT(calls, 10000u);
}

// A byte that is changed in the record of one call leaves the others alone, unless it changes
// which objects there are.
TEST(Bytes, AChangedByteChangesOneCall) {
  std::mt19937 random(3);
  size_t same = 0, changed = 0;
  for (const Program& seed : Seeds()) {
    const std::vector<uint8_t> bytes = BytesFromProgram(seed);
    for (int round = 0; round < 20; ++round) {
      std::vector<uint8_t> other = bytes;
      const size_t at = random() % other.size();
      if (at < kRecordBytes) continue;
      other[at] = static_cast<uint8_t>(other[at] ^ (1 + random() % 255));
      const Program a = ProgramFromBytes(bytes.data(), bytes.size());
      const Program b = ProgramFromBytes(other.data(), other.size());
      if (a.objects.size() != b.objects.size() || a.calls.size() != b.calls.size()) continue;
      size_t different = 0;
      for (size_t i = 0; i < a.calls.size(); ++i) different += !SameCall(a.calls[i], b.calls[i]);
      different <= 1 ? ++same : ++changed;
    }
  }
  EXPECT_GT(same, 5000u);
  // The rest: a region's length moves the memory behind it.
  EXPECT_LT(changed, same / 50);
}

TEST(Bytes, LimitsHold) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint8_t> bytes(40000);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    const Program p = ProgramFromBytes(bytes.data(), bytes.size());
    EXPECT_LE(p.arena, ByteLimits{}.arena);
    EXPECT_LE(p.calls.size(), ByteLimits{}.calls + 1);  // a join may be added
  }
}

}  // namespace
}  // namespace qpexam
