// The engine: objects, queues and execution of the model, in one process-wide fabric.
//
// One Fabric holds all devices (contexts) of a process: QPs find their peers by QP number across
// them. It is driven from three sides: the reference provider (reference/provider), hosted
// providers (harness/hosted: decoded WQEs in, completions out through a CqSink), and tests.
//
// Threads: every public function may be called from any thread. A QP's SendQueue is guarded by the
// QP's own region lock (start .. complete/abort, WR-CONC-001; none where the QP sits on a parent
// domain with a td); everything else by the fabric's one lock, taken inside.
//
// Time is virtual: Now() moves only by Advance*(), so the same calls give the same run.
#ifndef QPEXAM_REFERENCE_MODEL_ENGINE_H_
#define QPEXAM_REFERENCE_MODEL_ENGINE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference/model/choice.h"
#include "reference/model/ops.h"
#include "reference/model/rules.h"
#include "reference/model/types.h"

namespace qpexam::model {

class Fabric;
class Device;
struct Pd;
struct Mr;
struct Mw;
struct Ah;
struct Xrcd;
class Cq;
class Srq;
class Qp;

// An errno value (0: success) with the clause and one line that says why.
struct Status {
  int err = 0;
  const char* clause = "";
  const char* why = "";
  bool ok() const { return err == 0; }
};

struct Sge {
  uint64_t addr;
  uint32_t length;
  Lkey lkey;
};

enum class DataKind : uint8_t { kUnset, kSge, kInline };

// One send request, as a ring slot of the reference holds it and as a device model decodes it.
// Pointers lead into storage that the slot (or the decoder) owns.
struct SendRequest {
  WrId wr_id;
  Operation op{};
  DataKind data = DataKind::kUnset;
  uint8_t flush_level = 0;
  uint8_t qp_setter_called = 0;
  uint32_t flags = 0;  // ibv_send_flags
  uint32_t num_sge = 0;
  uint64_t inline_length = 0;
  __be32 imm = 0;  // also *_WITH_IMM only
  Rkey rkey;       // remote key; SEND_WITH_INV, LOCAL_INV: the key to invalidate
  RemoteAddr remote_addr;
  uint64_t compare_or_add = 0;
  uint64_t swap = 0;
  uint64_t flush_length = 0;
  uint32_t flush_type = 0;
  SrqNum remote_srqn;
  Ah* ah = nullptr;
  QpNum remote_qpn;
  Qkey remote_qkey;
  Mw* mw = nullptr;  // BIND_MW
  Rkey bind_rkey;
  Mr* bind_mr = nullptr;
  uint64_t bind_addr = 0, bind_length = 0;
  unsigned bind_access = 0;
  uint16_t tso_header_length = 0, tso_mss = 0;
  uint8_t atomic_write[8] = {};
  Sge* sge = nullptr;  // num_sge elements
  uint8_t* inline_data = nullptr;
  uint8_t* tso_header = nullptr;
};

struct RecvRequest {
  WrId wr_id;
  std::vector<Sge> sge;
};

// One completion, before any provider's encoding.
struct Completion {
  WrId wr_id;
  ibv_wc_status status = IBV_WC_SUCCESS;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  uint32_t vendor_err = 0;
  uint32_t byte_len = 0;
  __be32 imm = 0;    // WITH_IMM
  Rkey invalidated;  // WITH_INV, host order
  QpNum qp_num;
  uint32_t src_qp = 0;
  unsigned wc_flags = 0;  // IBV_WC_GRH, WITH_IMM, WITH_INV, IP_CSUM_OK
  uint16_t pkey_index = 0, slid = 0;
  uint8_t sl = 0, dlid_path_bits = 0;
  bool is_receive = false;
  bool solicited = false;     // counts for ibv_req_notify_cq(cq, 1); errors always do (X27)
  uint64_t timestamp_ns = 0;  // virtual clock
};

// Where a CQ's completions and events go besides the model's own ring.
class CqSink {
 public:
  virtual ~CqSink() = default;
  // A completion was generated. Return true to take it over (a hosted device encodes it into the
  // provider's CQ memory): the model's ring then does not keep it.
  virtual bool OnCompletion(Cq& cq, const Completion& completion) = 0;
  // The CQ was armed and this completion (or an error) raises its event.
  virtual void OnCqEvent(Cq& cq) = 0;
};

struct AsyncEvent {
  ibv_event_type type;
  Qp* qp = nullptr;
  Cq* cq = nullptr;
  Srq* srq = nullptr;
};
class AsyncSink {
 public:
  virtual ~AsyncSink() = default;
  virtual void OnAsyncEvent(Device& device, const AsyncEvent& event) = 0;
};

// Losses and delays a Program asks for, consumed in order by the messages of one QP.
enum class FaultPoint : uint8_t { kLoseRequest, kLoseAck, kDuplicateRequest, kRnr };

struct FabricOptions {
  uint64_t seed = 1;
  bool strict_setters = true;  // an omitted DATA setter is EINVAL (X9), else a zero-length message
};

struct DeviceLimits {
  uint32_t max_qp_wr = 16384;
  uint32_t max_sge = 32;
  uint32_t max_sge_rd = 32;
  uint32_t max_inline = 512;
  uint32_t max_cqe = 1 << 20;
  uint32_t max_srq_wr = 16384;
  uint32_t max_rd_atomic = 16;
  uint32_t max_tso = 1 << 18;
  uint16_t max_tso_header = 256;
  uint64_t max_msg_sz = uint64_t{1} << 31;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_ENGINE_H_
