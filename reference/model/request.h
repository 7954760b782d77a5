// Work requests and completions as values: what a ring slot holds, what a device model decodes,
// and what a completion queue delivers.
#ifndef QPEXAM_REFERENCE_MODEL_REQUEST_H_
#define QPEXAM_REFERENCE_MODEL_REQUEST_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "reference/model/ops.h"
#include "reference/model/types.h"

namespace qpexam::model {

class Qp;
struct Ah;
struct Mr;
struct Mw;

// An errno value (0: success) with the clause and one line that says why.
struct Status {
  int err = 0;
  const char* clause = "";
  const char* why = "";
  bool ok() const { return err == 0; }
};

// A new object, or why there is none.
template <typename T>
struct Result {
  T* value = nullptr;
  Status status;
  bool ok() const { return value != nullptr; }
};

struct Sge {
  uint64_t addr;
  uint32_t length;
  Lkey lkey;
};

// One buffer of an inline list; the length is the caller's size_t, unclipped (WR-LIM-005).
struct InlineBuffer {
  const uint8_t* addr;
  uint64_t length;
};

enum class DataKind : uint8_t { kUnset, kSge, kInline };

// Which call a BIND_MW came by: ibv_bind_mw() takes type 1 windows, ibv_wr_bind_mw() and
// ibv_post_send() type 2 (WR-MW-001).
enum class BindCall : uint8_t { kWorkRequest, kBindMwVerb };

// One send request, as a ring slot of the reference holds it and as a device model decodes it.
// Pointers lead into storage that the slot (or the decoder) owns. Only the fields of its operation
// mean anything; the others may hold what an earlier request left.
struct SendRequest {
  WrId wr_id;
  Operation op{};
  DataKind data = DataKind::kUnset;
  uint8_t flush_level = 0;
  BindCall bind_call = BindCall::kWorkRequest;
  uint32_t flags = 0;  // ibv_send_flags
  uint32_t num_sge = 0;
  uint64_t inline_length = 0;
  Rkey rkey;       // remote key; SEND_WITH_INV, LOCAL_INV: the key to invalidate
  __be32 imm = 0;  // *_WITH_IMM only
  RemoteAddr remote_addr;
  Sge* sge = nullptr;  // num_sge elements
  uint8_t* inline_data = nullptr;
  SrqNum remote_srqn;  // XRC_SEND
  QpNum remote_qpn;    // UD, SRD
  Qkey remote_qkey;
  uint32_t flush_type = 0;
  Ah* ah = nullptr;
  uint64_t compare_or_add = 0;
  uint64_t swap = 0;
  uint64_t flush_length = 0;
  uint8_t atomic_write[8] = {};
  Rkey mw_key;     // BIND_MW: the window's key as its handle names it (only the index counts)
  Rkey bind_rkey;  // ... and the key it shall have
  Mw* mw = nullptr;
  Mr* bind_mr = nullptr;
  uint64_t bind_addr = 0, bind_length = 0;
  unsigned bind_access = 0;
  uint16_t tso_header_length = 0, tso_mss = 0;
  uint8_t* tso_header = nullptr;
  // RAW_PACKET SEND: as many bytes of `tso_header` go in front of the data. Hosted queues alone
  // have any: some devices want a frame's header in the WQE itself.
  uint16_t frame_header_length = 0;
};

// One receive request; a view, copied by the queue.
struct RecvRequest {
  WrId wr_id;
  const Sge* sge = nullptr;
  uint32_t num_sge = 0;
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
  // The QP, for the queue's own accounting; may be gone when the completion is polled. Receive
  // completions of a shared receive queue name the QP that consumed the receive.
  Qp* qp = nullptr;
  uint64_t covers = 0;  // send side: every request before this position is freed by polling it
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_REQUEST_H_
