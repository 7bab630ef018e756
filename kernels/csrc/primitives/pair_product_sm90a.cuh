// Dense GEMM of 16-bit operands by wgmma with a caller-defined epilogue: x (m, k) times the transpose of weight (n, k), fp32
// accumulation. Hopper only (sm_90a).
//
// A cluster of two CTAs computes 256 rows of x by 256 rows of weights, 128 rows of x each. Both need the same weights: each CTA
// copies half of them and multicasts it to both, so a CTA reads 32 KB from L2 for each 64 of k; 48 KB would exceed the L2's
// bandwidth. A CTA has two consumer warpgroups with 64 rows of x each and one TMA producer warp. The kernel is persistent: as
// many clusters as fit on the GPU share the tiles, and the next tile's operands load during a tile's epilogue. If the last wave
// would leave at least half of the clusters idle, its tiles are cut into halves of 128 rows of weights.
//
// Stage (64 of k, swizzled rows of 128 bytes): 128 rows of x, then 256 or 128 rows of weights, CTA 0's half first.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>

#include "primitives/attributes.h"
#include "primitives/block_product.cuh"
#include "primitives/cluster.cuh"
#include "primitives/launch_shape.h"
#include "primitives/mma.cuh"
#include "primitives/pair_product.h"
#include "primitives/tensor_map.h"
#include "primitives/tile_store.cuh"
#include "primitives/tma_ring.cuh"
#include "primitives/wgmma_heads.cuh"

namespace warpwatch {

// Epilogue provides Element; Params with x, x_stride, out, m, n and k; kSumsEach, the accumulators per result (with 2,
// CTA 0 copies the rows of one weight matrix and CTA 1 those of another, and the second half of a thread's
// accumulators belongs to the second matrix); prepare(params, sums, first output), called after the product; and
// result(sums, tile, i), the value to store.
template <typename Epilogue>
struct PairProduct {
  using Element = typename Epilogue::Element;
  using Params = typename Epilogue::Params;
  static constexpr int kRows = kPairRows / 2, kGroups = 2, kConsumers = 128 * kGroups;
  static constexpr int kRowsBytes = kRows * 128, kStageBytes = kRowsBytes + kPairWeights * 128;
  static constexpr int kStages = 4;
  static constexpr int kReleases = 2 * kConsumers / 32;  // a stage is free once no warp of either CTA reads it
  static constexpr int kBarriers = kStages * kStageBytes;
  static constexpr int kStaged = kBarriers + kStages * 16;
  static constexpr int kStagedBytes = 16 * kStagedRowBytes<Element, 64>;  // per warp
  using Shape = LaunchShape<kConsumers + 128, kStaged + kConsumers / 32 * kStagedBytes>;

