// flash_attention for sm_80 and newer, fp16 and bf16, packed sequences of different lengths.
#include "flash_attention/flash_attention_sm80.cuh"

namespace warpwatch {

cudaError_t flash_attention_sm80(const FlashAttentionPackedParams& p, cudaStream_t stream) {
  return launch<true>(with_window(p), stream);
}

}  // namespace warpwatch
