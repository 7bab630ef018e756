// The fp32 kernels of flash_attention_backward, on the FP32 cores.
//
// No software pipeline: a block waits for each tile. Other blocks on the same SM hide that latency.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/launch_shape.h"
#include "primitives/ldmatrix.cuh"

namespace warpwatch {

// One block of flash_attention_backward in fp32: two register-tiled matrix products on the FP32 cores, as in
// flash_attention_fp32_sm80.cu.
//
// A block owns rows (queries for dq, keys for dk and dv) and loops over tiles of columns (keys for dq, queries for dk and dv).
// `Sharing` warps own the same 4 Rows rows. Each computes the scores of its share of a tile's columns, then accumulates its
// share of head_dim over all columns of the tile.
// Layout: lane 8 y + x of a warp holds rows y + 4 r, r = 0 .. Rows - 1, columns x + 8 j of the warp's share of the tile, and
// elements 4 x + 32 c .. 4 x + 32 c + 3 of its share of head_dim.
// Shared-memory traffic: 4 elements of head_dim take Rows + Columns reads of 16 bytes for 4 Rows Columns FMAs; 4 columns take
// Rows + 4 Chunks reads for 16 Rows Chunks FMAs.
// Weights and ds are exchanged through shared memory between the lanes that computed them and those that need them. The
// weights stay there until d_out v^T is ready.
// Padding against bank conflicts: rows of q, k, v and d_out are 4 floats longer, so 8 rows read at one column hit 8 x 4 banks;
// rows of weights are 8 floats longer, so 4 rows x 8 columns written together hit 4 x 8 banks.

namespace {

// Async: rows are copied by cp.async (sm_80 and newer).
template <int HeadDim, int Warps, int Sharing, int Rows, int Columns, bool Async>
struct Fp32Gradient {
  static constexpr int kLanes = 8;  // lanes per row
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kWarpRows = 4 * Rows;
  static constexpr int kOwned = Warps / Sharing * kWarpRows;
  static constexpr int kWarpColumns = kLanes * Columns;
  static constexpr int kStep = Sharing * kWarpColumns;
  static constexpr int kWidth = HeadDim / 4;                 // 16-byte vectors per row
  static constexpr int kChunks = kWidth / kLanes / Sharing;  // of 4 elements of head_dim, per lane and row
  static_assert(kChunks * kLanes * Sharing == kWidth && Warps % Sharing == 0, "warps have the same share");

  using Owned = float4[kOwned][kWidth + 1];
  using Step = float4[kStep][kWidth + 1];
  struct Shared {
    Owned first, second;              // queries and d_out, or keys and values
    Step first_step, second_step;     // keys and values, or queries and d_out
    float weights[kOwned][kStep + 8];
    Shift shift[kStep];  // of queries, if those are the columns
    float delta[kStep];
  };
  using Shape = LaunchShape<kThreads, sizeof(Shared)>;
  using Scores = float[Rows][Columns];
  using Sums = float4[Rows][kChunks];

  int x, part, first_row, first_column;
  int first_chunk;  // of head_dim, in 16-byte units

  __device__ __forceinline__ Fp32Gradient() {
    const int warp = threadIdx.x / 32;
    x = threadIdx.x % kLanes;
    part = warp % Sharing;
    first_row = warp / Sharing * kWarpRows + threadIdx.x % 32 / kLanes;  // the lane's rows are 4 apart
    first_column = part * kWarpColumns + x;                              // the lane's columns are 8 apart
    first_chunk = part * kChunks * kLanes + x;
  }

  // Copies rows from global to shared memory; rows from live_rows on are filled with zeros.
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

  // Waits until all copies but the newest Pending tiles have landed, in every warp.
  template <int Pending>
  static __device__ __forceinline__ void wait() {
    if constexpr (Async) cp_async_wait<Pending>();
    __syncthreads();
  }

  // Makes what one lane of a row wrote to shared memory visible to the row's other lanes.
  static __device__ __forceinline__ void exchange() {
    if constexpr (Sharing > 1) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  }

  // scores = rows columns^T, summed over head_dim.
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

  // sums += weights columns, summed over the tile's columns.
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

