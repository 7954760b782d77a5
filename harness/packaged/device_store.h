// An x86-64 store, read from its machine code: what a library's store to a device page says, when
// the page does not let it through.
#ifndef QPEXAM_HARNESS_PACKAGED_DEVICE_STORE_H_
#define QPEXAM_HARNESS_PACKAGED_DEVICE_STORE_H_

#include <cstddef>
#include <cstdint>

namespace qpexam::packaged {

// In the order of their encoding: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
struct Registers {
  uint64_t general[16];
  uint8_t vector[16][16];
};

struct Store {
  size_t length = 0;  // of the instruction
  size_t size = 0;    // of what it stores
  uint8_t bytes[16];
};

// Of the plain moves of general and SSE registers and constants to memory: what compilers make of
// the stores of rdma-core's util/mmio.h. False for anything else. `code` has 15 bytes or more.
bool DecodeStore(const uint8_t* code, const Registers& registers, Store* store);

}  // namespace qpexam::packaged

#endif  // QPEXAM_HARNESS_PACKAGED_DEVICE_STORE_H_
