// Does nothing: what the engine itself takes, which `qpexam bench` shows beside the targets.
#include <cstddef>
#include <cstdint>

// As the targets: libFuzzer copies each input, and a large quarantine makes every copy a new page.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=8"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }
