#include "harness/hosted/bnxt_re/bnxt_re_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/hosted/bnxt_re/bnxt_re_layout.h"
#include "harness/hosted/bytes.h"

namespace qpexam::hosted {
namespace {

using model::Operation;

// Which Queue::note holds what.
enum Note {
  // Work queues: what a CQE names the QP by.
  kHandleLow = 0,
  kHandleHigh = 1,
  kState = 2,
  kMaxWqes = 3,  // that a consumer index counts to
  // Send queues.
  kWqes = 4,   // decoded since RESET
  kPsn = 5,    // of the next packet
  kMtu = 6,    // bytes
  kTable = 7,  // entries in the table behind the ring
  kMessages = 8,
  // CQ: free-running, and the index of the last doorbell.
  kConsumed = 0,
  kConsumedIndex = 1,
};
// Bits of note[kState].
enum State : uint32_t {
  kEpochKnown = 1 << 0,
  kEpoch = 1 << 1,  // of an even lap
  kTerminated = 1 << 2,
  kTableUnknown = 1 << 3,
};

constexpr uint64_t kDoorbellPage = 0x1000;
constexpr uint32_t kMaxCqDepth = 65535;
constexpr uint32_t kNoIndex = 0xffff;
constexpr uint8_t kStatusNone = 0x7f;  // that the library has no name for

constexpr model::QpTypeMask kTypes = static_cast<model::QpTypeMask>(
    model::MaskOf(model::QpType::kRc) | model::MaskOf(model::QpType::kUd));

// What differs between the chips.
struct Chip {
  uint16_t number;
  bool variable;  // WQE mode
  bool msn_table;
  int max_sge;
};
constexpr Chip kThor = {0x1750, false, false, kBnxtStaticSges};
constexpr Chip kThor2 = {0x1760, true, true, 13};

uint8_t RequesterStatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return kBnxtReqOk;
    case IBV_WC_BAD_RESP_ERR:
      return kBnxtReqBadResp;
    case IBV_WC_LOC_LEN_ERR:
      return kBnxtReqLocLen;
    case IBV_WC_LOC_QP_OP_ERR:
      return kBnxtReqLocQpOp;
    case IBV_WC_LOC_PROT_ERR:
      return kBnxtReqProt;
    case IBV_WC_MW_BIND_ERR:
      return kBnxtReqMemOp;
    case IBV_WC_REM_INV_REQ_ERR:
      return kBnxtReqRemInval;
    case IBV_WC_REM_ACCESS_ERR:
      return kBnxtReqRemAccess;
    case IBV_WC_REM_OP_ERR:
      return kBnxtReqRemOp;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return kBnxtReqRnr;
    case IBV_WC_RETRY_EXC_ERR:
      return kBnxtReqTransport;
    case IBV_WC_WR_FLUSH_ERR:
      return kBnxtReqFlush;
    default:
      return kStatusNone;
  }
}

uint8_t ResponderStatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return kBnxtRspOk;
    case IBV_WC_LOC_ACCESS_ERR:
      return kBnxtRspLocAccess;
    case IBV_WC_LOC_LEN_ERR:
      return kBnxtRspLocLen;
    case IBV_WC_LOC_PROT_ERR:
      return kBnxtRspLocProt;
    case IBV_WC_LOC_QP_OP_ERR:
      return kBnxtRspLocQpOp;
    case IBV_WC_MW_BIND_ERR:
      return kBnxtRspMemOp;
    case IBV_WC_REM_INV_REQ_ERR:
      return kBnxtRspRemInval;
    case IBV_WC_WR_FLUSH_ERR:
      return kBnxtRspFlush;
    default:
      return kStatusNone;
  }
}

bool OperationOf(uint32_t opcode, Operation* op) {
  switch (opcode) {
    case kBnxtOpSend:
      *op = Operation::kSend;
      return true;
    case kBnxtOpSendImm:
      *op = Operation::kSendWithImm;
      return true;
    case kBnxtOpSendInv:
      *op = Operation::kSendWithInv;
      return true;
    case kBnxtOpWrite:
      *op = Operation::kRdmaWrite;
      return true;
    case kBnxtOpWriteImm:
      *op = Operation::kRdmaWriteWithImm;
      return true;
    case kBnxtOpRead:
      *op = Operation::kRdmaRead;
      return true;
    case kBnxtOpCas:
      *op = Operation::kAtomicCmpAndSwp;
      return true;
    case kBnxtOpFadd:
      *op = Operation::kAtomicFetchAndAdd;
      return true;
    default:
      return false;
  }
}

