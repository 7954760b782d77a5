// Compares efa_layout.h with the headers that libefa is built with.
#include <assert.h>
#include <rdma/efa-abi.h>
#include <stddef.h>
#include <stdint.h>

#define BIT(n) (1u << (n))
#define GENMASK(h, l) ((~0u << (l)) & (~0u >> (31 - (h))))
#include "efa_io_defs.h"
#include "efa_io_regs_defs.h"
#include "harness/hosted/efa/efa_layout.h"

#define AT(type, member, offset) static_assert(offsetof(struct type, member) == offset, #member)
#define SAME(a, b) static_assert((unsigned)(a) == (unsigned)(b), #a)

AT(efa_ibv_alloc_ucontext_resp, cmds_supp_udata_mask, kEfaCtxUdataMask);
AT(efa_ibv_alloc_ucontext_resp, sub_cqs_per_cq, kEfaCtxSubCqs);
AT(efa_ibv_alloc_ucontext_resp, inline_buf_size, kEfaCtxInlineSize);
AT(efa_ibv_alloc_ucontext_resp, max_llq_size, kEfaCtxMaxLlqSize);
AT(efa_ibv_alloc_ucontext_resp, max_tx_batch, kEfaCtxMaxTxBatch);
AT(efa_ibv_alloc_ucontext_resp, min_sq_wr, kEfaCtxMinSqWr);
SAME(EFA_USER_CMDS_SUPP_UDATA_QUERY_DEVICE, kEfaUdataQueryDevice);
SAME(EFA_USER_CMDS_SUPP_UDATA_CREATE_AH, kEfaUdataCreateAh);

AT(efa_ibv_ex_query_device_resp, max_sq_wr, kEfaDevMaxSqWr);
AT(efa_ibv_ex_query_device_resp, max_rq_wr, kEfaDevMaxRqWr);
AT(efa_ibv_ex_query_device_resp, max_sq_sge, kEfaDevMaxSqSge);
AT(efa_ibv_ex_query_device_resp, max_rq_sge, kEfaDevMaxRqSge);
AT(efa_ibv_ex_query_device_resp, max_rdma_size, kEfaDevMaxRdmaSize);
AT(efa_ibv_ex_query_device_resp, device_caps, kEfaDevCaps);
SAME(EFA_QUERY_DEVICE_CAPS_RDMA_READ, kEfaCapRdmaRead);
SAME(EFA_QUERY_DEVICE_CAPS_RNR_RETRY, kEfaCapRnrRetry);

AT(efa_ibv_alloc_pd_resp, pdn, kEfaPdNumber);
AT(efa_ibv_create_ah_resp, efa_address_handle, kEfaAhNumber);
AT(efa_ibv_create_cq, cq_entry_size, kEfaCqCmdEntrySize);
AT(efa_ibv_create_cq, num_sub_cqs, kEfaCqCmdSubCqs);
AT(efa_ibv_create_cq_resp, q_mmap_key, kEfaCqRespKey);
AT(efa_ibv_create_cq_resp, q_mmap_size, kEfaCqRespSize);
AT(efa_ibv_create_cq_resp, cq_idx, kEfaCqRespIndex);
AT(efa_ibv_create_qp, rq_ring_size, kEfaQpCmdRqSize);
AT(efa_ibv_create_qp, sq_ring_size, kEfaQpCmdSqSize);
AT(efa_ibv_create_qp, driver_qp_type, kEfaQpCmdDriverType);
AT(efa_ibv_create_qp_resp, rq_db_offset, kEfaQpRqDbOffset);
AT(efa_ibv_create_qp_resp, sq_db_offset, kEfaQpSqDbOffset);
AT(efa_ibv_create_qp_resp, llq_desc_offset, kEfaQpLlqOffset);
AT(efa_ibv_create_qp_resp, rq_mmap_key, kEfaQpRqKey);
AT(efa_ibv_create_qp_resp, rq_mmap_size, kEfaQpRqSize);
AT(efa_ibv_create_qp_resp, rq_db_mmap_key, kEfaQpRqDbKey);
AT(efa_ibv_create_qp_resp, sq_db_mmap_key, kEfaQpSqDbKey);
AT(efa_ibv_create_qp_resp, llq_desc_mmap_key, kEfaQpLlqKey);
AT(efa_ibv_create_qp_resp, send_sub_cq_idx, kEfaQpSendSubCq);
AT(efa_ibv_create_qp_resp, recv_sub_cq_idx, kEfaQpRecvSubCq);
static_assert(sizeof(struct efa_ibv_create_qp_resp) == kEfaQpRespSize, "qp");

