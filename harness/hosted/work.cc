// Work: from WQEs in the provider's rings to the engine, and from the engine to CQEs and events.
#include <fmt/format.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>

#include "harness/hosted/event_channel.h"
#include "harness/hosted/kernel_impl.h"

namespace qpexam::hosted {
namespace {

// The position in a FIFO of pending entries of the one with `token`; the engine completes in order,
// so it is the first.
template <typename T>
T* FindToken(Fifo<T>& pending, uint64_t token) {
  return std::find_if(pending.begin(), pending.end(),
                      [token](const T& p) { return p.token == token; });
}

// As far as a WQE with an address of its own can tell.
bool SameAddress(const ibv_ah_attr& a, const ibv_ah_attr& b) {
  return a.port_num == b.port_num && a.grh.flow_label == b.grh.flow_label &&
         a.grh.sgid_index == b.grh.sgid_index && a.grh.hop_limit == b.grh.hop_limit &&
         a.grh.traffic_class == b.grh.traffic_class &&
         std::memcmp(a.grh.dgid.raw, b.grh.dgid.raw, sizeof a.grh.dgid.raw) == 0;
}

}  // namespace

// --- In ----------------------------------------------------------------------------------------

void KernelImpl::ReadSendQueue(HostedQp& qp) {
  // Before RTS the device does not look at the send queue.
  if (qp.qp->state() < IBV_QPS_RTS) return;
  Queue& sq = qp.facts.sq;
  DeviceModel& model = qp.context->model();
  DecodedSend& d = send_scratch_;
  for (;;) {
    Visibility visibility = model.DecodeSend(sq, &d);
    if (visibility == Visibility::kNotYet) return;
    model::SendRequest& r = d.request;
    if (d.address.has_value()) {
      qp.context->ahs.ForEach([&](HostedAh& ah) {
        if (!SameAddress(ah.facts.attr, *d.address)) return;
        r.ah = ah.ah;
        d.ah_handles.push_back(ah.handle);
      });
    } else if (d.ah_number != 0) {
      auto ah = ahs_.find(d.ah_number);
      if (ah != ahs_.end()) {
        r.ah = ah->second->ah;
        d.ah_handles.push_back(ah->second->handle);
      }
    }
    if (visibility == Visibility::kRequest) {
      if (model::NeedsAddress(qp.facts.type) && r.ah == nullptr) {
        d.complaints.push_back(d.address.has_value()
                                   ? std::string("the address is that of no address handle")
                                   : fmt::format("address handle {} is none", d.ah_number));
        visibility = Visibility::kMalformed;
      }
      if (r.op == model::Operation::kBindMw) {
        r.mw_key = model::Rkey(d.mw_rkey);
        r.mw = fabric.FindMwByIndex(r.mw_key);
        r.bind_mr = fabric.FindMr(model::Lkey(d.mr_lkey));
        // The WQE does not say by which call it came; the window's type does.
        if (r.mw != nullptr && r.mw->type == IBV_MW_TYPE_1) {
          r.bind_call = model::BindCall::kBindMwVerb;
        }
      }
    }
    if (observer != nullptr) {
      // What the caller gave, not what the device makes of it.
      observer->OnSend(qp.facts, visibility, d);
    }
    PendingSend pending = {next_token_++, r.wr_id.value, r.op, sq.next, d.slots, d.native_index};
    if (visibility == Visibility::kMalformed) {
      // The engine executes a request that no QP of the type takes, and no datagram QP without an
      // address: it fails with the status of an operation that the QP cannot do,
      // IBV_WC_LOC_QP_OP_ERR.
      const bool frames = qp.facts.type == model::QpType::kRawPacket;
      r.op = frames ? model::Operation::kRdmaRead : model::Operation::kTso;
      r.ah = nullptr;
      r.data = model::DataKind::kSge;
      d.sge.clear();
      d.header.clear();
    }
    const auto header_length = static_cast<uint16_t>(d.header.size());
    (r.op == model::Operation::kTso ? r.tso_header_length : r.frame_header_length) = header_length;
    r.tso_header = d.header.data();
    r.wr_id = model::WrId(pending.token);
    r.num_sge = static_cast<uint32_t>(d.sge.size());
    r.sge = d.sge.data();
    r.inline_length = d.inline_data.size();
    r.inline_data = d.inline_data.data();
    sq.next += d.slots;
    qp.sends.push_back(pending);
    qp.qp->send_queue().PostDecoded(r);
  }
}

void KernelImpl::ReadReceiveQueue(HostedQp& qp) {
  if (qp.pumping || qp.srq != nullptr || !qp.facts.rq.exists()) return;
  if (qp.qp->state() == IBV_QPS_RESET) return;
  qp.pumping = true;
  DeviceModel& model = qp.context->model();
  DecodedReceive& d = receive_scratch_;
  while (model.DecodeReceive(qp.facts.rq, &d) != Visibility::kNotYet) {
    if (observer != nullptr) observer->OnReceive(qp.facts.rq, d);
    PendingReceive pending = {next_token_++, d.wr_id, qp.facts.rq.next, d.native_index};
    ++qp.facts.rq.next;
    qp.receives.push_back(pending);
    model::RecvRequest request;
    request.wr_id = model::WrId(pending.token);
    request.sge = d.sge.data();
    request.num_sge = static_cast<uint32_t>(d.sge.size());
    size_t bad = 0;
    qp.qp->PostRecv({&request, 1}, &bad);
  }
  qp.pumping = false;
}

void KernelImpl::ReadSharedQueue(HostedSrq& srq) {
  if (srq.pumping) return;
  srq.pumping = true;
  DeviceModel& model = srq.context->model();
  DecodedReceive& d = receive_scratch_;
  while (model.DecodeReceive(srq.facts.queue, &d) != Visibility::kNotYet) {
    if (observer != nullptr) observer->OnReceive(srq.facts.queue, d);
    PendingReceive pending = {next_token_++, d.wr_id, srq.facts.queue.next, d.native_index};
    ++srq.facts.queue.next;
    srq.pending.push_back(pending);
    model::RecvRequest request;
    request.wr_id = model::WrId(pending.token);
    request.sge = d.sge.data();
    request.num_sge = static_cast<uint32_t>(d.sge.size());
    size_t bad = 0;
    srq.srq->PostRecv({&request, 1}, &bad);
  }
  srq.pumping = false;
}

// --- Out ---------------------------------------------------------------------------------------

bool HostedCq::OnCompletion(model::Cq&, const model::Completion& completion) {
  context->kernel->OnCompletion(*this, completion);
  return true;
}

void KernelImpl::OnCompletion(HostedCq& cq, const model::Completion& completion) {
  auto* qp = static_cast<HostedQp*>(completion.qp->owner);
  DeviceModel& model = cq.context->model();
  NativeCompletion native;
  native.completion = completion;
  native.qp = &qp->facts;
  uint64_t token = completion.wr_id.value;
  HostedSrq* shared = qp->srq;
  if (completion.is_receive && qp->facts.type == model::QpType::kXrcRecv) {
    // The request named the SRQ.
    for (HostedSrq* srq : cq.xrc_srqs) {
      if (FindToken(srq->pending, token) != srq->pending.end()) shared = srq;
    }
    assert(shared != nullptr);
  }
  if (completion.is_receive && shared != nullptr) {
    HostedSrq& srq = *shared;
    auto it = FindToken(srq.pending, token);
    assert(it != srq.pending.end());
    native.completion.wr_id = model::WrId(it->wr_id);
    native.entry = it->entry;
    native.native_index = it->native_index;
    native.work_queue = &srq.facts.queue;
    native.srq = &srq.facts;
    srq.pending.erase(it);
    model.Retire(srq.facts.queue, 1);
  } else if (completion.is_receive) {
    auto it = FindToken(qp->receives, token);
    assert(it != qp->receives.end());
    native.completion.wr_id = model::WrId(it->wr_id);
    native.entry = it->entry;
    native.native_index = it->native_index;
    native.work_queue = &qp->facts.rq;
    qp->receives.erase(it);
    model.Retire(qp->facts.rq, 1);
  } else {
    auto it = FindToken(qp->sends, token);
    assert(it != qp->sends.end());
    native.completion.wr_id = model::WrId(it->wr_id);
    native.op = it->op;
    native.entry = it->entry;
    native.native_index = it->native_index;
    native.work_queue = &qp->facts.sq;
    if (completion.status == IBV_WC_SUCCESS) {
      native.completion.opcode = model::Info(it->op).send_wc_opcode;
    }
    uint32_t slots = it->slots;
    qp->sends.erase(it);
    if (model.Retire(qp->facts.sq, slots) && observer != nullptr) {
      observer->OnRetired(qp->facts, native.entry);
    }
  }
  model.Express(&native);
  // One that is late makes those behind it late.
  const bool late = freedom.late_completions && !model.traits().library_flushes;
  if (late || !cq.held.empty()) {
    cq.held.push_back(native);
  } else {
    Deliver(cq, native);
  }
}

void KernelImpl::OnSilentSuccess(HostedQp& qp, const model::SendRequest& request) {
  auto it = FindToken(qp.sends, request.wr_id.value);
  assert(it != qp.sends.end());
  const PendingSend done = *it;
  qp.sends.erase(it);
  if (observer != nullptr) observer->OnRetired(qp.facts, done.entry);
  qp.context->model().Retire(qp.facts.sq, done.slots);
}

void KernelImpl::Deliver(HostedCq& cq, const NativeCompletion& native) {
  if (observer != nullptr) observer->OnCompletion(cq.facts, native);
  const bool written = cq.context->model().Encode(cq.facts, native);
  if (observer != nullptr) {
    observer->OnCompletionWritten(cq.facts, written ? CqeFate::kWritten : CqeFate::kLost);
  }
  if (!written) {
    // WR-COMP-012: the completion is lost and the CQ's user hears of it.
    Raise(cq, IBV_EVENT_CQ_ERR);
    return;
  }
  const model::Completion& c = native.completion;
  bool wanted = cq.facts.arm == CqFacts::Arm::kAny || (cq.facts.arm == CqFacts::Arm::kSolicited &&
                                                       (c.solicited || c.status != IBV_WC_SUCCESS));
  if (!wanted) return;
  cq.facts.arm = CqFacts::Arm::kNone;
  if (cq.channel < 0) return;
  ib_uverbs_comp_event_desc event = {};
  event.cq_handle = cq.user_handle;
  if (EventChannel::Raise(cq.channel, &event, sizeof event)) ++cq.comp_events;
}

void KernelImpl::Arm(HostedCq& cq, CqFacts::Arm arm) {
  // Arming for any completion is not narrowed by arming for solicited ones.
  if (cq.facts.arm != CqFacts::Arm::kAny) cq.facts.arm = arm;
}

bool KernelImpl::ReleaseHeld() {
  std::vector<HostedCq*> waiting;
  for (const auto& context : contexts_) {
    context->cqs.ForEach([&](HostedCq& cq) {
      if (!cq.held.empty()) waiting.push_back(&cq);
    });
  }
  for (HostedCq* cq : waiting) {
    Fifo<NativeCompletion> held;
    std::swap(held, cq->held);
    if (freedom.reorder_across_qps) {
      // Order of one QP's side is kept; whose completion comes next is drawn.
      while (!held.empty()) {
        random_ = random_ * 6364136223846793005u + 1442695040888963407u;
        size_t pick = (random_ >> 33) % held.size();
        // The first of the drawn one's queue.
        const Queue* queue = held[pick].work_queue;
        NativeCompletion* first =
            std::find_if(held.begin(), held.end(),
                         [queue](const NativeCompletion& n) { return n.work_queue == queue; });
        NativeCompletion native = *first;
        held.erase(first);
        Deliver(*cq, native);
      }
    } else {
      for (const NativeCompletion& native : held) Deliver(*cq, native);
    }
  }
  return !waiting.empty();
}

void KernelImpl::SetFreedom(const Freedom& wanted) {
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  ReleaseHeld();
  if (wanted.first_qp_number != freedom.first_qp_number) next_qp_ = wanted.first_qp_number;
  freedom = wanted;
  random_ = wanted.seed;
}

bool KernelImpl::Pump() {
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  // Receive queues have no doorbell on most devices: a QP in error flushes what is posted late.
  for (const auto& context : contexts_) {
    if (context->fd < 0) continue;
    context->srqs.ForEach([&](HostedSrq& srq) { ReadSharedQueue(srq); });
    context->qps.ForEach([&](HostedQp& qp) { ReadReceiveQueue(qp); });
  }
  return ReleaseHeld();
}

void KernelImpl::RunUntilIdle() {
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  do {
    Pump();
    fabric.RunUntilIdle();
  } while (ReleaseHeld());
}

// --- Events ------------------------------------------------------------------------------------

void KernelImpl::Raise(HostedObject& object, ibv_event_type type) {
  if (object.context->async_fd < 0) return;
  ib_uverbs_async_event_desc event = {};
  event.element = object.user_handle;
  event.event_type = type;
  if (EventChannel::Raise(object.context->async_fd, &event, sizeof event)) ++object.async_events;
}

void KernelImpl::OnAsyncEvent(model::Device&, const model::AsyncEvent& event) {
  HostedObject* object = nullptr;
  if (event.qp != nullptr) {
    // Every handle of a QP hears of it.
    auto handles = xrc_handles_.find(event.qp->number().value);
    if (handles != xrc_handles_.end()) {
      for (HostedQp* handle : handles->second) Raise(*handle, event.type);
      return;
    }
    object = static_cast<HostedQp*>(event.qp->owner);
  }
  if (event.cq != nullptr) object = static_cast<HostedCq*>(event.cq->owner);
  if (event.srq != nullptr) object = static_cast<HostedSrq*>(event.srq->owner);
  if (object != nullptr) Raise(*object, event.type);
}

uint32_t KernelImpl::PurgeAsync(HostedObject& object) {
  if (object.async_events == 0) return 0;
  return EventChannel::Purge(object.context->async_fd, sizeof(ib_uverbs_async_event_desc),
                             object.user_handle);
}

// --- Ends --------------------------------------------------------------------------------------

void KernelImpl::DestroyQp(HostedQp& qp) {
  // What has completed was completed before the QP ends: the CQ gets it, and the library drops it.
  ReleaseHeld();
  Context& context = *qp.context;
  auto shared = xrc_handles_.find(qp.facts.number);
  if (shared != xrc_handles_.end() && shared->second.size() > 1) {
    // The QP lives on in its other handles, and so do its completions.
    std::vector<HostedQp*>& handles = shared->second;
    handles.erase(std::find(handles.begin(), handles.end(), &qp));
    qps_[qp.facts.number] = handles.front();
    qp.qp->owner = handles.front();
    qp.facts.number = 0;
    if (observer != nullptr) observer->OnQpEnds(qp.facts);
    context.engine->DestroyQp(qp.qp);
    context.qps.Remove(qp.handle);
    return;
  }
  if (shared != xrc_handles_.end()) xrc_handles_.erase(shared);
  if (observer != nullptr) observer->OnQpEnds(qp.facts);
  qps_.erase(qp.facts.number);
  context.engine->DestroyQp(qp.qp);
  ReleaseMemory(context, qp);
  context.qps.Remove(qp.handle);
}

void KernelImpl::DestroySrq(HostedSrq& srq) {
  Context& context = *srq.context;
  if (srq.cq != nullptr) {
    // Late completions name the SRQ.
    ReleaseHeld();
    std::vector<HostedSrq*>& srqs = srq.cq->xrc_srqs;
    srqs.erase(std::find(srqs.begin(), srqs.end(), &srq));
  }
  if (observer != nullptr) observer->OnSrqEnds(srq.facts);
  context.engine->DestroySrq(srq.srq);
  ReleaseMemory(context, srq);
  context.srqs.Remove(srq.handle);
}

void KernelImpl::DestroyCq(HostedCq& cq) {
  Context& context = *cq.context;
  if (observer != nullptr) observer->OnCqEnds(cq.facts);
  cqs_.erase(cq.facts.number);
  context.engine->DestroyCq(cq.cq);
  ReleaseMemory(context, cq);
  context.cqs.Remove(cq.handle);
}

void KernelImpl::CloseXrcd(HostedXrcd& xrcd) {
  for (auto it = xrcd_files_.begin(); it != xrcd_files_.end(); ++it) {
    if (it->second.number != xrcd.xrcd->inode) continue;
    if (--it->second.users == 0) xrcd_files_.erase(it);
    break;
  }
  Context& context = *xrcd.context;
  context.engine->CloseXrcd(xrcd.xrcd);
  context.xrcds.Remove(xrcd.handle);
}

}  // namespace qpexam::hosted
