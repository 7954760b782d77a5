// The insides of the emulated kernel: its objects, and who calls whom. Included by kernel.cc,
// commands.cc, native.cc and work.cc alone.
#ifndef QPEXAM_HARNESS_HOSTED_KERNEL_IMPL_H_
#define QPEXAM_HARNESS_HOSTED_KERNEL_IMPL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "harness/hosted/device_model.h"
#include "harness/hosted/fifo.h"
#include "harness/hosted/guarded_memory.h"
#include "harness/hosted/kernel.h"
#include "reference/model/engine.h"
#include "third_party/rdma_core/seam/seam.h"

namespace qpexam::hosted {

struct Context;

struct HostedDevice {
  KernelImpl* kernel = nullptr;
  std::unique_ptr<DeviceModel> model;
  std::string name;
  uint64_t guid = 0;
};

// What every object of a context has. Its memory stays mapped until the provider unmaps it, even
// when the object is gone.
struct HostedObject {
  Context* context = nullptr;
  uint32_t handle = 0;
  uint64_t user_handle = 0;  // the library's object, named by events
  uint32_t async_events = 0;
  std::vector<uint64_t> mappings;  // offsets
};

struct HostedPd : HostedObject {
  model::Pd* pd = nullptr;
};
struct HostedMr : HostedObject {
  model::Mr* mr = nullptr;
};
struct HostedMw : HostedObject {
  model::Mw* mw = nullptr;
};
struct HostedAh : HostedObject {
  AhFacts facts;
  model::Ah* ah = nullptr;
};

struct HostedSrq;

struct HostedCq : HostedObject, model::CqSink {
  CqFacts facts;
  model::Cq* cq = nullptr;
  int channel = -1;
  uint32_t comp_events = 0;
  Fifo<NativeCompletion> held;
  std::vector<HostedSrq*> xrc_srqs;  // whose receives complete here

  bool OnCompletion(model::Cq&, const model::Completion& completion) override;
  void OnCqEvent(model::Cq&) override {}  // arming is the kernel's own: see work.cc
};

struct HostedXrcd : HostedObject {
  model::Xrcd* xrcd = nullptr;
};

// An entry of a work queue that the engine has and that has not completed.
struct PendingSend {
  uint64_t token;  // the engine's wr_id
  uint64_t wr_id;
  model::Operation op;
  uint32_t entry;
  uint32_t slots;
  uint32_t native_index;
};
struct PendingReceive {
  uint64_t token;
  uint64_t wr_id;
  uint32_t entry;
  uint32_t native_index;
};

struct HostedSrq : HostedObject {
  SrqFacts facts;
  model::Srq* srq = nullptr;
  HostedCq* cq = nullptr;  // XRC
  Fifo<PendingReceive> pending;
  bool pumping = false;
};

// Of an XRC_RECV QP, a handle: ibv_open_qp() makes another of the same QP.
struct HostedQp : HostedObject {
  QpFacts facts;
  model::Qp* qp = nullptr;
  HostedCq* send_cq = nullptr;
  HostedCq* recv_cq = nullptr;
  HostedSrq* srq = nullptr;
  Fifo<PendingSend> sends;
  Fifo<PendingReceive> receives;
  std::set<std::string> multicast_groups;  // GIDs: a QP in one cannot be destroyed
  bool pumping = false;
};

// Handles of one kind of object in one context.
template <typename T>
class Handles {
 public:
  T* Add(std::unique_ptr<T> object) {
    uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
      objects_[index] = std::move(object);
    } else {
      index = static_cast<uint32_t>(objects_.size());
      objects_.push_back(std::move(object));
    }
    objects_[index]->handle = index;
    return objects_[index].get();
  }
  T* Find(uint32_t handle) const {
    return handle < objects_.size() ? objects_[handle].get() : nullptr;
  }
  void Remove(uint32_t handle) {
    objects_[handle].reset();
    free_.push_back(handle);
  }
  template <typename F>
  void ForEach(F f) {
    for (size_t i = 0; i < objects_.size(); ++i) {
      if (objects_[i] != nullptr) f(*objects_[i]);
    }
  }

 private:
  std::vector<std::unique_ptr<T>> objects_;
  std::vector<uint32_t> free_;
};

// Memory that a provider may map.
struct MappedMemory {
  Mapping mapping;
  bool owned = true;  // by a live object
  int mapped = 0;
  bool device_page = false;
};

// An opened device.
struct Context {
  KernelImpl* kernel = nullptr;
  HostedDevice* device = nullptr;
  model::Device* engine = nullptr;
  int fd = -1;
  int async_fd = -1;
  // What a context finds out once, when it is opened, stays.
  bool write_only = false;
  KernelAge kernel_age = KernelAge::kToday;

