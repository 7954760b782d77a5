#include "harness/hosted/seam_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "harness/hosted/fifo.h"
#include "harness/hosted/lock_watch.h"
#include "harness/hosted/posted_request.h"

namespace qpexam::hosted {
namespace {

using model::DataKind;
using model::Operation;

// Regions and polls that this thread has open.
thread_local int t_open = 0;

// A call that hands requests over: a region being completed, a list being posted.
struct Posting {
  const std::vector<PostedRequest>* requests = nullptr;
  size_t count = 0;
  size_t handed_over = 0;
  const void* thread = nullptr;
};

const void* ThisThread() { return &t_open; }

struct PostedReceive {
  uint64_t wr_id = 0;
  std::vector<model::Sge> sge;
};

// What was posted into the entries of one work queue, as far as a completion names it: some devices
// never see it.
class Entries {
 public:
  struct Entry {
    uint32_t index = 0;
    uint64_t wr_id = 0;
    std::optional<Operation> op;  // of a send
    // Where a device that may read the entry again finds it, and the bytes it has to find there;
    // of an entry in one piece, its front.
    const uint8_t* at = nullptr;
    size_t size = 0;
    uint8_t bytes[128];  // as many as `size` says: the rest is not set

    Entry() {}  // NOLINT: leaves `bytes` as they are
  };
  // One more, to be filled in.
  Entry& Add(uint32_t index, uint64_t wr_id) {
    Entry& entry = entries_.emplace_back();
    entry.index = index;
    entry.wr_id = wr_id;
    return entry;
  }
  // What a completion says of the entry, which is then forgotten; of a send queue with all before
  // it.
  struct Named {
    uint64_t wr_id;
    std::optional<Operation> op;
  };
  std::optional<Named> Take(uint32_t index, bool in_order) {
    Entry* it = std::find_if(entries_.begin(), entries_.end(),
                             [index](const Entry& e) { return e.index == index; });
    if (it == entries_.end()) return std::nullopt;
    const Named named = {it->wr_id, it->op};
    if (in_order) {
      entries_.pop_front(static_cast<size_t>(it - entries_.begin()) + 1);
    } else {
      entries_.erase(it);
    }
    return named;
  }
  void Clear() { entries_.clear(); }
  // The device is done with the entry, which it will not read again; as a rule it is a late one.
  void Done(uint32_t index) {
    for (size_t i = entries_.size(); i > 0; --i) {
      if (entries_[i - 1].index != index) continue;
      entries_[i - 1].at = nullptr;
      return;
    }
  }
  // An entry whose bytes are no more what was handed over; told of once.
  const Entry* Altered() {
    for (Entry& e : entries_) {
      if (e.at == nullptr || std::memcmp(e.at, e.bytes, e.size) == 0) continue;
      e.at = nullptr;
      return &e;
    }
    return nullptr;
  }

 private:
  Fifo<Entry> entries_;
};

struct WatchedQueue {
  Fifo<PostedReceive> posted;
  Entries entries;
};

struct WatchedQp {
  uint64_t operations = 0;  // send_ops_flags at creation
  ibv_qp_ex original = {};  // function pointers
  std::vector<PostedRequest> region;
  size_t region_count = 0;
  std::vector<Posting*> postings;
  Entries send_entries;
  WatchedQueue receive;

  // As if new, but for its memory. False: it has too much of that to be kept, or is in use.
  bool Clear() {
    original = {};
    region_count = 0;
    send_entries.Clear();
    receive.posted.clear();
    receive.entries.Clear();
    return region.size() <= 256 && postings.empty();
  }
  PostedRequest* Last() { return region_count > 0 ? &region[region_count - 1] : nullptr; }
  PostedRequest& Next() {
    if (region_count == region.size()) region.emplace_back();
    return region[region_count++];
  }
};

// A CQE that was written and that the library has yet to return.
struct WrittenCqe {
  model::Completion completion;
  uint32_t lane = 0;      // Queue::lane
  bool optional = false;  // its QP was reset or destroyed: WR-COMP-013
  bool visible = false;   // the device has finished writing it
  uint64_t number = 0;    // in the order of writing
};

struct WatchedCq {
  ibv_cq_ex original = {};
  Fifo<WrittenCqe> written;
  uint64_t announced = 0;  // entries so far: the number of the next one
  // Polls of several threads at once: which of them comes first to MatchCompletion() says nothing.
  unsigned polls_open = 0;
  bool shared = false;

