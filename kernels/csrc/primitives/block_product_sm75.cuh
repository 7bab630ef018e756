// Main loop without cp.async: the next slab is held in registers while the current one is multiplied.
#pragma once

#include "primitives/block_product.cuh"

namespace warpwatch {

template <typename Mma, int kRowsA, int kRowsB, int kWarpsAlongM, int kWarpsAlongN>
struct BlockProductSm75 : BlockShape<Mma, kRowsA, kRowsB, kWarpsAlongM, kWarpsAlongN> {
  using Shape = BlockShape<Mma, kRowsA, kRowsB, kWarpsAlongM, kWarpsAlongN>;
  static constexpr int kSharedBytes = 2 * Shape::kStageBytes;

  // Accumulates the slabs [begin, end) of k. All threads of the block call it; `shared` holds kSharedBytes, 128-byte aligned.
  __device__ __forceinline__ void run(const BlockOperand& a, const BlockOperand& b, int64_t k_bytes, int begin, int end,
                                      void* shared) {
    char* const stages = static_cast<char*>(shared);
    const uint32_t address = shared_address(shared);
    uint4 held[Shape::kCopies];
    if (begin < end) {
      fetch(a, b, k_bytes, begin, held);
      put(held, stages);
    }
    __syncthreads();
    for (int slab = begin; slab < end; ++slab) {
      const int stage = (slab - begin) % 2;
      if (slab + 1 < end) fetch(a, b, k_bytes, slab + 1, held);
      this->multiply(address + stage * Shape::kStageBytes);
      // The other stage was last read before the previous barrier; this iteration's barrier publishes what is stored now.
      if (slab + 1 < end) put(held, stages + (1 - stage) * Shape::kStageBytes);
      __syncthreads();
    }
  }

 private:
  static __device__ __forceinline__ void fetch(const BlockOperand& a, const BlockOperand& b, int64_t k_bytes, int slab,
                                               uint4 (&held)[Shape::kCopies]) {
#pragma unroll
    for (int c = 0; c < Shape::kCopies; ++c) {
      bool live;
      const char* from = Shape::chunk(a, b, k_bytes, slab, c, live);
      held[c] = live ? __ldg(reinterpret_cast<const uint4*>(from)) : uint4{0, 0, 0, 0};
    }
  }

  static __device__ __forceinline__ void put(const uint4 (&held)[Shape::kCopies], char* stage) {
#pragma unroll
    for (int c = 0; c < Shape::kCopies; ++c) *reinterpret_cast<uint4*>(stage + Shape::chunk_offset(c)) = held[c];
  }
};

}  // namespace warpwatch
