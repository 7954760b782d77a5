#include "harness/hosted/hns/hns_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/hosted/bytes.h"
#include "harness/hosted/hns/hns_layout.h"

namespace qpexam::hosted {
namespace {

using model::Operation;

// Which Queue::note holds what.
enum Note {
  kExtendedSges = 0,   // send queue: slots of the extended SGE space, which lies behind the ring
  kIndexQueueLow = 0,  // SRQ: address of the queue of indices
  kIndexQueueHigh = 1,
};

constexpr uint32_t kQpTableSize = 1 << 18;
constexpr uint32_t kMaxInline = 1024;
constexpr uint32_t kHardwareVersion = 0x130;  // HIP09

// A field between two bits of one 32-bit word.
uint32_t Field(const uint8_t* base, uint32_t high, uint32_t low) {
  const uint32_t word = Get<uint32_t>(base, low / 32 * 4);
  return static_cast<uint32_t>(uint64_t{word} >> low % 32 &
                               ((uint64_t{1} << (high - low + 1)) - 1));
}
void PutField(uint8_t* base, uint32_t high, uint32_t low, uint32_t value) {
  const auto mask = static_cast<uint32_t>((uint64_t{1} << (high - low + 1)) - 1);
  const uint32_t word = Get<uint32_t>(base, low / 32 * 4) & ~(mask << low % 32);
  Put<uint32_t>(base, low / 32 * 4, word | (value & mask) << low % 32);
}

uint32_t AlignPage(uint32_t bytes) { return (bytes + kHnsPage - 1) & ~uint32_t{kHnsPage - 1}; }

uint8_t StatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return 0x00;
    case IBV_WC_LOC_LEN_ERR:
      return 0x01;
    case IBV_WC_LOC_QP_OP_ERR:
      return 0x02;
    case IBV_WC_LOC_PROT_ERR:
      return 0x04;
    case IBV_WC_WR_FLUSH_ERR:
      return 0x05;
    case IBV_WC_MW_BIND_ERR:
      return 0x06;
    case IBV_WC_BAD_RESP_ERR:
      return 0x10;
    case IBV_WC_LOC_ACCESS_ERR:
      return 0x11;
    case IBV_WC_REM_INV_REQ_ERR:
      return 0x12;
    case IBV_WC_REM_ACCESS_ERR:
      return 0x13;
    case IBV_WC_REM_OP_ERR:
      return 0x14;
    case IBV_WC_RETRY_EXC_ERR:
      return 0x15;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return 0x16;
    case IBV_WC_REM_ABORT_ERR:
      return 0x22;
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return 0x24;
    default:
      return 0x23;
  }
}

uint32_t OpcodeOf(Operation op) {
  switch (op) {
    case Operation::kSendWithInv:
      return kHnsOpSendInv;
    case Operation::kSendWithImm:
      return kHnsOpSendImm;
    case Operation::kRdmaWrite:
      return kHnsOpWrite;
    case Operation::kRdmaWriteWithImm:
      return kHnsOpWriteImm;
    case Operation::kRdmaRead:
      return kHnsOpRead;
    case Operation::kAtomicCmpAndSwp:
      return kHnsOpCas;
    case Operation::kAtomicFetchAndAdd:
      return kHnsOpFadd;
    default:
      return kHnsOpSend;
  }
}

constexpr Operation kOperations[] = {
    Operation::kSend,
    Operation::kSendWithInv,
    Operation::kSendWithImm,
    Operation::kRdmaWrite,
    Operation::kRdmaWriteWithImm,
    Operation::kRdmaRead,
    Operation::kAtomicCmpAndSwp,
    Operation::kAtomicFetchAndAdd,
};

model::Sge SgeAt(const uint8_t* at) {
  const uint32_t length = Get<uint32_t>(at, kHnsSgeLength);
  // A length of 0 means 2 GiB to the device.
  return {Get<uint64_t>(at, kHnsSgeAddr), length == 0 ? uint32_t{1} << 31 : length,
          model::Lkey(Get<uint32_t>(at, kHnsSgeKey))};
}

