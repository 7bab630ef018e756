// Adds the bias to a warp's score fragments (layout: flash_attention_softmax.cuh). It is read directly from global memory: the
// four lanes of a quad read 16 contiguous bytes of a row (fp32: 32), and the next eight keys hit the same line in L1.
#pragma once

#include <cstdint>

namespace warpwatch {
namespace {

template <typename Element>
__device__ __forceinline__ float2 pair_at(const Element* at) {
  const uint32_t both = __ldg(reinterpret_cast<const unsigned int*>(at));
  const Element* each = reinterpret_cast<const Element*>(&both);
  return make_float2(static_cast<float>(each[0]), static_cast<float>(each[1]));
}

__device__ __forceinline__ float2 pair_at(const float* at) { return __ldg(reinterpret_cast<const float2*>(at)); }

// scores = scale scores + bias. `bias` points to the value of the fragment's element (0, 0). Rows from live_rows on and keys
// from live_keys on are not read: their scores are masked or not stored.
template <typename Element, int RowTiles, int KeyTiles>
__device__ __forceinline__ void add_bias(float (&scores)[RowTiles][KeyTiles][4], const Element* bias, int64_t row_stride,
                                         int live_rows, int live_keys, bool in_pairs, float scale) {
  const int lane = threadIdx.x % 32;
  const auto each_row = [&](const auto& add) {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * r + lane / 4 + 8 * half;
        add(r, half, bias + row * row_stride + 2 * (lane % 4), row < live_rows);
      }
    }
  };
  if (in_pairs && live_keys >= 8 * KeyTiles) {
    each_row([&](int r, int half, const Element* at, bool live) {
#pragma unroll
      for (int n = 0; n < KeyTiles; ++n) {
        const float2 added = live ? pair_at(at + 8 * n) : make_float2(0.0f, 0.0f);
        scores[r][n][2 * half] = fmaf(scores[r][n][2 * half], scale, added.x);
        scores[r][n][2 * half + 1] = fmaf(scores[r][n][2 * half + 1], scale, added.y);
      }
    });
  } else {
    each_row([&](int r, int half, const Element* at, bool live) {
      const int keys = live ? live_keys - 2 * (lane % 4) : 0;  // live keys, counted from the lane's first
#pragma unroll
      for (int n = 0; n < KeyTiles; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float added = 8 * n + c < keys ? static_cast<float>(at[8 * n + c]) : 0.0f;
          scores[r][n][2 * half + c] = fmaf(scores[r][n][2 * half + c], scale, added);
        }
      }
    });
  }
}

// Prefetches the next tile's bias of a warp's rows into L2, one row per lane.
template <int Keys, typename Element>
__device__ __forceinline__ void prefetch_bias(const Element* bias, int64_t row_stride, int live_rows) {
  const int row = threadIdx.x % 32;
  if (row >= live_rows) return;
  asm volatile("prefetch.global.L2 [%0];\n" ::"l"(bias + row * row_stride));
  asm volatile("prefetch.global.L2 [%0];\n" ::"l"(bias + row * row_stride + Keys - 1));
}

}  // namespace
}  // namespace warpwatch
