#include "fuzzers/provider_coverage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

// The linker's names for the ends of a section; weak, since only some builds have them.
extern "C" {
extern const char __start_qpx_text_bnxt_re[] __attribute__((weak));
extern const char __stop_qpx_text_bnxt_re[] __attribute__((weak));
extern const char __start_qpx_text_efa[] __attribute__((weak));
extern const char __stop_qpx_text_efa[] __attribute__((weak));
extern const char __start_qpx_text_hns[] __attribute__((weak));
extern const char __stop_qpx_text_hns[] __attribute__((weak));
extern const char __start_qpx_text_ionic[] __attribute__((weak));
extern const char __stop_qpx_text_ionic[] __attribute__((weak));
extern const char __start_qpx_text_mlx5[] __attribute__((weak));
extern const char __stop_qpx_text_mlx5[] __attribute__((weak));
extern const char __start_qpx_text_rxe[] __attribute__((weak));
extern const char __stop_qpx_text_rxe[] __attribute__((weak));
// clang's SanitizerCoverage: a counter a point, and for each point where it is.
extern const uint8_t __start___sancov_cntrs[] __attribute__((weak));
extern const uint8_t __stop___sancov_cntrs[] __attribute__((weak));
extern const uintptr_t __start___sancov_pcs[] __attribute__((weak));
extern const uintptr_t __stop___sancov_pcs[] __attribute__((weak));
}

namespace qpexam {
namespace {

struct Text {
  const char* provider;
  const char* start;
  const char* stop;
};

const Text kTexts[] = {
    {"hosted:bnxt_re", __start_qpx_text_bnxt_re, __stop_qpx_text_bnxt_re},
    {"hosted:efa", __start_qpx_text_efa, __stop_qpx_text_efa},
    {"hosted:hns", __start_qpx_text_hns, __stop_qpx_text_hns},
    {"hosted:ionic", __start_qpx_text_ionic, __stop_qpx_text_ionic},
    {"hosted:mlx5", __start_qpx_text_mlx5, __stop_qpx_text_mlx5},
    {"hosted:rxe", __start_qpx_text_rxe, __stop_qpx_text_rxe},
};

}  // namespace

ProviderCoverage::ProviderCoverage(const std::string& provider, const std::string& file) {
  if (file.empty() || __start___sancov_pcs == nullptr || __start___sancov_cntrs == nullptr) return;
  for (const Text& text : kTexts) {
    if (provider != text.provider || text.start == nullptr) continue;
    const auto start = reinterpret_cast<uintptr_t>(text.start);
    const auto stop = reinterpret_cast<uintptr_t>(text.stop);
    // Pairs of address and flags, in the order of the counters. One provider's are consecutive.
    const size_t all = static_cast<size_t>(__stop___sancov_cntrs - __start___sancov_cntrs);
    if (static_cast<size_t>(__stop___sancov_pcs - __start___sancov_pcs) != 2 * all) return;
    size_t first = 0;
    while (first < all &&
           (__start___sancov_pcs[2 * first] < start || __start___sancov_pcs[2 * first] >= stop))
      first++;
    size_t end = first;
    while (end < all && __start___sancov_pcs[2 * end] >= start &&
           __start___sancov_pcs[2 * end] < stop)
      end++;
    if (end == first) return;
    const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return;
    if (ftruncate(fd, static_cast<off_t>(end - first)) == 0) {
      void* map = mmap(nullptr, end - first, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (map != MAP_FAILED) {
        seen_ = static_cast<uint8_t*>(map);
        counters_ = __start___sancov_cntrs + first;
        points_ = end - first;
      }
    }
    close(fd);
  }
}

void ProviderCoverage::Note() {
  for (size_t i = 0; i < points_; i++)
    if (counters_[i] != 0 && seen_[i] == 0) seen_[i] = 1;
}

}  // namespace qpexam
