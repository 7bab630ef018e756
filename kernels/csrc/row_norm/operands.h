// Shared by the bindings of rms_norm and layer_norm: checks, and the params struct.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "framework/checks.h"
#include "row_norm/row_norm.h"

namespace warpwatch {

struct RowNormOperands {
  Tensor x;  // as (rows, cols): copied if its leading dimensions do not collapse
  std::optional<Tensor> residual;
  Tensor out;                   // x's shape, contiguous
  std::optional<Tensor> total;  // the same, with a residual
  RowNormParams params;
};

inline RowNormOperands prepare_row_norm(const char* op, const Tensor& x, const std::optional<Tensor>& residual,
                                        const Tensor& weight, const std::optional<Tensor>& bias, double eps) {
  const Checks checks{op};
  WARPWATCH_CHECK(x.dim() >= 1, op, "x must have at least one dimension (..., cols), got a scalar");
  checks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  checks.last_dimension_contiguous({"x", x});
  const std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  const int64_t cols = sizes.back();
  WARPWATCH_CHECK(cols <= std::numeric_limits<int>::max(), op, "the last dimension may not pass ",
                  std::numeric_limits<int>::max(), ", got x of shape ", shape_text(x));
  WARPWATCH_CHECK(eps >= 0.0, op, "eps must not be negative, got ", eps);
  if (residual) {
    checks.same_shape({"x", x}, {"residual", *residual});
    checks.same_dtype({"x", x}, {"residual", *residual});
    checks.same_device({"x", x}, {"residual", *residual});
    checks.last_dimension_contiguous({"residual", *residual});
  }
  const auto check_vector = [&](const Argument& vector) {
    checks.shape(vector, {cols}, "(cols)");
    checks.same_dtype({"x", x}, vector);
    checks.same_device({"x", x}, vector);
    checks.contiguous(vector);
  };
  check_vector({"weight", weight});
  if (bias) check_vector({"bias", *bias});

  int64_t rows = 1;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) rows *= sizes[i];
  const auto as_rows = [&](const Tensor& tensor) {
    return tensor.dim() == 2 ? tensor : torch::stable::reshape(tensor, {rows, cols});
  };
  RowNormOperands operands{
      .x = as_rows(x),
      .residual = residual ? std::optional<Tensor>(as_rows(*residual)) : std::nullopt,
      .out = torch::stable::new_empty(x, sizes),
      .total = residual ? std::optional<Tensor>(torch::stable::new_empty(x, sizes)) : std::nullopt,
      .params = {},
  };
  operands.params = {
      .x = operands.x.data_ptr(),
      .residual = residual ? operands.residual->data_ptr() : nullptr,
      .weight = weight.data_ptr(),
      .bias = bias ? bias->data_ptr() : nullptr,
      .out = operands.out.data_ptr(),
      .total = residual ? operands.total->data_ptr() : nullptr,
      .x_stride = operands.x.stride(0),
      .residual_stride = residual ? operands.residual->stride(0) : 0,
      .rows = rows,
      .cols = cols,
      .eps = static_cast<float>(eps),
      .dtype = kernel_dtype(x),
  };
  return operands;
}

}  // namespace warpwatch
