#include "harness/watch/remote_run.h"

#include <algorithm>

#include "harness/program/lint.h"
#include "harness/program/print.h"
#include "harness/remote/batch.h"
#include "harness/trace/trace_text.h"

namespace qpexam {
namespace {

using remote::Item;
using remote::MachineEnd;
using remote::MachineJob;

// A machine that does nothing for so long hangs: far beyond any wait of the executor there.
constexpr std::chrono::seconds kStall{90};
// A tool that ends so has met a process that cannot be killed: the machine is of no more use.
constexpr int kStuck = 6;

std::string FirstLines(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

class RemoteRun {
 public:
  RemoteRun(const ProviderInfo& provider, const std::vector<Program>& programs,
            const WatchOptions& options, const std::function<void(RunResult&&)>& on_result)
      : programs_(programs), options_(options), on_result_(on_result), judge_(Judging(provider)) {}

  std::string Run(const remote::Machine& machine, const ProviderInfo& provider) {
    while (next_ < programs_.size() && !Stopped()) {
      const size_t first = next_;
      begun_ = ~size_t{0};
      MachineJob job;
      job.arguments = {"--device=@device", "--batch=@input", "--results=@results",
                       "--provider=" + provider.name, "--version=" + provider.version};
      job.input = remote::PrintBatch(programs_, next_);
      job.stall = kStall;
      job.stop = options_.stop;
      remote::TraceStream stream;
      bool sound = true;
      job.on_results = [&](std::string_view bytes) {
        std::vector<Item> items;
        sound = stream.Feed(bytes, &items) && sound;
        for (const Item& item : items) Take(item);
      };
      const MachineEnd end = machine.Run(job);
      if (end.kind == MachineEnd::kStopped || Stopped()) return "";
      if (end.kind == MachineEnd::kNotUp || (begun_ == ~size_t{0} && next_ == first)) {
        return (end.why.empty() ? "the executor ended with status " + std::to_string(end.status)
                                : end.why) +
               (end.log.empty() ? "" : "\n" + end.log);
      }
      if (next_ >= programs_.size()) return "";
      if (end.kind == MachineEnd::kEnded && end.status == kStuck) continue;  // it is recorded
      Died(end, sound);
    }
    return "";
  }

 private:
  static judge::JudgeOptions Judging(const ProviderInfo& provider) { return JudgingOf(provider); }
  bool Stopped() const { return options_.stop && options_.stop->load(); }

  void Take(const Item& item) {
    if (item.kind == Item::kBegin) {
      begun_ = item.index;
      below_.clear();
    }
    if (item.kind == Item::kFinding && item.index == next_) below_.push_back(item.finding);
    if (item.kind != Item::kTrace || item.index != next_ || next_ >= programs_.size()) return;
    const Program& program = programs_[next_];
    RunResult result = Result(next_);
    result.nanoseconds = item.nanoseconds;
    result.below = std::move(below_);
    below_.clear();
    TraceFile file;
    if (const std::optional<TraceError> error = ReadTrace(item.text, &file)) {
      result.ended = Ended::kOurs;
      result.fatal = "what came back is no trace: " + error->ToString("trace");
    } else if (!file.trace.fatal.empty()) {
      result.ended = file.trace.fatal.rfind("hang", 0) == 0 ? Ended::kHang : Ended::kCrash;
      result.fatal = file.trace.fatal;
      result.fatal_call = kEndOfRun;
    } else {
      result.verdict = judge_(program, file.trace);
      NoteNotMade(program, file.trace, &result);
    }
    if (options_.want_trace) result.trace = item.text;
    next_++;
    if (options_.begun) options_.begun->store(next_);
    on_result_(std::move(result));
  }

  // The machine went down with a Program that had begun.
  void Died(const MachineEnd& end, bool sound) {
    RunResult result = Result(next_);
    const bool hang = end.why.find("hangs") != std::string::npos;
    result.ended = hang ? Ended::kHang : Ended::kCrash;
    result.fatal_call = kEndOfRun;
    result.fatal = std::string(hang ? "hang: " : "crash: ") +
                   (end.kind == MachineEnd::kEnded
                        ? "the executor ended with status " + std::to_string(end.status)
                        : end.why) +
                   (sound ? "" : "; its last words are garbled");
    if (!end.log.empty()) result.fatal += "\n" + FirstLines(end.log, 64 << 10);
    next_++;
    if (options_.begun) options_.begun->store(next_);
    on_result_(std::move(result));
  }

  RunResult Result(size_t index) const {
    RunResult result;
    result.index = index;
    if (std::optional<LintFinding> cut = FirstUndefined(programs_[index])) {
      result.cut_at = cut->cut_at;
      result.cut_why = std::string(cut->clause) + ": " + cut->why;
    }
    return result;
  }

  const std::vector<Program>& programs_;
  const WatchOptions& options_;
  const std::function<void(RunResult&&)>& on_result_;
  judge::Judge judge_;
  std::vector<SessionFinding> below_;  // of the Program that runs
  size_t next_ = 0, begun_ = ~size_t{0};
};

}  // namespace

std::string RunOnMachine(const remote::Machine& machine, const ProviderInfo& provider,
                         const std::vector<Program>& programs, const WatchOptions& options,
                         const std::function<void(RunResult&&)>& on_result) {
  std::vector<Program> fitted = programs;
  for (Program& program : fitted) machine.FitDefaults(&program);
  return RemoteRun(provider, fitted, options, on_result).Run(machine, provider);
}

}  // namespace qpexam
