// The fp32 kernels of flash_attention_backward on tensor cores. flash_attention_tf32_products.cuh has the matrix products;
// flash_attention_tf32.cuh says on which GPUs they are used and how accurate they are.
//
// No software pipeline: a block waits for each tile, and the other block on the SM hides that latency. Gradient rows that come
// out non-finite are recomputed on the FP32 cores.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_tf32_products.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {

// Gradients of one query or one key, computed by one warp on the CUDA cores: the fallback for rows where the
// tensor cores met a non-finite value. Lane l handles the columns l, l + 32, ... and elements l + 32 c of
// head_dim. Slow, but only infinities and NaN reach it.

namespace {

template <int HeadDim>
__device__ __forceinline__ float dot_of_rows(const float* a, const float* b) {
  float sum = 0.0f;
#pragma unroll 4
  for (int d = 0; d < HeadDim; ++d) sum = fmaf(a[d], b[d], sum);
  return sum;
}

// `to`: the query's row of dq.
template <int HeadDim>
__device__ __forceinline__ void query_gradient_of_row(const FlashAttentionBackwardParams& p, const FlashAttentionWork& work,
                                                      int query, float* to) {
  const FlashAttentionParams& f = p.forward;
  const int lane = threadIdx.x % 32;
  const float* q = head_pointer(static_cast<const float*>(f.q), f.q_strides, work.batch, work.head) +
                   query * f.q_strides.row;
  const float* d_out = head_pointer(static_cast<const float*>(p.d_out), p.d_out_strides, work.batch, work.head) +
                       query * p.d_out_strides.row;
  const float* k = head_pointer(static_cast<const float*>(f.k), f.k_strides, work.batch, work.head_kv);
  const float* v = head_pointer(static_cast<const float*>(f.v), f.v_strides, work.batch, work.head_kv);
  const int64_t row = (int64_t{work.batch} * f.heads_q + work.head) * f.seq_q + query;
  const Shift shift(f.lse[row]);
  const int end = keys_seen(query, f.seq_kv, work.diagonal, f.causal);
  const int begin = f.window > 0 ? max(first_key_seen(query, work.diagonal, f.window), 0) : 0;
  float dq[HeadDim / 32] = {};
  for (int first = begin; first < end; first += 32) {
    const int key = first + lane;
    float d_score = 0.0f;
    if (key < end) {
      const float score = dot_of_rows<HeadDim>(q, k + key * f.k_strides.row);
      const float weight = exp2f(shift.exponent(score, f.scale));
      d_score = weight * (dot_of_rows<HeadDim>(d_out, v + key * f.v_strides.row) - p.delta[row]);
    }
    for (int j = 0; j < min(end - first, 32); ++j) {
      const float of_key = __shfl_sync(0xffffffffu, d_score, j);
#pragma unroll
      for (int c = 0; c < HeadDim / 32; ++c) dq[c] = fmaf(of_key, k[(first + j) * f.k_strides.row + lane + 32 * c], dq[c]);
    }
  }
  __syncwarp();  // orders the other lanes' stores to this row before ours
#pragma unroll
  for (int c = 0; c < HeadDim / 32; ++c) to[lane + 32 * c] = dq[c] * f.scale;
}

// Recomputes the key's rows of dk and dv, over the queries of all heads that share it.
template <int HeadDim>
__device__ __forceinline__ void key_gradients_of_row(const FlashAttentionBackwardParams& p, int batch, int head_kv, int key,
                                                     float* dk_to, float* dv_to) {
  const FlashAttentionParams& f = p.forward;
  const int lane = threadIdx.x % 32;
  const float* k = head_pointer(static_cast<const float*>(f.k), f.k_strides, batch, head_kv) + key * f.k_strides.row;
  const float* v = head_pointer(static_cast<const float*>(f.v), f.v_strides, batch, head_kv) + key * f.v_strides.row;
  const int newest = key - (f.seq_kv - f.seq_q);  // the query whose newest key this is
  const int begin = f.causal ? max(newest, 0) : 0;
  const int end = f.window > 0 ? min(f.seq_q, newest + f.window) : f.seq_q;
  const int group = f.heads_q / f.heads_kv;
  float dk[HeadDim / 32] = {};
  float dv[HeadDim / 32] = {};
  for (int head = head_kv * group; head < (head_kv + 1) * group; ++head) {
    const float* q = head_pointer(static_cast<const float*>(f.q), f.q_strides, batch, head);
    const float* d_out = head_pointer(static_cast<const float*>(p.d_out), p.d_out_strides, batch, head);
    const int64_t first_of_head = (int64_t{batch} * f.heads_q + head) * f.seq_q;
    for (int first = begin; first < end; first += 32) {
      const int query = first + lane;
      float weight = 0.0f;
      float d_score = 0.0f;
      if (query < end) {
        const float score = dot_of_rows<HeadDim>(q + query * f.q_strides.row, k);
        weight = exp2f(Shift(f.lse[first_of_head + query]).exponent(score, f.scale));
        d_score = weight * (dot_of_rows<HeadDim>(d_out + query * p.d_out_strides.row, v) - p.delta[first_of_head + query]);
      }
      for (int j = 0; j < min(end - first, 32); ++j) {
        const float weight_of_query = __shfl_sync(0xffffffffu, weight, j);
        const float of_query = __shfl_sync(0xffffffffu, d_score, j);
#pragma unroll
        for (int c = 0; c < HeadDim / 32; ++c) {
          dv[c] = fmaf(weight_of_query, d_out[(first + j) * p.d_out_strides.row + lane + 32 * c], dv[c]);
          dk[c] = fmaf(of_query, q[(first + j) * f.q_strides.row + lane + 32 * c], dk[c]);
        }
      }
    }
  }
  __syncwarp();  // orders the other lanes' stores to these rows before ours
#pragma unroll
  for (int c = 0; c < HeadDim / 32; ++c) {
    dk_to[lane + 32 * c] = dk[c] * f.scale;
    dv_to[lane + 32 * c] = dv[c];
  }
}

}  // namespace

// Shared memory of a block of the fp32 backward pass on tensor cores: the owned rows (queries for dq, keys for dk and dv) and a
// tile of columns (the other side).

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
    Shift shift[Columns];  // of queries, if those are the columns
    float delta[Columns];
  };
  using Shape = LaunchShape<kThreads, sizeof(Shared)>;

  template <int Rows>
  using Copies = RowCopies<HeadDim, kThreads, Rows>;
  // Starts the copies of the block's owned rows.
  static __device__ __forceinline__ void start_owned(Owned& tile, const float* first_row, int64_t row_stride,
                                                     int live_rows) {
    Copies<kOwned>(first_row, row_stride, tile).start(row_stride, live_rows);
  }

  // Waits until all copies but the newest Pending tiles have landed, in every warp.
  template <int Pending>
  static __device__ __forceinline__ void wait() {
    cp_async_wait<Pending>();
    __syncthreads();
  }

  // Stores the warp's rows times factor; `to` is the first. Returns a bit mask of non-finite rows: bit 2 r + half per lane.
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
        float nothing = 0.0f;  // becomes NaN if any element of the row is not finite
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

  // Calls again(row) for each of the warp's rows whose bit is set in any lane.
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

namespace {

// Whether a query sees the key `behind` places before its newest one. Both exist.
__device__ __forceinline__ bool sees(const FlashAttentionParams& f, int behind) {
  return !f.causal || (behind >= 0 && (f.window == 0 || behind < f.window));
}

// dq: rows are queries, columns are keys.
template <int HeadDim, int Warps, int RowTiles, int Columns, int Steps, int Blocks, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Blocks)
    flash_attention_dq_tf32_kernel(const FlashAttentionBackwardParams p, const FlashAttentionSchedule schedule) {
  using Gradient = Tf32Gradient<HeadDim, Warps, RowTiles, Columns, Steps>;
  using Products = typename Gradient::Products;
  extern __shared__ __align__(16) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Gradient::Shared*>(raw);
  const int lane = threadIdx.x % 32;
  const int warp_row = threadIdx.x / 32 * Gradient::kWarpRows;
  const FlashAttentionParams& f = p.forward;
  const FlashAttentionWork work = f.window > 0 ? work_of_block<true>(f, schedule, blockIdx.x, Gradient::kOwned)
                                               : work_of_block<false>(f, schedule, blockIdx.x, Gradient::kOwned);
  const float* k = head_pointer(static_cast<const float*>(f.k), f.k_strides, work.batch, work.head_kv);
  const float* v = head_pointer(static_cast<const float*>(f.v), f.v_strides, work.batch, work.head_kv);
  const int live_queries = f.seq_q - work.first_query;
  if (work.first_key < work.keys) {
    const float* q = head_pointer(static_cast<const float*>(f.q), f.q_strides, work.batch, work.head);
    const float* d_out = head_pointer(static_cast<const float*>(p.d_out), p.d_out_strides, work.batch, work.head);
    Gradient::start_owned(shared.first, q + work.first_query * f.q_strides.row, f.q_strides.row, live_queries);
    Gradient::start_owned(shared.second, d_out + work.first_query * p.d_out_strides.row, p.d_out_strides.row, live_queries);
  }
  const uint32_t queries = Products::lane_rows(shared.first[warp_row]);
  const uint32_t d_outs = Products::lane_rows(shared.second[warp_row]);
  const uint32_t keys = Products::lane_columns(shared.first_step[0]);
  const uint32_t values = Products::lane_columns(shared.second_step[0]);

  const int first_query = work.first_query + warp_row + lane / 4;  // the lane's other rows are 8, 16, 24 further on
  Shift shift[RowTiles][2];
  float delta[RowTiles][2];
#pragma unroll
  for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + 16 * r + 8 * half;
      const int64_t row = (int64_t{work.batch} * f.heads_q + work.head) * f.seq_q + query;
      if (query < f.seq_q) shift[r][half] = Shift(f.lse[row]);
      delta[r][half] = query < f.seq_q ? p.delta[row] : 0.0f;
    }
  }
  typename Gradient::template Copies<Columns> k_copies(k + work.first_key * f.k_strides.row, f.k_strides.row,
                                                       shared.first_step);
  typename Gradient::template Copies<Columns> v_copies(v + work.first_key * f.v_strides.row, f.v_strides.row,
                                                       shared.second_step);
  typename Products::Sums dq = {};
  for (int first_key = work.first_key; first_key < work.keys; first_key += Columns) {
    __syncthreads();  // all warps are done with the previous tile
    k_copies.start(f.k_strides.row, f.seq_kv - first_key);
    cp_async_commit();
    v_copies.start(f.v_strides.row, f.seq_kv - first_key);
    cp_async_commit();
    Gradient::template wait<1>();  // queries, d_out and keys have landed
    typename Products::Scores weights;
    Products::score(weights, queries, keys);
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int n = 0; n < Products::kTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          weights[r][n][e] = shift[r][e / 2].exponent(weights[r][n][e], f.scale);
        }
      }
    }
    // Most tiles are visible to all of the warp's queries and need no mask.
    const int newest = work.first_query + warp_row + work.diagonal;  // newest key that the warp's first query sees
    const bool all_new_seen = first_key + Columns <= (f.causal ? min(f.seq_kv, newest + 1) : f.seq_kv);
    if (!all_new_seen || (f.window > 0 && first_key <= newest + Gradient::kWarpRows - 1 - f.window)) {
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < Products::kTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int key = first_key + 8 * n + lane % 4 * 2 + e % 2;
            const int behind = first_query + 16 * r + 8 * (e / 2) + work.diagonal - key;
            if (key >= f.seq_kv || !sees(f, behind)) weights[r][n][e] = -INFINITY;
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int n = 0; n < Products::kTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) weights[r][n][e] = exp2f(weights[r][n][e]);
      }
    }
    Gradient::template wait<0>();
    typename Products::Scores d_weights;
    Products::score(d_weights, d_outs, values);
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int n = 0; n < Products::kTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) weights[r][n][e] *= d_weights[r][n][e] - delta[r][e / 2];
      }
    }
    Products::add(dq, weights, shared.first_step[0]);
  }
  float* to = head_pointer(static_cast<float*>(p.dq), p.dq_strides, work.batch, work.head) +
              (work.first_query + warp_row) * p.dq_strides.row;
  const unsigned again = Gradient::store(dq, f.scale, to, p.dq_strides.row, live_queries - warp_row);
  Gradient::each_not_finite(again, [&](int row) {
    query_gradient_of_row<HeadDim>(p, work, work.first_query + warp_row + row, to + row * p.dq_strides.row);
  });
}

