// The card behind acme.c: what it reads of the library's rings, and what it writes. This, with the
// line of registration at the end, is all that qpexam needs to judge the library.
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>

#include "acme_abi.h"
#include "harness/hosted/bytes.h"
#include "harness/hosted/device_model.h"
#include "harness/hosted/hosted_provider.h"

namespace {

using namespace qpexam;
using namespace qpexam::hosted;

void SetUp(Queue* queue, Queue::Kind kind, uint64_t ring, uint64_t count, uint32_t entries,
           uint32_t stride) {
  queue->kind = kind;
  queue->base = reinterpret_cast<uint8_t*>(ring);
  queue->doorbell_record = reinterpret_cast<uint8_t*>(count);
  queue->entries = entries;
  queue->stride = stride;
  queue->size = size_t{entries} * stride;
}

uint8_t* EntryAt(const Queue& queue) {
  return queue.base + size_t{queue.next % queue.entries} * queue.stride;
}

void Gather(const acme_element* elements, uint32_t count, std::vector<model::Sge>* out) {
  for (uint32_t i = 0; i < count; ++i)
    out->push_back({elements[i].address, elements[i].length, model::Lkey(elements[i].lkey)});
}

class AcmeModel : public DeviceModel {
 public:
  AcmeModel() {
    ibv_device_attr& a = traits_.attr;
    a.max_mr_size = ~uint64_t{0};
    a.page_size_cap = 0xfffff000;
    a.max_qp = 1 << 16;
    a.max_qp_wr = ACME_MAX_ENTRIES;
    a.max_sge = a.max_sge_rd = ACME_MAX_SGE;
    a.max_cq = 1 << 16;
    a.max_cqe = ACME_MAX_ENTRIES;
    a.max_mr = 1 << 16;
    a.max_pd = 1 << 16;
    a.max_qp_rd_atom = a.max_qp_init_rd_atom = 16;
    a.max_res_rd_atom = 1 << 20;
    a.atomic_cap = IBV_ATOMIC_NONE;
    a.max_pkeys = 1;
    a.phys_port_cnt = 1;
  }

  const DeviceTraits& traits() const override { return traits_; }

  Reply Answer(const Command& command, Bytes in, MutBytes) override {
    switch (command.kind) {
      case Command::Kind::kCreateCq: {
        const auto request = Read<acme_create_cq>(in);
        if (request.ring == 0 || request.entries < command.cq->cqe) return Error(EINVAL);
        SetUp(&command.cq->queue, Queue::Kind::kCompletion, request.ring, request.taken,
              request.entries, sizeof(acme_completion));
        command.cq->cqe = request.entries;
        return Reply();
      }
      case Command::Kind::kCreateQp: {
        const auto request = Read<acme_create_qp>(in);
        QpFacts& qp = *command.qp;
        // What the library has no ring for cannot be granted.
        if (request.send_entries < qp.cap.max_send_wr ||
            request.receive_entries < qp.cap.max_recv_wr)
          return Error(EINVAL);
        if (request.send_entries != 0)
          SetUp(&qp.sq, Queue::Kind::kSend, request.send_ring, request.sent, request.send_entries,
                sizeof(acme_request));
        if (request.receive_entries != 0)
          SetUp(&qp.rq, Queue::Kind::kReceive, request.receive_ring, request.received,
                request.receive_entries, sizeof(acme_receive));
        return Reply();
      }
      case Command::Kind::kResizeCq:
      case Command::Kind::kCreateSrq:
      case Command::Kind::kAllocMw:
        return Error(EOPNOTSUPP);
      default:
        return Reply();
    }
  }

  // The doorbell page; nothing else can be mapped.
  Mapping MapDevicePage(uint64_t offset, size_t size, SharedMemory& memory) override {
    return offset == 0 && size <= 4096 ? memory.Allocate(size) : Mapping();
  }

  std::optional<Doorbell> OnWrite(const Mapping&, uint64_t offset, Bytes stored) override {
    if (offset != ACME_DOORBELL || stored.size != 4) return {};
    Doorbell bell;
    bell.kind = Doorbell::Kind::kSend;
    bell.number = Get<uint32_t>(stored.data, 0);
    return bell;
  }

