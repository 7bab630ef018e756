// What the bindings of linear layers and their activations share: how they check their tensors, and rows of x.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "framework/checks.h"
#include "framework/cuda.h"
#include "linear_activation/linear_activation.h"

namespace warpwatch {

// x as (m, k), and the sizes of what comes out.
struct LinearRows {
  Tensor x;  // a copy where its leading dimensions do not collapse
  std::vector<int64_t> out_sizes;
  int64_t m, n, k;
};

// A layer of `depth` inputs, whose tensors are x's kind.
inline void check_layer(const Checks& checks, const Tensor& x, int64_t depth, const Argument& weight,
                        const char* bias_name, const std::optional<Tensor>& bias) {
  checks.rank(weight, 2, "(N, K)");
  checks.shape(weight, {weight.tensor.size(0), depth}, "(N, K)");
  checks.same_dtype({"x", x}, weight);
  checks.last_dimension_contiguous(weight);
  checks.same_device({"x", x}, weight);
  if (!bias) return;
  const Argument shift{bias_name, *bias};
  checks.shape(shift, {weight.tensor.size(0)}, "(N)");
  checks.same_dtype({"x", x}, shift);
  checks.contiguous(shift);
  checks.same_device({"x", x}, shift);
}

inline LinearRows rows_of(const Checks& checks, const Tensor& x, const Tensor& weight) {
  constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;  // an int, with room for a tile past it
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  const int64_t k = sizes.back(), n = weight.size(0);
  int64_t m = 1;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) m *= sizes[i];
  WARPWATCH_CHECK(k > 0, checks.op, "K must be at least 1, got x of shape ", shape_text(x));
  WARPWATCH_CHECK(m <= kMost && n <= kMost && k <= kMost, checks.op, "no dimension may pass ", kMost,
                  ", got x of shape ", shape_text(x), " and a weight of shape ", shape_text(weight));
  sizes.back() = n;
  return {x.dim() == 2 ? x : torch::stable::reshape(x, {m, k}), sizes, m, n, k};
}

inline void check_x(const Checks& checks, const Tensor& x) {
  WARPWATCH_CHECK(x.dim() >= 1, checks.op, "x must have at least one dimension (..., K), got a scalar");
  checks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  checks.last_dimension_contiguous({"x", x});
}

inline const void* pointer_of(const std::optional<Tensor>& tensor) { return tensor ? tensor->data_ptr() : nullptr; }

// The launch behind a product of these rows.
inline ActivationRowsParams behind_product(const Tensor& product, const LinearRows& rows,
                                           const std::optional<Tensor>& bias, Activation activation) {
  return {
      .values = product.data_ptr(),
      .bias = pointer_of(bias),
      .up = nullptr,
      .up_bias = nullptr,
      .m = rows.m,
      .n = static_cast<int>(rows.n),
      .activation = activation,
      .dtype = kernel_dtype(rows.x),
      .begins_early = false,
  };
}

#if WARPWATCH_WITH_CUDA
// Code for other architectures does not wait, even if a GPU as new as Hopper compiles it when it loads it.
inline cudaError_t launch_behind_product(ActivationRowsParams p, const OnDeviceOf& gpu) {
  p.begins_early = WARPWATCH_HAS_SM90A && gpu.compute_capability() == 90;
  return activation_rows_cuda(p, gpu.stream());
}
#endif

}  // namespace warpwatch
