// Machine code as an assembler writes it, and what it would store.
#include "harness/packaged/device_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace qpexam::packaged {
namespace {

Registers Numbered() {
  Registers r;
  for (unsigned i = 0; i < 16; ++i) {
    r.general[i] = 0x1112131415161700 + i * 0x0101010101010101;
    for (unsigned b = 0; b < 16; ++b) r.vector[i][b] = static_cast<uint8_t>(i << 4 | b);
  }
  return r;
}

// The bytes stored in hex, and the length: "1716151413121111 3".
std::string Decoded(std::vector<uint8_t> code) {
  const size_t length = code.size();
  code.resize(length + 15, 0x90);
  Store store;
  if (!DecodeStore(code.data(), Numbered(), &store)) return "none";
  EXPECT_EQ(store.length, length);
  std::string text;
  char two[3];
  for (size_t i = 0; i < store.size; ++i) {
    std::snprintf(two, sizeof two, "%02x", store.bytes[i]);
    text += two;
  }
  return text;
}

TEST(DeviceStore, GeneralRegistersOfEverySize) {
  EXPECT_EQ(Decoded({0x48, 0x89, 0x07}), "0017161514131211");        // mov %rax,(%rdi)
  EXPECT_EQ(Decoded({0x89, 0x0f}), "01181716");                      // mov %ecx,(%rdi)
  EXPECT_EQ(Decoded({0x66, 0x89, 0x17}), "0219");                    // mov %dx,(%rdi)
  EXPECT_EQ(Decoded({0x88, 0x1f}), "03");                            // mov %bl,(%rdi)
  EXPECT_EQ(Decoded({0x88, 0x27}), "17");                            // mov %ah,(%rdi)
  EXPECT_EQ(Decoded({0x40, 0x88, 0x37}), "06");                      // mov %sil,(%rdi)
  EXPECT_EQ(Decoded({0x4c, 0x89, 0x38}), "0f26252423222120");        // mov %r15,(%rax)
  EXPECT_EQ(Decoded({0x48, 0x0f, 0xc3, 0x02}), "0017161514131211");  // movnti %rax,(%rdx)
}

TEST(DeviceStore, EveryFormOfAddress) {
  EXPECT_EQ(Decoded({0x89, 0x47, 0x20}), "00171615");              // 0x20(%rdi)
  EXPECT_EQ(Decoded({0x89, 0x87, 0, 8, 0, 0}), "00171615");        // 0x800(%rdi)
  EXPECT_EQ(Decoded({0x89, 0x04, 0x37}), "00171615");              // (%rdi,%rsi)
  EXPECT_EQ(Decoded({0x89, 0x44, 0xb7, 0x04}), "00171615");        // 4(%rdi,%rsi,4)
  EXPECT_EQ(Decoded({0x89, 0x04, 0x25, 0, 0, 0, 1}), "00171615");  // absolute
  EXPECT_EQ(Decoded({0x89, 0x05, 0, 1, 0, 0}), "00171615");        // 0x100(%rip)
  EXPECT_EQ(Decoded({0x43, 0x89, 0x44, 0xb5, 0x00}), "00171615");  // (%r13,%r14,4)
}

TEST(DeviceStore, ConstantsAreExtendedBySign) {
  EXPECT_EQ(Decoded({0xc6, 0x07, 0x5a}), "5a");
  EXPECT_EQ(Decoded({0x66, 0xc7, 0x07, 0x34, 0x12}), "3412");
  EXPECT_EQ(Decoded({0xc7, 0x47, 0x08, 0x78, 0x56, 0x34, 0x12}), "78563412");
  EXPECT_EQ(Decoded({0x48, 0xc7, 0x07, 0xfe, 0xff, 0xff, 0xff}), "feffffffffffffff");
}

TEST(DeviceStore, VectorRegisters) {
  const std::string all = "202122232425262728292a2b2c2d2e2f";
  EXPECT_EQ(Decoded({0x0f, 0x11, 0x17}), all);                      // movups %xmm2,(%rdi)
  EXPECT_EQ(Decoded({0x0f, 0x29, 0x57, 0x10}), all);                // movaps %xmm2,16(%rdi)
  EXPECT_EQ(Decoded({0x66, 0x0f, 0x7f, 0x17}), all);                // movdqa
  EXPECT_EQ(Decoded({0xf3, 0x0f, 0x7f, 0x17}), all);                // movdqu
  EXPECT_EQ(Decoded({0x66, 0x0f, 0xe7, 0x17}), all);                // movntdq
  EXPECT_EQ(Decoded({0x66, 0x0f, 0xd6, 0x17}), all.substr(0, 16));  // movq
  EXPECT_EQ(Decoded({0x0f, 0x17, 0x17}), all.substr(16));           // movhps
  EXPECT_EQ(Decoded({0x66, 0x48, 0x0f, 0x7e, 0x17}), all.substr(0, 16));
  EXPECT_EQ(Decoded({0x66, 0x44, 0x0f, 0x6f, 0x07}), "none");  // a load
}

TEST(DeviceStore, OtherInstructionsAreNotGuessed) {
  EXPECT_EQ(Decoded({0x8b, 0x07}), "none");              // mov (%rdi),%eax
  EXPECT_EQ(Decoded({0x48, 0x89, 0xc7}), "none");        // mov %rax,%rdi
  EXPECT_EQ(Decoded({0xf3, 0x48, 0xa5}), "none");        // rep movsq
  EXPECT_EQ(Decoded({0x87, 0x07}), "none");              // xchg
  EXPECT_EQ(Decoded({0xc5, 0xfa, 0x7f, 0x07}), "none");  // vmovdqu
}

}  // namespace
}  // namespace qpexam::packaged