class HnsModel : public DeviceModel {
 public:
  HnsModel();
  const DeviceTraits& traits() const override { return traits_; }
  Reply Answer(const Command& command, Bytes in, MutBytes out) override;
  Mapping MapDevicePage(uint64_t offset, size_t size, SharedMemory& memory) override {
    return offset == 0 && size <= kHnsPage ? memory.Allocate(size) : Mapping();  // the UAR
  }
  std::optional<Doorbell> OnWrite(const Mapping& region, uint64_t offset, Bytes stored) override;
  Visibility DecodeSend(Queue& q, DecodedSend* out) override;
  Visibility DecodeReceive(Queue& q, DecodedReceive* out) override;
  bool Encode(CqFacts& cq, const NativeCompletion& native) override;
  void Reset(QpFacts& qp) override;

 private:
  Reply GetContext(MutBytes out);
  Reply CreateCq(const Command& command, Bytes in, MutBytes out);
  Reply CreateSrq(const Command& command, Bytes in, MutBytes out);
  Reply CreateQp(const Command& command, Bytes in, MutBytes out);
  static const uint8_t* ExtendedSge(const Queue& q, uint32_t index) {
    return q.base + AlignPage(static_cast<uint32_t>(q.size)) +
           size_t{index & (q.note[kExtendedSges] - 1)} * kHnsSgeSize;
  }
  static std::string ReadInline(const Queue& q, const uint8_t* wqe, uint32_t length,
                                std::vector<uint8_t>* data);

  DeviceTraits traits_;
};

HnsModel::HnsModel() {
  traits_ = {
      "hns",
      "hns_",
      "pci:v000019E5d0000A222sv000019E5sd0000A222bc02sc00i00",
      1,
      {},
      static_cast<model::QpTypeMask>(
          model::MaskOf(model::QpType::kRc) | model::MaskOf(model::QpType::kUd) |
          model::MaskOf(model::QpType::kXrcSend) | model::MaskOf(model::QpType::kXrcRecv)),
      IBV_LINK_LAYER_ETHERNET,
      kMaxInline,
  };
  traits_.qp_number_bits = 18;
  ibv_device_attr& a = traits_.attr;
  a.vendor_id = 0x19e5;
  a.vendor_part_id = 0xa222;
  a.hw_ver = kHardwareVersion;
  a.max_mr_size = ~uint64_t{0};
  a.page_size_cap = 0xfffff000;
  a.max_qp = kQpTableSize;
  a.max_qp_wr = 1 << 15;
  a.device_cap_flags = IBV_DEVICE_XRC;
  a.max_sge = 64;
  a.max_sge_rd = 64;
  a.max_cq = 1 << 16;
  a.max_cqe = 1 << 22;
  a.max_mr = 1 << 20;
  a.max_pd = 1 << 16;
  a.max_qp_rd_atom = 128;
  a.max_res_rd_atom = 1 << 21;
  a.max_qp_init_rd_atom = 128;
  a.atomic_cap = IBV_ATOMIC_HCA;
  a.max_ah = 0xffff;
  a.max_srq = 1 << 16;
  a.max_srq_wr = 1 << 15;
  a.max_srq_sge = 64;
  a.max_pkeys = 1;
  a.local_ca_ack_delay = 15;
  a.phys_port_cnt = 1;
}

// --- Commands ------------------------------------------------------------------------------------

Reply HnsModel::Answer(const Command& command, Bytes in, MutBytes out) {
  switch (command.kind) {
    case Command::Kind::kGetContext:
      return GetContext(out);
    case Command::Kind::kAllocPd: {
      uint8_t r[kHnsPdRespSize] = {};
      Put<uint32_t>(r, kHnsPdNumber, command.pd);
      return Respond(out, r, sizeof r);
    }
    case Command::Kind::kCreateAh: {
      // The address that the network would resolve: it names the handle.
      uint8_t r[kHnsAhRespSize] = {0x02};
      PutBe32(r, kHnsAhMac + 2, command.ah->number);
      return Respond(out, r, sizeof r);
    }
    case Command::Kind::kCreateCq:
      return CreateCq(command, in, out);
    case Command::Kind::kCreateSrq:
      return CreateSrq(command, in, out);
    case Command::Kind::kModifySrq:
      return command.attr_mask & IBV_SRQ_MAX_WR ? Error(EINVAL) : Reply();
    case Command::Kind::kCreateQp:
      return CreateQp(command, in, out);
    case Command::Kind::kAllocMw:
    case Command::Kind::kResizeCq:
      return Error(EOPNOTSUPP);
    default:
      return Reply();
  }
}

