#include "harness/hosted/efa/efa_model.h"

#include <fmt/format.h>
#include <rdma_core_version.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "harness/hosted/bytes.h"
#include "harness/hosted/efa/efa_layout.h"

namespace qpexam::hosted {
namespace {

using model::Operation;

// Which Queue::note holds what.
enum Note {
  kPhase = 0,       // send queue: the phase of the first lap since RESET...
  kPhaseKnown = 1,  // ... once its first WQE has shown it
  kDescriptor = 0,  // receive queue: the descriptor that the device reads next
  kWritten = 0,     // CQ: CQEs written to part 0, to part 1
};

constexpr uint32_t kSubCqs = 2;
constexpr uint32_t kMaxLlqSize = 64 * 1024;
constexpr uint32_t kMaxTxBatch = 16;  // in units of 64 bytes

// Whose device pages: in Mapping::owner, with the queue's number.
enum class PageOf : uint32_t { kSqDoorbell = 1, kRqDoorbell, kCqDoorbell, kLlq };
constexpr uint32_t OwnerOf(PageOf page, uint32_t number) {
  return static_cast<uint32_t>(page) << 24 | number;
}
// Where in its page a doorbell is: somewhere, as the kernel module decides.
constexpr uint32_t kSqDoorbellOffset = 0x40, kRqDoorbellOffset = 0x80, kCqDoorbellOffset = 0xc0;

uint8_t StatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return kEfaStatusOk;
    case IBV_WC_WR_FLUSH_ERR:
      return kEfaStatusFlushed;
    case IBV_WC_LOC_QP_OP_ERR:
      return kEfaStatusUnsupportedOp;
    case IBV_WC_LOC_PROT_ERR:
      return kEfaStatusInvalidLkey;
    case IBV_WC_LOC_LEN_ERR:
      return kEfaStatusBadLength;
    case IBV_WC_REM_ACCESS_ERR:
      return kEfaStatusRemoteBadAddress;
    case IBV_WC_REM_ABORT_ERR:
      return kEfaStatusRemoteAbort;
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return kEfaStatusRemoteBadQpn;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return kEfaStatusRemoteRnr;
    case IBV_WC_REM_INV_REQ_ERR:
      return kEfaStatusRemoteBadLength;
    case IBV_WC_BAD_RESP_ERR:
      return kEfaStatusRemoteBadStatus;
    case IBV_WC_RESP_TIMEOUT_ERR:
      return kEfaStatusUnresponsive;
    case IBV_WC_REM_OP_ERR:
      return kEfaStatusUnknownPeer;
    default:
      return kEfaStatusNone;
  }
}

uint8_t OperationCode(Operation op) {
  switch (op) {
    case Operation::kRdmaRead:
      return kEfaOpRead;
    case Operation::kRdmaWrite:
    case Operation::kRdmaWriteWithImm:
      return kEfaOpWrite;
    default:
      return kEfaOpSend;
  }
}

bool AllZero(const uint8_t* at, size_t size) {
  return std::all_of(at, at + size, [](uint8_t b) { return b == 0; });
}

class EfaModel : public DeviceModel {
 public:
  explicit EfaModel(uint32_t max_inline);
  const DeviceTraits& traits() const override { return traits_; }
  Reply Answer(const Command& command, Bytes in, MutBytes out) override;
  int AnswerNative(uint16_t object, uint16_t method, NativeAttributes& attributes) override;
  std::optional<Doorbell> OnWrite(const Mapping& region, uint64_t offset, Bytes stored) override;
  Visibility DecodeSend(Queue& q, DecodedSend* out) override;
  Visibility DecodeReceive(Queue& q, DecodedReceive* out) override;
  void Express(NativeCompletion* native) const override;
  bool Encode(CqFacts& cq, const NativeCompletion& native) override;
  void Reset(QpFacts& qp) override;

 private:
  Reply GetContext(Bytes in, MutBytes out);
  Reply CreateCq(const Command& command, Bytes in, MutBytes out);
  Reply CreateQp(const Command& command, Bytes in, MutBytes out);
  static void CheckMeta(const uint8_t* wqe, DecodedSend* out);

  DeviceTraits traits_;
};

