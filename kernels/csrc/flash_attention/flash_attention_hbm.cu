// flash_attention for sm_90 and sm_100, fp16 and bf16, head_dim 96 and 128: sm_80's kernel with larger tiles, which need their
// shared memory. On Hopper it runs only what flash_attention_sm90a does not support.
#include "flash_attention/flash_attention_sm80.cuh"

namespace warpwatch {
namespace {

template <typename Element, bool Windowed, typename Params>
cudaError_t launch_hbm(const Params& p, cudaStream_t stream) {
  switch (p.head_dim) {
    case 96: return launch_tile<kFlashAttentionHbmTile, Element, 96, Windowed>(p, stream);
    case 128: return launch_tile<kFlashAttentionHbmTile, Element, 128, Windowed>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

template <bool Windowed, typename Params>
cudaError_t launch_hbm(const Params& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_hbm<__half, Windowed>(p, stream);
    case Dtype::kBFloat16: return launch_hbm<__nv_bfloat16, Windowed>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t flash_attention_hbm(const FlashAttentionParams& p, cudaStream_t stream) {
  return p.window > 0 ? launch_hbm<true>(p, stream) : launch_hbm<false>(p, stream);
}

cudaError_t flash_attention_hbm(const FlashAttentionPackedParams& p, cudaStream_t stream) {
  return launch_hbm<true>(with_window(p), stream);
}

cudaError_t flash_attention_hbm_takes(int head_dim, bool& takes) {
  takes = head_dim == 96 || head_dim == 128;
  if (!takes) return cudaSuccess;
  int shared_bytes = 0;
  const cudaError_t status = device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, shared_bytes);
  takes = shared_bytes >= kFlashAttentionHbmSharedBytes;
  return status;
}

}  // namespace warpwatch