Reply HnsModel::GetContext(MutBytes out) {
  uint8_t r[kHnsCtxRespSize] = {};
  Put<uint32_t>(r, kHnsCtxQpTabSize, kQpTableSize);
  Put<uint32_t>(r, kHnsCtxCqeSize, kHnsCqeSize);
  Put<uint32_t>(r, kHnsCtxSrqTabSize, 1 << 16);
  Put<uint32_t>(r, kHnsCtxConfig, kHnsExtendedSge);
  Put<uint32_t>(r, kHnsCtxMaxInline, kMaxInline);
  return Respond(out, r, sizeof r);
}

Reply HnsModel::CreateCq(const Command& command, Bytes in, MutBytes out) {
  if (Read<uint32_t>(in, kHnsCqEntrySize) != kHnsCqeSize) return Error(EINVAL);
  CqFacts& cq = *command.cq;
  Queue& q = cq.queue;
  q.kind = Queue::Kind::kCompletion;
  q.entries = RoundUpToPowerOf2(cq.cqe);
  q.stride = kHnsCqeSize;
  q.base = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kHnsCqBuf));
  q.size = size_t{q.entries} * q.stride;
  q.doorbell_record = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kHnsCqDb));
  cq.cqe = q.entries - 1;  // the kernel module's way: the library takes it for a mask
  uint8_t r[kHnsCqRespSize] = {};
  Put<uint64_t>(r, kHnsCqNumber, cq.number);
  Put<uint64_t>(r, kHnsCqCaps, kHnsCqRecordDb);
  return Respond(out, r, sizeof r);
}

Reply HnsModel::CreateSrq(const Command& command, Bytes in, MutBytes out) {
  SrqFacts& srq = *command.srq;
  Queue& q = srq.queue;
  q.kind = Queue::Kind::kShared;
  q.entries = RoundUpToPowerOf2(srq.attr.max_wr);
  q.max_sge = RoundUpToPowerOf2(srq.attr.max_sge);
  q.stride = q.max_sge * kHnsSgeSize;
  q.base = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kHnsSrqBuf));
  q.size = size_t{q.entries} * q.stride;
  q.doorbell_record = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kHnsSrqDb));
  const auto indices = Read<uint64_t>(in, kHnsSrqQueue);
  q.note[kIndexQueueLow] = static_cast<uint32_t>(indices);
  q.note[kIndexQueueHigh] = static_cast<uint32_t>(indices >> 32);
  uint8_t r[kHnsSrqRespSize] = {};
  Put<uint32_t>(r, kHnsSrqNumber, srq.number);
  Put<uint32_t>(r, kHnsSrqCaps, kHnsSrqRecordDb);
  return Respond(out, r, sizeof r);
}

