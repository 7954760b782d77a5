// Compares bnxt_re_layout.h with the headers that libbnxt_re is built with.
#include <assert.h>
#include <stddef.h>

#include "bnxt_re-abi.h"
#include "harness/hosted/bnxt_re/bnxt_re_layout.h"

#define AT(type, member, offset) static_assert(offsetof(struct type, member) == (offset), #member)
#define SIZE(type, size) static_assert(sizeof(struct type) == (size), #type)
#define SAME(a, b) static_assert((unsigned)(a) == (unsigned)(b), #a)

AT(bnxt_re_uctx_resp, max_qp, kBnxtCtxMaxQp);
AT(bnxt_re_uctx_resp, pg_size, kBnxtCtxPageSize);
AT(bnxt_re_uctx_resp, cqe_sz, kBnxtCtxCqeSize);
AT(bnxt_re_uctx_resp, max_cqd, kBnxtCtxMaxCqDepth);
AT(bnxt_re_uctx_resp, comp_mask, kBnxtCtxMask);
AT(bnxt_re_uctx_resp, chip_id0, kBnxtCtxChip);
AT(bnxt_re_uctx_resp, mode, kBnxtCtxMode);
SIZE(bnxt_re_uctx_resp, kBnxtCtxRespSize);
SAME(BNXT_RE_UCNTX_CMASK_HAVE_CCTX, kBnxtHasChip);
SAME(BNXT_RE_UCNTX_CMASK_HAVE_MODE, kBnxtHasMode);
SAME(BNXT_RE_UCNTX_CMASK_POW2_DISABLED, kBnxtPow2Disabled);
SAME(BNXT_RE_UCNTX_CMASK_MSN_TABLE_ENABLED, kBnxtHasMsnTable);
SAME(BNXT_RE_WQE_MODE_VARIABLE, kBnxtModeVariable);
AT(bnxt_re_pd_resp, dpi, kBnxtPdDpi);
AT(bnxt_re_pd_resp, dbr, kBnxtPdDoorbells);
AT(bnxt_re_cq_req, cq_va, kBnxtCqRing);
AT(bnxt_re_resize_cq_req, cq_va, kBnxtCqRing);
AT(bnxt_re_cq_resp, tail, kBnxtCqTail);
AT(bnxt_re_cq_resp, phase, kBnxtCqPhase);
SIZE(bnxt_re_cq_resp, kBnxtCqRespSize);
AT(bnxt_re_qp_req, qprva, kBnxtQpReceiveRing);
AT(bnxt_re_qp_req, qp_handle, kBnxtQpHandle);
AT(bnxt_re_qp_req, sq_slots, kBnxtQpSendSlots);
SIZE(bnxt_re_qp_resp, kBnxtQpRespSize);
AT(bnxt_re_srq_req, srqva, kBnxtSrqRing);
SIZE(bnxt_re_srq_resp, kBnxtSrqRespSize);
SAME(BNXT_RE_AVID_OFFT, kBnxtSharedAvid);

AT(bnxt_re_db_hdr, typ_qid, kBnxtDbWhat);
SAME(BNXT_RE_DB_INDX_MASK, kBnxtDbIndexMask);
SAME(BNXT_RE_DB_QID_MASK, kBnxtDbQidMask);
SAME(BNXT_RE_DB_EPOCH_SHIFT, kBnxtDbEpochShift);
SAME(BNXT_RE_DB_VALID_SHIFT, kBnxtDbValidShift);
SAME(BNXT_RE_DB_TYP_SHIFT, kBnxtDbTypeShift);
SAME(BNXT_RE_QUE_TYPE_SRQ, kBnxtDbSrq);
SAME(BNXT_RE_QUE_TYPE_CQ, kBnxtDbCq);
SAME(BNXT_RE_QUE_TYPE_CQ_ARMSE, kBnxtDbCqArmSolicited);
SAME(BNXT_RE_QUE_TYPE_CQ_ARMALL, kBnxtDbCqArmAll);

