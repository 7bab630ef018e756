// flash_attention_backward for Hopper, fp16 and bf16, head_dim 256: four kernels, launched in stream order.
#include "flash_attention/flash_attention_wide_gradient_sm90a.cuh"

namespace warpwatch {
namespace {

template <typename Element>
cudaError_t launch(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (cudaError_t error = launch_numbers_sm90a<Element, 256>(p, stream); error != cudaSuccess) return error;
  cudaError_t error = launch_wide_gradient_sm90a<Element, Gradient::kQueries>(p, stream);
  if (error == cudaSuccess) error = launch_wide_gradient_sm90a<Element, Gradient::kKeys>(p, stream);
  return error == cudaSuccess ? launch_wide_gradient_sm90a<Element, Gradient::kValues>(p, stream) : error;
}

}  // namespace

cudaError_t flash_attention_backward_wide_sm90a(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  switch (p.forward.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