void SetHandle(Queue* q, uint64_t handle) {
  q->note[kHandleLow] = static_cast<uint32_t>(handle);
  q->note[kHandleHigh] = static_cast<uint32_t>(handle >> 32);
}
uint64_t HandleOf(const Queue& q) {
  return q.note[kHandleLow] | uint64_t{q.note[kHandleHigh]} << 32;
}

// A ring's 16-byte slot, counted from any other.
const uint8_t* SlotAt(const Queue& q, uint32_t slot) {
  return q.base + size_t{slot % static_cast<uint32_t>(q.size / kBnxtSlot)} * kBnxtSlot;
}

model::Sge SgeAt(const uint8_t* at) {
  return {Get<uint64_t>(at, kBnxtSgeAddr), Get<uint32_t>(at, kBnxtSgeLength),
          model::Lkey(Get<uint32_t>(at, kBnxtSgeKey))};
}

class BnxtReModel : public DeviceModel {
 public:
  explicit BnxtReModel(const Chip& chip);
  const DeviceTraits& traits() const override { return traits_; }
  Reply Answer(const Command& command, Bytes in, MutBytes out) override;
  // The shared page, and the doorbells.
  Mapping MapDevicePage(uint64_t offset, size_t size, SharedMemory& memory) override {
    const bool exists = offset == 0 || offset == kDoorbellPage;
    return exists && size <= kBnxtPage ? memory.Allocate(size) : Mapping();
  }
  std::optional<Doorbell> OnWrite(const Mapping& region, uint64_t offset, Bytes stored) override;
  Visibility DecodeSend(Queue& q, DecodedSend* out) override;
  Visibility DecodeReceive(Queue& q, DecodedReceive* out) override;
  void Express(NativeCompletion* native) const override;
  bool Encode(CqFacts& cq, const NativeCompletion& native) override;
  void Reset(QpFacts& qp) override;

 private:
  Reply GetContext(Bytes in, MutBytes out);
  Reply CreateCq(const Command& command, Bytes in, MutBytes out);
  Reply ResizeCq(const Command& command, Bytes in);
  Reply CreateSrq(const Command& command, Bytes in, MutBytes out);
  Reply CreateQp(const Command& command, Bytes in, MutBytes out);
  static void ModifyQp(const Command& command);
  static bool IsFull(Queue* cq);
  static void Write(Queue* q, const uint8_t* cqe, uint32_t type, uint32_t status, uint32_t flags);
  void CheckTable(Queue* q, uint64_t length, DecodedSend* out) const;
  uint32_t Covered(Queue* q, std::string* wrong) const;
  // What a queue of so many entries has.
  uint32_t Depth(uint32_t entries) const { return rounds_ ? RoundUpToPowerOf2(entries) : entries; }

  const Chip chip_;
  DeviceTraits traits_;
  // The library is one from before it could ask for queues of any depth. It knows no epochs either.
  bool rounds_ = false;
};

BnxtReModel::BnxtReModel(const Chip& chip) : chip_(chip) {
  traits_ = {
      "bnxt_re",
      "bnxt_re",
      // The PCI identity only finds the library; which chip it is the context says.
      "pci:v000014E4d00001750sv000014E4sd00001750bc02sc00i00",
      1,
      {},
      kTypes,
      IBV_LINK_LAYER_ETHERNET,
      kBnxtMaxInline,
  };
  traits_.qp_number_bits = 20;
  traits_.library_flushes = true;
  ibv_device_attr& a = traits_.attr;
  a.vendor_id = 0x14e4;
  a.vendor_part_id = chip.number;
  a.max_mr_size = uint64_t{1} << 39;
  a.page_size_cap = 0x40201000;
  a.max_qp = 65536;
  a.max_qp_wr = 4000;  // so that 16 bits number the slots of any ring
  a.max_sge = chip.max_sge;
  a.max_sge_rd = chip.max_sge;
  a.max_cq = 65536;
  a.max_cqe = kMaxCqDepth;
  a.max_mr = 1 << 18;
  a.max_pd = 1 << 16;
  a.max_qp_rd_atom = 126;
  a.max_res_rd_atom = 126;
  a.max_qp_init_rd_atom = 126;
  a.atomic_cap = IBV_ATOMIC_HCA;
  a.max_ah = 65535;
  a.max_srq = 4096;
  a.max_srq_wr = 4000;
  a.max_srq_sge = kBnxtStaticSges;
  a.max_pkeys = 1;
  a.local_ca_ack_delay = 16;
  a.phys_port_cnt = 1;
}

