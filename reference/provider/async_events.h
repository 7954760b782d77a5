// Asynchronous events: from the model to the context's event fd, and taken back at destruction.
#ifndef QPEXAM_REFERENCE_PROVIDER_ASYNC_EVENTS_H_
#define QPEXAM_REFERENCE_PROVIDER_ASYNC_EVENTS_H_

#include "reference/provider/objects.h"

namespace qpexam::provider {

// The sink of every context; the model's Device leads back to the Context.
model::AsyncSink* AsyncEventSink();

// libibverbs has read an event: there may be room for one that waited.
void AsyncEventRead(ibv_context* context, ibv_async_event* event);

// Called when the model's object is gone: drops the events nobody has read and waits until those
// that were read are acknowledged (ibv_get_async_event(3)).
void FinishAsyncEvents(ibv_context* context, void* verbs_object, EventCount& raised,
                       pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged);

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_ASYNC_EVENTS_H_
