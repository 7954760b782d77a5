#include "harness/hosted/seam_oracle.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>
#include <utility>

#include "harness/hosted/seam_state.h"

namespace qpexam::hosted {

std::string Hex(Bytes bytes) {
  std::string text;
  // Long WQEs are mostly payload; what matters is in front.
  for (size_t i = 0; i < std::min<size_t>(bytes.size, 256); ++i) {
    if (i != 0 && i % 16 == 0) text += '\n';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

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