  // Stores the lane's rows times factor; `to` is the first row of the head.
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

namespace {

// Whether a query sees the key `behind` places before its newest one. Both exist.
__device__ __forceinline__ bool seen(const FlashAttentionParams& f, int behind) {
  return !f.causal || (behind >= 0 && (f.window == 0 || behind < f.window));
}

// dq: rows are queries, columns are keys.
template <int HeadDim, int Warps, int Sharing, int Rows, int Columns, bool Async, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_dq_fp32_kernel(const FlashAttentionBackwardParams p, const FlashAttentionSchedule schedule) {
  using Gradient = Fp32Gradient<HeadDim, Warps, Sharing, Rows, Columns, Async>;
  extern __shared__ __align__(16) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Gradient::Shared*>(raw);
  const Gradient lane;
  const FlashAttentionParams& f = p.forward;
  const FlashAttentionWork work = f.window > 0 ? work_of_block<true>(f, schedule, blockIdx.x, Gradient::kOwned)
                                               : work_of_block<false>(f, schedule, blockIdx.x, Gradient::kOwned);
  const float* q = head_pointer(static_cast<const float*>(f.q), f.q_strides, work.batch, work.head);
  const float* k = head_pointer(static_cast<const float*>(f.k), f.k_strides, work.batch, work.head_kv);
  const float* v = head_pointer(static_cast<const float*>(f.v), f.v_strides, work.batch, work.head_kv);
  const float* d_out = head_pointer(static_cast<const float*>(p.d_out), p.d_out_strides, work.batch, work.head);
  const int live_queries = f.seq_q - work.first_query;
  if (work.first_key < work.keys) {
    Gradient::start(shared.first, q + work.first_query * f.q_strides.row, f.q_strides.row, live_queries);
    Gradient::start(shared.second, d_out + work.first_query * p.d_out_strides.row, p.d_out_strides.row, live_queries);
  }

  Shift shift[Rows];
  float delta[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int query = work.first_query + lane.first_row + 4 * r;
    const int64_t row = (int64_t{work.batch} * f.heads_q + work.head) * f.seq_q + query;
    if (query < f.seq_q) shift[r] = Shift(f.lse[row]);
    delta[r] = query < f.seq_q ? p.delta[row] : 0.0f;
  }
  typename Gradient::Sums dq = {};
  for (int first_key = work.first_key; first_key < work.keys; first_key += Gradient::kStep) {
    __syncthreads();  // all warps are done with the previous tile
    Gradient::start(shared.first_step, k + first_key * f.k_strides.row, f.k_strides.row, f.seq_kv - first_key);
    Gradient::start(shared.second_step, v + first_key * f.v_strides.row, f.v_strides.row, f.seq_kv - first_key);
    Gradient::template wait<1>();  // queries, d_out and keys have landed
    typename Gradient::Scores weights;
    lane.score(weights, shared.first, shared.first_step);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int j = 0; j < Columns; ++j) {
        const int key = first_key + lane.first_column + Gradient::kLanes * j;
        const int behind = work.first_query + lane.first_row + 4 * r + work.diagonal - key;
        const bool counts = key < f.seq_kv && seen(f, behind);
        weights[r][j] = counts ? exp2f(shift[r].exponent(weights[r][j], f.scale)) : 0.0f;
      }
    }
    Gradient::template wait<0>();
    typename Gradient::Scores d_weights;
    lane.score(d_weights, shared.second, shared.second_step);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int j = 0; j < Columns; ++j) {
        shared.weights[lane.first_row + 4 * r][lane.first_column + Gradient::kLanes * j] =
            weights[r][j] * (d_weights[r][j] - delta[r]);
      }
    }
    Gradient::exchange();
    lane.add(dq, shared.weights, shared.first_step);
  }
  float* to = head_pointer(static_cast<float*>(p.dq), p.dq_strides, work.batch, work.head);
  lane.store(dq, f.scale, to + work.first_query * p.dq_strides.row, p.dq_strides.row, live_queries);
}