EfaModel::EfaModel(uint32_t max_inline) {
  traits_ = {"efa",
             "efa_",
             "pci:v00001D0Fd0000EFA2sv00001D0Fsd0000EFA2bc02sc00i00",
             1,
             {},
             static_cast<model::QpTypeMask>(model::MaskOf(model::QpType::kUd) |
                                            model::MaskOf(model::QpType::kSrd)),
             IBV_LINK_LAYER_UNSPECIFIED,
             max_inline};
  traits_.qp_number_bits = 16;
  traits_.qp_numbers_modulo = 1024;  // libefa's table of QPs has max_qp slots
  traits_.key_bits = 24;
  ibv_device_attr& a = traits_.attr;
  a.vendor_id = 0x1d0f;
  a.vendor_part_id = 0xefa2;
  a.max_mr_size = uint64_t{1} << 40;
  a.page_size_cap = 0xfffff000;
  a.max_qp = traits_.qp_numbers_modulo;
  a.max_qp_wr = kMaxLlqSize / kEfaTxWqeSize;
  a.max_sge = kEfaTxMaxBufs;
  a.max_sge_rd = kEfaTxMaxRdmaBufs;
  a.max_cq = 1024;
  a.max_cqe = 1 << 15;
  a.max_mr = 1 << 16;
  a.max_pd = 1 << 10;
  a.atomic_cap = IBV_ATOMIC_NONE;
  a.max_ah = 0xffff;
  a.max_pkeys = 1;
  a.phys_port_cnt = 1;
}

// --- Commands ------------------------------------------------------------------------------------

Reply EfaModel::Answer(const Command& command, Bytes in, MutBytes out) {
  switch (command.kind) {
    case Command::Kind::kGetContext:
      return GetContext(in, out);
    case Command::Kind::kQueryDevice: {
      uint8_t r[kEfaDevRespSize] = {};
      Put<uint32_t>(r, kEfaDevMaxSqWr, traits_.attr.max_qp_wr);
      Put<uint32_t>(r, kEfaDevMaxRqWr, traits_.attr.max_qp_wr);
      Put<uint16_t>(r, kEfaDevMaxSqSge, kEfaTxMaxBufs);
      Put<uint16_t>(r, kEfaDevMaxRqSge, kEfaTxMaxBufs);
      Put<uint32_t>(r, kEfaDevMaxRdmaSize, 1 << 30);
      Put<uint32_t>(r, kEfaDevCaps,
                    kEfaCapRdmaRead | kEfaCapRdmaWrite | kEfaCapRnrRetry | kEfaCapCqNotifications);
      return Respond(out, r, sizeof r);
    }
    case Command::Kind::kAllocPd: {
      uint8_t r[kEfaShortRespSize] = {};
      Put<uint16_t>(r, kEfaPdNumber, static_cast<uint16_t>(command.pd));
      return Respond(out, r, sizeof r);
    }
    case Command::Kind::kCreateAh: {
      uint8_t r[kEfaShortRespSize] = {};
      Put<uint16_t>(r, kEfaAhNumber, static_cast<uint16_t>(command.ah->number));
      return Respond(out, r, sizeof r);
    }
    case Command::Kind::kCreateCq:
      return CreateCq(command, in, out);
    case Command::Kind::kCreateQp:
      return CreateQp(command, in, out);
    case Command::Kind::kCreateSrq:
    case Command::Kind::kAllocMw:
    case Command::Kind::kResizeCq:
      return Error(EOPNOTSUPP);
    default:
      return Reply();
  }
}

Reply EfaModel::GetContext(Bytes in, MutBytes out) {
  uint8_t r[kEfaCtxRespSize] = {};
  Put<uint32_t>(r, kEfaCtxUdataMask, kEfaUdataQueryDevice | kEfaUdataCreateAh);
  Put<uint16_t>(r, kEfaCtxSubCqs, kSubCqs);
  Put<uint16_t>(r, kEfaCtxInlineSize, kEfaInlineMax);
  Put<uint32_t>(r, kEfaCtxMaxLlqSize, kMaxLlqSize);
  if (Read<uint32_t>(in, kEfaCtxCmdCaps) & kEfaCtxSupportsTxBatch) {
    Put<uint16_t>(r, kEfaCtxMaxTxBatch, kMaxTxBatch);
  }
  if (traits_.max_inline > kEfaInlineMax) {
    Put<uint16_t>(r, kEfaCtxInlineSizeEx, static_cast<uint16_t>(traits_.max_inline));
  }
  return Respond(out, r, sizeof r);
}

