// The ioctl() interface: its envelope for write commands (INVOKE_WRITE), and the few methods that
// have no write form. Every other method is answered by EPROTONOSUPPORT, on which libibverbs falls
// back to the write commands, so that one dispatcher (commands.cc) serves all.
#include <infiniband/verbs.h>  // with ib_user_ioctl_verbs.h, in its own way
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/hosted/bytes.h"
#include "harness/hosted/event_channel.h"
#include "harness/hosted/kernel_impl.h"

namespace qpexam::hosted {
namespace {

class Attributes : public NativeAttributes {
 public:
  explicit Attributes(ib_uverbs_ioctl_hdr* header) : header_(header) {}

  ib_uverbs_attr* Find(uint16_t id) {
    for (unsigned i = 0; i < header_->num_attrs; ++i) {
      if (header_->attrs[i].attr_id == id) return &header_->attrs[i];
    }
    return nullptr;
  }
  // Up to 8 bytes of input travel in the attribute itself.
  Bytes In(uint16_t id) override {
    ib_uverbs_attr* a = Find(id);
    if (a == nullptr) return Bytes{};
    if (a->len <= sizeof a->data) return {reinterpret_cast<const uint8_t*>(&a->data), a->len};
    return {reinterpret_cast<const uint8_t*>(a->data), a->len};
  }
  MutBytes Out(uint16_t id) override {
    ib_uverbs_attr* a = Find(id);
    if (a == nullptr) return MutBytes{};
    a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
    return {reinterpret_cast<uint8_t*>(a->data), a->len};
  }
  template <typename T>
  T Value(uint16_t id) {
    T value = {};
    Bytes in = In(id);
    if (in.size != 0) std::memcpy(&value, in.data, std::min(sizeof value, in.size));
    return value;
  }

 private:
  ib_uverbs_ioctl_hdr* header_;
};

ib_uverbs_gid_entry EntryOf(const ibv_gid& gid, uint32_t index) {
  ib_uverbs_gid_entry e = {};
  std::memcpy(e.gid, gid.raw, 16);
  e.gid_index = index;
  e.port_num = 1;
  e.gid_type = IBV_GID_TYPE_ROCE_V2;
  return e;
}

}  // namespace

int KernelImpl::Native(Context& context, ib_uverbs_ioctl_hdr* header) {
  Attributes attributes(header);
  if (header->object_id == UVERBS_OBJECT_ASYNC_EVENT &&
      header->method_id == UVERBS_METHOD_ASYNC_EVENT_ALLOC) {
    ib_uverbs_attr* fd = attributes.Find(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
    if (fd == nullptr) return EINVAL;
    context.async_fd = EventChannel::Open();
    if (context.async_fd < 0) return errno;
    fd->data_s64 = context.async_fd;
    fd->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
    return 0;
  }
  if ((header->method_id | header->object_id) & (1u << UVERBS_ID_NS_SHIFT)) {
    return context.model().AnswerNative(header->object_id, header->method_id, attributes);
  }
  if (header->object_id != UVERBS_OBJECT_DEVICE) return EPROTONOSUPPORT;
  switch (header->method_id) {
    case UVERBS_METHOD_INVOKE_WRITE: {
      // The library's probe names a command and nothing else: too short for any.
      if (header->num_attrs < 2) return ENOSPC;
      uint32_t command = attributes.Value<uint32_t>(UVERBS_ATTR_WRITE_CMD);
      Invocation call;
      call.command = command & IB_USER_VERBS_CMD_COMMAND_MASK;
      call.extended = (command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
      call.core_in = attributes.In(UVERBS_ATTR_CORE_IN);
      call.private_in = attributes.In(UVERBS_ATTR_UHW_IN);
      call.core_out = attributes.Out(UVERBS_ATTR_CORE_OUT);
      call.private_out = attributes.Out(UVERBS_ATTR_UHW_OUT);
      return Execute(context, call);
    }
    case UVERBS_METHOD_QUERY_GID_ENTRY: {
      uint64_t port = attributes.Value<uint32_t>(UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
      uint64_t index = attributes.Value<uint32_t>(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
      if (port != 1 || index >= context.engine->gids.size()) return EINVAL;
      ib_uverbs_gid_entry entry =
          EntryOf(context.engine->gids[index], static_cast<uint32_t>(index));
      MutBytes out = attributes.Out(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY);
      std::memcpy(out.data, &entry, std::min(out.size, sizeof entry));
      return 0;
    }
    case UVERBS_METHOD_QUERY_GID_TABLE: {
      size_t size = attributes.Value<uint64_t>(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
      MutBytes out = attributes.Out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
      uint64_t count = 0;
      for (const ibv_gid& gid : context.engine->gids) {
        if (size == 0 || (count + 1) * size > out.size) return EINVAL;
        ib_uverbs_gid_entry entry = EntryOf(gid, static_cast<uint32_t>(count));
        std::memcpy(out.data + count * size, &entry, std::min(size, sizeof entry));
        ++count;
      }
      MutBytes number = attributes.Out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES);
      std::memcpy(number.data, &count, std::min(number.size, sizeof count));
      return 0;
    }
    default:
      return EPROTONOSUPPORT;
  }
}

}  // namespace qpexam::hosted
