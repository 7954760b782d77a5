// Posting a linked list of receive requests to a QP or an SRQ of the model.
#ifndef QPEXAM_REFERENCE_PROVIDER_RECEIVE_LIST_H_
#define QPEXAM_REFERENCE_PROVIDER_RECEIVE_LIST_H_

#include <infiniband/verbs.h>

#include "reference/model/engine.h"
#include "reference/provider/objects.h"

namespace qpexam::provider {

// In order, up to the first that fails; *bad_wr names it (ibv_post_recv(3)).
template <typename Queue>
int PostReceives(Queue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  static_assert(sizeof(model::Sge) == sizeof(ibv_sge) && offsetof(model::Sge, addr) == 0 &&
                    offsetof(model::Sge, length) == offsetof(ibv_sge, length) &&
                    offsetof(model::Sge, lkey) == offsetof(ibv_sge, lkey),
                "the model's SGE is laid out as verbs' own, so that lists pass as they are");
  for (; wr != nullptr; wr = wr->next) {
    model::RecvRequest request;
    request.wr_id = model::WrId(wr->wr_id);
    request.sge = reinterpret_cast<const model::Sge*>(wr->sg_list);
    // A negative count is as wrong as one that is too large.
    request.num_sge = static_cast<uint32_t>(wr->num_sge);
    size_t bad = 0;
    const model::Status status = queue.PostRecv({&request, 1}, &bad);
    if (!status.ok()) {
      if (bad_wr != nullptr) *bad_wr = wr;
      return Answer(status);
    }
  }
  return 0;
}

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_RECEIVE_LIST_H_
