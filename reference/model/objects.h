// The passive objects: protection domains, memory regions, windows, address handles, XRC domains.
//
// Plain records that the Device makes and ends; their members change only under the fabric's lock.
// `owner` is the provider's object (struct ibv_mr and so on): events and look-ups lead back to it.
#ifndef QPEXAM_REFERENCE_MODEL_OBJECTS_H_
#define QPEXAM_REFERENCE_MODEL_OBJECTS_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "reference/model/types.h"

namespace qpexam::model {

class Device;

// ibv_alloc_td(): the caller promises to serialise; no region lock is taken (WR-CONC-003).
struct Td {
  Device* device = nullptr;
  int users = 0;  // parent domains
  void* owner = nullptr;
};

// A PD, or a parent domain over one. Everything that checks protection compares Base(), so that a
// parent domain and its PD are interchangeable (WR-CONC-008).
struct Pd {
  Device* device = nullptr;
  Pd* parent_of = nullptr;  // the PD below a parent domain
  Td* td = nullptr;         // of a parent domain
  int users = 0;            // MRs, MWs, AHs, SRQs, QPs, parent domains
  void* owner = nullptr;
  const Pd* Base() const { return parent_of != nullptr ? parent_of : this; }
};

// A memory region. Keys address it by iova: [iova, iova + memory.size) stands for memory.
struct Mr {
  Pd* pd = nullptr;
  MutBytes memory;
  uint64_t iova = 0;
  unsigned access = 0;  // IBV_ACCESS_*
  Lkey lkey;
  Rkey rkey;
  int bound_windows = 0;  // WR-MW-014
  void* owner = nullptr;
};

struct Mw {
  Pd* pd = nullptr;
  ibv_mw_type type = IBV_MW_TYPE_2;
  Rkey rkey;             // the current key; its low 8 bits change with every bind
  Mr* mr = nullptr;      // nullptr: free
  uint32_t qp_num = 0;   // type 2B: the QP of the binding (WR-MW-008)
  uint64_t qp_life = 0;  // ... and which life of it
  uint64_t addr = 0;     // in the MR's iova space
  uint64_t length = 0;
  unsigned access = 0;
  void* owner = nullptr;
};

struct Ah {
  Pd* pd = nullptr;
  ibv_ah_attr attr{};
  int pending = 0;     // requests that name it and have not completed (WR-UD-008)
  bool ended = false;  // destroyed; lives on until nothing names it
  void* owner = nullptr;
};

struct Xrcd {
  Device* device = nullptr;
  uint64_t inode = 0;  // 0: private; others with the same number share the domain
  uint32_t domain = 0;
  int users = 0;
  void* owner = nullptr;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_OBJECTS_H_
