// What a block of flash_attention_backward does in fp32: the ordinary units, two matrix products in registers as in
// flash_attention_fp32.cuh.
//
// A block owns rows, queries for dq and keys for dk and dv, and walks over tiles of columns, which are the others.
// `Sharing` warps have the same 4 Rows rows: each scores its part of a tile's columns, and then works out its part of
// head_dim over all of them. Lane 8 y + x of a warp has rows y + 4 r, r = 0 .. Rows - 1, columns x + 8 j of its part of the
// tile, and of head_dim 4 x + 32 c .. 4 x + 32 c + 3 of its part.
// For 4 of head_dim that is Rows + Columns reads of 16 bytes for 4 Rows Columns products, and for 4 columns Rows + 4 Chunks
// reads for 16 Rows Chunks. Weights and ds pass from the lanes that scored them to those that need them through shared
// memory, where a lane keeps its weights until it has d_out v^T.
// Rows of q, k, v and d_out are 4 floats longer than they must be, so that 8 rows read at the same column hit 8 x 4 banks;
// rows of weights are 8 floats longer, so that 4 rows x 8 columns written together hit 4 x 8.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "flash_attention/flash_attention_backward_launch.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/launch_shape.h"
#include "primitives/ldmatrix.cuh"

namespace warpwatch {
namespace {

// With Async, rows arrive by cp.async: sm_80 and newer.
template <int HeadDim, int Warps, int Sharing, int Rows, int Columns, bool Async>
struct Fp32Gradient {
  static constexpr int kLanes = 8;  // that share a row
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kWarpRows = 4 * Rows;
  static constexpr int kOwned = Warps / Sharing * kWarpRows;
  static constexpr int kWarpColumns = kLanes * Columns;
  static constexpr int kStep = Sharing * kWarpColumns;
  static constexpr int kWidth = HeadDim / 4;                 // of a row, in 16 bytes
  static constexpr int kChunks = kWidth / kLanes / Sharing;  // of 4 of head_dim, per lane and row
  static_assert(kChunks * kLanes * Sharing == kWidth && Warps % Sharing == 0, "warps have the same share");

  using Owned = float4[kOwned][kWidth + 1];
  using Step = float4[kStep][kWidth + 1];
  struct Shared {
    Owned first, second;              // queries and d_out, or keys and values
    Step first_step, second_step;     // keys and values, or queries and d_out
    float weights[kOwned][kStep + 8];
    Shift shift[kStep];  // of queries, where those are columns
    float delta[kStep];
  };
  using Shape = LaunchShape<kThreads, sizeof(Shared)>;
  using Scores = float[Rows][Columns];
  using Sums = float4[Rows][kChunks];

  int x, part, first_row, first_column;
  int first_chunk;  // of head_dim, in 16 bytes

  __device__ __forceinline__ Fp32Gradient() {
    const int warp = threadIdx.x / 32;
    x = threadIdx.x % kLanes;
    part = warp % Sharing;
    first_row = warp / Sharing * kWarpRows + threadIdx.x % 32 / kLanes;  // this lane's are 4 apart
    first_column = part * kWarpColumns + x;                              // this lane's are 8 apart
    first_chunk = part * kChunks * kLanes + x;
  }

  // Copies rows of global memory to shared memory; rows from live_rows on become zeros.
  template <int TileRows>
  static __device__ __forceinline__ void start(float4 (&tile)[TileRows][kWidth + 1], const float* global,
                                               int64_t row_stride, int live_rows) {
#pragma unroll 4
    for (int i = threadIdx.x; i < TileRows * kWidth; i += kThreads) {
      const int row = i / kWidth;
      const int column = i % kWidth;
      const float* from = global + row * row_stride + 4 * column;
      if constexpr (Async) {
        cp_async_16(shared_address(&tile[row][column]), from, row < live_rows);
      } else {
        tile[row][column] = row < live_rows ? *reinterpret_cast<const float4*>(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      }
    }
    if constexpr (Async) cp_async_commit();
  }

  // What was started has landed, up to the last Pending tiles, for every warp.
  template <int Pending>
  static __device__ __forceinline__ void wait() {
    if constexpr (Async) cp_async_wait<Pending>();
    __syncthreads();
  }

  // Lanes of one row have written what others of it read.
  static __device__ __forceinline__ void exchange() {
    if constexpr (Sharing > 1) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  }

  // scores = rows columns^T, over head_dim.
  __device__ __forceinline__ void score(Scores& scores, const Owned& rows, const Step& columns) const {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int j = 0; j < Columns; ++j) scores[r][j] = 0.0f;
    }
#pragma unroll 2
    for (int d = 0; d < kWidth; ++d) {
      float4 row[Rows];
#pragma unroll
      for (int r = 0; r < Rows; ++r) row[r] = rows[first_row + 4 * r][d];
#pragma unroll
      for (int j = 0; j < Columns; ++j) {
        const float4 column = columns[first_column + kLanes * j][d];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          float& sum = scores[r][j];
          sum = fmaf(row[r].w, column.w, fmaf(row[r].z, column.z, fmaf(row[r].y, column.y, fmaf(row[r].x, column.x, sum))));
        }
      }
    }
  }

  // sums += weights columns, over the tile's columns.
  __device__ __forceinline__ void add(Sums& sums, const float (&weights)[kOwned][kStep + 8], const Step& columns) const {
#pragma unroll 1
    for (int column = 0; column < kStep; column += 4) {
      float4 weight[Rows];
#pragma unroll
      for (int r = 0; r < Rows; ++r) weight[r] = *reinterpret_cast<const float4*>(&weights[first_row + 4 * r][column]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          const float4 value = columns[column + i][first_chunk + kLanes * c];
#pragma unroll
          for (int r = 0; r < Rows; ++r) {
            const float w = i == 0 ? weight[r].x : i == 1 ? weight[r].y : i == 2 ? weight[r].z : weight[r].w;
            float4& sum = sums[r][c];
            sum.x = fmaf(w, value.x, sum.x);
            sum.y = fmaf(w, value.y, sum.y);
            sum.z = fmaf(w, value.z, sum.z);
            sum.w = fmaf(w, value.w, sum.w);
          }
        }
      }
    }
  }

  // The lane's rows of a head whose first row is `to`, times factor.
  __device__ __forceinline__ void store(const Sums& sums, float factor, float* to, int64_t row_stride,
                                        int live_rows) const {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (first_row + 4 * r >= live_rows) continue;
      float* row = to + (first_row + 4 * r) * row_stride;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const float4 sum = sums[r][c];
        *reinterpret_cast<float4*>(row + 4 * (first_chunk + kLanes * c)) =
            make_float4(sum.x * factor, sum.y * factor, sum.z * factor, sum.w * factor);
      }
    }
  }
};

}  // namespace
}  // namespace warpwatch
