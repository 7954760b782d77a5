// The device model of a ConnectX under libmlx5: RC, UC, UD, XRC and RAW_PACKET, SRQ, windows by
// UMR.
//
// Documented decisions, where hardware has a freedom or refuses:
//   - CQEs are never compressed, data is never scattered into them, WQEs carry no signature: a
//     device need not do any of it. MLX5_QP_FLAG_SIGNATURE and CQE compression are refused.
//   - The device context is opened without DEVX; libmlx5 asks again without it.
//   - A data segment of 0 bytes means 2 GiB, as on hardware.
//   - A WQE whose index field is not its place, or whose segments end elsewhere than its DS field
//     says, is malformed: IBV_WC_LOC_QP_OP_ERR.
//   - Arming a CQ is for the next completion.
#ifndef QPEXAM_HARNESS_HOSTED_MLX5_MLX5_MODEL_H_
#define QPEXAM_HARNESS_HOSTED_MLX5_MLX5_MODEL_H_

#include <memory>

#include "harness/hosted/device_model.h"

namespace qpexam::hosted {

std::unique_ptr<DeviceModel> MakeMlx5Model();

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_MLX5_MLX5_MODEL_H_
