// flash_attention_backward for Hopper, fp16 and bf16: launches its kernels in stream order.
#include "flash_attention/flash_attention_backward_sm90a.cuh"
#include "flash_attention/flash_attention_dkdv_sm90a.cuh"
#include "flash_attention/flash_attention_dq_sm90a.cuh"

namespace warpwatch {
namespace {

// Most memory for ds: 16 heads of 2048 queries and keys, or 8 heads of 4096 under the causal mask.
constexpr int64_t kMostScoreGradientBytes = int64_t{144} << 20;

// How many key heads keep ds in memory at a time; 0 if the dq kernel recomputes ds. With head_dim 64 recomputing takes less
// time than writing and reading ds. The heads are split into equal groups of at most that many.
int key_heads_at_once(const FlashAttentionParams& f) {
  const bool is_square = f.seq_q == f.seq_kv || !f.causal;
  if ((f.head_dim != 96 && f.head_dim != 128) || f.window > 0 || !is_square) return 0;
  const int64_t key_heads = int64_t{f.batch} * f.heads_kv;
  const int64_t tiles = int64_t{ScoreGradients::of_shape(f).tiles_of_head} * (f.heads_q / f.heads_kv);
  const int64_t bytes = tiles * ScoreGradients::kTileBytes;
  if (bytes > kMostScoreGradientBytes) return 0;
  return static_cast<int>(ceil_div(key_heads, ceil_div(key_heads, kMostScoreGradientBytes / bytes)));
}

template <typename Element, int kHeadDim>
cudaError_t launch(const FlashAttentionBackwardParams& p, void* score_gradients, int heads_at_once, cudaStream_t stream) {
  constexpr FlashAttentionBackwardSm90aTile kTile = flash_attention_dkdv_sm90a_tile(kHeadDim);
  const FlashAttentionParams& f = p.forward;
  const int key_heads = f.batch * f.heads_kv, sharing = f.heads_q / f.heads_kv;
  cudaError_t status = launch_numbers_sm90a<Element, kHeadDim>(p, stream);
  if constexpr (kHeadDim == 128) {
    if (heads_at_once > 0) {
      ScoreGradients left = ScoreGradients::of_shape(f);
      left.memory = static_cast<unsigned char*>(score_gradients);
      for (int first = 0; first < key_heads && status == cudaSuccess; first += heads_at_once) {
        const int heads = std::min(heads_at_once, key_heads - first);
        left.first_head = first * sharing;
        status = launch_dkdv_sm90a<Element, kHeadDim, kTile, true>(p, first, heads, left, stream);
        if (status == cudaSuccess) status = launch_dq_of_ds_sm90a<Element>(p, left, heads * sharing, stream);
      }
      return status;
    }
  }
  if (status == cudaSuccess) {
    status = launch_dq_sm90a<Element, kHeadDim, flash_attention_dq_sm90a_tile(kHeadDim)>(p, stream);
  }
  if (status != cudaSuccess) return status;
  return launch_dkdv_sm90a<Element, kHeadDim, kTile, false>(p, 0, key_heads, ScoreGradients{}, stream);
}

template <typename Element>
cudaError_t launch_head_dim(const FlashAttentionBackwardParams& p, void* score_gradients, int heads_at_once,
                            cudaStream_t stream) {
  // head_dim 96 runs the kernel for 128; TMA fills the columns from 96 on with zeros.
  return p.forward.head_dim == 64 ? launch<Element, 64>(p, score_gradients, heads_at_once, stream)
                                  : launch<Element, 128>(p, score_gradients, heads_at_once, stream);
}

}  // namespace

bool flash_attention_backward_sm90a_takes(const FlashAttentionBackwardParams& p) {
  const FlashAttentionParams& f = p.forward;
  const HeadSizes queries{f.batch, f.heads_q, f.seq_q, f.head_dim};
  return flash_attention_sm90a_takes(f) && takes_strides(p.d_out_strides, queries);
}

int64_t flash_attention_backward_sm90a_room(const FlashAttentionBackwardParams& p) {
  const FlashAttentionParams& f = p.forward;
  if (!flash_attention_backward_sm90a_takes(p)) return 0;
  return int64_t{key_heads_at_once(f)} * (f.heads_q / f.heads_kv) * ScoreGradients::of_shape(f).tiles_of_head *
         ScoreGradients::kTileBytes;
}

cudaError_t flash_attention_backward_sm90a(const FlashAttentionBackwardParams& given, void* room, cudaStream_t stream) {
  if (!flash_attention_backward_sm90a_takes(given)) return cudaErrorInvalidValue;
  FlashAttentionBackwardParams p = given;
  p.forward = with_window(p.forward);
  if (p.forward.head_dim == 256) return flash_attention_backward_wide_sm90a(p, stream);
  const int heads_at_once = room == nullptr ? 0 : key_heads_at_once(given.forward);
  switch (p.forward.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half>(p, room, heads_at_once, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16>(p, room, heads_at_once, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