// --- Commands ------------------------------------------------------------------------------------

Reply BnxtReModel::Answer(const Command& command, Bytes in, MutBytes out) {
  switch (command.kind) {
    case Command::Kind::kGetContext:
      return GetContext(in, out);
    case Command::Kind::kAllocPd: {
      uint8_t r[kBnxtPdRespSize] = {};
      Put<uint32_t>(r, kBnxtPdNumber, command.pd);
      Put<uint32_t>(r, kBnxtPdDpi, 1);
      Put<uint64_t>(r, kBnxtPdDoorbells, kDoorbellPage);
      return Respond(out, r, sizeof r);
    }
    case Command::Kind::kCreateAh: {
      const Mapping shared = command.memory->Mapped(0);
      if (shared.data == nullptr) return Error(EINVAL);
      Put<uint32_t>(shared.data, kBnxtSharedAvid, command.ah->number);
      return Reply();
    }
    case Command::Kind::kCreateCq:
      return CreateCq(command, in, out);
    case Command::Kind::kResizeCq:
      return ResizeCq(command, in);
    case Command::Kind::kCreateSrq:
      return CreateSrq(command, in, out);
    case Command::Kind::kModifySrq:
      return command.attr_mask & IBV_SRQ_MAX_WR ? Error(EINVAL) : Reply();
    case Command::Kind::kCreateQp:
      return CreateQp(command, in, out);
    case Command::Kind::kModifyQp:
      ModifyQp(command);
      return Reply();
    case Command::Kind::kAllocMw:
      return Error(EOPNOTSUPP);
    default:
      return Reply();
  }
}

Reply BnxtReModel::GetContext(Bytes in, MutBytes out) {
  rounds_ = (Read<uint64_t>(in, kBnxtCtxReqMask) & kBnxtReqPow2Disabled) == 0;
  uint8_t r[kBnxtCtxRespSize] = {};
  Put<uint32_t>(r, kBnxtCtxMaxQp, static_cast<uint32_t>(traits_.attr.max_qp));
  Put<uint32_t>(r, kBnxtCtxPageSize, kBnxtPage);
  Put<uint32_t>(r, kBnxtCtxCqeSize, kBnxtCqeSize);
  Put<uint32_t>(r, kBnxtCtxMaxCqDepth, kMaxCqDepth);
  uint64_t mask = kBnxtHasChip | kBnxtHasMode | kBnxtPow2Disabled;
  if (chip_.msn_table) mask |= kBnxtHasMsnTable;
  Put<uint64_t>(r, kBnxtCtxMask, mask);
  Put<uint32_t>(r, kBnxtCtxChip, chip_.number);
  Put<uint32_t>(r, kBnxtCtxMode, chip_.variable ? kBnxtModeVariable : kBnxtModeStatic);
  return Respond(out, r, sizeof r);
}

Reply BnxtReModel::CreateCq(const Command& command, Bytes in, MutBytes out) {
  CqFacts& cq = *command.cq;
  Queue& q = cq.queue;
  q.kind = Queue::Kind::kCompletion;
  q.entries = std::min(Depth(cq.cqe + 1), kMaxCqDepth + 1);
  q.stride = kBnxtCqeSize;
  q.base = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kBnxtCqRing));
  q.size = size_t{q.entries} * q.stride;
  uint8_t r[kBnxtCqRespSize] = {};
  Put<uint32_t>(r, kBnxtCqNumber, cq.number);
  Put<uint32_t>(r, kBnxtCqPhase, 1);
  return Respond(out, r, sizeof r);
}

// The last CQE of the old ring says that the next is in the new one.
Reply BnxtReModel::ResizeCq(const Command& command, Bytes in) {
  CqFacts& cq = *command.cq;
  Queue& q = cq.queue;
  if (IsFull(&q)) return Error(EBUSY);
  const uint8_t cqe[kBnxtCqeSize] = {};
  Write(&q, cqe, kBnxtCqeCutOff, 0, 0);
  q.entries = std::min(Depth(cq.cqe + 1), kMaxCqDepth + 1);
  q.base = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kBnxtCqRing));
  q.size = size_t{q.entries} * q.stride;
  q.next = q.doorbell = q.note[kConsumed] = q.note[kConsumedIndex] = 0;
  return Reply();
}

Reply BnxtReModel::CreateSrq(const Command& command, Bytes in, MutBytes out) {
  SrqFacts& srq = *command.srq;
  Queue& q = srq.queue;
  q.kind = Queue::Kind::kShared;
  q.entries = Depth(srq.attr.max_wr + 1);
  q.max_sge = kBnxtStaticSges;
  q.stride = kBnxtStaticSlots * kBnxtSlot;
  q.base = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kBnxtSrqRing));
  q.size = size_t{q.entries} * q.stride;
  uint8_t r[kBnxtSrqRespSize] = {};
  Put<uint32_t>(r, kBnxtSrqNumber, srq.number);
  return Respond(out, r, sizeof r);
}

Reply BnxtReModel::CreateQp(const Command& command, Bytes in, MutBytes out) {
  QpFacts& qp = *command.qp;
  const auto handle = Read<uint64_t>(in, kBnxtQpHandle);
  Queue& sq = qp.sq;
  sq.kind = Queue::Kind::kSend;
  sq.base = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kBnxtQpSendRing));
  sq.max_sge = qp.cap.max_send_sge;
  sq.max_inline = qp.cap.max_inline_data;
  sq.lane = 2 * qp.number;
  SetHandle(&sq, handle);
  const uint32_t wqes = Depth(qp.cap.max_send_wr + 1 + kBnxtReservedWqes);
  if (chip_.variable) {
    sq.stride = kBnxtSlot;
    sq.entries = Read<uint32_t>(in, kBnxtQpSendSlots);
    if (sq.entries < wqes * kBnxtHeaderSlots || sq.entries > 0xffff) return Error(EINVAL);
  } else {
    sq.stride = kBnxtStaticSlots * kBnxtSlot;
    sq.entries = wqes;
  }
  sq.size = size_t{sq.entries} * sq.stride;
  sq.note[kMaxWqes] = sq.entries;
  // By message as many as there can be with the least slots; by WQE one each.
  sq.note[kTable] =
      chip_.msn_table ? RoundUpToPowerOf2(sq.entries) / (chip_.variable ? 2 : 1) : sq.entries;
  if (auto* ring = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kBnxtQpReceiveRing))) {
    Queue& rq = qp.rq;
    rq.kind = Queue::Kind::kReceive;
    rq.base = ring;
    rq.max_sge = chip_.variable ? qp.cap.max_recv_sge : uint32_t{kBnxtStaticSges};
    rq.entries = Depth(qp.cap.max_recv_wr + 1);
    rq.stride = (kBnxtHeaderSlots + rq.max_sge) * kBnxtSlot;
    rq.size = size_t{rq.entries} * rq.stride;
    rq.lane = 2 * qp.number + 1;
    rq.note[kMaxWqes] = rq.entries;
    SetHandle(&rq, handle);
  }
  Reset(qp);
  sq.note[kState] &= ~uint32_t{kTableUnknown};
  uint8_t r[kBnxtQpRespSize] = {};
  Put<uint32_t>(r, kBnxtQpNumber, qp.number);
  return Respond(out, r, sizeof r);
}

void BnxtReModel::ModifyQp(const Command& command) {
  Queue& sq = command.qp->sq;
  if (command.attr_mask & IBV_QP_SQ_PSN) sq.note[kPsn] = command.attr->sq_psn & kBnxtPsnMask;
  if (command.attr_mask & IBV_QP_PATH_MTU) sq.note[kMtu] = 128u << command.attr->path_mtu;
}

void BnxtReModel::Reset(QpFacts& qp) {
  for (Queue* q : {&qp.sq, &qp.rq}) {
    q->next = q->doorbell = 0;
    q->note[kState] = 0;
  }
  qp.sq.note[kWqes] = qp.sq.note[kMessages] = 0;
  // Where the library goes on in a table by message after a RESET is its own.
  qp.sq.note[kState] = kTableUnknown;
}

// --- Doorbells -----------------------------------------------------------------------------------

