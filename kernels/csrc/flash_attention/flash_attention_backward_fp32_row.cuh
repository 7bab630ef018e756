// The gradients of one query or one key by one warp on the ordinary units, for rows in which the tensor cores met what is
// not finite. Lane l has the others l, l + 32, ... and head_dim's l + 32 c. Slow: it is there for infinities and NaN alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"

namespace warpwatch {
namespace {

template <int HeadDim>
__device__ __forceinline__ float dot_of_rows(const float* a, const float* b) {
  float sum = 0.0f;
#pragma unroll 4
  for (int d = 0; d < HeadDim; ++d) sum = fmaf(a[d], b[d], sum);
  return sum;
}

// `to` is the query's row of dq.
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
  __syncwarp();  // what other lanes stored there comes first
#pragma unroll
  for (int c = 0; c < HeadDim / 32; ++c) to[lane + 32 * c] = dq[c] * f.scale;
}

// The key's rows of dk and dv, over the queries of all heads that share it.
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
  __syncwarp();  // what other lanes stored there comes first
#pragma unroll
  for (int c = 0; c < HeadDim / 32; ++c) {
    dk_to[lane + 32 * c] = dk[c] * f.scale;
    dv_to[lane + 32 * c] = dv[c];
  }
}

}  // namespace
}  // namespace warpwatch
