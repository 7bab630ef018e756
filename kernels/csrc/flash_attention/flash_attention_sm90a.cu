// flash_attention for Hopper, fp16 and bf16, head_dim 64 and 128: which tile a problem gets.
#include "flash_attention/flash_attention_sm90a.cuh"

namespace warpwatch {
namespace {

// Rows that show one memory twice go the other way.
bool has_strides(const FlashAttentionStrides& strides, const HeadSizes& sizes) {
  return (sizes.rows == 1 || strides.row >= sizes.head_dim) && (sizes.heads == 1 || strides.head > 0) &&
         (sizes.batch == 1 || strides.batch > 0);
}

// One query a head, as in decoding: those of the heads that share a key head become the rows of one tile.
FlashAttentionParams with_shared_heads_as_rows(FlashAttentionParams p) {
  const int sharing = p.heads_q / p.heads_kv;
  for (FlashAttentionStrides* strides : {&p.q_strides, &p.out_strides}) {
    strides->row = strides->head;
    strides->head *= sharing;
  }
  p.heads_q = p.heads_kv;
  p.seq_q = sharing;
  p.causal = false;  // a single query sees every key
  return p;
}

template <typename Element, bool kWindowed>
cudaError_t launch_head_dim(const FlashAttentionParams& p, cudaStream_t stream) {
  int processors = 0;
  if (cudaError_t error = device_attribute<cudaDevAttrMultiProcessorCount>(processors); error != cudaSuccess) return error;
  if (p.head_dim == 128) return launch_sm90a<Element, 128, kFlashAttentionSm90aTile128, kWindowed>(p, stream);
  if (p.head_dim != 64) return cudaErrorInvalidValue;
  if constexpr (!kWindowed) {
    const int64_t tiles = int64_t{p.batch} * p.heads_q * ceil_div(p.seq_q, 64);
    if (tiles <= kFlashAttentionSm90aFewTilesAnSm64 * processors) {
      return launch_sm90a<Element, 64, kFlashAttentionSm90aFewTile64, false>(p, stream);
    }
    if (p.causal && p.seq_kv < kFlashAttentionSm90aLongKeys64) {
      return launch_sm90a<Element, 64, kFlashAttentionSm90aShortTile64, false>(p, stream);
    }
  }
  return launch_sm90a<Element, 64, kFlashAttentionSm90aTile64, kWindowed>(p, stream);
}

template <typename Element>
cudaError_t launch_element(const FlashAttentionParams& p, cudaStream_t stream) {
  return p.window > 0 ? launch_head_dim<Element, true>(p, stream) : launch_head_dim<Element, false>(p, stream);
}

}  // namespace

bool flash_attention_sm90a_takes(const FlashAttentionParams& p) {
  if (p.head_dim != 64 && p.head_dim != 128) return false;
  if (p.dtype == Dtype::kFloat32) return false;
  if (p.batch == 0 || p.seq_q == 0 || p.seq_kv == 0) return false;
  const HeadSizes queries{p.batch, p.heads_q, p.seq_q, p.head_dim}, keys{p.batch, p.heads_kv, p.seq_kv, p.head_dim};
  return has_strides(p.q_strides, queries) && has_strides(p.k_strides, keys) && has_strides(p.v_strides, keys);
}

cudaError_t flash_attention_sm90a(const FlashAttentionParams& given, cudaStream_t stream) {
  if (!flash_attention_sm90a_takes(given)) return cudaErrorInvalidValue;
  const bool shared = given.seq_q == 1 && given.heads_q > given.heads_kv && given.window == 0;
  const FlashAttentionParams p = shared ? with_shared_heads_as_rows(given) : given;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_element<__half>(p, stream);
    case Dtype::kBFloat16: return launch_element<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
