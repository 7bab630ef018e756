// Shared by the wgmma main loops: a block with one consumer warpgroup per 64 rows of a, each multiplying by all of b, and a
// cluster of two blocks that split k. Hopper only.
#pragma once

#include "primitives/block_product.cuh"
#include "primitives/cluster.cuh"
#include "primitives/wgmma.cuh"

namespace warpwatch {

template <typename Wgmma, int kRowsA, int kRowsB>
struct BlockOfCluster : BlockShape<Wgmma, kRowsA, kRowsB, kRowsA / 16, 1> {
  using Shape = BlockShape<Wgmma, kRowsA, kRowsB, kRowsA / 16, 1>;
  using Sum = typename Shape::Sum;
  static_assert(kRowsA % 64 == 0);
  static constexpr int kBlockThreads = Shape::kThreads + 32;  // plus the producer warp
  static constexpr int kHalfTiles = Shape::kNTiles / 2;
  static constexpr int kExchangeBytes = Shape::kThreads * kHalfTiles * 16;

  // Split-K within a cluster: the two blocks, each with sums over its part of k, exchange halves of them through distributed
  // shared memory. Block 0 ends up with the totals of the first half of the columns, block 1 with those of the second. All
  // threads of both blocks call announce() as early as possible and add_up_halves() after the main loop. `exchange` has
  // kExchangeBytes for the other block to write, used for nothing else. use(totals, first column) is called in the consumers.
  static __device__ __forceinline__ void announce() { cluster_arrive(); }

  // Replaces add_up_halves() in threads without sums, so that they need no registers for them.
  static __device__ __forceinline__ void stand_by() {
    cluster_wait();
    cluster_sync();
  }

  template <typename Use>
  __device__ __forceinline__ void add_up_halves(void* exchange, const Use& use) {
    struct alignas(16) Four {
      Sum of[4];
    };
    const bool first = cluster_block_rank() == 0, multiplies = threadIdx.x < Shape::kThreads;
    Four* const mine = static_cast<Four*>(exchange) + threadIdx.x;
    cluster_wait();  // the other block is running, so its shared memory exists
    if (multiplies) {
      Four* const theirs = shared_of_block(mine, first ? 1 : 0);
#pragma unroll
      for (int j = 0; j < kHalfTiles; ++j) {
        Four sent;
#pragma unroll
        for (int i = 0; i < 4; ++i) sent.of[i] = first ? this->sums[0][kHalfTiles + j][i] : this->sums[0][j][i];
        theirs[j * Shape::kThreads] = sent;
      }
    }
    cluster_sync();  // after this, no block accesses the other's shared memory
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
};

}  // namespace warpwatch
