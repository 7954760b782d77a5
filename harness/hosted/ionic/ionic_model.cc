#include "harness/hosted/ionic/ionic_model.h"

#include <fmt/format.h>
#include <linux/types.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ionic-abi.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "harness/hosted/bytes.h"
#include "ionic_fw_types.h"

namespace qpexam::hosted {
namespace {

using model::Operation;

// Which Queue::note holds what.
enum Note {
  // Send queue: entries that CQEs were written for, messages among them, and the last message that
  // a CQE named.
  kCompleted = 0,
  kMessages = 1,
  kNamed = 5,
  // Send queue: whether a WQE was read since RESET, and the color of the first lap.
  kStarted = 2,
  kFirstColor = 3,
  kSpec = 4,  // both work queues
};

constexpr uint64_t kDoorbellPage = 0x1000;
constexpr uint32_t kPageShift = 12;
// A doorbell's place in its page, in units of 8 bytes.
enum : uint8_t { kSqType = 3, kRqType = 4, kCqType = 5 };
constexpr uint64_t kRingArm = uint64_t{1} << 16;
constexpr uint64_t kRingSolicited = uint64_t{1} << 17;
constexpr unsigned kDoorbellQidShift = 24;

constexpr uint32_t kMaxStride = 9;  // log2 of the largest WQE
constexpr uint32_t kSpecMost = 8;
constexpr size_t kPayload = offsetof(ionic_v1_wqe, common.pld);
constexpr size_t kSgeSize = sizeof(ionic_sge);
constexpr uint32_t kMaxInline = (1u << kMaxStride) - kPayload;
constexpr uint32_t kKnownFlags = IONIC_V1_FLAG_FENCE | IONIC_V1_FLAG_SOL | IONIC_V1_FLAG_INL |
                                 IONIC_V1_FLAG_SIG | IONIC_V1_FLAG_COLOR | IONIC_V1_FLAG_SPEC32 |
                                 IONIC_V1_FLAG_SPEC16;

static_assert(offsetof(ionic_v1_wqe, recv.pld) == kPayload, "both payloads lie alike");

struct Opcode {
  Operation op;
  uint8_t v1, v2;
};
constexpr Opcode kOpcodes[] = {
    {Operation::kSend, IONIC_V1_OP_SEND, IONIC_V2_OP_SEND},
    {Operation::kSendWithInv, IONIC_V1_OP_SEND_INV, IONIC_V2_OP_SEND_INV},
    {Operation::kSendWithImm, IONIC_V1_OP_SEND_IMM, IONIC_V2_OP_SEND_IMM},
    {Operation::kRdmaRead, IONIC_V1_OP_RDMA_READ, IONIC_V2_OP_RDMA_READ},
    {Operation::kRdmaWrite, IONIC_V1_OP_RDMA_WRITE, IONIC_V2_OP_RDMA_WRITE},
    {Operation::kRdmaWriteWithImm, IONIC_V1_OP_RDMA_WRITE_IMM, IONIC_V2_OP_RDMA_WRITE_IMM},
    {Operation::kAtomicCmpAndSwp, IONIC_V1_OP_ATOMIC_CS, IONIC_V2_OP_ATOMIC_CS},
    {Operation::kAtomicFetchAndAdd, IONIC_V1_OP_ATOMIC_FA, IONIC_V2_OP_ATOMIC_FA},
    {Operation::kLocalInv, IONIC_V1_OP_LOCAL_INV, IONIC_V2_OP_LOCAL_INV},
    {Operation::kBindMw, IONIC_V1_OP_BIND_MW, IONIC_V2_OP_BIND_MW},
};

// What a CQE calls a status. Those that it has no name for are IONIC_STS_XRC_VIO_ERR, which the
// library reads as IBV_WC_GENERAL_ERR.
uint32_t StatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return IONIC_STS_OK;
    case IBV_WC_LOC_LEN_ERR:
      return IONIC_STS_LOCAL_LEN_ERR;
    case IBV_WC_LOC_QP_OP_ERR:
      return IONIC_STS_LOCAL_QP_OPER_ERR;
    case IBV_WC_LOC_PROT_ERR:
      return IONIC_STS_LOCAL_PROT_ERR;
    case IBV_WC_WR_FLUSH_ERR:
      return IONIC_STS_WQE_FLUSHED_ERR;
    case IBV_WC_MW_BIND_ERR:
      return IONIC_STS_MEM_MGMT_OPER_ERR;
    case IBV_WC_BAD_RESP_ERR:
      return IONIC_STS_BAD_RESP_ERR;
    case IBV_WC_LOC_ACCESS_ERR:
      return IONIC_STS_LOCAL_ACC_ERR;
    case IBV_WC_REM_INV_REQ_ERR:
      return IONIC_STS_REMOTE_INV_REQ_ERR;
    case IBV_WC_REM_ACCESS_ERR:
      return IONIC_STS_REMOTE_ACC_ERR;
    case IBV_WC_REM_OP_ERR:
      return IONIC_STS_REMOTE_OPER_ERR;
    case IBV_WC_RETRY_EXC_ERR:
      return IONIC_STS_RETRY_EXCEEDED;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return IONIC_STS_RNR_RETRY_EXCEEDED;
    default:
      return IONIC_STS_XRC_VIO_ERR;
  }
}

