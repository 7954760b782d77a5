#include "harness/vm/kernel_package.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "harness/vm/initramfs.h"
#include "harness/vm/subprocess.h"

namespace qpexam::vm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "linux-image-";
constexpr std::string_view kSuffix = "-amd64";
// What a guest needs beyond what is built in, and with it what that depends on.
const std::vector<std::string> kModules = {
    "virtio_pci", "9p",    "9pnet_virtio", "crc32_generic", "crc32c_generic",
    "libcrc32c",  "dummy", "rdma_rxe",     "ib_uverbs"};
// Raised when the archive's layout changes: a cached one of another layout is built anew.
constexpr char kLayout[] = "2";

// The suites that have kernels of a series, where the machine's own apt lists have none.
constexpr const char* kSuites[] = {"bookworm", "bookworm-backports", "trixie"};

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines = Lines(text);
  return lines.empty() ? "no message" : lines.back();
}

// The kernel inside a bzImage: booting it bare saves unpacking it under emulation. The image itself
// where it cannot be found.
std::string BareKernel(const std::string& image, const std::string& folder) {
  std::string bytes;
  if (!ReadWhole(image, &bytes)) return image;
  struct Packing {
    std::string_view magic;
    std::vector<std::string> unpack;
  };
  const Packing packings[] = {
      {std::string_view("\xfd"
                        "7zXZ\0",
                        6),
       {"xz", "-dc", "--single-stream"}},
      {"\x28\xb5\x2f\xfd", {"zstd", "-dcq"}},
  };
  const std::string packed = folder + "/packed", bare = folder + "/bare";
  for (const Packing& packing : packings) {
    for (size_t at = bytes.find(packing.magic); at != std::string::npos;
         at = bytes.find(packing.magic, at + 1)) {
      if (!WriteWhole(packed, bytes.substr(at))) return image;
      std::vector<std::string> tool = packing.unpack;
      tool.push_back(packed);
      // Trailing bytes make it fail after all that matters is out.
      const std::string out = RunTool(tool, "", true).output;
      if (out.compare(0, 4, "\177ELF") == 0 && WriteWhole(bare, out)) return bare;
    }
  }
  return image;
}

bool UnpackModule(const std::string& path, std::string* bytes) {
  if (fs::path(path).extension() == ".xz") {
    ToolEnd end = RunTool({"xz", "-dc", path}, "", true);
    *bytes = std::move(end.output);
    return end.status == 0;
  }
  if (fs::path(path).extension() == ".zst") {
    ToolEnd end = RunTool({"zstd", "-dcq", path}, "", true);
    *bytes = std::move(end.output);
    return end.status == 0;
  }
  return ReadWhole(path, bytes);
}

// Fills `out` (a folder) from a package file. False with *why.
bool Build(const std::string& deb, const std::string& out, std::string* why) {
  TemporaryFolder work(CacheFolder());
  if (!work.ok()) return *why = "no folder can be made in " + CacheFolder(), false;
  const ToolEnd unpacked = RunTool(
      {"sh", "-c",
       "dpkg-deb --fsys-tarfile \"$1\" | tar -x --wildcards './boot/vmlinuz-*' "
       "'*/kernel/drivers/infiniband/*' '*/kernel/drivers/virtio/*' '*/kernel/drivers/net/dummy.*' "
       "'*/kernel/net/9p/*' '*/kernel/net/ipv?/*udp_tunnel.*' '*/kernel/crypto/*' "
       "'*/kernel/arch/x86/crypto/*' '*/kernel/lib/*' '*/kernel/fs/9p/*' '*/kernel/fs/netfs/*' "
       "'*/kernel/fs/*cache*/*'",
       "sh", deb},
      work.path());
  std::map<std::string, std::string> files;
  std::string image;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(work.path(), error)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename();
    if (name.rfind("vmlinuz-", 0) == 0) image = entry.path();
    if (name.find(".ko") != std::string::npos) files[ModuleName(name)] = entry.path();
  }
  if (image.empty() || !files.count("rdma_rxe"))
    return *why = deb + " has no soft-RoCE, or cannot be unpacked: " + LastLine(unpacked.output),
           false;
  std::map<std::string, std::string> bytes;
  std::map<std::string, std::vector<std::string>> depends;
  std::vector<std::string> open = kModules;
  while (!open.empty()) {
    const std::string name = ModuleName(open.back());
    open.pop_back();
    if (bytes.count(name) || !files.count(name)) continue;
    if (!UnpackModule(files[name], &bytes[name]))
      return *why = files[name] + " cannot be unpacked; is xz (xz-utils) installed?", false;
    depends[name] = ModInfo(bytes[name], "depends");
    open.insert(open.end(), depends[name].begin(), depends[name].end());
  }
  Cpio cpio;
  std::string order;
  for (const std::string& name : LoadOrder(kModules, depends)) {
    cpio.AddFile("modules/" + name, bytes[name], false);
    order += name + "\n";
  }
  cpio.AddFile("modules/order", order, false);
  fs::create_directories(out, error);
  fs::copy_file(BareKernel(image, work.path()), out + "/kernel",
                fs::copy_options::overwrite_existing, error);
  if (error || !WriteWhole(out + "/modules.cpio", cpio.Finish()) ||
      !WriteWhole(out + "/layout", kLayout))
    return *why = out + " cannot be written; QPEXAM_VM_CACHE names another folder", false;
  return true;
}

