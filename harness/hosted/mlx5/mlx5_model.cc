#include "harness/hosted/mlx5/mlx5_model.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <optional>

#include "harness/hosted/bytes.h"
#include "harness/hosted/mlx5/mlx5_layout.h"

namespace qpexam::hosted {
namespace {

using model::Operation;

// Which Queue::note holds what.
enum Note {
  kUidx = 0,       // send queue: the library's index of the QP, named by CQEs
  kCqeSize = 0,    // CQ: 64 or 128
  kNextIndex = 0,  // SRQ: the WQE that the device reads next
  kSrqUidx = 1,    // XRC SRQ: the library's index of it, named by CQEs
};

constexpr uint32_t kBasicBlock = 64, kUnit = 16;
// mlx5-abi.h as it grew: a kernel from before UARs smaller than a page ends its answer to a new
// context there (adjust_uar_info() in libmlx5 knows them), and the answer to a new QP was its
// bfreg_index alone.
constexpr size_t kOldContextResponse = offsetof(mlx5_ib_alloc_ucontext_resp, log_uar_size);
constexpr size_t kOldQpResponse = offsetof(mlx5_ib_create_qp_resp, ece_options);
// The last bit of a comp_mask: the library knows the first six of one, the first five of another.
constexpr uint32_t kUnknownToThisLibrary = 1u << 31;
// Of this device: 32 basic blocks would not fit into DS (6 bits).

// A request of a library that may know fewer or more fields than we do.
std::optional<Operation> OperationOf(uint8_t opcode) {
  switch (opcode) {
    case kMlx5OpSend:
      return Operation::kSend;
    case kMlx5OpSendImm:
      return Operation::kSendWithImm;
    case kMlx5OpSendInv:
      return Operation::kSendWithInv;
    case kMlx5OpWrite:
      return Operation::kRdmaWrite;
    case kMlx5OpWriteImm:
      return Operation::kRdmaWriteWithImm;
    case kMlx5OpRead:
      return Operation::kRdmaRead;
    case kMlx5OpAtomicCs:
      return Operation::kAtomicCmpAndSwp;
    case kMlx5OpAtomicFa:
      return Operation::kAtomicFetchAndAdd;
    case kMlx5OpTso:
      return Operation::kTso;
    case kMlx5OpUmr:
      return Operation::kBindMw;  // or LOCAL_INV: see DecodeUmr
    default:
      return std::nullopt;
  }
}

uint8_t OpcodeOf(Operation op) {
  switch (op) {
    case Operation::kSend:
      return kMlx5OpSend;
    case Operation::kSendWithImm:
      return kMlx5OpSendImm;
    case Operation::kSendWithInv:
      return kMlx5OpSendInv;
    case Operation::kRdmaWrite:
      return kMlx5OpWrite;
    case Operation::kRdmaWriteWithImm:
      return kMlx5OpWriteImm;
    case Operation::kRdmaRead:
      return kMlx5OpRead;
    case Operation::kAtomicCmpAndSwp:
      return kMlx5OpAtomicCs;
    case Operation::kAtomicFetchAndAdd:
      return kMlx5OpAtomicFa;
    case Operation::kTso:
      return kMlx5OpTso;
    default:
      return kMlx5OpUmr;
  }
}

// The library makes IBV_WC_GENERAL_ERR of a number that it does not know.
constexpr uint8_t kNoSyndrome = 0xff;

uint8_t SyndromeOf(ibv_wc_status status) {
  switch (status) {
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
    default:
      return kNoSyndrome;
  }
}

// Appends one data segment. False: the end mark of a receive list.
bool ReadDataSegment(const uint8_t* at, std::vector<model::Sge>* sges) {
  uint32_t count = GetBe32(at, kMlx5DataByteCount);
  uint32_t lkey = GetBe32(at, kMlx5DataLkey);
  if (lkey == kMlx5InvalidLkey) return false;
  sges->push_back(
      {GetBe64(at, kMlx5DataAddr), count == 0 ? uint32_t{1} << 31 : count, model::Lkey(lkey)});
  return true;
}

class Mlx5Model : public DeviceModel {
 public:
  Mlx5Model();
  const DeviceTraits& traits() const override { return traits_; }
  Reply Answer(const Command& command, Bytes in, MutBytes out) override;
  Mapping MapDevicePage(uint64_t, size_t size, SharedMemory& memory) override {
    // Every page that the library maps is a UAR of its own: what is stored to it says for whom.
    return size <= 4096 ? memory.Allocate(size) : Mapping();
  }
  std::optional<Doorbell> OnWrite(const Mapping& region, uint64_t offset, Bytes stored) override;
  Visibility DecodeSend(Queue& q, DecodedSend* out) override;
  Visibility DecodeReceive(Queue& q, DecodedReceive* out) override;
  void Express(NativeCompletion* native) const override;
  bool Encode(CqFacts& cq, const NativeCompletion& native) override;
  void Reset(QpFacts& qp) override { qp.sq.next = qp.rq.next = 0; }

