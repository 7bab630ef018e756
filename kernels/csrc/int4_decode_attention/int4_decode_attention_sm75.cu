// int4_decode_attention, sm_75: quantized_decode.cuh has the kernel.
#include "int4_decode_attention/int4_decode_attention_format.cuh"

namespace warpwatch {
namespace {

template <typename Element, int HeadDim, int RowTiles>
using Kernel = QuantizedDecode<HalfMmaSm75, Element, HeadDim, RowTiles, Int4Format<Element, HeadDim, RowTiles>,
                               int4_decode_sm75_tile(HeadDim).warps, int4_decode_sm75_tile(HeadDim).stages>;

template <typename Element, int HeadDim, int RowTiles, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    int4_decode_attention_sm75_kernel(const DecodeAttentionParams p, const Int4Cache cache) {
  Kernel<Element, HeadDim, RowTiles>::run(p, cache);
}

template <typename Element, int HeadDim, int RowTiles>
cudaError_t launch(const DecodeAttentionParams& p, const Int4Cache& cache, cudaStream_t stream) {
  using Own = Kernel<Element, HeadDim, RowTiles>;
  return launch_decode_attention<Own>(int4_decode_attention_sm75_kernel<Element, HeadDim, RowTiles, typename Own::Shape>, p,
                                      cache, stream);
}

template <typename Element, int HeadDim>
cudaError_t launch_rows(const DecodeAttentionParams& p, const Int4Cache& cache, cudaStream_t stream) {
  if constexpr (HeadDim <= 128) {
    const int row_tiles = quantized_decode_row_tiles(decode_attention_rows(p), HeadDim);
    if (row_tiles == 2) return launch<Element, HeadDim, 2>(p, cache, stream);
  }
  return launch<Element, HeadDim, 1>(p, cache, stream);
}

template <typename Element>
cudaError_t launch_head_dim(const DecodeAttentionParams& p, const Int4Cache& cache, cudaStream_t stream) {
  switch (p.head_dim) {
    case 64: return launch_rows<Element, 64>(p, cache, stream);
    case 128: return launch_rows<Element, 128>(p, cache, stream);
    case 256: return launch_rows<Element, 256>(p, cache, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t int4_decode_attention_sm75(const DecodeAttentionParams& p, const Int4Cache& cache, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half>(p, cache, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16>(p, cache, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