Reply EfaModel::CreateCq(const Command& command, Bytes in, MutBytes out) {
  CqFacts& cq = *command.cq;
  const uint32_t entry = Read<uint32_t>(in, kEfaCqCmdEntrySize);
  if (entry != kEfaCqeSize && entry != kEfaCqeExSize) return Error(EINVAL);
  if (Read<uint16_t>(in, kEfaCqCmdSubCqs) != kSubCqs) return Error(EINVAL);
  if (Read<uint8_t>(in, kEfaCqCmdFlags) & ~kEfaCqFlagChannel) return Error(EOPNOTSUPP);
  Queue& q = cq.queue;
  q.kind = Queue::Kind::kCompletion;
  q.entries = RoundUpToPowerOf2(cq.cqe);  // of each part
  q.stride = entry;
  q.size = size_t{kSubCqs} * q.entries * q.stride;
  cq.cqe = q.entries;
  const Mapping ring = command.memory->Allocate(q.size);
  q.base = ring.data;
  std::memset(q.base, 0, q.size);
  const Mapping bell =
      command.memory->AllocateDevicePages(4096, OwnerOf(PageOf::kCqDoorbell, cq.number));
  q.doorbell_record = bell.data + kCqDoorbellOffset;
  uint8_t r[kEfaCqRespBytes] = {};
  Put<uint32_t>(r, kEfaCqRespMask, kEfaCqHasDb);
  Put<uint64_t>(r, kEfaCqRespKey, ring.offset);
  Put<uint64_t>(r, kEfaCqRespSize, q.size);
  Put<uint16_t>(r, kEfaCqRespIndex, static_cast<uint16_t>(cq.number));
  Put<uint32_t>(r, kEfaCqRespDbOffset, kCqDoorbellOffset);
  Put<uint64_t>(r, kEfaCqRespDbKey, bell.offset);
  return Respond(out, r, sizeof r);
}

