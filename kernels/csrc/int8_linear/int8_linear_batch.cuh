// More rows of x than the decode kernel takes, any number of them: tiles of out, through shared memory.
//
// Where the tiles alone do not fill the GPU, blockIdx.y divides k. All blocks of a tile leave their sums in the
// workspace and count themselves; the one that comes last adds up the others' and stores. Sums of integers are exact, so
// the result is the same bit for bit whichever block is last, and no third launch is needed.
#pragma once

#include "int8_linear/int8_linear_epilogue.cuh"
#include "primitives/block_product.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {

// Whether this block is the last one of its tile; then its sums are those of all.
template <typename Block>
__device__ __forceinline__ bool meet(const Int8LinearParams& p, Block& block) {
  constexpr int kPieces = Block::kMTiles * Block::kNTiles;  // of four sums, in each thread
  const auto piece_at = [&](int split, int piece) {
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * p.splits + split) * kPieces + piece;
    return reinterpret_cast<int4*>(p.partials) + at * Block::kThreads + threadIdx.x;
  };
  const int own = blockIdx.y;
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const int(&sums)[4] = block.sums[piece / Block::kNTiles][piece % Block::kNTiles];
    __stcg(piece_at(own, piece), int4{sums[0], sums[1], sums[2], sums[3]});
  }
  // Each thread's sums before the block's count; the count before anything that the last block reads.
  __threadfence();
  __syncthreads();
  __shared__ bool is_last;
  if (threadIdx.x == 0) is_last = atomicAdd(p.arrived + blockIdx.x, 1) == p.splits - 1;
  __syncthreads();
  if (!is_last) return false;
  __threadfence();
  for (int split = 0; split < p.splits; ++split) {
    if (split == own) continue;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      int(&sums)[4] = block.sums[piece / Block::kNTiles][piece % Block::kNTiles];
      const int4 others = __ldcg(piece_at(split, piece));
      sums[0] += others.x, sums[1] += others.y, sums[2] += others.z, sums[3] += others.w;
    }
  }
  return true;
}

// Block is a BlockProduct of primitives/.
template <typename Block, typename Element, int kBlocksPerSm, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocksPerSm) int8_linear_batch(const Int8LinearParams p) {
  extern __shared__ __align__(128) unsigned char shared[];
  const BlockPlace place = BlockPlace::of(blockIdx.x, (p.m - 1) / Block::kM + 1, (p.n - 1) / Block::kN + 1);
  const int first_m = place.m * Block::kM, first_n = place.n * Block::kN;
  const int slabs = (p.k - 1) / kSlabBytes + 1, part = (slabs - 1) / p.splits + 1;
  const int begin = min(static_cast<int>(blockIdx.y) * part, slabs), end = min(begin + part, slabs);
  const auto rows_from = [&](const int8_t* matrix, int first, int rows) {
    return BlockOperand{reinterpret_cast<const char*>(matrix) + static_cast<int64_t>(first) * p.k, p.k, rows - first};
  };

  Block block;
  block.run(rows_from(p.x, first_m, p.m), rows_from(p.weight, first_n, p.n), p.k, begin, end, shared);
  if (p.splits > 1 && !meet(p, block)) return;
  block.each_pair([&](int m, int n, int even, int odd) {
    store_scaled_pair<Element>(p, first_m + m, first_n + n, even, odd);
  });
}

}  // namespace warpwatch
