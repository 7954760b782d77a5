#include "harness/command/console.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "harness/program/parse.h"

namespace qpexam {
namespace {

namespace fs = std::filesystem;

int stdout_errno = 0;

// Longer inputs than the parser takes are refused there; this keeps a wrong file (a disk image)
// from filling the memory first.
constexpr uint64_t kMostBytes = kMaxTextBytes + 1;

std::atomic<bool> stop_requested{false};

// A seed belongs to the group of the catalogue that its name begins with
// ("atom-failed-region.qpx"); what lies in another folder of the corpus, to that folder.
std::string GroupOf(const fs::path& file, const fs::path& root) {
  const std::string folder = file.parent_path().lexically_relative(root).string();
  std::string stem = file.stem().string();
  // "01-manual-page": a number only puts it first.
  stem.erase(0, std::min(stem.find_first_not_of("0123456789-"), stem.size()));
  const size_t dash = stem.find('-');
  if ((folder == "seeds" || folder == ".") && dash != std::string::npos)
    return stem.substr(0, dash);
  return folder == "." || folder.empty() ? "-" : folder;
}

void OnInterrupt(int signal_number) {
  stop_requested.store(true);
  signal(signal_number, SIG_DFL);
}

}  // namespace

std::string Wrapped(std::string_view text, size_t indent) {
  constexpr size_t kWidth = 96;
  std::string out;
  size_t column = indent;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(' ', at);
    if (end == std::string_view::npos) end = text.size();
    const size_t size = end - at;
    if (column > indent && column + 1 + size > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      column++;
    }
    out += text.substr(at, size);
    column += size;
    at = end + 1;
  }
  return out;
}

void Say(std::string_view message) {
  std::fflush(stdout);
  std::fprintf(stderr, "qpexam: %.*s\n", static_cast<int>(message.size()), message.data());
}

void Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && stdout_errno == 0)
    stdout_errno = errno ? errno : EIO;
}

ExitStatus FinishOutput() {
  if (std::fflush(stdout) != 0 && stdout_errno == 0) stdout_errno = errno ? errno : EIO;
  if (stdout_errno == 0) return kFine;
  // A reader that has seen enough (`| head`) is nobody's mistake.
  if (stdout_errno == EPIPE) return kFine;
  Say(fmt::format("the output could not be written: {}; send it elsewhere",
                  std::strerror(stdout_errno)));
  return kUsage;
}

OutputFile::~OutputFile() {
  if (file_) std::fclose(file_);
}

bool OutputFile::Open(const std::string& path) {
  if (path.empty()) return true;
  path_ = path;
  errno = 0;
  file_ = std::fopen(path.c_str(), "we");
  if (file_) return true;
  Say(fmt::format("{}: cannot be written: {}; name another file", path, std::strerror(errno)));
  return false;
}

bool OutputFile::Write(std::string_view text) {
  if (!file_) return true;
  errno = 0;
  bool good = std::fwrite(text.data(), 1, text.size(), file_) == text.size();
  const int write_errno = errno;
  good = std::fclose(file_) == 0 && good;
  file_ = nullptr;
  if (good) return true;
  Say(fmt::format("{}: not all could be written: {}; name a file with more room", path_,
                  std::strerror(write_errno ? write_errno : errno)));
  return false;
}

bool ReadFile(const std::string& path, std::string* text, std::string* why) {
  text->clear();
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "re");
  struct stat info;
  if (file && fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
    std::fclose(file);
    *why = "is a folder; name a file";
    return false;
  }
  if (!file) {
    *why = fmt::format("cannot be read: {}; check the name", std::strerror(errno));
    return false;
  }
  char block[1 << 16];
  size_t n = 0;
  while ((n = std::fread(block, 1, sizeof block, file)) > 0) {
    text->append(block, n);
    if (text->size() >= kMostBytes) break;
  }
  const bool failed = std::ferror(file) != 0;
  if (file != stdin) std::fclose(file);
  if (failed) {
    *why = "cannot be read to its end; is it a regular file?";
    return false;
  }
  if (text->size() >= kMostBytes) {
    *why = fmt::format("is longer than {} MiB; that is no program and no trace of ours",
                       kMaxTextBytes >> 20);
    return false;
  }
  return true;
}

std::string FindData(const std::string& path) {
  std::vector<fs::path> places;
  if (const char* root = std::getenv("QPEXAM_ROOT")) places.push_back(fs::path(root) / path);
  // In a test of Bazel's the test's own runfiles serve: the program's beside it need not be there
  // yet.
  for (const char* name : {"RUNFILES_DIR", "TEST_SRCDIR"})
    if (const char* runfiles = std::getenv(name))
      places.push_back(fs::path(runfiles) / "qpexam" / path);
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  places.push_back(self.string() + ".runfiles/qpexam/" + path);
  places.push_back(self.parent_path().parent_path() / "share/qpexam" / path);
  places.push_back(path);
  for (const fs::path& place : places) {
    if (!fs::exists(place, ignored)) continue;
    // As one would type it from here, where that is shorter.
    const std::string near = place.lexically_proximate(fs::current_path(ignored)).string();
    return near.size() < place.string().size() ? near : place.string();
  }
  return "";
}

std::string FindCorpus(const std::string& asked) {
  std::error_code ignored;
  const std::string place = asked.empty() ? FindData("corpus") : asked;
  if (!place.empty() && fs::is_directory(place, ignored)) return place;
  Say(asked.empty()
          ? "the corpus was not found; name its folder: --corpus=DIR"
          : fmt::format("{}: no such folder; --corpus takes a folder of .qpx files", asked));
  return "";
}

ExitStatus LoadPrograms(const std::vector<std::string>& paths,
                        std::vector<NamedProgram>* programs) {
  ExitStatus status = kFine;
  for (const std::string& path : paths) {
    std::vector<std::string> files;
    std::error_code error;
    const bool folder = path != "-" && fs::is_directory(path, error);
    if (folder) {
      for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
           it.increment(error))
        if (it->path().extension() == ".qpx") files.push_back(it->path().string());
      if (error) {
        Say(fmt::format("{}: cannot be read: {}", path, error.message()));
        status = Worse(status, kUsage);
      }
      std::sort(files.begin(), files.end());
      if (files.empty()) {
        Say(fmt::format("{}: there is no .qpx file in it", path));
        status = Worse(status, kUsage);
      }
    } else {
      files.push_back(path);
    }
    for (const std::string& file : files) {
      ParseResult parsed = LoadProgram(file);
      if (!parsed.ok) {
        Say(parsed.error.Message());
        status = Worse(status, kUsage);
        continue;
      }
      NamedProgram named;
      named.name = file;
      named.group = folder ? GroupOf(file, path) : "-";
      named.program = std::move(parsed.program);
      programs->push_back(std::move(named));
    }
  }
  return status;
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::string text, why;
  if (path == "-" || !ReadFile(path, &text, &why)) return {};
  return SplitLines(text);
}

Progress::Progress(std::string what, size_t total)
    : what_(std::move(what)), total_(total), shown_(isatty(2) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::Step() { Show(done_ + 1, total_); }

void Progress::Show(size_t done, size_t total) {
  done_ = done;
  total_ = total;
  if (!shown_) return;
  std::fprintf(stderr, "\r%s: %zu of %zu", what_.c_str(), done_, total_);
  std::fflush(stderr);
}

const std::atomic<bool>& StopOnInterrupt() {
  signal(SIGINT, OnInterrupt);
  signal(SIGTERM, OnInterrupt);
  return stop_requested;
}

}  // namespace qpexam
