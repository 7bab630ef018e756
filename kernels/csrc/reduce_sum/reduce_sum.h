// reduce_sum.h: out[o, i] = sum over r of x[o, r, i]
//   x: (outer, reduced, inner) contiguous; out: (outer, inner) contiguous. The axes that are summed are neighbours here;
//   the binding merges them, and goes through fp32 from one group of them to the next.
//   Summed in fp32 and rounded once, in an order that depends on shape and alignment alone: no atomics, so equal bits
//   from call to call and from GPU to GPU. Where the outputs are too few to fill a GPU, each sum is cut into `splits` parts whose sums
//   go through `workspace` (outer, splits, inner) to a second pass.
//   element size * outer * (reduced + 1) * inner bytes (one read), 1 FLOP per element: memory-bound
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct ReduceSumParams {
  const void* x;
  void* out;
  float* workspace;  // null where splits is 1
  int64_t outer, reduced, inner;
  int64_t splits;
  Dtype dtype, out_dtype;
};

void reduce_sum_cpu(const ReduceSumParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; allocates nothing, waits for nothing. A dimension of zero is not for it.
cudaError_t reduce_sum_cuda(const ReduceSumParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