// dk and dv: rows are keys, columns are the queries of all heads that share them.
template <int HeadDim, int Warps, int RowTiles, int Columns, int Steps, int Blocks, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Blocks)
    flash_attention_dkdv_tf32_kernel(const FlashAttentionBackwardParams p) {
  using Gradient = Tf32Gradient<HeadDim, Warps, RowTiles, Columns, Steps>;
  using Products = typename Gradient::Products;
  extern __shared__ __align__(16) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Gradient::Shared*>(raw);
  const int lane = threadIdx.x % 32;
  const int warp_row = threadIdx.x / 32 * Gradient::kWarpRows;
  const FlashAttentionParams& f = p.forward;
  const KeyWork work = key_work_of_block(f, blockIdx.x, Gradient::kOwned, Columns);
  const int live_keys = f.seq_kv - work.first_key;
  {
    const float* k = head_pointer(static_cast<const float*>(f.k), f.k_strides, work.batch, work.head_kv);
    const float* v = head_pointer(static_cast<const float*>(f.v), f.v_strides, work.batch, work.head_kv);
    Gradient::start_owned(shared.first, k + work.first_key * f.k_strides.row, f.k_strides.row, live_keys);
    Gradient::start_owned(shared.second, v + work.first_key * f.v_strides.row, f.v_strides.row, live_keys);
  }
  const uint32_t keys = Products::lane_rows(shared.first[warp_row]);
  const uint32_t values = Products::lane_rows(shared.second[warp_row]);
  const uint32_t queries = Products::lane_columns(shared.first_step[0]);
  const uint32_t d_outs = Products::lane_columns(shared.second_step[0]);

  const int group = f.heads_q / f.heads_kv;
  typename Products::Sums dk = {};
  typename Products::Sums dv = {};
  for (int head = work.head_kv * group; head < (work.head_kv + 1) * group; ++head) {
    const float* q = head_pointer(static_cast<const float*>(f.q), f.q_strides, work.batch, head);
    const float* d_out = head_pointer(static_cast<const float*>(p.d_out), p.d_out_strides, work.batch, head);
    const int64_t first_of_head = (int64_t{work.batch} * f.heads_q + head) * f.seq_q;
    typename Gradient::template Copies<Columns> q_copies(q + work.begin * f.q_strides.row, f.q_strides.row,
                                                         shared.first_step);
    typename Gradient::template Copies<Columns> d_out_copies(d_out + work.begin * p.d_out_strides.row, p.d_out_strides.row,
                                                             shared.second_step);
    for (int first_query = work.begin; first_query < work.end; first_query += Columns) {
      __syncthreads();  // all warps are done with the previous tile
      const int live = f.seq_q - first_query;
      q_copies.start(f.q_strides.row, live);
      cp_async_commit();
      d_out_copies.start(p.d_out_strides.row, live);
      cp_async_commit();
      for (int i = threadIdx.x; i < Columns; i += Gradient::kThreads) {
        shared.shift[i] = i < live ? Shift(f.lse[first_of_head + first_query + i]) : Shift();
        shared.delta[i] = i < live ? p.delta[first_of_head + first_query + i] : 0.0f;
      }
      Gradient::template wait<1>();  // keys, values, queries and the queries' shifts and deltas have landed
      typename Products::Scores weights;
      Products::score(weights, keys, queries);
#pragma unroll
      for (int n = 0; n < Products::kTiles; ++n) {
        const int column = 8 * n + lane % 4 * 2;
        const Shift shift[2] = {shared.shift[column], shared.shift[column + 1]};
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            weights[r][n][e] = shift[e % 2].exponent(weights[r][n][e], f.scale);
          }
        }
      }
      // Most tiles hold only queries that see all of the warp's keys and need no mask. Nor do keys
      // past the end, whose rows are not stored.
      const int ahead = first_query + work.diagonal - work.first_key - warp_row;  // newest key of the first query - first key
      if (f.causal && (ahead < Gradient::kWarpRows - 1 || (f.window > 0 && ahead + Columns > f.window))) {
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
          for (int n = 0; n < Products::kTiles; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int behind = ahead + 8 * n + lane % 4 * 2 + e % 2 - 16 * r - 8 * (e / 2) - lane / 4;
              if (!sees(f, behind)) weights[r][n][e] = -INFINITY;
            }
          }
        }
      }
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < Products::kTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) weights[r][n][e] = exp2f(weights[r][n][e]);
        }
      }
      Gradient::template wait<0>();  // d_out has landed
      Products::add(dv, weights, shared.second_step[0]);
      typename Products::Scores d_weights;
      Products::score(d_weights, values, d_outs);