std::optional<Doorbell> BnxtReModel::OnWrite(const Mapping& region, uint64_t offset, Bytes stored) {
  if (region.offset != kDoorbellPage || offset != 0 || stored.size < 8) return {};
  const auto what = Get<uint32_t>(stored.data, kBnxtDbWhat);
  // A BCM57508 asks for no valid bit: the libraries of its time (44.0) write none.
  if (chip_.variable && !(what >> kBnxtDbValidShift & 1)) return {};
  Doorbell bell;
  bell.number = what & kBnxtDbQidMask;
  bell.value =
      Get<uint32_t>(stored.data, kBnxtDbIndex) & (kBnxtDbIndexMask | 1u << kBnxtDbEpochShift);
  switch (what >> kBnxtDbTypeShift & kBnxtDbTypeMask) {
    case kBnxtDbSq:
      bell.kind = Doorbell::Kind::kSend;
      return bell;
    case kBnxtDbRq:
      bell.kind = Doorbell::Kind::kReceive;
      return bell;
    case kBnxtDbSrq:
      bell.kind = Doorbell::Kind::kShared;
      return bell;
    case kBnxtDbCq:
      bell.kind = Doorbell::Kind::kCqConsumer;
      return bell;
    case kBnxtDbCqArmSolicited:
      bell.kind = Doorbell::Kind::kArmCq;
      bell.arm = CqFacts::Arm::kSolicited;
      return bell;
    case kBnxtDbCqArmAll:
      bell.kind = Doorbell::Kind::kArmCq;
      bell.arm = CqFacts::Arm::kAny;
      return bell;
    default:
      return {};  // arming an SRQ: the limit came with MODIFY_SRQ
  }
}

// How many entries the last doorbell covers. Its epoch turns with each lap; where it began after
// RESET is the library's.
uint32_t BnxtReModel::Covered(Queue* q, std::string* wrong) const {
  const uint32_t index = q->doorbell & kBnxtDbIndexMask;
  if (index >= q->entries) {
    *wrong = fmt::format("a doorbell for entry {} of {}", index, q->entries);
    return 0;
  }
  const uint32_t covered = (index + q->entries - q->next % q->entries) % q->entries;
  if (covered == 0) return 0;
  const uint32_t lap = (q->next + covered) / q->entries & 1;
  const uint32_t epoch = (q->doorbell >> kBnxtDbEpochShift & 1) ^ lap;
  uint32_t& state = q->note[kState];
  if (!rounds_ && state & kEpochKnown && epoch != ((state & kEpoch) != 0 ? 1u : 0u)) {
    *wrong = "the epoch of the doorbell is that of another lap of the ring";
  }
  state = (state & ~uint32_t{kEpoch}) | kEpochKnown | (epoch != 0 ? kEpoch : 0u);
  return covered;
}

// --- Decoding ------------------------------------------------------------------------------------

// What the device looks up to send a request again: where it begins in the ring and which packets
// it has.
void BnxtReModel::CheckTable(Queue* q, uint64_t length, DecodedSend* out) const {
  const uint32_t mtu = std::max<uint32_t>(q->note[kMtu], 1);
  const auto packets = static_cast<uint32_t>(length == 0 ? 1 : (length + mtu - 1) / mtu);
  const uint32_t start = q->note[kPsn];
  const uint32_t end = (start + packets) & kBnxtPsnMask;
  q->note[kPsn] = end;
  const uint32_t message = q->note[kMessages]++;
  if (q->note[kState] & kTableUnknown && chip_.msn_table) return;
  const uint32_t index = (chip_.msn_table ? message : q->next) % q->note[kTable];
  const uint8_t* table = q->base + q->size;
  uint32_t has_start, has_end;
  std::string where;
  if (chip_.msn_table) {
    const auto entry = Get<uint64_t>(table, size_t{index} * kBnxtMsnsSize);
    has_start = static_cast<uint32_t>(entry & kBnxtPsnMask);
    has_end = static_cast<uint32_t>(entry >> kBnxtMsnsNextShift & kBnxtPsnMask);
    const auto slot = static_cast<uint32_t>(entry >> kBnxtMsnsSlotShift);
    if (slot != q->next % q->entries) {
      where = fmt::format("slot {} for the request in slot {}", slot, q->next % q->entries);
    }
  } else {
    const uint8_t* entry = table + size_t{index} * kBnxtPsnsSize;
    has_start = Get<uint32_t>(entry, kBnxtPsnsStart) & kBnxtPsnMask;
    has_end = Get<uint32_t>(entry, kBnxtPsnsNext) & kBnxtPsnMask;
  }
  if (has_start != start || has_end != end) {
    if (!where.empty()) where += ", and ";
    where += fmt::format("packets {} to {} for {} to {}", has_start, has_end, start, end);
  }
  if (!where.empty()) {
    out->complaints.push_back(fmt::format("the table of what to send again has {}", where));
  }
}