  Visibility DecodeSend(Queue& q, DecodedSend* out) override {
    if (!q.exists() || LoadShared32(q.doorbell_record) == q.next) return Visibility::kNotYet;
    out->Clear();
    out->raw = Bytes{EntryAt(q), q.stride};
    out->carries_wr_id = true;
    acme_request request;
    std::memcpy(&request, out->raw.data, sizeof request);
    model::SendRequest& r = out->request;
    r.wr_id = model::WrId(request.wr_id);
    r.flags = (request.flags & ACME_SIGNALED ? IBV_SEND_SIGNALED : 0) |
              (request.flags & ACME_SOLICITED ? IBV_SEND_SOLICITED : 0) |
              (request.flags & ACME_FENCE ? IBV_SEND_FENCE : 0);
    // What no correct library writes is complained of, whether or not the card would notice.
    if (request.reserved != 0) out->complaints.push_back("the reserved word is not 0");
    switch (request.opcode) {
      case IBV_WR_SEND:
        r.op = model::Operation::kSend;
        break;
      case IBV_WR_SEND_WITH_IMM:
        r.op = model::Operation::kSendWithImm;
        break;
      case IBV_WR_RDMA_WRITE:
        r.op = model::Operation::kRdmaWrite;
        break;
      case IBV_WR_RDMA_WRITE_WITH_IMM:
        r.op = model::Operation::kRdmaWriteWithImm;
        break;
      case IBV_WR_RDMA_READ:
        r.op = model::Operation::kRdmaRead;
        break;
      default:
        out->complaints.push_back("opcode " + std::to_string(request.opcode) + " is none");
        return Visibility::kMalformed;
    }
    r.imm = request.immediate;
    r.remote_addr = model::RemoteAddr(request.remote_address);
    r.rkey = model::Rkey(request.rkey);
    if (request.flags & ACME_INLINE) {
      if (request.elements > ACME_MAX_INLINE || r.op == model::Operation::kRdmaRead) {
        out->complaints.push_back(std::to_string(request.elements) + " bytes of inline data");
        return Visibility::kMalformed;
      }
      r.data = model::DataKind::kInline;
      out->inline_data.assign(request.data.bytes, request.data.bytes + request.elements);
      return Visibility::kRequest;
    }
    if (request.elements > ACME_MAX_SGE) {
      out->complaints.push_back(std::to_string(request.elements) + " elements");
      return Visibility::kMalformed;
    }
    r.data = model::DataKind::kSge;
    Gather(request.data.element, request.elements, &out->sge);
    return Visibility::kRequest;
  }

  Visibility DecodeReceive(Queue& q, DecodedReceive* out) override {
    if (!q.exists() || LoadShared32(q.doorbell_record) == q.next) return Visibility::kNotYet;
    out->Clear();
    out->raw = Bytes{EntryAt(q), q.stride};
    out->carries_wr_id = true;
    acme_receive receive;
    std::memcpy(&receive, out->raw.data, sizeof receive);
    out->wr_id = receive.wr_id;
    if (receive.elements > ACME_MAX_SGE) {
      out->complaints.push_back(std::to_string(receive.elements) + " elements");
      return Visibility::kMalformed;
    }
    Gather(receive.element, receive.elements, &out->sge);
    return Visibility::kRequest;
  }

  bool Encode(CqFacts& cq, const NativeCompletion& native) override {
    Queue& q = cq.queue;
    if (q.next - LoadShared32(q.doorbell_record) >= q.entries) return false;
    const model::Completion& c = native.completion;
    acme_completion out = {};
    out.wr_id = c.wr_id.value;
    out.status = c.status;
    // Of a failure it says no more than whose entry it is.
    const bool receive = native.work_queue->kind == Queue::Kind::kReceive;
    out.opcode = c.status == IBV_WC_SUCCESS ? c.opcode : receive ? IBV_WC_RECV : IBV_WC_SEND;
    out.byte_length = c.byte_len;
    out.immediate = c.imm;
    out.qp_number = c.qp_num.value;
    out.flags = c.wc_flags;
    out.entry = native.entry;
    uint8_t* at = EntryAt(q);
    std::memcpy(at, &out, offsetof(acme_completion, round));
    StoreShared32(at + offsetof(acme_completion, round), q.next / q.entries + 1);
    ++q.next;
    return true;
  }

  // The library sets its counts back as well.
  void Reset(QpFacts& qp) override { qp.sq.next = qp.rq.next = 0; }

 private:
  DeviceTraits traits_ = {
      "acme", "acme",
      "",  // found by its name
      1,      {},     model::MaskOf(model::QpType::kRc), IBV_LINK_LAYER_ETHERNET, ACME_MAX_INLINE};
};

std::unique_ptr<DeviceModel> MakeAcmeModel() { return std::make_unique<AcmeModel>(); }

const RegisterHostedKind kRegistered("acme", MakeAcmeModel);

}  // namespace
