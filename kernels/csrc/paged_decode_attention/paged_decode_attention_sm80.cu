// decode_attention over a cache in pages, sm_80 and newer: decode_attention_sm80.cuh has the kernel.
#include "decode_attention/decode_attention_sm80.cuh"
#include "paged_decode_attention/paged_decode_attention.h"

namespace warpwatch {
namespace {

template <typename Element, int HeadDim, int RowTiles, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    paged_decode_attention_sm80_kernel(const DecodeAttentionParams p, const PagedCache cache) {
  DecodeAttentionSm80<Element, HeadDim, RowTiles, PagedCache>::run(p, cache);
}

template <typename Element, int HeadDim, int RowTiles>
cudaError_t launch(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream) {
  using Kernel = DecodeAttentionSm80<Element, HeadDim, RowTiles, PagedCache>;
  return launch_decode_attention<Kernel>(
      paged_decode_attention_sm80_kernel<Element, HeadDim, RowTiles, typename Kernel::Shape>, p, cache, stream);
}

template <typename Element>
cudaError_t launch_head_dim(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream) {
  const bool two = decode_attention_row_tiles(decode_attention_rows(p), p.head_dim) == 2;
  switch (p.head_dim) {
    case 64: return two ? launch<Element, 64, 2>(p, cache, stream) : launch<Element, 64, 1>(p, cache, stream);
    case 96: return two ? launch<Element, 96, 2>(p, cache, stream) : launch<Element, 96, 1>(p, cache, stream);
    case 128: return two ? launch<Element, 128, 2>(p, cache, stream) : launch<Element, 128, 1>(p, cache, stream);
    case 256: return launch<Element, 256, 1>(p, cache, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t paged_decode_attention_sm80(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half>(p, cache, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16>(p, cache, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
