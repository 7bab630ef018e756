// layer_norm.h: out[r, c] = (h[r, c] - mean[r]) * weight[c] / sqrt(variance[r] + eps) + bias[c], h = x or x + residual; mean
// and variance of row r of h, the variance without Bessel's correction.
//   Shapes and strides: row_norm/row_norm.h. The variance is the mean squared distance from the mean, in a second pass over the
//   registers: mean of squares minus square of the mean would cancel catastrophically if the mean is large.
//   2 * element size * rows * cols bytes (one read, one write), twice that with a residual; 7 FLOP per element (8 with a
//   residual,
//   one less without a bias): memory-bound
#pragma once

#include "row_norm/row_norm.h"

namespace warpwatch {

void layer_norm_cpu(const RowNormParams& p);

}  // namespace warpwatch

#if WARPWATCH_WITH_CUDA
#include <cuda_runtime_api.h>

namespace warpwatch {

// Enqueues on `stream`; no allocation, no synchronisation.
cudaError_t layer_norm_cuda(const RowNormParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