Reply EfaModel::CreateQp(const Command& command, Bytes in, MutBytes out) {
  QpFacts& qp = *command.qp;
  if (Read<uint32_t>(in, kEfaQpCmdDriverType) != 0) return Error(EOPNOTSUPP);  // 0: SRD
  if (Read<uint16_t>(in, kEfaQpCmdFlags) != 0) return Error(EOPNOTSUPP);
  if (qp.srq != nullptr) return Error(EINVAL);
  const uint32_t rq_size = Read<uint32_t>(in, kEfaQpCmdRqSize);
  const uint32_t sq_size = Read<uint32_t>(in, kEfaQpCmdSqSize);
  uint8_t r[kEfaQpRespSize] = {};
  if (sq_size > kMaxLlqSize) return Error(EINVAL);
  if (sq_size != 0) {
    Queue& sq = qp.sq;
    sq.kind = Queue::Kind::kSend;
    sq.entries = qp.cap.max_send_wr;
    if (sq.entries == 0 || (sq.entries & (sq.entries - 1)) != 0) return Error(EINVAL);
    sq.stride = sq_size / sq.entries;
    if (sq.stride != kEfaTxWqeSize && sq.stride != kEfaTxWqe128Size) return Error(EINVAL);
    sq.size = sq_size;
    sq.max_sge = qp.cap.max_send_sge;
    sq.max_inline = qp.cap.max_inline_data;
    sq.lane = qp.number % kSubCqs;
    const Mapping bell =
        command.memory->AllocateDevicePages(4096, OwnerOf(PageOf::kSqDoorbell, qp.number));
    sq.doorbell_record = bell.data + kSqDoorbellOffset;
    // The ring ends with its pages: a copy that runs over its end leaves the mapping.
    const Mapping llq =
        command.memory->AllocateDevicePages(sq_size, OwnerOf(PageOf::kLlq, qp.number));
    const auto offset = static_cast<uint32_t>(llq.size - sq_size);
    sq.base = llq.data + offset;
    Put<uint32_t>(r, kEfaQpSqDbOffset, kSqDoorbellOffset);
    Put<uint64_t>(r, kEfaQpSqDbKey, bell.offset);
    Put<uint32_t>(r, kEfaQpLlqOffset, offset);
    Put<uint64_t>(r, kEfaQpLlqKey, llq.offset);
    Put<uint16_t>(r, kEfaQpSendSubCq, static_cast<uint16_t>(sq.lane));
  }
  if (rq_size != 0) {
    Queue& rq = qp.rq;
    rq.kind = Queue::Kind::kReceive;
    rq.entries = rq_size / kEfaRxSize;  // descriptors
    if ((rq.entries & (rq.entries - 1)) != 0) return Error(EINVAL);
    rq.stride = kEfaRxSize;
    rq.size = rq_size;
    rq.max_sge = qp.cap.max_recv_sge;
    rq.lane = (qp.number + 1) % kSubCqs;
    const Mapping bell =
        command.memory->AllocateDevicePages(4096, OwnerOf(PageOf::kRqDoorbell, qp.number));
    rq.doorbell_record = bell.data + kRqDoorbellOffset;
    const Mapping ring = command.memory->Allocate(rq_size);
    rq.base = ring.data;
    Put<uint32_t>(r, kEfaQpRqDbOffset, kRqDoorbellOffset);
    Put<uint64_t>(r, kEfaQpRqDbKey, bell.offset);
    Put<uint64_t>(r, kEfaQpRqKey, ring.offset);
    Put<uint64_t>(r, kEfaQpRqSize, rq_size);
    Put<uint16_t>(r, kEfaQpRecvSubCq, static_cast<uint16_t>(rq.lane));
  }
  Reset(qp);
  return Respond(out, r, sizeof r);
}

// efadv_query_mr(): every region is received into by interconnect 1, and nothing else is known.
int EfaModel::AnswerNative(uint16_t object, uint16_t method, NativeAttributes& attributes) {
  constexpr uint16_t kObjectMr = 7;  // UVERBS_OBJECT_MR
  if (object != kObjectMr || method != kEfaMethodMrQuery) return EPROTONOSUPPORT;
  auto put = [&](uint16_t id, uint16_t value) {
    const MutBytes out = attributes.Out(id);
    if (out.size >= sizeof value) std::memcpy(out.data, &value, sizeof value);
  };
  put(kEfaAttrMrValidity, kEfaMrHasRecvIc);
  put(kEfaAttrMrRecvIc, 1);
  put(kEfaAttrMrReadIc, 0);
  put(kEfaAttrMrRdmaRecvIc, 0);
  return 0;
}

void EfaModel::Reset(QpFacts& qp) {
  for (Queue* q : {&qp.sq, &qp.rq}) {
    q->next = 0;
    std::fill(std::begin(q->note), std::end(q->note), 0);
    if (q->doorbell_record != nullptr) Put<uint32_t>(q->doorbell_record, 0, 0);
  }
}

// --- Doorbells -----------------------------------------------------------------------------------

std::optional<Doorbell> EfaModel::OnWrite(const Mapping& region, uint64_t offset, Bytes stored) {
  if (stored.size < 4) return {};
  Doorbell bell;
  bell.number = region.owner & 0xffffff;
  switch (static_cast<PageOf>(region.owner >> 24)) {
    case PageOf::kSqDoorbell:
      if (offset != kSqDoorbellOffset) return {};
      bell.kind = Doorbell::Kind::kSend;
      return bell;
    case PageOf::kCqDoorbell:
      if (offset != kCqDoorbellOffset) return {};
      if (!(Get<uint32_t>(stored.data, 0) & EFA_LAYOUT_CQ_ARM)) return {};
      bell.kind = Doorbell::Kind::kArmCq;
      bell.arm = CqFacts::Arm::kAny;
      return bell;
    case PageOf::kRqDoorbell:  // the record says how far; receives are read when they are needed
    case PageOf::kLlq:
      break;
  }
  return {};
}

