// Batches on a machine that dies, by a machine that is a script.
#include "harness/watch/remote_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "harness/execute/executor.h"
#include "harness/program/parse.h"
#include "harness/remote/batch.h"
#include "harness/trace/trace_text.h"

namespace qpexam {
namespace {

using remote::MachineEnd;
using remote::MachineJob;

// Runs batches on the reference, and dies of the Program with this number. With several jobs all
// Programs begin before the first ends, and they end in the order of the last to the first.
class Scripted : public remote::Machine {
 public:
  size_t dies_of = ~size_t{0};
  bool dies_alone = true;  // else only of several at a time
  unsigned jobs = 1;
  mutable std::vector<std::vector<uint64_t>> sent;
  MachineEnd::Kind how = MachineEnd::kDied;
  mutable int starts = 0;

  MachineEnd Run(const MachineJob& job) const override {
    starts++;
    ProviderInfo info;
    std::string why;
    EXPECT_TRUE(FindProvider("reference", &info, &why));
    const std::unique_ptr<DeviceSession> session = OpenProvider(info, &why);
    Executor executor(session.get());
    std::vector<remote::BatchProgram> programs;
    EXPECT_TRUE(remote::ParseBatch(job.input, &programs, &why)) << why;
    MachineEnd end;
    end.kind = MachineEnd::kEnded;
    if (how == MachineEnd::kNotUp) {
      end.kind = how;
      end.why = "no boot";
      return end;
    }
    job.on_results(remote::PrintHead("rxe0", "44.0"));
    const bool several =
        std::find(job.arguments.begin(), job.arguments.end(), "--jobs=1") == job.arguments.end();
    sent.emplace_back();
    for (const remote::BatchProgram& p : programs) sent.back().push_back(p.index);
    if (several) {
      for (const remote::BatchProgram& p : programs) job.on_results(remote::PrintBegin(p.index));
      std::reverse(programs.begin(), programs.end());
    }
    for (const remote::BatchProgram& p : programs) {
      if (!several) job.on_results(remote::PrintBegin(p.index));
      if (p.index == dies_of && (several || dies_alone)) {
        end.kind = MachineEnd::kDied;
        end.why = "the guest kernel died: BUG: something";
        end.log = "BUG: something\nCall Trace:\n";
        return end;
      }
      ParseResult parsed = ParseProgram(p.text, "p");
      EXPECT_TRUE(parsed.ok);
      Trace trace;
      executor.Run(parsed.program, {}, &trace);
      job.on_results(remote::PrintItem(p.index, PrintTrace(parsed.program, trace), 1));
    }
    job.on_results(remote::PrintEnd());
    return end;
  }
  remote::Pace PaceOf(size_t programs) const override {
    return {programs > 1 ? jobs : 1, std::chrono::milliseconds(1000)};
  }
};

class RemoteRunTest : public ::testing::Test {
 protected:
  RemoteRunTest() {
    for (const char* text : {"cq c n=4\n", "mr m len=64\n", "qp a rc\nsettle\n"}) {
      ParseResult parsed = ParseProgram(text, "p");
      EXPECT_TRUE(parsed.ok) << parsed.error.Message();
      programs_.push_back(parsed.program);
    }
    provider_.name = "vm:test";
    provider_.kind = ProviderKind::kDevice;
  }
  std::string Run() {
    WatchOptions options;
    options.begun = &begun_;
    return RunOnMachine(machine_, provider_, programs_, options,
                        [&](RunResult&& r) { results_.push_back(std::move(r)); });
  }
  Scripted machine_;
  std::atomic<uint64_t> begun_{0};
  ProviderInfo provider_;
  std::vector<Program> programs_;
  std::vector<RunResult> results_;
};

TEST_F(RemoteRunTest, JudgesWhatComesBack) {
  EXPECT_EQ(Run(), "");
  ASSERT_EQ(results_.size(), 3u);
  EXPECT_EQ(machine_.starts, 1);
  EXPECT_EQ(begun_.load(), 3u);
  for (size_t i = 0; i < results_.size(); i++) {
    EXPECT_EQ(results_[i].index, i);
    EXPECT_EQ(results_[i].ended, Ended::kWell) << results_[i].fatal;
    EXPECT_TRUE(results_[i].verdict.findings.empty());
  }
}

TEST_F(RemoteRunTest, GoesOnBehindTheProgramThatKilledTheKernel) {
  machine_.dies_of = 1;
  EXPECT_EQ(Run(), "");
  ASSERT_EQ(results_.size(), 3u);
  EXPECT_EQ(machine_.starts, 2);
  EXPECT_EQ(results_[1].index, 1u);
  EXPECT_EQ(results_[1].ended, Ended::kCrash);
  EXPECT_EQ(results_[1].fatal,
            "crash: the guest kernel died: BUG: something\nBUG: something\nCall Trace:\n");
  EXPECT_EQ(results_[2].ended, Ended::kWell);
}

TEST_F(RemoteRunTest, StartsNoThirdTimeAfterTheLast) {
  machine_.dies_of = 2;
  EXPECT_EQ(Run(), "");
  EXPECT_EQ(machine_.starts, 1);
  ASSERT_EQ(results_.size(), 3u);
  EXPECT_EQ(begun_.load(), 3u);
  EXPECT_EQ(results_[2].ended, Ended::kCrash);
}

TEST_F(RemoteRunTest, DeliversInOrderWhatEndsInAnother) {
  machine_.jobs = 3;
  EXPECT_EQ(Run(), "");
  ASSERT_EQ(results_.size(), 3u);
  for (size_t i = 0; i < results_.size(); i++) EXPECT_EQ(results_[i].index, i);
  EXPECT_EQ(machine_.starts, 1);
}

TEST_F(RemoteRunTest, TellsByTryingAloneOfWhichItDied) {
  machine_.jobs = 3;
  machine_.dies_of = 1;  // 2 has ended then, 0 and 1 are open
  EXPECT_EQ(Run(), "");
  const std::vector<std::vector<uint64_t>> sent = {{0, 1, 2}, {0, 1}};
  EXPECT_EQ(machine_.sent, sent);
  ASSERT_EQ(results_.size(), 3u);
  for (size_t i = 0; i < results_.size(); i++) EXPECT_EQ(results_[i].index, i);
  EXPECT_EQ(results_[0].ended, Ended::kWell);
  EXPECT_EQ(results_[1].ended, Ended::kCrash);
  EXPECT_EQ(results_[1].fatal.find("crash: the guest kernel died"), 0u) << results_[1].fatal;
  EXPECT_EQ(results_[2].ended, Ended::kWell);
  EXPECT_EQ(begun_.load(), 3u);
}

TEST_F(RemoteRunTest, KeepsADeathThatNoneOfThemShowsAlone) {
  machine_.jobs = 3;
  machine_.dies_of = 1;
  machine_.dies_alone = false;
  EXPECT_EQ(Run(), "");
  ASSERT_EQ(results_.size(), 3u);
  EXPECT_EQ(results_[0].ended, Ended::kCrash);
  EXPECT_EQ(results_[0].fatal.find("beside 1 other programs, and not alone: crash: the guest"), 0u)
      << results_[0].fatal;
  EXPECT_EQ(results_[1].ended, Ended::kWell);
  EXPECT_EQ(results_[2].ended, Ended::kWell);
}

TEST_F(RemoteRunTest, SaysWhyNothingCameUp) {
  machine_.how = MachineEnd::kNotUp;
  EXPECT_EQ(Run(), "no boot");
  EXPECT_TRUE(results_.empty());
}

}  // namespace
}  // namespace qpexam
