#include "harness/watch/remote_run.h"

#include <algorithm>
#include <map>
#include <optional>

#include "harness/program/lint.h"
#include "harness/program/print.h"
#include "harness/remote/batch.h"
#include "harness/trace/trace_text.h"

namespace qpexam {
namespace {

using remote::Item;
using remote::MachineEnd;
using remote::MachineJob;

// A machine that does nothing for so long, beyond the longest call that the executor waits for,
// hangs.
constexpr std::chrono::seconds kStall{70};
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
      const std::vector<size_t> which = suspects_.empty() ? Missing() : suspects_;
      const std::string why = OneStart(machine, provider, which);
      if (Stopped()) break;
      if (!why.empty()) return DeliverRest(), why;
      std::vector<size_t> open;
      for (const size_t i : which)
        if (begun_[i] && !IsDone(i)) open.push_back(i);
      // A tool that was stuck has recorded in what.
      const bool dead =
          end_.kind != MachineEnd::kEnded || (end_.status != 0 && end_.status != kStuck);
      if (dead && open.size() > 1) {
        suspects_ = open;
        together_ = Died(open[0], end_);
        together_->fatal.insert(
            0, "beside " + std::to_string(open.size() - 1) + " other programs, and not alone: ");
        continue;
      }
      // Without any progress the next start would be no better.
      if (dead || progress_ == 0) Done(Died(open.empty() ? which[0] : open[0], end_));
      if (!suspects_.empty()) {
        if (dead) together_.reset();
        suspects_.erase(
            std::remove_if(suspects_.begin(), suspects_.end(), [&](size_t i) { return IsDone(i); }),
            suspects_.end());
        if (suspects_.empty() && together_) Done(std::move(*together_));
        if (suspects_.empty()) together_.reset();
      }
      Deliver();
    }
    DeliverRest();
    return "";
  }

 private:
  static judge::JudgeOptions Judging(const ProviderInfo& provider) { return JudgingOf(provider); }
  bool Stopped() const { return options_.stop && options_.stop->load(); }

  bool IsDone(size_t index) const { return index < next_ || done_.count(index); }
  std::vector<size_t> Missing() const {
    std::vector<size_t> missing;
    for (size_t i = next_; i < programs_.size(); i++)
      if (!IsDone(i)) missing.push_back(i);
    return missing;
  }

  // Runs these on a fresh machine. Returns why nothing ran, empty otherwise; sets end_.
  std::string OneStart(const remote::Machine& machine, const ProviderInfo& provider,
                       const std::vector<size_t>& which) {
    const remote::Pace pace = machine.PaceOf(which.size());
    begun_.assign(programs_.size(), false);
    below_.clear();
    progress_ = 0;
    sound_ = true;
    MachineJob job;
    job.arguments = {"--device=@device",
                     "--batch=@input",
                     "--results=@results",
                     "--provider=" + provider.name,
                     "--version=" + provider.version,
                     "--stall=" + std::to_string(pace.stall.count()),
                     "--jobs=" + std::to_string(suspects_.empty() ? pace.jobs : 1)};
    job.input = remote::PrintBatch(programs_, which);
    job.stall = kStall + std::chrono::duration_cast<std::chrono::seconds>(pace.stall);
    job.stop = options_.stop;
    remote::TraceStream stream;
    job.on_results = [&](std::string_view bytes) {
      std::vector<Item> items;
      sound_ = stream.Feed(bytes, &items) && sound_;
      for (Item& item : items) Take(item);
      Deliver();
    };
    end_ = machine.Run(job);
    if (end_.kind == MachineEnd::kNotUp ||
        (progress_ == 0 && std::find(begun_.begin(), begun_.end(), true) == begun_.end() &&
         end_.kind != MachineEnd::kStopped)) {
      return (end_.why.empty() ? "the executor ended with status " + std::to_string(end_.status)
                               : end_.why) +
             (end_.log.empty() ? "" : "\n" + end_.log);
    }
    return "";
  }

  void Take(Item& item) {
    if (item.index >= programs_.size() || IsDone(item.index)) return;
    if (item.kind == Item::kBegin) begun_[item.index] = true;
    if (item.kind == Item::kFinding) below_[item.index].push_back(std::move(item.finding));
    if (item.kind != Item::kTrace) return;
    const Program& program = programs_[item.index];
    RunResult result = Result(item.index);
    result.nanoseconds = item.nanoseconds;
    result.below = std::move(below_[item.index]);
    below_.erase(item.index);
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
    if (options_.want_trace) result.trace = std::move(item.text);
    progress_++;
    Done(std::move(result));
  }

  void Done(RunResult result) {
    const size_t index = result.index;
    done_[index] = std::move(result);
  }

  // Those that are next go out, in order; but none while it is not known of which of several the
  // machine died.
  void Deliver() {
    if (!suspects_.empty()) return;
    for (auto it = done_.begin(); it != done_.end() && it->first == next_; it = done_.erase(it)) {
      next_++;
      if (options_.begun) options_.begun->store(next_);
      on_result_(std::move(it->second));
    }
  }
  // What was found is not lost with what could not be run.
  void DeliverRest() {
    for (auto& [index, result] : done_) on_result_(std::move(result));
    done_.clear();
  }

  // The machine went down with a Program that had begun.
  RunResult Died(size_t index, const MachineEnd& end) const {
    RunResult result = Result(index);
    const bool hang = end.why.find("hangs") != std::string::npos;
    result.ended = hang ? Ended::kHang : Ended::kCrash;
    result.fatal_call = kEndOfRun;
    result.fatal = std::string(hang ? "hang: " : "crash: ") +
                   (end.kind == MachineEnd::kEnded
                        ? "the executor ended with status " + std::to_string(end.status)
                        : end.why) +
                   (sound_ ? "" : "; its last words are garbled");
    if (!end.log.empty()) result.fatal += "\n" + FirstLines(end.log, 64 << 10);
    return result;
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
  std::map<size_t, std::vector<SessionFinding>> below_;  // of the Programs that run
  std::map<size_t, RunResult> done_;                     // and not delivered yet
  std::vector<bool> begun_;                              // in this start
  MachineEnd end_;
  // The machine died while all of these ran, which is this result if none of them kills it alone.
  std::vector<size_t> suspects_;
  std::optional<RunResult> together_;
  bool sound_ = true;
  size_t next_ = 0, progress_ = 0;
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
