// One request in execution: what was found out about it (facts) and where its bytes lie.
#ifndef QPEXAM_REFERENCE_MODEL_EXCHANGE_H_
#define QPEXAM_REFERENCE_MODEL_EXCHANGE_H_

#include <cstdint>

#include "reference/model/memory_access.h"
#include "reference/model/packet.h"
#include "reference/model/queue_pair.h"
#include "reference/model/rules.h"

namespace qpexam::model {

struct Exchange {
  Qp* requester = nullptr;
  Qp* responder = nullptr;
  SendRequest* request = nullptr;
  RequestFacts facts;

  Segments local;  // the requester's buffers, or its inline bytes
  uint8_t* remote = nullptr;
  // The receive that the message would take: of the QP's own queue or of an SRQ.
  ReceiveQueue* queue = nullptr;
  Srq* srq = nullptr;
  Cq* receive_cq = nullptr;
  const Pd* receive_pd = nullptr;
  Segments scatter;      // the receive's buffers
  Mw* window = nullptr;  // BIND_MW, LOCAL_INV, SEND_WITH_INV
  GrhBytes grh{};        // datagrams
  uint64_t grh_length = 0;
  uint64_t atomic_result = 0;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_EXCHANGE_H_
