// The kernels of flash_attention_backward in fp32 by way of tensor cores: flash_attention_tf32_gradient.cuh has the tiles,
// flash_attention_tf32_products.cuh the products, flash_attention_tf32.cuh says for which GPUs and how exact.
//
// Every tile is waited for; the block beside it on the SM fills the gaps. Gradients that are not finite are worked out again
// on the ordinary units (flash_attention_backward_fp32_row.cuh).
#pragma once

#include <cuda_runtime.h>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_fp32_row.cuh"
#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_tf32_gradient.cuh"
#include "primitives/cp_async.cuh"

namespace warpwatch {
namespace {

// Whether a query sees a key that is `behind` its newest one; both are there.
__device__ __forceinline__ bool sees(const FlashAttentionParams& f, int behind) {
  return !f.causal || (behind >= 0 && (f.window == 0 || behind < f.window));
}

// dq: rows are queries, columns keys.
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

  const int first_query = work.first_query + warp_row + lane / 4;  // this lane's others are 8, 16, 24 behind it
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
    __syncthreads();  // every warp has left the tile before
    k_copies.start(f.k_strides.row, f.seq_kv - first_key);
    cp_async_commit();
    v_copies.start(f.v_strides.row, f.seq_kv - first_key);
    cp_async_commit();
    Gradient::template wait<1>();  // for queries, d_out and keys
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
    // Most tiles lie before what any of the warp's queries must not see.
    const int newest = work.first_query + warp_row + work.diagonal;  // key of the warp's first query
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

// dk and dv: rows are keys, columns the queries of all heads that share them.
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
      __syncthreads();  // every warp has left the tile before
      const int live = f.seq_q - first_query;
      q_copies.start(f.q_strides.row, live);
      cp_async_commit();
      d_out_copies.start(p.d_out_strides.row, live);
      cp_async_commit();
      for (int i = threadIdx.x; i < Columns; i += Gradient::kThreads) {
        shared.shift[i] = i < live ? Shift(f.lse[first_of_head + first_query + i]) : Shift();
        shared.delta[i] = i < live ? p.delta[first_of_head + first_query + i] : 0.0f;
      }
      Gradient::template wait<1>();  // for keys, values, queries and what belongs to them
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
      // Most tiles lie behind what all of the warp's keys are seen by. Keys that are not there need no mask: their rows are
      // not stored.
      const int ahead = first_query + work.diagonal - work.first_key - warp_row;  // first query's newest key less first key
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
      Gradient::template wait<0>();  // for d_out
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