bool SetUp(Queue* q, Queue::Kind kind, const ionic_qdesc& d) {
  if (d.addr == 0 || d.depth_log2 > 16 || d.stride_log2 > kMaxStride ||
      d.mask != (1u << d.depth_log2) - 1 || d.size != 1u << (d.depth_log2 + d.stride_log2)) {
    return false;
  }
  q->kind = kind;
  q->base = reinterpret_cast<uint8_t*>(d.addr);
  q->size = d.size;
  q->entries = 1u << d.depth_log2;
  q->stride = 1u << d.stride_log2;
  return true;
}

uint32_t MostSges(const Queue& q) {
  const uint32_t spec = q.note[kSpec];
  const uint32_t skipped = spec > IONIC_V1_SPEC_FIRST_SGE ? IONIC_V1_SPEC_FIRST_SGE : 0;
  const auto room = static_cast<uint32_t>((q.stride - kPayload - skipped * kSgeSize) / kSgeSize);
  return spec != 0 ? std::min(room, spec) : room;
}

class IonicModel : public DeviceModel {
 public:
  explicit IonicModel(uint16_t version);
  const DeviceTraits& traits() const override { return traits_; }
  Reply Answer(const Command& command, Bytes in, MutBytes out) override;
  Mapping MapDevicePage(uint64_t offset, size_t size, SharedMemory& memory) override {
    return offset == kDoorbellPage && size == 1u << kPageShift ? memory.Allocate(size) : Mapping();
  }
  std::optional<Doorbell> OnWrite(const Mapping& region, uint64_t offset, Bytes stored) override;
  Visibility DecodeSend(Queue& q, DecodedSend* out) override;
  Visibility DecodeReceive(Queue& q, DecodedReceive* out) override;
  void Express(NativeCompletion* native) const override;
  bool Encode(CqFacts& cq, const NativeCompletion& native) override;
  void Reset(QpFacts& qp) override;

 private:
  Reply GetContext(MutBytes out) const;
  Reply CreateCq(const Command& command, Bytes in, MutBytes out) const;
  Reply CreateQp(const Command& command, Bytes in, MutBytes out);
  const Opcode* Find(uint8_t native) const;
  bool IsLocal(const Queue& sq, uint32_t entry) const;
  static std::string ReadSges(const Queue& q, const uint8_t* wqe, uint32_t count, uint32_t flags,
                              std::vector<model::Sge>* sges, uint64_t* total);
  static bool IsFull(const Queue& cq);
  static void Write(Queue* cq, ionic_v1_cqe cqe, uint32_t qid, uint32_t type, bool error);

  const uint16_t version_;
  DeviceTraits traits_;
};

IonicModel::IonicModel(uint16_t version) : version_(version) {
  traits_ = {
      "ionic",
      "ionic_",
      "",
      IONIC_ABI_VERSION,
      {},
      model::MaskOf(model::QpType::kRc),
      IBV_LINK_LAYER_ETHERNET,
      kMaxInline,
  };
  traits_.driver_id = RDMA_DRIVER_IONIC;
  traits_.library_flushes = true;
  ibv_device_attr& a = traits_.attr;
  a.vendor_id = 0x1dd8;
  a.vendor_part_id = 0x1002;
  a.max_mr_size = ~uint64_t{0};
  a.page_size_cap = 0xfffff000;
  a.max_qp = 1 << 16;
  a.max_qp_wr = 1 << 14;
  a.device_cap_flags =
      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  a.max_sge = kSpecMost;
  a.max_sge_rd = kSpecMost;
  a.max_cq = 1 << 16;
  a.max_cqe = 1 << 15;
  a.max_mr = 1 << 20;
  a.max_mw = 1 << 20;
  a.max_pd = 1 << 16;
  a.max_qp_rd_atom = 16;
  a.max_res_rd_atom = 1 << 20;
  a.max_qp_init_rd_atom = 16;
  a.atomic_cap = IBV_ATOMIC_HCA;
  a.max_pkeys = 1;
  a.local_ca_ack_delay = 15;
  a.phys_port_cnt = 1;
}

