// Emitted C files compile without a warning, and over the reference provider they see what the
// executor saw: each is compiled into a shared object, loaded here, where libibverbs and the
// reference are, and its main() called in a child. usleep() moves the virtual clock.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/devices/provider_family.h"
#include "harness/emit/emit_c.h"
#include "harness/execute/executor.h"
#include "harness/program/lint.h"
#include "harness/program/parse.h"

namespace fs = std::filesystem;

int every = 40;        // how many seeds there are to one that is tried
std::string includes;  // -I...

// What an emitted file waits with.
qpexam::DeviceSession* clock_of_emitted = nullptr;
extern "C" int emitted_usleep(unsigned) {
  clock_of_emitted->Settle();
  return 0;
}

namespace qpexam {
namespace {

std::unique_ptr<DeviceSession> Open(const char* name) {
  ProviderInfo info;
  std::string why;
  EXPECT_TRUE(FindProvider(name, &info, &why)) << why;
  return OpenProvider(info, &why);
}

std::string Emitted(const Program& program) {
  std::unique_ptr<DeviceSession> session = Open("reference");
  Executor executor(session.get());
  RunOptions options;
  if (std::optional<LintFinding> cut = FirstUndefined(program)) options.cut_at = cut->cut_at;
  Trace trace;
  executor.Run(program, options, &trace);
  return EmitC(program, trace, "a test");
}

// The exit status of the emitted program on a provider; -1 where it does not compile.
int RunEmitted(const std::string& source, const char* provider, std::string* output) {
  const std::string base = fs::path(::testing::TempDir()) / ("emitted-" + std::to_string(getpid()));
  std::ofstream(base + ".c") << source;
  const std::string compile =
      "cc -Wall -Werror -shared -fPIC -Dmain=emitted_main "
      "-Dusleep=emitted_usleep -DWAIT_MS=2 " +
      includes + " -o " + base + ".so " + base + ".c 2>&1";
  // WAIT_MS is the file's own; here nothing takes real time.
  std::string text = source;
  const size_t wait = text.find("#define WAIT_MS");
  text.insert(wait, "#undef WAIT_MS\n");
  const size_t number = text.find("500", wait);
  text.replace(number, 3, "3");
  std::ofstream(base + ".c") << text;
  FILE* cc = popen(compile.c_str(), "r");
  char line[512];
  while (cc && fgets(line, sizeof line, cc)) *output += line;
  if (!cc || pclose(cc) != 0) return -1;
  const std::string log = base + ".log";
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen(log.c_str(), "w", stdout)) _exit(9);
    dup2(1, 2);
    void* object = dlopen((base + ".so").c_str(), RTLD_NOW);
    if (!object) {
      puts(dlerror());
      fflush(stdout);
      _exit(8);
    }
    auto* emitted = reinterpret_cast<int (*)(int, char**)>(dlsym(object, "emitted_main"));
    std::unique_ptr<DeviceSession> session = Open(provider);
    clock_of_emitted = session.get();
    ibv_context* any = session->Open(0);
    std::string name = any ? ibv_get_device_name(any->device) : "";
    char self[] = "repro";
    char* argv[] = {self, name.data(), nullptr};
    const int status = emitted(2, argv);
    fflush(stdout);
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::ifstream in(log);
  *output += std::string(std::istreambuf_iterator<char>(in), {});
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(EmitC, BehavesAsTheExecutorSaw) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator("corpus/seeds"))
    if (entry.path().extension() == ".qpx") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  ASSERT_GT(files.size(), 60u);
  int tried = 0;
  for (size_t i = 0; i < files.size(); i += static_cast<size_t>(every)) {
    ParseResult parsed = LoadProgram(files[i]);
    ASSERT_TRUE(parsed.ok) << parsed.error.Message();
    if (!WhyNoC(parsed.program).empty()) continue;
    std::string output;
    const int status = RunEmitted(Emitted(ForC(parsed.program)), "reference", &output);
    EXPECT_EQ(status, 0) << files[i] << "\n" << output;
    tried++;
  }
  EXPECT_GT(tried, 8);
}

TEST(EmitC, TellsWhatDiffers) {
  ParseResult parsed = LoadProgram("corpus/seeds/01-manual-example.qpx");
  ASSERT_TRUE(parsed.ok);
  const std::string source = Emitted(parsed.program);
  std::string output;
  EXPECT_EQ(RunEmitted(source, "faulty:flags-of-previous-request", &output), 1) << output;
  EXPECT_NE(output.find("DIFFERS"), std::string::npos) << output;
  EXPECT_NE(output.find("observed none"), std::string::npos) << output;
}

TEST(EmitC, SaysWhyNot) {
  ParseResult parsed = ParseProgram("qpx 1\nthread t\n", "test");
  ASSERT_TRUE(parsed.ok);
  EXPECT_NE(WhyNoC(parsed.program).find("threads"), std::string::npos);
}

}  // namespace
}  // namespace qpexam

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1) every = std::atoi(argv[1]);
  for (int i = 2; i < argc; i++) {
    const std::string path = argv[i];
    for (const char* last :
         {"infiniband/verbs.h", "infiniband/ib_user_ioctl_verbs.h", "rdma/ib_user_verbs.h"}) {
      const size_t at = path.rfind(last);
      if (at != std::string::npos && at + std::string(last).size() == path.size())
        includes += " -I" + path.substr(0, at);
    }
  }
  return RUN_ALL_TESTS();
}