  bool Clear() {
    original = {};
    written.clear();
    announced = 0;
    shared = false;
    return polls_open == 0;
  }
  // The number behind the last entry that is there to be polled.
  uint64_t VisibleEnd() const {
    for (const WrittenCqe& w : written) {
      if (!w.visible) return w.number;
    }
    return announced;
  }
};

struct AttachedContext {
  ibv_context_ops ops = {};
  ibv_qp* (*create_qp_ex)(ibv_context*, ibv_qp_init_attr_ex*) = nullptr;
  ibv_cq_ex* (*create_cq_ex)(ibv_context*, ibv_cq_init_attr_ex*) = nullptr;
};

std::string Hex(Bytes bytes) {
  std::string text;
  // Long WQEs are mostly payload; what matters is in front.
  for (size_t i = 0; i < std::min<size_t>(bytes.size, 256); ++i) {
    if (i != 0 && i % 16 == 0) text += '\n';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

// A thread's last look-up, good as long as nothing has ended since.
template <typename T>
struct Recent {
  const void* object = nullptr;
  T* watched = nullptr;
  uint64_t ended = 0;
};
thread_local Recent<WatchedQp> t_qp;
thread_local Recent<WatchedCq> t_cq;
thread_local Recent<AttachedContext> t_context;
// QPs, CQs and oracles that have ended so far, in this process.
std::atomic<uint64_t> g_ended{1};

}  // namespace

class SeamOracle::Impl {
 public:
  explicit Impl(Kernel* kernel) : kernel(kernel) {}

  void Attach(ibv_context* context);
  WatchedQp* Qp(const void* qp) {
    return Known(&t_qp, qp, [this, qp] { return QpLocked(qp); });
  }
  WatchedQp* QpLocked(const void* qp) {
    if (qp == last_qp && qp != nullptr) return last_watched_qp;
    std::unique_ptr<WatchedQp>& slot = qps[qp];
    if (slot == nullptr) slot = Another(&spare_qps);
    last_qp = qp;
    return last_watched_qp = slot.get();
  }
  WatchedCq* Cq(const void* cq) {
    return Known(&t_cq, cq, [this, cq] { return CqLocked(cq); });
  }
  WatchedCq* CqLocked(const void* cq) {
    if (cq == last_cq && cq != nullptr) return last_watched_cq;
    std::unique_ptr<WatchedCq>& slot = cqs[cq];
    if (slot == nullptr) slot = Another(&spare_cqs);
    last_cq = cq;
    return last_watched_cq = slot.get();
  }
  template <typename T>
  static std::unique_ptr<T> Another(std::vector<std::unique_ptr<T>>* spare) {
    if (spare->empty()) return std::make_unique<T>();
    std::unique_ptr<T> object = std::move(spare->back());
    spare->pop_back();
    return object;
  }
  template <typename T>
  static void End(std::unordered_map<const void*, std::unique_ptr<T>>* all, uint64_t object,
                  std::vector<std::unique_ptr<T>>* spare) {
    auto it = all->find(reinterpret_cast<const void*>(object));
    if (it == all->end()) return;
    g_ended.fetch_add(1, std::memory_order_acq_rel);
    if (spare->size() < kMostSpare && it->second->Clear()) spare->push_back(std::move(it->second));
    all->erase(it);
  }
  AttachedContext& Context(ibv_context* context) {
    return *Known(&t_context, context, [this, context] { return &contexts[context]; });
  }
  // What this thread asked for last it asks for next, as a rule: every setter of a region.
  template <typename T, typename Find>
  T* Known(Recent<T>* recent, const void* object, Find find) {
    const uint64_t now = g_ended.load(std::memory_order_acquire);
    if (recent->object != object || recent->ended != now) {
      std::lock_guard<std::mutex> lock(mutex);
      *recent = {object, find(), now};
    }
    return recent->watched;
  }

  void Find(std::string kind, std::string clause, std::string what, std::string raw = "") {
    std::lock_guard<std::mutex> lock(mutex);
    FindLocked(std::move(kind), std::move(clause), std::move(what), std::move(raw));
  }
  void FindLocked(std::string kind, std::string clause, std::string what, std::string raw = "") {
    if (!seen.insert(kind + what).second) return;
    found.push_back({std::move(kind), std::move(clause), std::move(what), std::move(raw)});
  }
  // After every call into the library.
  void CheckLocks(const char* call, const char* clause) {
    if (!LockWatch::Any()) return;
    for (const std::string& what : LockWatch::Take()) {
      Find("lock", clause, fmt::format("{} {}", call, what));
    }
    if (t_open == 0 && LockWatch::HeldByThisThread() != 0) {
      Find("lock", clause,
           fmt::format("{} leaves {} lock(s) held, with no region or poll open", call,
                       LockWatch::HeldByThisThread()));
      LockWatch::ForgetThisThread();
    }
  }

  void Begin(WatchedQp& qp, Posting* posting) {
    std::lock_guard<std::mutex> lock(mutex);
    posting->thread = ThisThread();
    qp.postings.push_back(posting);
  }
  void End(WatchedQp& qp, Posting* posting) {
    std::lock_guard<std::mutex> lock(mutex);
    qp.postings.erase(std::find(qp.postings.begin(), qp.postings.end(), posting));
  }
  // The request that a WQE should be, of the calls that are under way; the calling thread's first,
  // for a doorbell may cover what another thread has just written. nullptr: nobody's, as far as its
  // wr_id tells.
  const PostedRequest* Claim(WatchedQp& qp, const DecodedSend& decoded) {
    Posting* choice = nullptr;
    for (Posting* p : qp.postings) {
      if (p->handed_over >= p->count) continue;
      const PostedRequest& next = (*p->requests)[p->handed_over];
      if (decoded.carries_wr_id && next.wr_id != decoded.request.wr_id.value) continue;
      if (choice == nullptr || p->thread == ThisThread()) choice = p;
    }
    if (choice == nullptr) return nullptr;
    return &(*choice->requests)[choice->handed_over++];
  }

  // A call that posted nothing has left what was posted before as it was.
  void CheckUnaltered(WatchedQp& qp, const char* call) {
    std::lock_guard<std::mutex> lock(mutex);
    while (const Entries::Entry* e = qp.send_entries.Altered()) {
      FindLocked(
          "residue", "WR-BUILD-007",
          fmt::format("{} posted nothing, but the request posted before it with wr_id {:#x} is "
                      "another one now",
                      call, e->wr_id),
          "was:\n" + Hex({e->bytes, e->size}));
    }
  }

  void MatchCompletion(WatchedCq& cq, const model::Completion& seen, uint32_t fields) {
    std::lock_guard<std::mutex> lock(mutex);
    MatchLocked(cq, seen, fields);
  }
  void MatchLocked(WatchedCq& cq, const model::Completion& seen, uint32_t fields);
  // A poll that found nothing must have nothing that was there when it began.
  void CheckEmpty(WatchedCq& cq, uint64_t visible_end, const char* call) {
    std::lock_guard<std::mutex> lock(mutex);
    CheckEmptyLocked(cq, visible_end, call);
  }
  void CheckEmptyLocked(WatchedCq& cq, uint64_t visible_end, const char* call);
  // The end of what a poll that begins now can find.
  uint64_t BeginPoll(WatchedCq& cq);
  // What ibv_poll_cq() of at most n returned, and its end.
  void PolledLocked(WatchedCq& cq, int n, int got, const ibv_wc* wcs, uint64_t visible_end);
  uint64_t VisibleEnd(WatchedCq& cq);
  void EndPoll(WatchedCq& cq);
  void ReadEx(ibv_cq_ex* cq);

  Kernel* const kernel;
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<WatchedQp>> qps;
  std::unordered_map<const void*, std::unique_ptr<WatchedCq>> cqs;
  std::unordered_map<const void*, WatchedQueue> srqs;
  // The last that were looked up under the mutex: a request's completion is of the same.
  const void* last_qp = nullptr;
  const void* last_cq = nullptr;
  WatchedQp* last_watched_qp = nullptr;
  WatchedCq* last_watched_cq = nullptr;
  // What ended, for what is made next: a watched object owns many small pieces of memory, and under
  // a sanitizer each allocation is dear.
  static constexpr size_t kMostSpare = 64;
  std::vector<std::unique_ptr<WatchedQp>> spare_qps;
  std::vector<std::unique_ptr<WatchedCq>> spare_cqs;
  std::vector<std::vector<model::Sge>> spare_sges;
  std::unordered_map<const void*, AttachedContext> contexts;
  std::vector<SeamFinding> found;
  std::set<std::string> seen;
  uint64_t requests = 0, completions = 0;
};

namespace {

SeamOracle::Impl* g_oracle = nullptr;

// --- Regions: wrappers of the ibv_qp_ex members
// ---------------------------------------------------

PostedRequest* Build(ibv_qp_ex* qp, WatchedQp* w, Operation op) {
  PostedRequest& r = w->Next();
  r.Clear(op, qp->wr_id, qp->wr_flags);
  return &r;
}

PostedRequest* BuildRemote(ibv_qp_ex* qp, WatchedQp* w, Operation op, uint32_t rkey,
                           uint64_t addr) {
  PostedRequest* r = Build(qp, w, op);
  r->rkey = rkey;
  r->remote_addr = addr;
  return r;
}

void WrapQp(ibv_qp_ex* ex, WatchedQp* w);

void WrStart(ibv_qp_ex* qp) {
  WatchedQp* w = g_oracle->Qp(qp);
  WrapQp(qp, w);  // mlx5 changes wr_complete with the QP's state
  w->original.wr_start(qp);
  ++t_open;
  w->region_count = 0;
}

int WrComplete(ibv_qp_ex* qp) {
  WatchedQp* w = g_oracle->Qp(qp);
  Posting posting;
  posting.requests = &w->region;
  posting.count = w->region_count;
  g_oracle->Begin(*w, &posting);
  const ibv_qp_state state = qp->qp_base.state;
  // After the call the region is another thread's, and so is w->region.
  int rc = w->original.wr_complete(qp);
  g_oracle->End(*w, &posting);
  --t_open;
  if (rc == 0 && posting.handed_over < posting.count && state >= IBV_QPS_RTS) {
    g_oracle->Find("wqe", "WR-ATOM-007",
                   fmt::format("ibv_wr_complete() returned 0, but the device got {} of {} requests",
                               posting.handed_over, posting.count));
  }
  if (rc != 0 && posting.handed_over != 0) {
    g_oracle->Find("residue", "WR-ATOM-002",
                   fmt::format("ibv_wr_complete() failed, but the device got {} of {} requests",
                               posting.handed_over, posting.count));
  }
  if (rc != 0) g_oracle->CheckUnaltered(*w, "a region that failed");
  g_oracle->CheckLocks("ibv_wr_complete()", "WR-CONC-001");
  return rc;
}

void WrAbort(ibv_qp_ex* qp) {
  WatchedQp* w = g_oracle->Qp(qp);
  w->original.wr_abort(qp);
  --t_open;
  g_oracle->CheckUnaltered(*w, "a region that was aborted");
  g_oracle->CheckLocks("ibv_wr_abort()", "WR-CONC-001");
}

void WrRdmaWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) {
  WatchedQp* w = g_oracle->Qp(qp);
  BuildRemote(qp, w, Operation::kRdmaWrite, rkey, addr);
  w->original.wr_rdma_write(qp, rkey, addr);
}
void WrRdmaWriteImm(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, __be32 imm) {
  WatchedQp* w = g_oracle->Qp(qp);
  BuildRemote(qp, w, Operation::kRdmaWriteWithImm, rkey, addr)->imm = imm;
  w->original.wr_rdma_write_imm(qp, rkey, addr, imm);
}
void WrRdmaRead(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) {
  WatchedQp* w = g_oracle->Qp(qp);
  BuildRemote(qp, w, Operation::kRdmaRead, rkey, addr);
  w->original.wr_rdma_read(qp, rkey, addr);
}
void WrAtomicCmpSwp(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap) {
  WatchedQp* w = g_oracle->Qp(qp);
  PostedRequest* r = BuildRemote(qp, w, Operation::kAtomicCmpAndSwp, rkey, addr);
  r->compare_or_add = compare;
  r->swap = swap;
  w->original.wr_atomic_cmp_swp(qp, rkey, addr, compare, swap);
}
void WrAtomicFetchAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t add) {
  WatchedQp* w = g_oracle->Qp(qp);
  BuildRemote(qp, w, Operation::kAtomicFetchAndAdd, rkey, addr)->compare_or_add = add;
  w->original.wr_atomic_fetch_add(qp, rkey, addr, add);
}
void WrBindMw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  WatchedQp* w = g_oracle->Qp(qp);
  PostedRequest* r = BuildRemote(qp, w, Operation::kBindMw, rkey, info->addr);
  r->mw_rkey = mw->rkey;
  r->mr_lkey = info->mr != nullptr ? info->mr->lkey : 0;
  r->bind_length = info->length;
  r->bind_access = info->mw_access_flags;
  w->original.wr_bind_mw(qp, mw, rkey, info);
}
void WrLocalInv(ibv_qp_ex* qp, uint32_t rkey) {
  WatchedQp* w = g_oracle->Qp(qp);
  Build(qp, w, Operation::kLocalInv)->rkey = rkey;
  w->original.wr_local_inv(qp, rkey);
}
void WrSend(ibv_qp_ex* qp) {
  WatchedQp* w = g_oracle->Qp(qp);
  Build(qp, w, Operation::kSend);
  w->original.wr_send(qp);
}
void WrSendImm(ibv_qp_ex* qp, __be32 imm) {
  WatchedQp* w = g_oracle->Qp(qp);
  Build(qp, w, Operation::kSendWithImm)->imm = imm;
  w->original.wr_send_imm(qp, imm);
}
void WrSendInv(ibv_qp_ex* qp, uint32_t rkey) {
  WatchedQp* w = g_oracle->Qp(qp);
  Build(qp, w, Operation::kSendWithInv)->rkey = rkey;
  w->original.wr_send_inv(qp, rkey);
}
void WrSendTso(ibv_qp_ex* qp, void* header, uint16_t header_size, uint16_t mss) {
  WatchedQp* w = g_oracle->Qp(qp);
  PostedRequest* r = Build(qp, w, Operation::kTso);
  const auto* from = static_cast<const uint8_t*>(header);
  r->tso_header.assign(from, from + header_size);
  r->tso_mss = mss;
  w->original.wr_send_tso(qp, header, header_size, mss);
}

// FLUSH and ATOMIC_WRITE: members of newer libraries only.
struct NewerBuilders {
  // Of send_ops_flags, which older headers do not name.
  static constexpr uint64_t kWithFlush = 1 << 11, kWithAtomicWrite = 1 << 12;

