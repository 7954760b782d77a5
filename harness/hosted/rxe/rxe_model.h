// The device model of soft-RoCE: what rdma_rxe, the kernel module behind librxe, reads and writes.
//
// rxe has no device: the kernel module itself reads the rings that it shares with the library. So
// "as strictly as the hardware reads it" means here: as the module's requester (drivers/infiniband/
// sw/rxe/rxe_req.c) and responder (rxe_resp.c) read a WQE. Decisions are named where they are made.
#ifndef QPEXAM_HARNESS_HOSTED_RXE_RXE_MODEL_H_
#define QPEXAM_HARNESS_HOSTED_RXE_RXE_MODEL_H_

#include <memory>

#include "harness/hosted/device_model.h"

namespace qpexam::hosted {

std::unique_ptr<DeviceModel> MakeRxeModel();

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_RXE_RXE_MODEL_H_
