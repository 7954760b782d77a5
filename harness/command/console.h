// What the commands share: files in and out, messages, progress, interruption.
#ifndef QPEXAM_HARNESS_COMMAND_CONSOLE_H_
#define QPEXAM_HARNESS_COMMAND_CONSOLE_H_

#include <atomic>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "harness/command/exit_status.h"
#include "harness/program/program.h"

namespace qpexam {

// Breaks text at spaces, for a terminal; each line after the first begins with `indent` spaces.
std::string Wrapped(std::string_view text, size_t indent);

// "qpexam: MESSAGE" on stderr.
void Say(std::string_view message);

// To stdout. What could not be written is told at the end, by FinishOutput().
void Print(std::string_view text);
// kUsage with a message where stdout took not everything (a full disk, a closed pipe).
ExitStatus FinishOutput();

// A file that a command will write at its end, opened before its work begins: a place that cannot
// be written costs no run.
class OutputFile {
 public:
  OutputFile() = default;
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // False, with a message said, where the place cannot be written. An empty path is no file.
  bool Open(const std::string& path);
  bool wanted() const { return file_ != nullptr; }
  // False, with a message said, where not all could be written.
  bool Write(std::string_view text);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

// A whole file; false with *why. "-" is standard input.
bool ReadFile(const std::string& path, std::string* text, std::string* why);

// A Program with the name it is shown under.
struct NamedProgram {
  std::string name;   // "corpus/seeds/rc/write.qpx"
  std::string group;  // "atom", "misuse": the line of the table it counts for
  Program program;
  std::vector<std::string> lines;  // of its text, where it is in no file
};
// Parses files and, for folders, every *.qpx below. Says what is wrong with each that is not a
// Program, and returns kUsage then; `programs` holds the good ones all the same.
ExitStatus LoadPrograms(const std::vector<std::string>& paths, std::vector<NamedProgram>* programs);
// The folder of the tree's corpus; empty, with a message said, where there is none.
std::string FindCorpus(const std::string& asked);

// A file or folder of the tree (or of an installation) that the command reads, "" where it is not.
std::string FindData(const std::string& path);

// The text of a Program by line, for messages.
std::vector<std::string> LinesOf(const std::string& path);
std::vector<std::string> SplitLines(std::string_view text);

// Progress on stderr, on a terminal alone; gone when it ends.
class Progress {
 public:
  Progress(std::string what, size_t total);
  ~Progress();
  void Step();
  // To `done` of `total`, where somebody else counts.
  void Show(size_t done, size_t total);

 private:
  std::string what_;
  size_t total_, done_ = 0;
  bool shown_;
};

// Set by SIGINT and SIGTERM: commands end with what they have. A second one kills.
const std::atomic<bool>& StopOnInterrupt();

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_COMMAND_CONSOLE_H_