#pragma unroll
      for (int n = 0; n < Products::kTiles; ++n) {
        const float2 delta = *reinterpret_cast<const float2*>(&shared.delta[8 * n + lane % 4 * 2]);
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
          for (int e = 0; e < 4; ++e) weights[r][n][e] *= d_weights[r][n][e] - (e % 2 == 0 ? delta.x : delta.y);
        }
      }
      Products::add(dk, weights, shared.first_step[0]);
    }
  }
  const int first_key = work.first_key + warp_row;
  float* dk_to = head_pointer(static_cast<float*>(p.dk), p.dk_strides, work.batch, work.head_kv) +
                 first_key * p.dk_strides.row;
  float* dv_to = head_pointer(static_cast<float*>(p.dv), p.dv_strides, work.batch, work.head_kv) +
                 first_key * p.dv_strides.row;
  const unsigned again = Gradient::store(dk, f.scale, dk_to, p.dk_strides.row, live_keys - warp_row) |
                         Gradient::store(dv, 1.0f, dv_to, p.dv_strides.row, live_keys - warp_row);
  Gradient::each_not_finite(again, [&](int row) {
    key_gradients_of_row<HeadDim>(p, work.batch, work.head_kv, first_key + row, dk_to + row * p.dk_strides.row,
                                  dv_to + row * p.dv_strides.row);
  });
}

template <int HeadDim, int Warps, int RowTiles, int Columns, int Steps, int Blocks>
cudaError_t launch_dq_tf32(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  using G = Tf32Gradient<HeadDim, Warps, RowTiles, Columns, Steps>;
  using Shape = typename G::Shape;
  return launch_query_gradient<Shape>(
      flash_attention_dq_tf32_kernel<HeadDim, Warps, RowTiles, Columns, Steps, Blocks, Shape>, p, G::kOwned, sizeof(float),
      stream);
}

template <int HeadDim, int Warps, int RowTiles, int Columns, int Steps, int Blocks>
cudaError_t launch_dkdv_tf32(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  using G = Tf32Gradient<HeadDim, Warps, RowTiles, Columns, Steps>;
  using Shape = typename G::Shape;
  return launch_key_gradient<Shape>(
      flash_attention_dkdv_tf32_kernel<HeadDim, Warps, RowTiles, Columns, Steps, Blocks, Shape>, p, G::kOwned, stream);
}

}  // namespace
}  // namespace warpwatch
