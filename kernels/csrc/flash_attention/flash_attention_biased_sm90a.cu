// flash_attention for Hopper, fp16 and bf16, with a bias added to the scores.
#include "flash_attention/flash_attention_sm90a.cuh"

namespace warpwatch {
namespace {

template <typename Element>
cudaError_t launch_head_dim(const FlashAttentionBiasedParams& p, cudaStream_t stream) {
  switch (p.head_dim) {
    case 64: return launch_sm90a<Element, 64, kFlashAttentionSm90aBiasedTile64, true>(p, stream);
    case 96: return launch_sm90a<Element, 96, kFlashAttentionSm90aTile128, true>(p, stream);
    case 128: return launch_sm90a<Element, 128, kFlashAttentionSm90aTile128, true>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

bool flash_attention_sm90a_takes(const FlashAttentionBiasedParams& p) {
  return p.head_dim <= 128 && flash_attention_sm90a_takes(static_cast<const FlashAttentionParams&>(p));
}

cudaError_t flash_attention_sm90a(const FlashAttentionBiasedParams& given, cudaStream_t stream) {
  if (!flash_attention_sm90a_takes(given)) return cudaErrorInvalidValue;
  const FlashAttentionBiasedParams p = with_window(given);
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half>(p, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