Reply HnsModel::CreateQp(const Command& command, Bytes in, MutBytes out) {
  QpFacts& qp = *command.qp;
  if (Read<uint64_t>(in, kHnsQpMask) != 0) return Error(EOPNOTSUPP);
  if (Read<uint8_t>(in, kHnsQpLogSqStride) != Log2(kHnsWqeSize)) return Error(EINVAL);
  auto* buffer = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kHnsQpBuf));
  uint8_t r[kHnsQpRespSize] = {};
  Queue& sq = qp.sq;
  sq.kind = Queue::Kind::kSend;
  sq.base = buffer;
  sq.entries = uint32_t{1} << Read<uint8_t>(in, kHnsQpLogSqCount);
  sq.stride = kHnsWqeSize;
  sq.size = size_t{sq.entries} * sq.stride;
  sq.max_sge = qp.cap.max_send_sge;
  sq.max_inline = qp.cap.max_inline_data;
  // As many extended SGEs as the kernel module counts for these capacities.
  const bool datagram = qp.type == model::QpType::kUd;
  const uint32_t in_wqe = datagram ? 0 : kHnsSgesInWqe;
  uint32_t extended = sq.max_sge > in_wqe ? sq.max_sge - in_wqe : datagram ? 1 : 0;
  uint32_t for_inline = sq.max_inline / kHnsSgeSize;
  if (!datagram && for_inline <= kHnsSgesInWqe) for_inline = 0;
  extended = std::max(extended, for_inline);
  if (extended != 0) {
    extended = RoundUpToPowerOf2(extended);
    sq.note[kExtendedSges] =
        std::max<uint32_t>(RoundUpToPowerOf2(sq.entries * extended), kHnsPage / kHnsSgeSize);
  }
  qp.cap.max_send_sge = std::min<uint32_t>(extended + in_wqe, traits_.attr.max_sge);
  const Mapping page = command.memory->AllocateDevicePages(kHnsDirectPageSize, qp.number);
  sq.doorbell_record = page.data;
  uint32_t caps = kHnsQpSqRecordDb | kHnsQpDirectWqe;
  if (qp.cap.max_recv_wr != 0) {
    Queue& rq = qp.rq;
    rq.kind = Queue::Kind::kReceive;
    rq.base = buffer + AlignPage(static_cast<uint32_t>(sq.size)) +
              AlignPage(sq.note[kExtendedSges] * kHnsSgeSize);
    rq.entries = RoundUpToPowerOf2(qp.cap.max_recv_wr);
    rq.max_sge = RoundUpToPowerOf2(qp.cap.max_recv_sge);
    rq.stride = rq.max_sge * kHnsSgeSize;
    rq.size = size_t{rq.entries} * rq.stride;
    rq.doorbell_record = reinterpret_cast<uint8_t*>(Read<uint64_t>(in, kHnsQpDb));
    caps |= kHnsQpRqRecordDb;
  }
  Reset(qp);
  Put<uint64_t>(r, kHnsQpCaps, caps);
  Put<uint64_t>(r, kHnsQpDirectKey, page.offset);
  return Respond(out, r, sizeof r);
}

void HnsModel::Reset(QpFacts& qp) {
  qp.sq.next = qp.rq.next = 0;
  if (qp.sq.doorbell_record != nullptr) std::memset(qp.sq.doorbell_record, 0, kHnsWqeSize);
}

// --- Doorbells -----------------------------------------------------------------------------------

// Of what a processor stores at once.
constexpr size_t kLargestPiece = 16;

std::optional<Doorbell> HnsModel::OnWrite(const Mapping& region, uint64_t offset, Bytes stored) {
  if (stored.size < 8) return {};
  Doorbell bell;
  if (region.owner != 0) {
    // A QP's own page: a doorbell, or a WQE that is one: in one store, of the bytes that the
    // library names, or in pieces of the 64 that its processor copies. The page keeps it for
    // DecodeSend().
    const bool direct = Field(region.data, HNS_WQE_FLAG) != 0;
    const bool piece = direct && stored.size <= kLargestPiece;
    if (piece ? offset + stored.size != kHnsWqeSize : offset != 0) return {};
    bell.kind = Doorbell::Kind::kSend;
    bell.number = region.owner;
    return bell;
  }
  if (offset != kHnsUarDoorbell) return {};
  if (Field(stored.data, HNS_DB_CMD) != kHnsDbCqNotify) return {};
  bell.kind = Doorbell::Kind::kArmCq;
  bell.number = Field(stored.data, HNS_DB_TAG);
  bell.arm = Field(stored.data, HNS_DB_NOTIFY) != 0 ? CqFacts::Arm::kSolicited : CqFacts::Arm::kAny;
  return bell;
}

// --- Decoding ------------------------------------------------------------------------------------

// Inline data in the extended SGE space, which is circular. "" or what is wrong.
std::string HnsModel::ReadInline(const Queue& q, const uint8_t* wqe, uint32_t length,
                                 std::vector<uint8_t>* data) {
  const uint32_t space = q.note[kExtendedSges] * kHnsSgeSize;
  if (length > space) return fmt::format("{} bytes of inline data, {} of space", length, space);
  const uint32_t start = Field(wqe, HNS_WQE_START_SGE);
  if (start >= q.note[kExtendedSges]) return "the start index is beyond the extended SGEs";
  const uint32_t sges = Field(wqe, HNS_WQE_SGE_NUM);
  if (sges != (length + kHnsSgeSize - 1) / kHnsSgeSize) {
    return fmt::format("{} bytes of inline data in {} SGEs", length, sges);
  }
  for (uint32_t done = 0; done < length; done += kHnsSgeSize) {
    const uint8_t* at = ExtendedSge(q, start + done / kHnsSgeSize);
    data->insert(data->end(), at, at + std::min<uint32_t>(kHnsSgeSize, length - done));
  }
  return "";
}

