// A warp's two matrix products in fp32 on tensor cores (primitives/mma_tf32.cuh), for the forward and backward passes.
//
// A warp owns 16 RowTiles rows and processes tiles of `Columns` columns (queries and keys, or keys and queries). Both lie in
// shared memory as (rows, HeadDim), padded by 4 floats per row against bank conflicts.
// Tensor cores truncate when they accumulate. So each accumulation in the tensor core covers only `Steps` k8 steps, starts from
// zero and adds the small products before the large ones; its result is then added in fp32.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "primitives/cp_async.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/mma_tf32.cuh"

namespace warpwatch {
namespace {

template <int HeadDim, int RowTiles, int Columns, int Steps>
struct Tf32Products {
  static constexpr int kRows = 16 * RowTiles;
  static constexpr int kPitch = HeadDim + 4;   // of a row in shared memory, in floats, padded
  static constexpr int kTiles = Columns / 8;   // column tiles of 8
  static constexpr int kFours = HeadDim / 32;  // of 4 elements of head_dim, per lane
  static_assert(Steps == 1 || Steps == 2, "an ldmatrix of columns brings a step of two tiles or two of one");
  using Scores = float[RowTiles][kTiles][4];
  // Tile 4 f + j holds head_dim 32 f + 4 g + j, g = 0 .. 7, so a lane owns 8 contiguous elements, 32 f + 8 t .. 32 f + 8 t + 7.
  using Sums = float[RowTiles][HeadDim / 8][4];

  // sums += a b over Steps k8 steps, for two tiles from `first` on.
  template <int Tiles>
  static __device__ __forceinline__ void multiply(float (&sums)[RowTiles][Tiles][4], int first,
                                                  const Tf32Pieces<4> (&a)[Steps][RowTiles],
                                                  const Tf32Pieces<2> (&b)[Steps][2]) {
    float part[RowTiles][2][4] = {};
#pragma unroll
    for (int s = 0; s < Steps; ++s) {
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < 2; ++n) mma_m16n8k8_tf32(part[r][n], a[s][r].lo, b[s][n].hi[0], b[s][n].hi[1]);
      }
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < 2; ++n) mma_m16n8k8_tf32(part[r][n], a[s][r].hi, b[s][n].lo[0], b[s][n].lo[1]);
      }
    }
#pragma unroll
    for (int s = 0; s < Steps; ++s) {
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < 2; ++n) mma_m16n8k8_tf32(part[r][n], a[s][r].hi, b[s][n].hi[0], b[s][n].hi[1]);
      }
    }
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[r][first + n][c] += part[r][n][c];
      }
    }
  }

  // The lane's ldmatrix address for rows: rows 0-7 and 8-15 of the first 4 values, then of the second 4.
  static __device__ __forceinline__ uint32_t lane_rows(const float* first_row) {
    const int lane = threadIdx.x % 32;
    return shared_address(first_row + lane % 16 * kPitch + lane / 16 * 4);
  }
  // The same for columns: first and second 4 of 8 values, then those of the next 8 columns (Steps 1) or the next k8 step (2).
  static __device__ __forceinline__ uint32_t lane_columns(const float* first_column) {
    const int lane = threadIdx.x % 32;
    return shared_address(Steps == 1 ? first_column + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 4
                                     : first_column + lane % 8 * kPitch + lane / 8 * 4);
  }

  // scores = rows columns^T, summed over head_dim.
  static __device__ __forceinline__ void score(Scores& scores, uint32_t rows, uint32_t columns) {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[r][n][c] = 0.0f;
      }
    }
