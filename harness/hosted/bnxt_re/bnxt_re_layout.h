// The layouts that libbnxt_re, the bnxt_re kernel module and a Broadcom NetXtreme-E share:
// doorbells, WQEs, CQEs, the tables of packet numbers, private command data. Facts of
// <rdma/bnxt_re-abi.h> and providers/bnxt_re; bnxt_re_layout_check.c compares them with those
// headers. All fields are little endian.
#ifndef QPEXAM_HARNESS_HOSTED_BNXT_RE_BNXT_RE_LAYOUT_H_
#define QPEXAM_HARNESS_HOSTED_BNXT_RE_BNXT_RE_LAYOUT_H_

// --- Private command data ---------------------------------------------------------------------

// bnxt_re_uctx_resp
enum {
  kBnxtCtxMaxQp = 4,
  kBnxtCtxPageSize = 8,
  kBnxtCtxCqeSize = 12,
  kBnxtCtxMaxCqDepth = 16,
  kBnxtCtxMask = 24,
  kBnxtCtxReqMask = 0,
  kBnxtCtxChip = 32,
  kBnxtCtxMode = 40,
  kBnxtCtxRespSize = 48,
  kBnxtHasChip = 1 << 0,
  kBnxtHasMode = 1 << 1,
  kBnxtPow2Disabled = 1 << 4,
  kBnxtReqPow2Disabled = 1 << 0,  // of a request
  kBnxtHasMsnTable = 1 << 6,
  kBnxtModeStatic = 0,
  kBnxtModeVariable = 1,
};
// bnxt_re_pd_resp
enum { kBnxtPdNumber = 0, kBnxtPdDpi = 4, kBnxtPdDoorbells = 8, kBnxtPdRespSize = 16 };
// bnxt_re_cq_req, _resp; bnxt_re_resize_cq_req begins alike
enum {
  kBnxtCqRing = 0,
  kBnxtCqNumber = 0,
  kBnxtCqTail = 4,
  kBnxtCqPhase = 8,
  kBnxtCqRespSize = 24,
};
// bnxt_re_qp_req, _resp
enum {
  kBnxtQpSendRing = 0,
  kBnxtQpReceiveRing = 8,
  kBnxtQpHandle = 16,
  kBnxtQpSendSlots = 32,
  kBnxtQpNumber = 0,
  kBnxtQpRespSize = 8,
};
// bnxt_re_srq_req, _resp
enum { kBnxtSrqRing = 0, kBnxtSrqNumber = 0, kBnxtSrqRespSize = 16 };

// What is mapped at offset 0, and where in it CREATE_AH leaves the number of the handle.
enum { kBnxtPage = 4096, kBnxtSharedAvid = 0x10 };

// --- Doorbells --------------------------------------------------------------------------------

// bnxt_re_db_hdr, in the first 8 bytes of the doorbell page
enum {
  kBnxtDbIndex = 0,
  kBnxtDbWhat = 4,
  kBnxtDbIndexMask = 0xffffff,
  kBnxtDbEpochShift = 24,
  kBnxtDbQidMask = 0xfffff,
  kBnxtDbValidShift = 26,
  kBnxtDbTypeShift = 28,
  kBnxtDbTypeMask = 15,
  kBnxtDbSq = 0,
  kBnxtDbRq = 1,
  kBnxtDbSrq = 2,
  kBnxtDbCq = 4,
  kBnxtDbCqArmSolicited = 5,
  kBnxtDbCqArmAll = 6,
};

// --- Work queues ------------------------------------------------------------------------------