Kernel KernelIn(const fs::path& folder) {
  Kernel kernel;
  kernel.image = folder / "kernel";
  kernel.modules = folder / "modules.cpio";
  kernel.package = folder.filename();
  kernel.version = UpstreamVersion(kernel.package);
  return kernel;
}

// Options that make apt use lists of ours.
std::vector<std::string> OwnLists(const std::string& folder) {
  return {"-o", "Dir::Etc::SourceList=" + folder + "/sources",
          "-o", "Dir::Etc::SourceParts=/dev/null",
          "-o", "Dir::State::Lists=" + folder + "/lists",
          "-o", "Dir::Cache=" + folder + "/cache",
          "-o", "APT::Get::List-Cleanup=0",
          "-o", "Acquire::Languages=none",
          "-o", "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false"};
}

std::vector<std::string> With(std::vector<std::string> command,
                              const std::vector<std::string>& options,
                              const std::vector<std::string>& rest) {
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), rest.begin(), rest.end());
  return command;
}

// Downloads the series' newest that apt knows under `options` into `folder`; the file, or empty
// with what happened added to *why.
std::string Download(const std::string& series, const std::vector<std::string>& options,
                     const std::string& folder, std::string* why) {
  const ToolEnd names = RunTool(
      With({"apt-cache"}, options, {"pkgnames", std::string(kPrefix) + series + "."}), folder);
  const std::string package = NewestOfSeries(Lines(names.output), series);
  if (package.empty()) {
    *why +=
        "  no " + std::string(kPrefix) + series + ".*" + std::string(kSuffix) + " in these lists\n";
    return "";
  }
  const ToolEnd end = RunTool(With({"apt-get"}, options, {"download", "-q", package}), folder);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".deb") return entry.path();
  *why += "  apt-get download " + package + ": " + LastLine(end.output) + "\n";
  return "";
}

std::string Fetch(const std::string& series, const std::string& folder, std::string* why) {
  if (FindProgram("apt-get").empty() || FindProgram("dpkg-deb").empty()) {
    *why += "  there is no apt-get here\n";
    return "";
  }
  *why += "  the machine's apt lists:\n";
  if (std::string file = Download(series, {}, folder, why); !file.empty()) return file;
  const char* asked = std::getenv("RDMA_CORE_APT_MIRROR");
  const std::string mirror = asked && *asked ? asked : "http://deb.debian.org/debian";
  std::string sources;
  for (const char* suite : kSuites)
    sources += "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] " + mirror + " " +
               suite + " main\n";
  *why += "  lists of " + mirror + ":\n";
  std::error_code error;
  fs::create_directories(folder + "/lists/partial", error);
  fs::create_directories(folder + "/cache/archives/partial", error);
  if (!WriteWhole(folder + "/sources", sources)) return "";
  const std::vector<std::string> own = OwnLists(folder);
  const ToolEnd update = RunTool(With({"apt-get"}, own, {"update", "-q"}), folder);
  if (update.status != 0) *why += "  apt-get update: " + LastLine(update.output) + "\n";
  return Download(series, own, folder, why);
}

}  // namespace

