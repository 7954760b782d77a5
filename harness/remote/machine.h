// A machine that is not this process, where our own small programs run: a guest kernel. It may die
// of what it runs, which is then told with what it last said.
#ifndef QPEXAM_HARNESS_REMOTE_MACHINE_H_
#define QPEXAM_HARNESS_REMOTE_MACHINE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace qpexam {
struct Program;
}

namespace qpexam::remote {

struct MachineJob {
  enum class Tool : uint8_t { kExecutor, kSuites } tool = Tool::kExecutor;
  // Of the tool; "@input", "@results" and "@device" stand for what they are there.
  std::vector<std::string> arguments;
  std::string input;
  // Called with each piece of the results file as it grows.
  std::function<void(std::string_view)> on_results;
  // The results do not grow for as long: the machine hangs.
  std::chrono::seconds stall{60};
  const std::atomic<bool>* stop = nullptr;
};

struct MachineEnd {
  enum Kind : uint8_t {
    kEnded,    // the tool ran to its end, with `status`
    kDied,     // the machine crashed or hung after the tool had begun
    kNotUp,    // it never came to run the tool
    kStopped,  // as asked
  } kind = kNotUp;
  int status = 0;
  std::string why;  // one line: "the guest kernel died: BUG: unable to handle ..."
  std::string log;  // what there is of the tool's messages and the kernel's log
};

// How the executor is to go about a batch there.
struct Pace {
  unsigned jobs = 1;                       // Programs beside each other
  std::chrono::milliseconds stall{20000};  // a call that takes longer hangs
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual Pace PaceOf(size_t programs) const {
    (void)programs;
    return {};
  }
  // Whether it may be broken: else what is dangerous runs only where it is asked for.
  virtual bool expendable() const { return true; }
  // Starts it afresh, runs the tool, ends it.
  virtual MachineEnd Run(const MachineJob& job) const = 0;
  // As DeviceSession::FitDefaults(), where the provider's limits are known beforehand.
  virtual void FitDefaults(Program* program) const { (void)program; }
};

}  // namespace qpexam::remote

#endif  // QPEXAM_HARNESS_REMOTE_MACHINE_H_
