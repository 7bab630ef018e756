// rms_norm.h: out[r, c] = h[r, c] * weight[c] / sqrt(mean over c of h[r, c]^2 + eps), h = x or x + residual.
//   Shapes and strides: row_norm/row_norm.h.
//   2 * element size * rows * cols bytes (one read, one write), twice that with a residual; 4 FLOP per element, 5 with a
//   residual:
//   memory-bound
#pragma once

#include "row_norm/row_norm.h"

namespace warpwatch {

void rms_norm_cpu(const RowNormParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; no allocation, no synchronisation.
cudaError_t rms_norm_cuda(const RowNormParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
