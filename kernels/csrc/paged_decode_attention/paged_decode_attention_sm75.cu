// decode_attention over a cache in pages, sm_75: decode_attention_sm75.cuh has the kernel.
#include "decode_attention/decode_attention_sm75.cuh"
#include "paged_decode_attention/paged_decode_attention.h"

namespace warpwatch {
namespace {

template <int HeadDim, int RowTiles, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    paged_decode_attention_sm75_kernel(const DecodeAttentionParams p, const PagedCache cache) {
  DecodeAttentionSm75<HeadDim, RowTiles, PagedCache>::run(p, cache);
}

template <int HeadDim, int RowTiles>
cudaError_t launch(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream) {
  using Kernel = DecodeAttentionSm75<HeadDim, RowTiles, PagedCache>;
  return launch_decode_attention<Kernel>(paged_decode_attention_sm75_kernel<HeadDim, RowTiles, typename Kernel::Shape>, p,
                                         cache, stream);
}

}  // namespace

cudaError_t paged_decode_attention_sm75(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream) {
  if (p.dtype != Dtype::kFloat16) return cudaErrorInvalidValue;
  const bool two = decode_attention_row_tiles(decode_attention_rows(p), p.head_dim) == 2;
  switch (p.head_dim) {
    case 64: return two ? launch<64, 2>(p, cache, stream) : launch<64, 1>(p, cache, stream);
    case 96: return two ? launch<96, 2>(p, cache, stream) : launch<96, 1>(p, cache, stream);
    case 128: return two ? launch<128, 2>(p, cache, stream) : launch<128, 1>(p, cache, stream);
    case 256: return launch<256, 1>(p, cache, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