// --- Decoding ------------------------------------------------------------------------------------

void EfaModel::CheckMeta(const uint8_t* wqe, DecodedSend* out) {
  const uint8_t ctrl1 = wqe[kEfaTxCtrl1], ctrl2 = wqe[kEfaTxCtrl2];
  auto complain = [&](std::string what) { out->complaints.push_back(std::move(what)); };
  if (!(ctrl1 & kEfaTxMetaDesc)) complain("the meta descriptor is not marked as one");
  if (ctrl1 & kEfaTxMetaExtension) complain("reserved bit meta_extension");
  if (!(ctrl2 & kEfaTxFirst) || !(ctrl2 & kEfaTxLast)) {
    complain("the meta descriptor is not first and last");
  }
  if (ctrl2 & kEfaTxCtrl2Reserved) complain(fmt::format("reserved bits in ctrl2 {:#x}", ctrl2));
  if (!AllZero(wqe + kEfaTxReserved, 2) ||
      !AllZero(wqe + kEfaTxReserved2, kEfaTxMetaSize - kEfaTxReserved2)) {
    complain("reserved bytes of the meta descriptor are not 0");
  }
  if (!(ctrl1 & kEfaTxHasImm) && Get<uint32_t>(wqe, kEfaTxImmediate) != 0) {
    complain("immediate data that has_imm does not announce");
  }
  if (!(ctrl2 & kEfaTxCompReq)) complain("no completion is asked for; the device has no other way");
}

