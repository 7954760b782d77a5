// Every seed of the corpus on one hosted provider: the seams say nothing but what the known bugs of
// this rdma-core make them say, and every known bug that the corpus reaches is seen. Built once for
// each provider (QPEXAM_PROVIDER). What the judge says of the traces is tested elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/devices/provider_family.h"
#include "harness/execute/executor.h"
#include "harness/hosted/testing/known_findings.h"
#include "harness/program/lint.h"
#include "harness/program/parse.h"
#include "harness/trace/trace.h"

namespace qpexam {
namespace {

struct Expectation {
  const char* provider;
  hosted::KnownFinding known;  // an empty kind or clause fits any
};

const Expectation kExpectations[] = {
    {"hns", {"hns-03", "", "65.0", "wqe", "", "bits of a direct WQE in one that is not"}},
    {"hns", {"hns-16", "", "", "wqe", "WR-SGE-001", "ATOMIC_CMP_AND_SWP wr_id=0x1 (2 SGEs"}},
    {"hns", {"hns-fence-builder", "", "", "wqe", "WR-SAMPLE-002", "flags 0x"}},
    {"hns", {"hns-record-after-reset", "", "", "residue", "WR-ATOM-006", "a receive that no call"}},
    {"ionic", {"ionic-atomic-length", "", "", "cqe", "WR-COMP-008", "byte_len is 0x"}},
    {"ionic", {"ionic-full-queue", "", "", "wqe", "WR-ATOM-007", "but the device got"}},
    {"ionic", {"ionic-full-queue", "", "", "cqe", "WR-SAMPLE-001", "wr_id is 0x"}},
    {"ionic",
     {"ionic-full-queue", "", "", "wqe", "WR-SAMPLE-002", "SGEs posted, the WQE has inline"}},
    {"ionic", {"ionic-abort-messages", "", "", "cqe", "WR-CQX-001", "says that the CQ is empty"}},
    {"rxe", {"rxe-01", "", "65.0", "wqe", "", "dma.length is"}},
    {"rxe", {"rxe-04", "", "65.0", "lock", "WR-CQX-002", "releases a lock"}},
    {"rxe", {"rxe-inline-flag", "", "", "wqe", "", "IBV_SEND_INLINE is not set"}},
    // Inside a list of lengths that is 0 the missing flag does not show in the length.
    {"rxe", {"rxe-inline-list-length", "", "65.0", "wqe", "", "inline data posted"}},
    {"rxe", {"rxe-flush-length-32-bits", "", "", "wqe", "WR-DATA-020", "FLUSH of"}},
    {"rxe", {"rxe-failed-region-stays", "", "", "residue", "WR-ATOM-006", "no successful call"}},
};

bool Fits(const hosted::KnownFinding& known, const SessionFinding& f) {
  return f.kind == known.kind && (*known.clause == 0 || f.clause == known.clause) &&
         f.what.find(known.what) != std::string::npos;
}

// Which freedoms of the device a run takes: 0 leaves it to the Programs, which are friendly.
class CorpusTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(CorpusTest, TheSeamsSayNothingButWhatIsKnown) {
  ProviderInfo info;
  std::string why;
  ASSERT_TRUE(FindProvider("hosted:" QPEXAM_PROVIDER, &info, &why)) << why;
  std::unique_ptr<DeviceSession> session = OpenProvider(info, &why);
  ASSERT_NE(session, nullptr) << why;

  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("corpus/seeds")) {
    if (entry.path().extension() == ".qpx") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  ASSERT_GE(files.size(), 100u);

  std::vector<const Expectation*> expected;
  for (const Expectation& e : kExpectations) {
    if (std::string_view(e.provider) == QPEXAM_PROVIDER && hosted::HasBug(e.known)) {
      expected.push_back(&e);
    }
  }
  std::vector<int> used(expected.size());
  Executor executor(session.get());
  for (const std::string& file : files) {
    ParseResult parsed = LoadProgram(file);
    ASSERT_TRUE(parsed.ok) << parsed.error.Message();
    session->FitDefaults(&parsed.program);
    RunOptions options;
    if (auto undefined = FirstUndefined(parsed.program)) options.cut_at = undefined->cut_at;
    Trace trace;
    session->BeginProgram(GetParam() != 0 ? GetParam() : parsed.program.seed);
    executor.Run(parsed.program, options, &trace);
    std::vector<SessionFinding> findings;
    session->TakeFindings(&findings);
    for (const SessionFinding& f : findings) {
      bool known = false;
      for (size_t i = 0; i < expected.size(); ++i) {
        if (!Fits(expected[i]->known, f)) continue;
        known = true;
        ++used[i];
      }
      EXPECT_TRUE(known) << file << ": " << f.kind << " " << f.clause << ": " << f.what << "\n"
                         << f.evidence;
    }
  }
  executor.DropObjects();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_GT(used[i], 0) << expected[i]->known.id << " was not seen: remove the entry";
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CorpusTest, ::testing::Values(0, 2, 3, 6, 8));

}  // namespace
}  // namespace qpexam
