// flash_attention for Hopper, fp16 and bf16: which tile a problem gets.
#include "flash_attention/flash_attention_sm90a.cuh"

namespace warpwatch {
namespace {

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

// Without a window, and of one length: tiles by how many there are for each SM.
template <typename Element>
cudaError_t launch_128(const FlashAttentionParams& p, int64_t heads, int processors, cudaStream_t stream) {
  if (p.causal && heads * ceil_div(p.seq_q, 64) <= kFlashAttentionSm90aFewTilesAnSm * processors) {
    return launch_sm90a<Element, 128, kFlashAttentionSm90aFewTile128, false>(p, stream);
  }
  if (p.seq_kv <= kFlashAttentionSm90aDeepKeys128 &&
      heads * ceil_div(p.seq_q, 128) <= kFlashAttentionSm90aDeepRounds128 * processors) {
    return launch_sm90a<Element, 128, kFlashAttentionSm90aDeepTile128, false>(p, stream);
  }
  return launch_sm90a<Element, 128, kFlashAttentionSm90aTile128, false>(p, stream);
}

template <typename Element>
cudaError_t launch_64(const FlashAttentionParams& p, int64_t heads, int processors, cudaStream_t stream) {
  const int few = p.causal ? kFlashAttentionSm90aFewCausalTilesAnSm64 : kFlashAttentionSm90aFewTilesAnSm;
  if (heads * ceil_div(p.seq_q, 64) <= few * processors) {
    return launch_sm90a<Element, 64, kFlashAttentionSm90aFewTile64, false>(p, stream);
  }
  if (p.causal && p.seq_kv < kFlashAttentionSm90aLongKeys64) {
    return launch_sm90a<Element, 64, kFlashAttentionSm90aShortTile64, false>(p, stream);
  }
  return launch_sm90a<Element, 64, kFlashAttentionSm90aTile64, false>(p, stream);
}

template <typename Element, bool kWindowed, typename Params>
cudaError_t launch_head_dim(const Params& p, cudaStream_t stream) {
  if constexpr (!kPacked<Params>) {
    if (p.head_dim == 256) {
      return launch_sm90a<Element, 256, kFlashAttentionSm90aTile256, true>(with_window(p), stream);
    }
  }
  const bool is_64 = p.head_dim == 64;  // columns of head_dim 96 behind the 96th are zeros
  if (!is_64 && p.head_dim != 96 && p.head_dim != 128) return cudaErrorInvalidValue;
  if constexpr (kWindowed || kPacked<Params>) {
    return is_64 ? launch_sm90a<Element, 64, kFlashAttentionSm90aWindowedTile64, kWindowed>(p, stream)
                 : launch_sm90a<Element, 128, kFlashAttentionSm90aTile128, kWindowed>(p, stream);
  } else {
    int processors = 0;
    if (cudaError_t error = device_attribute(cudaDevAttrMultiProcessorCount, processors); error != cudaSuccess) return error;
    const int64_t heads = int64_t{p.batch} * p.heads_q;
    return is_64 ? launch_64<Element>(p, heads, processors, stream) : launch_128<Element>(p, heads, processors, stream);
  }
}

template <bool kWindowed, typename Params>
cudaError_t launch_dtype(const Params& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half, kWindowed>(p, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16, kWindowed>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

bool flash_attention_sm90a_takes(const FlashAttentionParams& p) {
  if (p.dtype == Dtype::kFloat32) return false;
  if (p.batch == 0 || p.seq_q == 0 || p.seq_kv == 0) return false;
  const HeadSizes queries{p.batch, p.heads_q, p.seq_q, p.head_dim}, keys{p.batch, p.heads_kv, p.seq_kv, p.head_dim};
  return takes_strides(p.q_strides, queries) && takes_strides(p.k_strides, keys) && takes_strides(p.v_strides, keys);
}

bool flash_attention_sm90a_takes(const FlashAttentionPackedParams& p) {
  if (p.dtype == Dtype::kFloat32 || p.head_dim == 256) return false;
  if (p.total_q == 0 || p.total_kv == 0) return false;
  const HeadSizes queries{1, p.heads_q, p.total_q, p.head_dim}, keys{1, p.heads_kv, p.total_kv, p.head_dim};
  return takes_strides(p.q_strides, queries) && takes_strides(p.k_strides, keys) && takes_strides(p.v_strides, keys);
}

cudaError_t flash_attention_sm90a(const FlashAttentionParams& given, cudaStream_t stream) {
  if (!flash_attention_sm90a_takes(given)) return cudaErrorInvalidValue;
  const bool shared = given.seq_q == 1 && given.heads_q > given.heads_kv && given.window == 0;
  const FlashAttentionParams p = shared ? with_shared_heads_as_rows(given) : given;
  return p.window > 0 ? launch_dtype<true>(p, stream) : launch_dtype<false>(p, stream);
}

cudaError_t flash_attention_sm90a(const FlashAttentionPackedParams& p, cudaStream_t stream) {
  if (!flash_attention_sm90a_takes(p)) return cudaErrorInvalidValue;
  return p.window > 0 ? launch_dtype<true>(p, stream) : launch_dtype<false>(p, stream);
}

}  // namespace warpwatch
