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
  static_assert(kRowsA % 64 == 0);
  static constexpr int kBlockThreads = Shape::kThreads + 32;  // with the warp that copies
  static constexpr int kHalfTiles = Shape::kNTiles / 2;
  static constexpr int kExchangeBytes = Shape::kThreads * kHalfTiles * 16;

  // Two blocks that have each summed another part of k add up their sums through distributed shared memory, and share
  // them out by columns: block 0 of the cluster gets the first half. All threads of both call both functions, the first
  // as soon as they can, the second behind the main loop; the other block writes to `exchange`, kExchangeBytes that
  // nothing else uses. use(totals, first column) is called by the threads that multiply.
  static __device__ __forceinline__ void announce() { cooperative_groups::this_cluster().barrier_arrive(); }

  template <typename Use>
  __device__ __forceinline__ void add_up_halves(void* exchange, const Use& use) {
    struct alignas(16) Four {
      Sum of[4];
    };
    const auto cluster = cooperative_groups::this_cluster();
    const bool first = cluster.block_rank() == 0, multiplies = threadIdx.x < Shape::kThreads;
    Four* const mine = static_cast<Four*>(exchange) + threadIdx.x;
    cluster.barrier_wait();  // the other block is there, and so is its shared memory
    if (multiplies) {
      Four* const theirs = cluster.map_shared_rank(mine, first ? 1 : 0);
#pragma unroll
      for (int j = 0; j < kHalfTiles; ++j) {
        Four sent;
#pragma unroll
        for (int i = 0; i < 4; ++i) sent.of[i] = first ? this->sums[0][kHalfTiles + j][i] : this->sums[0][j][i];
        theirs[j * Shape::kThreads] = sent;
      }
    }
    cluster.sync();  // behind it nobody touches the other's memory
    if (multiplies) {
      Sum totals[kHalfTiles][4];
#pragma unroll
      for (int j = 0; j < kHalfTiles; ++j) {
        const Four came = mine[j * Shape::kThreads];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          totals[j][i] = (first ? this->sums[0][j][i] : this->sums[0][kHalfTiles + j][i]) + came.of[i];
        }
      }
      use(totals, first ? 0 : 8 * kHalfTiles);
    }
  }

  // The same for kBlocks blocks, by one function behind the main loop: each reads the others' sums from where the ring
  // was, kAllSumsBytes, in the order of their ranks. visit is as in each_pair; `shared` may still be read by others.
  static constexpr int kAllSumsBytes = kRowsA * kRowsB * 4;

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