 private:
  Reply GetContext(Bytes in, MutBytes out, KernelAge age);
  Reply CreateCq(const Command& command, Bytes in, MutBytes out);
  Reply ResizeCq(const Command& command, Bytes in);
  // Writes a CQE of that kind (kMlx5Cqe*) at q.next and advances it.
  static void WriteCqe(Queue& q, uint8_t kind, uint8_t* cqe);
  Reply CreateQp(const Command& command, Bytes in, MutBytes out);
  Reply CreateSrq(const Command& command, Bytes in, MutBytes out);
  static size_t DecodeEthernet(const uint8_t* segment, size_t size, DecodedSend* out);
  static bool DecodeUmr(const uint8_t* segments, uint32_t size, DecodedSend* out);

  DeviceTraits traits_;
  std::vector<uint8_t> wqe_;  // of the entry being decoded, made linear
};

Mlx5Model::Mlx5Model() {
  traits_ = {"mlx5",
             "mlx5_",
             "pci:v000015B3d00001017sv000015B3sd00000000bc02sc00i00",
             1,
             {},
             static_cast<model::QpTypeMask>(
                 model::MaskOf(model::QpType::kRc) | model::MaskOf(model::QpType::kUc) |
                 model::MaskOf(model::QpType::kUd) | model::MaskOf(model::QpType::kXrcSend) |
                 model::MaskOf(model::QpType::kXrcRecv) | model::MaskOf(model::QpType::kRawPacket)),
             IBV_LINK_LAYER_ETHERNET,
             1024};
  ibv_device_attr& a = traits_.attr;
  a.vendor_id = 0x02c9;
  a.vendor_part_id = 0x1017;
  a.max_mr_size = ~uint64_t{0};
  a.page_size_cap = 0xfffffffffffff000;
  a.max_qp = 1 << 17;
  a.max_qp_wr = 1 << 15;
  a.device_cap_flags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                       IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC |
                       IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
                       IBV_DEVICE_RAW_IP_CSUM;
  traits_.max_tso = 1 << 18;
  a.max_sge = 30;
  a.max_sge_rd = 30;
  a.max_cq = 1 << 17;
  a.max_cqe = (1 << 22) - 1;
  a.max_mr = 1 << 22;
  a.max_pd = 1 << 17;
  a.max_qp_rd_atom = 16;
  a.max_res_rd_atom = 1 << 21;
  a.max_qp_init_rd_atom = 16;
  a.atomic_cap = IBV_ATOMIC_HCA;
  a.max_mw = 1 << 22;
  a.max_mcast_grp = 1 << 17;
  a.max_mcast_qp_attach = 240;
  a.max_total_mcast_qp_attach = 1 << 24;
  a.max_ah = 0x7fffffff;
  a.max_srq = 1 << 17;
  a.max_srq_wr = (1 << 15) - 1;
  a.max_srq_sge = 31;
  a.max_pkeys = 128;
  a.local_ca_ack_delay = 16;
  a.phys_port_cnt = 1;
}

// --- Commands ------------------------------------------------------------------------------------

Reply Mlx5Model::Answer(const Command& command, Bytes in, MutBytes out) {
  switch (command.kind) {
    case Command::Kind::kGetContext:
      return GetContext(in, out, command.kernel_age);
    case Command::Kind::kQueryDevice: {
      if (!command.extended) return Reply();
      mlx5_ib_query_device_resp response = {};
      response.response_length = static_cast<uint32_t>(std::min(sizeof response, out.size));
      response.tso_caps.max_tso = traits_.max_tso;
      response.tso_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
      return Respond(out, response);
    }
    case Command::Kind::kAllocPd: {
      mlx5_ib_alloc_pd_resp response = {};
      response.pdn = command.pd;
      return Respond(out, response);
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
    case Command::Kind::kCreateAh: {
      // The address that the network would resolve: it names the handle.
      mlx5_ib_create_ah_resp response = {};
      response.response_length = sizeof response;
      response.dmac[0] = 0x02;
      PutBe32(response.dmac, 2, command.ah->number);
      return Respond(out, response);
    }
    default:
      return Reply();
  }
}

Reply Mlx5Model::GetContext(Bytes in, MutBytes out, KernelAge age) {
  auto request = Read<mlx5_ib_alloc_ucontext_req_v2>(in);
  if (request.flags & MLX5_IB_ALLOC_UCTX_DEVX) return Error(EOPNOTSUPP);
  mlx5_ib_alloc_ucontext_resp r = {};
  r.qp_tab_size = 1 << 18;
  r.bf_reg_size = kMlx5BfRegSize;
  r.tot_bfregs = 16;
  r.cache_line_size = 64;
  r.max_sq_desc_sz = 1008;
  r.max_rq_desc_sz = 512;
  r.max_send_wqebb = 1 << 15;
  r.max_recv_wr = 1 << 15;
  r.max_srq_recv_wr = (1 << 15) - 1;
  r.num_ports = 1;
  if (age == KernelAge::kOlder) out.size = std::min(out.size, kOldContextResponse);
  if (age == KernelAge::kNewer) r.comp_mask = kUnknownToThisLibrary;
  r.response_length = std::min(sizeof r, out.size);
  r.cqe_version = std::min<uint8_t>(request.max_cqe_version, 1);
  r.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
  if (age != KernelAge::kOlder) r.eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
  r.log_uar_size = 12;
  r.num_uars_per_page = 1;
  r.num_dyn_bfregs = 128;
  return Respond(out, r);
}

Reply Mlx5Model::CreateCq(const Command& command, Bytes in, MutBytes out) {
  auto request = Read<mlx5_ib_create_cq>(in);
  if (request.cqe_size != 64 && request.cqe_size != 128) return Error(EINVAL);
  if (request.cqe_comp_en) return Error(EOPNOTSUPP);
  CqFacts& cq = *command.cq;
  Queue& q = cq.queue;
  q.kind = Queue::Kind::kCompletion;
  q.entries = RoundUpToPowerOf2(cq.cqe + 1);
  q.stride = request.cqe_size;
  q.base = reinterpret_cast<uint8_t*>(request.buf_addr);
  q.size = size_t{q.entries} * q.stride;
  q.doorbell_record = reinterpret_cast<uint8_t*>(request.db_addr);
  q.note[kCqeSize] = request.cqe_size;
  cq.cqe = q.entries - 1;
  mlx5_ib_create_cq_resp response = {};
  response.cqn = cq.number;
  return Respond(out, response);
}

// The device ends the old buffer with an entry of its own and goes on in the new one, behind the
// place that this entry would have there; what the old one holds is the library's to carry over.
Reply Mlx5Model::ResizeCq(const Command& command, Bytes in) {
  auto request = Read<mlx5_ib_resize_cq>(in);
  CqFacts& cq = *command.cq;
  Queue& q = cq.queue;
  if (request.cqe_size != q.note[kCqeSize]) return Error(EINVAL);
  const uint32_t consumed = be32toh(LoadShared32(q.doorbell_record)) & 0xffffff;
  const uint32_t waiting = (q.next - consumed) & 0xffffff;
  const uint32_t entries = RoundUpToPowerOf2(cq.cqe + 1);
  // Room for the last entry of the old buffer, and for all that wait in the new one.
  if (waiting >= q.entries || waiting >= entries) return Error(EINVAL);
  uint8_t cqe[kMlx5CqeSize] = {};
  WriteCqe(q, kMlx5CqeResizeCq, cqe);
  q.entries = entries;
  q.base = reinterpret_cast<uint8_t*>(request.buf_addr);
  q.size = size_t{q.entries} * q.stride;
  cq.cqe = q.entries - 1;
  return Reply();
}

Reply Mlx5Model::CreateQp(const Command& command, Bytes in, MutBytes out) {
  auto request = Read<mlx5_ib_create_qp>(in);
  if (request.flags & MLX5_QP_FLAG_SIGNATURE) return Error(EOPNOTSUPP);
  QpFacts& qp = *command.qp;
  auto* buffer = reinterpret_cast<uint8_t*>(request.buf_addr);
  auto* records = reinterpret_cast<uint8_t*>(request.db_addr);
  const size_t rq_size = size_t{request.rq_wqe_count} << request.rq_wqe_shift;
  if (request.rq_wqe_count != 0) {
    Queue& rq = qp.rq;
    rq.kind = Queue::Kind::kReceive;
    rq.base = buffer;
    rq.size = rq_size;
    rq.entries = request.rq_wqe_count;
    rq.stride = uint32_t{1} << request.rq_wqe_shift;
    rq.max_sge = rq.stride / kMlx5DataSize;
    qp.cap.max_recv_wr = rq.entries;  // what the kernel answers to a query
    rq.doorbell_record = records + 4 * kMlx5RcvDbr;
  }
  if (request.sq_wqe_count != 0) {
    Queue& sq = qp.sq;
    sq.kind = Queue::Kind::kSend;
    // The send queue of a RAW_PACKET QP is an object of its own, and so is its buffer.
    const bool apart = qp.type == model::QpType::kRawPacket;
    sq.base = apart ? reinterpret_cast<uint8_t*>(request.sq_buf_addr) : buffer + rq_size;
    sq.entries = request.sq_wqe_count;
    sq.stride = kBasicBlock;
    sq.size = size_t{sq.entries} * sq.stride;
    sq.max_sge = qp.cap.max_send_sge;
    sq.max_inline = qp.cap.max_inline_data;
    sq.doorbell_record = records + 4 * kMlx5SndDbr;
  }
  qp.sq.note[kUidx] = request.uidx;
  mlx5_ib_create_qp_resp response = {};
  // One of the BlueFlame registers that the context has mapped: 8 pages, the first two registers of
  // each (the library numbers all four).
  response.bfreg_index = (qp.number % 8) * 4 + (qp.number / 8) % 2;
  if (request.flags & (MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_UAR_PAGE_INDEX)) {
    response.bfreg_index = request.bfreg_index;
  }
  if (command.kernel_age == KernelAge::kOlder) out.size = std::min(out.size, kOldQpResponse);
  if (command.kernel_age == KernelAge::kNewer) response.comp_mask = kUnknownToThisLibrary;
  return Respond(out, response);
}

Reply Mlx5Model::CreateSrq(const Command& command, Bytes in, MutBytes out) {
  auto request = Read<mlx5_ib_create_srq>(in);
  SrqFacts& srq = *command.srq;
  Queue& q = srq.queue;
  q.kind = Queue::Kind::kShared;
  q.entries = RoundUpToPowerOf2(srq.attr.max_wr + 1);
  q.stride = std::max<uint32_t>(
      32, RoundUpToPowerOf2(kMlx5SrqNextSize + srq.attr.max_sge * kMlx5DataSize));
  q.base = reinterpret_cast<uint8_t*>(request.buf_addr);
  q.size = size_t{q.entries} * q.stride;
  q.doorbell_record = reinterpret_cast<uint8_t*>(request.db_addr);
  q.max_sge = (q.stride - kMlx5SrqNextSize) / kMlx5DataSize;
  q.note[kNextIndex] = 0;
  q.note[kSrqUidx] = request.uidx;
  mlx5_ib_create_srq_resp response = {};
  response.srqn = srq.number;
  return Respond(out, response);
}

// --- Doorbells -----------------------------------------------------------------------------------

std::optional<Doorbell> Mlx5Model::OnWrite(const Mapping&, uint64_t offset, Bytes stored) {
  if (stored.size < 8) return {};
  Doorbell bell;
  if (offset == kMlx5UarCqDoorbell) {
    uint32_t command = GetBe32(stored.data, 0);
    bell.kind = Doorbell::Kind::kArmCq;
    bell.number = GetBe32(stored.data, 4) & 0xffffff;
    bell.arm = command & (1 << 24) ? CqFacts::Arm::kSolicited : CqFacts::Arm::kAny;
    bell.sequence = command >> 28 & 3;
    return bell;
  }
  // A half of a BlueFlame register: the first 8 bytes of a WQE, alone or with all of it behind. The
  // rest of a longer copy lands between the halves' beginnings and rings nothing.
  if (offset < kMlx5UarBlueFlame || (offset - kMlx5UarBlueFlame) % (kMlx5BfRegSize / 2) != 0) {
    return {};
  }
  bell.kind = Doorbell::Kind::kSend;
  bell.number = GetBe32(stored.data, kMlx5CtrlQpnDs) >> 8;
  return bell;
}

// --- Decoding ------------------------------------------------------------------------------------

// LOCAL_INV and BIND_MW are memory key updates. Type 2: the key is freed, or made to translate.
bool Mlx5Model::DecodeUmr(const uint8_t* segments, uint32_t size, DecodedSend* out) {
  if (size < kMlx5UmrSize + kMlx5MkeySize) return false;
  model::SendRequest& r = out->request;
  const uint8_t* mkey = segments + kMlx5UmrSize;
  const uint32_t key = out->mw_rkey;  // the control segment's immediate
  if (mkey[kMlx5MkeyFree] & kMlx5MkeyIsFree) {
    // A bind of length 0 looks the same.
    r.op = Operation::kLocalInv;
    r.rkey = model::Rkey(key);
    return true;
  }
  if (size < kMlx5UmrSize + kMlx5MkeySize + kMlx5DataSize) return false;
  r.op = Operation::kBindMw;
  // The region's part is the translation entry; the window's addresses begin at 0 or there.
  const uint8_t* entry = mkey + kMlx5MkeySize;
  r.bind_addr = GetBe64(entry, kMlx5KlmAddress);
  if (GetBe64(mkey, kMlx5MkeyStart) != r.bind_addr) r.bind_access |= IBV_ACCESS_ZERO_BASED;
  r.bind_length = GetBe64(mkey, kMlx5MkeyLength);
  r.bind_rkey = model::Rkey((key & ~0xffu) | (GetBe32(mkey, kMlx5MkeyQpnMkey) & 0xff));
  const uint8_t access = mkey[kMlx5MkeyAccess];
  if (access & kMlx5AccessLocalWrite) r.bind_access |= IBV_ACCESS_LOCAL_WRITE;
  if (access & kMlx5AccessRemoteRead) r.bind_access |= IBV_ACCESS_REMOTE_READ;
  if (access & kMlx5AccessRemoteWrite) r.bind_access |= IBV_ACCESS_REMOTE_WRITE;
  if (access & kMlx5AccessAtomic) r.bind_access |= IBV_ACCESS_REMOTE_ATOMIC;
  out->mr_lkey = GetBe32(entry, kMlx5KlmMkey);
  return true;
}

// The front of a frame's WQE. Returns its size, 0: it ends early.
size_t Mlx5Model::DecodeEthernet(const uint8_t* segment, size_t size, DecodedSend* out) {
  if (size < kMlx5EthSize) return 0;
  model::SendRequest& r = out->request;
  const uint8_t checksums = segment[kMlx5EthChecksums];
  if (checksums & (kMlx5EthL3Checksum | kMlx5EthL4Checksum)) r.flags |= IBV_SEND_IP_CSUM;
  if (checksums != 0 && checksums != (kMlx5EthL3Checksum | kMlx5EthL4Checksum)) {
    out->complaints.push_back(fmt::format("cs_flags {:#x}", checksums));
  }
  if (GetBe32(segment, kMlx5EthReserved0) != 0 || segment[kMlx5EthReserved1] != 0 ||
      GetBe32(segment, kMlx5EthReserved2) != 0) {
    out->complaints.push_back("reserved bits in the Ethernet segment");
  }
  r.tso_mss = GetBe16(segment, kMlx5EthMss);
  if (r.op != Operation::kTso && r.tso_mss != 0) {
    out->complaints.push_back("an mss in a request that is not TSO");
  }
  const size_t length = GetBe16(segment, kMlx5EthHeaderLength);
  const size_t taken =
      (std::max<size_t>(kMlx5EthHeader + length, kMlx5EthSize) + kUnit - 1) / kUnit * kUnit;
  if (taken > size) return 0;
  out->header.assign(segment + kMlx5EthHeader, segment + kMlx5EthHeader + length);
  return taken;
}

Visibility Mlx5Model::DecodeSend(Queue& q, DecodedSend* out) {
  if (!q.exists()) return Visibility::kNotYet;
  const uint32_t posted = be32toh(LoadShared32(q.doorbell_record)) & 0xffff;
  if (posted == (q.next & 0xffff)) return Visibility::kNotYet;
  out->Clear();
  const uint32_t mask = q.entries - 1;
  const uint8_t* first = q.base + size_t{q.next & mask} * kBasicBlock;
  const uint32_t header = GetBe32(first, kMlx5CtrlOpmodIdxOpcode);
  const uint32_t qpn_ds = GetBe32(first, kMlx5CtrlQpnDs);
  uint32_t ds = qpn_ds & 0x3f;
  auto malformed = [&](std::string what) {
    out->complaints.push_back(std::move(what));
    // No more than the doorbell covers, which is one at least.
    out->slots = std::clamp<uint32_t>((ds + 3) / 4, 1, (posted - q.next) & 0xffff);
    return Visibility::kMalformed;
  };
  out->raw = Bytes{first, kBasicBlock};
  if (ds == 0) {
    ds = 1;
    return malformed("the doorbell covers a WQE of 0 segments");
  }
  out->slots = (ds + 3) / 4;
  // The ring is circular: a WQE may continue at its start.
  wqe_.resize(size_t{out->slots} * kBasicBlock);
  for (uint32_t i = 0; i < out->slots; ++i) {
    std::memcpy(&wqe_[size_t{i} * kBasicBlock], q.base + size_t{(q.next + i) & mask} * kBasicBlock,
                kBasicBlock);
  }
  const bool wraps = (q.next & mask) + out->slots > q.entries;
  out->raw = Bytes{wraps ? wqe_.data() : first, size_t{ds} * kUnit};
  if ((header >> 8 & 0xffff) != (q.next & 0xffff)) {
    return malformed(
        fmt::format("WQE index {} at place {}", header >> 8 & 0xffff, q.next & 0xffff));
  }
  if (qpn_ds >> 8 != q.number) return malformed("the WQE names another QP");
  if (((posted - q.next) & 0xffff) < out->slots) {
    return malformed(fmt::format("a WQE of {} blocks, but the doorbell covers {}", out->slots,
                                 (posted - q.next) & 0xffff));
  }
  if (header >> 24 != 0) return malformed(fmt::format("opcode modifier {}", header >> 24));
  const uint8_t opcode = header & 0xff;
  std::optional<Operation> op = OperationOf(opcode);
  const bool frames = q.type == model::QpType::kRawPacket;
  if (!op ||
      (frames ? *op != Operation::kSend && *op != Operation::kTso : *op == Operation::kTso)) {
    return malformed(fmt::format("opcode {:#x}", opcode));
  }

  model::SendRequest& r = out->request;
  r.op = *op;
  const uint8_t control = wqe_[kMlx5CtrlFmCeSe];
  if (control & kMlx5CqUpdate) r.flags |= IBV_SEND_SIGNALED;
  if (control & kMlx5Solicited) r.flags |= IBV_SEND_SOLICITED;
  const uint8_t fence = control >> kMlx5FenceShift;
  if (fence == kMlx5FenceFence || fence == kMlx5FenceSmallAndFence) r.flags |= IBV_SEND_FENCE;
  // Bit 0 is reserved, and of the completion field 1 and 3 are other modes than the API has.
  if (control & 1 || control & 4) {
    out->complaints.push_back(fmt::format("reserved bits in fm_ce_se {:#x}", control));
  }
  if (wqe_[kMlx5CtrlSignature] != 0) out->complaints.push_back("a signature that nobody asked for");
  const uint32_t immediate = Get<uint32_t>(wqe_.data(), kMlx5CtrlImm);
  if (r.op == Operation::kSendWithImm || r.op == Operation::kRdmaWriteWithImm) r.imm = immediate;
  if (r.op == Operation::kSendWithInv) r.rkey = model::Rkey(be32toh(immediate));

  const uint8_t* at = wqe_.data() + kMlx5CtrlSize;
  const uint8_t* const end = wqe_.data() + size_t{ds} * kUnit;
  if (opcode == kMlx5OpUmr) {
    out->mw_rkey = be32toh(immediate);
    if (!DecodeUmr(at, static_cast<uint32_t>(end - at), out)) {
      return malformed("a key update that ends early");
    }
    return Visibility::kRequest;
  }
  if (frames) {
    const size_t taken = DecodeEthernet(at, static_cast<size_t>(end - at), out);
    if (taken == 0) return malformed("an Ethernet segment that ends early");
    at += taken;
  }
  if (q.type == model::QpType::kXrcSend) {
    if (end - at < kMlx5XrcSize) return malformed("no XRC segment");
    r.remote_srqn = model::SrqNum(GetBe32(at, kMlx5XrcSrqn) & 0xffffff);
    at += kMlx5XrcSize;
  }
  if (q.type == model::QpType::kUd) {
    if (end - at < kMlx5AvSize) return malformed("no address vector");
    r.remote_qkey = model::Qkey(GetBe32(at, kMlx5AvQkey));
    const uint32_t dqp = GetBe32(at, kMlx5AvDqpDct);
    r.remote_qpn = model::QpNum(dqp & 0xffffff);
    if (!(dqp & MLX5_LAYOUT_EXTENDED_UD_AV)) {
      out->complaints.push_back("the address vector is not marked as extended");
    }
    out->ah_number = GetBe32(at, kMlx5AvRmac + 2);
    at += kMlx5AvSize;
  }
  if (model::Info(r.op).takes_rkey) {
    if (end - at < kMlx5RaddrSize) return malformed("no remote address segment");
    r.remote_addr = model::RemoteAddr(GetBe64(at, kMlx5RaddrAddr));
    r.rkey = model::Rkey(GetBe32(at, kMlx5RaddrRkey));
    at += kMlx5RaddrSize;
  }
  if (r.op == Operation::kAtomicCmpAndSwp || r.op == Operation::kAtomicFetchAndAdd) {
    if (end - at < kMlx5AtomicSize) return malformed("no atomic segment");
    const uint64_t swap_add = GetBe64(at, kMlx5AtomicSwapAdd);
    const uint64_t compare = GetBe64(at, kMlx5AtomicCompare);
    if (r.op == Operation::kAtomicCmpAndSwp) {
      r.compare_or_add = compare;
      r.swap = swap_add;
    } else {
      r.compare_or_add = swap_add;
    }
    at += kMlx5AtomicSize;
  }
  r.data = model::DataKind::kSge;
  bool has_inline = false;
  while (at < end) {
    const uint32_t count = GetBe32(at, kMlx5DataByteCount);
    if (count & MLX5_LAYOUT_INLINE_SEG) {
      const uint32_t length = count & ~MLX5_LAYOUT_INLINE_SEG;
      const size_t taken = (4 + size_t{length} + kUnit - 1) / kUnit * kUnit;
      if (taken > static_cast<size_t>(end - at)) {
        return malformed(
            fmt::format("{} bytes of inline data run over the end of the WQE", length));
      }
      out->inline_data.insert(out->inline_data.end(), at + 4, at + 4 + length);
      has_inline = true;
      at += taken;
    } else {
      if (!ReadDataSegment(at, &out->sge))
        return malformed("a data segment with the end mark's key");
      at += kMlx5DataSize;
    }
  }
  if (has_inline && !out->sge.empty()) return malformed("inline data and pointers in one WQE");
  if (has_inline && r.op == Operation::kSend) {
    // One piece with the header in front of it.
    out->inline_data.insert(out->inline_data.begin(), out->header.begin(), out->header.end());
    out->header.clear();
  }
  if (has_inline) r.data = model::DataKind::kInline;
  const model::DataRule rule = model::Info(r.op).data;
  if (has_inline && rule != model::DataRule::kSgeOrInline) {
    return malformed("inline data for an operation that returns data");
  }
  return Visibility::kRequest;
}

Visibility Mlx5Model::DecodeReceive(Queue& q, DecodedReceive* out) {
  const uint32_t posted = be32toh(LoadShared32(q.doorbell_record)) & 0xffff;
  if (posted == (q.next & 0xffff)) return Visibility::kNotYet;
  out->Clear();
  const uint8_t* wqe;
  const uint8_t* at;
  if (q.kind == Queue::Kind::kShared) {
    const uint32_t index = q.note[kNextIndex] & (q.entries - 1);
    wqe = q.base + size_t{index} * q.stride;
    out->native_index = index;
    q.note[kNextIndex] = GetBe16(wqe, kMlx5SrqNextIndex);
    at = wqe + kMlx5SrqNextSize;
  } else {
    wqe = q.base + size_t{q.next & (q.entries - 1)} * q.stride;
    out->native_index = q.next & 0xffff;
    at = wqe;
  }
  out->raw = Bytes{wqe, q.stride};
  for (uint32_t i = 0; i < q.max_sge; ++i, at += kMlx5DataSize) {
    if (!ReadDataSegment(at, &out->sge)) break;
  }
  return Visibility::kRequest;
}

// --- Completions ---------------------------------------------------------------------------------

void Mlx5Model::Express(NativeCompletion* native) const {
  ibv_wc_status& status = native->completion.status;
  if (status != IBV_WC_SUCCESS && SyndromeOf(status) == kNoSyndrome) status = IBV_WC_GENERAL_ERR;
}

bool Mlx5Model::Encode(CqFacts& cq, const NativeCompletion& native) {
  Queue& q = cq.queue;
  const uint32_t consumed = be32toh(LoadShared32(q.doorbell_record)) & 0xffffff;
  if (((q.next - consumed) & 0xffffff) >= q.entries) return false;
  const model::Completion& c = native.completion;
  uint8_t cqe[kMlx5CqeSize] = {};
  const bool ok = c.status == IBV_WC_SUCCESS;
  // A receive of an XRC SRQ is found by the SRQ: its QP has no number at the library.
  const bool of_xrc_srq = native.srq != nullptr && native.srq->cq != nullptr;
  PutBe32(cqe, kMlx5CqeSrqnUidx,
          of_xrc_srq ? native.srq->queue.note[kSrqUidx] : native.qp->sq.note[kUidx]);
  PutBe64(cqe, kMlx5CqeTimestamp, c.timestamp_ns);
  uint8_t kind;
  uint32_t opcode = 0;
  if (!c.is_receive) {
    kind = ok ? kMlx5CqeReq : kMlx5CqeReqErr;
    opcode = OpcodeOf(native.op);
    PutBe16(cqe, kMlx5CqeWqeCounter, static_cast<uint16_t>(native.entry));
    if (ok) PutBe32(cqe, kMlx5CqeByteCnt, c.byte_len);
  } else {
    kind = kMlx5CqeRespErr;
    PutBe16(cqe, kMlx5CqeWqeCounter, static_cast<uint16_t>(native.native_index));
    if (ok) {
      PutBe32(cqe, kMlx5CqeByteCnt, c.byte_len);
      const bool datagram = native.qp->type == model::QpType::kUd;
      PutBe32(cqe, kMlx5CqeFlagsRqpn,
              (c.wc_flags & IBV_WC_GRH ? 1u << 28 : 0) | uint32_t{c.sl} << 24 |
                  (datagram ? c.src_qp & 0xffffff : 0));
      PutBe16(cqe, kMlx5CqeSlid, c.slid);
      if (c.wc_flags & IBV_WC_IP_CSUM_OK) {
        cqe[kMlx5CqeChecksums] = kMlx5CqeL3Good | kMlx5CqeL4Good;
        cqe[kMlx5CqeLayers] = kMlx5CqeIpv4;
      }
      if (c.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        kind = kMlx5CqeRespWriteImm;
      } else if (c.wc_flags & IBV_WC_WITH_IMM) {
        kind = kMlx5CqeRespSendImm;
      } else if (c.wc_flags & IBV_WC_WITH_INV) {
        kind = kMlx5CqeRespSendInv;
      } else {
        kind = kMlx5CqeRespSend;
      }
      if (c.wc_flags & IBV_WC_WITH_IMM) {
        Put<uint32_t>(cqe, kMlx5CqeImmInvalPkey, c.imm);
      } else if (c.wc_flags & IBV_WC_WITH_INV) {
        PutBe32(cqe, kMlx5CqeImmInvalPkey, c.invalidated.value);
      } else {
        PutBe32(cqe, kMlx5CqeImmInvalPkey, c.pkey_index);
      }
    }
  }
  if (!ok) {
    std::memset(cqe + kMlx5CqeTimestamp, 0, 8);  // other fields there
    cqe[kMlx5CqeVendorSyndrome] = static_cast<uint8_t>(c.vendor_err);
    cqe[kMlx5CqeSyndrome] = SyndromeOf(c.status);
  }
  PutBe32(cqe, kMlx5CqeSopDropQpn, opcode << 24 | c.qp_num.value);
  WriteCqe(q, kind, cqe);
  return true;
}

void Mlx5Model::WriteCqe(Queue& q, uint8_t kind, uint8_t* cqe) {
  const uint8_t owner = q.next & q.entries ? 1 : 0;
  cqe[kMlx5CqeOpOwn] = static_cast<uint8_t>(kind << 4 | owner);
  // 128-byte entries have the CQE in their second half. The owner bit goes last.
  uint8_t* at = q.base + size_t{q.next & (q.entries - 1)} * q.stride + (q.stride - kMlx5CqeSize);
  std::memcpy(at, cqe, kMlx5CqeOpOwn);
  __atomic_store_n(at + kMlx5CqeOpOwn, cqe[kMlx5CqeOpOwn], __ATOMIC_RELEASE);
  ++q.next;
}

}  // namespace

std::unique_ptr<DeviceModel> MakeMlx5Model() { return std::make_unique<Mlx5Model>(); }

}  // namespace qpexam::hosted
