// flash_attention_backward in fp32 for sm_80 and newer: cp.async; tiles fit the 99 KB of shared memory per block of any GPU.
#include "flash_attention/flash_attention_backward_fp32.cuh"

namespace warpwatch {

cudaError_t flash_attention_backward_fp32_sm80(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  return launch_backward_fp32<flash_attention_backward_fp32_sm80_tile, flash_attention_backward_fp32_sm80_tile, true>(
      p, stream);
}

}  // namespace warpwatch
