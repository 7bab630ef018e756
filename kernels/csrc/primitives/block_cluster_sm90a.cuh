// What wgmma's main loops have in common: a block of four warps to every 64 rows of a, each such group multiplied by
// all of b, and a cluster of blocks that have divided k between them. Hopper alone.
#pragma once

#include <cooperative_groups.h>

#include "primitives/block_product.cuh"
#include "primitives/wgmma.cuh"

namespace warpwatch {

template <typename Wgmma, int kRowsA, int kRowsB>
struct BlockOfCluster : BlockShape<Wgmma, kRowsA, kRowsB, kRowsA / 16, 1> {
  using Shape = BlockShape<Wgmma, kRowsA, kRowsB, kRowsA / 16, 1>;
  using Sum = typename Shape::Sum;
  static constexpr int kExchangeBytes = kRowsA * kRowsB * 4;
  static_assert(kRowsA % 64 == 0);
  static constexpr int kBlockThreads = Shape::kThreads + 32;  // with the warp that copies

  // The sums of the kBlocks blocks of a cluster, each of which has summed another part of k: added in the order of
  // their ranks through distributed shared memory, so that results are reproducible, and shared out among the blocks
  // by columns. visit is as in each_pair. `shared` holds kExchangeBytes and may still be read by others of the block.
  template <int kBlocks, typename Visit>
  __device__ __forceinline__ void each_pair_of_cluster(void* shared, const Visit& visit) {
    const bool multiplies = threadIdx.x < Shape::kThreads;
    if constexpr (kBlocks == 1) {
      if (multiplies) this->each_pair(visit);
    } else {
      constexpr int kShare = (Shape::kNTiles - 1) / kBlocks + 1;  // tiles of 8 columns; the last blocks may get none
      struct alignas(16) Four {
        Sum of[4];
      };
      const auto cluster = cooperative_groups::this_cluster();
      Four* const own = static_cast<Four*>(shared) + threadIdx.x;
      __syncthreads();
#pragma unroll
      for (int j = 0; j < Shape::kNTiles; ++j) {
        if (!multiplies) break;
        const Sum(&sums)[4] = this->sums[0][j];
        own[j * Shape::kThreads] = {sums[0], sums[1], sums[2], sums[3]};
      }
      cluster.sync();
      const int first = static_cast<int>(cluster.block_rank()) * kShare;
      const int lane = threadIdx.x % 32, m = Shape::warp_m() + lane / 4;
#pragma unroll
      for (int share = 0; share < kShare; ++share) {
        if (!multiplies || first + share >= Shape::kNTiles) break;
        Four total = {};
#pragma unroll
        for (int rank = 0; rank < kBlocks; ++rank) {
          const Four part = cluster.map_shared_rank(own, rank)[(first + share) * Shape::kThreads];
#pragma unroll
          for (int i = 0; i < 4; ++i) total.of[i] += part.of[i];
        }
        const int n = 8 * (first + share) + 2 * (lane % 4);
        visit(m, n, total.of[0], total.of[1]);
        visit(m + 8, n, total.of[2], total.of[3]);
      }
      cluster.sync();  // no block may end while others read its sums
    }
  }
};

}  // namespace warpwatch
