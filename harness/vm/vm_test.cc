// What of the guest machinery needs no guest: archives, module order, console logs, package names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/vm/console_log.h"
#include "harness/vm/initramfs.h"
#include "harness/vm/kernel_package.h"

namespace qpexam::vm {
namespace {

TEST(Cpio, LaysOutNewcWithFoldersOnce) {
  Cpio cpio;
  cpio.AddFile("/a/b/c", "hello", true);
  cpio.AddFile("a/b/d", "", false);
  cpio.AddSymlink("/lib64", "usr/lib64");
  const std::string bytes = cpio.Finish();
  EXPECT_EQ(bytes.size() % 512, 0u);
  size_t entries = 0;
  std::string names;
  for (size_t at = 0; at + 110 <= bytes.size() && bytes.compare(at, 6, "070701") == 0;) {
    auto field = [&](size_t i) { return std::stoul(bytes.substr(at + 6 + i * 8, 8), nullptr, 16); };
    const size_t size = field(6), name_size = field(11);
    const std::string name = bytes.substr(at + 110, name_size - 1);
    const size_t data = (at + 110 + name_size + 3) & ~size_t{3};
    names += name + " ";
    if (name == "a/b/c") {
      EXPECT_EQ(field(1), 0100755u);
      EXPECT_EQ(bytes.substr(data, size), "hello");
    }
    if (name == "lib64") {
      EXPECT_EQ(field(1), 0120777u);
      EXPECT_EQ(bytes.substr(data, size), "usr/lib64");
    }
    entries++;
    at = (data + size + 3) & ~size_t{3};
  }
  EXPECT_EQ(names, "a a/b a/b/c a/b/d lib64 TRAILER!!! ");
}

TEST(Modules, ComeBehindWhatTheyDependOn) {
  using namespace std::string_literals;
  const std::string module =
      "\177ELF\0license=GPL\0depends=ib_core,udp_tunnel\0softdep=pre: crc32\0name=rdma_rxe\0"s;
  EXPECT_EQ(ModInfo(module, "depends"), (std::vector<std::string>{"ib_core", "udp_tunnel"}));
  EXPECT_TRUE(ModInfo("\0depends=\0"s, "depends").empty());
  EXPECT_EQ(ModuleName("kernel/lib/libcrc32c.ko.xz"), "libcrc32c");
  EXPECT_EQ(ModuleName("crc32-generic.ko"), "crc32_generic");
  const std::map<std::string, std::vector<std::string>> depends = {
      {"rdma_rxe", {"ib_core", "udp-tunnel", "built_in"}},
      {"ib_core", {}},
      {"udp_tunnel", {"ib_core"}},
      {"unused", {}}};
  EXPECT_EQ(LoadOrder({"rdma_rxe", "ib_core", "absent"}, depends),
            (std::vector<std::string>{"ib_core", "udp_tunnel", "rdma_rxe"}));
}

TEST(Modules, InACircleAreLoadedOnce) {
  EXPECT_EQ(LoadOrder({"a"}, {{"a", {"b"}}, {"b", {"a"}}}), (std::vector<std::string>{"b", "a"}));
}

constexpr char kOops[] =
    "qpexam-guest: running\r\n[   12.501] rdma_rxe: loaded\r\n"
    "[   14.000123] BUG: kernel NULL pointer dereference, address: 0000000000000008\r\n"
    "[   14.000200] Kernel panic - not syncing: Fatal exception\r\n";

TEST(ConsoleLog, TellsWhatKilledTheKernel) {
  EXPECT_EQ(KernelFailure(kOops),
            "BUG: kernel NULL pointer dereference, address: 0000000000000008");
  EXPECT_EQ(KernelReport(kOops, 1000).find("[   14.000123] BUG"), 0u);
  EXPECT_EQ(KernelReport(kOops, 1000).find('\r'), std::string::npos);
  EXPECT_EQ(KernelFailure("qpexam-guest: running\n"), "");
  EXPECT_EQ(KernelReport("abcdef", 3), "def");
}

TEST(ConsoleLog, DoesNotTakeAWarningForTheDeath) {
  const std::string warning = "[    1.0] WARNING: CPU: 0 PID: 9 at drivers/x.c:255 f+0x1/0x2\n";
  EXPECT_EQ(KernelFailure(warning + "[    2.0] BUG: kernel NULL pointer dereference\n"),
            "BUG: kernel NULL pointer dereference");
  EXPECT_EQ(KernelFailure(warning), "WARNING: CPU: 0 PID: 9 at drivers/x.c:255 f+0x1/0x2");
}

TEST(ConsoleLog, KnowsWhetherTheJobBegan) {
  EXPECT_EQ(InitComplaint("qpexam-guest: up\n"), "");
  EXPECT_EQ(InitComplaint(kOops), "");
  EXPECT_EQ(InitComplaint("x\nqpexam-guest: no address: Invalid argument\r\n"),
            "no address: Invalid argument");
}

TEST(KernelPackage, IsTheNewestOfItsSeries) {
  const std::vector<std::string> names = {
      "linux-image-6.1.0-9-amd64",        "linux-image-6.1.0-57-amd64",
      "linux-image-6.1.0-58-cloud-amd64", "linux-image-6.1.0-59-rt-amd64",
      "linux-image-6.1.0-60-amd64-dbg",   "linux-image-6.1.0-61-amd64-unsigned",
      "linux-image-6.12.9+bpo-amd64",     "linux-image-6.12.38+deb12-amd64",
      "linux-image-6.10.11+bpo-amd64",    "linux-image-amd64",
  };
  EXPECT_EQ(NewestOfSeries(names, "6.1"), "linux-image-6.1.0-57-amd64");
  EXPECT_EQ(NewestOfSeries(names, "6.12"), "linux-image-6.12.38+deb12-amd64");
  EXPECT_EQ(NewestOfSeries(names, "6.9"), "");
}

TEST(KernelPackage, SaysItsUpstreamVersion) {
  EXPECT_EQ(UpstreamVersion("linux-image-6.1.0-57-amd64_6.1.192-3_amd64.deb"), "6.1.192");
  EXPECT_EQ(UpstreamVersion("linux-image-6.12.38+deb12-amd64_6.12.38-1~bpo12+1_amd64.deb"),
            "6.12.38");
  EXPECT_EQ(UpstreamVersion("noise.deb"), "");
}

}  // namespace
}  // namespace qpexam::vm
