// A device registered with the seam, from its place in ibv_get_device_list() to its closing,
// through a driver of a few lines: what the reference provider and the hosted providers build on.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "third_party/rdma_core/seam/command.h"
#include "third_party/rdma_core/seam/driver.h"
#include "third_party/rdma_core/seam/registered.h"
#include "third_party/rdma_core/seam/seam.h"

namespace {

// --- a driver ------------------------------------------------------------------------------------

void ToyFreeContext(ibv_context* context) {
  verbs_context* verbs = reinterpret_cast<verbs_context*>(reinterpret_cast<char*>(context) -
                                                          offsetof(verbs_context, context));
  verbs_uninit_context(verbs);
  std::free(verbs);
}

verbs_context* ToyAllocContext(ibv_device* device, int cmd_fd, void*) {
  auto* verbs = static_cast<verbs_context*>(std::calloc(1, sizeof(verbs_context)));
  if (verbs_init_context(verbs, device, cmd_fd, RDMA_DRIVER_UNKNOWN) != 0) {
    std::free(verbs);
    return nullptr;
  }
  verbs->context.async_fd = -2;  // none, and the library need not ask for one
  verbs_context_ops ops = {};
  ops.free_context = ToyFreeContext;
  verbs_set_ops(verbs, &ops);
  return verbs;
}

verbs_device* ToyAllocDevice(verbs_sysfs_dev*) {
  return static_cast<verbs_device*>(std::calloc(1, sizeof(verbs_device)));
}

void ToyUninitDevice(verbs_device* device) { std::free(device); }

const verbs_match_ent kToyMatches[] = {
    {.u = {.modalias = "toy:*"}, .kind = VERBS_MATCH_MODALIAS},
    {.kind = VERBS_MATCH_SENTINEL},
};

constexpr verbs_device_ops kToyDriver = {
    .name = "toy",
    .match_min_abi_version = 0,
    .match_max_abi_version = 1,
    .match_table = kToyMatches,
    .alloc_context = ToyAllocContext,
    .alloc_device = ToyAllocDevice,
    .uninit_device = ToyUninitDevice,
};

__attribute__((constructor)) void RegisterToyDriver() { verbs_register_driver(&kToyDriver); }

// --- a device ------------------------------------------------------------------------------------

class ToyDevice {
 public:
  explicit ToyDevice(const char* name) : name_(name) {
    qpx_seam_device device = {};
    device.name = name_.c_str();
    device.modalias = "toy:one";
    device.num_ports = 1;
    device.node_guid = 0x0002c90300000001;
    device.owner = this;
    device.sysfs_file = [](void*, const char* path) -> const char* {
      return std::strcmp(path, "ports/1/pkeys/0") == 0 ? "0xffff\n" : nullptr;
    };
    device.command = [](void* owner, ibv_context*, ib_uverbs_ioctl_hdr* command) {
      return static_cast<ToyDevice*>(owner)->Command(command);
    };
    EXPECT_EQ(0, qpx_seam_add_device(&device)) << std::strerror(errno);
  }
  ~ToyDevice() { EXPECT_EQ(0, qpx_seam_remove_device(name_.c_str())); }

  // Methods of the device object that were called.
  const std::vector<int>& methods() const { return methods_; }

 private:
  int Command(ib_uverbs_ioctl_hdr* command) {
    methods_.push_back(command->method_id);
    if (command->object_id == UVERBS_OBJECT_DEVICE &&
        command->method_id == UVERBS_METHOD_QUERY_GID_ENTRY) {
      ib_uverbs_gid_entry entry = {};
      entry.gid_index = 7;
      entry.port_num = 1;
      qpx_seam_attr_answer(qpx_seam_attr(command, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY), &entry,
                           sizeof(entry));
      return 0;
    }
    // The library's probe, whether write commands can be wrapped: yes, but this one has too few
    // attributes.
    errno = ENOSPC;
    return -1;
  }

  const std::string name_;
  std::vector<int> methods_;
};

// The listed device of that name, or null. The list must outlive its use.
ibv_device* Find(ibv_device** list, const char* name) {
  for (; *list != nullptr; ++list) {
    if (std::strcmp(ibv_get_device_name(*list), name) == 0) return *list;
  }
  return nullptr;
}

// Opens the device of that name by a list of its own, as a program does; null if it is not listed
// or does not open.
ibv_context* OpenByName(const char* name) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_device* device = list == nullptr ? nullptr : Find(list, name);
  ibv_context* context = device == nullptr ? nullptr : ibv_open_device(device);
  if (list != nullptr) ibv_free_device_list(list);
  return context;
}

