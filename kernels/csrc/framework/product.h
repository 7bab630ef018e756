// PyTorch's own matrix product, cuBLAS's on a GPU, called through the dispatcher on the current stream.
#pragma once

#include <array>

#include "framework/torch_stable.h"

namespace warpwatch {

// The tensor without its history, so that what is computed of it inside of an operator has none.
inline Tensor detached(const Tensor& tensor) {
  std::array<StableIValue, 1> stack{torch::stable::detail::from(tensor)};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::detach", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// x (m, k) times weight (n, k), transposed: a new tensor (m, n), contiguous.
inline Tensor product_with_transposed(const Tensor& x, const Tensor& weight) {
  return torch::stable::matmul(detached(x), torch::stable::transpose(detached(weight), 0, 1));
}

}  // namespace warpwatch
