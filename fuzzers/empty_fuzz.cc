// Does nothing: what the engine itself takes, which `qpexam bench` shows beside the targets.
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }
