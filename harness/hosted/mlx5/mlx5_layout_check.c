// Compares mlx5_layout.h with the headers that libmlx5 is built with.
#include <assert.h>
#include <stddef.h>

#include "harness/hosted/mlx5/mlx5_layout.h"
#include "mlx5dv.h"
#include "wqe.h"

#define AT(type, member, offset) static_assert(offsetof(struct type, member) == offset, #member)
#define SAME(a, b) static_assert((unsigned)(a) == (unsigned)(b), #a)

AT(mlx5_wqe_ctrl_seg, opmod_idx_opcode, kMlx5CtrlOpmodIdxOpcode);
AT(mlx5_wqe_ctrl_seg, qpn_ds, kMlx5CtrlQpnDs);
AT(mlx5_wqe_ctrl_seg, signature, kMlx5CtrlSignature);
AT(mlx5_wqe_ctrl_seg, fm_ce_se, kMlx5CtrlFmCeSe);
AT(mlx5_wqe_ctrl_seg, imm, kMlx5CtrlImm);
static_assert(sizeof(struct mlx5_wqe_ctrl_seg) == kMlx5CtrlSize, "ctrl");
AT(mlx5_wqe_xrc_seg, xrc_srqn, kMlx5XrcSrqn);
static_assert(sizeof(struct mlx5_wqe_xrc_seg) == kMlx5XrcSize, "xrc");
AT(mlx5_wqe_eth_seg, rsvd0, kMlx5EthReserved0);
AT(mlx5_wqe_eth_seg, cs_flags, kMlx5EthChecksums);
AT(mlx5_wqe_eth_seg, rsvd1, kMlx5EthReserved1);
AT(mlx5_wqe_eth_seg, mss, kMlx5EthMss);
AT(mlx5_wqe_eth_seg, rsvd2, kMlx5EthReserved2);
AT(mlx5_wqe_eth_seg, inline_hdr_sz, kMlx5EthHeaderLength);
AT(mlx5_wqe_eth_seg, inline_hdr_start, kMlx5EthHeader);
AT(mlx5_wqe_eth_seg, inline_hdr, kMlx5EthSize);
AT(mlx5_wqe_raddr_seg, raddr, kMlx5RaddrAddr);
AT(mlx5_wqe_raddr_seg, rkey, kMlx5RaddrRkey);
static_assert(sizeof(struct mlx5_wqe_raddr_seg) == kMlx5RaddrSize, "raddr");
AT(mlx5_wqe_atomic_seg, swap_add, kMlx5AtomicSwapAdd);
AT(mlx5_wqe_atomic_seg, compare, kMlx5AtomicCompare);
AT(mlx5_wqe_data_seg, byte_count, kMlx5DataByteCount);
AT(mlx5_wqe_data_seg, lkey, kMlx5DataLkey);
AT(mlx5_wqe_data_seg, addr, kMlx5DataAddr);
AT(mlx5_wqe_av, dqp_dct, kMlx5AvDqpDct);
AT(mlx5_wqe_av, rmac, kMlx5AvRmac);
static_assert(sizeof(struct mlx5_wqe_av) == kMlx5AvSize, "av");
static_assert(sizeof(struct mlx5_wqe_umr_ctrl_seg) == kMlx5UmrSize, "umr");
AT(mlx5_wqe_mkey_context_seg, free, kMlx5MkeyFree);
AT(mlx5_wqe_mkey_context_seg, access_flags, kMlx5MkeyAccess);
AT(mlx5_wqe_mkey_context_seg, qpn_mkey, kMlx5MkeyQpnMkey);
AT(mlx5_wqe_mkey_context_seg, start_addr, kMlx5MkeyStart);
AT(mlx5_wqe_mkey_context_seg, len, kMlx5MkeyLength);
static_assert(sizeof(struct mlx5_wqe_mkey_context_seg) == kMlx5MkeySize, "mkey");
AT(mlx5_wqe_umr_klm_seg, mkey, kMlx5KlmMkey);
AT(mlx5_wqe_umr_klm_seg, address, kMlx5KlmAddress);
AT(mlx5_wqe_srq_next_seg, next_wqe_index, kMlx5SrqNextIndex);
static_assert(sizeof(struct mlx5_wqe_srq_next_seg) == kMlx5SrqNextSize, "srq");
AT(mlx5_cqe64, slid, kMlx5CqeSlid);
AT(mlx5_cqe64, flags_rqpn, kMlx5CqeFlagsRqpn);
AT(mlx5_cqe64, hds_ip_ext, kMlx5CqeChecksums);
AT(mlx5_cqe64, l4_hdr_type_etc, kMlx5CqeLayers);
AT(mlx5_cqe64, srqn_uidx, kMlx5CqeSrqnUidx);
AT(mlx5_cqe64, imm_inval_pkey, kMlx5CqeImmInvalPkey);
AT(mlx5_cqe64, byte_cnt, kMlx5CqeByteCnt);
AT(mlx5_cqe64, timestamp, kMlx5CqeTimestamp);
AT(mlx5_cqe64, sop_drop_qpn, kMlx5CqeSopDropQpn);
AT(mlx5_cqe64, wqe_counter, kMlx5CqeWqeCounter);
AT(mlx5_cqe64, op_own, kMlx5CqeOpOwn);
AT(mlx5_err_cqe, vendor_err_synd, kMlx5CqeVendorSyndrome);
AT(mlx5_err_cqe, syndrome, kMlx5CqeSyndrome);
AT(mlx5_err_cqe, s_wqe_opcode_qpn, kMlx5CqeSopDropQpn);
static_assert(sizeof(struct mlx5_cqe64) == kMlx5CqeSize, "cqe");

