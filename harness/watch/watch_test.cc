// The watchdog: a provider that dies, hangs or refuses to open is told as what it is, and the
// Programs behind it run all the same.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "harness/program/parse.h"
#include "harness/watch/watched_run.h"

namespace qpexam {
namespace {

// The reference, with a taste for trouble: a Program's seed says which.
constexpr uint64_t kSegfault = 101, kHang = 102, kExit = 103, kReport = 104;

class Troubled : public DeviceSession {
 public:
  explicit Troubled(std::unique_ptr<DeviceSession> good) : good_(std::move(good)) {}
  const std::string& provider() const override { return good_->provider(); }
  const std::string& version() const override { return good_->version(); }
  ibv_context* Open(unsigned index) override { return good_->Open(index); }
  void BeginWait() override { good_->BeginWait(); }
  bool Step(Rest* rest) override { return good_->Step(rest); }
  Rest Settle() override { return good_->Settle(); }
  bool detects_undefined() const override { return true; }
  void BeginProgram(uint64_t seed) override {
    // The default action, whatever a sanitizer has installed.
    signal(SIGSEGV, SIG_DFL);
    if (seed == kSegfault) raise(SIGSEGV);
    if (seed == kHang) std::this_thread::sleep_for(std::chrono::hours(1));
    if (seed == kExit) _exit(7);
    if (seed == kReport) {
      const char report[] = "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1\n";
      if (write(2, report, sizeof report - 1) > 0) _exit(1);
    }
  }

 private:
  std::unique_ptr<DeviceSession> good_;
};

class TroubledFamily : public ProviderFamily {
 public:
  std::string_view family() const override { return "troubled"; }
  std::vector<ProviderInfo> List() const override {
    ProviderInfo one, closed;
    one.name = "troubled:one";
    closed.name = "troubled:closed";
    return {one, closed};
  }
  std::unique_ptr<DeviceSession> Open(const ProviderInfo& info, std::string* why) const override {
    if (info.name == "troubled:closed") {
      *why = "it is closed; open it";
      return nullptr;
    }
    ProviderInfo reference;
    if (!FindProvider("reference", &reference, why)) return nullptr;
    return std::make_unique<Troubled>(OpenProvider(reference, why));
  }
};
const RegisterFamily<TroubledFamily> kRegistered;

Program Parse(const std::string& text) {
  ParseResult parsed = ParseProgram(text, "test");
  EXPECT_TRUE(parsed.ok) << parsed.error.Message();
  return parsed.program;
}

std::vector<RunResult> RunOn(const std::string& provider, const std::vector<Program>& programs,
                             WatchOptions options = {}) {
  options.stall = std::chrono::milliseconds(300);
  ProviderInfo info;
  std::string why;
  EXPECT_TRUE(FindProvider(provider, &info, &why)) << why;
  std::vector<RunResult> results;
  EXPECT_EQ(
      RunWatched(info, programs, options, [&](RunResult&& r) { results.push_back(std::move(r)); }),
      "");
  return results;
}

Program WithSeed(uint64_t seed) {
  return Parse("seed " + std::to_string(seed) + "\nqp a rc ops=SEND\nconnect a a\n");
}

TEST(Watch, ProgramsThatRunWellGiveOneResultEachInOrder) {
  std::vector<Program> programs(20, WithSeed(1));
  WatchOptions options;
  options.want_trace = true;
  std::vector<RunResult> results = RunOn("reference", programs, options);
  ASSERT_EQ(results.size(), 20u);
  for (size_t i = 0; i < results.size(); i++) {
    EXPECT_EQ(results[i].index, i);
    EXPECT_EQ(results[i].ended, Ended::kWell) << results[i].fatal;
    EXPECT_NE(results[i].trace.find("@end settled=1"), std::string::npos) << results[i].trace;
  }
}

TEST(Watch, WhatARefusedObjectKeptFromBeingCalledIsCounted) {
  const std::vector<RunResult> results =
      RunOn("reference", {WithSeed(1), Parse("mr m len=64 access=REMOTE_WRITE\n"
                                             "destroy m\n")});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].not_made, 0u);
  EXPECT_EQ(results[0].refused, ~0u);
  // REMOTE_WRITE wants LOCAL_WRITE.
  EXPECT_EQ(results[1].not_made, 1u);
  EXPECT_EQ(results[1].refused, 0u);
  EXPECT_EQ(results[1].refused_with, EINVAL);
}