// --- Commands ------------------------------------------------------------------------------------

Reply IonicModel::Answer(const Command& command, Bytes in, MutBytes out) {
  switch (command.kind) {
    case Command::Kind::kGetContext:
      return GetContext(out);
    case Command::Kind::kCreateCq:
      return CreateCq(command, in, out);
    case Command::Kind::kCreateQp:
      return CreateQp(command, in, out);
    case Command::Kind::kResizeCq:
    case Command::Kind::kCreateSrq:
    case Command::Kind::kModifySrq:
      return Error(EOPNOTSUPP);
    default:
      return Reply();
  }
}

Reply IonicModel::GetContext(MutBytes out) const {
  ionic_ctx_resp r = {};
  r.page_shift = kPageShift;
  r.dbell_offset = kDoorbellPage;
  r.version = version_;
  r.qp_opcodes = IONIC_V1_OP_BIND_MW + 1;
  r.sq_qtype = kSqType;
  r.rq_qtype = kRqType;
  r.cq_qtype = kCqType;
  r.max_stride = kMaxStride;
  r.max_spec = kSpecMost;
  r.udma_count = 1;
  return Respond(out, r);
}

Reply IonicModel::CreateCq(const Command& command, Bytes in, MutBytes out) const {
  const auto req = Read<ionic_cq_req>(in);
  CqFacts& cq = *command.cq;
  if (req.udma_mask != 1) return Error(EINVAL);
  if (!SetUp(&cq.queue, Queue::Kind::kCompletion, req.cq[0])) return Error(EINVAL);
  if (cq.queue.stride != sizeof(ionic_v1_cqe) || cq.queue.entries <= cq.cqe) return Error(EINVAL);
  ionic_cq_resp r = {};
  r.cqid[0] = cq.number;
  r.udma_mask = 1;
  return Respond(out, r);
}

Reply IonicModel::CreateQp(const Command& command, Bytes in, MutBytes out) {
  const auto req = Read<ionic_qp_req>(in);
  QpFacts& qp = *command.qp;
  if (qp.type != model::QpType::kRc) return Error(EOPNOTSUPP);
  if (req.udma_mask != 1) return Error(EINVAL);
  if (!SetUp(&qp.sq, Queue::Kind::kSend, req.sq)) return Error(EINVAL);
  if (!SetUp(&qp.rq, Queue::Kind::kReceive, req.rq)) return Error(EINVAL);
  if (qp.sq.stride < sizeof(ionic_v1_wqe) || qp.rq.stride < sizeof(ionic_v1_wqe)) {
    return Error(EINVAL);
  }
  qp.sq.note[kSpec] = req.sq_spec;
  qp.rq.note[kSpec] = req.rq_spec;
  // One entry of a ring stays free: full and empty would look the same.
  qp.cap.max_send_wr = qp.sq.entries - 1;
  qp.cap.max_recv_wr = qp.rq.entries - 1;
  qp.cap.max_send_sge = qp.sq.max_sge = MostSges(qp.sq);
  qp.cap.max_recv_sge = qp.rq.max_sge = MostSges(qp.rq);
  qp.cap.max_inline_data = qp.sq.max_inline = static_cast<uint32_t>(qp.sq.stride - kPayload);
  Reset(qp);
  ionic_qp_resp r = {};
  r.qpid = qp.number;
  return Respond(out, r);  // sq_cmb and rq_cmb are 0: both rings stay in the host's memory
}

void IonicModel::Reset(QpFacts& qp) {
  for (Queue* q : {&qp.sq, &qp.rq}) {
    q->next = q->doorbell = 0;
    q->note[kCompleted] = q->note[kMessages] = q->note[kNamed] = q->note[kStarted] = 0;
  }
}

