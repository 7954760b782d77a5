#include "reference/provider/port.h"

#include <endian.h>

#include <cstdio>
#include <cstring>

namespace qpexam::provider {
namespace {

// device_cap_flags_ex bits that only the kernel's header names (uapi ib_user_verbs.h).
constexpr uint64_t kCapFlushGlobal = uint64_t{1} << 38;
constexpr uint64_t kCapFlushPersistent = uint64_t{1} << 39;
constexpr uint64_t kCapAtomicWrite = uint64_t{1} << 40;

constexpr unsigned kCapFlags =
    IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
    IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC | IBV_DEVICE_MEM_MGT_EXTENSIONS |
    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_RAW_IP_CSUM;

// link_layer and phys_state have no enum of their own in verbs.h for these.
constexpr uint8_t kPhysLinkUp = 5;
constexpr uint8_t kWidth4x = 2;
constexpr uint8_t kSpeedEdr = 32;

}  // namespace

bool GidAt(int device, int index, GidEntry* entry) {
  if (index < 0 || index > 2) return false;
  *entry = {};
  const uint8_t host = static_cast<uint8_t>(device + 1);
  if (index == 2) {
    const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, host};
    memcpy(entry->gid.raw, mapped, sizeof(mapped));
  } else {
    const uint8_t link_local[16] = {0xfe, 0x80, 0,    0,    0,    0,    0, 0,
                                    0x00, 0x02, 0xc9, 0xff, 0xfe, 0x00, 0, host};
    memcpy(entry->gid.raw, link_local, sizeof(link_local));
  }
  entry->type = index == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  return true;
}

uint64_t NodeGuid(int device) { return 0x0002c90300000001 + static_cast<uint64_t>(device); }

ibv_device_attr_ex DeviceAttributes(int device, const model::DeviceLimits& limits) {
  ibv_device_attr_ex ex = {};
  ibv_device_attr& attr = ex.orig_attr;
  snprintf(attr.fw_ver, sizeof(attr.fw_ver), "1.0.0");
  attr.node_guid = htobe64(NodeGuid(device));
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = limits.max_mr_size;
  attr.page_size_cap = 0xfffff000;
  attr.vendor_id = 0;
  attr.vendor_part_id = 0;
  attr.hw_ver = 1;
  attr.max_qp = 1 << 16;
  attr.max_qp_wr = static_cast<int>(limits.max_qp_wr);
  attr.device_cap_flags = kCapFlags;
  attr.max_sge = static_cast<int>(limits.max_sge);
  attr.max_sge_rd = static_cast<int>(limits.max_sge_rd);
  attr.max_cq = 1 << 16;
  attr.max_cqe = static_cast<int>(limits.max_cqe);
  attr.max_mr = 1 << 20;
  attr.max_pd = 1 << 16;
  attr.max_qp_rd_atom = static_cast<int>(limits.max_rd_atomic);
  attr.max_res_rd_atom = attr.max_qp_rd_atom * attr.max_qp;
  attr.max_qp_init_rd_atom = attr.max_qp_rd_atom;
  attr.atomic_cap = limits.atomic_cap;
  attr.max_mw = 1 << 20;
  attr.max_raw_ethy_qp = 1 << 10;
  attr.max_mcast_grp = static_cast<int>(limits.max_mcast_grp);
  attr.max_mcast_qp_attach = static_cast<int>(limits.max_mcast_qp_attach);
  attr.max_total_mcast_qp_attach = attr.max_mcast_grp * attr.max_mcast_qp_attach;
  attr.max_ah = 1 << 16;
  attr.max_srq = 1 << 16;
  attr.max_srq_wr = static_cast<int>(limits.max_srq_wr);
  attr.max_srq_sge = static_cast<int>(limits.max_srq_sge);
  attr.max_pkeys = limits.pkey_table_len;
  attr.local_ca_ack_delay = 15;
  attr.phys_port_cnt = 1;

  ex.completion_timestamp_mask = ~uint64_t{0};
  ex.hca_core_clock = kCoreClockKhz;
  ex.device_cap_flags_ex =
      uint64_t{kCapFlags} | kCapFlushGlobal | kCapFlushPersistent | kCapAtomicWrite;
  ex.tso_caps.max_tso = limits.max_tso;
  ex.tso_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
  ex.raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM;
  ex.phys_port_cnt_ex = 1;
  return ex;
}

ibv_port_attr PortAttributes(const model::DeviceLimits& limits) {
  ibv_port_attr port = {};
  port.state = IBV_PORT_ACTIVE;
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = limits.port_mtu;
  port.gid_tbl_len = kGidTableLength;
  port.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  port.max_msg_sz = static_cast<uint32_t>(limits.max_msg_sz);
  port.pkey_tbl_len = limits.pkey_table_len;
  port.max_vl_num = 1;
  port.active_width = kWidth4x;
  port.active_speed = kSpeedEdr;
  port.phys_state = kPhysLinkUp;
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  port.flags = IBV_QPF_GRH_REQUIRED;
  return port;
}

}  // namespace qpexam::provider
