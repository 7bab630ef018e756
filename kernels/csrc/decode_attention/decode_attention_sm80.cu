// decode_attention over a contiguous cache, sm_80 and newer; the kernel is in decode_attention_sm80.cuh.
#include "decode_attention/decode_attention_sm80.cuh"

namespace warpwatch {
namespace {

template <typename Element, int HeadDim, int RowTiles, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    decode_attention_sm80_kernel(const DecodeAttentionParams p, const ContiguousCache cache) {
  DecodeAttentionSm80<Element, HeadDim, RowTiles, ContiguousCache>::run(p, cache);
}

}  // namespace

cudaError_t decode_attention_sm80(const DecodeAttentionParams& p, const ContiguousCache& cache, cudaStream_t stream) {
  return with_16_bit_element(p, [&]<typename Element>() {
    return with_head_dim(p, [&]<int HeadDim, int RowTiles>() {
      using Kernel = DecodeAttentionSm80<Element, HeadDim, RowTiles, ContiguousCache>;
      return launch_decode_attention<Kernel>(
          decode_attention_sm80_kernel<Element, HeadDim, RowTiles, typename Kernel::Shape>, p, cache, stream);
    });
  });
}

}  // namespace warpwatch