Visibility EfaModel::DecodeSend(Queue& q, DecodedSend* out) {
  if (!q.exists()) return Visibility::kNotYet;
  const uint16_t posted = static_cast<uint16_t>(LoadShared32(q.doorbell_record));
  const auto covered = static_cast<uint16_t>(posted - q.next);
  if (covered == 0) return Visibility::kNotYet;
  out->Clear();
  const uint32_t index = q.next & (q.entries - 1);
  const uint8_t* wqe = q.base + size_t{index} * q.stride;
  out->raw = Bytes{wqe, q.stride};
  out->native_index = Get<uint16_t>(wqe, kEfaTxReqId);
  auto malformed = [&](std::string what) {
    out->complaints.push_back(std::move(what));
    return Visibility::kMalformed;
  };
  if (covered > q.entries) {
    return malformed(fmt::format("a doorbell for {} WQEs; the ring has {}", covered, q.entries));
  }
  if (covered > kMaxTxBatch * 64 / q.stride) {
    out->complaints.push_back(fmt::format("a doorbell for {} WQEs; the device takes {} at once",
                                          covered, kMaxTxBatch * 64 / q.stride));
  }
  // The phase turns with each lap.
  const uint32_t phase = wqe[kEfaTxCtrl2] & kEfaTxPhase;
  const uint32_t laps = q.next / q.entries;
  if (q.note[kPhaseKnown] == 0) {
    q.note[kPhaseKnown] = 1;
    q.note[kPhase] = (phase ^ laps) & 1;
  } else if (phase != ((q.note[kPhase] ^ laps) & 1)) {
    return malformed(fmt::format("phase {} in lap {} of the ring", phase, laps));
  }
  CheckMeta(wqe, out);

  model::SendRequest& r = out->request;
  const uint8_t ctrl1 = wqe[kEfaTxCtrl1];
  const bool has_imm = ctrl1 & kEfaTxHasImm;
  const uint8_t code = ctrl1 & kEfaTxOpMask;
  switch (code) {
    case kEfaOpSend:
      r.op = has_imm ? Operation::kSendWithImm : Operation::kSend;
      break;
    case kEfaOpRead:
      r.op = Operation::kRdmaRead;
      if (has_imm) out->complaints.push_back("a READ with immediate data");
      break;
    case kEfaOpWrite:
      r.op = has_imm ? Operation::kRdmaWriteWithImm : Operation::kRdmaWrite;
      break;
    default:
      return malformed(fmt::format("operation {}", code));
  }
  if (wqe[kEfaTxCtrl2] & kEfaTxCompReq) r.flags |= IBV_SEND_SIGNALED;
  if (has_imm) r.imm = htobe32(Get<uint32_t>(wqe, kEfaTxImmediate));
  out->ah_number = Get<uint16_t>(wqe, kEfaTxAh);
  r.remote_qpn = model::QpNum(Get<uint16_t>(wqe, kEfaTxDestQp));
  r.remote_qkey = model::Qkey(Get<uint32_t>(wqe, kEfaTxQkey));
  if (code != kEfaOpSend && q.type == model::QpType::kUd) {
    return malformed("an RDMA operation on UD");
  }

  const uint32_t length = Get<uint16_t>(wqe, kEfaTxLength);
  const uint8_t* data = wqe + kEfaTxMetaSize;
  const uint8_t* const end = wqe + q.stride;
  uint32_t remote_length = 0;
  if (code != kEfaOpSend) {
    remote_length = Get<uint32_t>(data, kEfaBufLength);
    r.rkey = model::Rkey(Get<uint32_t>(data, kEfaBufKey));
    r.remote_addr = model::RemoteAddr(Get<uint64_t>(data, kEfaBufAddr));
    data += kEfaBufSize;
  }
  r.data = model::DataKind::kSge;
  uint64_t total = 0;
  if (ctrl1 & kEfaTxInline) {
    r.data = model::DataKind::kInline;
    const uint32_t room = q.stride == kEfaTxWqe128Size ? kEfaInlineMax128
                          : code == kEfaOpSend         ? kEfaInlineMax
                                                       : 0;
    if (length > room) {
      return malformed(fmt::format("{} bytes of inline data; the WQE has room for {}{}", length,
                                   room, code == kEfaOpSend ? "" : " beside an RDMA address"));
    }
    if (code == kEfaOpRead) return malformed("inline data for an operation that returns data");
    out->inline_data.assign(data, data + length);
    if (!AllZero(data + length, end - data - length)) {
      out->complaints.push_back("bytes behind the inline data are not 0");
    }
    total = length;
  } else {
    const uint32_t most = code == kEfaOpSend ? kEfaTxMaxBufs : kEfaTxMaxRdmaBufs;
    if (length > most) return malformed(fmt::format("{} buffers; the WQE has {}", length, most));
    for (uint32_t i = 0; i < length; ++i, data += kEfaBufSize) {
      const uint32_t key = Get<uint32_t>(data, kEfaBufKey);
      if (key >> 24 != 0) out->complaints.push_back("reserved bits beside an lkey");
      const uint32_t bytes = Get<uint32_t>(data, kEfaBufLength);
      out->sge.push_back({Get<uint64_t>(data, kEfaBufAddr), bytes, model::Lkey(key)});
      total += bytes;
    }
  }
  if (code != kEfaOpSend && remote_length != total) {
    out->complaints.push_back(
        fmt::format("the remote length is {}, the local one {}", remote_length, total));
  }
  return Visibility::kRequest;
}

Visibility EfaModel::DecodeReceive(Queue& q, DecodedReceive* out) {
  if (!q.exists()) return Visibility::kNotYet;
  const uint16_t posted = static_cast<uint16_t>(LoadShared32(q.doorbell_record));
  auto covered = static_cast<uint16_t>(posted - q.note[kDescriptor]);
  if (covered == 0) return Visibility::kNotYet;
  out->Clear();
  if (covered > q.entries) {
    out->complaints.push_back(
        fmt::format("a doorbell for {} descriptors; the ring has {}", covered, q.entries));
  }
  for (bool first = true;; first = false) {
    if (covered == 0) {
      out->complaints.push_back("the doorbell covers a receive that has no last descriptor");
      break;
    }
    const uint8_t* at = q.base + size_t{q.note[kDescriptor] & (q.entries - 1)} * kEfaRxSize;
    ++q.note[kDescriptor];
    --covered;
    const uint32_t key = Get<uint32_t>(at, kEfaRxKeyCtrl);
    if (first) {
      out->raw = Bytes{at, kEfaRxSize};
      out->native_index = Get<uint16_t>(at, kEfaRxReqId);
    }
    if (((key & kEfaRxFirst) != 0) != first) {
      out->complaints.push_back("a receive descriptor that is first where it should not be");
    }
    if (key >> kEfaRxReservedShift & 0x3f) {
      out->complaints.push_back("reserved bits beside an lkey");
    }
    // 16 bits of length: a buffer of 64 KiB or more is used up to there.
    out->sge.push_back({Get<uint64_t>(at, kEfaRxAddr), Get<uint16_t>(at, kEfaRxLength),
                        model::Lkey(key & 0xffffff)});
    if (key & EFA_LAYOUT_RX_LAST) break;
  }
  return Visibility::kRequest;
}

