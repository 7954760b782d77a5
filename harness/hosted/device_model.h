// What a device model implements: the private half of one provider's dialogue with its kernel
// driver and its device. README.md walks through rxe's.
//
// The emulated kernel (kernel.h) owns objects, numbers, memory and scheduling, and the reference
// model (reference/model) executes. A device model only translates: private command data, doorbell
// stores, native work requests to model::SendRequest, completions to native CQEs. It holds no verbs
// context and no state of its own; what it must remember of a queue it writes into that Queue.
#ifndef QPEXAM_HARNESS_HOSTED_DEVICE_MODEL_H_
#define QPEXAM_HARNESS_HOSTED_DEVICE_MODEL_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "reference/model/engine.h"
#include "reference/model/ops.h"
#include "reference/model/types.h"

namespace qpexam::hosted {

using model::Bytes;
using model::MutBytes;

// Memory that the provider maps: the offset it passes to mmap(2), and where that memory lies. Each
// mapping is guarded: the byte behind `size` is a redzone or an unmapped page.
struct Mapping {
  uint64_t offset = 0;
  uint8_t* data = nullptr;
  size_t size = 0;
  // Of device pages that were allocated for a queue: what the model knows them by.
  uint32_t owner = 0;
};

// Where a device model gets the memory it shares with the provider. Freed with the object that the
// command is about.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  virtual Mapping Allocate(size_t size) = 0;
  // Whole pages whose stores reach OnWrite(), for devices that give each queue its own. `owner` is
  // Mapping::owner.
  virtual Mapping AllocateDevicePages(size_t size, uint32_t owner) = 0;
  // What the context of the command has mapped at an offset; size 0: nothing.
  virtual Mapping Mapped(uint64_t offset) = 0;
};

// A queue as the provider's memory holds it.
struct Queue {
  enum class Kind : uint8_t { kSend, kReceive, kShared, kCompletion };
  Kind kind = Kind::kSend;
  model::QpType type{};  // of a send or receive queue
  uint32_t number = 0;   // QPN, SRQN or CQN
  // The address of the ibv_qp, ibv_srq or ibv_cq, as the library named it at creation.
  uint64_t library_object = 0;

  uint8_t* base = nullptr;  // first byte of the ring (rxe: of its header)
  size_t size = 0;
  uint8_t* doorbell_record = nullptr;
  uint32_t entries = 0;  // slots of the ring
  uint32_t stride = 0;   // bytes a slot
  uint32_t max_sge = 0, max_inline = 0;

  // Of a work queue: the part of its CQ that its completions go to. They keep their order within
  // a part alone; most devices have one.
  uint32_t lane = 0;

  // Free-running. Work queues: the next entry that the device reads. CQ: the next it writes.
  uint32_t next = 0;
  // Of the last doorbell, on devices whose doorbells say more than that there is work.
  uint32_t doorbell = 0;
  // For the device model's own use.
  uint32_t note[12] = {};

  bool exists() const { return base != nullptr; }
};

struct CqFacts {
  uint32_t number = 0;
  uint32_t cqe = 0;  // in: asked for; out: granted
  Queue queue;
  enum class Arm : uint8_t { kNone, kSolicited, kAny };
  Arm arm = Arm::kNone;
  uint32_t arm_sequence = 0;
};

struct SrqFacts {
  uint32_t number = 0;
  CqFacts* cq = nullptr;   // of an XRC SRQ alone: where its receives complete
  ibv_srq_attr attr = {};  // in: asked for; out: granted
  Queue queue;
};

struct QpFacts {
  uint32_t number = 0;
  uint32_t number_bits = 24;  // of any QP of such a device
  model::QpType type{};
  ibv_qp_cap cap = {};  // in: asked for; out: granted
  bool signal_all = false;
  CqFacts* send_cq = nullptr;  // XRC_RECV: none
  CqFacts* recv_cq = nullptr;  // XRC_SEND, XRC_RECV: none
  SrqFacts* srq = nullptr;
  ibv_qp_state state = IBV_QPS_RESET;
  Queue sq, rq;
};

// The Ethernet address that the emulated network has for a GID.
struct MacAddress {
  uint8_t bytes[6];
};
MacAddress NeighbourOf(const ibv_gid& gid);

