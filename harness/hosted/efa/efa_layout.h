// The layouts that libefa, the efa kernel module and an Elastic Fabric Adapter share: private
// command data, WQEs, CQEs, the CQ doorbell. Facts of <rdma/efa-abi.h> and providers/efa/
// efa_io_defs.h; efa_layout_check.c compares them with those headers. All fields are little endian.
#ifndef QPEXAM_HARNESS_HOSTED_EFA_EFA_LAYOUT_H_
#define QPEXAM_HARNESS_HOSTED_EFA_EFA_LAYOUT_H_

// --- Private command data ---------------------------------------------------------------------

// efa_ibv_alloc_ucontext_cmd, _resp
enum {
  kEfaCtxCmdCaps = 0,
  kEfaCtxSupportsTxBatch = 1 << 0,
  kEfaCtxUdataMask = 4,
  kEfaCtxSubCqs = 8,
  kEfaCtxInlineSize = 10,
  kEfaCtxMaxLlqSize = 12,
  kEfaCtxMaxTxBatch = 16,
  kEfaCtxMinSqWr = 18,
  kEfaCtxInlineSizeEx = 20,  // from rdma-core 62 on
  kEfaCtxRespSize = 24,
};
enum { kEfaUdataQueryDevice = 1 << 0, kEfaUdataCreateAh = 1 << 1 };

// efa_ibv_ex_query_device_resp
enum {
  kEfaDevMaxSqWr = 4,
  kEfaDevMaxRqWr = 8,
  kEfaDevMaxSqSge = 12,
  kEfaDevMaxRqSge = 14,
  kEfaDevMaxRdmaSize = 16,
  kEfaDevCaps = 20,
  kEfaDevRespSize = 24,
};
enum {
  kEfaCapRdmaRead = 1 << 0,
  kEfaCapRnrRetry = 1 << 1,
  kEfaCapCqNotifications = 1 << 2,
  kEfaCapRdmaWrite = 1 << 5,
};

// efa_ibv_alloc_pd_resp, efa_ibv_create_ah_resp
enum { kEfaPdNumber = 4, kEfaAhNumber = 4, kEfaShortRespSize = 8 };

// efa_ibv_create_cq, _resp
enum {
  kEfaCqCmdEntrySize = 4,
  kEfaCqCmdSubCqs = 8,
  kEfaCqCmdFlags = 10,
  kEfaCqCmdSize = 16,
  kEfaCqFlagChannel = 1 << 0,
  kEfaCqRespMask = 0,
  kEfaCqRespKey = 8,
  kEfaCqRespSize = 16,  // of the queue
  kEfaCqRespIndex = 24,
  kEfaCqRespDbOffset = 28,
  kEfaCqRespDbKey = 32,
  kEfaCqRespBytes = 40,
  kEfaCqHasDb = 1 << 0,
};

// efa_ibv_create_qp, _resp
enum {
  kEfaQpCmdRqSize = 4,
  kEfaQpCmdSqSize = 8,
  kEfaQpCmdDriverType = 12,
  kEfaQpCmdFlags = 16,
  kEfaQpCmdSize = 24,
  kEfaQpRqDbOffset = 4,
  kEfaQpSqDbOffset = 8,
  kEfaQpLlqOffset = 12,
  kEfaQpRqKey = 16,
  kEfaQpRqSize = 24,
  kEfaQpRqDbKey = 32,
  kEfaQpSqDbKey = 40,
  kEfaQpLlqKey = 48,
  kEfaQpSendSubCq = 56,
  kEfaQpRecvSubCq = 58,
  kEfaQpRespSize = 64,
};

// The one native method: which interconnects a region is reached by.
enum {
  kEfaMethodMrQuery = 1 << 12,
  kEfaAttrMrHandle = 1 << 12,
  kEfaAttrMrValidity,
  kEfaAttrMrRecvIc,
  kEfaAttrMrReadIc,
  kEfaAttrMrRdmaRecvIc,
  kEfaMrHasRecvIc = 1 << 0,
};

