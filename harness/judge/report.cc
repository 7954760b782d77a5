// Findings and their words.
#include <cstdio>

#include "conformance/catalogue/catalogue.h"
#include "harness/judge/impl.h"
#include "harness/judge/words.h"
#include "harness/trace/names.h"
#include "reference/model/transitions.h"

namespace qpexam::judge {
namespace {

// One run never needs more to be understood; the counts go on.
constexpr size_t kMostFindings = 64;

}  // namespace

std::string_view Name(FindingKind kind) {
  switch (kind) {
    case FindingKind::kViolation:
      return "violation";
    case FindingKind::kWarning:
      return "warning";
    case FindingKind::kUndecided:
      return "undecided";
    case FindingKind::kUndefined:
      return "undefined";
  }
  return "?";
}

std::string_view Name(Result result) {
  switch (result) {
    case Result::kConforms:
      return "conforms";
    case Result::kVariation:
      return "variation";
    case Result::kWarning:
      return "warning";
    case Result::kViolation:
      return "violation";
    case Result::kUndecided:
      return "undecided";
  }
  return "?";
}

void Verdict::Clear() {
  findings.clear();
  variations.clear();
  leniency = Leniency{};
  violations = warnings = undecided = undefined = 0;
}

Finding* Judge::Impl::Report(const char* clause, std::string what,
                             std::initializer_list<std::string> allowed, std::string observed) {
  FindingKind kind = FindingKind::kViolation;
  if (const catalogue::Clause* c = catalogue::Find(clause)) {
    if (c->level == catalogue::Level::kShould) kind = FindingKind::kWarning;
    if (c->level == catalogue::Level::kUndefined) kind = FindingKind::kUndefined;
    if (options_.provider != Provider::kReference && options_.low_confidence_warns &&
        c->confidence == catalogue::Confidence::kLow) {
      kind = FindingKind::kWarning;
    }
    if (options_.efa && c->source.substr(0, 3) == "IBA" && kind == FindingKind::kViolation) {
      kind = FindingKind::kWarning;
    }
  }
  return Add(kind, clause, std::move(what), allowed, std::move(observed));
}

Finding* Judge::Impl::Add(FindingKind kind, const char* clause, std::string what,
                          std::initializer_list<std::string> allowed, std::string observed) {
  switch (kind) {
    case FindingKind::kViolation:
      ++verdict_.violations;
      break;
    case FindingKind::kWarning:
      ++verdict_.warnings;
      break;
    case FindingKind::kUndecided:
      ++verdict_.undecided;
      break;
    case FindingKind::kUndefined:
      ++verdict_.undefined;
      break;
  }
  if (verdict_.findings.size() >= kMostFindings) return nullptr;
  verdict_.findings.emplace_back();
  Finding& f = verdict_.findings.back();
  f.kind = kind;
  f.clause = clause;
  f.call = call_index_;
  f.line = call_ ? call_->line : 0;
  f.what = std::move(what);
  f.allowed.assign(allowed.begin(), allowed.end());
  f.observed = std::move(observed);
  if (options_.provider == Provider::kHosted) {
    const catalogue::Clause* c = catalogue::Find(clause);
    f.emulated = c != nullptr && c->layer != catalogue::Layer::kLib;
  }
  return &f;
}

void Judge::Impl::Vary(model::ChoicePoint choice, unsigned outcome) {
  for (Variation& v : verdict_.variations) {
    if (v.choice == choice && v.outcome == outcome) {
      ++v.count;
      return;
    }
  }
  verdict_.variations.push_back({choice, outcome, call_index_, 1});
}

std::string Judge::Impl::NameOf(ObjectId id) const {
  if (id == kNoObject || id >= program_->objects.size()) return "?";
  return program_->objects[id].name;
}

std::string Judge::Impl::NameOf(const Request& r) const {
  std::string s = NameOf(qps_[r.qp].id) + "'s " + std::string(model::Info(r.op).name) + " wr_id " +
                  std::to_string(r.wr_id);
  if (r.call < program_->calls.size() && program_->calls[r.call].line != 0) {
    s += " (line " + std::to_string(program_->calls[r.call].line) + ")";
  }
  return s;
}

std::string StatusName(ibv_wc_status status) { return WcStatusWord(status); }
std::string OpcodeName(ibv_wc_opcode opcode) { return WcOpcodeWord(opcode); }

std::string StatesName(States states) {
  std::string s;
  for (int i = IBV_QPS_RESET; i <= IBV_QPS_ERR; ++i) {
    if (!(states & StateBit(i))) continue;
    if (!s.empty()) s += " or ";
    s += model::StateName(static_cast<ibv_qp_state>(i));
  }
  return s.empty() ? "no state" : s;
}

std::string Hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string HexBytes(uint64_t cell, unsigned from, unsigned to) {
  std::string s;
  for (unsigned i = from; i < to; ++i) {
    char text[8];
    std::snprintf(text, sizeof text, "%s%02x", i == from ? "" : " ",
                  static_cast<unsigned>((cell >> (8 * i)) & 0xff));
    s += text;
  }
  return s;
}

std::string OutcomeWords(const model::Outcome& o) {
  if (!o.completes) return "no completion: it stays outstanding";
  std::string s = StatusName(o.status);
  if (o.status != IBV_WC_SUCCESS && o.tolerated) s += " (another error: a warning)";
  if (o.effect == model::Effect::kNone) s += ", memory unchanged";
  if (o.consumes_receive && o.receive_status != IBV_WC_SUCCESS) {
    s += ", the receive " + StatusName(o.receive_status);
  }
  return s;
}

std::string Why(const model::OutcomeSet& set, const Request& request) {
  (void)set;
  const model::RequestFacts& f = request.facts;
  using model::LocalFault;
  using model::PathFact;
  using model::ReceiveFact;
  using model::RemoteFault;
  switch (f.local) {
    case LocalFault::kUnknownKey:
      return "an unknown lkey";
    case LocalFault::kWrongPd:
      return "an lkey of another protection domain";
    case LocalFault::kOutOfRange:
      return "a local range outside its region";
    case LocalFault::kNoLocalWrite:
      return "a local region without LOCAL_WRITE";
    case LocalFault::kNone:
      break;
  }
  switch (f.remote) {
    case RemoteFault::kUnknownKey:
      return "an unknown rkey";
    case RemoteFault::kWrongPd:
      return "an rkey of another protection domain";
    case RemoteFault::kOutOfRange:
      return "a remote range outside its region";
    case RemoteFault::kNoRegionRight:
      return "a remote region without the right";
    case RemoteFault::kNoQpRight:
      return "a responder QP without the right";
    case RemoteFault::kMisaligned:
      return "a misaligned remote address";
    case RemoteFault::kWrongWindowQp:
      return "a window bound on another QP";
    case RemoteFault::kNone:
      break;
  }
  switch (f.receive) {
    case ReceiveFact::kNone:
      return "no receive is posted";
    case ReceiveFact::kTooShort:
      return "the receive is too short";
    case ReceiveFact::kBadBuffer:
      return "the receive has a bad buffer";
    default:
      break;
  }
  switch (f.path) {
    case PathFact::kNoPeer:
      return "there is no peer";
    case PathFact::kPeerNotReady:
      return "the peer is not ready to receive";
    case PathFact::kPeerInError:
      return "the peer is in ERR";
    case PathFact::kNotAddressedBack:
      return "the peer is connected to somebody else";
    case PathFact::kLost:
      return "it is lost on the way";
    case PathFact::kReachable:
      break;
  }
  if (f.window != model::RequestFacts::Window::kFine) return "a mistake about a window";
  if (!f.cell_supported) return "the service cannot carry it";
  if (f.state != IBV_QPS_RTS) {
    return "the QP was in " + std::string(model::StateName(f.state));
  }
  return "see the clause";
}

std::string Explain(const Finding& f, const Program& program,
                    const std::vector<std::string>& lines) {
  std::string s = std::string(Name(f.kind)) + " " + f.clause;
  if (f.emulated) s += " (decided by the emulation, not by the provider)";
  s += ": " + f.what + "\n";
  if (const catalogue::Clause* c = catalogue::Find(f.clause)) {
    s += "  clause:   " + std::string(catalogue::Name(c->level)) + ", " +
         std::string(c->statement) + "\n  source:   " + std::string(c->source) + "\n";
  }
  if (f.call == kEndOfRun) {
    s += "  at:       the end of the run\n";
  } else if (f.line != 0) {
    s += "  at:       line " + std::to_string(f.line);
    if (f.line <= lines.size()) s += ": " + lines[f.line - 1];
    s += "\n";
  } else if (f.call < lines.size() && lines.size() == program.calls.size()) {
    s += "  at:       call " + std::to_string(f.call + 1) + ": " + lines[f.call] + "\n";
  } else {
    s += "  at:       call " + std::to_string(f.call + 1) + "\n";
  }
  for (size_t i = 0; i < f.allowed.size(); ++i) {
    s += (i == 0 ? "  allowed:  " : "            ") + f.allowed[i] + "\n";
  }
  if (!f.observed.empty()) s += "  observed: " + f.observed + "\n";
  return s;
}

std::string Explain(const Verdict& verdict, const Program& program,
                    const std::vector<std::string>& lines) {
  std::string s(Name(verdict.result()));
  s += "\n";
  for (const Finding& f : verdict.findings) s += Explain(f, program, lines);
  for (const Variation& v : verdict.variations) {
    const model::ChoiceInfo& info = model::Info(v.choice);
    s += "variation " + std::string(info.name) + " (" + std::string(info.clause) + "): ";
    s += v.outcome < info.outcomes.size() ? std::string(info.outcomes[v.outcome])
                                          : std::to_string(v.outcome);
    s += v.count > 1 ? ", " + std::to_string(v.count) + " times\n" : "\n";
  }
  return s;
}

}  // namespace qpexam::judge
