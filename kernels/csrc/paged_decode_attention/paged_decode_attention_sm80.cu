// decode_attention over a paged cache, sm_80 and newer; the kernel is in decode_attention_sm80.cuh.
#include "decode_attention/decode_attention_sm80.cuh"
#include "paged_decode_attention/paged_decode_attention.h"

namespace warpwatch {
namespace {

template <typename Element, int HeadDim, int RowTiles, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    paged_decode_attention_sm80_kernel(const DecodeAttentionParams p, const PagedCache cache) {
  DecodeAttentionSm80<Element, HeadDim, RowTiles, PagedCache>::run(p, cache);
}

}  // namespace

cudaError_t paged_decode_attention_sm80(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream) {
  return with_16_bit_element(p, [&]<typename Element>() {
    return with_head_dim(p, [&]<int HeadDim, int RowTiles>() {
      using Kernel = DecodeAttentionSm80<Element, HeadDim, RowTiles, PagedCache>;
      return launch_decode_attention<Kernel>(
          paged_decode_attention_sm80_kernel<Element, HeadDim, RowTiles, typename Kernel::Shape>, p, cache, stream);
    });
  });
}

}  // namespace warpwatch
