// The replay engine: runs a fuzz target over files, once each, in any build. Folders are walked in
// order. Options of other engines (-runs=0) are accepted and ignored, so that one command line fits
// all.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

// libFuzzer's own mutation, which a custom mutator calls: nobody mutates here, but the target has
// to link.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t*, size_t size, size_t) {
  return size;
}

namespace {

void Replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    std::exit(2);
  }
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), {});
  // A crash in the target then has its input's name above it.
  std::fprintf(stderr, "%s (%zu bytes)\n", path.c_str(), bytes.size());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

void Collect(const std::filesystem::path& path, std::vector<std::filesystem::path>* files) {
  if (!std::filesystem::is_directory(path)) {
    files->push_back(path);
    return;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files->push_back(entry.path());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') Collect(argv[i], &files);
  }
  std::sort(files.begin(), files.end());
  // Every target must bear the empty input, which engines start with.
  const uint8_t nothing = 0;
  LLVMFuzzerTestOneInput(&nothing, 0);
  for (const std::filesystem::path& path : files) Replay(path);
  std::printf("replayed %zu inputs\n", files.size());
  return 0;
}
