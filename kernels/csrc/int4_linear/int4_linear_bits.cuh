// Bit tricks that only the machine's own instructions do in one step.
#pragma once

#include <cstdint>

namespace warpwatch {

// (word & mask) | bits as one LOP3. From the C++ expression the compiler makes two, since an instruction holds only one
// constant; here it keeps the other in a register. 0xea is the truth table of (a & b) | c.
template <uint32_t kMask, uint32_t kBits>
__device__ __forceinline__ uint32_t masked_or(uint32_t word) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;\n" : "=r"(result) : "r"(word), "n"(kMask), "r"(kBits));
  return result;
}

}  // namespace warpwatch
