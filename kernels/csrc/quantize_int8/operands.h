// Rows of x and their int8 output: the first step of both quantize_int8_per_token and int8_linear.
#pragma once

#include <vector>

#include "framework/linear_operands.h"
#include "int8_linear/int8_linear.h"
#include "quantize_int8/quantize_int8.h"

namespace warpwatch {

struct QuantizedRows {
  Tensor x;       // as (m, k): copied if its leading dimensions do not collapse
  Tensor values;  // (..., padded_k) int8
  Tensor scales;  // (...) fp32
  QuantizeInt8Params params;
};

inline QuantizedRows prepare_quantized_rows(const char* op, const Tensor& x) {
  const Checks checks{op};
  check_x(checks, x);
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  const int64_t k = sizes.back();
  WARPWATCH_CHECK(k > 0 && k <= kMostInt8Depth, op, "K must be from 1 to ", kMostInt8Depth,
                  ", so that sums of 8-bit products fit 32 bits; got x of shape ", shape_text(x));
  int64_t m = 1;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) m *= sizes[i];
  WARPWATCH_CHECK(m <= kMostLinearSize, op, "x may have ", kMostLinearSize, " rows, got shape ", shape_text(x));

  const int64_t padded_k = (k + kInt8RowBytes - 1) / kInt8RowBytes * kInt8RowBytes;
  QuantizedRows rows{
      .x = x.dim() == 2 ? x : torch::stable::reshape(x, {m, k}),
      .values = x,
      .scales = x,
      .params = {},
  };
  sizes.back() = padded_k;
  rows.values = torch::stable::new_empty(x, sizes, ScalarType::Char);
  sizes.pop_back();
  rows.scales = torch::stable::new_empty(x, sizes, ScalarType::Float);
  rows.params = {
      .x = rows.x.data_ptr(),
      .out = static_cast<int8_t*>(rows.values.data_ptr()),
      .scales = static_cast<float*>(rows.scales.data_ptr()),
      .counters = nullptr,
      .x_stride = m > 1 ? rows.x.stride(0) : k,
      .m = static_cast<int>(m),
      .k = static_cast<int>(k),
      .padded_k = static_cast<int>(padded_k),
      .counter_count = 0,
      .dtype = kernel_dtype(x),
  };
  return rows;
}

}  // namespace warpwatch
