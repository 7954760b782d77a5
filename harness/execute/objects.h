// What a Program's objects are while it runs: verbs handles by ObjectId, and who still names whom.
#ifndef QPEXAM_HARNESS_EXECUTE_OBJECTS_H_
#define QPEXAM_HARNESS_EXECUTE_OBJECTS_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "harness/program/program.h"
#include "reference/model/ops.h"

namespace qpexam {

// One opened device, with the port that everything goes through. Index 0 is the implicit device.
struct ContextSlot {
  ibv_context* context = nullptr;
  ObjectId object = kNoObject;  // kNoObject: the implicit one
  ibv_pd* implicit_pd = nullptr;
  bool opened = false;
  bool port_known = false;
  bool needs_grh = false;
  uint8_t sgid_index = 0;
  uint16_t lid = 0;
  ibv_gid gid{};
};

// A CQ that the Program names, or one of the two that a QP has for itself.
struct CqState {
  ibv_cq* cq = nullptr;
  ibv_cq_ex* ex = nullptr;  // of the same CQ, where it was made by ibv_create_cq_ex
  uint32_t unacked = 0;     // events taken and not yet acknowledged
  bool polling = false;     // between start_poll and end_poll ...
  uint8_t poll_thread = 0;  // ... by this thread
  bool current = true;      // the last start_poll or next_poll gave a completion
};

// The range of memory of an mr, or what an address counts from.
struct MrState {
  ibv_mr* mr = nullptr;
  uint8_t* host = nullptr;  // where offset 0 is
  uint64_t base = 0;        // what a work request calls offset 0: the iova, or 0 where zero-based
  uint32_t first_rkey = 0;  // kept beyond ibv_dereg_mr(), for "the key of a freed mr"
  uint32_t first_lkey = 0;
};

struct MwState {
  ibv_mw* mw = nullptr;
  uint32_t first_rkey = 0;  // as ibv_alloc_mw() gave it
  uint32_t last_rkey = 0;   // as last seen, kept beyond ibv_dealloc_mw()
  // The last bind by a work request, whose key the caller sets before the next one (WR-MW-003).
  enum Bind : uint8_t {
    kNone,    // no bind, or one that failed: mw->rkey is right
    kStaged,  // in a region or a list that is not posted yet
    kPosted,  // nothing says that it failed
  } bind = kNone;
  uint32_t bound_rkey = 0;  // the key that it gives
  uint32_t rkey_before = 0;
  ObjectId bound_by = kNoObject;
  uint64_t bound_wr_id = 0;
  uint8_t type = 2;
};

struct QpState {
  ibv_qp* qp = nullptr;
  ibv_qp_ex* ex = nullptr;
  CqState own_send, own_recv;
  ibv_pd* pd = nullptr;
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  const Call* made_by = nullptr;
  uint32_t number = 0;        // kept beyond ibv_destroy_qp()
  bool in_region = false;     // between start and complete or abort ...
  uint8_t region_thread = 0;  // ... by this thread
  // A builder or a setter of the region named an object that could not be made. Going on would be
  // an undefined use (a request without its setters), so the region ends in abort.
  bool region_spoilt = false;
};

// What an object is, plain: to begin anew is one stretch of memory.
struct ObjectFacts {
  ObjectKind kind{};
  bool alive = false;
  bool existed = false;  // was alive at some time: its keys and number mean something
  int kept = -1;         // its entry among the kept objects
  uint16_t context = 0;  // index into Execution::contexts_
  ibv_pd* pd = nullptr;
  ibv_td* td = nullptr;
  ibv_srq* srq = nullptr;
  ibv_xrcd* xrcd = nullptr;
  ibv_ah* ah = nullptr;
  ibv_comp_channel* channel = nullptr;
  MrState mr;
  MwState mw;
  CqState cq;
  QpState qp;
  const Call* made_by = nullptr;
};

struct ObjectSlot : ObjectFacts {
  std::vector<uint32_t> groups;  // multicast groups that a QP is attached to

  void Reset(ObjectKind k) {
    static_cast<ObjectFacts&>(*this) = ObjectFacts();
    groups.clear();
    kind = k;
  }
};

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_EXECUTE_OBJECTS_H_