Visibility BnxtReModel::DecodeSend(Queue& q, DecodedSend* out) {
  if (!q.exists()) return Visibility::kNotYet;
  std::string wrong;
  const uint32_t covered = Covered(&q, &wrong);
  if (covered == 0) return Visibility::kNotYet;
  out->Clear();
  if (!wrong.empty()) out->complaints.push_back(wrong);
  out->native_index = q.note[kWqes]++;
  const uint32_t first = q.next % q.entries * (q.stride / kBnxtSlot);
  const uint8_t* wqe = SlotAt(q, first);
  const uint8_t* second = SlotAt(q, first + 1);
  const auto word = Get<uint32_t>(wqe, kBnxtWqeWord);
  const uint32_t slots = word >> kBnxtWqeSlotsShift & 0xff;
  out->raw = Bytes{wqe, std::min<size_t>(std::max<uint32_t>(slots, kBnxtHeaderSlots) * kBnxtSlot,
                                         q.base + q.size - wqe)};
  auto malformed = [&](std::string what) {
    out->complaints.push_back(std::move(what));
    return Visibility::kMalformed;
  };
  // Behind a request of no size the device finds no other: what was handed over with it is lost.
  if (chip_.variable) out->slots = slots < kBnxtHeaderSlots || slots > covered ? covered : slots;
  if (word >> 24 != 0) return malformed(fmt::format("reserved bits {:#x}", word >> 24));
  if (slots < kBnxtHeaderSlots || (chip_.variable ? slots > covered : slots > kBnxtStaticSlots)) {
    return malformed(fmt::format("a WQE of {} slots, where {} were handed over", slots,
                                 chip_.variable ? covered : uint32_t{kBnxtStaticSlots}));
  }
  model::SendRequest& r = out->request;
  const uint32_t opcode = word & 0xff;
  const uint32_t flags = word >> kBnxtWqeFlagsShift & 0xff;
  const bool datagram = q.type == model::QpType::kUd;
  if (!OperationOf(opcode, &r.op) ||
      (datagram && opcode != kBnxtOpSend && opcode != kBnxtOpSendImm)) {
    return malformed(fmt::format("opcode {:#x}", opcode));
  }
  if (flags & kBnxtFlagSignaled) r.flags |= IBV_SEND_SIGNALED;
  if (flags & kBnxtFlagSolicited) r.flags |= IBV_SEND_SOLICITED;
  if (flags & (kBnxtFlagFence | kBnxtFlagReadFence)) r.flags |= IBV_SEND_FENCE;
  const auto key_or_imm = Get<uint32_t>(wqe, kBnxtWqeKeyOrImm);
  const bool atomic = opcode == kBnxtOpCas || opcode == kBnxtOpFadd;
  if (opcode == kBnxtOpSendImm || opcode == kBnxtOpWriteImm) r.imm = htobe32(key_or_imm);
  if (opcode == kBnxtOpSendInv) r.rkey = model::Rkey(key_or_imm);
  uint64_t length = Get<uint32_t>(wqe, kBnxtWqeLength);
  if (datagram) {
    r.remote_qkey = model::Qkey(Get<uint32_t>(wqe, kBnxtWqeQkey));
    r.remote_qpn = model::QpNum(Get<uint32_t>(second, kBnxtUdQpn - kBnxtSlot));
    out->ah_number = Get<uint32_t>(second, kBnxtUdAvid - kBnxtSlot) & kBnxtUdAvidMask;
  } else if (atomic) {
    length = 8;
    r.rkey = model::Rkey(key_or_imm);
    r.remote_addr = model::RemoteAddr(Get<uint64_t>(wqe, kBnxtWqeAtomicAddr));
    const auto swap_add = Get<uint64_t>(second, kBnxtAtomicSwapAdd - kBnxtSlot);
    if (opcode == kBnxtOpCas) {
      r.compare_or_add = Get<uint64_t>(second, kBnxtAtomicCompare - kBnxtSlot);
      r.swap = swap_add;
    } else {
      r.compare_or_add = swap_add;
    }
  } else if (model::Info(r.op).takes_rkey) {
    r.rkey = model::Rkey(Get<uint32_t>(second, kBnxtRdmaKey - kBnxtSlot));
    r.remote_addr = model::RemoteAddr(Get<uint64_t>(second, kBnxtRdmaAddr - kBnxtSlot));
  }
  const uint32_t payload = slots - kBnxtHeaderSlots;
  if (flags & kBnxtFlagInline) {
    r.data = model::DataKind::kInline;
    if (model::Info(r.op).data != model::DataRule::kSgeOrInline) {
      return malformed("inline data for an operation that returns data");
    }
    if ((length + kBnxtSlot - 1) / kBnxtSlot != payload) {
      return malformed(fmt::format("{} bytes of inline data in {} slots", length, payload));
    }
    for (uint32_t done = 0; done < length; done += kBnxtSlot) {
      const uint8_t* at = SlotAt(q, first + kBnxtHeaderSlots + done / kBnxtSlot);
      out->inline_data.insert(out->inline_data.end(), at,
                              at + std::min<uint64_t>(kBnxtSlot, length - done));
    }
  } else {
    r.data = model::DataKind::kSge;
    uint64_t total = 0;
    for (uint32_t i = 0; i < payload; ++i) {
      out->sge.push_back(SgeAt(SlotAt(q, first + kBnxtHeaderSlots + i)));
      total += out->sge.back().length;
    }
    if (!atomic && static_cast<uint32_t>(total) != length) {
      out->complaints.push_back(
          fmt::format("the header says {} bytes, the SGEs have {}", length, total));
    }
  }
  if (!datagram) CheckTable(&q, length, out);
  return Visibility::kRequest;
}

