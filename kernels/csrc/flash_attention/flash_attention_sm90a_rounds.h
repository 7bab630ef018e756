// How Hopper's kernels, of as many blocks as fit on the GPU, share the tiles of a problem in rounds.
#pragma once

#include <algorithm>
#include <climits>
#include <vector>

#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_schedule.cuh"
#include "primitives/tensor_map.h"

namespace warpwatch {

// Block b's tile of round r: static boustrophedon (snake) order, since the schedule puts the longest tiles first.
__device__ __forceinline__ unsigned tile_of_round(unsigned round) {
  return round * gridDim.x + (round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
}


// The rows of attention's operands as TMA copies them: which strides it takes, and their tensor maps.

// Overlapping and broadcast rows are not TMA's.
inline bool takes_strides(const FlashAttentionStrides& strides, const HeadSizes& sizes) {
  return (sizes.rows == 1 || strides.row >= sizes.head_dim) && (sizes.heads == 1 || strides.head > 0) &&
         (sizes.batch == 1 || strides.batch > 0);
}

inline cudaError_t map_rows(CUtensorMap& map, const void* tensor, const FlashAttentionStrides& strides, HeadSizes sizes,
                            int box_rows) {
  const int64_t row = sizes.rows > 1 ? strides.row : sizes.head_dim;  // of a single one, the stride may be anything
  const int64_t head = sizes.heads > 1 ? strides.head : row * sizes.rows;
  const int64_t batch = sizes.batch > 1 ? strides.batch : head * sizes.heads;
  return map_heads(map, tensor, sizes, batch, head, row, box_rows);
}

// Of how many heads a section is to be so that each of its tiles is one block's in the same round: then all blocks that need a
// key head's tiles ask for them at about the same time, and those of other heads arrive beneath the first ones' work. `sharing`
// heads have one key head. 0 where that would leave the blocks less evenly busy. Under the causal mask the turn-about of
// tile_of_round() makes two rounds even, and of many the shares are more even as one section.
// Evidence: one H100, us, in a CUDA graph / behind an L2 flush: causal, 32 heads of 128, 1024 keys 23.5 / 30.2 as one section,
// 22.9 / 29.3 so; 2048 67.9 / 73.9, 68.7 / 71.3; 8 heads of 16384 830 / 870, in eight rounds 855 / 890; 16 x 32 heads of 64,
// 512 keys, full, 103.4 / 109.4, 97.7 / 104.5.
inline int heads_of_round(int64_t key_heads, int sharing, int tiles_of_head, bool causal, int blocks) {
  constexpr int kMostCausalRounds = 4;
  const int64_t key_heads_at_once = blocks / (int64_t{sharing} * tiles_of_head);
  if (key_heads_at_once == 0) return 0;
  const int64_t rounds = ceil_div(key_heads, key_heads_at_once);
  if (rounds > ceil_div(key_heads * sharing * tiles_of_head, blocks)) return 0;
  if (causal && (rounds % 2 != 0 || rounds > kMostCausalRounds)) return 0;
  return static_cast<int>(ceil_div(key_heads, rounds)) * sharing;
}

// Causal: the key tiles of the block that gets the most, over the mean, where tile_of_round() shares out sections of `heads`
// heads. A query tile counts one key tile more than it has, for what it takes besides.
inline double imbalance(const FlashAttentionSchedule& schedule, int heads, int blocks) {
  std::vector<int64_t> load(blocks);
  const int all_heads = schedule.blocks / schedule.query_tiles;
  int64_t sum = 0, number = 0;
  for (int first = 0; first < all_heads; first += heads) {
    for (int keys = schedule.query_tiles; keys > 0; --keys) {
      for (int head = first; head < std::min(first + heads, all_heads); ++head, ++number) {
        const int64_t place = number % blocks;
        load[number / blocks % 2 == 0 ? place : blocks - 1 - place] += keys + 1;
        sum += keys + 1;
      }
    }
  }
  return static_cast<double>(*std::max_element(load.begin(), load.end())) * blocks / static_cast<double>(sum);
}

// Causal, keys and values larger than the L2: how many heads a section is to be so that each block works on one head
// throughout, of up to twelve blocks, for which the head's keys come from memory once. 0 where no such section shares the work
// out evenly. Evidence: one H100, head_dim 128, causal, us, heads x queries: one section / sections of 11 heads / of 22: 32 x
// 4096 240 / 226 / 246; 64 x 4096 536 / 469 / 477; 64 x 2048 154 / 132 / 132; 128 x 1024 99 / 85 / 87; 256 x 2048 547 / 517 /
// 520; 32 x 8192 894 / 871 / 949; 32 x 5000 356 / 338 / 384; too uneven: 40 x 2048 92 / 96 / 98, 16 x 16384 1695 / 1815.
inline int heads_by_block(const FlashAttentionSchedule& schedule, int blocks) {
  constexpr double kMostUneven = 1.05;
  constexpr int kManySections = 16;  // the end of the last one matters little
  const int all_heads = schedule.blocks / schedule.query_tiles;
  for (const int blocks_of_head : {12, 6, 4, 3, 2}) {
    const int heads = blocks / blocks_of_head;
    if (blocks % blocks_of_head != 0 || heads >= all_heads) continue;
    if (all_heads > kManySections * heads || imbalance(schedule, heads, blocks) < kMostUneven) return heads;
  }
  return 0;
}

// Sets the sections of query tiles, and gives the blocks that share them; `most_blocks` fit on the GPU. Under the causal mask
// the turn-about of tile_of_round() makes the shares even where the schedule is one section: two sections of 8 heads of 2048
// queries give one block of 132 nearly twice its share. More of them are worth it where so many key heads are under way at once
// that each block would fetch its keys from memory alone, or in `many_rounds`. A window makes all tiles about as long.
inline int share_out(const FlashAttentionParams& p, int processors, int most_blocks, FlashAttentionSchedule& schedule,
                     int many_rounds = INT_MAX) {
  const int blocks = std::min(schedule.blocks, most_blocks);
  if (p.window > 0 && p.window < kEveryKey) return blocks;
  const int64_t key_heads = int64_t{p.batch} * p.heads_kv;
  const int heads = heads_of_round(key_heads, p.heads_q / p.heads_kv, schedule.query_tiles, p.causal, blocks);
  if (heads > 0) {
    schedule.heads_per_section = heads;
    return heads * schedule.query_tiles;
  }
  const bool exceeds_l2 = 2 * schedule.heads_per_section < p.batch * p.heads_q;  // make_schedule()'s take at most half of it
  if (p.causal && exceeds_l2) {
    if (const int of_blocks = heads_by_block(schedule, blocks); of_blocks > 0) {
      schedule.heads_per_section = of_blocks;
      return blocks;
    }
  }
  if (p.causal && key_heads <= processors / 2 && ceil_div(schedule.blocks, blocks) < many_rounds) {
    schedule.heads_per_section = p.batch * p.heads_q;
  }
  return blocks;
}

}  // namespace warpwatch