#pragma unroll 1
    for (int d = 0; d < HeadDim; d += 8 * Steps) {
      Tf32Pieces<4> row[Steps][RowTiles];
#pragma unroll
      for (int s = 0; s < Steps; ++s) {
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
          uint32_t a[4];
          ldmatrix_x4(a, rows + 4 * (16 * r * kPitch + d + 8 * s));
#pragma unroll
          for (int e = 0; e < 4; ++e) row[s][r].round(e, __uint_as_float(a[e]));
        }
      }
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        Tf32Pieces<2> column[Steps][2];
#pragma unroll
        for (int x = 0; x < Steps; ++x) {
          uint32_t b[4];
          ldmatrix_x4(b, columns + 4 * (8 * (n + x) * kPitch + d));
          Tf32Pieces<2>& first = column[0][x];
          Tf32Pieces<2>& second = Steps == 1 ? column[0][1] : column[Steps - 1][x];
          first.cut(0, __uint_as_float(b[0]));
          first.cut(1, __uint_as_float(b[1]));
          second.cut(0, __uint_as_float(b[2]));
          second.cut(1, __uint_as_float(b[3]));
        }
        multiply(scores, n, row, column);
      }
    }
  }

  // sums += weights columns, summed over the tile's columns. The weights stay in score's C layout: of 8 columns a lane holds 2
  // t and 2 t + 1, which this product uses as its k indices t and t + 4.
  static __device__ __forceinline__ void add(Sums& sums, const Scores& weights, const float* first_column) {
    const float* lane_values = first_column + threadIdx.x % 4 * 2 * kPitch + threadIdx.x % 32 / 4 * 4;
#pragma unroll
    for (int n = 0; n < kTiles; n += Steps) {
      Tf32Pieces<4> weight[Steps][RowTiles];
#pragma unroll
      for (int s = 0; s < Steps; ++s) {
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
          const float(&tile)[4] = weights[r][n + s];
          weight[s][r].round(0, tile[0]);
          weight[s][r].round(1, tile[2]);
          weight[s][r].round(2, tile[1]);
          weight[s][r].round(3, tile[3]);
        }
      }
#pragma unroll
      for (int f = 0; f < kFours; ++f) {
        float4 even[Steps], odd[Steps];
#pragma unroll
        for (int s = 0; s < Steps; ++s) {
          even[s] = *reinterpret_cast<const float4*>(lane_values + 8 * (n + s) * kPitch + 32 * f);
          odd[s] = *reinterpret_cast<const float4*>(lane_values + (8 * (n + s) + 1) * kPitch + 32 * f);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Tf32Pieces<2> value[Steps][2];
#pragma unroll
          for (int s = 0; s < Steps; ++s) {
            value[s][0].cut(0, half == 0 ? even[s].x : even[s].z);
            value[s][0].cut(1, half == 0 ? odd[s].x : odd[s].z);
            value[s][1].cut(0, half == 0 ? even[s].y : even[s].w);
            value[s][1].cut(1, half == 0 ? odd[s].y : odd[s].w);
          }
          multiply(sums, 4 * f + 2 * half, weight, value);
        }
      }
    }
  }
};

// A thread's share of copying consecutive tiles of Rows rows of HeadDim floats from global to shared memory by cp.async.
template <int HeadDim, int Threads, int Rows>
struct RowCopies {
  static constexpr int kPitch = HeadDim + 4;
  static constexpr int kWidth = HeadDim / 4;        // 16-byte vectors per row
  static constexpr int kAcross = kWidth & -kWidth;  // threads across a row when copying: a power of two
  static constexpr int kRowsAtOnce = Threads / kAcross;
  static_assert(Rows % kRowsAtOnce == 0, "threads copy whole rows");
  const float* source;
  uint32_t place;

  __device__ __forceinline__ RowCopies(const float* first_row, int64_t row_stride, float (&tile)[Rows][kPitch])
      : source(first_row + threadIdx.x / kAcross * row_stride + threadIdx.x % kAcross * 4),
        place(shared_address(&tile[threadIdx.x / kAcross][threadIdx.x % kAcross * 4])) {}

  // Starts a tile's copies without committing them, and advances to the next; rows from live_rows on are filled with zeros.
  __device__ __forceinline__ void start(int64_t row_stride, int live_rows) {
    const int live = live_rows - static_cast<int>(threadIdx.x) / kAcross;
#pragma unroll
    for (int i = 0; i < Rows; i += kRowsAtOnce) {
#pragma unroll
      for (int m = 0; m < kWidth; m += kAcross) {
        cp_async_16(place + 4 * (i * kPitch + 4 * m), source + 4 * m, i < live);
      }
      source += kRowsAtOnce * row_stride;
    }
  }
};

}  // namespace
}  // namespace warpwatch
