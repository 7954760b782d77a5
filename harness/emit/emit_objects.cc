// Objects: made, changed, connected, destroyed.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/emit/emitter.h"
#include "harness/program/attributes.h"
#include "harness/program/layout.h"
#include "harness/program/schema.h"

namespace qpexam::emit {

using model::QpType;

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

}  // namespace qpexam::emit
