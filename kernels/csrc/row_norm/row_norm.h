// row_norm.h: parameters of normalisation over the last dimension: rms_norm and layer_norm, each with or without a residual
// that is added first.
//   x, residual: rows of `cols` contiguous elements, any stride between rows; out, total: the same shape, contiguous
//   weight, bias: (cols); all of one dtype, computed in fp32
//   total = x + residual, rounded to the dtype, is what is normalised: the values that the next layer sees
#pragma once

#include <cstdint>

#include "framework/dtype.h"

namespace warpwatch {

struct RowNormParams {
  const void* x;
  const void* residual;  // null without one; then total is null too
  const void* weight;
  const void* bias;  // null without one
  void* out;
  void* total;
  int64_t x_stride, residual_stride;  // between rows, in elements
  int64_t rows, cols;
  float eps;
  Dtype dtype;
};

}  // namespace warpwatch
