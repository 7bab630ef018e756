// One query's attention by one warp on the ordinary units, for a row in which the tensor cores met what is not finite.
//
// Lane l scores keys l, l + 32, ... and sums output columns l + 32 c. Slow: it is there for infinities and NaN alone, and
// ends where nothing but NaN can come of it.
#pragma once

#include <cuda_runtime.h>

#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"

namespace warpwatch {
namespace {

template <typename Combine>
__device__ __forceinline__ float over_warp(float value, Combine combine) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

// `to` is the row of the output; lse may be null.
template <int HeadDim, bool Windowed, typename Params>
__device__ __forceinline__ void attend_row(const Params& p, const FlashAttentionWork& work, int query, float* to,
                                           double* lse) {
  const int lane = threadIdx.x % 32;
  const float* q = query_rows(static_cast<const float*>(p.q), p.q_strides, work) + query * p.q_strides.row;
  const float* k = key_rows(static_cast<const float*>(p.k), p.k_strides, work);
  const float* v = key_rows(static_cast<const float*>(p.v), p.v_strides, work);
  const int end = keys_seen(query, work.seq_kv, work.diagonal, p.causal);
  const int begin = Windowed ? max(first_key_seen(query, work.diagonal, p.window), 0) : 0;
  const auto exponents = exponents_of(p);
  float row_max = -INFINITY;
  float row_sum = 0.0f;
  float out[HeadDim / 32] = {};
  for (int first = begin; first < end; first += 32) {
    const int key = first + lane;
    float score = -INFINITY;
    if (key < end) {
      score = 0.0f;
#pragma unroll 4
      for (int d = 0; d < HeadDim; d += 4) {
        const float4 a = *reinterpret_cast<const float4*>(q + d);
        const float4 b = *reinterpret_cast<const float4*>(k + key * p.k_strides.row + d);
        score = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, score))));
      }
      if constexpr (kBiased<Params>) score = fmaf(score, p.scale, bias_row(p, work, query)[key]);
    }
    const float top = over_warp(fmaxf(row_max, score), [](float a, float b) { return fmaxf(a, b); });
    const float factor = exp2f(exponents.rescaling(row_max, top));
    const float weight = exp2f(exponents.exponent(score, exponents.line(top)));
    row_max = top;
    row_sum = fmaf(row_sum, factor, over_warp(weight, [](float a, float b) { return a + b; }));
#pragma unroll
    for (int c = 0; c < HeadDim / 32; ++c) out[c] *= factor;
    for (int j = 0; j < min(end - first, 32); ++j) {
      const float of_key = __shfl_sync(0xffffffffu, weight, j);
#pragma unroll
      for (int c = 0; c < HeadDim / 32; ++c) {
        out[c] = fmaf(of_key, v[(first + j) * p.v_strides.row + lane + 32 * c], out[c]);
      }
    }
    // A NaN in a query or in a key that it sees makes NaN of all that follows: whole rows of them are soon done with.
    if (isnan(row_sum)) break;
  }
  const float normalizer = row_sum == 0.0f ? 0.0f : __frcp_rn(row_sum);
  __syncwarp();  // what other lanes stored there comes first
#pragma unroll
  for (int c = 0; c < HeadDim / 32; ++c) to[lane + 32 * c] = out[c] * normalizer;
  if (lse != nullptr && lane == 0) {
    *lse = exponents.log_sum_exp(row_max, p.scale, row_sum);
  }
}

}  // namespace
}  // namespace warpwatch
