// One result as bytes in a pipe between two processes of the same program.
#ifndef QPEXAM_HARNESS_WATCH_FRAME_H_
#define QPEXAM_HARNESS_WATCH_FRAME_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "harness/watch/watched_run.h"

namespace qpexam {

class FrameWriter {
 public:
  template <typename T>
  void Put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void PutString(std::string_view text) {
    Put(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// The child may have been corrupted by the provider: what it sends is read with bounds.
class FrameReader {
 public:
  explicit FrameReader(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T Get() {
    T value{};
    if (rest_.size() < sizeof value) {
      good_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string GetString() {
    const auto size = Get<uint64_t>();
    if (size > rest_.size()) {
      good_ = false;
      return {};
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  bool good() const { return good_; }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

std::string EncodeResult(const RunResult& result);
// False where the bytes are no result.
bool DecodeResult(std::string_view bytes, RunResult* result);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_WATCH_FRAME_H_
