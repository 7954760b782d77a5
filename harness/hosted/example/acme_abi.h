// What the library and the "card" of this example share: rings in the library's memory, and the
// private data by which the card's driver learns where they are. All numbers free-running: entry n
// of a ring of `entries` (a power of two) lies at n % entries.
#ifndef ACME_ABI_H_
#define ACME_ABI_H_

#ifdef __cplusplus
#include <cstdint>
#else
#include <stdint.h>
#endif

enum { ACME_MAX_SGE = 4, ACME_MAX_INLINE = 64, ACME_MAX_ENTRIES = 4096 };

// Of struct acme_request.flags.
enum { ACME_SIGNALED = 1, ACME_SOLICITED = 2, ACME_FENCE = 4, ACME_INLINE = 8 };

struct acme_element {
  uint64_t address;
  uint32_t length;
  uint32_t lkey;
};

struct acme_request {
  uint64_t wr_id;
  uint32_t opcode;  // an enum ibv_wr_opcode
  uint32_t flags;
  uint32_t elements;  // with ACME_INLINE: bytes
  uint32_t immediate;
  uint64_t remote_address;
  uint32_t rkey;
  uint32_t reserved;
  union {
    struct acme_element element[ACME_MAX_SGE];
    uint8_t bytes[ACME_MAX_INLINE];
  } data;
};

struct acme_receive {
  uint64_t wr_id;
  uint32_t elements;
  uint32_t reserved;
  struct acme_element element[ACME_MAX_SGE];
};

struct acme_completion {
  uint64_t wr_id;
  uint32_t status;  // an enum ibv_wc_status
  uint32_t opcode;  // an enum ibv_wc_opcode
  uint32_t byte_length;
  uint32_t immediate;
  uint32_t qp_number;
  uint32_t flags;  // of enum ibv_wc_flags
  uint32_t entry;  // of the queue that it completes
  // Written last: 1 in the first round of the ring, 2 in the second. What the ring held before is
  // thus never taken for a completion.
  uint32_t round;
};

// Private data of CREATE_CQ: the ring, and a number of the library's: completions taken so far.
struct acme_create_cq {
  uint64_t ring;
  uint64_t taken;
  uint32_t entries;
  uint32_t reserved;
};

// Private data of CREATE_QP: the rings, and numbers of the library's: entries posted so far.
struct acme_create_qp {
  uint64_t send_ring;
  uint64_t receive_ring;
  uint64_t sent;
  uint64_t received;
  uint32_t send_entries;
  uint32_t receive_entries;
};

// The doorbell page, offset 0 of the fd: the number of a QP that has new requests.
enum { ACME_DOORBELL = 0 };

#endif  // ACME_ABI_H_
