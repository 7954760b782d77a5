// Devices and contexts: listing, opening, attributes, ports, GIDs, P_Keys.
#include <endian.h>
#include <poll.h>

#include "reference/provider/control.h"
#include "reference/provider/testing.h"
#include "third_party/rdma_core/seam/seam.h"

namespace qpexam::provider {
namespace {

std::vector<std::string> Listed() {
  int count = -1;
  ibv_device** list = ibv_get_device_list(&count);
  std::vector<std::string> names;
  if (list == nullptr) return names;
  for (int i = 0; i < count; ++i) names.push_back(ibv_get_device_name(list[i]));
  EXPECT_EQ(list[count], nullptr);
  ibv_free_device_list(list);
  return names;
}

int CountOf(const std::string& name) {
  int n = 0;
  for (const std::string& listed : Listed()) n += listed == name;
  return n;
}

TEST(DeviceTest, IsListedOnceEachTime) {
  EXPECT_EQ(CountOf("qpexam0"), 1);
  EXPECT_EQ(CountOf("qpexam0"), 1);
}

TEST(DeviceTest, NamesItselfBeforeItIsOpened) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  bool seen = false;
  for (int i = 0; i < count; ++i) {
    if (strcmp(ibv_get_device_name(list[i]), "qpexam0") != 0) continue;
    seen = true;
    EXPECT_EQ(be64toh(ibv_get_device_guid(list[i])), 0x0002c90300000001u);
    EXPECT_GE(ibv_get_device_index(list[i]), 0);
    EXPECT_EQ(list[i]->node_type, IBV_NODE_CA);
    EXPECT_EQ(list[i]->transport_type, IBV_TRANSPORT_IB);
  }
  EXPECT_TRUE(seen);
  ibv_free_device_list(list);
}

// libibverbs looks into the match table of every driver for a device whose driver it knows; a
// driver without one ends the program.
TEST(DeviceTest, IsListedBesideADeviceOfAKnownDriver) {
  qpx_seam_device other = {};
  other.name = "other0";
  other.modalias = "";
  other.driver_id = 0x7fff;
  ASSERT_EQ(qpx_seam_add_device(&other), 0) << strerror(errno);
  EXPECT_EQ(CountOf("qpexam0"), 1);
  EXPECT_EQ(CountOf("other0"), 0) << "a device that no driver claims";
  EXPECT_EQ(qpx_seam_remove_device("other0"), 0);
}

TEST(DeviceTest, OpensTwiceAndReopens) {
  ContextPtr first = OpenDevice("qpexam0");
  ASSERT_NE(first, nullptr);
  ContextPtr second = OpenDevice("qpexam0");
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first->async_fd, second->async_fd);
  first.reset();
  second.reset();
  EXPECT_NE(OpenDevice("qpexam0"), nullptr);
}

TEST(DeviceTest, AFreedListDoesNotEndAnOpenContext) {
  ContextPtr context = OpenDevice("qpexam0");
  ASSERT_NE(context, nullptr);
  EXPECT_STREQ(ibv_get_device_name(context->device), "qpexam0");
  ibv_device_attr attr;
  EXPECT_EQ(ibv_query_device(context.get(), &attr), 0);
}

TEST(DeviceTest, OffersMoreDevicesOnDemand) {
  ASSERT_EQ(SetDeviceCount(2), 0);
  EXPECT_EQ(CountOf("qpexam0"), 1);
  EXPECT_EQ(CountOf("qpexam1"), 1);
  ContextPtr second = OpenDevice("qpexam1");
  EXPECT_NE(second, nullptr);
  second.reset();
  ASSERT_EQ(SetDeviceCount(1), 0);
  EXPECT_EQ(CountOf("qpexam1"), 0);
  EXPECT_EQ(SetDeviceCount(kMaxDevices + 1), EINVAL);
  EXPECT_EQ(DeviceCount(), 1);
}

TEST(DeviceTest, CanGoAwayAndComeBack) {
  ASSERT_EQ(SetDeviceCount(0), 0);
  EXPECT_EQ(CountOf("qpexam0"), 0);
  ASSERT_EQ(SetDeviceCount(1), 0);
  EXPECT_EQ(CountOf("qpexam0"), 1);
}

class ContextTest : public VerbsTest {};

TEST_F(ContextTest, IsRecognised) { EXPECT_TRUE(IsReference(context_.get())); }

