#include "harness/packaged/place.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "harness/packaged/environment.h"
#include "harness/remote/our_program.h"

namespace qpexam::packaged {
namespace {

namespace fs = std::filesystem;

// Where a distribution puts the library, its plugins in the folder libibverbs beside it.
constexpr const char* kFolders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                    "/usr/lib64", "/usr/lib"};

std::string NumberAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  return std::string(text.substr(at, end - at));
}

}  // namespace

Library InstalledLibrary() {
  Library library;
  std::error_code error;
  for (const char* folder : kFolders) {
    const fs::path file = fs::canonical(std::string(folder) + "/libibverbs.so.1", error);
    if (error) continue;
    library.path = file;
    // libibverbs.so.1.14.44.0: its own version stands behind the interface's.
    const std::string name = file.filename();
    const size_t so = name.find(".so.1.");
    const size_t at = so == std::string::npos ? so : name.find('.', so + 6);
    if (at != std::string::npos) library.version = name.substr(at + 1);
    std::string bytes;
    constexpr std::string_view kPrivate = "IBVERBS_PRIVATE_";
    if (vm::ReadWhole(file, &bytes))
      if (const size_t symbol = bytes.find(kPrivate); symbol != std::string::npos)
        library.abi = NumberAt(bytes, symbol + kPrivate.size());
    break;
  }
  return library;
}

std::string AbiOfPlugin(const std::string& file) {
  constexpr std::string_view kBefore = "-rdmav";
  const size_t at = file.rfind(kBefore);
  if (at == std::string::npos || file.rfind("lib", 0) != 0) return "";
  const std::string abi = NumberAt(file, at + kBefore.size());
  return file.substr(at + kBefore.size() + abi.size()) == ".so" ? abi : "";
}

Plugin InstalledPlugin(const std::string& provider, const Library& library) {
  Plugin plugin;
  const auto lacks = [&](const char* package) {
    plugin.missing = true;
    plugin.why_not = fmt::format(
        "this machine lacks {0}; as root: apt-get install --no-install-recommends {0}", package);
    return plugin;
  };
  if (library.path.empty()) return lacks("libibverbs1 ibverbs-providers");
  const std::string begin = "lib" + provider + "-rdmav";
  std::error_code error;
  for (const char* folder : kFolders) {
    for (const fs::directory_entry& entry :
         fs::directory_iterator(std::string(folder) + "/libibverbs", error)) {
      const std::string file = entry.path().filename();
      if (file.rfind(begin, 0) != 0) continue;
      plugin.path = entry.path();
      const std::string abi = AbiOfPlugin(file);
      if (abi == library.abi) return plugin;
      plugin.why_not = fmt::format(
          "{} is of private ABI {}, and {} has {}: it would not load; install both from one "
          "version",
          plugin.path, abi, library.path, library.abi.empty() ? "none" : library.abi);
    }
  }
  if (!plugin.path.empty()) return plugin;
  return lacks("ibverbs-providers");
}

DeviceFolder::DeviceFolder(const hosted::DeviceTraits& traits)
    : device_(std::string(traits.name_prefix) + "0") {
  if (!folder_.ok()) return;
  ok_ = true;
  std::error_code error;
  const auto put = [&](const std::string& file, const std::string& text) {
    const std::string path = folder_.path() + "/class/" + file;
    fs::create_directories(fs::path(path).parent_path(), error);
    ok_ = ok_ && !error && vm::WriteWhole(path, text + "\n");
  };
  const std::string uverbs = "infiniband_verbs/uverbs0/", device = "infiniband/" + device_ + "/";
  // As the emulated kernel gives it to its first device.
  const std::string guid = "0200:0000:0000:0000";
  put("infiniband_verbs/abi_version", "6");
  put(uverbs + "ibdev", device_);
  put(uverbs + "dev", fmt::format("{}:{}", kMajor, kMinor));
  put(uverbs + "abi_version", std::to_string(traits.abi_version));
  for (const std::string& folder : {uverbs, device})
    put(folder + "device/modalias", traits.modalias);
  put(device + "node_type", "1: CA");
  put(device + "node_guid", guid);
  put(device + "sys_image_guid", guid);
  put(device + "node_desc", std::string("qpexam: ") + traits.provider + ", emulated");
  put(device + "fw_ver", "0.0.0");
  for (unsigned port = 1; port <= traits.attr.phys_port_cnt; ++port) {
    const std::string at = device + "ports/" + std::to_string(port) + "/";
    put(at + "gids/0", "fe80:0000:0000:0000:" + guid);
    put(at + "gid_attrs/types/0", "RoCE v2");
    put(at + "pkeys/0", "0xffff");
    put(at + "state", "4: ACTIVE");
    put(at + "link_layer",
        traits.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "Unspecified");
  }
}

std::vector<std::string> Environment(const std::string& provider, const DeviceFolder& folder,
                                     const std::string& preload, const std::string& findings) {
  std::string first = "LD_PRELOAD=" + preload;
  if (const char* before = std::getenv("LD_PRELOAD"); before != nullptr && *before != '\0')
    first += std::string(":") + before;
  return {first, std::string(kProviderVariable) + "=" + provider,
          std::string(kRootVariable) + "=" + folder.path(),
          std::string(kFindingsVariable) + "=" + findings};
}

std::string PreloadLibrary() {
  return remote::FindOurProgram("harness/packaged/libqpexam_packaged.so", "libqpexam_packaged.so");
}

}  // namespace qpexam::packaged