SAME(MLX5_RCV_DBR, kMlx5RcvDbr);
SAME(MLX5_SND_DBR, kMlx5SndDbr);
SAME(MLX5_CQ_DOORBELL, kMlx5UarCqDoorbell);
SAME(MLX5_OPCODE_SEND_INVAL, kMlx5OpSendInv);
SAME(MLX5_OPCODE_RDMA_WRITE, kMlx5OpWrite);
SAME(MLX5_OPCODE_RDMA_WRITE_IMM, kMlx5OpWriteImm);
SAME(MLX5_OPCODE_SEND, kMlx5OpSend);
SAME(MLX5_OPCODE_TSO, kMlx5OpTso);
SAME(MLX5_ETH_WQE_L3_CSUM, kMlx5EthL3Checksum);
SAME(MLX5_ETH_WQE_L4_CSUM, kMlx5EthL4Checksum);
SAME(MLX5_CQE_L3_OK, kMlx5CqeL3Good);
SAME(MLX5_CQE_L4_OK, kMlx5CqeL4Good);
SAME(MLX5_CQE_L3_HDR_TYPE_IPV4 << 2, kMlx5CqeIpv4);
SAME(MLX5_OPCODE_SEND_IMM, kMlx5OpSendImm);
SAME(MLX5_OPCODE_RDMA_READ, kMlx5OpRead);
SAME(MLX5_OPCODE_ATOMIC_CS, kMlx5OpAtomicCs);
SAME(MLX5_OPCODE_ATOMIC_FA, kMlx5OpAtomicFa);
SAME(MLX5_OPCODE_UMR, kMlx5OpUmr);
SAME(MLX5_WQE_CTRL_CQ_UPDATE, kMlx5CqUpdate);
SAME(MLX5_WQE_CTRL_SOLICITED, kMlx5Solicited);
SAME(MLX5_WQE_CTRL_FENCE, kMlx5FenceFence << kMlx5FenceShift);
SAME(MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE, kMlx5FenceSmall << kMlx5FenceShift);
SAME(MLX5_INLINE_SEG, MLX5_LAYOUT_INLINE_SEG);
SAME(MLX5_INVALID_LKEY, kMlx5InvalidLkey);
SAME(MLX5_EXTENDED_UD_AV, MLX5_LAYOUT_EXTENDED_UD_AV);
SAME(MLX5_WQE_MKEY_CONTEXT_FREE, kMlx5MkeyIsFree);
SAME(MLX5_CQE_RESIZE_CQ, kMlx5CqeResizeCq);
SAME(MLX5_CQE_REQ_ERR, kMlx5CqeReqErr);
SAME(MLX5_CQE_RESP_ERR, kMlx5CqeRespErr);
SAME(MLX5_CQE_RESP_SEND_INV, kMlx5CqeRespSendInv);