  template <typename Q>
  static auto Wrap(Q* qp, Q* original, uint64_t operations, int) -> decltype(qp->wr_flush, void());
  template <typename Q>
  static void Wrap(Q*, Q*, uint64_t, long) {}

  template <typename Q>
  static void Flush(Q* qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type,
                    uint8_t level) {
    WatchedQp* w = g_oracle->Qp(qp);
    PostedRequest* r = BuildRemote(qp, w, Operation::kFlush, rkey, addr);
    r->flush_length = length;
    r->flush_type = type;
    r->flush_level = level;
    w->original.wr_flush(qp, rkey, addr, length, type, level);
  }
  template <typename Q>
  static void AtomicWrite(Q* qp, uint32_t rkey, uint64_t addr, const void* value) {
    WatchedQp* w = g_oracle->Qp(qp);
    PostedRequest* r = BuildRemote(qp, w, Operation::kAtomicWrite, rkey, addr);
    std::copy_n(static_cast<const uint8_t*>(value), 8, r->atomic_write);
    w->original.wr_atomic_write(qp, rkey, addr, value);
  }
};

void WrSetUdAddr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  WatchedQp* w = g_oracle->Qp(qp);
  if (PostedRequest* r = w->Last()) {
    r->ah_handle = ah->handle;
    r->remote_qpn = qpn;
    r->remote_qkey = qkey;
  }
  w->original.wr_set_ud_addr(qp, ah, qpn, qkey);
}

void WrSetXrcSrqn(ibv_qp_ex* qp, uint32_t srqn) {
  WatchedQp* w = g_oracle->Qp(qp);
  if (PostedRequest* r = w->Last()) r->remote_srqn = srqn;
  w->original.wr_set_xrc_srqn(qp, srqn);
}

