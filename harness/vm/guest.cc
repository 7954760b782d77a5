#include "harness/vm/guest.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "harness/process/process.h"
#include "harness/remote/our_program.h"
#include "harness/vm/console_log.h"
#include "harness/vm/initramfs.h"
#include "harness/vm/subprocess.h"

namespace qpexam::vm {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using remote::MachineEnd;
using remote::MachineJob;

constexpr size_t kMostLog = 16 << 10;
constexpr auto kLook = std::chrono::milliseconds(50);
// From QEMU's start to the tool's first line. A warm boot takes 6 s under emulation on two cores.
constexpr auto kBoot = std::chrono::seconds(180);
// From QEMU's start to the first line of init, with KVM: it takes two. A KVM that is itself nested
// in a hypervisor which only pretends to have one may stop in the kernel's first instructions.
constexpr auto kBootWithKvm = std::chrono::seconds(20);
// Between the end of the tool and QEMU's.
constexpr auto kPowerOff = std::chrono::seconds(20);

// Programs beside each other: nearly all of a Program's time is waiting for what never comes, or
// for the kernel to end a queue pair.
constexpr size_t kMostJobs = 32, kProgramsAJob = 4;
// Soft-RoCE's destroy of a queue pair with a window bound on it takes 50 s, and ends.
constexpr std::chrono::milliseconds kStall{75000};

// Folders where libibverbs looks for providers.
std::vector<std::string> ProviderFolders() {
  std::vector<std::string> folders;
  for (const char* lib : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"})
    if (fs::is_directory(std::string(lib) + "/libibverbs"))
      folders.push_back(std::string(lib) + "/libibverbs");
  return folders;
}

// The rxe plugin of the installed libibverbs; empty where there is none.
std::string RxePlugin() {
  std::error_code error;
  for (const std::string& folder : ProviderFolders())
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
      if (entry.path().filename().string().rfind("librxe-rdmav", 0) == 0) return entry.path();
  return "";
}

// What a program and its libraries consist of, by the loader's own account.
bool Libraries(const std::string& program, std::set<std::string>* files, std::string* why) {
  const ToolEnd end = RunTool({"ldd", program}, "");
  if (end.status != 0) return *why = "ldd " + program + ": " + end.output, false;
  for (size_t at = end.output.find('/'); at != std::string::npos;
       at = end.output.find('/', at + 1)) {
    // "  libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)", "  /lib64/ld-linux... (0x...)"
    const size_t stop = end.output.find_first_of(" \n", at);
    files->insert(end.output.substr(at, stop - at));
    at = std::min(stop, end.output.size() - 1);
  }
  if (end.output.find("not found") != std::string::npos)
    return *why = program + " lacks a library: " + end.output, false;
  return true;
}

bool Archive(const MachineJob& job, const Kernel& kernel, std::string* archive, std::string* why) {
  const std::string init = remote::FindOurProgram("harness/vm/guest_init", "qpexam-guest-init");
  const std::string tool =
      job.tool == MachineJob::Tool::kSuites ? remote::SuitesProgram() : remote::ExecutorProgram();
  if (init.empty() || tool.empty())
    return *why = "the programs that run in the guest were not built; ./qpexam builds them", false;
  std::set<std::string> files;
  const std::string plugin = RxePlugin();
  if (!Libraries(init, &files, why) || !Libraries(tool, &files, why) ||
      !Libraries(plugin, &files, why))
    return false;
  Cpio cpio;
  std::string bytes;
  auto add = [&](const std::string& as, const std::string& from) {
    if (!ReadWhole(from, &bytes)) return *why = from + " cannot be read", false;
    cpio.AddFile(as, bytes, true);
    return true;
  };
  if (!add("init", init) || !add("tool", tool) || !add(plugin, plugin)) return false;
  for (const std::string& file : files)
    if (!add(file, file)) return false;
  cpio.AddFile("etc/libibverbs.d/rxe.driver", "driver rxe\n", false);
  std::string modules;
  if (!ReadWhole(kernel.modules, &modules)) return *why = kernel.modules + " cannot be read", false;
  *archive = modules + cpio.Finish();
  return true;
}

std::vector<std::string> QemuCommand(const Kernel& kernel, const std::string& folder, bool kvm) {
  const unsigned cpus = std::clamp(std::thread::hardware_concurrency(), 2u, 4u);
  std::vector<std::string> command = {FindProgram("qemu-system-x86_64"), "-machine", "q35"};
  if (kvm) command.insert(command.end(), {"-accel", "kvm"});
  command.insert(
      command.end(),
      {"-accel",
       "tcg,thread=multi",
       "-cpu",
       "max,la57=off",
       "-smp",
       std::to_string(cpus),
       "-m",
       "1536",
       "-nodefaults",
       "-no-user-config",
       "-display",
       "none",
       "-no-reboot",
       "-serial",
       "file:" + folder + "/console",
       "-kernel",
       kernel.image,
       "-initrd",
       folder + "/initrd",
       "-append",
       "console=ttyS0 quiet loglevel=5 panic=-1 oops=panic nokaslr mitigations=off tsc=reliable "
       "no_timer_check cryptomgr.notests random.trust_cpu=on",
       "-fsdev",
       "local,id=job,path=" + folder + "/job,security_model=none",
       "-device",
       "virtio-9p-pci,fsdev=job,mount_tag=job"});
  return command;
}

// Reads what was appended to a file since the last time.
class Tail {
 public:
  explicit Tail(std::string path) : path_(std::move(path)) {}
  ~Tail() {
    if (fd_ >= 0) close(fd_);
  }
  Tail(const Tail&) = delete;
  Tail& operator=(const Tail&) = delete;
  std::string More() {
    if (fd_ < 0) fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    std::string more;
    char bytes[1 << 16];
    for (ssize_t n; fd_ >= 0 && (n = read(fd_, bytes, sizeof bytes)) > 0;)
      more.append(bytes, static_cast<size_t>(n));
    return more;
  }

 private:
  std::string path_;
  int fd_ = -1;
};

std::string Substituted(const std::string& argument) {
  std::string out = argument;
  for (const auto& [word, real] : {std::pair<const char*, const char*>{"@input", "/job/input"},
                                   {"@results", "/job/results"},
                                   {"@device", "rxe0"}}) {
    const size_t at = out.find(word);
    if (at != std::string::npos) out.replace(at, std::strlen(word), real);
  }
  return out;
}

// Where it is noted for which boot of this machine KVM was no use.
std::string KvmNote() { return CacheFolder() + "/kvm-is-no-use"; }
std::string BootId() {
  std::string id;
  ReadWhole("/proc/sys/kernel/random/boot_id", &id);
  return id;
}

// QPEXAM_VM_ACCEL=tcg or kvm decides; else what is there and has not failed since this machine
// booted.
bool KvmIsUsable() {
  const char* choice = std::getenv("QPEXAM_VM_ACCEL");
  if (choice && std::string_view(choice) == "tcg") return false;
  if (choice && std::string_view(choice) == "kvm") return true;
  if (access("/dev/kvm", R_OK | W_OK) != 0) return false;
  std::string failed;
  return !ReadWhole(KvmNote(), &failed) || failed != BootId();
}

void RememberUselessKvm() {
  WriteWhole(KvmNote(), BootId());
  std::fprintf(stderr, "qpexam: /dev/kvm cannot run a guest here; going on without it\n");
}

// QEMU's own word that KVM could not go on; it then stands still for ever.
bool KvmGaveUp(const std::string& folder) {
  std::string log;
  ReadWhole(folder + "/qemu", &log);
  return log.find("KVM internal error") != std::string::npos;
}

// One boot and its run. With KVM, *kvm_is_useless says that the guest never came to its first line
// for a fault of KVM: nothing has run then.
MachineEnd RunQemu(const MachineJob& job, const Kernel& kernel, const std::string& folder, bool kvm,
                   bool* kvm_is_useless) {
  MachineEnd end;
  const std::string job_folder = folder + "/job";
  ProcessStart start;
  start.arguments = QemuCommand(kernel, folder, kvm);
  start.log = folder + "/qemu";
  start.when_we_end = SIGKILL;  // no guest outlives us
  const pid_t qemu = StartProcess(start);
  if (qemu < 0) {
    end.why = std::string("QEMU cannot be started: ") + std::strerror(errno);
    return end;
  }
  Tail results(job_folder + "/results"), console(folder + "/console");
  std::string said;
  bool up = false, running = false, hung = false, stopped = false;
  Clock::time_point moved = Clock::now();
  int status = 0;
  while (true) {
    const bool ended = waitpid(qemu, &status, WNOHANG) != 0;
    if (const std::string more = results.More(); !more.empty()) {
      running = true;
      moved = Clock::now();
      if (job.on_results) job.on_results(more);
    }
    if (const std::string more = console.More(); !more.empty()) {
      said += more;
      up = up || said.find("qpexam-guest: ") != std::string::npos;
      if (!running && said.find("qpexam-guest: running") != std::string::npos) {
        running = true;
        moved = Clock::now();
      }
    }
    if (ended && kvm && !up) return *kvm_is_useless = true, end;
    if (ended) break;
    const bool done = access((job_folder + "/status").c_str(), F_OK) == 0;
    const auto limit = done      ? std::chrono::duration_cast<Clock::duration>(kPowerOff)
                       : running ? std::chrono::duration_cast<Clock::duration>(job.stall)
                                 : std::chrono::duration_cast<Clock::duration>(kBoot);
    const bool gave_up = kvm && KvmGaveUp(folder);
    if (gave_up || (kvm && !up && Clock::now() - moved > kBootWithKvm)) {
      *kvm_is_useless = !running;
      end.why = "KVM gave up; QPEXAM_VM_ACCEL=tcg does without it";
      kill(qemu, SIGKILL);
      waitpid(qemu, &status, 0);
      return end;
    }
    stopped = job.stop && job.stop->load();
    hung = Clock::now() - moved > limit;
    if (hung || stopped) {
      kill(qemu, SIGKILL);
      waitpid(qemu, &status, 0);
      said += console.More();
      if (const std::string more = results.More(); !more.empty() && job.on_results)
        job.on_results(more);
      break;
    }
    std::this_thread::sleep_for(kLook);
  }
  std::string text, out, qemu_log;
  ReadWhole(job_folder + "/stderr", &out);
  ReadWhole(folder + "/qemu", &qemu_log);
  const bool has_status = ReadWhole(job_folder + "/status", &text) && !text.empty();
  const std::string failure = KernelFailure(said);
  end.log = out.substr(out.size() - std::min(out.size(), kMostLog));
  if (stopped) {
    end.kind = MachineEnd::kStopped;
  } else if (has_status) {
    end.kind = MachineEnd::kEnded;
    end.status = std::atoi(text.c_str());
  } else if (running) {
    end.kind = MachineEnd::kDied;
    end.why =
        !failure.empty() ? "the guest kernel died: " + failure
        : hung ? "the guest hangs: nothing moved within " + std::to_string(job.stall.count()) + " s"
               : "the guest ended without a word";
    end.log += KernelReport(said, kMostLog);
  } else {
    const std::string complaint = InitComplaint(said);
    end.why = "the guest did not come up: " + (!complaint.empty() ? complaint
                                               : !failure.empty() ? failure
                                               : hung             ? "nothing within 180 s"
                                                                  : "QEMU ended: " + qemu_log);
    end.log += KernelReport(said, kMostLog) + qemu_log;
  }
  if (std::getenv("QPEXAM_VM_CONSOLE")) WriteWhole(std::getenv("QPEXAM_VM_CONSOLE"), said);
  return end;
}

}  // namespace

remote::Pace Guest::PaceOf(size_t programs) const {
  const size_t jobs = std::clamp<size_t>(programs / kProgramsAJob, 1, kMostJobs);
  return {static_cast<unsigned>(jobs), kStall};
}

MachineEnd Guest::Run(const MachineJob& job) const {
  MachineEnd end;
  if (end.why = WhyNoGuest(); !end.why.empty()) return end;
  Kernel kernel;
  if (!GetKernel(series_, &kernel, &end.why)) return end;
  TemporaryFolder folder;
  std::string archive;
  if (!folder.ok()) {
    end.why = "no temporary folder can be made; set TMPDIR to one that can be written";
    return end;
  }
  if (!Archive(job, kernel, &archive, &end.why)) return end;
  std::string command = "/tool\n";
  for (const std::string& argument : job.arguments) command += Substituted(argument) + "\n";
  const std::string job_folder = folder.path() + "/job";
  fs::create_directory(job_folder);
  if (!WriteWhole(folder.path() + "/initrd", archive) ||
      !WriteWhole(job_folder + "/command", command) ||
      !WriteWhole(job_folder + "/input", job.input)) {
    end.why = "no room in " + folder.path() + "; set TMPDIR to a folder that has some";
    return end;
  }
  archive.clear();
  archive.shrink_to_fit();
  if (KvmIsUsable()) {
    bool useless = false;
    end = RunQemu(job, kernel, folder.path(), true, &useless);
    if (!useless) return end;
    RememberUselessKvm();
  }
  return RunQemu(job, kernel, folder.path(), false, nullptr);
}

std::string WhyNoGuest() {
#if !defined(__x86_64__)
  return "guests are of x86-64, and this machine is not";
#else
  std::string missing;
  if (FindProgram("qemu-system-x86_64").empty()) missing += " qemu-system-x86";
  if (RxePlugin().empty()) missing += " ibverbs-providers";
  if (FindProgram("xz").empty()) missing += " xz-utils";
  if (missing.empty()) return "";
  return "this machine lacks" + missing + "; as root: apt-get install --no-install-recommends" +
         missing;
#endif
}

std::string InstalledVerbsVersion() {
  // libibverbs.so.1.14.44.0: the library's file carries its version behind the ABI's.
  std::error_code error;
  for (const char* lib : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"}) {
    const fs::path file = fs::canonical(std::string(lib) + "/libibverbs.so.1", error);
    if (error) continue;
    const std::string name = file.filename();
    const size_t so = name.find(".so.1.");
    if (so == std::string::npos) continue;
    const size_t at = name.find('.', so + 6);
    if (at != std::string::npos) return name.substr(at + 1);
  }
  return "";
}

}  // namespace qpexam::vm
