#include "harness/hosted/device_model.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace qpexam::hosted {

MacAddress NeighbourOf(const ibv_gid& gid) {
  // Locally administered; alike for alike GIDs, and different where their ends differ.
  return {{0x02, gid.raw[0], gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]}};
}

Reply Error(int err) {
  Reply reply;
  reply.err = err;
  return reply;
}

Reply Respond(MutBytes out, const uint8_t* response, size_t size) {
  Reply reply;
  reply.out_bytes = std::min(out.size, size);
  if (reply.out_bytes != 0) std::memcpy(out.data, response, reply.out_bytes);
  return reply;
}

void DecodedSend::Clear() {
  request = model::SendRequest();
  sge.clear();
  inline_data.clear();
  header.clear();
  ah_number = mw_rkey = mr_lkey = native_index = 0;
  address.reset();
  ah_handles.clear();
  carries_wr_id = false;
  slots = 1;
  fails_with = IBV_WC_LOC_QP_OP_ERR;
  complaints.clear();
  raw = Bytes();
}

void DecodedReceive::Clear() {
  wr_id = 0;
  native_index = 0;
  carries_wr_id = false;
  sge.clear();
  complaints.clear();
  raw = Bytes();
}

Mapping DeviceModel::MapDevicePage(uint64_t, size_t, SharedMemory&) { return Mapping(); }

std::optional<Doorbell> DeviceModel::OnWrite(const Mapping&, uint64_t, Bytes) { return {}; }

bool DeviceModel::Retire(Queue&, uint32_t) { return false; }

void DeviceModel::Express(NativeCompletion*) const {}

int DeviceModel::AnswerNative(uint16_t, uint16_t, NativeAttributes&) { return EPROTONOSUPPORT; }

}  // namespace qpexam::hosted
