// Main loop with a cp.async pipeline; sm_80 and newer.
#pragma once

#include "primitives/block_product.cuh"
#include "primitives/cp_async.cuh"

namespace warpwatch {

template <typename Mma, int kRowsA, int kRowsB, int kWarpsAlongM, int kWarpsAlongN, int kStages>
struct BlockProductSm80 : BlockShape<Mma, kRowsA, kRowsB, kWarpsAlongM, kWarpsAlongN> {
  using Shape = BlockShape<Mma, kRowsA, kRowsB, kWarpsAlongM, kWarpsAlongN>;
  static constexpr int kSharedBytes = kStages * Shape::kStageBytes;

  // Accumulates the slabs [begin, end) of k. All threads of the block call it; `shared` holds kSharedBytes, 128-byte aligned.
  __device__ __forceinline__ void run(const BlockOperand& a, const BlockOperand& b, int64_t k_bytes, int begin, int end,
                                      void* shared) {
    const uint32_t stages = shared_address(shared);
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (begin + s < end) copy(a, b, k_bytes, begin + s, stages + s * Shape::kStageBytes);
      cp_async_commit();  // committed even if empty: the waits below count groups
    }
    int reading = 0, writing = kStages - 1;
    for (int slab = begin; slab < end; ++slab) {
      cp_async_wait<kStages - 2>();
      __syncthreads();  // this slab has landed for all threads, and all have read the stage that is written next
      if (slab + kStages - 1 < end) {
        copy(a, b, k_bytes, slab + kStages - 1, stages + writing * Shape::kStageBytes);
      }
      cp_async_commit();
      this->multiply(stages + reading * Shape::kStageBytes);
      reading = reading + 1 == kStages ? 0 : reading + 1;
      writing = writing + 1 == kStages ? 0 : writing + 1;
    }
    cp_async_wait<0>();
  }

 private:
  static __device__ __forceinline__ void copy(const BlockOperand& a, const BlockOperand& b, int64_t k_bytes, int slab,
                                              uint32_t stage) {
#pragma unroll
    for (int c = 0; c < Shape::kCopies; ++c) {
      bool live;
      const char* from = Shape::chunk(a, b, k_bytes, slab, c, live);
#if __CUDA_ARCH__ == 900
      if (c * Shape::kRowsAtOnce >= Shape::kM) {  // rows of b
        const uint64_t policy = b.read_once ? evict_first_policy() : evict_unchanged_policy();
        cp_async_16(stage + Shape::chunk_offset(c), live ? from : a.first, live, policy);
        continue;
      }
#endif
      cp_async_16(stage + Shape::chunk_offset(c), live ? from : a.first, live);
    }
  }
};

}  // namespace warpwatch