Visibility HnsModel::DecodeSend(Queue& q, DecodedSend* out) {
  if (!q.exists()) return Visibility::kNotYet;
  const uint8_t* page = q.doorbell_record;
  const bool direct = Field(page, HNS_WQE_FLAG) != 0;
  const uint32_t posted = direct ? Field(page, HNS_WQE_INDEX) : Field(page, HNS_DB_PI);
  const auto covered = static_cast<uint16_t>(posted - q.next);
  if (covered == 0) return Visibility::kNotYet;
  out->Clear();
  const uint32_t mask = q.entries - 1;
  const uint8_t* wqe = q.base + size_t{q.next & mask} * kHnsWqeSize;
  out->raw = Bytes{wqe, kHnsWqeSize};
  auto complain = [&](std::string what) { out->complaints.push_back(std::move(what)); };
  auto malformed = [&](std::string what) {
    out->complaints.push_back(std::move(what));
    return Visibility::kMalformed;
  };
  if (covered > q.entries) {
    return malformed(fmt::format("a doorbell for {} WQEs; the ring has {}", covered, q.entries));
  }
  if (direct) {
    if (covered != 1) complain(fmt::format("a direct WQE for {} requests", covered));
    // Half of it: mmio_memcpy_x64() is told 32 bytes, and moves 64 on the machines that have this
    // device, but not on this one.
    if (std::memcmp(page, wqe, kHnsRcHeaderSize) != 0) {
      complain("the direct WQE is not the ring's");
    }
  } else {
    if (Field(page, HNS_DB_CMD) != kHnsDbSq || Field(page, HNS_DB_TAG) != q.number) {
      return malformed("the doorbell names another queue");
    }
    if (Field(wqe, HNS_WQE_FLAG) != 0) complain("bits of a direct WQE in one that is not");
  }
  const uint32_t owner = q.next & q.entries ? 0 : 1;
  if (Field(wqe, HNS_WQE_OWNER) != owner) {
    return malformed(
        fmt::format("owner bit {} in lap {} of the ring", 1 - owner, q.next / q.entries));
  }
  const uint32_t opcode = Field(wqe, HNS_WQE_OPCODE);
  const bool datagram = q.type == model::QpType::kUd;
  if (opcode > kHnsOpFadd || (datagram && opcode != kHnsOpSend && opcode != kHnsOpSendImm)) {
    return malformed(fmt::format("opcode {:#x}", opcode));
  }
  model::SendRequest& r = out->request;
  r.op = kOperations[opcode];
  if (Field(wqe, HNS_WQE_CQE)) r.flags |= IBV_SEND_SIGNALED;
  if (Field(wqe, HNS_WQE_SE)) r.flags |= IBV_SEND_SOLICITED;
  // The device orders by SO; its FENCE bit does not do what the API's flag means.
  if (!datagram && Field(wqe, HNS_WQE_SO)) r.flags |= IBV_SEND_FENCE;
  const uint32_t immediate = Field(wqe, HNS_WQE_IMM);
  if (opcode == kHnsOpSendImm || opcode == kHnsOpWriteImm) r.imm = htobe32(immediate);
  if (opcode == kHnsOpSendInv) r.rkey = model::Rkey(immediate);
  if (q.type == model::QpType::kXrcSend) {
    r.remote_srqn = model::SrqNum(Field(wqe, HNS_RC_XRC_SRQN));
  }
  uint32_t length = Field(wqe, HNS_WQE_MSG_LEN);
  const bool is_inline = Field(wqe, HNS_WQE_INLINE) != 0;
  const bool outside = Field(wqe, HNS_WQE_INLINE_TYPE) != 0;
  r.data = is_inline ? model::DataKind::kInline : model::DataKind::kSge;
  if (datagram) {
    out->ah_number = GetBe32(wqe, kHnsUdMac + 2);
    r.remote_qpn = model::QpNum(Field(wqe, HNS_UD_DQPN));
    r.remote_qkey = model::Qkey(Field(wqe, HNS_UD_QKEY));
    if (is_inline && !outside) length &= 0xffff;  // data begins in the upper half
  } else if (model::Info(r.op).takes_rkey) {
    r.rkey = model::Rkey(Field(wqe, HNS_RC_RKEY));
    r.remote_addr =
        model::RemoteAddr(Field(wqe, HNS_RC_VA_L) | uint64_t{Field(wqe, HNS_RC_VA_H)} << 32);
  }
  if (opcode == kHnsOpCas || opcode == kHnsOpFadd) {
    const uint8_t* atomic = wqe + kHnsRcHeaderSize + kHnsSgeSize;
    const auto swap_add = Get<uint64_t>(atomic, kHnsAtomicSwapAdd);
    const auto compare = Get<uint64_t>(atomic, kHnsAtomicCompare);
    if (opcode == kHnsOpCas) {
      r.compare_or_add = compare;
      r.swap = swap_add;
    } else {
      r.compare_or_add = swap_add;
    }
  }
  if (is_inline) {
    if (model::Info(r.op).data != model::DataRule::kSgeOrInline) {
      return malformed("inline data for an operation that returns data");
    }
    if (outside) {
      std::string wrong = ReadInline(q, wqe, length, &out->inline_data);
      if (!wrong.empty()) return malformed(std::move(wrong));
    } else if (datagram) {
      if (length > kHnsUdInlineInWqe) {
        return malformed(fmt::format("{} bytes of inline data within a UD WQE", length));
      }
      uint8_t data[kHnsUdInlineInWqe];
      const uint64_t all = Field(wqe, HNS_UD_INLINE_15_0) |
                           uint64_t{Field(wqe, HNS_UD_INLINE_23_16)} << 16 |
                           uint64_t{Field(wqe, HNS_UD_INLINE_47_24)} << 24 |
                           uint64_t{Field(wqe, HNS_UD_INLINE_63_48)} << 48;
      Put<uint64_t>(data, 0, all);
      out->inline_data.assign(data, data + length);
    } else {
      if (length > kHnsRcInlineInWqe) {
        return malformed(fmt::format("{} bytes of inline data within an RC WQE", length));
      }
      out->inline_data.assign(wqe + kHnsRcHeaderSize, wqe + kHnsRcHeaderSize + length);
    }
    return Visibility::kRequest;
  }
  const uint32_t sges = Field(wqe, HNS_WQE_SGE_NUM);
  const bool atomic = opcode == kHnsOpCas || opcode == kHnsOpFadd;
  const uint32_t in_wqe = datagram ? 0 : atomic ? 1 : kHnsSgesInWqe;
  if (atomic && sges > 1) return malformed(fmt::format("an atomic with {} SGEs", sges));
  if (sges > in_wqe + q.note[kExtendedSges]) return malformed(fmt::format("{} SGEs", sges));
  const uint32_t start = Field(wqe, HNS_WQE_START_SGE);
  uint64_t total = 0;
  for (uint32_t i = 0; i < sges; ++i) {
    const uint8_t* at = i < in_wqe ? wqe + kHnsRcHeaderSize + size_t{i} * kHnsSgeSize
                                   : ExtendedSge(q, start + i - in_wqe);
    out->sge.push_back(SgeAt(at));
    total += Get<uint32_t>(at, kHnsSgeLength);
    if (Get<uint32_t>(at, kHnsSgeLength) == 0) complain("an SGE of length 0, which means 2 GiB");
  }
  if (static_cast<uint32_t>(total) != length) {
    complain(fmt::format("msg_len is {}, the SGEs have {}", length, total));
  }
  return Visibility::kRequest;
}