Visibility BnxtReModel::DecodeReceive(Queue& q, DecodedReceive* out) {
  if (!q.exists()) return Visibility::kNotYet;
  std::string wrong;
  if (Covered(&q, &wrong) == 0) return Visibility::kNotYet;
  out->Clear();
  if (!wrong.empty()) out->complaints.push_back(wrong);
  const uint8_t* wqe = q.base + size_t{q.next % q.entries} * q.stride;
  out->raw = Bytes{wqe, q.stride};
  out->native_index = Get<uint32_t>(wqe, kBnxtRecvWrId);
  const auto word = Get<uint32_t>(wqe, kBnxtWqeWord);
  uint32_t slots = word >> kBnxtWqeSlotsShift & 0xff;
  if ((word & 0xff) != kBnxtOpReceive) {
    out->complaints.push_back(fmt::format("opcode {:#x}", word & 0xff));
  }
  if (slots < kBnxtHeaderSlots || slots > q.stride / kBnxtSlot) {
    out->complaints.push_back(
        fmt::format("a WQE of {} slots in a queue of {}", slots, q.stride / kBnxtSlot));
    slots = kBnxtHeaderSlots;
  }
  for (uint32_t i = kBnxtHeaderSlots; i < slots; ++i) {
    const model::Sge sge = SgeAt(wqe + size_t{i} * kBnxtSlot);
    if (sge.length != 0) out->sge.push_back(sge);
  }
  return Visibility::kRequest;
}

// --- Completions ---------------------------------------------------------------------------------

void BnxtReModel::Express(NativeCompletion* native) const {
  model::Completion& c = native->completion;
  const uint8_t status = c.is_receive ? ResponderStatusOf(c.status) : RequesterStatusOf(c.status);
  if (status == kStatusNone) c.status = IBV_WC_GENERAL_ERR;
}

bool BnxtReModel::IsFull(Queue* cq) {
  const uint32_t index = (cq->doorbell & kBnxtDbIndexMask) % cq->entries;
  cq->note[kConsumed] += (index + cq->entries - cq->note[kConsumedIndex]) % cq->entries;
  cq->note[kConsumedIndex] = index;
  return cq->next - cq->note[kConsumed] >= cq->entries;
}

