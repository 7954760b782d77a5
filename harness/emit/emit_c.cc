#include "harness/emit/emit_c.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "harness/emit/prelude.h"
#include "harness/program/attributes.h"
#include "harness/program/layout.h"
#include "harness/program/print.h"
#include "harness/program/schema.h"

namespace qpexam {
namespace {

using model::Operation;
using model::QpType;

std::string Hex(uint64_t value) { return fmt::format("0x{:x}", value); }

// "IBV_SEND_SIGNALED | IBV_SEND_FENCE"; bits without a name as a number.
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

// A number that has one name, "IBV_QPS_RTS"; else the number.
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

class Emitter {
 public:
  Emitter(const Program& program, const Trace& trace)
      : program_(program), trace_(trace), present_(program.objects.size(), IBV_QPS_RESET) {}

  std::string Emit(const std::string& about) {
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

 private:
  static std::vector<std::string> Lines(const std::string& text) {
    std::vector<std::string> lines;
    size_t at = 0;
    while (at < text.size()) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      for (size_t star; (star = line.find("*/")) != std::string::npos;)
        line.replace(star, 2, "* /");
      lines.push_back(line);
      at = end + 1;
    }
    return lines;
  }
  static std::string Escaped(const std::string& text) {
    std::string out;
    for (char c : text.substr(0, 120)) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out;
  }

  template <typename... T>
  void Put(fmt::format_string<T...> format, T&&... args) {
    body_ += "\t" + fmt::format(format, std::forward<T>(args)...) + "\n";
  }

  // A variable for an object, "qp_a"; declared where it is first named.
  std::string Var(const char* type, const char* prefix, ObjectId id) {
    const std::string name = std::string(prefix) + "_" + program_.objects[id].name;
    declared_.insert(std::string(type) + name);
    return name;
  }
  std::string Qp(ObjectId id) { return Var("struct ibv_qp *", "qp", id); }
  std::string Ex(ObjectId id) { return Var("struct ibv_qp_ex *", "wr", id); }
  std::string Cq(ObjectId id) { return Var("struct ibv_cq *", "cq", id); }
  std::string CqEx(ObjectId id) { return Var("struct ibv_cq_ex *", "cqx", id); }
  std::string Mr(ObjectId id) { return Var("struct ibv_mr *", "mr", id); }
  std::string Memory(ObjectId id) { return Var("uint8_t *", "mem", id); }
  std::string At(ObjectId id) { return Var("uint64_t ", "at", id); }
  std::string LkeyVar(ObjectId id) { return Var("uint32_t ", "lkey", id); }
  std::string RkeyVar(ObjectId id) { return Var("uint32_t ", "rkey", id); }
  std::string Mw(ObjectId id) { return Var("struct ibv_mw *", "mw", id); }
  std::string Srq(ObjectId id) { return Var("struct ibv_srq *", "srq", id); }
  std::string Xrcd(ObjectId id) { return Var("struct ibv_xrcd *", "xrcd", id); }
  std::string Ah(ObjectId id) { return Var("struct ibv_ah *", "ah", id); }
  std::string Channel(ObjectId id) { return Var("struct ibv_comp_channel *", "channel", id); }
  std::string Td(ObjectId id) { return Var("struct ibv_td *", "td", id); }
  std::string Pd(ObjectId id) { return id == kNoObject ? "pd" : Var("struct ibv_pd *", "pd", id); }
  std::string Context(ObjectId id) {
    return id == kNoObject ? "context" : Var("struct ibv_context *", "context", id);
  }
  std::string Queue(ObjectId id, Side side) {
    if (side == Side::kNone) return Cq(id);
    const Call* qp = MadeBy(id);
    const ObjectId own = qp == nullptr ? kNoObject : side == Side::kSend ? qp->cq : qp->recv_cq;
    if (own != kNoObject) return Cq(own);
    return Var("struct ibv_cq *", side == Side::kSend ? "send_cq" : "recv_cq", id);
  }
  const Call* MadeBy(ObjectId id) const {
    for (const Call& call : program_.calls)
      if (Makes(call.kind) && call.object == id) return &call;
    return nullptr;
  }
  ObjectKind KindOf(ObjectId id) const { return program_.objects[id].kind; }

