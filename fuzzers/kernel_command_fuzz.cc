// The emulated kernel's command parser: ioctl commands with any object, method and attributes. An
// attribute's bytes lie in memory of exactly its length, so that reading or answering beyond it is
// a sanitizer's report; that the kernel refuses is as good as that it answers.
#include <infiniband/verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "harness/devices/provider_family.h"

// What the provider's own code calls in ioctl()'s place (//third_party/rdma_core/seam).
extern "C" int qpx_seam_ioctl(int fd, unsigned long request, ...);

namespace {

constexpr size_t kMostCommands = 8, kMostAttributes = 12;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint16_t Get16() { return static_cast<uint16_t>(Get8() | Get8() << 8); }
  uint8_t Get8() {
    if (size_ == 0) return 0;
    size_--;
    return *data_++;
  }
  void Fill(uint8_t* out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = Get8();
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

void Command(Input* in, int fd) {
  const size_t count = in->Get8() % (kMostAttributes + 1);
  std::vector<uint8_t> bytes(sizeof(ib_uverbs_ioctl_hdr) + count * sizeof(ib_uverbs_attr));
  std::vector<std::unique_ptr<uint8_t[]>> buffers;
  auto* header = reinterpret_cast<ib_uverbs_ioctl_hdr*>(bytes.data());
  header->length = static_cast<uint16_t>(bytes.size());
  header->object_id = in->Get16() & 0x101f;
  header->method_id = in->Get16() & 0x101f;
  header->num_attrs = static_cast<uint16_t>(count);
  header->driver_id = in->Get8();
  for (size_t i = 0; i < count; i++) {
    ib_uverbs_attr& attr = header->attrs[i];
    attr.attr_id = in->Get16() & 0x10ff;
    attr.len = in->Get8();
    attr.flags = in->Get8() & 1;
    buffers.push_back(std::make_unique<uint8_t[]>(attr.len ? attr.len : 1));
    in->Fill(buffers.back().get(), attr.len);
    // Small attributes carry their value where the pointer is; the kernel may answer either.
    attr.data = reinterpret_cast<uintptr_t>(buffers.back().get());
  }
  (void)qpx_seam_ioctl(fd, RDMA_VERBS_IOCTL, header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  std::string why;
  qpexam::ProviderInfo info;
  if (!qpexam::FindProvider(in.Get8() & 1 ? "hosted:mlx5" : "hosted:rxe", &info, &why)) return 0;
  std::unique_ptr<qpexam::DeviceSession> session = qpexam::OpenProvider(info, &why);
  if (!session) return 0;
  if (ibv_context* context = session->Open(0)) {
    for (size_t i = 0; i < kMostCommands && !in.empty(); i++) Command(&in, context->cmd_fd);
    ibv_close_device(context);
  }
  return 0;
}
