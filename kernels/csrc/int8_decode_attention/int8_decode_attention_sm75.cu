// int8_decode_attention, sm_75; the kernel is in quantized_decode.cuh.
#include "int8_decode_attention/int8_decode_attention_format.cuh"

namespace warpwatch {
namespace {

template <typename Element, int HeadDim, int RowTiles>
using Kernel = QuantizedDecode<HalfMmaSm75, Element, HeadDim, RowTiles, Int8Format<HeadDim, RowTiles>,
                               int8_decode_sm75_tile(HeadDim).warps, int8_decode_sm75_tile(HeadDim).stages>;

template <typename Element, int HeadDim, int RowTiles, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    int8_decode_attention_sm75_kernel(const DecodeAttentionParams p, const Int8Cache cache) {
  Kernel<Element, HeadDim, RowTiles>::run(p, cache);
}

}  // namespace

cudaError_t int8_decode_attention_sm75(const DecodeAttentionParams& p, const Int8Cache& cache, cudaStream_t stream) {
  return with_quantized_shape(p, [&]<typename Element, int HeadDim, int RowTiles>() {
    using Own = Kernel<Element, HeadDim, RowTiles>;
    return launch_decode_attention<Own>(int8_decode_attention_sm75_kernel<Element, HeadDim, RowTiles, typename Own::Shape>, p,
                                        cache, stream);
  });
}

}  // namespace warpwatch