// --- Doorbells -----------------------------------------------------------------------------------

std::optional<Doorbell> IonicModel::OnWrite(const Mapping& region, uint64_t offset, Bytes stored) {
  if (region.offset != kDoorbellPage || stored.size != 8) return {};
  const uint64_t rung = le64toh(Get<uint64_t>(stored.data, 0));
  Doorbell bell;
  bell.number = static_cast<uint32_t>(rung >> kDoorbellQidShift) & 0xffffff;
  bell.value = rung & 0xffff;
  switch (offset) {
    case kSqType * 8:
      bell.kind = Doorbell::Kind::kSend;
      return bell;
    case kRqType * 8:
      bell.kind = Doorbell::Kind::kReceive;
      return bell;
    case kCqType * 8:
      bell.kind = Doorbell::Kind::kCqConsumer;
      if (rung & (kRingArm | kRingSolicited)) {
        // Its index counts the arms: what was consumed is said by another doorbell.
        bell.kind = Doorbell::Kind::kArmCq;
        bell.arm = rung & kRingArm ? CqFacts::Arm::kAny : CqFacts::Arm::kSolicited;
        bell.keeps_value = true;
      }
      return bell;
    default:
      return {};
  }
}

// --- Requests ------------------------------------------------------------------------------------

const Opcode* IonicModel::Find(uint8_t native) const {
  for (const Opcode& o : kOpcodes) {
    if ((version_ >= 2 ? o.v2 : o.v1) == native) return &o;
  }
  return nullptr;
}

std::string IonicModel::ReadSges(const Queue& q, const uint8_t* wqe, uint32_t count, uint32_t flags,
                                 std::vector<model::Sge>* sges, uint64_t* total) {
  if (count > q.max_sge) return fmt::format("{} SGEs; a WQE has room for {}", count, q.max_sge);
  // A longer list has its lengths in front, for the device to see all of them at once.
  const bool ahead = q.note[kSpec] != 0 && count > IONIC_V1_SPEC_FIRST_SGE;
  const bool says_ahead = flags & IONIC_V1_FLAG_SPEC32;
  if (flags & IONIC_V1_FLAG_SPEC16 || ahead != says_ahead) {
    return fmt::format("flags {:#x} for {} SGEs", flags, count);
  }
  const uint8_t* list = wqe + kPayload + (ahead ? IONIC_V1_SPEC_FIRST_SGE * kSgeSize : 0);
  std::string wrong;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* at = list + i * kSgeSize;
    const uint32_t length = GetBe32(at, offsetof(ionic_sge, len));
    if (ahead && GetBe32(wqe, kPayload + size_t{i} * 4) != length) {
      wrong = fmt::format("SGE {} has {} bytes, the list of lengths {}", i, length,
                          GetBe32(wqe, kPayload + size_t{i} * 4));
    }
    sges->push_back({GetBe64(at, offsetof(ionic_sge, va)), length,
                     model::Lkey(GetBe32(at, offsetof(ionic_sge, lkey)))});
    *total += length;
  }
  return wrong;
}

