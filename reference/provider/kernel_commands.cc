#include "reference/provider/kernel_commands.h"

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "reference/provider/event_pipe.h"
#include "reference/provider/port.h"
#include "third_party/rdma_core/seam/seam.h"

namespace qpexam::provider {
namespace {

const ib_uverbs_attr* FindAttr(const ib_uverbs_ioctl_hdr& command, uint16_t id) {
  for (unsigned i = 0; i < command.num_attrs; ++i) {
    if (command.attrs[i].attr_id == id) return &command.attrs[i];
  }
  return nullptr;
}

// Inputs of up to 8 bytes travel in the attribute itself.
uint64_t InlineValue(const ib_uverbs_ioctl_hdr& command, uint16_t id) {
  const ib_uverbs_attr* attr = FindAttr(command, id);
  if (attr == nullptr) return 0;
  if (attr->len <= sizeof(uint32_t)) return static_cast<uint32_t>(attr->data);
  return attr->data;
}

void* Output(const ib_uverbs_ioctl_hdr& command, uint16_t id, size_t* size) {
  const ib_uverbs_attr* attr = FindAttr(command, id);
  if (attr == nullptr) return nullptr;
  *size = attr->len;
  return reinterpret_cast<void*>(static_cast<uintptr_t>(attr->data));
}

int CreateCompChannel(const ib_uverbs_ioctl_hdr& command) {
  size_t size = 0;
  void* out = Output(command, UVERBS_ATTR_CORE_OUT, &size);
  ib_uverbs_create_comp_channel_resp response = {};
  if (out == nullptr || size < sizeof(response)) return ENOSPC;
  std::shared_ptr<EventPipe> pipe = EventPipe::Create(EventPipe::Format::kCompletion);
  if (pipe == nullptr) return errno;
  response.fd = static_cast<uint32_t>(pipe->read_fd());
  memcpy(out, &response, sizeof(response));
  return 0;
}

// libibverbs probes with one attribute whether this command exists: a short request is ENOSPC.
int InvokeWrite(const ib_uverbs_ioctl_hdr& command) {
  if (InlineValue(command, UVERBS_ATTR_WRITE_CMD) == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL)
    return CreateCompChannel(command);
  return FindAttr(command, UVERBS_ATTR_CORE_OUT) == nullptr ? ENOSPC : EOPNOTSUPP;
}

ib_uverbs_gid_entry KernelEntry(int index, const GidEntry& entry) {
  ib_uverbs_gid_entry out = {};
  static_assert(sizeof(out.gid) == sizeof(entry.gid));
  memcpy(out.gid, entry.gid.raw, sizeof(out.gid));
  out.gid_index = static_cast<uint32_t>(index);
  out.port_num = 1;
  out.gid_type = entry.type;
  return out;
}

int QueryGidEntry(int device, const ib_uverbs_ioctl_hdr& command) {
  const uint64_t port = InlineValue(command, UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
  const uint64_t index = InlineValue(command, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
  if (InlineValue(command, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS) != 0) return EINVAL;
  if (port != 1 || index >= kGidTableLength) return EINVAL;
  GidEntry entry;
  if (!GidAt(device, static_cast<int>(index), &entry)) return ENODATA;
  size_t size = 0;
  void* out = Output(command, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &size);
  const ib_uverbs_gid_entry answer = KernelEntry(static_cast<int>(index), entry);
  if (out == nullptr) return EINVAL;
  memcpy(out, &answer, std::min(size, sizeof(answer)));
  return 0;
}

int QueryGidTable(int device, const ib_uverbs_ioctl_hdr& command) {
  const uint64_t entry_size = InlineValue(command, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
  if (InlineValue(command, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS) != 0) return EINVAL;
  size_t room = 0, count_size = 0;
  auto* out =
      static_cast<uint8_t*>(Output(command, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, &room));
  void* count_out = Output(command, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count_size);
  if (entry_size == 0 || count_out == nullptr) return EINVAL;
  uint64_t count = 0;
  for (int i = 0; i < kGidTableLength; ++i) {
    GidEntry entry;
    if (!GidAt(device, i, &entry)) continue;
    if (out == nullptr || (count + 1) * entry_size > room) return EINVAL;
    const ib_uverbs_gid_entry answer = KernelEntry(i, entry);
    memset(out + count * entry_size, 0, entry_size);
    memcpy(out + count * entry_size, &answer, std::min<size_t>(entry_size, sizeof(answer)));
    ++count;
  }
  memcpy(count_out, &count, std::min(count_size, sizeof(count)));
  return 0;
}

int Execute(int device, const ib_uverbs_ioctl_hdr& command) {
  if (command.object_id != UVERBS_OBJECT_DEVICE) return EOPNOTSUPP;
  switch (command.method_id) {
    case UVERBS_METHOD_INVOKE_WRITE:
      return InvokeWrite(command);
    case UVERBS_METHOD_QUERY_GID_ENTRY:
      return QueryGidEntry(device, command);
    case UVERBS_METHOD_QUERY_GID_TABLE:
      return QueryGidTable(device, command);
    default:
      return EOPNOTSUPP;
  }
}

int Ioctl(void* owner, int /*fd*/, unsigned long request, void* argument) {
  const int device = static_cast<int>(reinterpret_cast<intptr_t>(owner));
  errno = request == RDMA_VERBS_IOCTL
              ? Execute(device, *static_cast<const ib_uverbs_ioctl_hdr*>(argument))
              : ENOTTY;
  return errno == 0 ? 0 : -1;
}

// No caller is left: every command has an ioctl form since the kernel 4.20 whose ABI we answer.
ssize_t Write(void* /*owner*/, int /*fd*/, const void* /*bytes*/, size_t /*size*/) {
  errno = EOPNOTSUPP;
  return -1;
}

const qpx_seam_fd_ops kCommandFdOps = {
    .ioctl = Ioctl,
    .write = Write,
    .mmap = nullptr,
    .munmap = nullptr,
    .close = nullptr,
};

}  // namespace

int OpenCommandFd(int device) {
  int fd = eventfd(0, EFD_CLOEXEC);
  if (fd < 0) return -1;
  if (qpx_seam_bind_fd(fd, &kCommandFdOps, reinterpret_cast<void*>(intptr_t{device})) == 0)
    return fd;
  const int saved = errno;
  close(fd);
  errno = saved;
  return -1;
}

}  // namespace qpexam::provider
