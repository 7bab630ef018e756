// decode_attention over a paged cache, sm_75; the kernel is in decode_attention_sm75.cuh.
#include "decode_attention/decode_attention_sm75.cuh"
#include "paged_decode_attention/paged_decode_attention.h"

namespace warpwatch {
namespace {

template <int HeadDim, int RowTiles, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    paged_decode_attention_sm75_kernel(const DecodeAttentionParams p, const PagedCache cache) {
  DecodeAttentionSm75<HeadDim, RowTiles, PagedCache>::run(p, cache);
}

}  // namespace

cudaError_t paged_decode_attention_sm75(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream) {
  if (p.dtype != Dtype::kFloat16) return cudaErrorInvalidValue;
  return with_head_dim(p, [&]<int HeadDim, int RowTiles>() {
    using Kernel = DecodeAttentionSm75<HeadDim, RowTiles, PagedCache>;
    return launch_decode_attention<Kernel>(paged_decode_attention_sm75_kernel<HeadDim, RowTiles, typename Kernel::Shape>, p,
                                           cache, stream);
  });
}

}  // namespace warpwatch
