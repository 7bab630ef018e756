// flash_attention_backward in fp32 for sm_90a: as on sm_80, in tiles that take most of the 227 KB that a block may have.
#include <cuda_runtime.h>

#include "flash_attention/flash_attention_backward_fp32.cuh"
#include "flash_attention/flash_attention_backward_tiles.h"

namespace warpwatch {
namespace {

template <int HeadDim>
cudaError_t launch(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (cudaError_t error = launch_delta<float>(p, stream); error != cudaSuccess) return error;
  constexpr FlashAttentionBackwardFp32Tile dq = flash_attention_dq_fp32_sm90a_tile(HeadDim);
  cudaError_t error = launch_dq_fp32<HeadDim, dq.warps, dq.sharing, dq.rows, dq.columns, true>(p, stream);
  if (error != cudaSuccess) return error;
  constexpr FlashAttentionBackwardFp32Tile dkdv = flash_attention_dkdv_fp32_sm90a_tile(HeadDim);
  return launch_dkdv_fp32<HeadDim, dkdv.warps, dkdv.sharing, dkdv.rows, dkdv.columns, true>(p, stream);
}

}  // namespace

cudaError_t flash_attention_backward_fp32_sm90a(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (p.forward.dtype != Dtype::kFloat32) return cudaErrorInvalidValue;
  switch (p.forward.head_dim) {
    case 64: return launch<64>(p, stream);
    case 96: return launch<96>(p, stream);
    case 128: return launch<128>(p, stream);
    case 256: return launch<256>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
