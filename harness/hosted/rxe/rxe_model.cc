#include "harness/hosted/rxe/rxe_model.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

#include "harness/hosted/bytes.h"
#include "harness/hosted/rxe/rxe_layout.h"

namespace qpexam::hosted {
namespace {

using model::Operation;

// What a ring's header says and what its creator granted.
struct RingShape {
  uint32_t slots;   // a power of two; one of them stays empty
  uint32_t stride;  // a power of two
};

RingShape ShapeFor(uint32_t usable_entries, uint32_t entry_bytes) {
  return {RoundUpToPowerOf2(usable_entries + 1), RoundUpToPowerOf2(entry_bytes)};
}

RxeMapInfo MakeRing(Queue* queue, RingShape shape, SharedMemory& memory) {
  Mapping ring = memory.Allocate(kRxeQueueData + size_t{shape.slots} * shape.stride);
  queue->base = ring.data;
  queue->size = ring.size;
  queue->entries = shape.slots;
  queue->stride = shape.stride;
  queue->next = 0;
  Put<uint32_t>(ring.data, kRxeQueueLog2ElemSize, Log2(shape.stride));
  Put<uint32_t>(ring.data, kRxeQueueIndexMask, shape.slots - 1);
  return {ring.offset, static_cast<uint32_t>(ring.size), 0};
}

uint32_t Mask(const Queue& q) { return q.entries - 1; }
uint32_t Producer(const Queue& q) { return LoadShared32(q.base + kRxeQueueProducer); }
uint32_t Consumer(const Queue& q) { return LoadShared32(q.base + kRxeQueueConsumer); }
uint8_t* Slot(const Queue& q, uint32_t index) {
  return q.base + kRxeQueueData + size_t{index & Mask(q)} * q.stride;
}

std::optional<Operation> OperationOf(uint32_t opcode) {
  for (const model::OperationInfo& info : model::AllOperations()) {
    if (info.has_send_wr && static_cast<uint32_t>(info.wr_opcode) == opcode) return info.op;
  }
  // Operations that only the builders can express (WR-MIX-005).
  switch (opcode) {
    case IBV_WR_FLUSH:
      return Operation::kFlush;
    case IBV_WR_ATOMIC_WRITE:
      return Operation::kAtomicWrite;
  }
  return std::nullopt;
}

// ::ffff:a.b.c.d
bool MapsIpv4(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

void ReadSges(const uint8_t* at, uint32_t count, std::vector<model::Sge>* sges) {
  for (uint32_t i = 0; i < count; ++i, at += kRxeSgeSize) {
    sges->push_back(
        {Get<uint64_t>(at, 0), Get<uint32_t>(at, 8), model::Lkey(Get<uint32_t>(at, 12))});
  }
}

uint64_t TotalOf(const std::vector<model::Sge>& sges) {
  uint64_t total = 0;
  for (const model::Sge& sge : sges) total += sge.length;
  return total;
}

void TruncateTo(uint64_t length, std::vector<model::Sge>* sges) {
  for (size_t i = 0; i < sges->size(); ++i) {
    if ((*sges)[i].length >= length) {
      (*sges)[i].length = static_cast<uint32_t>(length);
      sges->resize(i + 1);
      return;
    }
    length -= (*sges)[i].length;
  }
}

// An address as librxe writes it into a socket address: of IPv4 where the GID maps one, whose
// family it leaves 0; the module reads the network type instead.
bool IsSocketAddressOf(const ibv_gid& gid, const uint8_t* at) {
  return MapsIpv4(gid) ? std::memcmp(at + offsetof(sockaddr_in, sin_addr), gid.raw + 12, 4) == 0
                       : Get<uint16_t>(at, 0) == AF_INET6 &&
                             std::memcmp(at + offsetof(sockaddr_in6, sin6_addr), gid.raw, 16) == 0;
}

// The address that a WQE holds where it names no handle (rxe_get_av() takes it then).
void ReadAddress(const uint8_t* wqe, DecodedSend* out) {
  ibv_ah_attr& a = out->address.emplace();
  a = {};
  a.port_num = wqe[kRxeUdAvPort];
  std::memcpy(a.grh.dgid.raw, wqe + kRxeUdAvGid, sizeof a.grh.dgid.raw);
  a.grh.flow_label = Get<uint32_t>(wqe, kRxeUdAvFlowLabel);
  a.grh.sgid_index = wqe[kRxeUdAvGidIndex];
  a.grh.hop_limit = wqe[kRxeUdAvHopLimit];
  a.grh.traffic_class = wqe[kRxeUdAvTrafficClass];
  const int network = MapsIpv4(a.grh.dgid) ? kRxeNetworkIpv4 : kRxeNetworkIpv6;
  if (wqe[kRxeUdAvNetwork] != network) {
    out->complaints.push_back(
        fmt::format("av.network_type is {}, not {}", wqe[kRxeUdAvNetwork], network));
  }
  if (!IsSocketAddressOf(a.grh.dgid, wqe + kRxeUdAvTarget)) {
    out->complaints.push_back("av.dgid_addr is not the address of av.grh.dgid");
  }
  const MacAddress mac = NeighbourOf(a.grh.dgid);
  if (std::memcmp(wqe + kRxeUdAvMac, mac.bytes, sizeof mac.bytes) != 0) {
    out->complaints.push_back("av.dmac is not what the network has for av.grh.dgid");
  }
}

class RxeModel : public DeviceModel {
 public:
  RxeModel() {
    ibv_device_attr& a = traits_.attr;
    a.max_mr_size = ~uint64_t{0};
    a.page_size_cap = 0xfffff000;
    a.max_qp = 0x10000;
    a.max_qp_wr = 0x4000;
    a.device_cap_flags =
        IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_AUTO_PATH_MIG |
        IBV_DEVICE_CHANGE_PHY_PORT | IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_PORT_ACTIVE_EVENT |
        IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
        IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    a.max_sge = 32;
    a.max_sge_rd = 32;
    a.max_cq = 0x10000;
    a.max_cqe = (1 << 15) - 1;
    a.max_mr = 0x80000;
    a.max_pd = 0x7ffc;
    a.max_qp_rd_atom = 128;
    a.max_res_rd_atom = 0x3f000;
    a.max_qp_init_rd_atom = 128;
    a.atomic_cap = IBV_ATOMIC_HCA;
    a.max_mw = 0x80000;
    a.max_mcast_grp = 8192;
    a.max_mcast_qp_attach = 56;
    a.max_total_mcast_qp_attach = 0x70000;
    a.max_ah = 0x7fff;
    a.max_srq = 0x7fff;
    a.max_srq_wr = 0x8000;
    a.max_srq_sge = 27;
    a.max_pkeys = 64;
    a.local_ca_ack_delay = 15;
    a.phys_port_cnt = 1;
    // IB_UVERBS_DEVICE_FLUSH_GLOBAL, _FLUSH_PERSISTENT, _ATOMIC_WRITE: the module has them
    // since 6.2, and the library offers the operations on any kernel.
    traits_.more_cap_flags = uint64_t{7} << 38;
  }

  const DeviceTraits& traits() const override { return traits_; }

  Reply Answer(const Command& command, Bytes, MutBytes out) override {
    SharedMemory* memory = command.memory;
    switch (command.kind) {
      case Command::Kind::kCreateCq: {
        CqFacts& cq = *command.cq;
        RingShape shape = ShapeFor(cq.cqe, kRxeCqeSize);
        RxeMapInfo info = MakeRing(&cq.queue, shape, *memory);
        cq.queue.kind = Queue::Kind::kCompletion;
        cq.cqe = shape.slots - 1;
        return Respond(out, info);
      }
      case Command::Kind::kResizeCq:
        return ResizeCq(command, out);
      case Command::Kind::kCreateSrq: {
        SrqFacts& srq = *command.srq;
        RingShape shape =
            ShapeFor(srq.attr.max_wr, kRxeRecvWqeSize + srq.attr.max_sge * kRxeSgeSize);
        struct {
          RxeMapInfo info;
          uint32_t number, reserved;
        } response = {MakeRing(&srq.queue, shape, *memory), srq.number, 0};
        srq.queue.kind = Queue::Kind::kShared;
        srq.queue.max_sge = srq.attr.max_sge;
        srq.attr.max_wr = shape.slots - 1;
        return Respond(out, response);
      }
      case Command::Kind::kModifySrq:
        // The response goes to an address inside the request; resizing is not offered (a device
        // need not: IBV_DEVICE_SRQ_RESIZE would say so).
        return command.attr_mask & IBV_SRQ_MAX_WR ? Error(EOPNOTSUPP) : Reply();
      case Command::Kind::kCreateQp:
        return CreateQp(command, out);
      case Command::Kind::kCreateAh: {
        // Before they kept a table of handles, kernels answered nothing here: librxe then puts an
        // address of its own into each WQE. What a later one may use is `reserved`.
        if (command.kernel_age == KernelAge::kOlder) return Reply();
        struct {
          uint32_t ah_num, reserved;
        } response = {command.ah->number, command.kernel_age == KernelAge::kNewer ? ~0u : 0};
        return Respond(out, response);
      }
      case Command::Kind::kPostSend: {
        // rxe_post_send() refuses a QP before RTS; librxe returns that errno.
        if (command.qp->state < IBV_QPS_RTS) return Error(EINVAL);
        Reply reply;
        reply.doorbell = true;
        return reply;
      }
      default:
        return Reply();
    }
  }

  Visibility DecodeSend(Queue& q, DecodedSend* out) override;
  Visibility DecodeReceive(Queue& q, DecodedReceive* out) override;

  // As do_complete() in the kernel: before the CQE is written.
  bool Retire(Queue& q, uint32_t slots) override {
    StoreShared32(q.base + kRxeQueueConsumer, (Consumer(q) + slots) & Mask(q));
    return true;
  }

  bool Encode(CqFacts& cq, const NativeCompletion& native) override;

  void Reset(QpFacts& qp) override {
    for (Queue* q : {&qp.sq, &qp.rq}) {
      if (!q->exists()) continue;
      // The indices stay; the entries do not (rxe_queue_reset).
      std::memset(q->base + kRxeQueueData, 0, q->size - kRxeQueueData);
      uint32_t producer = Producer(*q) & Mask(*q);
      StoreShared32(q->base + kRxeQueueConsumer, producer);
      q->next = producer;
    }
  }

 private:
  Reply CreateQp(const Command& command, MutBytes out) {
    QpFacts& qp = *command.qp;
    // Inline data and SGEs share the tail of a WQE, so both grow to the larger (rxe_qp_init_req).
    uint32_t tail = std::max(qp.cap.max_send_sge * kRxeSgeSize, qp.cap.max_inline_data);
    qp.cap.max_send_sge = tail / kRxeSgeSize;
    qp.cap.max_inline_data = tail;
    RingShape shape = ShapeFor(qp.cap.max_send_wr, kRxeSendWqeSize + tail);
    struct {
      RxeMapInfo rq, sq;
    } response = {};
    response.sq = MakeRing(&qp.sq, shape, *command.memory);
    qp.sq.kind = Queue::Kind::kSend;
    qp.sq.max_sge = qp.cap.max_send_sge;
    qp.sq.max_inline = qp.cap.max_inline_data;
    qp.cap.max_send_wr = shape.slots - 1;
    if (qp.srq == nullptr) {
      RingShape receive =
          ShapeFor(qp.cap.max_recv_wr, kRxeRecvWqeSize + qp.cap.max_recv_sge * kRxeSgeSize);
      response.rq = MakeRing(&qp.rq, receive, *command.memory);
      qp.rq.kind = Queue::Kind::kReceive;
      qp.rq.max_sge = qp.cap.max_recv_sge;
      qp.cap.max_recv_wr = receive.slots - 1;
    }
    return Respond(out, response);
  }

  Reply ResizeCq(const Command& command, MutBytes out) {
    CqFacts& cq = *command.cq;
    Queue old = cq.queue;
    uint32_t waiting = (Producer(old) - Consumer(old)) & Mask(old);
    if (cq.cqe < waiting) return Error(EINVAL);
    RingShape shape = ShapeFor(cq.cqe, kRxeCqeSize);
    Queue fresh = old;
    RxeMapInfo info = MakeRing(&fresh, shape, *command.memory);
    for (uint32_t i = 0; i < waiting; ++i) {
      std::memcpy(Slot(fresh, i), Slot(old, Consumer(old) + i), kRxeCqeSize);
    }
    fresh.next = waiting;
    StoreShared32(fresh.base + kRxeQueueProducer, waiting & Mask(fresh));
    cq.queue = fresh;
    cq.cqe = shape.slots - 1;
    return Respond(out, info);
  }

  DeviceTraits traits_ = {"rxe",
                          "rxe",
                          "",
                          2,
                          {},
                          static_cast<model::QpTypeMask>(model::MaskOf(model::QpType::kRc) |
                                                         model::MaskOf(model::QpType::kUc) |
                                                         model::MaskOf(model::QpType::kUd)),
                          IBV_LINK_LAYER_ETHERNET,
                          512};
};

Visibility RxeModel::DecodeSend(Queue& q, DecodedSend* out) {
  uint32_t producer = Producer(q);
  if ((producer & Mask(q)) == (q.next & Mask(q))) return Visibility::kNotYet;
  out->Clear();
  if (producer > Mask(q)) {
    // librxe keeps the index masked; the module masks what it reads.
    out->complaints.push_back(
        fmt::format("producer index {} is not below {}", producer, q.entries));
  }
  const uint8_t* wqe = Slot(q, q.next);
  out->raw = Bytes{wqe, q.stride};
  out->carries_wr_id = true;
  model::SendRequest& r = out->request;
  r.wr_id = model::WrId(Get<uint64_t>(wqe, kRxeWrId));
  uint32_t flags = Get<uint32_t>(wqe, kRxeSendFlags);
  r.flags = flags & ~uint32_t{IBV_SEND_INLINE};
  uint32_t opcode = Get<uint32_t>(wqe, kRxeOpcode);
  std::optional<Operation> op = OperationOf(opcode);
  if (!op) {
    // next_opcode() fails: IB_WC_LOC_QP_OP_ERR.
    out->complaints.push_back(fmt::format("opcode {} is none", opcode));
    return Visibility::kMalformed;
  }
  r.op = *op;
  if (uint32_t state = Get<uint32_t>(wqe, kRxeState)) {
    out->complaints.push_back(fmt::format("state is {}, not 0 (posted)", state));
  }

  uint32_t extra = Get<uint32_t>(wqe, kRxeExtra);
  switch (r.op) {
    case Operation::kSendWithImm:
    case Operation::kRdmaWriteWithImm:
      r.imm = extra;
      break;
    case Operation::kSendWithInv:
    case Operation::kLocalInv:
      r.rkey = model::Rkey(extra);
      break;
    default:
      break;
  }
  switch (r.op) {
    case Operation::kRdmaWrite:
    case Operation::kRdmaWriteWithImm:
    case Operation::kRdmaRead:
    case Operation::kAtomicWrite:
      r.remote_addr = model::RemoteAddr(Get<uint64_t>(wqe, kRxeRdmaRemoteAddr));
      r.rkey = model::Rkey(Get<uint32_t>(wqe, kRxeRdmaRkey));
      break;
    case Operation::kAtomicCmpAndSwp:
    case Operation::kAtomicFetchAndAdd:
      r.remote_addr = model::RemoteAddr(Get<uint64_t>(wqe, kRxeAtomicRemoteAddr));
      r.rkey = model::Rkey(Get<uint32_t>(wqe, kRxeAtomicRkey));
      r.compare_or_add = Get<uint64_t>(wqe, kRxeAtomicCompareAdd);
      r.swap = Get<uint64_t>(wqe, kRxeAtomicSwap);
      break;
    case Operation::kFlush:
      r.remote_addr = model::RemoteAddr(Get<uint64_t>(wqe, kRxeFlushRemoteAddr));
      r.rkey = model::Rkey(Get<uint32_t>(wqe, kRxeFlushRkey));
      // The range comes from dma.length; wr.flush.length is not read.
      r.flush_length = Get<uint32_t>(wqe, kRxeDmaLength);
      r.flush_type = wqe[kRxeFlushType];
      r.flush_level = wqe[kRxeFlushLevel];
      break;
    case Operation::kBindMw:
      r.bind_addr = Get<uint64_t>(wqe, kRxeMwAddr);
      r.bind_length = Get<uint64_t>(wqe, kRxeMwLength);
      r.bind_rkey = model::Rkey(Get<uint32_t>(wqe, kRxeMwRkey));
      r.bind_access = Get<uint32_t>(wqe, kRxeMwAccess);
      out->mr_lkey = Get<uint32_t>(wqe, kRxeMwMrLkey);
      out->mw_rkey = Get<uint32_t>(wqe, kRxeMwMwRkey);
      break;
    default:
      break;
  }
  if (q.type == model::QpType::kUd) {
    out->ah_number = Get<uint32_t>(wqe, kRxeUdAhNum);
    if (out->ah_number == 0) ReadAddress(wqe, out);
    r.remote_qpn = model::QpNum(Get<uint32_t>(wqe, kRxeUdRemoteQpn));
    r.remote_qkey = model::Qkey(Get<uint32_t>(wqe, kRxeUdRemoteQkey));
  }
  // The packet's address comes from wqe->iova for what goes to remote memory, in all sizes.
  if (model::Info(r.op).takes_rkey) {
    uint64_t iova = Get<uint64_t>(wqe, kRxeIova);
    if (iova != r.remote_addr.value) {
      out->complaints.push_back(fmt::format("iova is remote_addr plus {}",
                                            static_cast<int64_t>(iova - r.remote_addr.value)));
      r.remote_addr = model::RemoteAddr(iova);
    }
  }

  // Data.
  uint32_t length = Get<uint32_t>(wqe, kRxeDmaLength);
  uint32_t num_sge = Get<uint32_t>(wqe, kRxeDmaNumSge);
  for (auto [offset, name, want] :
       {std::tuple<uint32_t, const char*, uint32_t>{kRxeDmaResid, "dma.resid", length},
        {kRxeDmaCurSge, "dma.cur_sge", 0},
        {kRxeDmaSgeOffset, "dma.sge_offset", 0}}) {
    uint32_t got = Get<uint32_t>(wqe, offset);
    if (got != want) out->complaints.push_back(fmt::format("{} is {}, not {}", name, got, want));
  }
  switch (model::Info(r.op).data) {
    case model::DataRule::kNone:
    case model::DataRule::kNoneTolerated:
      if (r.op == Operation::kAtomicWrite) {
        std::memcpy(r.atomic_write, wqe + kRxeDmaData, 8);
        if (length != 8) {
          out->complaints.push_back(fmt::format("dma.length is {}, not 8", length));
        }
      }
      return Visibility::kRequest;
    default:
      break;
  }
  bool writes = model::Info(r.op).data == model::DataRule::kSgeOrInline;
  if (writes && (flags & IBV_SEND_INLINE)) {
    // finish_packet() copies dma.length bytes from the WQE.
    r.data = model::DataKind::kInline;
    if (length > q.max_inline) {
      out->complaints.push_back(
          fmt::format("inline length {} exceeds max_inline_data {}", length, q.max_inline));
      return Visibility::kMalformed;
    }
    out->inline_data.assign(wqe + kRxeDmaData, wqe + kRxeDmaData + length);
    return Visibility::kRequest;
  }
  r.data = model::DataKind::kSge;
  // The kernel counts the SGEs of its own users' requests only. What fits into the slot is carried
  // out, and whether more than max_send_sge should be is the judge's matter (WR-SGE-004).
  if (num_sge > (q.stride - kRxeDmaData) / kRxeSgeSize) {
    out->complaints.push_back(fmt::format("num_sge {} runs over the end of the WQE", num_sge));
    return Visibility::kMalformed;
  }
  ReadSges(wqe + kRxeDmaData, num_sge, &out->sge);
  uint64_t total = TotalOf(out->sge);
  if (length != total) {
    out->complaints.push_back(
        fmt::format("dma.length is {}, but its {} SGEs have {} bytes{}", length, num_sge, total,
                    num_sge == 0 && writes ? " (IBV_SEND_INLINE is not set in send_flags)" : ""));
    // copy_data() moves dma.length bytes and fails with ENOSPC when the SGEs end before, which is
    // IB_WC_LOC_QP_OP_ERR. Of a longer message the packets before that one have left already; the
    // emulation sends none of them.
    if (length > total) return Visibility::kMalformed;
    TruncateTo(length, &out->sge);
  }
  return Visibility::kRequest;
}

Visibility RxeModel::DecodeReceive(Queue& q, DecodedReceive* out) {
  if ((Producer(q) & Mask(q)) == (q.next & Mask(q))) return Visibility::kNotYet;
  out->Clear();
  const uint8_t* wqe = Slot(q, q.next);
  out->raw = Bytes{wqe, q.stride};
  out->carries_wr_id = true;
  out->wr_id = Get<uint64_t>(wqe, kRxeRecvWrId);
  uint32_t num_sge = Get<uint32_t>(wqe, kRxeRecvDmaNumSge);
  if (num_sge > q.max_sge) {
    out->complaints.push_back(fmt::format("num_sge {} exceeds max_sge {}", num_sge, q.max_sge));
    return Visibility::kMalformed;
  }
  ReadSges(wqe + kRxeRecvDmaSge, num_sge, &out->sge);
  uint32_t length = Get<uint32_t>(wqe, kRxeRecvDmaLength);
  if (length != TotalOf(out->sge)) {
    out->complaints.push_back(fmt::format("dma.length is {}, but its {} SGEs have {} bytes", length,
                                          num_sge, TotalOf(out->sge)));
    TruncateTo(length, &out->sge);
  }
  for (auto [offset, name, want] :
       {std::tuple<uint32_t, const char*, uint32_t>{kRxeRecvDmaResid, "dma.resid", length},
        {kRxeRecvDmaCurSge, "dma.cur_sge", 0},
        {kRxeRecvDmaSgeOffset, "dma.sge_offset", 0}}) {
    uint32_t got = Get<uint32_t>(wqe, offset);
    if (got != want) out->complaints.push_back(fmt::format("{} is {}, not {}", name, got, want));
  }
  return Visibility::kRequest;
}

bool RxeModel::Encode(CqFacts& cq, const NativeCompletion& native) {
  Queue& q = cq.queue;
  if (((q.next + 1) & Mask(q)) == (Consumer(q) & Mask(q))) return false;
  const model::Completion& c = native.completion;
  ib_uverbs_wc wc = {};
  wc.wr_id = c.wr_id.value;
  wc.status = c.status;
  wc.vendor_err = c.vendor_err;
  wc.qp_num = c.qp_num.value;
  wc.port_num = 1;
  if (c.status == IBV_WC_SUCCESS) {
    wc.opcode = c.opcode;
    wc.byte_len = c.byte_len;
    // librxe hands the CQE out as struct ibv_wc, so the flags are the library's. (The kernel's
    // internal IB_WC_WITH_INVALIDATE has another value; that is the kernel's affair.)
    wc.wc_flags = c.wc_flags;
    if (c.wc_flags & IBV_WC_WITH_IMM) wc.ex.imm_data = c.imm;
    if (c.wc_flags & IBV_WC_WITH_INV) wc.ex.invalidate_rkey = c.invalidated.value;
    wc.src_qp = c.src_qp;
    wc.pkey_index = c.pkey_index;
    wc.slid = c.slid;
    wc.sl = c.sl;
    wc.dlid_path_bits = c.dlid_path_bits;
  }
  uint8_t* at = Slot(q, q.next);
  std::memset(at, 0, kRxeCqeSize);
  std::memcpy(at, &wc, sizeof wc);
  ++q.next;
  StoreShared32(q.base + kRxeQueueProducer, q.next & Mask(q));
  return true;
}

}  // namespace

std::unique_ptr<DeviceModel> MakeRxeModel() { return std::make_unique<RxeModel>(); }

}  // namespace qpexam::hosted
