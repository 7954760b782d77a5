#include "harness/packaged/device_store.h"

#include <cstring>

namespace qpexam::packaged {
namespace {

struct Instruction {
  const uint8_t* at = nullptr;
  bool operand_size = false, repeat = false, repeat_not = false;  // 66, F3, F2
  uint8_t rex = 0;
  bool wide() const { return (rex & 8) != 0; }
  // The register field of the ModRM byte, and what follows it.
  uint8_t reg = 0;
  bool memory = false;

  void ReadPrefixes() {
    for (;; ++at) {
      if (*at == 0x66) {
        operand_size = true;
      } else if (*at == 0xf3) {
        repeat = true;
      } else if (*at == 0xf2) {
        repeat_not = true;
      } else {
        break;
      }
    }
    if ((*at & 0xf0) == 0x40) rex = *at++;
  }
  // ModRM, SIB and displacement. The address is known from the fault.
  void ReadOperands() {
    const uint8_t modrm = *at++;
    const unsigned mod = modrm >> 6, rm = modrm & 7;
    reg = static_cast<uint8_t>((modrm >> 3 & 7) | (rex & 4 ? 8 : 0));
    memory = mod != 3;
    if (!memory) return;
    size_t displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (rm == 4) {
      const uint8_t sib = *at++;
      if (mod == 0 && (sib & 7) == 5) displacement = 4;
    } else if (mod == 0 && rm == 5) {
      displacement = 4;  // relative to rip
    }
    at += displacement;
  }
};

void Put(Store* store, const void* bytes, size_t size) {
  store->size = size;
  std::memcpy(store->bytes, bytes, size);
}

// A store of an SSE register by the second byte of its opcode; 0 where it is none.
size_t VectorSize(const Instruction& in, uint8_t opcode, size_t* from) {
  *from = 0;
  switch (opcode) {
    case 0x11:  // movups, movupd, movss, movsd
      return in.repeat ? 4 : in.repeat_not ? 8 : 16;
    case 0x29:  // movaps, movapd
    case 0x2b:  // movntps, movntpd
      return in.repeat || in.repeat_not ? 0 : 16;
    case 0x7f:  // movdqa, movdqu
      return in.operand_size || in.repeat ? 16 : 0;
    case 0xe7:  // movntdq
      return in.operand_size ? 16 : 0;
    case 0xd6:  // movq
      return in.operand_size ? 8 : 0;
    case 0x7e:  // movd, movq
      return !in.operand_size || in.repeat ? 0 : in.wide() ? 8 : 4;
    case 0x13:  // movlps, movlpd
      return in.repeat || in.repeat_not ? 0 : 8;
    case 0x17:  // movhps, movhpd
      *from = 8;
      return in.repeat || in.repeat_not ? 0 : 8;
    default:
      return 0;
  }
}

}  // namespace

bool DecodeStore(const uint8_t* code, const Registers& registers, Store* store) {
  Instruction in;
  in.at = code;
  in.ReadPrefixes();
  const uint8_t opcode = *in.at++;
  if (opcode == 0x0f) {
    const uint8_t second = *in.at++;
    in.ReadOperands();
    if (!in.memory) return false;
    if (second == 0xc3) {  // movnti
      Put(store, &registers.general[in.reg], in.wide() ? 8 : 4);
    } else {
      size_t from;
      const size_t size = VectorSize(in, second, &from);
      if (size == 0) return false;
      Put(store, registers.vector[in.reg] + from, size);
    }
  } else {
    if (opcode != 0x88 && opcode != 0x89 && opcode != 0xc6 && opcode != 0xc7) return false;
    if (in.repeat || in.repeat_not) return false;
    in.ReadOperands();
    if (!in.memory) return false;
    const size_t size = !(opcode & 1) ? 1 : in.wide() ? 8 : in.operand_size ? 2 : 4;
    if (opcode < 0xc0) {
      // Without REX, 4 to 7 are the second bytes of the first four.
      const bool second_byte = size == 1 && in.rex == 0 && in.reg >= 4;
      const uint64_t value =
          second_byte ? registers.general[in.reg - 4] >> 8 : registers.general[in.reg];
      Put(store, &value, size);
    } else {
      if ((in.reg & 7) != 0) return false;
      const size_t immediate = size == 8 ? 4 : size;
      int64_t value = static_cast<int8_t>(*in.at);
      if (immediate == 2) value = static_cast<int64_t>(in.at[0] | in.at[1] << 8);
      if (immediate == 4) {
        int32_t word;
        std::memcpy(&word, in.at, sizeof word);
        value = word;  // extended by its sign
      }
      in.at += immediate;
      Put(store, &value, size);
    }
  }
  store->length = static_cast<size_t>(in.at - code);
  return true;
}

}  // namespace qpexam::packaged
