// The emulated uverbs kernel: what stands under rdma-core's own providers in this process.
//
// A provider opens a device, issues commands on its fd, maps rings, stores to doorbells. The kernel
// answers the part of each command that all providers share, hands the private part to the device's
// model (device_model.h), lets the reference model execute what the provider posted, and has the
// completions written in the provider's own format.
//
//   provider --command--> commands.cc ---------> model objects
//   provider --WQE, doorbell--> work.cc: decode -> Qp::send_queue().PostDecoded()
//   provider <--CQE, event----- work.cc: encode <- CqSink
//
// Everything happens synchronously inside the provider's call: no thread of ours runs, so a run is
// deterministic. Only one Kernel can exist at a time (the seam's hooks are the process's).
#ifndef QPEXAM_HARNESS_HOSTED_KERNEL_H_
#define QPEXAM_HARNESS_HOSTED_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "harness/hosted/device_model.h"
#include "reference/model/engine.h"

namespace qpexam::hosted {

// What hardware and kernel are free to do (ARCHITECTURE.md), switched on by seed. The default is a
// friendly device.
struct Freedom {
  // Numbers of new QPs are this far apart: 1 in a row; a table size makes them collide modulo it.
  uint32_t qp_number_step = 1;
  uint32_t first_qp_number = 0x11;
  // Keys carry these bits on top.
  uint32_t key_high_bits = 0;
  // Completions wait until the next Pump() (late, and then in batches); those of a QP that is reset
  // or destroyed meanwhile are written while the library waits for that command: it meets stale
  // CQEs that it did not see before. None comes after the command: no device writes for a QP that
  // its driver reported gone.
  bool late_completions = false;
  // ... and those of different QPs overtake each other, in an order drawn from the seed.
  bool reorder_across_qps = false;
  // A new QP gets the lowest free number: that of one that has just ended, whose completions may
  // still lie in a CQ. (What a device's firmware does with numbers is its own affair.)
  bool reuse_qp_numbers = false;
  // How old the kernel is that contexts opened from now on talk to.
  KernelAge kernel_age = KernelAge::kToday;
  // The n-th command from now on fails with this errno (0: none does).
  uint32_t fail_command = 0;
  int fail_with = ENOMEM;
  // A kernel without the ioctl() interface: libibverbs then speaks write().
  bool write_only = false;
  uint64_t seed = 1;
};

// What the freedoms of a seed are; seed 1 is friendly.
Freedom FreedomOf(uint64_t seed);

enum class CqeFate : uint8_t { kWritten, kLost };

// What the kernel saw at the two seams. Everything is told in the order it happened; the oracle
// (seam_oracle.h) compares it with what the caller asked for.
class SeamObserver {
 public:
  virtual ~SeamObserver() = default;
  // A send WQE was handed over and decoded. decoded.complaints are findings of their own.
  virtual void OnSend(const QpFacts& qp, Visibility visibility, const DecodedSend& decoded) = 0;
  // The device will not read a request again that OnSend() told of, with this as queue.next: it has
  // succeeded without a completion, or is known to the library to be done before it completes.
  virtual void OnRetired(const QpFacts& qp, uint32_t entry) = 0;
  // A receive WQE of a QP's own or a shared queue; queue.next is its entry.
  virtual void OnReceive(const Queue& queue, const DecodedReceive& decoded) = 0;
  // A CQE is about to be written: from here on another thread's poll may return it.
  virtual void OnCompletion(const CqFacts& cq, const NativeCompletion& completion) = 0;
  // It was written, and a poll that begins now must return it; or the CQ had no room for it.
  virtual void OnCompletionWritten(const CqFacts& cq, CqeFate fate) = 0;
  // The QP goes to RESET, or ends; the SRQ, the CQ ends.
  virtual void OnQpReset(const QpFacts& qp) = 0;
  virtual void OnQpEnds(const QpFacts& qp) = 0;
  virtual void OnSrqEnds(const SrqFacts& srq) = 0;
  virtual void OnCqEnds(const CqFacts& cq) = 0;
  // Anything else that no correct provider does: kind as in the report ("wqe", "kernel").
  virtual void OnMisuse(std::string_view kind, const std::string& what) = 0;
};

struct KernelOptions {
  Freedom freedom;
  bool watch_locks = true;  // see lock_watch.h
};

class KernelImpl;

class Kernel {
 public:
  explicit Kernel(const KernelOptions& options = {});
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Offers a device to libibverbs; its name is the model's prefix and a number ("rxe0"). Returns
  // the name, or "" and errno. All devices of a kernel share one wire.
  std::string AddDevice(std::unique_ptr<DeviceModel> model);

  model::Fabric& fabric();
  void SetObserver(SeamObserver* observer);  // nullptr: none
  void SetFreedom(const Freedom& freedom);

  // Lets what waits go on: held completions are written, receive queues without a doorbell are
  // read. Returns whether anything happened.
  bool Pump();
  // Pump and the virtual clock, until nothing moves.
  void RunUntilIdle();

  // Whether a provider's mapping that begins there is of pages whose stores the device must hear of
  // (the seam's mmio_store hook).
  bool IsDevicePage(const void* address) const;

  // The commands answered since the kernel began.
  uint64_t commands() const;

 private:
  std::unique_ptr<KernelImpl> impl_;
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_KERNEL_H_
