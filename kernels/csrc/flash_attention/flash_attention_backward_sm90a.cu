// flash_attention_backward for Hopper, fp16 and bf16: launches its kernels in stream order.
#include "flash_attention/flash_attention_backward_sm90a.cuh"
#include "flash_attention/flash_attention_dkdv_sm90a.cuh"
#include "flash_attention/flash_attention_dq_sm90a.cuh"

namespace warpwatch {
namespace {

// Most memory for ds: one head of 16384 queries and keys, or two under the causal mask.
constexpr int64_t kMostScoreGradientBytes = int64_t{520} << 20;
// Time of the two launches of a group of heads, in query tiles.
constexpr int kTilesOfLaunches = 2;
// What the dq kernel takes longer if it recomputes ds.
constexpr double kRecomputing = 1.2;

// Keys that a block of the dk/dv kernel owns.
constexpr int kKeysOfBlock = 64 * flash_attention_dkdv_sm90a_tile(128).groups;

// Query tiles that the dk/dv kernel's busiest block processes for `heads` key heads. Its tiles of keys come longest first, in
// snake order (tile_of_round), so that block is the first or the last.
int64_t query_tiles_of_busiest(const FlashAttentionParams& f, int64_t heads, int processors) {
  constexpr int kQueries = QueryNumbers::kQueries;
  const int64_t key_tiles = heads * ceil_div(f.seq_kv, kKeysOfBlock), query_tiles = ceil_div(f.seq_q, kQueries);
  if (!f.causal) return ceil_div(key_tiles, processors) * query_tiles;
  int64_t first = 0, last = 0;
  for (int64_t start = 0; start < key_tiles; start += processors) {
    const auto length = [&](int64_t tile) {
      return tile < key_tiles ? query_tiles - tile / heads * (kKeysOfBlock / kQueries) : 0;
    };
    const bool forward = start / processors % 2 == 0;
    first += length(forward ? start : start + processors - 1);
    last += length(forward ? start + processors - 1 : start);
  }
  return std::max(first, last);
}

// How many key heads keep ds in memory at a time; 0 if the dq kernel recomputes ds. With head_dim 64 recomputing takes less
// time than writing and reading ds. Evidence: one H200, fp16, head_dim 128, cold L2, us; ds in memory of at most:
//   heads x queries        recomputed   64 MB   144 MB   256 MB   520 MB   cuDNN
//    32 x 2048   full          418        364      370      366      366     434
//    32 x 4096   full         1541       2471     1358     1374     1370    1441
//    32 x 4096   causal        799       1639      718      832      733     835
//    16 x 5000   full         1183       2796     1480     1471     1231    1271
//    16 x 8192   full         3210                5018     2525     2797    2441
//    16 x 8192   causal       1591                2313     1875     1342    1421
//     8 x 12288  full         3583                                  3873    2964
//     8 x 16384  full         6637                                  5224    4936
//     8 x 16384  causal       3307                                  2733    2631
int key_heads_at_once(const FlashAttentionParams& f, int processors) {
  const bool is_square = f.seq_q == f.seq_kv || !f.causal;
  if ((f.head_dim != 96 && f.head_dim != 128) || f.window > 0 || !is_square) return 0;
  const int64_t key_heads = int64_t{f.batch} * f.heads_kv;
  const int64_t tiles = int64_t{ScoreGradients::of_shape(f).tiles_of_head} * (f.heads_q / f.heads_kv);
  const int64_t most = kMostScoreGradientBytes / (tiles * ScoreGradients::kTileBytes);
  if (most == 0) return 0;
  const auto time_of = [&](int64_t heads) {  // of all heads, `heads` at a time
    const int64_t rest = key_heads % heads;
    const int64_t whole = key_heads / heads * (query_tiles_of_busiest(f, heads, processors) + kTilesOfLaunches);
    return whole + (rest > 0 ? query_tiles_of_busiest(f, rest, processors) + kTilesOfLaunches : 0);
  };
  // The least memory, and so the most groups, that takes little more than the least time.
  constexpr double kLittleMore = 1.05;
  double least = kRecomputing * static_cast<double>(query_tiles_of_busiest(f, key_heads, processors));
  int64_t best = 0;
  for (int64_t groups = ceil_div(key_heads, most); groups <= key_heads; ++groups) {
    const int64_t heads = ceil_div(key_heads, groups);
    if (best > 0 && 2 * heads * ceil_div(f.seq_kv, kKeysOfBlock) < processors) break;  // smaller groups leave SMs idle
    const auto time = static_cast<double>(time_of(heads));
    if (time < least || (best > 0 && time < kLittleMore * least)) best = heads;
    least = std::min(least, time);
  }
  return static_cast<int>(best);
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
  int processors = 0;
  if (device_attribute(cudaDevAttrMultiProcessorCount, processors) != cudaSuccess) return 0;  // the launch reports it
  return int64_t{key_heads_at_once(f, processors)} * (f.heads_q / f.heads_kv) * ScoreGradients::of_shape(f).tiles_of_head *
         ScoreGradients::kTileBytes;
}

cudaError_t flash_attention_backward_sm90a(const FlashAttentionBackwardParams& given, void* room, cudaStream_t stream) {
  if (!flash_attention_backward_sm90a_takes(given)) return cudaErrorInvalidValue;
  FlashAttentionBackwardParams p = given;
  p.forward = with_window(p.forward);
  if (p.forward.head_dim == 256) return flash_attention_backward_wide_sm90a(p, stream);
  int processors = 0;
  if (cudaError_t error = device_attribute(cudaDevAttrMultiProcessorCount, processors); error != cudaSuccess) return error;
  const int heads_at_once = room == nullptr ? 0 : key_heads_at_once(given.forward, processors);
  switch (p.forward.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half>(p, room, heads_at_once, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16>(p, room, heads_at_once, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
