// The file as a whole, and a call of it.
#include "harness/emit/emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/emit/prelude.h"
#include "harness/program/attributes.h"
#include "harness/program/print.h"
#include "harness/program/schema.h"

namespace qpexam::emit {

using model::QpType;

namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    for (size_t star; (star = line.find("*/")) != std::string::npos;) line.replace(star, 2, "* /");
    lines.push_back(line);
    at = end + 1;
  }
  return lines;
}
std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text.substr(0, 120)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string Hex(uint64_t value) { return fmt::format("0x{:x}", value); }

std::string Flags(Names names, uint64_t value, const char* prefix) {
  std::string out;
  for (const NamedValue& n : names) {
    if (n.value == 0 || (value & n.value) != n.value) continue;
    out += (out.empty() ? "" : " | ") + std::string(prefix) + std::string(n.name);
    value &= ~n.value;
  }
  if (value) out += (out.empty() ? "" : " | ") + Hex(value);
  return out.empty() ? "0" : out;
}

std::string Named(Names names, uint64_t value, const char* prefix) {
  for (const NamedValue& n : names)
    if (n.value == value) return std::string(prefix) + std::string(n.name);
  return std::to_string(value);
}

std::string Quoted(const uint8_t* bytes, size_t n) {
  std::string out = "\"";
  for (size_t i = 0; i < n; i++) {
    out += fmt::format("\\x{:02x}", bytes[i]);
    if (i % 16 == 15 && i + 1 < n) out += "\"\n\t\t\"";
  }
  return out + "\"";
}

std::string Emitter::Emit(const std::string& about) {
  for (const Event& event : trace_.events) {
    if (event.call == kEndOfRun) {
      End(event);
      continue;
    }
    const Call& call = program_.calls[event.call];
    const std::string text = PrintCall(program_, call);
    line_ = call.line ? fmt::format("line {}", call.line) : fmt::format("call {}", event.call);
    if (event.ran != Ran::kDone) {
      body_ += fmt::format("\n\t/* {}: {}: {} */\n", line_, text,
                           event.ran == Ran::kCut ? "undefined from here on" : "cannot be made");
      if (event.ran == Ran::kCut) continue;
      continue;
    }
    body_ += fmt::format("\n\t/* {}: {} */\n", line_, text);
    at_ = fmt::format("{}: {}", line_, Escaped(text));
    One(call, event);
    Observed(event);
  }
  std::string out = "/*\n";
  for (const std::string& line : Lines(about)) out += " * " + line + "\n";
  out +=
      " * What is expected is what qpexam's reference does; where the specification leaves\n"
      " * something open, another behaviour may be as good.\n"
      " *\n"
      " * cc -Wall -o repro repro.c -libverbs && ./repro DEVICE\n"
      " *\n";
  for (const std::string& line : Lines(PrintProgram(program_, Notes::kDrop)))
    out += " *   " + line + "\n";
  out += " */\n";
  out += kPrelude;
  out += "\nstatic struct ibv_context *context;\nstatic struct ibv_pd *pd;\n";
  for (const std::string& d : declared_) out += "static " + d + ";\n";
  out += fmt::format(
      "\nint main(int argc, char **argv)\n{{\n\tint rc UNUSED = 0;\n\n"
      "\tchoose(argc > 1 ? argv[1] : NULL);\n\tcontext = open_device();\n"
      "\tpd = ibv_alloc_pd(context);\n\tmade(\"protection domain\", pd);\n"
      "\tarena_size = {};\n"
      "\tif (posix_memalign((void **)&arena, 4096, arena_size) ||\n"
      "\t    !(arena_expected = calloc(1, arena_size)))\n\t\treturn 2;\n"
      "\tmemset(arena, 0, arena_size);\n",
      std::max<uint64_t>(program_.arena, 1));
  out += body_;
  out += "\n\tprintf(\"%d difference(s)\\n\", differences);\n\treturn differences != 0;\n}\n";
  return out;
}