void SetSges(WatchedQp* w, size_t count, const ibv_sge* list) {
  PostedRequest* r = w->Last();
  if (r == nullptr) return;
  r->data = DataKind::kSge;
  r->sge.clear();
  for (size_t i = 0; i < count; ++i) {
    r->sge.push_back({list[i].addr, list[i].length, model::Lkey(list[i].lkey)});
  }
}
void WrSetSge(ibv_qp_ex* qp, uint32_t lkey, uint64_t addr, uint32_t length) {
  WatchedQp* w = g_oracle->Qp(qp);
  const ibv_sge one = {addr, length, lkey};
  SetSges(w, 1, &one);
  w->original.wr_set_sge(qp, lkey, addr, length);
}
void WrSetSgeList(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
  WatchedQp* w = g_oracle->Qp(qp);
  SetSges(w, count, list);
  w->original.wr_set_sge_list(qp, count, list);
}

void SetInline(WatchedQp* w, size_t count, const ibv_data_buf* list) {
  PostedRequest* r = w->Last();
  if (r == nullptr) return;
  r->data = DataKind::kInline;
  r->inline_data.clear();
  r->inline_buffers = count;
  for (size_t i = 0; i < count; ++i) {
    // What no device takes inline is refused by the provider, unread.
    if (r->inline_data.size() + list[i].length > 1 << 20) return;
    const auto* from = static_cast<const uint8_t*>(list[i].addr);
    r->inline_data.insert(r->inline_data.end(), from, from + list[i].length);
  }
}
void WrSetInline(ibv_qp_ex* qp, void* addr, size_t length) {
  WatchedQp* w = g_oracle->Qp(qp);
  const ibv_data_buf one = {addr, length};
  SetInline(w, 1, &one);
  w->original.wr_set_inline_data(qp, addr, length);
}
void WrSetInlineList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
  WatchedQp* w = g_oracle->Qp(qp);
  SetInline(w, count, list);
  w->original.wr_set_inline_data_list(qp, count, list);
}

template <typename F>
void Replace(F* member, std::common_type_t<F> with) {
  if (*member != nullptr) *member = with;
}

// Stands in front of one member; remembers what was there, also when the library changed it.
template <typename F>
void Wrap(F* member, F* original, std::common_type_t<F> with) {
  if (*member == nullptr || *member == with) return;
  *original = *member;
  *member = with;
}

template <typename Q>
auto NewerBuilders::Wrap(Q* qp, Q* original, uint64_t operations, int)
    -> decltype(qp->wr_flush, void()) {
  // An older library's object ends before these members: it has accepted neither operation.
  if (operations & kWithFlush) hosted::Wrap(&qp->wr_flush, &original->wr_flush, Flush<Q>);
  if (operations & kWithAtomicWrite)
    hosted::Wrap(&qp->wr_atomic_write, &original->wr_atomic_write, AtomicWrite<Q>);
}

void WrapQp(ibv_qp_ex* ex, WatchedQp* w) {
  ibv_qp_ex& o = w->original;
  Wrap(&ex->wr_start, &o.wr_start, WrStart);
  Wrap(&ex->wr_complete, &o.wr_complete, WrComplete);
  Wrap(&ex->wr_abort, &o.wr_abort, WrAbort);
  Wrap(&ex->wr_rdma_write, &o.wr_rdma_write, WrRdmaWrite);
  Wrap(&ex->wr_rdma_write_imm, &o.wr_rdma_write_imm, WrRdmaWriteImm);
  Wrap(&ex->wr_rdma_read, &o.wr_rdma_read, WrRdmaRead);
  Wrap(&ex->wr_atomic_cmp_swp, &o.wr_atomic_cmp_swp, WrAtomicCmpSwp);
  Wrap(&ex->wr_atomic_fetch_add, &o.wr_atomic_fetch_add, WrAtomicFetchAdd);
  Wrap(&ex->wr_bind_mw, &o.wr_bind_mw, WrBindMw);
  Wrap(&ex->wr_local_inv, &o.wr_local_inv, WrLocalInv);
  Wrap(&ex->wr_send, &o.wr_send, WrSend);
  Wrap(&ex->wr_send_imm, &o.wr_send_imm, WrSendImm);
  Wrap(&ex->wr_send_inv, &o.wr_send_inv, WrSendInv);
  Wrap(&ex->wr_send_tso, &o.wr_send_tso, WrSendTso);
  Wrap(&ex->wr_set_ud_addr, &o.wr_set_ud_addr, WrSetUdAddr);
  Wrap(&ex->wr_set_xrc_srqn, &o.wr_set_xrc_srqn, WrSetXrcSrqn);
  Wrap(&ex->wr_set_sge, &o.wr_set_sge, WrSetSge);
  Wrap(&ex->wr_set_sge_list, &o.wr_set_sge_list, WrSetSgeList);
  Wrap(&ex->wr_set_inline_data, &o.wr_set_inline_data, WrSetInline);
  Wrap(&ex->wr_set_inline_data_list, &o.wr_set_inline_data_list, WrSetInlineList);
  NewerBuilders::Wrap(ex, &o, w->operations, 0);
}

ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  ibv_qp* qp = g_oracle->Context(context).create_qp_ex(context, attr);
  g_oracle->CheckLocks("ibv_create_qp_ex()", "");
  if (qp == nullptr) return nullptr;
  if (ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp)) {
    WatchedQp* w = g_oracle->Qp(ex);
    w->operations = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;
    WrapQp(ex, w);
  }
  return qp;
}

// --- Lists: wrappers of the context's operations
// ---------------------------------------------------

