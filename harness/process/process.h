// Other programs as processes of ours. None outlives us: each is told when its parent ends.
#ifndef QPEXAM_HARNESS_PROCESS_PROCESS_H_
#define QPEXAM_HARNESS_PROCESS_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace qpexam {

struct ProcessStart {
  std::vector<std::string>
      arguments;  // the first is the program: a path, or a name that PATH knows
  std::vector<std::string> environment{};  // NAME=VALUE, besides what we have ourselves
  std::vector<std::string> without{};      // names that it does not get from us
  std::string folder{};                    // where it starts; empty: where we are
  std::string log{};                       // the file that gets both outputs, or
  int output = -1;                         // the descriptor that does
  bool append = false;                     // the log keeps what it has
  bool errors = true;                      // false: stderr is dropped
  // A group of its own: an interrupt of the terminal is for us to pass on, and kill(-pid) ends what
  // it has started too.
  bool own_group = true;
  int when_we_end = SIGTERM;  // what it gets when our process is gone
};

// Starts it with nothing to read; -1 with errno where there is no process to be had. A program that
// cannot be started says so in its output and ends with 127, as a shell does it.
pid_t StartProcess(const ProcessStart& start);

// What a shell calls the status of wait(2): 128 and the signal's number for one that a signal
// ended.
int ShellStatus(int wait_status);

// Waits for the end of it; its ShellStatus().
int WaitForProcess(pid_t child);

// The last lines of a text, at most `count`; a newline at its end does not count as one more.
std::string LastLines(const std::string& text, size_t count);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_PROCESS_PROCESS_H_
