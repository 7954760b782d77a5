// The corpus holds what it promises: every seed parses, is in canonical form, says why it is there
// and makes no undefined use; every misuse is found by the lint with the clause it names.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/program/lint.h"
#include "harness/program/parse.h"
#include "harness/program/print.h"
#include "harness/program/validate.h"
#include "reference/model/ops.h"

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

// What the seeds build: their operations by QP type, DATA setters by operation, QP setters, and
// where in the ring a region that fills it begins.
struct Built {
  std::set<std::pair<model::Operation, model::QpType>> cells;
  std::set<std::pair<model::Operation, CallKind>> setters;
  std::set<CallKind> qp_setters;
  std::set<std::pair<uint64_t, uint64_t>> full_regions;  // requests, offset
};

void Collect(const Program& program, Built* built) {
  struct Queue {
    model::QpType type;
    uint64_t depth;
    std::optional<model::Operation> op;  // built last
    uint64_t staged = 0, posted = 0;
  };
  std::map<ObjectId, Queue> queues;
  for (const Call& call : program.calls) {
    if (call.kind == CallKind::kQp) queues[call.object] = {call.qp_type, call.sq, {}};
    const auto at = queues.find(call.object);
    if (at == queues.end()) continue;
    Queue& queue = at->second;
    switch (call.kind) {
      case CallKind::kStart:
      case CallKind::kAbort:
        queue.staged = 0;
        break;
      case CallKind::kBuild:
        queue.op = call.op;
        ++queue.staged;
        built->cells.insert({call.op, queue.type});
        break;
      case CallKind::kComplete:
        if (queue.staged == queue.depth && queue.depth != 0) {
          built->full_regions.insert({queue.depth, queue.posted % queue.depth});
        }
        queue.posted += queue.staged;
        queue.staged = 0;
        break;
      case CallKind::kSetSge:
      case CallKind::kSetSgeList:
      case CallKind::kSetInline:
      case CallKind::kSetInlineList:
        if (queue.op) built->setters.insert({*queue.op, call.kind});
        break;
      case CallKind::kSetUdAddr:
      case CallKind::kSetXrcSrqn:
        built->qp_setters.insert(call.kind);
        break;
      default:
        break;
    }
  }
}

// Every supported cell of table A, every setter, every offset of the ring: what the corpus must
// hold, told by the table itself. (Every state and status: //harness/command:corpus_test.)
TEST(Corpus, SeedsHoldEveryCellSetterAndOffset) {
  Built built;
  for (const std::string& path : FilesOf("corpus/seeds")) {
    const ParseResult result = LoadProgram(path);
    ASSERT_TRUE(result.ok) << result.error.Message();
    Collect(result.program, &built);
  }
  for (const model::OperationInfo& info : model::AllOperations()) {
    for (const model::QpType type : {model::QpType::kRc, model::QpType::kUc, model::QpType::kUd,
                                     model::QpType::kXrcSend, model::QpType::kRawPacket}) {
      if ((info.reference_types & model::MaskOf(type)) == 0) continue;
      EXPECT_EQ(built.cells.count({info.op, type}), 1u)
          << "no seed builds " << info.name << " on QP type " << static_cast<int>(type);
    }
    std::vector<CallKind> setters;
    if (info.data == model::DataRule::kSgeOrInline || info.data == model::DataRule::kSge ||
        info.data == model::DataRule::kOneSgeOf8) {
      setters = {CallKind::kSetSge, CallKind::kSetSgeList};
    }
    if (info.data == model::DataRule::kSgeOrInline) {
      setters.insert(setters.end(), {CallKind::kSetInline, CallKind::kSetInlineList});
    }
    for (const CallKind setter : setters) {
      EXPECT_EQ(built.setters.count({info.op, setter}), 1u)
          << "no seed gives " << info.name << " its data by setter "
          << static_cast<int>(setter) - static_cast<int>(CallKind::kSetSge);
    }
  }
  EXPECT_EQ(built.qp_setters.size(), 2u);
  for (const uint64_t depth : {1u, 2u, 4u, 8u}) {
    for (uint64_t offset = 0; offset < depth; ++offset) {
      EXPECT_EQ(built.full_regions.count({depth, offset}), 1u)
          << "no seed fills a ring of " << depth << " from offset " << offset;
    }
  }
}

// Prefixes of a clean Program are clean, too: the cut of a longer Program never makes a new one.
TEST(Corpus, PrefixesOfMisusesAreClean) {
  for (const std::string& path : FilesOf("corpus/misuse")) {
    ParseResult result = LoadProgram(path);
    ASSERT_TRUE(result.ok) << result.error.Message();
    const auto finding = FirstUndefined(result.program);
    ASSERT_TRUE(finding) << path;
    result.program.calls.resize(finding->cut_at);
    EXPECT_FALSE(FirstUndefined(result.program)) << path;
  }
}

}  // namespace
}  // namespace qpexam