void Record(const ibv_qp* qp, const ibv_send_wr& wr, PostedRequest* r) {
  Operation op = Operation::kSend;
  bool expressible = false;
  for (const model::OperationInfo& info : model::AllOperations()) {
    if (!info.has_send_wr || info.wr_opcode != wr.opcode) continue;
    op = info.op;
    expressible = true;
  }
  r->Clear(op, wr.wr_id, wr.send_flags);
  r->expressible = expressible;
  switch (op) {
    case Operation::kRdmaWrite:
    case Operation::kRdmaWriteWithImm:
    case Operation::kRdmaRead:
      r->rkey = wr.wr.rdma.rkey;
      r->remote_addr = wr.wr.rdma.remote_addr;
      break;
    case Operation::kAtomicCmpAndSwp:
    case Operation::kAtomicFetchAndAdd:
      r->rkey = wr.wr.atomic.rkey;
      r->remote_addr = wr.wr.atomic.remote_addr;
      r->compare_or_add = wr.wr.atomic.compare_add;
      r->swap = wr.wr.atomic.swap;
      break;
    case Operation::kSendWithInv:
    case Operation::kLocalInv:
      r->rkey = wr.invalidate_rkey;
      break;
    case Operation::kBindMw:
      r->mw_rkey = wr.bind_mw.mw->rkey;
      r->rkey = wr.bind_mw.rkey;
      r->mr_lkey = wr.bind_mw.bind_info.mr != nullptr ? wr.bind_mw.bind_info.mr->lkey : 0;
      r->remote_addr = wr.bind_mw.bind_info.addr;
      r->bind_length = wr.bind_mw.bind_info.length;
      r->bind_access = wr.bind_mw.bind_info.mw_access_flags;
      break;
    case Operation::kTso: {
      const auto* from = static_cast<const uint8_t*>(wr.tso.hdr);
      if (from != nullptr) r->tso_header.assign(from, from + wr.tso.hdr_sz);
      r->tso_mss = wr.tso.mss;
      break;
    }
    default:
      break;
  }
  if (op == Operation::kSendWithImm || op == Operation::kRdmaWriteWithImm) r->imm = wr.imm_data;
  if (qp->qp_type == IBV_QPT_UD && wr.wr.ud.ah != nullptr) {
    r->ah_handle = wr.wr.ud.ah->handle;
    r->remote_qpn = wr.wr.ud.remote_qpn;
    r->remote_qkey = wr.wr.ud.remote_qkey;
  }
  if (qp->qp_type == IBV_QPT_XRC_SEND) r->remote_srqn = wr.qp_type.xrc.remote_srqn;
  const bool is_inline =
      (wr.send_flags & IBV_SEND_INLINE) && model::Info(op).data == model::DataRule::kSgeOrInline;
  r->data = is_inline ? DataKind::kInline : DataKind::kSge;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    if (is_inline) {
      if (r->inline_data.size() + sge.length > 1 << 20) break;
      const auto* from = reinterpret_cast<const uint8_t*>(sge.addr);
      r->inline_data.insert(r->inline_data.end(), from, from + sge.length);
      ++r->inline_buffers;
    } else {
      r->sge.push_back({sge.addr, sge.length, model::Lkey(sge.lkey)});
    }
  }
}

int PostSend(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) {
  WatchedQp* w = g_oracle->Qp(qp);
  std::vector<PostedRequest> requests;
  std::vector<const ibv_send_wr*> wrs;
  for (const ibv_send_wr* wr = list; wr != nullptr; wr = wr->next) {
    requests.emplace_back();
    Record(qp, *wr, &requests.back());
    wrs.push_back(wr);
  }
  Posting posting;
  posting.requests = &requests;
  posting.count = requests.size();
  g_oracle->Begin(*w, &posting);
  const ibv_qp_state state = qp->state;
  int rc = g_oracle->Context(qp->context).ops.post_send(qp, list, bad);
  g_oracle->End(*w, &posting);
  size_t accepted = requests.size();
  if (rc != 0 && bad != nullptr) {
    accepted = std::find(wrs.begin(), wrs.end(), *bad) - wrs.begin();
    // A call that fails before its list is looked at names none.
    if (accepted == wrs.size()) accepted = posting.handed_over;
  }
  if (posting.handed_over != accepted && state >= IBV_QPS_RTS) {
    g_oracle->Find("wqe", rc == 0 ? "WR-MIX-001" : "WR-MIX-007",
                   fmt::format("ibv_post_send() accepted {} requests, but the device got {}",
                               accepted, posting.handed_over));
  }
  g_oracle->CheckLocks("ibv_post_send()", "WR-CONC-002");
  return rc;
}

int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  WatchedQp* w = g_oracle->Qp(qp);
  std::vector<PostedRequest> requests(1);
  PostedRequest& r = requests[0];
  r.Clear(Operation::kBindMw, bind->wr_id, bind->send_flags);
  r.mw_rkey = mw->rkey;
  r.new_key_known = false;
  r.mr_lkey = bind->bind_info.mr != nullptr ? bind->bind_info.mr->lkey : 0;
  r.remote_addr = bind->bind_info.addr;
  r.bind_length = bind->bind_info.length;
  r.bind_access = bind->bind_info.mw_access_flags;
  Posting posting;
  posting.requests = &requests;
  posting.count = 1;
  g_oracle->Begin(*w, &posting);
  int rc = g_oracle->Context(qp->context).ops.bind_mw(qp, mw, bind);
  g_oracle->End(*w, &posting);
  g_oracle->CheckLocks("ibv_bind_mw()", "WR-CONC-002");
  return rc;
}

// Receives are recorded before the call, since the device may read the queue at any time, and those
// that the call refused are taken back.
template <typename Call>
int PostReceives(WatchedQueue* queue, ibv_recv_wr* list, ibv_recv_wr** bad, const char* name,
                 Call call) {
  size_t count = 0;
  {
    std::lock_guard<std::mutex> lock(g_oracle->mutex);
    for (const ibv_recv_wr* wr = list; wr != nullptr; wr = wr->next, ++count) {
      queue->posted.emplace_back();
      PostedReceive& r = queue->posted.back();
      r.wr_id = wr->wr_id;
      if (!g_oracle->spare_sges.empty()) {
        r.sge = std::move(g_oracle->spare_sges.back());
        g_oracle->spare_sges.pop_back();
        r.sge.clear();
      }
      for (int i = 0; i < wr->num_sge; ++i) {
        r.sge.push_back(
            {wr->sg_list[i].addr, wr->sg_list[i].length, model::Lkey(wr->sg_list[i].lkey)});
      }
    }
  }
  int rc = call();
  if (rc != 0) {
    size_t accepted = 0;
    const ibv_recv_wr* wr = list;
    if (bad != nullptr && *bad != nullptr) {
      while (wr != nullptr && wr != *bad) {
        wr = wr->next;
        ++accepted;
      }
      if (wr == nullptr) accepted = 0;
    }
    std::lock_guard<std::mutex> lock(g_oracle->mutex);
    size_t refused = std::min(count - accepted, queue->posted.size());
    queue->posted.erase(queue->posted.end() - refused, queue->posted.end());
  }
  g_oracle->CheckLocks(name, "WR-CONC-001");
  return rc;
}

int PostRecv(ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) {
  WatchedQueue* queue = &g_oracle->Qp(qp)->receive;
  return PostReceives(queue, list, bad, "ibv_post_recv()",
                      [&] { return g_oracle->Context(qp->context).ops.post_recv(qp, list, bad); });
}

int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) {
  WatchedQueue* queue;
  {
    std::lock_guard<std::mutex> lock(g_oracle->mutex);
    queue = &g_oracle->srqs[srq];
  }
  return PostReceives(queue, list, bad, "ibv_post_srq_recv()", [&] {
    return g_oracle->Context(srq->context).ops.post_srq_recv(srq, list, bad);
  });
}

// --- Polling -----------------------------------------------------------------------------------

// Which fields of a completion the caller can see.
enum SeenField : uint32_t {
  kOpcode = 1,
  kByteLen = 2,
  kImm = 4,
  kQpNum = 8,
  kSrcQp = 16,
  kWcFlags = 32,
  kVendorErr = 64,
  kLink = 128,  // slid, sl, dlid_path_bits
  kAllFields = 255,
};

