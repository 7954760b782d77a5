#include "harness/process/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

namespace qpexam {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What `script` prints and its status.
std::string Shell(const std::string& script, ProcessStart start = {}) {
  start.arguments = {"sh", "-c", script};
  start.log = testing::TempDir() + "/process-log";
  const int status = WaitForProcess(StartProcess(start));
  return Read(start.log) + "status " + std::to_string(status);
}

TEST(Process, KeepsBothOutputsAndTheStatus) {
  EXPECT_EQ(Shell("echo out; echo err >&2; exit 7"), "out\nerr\nstatus 7");
  EXPECT_EQ(Shell("kill -9 $$"), "status 137");
}

TEST(Process, HasNothingToRead) { EXPECT_EQ(Shell("cat; echo end"), "end\nstatus 0"); }

TEST(Process, ErrorsCanBeDropped) {
  ProcessStart start;
  start.errors = false;
  EXPECT_EQ(Shell("echo out; echo err >&2", start), "out\nstatus 0");
}

TEST(Process, EnvironmentAndFolder) {
  setenv("QPEXAM_PROCESS_TEST", "ours", 1);
  ProcessStart start;
  start.without = {"QPEXAM_PROCESS_TEST"};
  start.environment = {"QPEXAM_PROCESS_OTHER=theirs"};
  start.folder = "/";
  EXPECT_EQ(Shell("echo ${QPEXAM_PROCESS_TEST-none} $QPEXAM_PROCESS_OTHER; pwd", start),
            "none theirs\n/\nstatus 0");
}

TEST(Process, ALogIsReplacedOrGoesOn) {
  Shell("echo first");
  ProcessStart start;
  start.append = true;
  EXPECT_EQ(Shell("echo second", start), "first\nsecond\nstatus 0");
  EXPECT_EQ(Shell("echo third"), "third\nstatus 0");
}

TEST(Process, AProgramThatIsNotThere) {
  ProcessStart start;
  start.arguments = {"/nonexistent/program"};
  start.log = testing::TempDir() + "/process-log";
  EXPECT_EQ(WaitForProcess(StartProcess(start)), 127);
  EXPECT_EQ(Read(start.log),
            "/nonexistent/program: cannot be started: No such file or directory\n");
}

TEST(Process, AGroupEndsAsAWhole) {
  ProcessStart start;
  start.arguments = {"sh", "-c", "sleep 100 & echo $!; wait"};
  start.log = testing::TempDir() + "/process-group";
  std::remove(start.log.c_str());
  const pid_t child = StartProcess(start);
  ASSERT_GT(child, 0);
  std::string said;
  for (int i = 0; i < 1000 && said.find('\n') == std::string::npos; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    said = Read(start.log);
  }
  const pid_t grandchild = static_cast<pid_t>(std::atol(said.c_str()));
  ASSERT_GT(grandchild, 0);
  ASSERT_EQ(kill(-child, SIGKILL), 0);
  EXPECT_EQ(WaitForProcess(child), 128 + SIGKILL);
  // Whoever inherits it collects it; gone, or dead and not yet collected.
  bool running = true;
  for (int i = 0; i < 1000 && running; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::string stat = Read("/proc/" + std::to_string(grandchild) + "/stat");
    running = !stat.empty() && stat.find(") Z ") == std::string::npos;
  }
  EXPECT_FALSE(running);
}

TEST(LastLines, Counts) {
  EXPECT_EQ(LastLines("a\nb\nc\n", 2), "b\nc\n");
  EXPECT_EQ(LastLines("a\nb\nc", 2), "b\nc");
  EXPECT_EQ(LastLines("a\nb\n", 2), "a\nb\n");
  EXPECT_EQ(LastLines("a\nb\n", 9), "a\nb\n");
  EXPECT_EQ(LastLines("\n", 1), "\n");
  EXPECT_EQ(LastLines("", 3), "");
}

}  // namespace
}  // namespace qpexam
