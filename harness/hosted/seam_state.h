// What the seam oracle keeps, and the wrappers by which it sees the calls (seam_posting.cc,
// seam_polling.cc).
#ifndef QPEXAM_HARNESS_HOSTED_SEAM_STATE_H_
#define QPEXAM_HARNESS_HOSTED_SEAM_STATE_H_

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/hosted/fifo.h"
#include "harness/hosted/lock_watch.h"
#include "harness/hosted/posted_request.h"
#include "harness/hosted/seam_oracle.h"

namespace qpexam::hosted {

// Regions and polls that this thread has open.
inline thread_local int t_open = 0;

// A call that hands requests over: a region being completed, a list being posted.
struct Posting {
  const std::vector<PostedRequest>* requests = nullptr;
  size_t count = 0;
  size_t handed_over = 0;
  const void* thread = nullptr;
};

inline const void* ThisThread() { return &t_open; }

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
    std::optional<model::Operation> op;  // of a send
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
    std::optional<model::Operation> op;
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

// As many as tell what it is: lines of 16 bytes.
std::string Hex(Bytes bytes);

// A thread's last look-up, good as long as nothing has ended since.
template <typename T>
struct Recent {
  const void* object = nullptr;
  T* watched = nullptr;
  uint64_t ended = 0;
};
inline thread_local Recent<WatchedQp> t_qp;
inline thread_local Recent<WatchedCq> t_cq;
inline thread_local Recent<AttachedContext> t_context;
// QPs, CQs and oracles that have ended so far, in this process.
inline std::atomic<uint64_t> g_ended{1};

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

// The one of this process.
inline SeamOracle::Impl* g_oracle = nullptr;

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

// --- seam_posting.cc
void WrapQp(ibv_qp_ex* ex, WatchedQp* w);
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr);
int PostSend(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad);
int PostRecv(ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad);
int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad);
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

// --- seam_polling.cc
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr);
int PollCq(ibv_cq* cq, int n, ibv_wc* wcs);

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_SEAM_STATE_H_
