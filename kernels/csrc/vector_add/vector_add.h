// vector_add.h: out[i] = a[i] + b[i]
//   a, b, out: `count` contiguous elements of one dtype; added in fp32, rounded once
//   3 * element size * count bytes (two reads, one write), 1 FLOP per element: memory-bound
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct VectorAddParams {
  const void* a;
  const void* b;
  void* out;
  int64_t count;
  Dtype dtype;
};

void vector_add_cpu(const VectorAddParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; no allocation, no synchronisation.
cudaError_t vector_add_cuda(const VectorAddParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
