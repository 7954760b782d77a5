#include "harness/watch/frame.h"

#include <mutex>
#include <set>

namespace qpexam {

const char* KeepClause(std::string_view clause) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> kept;
  std::lock_guard<std::mutex> lock(mutex);
  auto it = kept.find(clause);
  if (it == kept.end()) it = kept.emplace(clause).first;
  return it->c_str();
}

std::string EncodeResult(const RunResult& result) {
  FrameWriter out;
  out.Put(static_cast<uint64_t>(result.index));
  out.Put(result.cut_at);
  out.PutString(result.cut_why);
  out.Put(result.not_made);
  out.Put(result.refused);
  out.Put(result.refused_with);
  out.Put(result.nanoseconds);
  out.PutString(result.trace);
  out.Put(static_cast<uint32_t>(result.below.size()));
  for (const SessionFinding& f : result.below)
    for (const std::string* text : {&f.kind, &f.clause, &f.what, &f.evidence}) out.PutString(*text);
  const judge::Verdict& v = result.verdict;
  out.Put(v.violations);
  out.Put(v.warnings);
  out.Put(v.undecided);
  out.Put(v.undefined);
  out.Put(v.leniency);
  out.Put(static_cast<uint32_t>(v.variations.size()));
  for (const judge::Variation& one : v.variations) {  // its members: between them nothing is set
    out.Put(one.choice);
    out.Put(one.outcome);
    out.Put(one.call);
    out.Put(one.count);
  }
  out.Put(static_cast<uint32_t>(v.findings.size()));
  for (const judge::Finding& f : v.findings) {
    out.Put(f.kind);
    out.Put(f.emulated);
    out.PutString(f.clause);
    out.Put(f.call);
    out.Put(f.line);
    out.PutString(f.what);
    out.PutString(f.observed);
    out.Put(static_cast<uint32_t>(f.allowed.size()));
    for (const std::string& allowed : f.allowed) out.PutString(allowed);
  }
  return out.bytes();
}

bool DecodeResult(std::string_view bytes, RunResult* result) {
  FrameReader in(bytes);
  result->index = in.Get<uint64_t>();
  result->cut_at = in.Get<uint32_t>();
  result->cut_why = in.GetString();
  result->not_made = in.Get<uint32_t>();
  result->refused = in.Get<uint32_t>();
  result->refused_with = in.Get<int>();
  result->nanoseconds = in.Get<uint64_t>();
  result->trace = in.GetString();
  const auto below = in.Get<uint32_t>();
  for (uint32_t i = 0; i < below && in.good(); i++) {
    SessionFinding f;
    for (std::string* text : {&f.kind, &f.clause, &f.what, &f.evidence}) *text = in.GetString();
    result->below.push_back(std::move(f));
  }
  judge::Verdict& v = result->verdict;
  v.violations = in.Get<uint32_t>();
  v.warnings = in.Get<uint32_t>();
  v.undecided = in.Get<uint32_t>();
  v.undefined = in.Get<uint32_t>();
  v.leniency = in.Get<judge::Leniency>();
  // Counts are bounded by what is left: a wrong one cannot ask for all memory.
  const auto variations = in.Get<uint32_t>();
  for (uint32_t i = 0; i < variations && in.good(); i++)
    v.variations.push_back(
        {in.Get<model::ChoicePoint>(), in.Get<unsigned>(), in.Get<uint32_t>(), in.Get<uint32_t>()});
  const auto findings = in.Get<uint32_t>();
  for (uint32_t i = 0; i < findings && in.good(); i++) {
    judge::Finding f;
    f.kind = in.Get<judge::FindingKind>();
    f.emulated = in.Get<bool>();
    f.clause = KeepClause(in.GetString());
    f.call = in.Get<uint32_t>();
    f.line = in.Get<uint32_t>();
    f.what = in.GetString();
    f.observed = in.GetString();
    const auto allowed = in.Get<uint32_t>();
    for (uint32_t k = 0; k < allowed && in.good(); k++) f.allowed.push_back(in.GetString());
    v.findings.push_back(std::move(f));
  }
  return in.good() && in.left() == 0;
}

}  // namespace qpexam
