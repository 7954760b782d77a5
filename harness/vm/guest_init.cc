// The first process of a guest: loads modules, makes rxe0, runs the one command of its job, and
// powers off. It is all there is in the guest besides that command and the libraries of both.
//
// The job's folder comes by 9p. In it: `command` (an argument a line), and after the run `status`,
// `stdout`, `stderr`. What goes wrong before that is told on the console.
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr char kJob[] = "/job";
constexpr char kNetDevice[] = "rxenet0";

[[noreturn]] void PowerOff() {
  sync();
  reboot(RB_POWER_OFF);
  _exit(1);
}

[[noreturn]] void GiveUp(const std::string& what) {
  std::printf("qpexam-guest: %s: %s\n", what.c_str(), std::strerror(errno));
  std::fflush(stdout);
  PowerOff();
}

void Mount(const char* source, const char* target, const char* type, unsigned long flags = 0,
           const char* data = nullptr) {
  mkdir(target, 0755);
  if (mount(source, target, type, flags, data)) GiveUp(std::string("mount ") + target);
}

void LoadModules() {
  std::ifstream list("/modules/order");
  std::string name;
  while (std::getline(list, name)) {
    const std::string path = "/modules/" + name;
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    // One that another kernel has built in, or that finds no hardware, is no loss by itself.
    if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
      std::printf("qpexam-guest: %s: %s\n", path.c_str(), std::strerror(errno));
    if (fd >= 0) close(fd);
  }
}

// A netlink request, with attributes appended.
class Request {
 public:
  Request(uint16_t type, uint16_t flags) {
    nlmsghdr head{};
    head.nlmsg_type = type;
    head.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
    Append(&head, sizeof head);
  }
  template <typename T>
  Request& Body(const T& body) {
    Append(&body, sizeof body);
    return *this;
  }
  Request& Attribute(uint16_t type, const void* data, size_t size) {
    rtattr head{};
    head.rta_type = type;
    head.rta_len = static_cast<uint16_t>(sizeof head + size);
    Append(&head, sizeof head);
    Append(data, size);
    return *this;
  }
  Request& Text(uint16_t type, const char* text) {
    return Attribute(type, text, std::strlen(text) + 1);
  }
  // 0 or an errno.
  int Send(int protocol) {
    reinterpret_cast<nlmsghdr*>(bytes_.data())->nlmsg_len = static_cast<uint32_t>(bytes_.size());
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (fd < 0) return errno;
    int error = EIO;
    if (send(fd, bytes_.data(), bytes_.size(), 0) < 0) {
      error = errno;
    } else {
      alignas(nlmsghdr) char reply[4096];
      const ssize_t n = recv(fd, reply, sizeof reply, 0);
      const auto* head = reinterpret_cast<const nlmsghdr*>(reply);
      if (n >= static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(nlmsgerr)) &&
          head->nlmsg_type == NLMSG_ERROR)
        error = -static_cast<const nlmsgerr*>(NLMSG_DATA(head))->error;
    }
    close(fd);
    return error;
  }

 private:
  void Append(const void* data, size_t size) {
    const char* from = static_cast<const char*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
    bytes_.resize((bytes_.size() + 3) & ~size_t{3});
  }
  std::vector<char> bytes_;
};

void Need(int error, const char* what) {
  if (error == 0) return;
  errno = error;
  GiveUp(what);
}

void BringUp(const char* name) {
  ifinfomsg up{};
  up.ifi_index = static_cast<int>(if_nametoindex(name));
  up.ifi_flags = up.ifi_change = IFF_UP;
  Need(Request(RTM_NEWLINK, 0).Body(up).Send(NETLINK_ROUTE), name);
}

void MakeNetDevice() {
  BringUp("lo");
  // IFLA_LINKINFO { IFLA_INFO_KIND "dummy" }, the nested attribute laid out by hand.
  struct {
    rtattr head;
    char kind[8];
  } info{};
  info.head.rta_type = IFLA_INFO_KIND;
  info.head.rta_len = sizeof(rtattr) + 6;
  std::strcpy(info.kind, "dummy");
  const int made = Request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL)
                       .Body(ifinfomsg{})
                       .Text(IFLA_IFNAME, kNetDevice)
                       .Attribute(IFLA_LINKINFO, &info, sizeof info)
                       .Send(NETLINK_ROUTE);
  Need(made, "no network device of kind dummy");
  ifaddrmsg address{};
  address.ifa_family = AF_INET;
  address.ifa_prefixlen = 24;
  address.ifa_index = if_nametoindex(kNetDevice);
  const uint32_t ip = htonl(0x0a4d0001);  // 10.77.0.1
  Need(Request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL)
           .Body(address)
           .Attribute(IFA_LOCAL, &ip, sizeof ip)
           .Attribute(IFA_ADDRESS, &ip, sizeof ip)
           .Send(NETLINK_ROUTE),
       "no address");
  BringUp(kNetDevice);
}

void MakeRxe() {
  const int error = Request(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK), 0)
                        .Text(RDMA_NLDEV_ATTR_DEV_NAME, "rxe0")
                        .Text(RDMA_NLDEV_ATTR_NDEV_NAME, kNetDevice)
                        .Text(RDMA_NLDEV_ATTR_LINK_TYPE, "rxe")
                        .Send(NETLINK_RDMA);
  Need(error, "no soft-RoCE device; has this kernel rdma_rxe?");
  // The character device is made by a kernel thread.
  for (int i = 0; i < 200 && access("/dev/infiniband/uverbs0", F_OK); i++) usleep(10000);
}

int RunCommand() {
  std::ifstream file(std::string(kJob) + "/command");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word);) words.push_back(word);
  if (words.empty()) GiveUp("no command in the job");
  std::printf("qpexam-guest: running\n");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) GiveUp("fork");
  if (child == 0) {
    const int in = open("/dev/null", O_RDONLY);
    const int out = open("/job/stdout", O_WRONLY | O_CREAT | O_APPEND, 0644);
    const int err = open("/job/stderr", O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    std::fprintf(stderr, "%s: %s\n", argv[0], std::strerror(errno));
    _exit(127);
  }
  int status = 0;
  while (true) {
    const pid_t ended = wait(&status);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) GiveUp("wait");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main() {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Mount("proc", "/proc", "proc");
  Mount("sys", "/sys", "sysfs");
  Mount("dev", "/dev", "devtmpfs");
  Mount("tmp", "/tmp", "tmpfs");
  Mount("shm", "/dev/shm", "tmpfs");
  // The kernel gives init a console only where /dev/console was there before devtmpfs.
  const int console = open("/dev/console", O_RDWR);
  if (console >= 0) {
    dup2(console, 0);
    dup2(console, 1);
    dup2(console, 2);
  }
  std::printf("qpexam-guest: up\n");
  LoadModules();
  Mount("job", kJob, "9p", 0, "trans=virtio,version=9p2000.L,msize=262144,cache=none");
  MakeNetDevice();
  MakeRxe();
  const int status = RunCommand();
  {
    std::ofstream file(std::string(kJob) + "/status");
    file << status << "\n";
  }
  umount(kJob);
  PowerOff();
}
