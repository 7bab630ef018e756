// flash_attention for Hopper, fp16 and bf16: which tile a problem gets.
#include "flash_attention/flash_attention_sm90a.cuh"

#include <algorithm>

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

// Without a window, and of one length: tiles by their rounds on this GPU.
struct Problem {
  const FlashAttentionParams& p;
  int processors;

  int64_t rounds(const FlashAttentionSm90aTile& tile) const {
    const int64_t tiles = int64_t{p.batch} * p.heads_q * ceil_div(p.seq_q, 64 * tile.groups);
    return ceil_div(tiles, int64_t{processors} * tile.blocks);
  }
};

template <typename Element>
cudaError_t launch_128(const Problem& problem, cudaStream_t stream) {
  const FlashAttentionParams& p = problem.p;
  if (p.causal && problem.rounds(kFlashAttentionSm90aFewTile128) <= kFlashAttentionSm90aFewRounds128) {
    return launch_sm90a<Element, 128, kFlashAttentionSm90aFewTile128, false>(p, stream);
  }
  if (p.seq_kv <= kFlashAttentionSm90aDeepKeys128 &&
      problem.rounds(kFlashAttentionSm90aDeepTile128) <= kFlashAttentionSm90aDeepRounds128) {
    return launch_sm90a<Element, 128, kFlashAttentionSm90aDeepTile128, false>(p, stream);
  }
  return launch_sm90a<Element, 128, kFlashAttentionSm90aTile128, false>(p, stream);
}

template <typename Element>
cudaError_t launch_causal_64(const Problem& problem, cudaStream_t stream) {
  const FlashAttentionParams& p = problem.p;
  if (problem.rounds(kFlashAttentionSm90aFewTile64) <= kFlashAttentionSm90aFewCausalRounds64) {
    return launch_sm90a<Element, 64, kFlashAttentionSm90aFewTile64, false>(p, stream);
  }
  if (p.seq_kv < kFlashAttentionSm90aLongKeys64) {
    return launch_sm90a<Element, 64, kFlashAttentionSm90aShortTile64, false>(p, stream);
  }
  return launch_sm90a<Element, 64, kFlashAttentionSm90aTile64, false>(p, stream);
}

template <typename Element>
cudaError_t launch_full_64(const Problem& problem, cudaStream_t stream) {
  const double four = static_cast<double>(problem.rounds(kFlashAttentionSm90aTile64));
  const double three =
      kFlashAttentionSm90aRoundOfThreeTile64 * static_cast<double>(problem.rounds(kFlashAttentionSm90aThreeTile64));
  const double few =
      kFlashAttentionSm90aRoundOfFewTile64 * static_cast<double>(problem.rounds(kFlashAttentionSm90aFewTile64));
  if (few < std::min(three, four)) {
    return launch_sm90a<Element, 64, kFlashAttentionSm90aFewTile64, false>(problem.p, stream);
  }
  if (three < four) return launch_sm90a<Element, 64, kFlashAttentionSm90aThreeTile64, false>(problem.p, stream);
  return launch_sm90a<Element, 64, kFlashAttentionSm90aTile64, false>(problem.p, stream);
}

template <typename Element, bool kWindowed, typename Params>
cudaError_t launch_head_dim(const Params& p, cudaStream_t stream) {
  if constexpr (!kPacked<Params>) {
    if (p.head_dim == 256) {
      return launch_sm90a<Element, 256, kFlashAttentionSm90aTile256, true>(with_window(p), stream);
    }
  }
  if (p.head_dim == 96) return launch_sm90a<Element, 96, kFlashAttentionSm90aTile128, kWindowed>(p, stream);
  const bool is_64 = p.head_dim == 64;
  if (!is_64 && p.head_dim != 128) return cudaErrorInvalidValue;
  if constexpr (kWindowed || kPacked<Params>) {
    return is_64 ? launch_sm90a<Element, 64, kFlashAttentionSm90aWindowedTile64, kWindowed>(p, stream)
                 : launch_sm90a<Element, 128, kFlashAttentionSm90aTile128, kWindowed>(p, stream);
  } else {
    int processors = 0;
    if (cudaError_t error = device_attribute(cudaDevAttrMultiProcessorCount, processors); error != cudaSuccess) return error;
    const Problem problem{p, processors};
    if (!is_64) return launch_128<Element>(problem, stream);
    return p.causal ? launch_causal_64<Element>(problem, stream) : launch_full_64<Element>(problem, stream);
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
