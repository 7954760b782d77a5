// The calls of a Program as lines of C; a part of emit_c.h.
#ifndef QPEXAM_HARNESS_EMIT_EMITTER_H_
#define QPEXAM_HARNESS_EMIT_EMITTER_H_

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/program/attributes.h"
#include "harness/program/program.h"
#include "harness/program/schema.h"
#include "harness/trace/trace.h"

namespace qpexam::emit {

std::string Hex(uint64_t value);
// "IBV_SEND_SIGNALED | IBV_SEND_FENCE"; bits without a name as a number.
std::string Flags(Names names, uint64_t value, const char* prefix);
// A number that has one name, "IBV_QPS_RTS"; else the number.
std::string Named(Names names, uint64_t value, const char* prefix);
// Bytes as a string of C.
std::string Quoted(const uint8_t* bytes, size_t n);

// A Program on its way into C; `trace` is what the reference did.
class Emitter {
 public:
  Emitter(const Program& program, const Trace& trace)
      : program_(program), trace_(trace), present_(program.objects.size(), IBV_QPS_RESET) {}

  // The whole file.
  std::string Emit(const std::string& about);

 private:
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

}  // namespace qpexam::emit

#endif  // QPEXAM_HARNESS_EMIT_EMITTER_H_