Visibility IonicModel::DecodeSend(Queue& q, DecodedSend* out) {
  if (!q.exists()) return Visibility::kNotYet;
  const uint32_t mask = q.entries - 1;
  if (((q.doorbell - q.next) & mask) == 0) return Visibility::kNotYet;
  out->Clear();
  const uint32_t place = q.next & mask;
  const uint8_t* raw = q.base + size_t{place} * q.stride;
  out->raw = Bytes{raw, q.stride};
  auto complain = [&](std::string what) { out->complaints.push_back(std::move(what)); };
  auto malformed = [&](std::string what) {
    out->complaints.push_back(std::move(what));
    return Visibility::kMalformed;
  };
  if (q.doorbell > mask) {
    return malformed(
        fmt::format("a doorbell for index {}; the ring has {}", q.doorbell, q.entries));
  }
  const auto& wqe = *reinterpret_cast<const ionic_v1_wqe*>(raw);
  if (le64toh(wqe.base.wqe_idx) != place) {
    complain(fmt::format("WQE {} calls itself {}", place, le64toh(wqe.base.wqe_idx)));
  }
  const uint32_t flags = be16toh(wqe.base.flags);
  if (flags & ~kKnownFlags) complain(fmt::format("reserved flags in {:#x}", flags));
  const uint32_t color = flags & IONIC_V1_FLAG_COLOR ? 1 : 0;
  const uint32_t lap = q.next / q.entries & 1;
  if (q.note[kStarted] == 0) {
    // Whether RESET begins with the first color again is the device's affair.
    q.note[kStarted] = 1;
    q.note[kFirstColor] = color ^ lap;
  } else if (color != (q.note[kFirstColor] ^ lap)) {
    complain(fmt::format("color {} in lap {} of the ring", color, q.next / q.entries));
  }
  const Opcode* opcode = Find(wqe.base.op);
  if (opcode == nullptr) return malformed(fmt::format("opcode {:#x}", wqe.base.op));
  model::SendRequest& r = out->request;
  r.op = opcode->op;
  if (flags & IONIC_V1_FLAG_SIG) r.flags |= IBV_SEND_SIGNALED;
  if (flags & IONIC_V1_FLAG_SOL) r.flags |= IBV_SEND_SOLICITED;
  if (flags & IONIC_V1_FLAG_FENCE) r.flags |= IBV_SEND_FENCE;
  const uint32_t immediate_or_key = be32toh(wqe.base.imm_data_key);
  const bool is_inline = flags & IONIC_V1_FLAG_INL;
  switch (r.op) {
    case Operation::kSendWithInv:
    case Operation::kLocalInv:
      r.rkey = model::Rkey(immediate_or_key);
      break;
    case Operation::kSendWithImm:
    case Operation::kRdmaWriteWithImm:
      r.imm = wqe.base.imm_data_key;
      break;
    case Operation::kBindMw: {
      const uint32_t access = be16toh(wqe.bind_mw.flags);
      if (!(access & IONIC_MRF_IS_MW)) return malformed("a bind of what is no window");
      out->mw_rkey = immediate_or_key;
      out->mr_lkey = be32toh(wqe.bind_mw.lkey);
      r.bind_addr = be64toh(wqe.bind_mw.va);
      r.bind_length = be64toh(wqe.bind_mw.length);
      // The WQE has room for the part of the key that the consumer chooses.
      r.bind_rkey = model::Rkey((immediate_or_key & ~0xffu) | wqe.base.num_sge_key);
      if (access & IONIC_MRF_LOCAL_WRITE) r.bind_access |= IBV_ACCESS_LOCAL_WRITE;
      if (access & IONIC_MRF_REMOTE_WRITE) r.bind_access |= IBV_ACCESS_REMOTE_WRITE;
      if (access & IONIC_MRF_REMOTE_READ) r.bind_access |= IBV_ACCESS_REMOTE_READ;
      if (access & IONIC_MRF_REMOTE_ATOMIC) r.bind_access |= IBV_ACCESS_REMOTE_ATOMIC;
      if (access & IONIC_MRF_MW_BIND) r.bind_access |= IBV_ACCESS_MW_BIND;
      if (access & IONIC_MRF_ZERO_BASED) r.bind_access |= IBV_ACCESS_ZERO_BASED;
      break;
    }
    default:
      break;
  }
  if (r.op == Operation::kLocalInv || r.op == Operation::kBindMw) {
    if (is_inline) complain("inline data of an operation that has no data");
    return Visibility::kRequest;
  }
  if (model::Info(r.op).takes_rkey && r.op != Operation::kSendWithInv) {
    r.rkey = model::Rkey(be32toh(wqe.common.rdma.remote_rkey));
    r.remote_addr = model::RemoteAddr(uint64_t{be32toh(wqe.common.rdma.remote_va_high)} << 32 |
                                      be32toh(wqe.common.rdma.remote_va_low));
  }
  r.data = is_inline ? model::DataKind::kInline : model::DataKind::kSge;
  if (r.op == Operation::kAtomicCmpAndSwp || r.op == Operation::kAtomicFetchAndAdd) {
    if (is_inline || wqe.base.num_sge_key != 1) return malformed("an atomic without its one SGE");
    const uint64_t swap_add =
        uint64_t{be32toh(wqe.atomic.swap_add_high)} << 32 | be32toh(wqe.atomic.swap_add_low);
    const uint64_t compare =
        uint64_t{be32toh(wqe.atomic.compare_high)} << 32 | be32toh(wqe.atomic.compare_low);
    if (r.op == Operation::kAtomicCmpAndSwp) {
      r.compare_or_add = compare;
      r.swap = swap_add;
    } else {
      r.compare_or_add = swap_add;
    }
    if (version_ >= 2) {
      out->sge.push_back(
          {be64toh(wqe.atomic_v2.local_va), 8, model::Lkey(be32toh(wqe.atomic_v2.lkey))});
    } else {
      if (be32toh(wqe.atomic.sge.len) != 8) complain("an atomic whose SGE is not 8 bytes long");
      out->sge.push_back({be64toh(wqe.atomic.sge.va), be32toh(wqe.atomic.sge.len),
                          model::Lkey(be32toh(wqe.atomic.sge.lkey))});
    }
    return Visibility::kRequest;
  }
  const uint32_t length = be32toh(wqe.common.length);
  if (is_inline) {
    if (model::Info(r.op).data != model::DataRule::kSgeOrInline) {
      return malformed("inline data for an operation that returns data");
    }
    if (length > q.max_inline) return malformed(fmt::format("{} bytes of inline data", length));
    if (wqe.base.num_sge_key != 0) complain("SGEs beside inline data");
    out->inline_data.assign(raw + kPayload, raw + kPayload + length);
    return Visibility::kRequest;
  }
  uint64_t total = 0;
  std::string wrong = ReadSges(q, raw, wqe.base.num_sge_key, flags, &out->sge, &total);
  if (!wrong.empty()) return malformed(std::move(wrong));
  if (total != length) complain(fmt::format("length is {}, the SGEs have {}", length, total));
  return Visibility::kRequest;
}