const std::vector<std::string>& KnownSeries() {
  static const auto* series = new std::vector<std::string>{"6.1", "6.12"};
  return *series;
}

std::string CacheFolder() {
  auto from = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string folder = from("QPEXAM_VM_CACHE");
  if (folder.empty() && !from("XDG_CACHE_HOME").empty())
    folder = from("XDG_CACHE_HOME") + "/qpexam/vm";
  if (folder.empty() && !from("HOME").empty()) folder = from("HOME") + "/.cache/qpexam/vm";
  if (folder.empty()) folder = "/tmp/qpexam-vm";
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  return folder;
}

bool CachedKernel(const std::string& series, Kernel* kernel) {
  std::error_code error;
  bool found = false;
  for (const fs::directory_entry& entry : fs::directory_iterator(CacheFolder(), error)) {
    std::string layout;
    const Kernel one = KernelIn(entry.path());
    if (one.version.rfind(series + ".", 0) != 0) continue;
    if (!ReadWhole(entry.path() / "layout", &layout) || layout != kLayout) continue;
    if (!found || CompareNumbers(one.version, kernel->version) > 0) *kernel = one;
    found = true;
  }
  return found;
}

bool GetKernel(const std::string& series, Kernel* kernel, std::string* why) {
  if (CachedKernel(series, kernel)) return true;
  TemporaryFolder folder(CacheFolder());
  if (!folder.ok())
    return *why = CacheFolder() + " cannot be written; QPEXAM_VM_CACHE names another folder", false;
  std::string tried;
  const std::string deb = Fetch(series, folder.path(), &tried);
  if (deb.empty())
    return *why = "no kernel of the series " + series + " could be had:\n" + tried +
                  "  a machine with Debian's apt, and a network, is what it takes",
           false;
  const std::string out = CacheFolder() + "/" + fs::path(deb).stem().string();
  if (!Build(deb, out, why)) return false;
  *kernel = KernelIn(out);
  return true;
}

int CompareNumbers(std::string_view a, std::string_view b) {
  auto next = [](std::string_view* text) {
    while (!text->empty() && !std::isdigit(static_cast<unsigned char>(text->front())))
      text->remove_prefix(1);
    if (text->empty()) return int64_t{-1};
    int64_t value = 0;
    while (!text->empty() && std::isdigit(static_cast<unsigned char>(text->front()))) {
      value = std::min<int64_t>(value * 10 + (text->front() - '0'), int64_t{1} << 50);
      text->remove_prefix(1);
    }
    return value;
  };
  while (true) {
    const int64_t x = next(&a), y = next(&b);
    if (x != y) return x < y ? -1 : 1;
    if (x < 0) return 0;
  }
}

std::string NewestOfSeries(const std::vector<std::string>& names, std::string_view series) {
  std::string best;
  const std::string prefix = std::string(kPrefix) + std::string(series) + ".";
  for (const std::string& name : names) {
    if (name.rfind(prefix, 0) != 0 || name.size() < prefix.size() + kSuffix.size()) continue;
    if (name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) != 0) continue;
    if (name.find("-cloud") != std::string::npos || name.find("-rt") != std::string::npos) continue;
    if (best.empty() ||
        CompareNumbers(best.substr(kPrefix.size()), name.substr(kPrefix.size())) < 0)
      best = name;
  }
  return best;
}

std::string UpstreamVersion(std::string_view file) {
  if (file.substr(0, kPrefix.size()) != kPrefix) return "";
  const size_t at = file.find('_');
  if (at == std::string_view::npos) return "";
  const std::string_view rest = file.substr(at + 1);
  return std::string(rest.substr(0, rest.find_first_not_of("0123456789.")));
}

}  // namespace qpexam::vm
