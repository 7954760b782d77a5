// rdma-core's own programs, unchanged, on the reference: "any verbs program runs on it".
//
// Each program's main() is called in this process; a ping-pong is two of them, a server and a
// client, that meet over a local TCP port as they would on two machines.
#include <getopt.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern "C" {
int device_list_main(int argc, char** argv);
int devinfo_main(int argc, char** argv);
int rc_pingpong_main(int argc, char** argv);
int srq_pingpong_main(int argc, char** argv);
int uc_pingpong_main(int argc, char** argv);
int ud_pingpong_main(int argc, char** argv);
}

namespace qpexam::provider {
namespace {

using Main = int (*)(int, char**);

int RunProgram(Main program, std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  return program(static_cast<int>(arguments.size()), argv.data());
}

TEST(RdmaCoreProgramsTest, IbvDevicesListsUs) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(RunProgram(device_list_main, {"ibv_devices"}), 0);
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_NE(out.find("qpexam0"), std::string::npos) << out;
  EXPECT_NE(out.find("0002c90300000001"), std::string::npos) << out;
}

TEST(RdmaCoreProgramsTest, IbvDevinfoDescribesUs) {
  testing::internal::CaptureStdout();
  optind = 0;
  EXPECT_EQ(RunProgram(devinfo_main, {"ibv_devinfo", "-v", "-d", "qpexam0"}), 0);
  const std::string out = testing::internal::GetCapturedStdout();
  for (const char* line : {"hca_id:\tqpexam0", "PORT_ACTIVE (4)", "link_layer:\t\tEthernet",
                           "atomic_cap:\t\t\tATOMIC_HCA", "RoCE v2", "max_tso"})
    EXPECT_NE(out.find(line), std::string::npos) << line << " is missing in\n" << out;
}

// A TCP port that nobody listens on.
int FreePort() {
  int fd = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  socklen_t length = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  close(fd);
  return ntohs(address.sin6_port);
}

// Whether somebody listens there, without touching the port: the server is about to bind it.
bool Listens(int port) {
  char wanted[8];
  snprintf(wanted, sizeof(wanted), ":%04X", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string slot, local, remote, state;
      words >> slot >> local >> remote >> state;
      const size_t colon = local.find(':');
      if (state == "0A" && colon != std::string::npos && local.substr(colon) == wanted) return true;
    }
  }
  return false;
}

struct PingPong {
  const char* name;
  Main program;
  std::vector<std::string> options;
};
void PrintTo(const PingPong& p, std::ostream* out) { *out << p.name; }

class PingPongTest : public testing::TestWithParam<PingPong> {};

TEST_P(PingPongTest, BothEndsFinish) {
  const std::string port = std::to_string(FreePort());
  std::vector<std::string> arguments = {
      GetParam().name, "-d", "qpexam0", "-g", "1", "-p", port, "-n", "50", "-s", "512"};
  for (const std::string& option : GetParam().options) arguments.push_back(option);
  // getopt's state is the process's: the client starts when the server waits in accept().
  optind = 0;
  int server = -1;
  std::atomic<bool> served{false};
  std::thread serving([&, arguments] {
    server = RunProgram(GetParam().program, arguments);
    served = true;
  });
  // Until it listens, or has given up.
  while (!Listens(std::stoi(port)) && !served)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  optind = 0;
  arguments.push_back("127.0.0.1");
  EXPECT_EQ(RunProgram(GetParam().program, arguments), 0);
  serving.join();
  EXPECT_EQ(server, 0);
}

INSTANTIATE_TEST_SUITE_P(RdmaCore, PingPongTest,
                         testing::Values(PingPong{"rc", rc_pingpong_main, {"-c"}},
                                         PingPong{"rc_events", rc_pingpong_main, {"-e", "-c"}},
                                         PingPong{"rc_new_send", rc_pingpong_main, {"-N"}},
                                         PingPong{"rc_timestamps", rc_pingpong_main, {"-t"}},
                                         PingPong{"uc", uc_pingpong_main, {}},
                                         PingPong{"ud", ud_pingpong_main, {}},
                                         PingPong{"srq", srq_pingpong_main, {"-q", "3"}}),
                         [](const testing::TestParamInfo<PingPong>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace qpexam::provider
