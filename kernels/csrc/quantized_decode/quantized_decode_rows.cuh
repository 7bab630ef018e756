// A tile of codes in shared memory: 32 rows as they lie in the cache, their 16-byte chunks swizzled.
#pragma once

#include <cstdint>
#include <type_traits>

#include "primitives/ldmatrix.cuh"
#include "primitives/swizzle.cuh"

namespace warpwatch {

constexpr int kQuantizedKeys = 32;  // of a tile

// Where a 16-byte chunk of a row lies in a tile (primitives/swizzle.cuh). Rows of 32 bytes go two by two.
template <int RowBytes>
__device__ __forceinline__ constexpr uint32_t quantized_place(int row, int chunk) {
  if constexpr (RowBytes == 32) {
    return swizzled<64>(row / 2, row % 2 * 2 + chunk);
  } else {
    return swizzled<RowBytes>(row, chunk);
  }
}

// One warp copies a tile's 32 rows of RowBytes; those from `live` on become zeros.
template <int RowBytes, typename Copy>
__device__ __forceinline__ void copy_quantized_rows(uint32_t tile, const void* first_row, int64_t stride, int live) {
  constexpr int kChunks = RowBytes / 16;
  constexpr int kRows = 32 / kChunks;  // at once: 512 bytes
  const int first = threadIdx.x % 32 / kChunks;
  const int chunk = threadIdx.x % kChunks;
  const uint32_t to = tile + quantized_place<RowBytes>(first, chunk);
  const auto copy = [&](auto all) {
    const unsigned char* from = static_cast<const unsigned char*>(first_row) + first * stride + 16 * chunk;
#pragma unroll
    for (int row = 0; row < kQuantizedKeys; row += kRows) {
      // `first` and `row` have no bit in common, so what the swizzle makes of their sum is what it makes of both.
      const uint32_t by = quantized_place<RowBytes>(row, 0) - row * RowBytes;
      Copy::template run<16>((to ^ by) + row * RowBytes, from, decltype(all)::value || first + row < live);
      from += kRows * stride;
    }
  };
  if (live >= kQuantizedKeys) {
    copy(std::true_type{});
  } else {
    copy(std::false_type{});
  }
}

// For ldmatrix: this lane's row of a tile; chunk c is at `^ (c << 4)`, tiles lying on multiples of 256 bytes.
template <int RowBytes>
__device__ __forceinline__ uint32_t quantized_row_of_lane(uint32_t tile) {
  return tile + quantized_place<RowBytes>(threadIdx.x % 32, 0);
}

}  // namespace warpwatch
