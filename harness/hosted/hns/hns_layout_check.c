// Compares hns_layout.h with the headers that libhns is built with.
#include <assert.h>
#include <rdma/hns-abi.h>
#include <stddef.h>

#include "harness/hosted/hns/hns_layout.h"
#include "hns_roce_u.h"
#include "hns_roce_u_hw_v2.h"

#define AT(type, member, offset) static_assert(offsetof(struct type, member) == offset, #member)
#define SAME(a, b) static_assert((unsigned)(a) == (unsigned)(b), #a)
// Their fields are (type, high, low), ours (high, low).
#define SAME_FIELD_(type, h, l, high, low) static_assert((h) == (high) && (l) == (low), "field")
#define SAME_FIELD(theirs, ours) SAME_FIELD_(theirs, ours)

AT(hns_roce_ib_alloc_ucontext_resp, qp_tab_size, kHnsCtxQpTabSize);
AT(hns_roce_ib_alloc_ucontext_resp, cqe_size, kHnsCtxCqeSize);
AT(hns_roce_ib_alloc_ucontext_resp, srq_tab_size, kHnsCtxSrqTabSize);
AT(hns_roce_ib_create_cq, buf_addr, kHnsCqBuf);
AT(hns_roce_ib_create_cq, db_addr, kHnsCqDb);
AT(hns_roce_ib_create_cq, cqe_size, kHnsCqEntrySize);
AT(hns_roce_ib_create_cq_resp, cap_flags, kHnsCqCaps);
AT(hns_roce_ib_create_srq, db_addr, kHnsSrqDb);
AT(hns_roce_ib_create_srq, que_addr, kHnsSrqQueue);
AT(hns_roce_ib_create_qp, db_addr, kHnsQpDb);
AT(hns_roce_ib_create_qp, log_sq_bb_count, kHnsQpLogSqCount);
AT(hns_roce_ib_create_qp, log_sq_stride, kHnsQpLogSqStride);
AT(hns_roce_ib_create_qp, sdb_addr, kHnsQpSdb);
AT(hns_roce_ib_create_qp_resp, dwqe_mmap_key, kHnsQpDirectKey);
SAME(HNS_ROCE_QP_CAP_RQ_RECORD_DB, kHnsQpRqRecordDb);
SAME(HNS_ROCE_QP_CAP_SQ_RECORD_DB, kHnsQpSqRecordDb);
SAME(HNS_ROCE_QP_CAP_DIRECT_WQE, kHnsQpDirectWqe);

SAME(ROCEE_VF_DB_CFG0_OFFSET, kHnsUarDoorbell);
SAME(HNS_ROCE_V2_CQ_DB_NTR, kHnsDbCqNotify);
SAME(HNS_ROCE_WQE_OP_ATOMIC_FETCH_AND_ADD, kHnsOpFadd);
SAME(HNS_ROCE_MAX_RC_INL_INN_SZ, kHnsRcInlineInWqe);
SAME(HNS_ROCE_MAX_UD_INL_INN_SZ, kHnsUdInlineInWqe);
SAME(HNS_ROCE_DWQE_PAGE_SIZE, kHnsDirectPageSize);
static_assert(sizeof(struct hns_roce_rc_sq_wqe) == kHnsRcHeaderSize, "rc");
static_assert(sizeof(struct hns_roce_ud_sq_wqe) == kHnsWqeSize, "ud");
AT(hns_roce_ud_sq_wqe, dmac, kHnsUdMac);
AT(hns_roce_v2_wqe_data_seg, addr, kHnsSgeAddr);