struct AhFacts {
  uint32_t number = 0;  // unique in the process, never 0
  ibv_ah_attr attr = {};
};

// Kernels differ in what their drivers' private responses hold: the structures of the kernel's ABI
// headers only ever grow at their end, and an older kernel fills the front alone. A newer one
// cannot write beyond the room that the library gives; it sets bits that this library does not
// know, and fields that it takes for reserved. Each model says which of its responses that touches.
enum class KernelAge : uint8_t { kToday, kOlder, kNewer };

// A command with private data. Pointers are set where the command is about such an object.
struct Command {
  enum class Kind : uint8_t {
    kGetContext,
    kQueryDevice,
    kAllocPd,
    kRegMr,
    kAllocMw,
    kCreateCq,
    kResizeCq,
    kCreateSrq,
    kModifySrq,
    kCreateQp,
    kModifyQp,
    kCreateAh,
    kPostSend,
  };
  Kind kind{};
  uint32_t pd = 0;
  CqFacts* cq = nullptr;
  SrqFacts* srq = nullptr;
  QpFacts* qp = nullptr;
  AhFacts* ah = nullptr;
  int attr_mask = 0;                  // kModifyQp, kModifySrq
  const ibv_qp_attr* attr = nullptr;  // kModifyQp
  bool extended = false;              // the EX form of a command that has two
  KernelAge kernel_age = KernelAge::kToday;
  SharedMemory* memory = nullptr;
};

struct Reply {
  int err = 0;            // an errno value
  size_t out_bytes = 0;   // of the private response
  bool doorbell = false;  // the command doubles as a doorbell of its QP (rxe's POST_SEND)
};

// For Answer(): a refusal, and a response, which is cut where the library's structure of it ends.
Reply Error(int err);
Reply Respond(MutBytes out, const uint8_t* response, size_t size);
template <typename T>
Reply Respond(MutBytes out, const T& response) {
  return Respond(out, reinterpret_cast<const uint8_t*>(&response), sizeof response);
}
// What a command says at an offset of its private part; zeros where the library sent less.
template <typename T>
T Read(Bytes in, size_t offset = 0) {
  T value = {};
  if (offset < in.size) {
    std::memcpy(&value, in.data + offset, std::min(in.size - offset, sizeof value));
  }
  return value;
}

// What a store to a device page means.
struct Doorbell {
  enum class Kind : uint8_t { kSend, kReceive, kShared, kCqConsumer, kArmCq };
  Kind kind = Kind::kSend;
  uint32_t number = 0;  // QPN, SRQN or CQN
  uint32_t value = 0;   // goes into Queue::doorbell
  CqFacts::Arm arm = CqFacts::Arm::kNone;
  uint32_t sequence = 0;
  bool keeps_value = false;  // `value` says nothing: Queue::doorbell stays
};

enum class Visibility : uint8_t {
  kNotYet,     // the provider has not handed this entry over
  kRequest,    // decoded
  kMalformed,  // handed over, but the device cannot execute it: see `fails_with`
};

// A decoded send WQE. Reused from entry to entry, so that decoding allocates nothing.
struct DecodedSend {
  // sge, inline_data and the object pointers (ah, mw, bind_mr) are filled in by the kernel from
  // the fields below.
  model::SendRequest request;
  std::vector<model::Sge> sge;
  std::vector<uint8_t> inline_data;
  // TSO: the header of each segment. A SEND of RAW_PACKET: the first bytes of the frame, where the
  // device wants them in the WQE itself; the rest lies in sge.
  std::vector<uint8_t> header;
  uint32_t ah_number = 0;  // 0: none
  // An address that the WQE itself holds: port_num and grh. Any AH with the same will do.
  std::optional<ibv_ah_attr> address;
  std::vector<uint32_t> ah_handles;  // of the library's ibv_ah that it can be; from the kernel
  uint32_t mw_rkey = 0;              // BIND_MW: the window's current rkey
  uint32_t mr_lkey = 0;              // BIND_MW
  bool carries_wr_id = false;        // some devices never see it
  uint32_t native_index = 0;         // what a CQE calls the entry, where it is not its place
  uint32_t slots = 1;
  ibv_wc_status fails_with = IBV_WC_LOC_QP_OP_ERR;
  // What is wrong with the WQE whether or not the device executes it (findings of kind `wqe`).
  std::vector<std::string> complaints;
  Bytes raw;  // the WQE's bytes

