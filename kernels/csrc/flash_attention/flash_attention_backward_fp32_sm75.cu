// flash_attention_backward in fp32 for sm_75: no cp.async; tiles fit the 64 KB of shared memory per block.
#include "flash_attention/flash_attention_backward_fp32.cuh"

namespace warpwatch {

cudaError_t flash_attention_backward_fp32_sm75(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  return launch_backward_fp32<flash_attention_backward_fp32_sm75_tile, flash_attention_backward_fp32_sm75_tile, false>(
      p, stream);
}

}  // namespace warpwatch
