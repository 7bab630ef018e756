// What wgmma's main loops have in common: a block of four warps to every 64 rows of a, each such group multiplied by
// all of b, and a cluster of blocks that have divided k between them. Hopper alone.
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
  static constexpr int kBlockThreads = Shape::kThreads + 32;  // with the warp that copies
  static constexpr int kHalfTiles = Shape::kNTiles / 2;
  static constexpr int kExchangeBytes = Shape::kThreads * kHalfTiles * 16;

  // Two blocks that have each summed another part of k add up their sums through distributed shared memory, and share
  // them out by columns: block 0 of the cluster gets the first half. All threads of both call both functions, the first
  // as soon as they can, the second behind the main loop; the other block writes to `exchange`, kExchangeBytes that
  // nothing else uses. use(totals, first column) is called by the threads that multiply.
  static __device__ __forceinline__ void announce() { cluster_arrive(); }

  // What threads without sums may call in place of the second, which then need not keep registers for any.
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
    cluster_wait();  // the other block is there, and so is its shared memory
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
    cluster_sync();  // behind it nobody touches the other's memory
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