  static __device__ __forceinline__ void run(const Params& p, const PairTiles& tiles, const CUtensorMap& x,
                                             const CUtensorMap& first_weights, const CUtensorMap& second_weights) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t stages = shared_address(shared);
    const unsigned rank = cluster_block_rank();
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(full(stages, i)) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(empty(stages, i)), "n"(kReleases) : "memory");
      }
      asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;\n" ::: "memory");
    }
    cluster_sync();
    if (threadIdx.x < kConsumers) {
      // 168 registers per thread at launch. The consumers get what the producer warps release; asking for more would hang.
      asm volatile("setmaxnreg.inc.sync.aligned.u32 240;\n");
      multiply(p, tiles, stages, rank, shared + kStaged);
    } else {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 24;\n");
      if (threadIdx.x == kConsumers) copy(p, tiles, stages, rank, x, rank == 0 ? first_weights : second_weights);
      __syncwarp();  // the cluster barrier counts whole warps
    }
    cluster_sync();  // a CTA must not exit while the other still multicasts to it or signals its barriers
  }

  static cudaError_t launch(void (*kernel)(Params, PairTiles, CUtensorMap, CUtensorMap, CUtensorMap), const Params& p,
                            const CUtensorMap& first_weights, const CUtensorMap& second_weights, cudaStream_t stream) {
    CUtensorMap x;
    int processors = 0;
    cudaError_t status = map_tiles(x, p.x, p.m, p.k * int64_t{2}, p.x_stride * 2, kRows);
    if (status == cudaSuccess) status = device_attribute(cudaDevAttrMultiProcessorCount, processors);
    if (status != cudaSuccess) return status;
    const int64_t weight_rows = int64_t{Epilogue::kSumsEach} * p.n;
    if (PairTiles::count(p.m, weight_rows) > INT_MAX / 2) return cudaErrorInvalidValue;
    const PairTiles tiles(p.m, weight_rows, processors);
    const int clusters = std::min(tiles.all, tiles.clusters);
    return launch_cluster<2, Shape>(kernel, int64_t{2} * clusters, stream, p, tiles, x, first_weights, second_weights);
  }

 private:
  struct Work {
    int row;  // of x, for this CTA
    int first_output;
    bool is_whole;
  };

  static __device__ __forceinline__ Work work_of(const PairTiles& tiles, int item, unsigned rank) {
    const bool is_whole = item < tiles.whole;
    const int behind = item - tiles.whole;
    const TileCoord place =
        TileCoord::of(is_whole ? item : tiles.whole + behind / 2, tiles.along_rows, tiles.along_weights);
    const int weights = place.n * kPairWeights + (is_whole ? 0 : behind % 2 * (kPairWeights / 2));
    return {place.m * kPairRows + static_cast<int>(rank) * kRows, weights / Epilogue::kSumsEach, is_whole};
  }

  static __device__ __forceinline__ uint32_t full(uint32_t stages, int use) {
    return stages + kBarriers + use % kStages * 16;
  }
  static __device__ __forceinline__ uint32_t empty(uint32_t stages, int use) { return full(stages, use) + 8; }
  static __device__ __forceinline__ uint32_t stage(uint32_t stages, int use) {
    return stages + use % kStages * kStageBytes;
  }

  static __device__ __forceinline__ void wait(uint32_t barrier, int phase) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}\n" ::"r"(barrier),
        "r"(phase & 1)
        : "memory");
  }
  // Signals a free stage, one lane per CTA. The warp's wgmmas have finished reading, so the arrival needs no
  // .cluster scope. With it each arrival waits for a memory fence at GPU scope: a product of 2048 x 11008 x
  // 4096 then takes 1.6 times as long (H200).
  static __device__ __forceinline__ void release(uint32_t stages, int use) {
    if (threadIdx.x % 32 < 2) {
      asm volatile(
          "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
          "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(empty(stages, use)),
          "r"(threadIdx.x % 32)
          : "memory");
    }
  }

  static __device__ __forceinline__ void copy(const Params& p, const PairTiles& tiles, uint32_t stages, unsigned rank,
                                              const CUtensorMap& x, const CUtensorMap& weights) {
    prefetch_tensor_map(x);
    prefetch_tensor_map(weights);
    const int slabs = (p.k - 1) / 64 + 1, clusters = static_cast<int>(gridDim.x / 2);
    int use = 0;
    for (int item = static_cast<int>(blockIdx.x / 2); item < tiles.all; item += clusters) {
      const Work work = work_of(tiles, item, rank);
      const int boxes = work.is_whole ? 2 : 1;  // boxes of 64 rows of weights
      const int row = work.first_output + (Epilogue::kSumsEach == 1 ? static_cast<int>(rank) * boxes * 64 : 0);
      for (int slab = 0; slab < slabs; ++slab, ++use) {
        if (use >= kStages) wait(empty(stages, use), use / kStages + 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(full(stages, use)),
                     "r"(kRowsBytes + 2 * boxes * 64 * 128)
                     : "memory");
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\n" ::"r"(
                stage(stages, use)),
            "l"(&x), "r"(slab * 128), "r"(work.row), "r"(full(stages, use))
            : "memory");
        for (int box = 0; box < boxes; ++box) {
          asm volatile(
              "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
              "[%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(stage(stages, use) + kRowsBytes +
                                                        (static_cast<int>(rank) * boxes + box) * 64 * 128),
              "l"(&weights), "r"(slab * 128), "r"(row + 64 * box), "r"(full(stages, use)), "h"(uint16_t{3})
              : "memory");
        }
      }
    }
  }

  static __device__ __forceinline__ void multiply(const Params& p, const PairTiles& tiles, uint32_t stages, unsigned rank,
                                                  unsigned char* staged) {
    const int clusters = static_cast<int>(gridDim.x / 2);
    int use = 0;
    for (int item = static_cast<int>(blockIdx.x / 2); item < tiles.all; item += clusters) {
      const Work work = work_of(tiles, item, rank);
      if (work.is_whole) {
        tile<kPairWeights / 8>(p, work, stages, use, staged);
      } else {
        tile<kPairWeights / 16>(p, work, stages, use, staged);
      }
    }
  }

  template <int kTiles>
  static __device__ __forceinline__ void tile(const Params& p, const Work& work, uint32_t stages, int& use,
                                              unsigned char* staged) {
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    const int slabs = (p.k - 1) / 64 + 1;
    float sums[kTiles][4];
    for (int slab = 0; slab < slabs; ++slab, ++use) {
      wait(full(stages, use), use / kStages);
      warpgroup_fence_operand(sums);
      wgmma_fence();
      const uint64_t a = wgmma_rows(stage(stages, use) + group * 64 * 128);
      const uint64_t b = wgmma_rows(stage(stages, use) + kRowsBytes);
#pragma unroll
      for (int step = 0; step < 4; ++step) HeadWgmma<Element>::scores(sums, a + 2 * step, b + 2 * step, slab + step > 0);
      wgmma_commit();
      wgmma_wait<1>();
      if (slab > 0) release(stages, use - 1);
    }
    wgmma_wait<0>();
    warpgroup_fence_operand(sums);
    release(stages, use - 1);
    Epilogue::prepare(p, sums, work.first_output);
    store<kTiles / Epilogue::kSumsEach>(p, sums, work, staged);
  }

  // Each warp stores its own 16 rows, 64 columns at a time, without waiting for other warps.
  template <int kResultTiles, int kTiles>
  static __device__ __forceinline__ void store(const Params& p, const float (&sums)[kTiles][4], const Work& work,
                                               unsigned char* staged_of_warps) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned char* const staged = staged_of_warps + warp * kStagedBytes;
    // Destination rows of stmatrix, 16 bytes each: rows 0 to 7 and 8 to 15 of 8 columns, then of the next 8.
    const uint32_t to = shared_address(staged) + lane % 16 * kStagedRowBytes<Element, 64> + lane / 16 * 16;
#pragma unroll
    for (int pass = 0; pass < kResultTiles / 8; ++pass) {
      __syncwarp();  // the previous columns have been stored
#pragma unroll
      for (int t = 0; t < 8; t += 2) {
        uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int tile = 8 * pass + t + i / 2;
          pairs[i] = pack<Element>(Epilogue::result(sums, tile, i % 2 * 2), Epilogue::result(sums, tile, i % 2 * 2 + 1));
        }
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(to + 16 * t),
                     "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                     : "memory");
      }
      __syncwarp();
      store_staged_rows<Element, 64, 32>(staged, 16, static_cast<Element*>(p.out), p.m, p.n, work.row + 16 * warp,
                                         work.first_output + 64 * pass, lane);
    }
  }
};

}  // namespace warpwatch