  static std::string Plus(int64_t offset) {
    return offset == 0  ? ""
           : offset > 0 ? fmt::format(" + {}", offset)
                        : fmt::format(" - {}", -offset);
  }
  // As a number on the wire; as the CPU's own address.
  std::string Wire(const MemRef& ref) {
    if (ref.mr == kNoObject) return Hex(static_cast<uint64_t>(ref.offset)) + "ULL";
    return At(ref.mr) + Plus(ref.offset);
  }
  std::string Host(const MemRef& ref) { return Memory(ref.mr) + Plus(ref.offset); }

  std::string Bent(std::string value, const KeyRef& key) const {
    if (key.inc) value = fmt::format("(({0} & ~0xffu) | (({0} + {1}) & 0xff))", value, key.inc);
    if (key.flip) value = fmt::format("({} ^ {})", value, Hex(key.flip));
    return value;
  }
  std::string Lkey(const KeyRef& key) {
    return key.object == kNoObject ? Hex(key.flip) : Bent(LkeyVar(key.object), key);
  }
  std::string Rkey(const KeyRef& key) {
    return key.object == kNoObject ? Hex(key.flip) : Bent(RkeyVar(key.object), key);
  }
  std::string Number(const KeyRef& key) {
    if (key.object == kNoObject) return Hex(key.flip);
    return Bent(Var("uint32_t ", "num", key.object), key);
  }

  std::string Sges(const std::vector<SgeArg>& sges) {
    std::string out;
    for (const SgeArg& s : sges)
      out += fmt::format("{}{{ .addr = {}, .length = {}, .lkey = {} }}", out.empty() ? "" : ", ",
                         Wire(s.addr), s.len, Lkey(s.lkey));
    return out;
  }

  void Returned(const std::string& expression, int rc) {
    Put("returned(\"{}\", {}, {});", at_, expression, rc);
  }
  // False: the reference refuses, and so nothing more is done with the object.
  bool Made(const std::string& variable, int rc) {
    Put("{}(\"{}\", {});", rc == 0 ? "made" : "refused", at_, variable);
    return rc == 0;
  }

  void One(const Call& call, const Event& event);
  void Create(const Call& call, const Event& event);
  void CreateQp(const Call& call, const Event& event);
  void CreateCq(const Call& call, const Event& event);
  void CreateMr(const Call& call, const Event& event);
  void Destroy(const Call& call, const Event& event);
  void ModifyStep(ObjectId qp, const ModifyArgs& args, const Call& call, ObjectId peer);
  void Connect(const Call& call, const Event& event);
  void Build(const Call& call);
  void Setter(const Call& call);
  void Post(const Call& call, const Event& event);
  void Poll(const Call& call, const Event& event);
  void Events(const Call& call, const Event& event);
  bool GoesOn(const Call& call, uint32_t index) const;
  std::string Wants(const Event& event, const CqRef* only, size_t* count);
  void Observed(const Event& event);
  void End(const Event& event);

