#include "reference/provider/async_events.h"

namespace qpexam::provider {
namespace {

void RaiseFor(ibv_context* context, void* verbs_object, EventCount& count, ibv_event_type type) {
  ++count;
  EventPipe::Event event;
  event.handle = reinterpret_cast<uint64_t>(verbs_object);
  event.type = type;
  Of(context)->async_events->Raise(event);
}

class Sink : public model::AsyncSink {
 public:
  // An object without an owner is still being made, or gone already: nobody can know of it.
  void OnAsyncEvent(model::Device& /*device*/, const model::AsyncEvent& event) override {
    if (event.qp != nullptr && event.qp->owner != nullptr) {
      for (Qp* qp : static_cast<QpHandles*>(event.qp->owner)->list)
        RaiseFor(qp->verbs.qp.context, qp, qp->async_events, event.type);
    } else if (event.cq != nullptr && event.cq->owner != nullptr) {
      auto* cq = static_cast<Cq*>(event.cq->owner);
      RaiseFor(cq->context, cq, cq->async_events, event.type);
    } else if (event.srq != nullptr && event.srq->owner != nullptr) {
      auto* srq = static_cast<Srq*>(event.srq->owner);
      RaiseFor(srq->context, srq, srq->async_events, event.type);
    }
  }
};

}  // namespace

model::AsyncSink* AsyncEventSink() {
  static Sink* sink = new Sink;
  return sink;
}

void AsyncEventRead(ibv_context* context, ibv_async_event* /*event*/) {
  Of(context)->async_events->Flush();
}

void FinishAsyncEvents(ibv_context* context, void* verbs_object, EventCount& raised,
                       pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged) {
  pthread_mutex_lock(&mutex);
  const bool none = acknowledged == raised;
  pthread_mutex_unlock(&mutex);
  // The rule, and worth its own way: to look into the pipe is a system call.
  if (none) return;
  raised -= Of(context)->async_events->Purge(reinterpret_cast<uint64_t>(verbs_object));
  pthread_mutex_lock(&mutex);
  while (acknowledged != raised) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

}  // namespace qpexam::provider
