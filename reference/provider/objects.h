// The provider's objects: what libibverbs sees, followed by the model's object behind it.
//
// Each begins with the structure that libibverbs handles, so that a verbs pointer and the object
// are the same address; Of() goes from the one to the other.
#ifndef QPEXAM_REFERENCE_PROVIDER_OBJECTS_H_
#define QPEXAM_REFERENCE_PROVIDER_OBJECTS_H_

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "reference/model/engine.h"
#include "reference/provider/event_pipe.h"
#include "third_party/rdma_core/seam/driver.h"

namespace qpexam::provider {

struct Device {
  verbs_device verbs;
  int number;  // 0: qpexam0
};

struct Context {
  verbs_context verbs;
  model::Device* device;
  std::shared_ptr<EventPipe> async_events;
  int number;  // of the device
};

struct Pd {  // also a parent domain
  ibv_pd verbs;
  model::Pd* pd;
};
struct Td {
  ibv_td verbs;
  model::Td* td;
};
struct Mr {
  verbs_mr verbs;
  model::Mr* mr;
};
struct Mw {
  ibv_mw verbs;
  model::Mw* mw;
};
struct Ah {
  ibv_ah verbs;
  model::Ah* ah;
};
struct Xrcd {
  verbs_xrcd verbs;
  model::Xrcd* xrcd;
};

// Events raised for an object and not taken back: what its destruction waits for to be
// acknowledged.
using EventCount = std::atomic<uint32_t>;

struct Cq {
  verbs_cq verbs;
  model::Cq* cq;
  ibv_context* context;                // libibverbs sets its own copy only after creation
  std::shared_ptr<EventPipe> channel;  // null: no completion channel
  EventCount completion_events;
  EventCount async_events;
};
struct Srq {
  verbs_srq verbs;
  model::Srq* srq;
  ibv_context* context;
  EventCount async_events;
};
struct Qp {
  verbs_qp verbs;
  model::Qp* qp;
  model::SendQueue* send_queue;  // the QP's: what every builder and setter needs
  EventCount async_events;
  bool may_wait_for_drain;  // counted by AddBlockingWait()
};
// The handles of one QP: more than one only for XRC_RECV QPs that ibv_open_qp() opened again. It is
// the model QP's owner and changes under the fabric's lock.
struct QpHandles {
  std::vector<Qp*> list;
};

inline Device* Of(ibv_device* device) { return reinterpret_cast<Device*>(device); }
inline Context* Of(ibv_context* context) {
  return reinterpret_cast<Context*>(verbs_get_ctx(context));
}
inline Pd* Of(ibv_pd* pd) { return reinterpret_cast<Pd*>(pd); }
inline Td* Of(ibv_td* td) { return reinterpret_cast<Td*>(td); }
inline Mr* Of(verbs_mr* mr) { return reinterpret_cast<Mr*>(mr); }
inline Mr* Of(ibv_mr* mr) { return reinterpret_cast<Mr*>(mr); }
inline Mw* Of(ibv_mw* mw) { return reinterpret_cast<Mw*>(mw); }
inline Ah* Of(ibv_ah* ah) { return reinterpret_cast<Ah*>(ah); }
inline Xrcd* Of(ibv_xrcd* xrcd) { return reinterpret_cast<Xrcd*>(xrcd); }
inline Cq* Of(ibv_cq* cq) { return reinterpret_cast<Cq*>(cq); }
inline Cq* Of(ibv_cq_ex* cq) { return reinterpret_cast<Cq*>(cq); }
inline Srq* Of(ibv_srq* srq) { return reinterpret_cast<Srq*>(srq); }
inline Qp* Of(ibv_qp* qp) { return reinterpret_cast<Qp*>(qp); }
inline Qp* Of(ibv_qp_ex* qp) { return reinterpret_cast<Qp*>(qp); }

// An enumeration that a C program filled in, as the number it is: reading one that holds no
// enumerator is undefined in C++.
template <typename Enum>
uint32_t NumberIn(const Enum& field) {
  static_assert(sizeof(Enum) == sizeof(uint32_t));
  uint32_t number;
  memcpy(&number, &field, sizeof(number));
  return number;
}

// How verbs that return a pointer say no.
inline std::nullptr_t Refuse(int err) {
  errno = err;
  return nullptr;
}
// How verbs that return an int say no: the errno value, also in errno.
inline int Answer(const model::Status& status) {
  if (!status.ok()) errno = status.err;
  return status.err;
}

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_OBJECTS_H_
