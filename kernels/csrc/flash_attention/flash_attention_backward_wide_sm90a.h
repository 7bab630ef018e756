// flash_attention_backward_sm90a's kernels for head_dim 256.
#pragma once

#include "flash_attention/flash_attention_backward.h"

#if WARPWATCH_WITH_CUDA
namespace warpwatch {

// fp16 and bf16; what flash_attention_backward_sm90a takes, its parameters with a window (with_window).
cudaError_t flash_attention_backward_wide_sm90a(const FlashAttentionBackwardParams& p, cudaStream_t stream);

}  // namespace warpwatch
#endif