void BnxtReModel::Write(Queue* q, const uint8_t* cqe, uint32_t type, uint32_t status,
                        uint32_t flags) {
  uint8_t* at = q->base + size_t{q->next % q->entries} * q->stride;
  std::memcpy(at, cqe, kBnxtCqeSize);
  const uint32_t phase = q->next / q->entries % 2 == 0 ? 1 : 0;
  StoreShared32(at + kBnxtCqeWord, phase | type << kBnxtCqeTypeShift |
                                       status << kBnxtCqeStatusShift | flags << kBnxtCqeFlagsShift);
  ++q->next;
}

bool BnxtReModel::Encode(CqFacts& cq, const NativeCompletion& native) {
  Queue& q = cq.queue;
  const model::Completion& c = native.completion;
  const bool send = !c.is_receive;
  const bool shared = native.srq != nullptr;
  const bool flushed = c.status == IBV_WC_WR_FLUSH_ERR && !shared;
  uint8_t cqe[kBnxtCqeSize] = {};
  Queue& of = send ? native.qp->sq : native.qp->rq;
  if (flushed && of.note[kState] & kTerminated) return true;  // the library knows that it flushes
  if (IsFull(&q)) return false;
  if (flushed) {
    // One for the QP, in each CQ that it has: the library completes what is left in its queues.
    of.note[kState] |= kTerminated;
    if (native.qp->send_cq == native.qp->recv_cq) {
      native.qp->sq.note[kState] |= kTerminated;
      native.qp->rq.note[kState] |= kTerminated;
    }
    Put<uint64_t>(cqe, kBnxtReqHandle, HandleOf(native.qp->sq));
    const uint32_t done = send ? native.native_index % of.note[kMaxWqes] : kNoIndex;
    Put<uint32_t>(cqe, kBnxtReqIndex, done | kNoIndex << 16);
    Write(&q, cqe, kBnxtCqeTerminal, 0, 0);
    return true;
  }
  if (send) {
    Put<uint64_t>(cqe, kBnxtReqHandle, HandleOf(native.qp->sq));
    Put<uint32_t>(cqe, kBnxtReqIndex, (native.native_index + 1) % of.note[kMaxWqes]);
    Write(&q, cqe, kBnxtCqeSend, RequesterStatusOf(c.status), 0);
    return true;
  }
  Put<uint64_t>(cqe, kBnxtRecvHandle, HandleOf(native.qp->sq));
  uint32_t who = native.native_index & kBnxtCqeRecvWrIdMask;
  uint32_t flags = shared ? kBnxtRecvFlagSrq : 0;
  const bool datagram = native.qp->type == model::QpType::kUd;
  if (c.status == IBV_WC_SUCCESS) {
    Put<uint32_t>(cqe, kBnxtRecvLength, datagram ? c.byte_len & kBnxtUdLengthMask : c.byte_len);
    if (c.wc_flags & IBV_WC_WITH_IMM) {
      flags |= kBnxtRecvFlagImm;
      Put<uint32_t>(cqe, kBnxtRecvImm, be32toh(c.imm));
    }
    if (c.wc_flags & IBV_WC_WITH_INV) {
      flags |= kBnxtRecvFlagInv;
      Put<uint32_t>(cqe, kBnxtRecvImm, c.invalidated.value);
    }
    if (c.opcode == IBV_WC_RECV_RDMA_WITH_IMM) flags |= kBnxtRecvFlagRdma;
    if (datagram) {
      flags |= kBnxtRecvFlagRoceV2Ipv6;
      Put<uint64_t>(cqe, kBnxtUdSource, uint64_t{c.src_qp & 0xffff} << kBnxtUdSourceQpShift);
      who |= (c.src_qp >> 16 & 0xff) << kBnxtCqeSrcQpShift;
    }
  }
  Put<uint32_t>(cqe, kBnxtCqeRecv, who);
  Write(&q, cqe, datagram ? kBnxtCqeRecvUd : kBnxtCqeRecvRc, ResponderStatusOf(c.status), flags);
  return true;
}

}  // namespace

std::unique_ptr<DeviceModel> MakeBnxtReModel() { return std::make_unique<BnxtReModel>(kThor2); }

std::unique_ptr<DeviceModel> MakeBnxtReStaticModel() {
  return std::make_unique<BnxtReModel>(kThor);
}

}  // namespace qpexam::hosted

// libbnxt_re gives back no device of ibv_get_device_list() (56.1 and 65.0 have no uninit_device);
// everything else that leaks is reported.
extern "C" const char* __lsan_default_suppressions() { return "leak:bnxt_re_device_alloc\n"; }