Visibility HnsModel::DecodeReceive(Queue& q, DecodedReceive* out) {
  if (!q.exists()) return Visibility::kNotYet;
  const uint32_t posted = LoadShared32(q.doorbell_record) & 0xffff;
  const auto covered = static_cast<uint16_t>(posted - q.next);
  if (covered == 0) return Visibility::kNotYet;
  out->Clear();
  if (covered > q.entries) {
    out->complaints.push_back(
        fmt::format("a doorbell for {} receives; the ring has {}", covered, q.entries));
  }
  uint32_t index = q.next & (q.entries - 1);
  if (q.kind == Queue::Kind::kShared) {
    const auto* indices = reinterpret_cast<const uint8_t*>(q.note[kIndexQueueLow] |
                                                           uint64_t{q.note[kIndexQueueHigh]} << 32);
    index = Get<uint32_t>(indices, size_t{index} * 4);
    if (index >= q.entries) {
      out->complaints.push_back(fmt::format("index {} of {} receives", index, q.entries));
      index &= q.entries - 1;
    }
  }
  out->native_index = index;
  const uint8_t* wqe = q.base + size_t{index} * q.stride;
  out->raw = Bytes{wqe, q.stride};
  for (uint32_t i = 0; i < q.max_sge; ++i) {
    const uint8_t* at = wqe + size_t{i} * kHnsSgeSize;
    if (Get<uint32_t>(at, kHnsSgeLength) == 0) break;
    out->sge.push_back(SgeAt(at));
  }
  return Visibility::kRequest;
}

