// PyTorch's own matrix product, cuBLAS's on a GPU, called through the dispatcher on the current stream.
#pragma once

#include <array>
#include <optional>

#include "framework/torch_stable.h"

namespace warpwatch {

// The tensor without its history, so that what is computed of it inside of an operator has none.
inline Tensor detached(const Tensor& tensor) {
  std::array<StableIValue, 1> stack{torch::stable::detail::from(tensor)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::detach", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// x (m, k) times weight (n, k), transposed: a new tensor (m, n), contiguous.
inline Tensor product_with_transposed(const Tensor& x, const Tensor& weight) {
  return torch::stable::matmul(detached(x), torch::stable::transpose(detached(weight), 0, 1));
}

// The same plus bias (n), if there is one: PyTorch's linear layer.
inline Tensor product_with_transposed(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  if (!bias) return product_with_transposed(x, weight);
  std::array<StableIValue, 3> stack{
      torch::stable::detail::from(detached(x)), torch::stable::detail::from(detached(weight)),
      torch::stable::detail::from(std::optional<Tensor>(detached(*bias)))};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::linear", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

}  // namespace warpwatch
