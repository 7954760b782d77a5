// Requests, and what comes of them: builders, setters, posts, polls, events.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/emit/emitter.h"
#include "harness/program/schema.h"

namespace qpexam::emit {

using model::Operation;
using model::QpType;

void Emitter::Build(const Call& call) {
  const std::string ex = Ex(call.object);
  Put("{}->wr_id = {}ULL;", ex, call.wr_id);
  Put("{}->wr_flags = {};", ex, Flags(SendFlagNames(), call.flags, "IBV_SEND_"));
  const std::string key = Rkey(call.rkey), addr = Wire(call.addr);
  switch (call.op) {
    case Operation::kRdmaWrite:
      return Put("ibv_wr_rdma_write({}, {}, {});", ex, key, addr);
    case Operation::kRdmaWriteWithImm:
      return Put("ibv_wr_rdma_write_imm({}, {}, {}, htobe32({}));", ex, key, addr, Hex(call.imm));
    case Operation::kSend:
      return Put("ibv_wr_send({});", ex);
    case Operation::kSendWithImm:
      return Put("ibv_wr_send_imm({}, htobe32({}));", ex, Hex(call.imm));
    case Operation::kRdmaRead:
      return Put("ibv_wr_rdma_read({}, {}, {});", ex, key, addr);
    case Operation::kAtomicCmpAndSwp:
      return Put("ibv_wr_atomic_cmp_swp({}, {}, {}, {}ULL, {}ULL);", ex, key, addr, call.compare,
                 call.swap);
    case Operation::kAtomicFetchAndAdd:
      return Put("ibv_wr_atomic_fetch_add({}, {}, {}, {}ULL);", ex, key, addr, call.add);
    case Operation::kLocalInv:
      return Put("ibv_wr_local_inv({}, {});", ex, key);
    case Operation::kSendWithInv:
      return Put("ibv_wr_send_inv({}, {});", ex, key);
    case Operation::kBindMw:
      Put("{{");
      Put("\tstruct ibv_mw_bind_info bind = {{ .mr = {}, .addr = {}, .length = {}ULL, "
          ".mw_access_flags = {} }};\n",
          Mr(call.mr), addr, call.len, Flags(AccessNames(), call.access, "IBV_ACCESS_"));
      Put("\tibv_wr_bind_mw({}, {}, {}, &bind);", ex, Mw(call.mw), key);
      return Put("}}");
    case Operation::kTso:
      return Put("ibv_wr_send_tso({}, (void *){}, {}, {});", ex,
                 Quoted(call.bytes.data(), call.bytes.size()), call.bytes.size(), call.mss);
    case Operation::kFlush:
      return Put("ibv_wr_flush({}, {}, {}, {}ULL, {}, {});", ex, key, addr, call.len,
                 Hex(call.flush_type), Hex(call.flush_level));
    case Operation::kAtomicWrite: {
      std::vector<uint8_t> value = call.bytes;
      value.resize(8);
      return Put("ibv_wr_atomic_write({}, {}, {}, {});", ex, key, addr, Quoted(value.data(), 8));
    }
  }
}

void Emitter::Setter(const Call& call) {
  const std::string ex = Ex(call.object);
  switch (call.kind) {
    case CallKind::kSetSge:
      return Put("ibv_wr_set_sge({}, {}, {}, {});", ex, Lkey(call.lkey), Wire(call.addr), call.len);
    case CallKind::kSetSgeList:
      if (call.sge.empty()) return Put("ibv_wr_set_sge_list({}, 0, NULL);", ex);
      return Put("ibv_wr_set_sge_list({}, {}, (const struct ibv_sge[]){{ {} }});", ex,
                 call.sge.size(), Sges(call.sge));
    case CallKind::kSetInline:
      return Put("ibv_wr_set_inline_data({}, {}, {});", ex, Host(call.addr), call.len);
    case CallKind::kSetInlineList: {
      if (call.bufs.empty()) return Put("ibv_wr_set_inline_data_list({}, 0, NULL);", ex);
      std::string bufs;
      for (const BufArg& b : call.bufs)
        bufs += fmt::format("{}{{ {}, {} }}", bufs.empty() ? "" : ", ", Host(b.addr), b.len);
      return Put("ibv_wr_set_inline_data_list({}, {}, (const struct ibv_data_buf[]){{ {} }});", ex,
                 call.bufs.size(), bufs);
    }
    case CallKind::kSetUdAddr:
      return Put("ibv_wr_set_ud_addr({}, {}, {}, {});", ex, Ah(call.ah), Number(call.qpn),
                 Hex(call.qkey));
    default:
      return Put("ibv_wr_set_xrc_srqn({}, {});", ex, Number(call.srqn));
  }
}

bool Emitter::GoesOn(const Call& call, uint32_t index) const {
  if (!call.more || index + 1 >= program_.calls.size()) return false;
  const Call& next = program_.calls[index + 1];
  return next.kind == call.kind && next.object == call.object && next.thread == call.thread;
}

// The requests of one list are told together, behind the last of them.
void Emitter::Post(const Call& call, const Event& event) {
  list_.push_back(&call);
  if (GoesOn(call, event.call)) return;
  const bool send = call.kind == CallKind::kPostSend;
  const Call* qp = send ? MadeBy(call.object) : nullptr;
  Put("{{");
  for (size_t i = 0; i < list_.size(); i++)
    if (!list_[i]->sge.empty()) Put("\tstruct ibv_sge sge{}[] = {{ {} }};", i, Sges(list_[i]->sge));
  Put("\tstruct ibv_{}_wr *bad = NULL;", send ? "send" : "recv");
  for (size_t i = list_.size(); i-- > 0;) {
    const Call& c = *list_[i];
    std::string more;
    if (send) {
      more = fmt::format(", .opcode = IBV_WR_{}, .send_flags = {}", model::Info(c.op).name,
                         Flags(SendFlagNames(), c.flags, "IBV_SEND_"));
      if (c.op == Operation::kRdmaWriteWithImm || c.op == Operation::kSendWithImm)
        more += fmt::format(", .imm_data = htobe32({})", Hex(c.imm));
      if (c.op == Operation::kLocalInv || c.op == Operation::kSendWithInv)
        more += fmt::format(", .invalidate_rkey = {}", Rkey(c.rkey));
      if (c.op == Operation::kRdmaWrite || c.op == Operation::kRdmaWriteWithImm ||
          c.op == Operation::kRdmaRead)
        more += fmt::format(", .wr.rdma = {{ {}, {} }}", Wire(c.addr), Rkey(c.rkey));
      if (c.op == Operation::kAtomicCmpAndSwp || c.op == Operation::kAtomicFetchAndAdd)
        more += fmt::format(", .wr.atomic = {{ {}, {}ULL, {}ULL, {} }}", Wire(c.addr),
                            c.op == Operation::kAtomicCmpAndSwp ? c.compare : c.add, c.swap,
                            Rkey(c.rkey));
      if (c.op == Operation::kBindMw)
        more += fmt::format(", .bind_mw = {{ {}, {}, {{ {}, {}, {}ULL, {} }} }}", Mw(c.mw),
                            Rkey(c.rkey), Mr(c.mr), Wire(c.addr), c.len,
                            Flags(AccessNames(), c.access, "IBV_ACCESS_"));
      if (c.op == Operation::kTso)
        more += fmt::format(", .tso = {{ (void *){}, {}, {} }}",
                            Quoted(c.bytes.data(), c.bytes.size()), c.bytes.size(), c.mss);
      if (qp && model::NeedsAddress(qp->qp_type) && c.ah != kNoObject)
        more += fmt::format(", .wr.ud = {{ {}, {}, {} }}", Ah(c.ah), Number(c.qpn), Hex(c.qkey));
      if (qp && qp->qp_type == QpType::kXrcSend)
        more += fmt::format(", .qp_type.xrc.remote_srqn = {}", Number(c.srqn));
    }
    Put("\tstruct ibv_{}_wr wr{} = {{ .wr_id = {}ULL, .next = {}, .sg_list = {}, .num_sge = {}{} "
        "}};",
        send ? "send" : "recv", i, c.wr_id,
        i + 1 < list_.size() ? fmt::format("&wr{}", i + 1) : "NULL",
        c.sge.empty() ? "NULL" : fmt::format("sge{}", i), c.sge.size(), more);
  }
  list_.clear();
  const char* verb = send                           ? "ibv_post_send"
                     : call.kind == CallKind::kRecv ? "ibv_post_recv"
                                                    : "ibv_post_srq_recv";
  const std::string target = call.kind == CallKind::kSrqRecv ? Srq(call.object) : Qp(call.object);
  body_ += "\n";
  Put("\treturned(\"{}\", {}({}, &wr0, &bad), {});", at_, verb, target, event.rc);
  Put("}}");
}

// The completions of an event as an initialiser; of one queue alone where `only` is given.
std::string Emitter::Wants(const Event& event, const CqRef* only, size_t* count) {
  std::string out;
  *count = 0;
  for (const SeenCompletion& wc : trace_.CompletionsOf(event)) {
    if (only && !(wc.cq == *only)) continue;
    ++*count;
    const bool good = wc.status == IBV_WC_SUCCESS;
    const bool receive = (wc.opcode & IBV_WC_RECV) != 0;
    const bool sized = good && (receive || wc.opcode == IBV_WC_RDMA_READ) && wc.byte_len > 0;
    out += fmt::format("\t\t\t{{ {}ULL, {}, (enum ibv_wc_status){}, {}, {}, {}, {} }}, /* {} */\n",
                       wc.wr_id, wc.qp == kNoObject ? "NULL" : Qp(wc.qp),
                       static_cast<int>(wc.status), good ? static_cast<int>(wc.opcode) : -1,
                       sized ? static_cast<long>(wc.byte_len) : -1L,
                       Hex(wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)), Hex(wc.imm),
                       ibv_wc_status_str(wc.status));
  }
  return out;
}

