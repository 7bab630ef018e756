// reduce_sum.h: out[o, i] = sum over r of x[o, r, i]
//   x: (outer, reduced, inner) contiguous; out: (outer, inner) contiguous. The reduced axes are neighbours here; the binding
//   merges axes,
//   and keeps fp32 intermediates between groups of them.
//   Summed in fp32 and rounded once, in an order that depends only on shape and alignment: no atomics, so results are equal bit
//   for bit
//   between calls and between GPUs. If there are too few outputs to fill a GPU, each sum is split into `splits` parts, whose
//   sums go
//   through `workspace` (outer, splits, inner) to a second pass.
//   element size * outer * (reduced + 1) * inner bytes (one read), 1 FLOP per element: memory-bound
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct ReduceSumParams {
  const void* x;
  void* out;
  float* workspace;  // null if splits is 1
  int64_t outer, reduced, inner;
  int64_t splits;
  Dtype dtype, out_dtype;
};

void reduce_sum_cpu(const ReduceSumParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; no allocation, no synchronisation. No dimension may be 0.
cudaError_t reduce_sum_cuda(const ReduceSumParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