enum {
  kBnxtSlot = 16,
  kBnxtHeaderSlots = 2,  // bsqe and send, rdma or atomic; brqe and rqe
  kBnxtStaticSlots = 8,  // of any WQE in static mode
  kBnxtStaticSges = 6,
  kBnxtMaxInline = 96,
  // Slots that stay free behind what was asked for (of WQEs: times their size).
  kBnxtReservedWqes = 128,
};
enum {
  kBnxtOpSend = 0x00,
  kBnxtOpSendImm = 0x01,
  kBnxtOpSendInv = 0x02,
  kBnxtOpWrite = 0x04,
  kBnxtOpWriteImm = 0x05,
  kBnxtOpRead = 0x06,
  kBnxtOpCas = 0x08,
  kBnxtOpFadd = 0x0b,
  kBnxtOpReceive = 0x80,
};
enum {
  kBnxtFlagSignaled = 0x01,
  kBnxtFlagReadFence = 0x02,
  kBnxtFlagFence = 0x04,
  kBnxtFlagSolicited = 0x08,
  kBnxtFlagInline = 0x10,
};
// bnxt_re_bsqe and what follows it
enum {
  kBnxtWqeWord = 0,  // opcode 7:0, flags 15:8, slots 23:16
  kBnxtWqeFlagsShift = 8,
  kBnxtWqeSlotsShift = 16,
  kBnxtWqeKeyOrImm = 4,
  kBnxtWqeLength = 8,
  kBnxtWqeQkey = 12,
  kBnxtWqeAtomicAddr = 8,
  kBnxtUdQpn = 16,
  kBnxtUdAvid = 20,
  kBnxtUdAvidMask = 0xfffff,
  kBnxtRdmaAddr = 16,
  kBnxtRdmaKey = 24,
  kBnxtAtomicSwapAdd = 16,
  kBnxtAtomicCompare = 24,
  kBnxtRecvWrId = 8,
};
// bnxt_re_sge
enum { kBnxtSgeAddr = 0, kBnxtSgeKey = 8, kBnxtSgeLength = 12 };

// What the device looks up when it sends again: bnxt_re_psns_ext by WQE, or bnxt_re_msns by
// message.
enum {
  kBnxtPsnsSize = 16,
  kBnxtPsnsStart = 0,
  kBnxtPsnsNext = 4,
  kBnxtPsnMask = 0xffffff,
  kBnxtMsnsSize = 8,
  kBnxtMsnsNextShift = 24,
  kBnxtMsnsSlotShift = 48,
};

// --- CQE --------------------------------------------------------------------------------------

enum {
  kBnxtCqeSize = 32,
  kBnxtCqeSend = 0x00,
  kBnxtCqeRecvRc = 0x01,
  kBnxtCqeRecvUd = 0x02,
  kBnxtCqeTerminal = 0x0e,
  kBnxtCqeCutOff = 0x0f,
  // bnxt_re_bcqe, behind the part that differs
  kBnxtCqeWord = 24,  // phase 0, type 4:1, status 15:8, flags 31:16
  kBnxtCqeTypeShift = 1,
  kBnxtCqeStatusShift = 8,
  kBnxtCqeFlagsShift = 16,
  kBnxtCqeRecv = 28,  // wr_id 19:0, high bits of the source QP 31:24
  kBnxtCqeRecvWrIdMask = 0xfffff,
  kBnxtCqeSrcQpShift = 24,
  // bnxt_re_req_cqe, bnxt_re_term_cqe
  kBnxtReqHandle = 0,
  kBnxtReqIndex = 8,
  // bnxt_re_rc_cqe, bnxt_re_ud_cqe
  kBnxtRecvLength = 0,
  kBnxtRecvImm = 4,
  kBnxtRecvHandle = 8,
  kBnxtUdSource = 16,
  kBnxtUdSourceQpShift = 48,
  kBnxtUdLengthMask = 0x3fff,
};
enum {
  kBnxtRecvFlagSrq = 0x01,
  kBnxtRecvFlagImm = 0x02,
  kBnxtRecvFlagInv = 0x04,
  kBnxtRecvFlagRdma = 0x08,
  kBnxtRecvFlagRoceV2Ipv6 = 0x30,
};
enum {
  kBnxtReqOk = 0x00,
  kBnxtReqBadResp = 0x01,
  kBnxtReqLocLen = 0x02,
  kBnxtReqLocQpOp = 0x03,
  kBnxtReqProt = 0x04,
  kBnxtReqMemOp = 0x05,
  kBnxtReqRemInval = 0x06,
  kBnxtReqRemAccess = 0x07,
  kBnxtReqRemOp = 0x08,
  kBnxtReqRnr = 0x09,
  kBnxtReqTransport = 0x0a,
  kBnxtReqFlush = 0x0b,
  kBnxtRspOk = 0x00,
  kBnxtRspLocAccess = 0x01,
  kBnxtRspLocLen = 0x02,
  kBnxtRspLocProt = 0x03,
  kBnxtRspLocQpOp = 0x04,
  kBnxtRspMemOp = 0x05,
  kBnxtRspRemInval = 0x06,
  kBnxtRspFlush = 0x07,
};

#endif  // QPEXAM_HARNESS_HOSTED_BNXT_RE_BNXT_RE_LAYOUT_H_
