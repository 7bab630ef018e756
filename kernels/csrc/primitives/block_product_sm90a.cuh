// A block's product by wgmma, slabs through a ring that TMA fills; Hopper alone.
#pragma once

#include "primitives/block_cluster_sm90a.cuh"
#include "primitives/tma_ring.cuh"

namespace warpwatch {

// kM / 64 groups of four warps multiply, one warp more copies.
template <typename Wgmma, int kRowsA, int kRowsB, int kStages>
struct BlockProductSm90a : BlockOfCluster<Wgmma, kRowsA, kRowsB> {
  using Shape = typename BlockOfCluster<Wgmma, kRowsA, kRowsB>::Shape;
  using Ring = TmaRing<kStages, Shape::kStageBytes, Shape::kThreads / 32>;
  static constexpr int kSharedBytes = Ring::kBytes;
  static_assert(kRowsA <= 256 && kRowsB <= 256, "rows of a box");

  // Adds the slabs [begin, end) of k. a and b map boxes of kM and of kN rows, m and n are the first rows. All threads
  // of the block call it; `shared` holds kSharedBytes, 1024-byte aligned. `until_a_is_there()` comes before a is read;
  // b_once says that no other block reads these rows of b.
  template <typename UntilAIsThere>
  __device__ __forceinline__ void run(const CUtensorMap& a, const CUtensorMap& b, int m, int n, int begin, int end,
                                      bool b_once, void* shared, const UntilAIsThere& until_a_is_there) {
    const Ring ring(shared);
    const int slabs = end - begin;
    if (threadIdx.x < Shape::kThreads) {
      until_a_is_there();
      multiply(ring, slabs);
    } else if (threadIdx.x == Shape::kThreads) {
      const auto copy_a = [&](int i) { ring.copy(i, 0, a, (begin + i) * kSlabBytes, m); };
      const auto copy_b = [&](int i) {
        const int offset = Shape::kM * kSlabBytes, k = (begin + i) * kSlabBytes;
        if (b_once) {
          ring.copy_once(i, offset, b, k, n);
        } else {
          ring.copy(i, offset, b, k, n);
        }
      };
      const int first = min(kStages, slabs);
      for (int i = 0; i < first; ++i) {
        ring.begin_filling(i);
        copy_b(i);
      }
      until_a_is_there();
      for (int i = 0; i < first; ++i) copy_a(i);
      for (int i = first; i < slabs; ++i) {
        ring.begin_filling(i);
        copy_a(i);
        copy_b(i);
      }
    }
    __syncwarp();
  }

 private:
  __device__ __forceinline__ void multiply(const Ring& ring, int slabs) {
    wgmma_settle(this->sums[0]);  // the zeros are there before the first wgmma is
    for (int i = 0; i < slabs; ++i) {
      ring.wait_full(i);
      const uint64_t a = wgmma_rows(ring.stage(i) + threadIdx.x / 128 * 64 * kSlabBytes);
      const uint64_t b = wgmma_rows(ring.stage(i) + Shape::kM * kSlabBytes);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kSlabBytes / 32; ++step) Wgmma::run(this->sums[0], a + 2 * step, b + 2 * step);
      wgmma_commit();
      wgmma_wait<1>();  // the slab before is multiplied, this one may go on
      if (i > 0) ring.release(i - 1);
    }
    wgmma_wait<0>();
    wgmma_settle(this->sums[0]);
  }
};

}  // namespace warpwatch