  void Clear();
};

struct DecodedReceive {
  uint64_t wr_id = 0;
  bool carries_wr_id = false;
  uint32_t native_index = 0;  // what a CQE calls the entry
  std::vector<model::Sge> sge;
  std::vector<std::string> complaints;
  Bytes raw;

  void Clear();
};

// A completion with what only some CQE formats carry.
struct NativeCompletion {
  model::Completion completion;  // wr_id: as decoded, where the WQE carries it
  uint32_t entry = 0;            // free-running index of the work queue entry it completes
  uint32_t native_index = 0;     // as decoded
  const Queue* work_queue = nullptr;
  QpFacts* qp = nullptr;
  const SrqFacts* srq = nullptr;  // a receive from a shared queue
  model::Operation op{};          // of the send request, also where status is an error
};

// Constants of a device: how libibverbs finds it and what it claims to be.
struct DeviceTraits {
  const char* provider;     // "rxe": hosted:rxe
  const char* name_prefix;  // device names are this and a number
  const char* modalias;     // matched by the provider, or ""
  int abi_version;
  ibv_device_attr attr;
  model::QpTypeMask types;
  uint8_t link_layer;
  uint32_t max_inline;
  uint32_t qp_number_bits = 24;
  // Numbers of QPs that live at the same time differ modulo this, where the library relies on it.
  uint32_t qp_numbers_modulo = 0;
  uint32_t key_bits = 32;
  uint64_t more_cap_flags = 0;  // device_cap_flags_ex beyond attr.device_cap_flags
  uint32_t max_tso = 0;
  // The library makes the completions of a flush by itself: it does not wait for the device, whose
  // completions can therefore not be late.
  bool library_flushes = false;
  // enum rdma_driver_id, of drivers that match by it alone.
  uint32_t driver_id = 0;
};

// The attributes of a native ioctl method; empty where the caller gave none.
class NativeAttributes {
 public:
  virtual ~NativeAttributes() = default;
  virtual Bytes In(uint16_t id) = 0;
  virtual MutBytes Out(uint16_t id) = 0;
};

class DeviceModel {
 public:
  virtual ~DeviceModel() = default;
  virtual const DeviceTraits& traits() const = 0;
  // Answers the private data of a command, after the kernel's own checks. Sets up the queues of
  // what is created.
  virtual Reply Answer(const Command& command, Bytes in, MutBytes out) = 0;
  // Memory behind an mmap offset that no Mapping has (device pages); size 0: there is none.
  virtual Mapping MapDevicePage(uint64_t offset, size_t size, SharedMemory& memory);
  // A store of the provider into a device page of `region`. Returns what it rings.
  virtual std::optional<Doorbell> OnWrite(const Mapping& region, uint64_t offset, Bytes stored);
  // Reads the entry at queue.next.
  virtual Visibility DecodeSend(Queue& queue, DecodedSend* out) = 0;
  virtual Visibility DecodeReceive(Queue& queue, DecodedReceive* out) = 0;
  // The device is done with `slots` entries. Where it says so in shared memory, it does that here
  // and returns true: the library may use them again, before it has seen a completion.
  virtual bool Retire(Queue& queue, uint32_t slots);
  // Takes from a completion what this device's CQEs have no room for; the library can only report
  // what is left.
  virtual void Express(NativeCompletion* native) const;
  // A native ioctl method of the provider's own. EPROTONOSUPPORT: there is none.
  virtual int AnswerNative(uint16_t object, uint16_t method, NativeAttributes& attributes);
  // Writes a CQE at queue.next and advances it. False: the CQ is full (an overrun).
  virtual bool Encode(CqFacts& cq, const NativeCompletion& completion) = 0;
  // RESET empties the queues.
  virtual void Reset(QpFacts& qp) = 0;
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_DEVICE_MODEL_H_