// dk and dv: rows are keys, columns are the queries of all heads that share them.
template <int HeadDim, int Warps, int Sharing, int Rows, int Columns, bool Async, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_dkdv_fp32_kernel(const FlashAttentionBackwardParams p) {
  using Gradient = Fp32Gradient<HeadDim, Warps, Sharing, Rows, Columns, Async>;
  extern __shared__ __align__(16) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Gradient::Shared*>(raw);
  const Gradient lane;
  const FlashAttentionParams& f = p.forward;
  const KeyWork work = key_work_of_block(f, blockIdx.x, Gradient::kOwned, Gradient::kStep);
  const float* k = head_pointer(static_cast<const float*>(f.k), f.k_strides, work.batch, work.head_kv);
  const float* v = head_pointer(static_cast<const float*>(f.v), f.v_strides, work.batch, work.head_kv);
  const int live_keys = f.seq_kv - work.first_key;
  Gradient::start(shared.first, k + work.first_key * f.k_strides.row, f.k_strides.row, live_keys);
  Gradient::start(shared.second, v + work.first_key * f.v_strides.row, f.v_strides.row, live_keys);

  const int group = f.heads_q / f.heads_kv;
  typename Gradient::Sums dk = {};
  typename Gradient::Sums dv = {};
  for (int head = work.head_kv * group; head < (work.head_kv + 1) * group; ++head) {
    const float* q = head_pointer(static_cast<const float*>(f.q), f.q_strides, work.batch, head);
    const float* d_out = head_pointer(static_cast<const float*>(p.d_out), p.d_out_strides, work.batch, head);
    const int64_t first_of_head = (int64_t{work.batch} * f.heads_q + head) * f.seq_q;
    for (int first_query = work.begin; first_query < work.end; first_query += Gradient::kStep) {
      __syncthreads();  // all warps are done with the previous tile
      const int live = f.seq_q - first_query;
      Gradient::start(shared.first_step, q + first_query * f.q_strides.row, f.q_strides.row, live);
      Gradient::start(shared.second_step, d_out + first_query * p.d_out_strides.row, p.d_out_strides.row, live);
      for (int i = threadIdx.x; i < Gradient::kStep; i += Gradient::kThreads) {
        shared.shift[i] = i < live ? Shift(f.lse[first_of_head + first_query + i]) : Shift();
        shared.delta[i] = i < live ? p.delta[first_of_head + first_query + i] : 0.0f;
      }
      Gradient::template wait<1>();  // keys, values, queries and the queries' shifts and deltas have landed
      typename Gradient::Scores scores;
      lane.score(scores, shared.first, shared.first_step);
#pragma unroll
      for (int j = 0; j < Columns; ++j) {
        const int column = lane.first_column + Gradient::kLanes * j;
        const Shift shift = shared.shift[column];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          // Keys past the end need no mask: their rows are not stored.
          const int behind = first_query + column + work.diagonal - work.first_key - lane.first_row - 4 * r;
          shared.weights[lane.first_row + 4 * r][column] =
              seen(f, behind) ? exp2f(shift.exponent(scores[r][j], f.scale)) : 0.0f;
        }
      }
      Gradient::template wait<0>();  // d_out has landed, and the other lanes' weights are visible
      lane.add(dv, shared.weights, shared.second_step);
      lane.score(scores, shared.second, shared.second_step);
      Gradient::exchange();  // all lanes have read the weights
#pragma unroll
      for (int j = 0; j < Columns; ++j) {
        const int column = lane.first_column + Gradient::kLanes * j;
        const float delta = shared.delta[column];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          float& weight = shared.weights[lane.first_row + 4 * r][column];
          weight *= scores[r][j] - delta;
        }
      }
      Gradient::exchange();
      lane.add(dk, shared.weights, shared.first_step);
    }
  }
  float* dk_to = head_pointer(static_cast<float*>(p.dk), p.dk_strides, work.batch, work.head_kv);
  float* dv_to = head_pointer(static_cast<float*>(p.dv), p.dv_strides, work.batch, work.head_kv);
  lane.store(dk, f.scale, dk_to + work.first_key * p.dk_strides.row, p.dk_strides.row, live_keys);
  lane.store(dv, 1.0f, dv_to + work.first_key * p.dv_strides.row, p.dv_strides.row, live_keys);
}

template <int HeadDim, int Warps, int Sharing, int Rows, int Columns, bool Async>
cudaError_t launch_dq_fp32(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  using G = Fp32Gradient<HeadDim, Warps, Sharing, Rows, Columns, Async>;
  using Shape = typename G::Shape;
  return launch_query_gradient<Shape>(
      flash_attention_dq_fp32_kernel<HeadDim, Warps, Sharing, Rows, Columns, Async, Shape>, p, G::kOwned, sizeof(float),
      stream);
}

template <int HeadDim, int Warps, int Sharing, int Rows, int Columns, bool Async>
cudaError_t launch_dkdv_fp32(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  using G = Fp32Gradient<HeadDim, Warps, Sharing, Rows, Columns, Async>;
  using Shape = typename G::Shape;
  return launch_key_gradient<Shape>(
      flash_attention_dkdv_fp32_kernel<HeadDim, Warps, Sharing, Rows, Columns, Async, Shape>, p, G::kOwned, stream);
}

template <auto DqTile, auto DkdvTile, bool Async, int HeadDim>
cudaError_t launch_backward_fp32_head_dim(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (cudaError_t error = launch_delta<float>(p, stream); error != cudaSuccess) return error;
  constexpr FlashAttentionBackwardFp32Tile dq = DqTile(HeadDim);
  cudaError_t error = launch_dq_fp32<HeadDim, dq.warps, dq.sharing, dq.rows, dq.columns, Async>(p, stream);
  if (error != cudaSuccess) return error;
  constexpr FlashAttentionBackwardFp32Tile dkdv = DkdvTile(HeadDim);
  return launch_dkdv_fp32<HeadDim, dkdv.warps, dkdv.sharing, dkdv.rows, dkdv.columns, Async>(p, stream);
}

// DqTile and DkdvTile: functions of flash_attention_backward_tiles.h that give each kernel's tile for a head_dim.
template <auto DqTile, auto DkdvTile, bool Async>
cudaError_t launch_backward_fp32(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (p.forward.dtype != Dtype::kFloat32) return cudaErrorInvalidValue;
  switch (p.forward.head_dim) {
    case 64: return launch_backward_fp32_head_dim<DqTile, DkdvTile, Async, 64>(p, stream);
    case 96: return launch_backward_fp32_head_dim<DqTile, DkdvTile, Async, 96>(p, stream);
    case 128: return launch_backward_fp32_head_dim<DqTile, DkdvTile, Async, 128>(p, stream);
    case 256: return launch_backward_fp32_head_dim<DqTile, DkdvTile, Async, 256>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace
}  // namespace warpwatch
