// flash_attention in fp32 on the ordinary units of sm_86 and newer: rows by cp.async, tiles within the 99 KB of a block.
#include <cuda_runtime.h>

#include "flash_attention/flash_attention_fp32.cuh"
#include "flash_attention/flash_attention_tiles.h"

namespace warpwatch {
namespace {

template <int HeadDim, typename Params>
cudaError_t launch_tile(const Params& p, cudaStream_t stream) {
  constexpr FlashAttentionFp32Tile tile = flash_attention_fp32_sm80_tile(HeadDim);
  using A = Fp32Attention<HeadDim, tile.warps, tile.sharing, tile.rows, tile.keys, Params>;
  using Shape = typename A::Shape;
  return launch_flash_attention<Shape>(
      flash_attention_fp32_kernel<HeadDim, tile.warps, tile.sharing, tile.rows, tile.keys, Shape, Params>, p,
      A::kQueries, sizeof(float), stream);
}

template <typename Params>
cudaError_t launch(const Params& p, cudaStream_t stream) {
  if (p.dtype != Dtype::kFloat32) return cudaErrorInvalidValue;
  switch (p.head_dim) {
    case 64: return launch_tile<64>(p, stream);
    case 96: return launch_tile<96>(p, stream);
    case 128: return launch_tile<128>(p, stream);
    case 256: return launch_tile<256>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t flash_attention_fp32_sm80(const FlashAttentionParams& p, cudaStream_t stream) {
  return launch(with_window(p), stream);
}

cudaError_t flash_attention_fp32_sm80(const FlashAttentionPackedParams& p, cudaStream_t stream) {
  return launch(with_window(p), stream);
}

cudaError_t flash_attention_fp32_sm80(const FlashAttentionBiasedParams& p, cudaStream_t stream) {
  return launch(with_window(p), stream);
}

}  // namespace warpwatch
