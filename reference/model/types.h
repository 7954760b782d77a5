// The model's vocabulary: a type for each thing that can be confused with another.
//
// Everything in reference/model speaks these types and the enums of <infiniband/verbs.h>; nothing
// in it knows a libibverbs context, a file or a fuzzer.
#ifndef QPEXAM_REFERENCE_MODEL_TYPES_H_
#define QPEXAM_REFERENCE_MODEL_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace qpexam::model {

// A number that cannot be mistaken for another number.
template <typename Tag, typename Int>
struct Strong {
  Int value{};
  constexpr Strong() = default;
  constexpr explicit Strong(Int v) : value(v) {}
  friend constexpr bool operator==(Strong a, Strong b) { return a.value == b.value; }
  friend constexpr bool operator!=(Strong a, Strong b) { return a.value != b.value; }
  friend constexpr bool operator<(Strong a, Strong b) { return a.value < b.value; }
};

using Lkey = Strong<struct LkeyTag, uint32_t>;
using Rkey = Strong<struct RkeyTag, uint32_t>;
using QpNum = Strong<struct QpNumTag, uint32_t>;    // 24 bits
using SrqNum = Strong<struct SrqNumTag, uint32_t>;  // 24 bits
using Qkey = Strong<struct QkeyTag, uint32_t>;
using WrId = Strong<struct WrIdTag, uint64_t>;
using RemoteAddr = Strong<struct RemoteAddrTag, uint64_t>;    // an iova of the responder
using Nanoseconds = Strong<struct NanosecondsTag, uint64_t>;  // of the virtual clock

// A view of bytes that somebody else owns (std::span is C++20).
template <typename T>
struct Span {
  T* data = nullptr;
  size_t size = 0;
  constexpr T* begin() const { return data; }
  constexpr T* end() const { return data + size; }
  constexpr T& operator[](size_t i) const { return data[i]; }
  constexpr bool empty() const { return size == 0; }
};
using Bytes = Span<const uint8_t>;
using MutBytes = Span<uint8_t>;

// Level of a clause: what breaking it means (the catalogue's column "Level").
enum class Level : uint8_t { kMust, kShould, kMay, kUndefined };

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_TYPES_H_
