// flash_attention in fp32 on tensor cores, sm_80 and sm_90, with a bias: see flash_attention_tf32.cuh.
#include "flash_attention/flash_attention_tf32.cuh"

namespace warpwatch {

cudaError_t flash_attention_tf32_hbm(const FlashAttentionBiasedParams& p, cudaStream_t stream) {
  return launch_tf32<true>(with_window(p), stream);
}

}  // namespace warpwatch
