// decode_attention over a paged cache, fp32 on any GPU; the kernel is in decode_attention_fp32.cuh.
#include "decode_attention/decode_attention_fp32.cuh"
#include "paged_decode_attention/paged_decode_attention.h"

namespace warpwatch {
namespace {

template <int HeadDim, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    paged_decode_attention_fp32_kernel(const DecodeAttentionParams p, const PagedCache cache) {
  DecodeAttentionFp32<HeadDim, PagedCache>::run(p, cache);
}

template <int HeadDim>
cudaError_t launch(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream) {
  using Kernel = DecodeAttentionFp32<HeadDim, PagedCache>;
  return launch_decode_attention<Kernel>(paged_decode_attention_fp32_kernel<HeadDim, typename Kernel::Shape>, p, cache,
                                         stream);
}

}  // namespace

cudaError_t paged_decode_attention_fp32(const DecodeAttentionParams& p, const PagedCache& cache, cudaStream_t stream) {
  if (p.dtype != Dtype::kFloat32) return cudaErrorInvalidValue;
  switch (p.head_dim) {
    case 64: return launch<64>(p, cache, stream);
    case 96: return launch<96>(p, cache, stream);
    case 128: return launch<128>(p, cache, stream);
    case 256: return launch<256>(p, cache, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
