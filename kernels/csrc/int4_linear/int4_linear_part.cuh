// How k is divided between the blocks of a cluster, and how their stages are read.
#pragma once

#include <cstdint>

namespace warpwatch {

// The slabs of 128 of k that one of `splits` blocks takes.
struct Int4Part {
  int begin, end;

  __device__ __forceinline__ Int4Part(int k, int splits, int rank) {
    const int slabs = (k - 1) / 128 + 1, part = (slabs - 1) / splits + 1;
    begin = min(rank * part, slabs);
    end = min(begin + part, slabs);
  }
};

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

}  // namespace warpwatch
