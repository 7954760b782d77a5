// A send request as the caller gave it: recorded at the call, compared with the WQE that the
// provider made of it.
#ifndef QPEXAM_HARNESS_HOSTED_POSTED_REQUEST_H_
#define QPEXAM_HARNESS_HOSTED_POSTED_REQUEST_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/hosted/device_model.h"
#include "reference/model/engine.h"

namespace qpexam::hosted {

struct PostedRequest {
  model::Operation op{};
  uint64_t wr_id = 0;
  uint32_t flags = 0;  // ibv_send_flags, without INLINE
  // Flags that changed between the builder and a setter: that the builder's count is a SHOULD
  // (WR-SAMPLE-002).
  uint32_t flags_in_doubt = 0;
  // IBV_SEND_INLINE was in wr_flags: a provider should ignore it there (WR-SAMPLE-007).
  bool inline_flag = false;
  // false: an opcode that ibv_send_wr has no form for (WR-MIX-005). How its WQE looks is not
  // promised.
  bool expressible = true;
  __be32 imm = 0;
  uint32_t rkey = 0;  // remote key, key to invalidate, or the window's new key
  uint64_t remote_addr = 0;
  uint64_t compare_or_add = 0, swap = 0;
  uint64_t flush_length = 0;
  uint32_t flush_type = 0, flush_level = 0;
  uint32_t mw_rkey = 0, mr_lkey = 0;
  bool new_key_known = true;  // ibv_bind_mw(): the library picks it
  uint64_t bind_length = 0;
  unsigned bind_access = 0;
  uint32_t ah_handle = 0, remote_qpn = 0, remote_qkey = 0;
  uint32_t remote_srqn = 0;  // XRC_SEND
  uint16_t tso_mss = 0;
  std::vector<uint8_t> tso_header;
  uint8_t atomic_write[8] = {};
  model::DataKind data = model::DataKind::kUnset;
  std::vector<model::Sge> sge;
  std::vector<uint8_t> inline_data;
  size_t inline_buffers = 0;  // that inline_data was put together from

  void Clear(model::Operation operation, uint64_t id, uint32_t send_flags);
};

// One way in which a WQE is not what was posted.
struct Difference {
  const char* clause;
  std::string what;
};

// Gather or scatter lists, but for elements of length 0, which mean nothing.
void CompareSges(const std::vector<model::Sge>& posted, const std::vector<model::Sge>& found,
                 std::vector<Difference>* out);

// Compares in the terms of the API: elements of length 0 mean nothing, flags are compared where
// they have a meaning. Addresses and keys are not printed.
std::vector<Difference> Compare(const PostedRequest& posted, const QpFacts& qp,
                                const DecodedSend& decoded);

// The request in a few words: "RDMA_WRITE wr_id=2 (2 SGEs, 30 bytes)".
std::string Describe(const PostedRequest& posted);

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_POSTED_REQUEST_H_
