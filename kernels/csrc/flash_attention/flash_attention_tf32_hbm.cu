// flash_attention in fp32 on tensor cores, sm_80 and sm_90: see flash_attention_tf32.cuh.
#include "flash_attention/flash_attention_tf32.cuh"

namespace warpwatch {

cudaError_t flash_attention_tf32_hbm(const FlashAttentionParams& p, cudaStream_t stream) {
  return p.window > 0 ? launch_tf32<true>(p, stream) : launch_tf32<false>(p, stream);
}

}  // namespace warpwatch