// --- Completions ---------------------------------------------------------------------------------

void EfaModel::Express(NativeCompletion* native) const {
  model::Completion& c = native->completion;
  // A CQE does not say whether the receive buffer begins with a GRH.
  c.wc_flags &= ~static_cast<unsigned>(IBV_WC_GRH);
  switch (c.status) {
    case IBV_WC_RETRY_EXC_ERR:  // nobody answers: the device has statuses of its own for that
      c.status = IBV_WC_RESP_TIMEOUT_ERR;
      break;
    default:
      if (StatusOf(c.status) == kEfaStatusNone) c.status = IBV_WC_GENERAL_ERR;
      break;
  }
}

bool EfaModel::Encode(CqFacts& cq, const NativeCompletion& native) {
  Queue& q = cq.queue;
  const model::Completion& c = native.completion;
  const uint32_t lane = native.work_queue->lane;
  uint32_t& written = q.note[kWritten + lane];
  uint8_t cqe[kEfaCqeExSize] = {};
  Put<uint16_t>(cqe, kEfaCqeReqId, static_cast<uint16_t>(native.native_index));
  cqe[kEfaCqeStatus] = StatusOf(c.status);
  Put<uint16_t>(cqe, kEfaCqeQpn, static_cast<uint16_t>(c.qp_num.value));
  // The phase of the first lap is 1.
  uint8_t flags = written / q.entries % 2 == 0 ? kEfaCqePhase : 0;
  if (c.is_receive) {
    flags |= kEfaRecvQueue << kEfaCqeQueueShift;
    if (c.status == IBV_WC_SUCCESS) {
      const bool write = c.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
      flags |= (write ? kEfaOpWrite : kEfaOpSend) << kEfaCqeOpShift;
      Put<uint16_t>(cqe, kEfaCqeLength, static_cast<uint16_t>(c.byte_len));
      if (write) Put<uint16_t>(cqe, kEfaCqeLengthHigh, static_cast<uint16_t>(c.byte_len >> 16));
      Put<uint16_t>(cqe, kEfaCqeAh, 0xffff);  // not one that this side has made
      Put<uint16_t>(cqe, kEfaCqeSrcQpn, static_cast<uint16_t>(c.src_qp));
      if (c.wc_flags & IBV_WC_WITH_IMM) {
        flags |= kEfaCqeHasImm;
        Put<uint32_t>(cqe, kEfaCqeImm, be32toh(c.imm));
      }
    }
  } else {
    flags |= kEfaSendQueue << kEfaCqeQueueShift;
    flags |= OperationCode(native.op) << kEfaCqeOpShift;
  }
  cqe[kEfaCqeFlags] = flags;
  uint8_t* at = q.base + (size_t{lane} * q.entries + (written & (q.entries - 1))) * q.stride;
  std::memcpy(at, cqe, kEfaCqeFlags);
  std::memcpy(at + kEfaCqeFlags + 1, cqe + kEfaCqeFlags + 1, q.stride - kEfaCqeFlags - 1);
  __atomic_store_n(at + kEfaCqeFlags, flags, __ATOMIC_RELEASE);
  ++written;
  ++q.next;
  return true;
}

}  // namespace

std::unique_ptr<DeviceModel> MakeEfaModelOf(uint32_t max_inline) {
  return std::make_unique<EfaModel>(max_inline);
}

std::unique_ptr<DeviceModel> MakeEfaModel() {
  // Older libraries know one size of WQE and trust the kernel module to refuse more.
  const bool wide = std::atoi(RDMA_CORE_VERSION) >= 62;
  return MakeEfaModelOf(wide ? kEfaInlineMax128 : kEfaInlineMax);
}

}  // namespace qpexam::hosted
