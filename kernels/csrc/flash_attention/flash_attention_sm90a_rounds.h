// How Hopper's persistent kernels divide the query tiles of a problem among their blocks, and the tensor maps of their
// operands.
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

// Whether TMA can copy the rows: it takes neither overlapping nor broadcast rows.
inline bool takes_strides(const FlashAttentionStrides& strides, const HeadSizes& sizes) {
  return (sizes.rows == 1 || strides.row >= sizes.head_dim) && (sizes.heads == 1 || strides.head > 0) &&
         (sizes.batch == 1 || strides.batch > 0);
}

inline cudaError_t map_rows(CUtensorMap& map, const void* tensor, const FlashAttentionStrides& strides, HeadSizes sizes,
                            int box_rows) {
  const int64_t row = sizes.rows > 1 ? strides.row : sizes.head_dim;  // the stride of a single row may be anything
  const int64_t head = sizes.heads > 1 ? strides.head : row * sizes.rows;
  const int64_t batch = sizes.batch > 1 ? strides.batch : head * sizes.heads;
  return map_heads(map, tensor, sizes, batch, head, row, box_rows);
}

// The heads of a section whose tiles are exactly one round, one tile per block: all blocks that read a key head then read it at
// about the same time. `sharing` query heads share a key head. 0 if that would balance the blocks worse. Under the causal mask,
// snake order balances two rounds; more than four are balanced better as one section.
// Evidence: one H100, us, CUDA graph / cold L2:
//   batch x heads x head_dim x keys      one section     one round per section
//   1 x 32 x 128 x 1024    causal        23.5 /  30.2      22.9 /  29.3
//   1 x 32 x 128 x 2048    causal        67.9 /  73.9      68.7 /  71.3
//   1 x 8 x 128 x 16384    causal       830   / 870       855   / 890      (eight rounds)
//   16 x 32 x 64 x 512     full         103.4 / 109.4      97.7 / 104.5
inline int heads_of_round(int64_t key_heads, int sharing, int tiles_of_head, bool causal, int blocks) {
  constexpr int kMostCausalRounds = 4;
  const int64_t key_heads_at_once = blocks / (int64_t{sharing} * tiles_of_head);
  if (key_heads_at_once == 0) return 0;
  const int64_t rounds = ceil_div(key_heads, key_heads_at_once);
  if (rounds > ceil_div(key_heads * sharing * tiles_of_head, blocks)) return 0;
  if (causal && (rounds % 2 != 0 || rounds > kMostCausalRounds)) return 0;
  return static_cast<int>(ceil_div(key_heads, rounds)) * sharing;
}

// Causal: key tiles of the block with the most work over the mean of all blocks, if tile_of_round() divides sections of `heads`
// heads. Each query tile counts one extra key tile for its prologue and epilogue.
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

// Causal, keys and values larger than L2: the heads of a section that divide the number of blocks, so that a block stays on one
// head for the whole section. Up to twelve blocks work on a head at the same time and read its keys from DRAM once. 0 if no
// such section balances the blocks. Evidence: one H100, head_dim 128, causal, cold L2, us:
//   heads x queries    one section    11 heads    22 heads
//    32 x 4096             240           226         246
//    64 x 4096             536           469         477
//    64 x 2048             154           132         132
//   128 x 1024              99            85          87
//   256 x 2048             547           517         520
//    32 x 8192             894           871         949
//    32 x 5000             356           338         384
//    40 x 2048              92            96          98      (unbalanced)
//    16 x 16384           1695          1815                  (unbalanced)
inline int heads_by_block(const FlashAttentionSchedule& schedule, int blocks) {
  constexpr double kMostUneven = 1.05;
  constexpr int kManySections = 16;  // the balance of the last section matters little
  const int all_heads = schedule.blocks / schedule.query_tiles;
  for (const int blocks_of_head : {12, 6, 4, 3, 2}) {
    const int heads = blocks / blocks_of_head;
    if (blocks % blocks_of_head != 0 || heads >= all_heads) continue;
    if (all_heads > kManySections * heads || imbalance(schedule, heads, blocks) < kMostUneven) return heads;
  }
  return 0;
}

// Sets the schedule's sections of heads and returns the number of blocks; `most_blocks` fit on the GPU. Under the causal mask,
// snake order balances a single section: two sections of 8 heads of 2048 queries give one of 132 blocks nearly twice the mean.
// Several sections pay off if so many key heads are in flight that each block would read its keys from DRAM alone, or from
// `many_rounds` on. With a window all tiles take about the same time.
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
  // Keys and values of a section of make_schedule() take at most half of L2.
  const bool exceeds_l2 = 2 * schedule.heads_per_section < p.batch * p.heads_q;
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
