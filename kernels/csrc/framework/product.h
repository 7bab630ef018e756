// PyTorch's matrix product (cuBLAS on a GPU), called through the dispatcher on the current stream.
#pragma once

#include <array>
#include <optional>

#include "framework/torch_stable.h"

namespace warpwatch {

// The tensor without autograd history, so that computations inside an operator record none.
inline Tensor detached(const Tensor& tensor) {
  std::array<StableIValue, 1> stack{torch::stable::detail::from(tensor)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::detach", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// x (m, k) times the transpose of weight (n, k): a new, contiguous tensor (m, n).
inline Tensor product_with_transposed(const Tensor& x, const Tensor& weight) {
  return torch::stable::matmul(detached(x), torch::stable::transpose(detached(weight), 0, 1));
}

// The same plus bias (n), if given: PyTorch's linear layer.
inline Tensor product_with_transposed(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  if (!bias) return product_with_transposed(x, weight);
  std::array<StableIValue, 3> stack{
      torch::stable::detail::from(detached(x)), torch::stable::detail::from(detached(weight)),
      torch::stable::detail::from(std::optional<Tensor>(detached(*bias)))};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::linear", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

}  // namespace warpwatch
