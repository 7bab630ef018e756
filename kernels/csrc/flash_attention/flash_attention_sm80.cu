// flash_attention for sm_80 and newer, fp16 and bf16: sequences of one length, with or without a window.
#include "flash_attention/flash_attention_sm80.cuh"

namespace warpwatch {

cudaError_t flash_attention_sm80(const FlashAttentionParams& p, cudaStream_t stream) {
  return p.window > 0 ? launch<true>(p, stream) : launch<false>(p, stream);
}

}  // namespace warpwatch