TEST_F(ContextTest, QueryDeviceSaysWhatTheExtendedQuerySays) {
  ibv_device_attr attr;
  ibv_device_attr_ex ex;
  memset(&attr, 0xff, sizeof(attr));
  memset(&ex, 0xff, sizeof(ex));
  ASSERT_EQ(ibv_query_device(context_.get(), &attr), 0);
  ASSERT_EQ(ibv_query_device_ex(context_.get(), nullptr, &ex), 0);
  EXPECT_EQ(memcmp(&attr, &ex.orig_attr, sizeof(attr)), 0);
  EXPECT_EQ(attr.phys_port_cnt, 1);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  // WR-DATA-034: FLUSH to global and persistent memory, ATOMIC_WRITE.
  EXPECT_EQ(ex.device_cap_flags_ex >> 38 & 7, 7u);
  EXPECT_EQ(ex.tso_caps.supported_qpts, 1u << IBV_QPT_RAW_PACKET);
  EXPECT_EQ(ex.phys_port_cnt_ex, 1u);
}

TEST_F(ContextTest, QueryDeviceExRefusesUnknownInput) {
  ibv_query_device_ex_input input = {};
  input.comp_mask = 1;
  ibv_device_attr_ex ex;
  EXPECT_NE(ibv_query_device_ex(context_.get(), &input, &ex), 0);
}

TEST_F(ContextTest, HasOneActivePort) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context_.get(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_GE(port.max_msg_sz, 1u << 30);
  EXPECT_NE(ibv_query_port(context_.get(), 0, &port), 0);
  EXPECT_NE(ibv_query_port(context_.get(), 2, &port), 0);
}

TEST_F(ContextTest, AnswersEveryGidQueryAlike) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context_.get(), 1, &port), 0);
  ibv_gid_entry table[64];
  const ssize_t count = ibv_query_gid_table(context_.get(), table, 64, 0);
  ASSERT_EQ(count, 3);
  for (ssize_t i = 0; i < count; ++i) {
    ibv_gid_entry entry = {};
    ASSERT_EQ(ibv_query_gid_ex(context_.get(), 1, table[i].gid_index, &entry, 0), 0);
    EXPECT_EQ(memcmp(&entry, &table[i], sizeof(entry)), 0);
    ibv_gid gid;
    ASSERT_EQ(ibv_query_gid(context_.get(), 1, static_cast<int>(table[i].gid_index), &gid), 0);
    EXPECT_EQ(memcmp(&gid, &entry.gid, sizeof(gid)), 0);
  }
  EXPECT_EQ(table[0].gid_type, static_cast<uint32_t>(IBV_GID_TYPE_ROCE_V1));
  EXPECT_EQ(table[1].gid_type, static_cast<uint32_t>(IBV_GID_TYPE_ROCE_V2));
  // A table that is too small is refused, not cut.
  EXPECT_LT(ibv_query_gid_table(context_.get(), table, 2, 0), 0);
}

TEST_F(ContextTest, AnEmptyGidSlotReadsAsZero) {
  ibv_gid gid;
  memset(&gid, 0xff, sizeof(gid));
  ASSERT_EQ(ibv_query_gid(context_.get(), 1, 7, &gid), 0);
  const ibv_gid zero = {};
  EXPECT_EQ(memcmp(&gid, &zero, sizeof(gid)), 0);
  ibv_gid_entry entry = {};
  EXPECT_EQ(ibv_query_gid_ex(context_.get(), 1, 7, &entry, 0), ENODATA);
  EXPECT_NE(ibv_query_gid(context_.get(), 1, 16, &gid), 0);
  EXPECT_NE(ibv_query_gid(context_.get(), 2, 0, &gid), 0);
}

TEST_F(ContextTest, HasTheDefaultPkey) {
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(context_.get(), 1, 0, &pkey), 0);
  EXPECT_EQ(be16toh(pkey), 0xffff);
  EXPECT_EQ(ibv_get_pkey_index(context_.get(), 1, pkey), 0);
  EXPECT_LT(ibv_get_pkey_index(context_.get(), 1, htobe16(0x1234)), 0);
  EXPECT_NE(ibv_query_pkey(context_.get(), 1, 1, &pkey), 0);
}

TEST_F(ContextTest, ReadsItsClock) {
  ibv_values_ex values = {};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(context_.get(), &values), 0);
  EXPECT_EQ(values.comp_mask, static_cast<uint32_t>(IBV_VALUES_MASK_RAW_CLOCK));
}

TEST_F(ContextTest, AsyncFdIsSilentAndPollable) {
  pollfd fd = {context_->async_fd, POLLIN, 0};
  EXPECT_EQ(poll(&fd, 1, 0), 0);
}

TEST_F(ContextTest, WhatIsNotOfferedSaysSo) {
  errno = 0;
  ibv_alloc_dm_attr dm = {};
  EXPECT_EQ(ibv_alloc_dm(context_.get(), &dm), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_wq_init_attr wq = {};
  EXPECT_EQ(ibv_create_wq(context_.get(), &wq), nullptr);
}

}  // namespace
}  // namespace qpexam::provider
