#include "fuzzers/program_target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "harness/fuzz/finding_key.h"
#include "harness/program/lint.h"
#include "harness/program/print.h"
#include "harness/watch/watched_run.h"

namespace qpexam {
namespace {

bool HasParallel(const Program& program) {
  return std::any_of(program.calls.begin(), program.calls.end(),
                     [](const Call& call) { return call.kind == CallKind::kParallel; });
}

}  // namespace

void Fail(const Program& program, const std::string& what) {
  std::fprintf(stderr, "%s\n%s\n", PrintProgram(program, Notes::kDrop).c_str(), what.c_str());
  std::abort();
}

ProgramTarget::ProgramTarget(const char* provider) {
  if (const char* other = std::getenv(kEngineProviderVariable)) provider = other;
  if (const char* folder = std::getenv(kEngineFolderVariable)) {
    folder_.emplace(folder);
    known_ = folder_->ReadKnown();
    coverage_ = std::make_unique<ProviderCoverage>(provider, folder_->CoverageFile());
  }
  ProviderInfo info;
  std::string why;
  if (FindProvider(provider, &info, &why)) session_ = OpenProvider(info, &why);
  if (!session_) {
    std::fprintf(stderr, "%s: %s\n", provider, why.c_str());
    std::exit(2);
  }
  executor_ = std::make_unique<Executor>(session_.get());
  judge::JudgeOptions judging = JudgingOf(info);
  judging.lints_expected = info.kind == ProviderKind::kReference;
  judge_ = std::make_unique<judge::Judge>(judging);
}

ProgramTarget::~ProgramTarget() {
  if (folder_) folder_->AddCounts(known_seen_);
}

const Trace& ProgramTarget::Run(const Program& program) {
  program_ = program;
  return RunNext();
}

const Trace& ProgramTarget::RunNext() {
  session_->FitDefaults(&program_);
  RunOptions options;
  options.keep_objects = true;
  // Threads may wait for each other for ever where a use is undefined, on the reference too.
  if (!session_->detects_undefined() || HasParallel(program_)) {
    if (std::optional<LintFinding> cut = FirstUndefined(program_)) options.cut_at = cut->cut_at;
  }
  executor_->Run(program_, options, &trace_);
  if (coverage_) coverage_->Note();
  return trace_;
}

void ProgramTarget::Judge() {
  const judge::Verdict& verdict = (*judge_)(program_, trace_);
  below_.clear();
  session_->TakeFindings(&below_);
  if (below_.empty() && verdict.violations == 0) return;
  RunResult result;
  result.verdict = verdict;
  result.below = below_;
  const std::vector<FindingKey> keys = KeysOf(program_, result);
  if (keys.empty()) return;
  if (folder_) {
    for (const FindingKey& key : keys) {
      if (known_.count(EngineFolder::KnownName(key)) > 0)
        known_seen_[EngineFolder::KnownName(key)]++;
      else if (kept_.insert(key.Text()).second)
        folder_->KeepFound(key, program_);
    }
    return;
  }
  std::string what;
  for (const FindingKey& key : keys) what += "FINDING " + key.Text() + "\n";
  for (const SessionFinding& f : result.below) what += f.what + "\n  " + f.evidence + "\n";
  Fail(program_, what + judge::Explain(result.verdict, program_));
}

}  // namespace qpexam

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// What a Program frees is small: a short quarantine holds all of several hundred, and stays in the
// cache. The environment's ASAN_OPTIONS go over this.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=8:malloc_context_size=12";
}
#endif
#endif