int PollCq(ibv_cq* cq, int n, ibv_wc* wcs) {
  WatchedCq* w = g_oracle->Cq(cq);
  const uint64_t visible_end = g_oracle->BeginPoll(*w);
  const int got = g_oracle->Context(cq->context).ops.poll_cq(cq, n, wcs);
  {
    std::lock_guard<std::mutex> lock(g_oracle->mutex);
    g_oracle->PolledLocked(*w, n, got, wcs, visible_end);
  }
  g_oracle->CheckLocks("ibv_poll_cq()", "WR-CONC-006");
  return got;
}

}  // namespace

void SeamOracle::Impl::PolledLocked(WatchedCq& cq, int n, int got, const ibv_wc* wcs,
                                    uint64_t visible_end) {
  for (int i = 0; i < got && i < n; ++i) {
    const ibv_wc& wc = wcs[i];
    model::Completion c;
    c.wr_id = model::WrId(wc.wr_id);
    c.status = wc.status;
    // On an error the opcode is not valid and may hold any number (WR-COMP-005).
    if (wc.status == IBV_WC_SUCCESS) c.opcode = wc.opcode;
    c.vendor_err = wc.vendor_err;
    c.byte_len = wc.byte_len;
    c.imm = wc.imm_data;
    c.invalidated = model::Rkey(wc.invalidated_rkey);
    c.qp_num = model::QpNum(wc.qp_num);
    c.src_qp = wc.src_qp;
    c.wc_flags = wc.wc_flags;
    c.pkey_index = wc.pkey_index;
    c.slid = wc.slid;
    c.sl = wc.sl;
    c.dlid_path_bits = wc.dlid_path_bits;
    MatchLocked(cq, c, kAllFields);
  }
  // What is left of a QP that ended may come or not; it does not break the CQ.
  if (got < 0) {
    FindLocked("cqe", "WR-COMP-013", fmt::format("ibv_poll_cq() failed with {}", got));
  }
  if (got > n) {
    FindLocked("cqe", "WR-COMP-015", fmt::format("ibv_poll_cq() of {} returned {}", n, got));
  }
  if (got >= 0 && got < n) CheckEmptyLocked(cq, visible_end, "ibv_poll_cq()");
  if (cq.polls_open > 0) --cq.polls_open;
}

namespace {

int StartPoll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  WatchedCq* w = g_oracle->Cq(cq);
  const uint64_t visible_end = g_oracle->BeginPoll(*w);
  int rc = w->original.start_poll(cq, attr);
  if (rc == 0) {
    ++t_open;
    g_oracle->ReadEx(cq);
  } else {
    if (rc == ENOENT) {
      g_oracle->CheckEmpty(*w, visible_end, "ibv_start_poll()");
    } else if (attr->comp_mask == 0) {
      g_oracle->Find("cqe", "WR-COMP-013", fmt::format("ibv_start_poll() failed with {}", rc));
    }
    g_oracle->EndPoll(*w);
  }
  g_oracle->CheckLocks("ibv_start_poll()", "WR-CQX-001");
  return rc;
}

int NextPoll(ibv_cq_ex* cq) {
  WatchedCq* w = g_oracle->Cq(cq);
  const uint64_t visible_end = g_oracle->VisibleEnd(*w);
  int rc = w->original.next_poll(cq);
  if (rc == 0) {
    g_oracle->ReadEx(cq);
  } else if (rc == ENOENT) {
    g_oracle->CheckEmpty(*w, visible_end, "ibv_next_poll()");
  }
  g_oracle->CheckLocks("ibv_next_poll()", "WR-CQX-002");
  return rc;
}

void EndPoll(ibv_cq_ex* cq) {
  WatchedCq* w = g_oracle->Cq(cq);
  w->original.end_poll(cq);
  g_oracle->EndPoll(*w);
  --t_open;
  g_oracle->CheckLocks("ibv_end_poll()", "WR-CQX-002");
}

ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  ibv_cq_ex* cq = g_oracle->Context(context).create_cq_ex(context, attr);
  g_oracle->CheckLocks("ibv_create_cq_ex()", "");
  if (cq == nullptr) return nullptr;
  WatchedCq* w = g_oracle->Cq(cq);
  w->original = *cq;
  Replace(&cq->start_poll, StartPoll);
  Replace(&cq->next_poll, NextPoll);
  Replace(&cq->end_poll, EndPoll);
  return cq;
}

}  // namespace

void SeamOracle::Impl::Attach(ibv_context* context) {
  if (context->ops.post_send == PostSend) return;
  AttachedContext& a = Context(context);
  a.ops = context->ops;
  Replace(&context->ops.post_send, PostSend);
  Replace(&context->ops.post_recv, PostRecv);
  Replace(&context->ops.post_srq_recv, PostSrqRecv);
  Replace(&context->ops.poll_cq, PollCq);
  Replace(&context->ops.bind_mw, BindMw);
  if (verbs_context* ex = verbs_get_ctx(context)) {
    a.create_qp_ex = ex->create_qp_ex;
    a.create_cq_ex = ex->create_cq_ex;
    Replace(&ex->create_qp_ex, CreateQpEx);
    Replace(&ex->create_cq_ex, CreateCqEx);
  }
}

void SeamOracle::Impl::ReadEx(ibv_cq_ex* cq) {
  model::Completion c;
  uint32_t fields = kVendorErr | kOpcode | kWcFlags;
  c.wr_id = model::WrId(cq->wr_id);
  c.status = cq->status;
  c.vendor_err = cq->read_vendor_err != nullptr ? cq->read_vendor_err(cq) : 0;
  if (cq->read_qp_num != nullptr) {
    fields |= kQpNum;
    c.qp_num = model::QpNum(cq->read_qp_num(cq));
  }
  // On an error the other fields mean nothing and are not read.
  if (c.status == IBV_WC_SUCCESS) {
    c.opcode = cq->read_opcode(cq);
    c.wc_flags = cq->read_wc_flags(cq);
    if (cq->read_byte_len != nullptr) {
      fields |= kByteLen;
      c.byte_len = cq->read_byte_len(cq);
    }
    if (cq->read_imm_data != nullptr && c.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) {
      fields |= kImm;
      c.imm = cq->read_imm_data(cq);
      c.invalidated = model::Rkey(c.imm);  // read_invalidated_rkey() is read_imm_data()
    }
    if (cq->read_src_qp != nullptr) {
      fields |= kSrcQp;
      c.src_qp = cq->read_src_qp(cq);
    }
  }
  MatchCompletion(*Cq(cq), c, fields);
}

namespace {

// Nothing differs that MatchLocked() could tell of: the quick way for most completions.
bool SameInAll(const model::Completion& want, const model::Completion& seen) {
  if (want.wr_id != seen.wr_id || want.status != seen.status || want.qp_num != seen.qp_num ||
      want.opcode != seen.opcode) {
    return false;
  }
  const bool short_one = !want.is_receive && want.opcode != IBV_WC_RDMA_READ &&
                         want.opcode != IBV_WC_COMP_SWAP && want.opcode != IBV_WC_FETCH_ADD;
  if (short_one) return true;
  return want.byte_len == seen.byte_len && want.wc_flags == seen.wc_flags && want.imm == seen.imm &&
         want.invalidated == seen.invalidated && want.src_qp == seen.src_qp;
}

}  // namespace

