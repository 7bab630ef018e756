// The kernels of flash_attention_backward in fp32, on the products of flash_attention_backward_fp32_products.cuh.
//
// Every tile is waited for; blocks beside each other on the SM fill the gaps.
#pragma once

#include <cuda_runtime.h>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_fp32_products.cuh"
#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_softmax.cuh"

namespace warpwatch {
namespace {

// Whether a query sees a key that is `behind` its newest one; both are there.
__device__ __forceinline__ bool seen(const FlashAttentionParams& f, int behind) {
  return !f.causal || (behind >= 0 && (f.window == 0 || behind < f.window));
}

// dq: rows are queries, columns keys.
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
    __syncthreads();  // every warp has left the tile before
    Gradient::start(shared.first_step, k + first_key * f.k_strides.row, f.k_strides.row, f.seq_kv - first_key);
    Gradient::start(shared.second_step, v + first_key * f.v_strides.row, f.v_strides.row, f.seq_kv - first_key);
    Gradient::template wait<1>();  // for queries, d_out and keys
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

// dk and dv: rows are keys, columns the queries of all heads that share them.
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
      __syncthreads();  // every warp has left the tile before
      const int live = f.seq_q - first_query;
      Gradient::start(shared.first_step, q + first_query * f.q_strides.row, f.q_strides.row, live);
      Gradient::start(shared.second_step, d_out + first_query * p.d_out_strides.row, p.d_out_strides.row, live);
      for (int i = threadIdx.x; i < Gradient::kStep; i += Gradient::kThreads) {
        shared.shift[i] = i < live ? Shift(f.lse[first_of_head + first_query + i]) : Shift();
        shared.delta[i] = i < live ? p.delta[first_of_head + first_query + i] : 0.0f;
      }
      Gradient::template wait<1>();  // for keys, values, queries and what belongs to them
      typename Gradient::Scores scores;
      lane.score(scores, shared.first, shared.first_step);
#pragma unroll
      for (int j = 0; j < Columns; ++j) {
        const int column = lane.first_column + Gradient::kLanes * j;
        const Shift shift = shared.shift[column];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          // Keys that are not there need no mask: their rows are not stored.
          const int behind = first_query + column + work.diagonal - work.first_key - lane.first_row - 4 * r;
          shared.weights[lane.first_row + 4 * r][column] =
              seen(f, behind) ? exp2f(shift.exponent(scores[r][j], f.scale)) : 0.0f;
        }
      }
      Gradient::template wait<0>();  // for d_out, and for the weights of others
      lane.add(dv, shared.weights, shared.second_step);
      lane.score(scores, shared.second, shared.second_step);
      Gradient::exchange();  // every lane has left the weights
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

}  // namespace
}  // namespace warpwatch
