// flash_attention_backward for sm_80 and newer: mma m16n8k16 on fp16 or bf16, tiles copied by cp.async.
//
// Three kernels, in stream order: delta, dq (a block owns queries), then dk and dv (a block owns keys).
#include <cuda_runtime.h>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_backward_tiles.h"
#include "flash_attention/flash_attention_backward_warp.cuh"
#include "flash_attention/flash_attention_tile_copies.cuh"

namespace warpwatch {
namespace {

template <typename T>
struct FamilySm80 {
  using Element = T;
  using Mma = Mma16x8x16<Element>;
  template <int Rows, int HeadDim, int Threads>
  using Copies = TileCopies<Rows, HeadDim, Threads, Element>;
  static __device__ __forceinline__ void wait() { cp_async_wait<0>(); }
};

template <typename Element, int HeadDim, int Warps, int Keys, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_dq_sm80_kernel(const FlashAttentionBackwardParams p, const FlashAttentionSchedule schedule) {
  QueryGradient<FamilySm80<Element>, HeadDim, Warps, Keys>::run(p, schedule);
}

template <typename Element, int HeadDim, int Warps, int Queries, KeyGradients Which, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_dkdv_sm80_kernel(const FlashAttentionBackwardParams p) {
  KeyGradient<FamilySm80<Element>, HeadDim, Warps, Queries, Which>::run(p);
}

template <typename Element, int HeadDim>
cudaError_t launch_dq(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  constexpr FlashAttentionBackwardTile tile = flash_attention_dq_tile(HeadDim);
  using Q = QueryGradient<FamilySm80<Element>, HeadDim, tile.warps, tile.columns>;
  using Shape = typename Q::Shape;
  return launch_query_gradient<Shape>(
      flash_attention_dq_sm80_kernel<Element, HeadDim, tile.warps, tile.columns, Shape>, p, Q::kQueries,
      sizeof(Element), stream);
}

template <typename Element, int HeadDim, KeyGradients Which>
cudaError_t launch_dkdv(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  constexpr FlashAttentionBackwardTile tile = flash_attention_dkdv_tile(HeadDim);
  using K = KeyGradient<FamilySm80<Element>, HeadDim, tile.warps, tile.columns, Which>;
  using Shape = typename K::Shape;
  return launch_key_gradient<Shape>(
      flash_attention_dkdv_sm80_kernel<Element, HeadDim, tile.warps, tile.columns, Which, Shape>, p, K::kKeys,
      stream);
}

template <typename Element, int HeadDim>
cudaError_t launch(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (cudaError_t error = launch_delta<Element>(p, stream); error != cudaSuccess) return error;
  if (cudaError_t error = launch_dq<Element, HeadDim>(p, stream); error != cudaSuccess) return error;
  if constexpr (HeadDim <= 128) {
    return launch_dkdv<Element, HeadDim, KeyGradients::kBoth>(p, stream);
  } else {
    cudaError_t error = launch_dkdv<Element, HeadDim, KeyGradients::kKeys>(p, stream);
    return error != cudaSuccess ? error : launch_dkdv<Element, HeadDim, KeyGradients::kValues>(p, stream);
  }
}

template <typename Element>
cudaError_t launch_head_dim(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  switch (p.forward.head_dim) {
    case 64: return launch<Element, 64>(p, stream);
    case 96: return launch<Element, 96>(p, stream);
    case 128: return launch<Element, 128>(p, stream);
    case 256: return launch<Element, 256>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t flash_attention_backward_sm80(const FlashAttentionBackwardParams& given, cudaStream_t stream) {
  const FlashAttentionBackwardParams p = with_window(given);
  switch (p.forward.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half>(p, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