Visibility IonicModel::DecodeReceive(Queue& q, DecodedReceive* out) {
  if (!q.exists()) return Visibility::kNotYet;
  const uint32_t mask = q.entries - 1;
  if (((q.doorbell - q.next) & mask) == 0) return Visibility::kNotYet;
  out->Clear();
  const uint32_t place = q.next & mask;
  const uint8_t* raw = q.base + size_t{place} * q.stride;
  out->raw = Bytes{raw, q.stride};
  auto complain = [&](std::string what) { out->complaints.push_back(std::move(what)); };
  if (q.doorbell > mask) {
    complain(fmt::format("a doorbell for index {}; the ring has {}", q.doorbell, q.entries));
  }
  const auto& wqe = *reinterpret_cast<const ionic_v1_wqe*>(raw);
  if (le64toh(wqe.base.wqe_idx) != place) {
    complain(fmt::format("receive {} calls itself {}", place, le64toh(wqe.base.wqe_idx)));
  }
  out->native_index = place;
  uint64_t total = 0;
  std::string wrong =
      ReadSges(q, raw, wqe.base.num_sge_key, be16toh(wqe.base.flags), &out->sge, &total);
  if (!wrong.empty()) complain(std::move(wrong));
  if (total != be32toh(wqe.base.imm_data_key)) {
    complain(fmt::format("length is {}, the SGEs have {}", be32toh(wqe.base.imm_data_key), total));
  }
  return Visibility::kRequest;
}

// --- Completions ---------------------------------------------------------------------------------

void IonicModel::Express(NativeCompletion* native) const {
  model::Completion& c = native->completion;
  if (StatusOf(c.status) == IONIC_STS_XRC_VIO_ERR) c.status = IBV_WC_GENERAL_ERR;
}

bool IonicModel::IsFull(const Queue& cq) {
  return ((cq.next - cq.doorbell) & (cq.entries - 1)) == cq.entries - 1;
}

void IonicModel::Write(Queue* cq, ionic_v1_cqe cqe, uint32_t qid, uint32_t type, bool error) {
  uint8_t* at = cq->base + size_t{cq->next & (cq->entries - 1)} * cq->stride;
  constexpr size_t kWord = offsetof(ionic_v1_cqe, qid_type_flags);
  std::memcpy(at, &cqe, kWord);
  const uint32_t color = cq->next / cq->entries % 2 == 0 ? IONIC_V1_CQE_COLOR : 0;
  StoreShared32(at + kWord,
                htobe32(qid << IONIC_V1_CQE_QID_SHIFT | type << IONIC_V1_CQE_TYPE_SHIFT |
                        (error ? IONIC_V1_CQE_ERROR : 0) | color));
  ++cq->next;
}