void Emitter::Poll(const Call& call, const Event& event) {
  size_t count = 0;
  const std::string wants = Wants(event, nullptr, &count);
  const bool ex = call.kind != CallKind::kPoll;
  const Call* made = ex ? MadeBy(call.object) : nullptr;
  const std::string head =
      fmt::format("poll_queue(\"{}\", {}, {}, {},", at_, Queue(call.object, call.side),
                  ex ? CqEx(call.object) : "NULL",
                  made ? Flags(WcFlagNames(), made->wc_flags, "IBV_WC_EX_WITH_") : "0");
  const uint64_t most = std::min<uint64_t>(call.n, 1u << 30);
  if (count == 0) return Put("{} NULL, 0, {});", head, most);
  Put("{}", head);
  body_ += fmt::format("\t\t(const struct want[]){{\n{}\t\t}}, {}, {});\n", wants, count, most);
}

void Emitter::Events(const Call& call, const Event& event) {
  if (call.kind == CallKind::kGetCqEvent) {
    Put("{{");
    Put("\tstruct ibv_cq *from = NULL;\n\t\tvoid *unused;\n\t\tint ms = 0;\n");
    Put("\twhile ((rc = ibv_get_cq_event({}, &from, &unused)) && ms++ < "
        "WAIT_MS)\n\t\t\tusleep(1000);",
        Channel(call.object));
    Put("\treturned(\"{}\", rc, {});", at_, event.rc);
    return Put("}}");
  }
  Put("{{");
  Put("\tstruct ibv_async_event async;\n\t\tint ms = 0;\n");
  Put("\tfcntl({0}->async_fd, F_SETFL, fcntl({0}->async_fd, F_GETFL) | O_NONBLOCK);",
      Context(call.object));
  Put("\twhile ((rc = ibv_get_async_event({}, &async)) && ms++ < WAIT_MS)\n\t\t\tusleep(1000);",
      Context(call.object));
  Put("\treturned(\"{}\", rc, {});", at_, event.rc);
  Put("\tif (!rc) {{\n\t\t\tprintf(\"    %s\\n\", ibv_event_type_str(async.event_type));");
  if (event.has_async)
    Put("\t\treturned(\"    event type\", async.event_type != {}, 0);",
        static_cast<int>(event.async_type));
  Put("\t\tibv_ack_async_event(&async);\n\t\t}}");
  Put("}}");
}

}  // namespace qpexam::emit
