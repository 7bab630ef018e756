// flash_attention_backward for Hopper, fp16 and bf16, up to head_dim 128: three kernels, one after the other on the stream.
#include "flash_attention/flash_attention_backward_sm90a.cuh"
#include "flash_attention/flash_attention_dkdv_sm90a.cuh"
#include "flash_attention/flash_attention_dq_sm90a.cuh"

namespace warpwatch {
namespace {

template <typename Element, int kHeadDim>
cudaError_t launch(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (cudaError_t error = launch_numbers_sm90a<Element, kHeadDim>(p, stream); error != cudaSuccess) return error;
  if (cudaError_t error = launch_dq_sm90a<Element, kHeadDim, flash_attention_dq_sm90a_tile(kHeadDim)>(p, stream);
      error != cudaSuccess) {
    return error;
  }
  return launch_dkdv_sm90a<Element, kHeadDim, flash_attention_dkdv_sm90a_tile(kHeadDim)>(p, stream);
}

template <typename Element>
cudaError_t launch_head_dim(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  // Columns of head_dim 96 behind the 96th are zeros.
  return p.forward.head_dim == 64 ? launch<Element, 64>(p, stream) : launch<Element, 128>(p, stream);
}

}  // namespace

bool flash_attention_backward_sm90a_takes(const FlashAttentionBackwardParams& p) {
  const FlashAttentionParams& f = p.forward;
  const HeadSizes queries{f.batch, f.heads_q, f.seq_q, f.head_dim};
  return f.head_dim <= 128 && flash_attention_sm90a_takes(f) && takes_strides(p.d_out_strides, queries);
}

cudaError_t flash_attention_backward_sm90a(const FlashAttentionBackwardParams& given, cudaStream_t stream) {
  if (!flash_attention_backward_sm90a_takes(given)) return cudaErrorInvalidValue;
  FlashAttentionBackwardParams p = given;
  p.forward = with_window(p.forward);
  switch (p.forward.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half>(p, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
