// Shared by the backward passes of all architectures and dtypes: the delta kernel, the shift of scores, and the launch code.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cmath>
#include <cstdint>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_tiles.h"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/attributes.h"

namespace warpwatch {
namespace {

// A query's log-sum-exp, split in two: `high` in fp32, and the remainder as a power of two. A query that does not exist or sees
// no key gets an infinite `high`, so its weights are 2^-inf = 0.
struct alignas(8) Shift {
  float high = INFINITY;
  float rest = 0.0f;

  Shift() = default;
  __device__ __forceinline__ explicit Shift(double lse) {
    if (lse == -INFINITY) return;
    high = static_cast<float>(lse);
    rest = static_cast<float>(lse - high) * kLog2E;
  }
  // log2 of the weight. `high` is subtracted before anything is rounded, so large scores keep their small differences.
  __device__ __forceinline__ float exponent(float score, float scale) const {
    return fmaf(fmaf(score, scale, -high), kLog2E, -rest);
  }
};

inline FlashAttentionBackwardParams with_window(FlashAttentionBackwardParams p) {
  p.forward = with_window(p.forward);
  return p;
}

// delta[row] = sum_d d_out[row, d] out[row, d]. One warp per row, 16 bytes per lane; two rounds for head_dim 256 in fp32.
template <typename Element>
__global__ void __launch_bounds__(kFlashAttentionDeltaThreads)
    flash_attention_delta_kernel(const FlashAttentionBackwardParams p) {
  constexpr int kEach = 16 / sizeof(Element);
  constexpr int kRounds = 256 / (32 * kEach);  // a compile-time constant, so that the compiler unrolls it
  const FlashAttentionParams& f = p.forward;
  const int64_t row = int64_t{blockIdx.x} * (kFlashAttentionDeltaThreads / 32) + threadIdx.x / 32;
  if (row >= int64_t{f.batch} * f.heads_q * f.seq_q) return;
  const int64_t query = row % f.seq_q;
  const int head = static_cast<int>(row / f.seq_q % f.heads_q);
  const int batch = static_cast<int>(row / f.seq_q / f.heads_q);
  const int lane = threadIdx.x % 32;
  const Element* out =
      head_pointer(static_cast<const Element*>(f.out), f.out_strides, batch, head) + query * f.out_strides.row;
  const Element* d_out =
      head_pointer(static_cast<const Element*>(p.d_out), p.d_out_strides, batch, head) + query * p.d_out_strides.row;
  float sum = 0.0f;
#pragma unroll
  for (int time = 0; time < kRounds; ++time) {
    const int d = kEach * (lane + 32 * time);
    if (d >= f.head_dim) continue;
    const uint4 a = *reinterpret_cast<const uint4*>(out + d);
    const uint4 b = *reinterpret_cast<const uint4*>(d_out + d);
    const Element* a_elements = reinterpret_cast<const Element*>(&a);
    const Element* b_elements = reinterpret_cast<const Element*>(&b);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      sum = fmaf(static_cast<float>(a_elements[i]), static_cast<float>(b_elements[i]), sum);
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) p.delta[row] = sum;
}

template <typename Element>
cudaError_t launch_delta(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  const int64_t rows = int64_t{p.forward.batch} * p.forward.heads_q * p.forward.seq_q;
  const int64_t blocks = ceil_div(rows, kFlashAttentionDeltaThreads / 32);
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  flash_attention_delta_kernel<Element><<<static_cast<int>(blocks), kFlashAttentionDeltaThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

template <typename Shape, typename Kernel, typename... Arguments>
cudaError_t launch_shape(Kernel* kernel, int blocks, cudaStream_t stream, const Arguments&... arguments) {
  if (cudaError_t error = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes); error != cudaSuccess) {
    return error;
  }
  kernel<<<blocks, Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(arguments...);
  return cudaGetLastError();
}

// Launches a kernel with parameters (FlashAttentionBackwardParams, FlashAttentionSchedule); each block owns `queries` queries.
template <typename Shape, typename Kernel>
cudaError_t launch_query_gradient(Kernel* kernel, const FlashAttentionBackwardParams& p, int queries, int element_bytes,
                                  cudaStream_t stream) {
  FlashAttentionSchedule schedule;
  if (cudaError_t error = make_schedule(p.forward, queries, element_bytes, &schedule); error != cudaSuccess) {
    return error;
  }
  return schedule.blocks == 0 ? cudaSuccess : launch_shape<Shape>(kernel, schedule.blocks, stream, p, schedule);
}

// Launches a kernel with parameter (FlashAttentionBackwardParams); each block owns `keys` keys.
template <typename Shape, typename Kernel>
cudaError_t launch_key_gradient(Kernel* kernel, const FlashAttentionBackwardParams& p, int keys, cudaStream_t stream) {
  const int64_t blocks = ceil_div(p.forward.seq_kv, keys) * p.forward.batch * p.forward.heads_kv;
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  return blocks == 0 ? cudaSuccess : launch_shape<Shape>(kernel, static_cast<int>(blocks), stream, p);
}

// The keys that a block owns, and the range of queries that see any of them.
struct KeyWork {
  int batch, head_kv;
  int first_key;
  int diagonal;    // causal: query i sees keys < i + diagonal + 1
  int begin, end;  // queries; begin is a multiple of `step`
};

// Heads vary fastest. Under the causal mask the first keys are seen by the most queries, so these longest tiles start first.
__device__ __forceinline__ KeyWork key_work_of_block(const FlashAttentionParams& f, int block, int keys, int step) {
  const int heads = f.batch * f.heads_kv;
  const int tile = block / heads;
  KeyWork work;
  work.batch = (block - tile * heads) / f.heads_kv;
  work.head_kv = block - tile * heads - work.batch * f.heads_kv;
  work.first_key = tile * keys;
  work.diagonal = f.seq_kv - f.seq_q;
  const int last_key = min(work.first_key + keys, f.seq_kv) - 1;
  // i >= j - diagonal for the first key, i < j - diagonal + window for the last key.
  work.begin = f.causal ? max(work.first_key - work.diagonal, 0) / step * step : 0;
  work.end = f.window > 0 ? min(f.seq_q, last_key - work.diagonal + f.window) : f.seq_q;
  return work;
}

}  // namespace
}  // namespace warpwatch