void Emitter::One(const Call& call, const Event& event) {
  if (Makes(call.kind)) return Create(call, event);
  switch (call.kind) {
    case CallKind::kDestroy:
      return Destroy(call, event);
    case CallKind::kReregMr: {
      const bool moves = call.flags & IBV_REREG_MR_CHANGE_TRANSLATION;
      Returned(fmt::format("ibv_rereg_mr({}, {}, {}, {}, {}, {})", Mr(call.object), call.flags,
                           call.flags & IBV_REREG_MR_CHANGE_PD ? Pd(call.pd) : "NULL",
                           moves ? Host(call.addr) : "NULL", call.len,
                           Flags(AccessNames(), call.access, "IBV_ACCESS_")),
               event.rc);
      if (event.rc != 0) return;
      if (moves) {
        Put("{} = {};", Memory(call.object), Host(call.addr));
        Put("{} = (uintptr_t){};", At(call.object), Memory(call.object));
      }
      Put("{} = {}->lkey;", LkeyVar(call.object), Mr(call.object));
      return Put("{} = {}->rkey;", RkeyVar(call.object), Mr(call.object));
    }
    case CallKind::kResizeCq:
      return Returned(fmt::format("ibv_resize_cq({}, {})", Cq(call.object), call.n), event.rc);
    case CallKind::kConnect:
      return Connect(call, event);
    case CallKind::kModify: {
      ModifyFacts facts;
      facts.type = MadeBy(call.object) ? MadeBy(call.object)->qp_type : QpType::kRc;
      facts.present = present_[call.object];
      Put("rc = 0;");
      ModifyStep(call.object, ArgsOfModify(call, facts), call, call.object2);
      return Returned("rc", event.rc);
    }
    case CallKind::kQuery:
      Put("{{");
      Put("\tstruct ibv_qp_attr attr;\n\t\tstruct ibv_qp_init_attr init;\n");
      Put("\treturned(\"{}\", ibv_query_qp({}, &attr, {}, &init), {});", at_, Qp(call.object),
          call.attr_mask == kUnset ? std::string("IBV_QP_STATE") : Hex(call.attr_mask), event.rc);
      return Put("}}");
    case CallKind::kQueryDevice:
      Put("{{\n\t\tstruct ibv_device_attr_ex attr;\n");
      Put("\treturned(\"{}\", ibv_query_device_ex({}, NULL, &attr), {});", at_,
          Context(call.object), event.rc);
      return Put("}}");
    case CallKind::kQueryPort:
      Put("{{\n\t\tstruct ibv_port_attr attr;\n");
      Put("\treturned(\"{}\", ibv_query_port({}, {}, &attr), {});", at_, Context(call.object),
          call.port, event.rc);
      return Put("}}");
    case CallKind::kQueryGid:
      Put("{{\n\t\tunion ibv_gid gid;\n");
      Put("\treturned(\"{}\", ibv_query_gid({}, {}, {}, &gid), {});", at_, Context(call.object),
          call.port, call.n, event.rc);
      return Put("}}");
    case CallKind::kQueryPkey:
      Put("{{\n\t\t__be16 pkey;\n");
      Put("\treturned(\"{}\", ibv_query_pkey({}, {}, {}, &pkey), {});", at_, Context(call.object),
          call.port, call.n, event.rc);
      return Put("}}");
    case CallKind::kModifySrq:
      Put("{{");
      Put("\tstruct ibv_srq_attr attr = {{ .max_wr = {}, .srq_limit = {} }};\n",
          call.n == kUnset ? 0 : call.n, call.limit == kUnset ? 0 : call.limit);
      Put("\treturned(\"{}\", ibv_modify_srq({}, &attr, {}), {});", at_, Srq(call.object),
          (call.limit == kUnset ? 0 : static_cast<int>(IBV_SRQ_LIMIT)) |
              (call.n == kUnset ? 0 : static_cast<int>(IBV_SRQ_MAX_WR)),
          event.rc);
      return Put("}}");
    case CallKind::kQuerySrq:
      Put("{{\n\t\tstruct ibv_srq_attr attr;\n");
      Put("\treturned(\"{}\", ibv_query_srq({}, &attr), {});", at_, Srq(call.object), event.rc);
      return Put("}}");
    case CallKind::kAttachMcast:
    case CallKind::kDetachMcast: {
      const auto v = static_cast<uint32_t>(call.value);
      Put("{{");
      Put("\tunion ibv_gid gid = {{ .raw = {{ 0xff, 0x12, [12] = {}, {}, {}, {} }} }};\n", v >> 24,
          v >> 16 & 0xff, v >> 8 & 0xff, v & 0xff);
      Put("\treturned(\"{}\", ibv_{}_mcast({}, &gid, 0), {});", at_,
          call.kind == CallKind::kAttachMcast ? "attach" : "detach", Qp(call.object), event.rc);
      return Put("}}");
    }
    case CallKind::kStart:
      return Put("ibv_wr_start({});", Ex(call.object));
    case CallKind::kBuild:
      return Build(call);
    case CallKind::kSetSge:
    case CallKind::kSetSgeList:
    case CallKind::kSetInline:
    case CallKind::kSetInlineList:
    case CallKind::kSetUdAddr:
    case CallKind::kSetXrcSrqn:
      return Setter(call);
    case CallKind::kComplete:
      return Returned("ibv_wr_complete(" + Ex(call.object) + ")", event.rc);
    case CallKind::kAbort:
      return Put("ibv_wr_abort({});", Ex(call.object));
    case CallKind::kPostSend:
    case CallKind::kRecv:
    case CallKind::kSrqRecv:
      return Post(call, event);
    case CallKind::kBindMw:
      Put("{{");
      Put("\tstruct ibv_mw_bind bind = {{ {}ULL, {}, {{ {}, {}, {}ULL, {} }} }};\n", call.wr_id,
          Flags(SendFlagNames(), call.flags, "IBV_SEND_"),
          call.mr == kNoObject ? "NULL" : Mr(call.mr), Wire(call.addr), call.len,
          Flags(AccessNames(), call.access, "IBV_ACCESS_"));
      Put("\treturned(\"{}\", ibv_bind_mw({}, {}, &bind), {});", at_, Qp(call.object), Mw(call.mw),
          event.rc);
      if (MadeBy(call.mw) && MadeBy(call.mw)->mw_type == 1)
        Put("\t{} = {}->rkey;", RkeyVar(call.mw), Mw(call.mw));
      return Put("}}");
    case CallKind::kPoll:
    case CallKind::kPollEx:
      return Poll(call, event);
    case CallKind::kStartPoll:
    case CallKind::kNextPoll:
      Put("{{");
      if (call.kind == CallKind::kStartPoll) {
        Put("\tstruct ibv_poll_cq_attr attr = {{}};\n\t\tint ms = 0;\n");
        Put("\twhile ((rc = ibv_start_poll({}, &attr)) == ENOENT && ms++ < WAIT_MS)\n"
            "\t\t\tusleep(1000);",
            CqEx(call.object));
      } else {
        Put("\trc = ibv_next_poll({});", CqEx(call.object));
      }
      Put("\treturned(\"{}\", rc, {});", at_, event.rc);
      return Put("}}");
    case CallKind::kReadWc:
      for (const SeenCompletion& wc : trace_.CompletionsOf(event)) {
        Put("returned(\"{}: wr_id\", {}->wr_id != {}ULL, 0);", at_, CqEx(call.object), wc.wr_id);
        Put("returned(\"{}: status\", {}->status, {});", at_, CqEx(call.object),
            static_cast<int>(wc.status));
      }
      return;
    case CallKind::kEndPoll:
      return Put("ibv_end_poll({});", CqEx(call.object));
    case CallKind::kArm:
      return Returned(
          fmt::format("ibv_req_notify_cq({}, {})", Queue(call.object, call.side), call.solicited),
          event.rc);
    case CallKind::kGetCqEvent:
    case CallKind::kGetAsyncEvent:
      return Events(call, event);
    case CallKind::kAckCqEvents:
      return Put("ibv_ack_cq_events({}, {});", Cq(call.object), call.n);
    case CallKind::kStore:
      if (call.bytes.empty())
        return Put("fill({}, {}, {});", Host(call.addr),
                   Hex(call.fill == kUnset ? 0 : call.fill & 0xff), call.len);
      return Put("store({}, {}, {});", Host(call.addr),
                 Quoted(call.bytes.data(), call.bytes.size()), call.bytes.size());
    case CallKind::kSettle:
      return Put("settle();");
    default:
      return;
  }
}

