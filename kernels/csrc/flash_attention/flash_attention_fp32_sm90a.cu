// flash_attention in fp32 for sm_90a: as on sm_80, in tiles that take most of the 227 KB that a block may have.
#include <cuda_runtime.h>

#include "flash_attention/flash_attention_fp32.cuh"
#include "flash_attention/flash_attention_tiles.h"

namespace warpwatch {
namespace {

template <int HeadDim, bool Windowed>
cudaError_t launch_windowed(const FlashAttentionParams& p, cudaStream_t stream) {
  constexpr FlashAttentionFp32Tile tile = flash_attention_fp32_sm90a_tile(HeadDim);
  using A = Fp32Attention<HeadDim, tile.warps, tile.sharing, tile.rows, tile.keys, Windowed>;
  using Shape = typename A::Shape;
  return launch_flash_attention<Shape>(
      flash_attention_fp32_kernel<HeadDim, tile.warps, tile.sharing, tile.rows, tile.keys, Windowed, Shape>, p,
      A::kQueries, sizeof(float), stream);
}

template <int HeadDim>
cudaError_t launch(const FlashAttentionParams& p, cudaStream_t stream) {
  return p.window > 0 ? launch_windowed<HeadDim, true>(p, stream) : launch_windowed<HeadDim, false>(p, stream);
}

}  // namespace

cudaError_t flash_attention_fp32_sm90a(const FlashAttentionParams& p, cudaStream_t stream) {
  if (p.dtype != Dtype::kFloat32) return cudaErrorInvalidValue;
  switch (p.head_dim) {
    case 64: return launch<64>(p, stream);
    case 96: return launch<96>(p, stream);
    case 128: return launch<128>(p, stream);
    case 256: return launch<256>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