SIZE(bnxt_re_bsqe, kBnxtSlot);
SIZE(bnxt_re_sge, kBnxtSlot);
AT(bnxt_re_bsqe, key_immd, kBnxtWqeKeyOrImm);
AT(bnxt_re_bsqe, lhdr, kBnxtWqeLength);
SAME(BNXT_RE_HDR_FLAGS_SHIFT, kBnxtWqeFlagsShift);
SAME(BNXT_RE_HDR_WS_SHIFT, kBnxtWqeSlotsShift);
static_assert(kBnxtSlot + offsetof(struct bnxt_re_send, dst_qp) == kBnxtUdQpn, "dst_qp");
static_assert(kBnxtSlot + offsetof(struct bnxt_re_send, avid) == kBnxtUdAvid, "avid");
static_assert(kBnxtSlot + offsetof(struct bnxt_re_rdma, rkey) == kBnxtRdmaKey, "rkey");
static_assert(kBnxtSlot + offsetof(struct bnxt_re_atomic, cmp_dt) == kBnxtAtomicCompare, "cmp_dt");
AT(bnxt_re_brqe, wrid, kBnxtRecvWrId);
AT(bnxt_re_sge, lkey, kBnxtSgeKey);
AT(bnxt_re_sge, length, kBnxtSgeLength);
SAME(BNXT_RE_STATIC_WQE_MAX_SGE, kBnxtStaticSges);
SAME(BNXT_RE_MAX_INLINE_SIZE, kBnxtMaxInline);
SAME(BNXT_RE_FULL_FLAG_DELTA, kBnxtReservedWqes);
SAME(BNXT_RE_WR_OPCD_SEND_INVAL, kBnxtOpSendInv);
SAME(BNXT_RE_WR_OPCD_RDMA_WRITE, kBnxtOpWrite);
SAME(BNXT_RE_WR_OPCD_RDMA_WRITE_IMM, kBnxtOpWriteImm);
SAME(BNXT_RE_WR_OPCD_RDMA_READ, kBnxtOpRead);
SAME(BNXT_RE_WR_OPCD_ATOMIC_CS, kBnxtOpCas);
SAME(BNXT_RE_WR_OPCD_ATOMIC_FA, kBnxtOpFadd);
SAME(BNXT_RE_WR_OPCD_RECV, kBnxtOpReceive);
SAME(BNXT_RE_WR_FLAGS_SIGNALED, kBnxtFlagSignaled);
SAME(BNXT_RE_WR_FLAGS_RD_FENCE, kBnxtFlagReadFence);
SAME(BNXT_RE_WR_FLAGS_UC_FENCE, kBnxtFlagFence);
SAME(BNXT_RE_WR_FLAGS_SE, kBnxtFlagSolicited);
SAME(BNXT_RE_WR_FLAGS_INLINE, kBnxtFlagInline);
SIZE(bnxt_re_psns_ext, kBnxtPsnsSize);
AT(bnxt_re_psns_ext, flg_npsn, kBnxtPsnsNext);
SIZE(bnxt_re_msns, kBnxtMsnsSize);
SAME(BNXT_RE_SQ_MSN_SEARCH_NEXT_PSN_SHIFT, kBnxtMsnsNextShift);
SAME(BNXT_RE_SQ_MSN_SEARCH_START_IDX_SHIFT, kBnxtMsnsSlotShift);

static_assert(sizeof(struct bnxt_re_req_cqe) + sizeof(struct bnxt_re_bcqe) == kBnxtCqeSize, "cqe");
static_assert(sizeof(struct bnxt_re_req_cqe) == kBnxtCqeWord, "req");
static_assert(sizeof(struct bnxt_re_rc_cqe) == kBnxtCqeWord, "rc");
static_assert(sizeof(struct bnxt_re_ud_cqe) == kBnxtCqeWord, "ud");
static_assert(sizeof(struct bnxt_re_term_cqe) == kBnxtCqeWord, "term");
static_assert(kBnxtCqeWord + offsetof(struct bnxt_re_bcqe, qphi_rwrid) == kBnxtCqeRecv, "rwrid");
AT(bnxt_re_req_cqe, con_indx, kBnxtReqIndex);
AT(bnxt_re_term_cqe, rq_sq_cidx, kBnxtReqIndex);
AT(bnxt_re_rc_cqe, imm_key, kBnxtRecvImm);
AT(bnxt_re_rc_cqe, qp_handle, kBnxtRecvHandle);
AT(bnxt_re_ud_cqe, qplo_mac, kBnxtUdSource);
SAME(BNXT_RE_WC_TYPE_RECV_UD, kBnxtCqeRecvUd);
SAME(BNXT_RE_WC_TYPE_TERM, kBnxtCqeTerminal);
SAME(BNXT_RE_WC_TYPE_COFF, kBnxtCqeCutOff);
SAME(BNXT_RE_BCQE_TYPE_SHIFT, kBnxtCqeTypeShift);
SAME(BNXT_RE_BCQE_STATUS_SHIFT, kBnxtCqeStatusShift);
SAME(BNXT_RE_BCQE_FLAGS_SHIFT, kBnxtCqeFlagsShift);
SAME(BNXT_RE_BCQE_RWRID_MASK, kBnxtCqeRecvWrIdMask);
SAME(BNXT_RE_BCQE_SRCQP_SHIFT, kBnxtCqeSrcQpShift);
SAME(BNXT_RE_UD_CQE_SRCQPLO_SHIFT, kBnxtUdSourceQpShift);
SAME(BNXT_RE_UD_CQE_LEN_MASK, kBnxtUdLengthMask);
SAME(BNXT_RE_RC_FLAGS_IMM_MASK, kBnxtRecvFlagImm);
SAME(BNXT_RE_RC_FLAGS_INV_MASK, kBnxtRecvFlagInv);
SAME(BNXT_RE_RC_FLAGS_RDMA_MASK, kBnxtRecvFlagRdma);
SAME(BNXT_RE_UD_FLAGS_IP_VER_MASK, kBnxtRecvFlagRoceV2Ipv6);
SAME(BNXT_RE_REQ_ST_LOC_QP_OP, kBnxtReqLocQpOp);
SAME(BNXT_RE_REQ_ST_REM_ACC, kBnxtReqRemAccess);
SAME(BNXT_RE_REQ_ST_TRNSP_XCED, kBnxtReqTransport);
SAME(BNXT_RE_REQ_ST_WR_FLUSH, kBnxtReqFlush);
SAME(BNXT_RE_RSP_ST_LOC_PROT, kBnxtRspLocProt);
SAME(BNXT_RE_RSP_ST_REM_INVAL, kBnxtRspRemInval);
SAME(BNXT_RE_RSP_ST_WR_FLUSH, kBnxtRspFlush);