// Memory and states as the reference had them behind this call.
void Emitter::Observed(const Event& event) {
  bool looked = false;
  for (const SeenMemory& m : trace_.MemoryOf(event)) {
    const model::Bytes bytes = trace_.BytesOf(m);
    const std::string at = Host({m.mr, static_cast<int64_t>(m.offset)});
    looked = true;
    if (bytes.size == 0) continue;
    const bool same = std::all_of(bytes.data, bytes.data + bytes.size,
                                  [&](uint8_t b) { return b == bytes.data[0]; });
    if (same && bytes.size > 4) {
      Put("will_be_filled({}, {}, {});", at, Hex(bytes.data[0]), bytes.size);
    } else {
      Put("will_be({}, {}, {});", at, Quoted(bytes.data, bytes.size), bytes.size);
    }
  }
  if (looked || event.call == kEndOfRun) Put("memory(\"{}\");", at_);
  for (const SeenState& s : trace_.StatesOf(event)) {
    if (s.qp == kNoObject) continue;
    if (s.state >= 0)
      Put("state(\"{}: {}\", {}, {});", at_, program_.objects[s.qp].name, Qp(s.qp),
          Named(StateNames(), static_cast<uint64_t>(s.state), "IBV_QPS_"));
    if (s.cached >= 0) present_[s.qp] = static_cast<ibv_qp_state>(s.cached);
  }
}

void Emitter::End(const Event& event) {
  body_ += "\n\t/* the end: what is left in the queues, memory and states */\n\tsettle();\n";
  at_ = "the end";
  std::vector<CqRef> seen;
  for (const SeenCompletion& wc : trace_.CompletionsOf(event))
    if (std::find(seen.begin(), seen.end(), wc.cq) == seen.end()) seen.push_back(wc.cq);
  for (const CqRef& cq : seen) {
    size_t count = 0;
    const std::string wants = Wants(event, &cq, &count);
    Put("poll_queue(\"the end\", {}, NULL, 0,", Queue(cq.object, cq.side));
    body_ += fmt::format("\t\t(const struct want[]){{\n{}\t\t}}, {}, 1 << 20);\n", wants, count);
  }
  Observed(event);
}

}  // namespace qpexam::emit
