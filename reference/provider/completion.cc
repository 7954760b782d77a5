// Completion queues and their events.
#include <algorithm>
#include <new>

#include "reference/provider/async_events.h"
#include "reference/provider/operations.h"

namespace qpexam::provider {
namespace {

using model::Completion;

// --- Events --------------------------------------------------------------------------------------

class Sink : public model::CqSink {
 public:
  bool OnCompletion(model::Cq& /*cq*/, const Completion& /*completion*/) override {
    return false;  // the model's ring is the CQ
  }
  void OnCqEvent(model::Cq& model_cq) override {
    auto* cq = static_cast<Cq*>(model_cq.owner);
    if (cq == nullptr || cq->channel == nullptr) return;
    ++cq->completion_events;
    EventPipe::Event event;
    event.handle = reinterpret_cast<uint64_t>(cq);
    cq->channel->Raise(event);
  }
};

model::CqSink* EventSink() {
  static Sink* sink = new Sink;
  return sink;
}

// --- Polling -------------------------------------------------------------------------------------

ibv_wc ToWc(const Completion& c) {
  ibv_wc wc;
  wc.wr_id = c.wr_id.value;
  wc.status = c.status;
  wc.opcode = c.opcode;
  wc.vendor_err = c.vendor_err;
  wc.byte_len = c.byte_len;
  if ((c.wc_flags & IBV_WC_WITH_INV) != 0)
    wc.invalidated_rkey = c.invalidated.value;
  else
    wc.imm_data = c.imm;
  wc.qp_num = c.qp_num.value;
  wc.src_qp = c.src_qp;
  wc.wc_flags = c.wc_flags;
  wc.pkey_index = c.pkey_index;
  wc.slid = c.slid;
  wc.sl = c.sl;
  wc.dlid_path_bits = c.dlid_path_bits;
  return wc;
}

int Show(Cq* cq) {
  const Completion& c = cq->cq->current();
  cq->verbs.cq_ex.wr_id = c.wr_id.value;
  cq->verbs.cq_ex.status = c.status;
  return 0;
}

int StartPoll(ibv_cq_ex* ex, ibv_poll_cq_attr* attr) {
  Cq* cq = Of(ex);
  if (attr->comp_mask != 0) return EINVAL;  // WR-CQX-003
  const int err = cq->cq->StartPoll();
  return err != 0 ? err : Show(cq);
}

int NextPoll(ibv_cq_ex* ex) {
  Cq* cq = Of(ex);
  const int err = cq->cq->NextPoll();
  return err != 0 ? err : Show(cq);
}

void EndPoll(ibv_cq_ex* ex) { Of(ex)->cq->EndPoll(); }

const Completion& Current(ibv_cq_ex* ex) { return Of(ex)->cq->current(); }

ibv_wc_opcode ReadOpcode(ibv_cq_ex* ex) { return Current(ex).opcode; }
uint32_t ReadVendorErr(ibv_cq_ex* ex) { return Current(ex).vendor_err; }
uint32_t ReadByteLen(ibv_cq_ex* ex) { return Current(ex).byte_len; }
// Also ibv_wc_read_invalidated_rkey(), which takes the value as it is (WR-CQX-005).
__be32 ReadImmData(ibv_cq_ex* ex) {
  const Completion& c = Current(ex);
  return (c.wc_flags & IBV_WC_WITH_INV) != 0 ? c.invalidated.value : c.imm;
}
uint32_t ReadQpNum(ibv_cq_ex* ex) {
  return model::Faulty(model::Fault::kQpNumReaderGivesZero) ? 0 : Current(ex).qp_num.value;
}
uint32_t ReadSrcQp(ibv_cq_ex* ex) { return Current(ex).src_qp; }
unsigned ReadWcFlags(ibv_cq_ex* ex) { return Current(ex).wc_flags; }
uint32_t ReadSlid(ibv_cq_ex* ex) { return Current(ex).slid; }
uint8_t ReadSl(ibv_cq_ex* ex) { return Current(ex).sl; }
uint8_t ReadDlidPathBits(ibv_cq_ex* ex) { return Current(ex).dlid_path_bits; }
// The raw and the wall clock are both the virtual one, in nanoseconds.
uint64_t ReadTimestamp(ibv_cq_ex* ex) { return Current(ex).timestamp_ns; }
// No VLAN, no flow steering, no tag matching: nothing ever carries one.
uint16_t ReadCvlan(ibv_cq_ex* /*ex*/) { return 0; }
uint32_t ReadFlowTag(ibv_cq_ex* /*ex*/) { return 0; }
void ReadTmInfo(ibv_cq_ex* /*ex*/, ibv_wc_tm_info* info) { *info = {}; }

// Readers that were not asked for stay null: using one is the caller's mistake (WR-CQX-004).
void SetReaders(ibv_cq_ex* ex, uint64_t wc_flags) {
  ex->start_poll = StartPoll;
  ex->next_poll = NextPoll;
  ex->end_poll = EndPoll;
  ex->read_opcode = ReadOpcode;
  ex->read_vendor_err = ReadVendorErr;
  ex->read_wc_flags = ReadWcFlags;
  auto asked = [wc_flags](uint64_t flag) { return (wc_flags & flag) != 0; };
  if (asked(IBV_WC_EX_WITH_BYTE_LEN)) ex->read_byte_len = ReadByteLen;
  if (asked(IBV_WC_EX_WITH_IMM)) ex->read_imm_data = ReadImmData;
  if (asked(IBV_WC_EX_WITH_QP_NUM)) ex->read_qp_num = ReadQpNum;
  if (asked(IBV_WC_EX_WITH_SRC_QP)) ex->read_src_qp = ReadSrcQp;
  if (asked(IBV_WC_EX_WITH_SLID)) ex->read_slid = ReadSlid;
  if (asked(IBV_WC_EX_WITH_SL)) ex->read_sl = ReadSl;
  if (asked(IBV_WC_EX_WITH_DLID_PATH_BITS)) ex->read_dlid_path_bits = ReadDlidPathBits;
  if (asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) ex->read_completion_ts = ReadTimestamp;
  if (asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
    ex->read_completion_wallclock_ns = ReadTimestamp;
  if (asked(IBV_WC_EX_WITH_CVLAN)) ex->read_cvlan = ReadCvlan;
  if (asked(IBV_WC_EX_WITH_FLOW_TAG)) ex->read_flow_tag = ReadFlowTag;
  if (asked(IBV_WC_EX_WITH_TM_INFO)) ex->read_tm_info = ReadTmInfo;
}

Cq* Create(ibv_context* context, uint32_t cqe, ibv_comp_channel* channel, uint32_t comp_vector) {
  if (comp_vector >= static_cast<uint32_t>(context->num_comp_vectors)) return Refuse(EINVAL);
  if (cqe > INT32_MAX) return Refuse(EINVAL);
  model::Result<model::Cq> made = Of(context)->device->CreateCq(static_cast<int>(cqe), EventSink());
  if (!made.ok()) return Refuse(made.status.err);
  auto* cq = new Cq();
  cq->cq = made.value;
  cq->context = context;
  if (channel != nullptr) cq->channel = EventPipe::Find(channel->fd);
  cq->verbs.cq.cqe = made.value->cqe();
  cq->cq->owner = cq;
  return cq;
}

}  // namespace

ibv_cq* CreateCq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector) {
  if (cqe < 1 || comp_vector < 0) return Refuse(EINVAL);
  Cq* cq = Create(context, static_cast<uint32_t>(cqe), channel, static_cast<uint32_t>(comp_vector));
  return cq != nullptr ? &cq->verbs.cq : nullptr;
}

ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  constexpr uint32_t kMasks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  constexpr uint64_t kReaders = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |
                                IBV_WC_EX_WITH_TM_INFO |
                                IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  if (!check_comp_mask(attr->comp_mask, kMasks)) return Refuse(EINVAL);
  if (!check_comp_mask(attr->wc_flags, kReaders)) return Refuse(EOPNOTSUPP);  // WR-CQX-006
  // A single-threaded CQ may be locked all the same; one that ignores overruns is not offered.
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
      !check_comp_mask(attr->flags, IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
    return Refuse(EOPNOTSUPP);
  if (attr->cqe < 1) return Refuse(EINVAL);
  Cq* cq = Create(context, attr->cqe, attr->channel, attr->comp_vector);
  if (cq == nullptr) return nullptr;
  SetReaders(&cq->verbs.cq_ex, attr->wc_flags);
  return &cq->verbs.cq_ex;
}

int DestroyCq(ibv_cq* verbs) {
  Cq* cq = Of(verbs);
  const model::Status status = Of(verbs->context)->device->DestroyCq(cq->cq);
  if (!status.ok()) return Answer(status);
  // Nothing raises events for it any more. Unread ones go; read ones must be acknowledged before
  // the object may go (WR-EVT-006).
  if (cq->channel != nullptr)
    cq->completion_events -= cq->channel->Purge(reinterpret_cast<uint64_t>(cq));
  pthread_mutex_lock(&verbs->mutex);
  while (verbs->comp_events_completed != cq->completion_events &&
         !model::Faulty(model::Fault::kDestroyCqDoesNotWait))
    pthread_cond_wait(&verbs->cond, &verbs->mutex);
  pthread_mutex_unlock(&verbs->mutex);
  FinishAsyncEvents(verbs->context, verbs, cq->async_events, verbs->mutex, verbs->cond,
                    verbs->async_events_completed);
  delete cq;
  return 0;
}

int ResizeCq(ibv_cq* verbs, int cqe) {
  const model::Status status = Of(verbs)->cq->Resize(cqe);
  if (status.ok()) verbs->cqe = Of(verbs)->cq->cqe();
  return Answer(status);
}

int PollCq(ibv_cq* verbs, int count, ibv_wc* wc) {
  Cq* cq = Of(verbs);
  if (count == 1) {
    Completion one;
    const int got = cq->cq->Poll({&one, 1});
    if (got == 1) *wc = ToWc(one);
    return got;
  }
  // Of each thread, since to make them anew would cost most of a poll that finds nothing.
  constexpr int kBatch = 16;
  thread_local Completion batch[kBatch];
  int done = 0;
  while (done < count) {
    const int wanted = std::min(kBatch, count - done);
    const int got = cq->cq->Poll({batch, static_cast<size_t>(wanted)});
    if (got < 0) return done > 0 ? done : got;
    for (int i = 0; i < got; ++i) wc[done++] = ToWc(batch[i]);
    if (got < wanted) break;
  }
  return done;
}

int ReqNotifyCq(ibv_cq* verbs, int solicited_only) {
  Of(verbs)->cq->Arm(solicited_only != 0 ? model::Notify::kSolicitedOnly : model::Notify::kAny);
  return 0;
}

void CqEventRead(ibv_cq* verbs) {
  if (Of(verbs)->channel != nullptr) Of(verbs)->channel->Flush();
}

}  // namespace qpexam::provider
