// flash_attention_backward in fp32 on tensor cores, for sm_80 and sm_90: see flash_attention_backward_tf32.cuh.
#include <cuda_runtime.h>

#include "flash_attention/flash_attention_backward_tf32.cuh"
#include "flash_attention/flash_attention_backward_tiles.h"

namespace warpwatch {
namespace {

template <int HeadDim>
cudaError_t launch(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (cudaError_t error = launch_delta<float>(p, stream); error != cudaSuccess) return error;
  constexpr FlashAttentionBackwardTf32Tile tile = flash_attention_backward_tf32_tile(HeadDim);
  cudaError_t error =
      launch_dq_tf32<HeadDim, tile.warps, tile.row_tiles, tile.columns, tile.steps, tile.blocks>(p, stream);
  if (error != cudaSuccess) return error;
  return launch_dkdv_tf32<HeadDim, tile.warps, tile.row_tiles, tile.columns, tile.steps, tile.blocks>(p, stream);
}

}  // namespace

cudaError_t flash_attention_backward_tf32_hbm(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (p.forward.dtype != Dtype::kFloat32) return cudaErrorInvalidValue;
  switch (p.forward.head_dim) {
    case 64: return launch<64>(p, stream);
    case 96: return launch<96>(p, stream);
    case 128: return launch<128>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
