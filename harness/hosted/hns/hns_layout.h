// The layouts that libhns, the hns_roce kernel module and a HiSilicon HIP09 share: doorbells, WQEs,
// CQEs, private command data. Facts of <rdma/hns-abi.h> and providers/hns/hns_roce_u_hw_v2.h;
// hns_layout_check.c compares them with those headers. All fields are little endian; a field of a
// WQE, CQE or doorbell is named by its highest and lowest bit.
#ifndef QPEXAM_HARNESS_HOSTED_HNS_HNS_LAYOUT_H_
#define QPEXAM_HARNESS_HOSTED_HNS_HNS_LAYOUT_H_

// --- Private command data ---------------------------------------------------------------------

// hns_roce_ib_alloc_ucontext, _resp
enum {
  kHnsCtxCmdConfig = 0,
  kHnsCtxQpTabSize = 0,
  kHnsCtxCqeSize = 4,
  kHnsCtxSrqTabSize = 8,
  kHnsCtxConfig = 16,
  kHnsCtxMaxInline = 20,
  kHnsCtxRespSize = 32,
  kHnsExtendedSge = 1 << 0,
};
enum { kHnsPdNumber = 0, kHnsPdRespSize = 4 };
enum { kHnsAhMac = 0, kHnsAhRespSize = 8 };
// hns_roce_ib_create_cq, _resp
enum {
  kHnsCqBuf = 0,
  kHnsCqDb = 8,
  kHnsCqEntrySize = 16,
  kHnsCqNumber = 0,
  kHnsCqCaps = 8,
  kHnsCqRespSize = 16,
  kHnsCqRecordDb = 1 << 0,
};
// hns_roce_ib_create_srq, _resp
enum {
  kHnsSrqBuf = 0,
  kHnsSrqDb = 8,
  kHnsSrqQueue = 16,
  kHnsSrqNumber = 0,
  kHnsSrqCaps = 4,
  kHnsSrqRespSize = 8,
  kHnsSrqRecordDb = 1 << 0,
};
// hns_roce_ib_create_qp, _resp
enum {
  kHnsQpBuf = 0,
  kHnsQpDb = 8,
  kHnsQpLogSqCount = 16,
  kHnsQpLogSqStride = 17,
  kHnsQpSdb = 24,
  kHnsQpMask = 32,
  kHnsQpCaps = 0,
  kHnsQpDirectKey = 8,
  kHnsQpRespSize = 16,
  kHnsQpRqRecordDb = 1 << 0,
  kHnsQpSqRecordDb = 1 << 1,
  kHnsQpDirectWqe = 1 << 5,
};

// --- Doorbells --------------------------------------------------------------------------------

enum {
  kHnsUarDoorbell = 0x230,
  kHnsDirectPageSize = 65536,
  kHnsDbSq = 0,
  kHnsDbRq = 1,
  kHnsDbSrq = 2,
  kHnsDbCqPointer = 3,
  kHnsDbCqNotify = 4,
};
#define HNS_DB_TAG 23, 0
#define HNS_DB_CMD 27, 24
#define HNS_DB_PI 47, 32
#define HNS_DB_NOTIFY 56, 56

// --- Work queues ------------------------------------------------------------------------------

enum {
  kHnsOpSend = 0,
  kHnsOpSendInv = 1,
  kHnsOpSendImm = 2,
  kHnsOpWrite = 3,
  kHnsOpWriteImm = 4,
  kHnsOpRead = 5,
  kHnsOpCas = 6,
  kHnsOpFadd = 7,
};
enum {
  kHnsWqeSize = 64,
  kHnsPage = 4096,  // each part of a QP's buffer begins on one
  kHnsSgeLength = 0,
  kHnsSgeKey = 4,
  kHnsSgeAddr = 8,
  kHnsSgeSize = 16,
  kHnsSgesInWqe = 2,
  kHnsRcHeaderSize = 32,
  kHnsRcInlineInWqe = 32,
  kHnsUdInlineInWqe = 8,
  kHnsAtomicSwapAdd = 0,
  kHnsAtomicCompare = 8,
};
// Both kinds of send WQE.
#define HNS_WQE_OPCODE 4, 0
#define HNS_WQE_OWNER 7, 7
#define HNS_WQE_CQE 8, 8
#define HNS_WQE_FENCE 9, 9
#define HNS_WQE_SO 10, 10
#define HNS_WQE_SE 11, 11
#define HNS_WQE_INLINE 12, 12
#define HNS_WQE_INDEX 30, 15
#define HNS_WQE_FLAG 31, 31
#define HNS_WQE_MSG_LEN 63, 32
#define HNS_WQE_IMM 95, 64
#define HNS_WQE_SGE_NUM 127, 120
#define HNS_WQE_START_SGE 151, 128
#define HNS_WQE_INLINE_TYPE 159, 159
// RC
#define HNS_RC_XRC_SRQN 119, 96
#define HNS_RC_RKEY 191, 160
#define HNS_RC_VA_L 223, 192
#define HNS_RC_VA_H 255, 224
// UD
#define HNS_UD_QKEY 223, 192
#define HNS_UD_DQPN 247, 224
#define HNS_UD_INLINE_15_0 63, 48
#define HNS_UD_INLINE_23_16 127, 120
#define HNS_UD_INLINE_47_24 151, 128
#define HNS_UD_INLINE_63_48 175, 160
enum { kHnsUdMac = 40 };

// --- CQE --------------------------------------------------------------------------------------

enum { kHnsCqeSize = 64 };
#define HNS_CQE_OPCODE 4, 0
#define HNS_CQE_S_R 6, 6
#define HNS_CQE_OWNER 7, 7
#define HNS_CQE_STATUS 15, 8
#define HNS_CQE_WQE_IDX 31, 16
#define HNS_CQE_IMM 63, 32
#define HNS_CQE_XRC_SRQN 87, 64
#define HNS_CQE_QPN 119, 96
#define HNS_CQE_SUB_STATUS 127, 120
#define HNS_CQE_BYTES 159, 128
#define HNS_CQE_PORT_TYPE 209, 208
#define HNS_CQE_RMT_QPN 247, 224
#define HNS_CQE_GRH 254, 254
enum {
  kHnsRecvWriteImm = 0,
  kHnsRecvSend = 1,
  kHnsRecvSendImm = 2,
  kHnsRecvSendInv = 3,
  kHnsPortRoceV2Ipv6 = 2,
};

#endif  // QPEXAM_HARNESS_HOSTED_HNS_HNS_LAYOUT_H_