// --- Send WQE: 64 or 128 bytes ------------------------------------------------------------------

enum {
  kEfaTxReqId = 0,
  kEfaTxCtrl1 = 2,
  kEfaTxCtrl2 = 3,
  kEfaTxDestQp = 4,
  kEfaTxLength = 6,
  kEfaTxImmediate = 8,
  kEfaTxAh = 12,
  kEfaTxReserved = 14,  // 2 bytes
  kEfaTxQkey = 16,
  kEfaTxReserved2 = 20,  // to the end of the meta descriptor
  kEfaTxMetaSize = 32,
  kEfaTxWqeSize = 64,
  kEfaTxWqe128Size = 128,
};
enum {
  kEfaTxOpMask = 0x0f,
  kEfaTxHasImm = 1 << 4,
  kEfaTxInline = 1 << 5,
  kEfaTxMetaExtension = 1 << 6,
  kEfaTxMetaDesc = 1 << 7,
  kEfaTxPhase = 1 << 0,
  kEfaTxFirst = 1 << 2,
  kEfaTxLast = 1 << 3,
  kEfaTxCompReq = 1 << 4,
  kEfaTxCtrl2Reserved = 0xe2,
};
enum { kEfaOpSend = 0, kEfaOpRead = 1, kEfaOpWrite = 2 };

// Buffer descriptors, 16 bytes: local ones, and the remote one that an RDMA request begins with.
enum {
  kEfaBufLength = 0,
  kEfaBufKey = 4,
  kEfaBufAddr = 8,
  kEfaBufSize = 16,
  kEfaTxMaxBufs = 2,
  kEfaTxMaxRdmaBufs = 1,
  kEfaInlineMax = 32,
  kEfaInlineMax128 = 80,
};

// --- Receive WQE: descriptors of 16 bytes -------------------------------------------------------

enum {
  kEfaRxAddr = 0,
  kEfaRxReqId = 8,
  kEfaRxLength = 10,
  kEfaRxKeyCtrl = 12,
  kEfaRxSize = 16,
  kEfaRxReservedShift = 24,
  kEfaRxFirst = 1 << 30,
};
#define EFA_LAYOUT_RX_LAST 0x80000000u

// --- CQE: 16 bytes, 32 with what a receive may add ----------------------------------------------

enum {
  kEfaCqeReqId = 0,
  kEfaCqeStatus = 2,
  kEfaCqeFlags = 3,
  kEfaCqeQpn = 4,
  kEfaCqeLength = 6,
  kEfaCqeAh = 8,
  kEfaCqeSrcQpn = 10,
  kEfaCqeImm = 12,
  kEfaCqeLengthHigh = 16,
  kEfaCqeSize = 16,
  kEfaCqeExSize = 32,
};
enum {
  kEfaCqePhase = 1 << 0,
  kEfaCqeQueueShift = 1,
  kEfaCqeHasImm = 1 << 3,
  kEfaCqeOpShift = 4,
  kEfaSendQueue = 1,
  kEfaRecvQueue = 2,
};
enum {
  kEfaStatusOk = 0,
  kEfaStatusFlushed = 1,
  kEfaStatusQpInternal = 2,
  kEfaStatusUnsupportedOp = 3,
  kEfaStatusInvalidLkey = 5,
  kEfaStatusBadLength = 6,
  kEfaStatusRemoteBadAddress = 7,
  kEfaStatusRemoteAbort = 8,
  kEfaStatusRemoteBadQpn = 9,
  kEfaStatusRemoteRnr = 10,
  kEfaStatusRemoteBadLength = 11,
  kEfaStatusRemoteBadStatus = 12,
  kEfaStatusUnresponsive = 13,
  kEfaStatusUnknownPeer = 14,
  kEfaStatusNone = 0x3f,  // no status: IBV_WC_GENERAL_ERR
};

// CQ doorbell: consumer index in bits 15:0.
#define EFA_LAYOUT_CQ_ARM 0x80000000u

#endif  // QPEXAM_HARNESS_HOSTED_EFA_EFA_LAYOUT_H_
