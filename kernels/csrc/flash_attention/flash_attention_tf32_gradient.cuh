// What a block of flash_attention_backward holds in fp32 on tensor cores: the rows it owns, queries for dq and keys for dk and
// dv, and a tile of columns, which are the others.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_tf32_products.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {
namespace {

template <int HeadDim, int Warps, int RowTiles, int Columns, int Steps>
struct Tf32Gradient {
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kWarpRows = 16 * RowTiles;
  static constexpr int kOwned = Warps * kWarpRows;
  using Products = Tf32Products<HeadDim, RowTiles, Columns, Steps>;
  using Owned = float[kOwned][Products::kPitch];
  using Step = float[Columns][Products::kPitch];
  struct Shared {
    Owned first, second;             // queries and d_out, or keys and values
    Step first_step, second_step;    // keys and values, or queries and d_out
    Shift shift[Columns];  // of queries, where those are columns
    float delta[Columns];
  };
  using Shape = LaunchShape<kThreads, sizeof(Shared)>;

  template <int Rows>
  using Copies = RowCopies<HeadDim, kThreads, Rows>;
  // Of a block's own rows: starts them at once.
  static __device__ __forceinline__ void start_owned(Owned& tile, const float* first_row, int64_t row_stride,
                                                     int live_rows) {
    Copies<kOwned>(first_row, row_stride, tile).start(row_stride, live_rows);
  }

  // What was started has landed, up to the last Pending tiles, for every warp.
  template <int Pending>
  static __device__ __forceinline__ void wait() {
    cp_async_wait<Pending>();
    __syncthreads();
  }

  // The warp's rows, times factor; `to` is their first. Bits of rows that are not finite: 2 r + half of this lane's.
  static __device__ __forceinline__ unsigned store(const typename Products::Sums& sums, float factor, float* to,
                                                   int64_t row_stride, int live_rows) {
    const int lane = threadIdx.x % 32;
    unsigned not_finite = 0;
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * r + 8 * half + lane / 4;
        if (row >= live_rows) continue;
        float nothing = 0.0f;  // NaN if anything in the row is not finite
#pragma unroll
        for (int f = 0; f < Products::kFours; ++f) {
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            const float4 part = make_float4(sums[r][4 * f][e] * factor, sums[r][4 * f + 1][e] * factor,
                                            sums[r][4 * f + 2][e] * factor, sums[r][4 * f + 3][e] * factor);
            *reinterpret_cast<float4*>(to + row * row_stride + 32 * f + lane % 4 * 8 + 4 * (e % 2)) = part;
            nothing += (part.x + part.y + part.z + part.w) * 0.0f;
          }
        }
        if (nothing != 0.0f) not_finite |= 1u << (2 * r + half);
      }
    }
    return not_finite;
  }

  // Calls again(row) for each of the warp's rows that a lane has a bit for.
  template <typename Again>
  static __device__ __forceinline__ void each_not_finite(unsigned not_finite, const Again& again) {
    if (!__any_sync(0xffffffffu, not_finite != 0)) return;
#pragma unroll 1
    for (int row = 0; row < kWarpRows; ++row) {
      const bool this_one = threadIdx.x % 32 / 4 == row % 8 && (not_finite >> row / 8 & 1) != 0;
      if (__any_sync(0xffffffffu, this_one)) again(row);
    }
  }
};

}  // namespace
}  // namespace warpwatch