// --- tests ---------------------------------------------------------------------------------------

TEST(SeamDevice, IsListedWithItsNameAndGuid) {
  ToyDevice toy("toy0");
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(nullptr, list);
  EXPECT_GE(count, 1);
  ibv_device* device = Find(list, "toy0");
  ASSERT_NE(nullptr, device);
  EXPECT_EQ(htobe64(0x0002c90300000001), ibv_get_device_guid(device));
  EXPECT_EQ(IBV_NODE_CA, device->node_type);
  EXPECT_TRUE(qpexam::IsRegistered(device));
  // The machine's own device of that name.
  ibv_device own = *device;
  snprintf(own.ibdev_path, sizeof(own.ibdev_path), "/sys/class/infiniband/toy0");
  EXPECT_FALSE(qpexam::IsRegistered(&own));
  ibv_free_device_list(list);
}

TEST(SeamDevice, OpensAndClosesTwice) {
  ToyDevice toy("toy0");
  for (int round = 0; round < 2; ++round) {
    ibv_context* context = OpenByName("toy0");
    ASSERT_NE(nullptr, context) << "round " << round;
    EXPECT_STREQ("toy0", ibv_get_device_name(context->device));
    EXPECT_EQ(0, ibv_close_device(context));
  }
}

TEST(SeamDevice, StaysTheSameAcrossLists) {
  ToyDevice toy("toy0");
  ibv_device** first = ibv_get_device_list(nullptr);
  ibv_device** second = ibv_get_device_list(nullptr);
  EXPECT_EQ(Find(first, "toy0"), Find(second, "toy0"));
  ibv_free_device_list(first);
  ibv_free_device_list(second);
}

TEST(SeamDevice, IsGoneWhenRemoved) {
  ibv_device** old_list = nullptr;
  {
    ToyDevice toy("toy0");
    old_list = ibv_get_device_list(nullptr);
  }
  ToyDevice successor("toy0");
  // A list that was made before keeps the old device, which cannot be opened any more, not even by
  // its slot's next user.
  EXPECT_EQ(nullptr, ibv_open_device(Find(old_list, "toy0")));
  EXPECT_EQ(ENODEV, errno);
  ibv_free_device_list(old_list);
}

TEST(SeamDevice, AnswersSysfsFilesByName) {
  ToyDevice toy("toy0");
  ibv_context* context = OpenByName("toy0");
  ASSERT_NE(nullptr, context);
  __be16 pkey = 0;
  EXPECT_EQ(0, ibv_query_pkey(context, 1, 0, &pkey));
  EXPECT_EQ(htobe16(0xffff), pkey);
  EXPECT_NE(0, ibv_query_pkey(context, 1, 1, &pkey));
  EXPECT_EQ(0, ibv_close_device(context));
}

TEST(SeamDevice, AnswersCommands) {
  ToyDevice toy("toy0");
  ibv_context* context = OpenByName("toy0");
  ASSERT_NE(nullptr, context);
  ibv_gid_entry entry = {};
  EXPECT_EQ(0, ibv_query_gid_ex(context, 1, 7, &entry, 0));
  EXPECT_EQ(7u, entry.gid_index);
  ASSERT_FALSE(toy.methods().empty());
  EXPECT_EQ(UVERBS_METHOD_INVOKE_WRITE, toy.methods().front()) << "verbs_init_context asks first";
  EXPECT_EQ(0, ibv_close_device(context));
}

TEST(SeamDevice, NamesAreUniqueAndFitTheirField) {
  ToyDevice toy("toy0");
  qpx_seam_device device = {};
  device.modalias = "toy:one";
  EXPECT_EQ(-1, qpx_seam_add_device(&device));
  EXPECT_EQ(EINVAL, errno) << "without a name";
  device.name = "toy0";
  EXPECT_EQ(-1, qpx_seam_add_device(&device));
  EXPECT_EQ(EEXIST, errno);
  const std::string long_name(64, 'x');
  device.name = long_name.c_str();
  EXPECT_EQ(-1, qpx_seam_add_device(&device));
  EXPECT_EQ(EINVAL, errno);
  EXPECT_EQ(-1, qpx_seam_remove_device("toy1"));
  EXPECT_EQ(ENODEV, errno);
}

}  // namespace
