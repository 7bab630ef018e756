// Second kernel of decode_attention, on any GPU: combines the parts of each row, weighted by their share of the row's sum.
//
// out = sum over parts of weight part / sum over parts of weight, weight = 2^(scale_log2 (max - top)) sum. One block per row;
// its warps take the parts round-robin. It reads splits * 4 (head_dim + 2) bytes per row, which the first kernel has just left
// in L2. Maxima and sums are stored separately: in one log-sum-exp of large scores, fp32 has no bits left for the sums. Its
// blocks may start while the first kernel still runs (programmatic dependent launch, dependent_launch.cuh).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <climits>
#include <cmath>

#include "decode_attention/decode_attention.h"
#include "decode_attention/decode_attention_merge.cuh"
#include "primitives/dependent_launch.cuh"

namespace warpwatch {
namespace {

constexpr int kWarps = 8;

__device__ __forceinline__ void store_in_dtype(const DecodeAttentionParams& p, int64_t at, float4 four) {
  switch (p.dtype) {
    case Dtype::kFloat16: return store_four(static_cast<__half*>(p.out) + at, four);
    case Dtype::kBFloat16: return store_four(static_cast<__nv_bfloat16*>(p.out) + at, four);
    case Dtype::kFloat32: return store_four(static_cast<float*>(p.out) + at, four);
  }
}

template <int HeadDim>
__global__ void __launch_bounds__(32 * kWarps) decode_attention_combine(const DecodeAttentionParams p,
                                                                        const float scale_log2) {
  constexpr int kFours = HeadDim / 4;
  constexpr int kFoursPerLane = (kFours + 31) / 32;
  __shared__ float4 sums[kWarps][kFours];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int64_t rows = gridDim.x;
  const int64_t row = blockIdx.x;
  const float* maxima = p.partial_max + row;
  const float* part_sums = p.partial_sum + row;
  grid_dependency_wait();

  // Each warp computes the row's maximum and sum redundantly.
  float top = -INFINITY;
  for (int s = lane; s < p.splits; s += 32) top = fmaxf(top, maxima[s * rows]);
  for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  const float base = top == -INFINITY ? 0.0f : top;  // no part saw a key: weights 0 instead of exp2(-inf + inf)
  const auto weight_of = [&](int s) { return exp2f((maxima[s * rows] - base) * scale_log2) * part_sums[s * rows]; };
  float total = 0.0f;
  for (int s = lane; s < p.splits; s += 32) total += weight_of(s);
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);

  float4 sum[kFoursPerLane];
#pragma unroll
  for (int c = 0; c < kFoursPerLane; ++c) sum[c] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
  for (int s = warp; s < p.splits; s += kWarps) {
    const float weight = weight_of(s);
    const float4* part = reinterpret_cast<const float4*>(p.partial_out + (s * rows + row) * HeadDim);
#pragma unroll
    for (int c = 0; c < kFoursPerLane; ++c) {
      if (lane + 32 * c < kFours) add_weighted(sum[c], weight, part[lane + 32 * c]);
    }
  }
#pragma unroll
  for (int c = 0; c < kFoursPerLane; ++c) {
    if (lane + 32 * c < kFours) sums[warp][lane + 32 * c] = sum[c];
  }
  __syncthreads();
  const float normalizer = total == 0.0f ? 0.0f : 1.0f / total;
  for (int four = threadIdx.x; four < kFours; four += 32 * kWarps) {
    float4 all = sums[0][four];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) add_weighted(all, 1.0f, sums[w][four]);
    store_in_dtype(p, row * HeadDim + 4 * four, scaled(normalizer, all));
  }
}

template <int HeadDim>
cudaError_t launch(const DecodeAttentionParams& p, float scale_log2, int rows, cudaStream_t stream) {
  return launch_dependent(decode_attention_combine<HeadDim>, rows, 32 * kWarps, stream, p, scale_log2);
}

}  // namespace

cudaError_t decode_attention_combine_parts(const DecodeAttentionParams& p, float scale_log2, cudaStream_t stream) {
  const int64_t all_rows = int64_t{p.batch} * p.heads_q * p.seq_q;
  if (all_rows > INT_MAX) return cudaErrorInvalidValue;
  if (all_rows == 0) return cudaSuccess;
  const int rows = static_cast<int>(all_rows);
  switch (p.head_dim) {
    case 64: return launch<64>(p, scale_log2, rows, stream);
    case 96: return launch<96>(p, scale_log2, rows, stream);
    case 128: return launch<128>(p, scale_log2, rows, stream);
    case 256: return launch<256>(p, scale_log2, rows, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
