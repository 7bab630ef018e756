// A ring of shared-memory stages that TMA fills and consumer warps empty; Hopper and newer.
//
// One producer thread issues the copies, boxes of a CUtensorMap (tensor_map.h); the hardware computes addresses, swizzles, and
// counts the bytes on the stage's mbarrier. Each stage has two mbarriers: `full` completes when its bytes have landed, `empty`
// when all consumer warps have released it. The barriers alternate between two phases; use i of the ring is stage i % kStages
// in phase i / kStages % 2.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "primitives/ldmatrix.cuh"

namespace warpwatch {

// L2 prefetch of `count` elements, one 128-byte line per thread; the block must have enough threads. For data that a kernel
// reads once at its end, while its start waits for other data.
template <typename Element>
__device__ __forceinline__ void prefetch_to_l2(const Element* first, int count) {
  const int at = static_cast<int>(threadIdx.x) * 128 / static_cast<int>(sizeof(Element));
  if (at < count) asm volatile("prefetch.global.L2 [%0];\n" ::"l"(first + at));
}

// Prefetches the descriptor of a map, a __grid_constant__ parameter, before its first copy. One thread calls it.
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

struct BeforePublish {};

// Makes the mbarriers, which the first thread has initialized, visible to TMA and to the block.
__device__ __forceinline__ void publish_tma_rings() {
  if (threadIdx.x == 0) asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;\n" ::: "memory");
  __syncthreads();
}

// kReaders: consumer warps that release each stage. kCopiedBytes: bytes copied per stage. kBarriersAt: offset of the mbarriers
// from the ring, 16 bytes per stage.
template <int kStages, int kStageBytes, int kReaders, int kCopiedBytes = kStageBytes, int kBarriersAt = kStages * kStageBytes>
struct TmaRing {
  static_assert(kStageBytes % 1024 == 0, "so that each stage begins where the swizzle of 128 bytes does");
  static constexpr int kBytes = kStages * (kStageBytes + 16);

  // All threads of the block must call it. `shared` holds kBytes, 1024-byte aligned.
  __device__ __forceinline__ explicit TmaRing(void* shared) : TmaRing(shared, BeforePublish{}) { publish_tma_rings(); }
  // For one of several rings: after all of them are constructed, all threads call publish_tma_rings().
  __device__ __forceinline__ TmaRing(void* shared, BeforePublish) : stages_(shared_address(shared)) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(full(i)) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(empty(i)), "n"(kReaders) : "memory");
      }
    }
  }

  __device__ __forceinline__ uint32_t stage(int i) const { return stages_ + i % kStages * kStageBytes; }

  // Producer thread: waits until the stage of use i is free and announces its bytes. `write` may store something in shared
  // memory for the consumers of use i.
  __device__ __forceinline__ void producer_acquire(int i) const {
    producer_acquire(i, [] {});
  }
  template <typename Write>
  __device__ __forceinline__ void producer_acquire(int i, const Write& write) const {
    if (i >= kStages) wait(empty(i), i / kStages + 1);
    write();
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(full(i)), "n"(kCopiedBytes)
                 : "memory");
  }
  // The same for a number of bytes that only the launcher knows.
  __device__ __forceinline__ void producer_acquire_bytes(int i, int bytes) const {
    if (i >= kStages) wait(empty(i), i / kStages + 1);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(full(i)), "r"(bytes) : "memory");
  }
  // The same for a use without copied bytes.
  template <typename Write>
  __device__ __forceinline__ void producer_commit(int i, const Write& write) const {
    if (i >= kStages) wait(empty(i), i / kStages + 1);
    write();
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(full(i)) : "memory");
  }

  // Copies a box for use i, from row `row` and byte `k` of the matrix on, to `offset` in its stage.
  __device__ __forceinline__ void copy(int i, int offset, const CUtensorMap& matrix, int k, int row) const {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(stage(i) + offset),
        "l"(&matrix), "r"(k), "r"(row), "r"(full(i))
        : "memory");
  }

  // The same with an L2 evict_first hint, for streamed data that is not read again.
  __device__ __forceinline__ void copy_once(int i, int offset, const CUtensorMap& matrix, int k, int row) const {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(stage(i) + offset),
        "l"(&matrix), "r"(k), "r"(row), "r"(full(i)), "l"(policy)
        : "memory");
  }

  // Copies a box of a tensor of four dimensions (tensor_map.h, map_heads), from element `k` of row `row` on.
  __device__ __forceinline__ void copy(int i, int offset, const CUtensorMap& heads, int k, int row, int head,
                                       int batch) const {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %4, %5}], [%6];\n" ::"r"(stage(i) + offset),
        "l"(&heads), "r"(k), "r"(row), "r"(head), "r"(batch), "r"(full(i))
        : "memory");
  }

  // Copies a box of slabs of 128 bytes of k (map_slabs of tensor_map.h), from slab `slab` on.
  __device__ __forceinline__ void copy_slabs(int i, int offset, const CUtensorMap& matrix, int row, int slab) const {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %4}], [%5];\n" ::"r"(stage(i) + offset),
        "l"(&matrix), "r"(0), "r"(row), "r"(slab), "r"(full(i))
        : "memory");
  }

  // Copies `bytes` bytes without a map, a multiple of 16; `from` is 16-byte aligned.
  __device__ __forceinline__ void copy_bytes(int i, int offset, const void* from, int bytes) const {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(stage(i) +
                                                                                                         offset),
        "l"(from), "r"(bytes), "r"(full(i))
        : "memory");
  }

  // Consumer warps: wait until use i has landed; release it once read. What was read must have arrived in registers, since the
  // release can overtake loads in flight. After wgmma_wait that is the case.
  __device__ __forceinline__ void consumer_wait(int i) const { wait(full(i), i / kStages); }
  __device__ __forceinline__ void consumer_release(int i) const {
    if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(empty(i)) : "memory");
  }

  // The release after plain loads into registers: `zero` is computed from all that was read, opaquely to the compiler. The
  // barrier's address depends on it and so waits for the loads.
  __device__ __forceinline__ void consumer_release_behind(int i, uint32_t zero) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(empty(i) + zero) : "memory");
    }
  }

 private:
  uint32_t stages_;

  __device__ __forceinline__ uint32_t full(int i) const { return stages_ + kBarriersAt + i % kStages * 16; }
  __device__ __forceinline__ uint32_t empty(int i) const { return full(i) + 8; }

  static __device__ __forceinline__ void wait(uint32_t barrier, int phase) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}\n" ::"r"(barrier),
        "r"(phase & 1)
        : "memory");
  }
};

}  // namespace warpwatch
