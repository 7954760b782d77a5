// `device:NAME`: an RDMA device of this machine, through its own kernel and its own libibverbs.
// Opened only when named, and in processes of their own.
#include <dirent.h>

#include <cstring>
#include <fstream>

#include "harness/devices/provider_family.h"
#include "harness/remote/process_machine.h"
#include "harness/vm/subprocess.h"

namespace qpexam {
namespace {

constexpr char kDevices[] = "/sys/class/infiniband";

class ThisMachine : public remote::Machine {
 public:
  explicit ThisMachine(std::string device) : device_(std::move(device)) {}

  remote::MachineEnd Run(const remote::MachineJob& job) const override {
    remote::MachineEnd end;
    const vm::TemporaryFolder folder;
    if (!folder.ok()) {
      end.why = "no temporary folder can be made; set TMPDIR to one that can be written";
      return end;
    }
    remote::MachineJob here = job;
    // Whatever library is preloaded, this is a device whose time is the machine's.
    if (job.tool == remote::MachineJob::Tool::kExecutor) here.arguments.push_back("--real_time");
    remote::ProcessJob place;
    place.folder = folder.path();
    place.device = device_;
    return remote::RunAsProcess(here, place);
  }
  // It is somebody's.
  bool expendable() const override { return false; }

 private:
  std::string device_;
};

// Of a file of one line.
std::string LineOf(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  // It is a word of other lines.
  for (char& c : line)
    if (c <= ' ' || c > '~') c = '-';
  return line;
}

class DeviceFamily : public ProviderFamily {
 public:
  std::string_view family() const override { return "device"; }

  // As the kernel lists them: nothing is opened, and it is seen without libibverbs.
  std::vector<ProviderInfo> List() const override {
    std::vector<ProviderInfo> all;
    DIR* folder = opendir(kDevices);
    if (!folder) return all;
    while (const dirent* entry = readdir(folder)) {
      const std::string name = entry->d_name;
      if (name[0] == '.') continue;
      ProviderInfo info;
      info.name = "device:" + name;
      info.version = LineOf(std::string(kDevices) + "/" + name + "/fw_ver");
      info.about = "a device of this machine; opened only when named";
      info.kind = ProviderKind::kDevice;
      info.efa = name.rfind("efa", 0) == 0;
      all.push_back(std::move(info));
    }
    closedir(folder);
    return all;
  }

  std::unique_ptr<DeviceSession> Open(const ProviderInfo& info, std::string* why) const override {
    *why = info.name + " runs in a process of its own, and cannot be opened here";
    return nullptr;
  }

  std::unique_ptr<remote::Machine> MachineOf(const ProviderInfo& info) const override {
    return std::make_unique<ThisMachine>(info.name.substr(info.name.find(':') + 1));
  }
};

const RegisterFamily<DeviceFamily> kDevice;

}  // namespace
}  // namespace qpexam