// --- Completions ---------------------------------------------------------------------------------

bool HnsModel::Encode(CqFacts& cq, const NativeCompletion& native) {
  Queue& q = cq.queue;
  const uint32_t consumed = LoadShared32(q.doorbell_record) & 0xffffff;
  if (((q.next - consumed) & 0xffffff) >= q.entries) return false;
  const model::Completion& c = native.completion;
  const bool ok = c.status == IBV_WC_SUCCESS;
  uint8_t cqe[kHnsCqeSize] = {};
  PutField(cqe, HNS_CQE_STATUS, StatusOf(c.status));
  PutField(cqe, HNS_CQE_SUB_STATUS, c.vendor_err);
  PutField(cqe, HNS_CQE_QPN, c.qp_num.value);
  if (!c.is_receive) {
    PutField(cqe, HNS_CQE_OPCODE, OpcodeOf(native.op));
    PutField(cqe, HNS_CQE_WQE_IDX, native.entry & (native.work_queue->entries - 1));
    if (ok) PutField(cqe, HNS_CQE_BYTES, c.byte_len);
  } else {
    PutField(cqe, HNS_CQE_S_R, 1);
    PutField(cqe, HNS_CQE_WQE_IDX, native.native_index);
    if (native.srq != nullptr && native.srq->cq != nullptr) {
      PutField(cqe, HNS_CQE_XRC_SRQN, native.srq->number);
    }
    uint32_t opcode = kHnsRecvSend;
    if (ok) {
      PutField(cqe, HNS_CQE_BYTES, c.byte_len);
      if (c.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        opcode = kHnsRecvWriteImm;
      } else if (c.wc_flags & IBV_WC_WITH_IMM) {
        opcode = kHnsRecvSendImm;
      } else if (c.wc_flags & IBV_WC_WITH_INV) {
        opcode = kHnsRecvSendInv;
      }
      if (c.wc_flags & IBV_WC_WITH_IMM) PutField(cqe, HNS_CQE_IMM, be32toh(c.imm));
      if (c.wc_flags & IBV_WC_WITH_INV) PutField(cqe, HNS_CQE_IMM, c.invalidated.value);
      if (native.qp->type == model::QpType::kUd) {
        PutField(cqe, HNS_CQE_PORT_TYPE, kHnsPortRoceV2Ipv6);
        PutField(cqe, HNS_CQE_RMT_QPN, c.src_qp);
        PutField(cqe, HNS_CQE_GRH, c.wc_flags & IBV_WC_GRH ? 1 : 0);
      }
    }
    PutField(cqe, HNS_CQE_OPCODE, opcode);
  }
  PutField(cqe, HNS_CQE_OWNER, q.next & q.entries ? 0 : 1);
  uint8_t* at = q.base + size_t{q.next & (q.entries - 1)} * q.stride;
  std::memcpy(at + 4, cqe + 4, kHnsCqeSize - 4);
  StoreShared32(at, Get<uint32_t>(cqe, 0));
  ++q.next;
  return true;
}

}  // namespace

std::unique_ptr<DeviceModel> MakeHnsModel() { return std::make_unique<HnsModel>(); }

}  // namespace qpexam::hosted
