// flash_attention with a bias, for Hopper: what flash_attention.h declares of the other kernels.
#pragma once

#include "flash_attention/flash_attention.h"

#if WARPWATCH_WITH_CUDA
namespace warpwatch {

// fp16 and bf16; as the launchers of flash_attention.h.
cudaError_t flash_attention_sm90a(const FlashAttentionBiasedParams& p, cudaStream_t stream);

// Whether it does: what flash_attention_sm90a takes without a bias, up to head_dim 128. The rest is flash_attention_sm80's.
bool flash_attention_sm90a_takes(const FlashAttentionBiasedParams& p);

}  // namespace warpwatch
#endif