TEST(Watch, EachEndIsToldApartAndTheRestRuns) {
  std::vector<Program> programs;
  for (uint64_t seed : {uint64_t{1}, kSegfault, uint64_t{2}, kHang, kExit, kReport, uint64_t{3}})
    programs.push_back(WithSeed(seed));
  std::vector<RunResult> results = RunOn("troubled:one", programs);
  ASSERT_EQ(results.size(), programs.size());
  EXPECT_EQ(results[0].ended, Ended::kWell);
  EXPECT_EQ(results[1].ended, Ended::kCrash);
  EXPECT_EQ(results[1].fatal.substr(0, 14), "crash: SIGSEGV") << results[1].fatal;
  EXPECT_EQ(results[2].ended, Ended::kWell) << results[2].fatal;
  EXPECT_EQ(results[3].ended, Ended::kHang);
  EXPECT_EQ(results[4].ended, Ended::kCrash);
  EXPECT_NE(results[4].fatal.find("status 7"), std::string::npos) << results[4].fatal;
  EXPECT_EQ(results[5].ended, Ended::kSanitizer);
  EXPECT_EQ(results[5].fatal.substr(0, 49), "sanitizer: AddressSanitizer: heap-buffer-overflow")
      << results[5].fatal;
  EXPECT_EQ(results[6].ended, Ended::kWell);
}

TEST(Watch, AProviderThatCannotBeOpenedSaysWhy) {
  ProviderInfo info;
  std::string why;
  ASSERT_TRUE(FindProvider("troubled:closed", &info, &why));
  EXPECT_EQ(RunWatched(info, {WithSeed(1)}, {}, [](RunResult&&) { FAIL(); }),
            "it is closed; open it");
}

TEST(Watch, AStopEndsTheRunWithWhatIsThere) {
  std::atomic<bool> stop{false};
  WatchOptions options;
  options.stop = &stop;
  ProviderInfo info;
  std::string why;
  ASSERT_TRUE(FindProvider("troubled:one", &info, &why));
  size_t results = 0;
  EXPECT_EQ(RunWatched(info, {WithSeed(1), WithSeed(kHang), WithSeed(2)}, options,
                       [&](RunResult&&) {
                         results++;
                         stop = true;
                       }),
            "");
  EXPECT_EQ(results, 1u);
}

TEST(Watch, AChildDiesWithItsParent) {
  // A process in between becomes the parent of the child, is killed, and the child must follow: the
  // pipe that both hold then closes.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int held[2];
  ASSERT_EQ(pipe(held), 0);
  const pid_t between = fork();
  ASSERT_GE(between, 0);
  if (between == 0) {
    close(held[0]);
    ProviderInfo info;
    std::string why;
    FindProvider("troubled:one", &info, &why);
    WatchOptions options;
    options.stall = std::chrono::hours(1);
    RunWatched(info, {WithSeed(1), WithSeed(kHang)}, options, [&](RunResult&&) {
      if (write(held[1], "x", 1) != 1) _exit(1);
    });
    _exit(0);
  }
  close(held[1]);
  char byte;
  ASSERT_EQ(read(held[0], &byte, 1), 1);  // the child has run the first Program
  kill(between, SIGKILL);
  EXPECT_EQ(read(held[0], &byte, 1), 0) << "somebody still lives";
  close(held[0]);
  while (waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST(Watch, AnUnknownProviderIsAnsweredWithTheNearestName) {
  ProviderInfo info;
  std::string why;
  EXPECT_FALSE(FindProvider("refrence", &info, &why));
  EXPECT_NE(why.find("did you mean reference?"), std::string::npos) << why;
  EXPECT_FALSE(FindProvider("vm:rxe", &info, &why));
  EXPECT_NE(why.find("guest kernels are not part of this build"), std::string::npos) << why;
}

}  // namespace
}  // namespace qpexam
