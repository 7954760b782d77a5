// Compares rxe_layout.h with the header that librxe is built with. C: see rxe_layout.h.
#include <assert.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <stddef.h>

#include "harness/hosted/rxe/rxe_layout.h"

#define AT(type, member, offset) static_assert(offsetof(struct type, member) == offset, #member)

AT(rxe_queue_buf, log2_elem_size, kRxeQueueLog2ElemSize);
AT(rxe_queue_buf, index_mask, kRxeQueueIndexMask);
AT(rxe_queue_buf, producer_index, kRxeQueueProducer);
AT(rxe_queue_buf, consumer_index, kRxeQueueConsumer);
AT(rxe_queue_buf, data, kRxeQueueData);

AT(rxe_send_wqe, wr.wr_id, kRxeWrId);
AT(rxe_send_wqe, wr.reserved, kRxeReserved);
AT(rxe_send_wqe, wr.opcode, kRxeOpcode);
AT(rxe_send_wqe, wr.send_flags, kRxeSendFlags);
AT(rxe_send_wqe, wr.ex.imm_data, kRxeExtra);
AT(rxe_send_wqe, wr.ex.invalidate_rkey, kRxeExtra);
AT(rxe_send_wqe, wr.wr.rdma.remote_addr, kRxeRdmaRemoteAddr);
AT(rxe_send_wqe, wr.wr.rdma.rkey, kRxeRdmaRkey);
AT(rxe_send_wqe, wr.wr.atomic.remote_addr, kRxeAtomicRemoteAddr);
AT(rxe_send_wqe, wr.wr.atomic.compare_add, kRxeAtomicCompareAdd);
AT(rxe_send_wqe, wr.wr.atomic.swap, kRxeAtomicSwap);
AT(rxe_send_wqe, wr.wr.atomic.rkey, kRxeAtomicRkey);
AT(rxe_send_wqe, wr.wr.ud.remote_qpn, kRxeUdRemoteQpn);
AT(rxe_send_wqe, wr.wr.ud.remote_qkey, kRxeUdRemoteQkey);
AT(rxe_send_wqe, wr.wr.ud.ah_num, kRxeUdAhNum);
AT(rxe_send_wqe, wr.wr.ud.av.port_num, kRxeUdAvPort);
AT(rxe_send_wqe, wr.wr.ud.av.network_type, kRxeUdAvNetwork);
AT(rxe_send_wqe, wr.wr.ud.av.dmac, kRxeUdAvMac);
AT(rxe_send_wqe, wr.wr.ud.av.grh.dgid, kRxeUdAvGid);
AT(rxe_send_wqe, wr.wr.ud.av.grh.flow_label, kRxeUdAvFlowLabel);
AT(rxe_send_wqe, wr.wr.ud.av.grh.sgid_index, kRxeUdAvGidIndex);
AT(rxe_send_wqe, wr.wr.ud.av.grh.hop_limit, kRxeUdAvHopLimit);
AT(rxe_send_wqe, wr.wr.ud.av.grh.traffic_class, kRxeUdAvTrafficClass);
AT(rxe_send_wqe, wr.wr.ud.av.sgid_addr, kRxeUdAvSource);
AT(rxe_send_wqe, wr.wr.ud.av.dgid_addr, kRxeUdAvTarget);
AT(rxe_send_wqe, wr.wr.mw.addr, kRxeMwAddr);
AT(rxe_send_wqe, wr.wr.mw.length, kRxeMwLength);
AT(rxe_send_wqe, wr.wr.mw.mr_lkey, kRxeMwMrLkey);
AT(rxe_send_wqe, wr.wr.mw.mw_rkey, kRxeMwMwRkey);
AT(rxe_send_wqe, wr.wr.mw.rkey, kRxeMwRkey);
AT(rxe_send_wqe, wr.wr.mw.access, kRxeMwAccess);
AT(rxe_send_wqe, status, kRxeStatus);
AT(rxe_send_wqe, state, kRxeState);
AT(rxe_send_wqe, iova, kRxeIova);
AT(rxe_send_wqe, has_rd_atomic, kRxeHasRdAtomic);
AT(rxe_send_wqe, dma.length, kRxeDmaLength);
AT(rxe_send_wqe, dma.resid, kRxeDmaResid);
AT(rxe_send_wqe, dma.cur_sge, kRxeDmaCurSge);
AT(rxe_send_wqe, dma.num_sge, kRxeDmaNumSge);
AT(rxe_send_wqe, dma.sge_offset, kRxeDmaSgeOffset);
AT(rxe_send_wqe, dma.sge, kRxeDmaData);
AT(rxe_send_wqe, dma.inline_data, kRxeDmaData);
static_assert(sizeof(struct rxe_send_wqe) == kRxeSendWqeSize, "rxe_send_wqe");

AT(rxe_recv_wqe, wr_id, kRxeRecvWrId);
AT(rxe_recv_wqe, dma.length, kRxeRecvDmaLength);
AT(rxe_recv_wqe, dma.resid, kRxeRecvDmaResid);
AT(rxe_recv_wqe, dma.cur_sge, kRxeRecvDmaCurSge);
AT(rxe_recv_wqe, dma.num_sge, kRxeRecvDmaNumSge);
AT(rxe_recv_wqe, dma.sge_offset, kRxeRecvDmaSgeOffset);
AT(rxe_recv_wqe, dma.sge, kRxeRecvDmaSge);
static_assert(sizeof(struct rxe_recv_wqe) == kRxeRecvWqeSize, "rxe_recv_wqe");

static_assert(sizeof(struct rxe_sge) == kRxeSgeSize, "rxe_sge");
static_assert(sizeof(struct ib_uverbs_wc) <= kRxeCqeSize, "ib_uverbs_wc");
static_assert(sizeof(struct mminfo) == sizeof(struct RxeMapInfo), "mminfo");
static_assert(sizeof(struct rxe_create_qp_resp) == 2 * sizeof(struct RxeMapInfo), "qp resp");
static_assert(offsetof(struct rxe_create_srq_resp, srq_num) == sizeof(struct RxeMapInfo), "srq");
