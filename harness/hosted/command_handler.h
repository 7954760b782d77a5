// One write command (IB_USER_VERBS_CMD_*), in either envelope. Its handlers have a file for each
// kind of object.
//
// Layouts are <rdma/ib_user_verbs.h>'s. A request shorter than ours is extended by zeros and a
// response longer than asked for is cut, as the kernel does for libraries of other versions.
#ifndef QPEXAM_HARNESS_HOSTED_COMMAND_HANDLER_H_
#define QPEXAM_HARNESS_HOSTED_COMMAND_HANDLER_H_

#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cstdint>

#include "harness/hosted/kernel_impl.h"

namespace qpexam::hosted {

// The part of a command that all drivers share, and its answer.
template <typename T>
T Request(const Invocation& call) {
  T request = {};
  std::copy_n(call.core_in.data, std::min(sizeof request, call.core_in.size),
              reinterpret_cast<uint8_t*>(&request));
  return request;
}

template <typename T>
int Respond(const Invocation& call, const T& response) {
  std::copy_n(reinterpret_cast<const uint8_t*>(&response),
              std::min(sizeof response, call.core_out.size), call.core_out.data);
  return 0;
}

// One command of one context. A class of its own so that the handlers share its four members.
class CommandHandler {
 public:
  CommandHandler(KernelImpl& kernel, Context& context, const Invocation& call)
      : k_(kernel), c_(context), call_(call) {}

  int Run();

 private:
  DeviceModel& model() { return c_.model(); }
  // Lets the device model answer the private part.
  int Private(Command& command, HostedObject* object);
  HostedPd* FindPd(uint32_t handle) { return c_.pds.Find(handle); }

  int GetContext();
  int QueryDevice();
  int QueryPort();
  int AllocPd();
  int DeallocPd();
  int RegMr();
  int ReregMr();
  int DeregMr();
  int AllocMw();
  int DeallocMw();
  int CreateAh();
  int DestroyAh();
  int CreateChannel();
  int CreateCq();
  int CreateCqFrom(uint64_t user_handle, uint32_t cqe, int32_t channel, uint32_t flags,
                   HostedCq** out);
  int ResizeCq();
  int NotifyCq();
  int DestroyCq();
  int OpenXrcd();
  int CloseXrcd();
  int CreateSrq();
  int ModifySrq();
  int QuerySrq();
  int DestroySrq();
  int CreateQp();
  int CreateQpFrom(const ib_uverbs_ex_create_qp& request, ib_uverbs_create_qp_resp* response);
  int OpenQp();
  int ModifyQp();
  int QueryQp();
  int DestroyQp();
  int PostSend();
  int Multicast(bool attach);

  ib_uverbs_query_device_resp DeviceResponse();
  uint32_t NewQpNumber();

  KernelImpl& k_;
  Context& c_;
  const Invocation& call_;
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_COMMAND_HANDLER_H_
