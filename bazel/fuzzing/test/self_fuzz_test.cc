// A target that any engine gets through in a moment, with the optional parts that real ones have.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  volatile size_t at = text.find("qpx");
  static_cast<void>(at);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  if (seed % 2 == 0 && size >= 3) std::memcpy(data, "qpx", 3);
  return LLVMFuzzerMutate(data, size, max_size);
}