  Handles<HostedPd> pds;
  Handles<HostedMr> mrs;
  Handles<HostedMw> mws;
  Handles<HostedCq> cqs;
  Handles<HostedSrq> srqs;
  Handles<HostedQp> qps;
  Handles<HostedAh> ahs;
  Handles<HostedXrcd> xrcds;
  std::map<uint64_t, MappedMemory> memory;            // by mmap offset
  std::unordered_map<const void*, uint64_t> mapped_;  // address to offset

  DeviceModel& model() { return *device->model; }
};

// One command, however it arrived.
struct Invocation {
  uint32_t command = 0;  // IB_USER_VERBS_CMD_*
  bool extended = false;
  Bytes core_in, private_in;
  MutBytes core_out, private_out;
};

class KernelImpl : public model::AsyncSink {
 public:
  explicit KernelImpl(const KernelOptions& options);
  ~KernelImpl() override;

  std::string AddDevice(std::unique_ptr<DeviceModel> model);
  bool Pump();
  void RunUntilIdle();
  void SetFreedom(const Freedom& wanted);

  // --- kernel.cc: the fds and what is mapped through them
  int Open(HostedDevice* device);
  int Ioctl(Context& context, unsigned long request, void* argument);
  ssize_t Write(Context& context, const void* bytes, size_t size);
  void* Mmap(Context& context, size_t length, uint64_t offset);
  int Munmap(Context& context, void* address, size_t length);
  void Close(Context& context);
  bool IsDevicePage(const void* address);
  int MmioStore(uint8_t* address, const void* bytes, size_t size);
  Mapping Allocate(Context& context, size_t size, HostedObject* owner);
  Mapping AllocateDevicePages(Context& context, size_t size, uint32_t number, HostedObject* owner);
  void ReleaseMemory(Context& context, HostedObject& object);

  // --- commands.cc
  int Execute(Context& context, const Invocation& call);
  // --- native.cc: methods that have no write() form
  int Native(Context& context, struct ib_uverbs_ioctl_hdr* header);

  // --- work.cc
  void ReadSendQueue(HostedQp& qp);
  void ReadReceiveQueue(HostedQp& qp);
  void ReadSharedQueue(HostedSrq& srq);
  void OnCompletion(HostedCq& cq, const model::Completion& completion);
  void OnSilentSuccess(HostedQp& qp, const model::SendRequest& request);
  void OnAsyncEvent(model::Device& device, const model::AsyncEvent& event) override;
  void Arm(HostedCq& cq, CqFacts::Arm arm);
  void Deliver(HostedCq& cq, const NativeCompletion& completion);
  bool ReleaseHeld();

  model::Fabric fabric;
  Freedom freedom;
  SeamObserver* observer = nullptr;
  GuardedMemory memory;
  uint64_t command_count = 0;

 private:
  friend class CommandHandler;
  void DestroyQp(HostedQp& qp);
  void DestroyCq(HostedCq& cq);
  void DestroySrq(HostedSrq& srq);
  void CloseXrcd(HostedXrcd& xrcd);
  void Raise(HostedObject& object, ibv_event_type type);
  uint32_t PurgeAsync(HostedObject& object);
  void FreeMemory(const MappedMemory& memory);
  void Misuse(std::string_view kind, const std::string& what);

  std::vector<std::unique_ptr<HostedDevice>> devices_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::unordered_map<uint32_t, HostedAh*> ahs_;
  std::unordered_map<uint32_t, HostedQp*> qps_;
  std::unordered_map<uint32_t, HostedCq*> cqs_;
  // The handles of each XRC_RECV QP. The first answers for it (model::Qp::owner, qps_).
  std::unordered_map<uint32_t, std::vector<HostedQp*>> xrc_handles_;
  // The XRC domains that files stand for (ibv_open_xrcd(3)): a device's, by device and inode of the
  // file.
  struct XrcdFile {
    uint64_t number = 0;  // model::Xrcd::inode
    int users = 0;
  };
  std::map<std::tuple<const HostedDevice*, uint64_t, uint64_t>, XrcdFile> xrcd_files_;
  uint64_t next_xrcd_file_ = 1;
  // Device pages by their first address, for stores.
  struct Page {
    Context* context;
    Mapping mapping;
  };
  std::map<uintptr_t, Page> pages_;
  uint32_t next_qp_ = 0, next_key_ = 0x100, next_cq_ = 1, next_srq_ = 1, next_ah_ = 1;
  uint64_t next_offset_ = uint64_t{1} << 32;
  uint64_t next_token_ = 1;
  uint64_t random_ = 1;
  DecodedSend send_scratch_;
  DecodedReceive receive_scratch_;
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_KERNEL_IMPL_H_