void SeamOracle::Impl::MatchLocked(WatchedCq& cq, const model::Completion& seen, uint32_t fields) {
  ++completions;
  auto same = [&](const WrittenCqe& w) {
    return w.completion.wr_id == seen.wr_id && w.completion.status == seen.status &&
           (!(fields & kQpNum) || w.completion.qp_num == seen.qp_num);
  };
  // Each part of a CQ has an order of its own: the next of any part may come.
  WrittenCqe *next = cq.written.end(), *expected = cq.written.end();
  std::vector<uint32_t> passed;
  for (WrittenCqe* it = cq.written.begin(); it != cq.written.end(); ++it) {
    if (std::find(passed.begin(), passed.end(), it->lane) != passed.end()) continue;
    if (same(*it)) {
      next = it;
      break;
    }
    if (it->optional) continue;
    if (!cq.shared) passed.push_back(it->lane);
    if (expected == cq.written.end()) expected = it;
  }
  if (next == cq.written.end()) next = expected;
  if (next == cq.written.end()) {
    cq.written.clear();
    FindLocked("cqe", "WR-COMP-015",
               fmt::format("a completion (wr_id {:#x}, status {}) was returned that the device did "
                           "not write",
                           seen.wr_id.value, ibv_wc_status_str(seen.status)));
    return;
  }
  // What differs is put into words below, from a copy: the entry goes before.
  const bool same_in_all = SameInAll(next->completion, seen);
  std::optional<model::Completion> differing;
  if (!same_in_all) differing = next->completion;
  // With it go those of a QP that was reset, of the same part: they will not come any more.
  const uint32_t lane = next->lane;
  size_t before = next - cq.written.begin();
  cq.written.erase(next);
  for (size_t i = 0; i < before;) {
    if (cq.written[i].lane == lane && cq.written[i].optional) {
      cq.written.erase(cq.written.begin() + i);
      --before;
    } else {
      ++i;
    }
  }
  if (same_in_all) return;
  const model::Completion& want = *differing;
  std::string text;
  const char* clause = nullptr;
  auto differs = [&](const char* of, bool is_same, const char* field, uint64_t w, uint64_t got) {
    if (is_same) return;
    if (clause == nullptr) clause = of;
    text +=
        fmt::format("{}{} is {:#x}, the CQE has {:#x}", text.empty() ? "" : "; ", field, got, w);
  };
  differs("WR-SAMPLE-001", want.wr_id == seen.wr_id, "wr_id", want.wr_id.value, seen.wr_id.value);
  differs("WR-COMP-005", want.status == seen.status, "status", want.status, seen.status);
  if (fields & kQpNum && want.qp_num != seen.qp_num) {
    if (clause == nullptr) clause = "WR-COMP-005";
    text += fmt::format("{}qp_num is another QP's", text.empty() ? "" : "; ");
  }
  if (want.status == IBV_WC_SUCCESS && seen.status == IBV_WC_SUCCESS) {
    if (fields & kOpcode) {
      differs(want.is_receive ? "WR-COMP-007" : "WR-COMP-006", want.opcode == seen.opcode, "opcode",
              want.opcode, seen.opcode);
    }
    // byte_len and wc_flags of other send completions are unspecified (WR-COMP-009).
    const bool has_length = want.is_receive || want.opcode == IBV_WC_RDMA_READ ||
                            want.opcode == IBV_WC_COMP_SWAP || want.opcode == IBV_WC_FETCH_ADD;
    if (fields & kByteLen && has_length) {
      differs("WR-COMP-008", want.byte_len == seen.byte_len, "byte_len", want.byte_len,
              seen.byte_len);
    }
    if (want.is_receive) {
      if (fields & kWcFlags) {
        differs("WR-COMP-010", want.wc_flags == seen.wc_flags, "wc_flags", want.wc_flags,
                seen.wc_flags);
      }
      if (fields & kImm && want.wc_flags & IBV_WC_WITH_IMM) {
        differs("WR-DATA-002", want.imm == seen.imm, "imm_data", want.imm, seen.imm);
      }
      if (fields & kImm && want.wc_flags & IBV_WC_WITH_INV &&
          want.invalidated != seen.invalidated) {
        if (clause == nullptr) clause = "WR-DATA-003";
        text += fmt::format("{}invalidated_rkey is another key", text.empty() ? "" : "; ");
      }
      const bool datagram = (want.wc_flags & IBV_WC_GRH) != 0;
      if (datagram && fields & kSrcQp && want.src_qp != seen.src_qp) {
        if (clause == nullptr) clause = "WR-UD-005";
        text += fmt::format("{}src_qp is another QP's", text.empty() ? "" : "; ");
      }
    }
  }
  if (!text.empty()) {
    FindLocked("cqe", clause,
               fmt::format("{} completion wr_id {:#x}: {}", want.is_receive ? "receive" : "send",
                           want.wr_id.value, text));
  }
}

void SeamOracle::Impl::CheckEmptyLocked(WatchedCq& cq, uint64_t visible_end, const char* call) {
  // What another thread's poll holds, and has yet to match, is not in the CQ either.
  if (cq.polls_open > 1) return;
  const auto was_there = [visible_end](const WrittenCqe& w) { return w.number < visible_end; };
  const size_t waiting =
      std::count_if(cq.written.begin(), cq.written.end(),
                    [&](const WrittenCqe& w) { return was_there(w) && !w.optional; });
  if (waiting == 0) return;
  FindLocked(
      "cqe", "WR-CQX-001",
      fmt::format("{} says that the CQ is empty, but it holds {} completions", call, waiting));
  cq.written.erase(std::remove_if(cq.written.begin(), cq.written.end(), was_there),
                   cq.written.end());
}

uint64_t SeamOracle::Impl::VisibleEnd(WatchedCq& cq) {
  std::lock_guard<std::mutex> lock(mutex);
  return cq.VisibleEnd();
}

uint64_t SeamOracle::Impl::BeginPoll(WatchedCq& cq) {
  std::lock_guard<std::mutex> lock(mutex);
  if (++cq.polls_open > 1) cq.shared = true;
  return cq.VisibleEnd();
}

void SeamOracle::Impl::EndPoll(WatchedCq& cq) {
  std::lock_guard<std::mutex> lock(mutex);
  if (cq.polls_open > 0) --cq.polls_open;
}

// --- What the kernel tells
// -------------------------------------------------------------------------

SeamOracle::SeamOracle(Kernel* kernel) : impl_(std::make_unique<Impl>(kernel)) {
  assert(g_oracle == nullptr && "one oracle at a time");
  g_oracle = impl_.get();
  kernel->SetObserver(this);
}

SeamOracle::~SeamOracle() {
  impl_->kernel->SetObserver(nullptr);
  g_ended.fetch_add(1, std::memory_order_acq_rel);
  g_oracle = nullptr;
}

void SeamOracle::Attach(ibv_context* context) { impl_->Attach(context); }

void SeamOracle::Watch(ibv_qp_ex* qp) { WrapQp(qp, impl_->Qp(qp)); }

