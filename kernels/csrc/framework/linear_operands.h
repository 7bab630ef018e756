// Checks shared by the bindings of linear layers, and x (..., K) as the rows of a matrix.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "framework/checks.h"

namespace warpwatch {

constexpr int64_t kMostLinearSize = std::numeric_limits<int>::max() / 2;  // of M, N, K: an int, with room for a tile

struct LinearRows {
  Tensor x;  // (m, k): copied if its leading dimensions do not collapse
  std::vector<int64_t> out_sizes;
  int64_t m, n, k;

  // Elements between rows. PyTorch may give a single row any stride, so then the given one is used.
  int64_t x_stride(int64_t of_one_row) const { return m > 1 ? x.stride(0) : of_one_row; }
};

// Checks x (..., K): floating point, last dimension contiguous.
inline void check_x(const Checks& checks, const Tensor& x) {
  WARPWATCH_CHECK(x.dim() >= 1, checks.op, "x must have at least one dimension (..., K), got a scalar");
  checks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  checks.last_dimension_contiguous({"x", x});
}

// The rows of a checked x, for n outputs.
inline LinearRows rows_of(const Checks& checks, const Tensor& x, const Argument& weight, int64_t n) {
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  const int64_t k = sizes.back();
  int64_t m = 1;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) m *= sizes[i];
  WARPWATCH_CHECK(k > 0, checks.op, "K must be at least 1, got x of shape ", shape_text(x));
  WARPWATCH_CHECK(m <= kMostLinearSize && n <= kMostLinearSize && k <= kMostLinearSize, checks.op,
                  "no dimension may pass ", kMostLinearSize, ", got x of shape ", shape_text(x), " and ", weight.name,
                  " of shape ", shape_text(weight.tensor));
  sizes.back() = n;
  return {x.dim() == 2 ? x : torch::stable::reshape(x, {m, k}), sizes, m, n, k};
}

inline const void* pointer_of(const std::optional<Tensor>& tensor) { return tensor ? tensor->data_ptr() : nullptr; }

inline void check_bias(const Checks& checks, const Tensor& x, const char* name, const std::optional<Tensor>& bias,
                       int64_t n) {
  if (!bias) return;
  const Argument shift{name, *bias};
  checks.shape(shift, {n}, "(N)");
  checks.same_dtype({"x", x}, shift);
  checks.contiguous(shift);
  checks.same_device({"x", x}, shift);
}

// Checks an int8 weight whose rows are padded to padded_k, with one scale per output. Returns N.
inline int64_t check_int8_weight(const Checks& checks, const Tensor& x, int64_t padded_k, const Tensor& weight,
                                 const Tensor& weight_scales, const std::optional<Tensor>& bias) {
  checks.rank({"weight", weight}, 2, "(N, K rounded up to a multiple of 16)");
  checks.dtype({"weight", weight}, {ScalarType::Char});
  const int64_t n = weight.size(0);
  checks.shape({"weight", weight}, {n, padded_k}, "(N, K rounded up to a multiple of 16)");
  checks.shape({"weight_scales", weight_scales}, {n}, "(N)");
  checks.dtype({"weight_scales", weight_scales}, {ScalarType::Float});
  for (const Argument& argument : {Argument{"weight", weight}, Argument{"weight_scales", weight_scales}}) {
    checks.contiguous(argument);
    checks.same_device({"x", x}, argument);
  }
  check_bias(checks, x, "bias", bias, n);
  return n;
}

}  // namespace warpwatch
