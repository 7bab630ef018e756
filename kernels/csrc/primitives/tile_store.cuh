// Epilogue: stages the tile through shared memory for coalesced 16-byte stores. Stored directly from registers, an mma's C
// layout would write 16 bytes at a time to each of eight rows.
#pragma once

#include <cstdint>

namespace warpwatch {

// Barrier of a block's first kThreads threads, the consumers; the others may have exited or still copy.
template <int kThreads>
__device__ __forceinline__ void barrier_of_first_threads() {
  asm volatile("bar.sync 1, %0;\n" ::"n"(kThreads) : "memory");
}

// Bytes of a staged row: padded by 16, so that eight rows start in different banks.
template <typename Element, int kColumns>
constexpr int kStagedRowBytes = kColumns * static_cast<int>(sizeof(Element)) + 16;

// Stores `rows` staged rows of kColumns elements to out, a contiguous, 16-byte aligned matrix (m, n), from (first_m, first_n)
// on; elements outside it are skipped. The calling threads are numbered 0 to kThreads - 1.
template <typename Element, int kColumns, int kThreads>
__device__ __forceinline__ void store_staged_rows(const unsigned char* staged, int rows, Element* out, int m, int n,
                                                  int first_m, int first_n, int thread) {
  constexpr int kEach = 16 / sizeof(Element), kChunks = kColumns / kEach;
  static_assert(kColumns % kEach == 0);
  const bool aligned = n % kEach == 0;
  for (int i = thread; i < rows * kChunks; i += kThreads) {
    const int row = i / kChunks, column = i % kChunks * kEach;
    if (first_m + row >= m || first_n + column >= n) continue;
    const unsigned char* const from = staged + row * kStagedRowBytes<Element, kColumns> + column * sizeof(Element);
    Element* const to = out + static_cast<int64_t>(first_m + row) * n + first_n + column;
    if (aligned) {  // then the whole chunk is inside the row
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int e = 0; e < kEach && first_n + column + e < n; ++e) to[e] = reinterpret_cast<const Element*>(from)[e];
    }
  }
}

}  // namespace warpwatch