std::vector<SeamFinding> SeamOracle::Take() {
  impl_->CheckLocks("a call", "");
  std::lock_guard<std::mutex> lock(impl_->mutex);
  std::vector<SeamFinding> found;
  found.swap(impl_->found);
  impl_->seen.clear();
  return found;
}

uint64_t SeamOracle::compared_requests() const { return impl_->requests; }
uint64_t SeamOracle::compared_completions() const { return impl_->completions; }

void SeamOracle::OnSend(const QpFacts& qp, Visibility, const DecodedSend& decoded) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  WatchedQp& w = *impl_->QpLocked(reinterpret_cast<const void*>(qp.sq.library_object));
  const PostedRequest* posted = impl_->Claim(w, decoded);
  if (posted == nullptr) {
    impl_->FindLocked(
        "residue", "WR-ATOM-006",
        fmt::format("the device got a {} (wr_id {:#x}) that no successful call posted",
                    model::Info(decoded.request.op).name, decoded.request.wr_id.value),
        Hex(decoded.raw));
    return;
  }
  ++impl_->requests;
  Entries::Entry& entry = w.send_entries.Add(qp.sq.next, posted->wr_id);
  if (posted->expressible) entry.op = posted->op;
  if (qp.sq.base != nullptr && decoded.raw.data >= qp.sq.base &&
      decoded.raw.data + decoded.raw.size <= qp.sq.base + qp.sq.size) {
    entry.at = decoded.raw.data;
    entry.size = std::min(decoded.raw.size, sizeof entry.bytes);
    std::memcpy(entry.bytes, entry.at, entry.size);
  }
  // What the type does not offer at all fails, at once or in a completion (WR-RESP-012); how a WQE
  // of it looks is not promised.
  const model::OperationInfo& info = model::Info(posted->op);
  if (!posted->expressible ||
      !((info.reference_types | info.optional_types) & model::MaskOf(qp.type)))
    return;
  std::vector<Difference> differences = Compare(*posted, qp, decoded);
  if (differences.empty() && decoded.complaints.empty()) return;
  std::string text = Describe(*posted) + ": ";
  std::string separator;
  for (const std::string& complaint : decoded.complaints) {
    text += separator + complaint;
    separator = "; ";
  }
  for (const Difference& difference : differences) {
    text += separator + difference.what;
    separator = "; ";
  }
  // A WQE that is no request at all is a builder's failure to make one.
  impl_->FindLocked("wqe", differences.empty() ? "WR-BUILD-001" : differences[0].clause, text,
                    Hex(decoded.raw));
}

void SeamOracle::OnRetired(const QpFacts& qp, uint32_t entry) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->QpLocked(reinterpret_cast<const void*>(qp.sq.library_object))->send_entries.Done(entry);
}

void SeamOracle::OnReceive(const Queue& queue, const DecodedReceive& decoded) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  const void* object = reinterpret_cast<const void*>(queue.library_object);
  WatchedQueue& w =
      queue.kind == Queue::Kind::kShared ? impl_->srqs[object] : impl_->QpLocked(object)->receive;
  if (w.posted.empty()) {
    impl_->FindLocked("residue", "WR-ATOM-006", "the device got a receive that no call posted",
                      Hex(decoded.raw));
    return;
  }
  PostedReceive posted = std::move(w.posted.front());
  w.posted.pop_front();
  ++impl_->requests;
  w.entries.Add(queue.next, posted.wr_id);
  std::string text;
  for (const std::string& complaint : decoded.complaints) text += complaint + "; ";
  if (decoded.carries_wr_id && decoded.wr_id != posted.wr_id) text += "wr_id differs; ";
  std::vector<Difference> differences;
  CompareSges(posted.sge, decoded.sge, &differences);
  impl_->spare_sges.push_back(std::move(posted.sge));
  if (!differences.empty()) text += "the SGEs differ; ";
  if (text.empty()) return;
  text.resize(text.size() - 2);
  impl_->FindLocked("wqe", "WR-SGE-001", fmt::format("receive wr_id={:#x}: {}", posted.wr_id, text),
                    Hex(decoded.raw));
}

void SeamOracle::OnCompletion(const CqFacts& cq, const NativeCompletion& native) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  WatchedCq& w = *impl_->CqLocked(reinterpret_cast<const void*>(cq.queue.library_object));
  WrittenCqe& written = w.written.emplace_back();
  written.completion = native.completion;
  written.lane = native.work_queue->lane;
  const Queue& queue = *native.work_queue;
  const void* object = reinterpret_cast<const void*>(queue.library_object);
  Entries* entries = nullptr;
  switch (queue.kind) {
    case Queue::Kind::kSend:
      entries = &impl_->QpLocked(object)->send_entries;
      break;
    case Queue::Kind::kReceive:
      entries = &impl_->QpLocked(object)->receive.entries;
      break;
    case Queue::Kind::kShared:
      entries = &impl_->srqs[object].entries;
      break;
    case Queue::Kind::kCompletion:
      break;
  }
  if (entries != nullptr) {
    if (auto entry = entries->Take(native.entry, queue.kind == Queue::Kind::kSend)) {
      written.completion.wr_id = model::WrId(entry->wr_id);
      if (entry->op) written.completion.opcode = model::Info(*entry->op).send_wc_opcode;
    }
  }
  written.number = w.announced++;
}

void SeamOracle::OnCompletionWritten(const CqFacts& cq, CqeFate fate) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  WatchedCq& w = *impl_->CqLocked(reinterpret_cast<const void*>(cq.queue.library_object));
  // A poll that was quick may have taken it.
  if (w.written.empty() || w.written.back().number + 1 != w.announced) return;
  if (fate == CqeFate::kLost) {
    w.written.pop_back();
  } else {
    w.written.back().visible = true;
  }
}

void SeamOracle::OnQpReset(const QpFacts& qp) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  WatchedQp& w = *impl_->QpLocked(reinterpret_cast<const void*>(qp.sq.library_object));
  w.send_entries.Clear();
  w.receive.entries.Clear();
  w.receive.posted.clear();
  for (auto& [object, cq] : impl_->cqs) {
    for (WrittenCqe& written : cq->written) {
      if (written.completion.qp_num.value == qp.number) written.optional = true;
    }
  }
}

void SeamOracle::OnQpEnds(const QpFacts& qp) {
  OnQpReset(qp);
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->last_qp = nullptr;
  Impl::End(&impl_->qps, qp.sq.library_object, &impl_->spare_qps);
}

void SeamOracle::OnSrqEnds(const SrqFacts& srq) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->srqs.erase(reinterpret_cast<const void*>(srq.queue.library_object));
}

void SeamOracle::OnCqEnds(const CqFacts& cq) {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->last_cq = nullptr;
  Impl::End(&impl_->cqs, cq.queue.library_object, &impl_->spare_cqs);
}

void SeamOracle::OnMisuse(std::string_view kind, const std::string& what) {
  impl_->Find(std::string(kind), "", what);
}

}  // namespace qpexam::hosted