AT(efa_io_tx_meta_desc, req_id, kEfaTxReqId);
AT(efa_io_tx_meta_desc, ctrl1, kEfaTxCtrl1);
AT(efa_io_tx_meta_desc, ctrl2, kEfaTxCtrl2);
AT(efa_io_tx_meta_desc, dest_qp_num, kEfaTxDestQp);
AT(efa_io_tx_meta_desc, length, kEfaTxLength);
AT(efa_io_tx_meta_desc, immediate_data, kEfaTxImmediate);
AT(efa_io_tx_meta_desc, ah, kEfaTxAh);
AT(efa_io_tx_meta_desc, qkey, kEfaTxQkey);
AT(efa_io_tx_meta_desc, reserved2, kEfaTxReserved2);
static_assert(sizeof(struct efa_io_tx_meta_desc) == kEfaTxMetaSize, "meta");
static_assert(sizeof(struct efa_io_tx_wqe) == kEfaTxWqeSize, "wqe");
SAME(EFA_IO_TX_META_DESC_HAS_IMM_MASK, kEfaTxHasImm);
SAME(EFA_IO_TX_META_DESC_INLINE_MSG_MASK, kEfaTxInline);
SAME(EFA_IO_TX_META_DESC_META_EXTENSION_MASK, kEfaTxMetaExtension);
SAME(EFA_IO_TX_META_DESC_META_DESC_MASK, kEfaTxMetaDesc);
SAME(EFA_IO_TX_META_DESC_PHASE_MASK, kEfaTxPhase);
SAME(EFA_IO_TX_META_DESC_FIRST_MASK, kEfaTxFirst);
SAME(EFA_IO_TX_META_DESC_LAST_MASK, kEfaTxLast);
SAME(EFA_IO_TX_META_DESC_COMP_REQ_MASK, kEfaTxCompReq);
AT(efa_io_tx_buf_desc, length, kEfaBufLength);
AT(efa_io_tx_buf_desc, lkey, kEfaBufKey);
AT(efa_io_tx_buf_desc, buf_addr_lo, kEfaBufAddr);
AT(efa_io_remote_mem_addr, rkey, kEfaBufKey);
AT(efa_io_remote_mem_addr, buf_addr_lo, kEfaBufAddr);
SAME(EFA_IO_TX_DESC_INLINE_MAX_SIZE, kEfaInlineMax);

AT(efa_io_rx_desc, buf_addr_lo, kEfaRxAddr);
AT(efa_io_rx_desc, req_id, kEfaRxReqId);
AT(efa_io_rx_desc, length, kEfaRxLength);
AT(efa_io_rx_desc, lkey_ctrl, kEfaRxKeyCtrl);
SAME(EFA_IO_RX_DESC_FIRST_MASK, kEfaRxFirst);
SAME(EFA_IO_RX_DESC_LAST_MASK, EFA_LAYOUT_RX_LAST);

AT(efa_io_cdesc_common, req_id, kEfaCqeReqId);
AT(efa_io_cdesc_common, status, kEfaCqeStatus);
AT(efa_io_cdesc_common, flags, kEfaCqeFlags);
AT(efa_io_cdesc_common, qp_num, kEfaCqeQpn);
AT(efa_io_rx_cdesc, length, kEfaCqeLength);
AT(efa_io_rx_cdesc, ah, kEfaCqeAh);
AT(efa_io_rx_cdesc, src_qp_num, kEfaCqeSrcQpn);
AT(efa_io_rx_cdesc, imm, kEfaCqeImm);
SAME(EFA_IO_CDESC_COMMON_PHASE_MASK, kEfaCqePhase);
SAME(EFA_IO_CDESC_COMMON_HAS_IMM_MASK, kEfaCqeHasImm);
SAME(EFA_IO_SEND_QUEUE, kEfaSendQueue);
SAME(EFA_IO_RECV_QUEUE, kEfaRecvQueue);
SAME(EFA_IO_REGS_CQ_DB_ARM_MASK, EFA_LAYOUT_CQ_ARM);