  const Program& program_;
  const Trace& trace_;
  std::vector<ibv_qp_state> present_;
  std::set<std::string> declared_;
  std::vector<const Call*> list_;  // of a post whose calls have not all been seen
  std::string line_, at_, body_;
};

void Emitter::CreateMr(const Call& call, const Event& event) {
  const ObjectId id = call.object;
  if (call.addr.mr != kNoObject) {
    Put("{} = {};", Memory(id), Host(call.addr));
  } else {
    // The place is fixed by the layout; what the reference could not place it refused.
    Layout layout(program_.arena);
    for (const Call& c : program_.calls) {
      if (c.kind == CallKind::kMr || c.kind == CallKind::kReregMr) layout.Add(c);
      if (&c == &call) break;
    }
    if (event.rc == ENOMEM && !layout.Has(id)) return;
    Put("{} = arena + {};", Memory(id), layout.Has(id) ? layout.Start(id) : 0);
    if (call.fill != kUnset) Put("fill({}, {}, {});", Memory(id), Hex(call.fill & 0xff), call.len);
  }
  const std::string access = Flags(AccessNames(), call.access, "IBV_ACCESS_");
  if (call.iova != kUnset) {
    Put("{} = {}ULL | ((uintptr_t){} & 0xfff);", At(id), Hex(call.iova & ~uint64_t{0xfff}),
        Memory(id));
    Put("{} = ibv_reg_mr_iova({}, {}, {}, {}, {});", Mr(id), Pd(call.pd), Memory(id), call.len,
        At(id), access);
  } else {
    Put("{} = {};", At(id), call.access & IBV_ACCESS_ZERO_BASED ? "0" : "(uintptr_t)" + Memory(id));
    Put("{} = ibv_reg_mr({}, {}, {}, {});", Mr(id), Pd(call.pd), Memory(id), call.len, access);
  }
  if (!Made(Mr(id), event.rc)) return;
  Put("{} = {}->lkey;", LkeyVar(id), Mr(id));
  Put("{} = {}->rkey;", RkeyVar(id), Mr(id));
}

void Emitter::CreateCq(const Call& call, const Event& event) {
  const ObjectId id = call.object;
  const std::string channel = call.channel == kNoObject ? "NULL" : Channel(call.channel);
  const Call* parent = call.pd == kNoObject ? nullptr : MadeBy(call.pd);
  const std::string context = Context(parent ? parent->device : call.device);
  if (!call.ex) {
    Put("{} = ibv_create_cq({}, {}, NULL, {}, 0);", Cq(id), context, call.n, channel);
    Made(Cq(id), event.rc);
    return;
  }
  Put("{{");
  Put("\tstruct ibv_cq_init_attr_ex attr = {{ .cqe = {}, .channel = {}, .wc_flags = {} }};", call.n,
      channel, Flags(WcFlagNames(), call.wc_flags, "IBV_WC_EX_WITH_"));
  if (call.flags) {
    Put("\tattr.comp_mask |= IBV_CQ_INIT_ATTR_MASK_FLAGS;");
    Put("\tattr.flags = {};", Hex(call.flags));
  }
  if (parent) {
    Put("\tattr.comp_mask |= IBV_CQ_INIT_ATTR_MASK_PD;");
    Put("\tattr.parent_domain = {};", Pd(call.pd));
  }
  Put("\t{} = ibv_create_cq_ex({}, &attr);", CqEx(id), context);
  Put("}}");
  if (Made(CqEx(id), event.rc)) Put("{} = ibv_cq_ex_to_cq({});", Cq(id), CqEx(id));
}

void Emitter::CreateQp(const Call& call, const Event& event) {
  const ObjectId id = call.object;
  const bool target = call.qp_type == QpType::kXrcRecv;
  const Call* pd_call = call.pd == kNoObject ? nullptr : MadeBy(call.pd);
  const ObjectId device = pd_call ? pd_call->device : call.device;
  const std::string context = Context(device);
  std::string pd = Pd(call.pd);
  if (call.pd == kNoObject && call.device != kNoObject && !target) {
    pd = Var("struct ibv_pd *", "pd_of", call.device);
    Put("if (!{0})\n\t\t{0} = ibv_alloc_pd({1});", pd, context);
  }
  std::string send = "NULL", recv = "NULL";
  if (!target) {
    for (const Side side : {Side::kSend, Side::kRecv}) {
      const bool own = (side == Side::kSend ? call.cq : call.recv_cq) == kNoObject;
      const std::string queue = Queue(id, side);
      (side == Side::kSend ? send : recv) = queue;
      const uint64_t wrs = side == Side::kSend ? call.sq : call.rq;
      if (own)
        Put("{} = ibv_create_cq({}, {}, NULL, NULL, 0);", queue, context,
            std::min<uint64_t>(2 * wrs + 64, 1 << 16));
    }
  } else {
    if (call.cq != kNoObject) send = Cq(call.cq);
    if (call.recv_cq != kNoObject) recv = Cq(call.recv_cq);
  }
  const char* kTypes[] = {"IBV_QPT_RC",       "IBV_QPT_UC",       "IBV_QPT_UD",
                          "IBV_QPT_XRC_SEND", "IBV_QPT_XRC_RECV", "IBV_QPT_RAW_PACKET",
                          "IBV_QPT_DRIVER"};
  std::string mask = target ? "0" : "IBV_QP_INIT_ATTR_PD";
  auto add = [&](const char* bit) { mask = mask == "0" ? bit : mask + " | " + bit; };
  if (call.xrcd != kNoObject) add("IBV_QP_INIT_ATTR_XRCD");
  if (call.ops != kPlainQp) add("IBV_QP_INIT_ATTR_SEND_OPS_FLAGS");
  if (call.flags) add("IBV_QP_INIT_ATTR_CREATE_FLAGS");
  if (call.tso_max) add("IBV_QP_INIT_ATTR_MAX_TSO_HEADER");
  const bool plain = mask == "IBV_QP_INIT_ATTR_PD";
  Put("{{");
  Put("\tstruct ibv_qp_init_attr{} attr = {{", plain ? "" : "_ex");
  Put("\t\t.send_cq = {}, .recv_cq = {}, .qp_type = {}, .sq_sig_all = {},", send, recv,
      kTypes[static_cast<int>(call.qp_type)], call.sig_all);
  if (call.srq != kNoObject) Put("\t\t.srq = {},", Srq(call.srq));
  if (!target)
    Put("\t\t.cap = {{ .max_send_wr = {}, .max_recv_wr = {}, .max_send_sge = {}, .max_recv_sge = "
        "{}, "
        ".max_inline_data = {} }},",
        call.sq, call.srq == kNoObject ? call.rq : 0, call.sge_max,
        call.srq == kNoObject ? call.recv_sge_max : 0, call.inline_max);
  if (!plain) {
    Put("\t\t.comp_mask = {},", mask);
    if (!target) Put("\t\t.pd = {},", pd);
    if (call.xrcd != kNoObject) Put("\t\t.xrcd = {},", Xrcd(call.xrcd));
    if (call.ops != kPlainQp)
      Put("\t\t.send_ops_flags = {},", Flags(SendOpNames(), call.ops, "IBV_QP_EX_WITH_"));
    if (call.flags) Put("\t\t.create_flags = {},", Hex(call.flags));
    if (call.tso_max) Put("\t\t.max_tso_header = {},", call.tso_max);
  }
  Put("\t}};");
  if (plain) {
    Put("\t{} = ibv_create_qp({}, &attr);", Qp(id), pd);
  } else {
    Put("\t{} = ibv_create_qp_ex({}, &attr);", Qp(id), context);
  }
  Put("}}");
  if (!Made(Qp(id), event.rc)) return;
  if (call.ops != kPlainQp) Put("{} = ibv_qp_to_qp_ex({});", Ex(id), Qp(id));
  Put("{} = {}->qp_num;", Var("uint32_t ", "num", id), Qp(id));
}

void Emitter::Create(const Call& call, const Event& event) {
  const ObjectId id = call.object;
  switch (call.kind) {
    case CallKind::kDevice:
      Put("{} = open_device();", Context(id));
      break;
    case CallKind::kPd:
      if (call.pd == kNoObject && call.td == kNoObject) {
        Put("{} = ibv_alloc_pd({});", Pd(id), Context(call.device));
      } else {
        const Call* parent = call.pd == kNoObject ? nullptr : MadeBy(call.pd);
        Put("{{");
        Put("\tstruct ibv_parent_domain_init_attr attr = {{ .pd = {}, .td = {} }};", Pd(call.pd),
            call.td == kNoObject ? "NULL" : Td(call.td));
        Put("\t{} = ibv_alloc_parent_domain({}, &attr);", Pd(id),
            Context(parent ? parent->device : kNoObject));
        Put("}}");
      }
      Made(Pd(id), event.rc);
      break;
    case CallKind::kTd:
      Put("{{\n\t\tstruct ibv_td_init_attr attr = {{}};\n\t\t{} = ibv_alloc_td({}, &attr);\n\t}}",
          Td(id), Context(call.device));
      Made(Td(id), event.rc);
      break;
    case CallKind::kMr:
      CreateMr(call, event);
      break;
    case CallKind::kMw:
      Put("{} = ibv_alloc_mw({}, (enum ibv_mw_type){});", Mw(id), Pd(call.pd), call.mw_type);
      if (Made(Mw(id), event.rc)) Put("{} = {}->rkey;", RkeyVar(id), Mw(id));
      break;
    case CallKind::kChannel:
      Put("{} = ibv_create_comp_channel({});", Channel(id), Context(call.device));
      if (Made(Channel(id), event.rc))
        Put("fcntl({0}->fd, F_SETFL, fcntl({0}->fd, F_GETFL) | O_NONBLOCK);", Channel(id));
      break;
    case CallKind::kCq:
      CreateCq(call, event);
      break;
    case CallKind::kSrq: {
      Put("{{");
      const std::string cap =
          fmt::format("{{ .max_wr = {}, .max_sge = {}, .srq_limit = {} }}", call.n, call.sge_max,
                      call.limit == kUnset ? 0 : call.limit);
      if (call.xrcd == kNoObject) {
        Put("\tstruct ibv_srq_init_attr attr = {{ .attr = {} }};", cap);
        Put("\t{} = ibv_create_srq({}, &attr);", Srq(id), Pd(call.pd));
      } else {
        const Call* parent = call.pd == kNoObject ? nullptr : MadeBy(call.pd);
        Put("\tstruct ibv_srq_init_attr_ex attr = {{");
        Put("\t\t.attr = {}, .srq_type = IBV_SRQT_XRC,", cap);
        Put("\t\t.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | "
            "IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,");
        Put("\t\t.pd = {}, .xrcd = {}, .cq = {},", Pd(call.pd), Xrcd(call.xrcd), Cq(call.cq));
        Put("\t}};");
        Put("\t{} = ibv_create_srq_ex({}, &attr);", Srq(id),
            Context(parent ? parent->device : kNoObject));
      }
      Put("}}");
      if (Made(Srq(id), event.rc) && call.xrcd != kNoObject)
        Put("ibv_get_srq_num({}, &{});", Srq(id), Var("uint32_t ", "num", id));
      break;
    }
    case CallKind::kXrcd:
      Put("{{");
      Put("\tstruct ibv_xrcd_init_attr attr = {{");
      Put("\t\t.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,");
      Put("\t\t.fd = -1, .oflags = O_CREAT,\n\t\t}};");
      Put("\t{} = ibv_open_xrcd({}, &attr);", Xrcd(id), Context(call.device));
      Put("}}");
      Made(Xrcd(id), event.rc);
      break;
    case CallKind::kQp:
      CreateQp(call, event);
      break;
    case CallKind::kOpenQp: {
      const Call* xrcd = MadeBy(call.xrcd);
      Put("{{");
      Put("\tstruct ibv_qp_open_attr attr = {{");
      Put("\t\t.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,");
      Put("\t\t.qp_num = {}->qp_num, .xrcd = {}, .qp_type = IBV_QPT_XRC_RECV,\n\t\t}};",
          Qp(call.object2), Xrcd(call.xrcd));
      Put("\t{} = ibv_open_qp({}, &attr);", Qp(id), Context(xrcd ? xrcd->device : kNoObject));
      Put("}}");
      Made(Qp(id), event.rc);
      break;
    }
    case CallKind::kAh: {
      Put("{{");
      Put("\tstruct ibv_ah_attr attr = path({});", Context(call.device));
      for (const Attr& a : call.attrs) {
        std::string word(InfoOf(a.first).word);
        if (word == "ah_port") word = "port_num";
        if (word == "sgid_index" || word == "flow_label" || word == "traffic_class" ||
            word == "hop_limit")
          word = "grh." + word;
        Put("\tattr.{} = {};", word, a.second);
      }
      Put("\t{} = ibv_create_ah({}, &attr);", Ah(id), Pd(call.pd));
      Put("}}");
      Made(Ah(id), event.rc);
      break;
    }
    default:
      break;
  }
}

void Emitter::Destroy(const Call& call, const Event& event) {
  const ObjectId id = call.object;
  switch (KindOf(id)) {
    case ObjectKind::kDevice:
      Put("if ({0})\n\t\tibv_dealloc_pd({0});", Var("struct ibv_pd *", "pd_of", id));
      return Returned("ibv_close_device(" + Context(id) + ")", event.rc);
    case ObjectKind::kPd:
      return Returned("ibv_dealloc_pd(" + Pd(id) + ")", event.rc);
    case ObjectKind::kTd:
      return Returned("ibv_dealloc_td(" + Td(id) + ")", event.rc);
    case ObjectKind::kMr:
      return Returned("ibv_dereg_mr(" + Mr(id) + ")", event.rc);
    case ObjectKind::kMw:
      return Returned("ibv_dealloc_mw(" + Mw(id) + ")", event.rc);
    case ObjectKind::kChannel:
      return Returned("ibv_destroy_comp_channel(" + Channel(id) + ")", event.rc);
    case ObjectKind::kCq:
      return Returned("ibv_destroy_cq(" + Cq(id) + ")", event.rc);
    case ObjectKind::kSrq:
      return Returned("ibv_destroy_srq(" + Srq(id) + ")", event.rc);
    case ObjectKind::kXrcd:
      return Returned("ibv_close_xrcd(" + Xrcd(id) + ")", event.rc);
    case ObjectKind::kQp:
      return Returned("ibv_destroy_qp(" + Qp(id) + ")", event.rc);
    case ObjectKind::kAh:
      return Returned("ibv_destroy_ah(" + Ah(id) + ")", event.rc);
    case ObjectKind::kThread:
      return;
  }
}

// rc = ibv_modify_qp() with the members that the mask names.
void Emitter::ModifyStep(ObjectId qp, const ModifyArgs& args, const Call& call, ObjectId peer) {
  const ibv_qp_attr& a = args.attr;
  struct Member {
    int bit;
    const char* name;
    std::string value;
  };
  const std::optional<uint64_t> dest = Given(call, AttrField::kDestQpn);
  const Member members[] = {
      {IBV_QP_STATE, "qp_state", Named(StateNames(), a.qp_state, "IBV_QPS_")},
      {IBV_QP_CUR_STATE, "cur_qp_state", Named(StateNames(), a.cur_qp_state, "IBV_QPS_")},
      {IBV_QP_EN_SQD_ASYNC_NOTIFY, "en_sqd_async_notify", std::to_string(a.en_sqd_async_notify)},
      {IBV_QP_ACCESS_FLAGS, "qp_access_flags",
       Flags(AccessNames(), a.qp_access_flags, "IBV_ACCESS_")},
      {IBV_QP_PKEY_INDEX, "pkey_index", std::to_string(a.pkey_index)},
      {IBV_QP_PORT, "port_num", std::to_string(a.port_num)},
      {IBV_QP_QKEY, "qkey", Hex(a.qkey)},
      {IBV_QP_PATH_MTU, "path_mtu", fmt::format("(enum ibv_mtu){}", static_cast<int>(a.path_mtu))},
      {IBV_QP_TIMEOUT, "timeout", std::to_string(a.timeout)},
      {IBV_QP_RETRY_CNT, "retry_cnt", std::to_string(a.retry_cnt)},
      {IBV_QP_RNR_RETRY, "rnr_retry", std::to_string(a.rnr_retry)},
      {IBV_QP_RQ_PSN, "rq_psn", Hex(a.rq_psn)},
      {IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", std::to_string(a.max_rd_atomic)},
      {IBV_QP_ALT_PATH, "alt_port_num", std::to_string(a.alt_port_num)},
      {IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", std::to_string(a.min_rnr_timer)},
      {IBV_QP_SQ_PSN, "sq_psn", Hex(a.sq_psn)},
      {IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", std::to_string(a.max_dest_rd_atomic)},
      {IBV_QP_PATH_MIG_STATE, "path_mig_state",
       fmt::format("(enum ibv_mig_state){}", static_cast<int>(a.path_mig_state))},
      {IBV_QP_DEST_QPN, "dest_qp_num",
       dest || peer == kNoObject ? Hex(a.dest_qp_num) : Var("uint32_t ", "num", peer)},
      {IBV_QP_RATE_LIMIT, "rate_limit", std::to_string(a.rate_limit)},
  };
  std::string init, mask;
  int left = args.mask;
  auto name = [&](const std::string& bit) { mask += (mask.empty() ? "" : " | ") + bit; };
  for (const NamedValue& n : AttrMaskNames()) {
    if (!n.value || !(static_cast<uint64_t>(left) & n.value)) continue;
    name("IBV_QP_" + std::string(n.name));
    left &= ~static_cast<int>(n.value);
  }
  if (left) name(fmt::format("{}", left));
  for (const Member& m : members)
    if (args.mask & m.bit)
      init += fmt::format("{}.{} = {}", init.empty() ? "" : ", ", m.name, m.value);
  Put("if (!rc) {{");
  Put("\tstruct ibv_qp_attr attr = {{ {} }};\n", init);
  const Call* made = MadeBy(qp);
  const Call* to = peer == kNoObject ? made : MadeBy(peer);
  const Call* pd = to && to->pd != kNoObject ? MadeBy(to->pd) : nullptr;
  const ObjectId device = pd ? pd->device : to ? to->device : kNoObject;
  if (args.mask & IBV_QP_AV) Put("\tattr.ah_attr = path({});", Context(device));
  if (args.mask & IBV_QP_ALT_PATH) Put("\tattr.alt_ah_attr = path({});", Context(device));
  for (const Attr& given : call.attrs) {
    const AttributeInfo& info = InfoOf(given.first);
    if (info.mask != IBV_QP_AV || !(args.mask & IBV_QP_AV)) continue;
    std::string word(info.word);
    if (word == "ah_port") word = "port_num";
    if (word == "sgid_index" || word == "flow_label" || word == "traffic_class" ||
        word == "hop_limit")
      word = "grh." + word;
    Put("\tattr.ah_attr.{} = {};", word, given.second);
  }
  if (args.mask & IBV_QP_CAP)
    Put("\tattr.cap = (struct ibv_qp_cap){{ {}, {}, {}, {}, {} }};", a.cap.max_send_wr,
        a.cap.max_recv_wr, a.cap.max_send_sge, a.cap.max_recv_sge, a.cap.max_inline_data);
  Put("\trc = ibv_modify_qp({}, &attr, {});", Qp(qp), mask.empty() ? "0" : mask);
  Put("}}");
}

void Emitter::Connect(const Call& call, const Event& event) {
  Put("rc = 0;");
  auto one = [&](ObjectId qp, ObjectId peer) {
    ModifyFacts facts;
    facts.type = MadeBy(qp) ? MadeBy(qp)->qp_type : QpType::kRc;
    facts.present = present_[qp];
    for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      ModifyStep(qp, ArgsOfConnectStep(call, facts, to), call, peer);
      facts.present = to;
    }
  };
  one(call.object, call.object2);
  if (call.object2 != kNoObject && call.object2 != call.object) one(call.object2, call.object);
  Returned("rc", event.rc);
}

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

}  // namespace

std::string WhyNoC(const Program& program) {
  for (const Call& call : program.calls) {
    if (call.kind == CallKind::kThread)
      return "it has threads, and one C file tells calls in one order; send the program itself "
             "(qpexam fmt)";
    if (call.kind == CallKind::kQp && call.qp_type == QpType::kSrd)
      return "an SRD queue pair is made by libefa, not by libibverbs; send the program itself "
             "(qpexam fmt)";
  }
  return "";
}

Program ForC(const Program& program) {
  Program out = program;
  out.notes.clear();
  out.calls.erase(std::remove_if(out.calls.begin(), out.calls.end(),
                                 [](const Call& call) {
                                   return call.kind == CallKind::kFault ||
                                          call.kind == CallKind::kAdvance;
                                 }),
                  out.calls.end());
  return out;
}

std::string EmitC(const Program& program, const Trace& expected, const std::string& about) {
  return Emitter(program, expected).Emit(about);
}

}  // namespace qpexam
