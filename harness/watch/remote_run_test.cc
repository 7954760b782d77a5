// Batches on a machine that dies, by a machine that is a script.
#include "harness/watch/remote_run.h"

#include <gtest/gtest.h>

#include <atomic>

#include "harness/execute/executor.h"
#include "harness/program/parse.h"
#include "harness/remote/batch.h"
#include "harness/trace/trace_text.h"

namespace qpexam {
namespace {

using remote::MachineEnd;
using remote::MachineJob;

// Runs batches on the reference, and dies of the Program with this number.
class Scripted : public remote::Machine {
 public:
  size_t dies_of = ~size_t{0};
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
    for (const remote::BatchProgram& p : programs) {
      job.on_results(remote::PrintBegin(p.index));
      if (p.index == dies_of) {
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

TEST_F(RemoteRunTest, SaysWhyNothingCameUp) {
  machine_.how = MachineEnd::kNotUp;
  EXPECT_EQ(Run(), "no boot");
  EXPECT_TRUE(results_.empty());
}

}  // namespace
}  // namespace qpexam