bool IonicModel::IsLocal(const Queue& sq, uint32_t entry) const {
  const uint8_t* raw = sq.base + size_t{entry & (sq.entries - 1)} * sq.stride;
  const Opcode* o = Find(raw[offsetof(ionic_v1_wqe, base.op)]);
  return o != nullptr && (o->op == Operation::kLocalInv || o->op == Operation::kBindMw);
}

bool IonicModel::Encode(CqFacts& cq, const NativeCompletion& native) {
  Queue& q = cq.queue;
  if (IsFull(q)) return false;
  const model::Completion& c = native.completion;
  const bool error = c.status != IBV_WC_SUCCESS;
  const uint32_t qid = native.qp->number;
  ionic_v1_cqe cqe = {};
  cqe.status_length = htobe32(error ? StatusOf(c.status) : c.byte_len);
  if (c.is_receive) {
    cqe.recv.wqe_idx_timestamp = htole64(native.native_index);
    uint32_t op = IONIC_V1_CQE_RECV_OP_SEND;
    if (!error) {
      if (c.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        op = IONIC_V1_CQE_RECV_OP_RDMA_IMM;
      } else if (c.wc_flags & IBV_WC_WITH_IMM) {
        op = IONIC_V1_CQE_RECV_OP_SEND_IMM;
      } else if (c.wc_flags & IBV_WC_WITH_INV) {
        op = IONIC_V1_CQE_RECV_OP_SEND_INV;
      }
      if (c.wc_flags & IBV_WC_WITH_IMM) cqe.recv.imm_data_rkey = c.imm;
      if (c.wc_flags & IBV_WC_WITH_INV) cqe.recv.imm_data_rkey = htobe32(c.invalidated.value);
    }
    cqe.recv.src_qpn_op =
        htobe32((c.src_qp & IONIC_V1_CQE_RECV_QPN_MASK) | op << IONIC_V1_CQE_RECV_OP_SHIFT);
    Write(&q, cqe, qid, IONIC_V1_CQE_TYPE_RECV, error);
    return true;
  }
  Queue& sq = native.qp->sq;
  if (c.status == IBV_WC_WR_FLUSH_ERR) {
    // The library completes by itself what is posted, and reads no more of this CQE.
    Write(&q, cqe, qid, IONIC_V1_CQE_TYPE_SEND_NPG, true);
    return true;
  }
  if (!error) cqe.status_length = 0;
  // Messages complete in order, by their number: one CQE stands for all before it. Each local
  // operation has a CQE of its own, signaled or not; those that were silent are told of here, where
  // the library can first use them.
  for (; sq.note[kCompleted] != native.entry; ++sq.note[kCompleted]) {
    if (!IsLocal(sq, sq.note[kCompleted])) {
      ++sq.note[kMessages];
      continue;
    }
    if (IsFull(q)) return false;
    ionic_v1_cqe silent = {};
    silent.send.npg_wqe_idx_timestamp = htole64(sq.note[kCompleted] & (sq.entries - 1));
    Write(&q, silent, qid, IONIC_V1_CQE_TYPE_SEND_NPG, false);
  }
  const bool local = IsLocal(sq, native.entry);
  // The library completes in order and waits for the silent messages before a local operation, too.
  if (local && sq.note[kNamed] != sq.note[kMessages]) {
    if (IsFull(q)) return false;
    sq.note[kNamed] = sq.note[kMessages];
    ionic_v1_cqe silent = {};
    silent.send.msg_msn = htobe32(sq.note[kNamed]);
    Write(&q, silent, qid, IONIC_V1_CQE_TYPE_SEND_MSN, false);
  }
  if (IsFull(q)) return false;
  ++sq.note[kCompleted];
  if (local) {
    cqe.send.npg_wqe_idx_timestamp = htole64(native.entry & (sq.entries - 1));
    Write(&q, cqe, qid, IONIC_V1_CQE_TYPE_SEND_NPG, error);
  } else {
    cqe.send.msg_msn = htobe32(sq.note[kNamed] = ++sq.note[kMessages]);
    Write(&q, cqe, qid, IONIC_V1_CQE_TYPE_SEND_MSN, error);
  }
  return true;
}

}  // namespace

std::unique_ptr<DeviceModel> MakeIonicModel() { return std::make_unique<IonicModel>(1); }
std::unique_ptr<DeviceModel> MakeIonicV2Model() { return std::make_unique<IonicModel>(2); }

}  // namespace qpexam::hosted
